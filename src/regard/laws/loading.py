"""Laws 35 and 36: a file gives back the model that was put into it, or says which tensor is wrong.

What is unusual: of a folder only the weights and the configuration take part, so any Model will do; what is damaged in
law 36 are the tensors, or their headers, in memory, and no file is written but one row of a tensor.
What it does not know: tokenizers, manifests, and the rest of a folder.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from regard.config import build, to_tree
from regard.errors import CheckpointError
from regard.hub import description, weights
from regard.hub.layout import Stored
from regard.laws.law import law
from regard.laws.trial import Broken, Trial, Undecided
from regard.model import LABELLED, LMHead, Model, TransformerConfig, head_name

RATE = 0.1
"""Of the one step of SGD."""


@law(35, "a model that was saved and loaded says the same to the last bit, and what was tied is tied", exact=True)
def saved_and_loaded(trial: Trial) -> Iterator[float]:
    """And is tied after one more step (transformers #43159, #34759)."""
    single = trial.model.transformer.tokens.weight.dtype == torch.float32
    model = trial.model if single else copy.deepcopy(trial.model).float()
    with TemporaryDirectory() as folder:
        path = Path(folder) / weights.WEIGHTS
        weights.write_weights(path, weights.state_tensors(model))
        stored = weights.find_weights(path.parent)
        loaded = description.read_model(described(model, stored, path.parent)).to(model.device)
    before, after = (weights.state_tensors(one) for one in (model, loaded))
    if before.keys() != after.keys() or tied(model) != tied(loaded):
        raise Broken("other tensors share memory after loading than before")
    yield sum(trial.differing(after[name], tensor) for name, tensor in before.items())
    ids, source = trial.ids(2, 7), trial.source(2)
    yield trial.differing(_said(loaded, trial, ids, source), _said(model, trial, ids, source))
    if not isinstance(loaded.head, LMHead) or not loaded.config.tie_embeddings:
        return
    embedding = loaded.transformer.output_embedding
    projection = loaded.head.projection(embedding)
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(_said(loaded, trial, ids, source).square().mean(), embedding)
    if not gradient.norm() > 0:
        raise Undecided("there is no gradient to go along")
    embedding.sub_(RATE * gradient / gradient.norm())
    yield trial.differing(projection, embedding)


def _said(model: Model, trial: Trial, ids: Tensor, source: Tensor | None) -> Tensor:
    own = Trial(model, trial.random.initial_seed())
    return own.decoded(ids, own.start(source)) if own.decodes else own.encoded(ids)


def _name_of(model: Model) -> str:
    """What a checkpoint calls the embeddings of what the model says."""
    said = model.transformer.output_embedding
    return next(name for name, tensor in model.state_dict(keep_vars=True).items() if tensor is said)


def tied(model: Model) -> list[list[str]]:
    """The names that share memory, the output projection's among them."""
    places: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        places.setdefault(tensor.data_ptr(), []).append(name)
    if isinstance(model.head, LMHead):
        projection = model.head.projection(model.transformer.output_embedding)
        places.setdefault(projection.data_ptr(), []).append("the output projection")
    return sorted(names for names in places.values() if len(names) > 1)


def described(model: Model, stored: Mapping[str, Stored], folder: Path) -> description.Description:
    """A model on the disk: this one's configuration, written and read again, and these headers."""
    head = head_name(model)
    labels = [str(i) for i in range(_labels(model))] if head in LABELLED else []
    config = build(TransformerConfig, to_tree(model.config), where="config.json")
    return description.Description(path=folder, config=config, head=head, about={"labels": labels}, weights=stored)


def _labels(model: Model) -> int:
    head: Any = model.head
    return int(head.out.out_features)


@law(36, "a tensor that is missing, misnamed, misshapen or no number stops the loading and is named", exact=True)
def damaged(trial: Trial) -> Iterator[float]:
    """The first, the last, and what the model says with: never a clean load of other weights (transformers #46620)."""
    own = weights.state_tensors(trial.model)
    for name in dict.fromkeys([next(iter(own)), list(own)[-1], _name_of(trial.model)]):
        whole = own[name]
        others = {other: tensor for other, tensor in own.items() if other != name}
        edits = {"is missing": {}, "is misnamed": {f"{name}_": whole}, "is misshapen": {name: whole[:-1]}}
        for damage, edit in edits.items():
            _refused(name, damage, partial(_in_place, trial.model, others | edit))
            _refused(name, damage, partial(_from_headers, trial.model, others | edit))
        _refused(name, "is not a number", partial(_from_a_file, name, whole[:1]))
        yield 0.0


def _refused(name: str, damage: str, load: Callable[[], object]) -> None:
    """Raise Broken unless this load is refused by name."""
    try:
        load()
    except CheckpointError as error:
        if name in str(error):
            return
        raise Broken(f"where {name} {damage} another thing is told: {error.what}") from None
    except Exception as error:
        raise Broken(f"where {name} {damage} the loading stops with {type(error).__name__}") from None
    raise Broken(f"where {name} {damage} the model is loaded")


def _in_place(model: Model, tensors: dict[str, Tensor]) -> None:
    """As a run goes on from a checkpoint."""
    weights.load_strict(model, tensors, Path("model"))


def _from_headers(model: Model, tensors: dict[str, Tensor]) -> None:
    """As a model folder is opened: all that does not fit is found before a value is read."""
    where = Path("model") / weights.WEIGHTS
    headers = {name: Stored(where, tensor.dtype, tuple(tensor.shape), 0) for name, tensor in tensors.items()}
    description.read_model(described(model, headers, where.parent))


def _from_a_file(name: str, row: Tensor) -> None:
    """A row of the tensor with one value that is not a number, written and read."""
    bad = row.detach().clone()
    bad.view(-1)[0] = torch.nan
    with TemporaryDirectory() as folder:
        path = Path(folder) / weights.WEIGHTS
        weights.write_weights(path, {name: bad})
        weights.read_weights(path)
