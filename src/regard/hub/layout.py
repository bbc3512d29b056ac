"""The layout of a safetensors file, checked in small memory before any library parses the file.

    8 bytes    N, little endian                    {"wte": {"dtype": "F32", "shape": [50, 8],
    N bytes    the header, JSON       ------->              "data_offsets": [0, 1600]}, ...}
    the rest   the tensors, end to end, no holes

What is unusual: it does over again what the library checks, and more (duplicate keys, which the library accepts), so
that a wrong file is named for what it is, and an error names the tensor.
What it does not know: the values of the tensors, and what they are for.
"""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import CheckpointError

MAX_HEADER = 100_000_000  # bytes; the library's own limit

COPY_AGAIN = "copy or download the file again from where it came"

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_DTYPES |= {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64, "BOOL": torch.bool}
_DTYPES |= {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8}
_DTYPES |= {"U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_HTML = "an HTML page, perhaps of a failed download"
_IMPOSTERS = (  # first bytes in lower case, what it is, how to mend it (a conversion where empty)
    (b"version https://git-lfs", "a Git-LFS pointer, not the file it points to", "git lfs pull"),
    (b"<!doctype html", _HTML, "download the file itself again"),
    (b"<html", _HTML, "download the file itself again"),
    (b"pk\x03\x04", "a zip archive (as are PyTorch's .pt, .bin and .ckpt, around a pickle, and NumPy's .npz)", ""),
    (b"\x80", "a pickle, which can run any code when it is opened", ""),
)


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: all that is known of it before its values are read."""

    path: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    """Of its bytes, counted from the beginning of the file."""

    def numel(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes they take in the file."""
        return self.numel() * self.dtype.itemsize


def read_layout(path: Path) -> dict[str, Stored]:
    """What is in a safetensors file, name -> where it lies, from the header alone, which accounts for every byte.

    Raises:
        CheckpointError: names the file, the tensor where there is one, and what the file really is if that can be told.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head, size = file.read(64), file.seek(0, 2)
        length, available = int.from_bytes(head[:8], "little"), size - 8
        if head[8:9] != b"{":
            raise _imposter(path, head)
        if length > min(MAX_HEADER, available):
            raise CheckpointError(
                "the header is too long" if length > MAX_HEADER else "the file is truncated within its header",
                where=path,
                expected=f"at most {min(MAX_HEADER, available):,} bytes of header",
                got=f"a header length of {length:,}",
                mend=COPY_AGAIN,
            )
        file.seek(8)
        header = parse_json(file.read(length), path)
    _check_metadata(header.pop("__metadata__", None), path)
    _check_spans({name: _span(entry, name, path) for name, entry in header.items()}, available - length, path)
    return {
        name: Stored(path, _DTYPES[entry["dtype"]], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }


def make_header(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Return the first bytes of a file in which these tensors' data follow in this order, padded to 8 bytes."""
    entries: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        dtype = _DTYPE_NAMES[tensor.dtype]
        entries[name] = {"dtype": dtype, "shape": [*tensor.shape], "data_offsets": [begin, end]}
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """Parse a JSON object, refusing duplicate keys, of which readers silently keep one or the other.

    Raises:
        CheckpointError: `data`, the contents of `path`, is anything else.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise ValueError(f"the key {twice[:200]!r} appears twice")
        return entries

    try:
        parsed = json.loads(data, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError too
        kind, how = _kind(data[:64])
        raise CheckpointError("malformed JSON", where=path, got=kind or error, mend=how or COPY_AGAIN) from error
    if not isinstance(parsed, dict):
        got = type(parsed).__name__
        raise CheckpointError("malformed JSON", where=path, expected="an object", got=got, mend=COPY_AGAIN)
    return parsed


def conversion_command(pickled: Path, converted: Path) -> str:
    """Return what a user types to turn PyTorch's pickled weights into safetensors, without running what is in them."""
    tensors = "torch.load(sys.argv[1], map_location='cpu', weights_only=True)"
    copies = f"{{k: v.contiguous().clone() for k, v in {tensors}.items()}}"
    script = f"import sys, torch, safetensors.torch as s; s.save_file({copies}, sys.argv[2])"
    return f'python -c "{script}" {shlex.quote(str(pickled))} {shlex.quote(str(converted))}'


def _check_metadata(metadata: Any, path: Path) -> None:
    """Refuse what the library refuses: a note that is no text."""
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        raise CheckpointError("malformed safetensors", where=path, expected='texts in "__metadata__"',
                              got=repr(metadata)[:200], mend=COPY_AGAIN)  # fmt: skip


def _check_spans(spans: dict[str, tuple[int, int]], body: int, path: Path) -> None:
    """Refuse spans that are not laid end to end from byte 0 to `body`."""
    end = 0
    for name, (begin, stop) in sorted(spans.items(), key=lambda item: item[1]):
        if begin != end:
            what = "its data overlaps another tensor's" if begin < end else "there is a hole before its data"
            raise _bad_tensor(path, name, what, f"data from byte {end:,}", f"from byte {begin:,}")
        if stop > body:
            raise _bad_tensor(path, name, "its data is cut off", f"{stop:,} bytes of data", f"{body:,} in the file")
        end = stop
    if end != body:
        what = "there are bytes that belong to no tensor"
        raise CheckpointError(what, where=path, expected=f"{end:,} bytes of data", got=f"{body:,}", mend=COPY_AGAIN)


def _span(entry: Any, name: str, path: Path) -> tuple[int, int]:
    """Return where a tensor's bytes begin and end, once its header entry is consistent in itself."""
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _bad_tensor(path, name, "unknown dtype", " ".join(_DTYPES), repr(dtype))
    if not _is_naturals(shape) or not _is_naturals(offsets) or len(offsets) != 2:
        expected = "a shape and two data_offsets, none negative"
        raise _bad_tensor(path, name, "malformed header entry", expected, repr(entry))
    size = _DTYPES[dtype].itemsize
    for n in shape:
        size *= max(n, 1)  # strides overflow, whether the tensor is empty or not
        if size >= 2**63:
            raise _bad_tensor(path, name, "its shape overflows", "fewer than 2^63 bytes", repr(shape))
    size *= 0 not in shape
    begin, end = offsets
    if end - begin != size:
        expected = f"{size:,} bytes for {dtype} {shape}"
        raise _bad_tensor(path, name, "its shape and its data disagree", expected, f"{end - begin:,} bytes")
    return begin, end


def _is_naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _bad_tensor(path: Path, name: str, what: str, expected: str, got: str) -> CheckpointError:
    where = f"{path}: tensor {name[:200]!r}"
    return CheckpointError(what, where=where, expected=expected[:200], got=got[:200], mend=COPY_AGAIN)


def _imposter(path: Path, head: bytes) -> CheckpointError:
    kind, how = _kind(head)
    got = kind or (f"a file that begins with {head[:16]!r}" if head else "an empty file")
    converted = path.with_name(f"{path.stem}-converted.safetensors")
    mend = how or (f"if it is PyTorch's: {conversion_command(path, converted)}" if kind else COPY_AGAIN)
    return CheckpointError("not a safetensors file", where=path, got=got, mend=mend)


def _kind(head: bytes) -> tuple[str, str]:
    """What a file with these first bytes is, and how to mend it; empty where it cannot be told."""
    begins = head.lower().lstrip()
    return next(((kind, how) for magic, kind, how in _IMPOSTERS if begins.startswith(magic)), ("", ""))
