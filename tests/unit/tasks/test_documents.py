"""Documents for language models: what is held out never stands in the training, whatever the corpus looks like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data.shards import prepare
from regard.errors import DataError
from regard.tasks.documents import Documents, read_texts
from regard.text import Tokenizer


def read(
    *train: Path, dev: tuple[Path, ...] = (), unit: str = "file", seed: int = 1, letters: bool = False
) -> Documents:
    files = [[str(path) for path in side] for side in (train, dev)]
    return read_texts(*files, unit=unit, field="text", skip_bad=0, seed=seed, letters=letters)


def test_a_single_text_gives_its_last_tenth_to_the_character(data_dir: Callable[[str], Path]) -> None:
    path = data_dir("tinyshakespeare") / "input.txt"
    text, corpus = path.read_text(encoding="utf-8"), read(path, letters=True)
    assert corpus.train[0].text + corpus.dev[0].text == text
    assert len(corpus.train[0].text) == 1_003_854  # nanoGPT's split
    assert text.split("\n")[corpus.dev[0].line - 1].endswith(corpus.dev[0].text.split("\n")[0])
    assert corpus.amount() == (0.0, 1_003_854.0)
    how, held = corpus.told()
    assert how.startswith("1 file read as plain text: each is one document")
    assert held == "the last tenth of input.txt is held out for development (no --dev was given)"


def test_copies_stay_on_one_side(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line {i % 70}\n" for i in range(300)))
    for seed in range(5):
        corpus = read(path, unit="line", seed=seed)
        kept, held = ({document.text for document in side} for side in (corpus.train, corpus.dev))
        assert not kept & held and len(corpus.train) + len(corpus.dev) == 300
        assert 25 <= len(corpus.dev) <= 40
    assert read(path, unit="line", seed=1).dev == corpus.dev or seed != 1
    assert read(path, unit="line", seed=4).dev == corpus.dev
    assert corpus.where(0) == f"{path}:{corpus.train[0].line}"


def test_copies_are_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\none\nthree\n one\n")
    corpus = read(tmp_path / "lines.txt", unit="line")
    told = next(finding for finding in corpus.findings if finding.name == "copies")
    assert (told.count, told.severity) == (2, "note") and "2 of 5" in told.sentence
    assert [place.rpartition(":")[2] for place in told.examples] == ["3", "5"]


def test_an_overlap_with_dev_is_told(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.txt", tmp_path / "dev.txt"
    train.write_text("one\ntwo\nthree\n")
    dev.write_text("two\nfour\n")
    findings = {finding.name: finding for finding in read(train, dev=(dev,), unit="line").findings}
    assert findings["overlap"].severity == "warn" and findings["overlap"].count == 1
    assert findings["overlap"].examples == (f"{dev}:1",)


@pytest.mark.parametrize("text", ["x", "\n\n \n", "same\nsame\nsame\n"])
def test_what_cannot_be_parted_is_a_data_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text)
    with pytest.raises(DataError):
        read(path, unit="line" if "same" in text else "file")


def test_a_prepared_folder_is_the_same_corpus(tmp_path: Path, data_dir: Callable[[str], Path]) -> None:
    text = (data_dir("tinyshakespeare") / "input.txt").read_text()[:60_000]
    path, out = tmp_path / "some.txt", tmp_path / "prepared"
    path.write_text(text)
    tokenizer = Tokenizer.train([text], kind="bytes", vocab_size=400)
    prepare([path], out, tokenizer, unit="paragraph")
    corpus = read(out)
    assert corpus.prepared == (out, None) and corpus.hashes
    train, dev = corpus.ids(corpus.tokenizer(None), seed=3)
    whole = len(train) + len(dev)
    assert len(dev) == whole // 10 and train.tokens + dev.tokens == corpus.amount()[1]
    again = corpus.ids(tokenizer, seed=3)
    assert again[1].tokens == dev.tokens and again[1].document(0).tolist() == dev.document(0).tolist()
