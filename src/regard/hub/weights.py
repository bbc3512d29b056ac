"""Weights on disk: read and written with every byte accounted for, and loaded with every name accounted for.

What it is: one safetensors file, or several with an index, to tensors one at a time, and from there into a module.
What is unusual: all that does not fit is found in the headers, before a value is read, and told at once; NaN weights
are refused, which the library accepts; a tensor that two modules share is stored once; a module is filled completely
or not touched.
What it does not know: which module a file is for, and other families' tensor names (`keymap.py`).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.hub.atomic import inside, reading, replace_file
from regard.hub.instead import what_is_there_instead
from regard.hub.layout import COPY_AGAIN, Stored, make_header, parse_json, read_layout

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_SLIPS = 12
_PART = 2**20
_RETURNED = 2**25
"""Bytes: a freed block that is larger goes back to the system at once (glibc's DEFAULT_MMAP_THRESHOLD_MAX)."""


def read_weights(path: Path, *, allow_nonfinite: bool = False) -> dict[str, Tensor]:
    """Read one safetensors file into CPU tensors, name -> tensor.

    Raises:
        CheckpointError: the file is missing, unreadable, something else than safetensors, truncated or inconsistent,
            or holds NaN or infinite weights and `allow_nonfinite` is False.
    """
    with reading(path):
        stored = read_layout(path)
    return dict(stream_weights(stored, path, allow_nonfinite=allow_nonfinite))


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
                file.write(_bytes(tensor.detach().cpu().contiguous()))

    replace_file(path, write)


def find_weights(folder: Path) -> dict[str, Stored]:
    """Where a model folder's tensors lie: in `model.safetensors`, or the shards of `model.safetensors.index.json`.

    Raises:
        CheckpointError: as `read_weights`, but for values, of which none is read; a shard is missing or lies outside
            the folder; index and shards disagree; the weights are in files that are never opened.
    """
    with reading(folder):
        if (folder / WEIGHTS).exists():
            return read_layout(inside(folder, WEIGHTS))
        if not (folder / INDEX).exists():
            got, mend = what_is_there_instead(folder, folder / WEIGHTS)
            expected = f"{WEIGHTS} or {INDEX}"
            raise CheckpointError("no weights here that can be read", where=folder, expected=expected, got=got,
                                  mend=mend)  # fmt: skip
        placed = _read_index(folder)
        shards = {shard: read_layout(folder / shard) for shard in sorted(set(placed.values()))}
    found = {(name, shard) for shard, stored in shards.items() for name in stored}
    differing = sorted(found ^ set(placed.items()))
    if differing:
        rows = [(*pair, "the shard only" if pair in found else "the index only") for pair in differing]
        raise CheckpointError(
            "the index and the shards disagree",
            where=folder / INDEX,
            got=_table(("tensor", "shard", "is in"), rows),
            mend=COPY_AGAIN,
        )
    return {name: shards[shard][name] for name, shard in placed.items()}


def read_model_weights(folder: Path, *, allow_nonfinite: bool = False) -> dict[str, Tensor]:
    """All tensors of a model folder at once, name -> CPU tensor. Raises CheckpointError as the functions around it."""
    return dict(stream_weights(find_weights(folder), folder, allow_nonfinite=allow_nonfinite))


def stream_weights(
    stored: Mapping[str, Stored], where: Path, *, allow_nonfinite: bool = False, lent: Collection[str] = ()
) -> Iterator[tuple[str, Tensor]]:
    """Read each tensor into memory of its own, the largest first: (name, CPU tensor).

    Bytes are read, not mapped, so that nothing of the file stays in memory beside the tensors.

    Args:
        lent: names of tensors that the caller copies at once. They share one buffer, each gone when the next is read:
            freed blocks between the tensors that stay would cost a quarter more memory. (What is larger than _RETURNED
            needs none of that, and comes when little else is there yet.)

    Raises:
        CheckpointError: after the last tensor, where any holds NaN or infinity and `allow_nonfinite` is False: a
            table of all that do. Before it, where a file cannot be read.
    """
    bad = []
    lent = {name for name in lent if stored[name].nbytes <= _RETURNED}
    buffer = torch.empty(max((stored[name].nbytes for name in lent), default=0), dtype=torch.uint8)
    with reading(where), ExitStack() as stack:
        files = {path: stack.enter_context(path.open("rb")) for path in {each.path for each in stored.values()}}
        for name, each in sorted(stored.items(), key=lambda item: (-item[1].nbytes, item[1].path, item[1].begin)):
            files[each.path].seek(each.begin)
            tensor = _room(each, buffer if name in lent else None)
            if files[each.path].readinto(_bytes(tensor)) != tensor.nbytes:
                raise CheckpointError("the file became shorter while it was read", where=each.path, mend=COPY_AGAIN)
            if not allow_nonfinite and (count := _count_nonfinite(tensor)):
                bad.append((name, f"{count:,}", f"{tensor.numel():,}"))
            yield name, tensor
            del tensor  # before the next one is made
    if bad:
        raise CheckpointError(
            f"NaN or infinite weights in {len(bad)} of {len(stored)} tensors",
            where=where,
            got=_table(("tensor", "non-finite", "of"), sorted(bad)),
            mend="use an earlier checkpoint; to look at these all the same: --allow-nonfinite (import, doctor)",
        )


def equal_bytes(one: Stored, other: Stored) -> bool:
    """Whether two stored tensors are the same to the last bit, without either in memory."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    with reading(one.path), one.path.open("rb") as a, reading(other.path), other.path.open("rb") as b:
        a.seek(one.begin)
        b.seek(other.begin)
        parts = [min(_PART, one.nbytes - begin) for begin in range(0, one.nbytes, _PART)]
        return all(a.read(part) == b.read(part) for part in parts)


def state_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return what is saved of a module: parameters and persistent buffers, a tied one once, under its first name."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        first.setdefault(id(tensor), (name, tensor.detach()))
    return dict(first.values())


def load_strict(module: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Copy `tensors` into the module, in place: all of them, or none when a single one does not fit.

    Floating-point tensors are cast to the module's dtype and device; others must have the very dtype.

    Raises:
        CheckpointError: as `check_fit`.
    """
    own = state_tensors(module)
    check_fit(own, tensors, where)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def check_fit(
    own: Mapping[str, Tensor], given: Mapping[str, Tensor | Stored], where: Path, mend: str | None = None
) -> None:
    """Compare what a model has with what a file has, by names, shapes and kinds of numbers.

    Args:
        mend: what to do if they differ, where the caller knows.

    Raises:
        CheckpointError: one table of every missing, unexpected, misshapen or wrongly typed tensor.
    """
    differences = [
        (name, _describe(own.get(name), "nothing"), _describe(given.get(name), "missing"))
        for name in sorted(own.keys() | given.keys())
        if name not in own or name not in given or not _fits(own[name], given[name])
    ]
    if differences:
        one = len(differences) == 1
        raise CheckpointError(
            f"{len(differences)} of the tensors {'does' if one else 'do'} not fit the model",
            where=where,
            got=_table(("tensor", "the model has", "the file has"), differences),
            mend=mend or _how_to_fit(own, given),
        )


def _how_to_fit(own: Mapping[str, Tensor], given: Mapping[str, Tensor | Stored]) -> str:
    """Names that look like slips, where a few names are all that differs; else the configuration."""
    missing, unexpected = own.keys() - given.keys(), given.keys() - own.keys()
    slips: dict[str, str] = {}
    for name in sorted(unexpected) if len(missing) == len(unexpected) <= _SLIPS else ():
        if near := difflib.get_close_matches(name, missing - {*slips.values()}, n=1, cutoff=0.8):
            slips[name] = near[0]
    rest = (own.keys() | given.keys()) - {*slips, *slips.values()}
    if slips and all(name in own and name in given and _fits(own[name], given[name]) for name in rest):
        said = "; ".join(f"did you mean {right} by {wrong}?" for wrong, right in [*slips.items()][:4])
        return f"{said} Rename it in the file"
    return "load the weights with the config.json they were saved with"


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


def _room(stored: Stored, buffer: Tensor | None) -> Tensor:
    """An unwritten tensor, in the buffer or in memory of its own."""
    if buffer is None:
        return torch.empty(stored.shape, dtype=stored.dtype)
    return buffer[: stored.nbytes].view(stored.dtype).view(stored.shape)


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.view(-1).view(torch.uint8).numpy().data


def _count_nonfinite(tensor: Tensor) -> int:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0
    count = 0
    for part in tensor.view(-1).split(_PART):  # by parts, whose copies are small beside a tensor of a gigabyte
        values = part.float() if part.dtype.itemsize == 1 else part  # there is no isfinite for 8-bit floats
        count += part.numel() - int(torch.isfinite(values).sum())
    return count


def _fits(own: Tensor, given: Tensor | Stored) -> bool:
    both_float = own.dtype.is_floating_point and given.dtype.is_floating_point
    return own.shape == given.shape and (both_float or own.dtype == given.dtype)


def _describe(tensor: Tensor | Stored | None, absent: str) -> str:
    return absent if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows))
    return "".join(f"\n    {line.rstrip()}" for line in lines)
