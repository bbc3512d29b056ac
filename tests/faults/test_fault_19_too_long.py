"""Fault 19 (and 17): a text longer than the model is translated in parts; of a word too long for it the rest is left
out, and this is said with both counts. So is a translation that was cut before its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import regard

Command = Callable[..., tuple[int, str, str]]


def test_the_python_face_warns_and_counts(workplace: Path, one_thread: None) -> None:
    model = regard.load(workplace / "run", device="cpu")
    limit = model.longest_source
    long = "ab" * 40 * limit
    with pytest.warns(UserWarning, match=f"1 of 2 texts hold a word longer than the {limit} tokens") as caught:
        found, short = model.translate([long, "A man."], beam=1)
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name], (
        "it must name the caller's line"
    )
    total = len(model.tokenizer.encode(long))
    assert (found.left_out, short.left_out) == (total - limit, 0)
    kept = model.tokenizer.decode(model.tokenizer.encode(long)[:limit])
    assert model.translate([kept], beam=1)[0].text == found.text, "the first tokens are what is translated"


def test_a_sentence_longer_than_the_model_is_translated_in_parts(workplace: Path, one_thread: None) -> None:
    model = regard.load(workplace / "run", device="cpu")
    clauses = ["a man and a dog run,", "two girls sit,", "a boy plays,"] * model.longest_source
    long = "  ".join(clauses)
    [found] = model.translate([long], beam=1, alignments=True)
    assert found.left_out == 0 and found.source_tokens is not None
    assert found.text.count("  ") >= len(model.tokenizer.encode(long)) // model.longest_source - 1
    assert "".join(found.source_tokens).replace("▁", "") == long.replace(" ", "")


@pytest.mark.parametrize("mark", ["，", ""], ids=["at commas", "at characters"])
def test_of_chinese_without_a_full_stop_nothing_is_lost(workplace: Path, one_thread: None, mark: str) -> None:
    model = regard.load(workplace / "run", device="cpu")
    long = mark.join(["我们看见了一只大狗"] * 200)
    [found] = model.translate([long], beam=1, alignments=True)
    assert found.left_out == 0 and found.source_tokens is not None
    parts = "".join(found.source_tokens).replace("▁", "")
    assert len(parts) >= len(long) > model.longest_source, "each character is a token or more, though an unknown one"


def test_thousands_of_words_without_a_mark_are_all_read(workplace: Path, one_thread: None) -> None:
    model = regard.load(workplace / "run", device="cpu")
    long = "a man and a dog run and two girls sit " * 300
    [found] = model.translate([long], beam=1, alignments=True)
    assert found.left_out == 0 and "".join(found.source_tokens or ()).split("▁")[1:] == long.split()


def test_a_model_says_how_long_sentences_it_learned(workplace: Path) -> None:
    """400 pairs: all but one in a thousand are nearly all."""
    model = regard.load(workplace / "run", device="cpu")
    lengths = sorted(map(len, model.tokenizer.encode_batch((workplace / "train.en").read_text().splitlines())))
    assert lengths[-2] <= model.about["longest_seen"] <= lengths[-1] < model.longest_source


def test_a_prefix_keeps_a_line_whole_and_what_is_cut_is_said(command: Command, workplace: Path) -> None:
    (workplace / "whole.en").write_text("A man.\n" + "a man " * 999 + "\n")
    code, out, err = command("translate", "run", "whole.en", "--beam", "1", "--json", "--prefix", "Ein")
    row, model = json.loads(out.splitlines()[1]), regard.load(workplace / "run", device="cpu")
    assert code == 0 and row["left_out"] > 0 and "a word" not in err
    assert f"line 2: the line, which --prefix keeps whole, is longer than the {model.longest_source} tokens" in err
    with pytest.warns(UserWarning, match="1 of 1 texts are kept whole by a prefix, or hold a word, longer than"):
        model.translate(["a man " * 999], prefix=["Ein"], beam=1)


def test_a_translation_that_was_cut_before_its_end_is_said(
    command: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "two.en").write_text("A man. A dog. Two girls.\n\n")
    whole = [json.loads(row) for row in command("translate", "run", "two.en", "--json")[1].splitlines()]
    monkeypatch.setattr("regard.tasks.search._limit", lambda *_: 2)
    code, out, err = command("translate", "run", "two.en", "--json")
    cut, empty = [json.loads(row) for row in out.splitlines()]
    assert code == 0 and len(cut["translation"].split()) < len(whole[0]["translation"].split())
    assert cut["unfinished"] == 3 and "unfinished" not in empty
    assert err == "cut at the greatest length before the model ended: the translation of line 1\n"
    (workplace / "many.en").write_text("A man.\n" * 29)
    said = command("translate", "run", "many.en", "--quiet")[2]
    assert said.endswith(f"translations, of lines {', '.join(map(str, range(1, 21)))} and 9 more\n")
    [found] = regard.load(workplace / "run", device="cpu").translate(["A man."])
    assert found.unfinished == 1 and "1 parts unfinished" in repr(found)


def test_a_text_of_just_the_models_length_is_whole(workplace: Path, one_thread: None) -> None:
    model = regard.load(workplace / "run", device="cpu")
    text = "a"
    while len(model.tokenizer.encode(text + " a")) <= model.longest_source:
        text += " a"
    assert model.translate([text], beam=1)[0].left_out == 0


def test_the_command_names_the_line_with_both_counts(command: Command, workplace: Path) -> None:
    (workplace / "long.en").write_text("A man.\n" + "ab" * 9999 + "\nA dog.\n")
    code, out, err = command("translate", "run", "long.en", "--beam", "1", "--json", "--quiet")
    rows = [json.loads(line) for line in out.splitlines()]
    reads = regard.load(workplace / "run", device="cpu").longest_source
    assert code == 0 and len(rows) == 3 and "left_out" not in rows[0]
    err = "".join(line for line in err.splitlines(keepends=True) if "greatest length" not in line)
    said = f"{rows[1]['left_out']:,} tokens were left out"
    assert err == f"line 2: a word is longer than the {reads} tokens that the model reads; {said}\n"


def test_a_score_of_half_a_text_is_no_score(workplace: Path, one_thread: None) -> None:
    model = regard.load(workplace / "run", device="cpu")
    with pytest.raises(regard.ConfigError, match="pair 2") as caught:
        model.score(["a", "b"], ["A", "B " * 999])
    assert str(model.longest_source) in str(caught.value.expected)


def test_evaluation_goes_on_without_its_loss(command: Command, workplace: Path) -> None:
    (workplace / "mixed.tsv").write_text("A man.\tEin Mann.\n" + "a b " * 999 + "\tb\n")
    (workplace / "short.tsv").write_text("A man.\tEin Mann.\n")
    code, out, err = command("evaluate", "run", "mixed.tsv", "--beam", "1", "--json")
    assert code == 0 and "1 pairs are longer than" in err
    alone = json.loads(command("evaluate", "run", "short.tsv", "--beam", "1", "--json")[1])
    assert json.loads(out)["metrics"]["loss"] == alone["metrics"]["loss"]


@pytest.mark.whole
@pytest.mark.parametrize("character", ["a", "\u0301", "😀"])
def test_a_million_characters_take_seconds(workplace: Path, one_thread: None, character: str) -> None:
    model = regard.load(workplace / "run", device="cpu")
    before = time.process_time()
    with pytest.warns(UserWarning, match="longer"):
        model.translate([character * 10**6], beam=1)
    assert time.process_time() - before < 20


def test_training_leaves_long_pairs_out_and_says_how_many(command: Command, workplace: Path) -> None:
    (workplace / "some.tsv").write_text("".join(f"a {i}\tb {i}\n" for i in range(50)) + "a " * 300 + "\tb\n")
    tiny = "tokenizer.kind=chars tokenizer.vocab_size=60 model.d_model=16 model.n_heads=2 model.d_ff=16 loop.steps=1"
    changes = [word for change in tiny.split() for word in ("--set", change)]
    code, _, err = command("train", "translation", "some.tsv", "--out", "some", *changes)
    assert code == 0 and "1 pairs are longer than 256 tokens and left out" in err
