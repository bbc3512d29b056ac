"""SentencePiece's .model file, read: what it holds, as far as it bears on cutting a text.

It is a protocol buffer: fields, each a number and a value, some of them messages again. The few that matter are read
here, so neither the package sentencepiece nor protobuf is needed.

What is unusual: what a file may ask for and regard does not follow is refused by name.
What it does not know: how a text is cut (`text.spm`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.errors import CheckpointError
from regard.text.backend import CONVERT, read_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
MOST = 2**19  # pieces; the largest published vocabularies have half as many, and more take long to read

Message = Mapping[int, list[int | bytes]]
"""Field number -> its values, in order."""


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary."""

    text: str
    score: float
    type: int


@dataclass(frozen=True)
class SentencePieces:
    """What a .model file holds."""

    pieces: tuple[Piece, ...]
    type: int
    """UNIGRAM or BPE."""
    byte_fallback: bool
    unk_id: int
    controls: Mapping[str, int]
    """The places of the tokens bos, eos and pad, as far as there are any."""
    charsmap: bytes
    """The table of what characters are normalised to; empty: nothing is."""
    dummy_prefix: bool
    """A space is put before a text."""
    fewer_spaces: bool
    """Those at a text's ends are taken away, and all but one of several."""

    def lowest(self) -> float:
        """The score of the least likely piece; that of an unknown character is 10 less."""
        return min(piece.score for piece in self.pieces if piece.type == NORMAL)


def read_spm(path: Path) -> SentencePieces:
    """Read a .model file.

    Raises:
        CheckpointError: it is missing, above 32 MiB, something else, or of a kind that is not followed here.
    """
    data = read_bytes(path)
    try:
        whole = _message(data)
        trainer, normal, outputs = (_message(_bytes(whole, number)) for number in (2, 3, 5))
        pieces = tuple(map(_piece, whole.get(1, [])))
        kinds, type_ = {piece.type for piece in pieces}, _number(trainer, 3, UNIGRAM)
        unread = {
            "a kind other than unigram and bpe": type_ not in (UNIGRAM, BPE),
            "spaces that end a word": _number(trainer, 24, 0),
            "spaces that are not escaped": not _number(normal, 5, 1),
            "a table for outputs": _bytes(outputs, 2),
            "unused pieces among merges": type_ == BPE and UNUSED in kinds,
        }
        places = {"bos": _number(trainer, 41, 1), "eos": _number(trainer, 42, 2), "pad": _number(trainer, 43, -1)}
        found = SentencePieces(
            pieces=pieces,
            type=type_,
            byte_fallback=bool(_number(trainer, 35, 0)),
            unk_id=_number(trainer, 40, 0),
            controls={role: at for role, at in places.items() if at >= 0 and pieces[at].type == CONTROL},
            charsmap=_bytes(normal, 2),
            dummy_prefix=bool(_number(normal, 3, 1)),
            fewer_spaces=bool(_number(normal, 4, 1)),
        )
        if NORMAL not in kinds or pieces[found.unk_id].type != UNKNOWN or len({p.text for p in pieces}) < len(pieces):
            raise ValueError("no pieces, none for what is unknown, or one twice")
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise _no_model(path, data, error) from None
    if asked := [what for what, there in unread.items() if there]:
        raise CheckpointError("this SentencePiece model has what regard does not follow", where=path, got=asked[0],
                              mend=CONVERT)  # fmt: skip
    return found


def _message(data: bytes) -> Message:
    """The fields of a message. Raises ValueError, IndexError or struct.error where the bytes are none."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        else:
            length, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, len(data)), at)
            value, at = data[at : at + length], at + length
        if at > len(data) or number == 0 or len(fields.setdefault(number, [])) == MOST:
            raise ValueError(f"byte {at:,} of {len(data):,} belongs to no field")
        fields[number].append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, low ones first, and where it ends."""
    value, shift = 0, 0
    while data[at] & 0x80:
        if shift > 63:
            raise ValueError("a number is too long")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _number(message: Message, field: int, default: int) -> int:
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise TypeError(f"field {field} is no number")
    return value - 2**64 if value >= 2**63 else value


def _bytes(message: Message, field: int) -> bytes:
    value = message.get(field, [b""])[-1]
    if not isinstance(value, bytes):
        raise TypeError(f"field {field} is a number")
    return value


def _piece(data: int | bytes) -> Piece:
    if not isinstance(data, bytes):
        raise TypeError("a piece is a number")
    fields = _message(data)
    score = struct.unpack("<f", _bytes(fields, 2) or bytes(4))[0]
    return Piece(_bytes(fields, 1).decode("utf-8"), score, _number(fields, 3, NORMAL))


def _no_model(path: Path, data: bytes, error: object) -> CheckpointError:
    head = data[:64].lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        return CheckpointError("this is a Git-LFS pointer, not the file it points to", where=path, mend="git lfs pull")
    if head.startswith((b"<!doctype html", b"<html")):
        return CheckpointError("this is an HTML page, perhaps of a failed download", where=path,
                               mend="download the file itself again")  # fmt: skip
    return CheckpointError("this is not a SentencePiece model", where=path, got=error, mend=CONVERT)
