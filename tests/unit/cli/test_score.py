"""`regard score`: what a model says of translations that are given."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import regard

Command = Callable[..., tuple[int, str, str]]


def test_scores_are_those_of_python_and_sum_up_to_the_loss_of_evaluate(command: Command, workplace: Path) -> None:
    code, out, err = command("score", "run", "test.en", "test.de")
    sources, targets = ((workplace / f"test.{side}").read_text().splitlines() for side in ("en", "de"))
    expected = regard.load(workplace / "run", device="cpu").score(sources, targets)
    assert (code, err) == (0, "") and [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-3)
    rows = [
        json.loads(line)
        for line in command("score", "run", "test.en", "test.de", "--json", "--per-token")[1].splitlines()
    ]
    assert [row["source"] for row in rows] == sources and [row["target"] for row in rows] == targets
    each = [score for row in rows for score in row["token_logprobs"]]
    assert all(sum(row["token_logprobs"]) == pytest.approx(row["logprob"]) for row in rows)
    assert all(row["tokens"][-1] == "</s>" and len(row["tokens"]) == len(row["token_logprobs"]) for row in rows)
    metrics = json.loads(command("evaluate", "run", "test.en", "test.de", "--json", "--beam", "1")[1])["metrics"]
    assert -math.fsum(each) / len(each) == pytest.approx(metrics["loss"]["score"], rel=1e-5)


def test_per_token_for_people(command: Command) -> None:
    line = command("score", "run", "test.en", "test.de", "--per-token")[1].splitlines()[0]
    total, each = line.split(" ||| ")
    scores = [float(score) for score in each.split(" ")[1::2]]
    assert sum(scores) == pytest.approx(float(total), abs=0.01)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("run", 2, "no data is given"),
        ("run test.en dev.de", 3, "20 and 40 lines"),
        ("run test.en test.de --to fr", 2, "one direction only"),
        ("test.en test.en test.de", 4, "no model folder"),
    ],
)
def test_mistakes(command: Command, words: str, code: int, says: str) -> None:
    got, out, err = command("score", *words.split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err


def test_a_pair_too_long_is_named_before_anything_is_scored(command: Command, workplace: Path) -> None:
    (workplace / "long.tsv").write_text("A man.\tEin Mann.\n" + "a " * 999 + "\tb\n")
    code, out, err = command("score", "run", "long.tsv")
    assert (code, out) == (3, "") and "long.tsv:2" in err
