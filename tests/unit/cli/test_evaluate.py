"""`regard evaluate`: scores that others can check."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]


def test_scores_are_sacrebleus_on_the_raw_files(command: Command, workplace: Path) -> None:
    """Law 32."""
    code, out, _ = command("evaluate", "run", "test.en", "test.de", "--json", "--out", "hypotheses.de", "--beam", "2")
    report = json.loads(out)
    assert code == 0 and report["examples"] == 20 and report["data"] == ["test.en", "test.de"]
    words = ["test.de", "-i", "hypotheses.de", "-m", "bleu", "chrf", "-w", "6"]
    theirs = subprocess.run([sys.executable, "-m", "sacrebleu", *words], cwd=workplace, capture_output=True, check=True)
    for ours, score in zip(
        (report["metrics"][name] for name in ("bleu", "chrf")), json.loads(theirs.stdout), strict=True
    ):
        assert ours["score"] == pytest.approx(score["score"], abs=1e-4)
        assert ours["signature"] == score["signature"]


def test_the_loss_is_the_one_that_training_saw(command: Command, workplace: Path) -> None:
    """Law 33: whatever is put together in a batch."""
    metrics = json.loads(command("evaluate", "run", "dev.en", "dev.de", "--json", "--beam", "1")[1])["metrics"]
    trained = json.loads((workplace / "trained.json").read_text())
    assert metrics["loss"]["score"] == pytest.approx(trained["dev_loss"], rel=1e-5)
    assert metrics["perplexity"]["score"] == pytest.approx(math.exp(trained["dev_loss"]), rel=1e-4)
    assert metrics["chrf"]["score"] == pytest.approx(trained["dev_chrf"], abs=0.01)


def test_a_table_for_people(command: Command, workplace: Path) -> None:
    rows = zip(*((workplace / f"test.{code}").read_text().splitlines() for code in ("en", "de")), strict=True)
    (workplace / "pairs.tsv").write_text("".join(f"{i}\t{en}\t{de}\n" for i, (en, de) in enumerate(rows)))
    code, out, err = command("evaluate", "run", "pairs.tsv", "--columns", "2,3", "--beam", "1")
    assert (code, err) == (0, "") and "nrefs:1|case:mixed|eff:no|tok:13a" in out and "perplexity" in out


@pytest.mark.parametrize("verb", ["evaluate", "score"])
def test_pairs_with_an_empty_side_are_told(command: Command, workplace: Path, verb: str) -> None:
    """They count, as references are scored as they stand; who has them by mistake should know."""
    (workplace / "holes.en").write_text("A man.\n\nTwo dogs.\n")
    (workplace / "holes.de").write_text("Ein Mann.\nJa.\n\n")
    code, _, err = command(verb, "run", "holes.en", "holes.de")
    assert code == 0 and "2 pairs have an empty side" in err and "holes.en:2" in err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("run test.en dev.de", 3, "20 and 40 lines"),
        ("run test.en", 3, "cannot tell the format"),
        ("run", 2, "no data is given"),
        ("run test.en test.de --columns 1", 2, "--columns en,de"),
        ("test.en test.de test.en", 4, "no model folder"),
    ],
)
def test_mistakes(command: Command, words: str, code: int, says: str) -> None:
    got, out, err = command("evaluate", *words.split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err
