"""`regard compare`: it finds a real difference, finds none where there is none, and agrees with sacrebleu."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.compare import compare
from regard.data import read_lines

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def systems(data_dir: Callable[[str], Path]) -> dict[str, list[str]]:
    """300 outputs each of real systems of WMT22 en-de, and the reference."""
    folder = data_dir("wmt22")
    names = {"OpenNMT": "hyp.OpenNMT", "Online-B": "hyp.Online-B", "PROMT": "hyp.PROMT", "reference": "refA"}
    return {name: list(read_lines(folder / f"en-de.{file}.de.gz"))[:300] for name, file in names.items()}


def test_it_is_sacrebleus_paired_bootstrap(systems: dict[str, list[str]], tmp_path: Path) -> None:
    for name, lines in systems.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    # As text: sacrebleu 2.6 cannot write its paired test as JSON (a float32 in it).
    words = "sacrebleu reference -i OpenNMT Online-B -m bleu chrf --paired-bs -f text -w 4"
    done = subprocess.run([sys.executable, "-m", *words.split()], cwd=tmp_path, capture_output=True, check=True)
    table = done.stdout.decode()
    scores, p = re.findall(r"Online-B │ +([\d.]+) .*│ +([\d.]+) ", table)[0], re.findall(r"p = ([\d.]+)", table)
    ours = compare(systems["OpenNMT"], systems["Online-B"], systems["reference"], "de")
    for i, name in enumerate(("bleu", "chrf")):
        assert ours[name]["two"] == pytest.approx(float(scores[i]), abs=1e-4)
        assert ours[name]["p"] == pytest.approx(float(p[i]), abs=1e-4)
        assert ours[name]["difference"] == ours[name]["two"] - ours[name]["one"]
        assert ours[name]["signature"] in table and "bs:1000|seed:12345" in ours[name]["signature"]
    assert ours["bleu"]["p"] < 0.05, "Online-B is the better system by every judgement of WMT22"


def test_equal_outputs_are_never_called_different(systems: dict[str, list[str]]) -> None:
    for found in compare(systems["PROMT"], systems["PROMT"], systems["reference"], "de").values():
        assert (found["difference"], found["p"]) == (0.0, 1.0)


@pytest.mark.whole
def test_the_same_model_twice_is_said(command: Command, workplace: Path, tmp_path: Path) -> None:
    code, out, _ = command("compare", "run", "run/checkpoints/final", "test.en", "test.de", "--beam", "1")
    assert code == 0 and "the same model twice" in out and "20 translations" in out
    shutil.copytree(workplace / "run", tmp_path / "copy")
    code, out, _ = command("compare", "run", str(tmp_path / "copy"), "test.en", "test.de", "--beam", "1", "--json")
    report = json.loads(out)
    assert report["same_translations"] == report["examples"] == 20 and "two models that agree" in report["sentences"][0]


@pytest.mark.whole
def test_two_models_two_scores_one_sentence_each(command: Command) -> None:
    words = ("run", "run/checkpoints/step-000020", "test.en", "test.de", "--beam", "1")
    code, out, _ = command("compare", *words, "--json")
    metrics = json.loads(out)["metrics"]
    scored = json.loads(command("evaluate", words[1], *words[2:], "--json")[1])["metrics"]
    assert code == 0 and metrics["chrf"]["two"] == pytest.approx(scored["chrf"]["score"])
    code, out, _ = command("compare", *words)
    assert code == 0 and "chrF: " in out and ("is real (p = " in out or "cannot be told apart" in out)


def test_several_target_languages_are_compared_one_at_a_time(command: Command, workplace: Path) -> None:
    (workplace / "two.tsv").write_text("source\ttarget\ttarget_language\na\tb\tde\na\tc\tfr\n")
    code, _, err = command("compare", "run", "run", "two.tsv")
    assert code == 2 and "several languages" in err and "de, fr" in err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [("run nothing test.en test.de", 4, "no model folder"), ("run run test.en dev.de", 3, "20 and 40 lines")],
)
def test_mistakes(command: Command, words: str, code: int, says: str) -> None:
    got, out, err = command("compare", *words.split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err
