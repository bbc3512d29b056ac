"""Weights on disk: read and written with every byte accounted for, and loaded with every name accounted for.

What it is: one safetensors file, or several with an index, to a dictionary of tensors and from there into a module.
What is unusual: NaN weights are refused, which the library accepts; a tensor that two modules share is stored once;
a module is filled completely or not touched, and all that does not fit is told at once.
What it does not know: which module a file is for, and other families' tensor names (`keymap.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.hub.atomic import inside, reading, replace_file
from regard.hub.layout import COPY_AGAIN, check_layout, conversion_command, make_header, parse_json

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def read_weights(path: Path, *, allow_nonfinite: bool = False) -> dict[str, Tensor]:
    """Read one safetensors file into CPU tensors, name -> tensor.

    Raises:
        CheckpointError: the file is missing, unreadable, something else than safetensors, truncated or inconsistent,
            or holds NaN or infinite weights and `allow_nonfinite` is False.
    """
    with reading(path):
        check_layout(path)
        try:
            tensors: dict[str, Tensor] = load_file(path)
        except SafetensorError as error:
            raise CheckpointError("malformed safetensors", where=path, got=error, mend=COPY_AGAIN) from error
    if not allow_nonfinite:
        _refuse_nonfinite(tensors, path)
    return tensors


def write_weights(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors to one safetensors file, in one step (see `replace_file`), without a second copy in memory."""
    # Widest dtype first, as the library orders them, so that every tensor lies aligned.
    ordered = dict(sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    stamped = {"format": "pt"} | (metadata or {})  # transformers wants to know the framework

    # Not the library's save_file: it leaves files that only their owner can read, and hides which I/O error it met.
    def write(scratch: Path) -> None:
        with scratch.open("wb") as file:
            file.write(make_header(ordered, stamped))
            for tensor in ordered.values():
                file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)

    replace_file(path, write)


def read_model_weights(folder: Path, *, allow_nonfinite: bool = False) -> dict[str, Tensor]:
    """Read a model folder's weights: `model.safetensors`, or the shards that `model.safetensors.index.json` names.

    Raises:
        CheckpointError: as `read_weights`; a shard is missing or lies outside the folder; index and shards disagree;
            there are only pickled weights.
    """
    with reading(folder):
        if (folder / WEIGHTS).exists():
            return read_weights(inside(folder, WEIGHTS), allow_nonfinite=allow_nonfinite)
        if not (folder / INDEX).exists():
            raise _no_weights(folder)
        placed = _read_index(folder)
    tensors: dict[str, Tensor] = {}
    found: set[tuple[str, str]] = set()
    for shard in sorted(set(placed.values())):
        part = read_weights(folder / shard, allow_nonfinite=allow_nonfinite)
        found |= {(name, shard) for name in part}
        tensors |= part
    differing = sorted(found ^ set(placed.items()))
    if differing:
        rows = [(*pair, "the shard only" if pair in found else "the index only") for pair in differing]
        raise CheckpointError(
            "the index and the shards disagree",
            where=folder / INDEX,
            got=_table(("tensor", "shard", "is in"), rows),
            mend=COPY_AGAIN,
        )
    return tensors


def state_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return what is saved of a module: parameters and persistent buffers, a tied one once, under its first name."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        first.setdefault(id(tensor), (name, tensor.detach()))
    return dict(first.values())


def load_strict(module: nn.Module, tensors: dict[str, Tensor], where: Path) -> None:
    """Copy `tensors` into the module, in place: all of them, or none when a single one does not fit.

    Floating-point tensors are cast to the module's dtype and device; others must have the very dtype.

    Raises:
        CheckpointError: one table of every missing, unexpected, misshapen or wrongly typed tensor.
    """
    own = state_tensors(module)
    differences = [
        (name, _describe(own.get(name), "nothing"), _describe(tensors.get(name), "missing"))
        for name in sorted(own.keys() | tensors.keys())
        if name not in own or name not in tensors or not _fits(own[name], tensors[name])
    ]
    if differences:
        raise CheckpointError(
            f"{len(differences)} of the tensors do not fit the model",
            where=where,
            got=_table(("tensor", "the model has", "the file has"), differences),
            mend="load the weights with the config.json they were saved with",
        )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def _no_weights(folder: Path) -> CheckpointError:
    pickled = next((path for path in sorted(folder.iterdir()) if path.suffix in (".bin", ".pt", ".pth", ".ckpt")), None)
    return CheckpointError(
        "no weights here that can be read",
        where=folder,
        expected=f"{WEIGHTS} or {INDEX}",
        got=f"{pickled.name}, a pickle, which can run any code when it is opened" if pickled else "neither",
        mend=conversion_command(pickled, folder / WEIGHTS) if pickled else "check the path",
    )


def _read_index(folder: Path) -> dict[str, str]:
    """Return tensor name -> shard name, each shard known to lie in the folder."""
    path = inside(folder, INDEX)
    placed = parse_json(path.read_bytes(), path).get("weight_map")
    if not isinstance(placed, dict) or not all(isinstance(shard, str) for shard in placed.values()):
        expected = '"weight_map": {tensor: file}'
        raise CheckpointError("not an index of shards", where=path, expected=expected, mend=COPY_AGAIN)
    for shard in sorted(set(placed.values())):
        if not inside(folder, shard).is_file():
            expected = f"the file that {INDEX} names"
            raise CheckpointError("a shard is missing", where=folder / shard, expected=expected, mend=COPY_AGAIN)
    return placed


def _refuse_nonfinite(tensors: dict[str, Tensor], path: Path) -> None:
    counts = {name: _count_nonfinite(tensor) for name, tensor in sorted(tensors.items())}
    bad = [(name, f"{count:,}", f"{tensors[name].numel():,}") for name, count in counts.items() if count]
    if bad:
        raise CheckpointError(
            f"NaN or infinite weights in {len(bad)} of {len(tensors)} tensors",
            where=path,
            got=_table(("tensor", "non-finite", "of"), bad),
            mend="use an earlier checkpoint; to look at these all the same: regard doctor --allow-nonfinite",
        )


def _count_nonfinite(tensor: Tensor) -> int:
    values = tensor.float() if tensor.dtype.itemsize == 1 else tensor  # there is no isfinite for 8-bit floats
    return int((~torch.isfinite(values)).sum())


def _fits(own: Tensor, given: Tensor) -> bool:
    both_float = own.is_floating_point() and given.is_floating_point()
    return own.shape == given.shape and (both_float or own.dtype == given.dtype)


def _describe(tensor: Tensor | None, absent: str) -> str:
    return absent if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows))
    return "".join(f"\n    {line.rstrip()}" for line in lines)
