"""CoNLL's columns: every scheme marks the same spans, and what is no tag is named with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.conll import Span, read_tagged, spans_of, tags_of
from regard.errors import DataError

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(text: str) -> Path:
        (tmp_path / "a.conll").write_text(text, encoding="utf-8", newline="")
        return tmp_path / "a.conll"

    return file


@st.composite
def marked(draw: st.DrawFn) -> tuple[list[Span], int]:
    spans, place = list[Span](), 0
    for _ in range(draw(st.integers(0, 4))):
        start = place + draw(st.integers(0, 2))
        place = start + draw(st.integers(1, 3))
        spans.append((start, place, draw(st.sampled_from(["LOC", "PER-SON"]))))
    return spans, place + draw(st.integers(0, 2))


def written(spans: list[Span], n: int, scheme: str) -> list[str]:
    """The tags of another hand: IOB1 has B- only where a span follows one of its kind, the others mark ends too."""
    tags = ["O"] * n
    for number, (start, stop, name) in enumerate(spans):
        prefixes = list("B" + "I" * (stop - start - 1))
        if scheme in ("IOBES", "BILOU", "BMES"):
            end, alone = {"IOBES": "ES", "BILOU": "LU", "BMES": "ES"}[scheme]
            prefixes = [alone] if len(prefixes) == 1 else [*prefixes[:-1], end]
            prefixes = ["M" if scheme == "BMES" and p == "I" else p for p in prefixes]
        before = spans[number - 1] if number else (-1, -1, "")
        if scheme == "IOB1" and not (before[1] == start and before[2] == name):
            prefixes[0] = "I"
        tags[start:stop] = [f"{prefix}-{name}" for prefix in prefixes]
    return tags


@given(marked(), st.sampled_from(["IOB1", "IOB2", "IOBES", "BILOU", "BMES"]))
def test_every_scheme_marks_the_same(found: tuple[list[Span], int], scheme: str) -> None:
    spans, n = found
    assert spans_of(written(spans, n, scheme)) == spans
    assert spans_of(tags_of(spans, n)) == spans


def test_tags_that_do_not_follow_are_spans_as_conlleval_has_them() -> None:
    """What a model says need not fit: I- after O or after another kind begins a span."""
    assert spans_of(["O", "I-A", "I-A", "I-B", "B-B", "O", "I-B"]) == [
        (1, 3, "A"), (3, 4, "B"), (4, 5, "B"), (6, 7, "B"),
    ]  # fmt: skip


@pytest.mark.parametrize("separator", [" ", "\t", "   "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files(write: Write, separator: str, end: str) -> None:
    rows = ["-DOCSTART- -X- O O", "", "EU NNP I-ORG", "rejects VBZ O", "", "", "Peter NNP I-PER", "Blackburn NNP I-PER"]
    path = write(end.join(separator.join(row.split(" ")) for row in rows))
    found = read_tagged([path])
    assert found.words == [["EU", "rejects"], ["Peter", "Blackburn"]]
    assert found.tags == [["B-ORG", "O"], ["B-PER", "I-PER"]]
    assert found.names == ("ORG", "PER") and [found.where(i) for i in (0, 1)] == [f"{path}:3", f"{path}:7"]


@pytest.mark.parametrize("bad", ["word", "word X-LOC", "word LOC", "word B-", "\tB-LOC"])
def test_a_bad_line_is_named_or_left_out_with_its_sentence(write: Write, bad: str) -> None:
    path = write(f"a\tO\n\nb\tO\n{bad}\nc\tO\n\nd\tB-LOC\n" if "\t" in bad else f"a O\n\nb O\n{bad}\nc O\n\nd B-LOC\n")
    with pytest.raises(DataError) as caught:
        read_tagged([path])
    assert "a.conll:4" in str(caught.value)
    found = read_tagged([path], skip_bad=1)
    assert found.words == [["a"], ["d"]] and len(found.skipped) == 1


def test_no_sentences(write: Write) -> None:
    with pytest.raises(DataError, match="no sentences"):
        read_tagged([write("\n\n")])
