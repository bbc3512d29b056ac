"""One run of a model with everything seen: its tokens, what it wrote and thought, and every tensor by its name.

    view = run(loaded, Request(texts=("A man rides a bicycle.",)))
    view.text                                                  # 'Ein Mann fährt Fahrrad.'
    view.tensor("decoder.layers.0.cross_attn.weights")         # (H, T, S), a place of `model.watch`
    view.tensor("decoder.cross.weights")                       # (L, H, T, S), of all layers
    view.tensor("decoder.cross.norms")                         # alpha_ij |v_j W_O^(h)|

What is unusual: whatever was written, one way or another, then goes through the model once more, whole and under
teacher forcing, and this is the pass that is seen; so weights of a text that was typed and of one that the model wrote
mean the same. Nothing is computed again to be shown, but for the names that this module makes up:

    PART.weights, PART.norms   of all layers, (L, H, T, S); the norms are those of Kobayashi et al. 2020
    PART.mask                  (T, S), 1 where a query may look
    NAME.W_O, NAME.b_O         (H, d, D) and (D) of an attention, e.g. of decoder.layers.0.cross_attn
    NAME.gain, NAME.shift      (D) of a norm, e.g. of decoder.norm

What it does not know: how it is drawn or sent.

Shapes: T queries, S keys, D d_model, L layers, H heads, K key/value heads, d head width, V vocabulary.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.inspect.edits import edited
from regard.inspect.parts import Part, part_of, parts_of
from regard.inspect.passes import logits_of
from regard.inspect.scripts import Request, Script
from regard.inspect.sides import Side, Token, Written, shown
from regard.inspect.writing import BEAM_IS_GREEDY, completed
from regard.loaded import Loaded
from regard.model import HIDDEN_BELOW, Attention, Model, Seen, watch
from regard.text import Tokenizer

__all__ = ["Output", "Request", "View", "run"]

LIKELIEST = 5


@dataclass(frozen=True)
class Output:
    """What a model that reads says of its texts.

    Attributes:
        label: a class; the name of a span; the answer to a question, "" where the text has none.
        p: its probability; None of a number.
        value: of a model that says a number.
        start, stop: characters [start, stop) of a span in the text, or of an answer in its context.
    """

    label: str
    p: float | None
    value: float | None = None
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True)
class View:
    """One run.

    Attributes:
        script: the ids that were read.
        text: what was written, or given to be written; None for a model that writes nothing.
        outputs: classes with their probabilities, spans, answers; the likeliest first.
        tensors: every watch name of the pass, without the batch's axis, float32.
        seconds: for all of it.
        notes: what the user should know of how it was written, in sentences.
    """

    request: Request
    source: Side | None
    target: Side | None
    parts: tuple[Part, ...]
    outputs: tuple[Output, ...]
    text: str | None
    seconds: float
    notes: tuple[str, ...]
    tensors: Mapping[str, np.ndarray] = field(repr=False)
    script: Script = field(repr=False)
    loaded: Loaded = field(repr=False)

    @property
    def names(self) -> list[str]:
        """All that `tensor` knows."""
        return [*self.tensors, *_made_up(self.loaded.model)]

    def tensor(self, name: str) -> np.ndarray:
        """A tensor by its name; see the module. Raises ConfigError, with names that are like it, for an unknown one."""
        if name in self.tensors:
            return self.tensors[name]
        if name not in _made_up(self.loaded.model):
            near = difflib.get_close_matches(name, self.names, n=3)
            raise ConfigError("the model offers no such tensor", where="name", got=name,
                              mend=f"did you mean {' or '.join(near)}?" if near else None)  # fmt: skip
        path, _, leaf = name.rpartition(".")
        if leaf in ("weights", "norms", "mask"):
            return self._of_part(part_of(self.loaded.model.config, path), leaf)
        return _of_module(self.loaded.model.transformer.get_submodule(path), leaf)

    def _of_part(self, part: Part, leaf: str) -> np.ndarray:
        sites = [part.at(layer) for layer in range(part.layers)]
        if leaf == "mask":
            scores = np.stack([self.tensors[f"{site}.scores"] for site in sites])  # (L, H, T, S)
            return np.asarray((scores > HIDDEN_BELOW).any((0, 1)), dtype=np.uint8)
        weights = np.stack([self.tensors[f"{site}.weights"] for site in sites])  # (L, H, T, S)
        if leaf == "weights":
            return weights
        return weights * np.stack([self._sizes(site, part.heads) for site in sites])[:, :, None]

    def _sizes(self, site: str, heads: int) -> np.ndarray:
        """|v_j W_O^(h)| of an attention, (H, S)."""
        v = self.tensors[f"{site}.v"]  # (K, S, d)
        v = np.repeat(v, heads // len(v), axis=0)
        return np.linalg.norm(v @ self.tensor(f"{site}.W_O"), axis=-1)


@torch.no_grad()
def run(loaded: Loaded, request: Request) -> View:
    """Have a model read, and write where it was not told what, and see it all in one pass.

    Raises:
        ConfigError: the request is not for such a model, a text is too long or has no token, an edit is of a part that
            the model lacks.
        NonFiniteError: the model says NaN.
    """
    began = time.monotonic()
    script, ended = completed(loaded, request)
    with edited(loaded.model, request.edits):
        with watch(loaded.model, "*") as seen:
            logits = logits_of(loaded.model, script)
        outputs = tuple(_outputs(loaded, request))
    script = _ended(loaded, script, logits) if ended and logits is not None else script
    source, target = script.source, script.target
    if logits is not None and target is not None:
        target = replace(target, writes=_written(loaded.target_tokenizer, script, logits))
    elif logits is not None and source is not None:
        source = replace(source, writes=_opinions(loaded.tokenizer, source.tokens, logits))
    notes = (BEAM_IS_GREEDY,) if request.edits and request.mode == "beam" and request.target is None else ()
    return View(
        request, source, target, parts_of(loaded.model.config), outputs, None if target is None else target.texts[-1],
        time.monotonic() - began, notes, dict(_arrays(seen)), script, loaded,
    )  # fmt: skip


def _ended(loaded: Loaded, script: Script, logits: Tensor) -> Script:
    """The script with the end that the model wrote: of several the likeliest."""
    ends = list(loaded.conventions.ends)
    return replace(script, says=(*script.says[:-1], ends[int(logits[-1, ends].argmax())]))


def _written(tokenizer: Tokenizer, script: Script, logits: Tensor) -> tuple[Written | None, ...]:
    """What each row of the target is followed by, with the model's opinion of it, from (T, V)."""
    assert script.target is not None
    row: list[Token | None] = [*script.target.tokens[1:], None]
    if script.says[-1] is not None:
        row[-1] = Token(shown(tokenizer, [script.says[-1]])[0], script.says[-1], "special")
    return _opinions(tokenizer, row, logits)


def _opinions(tokenizer: Tokenizer, row: Sequence[Token | None], logits: Tensor) -> tuple[Written | None, ...]:
    """What the model thinks of some tokens, from (T, V)."""
    p = logits.double().softmax(-1).cpu()  # (T, V)
    best = p.topk(min(LIKELIEST, p.size(-1)))
    found = list[Written | None]()
    for token, own, values, ids in zip(row, p, best.values.tolist(), best.indices.tolist(), strict=True):
        if token is None:
            found.append(None)
            continue
        top = tuple(zip(shown(tokenizer, ids), ids, values, strict=True))
        rank = 1 + int((own > own[token.id]).sum())
        found.append(Written(token.text, token.id, token.kind, token.word, float(own[token.id]), rank, top))
    return tuple(found)


def _outputs(loaded: Loaded, request: Request) -> Iterator[Output]:
    """What a model that reads says, by its own verb."""
    if loaded.task == "classification":
        texts = [request.texts[0] if len(request.texts) == 1 else request.texts]
        (label,) = loaded.classifier.classify(texts, top_k=len(loaded.about["labels"]))
        if label.probability is None:
            assert isinstance(label.label, float)
            yield Output(loaded.classifier.labels.names[0], None, value=label.label)
        yield from (Output(name, p) for name, p in label.likeliest)
    elif loaded.task == "tagging":
        (spans,) = loaded.tag([request.texts[0]])
        yield from (Output(span.label, span.probability, start=span.start, stop=span.stop) for span in spans)
    elif loaded.task == "question-answering":
        best = loaded.answer(*request.texts, top_k=LIKELIEST)
        for answer in (best, *best.alternatives):
            yield Output(answer.text, answer.score, start=answer.start, stop=answer.end)


def _arrays(seen: Seen) -> Iterator[tuple[str, np.ndarray]]:
    for name, x in seen.items():
        yield name, _array(x[0])


def _made_up(model: Model) -> list[str]:
    """The names that this module adds to the model's own."""
    names = [f"{part.name}.{leaf}" for part in parts_of(model.config) for leaf in ("weights", "norms", "mask")]
    for path, module in model.transformer.named_modules():
        if isinstance(module, Attention):
            names += [f"{path}.W_O", f"{path}.b_O"]
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
            names += [f"{path}.gain", *([f"{path}.shift"] if isinstance(module, nn.LayerNorm) else [])]
    return names


def _of_module(module: nn.Module, leaf: str) -> np.ndarray:
    """W_O (H, d, D) and b_O (D) of an attention, gain and shift (D) of a norm."""
    if isinstance(module, Attention):
        W = _array(module.o.weight).T
        if leaf == "W_O":
            return W.reshape(module.n_heads, -1, W.shape[1])
        return np.zeros(W.shape[1], dtype=np.float32) if module.o.bias is None else _array(module.o.bias)
    return _array(getattr(module, {"gain": "weight", "shift": "bias"}[leaf]))


def _array(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()
