"""A SentencePiece vocabulary for the library `tokenizers`, with the ids that the library sentencepiece gives.

    "  A  cat"  ->  "A cat"  ->  "A▁cat"  ->  "▁A▁cat"  ->  ▁A ▁c at

What is unusual: it follows sentencepiece itself, where converters elsewhere differ. No text is cut into a control
token, a byte or an unused piece; only U+0020 is a space; letters with several marks are composed, where the table as
`tokenizers` reads it stops at the first.
What it does not know: what a model wants around a text, and the ids that other tools move to other places.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.text.spm_file import BPE, BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Piece, SentencePieces
from regard.text.unreachable import AWAY, exchanged, signs

SPACE = "▁"
"""How a space is written in a piece."""
TEXT = (NORMAL, USER_DEFINED)
"""The types of pieces that a text is cut into."""
KEPT = (CONTROL, UNKNOWN, BYTE)
"""The types of pieces that no text may spell, and that keep their signs."""


def convert(spm: SentencePieces) -> Backend:
    """The vocabulary with SentencePiece's own ids."""
    whole = [piece.text for piece in spm.pieces if piece.type == USER_DEFINED]
    # Merges never build a control token, but a text that is taken whole (see `_bpe`) could be one.
    chosen = signs([p.text for p in spm.pieces if p.type in KEPT]) if spm.type != BPE or whole else {}
    names = [_name(piece, chosen) for piece in spm.pieces]
    backend = Backend(_bpe(spm, names) if spm.type == BPE else _unigram(spm, names))
    prefix = [normalizers.Prepend(SPACE)] if spm.dummy_prefix else []
    backend.normalizer = normalizers.Sequence([*normal_form(spm, chosen), *prefix])
    if spm.type == BPE and whole:
        longest_first = sorted((exchanged(text, chosen) for text in whole), key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    first = Regex(r"\A +" if spm.fewer_spaces else r"\A ")
    strip = [decoders.Replace(first, "")] if spm.fewer_spaces or spm.dummy_prefix else []
    backend.decoder = decoders.Sequence([*written_back(chosen), *strip])
    controls = [piece.text for piece in spm.pieces if piece.type == CONTROL]
    backend.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in controls])
    return backend


def normal_form(spm: SentencePieces, chosen: Mapping[str, str]) -> list[Any]:
    """The steps from a text to what is cut, all but the space before it."""
    steps = _by_table(spm.charsmap) if spm.charsmap else []
    steps += [normalizers.Replace(sign, other) for sign, other in chosen.items()]
    if spm.fewer_spaces:
        steps += [normalizers.Replace(Regex(r"\A +"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    steps.append(normalizers.Replace(" ", SPACE))
    if spm.fewer_spaces:
        steps.append(normalizers.Replace(Regex(rf"{SPACE}+\z"), ""))
    return steps


def _by_table(charsmap: bytes) -> list[Any]:
    """The table of characters. The library looks up a letter with all its marks and takes the shortest entry.

    So a second mark would be lost, and Hangul and half-width kana stay in parts; composed before and after, they come
    out as SentencePiece has them. "\\r\\n" is one letter to the library too. What differs: marks in no canonical order
    are put in order, and one after a sign that the table replaces (a wide letter, an ellipsis) is lost.
    """
    table = normalizers.Precompiled(charsmap)
    composes = table.normalize_str("e\u0301") == "é"  # there are tables that leave letters decomposed
    steps = [normalizers.NFC(), table, normalizers.NFC()] if composes else [table]
    ends = table.normalize_str("\r"), table.normalize_str("\n")
    return [normalizers.Replace("\r\n", "\n\n"), *steps] if ends[0] == ends[1] else steps


def written_back(chosen: Mapping[str, str]) -> list[Any]:
    """The steps from pieces to one text, all but the space before it."""
    steps: list[Any] = [decoders.Replace(AWAY, ""), decoders.Replace(SPACE, " "), decoders.ByteFallback()]
    return [*steps, decoders.Fuse(), *(decoders.Replace(other, sign) for sign, other in chosen.items())]


def score(piece: Piece) -> float:
    """Its own, or for a user-defined one what SentencePiece gives it, so that it is always taken whole."""
    return piece.score if piece.type == NORMAL else -0.1


def _name(piece: Piece, chosen: Mapping[str, str]) -> str:
    if piece.type in KEPT:
        return piece.text
    return exchanged(piece.text, chosen) + (AWAY if piece.type == UNUSED else "")


def _unigram(spm: SentencePieces, names: Collection[str]) -> models.Unigram:
    lowest = spm.lowest()  # for what no text is cut into, so that this stays the lowest
    scores = [score(piece) if piece.type in TEXT else lowest for piece in spm.pieces]
    rows = list(zip(names, scores, strict=True))
    return models.Unigram(rows, unk_id=spm.unk_id, byte_fallback=spm.byte_fallback)


def _bpe(spm: SentencePieces, names: Collection[str]) -> models.BPE:
    """SentencePiece joins the neighbours that make the best piece; here the ways to make each piece are merges."""
    by_name = dict(zip(names, spm.pieces, strict=True))
    return models.BPE(
        {name: index for index, name in enumerate(names)},
        list(_merges({name: piece.score for name, piece in by_name.items() if piece.type == NORMAL})),
        unk_token=spm.pieces[spm.unk_id].text,
        fuse_unk=True,
        byte_fallback=spm.byte_fallback,
        # A user-defined piece is cut out before, and must then be taken whole, as no merges lead to it.
        ignore_merges=any(piece.type == USER_DEFINED for piece in spm.pieces),
    )


def _merges(scores: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    for name in sorted(scores, key=lambda name: -scores[name]):
        for cut in range(1, len(name)):
            if name[:cut] in scores and name[cut:] in scores:
                yield name[:cut], name[cut:]
