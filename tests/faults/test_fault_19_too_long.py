"""Fault 19 (and 17): a text longer than the model is translated in parts; of a word too long for it the rest is left
out, and this is said with both counts."""

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


@pytest.mark.parametrize("character", ["a", "\u0301", "日"])
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
