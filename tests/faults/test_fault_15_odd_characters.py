"""Fault 15: lone surrogates, NUL, BOM, right-to-left, zero-width, NFD, U+2028 inside a line."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import get_args

import pytest

from regard.data import check_pairs, read_lines, read_pairs
from regard.text import Kind, Tokenizer

ODD = [
    "NUL \0 inside",
    "right to left \u202eabc\u202c שלום",
    "zero\u200bwidth\u200d\ufeff",
    "NFD u\u0308 and NFC ü",
    "line\u2028and paragraph\u2029separators\x0b\x0c\x85",
    "a lone\rcarriage return",
    "👩‍👩‍👧",
    "\U0010ffff\ue000",
]


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(ODD).encode() + b"\r\nlast")
    assert list(read_lines(path)) == [*ODD, "last"]


def test_a_byte_order_mark_goes_from_the_first_line_only(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_odd_text_is_encoded_by_the_documented_rule(kind: Kind) -> None:
    tokenizer = Tokenizer.train(ODD * 2, kind=kind, vocab_size=400)
    for text in ODD:
        form = text if kind == "bytes" else unicodedata.normalize("NFC", text)
        unknown = "\0" if kind == "chars" else ""  # NUL is never given a token of its own
        assert tokenizer.decode(tokenizer.encode(text)) == form.replace(unknown, "") if unknown else form
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a\ufffdb")


def test_a_lone_surrogate_in_jsonl_is_read_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "lone \\ud800", "target": "pair \\ud83d\\ude00"}\n')
    pairs = read_pairs([path])
    assert pairs.target == ["pair 😀"]
    assert [finding.examples for finding in check_pairs(pairs) if finding.name == "control"] == [(f"{path}:1",)]
