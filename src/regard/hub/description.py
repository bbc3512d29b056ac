"""What is known of a model before a single weight is read; and then the reading of its weights.

What it is: a folder's configuration and the headers of its weights, ours or another family's, in one value, and the way
from there to a model.
What is unusual: the model is built without memory of its own (on torch's meta device), compared with the headers, and
takes over the tensors as they are read, each cut and cast by itself. So a checkpoint is never in memory twice.
What it does not know: how a folder is recognised (`folder.py`, `foreign.py`), and its vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.errors import CheckpointError, ConfigError
from regard.hub.keymap import PLAIN, Family, Layout, Place, place, to_theirs
from regard.hub.layout import Stored
from regard.hub.weights import check_fit, state_tensors, stream_weights
from regard.model import Model, TransformerConfig, make_model


@dataclass(frozen=True, kw_only=True)
class Description:
    """A model on the disk."""

    path: Path
    """Its folder."""
    config: TransformerConfig
    head: str
    """A name in `model.HEADS`."""
    about: dict[str, Any]
    """The task's facts, as config.json has them, or as they follow from another family's."""
    weights: Mapping[str, Stored]
    """Name -> where it lies; what the model does not need is left out."""
    family: Family | None = None
    """Whose names the weights have; None: ours."""
    notes: tuple[str, ...] = ()
    """Sentences on what was left out."""

    @property
    def n_labels(self) -> int:
        """How many labels a head over classes tells apart; 1 for any other head."""
        return len(self.about.get("labels") or ()) or 1

    @property
    def n_parameters(self) -> int:
        """How many numbers the model holds, by the headers; scales of rounded matrices are none of them."""
        scales = {f"{name.removesuffix('weight')}scale" for name, of in self.weights.items() if of.dtype == torch.int8}
        return sum(stored.numel() for name, stored in self.weights.items() if name not in scales)

    @property
    def nbytes(self) -> int:
        """What they take in memory, in float32."""
        return 4 * self.n_parameters


def read_model(described: Description, *, allow_nonfinite: bool = False) -> Model:
    """The model with its weights, in CPU memory, float32 and evaluation mode.

    Raises:
        CheckpointError: a table of all tensors that do not fit the configuration, in the names of their family; NaN
            or infinite weights and `allow_nonfinite` is False; a file cannot be read; they are rounded.
    """
    refuse_quantized(described)
    config = described.config
    if (layers := config.n_encoder_layers + config.n_decoder_layers) > len(described.weights):
        # Ten million layers would take hours to build, even of nothing.
        raise CheckpointError("the configuration and the weights disagree", where=described.path,
                              expected=f"tensors for {layers:,} layers",
                              got=f"{len(described.weights):,} tensors")  # fmt: skip
    with torch.device("meta"), WithoutFirstValues():
        model = make_model(config, described.head, described.n_labels)
    own = state_tensors(model)
    places = _places(described, own)
    needed = _in_their_names(described, own, places)
    check_fit(needed, described.weights, described.path, _on_the_output(described, needed))
    copied = {
        name for name, found in places.items()
        if found.layout is not PLAIN or len(found.ours) > 1 or described.weights[name].dtype != own[found.ours[0]].dtype
    }  # fmt: skip
    filled: dict[str, Tensor] = {}
    for name, tensor in stream_weights(described.weights, described.path, allow_nonfinite=allow_nonfinite, lent=copied):
        found = places[name]
        parts = found.layout.split(tensor, len(found.ours), config)
        for ours, part in zip(found.ours, parts, strict=True):
            filled[ours] = torch.empty(part.shape, dtype=own[ours].dtype).copy_(part) if name in copied else part
        del tensor, parts, part  # before the next one is read
    model.load_state_dict(filled, assign=True)
    return model.eval()


def refuse_quantized(described: Description) -> None:
    """Raise CheckpointError for a folder of `regard quantize`, for whoever needs weights as they were learned."""
    if "quantized" in described.about:
        raise CheckpointError("a quantised model, in which the weights are no longer what they were",
                              where=described.path, expected="the plain weights",
                              mend="take the model that it was made of; this one is for use alone: to translate, "
                                   "generate, classify, tag, answer, embed, evaluate")  # fmt: skip


def of_file(error: ConfigError, path: Path) -> CheckpointError:
    """A mistake in a configuration, told as one in the file it was read from."""
    field = str(error.where or "").removeprefix(str(path)).removeprefix("config.json").lstrip(": ")
    where = f"{path}: {field}" if field else path
    return CheckpointError(error.what, where=where, expected=error.expected, got=error.got, mend=error.mend)


def _on_the_output(described: Description, needed: Mapping[str, Tensor]) -> str | None:
    """What to do where nothing is missing but the output projection, which the configuration says is not tied."""
    rows = described.family.rows(described.config, described.head) if described.family else ()
    missing, unexpected = needed.keys() - described.weights.keys(), described.weights.keys() - needed.keys()
    found = place(rows, next(iter(missing))) if len(missing) == 1 and not unexpected else None
    if found is None or found.ours != ("head.weight",):
        return None
    return (
        f'"tie_word_embeddings" is false in config.json (or missing, and its family has false), and there is no '
        f"{missing.pop()}: take the file that holds it, or write true if the output is the embeddings themselves"
    )


def _is_cut_into(layout: Layout, theirs: Tensor, ours: Sequence[Tensor], config: TransformerConfig) -> bool:
    """Whether theirs is cut into ours. (Joining ours would tell too, but is what torch imports its compiler for.)"""
    try:
        parts = layout.split(theirs, len(ours), config)
    except RuntimeError:
        return False
    return [part.shape for part in parts] == [tensor.shape for tensor in ours]


class WithoutFirstValues(TorchFunctionMode):
    """Within it a new parameter is not given its first value, which nobody would see.

    On the meta device torch draws random numbers in Python, for which it first imports its compiler: 1 s and 70 MB.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "kaiming_uniform_", "zero_", "fill_"):
            return [*args, *(kwargs or {}).values()][0]
        return func(*args, **(kwargs or {}))


def _places(described: Description, own: Mapping[str, Tensor]) -> dict[str, Place]:
    """Where each tensor goes that goes anywhere; two for one place are refused."""
    if described.family is None:
        return {name: Place((name,), PLAIN) for name in described.weights}
    rows = described.family.rows(described.config, described.head)
    places = {name: found for name in described.weights if (found := place(rows, name)) and {*found.ours} <= own.keys()}
    owner: dict[str, str] = {}
    for name, found in places.items():
        for ours in found.ours:
            if (first := owner.setdefault(ours, name)) != name:
                raise CheckpointError("two tensors are the same weight", where=described.path, got=f"{first}, {name}")
    return places


def _in_their_names(
    described: Description, own: Mapping[str, Tensor], places: Mapping[str, Place]
) -> Mapping[str, Tensor]:
    """What the model needs, under the names and in the shapes that a file of its family has: (name, no memory)."""
    if described.family is None:
        return own
    rows, config = described.family.rows(described.config, described.head), described.config
    needed = {}
    for name, found in places.items():
        ours, shape = [own[n] for n in found.ours], described.weights[name].shape
        theirs = torch.empty(shape, dtype=ours[0].dtype, device="meta")
        fits = _is_cut_into(found.layout, theirs, ours, config)
        needed[name] = theirs if fits else found.layout.join(ours, config)
    there = {ours for found in places.values() for ours in found.ours}
    absent, unknown = to_theirs(rows, {n: t for n, t in own.items() if n not in there}, config)
    if unknown:  # axes that were changed by hand
        raise CheckpointError("the configuration asks for weights that models of this family do not have",
                              where=described.path, expected=described.family.name, got=", ".join(unknown))  # fmt: skip
    return needed | absent
