"""`regard doctor` on a model and on data; the machine is in test_verbs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard import laws
from regard.laws import Verdict
from regard.laws.law import Outcome

Command = Callable[..., tuple[int, str, str]]


def test_a_models_report_card(command: Command) -> None:
    code, out, _ = command("doctor", "run", "--json")
    card = json.loads(out)
    of_models = {number for number, law in laws.LAWS.items() if law.on is laws.Trial}
    assert code == 0 and "SHA-256" in card["files"] and {law["number"] for law in card["laws"]} == of_models
    assert {law["outcome"] for law in card["laws"]} <= {"pass", "undecided", "not applicable"}
    assert sum(law["outcome"] == "pass" for law in card["laws"]) > len(card["laws"]) / 2


def test_a_broken_law_ends_with_1(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Verdict(8, "nobody sees the future", "fail", 3.0, 0.0, "numbers that differ: 3; allowed: 0")
    monkeypatch.setattr(laws, "report_card", lambda model: [broken])
    code, out, _ = command("doctor", "run")
    assert code == 1 and "8    nobody sees the future  fail  numbers that differ" in out


def test_the_report_card_ends_in_a_sentence(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[Outcome] = ["pass", "undecided", "pass", "not applicable"]
    card = [Verdict(number, "law", outcome, None, None, "") for number, outcome in enumerate(outcomes)]
    monkeypatch.setattr(laws, "report_card", lambda model: card)
    _, out, _ = command("doctor", "run")
    last = out.splitlines()[-1]
    assert last.startswith("2 laws hold, none broken, 1 undecided (") and "1 not applicable" in last
    assert "laws of training" in last
    assert json.loads(command("doctor", "run", "--json")[1])["summary"] == last


def test_what_an_error_in_data_advises_can_be_typed(command: Command, workplace: Path) -> None:
    (workplace / "bad.tsv").write_text("a\tb\nbad\n")
    code, _, err = command("doctor", "bad.tsv")
    assert code == 3 and "--skip-bad N" in err
    code, out, _ = command("doctor", "bad.tsv", "--skip-bad", "1")
    assert code == 0 and "bad.tsv:2" in out
    (workplace / "three.csv").write_text("one,two,three\n1,2,3\n")
    assert "three.csv:2" not in command("doctor", "three.csv", "--columns", "two,three")[1]
    code, _, err = command("doctor", "three.csv", "--columns", "two,tree")
    assert code == 3 and "did you mean three?" in err


def test_a_changed_file_is_found_before_any_law(command: Command, workplace: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(workplace / "run" / "checkpoints" / "final", tmp_path / "model")
    (folder / "recipe.toml").write_text("changed")
    code, _, err = command("doctor", str(folder))
    assert code == 4 and "recipe.toml" in err
    (folder / "MANIFEST.sha256").unlink()
    code, out, _ = command("doctor", str(folder))
    assert code == 0 and "no SHA-256 sums" in out


def test_data_is_checked_with_counts_and_places(command: Command, workplace: Path) -> None:
    (workplace / "odd.tsv").write_text("a\tb\na\tb\n\tc\n")
    code, out, _ = command("doctor", "odd.tsv", "--json")
    findings = {finding["name"]: finding for finding in json.loads(out)["findings"]}
    assert code == 0 and findings["duplicate"]["count"] == 1 and findings["empty"]["examples"] == ["odd.tsv:3"]
    assert "odd.tsv:3" in command("doctor", "odd.tsv")[1]
    assert command("doctor", "train.en", "dev.de")[0] == 3
    assert command("doctor", "absent.tsv")[0] == 3
