"""Tagging: what is learned, laws 33, 34 and 37 for spans, and the whole way by the command on real questions."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.cli.main import main
from regard.data.conll import Tagged, read_tagged
from regard.errors import DataError
from regard.model import Model, TransformerConfig, make_model
from regard.tasks import reading
from regard.tasks.tagged import check_tagged, refuse_unseen_names, split_tagged
from regard.tasks.tagging import (
    Tagger,
    TaggingData,
    TaggingTask,
    joined,
    pieces_of,
    span_scores,
    tag_words,
    words_of,
)
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
LABELS = ["O", "B-NAME", "I-NAME", "B-NUMBER", "I-NUMBER"]


@pytest.fixture(scope="module")
def sentences(data_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 questions of TREC: numbers, and runs of words with a capital that are not the first."""
    lines = (data_dir("trec") / "train.txt").read_text(encoding="utf-8").split("\n")[:200]
    rows = list[str]()
    for line in lines:
        before = "O"
        for place, word in enumerate(line.partition(" ")[2].split()):
            kind = "NUMBER" if word[0].isdigit() else "NAME" if place and word[0].isupper() else ""
            tag = "O" if not kind else f"I-{kind}" if before.endswith(kind) else f"B-{kind}"
            rows.append(f"{word}\t{tag}")
            before = tag
        rows.append("")
    path = tmp_path_factory.mktemp("tagged") / "train.conll"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def read(sentences: Path) -> Tagged:
    return read_tagged([sentences])


@pytest.fixture(scope="module")
def tokenizer(read: Tagged) -> Tokenizer:
    texts = [" ".join(words) for words in read.words]
    return Tokenizer.train(texts, kind="bpe", vocab_size=500).framed(before="bos", after="eos")


def model_of(tokenizer: Tokenizer) -> Model:
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=24, n_heads=2, d_ff=32, n_encoder_layers=1, norm_order="pre",
        max_len=64,
    )  # fmt: skip
    torch.manual_seed(1)
    return make_model(config, "tagger", len(LABELS)).eval()


def data_of(tokenizer: Tokenizer, read: Tagged) -> TaggingData:
    some = read.take(range(20))
    return TaggingData(tokenizer, LABELS, some, some, most=64, tokens_per_batch=600, seed=0, multiple=1)


def test_the_loss_is_that_of_the_first_token_of_each_word(tokenizer: Tokenizer, read: Tagged) -> None:
    data, model, task = data_of(tokenizer, read), model_of(tokenizer), TaggingTask()
    batches = [data.batch(step) for step in range(data.batches_per_epoch)]
    whole = sum(float(task.loss(model, task.hidden(model, batch), batch).detach()) for batch in batches)
    alone, words = 0.0, 0
    for own, tags in zip(read.words[:20], read.tags[:20], strict=True):
        ids = [[*tokenizer.encode(word)] for word in own]  # a space goes before each, as within the sentence
        begun = [next(i for i, piece in enumerate(tokenizer.tokens(row)) if piece != "▁") for row in ids]
        firsts = np.cumsum([1, *map(len, ids)])[:-1] + begun
        flat = tokenizer.wrap([token for row in ids for token in row])[0]
        logits = model.head(model.transformer.encode(torch.tensor([flat])))[0, firsts].detach()
        alone += float(F.cross_entropy(logits, torch.tensor([LABELS.index(tag) for tag in tags]), reduction="sum"))
        words += len(own)
    assert sum(batch.count for batch in batches) == words
    assert whole == pytest.approx(alone, rel=1e-4)


def test_law_33_and_34_batches_change_nothing(
    tokenizer: Tokenizer, read: Tagged, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, model, found = data_of(tokenizer, read), model_of(tokenizer), []
    for together in (1, 10_000):
        monkeypatch.setattr(reading, "tokens_together", lambda device, most=together: most)
        logits = tag_words(model, data.dev_pieces, [len(words) for words in data.dev.words], len(LABELS))
        found.append((np.concatenate(logits), data.evaluate(model)))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-5)


def test_law_37_spans_are_pieces_of_the_text(tokenizer: Tokenizer) -> None:
    """Composed and decomposed accents, emoji, a script without spaces, a text of many pieces, and nothing at all."""
    odd = "What is " + unicodedata.normalize("NFD", "Café Ñandú") + " 👩‍👩‍👧 in 北京市 ?"
    long = "the Pan American Games of 1999 , and " * 40
    texts = [odd, long, "", "   ", "\ud800 x", "a" * 500]
    tagger = Tagger(model_of(tokenizer), tokenizer, {"labels": LABELS})
    found = tagger.tag(texts)
    assert any(found[0]) and any(found[1]) and found[2] == found[3] == []
    for text, spans in zip(texts, found, strict=True):
        for span in spans:
            assert text[span.start : span.stop] == span.text and span.text.strip() == span.text != ""
            assert span.label in ("NAME", "NUMBER") and 0 < span.probability <= 1
        assert all(a.stop <= b.start for a, b in pairwise(spans))
    assert max(span.stop for span in found[1]) > 1_000, "the last pieces are looked at too"


def test_every_word_of_a_long_text_is_looked_at(tokenizer: Tokenizer) -> None:
    text = "the Pan American Games of 1999 , and " * 40
    words = words_of(text)
    pieces = pieces_of(tokenizer, text, words, 64)
    assert [word for piece in pieces for word in piece.words] == list(range(len(words)))
    assert max(len(piece.read.ids) for piece in pieces) <= 64 and len(pieces) > 4
    for piece in pieces:
        shown = tokenizer.tokens(piece.read.ids)
        for word, place in zip(piece.words, piece.places, strict=True):
            start, stop = words[word]
            assert text[start:stop].startswith(shown[place].strip("▁ ")), "the place is that of the word's first token"


def test_words_are_the_same_in_a_file_and_in_a_text() -> None:
    text, places = joined(["Mr.", "O'Neil", "-", "New-York", "3,000"])
    assert [text[start:stop] for start, stop in places] == ["Mr.", "O'Neil", "-", "New-York", "3,000"]
    text = "O'Neil's 北京, New-York."
    assert [text[a:b] for a, b in words_of(text)] == ["O'Neil's", "北", "京", ",", "New-York", "."]


def test_span_f1_by_hand() -> None:
    """Three there, two given: one right, one too short. Precision 1/2, recall 1/3, F1 2/5."""
    actual = [["B-A", "I-A", "O", "B-B"], ["O", "B-A"]]
    said = [["B-A", "O", "O", "B-B"], ["O", "O"]]
    scores = span_scores(actual, said)
    assert (scores.precision, scores.recall, scores.f1) == pytest.approx((1 / 2, 1 / 3, 2 / 5))
    assert scores.by_kind == {"A": (2, 1, 0), "B": (1, 1, 1)}
    assert span_scores([["O"]], [["O"]]).f1 == 0


def test_what_is_held_out_and_what_is_refused(read: Tagged) -> None:
    train, dev = split_tagged(read, seed=0)
    assert len(dev) == 20 and {*map(tuple, train.words)}.isdisjoint(map(tuple, dev.words))
    assert train.names == read.names and split_tagged(read, seed=0)[1].places == dev.places
    found = {finding.name: finding for finding in check_tagged(read, read.take([3, 4]))}
    assert found["overlap"].count == 2 and found["overlap"].severity == "warn"
    with pytest.raises(DataError, match="kind of span"):
        refuse_unseen_names(read, ["NAME"])


def test_from_a_file_to_spans(
    sentences: Path,
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`train`, `evaluate` and `tag` by the command; the words of Python and of the command are the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(workplace / "cache"))
    (tmp_path / "a.txt").write_text("What is the Pan American Games ?\n\n", encoding="utf-8")
    changes = ["loop.steps=60", "loop.evaluate_every=60", "tokenizer.vocab_size=500", "model.d_model=32",
               "model.dropout=0", "batch.tokens=300", "optim.lr=0.01", "schedule.warmup=5"]  # fmt: skip
    flags = [word for change in changes for word in ("--set", change)]

    def run(*words: str) -> str:
        capsys.readouterr()
        code = main([*words, "--threads", "1", "--device", "cpu"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    trained = json.loads(run("train", "tagging", str(sentences), "--out", "model", "--json", *flags))
    assert trained["dev_accuracy"] > trained["outside_accuracy"] - 0.05
    report = json.loads(run("evaluate", "model", str(sentences), "--json"))
    f1 = report["metrics"]["span_f1"]
    assert f1["low"] <= f1["score"] <= f1["high"] and f1["score"] > 0.2
    assert {row["label"] for row in report["classes"]} == {"NAME", "NUMBER"}
    found = regard.load("model", device="cpu").tag(["What is the Pan American Games ?"])[0]
    first, second = run("tag", "model", "a.txt").split("\n")[:2]
    assert second == "" and first == "\t".join(f"{s.label} {s.start}-{s.stop} {s.text}" for s in found)
    row = json.loads(run("tag", "model", "a.txt", "--json").split("\n")[0])
    assert [span["text"] for span in row["spans"]] == [span.text for span in found]
    assert re.search("span_f1 +0", run("evaluate", "model", str(sentences)))
    assert "every one of the 200 sentences is the same" in run("compare", "model", "model", str(sentences))
    run("train", "tagging", str(sentences), "--out", "worse", "--json", *flags, "--set", "loop.steps=1")
    compared = json.loads(run("compare", "worse", "model", str(sentences), "--json"))
    metric = compared["metrics"]["span_f1"]
    scored = json.loads(run("evaluate", "worse", str(sentences), "--json"))["metrics"]["span_f1"]
    assert metric["one"] == pytest.approx(100 * scored["score"]) and metric["two"] == pytest.approx(100 * f1["score"])
    assert metric["difference"] > 0 and metric["p"] < 0.05 and "second model is better" in compared["sentences"][0]
