"""`regard doctor` on a model and on data; the machine is in test_verbs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import Tensor

from regard import laws
from regard.laws import Verdict
from regard.laws.law import Outcome
from regard.runtime.fast import FastAttention

Command = Callable[..., tuple[int, str, str]]


def test_a_models_report_card(command: Command) -> None:
    code, out, _ = command("doctor", "run", "--json")
    card = json.loads(out)
    of_models = {number for number, law in laws.LAWS.items() if law.on is laws.Trial}
    assert code == 0 and "SHA-256" in card["files"] and {law["number"] for law in card["laws"]} == of_models
    assert {law["outcome"] for law in card["laws"]} <= {"pass", "undecided", "not applicable"}
    assert sum(law["outcome"] == "pass" for law in card["laws"]) > len(card["laws"]) / 2


def test_the_laws_bind_what_is_used_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the runtime alone: its one product of Q, K and V gives them in another order."""
    project = FastAttention.project

    def turned(self: FastAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = project(self, x)
        return q, k, v.flip(2) if self.qkv is not None else v

    monkeypatch.setattr(FastAttention, "project", turned)
    code, out, _ = command("doctor", "run", "--json")
    card = json.loads(out)
    assert code == 1 and not any(law["outcome"] == "fail" for law in card["laws"])
    assert any(law["outcome"] == "fail" for law in card["in_use"])
    assert "packed for this machine: " in command("doctor", "run")[1]


def test_a_broken_law_ends_with_1(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Verdict(8, "nobody sees the future", "fail", 3.0, 0.0, "numbers that differ: 3; allowed: 0")
    monkeypatch.setattr(laws, "report_card", lambda model, numbers=None: [broken] if numbers is None else [])
    code, out, _ = command("doctor", "run")
    assert code == 1 and "8    nobody sees the future  fail  numbers that differ" in out


def test_the_report_card_ends_in_a_sentence(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[Outcome] = ["pass", "undecided", "pass", "not applicable"]
    card = [Verdict(number, "law", outcome, None, None, "") for number, outcome in enumerate(outcomes)]
    monkeypatch.setattr(laws, "report_card", lambda model, numbers=None: card)
    _, out, _ = command("doctor", "run")
    last, _, used = out.splitlines()[-1].partition(" 2 of them")
    assert used == " also of the model as it is packed for this machine."
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


FILMS = [(f"film number {i} , said to be fine", "good" if i % 3 else "bad") for i in range(24)]
LABELLED = "".join(f"{text}\t{label}\n" for text, label in FILMS)
SENTENCES = "EU B-ORG\nrejects O\n\nGerman B-MISC\ncalls O\n\n" * 4


@pytest.mark.parametrize(
    ("name", "text", "kind", "said"),
    [
        ("l1.tsv", "text\tlabel\n" + LABELLED, "one", "2 classes: good 16, bad 8"),
        ("l2.tsv", LABELLED + "an odd one\todd\n", "one", "1 of 25 examples (4.0%) are the only one of their class"),
        ("l3.tsv", "tweet\tverdict\n" + LABELLED, "one", "2 classes: good 16, bad 8"),
        ("l4.csv", "id,label,review\n" + "".join(f"{i},{label},a film\n" for i, (_, label) in enumerate(FILMS)), "one",
         "24 labelled texts"),
        ("l5.tsv", "".join(f"premise {i % 4}\thypothesis {i}\t{i % 2}\n" for i in range(24)), "one", "24 labelled"),
        ("l6.txt", "__label__good fine\n__label__bad dull\n", "one", "2 classes"),
        ("l7.txt", "NUM:dist How far ?\nHUM:ind Who ?\n", "one", "2 classes"),
        ("m7.txt", "__label__good fine\n__label__bad __label__long dull\n", "several", "3 classes"),
        ("l8.jsonl", '{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": []}\n', "several", "2 classes: x 1"),
        ("l9.tsv", "text\tlabels\na\tx|y\nb\tx\nc\t\n", "several", "2 classes: x 2, y 1"),
        ("l10.json", "".join(f'{{"text1": "a", "text2": "b", "label": {i}}}\n' for i in range(2)), "one", "2 labelled"),
        ("t1.conll", SENTENCES, "tags", "8 spans: ORG 4, MISC 4"),
        ("t2.txt", SENTENCES.replace(" ", " X Y "), "tags", "8 sentences"),
        ("t3.tsv", "-DOCSTART-\tO\n\n" + SENTENCES.replace(" ", "\t"), "tags", "8 sentences"),
        ("q1.tsv", "question\tcontext\tanswer\tstart\nWho?\tIt was a dog.\ta dog\t7\n", "questions", "questions on 1"),
        ("p1.tsv", "source\ttarget\n" + "a\tb\n" * 12, "pairs", "12 pairs"),
        ("p2.tsv", "".join(f"the number {i}\tdie Zahl {i}\n" for i in range(24)), "pairs", "24 pairs"),
        ("p3.tsv", "".join(f"the {i}\tdie {i}\tCC-BY 2.0\n" for i in range(24)), "pairs", "24 pairs"),
        ("p4.jsonl", '{"translation": {"en": "a", "de": "b"}}\n', "pairs", "1 pairs"),
    ],
)  # fmt: skip
def test_each_kind_of_data_gets_its_own_checks(
    command: Command, workplace: Path, name: str, text: str, kind: str, said: str
) -> None:
    (workplace / name).write_text(text)
    code, out, err = command("doctor", name, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["kind"] == kind and any(said in finding["sentence"] for finding in found["findings"])
    shown = command("doctor", name)[1]
    assert shown.startswith("read as ") and said in " ".join(shown.split())


def test_labelled_data_that_cannot_be_trained_on(command: Command, workplace: Path) -> None:
    (workplace / "swapped.tsv").write_text("".join(f"{label}\t{text}\n" for text, label in FILMS))
    code, _, err = command("doctor", "swapped.tsv")
    assert code == 3 and "--columns 2,1" in err
    code, out, _ = command("doctor", "swapped.tsv", "--columns", "2,1")
    assert code == 0 and "2 classes: good 16, bad 8" in out
    (workplace / "alike.tsv").write_text("text\tlabel\n" + "fine\tgood\n" * 9)
    code, _, err = command("doctor", "alike.tsv")
    assert code == 3 and "nothing to tell apart" in err
    (workplace / "bad.conll").write_text(SENTENCES + "alone\n")
    code, _, err = command("doctor", "bad.conll")
    assert code == 3 and "bad.conll:25" in err and "a word and its tag" in err
    assert command("doctor", "bad.conll", "--skip-bad", "1")[0] == 0


def test_columns_say_what_is_the_label(command: Command, workplace: Path) -> None:
    rows = "".join(f"{label},{i % 2},{text.replace(',', '')}\n" for i, (text, label) in enumerate(FILMS))
    (workplace / "four.csv").write_text("mood,half,said\n" + rows)
    assert "2 classes: good 16, bad 8" in command("doctor", "four.csv", "--columns", "said,mood")[1]
    assert "labelled pairs of texts" in command("doctor", "four.csv", "--columns", "said,mood,half")[1]
    (workplace / "pair.tsv").write_text(
        "".join(f"the {i}\tdie {i}\t{'news' if i % 2 else 'talk'}\n" for i in range(24))
    )
    assert "24 labelled pairs" in command("doctor", "pair.tsv")[1]
    assert "24 pairs" in command("doctor", "pair.tsv", "--columns", "1,2")[1]


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
