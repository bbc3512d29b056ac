"""Laws 9 and 11: dropout acts in training alone; a post-norm block is wired as the chapter writes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from regard.laws.law import law
from regard.laws.trial import Broken, NotApplicable, Trial, replaced
from regard.model import Attention, watch
from regard.model import equations as eq
from regard.model.layers import Dropout


@law(9, "dropout acts in training and nowhere else", exact=True)
def dropout_sleeps(trial: Trial) -> Iterator[float]:
    """Two evaluations are bit-equal whatever the share; training with none is evaluation (pytorch #124464)."""
    ids, source = trial.ids(2, 7), trial.source(2)

    def run() -> Tensor:
        return trial.decoded(ids, trial.start(source)) if trial.decodes else trial.encoded(ids)

    with dropout(trial.model, 0.5):
        evaluated = run()
        yield trial.differing(run(), evaluated)
        trial.model.train()
        if torch.equal(run(), run()):
            raise Broken("dropout changes nothing in training")
    with dropout(trial.model, 0.0):
        yield trial.differing(run(), evaluated)


@contextmanager
def dropout(model: nn.Module, share: float) -> Iterator[None]:
    """Every dropout of the model at this share, for a while."""
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, Dropout):
                stack.enter_context(replaced(module, "p", share))
            elif isinstance(module, Attention):
                stack.enter_context(replaced(module, "dropout", share))
        yield


@law(11, "a post-norm block is LayerNorm(x + f(x)), and only pre-norm stacks end in a norm")
def post_norm_block(trial: Trial) -> Iterator[float]:
    """The chapter's Y and Z (2.7), recomputed in NumPy from what each sublayer gave (annotated-transformer #1)."""
    if trial.config.norm_order != "post":
        raise NotApplicable("the norms stand before the sublayers")
    ids, source = trial.ids(1, 6), trial.source(1)
    with watch(trial.model, "*.layers.*", "*coder.norm") as seen:
        if trial.decodes:
            trial.decoded(ids, trial.start(source))
        else:
            trial.encoded(ids)
    for stack in ("encoder", "decoder"):
        module = getattr(trial.transformer, stack)
        if module is None:
            continue
        for i, block in enumerate(module.layers):
            at = f"{stack}.layers.{i}"
            x = _numpy(seen[f"{at}.resid_in"])
            for sublayer in ("self_attn", "cross_attn", "ffn"):
                if (norm := getattr(block, f"{sublayer}_norm")) is not None:
                    x = eq.post_norm(x, lambda _, f=f"{at}.{sublayer}.out": _numpy(seen[f]), _formula(norm))
            yield trial.gap(seen[f"{at}.resid_out"][0], torch.as_tensor(x, device=ids.device))
        if not torch.equal(seen[f"{stack}.norm"], seen[f"{at}.resid_out"]):
            raise Broken(f"the post-norm {stack} ends in one more norm")


def _numpy(x: Tensor) -> eq.Array:
    return x[0].detach().double().cpu().numpy()


def _formula(norm: nn.Module) -> eq.Map:
    """The formula of a norm module, with its weights."""
    if isinstance(norm, nn.LayerNorm):
        return partial(eq.layer_norm, gain=_numpy(norm.weight[None]), shift=_numpy(norm.bias[None]), eps=norm.eps)
    assert isinstance(norm, nn.RMSNorm) and norm.eps is not None
    return partial(eq.rms_norm, gain=_numpy(norm.weight[None]), eps=norm.eps)
