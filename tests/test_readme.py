"""What README.md claims is run, on small files and for a moment in place of minutes; README.zh.md has the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.main import VERBS

CHECKOUT = Path(__file__).resolve().parents[1]
ENGLISH, CHINESE = ((CHECKOUT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))
TINY = "tokenizer.vocab_size=600 model.d_model=32 model.n_heads=2 model.d_ff=64 loop.steps=20 batch.tokens=500"
CHANGES = " ".join(f"--set {change}" for change in TINY.split())
SHORTER = {long: f"{long} {CHANGES}" for long in ("--minutes 10", "--out runs/python")}
"""What is changed in the shell's blocks: the size and the number of updates, nothing else."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


APART = ("Write", "Understand", "Models of others, and for others")
"""Sections whose commands need nothing of the others', and run by themselves."""


def section(title: str) -> str:
    return ENGLISH.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def furnish(workplace: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes a folder with the texts that the README speaks of, and with `regard` in its bin/."""

    def make() -> Path:
        folder = tmp_path_factory.mktemp("readme")
        for ours, theirs in (("train", "train"), ("dev", "val"), ("test", "test")):
            for code in ("en", "de"):
                shutil.copy(workplace / f"{ours}.{code}", folder / f"{theirs}.{code}")
        command = folder / "bin" / "regard"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
        command.chmod(0o755)
        return folder

    return make


def run(folder: Path, script: str) -> str:
    """What a script prints that is run there, made short; it must not fail."""
    for long, short in SHORTER.items():
        script = script.replace(long, short)
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    words = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def home(furnish: Callable[[], Path]) -> Path:
    """A folder where the shell blocks of all other sections ran, one after another."""
    folder = furnish()
    apart = [block for title in APART for block in blocks(section(title), "sh")]
    script = "\n".join(block for block in blocks(ENGLISH, "sh") if block not in apart)
    assert all(long in ENGLISH for long in SHORTER)
    (folder / "stdout").write_text(run(folder, script))
    return folder


@pytest.mark.whole
@pytest.mark.parametrize("title", APART)
def test_the_blocks_of_a_section_run_by_themselves(
    title: str, furnish: Callable[[], Path], write_gpt2: Callable[..., Path]
) -> None:
    folder = furnish()
    (folder / "novels").mkdir()
    for name, lines in (("novels/one.txt", "train.en"), ("novels/two.txt", "train.de"), ("other.txt", "val.en")):
        shutil.copy(folder / lines, folder / name)
    write_gpt2(folder, "gpt2-folder")
    for name, lines in (("reviews.tsv", "train.en"), ("held-out.tsv", "val.en"), ("new.txt", "test.en")):
        texts = (folder / lines).read_text(encoding="utf-8").splitlines()
        label = "" if name == "new.txt" else "\t{}"
        rows = [text + label.format("people" if " man" in text or " woman" in text else "other") for text in texts]
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    said = run(folder, "\n".join(blocks(section(title), "sh")))
    words = {"Write": "bits_per_byte", "Understand": "accuracy"}.get(title, "largest difference")
    assert words in said


@pytest.mark.whole
def test_the_shell_blocks_do_what_is_said(home: Path) -> None:
    hypotheses = (home / "test.hyp.de").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in (home / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(hypotheses) == len(rows) == 20
    assert [row["translation"] for row in rows] == hypotheses
    assert all(row["alternatives"] and row["alignment"] for row in rows)
    said = (home / "stdout").read_text(encoding="utf-8")
    assert all(word in said for word in ("plan", "bleu", "perplexity", "d_model", "pass", "self-test", "duplicate"))
    weights = "checkpoints/final/model.safetensors"
    once, again = (home / "runs" / run / weights for run in ("en-de", "again"))
    assert once.read_bytes() == again.read_bytes(), "the recipe is not the run"
    assert {"recipe.toml", "run.jsonl", "curves.svg"} <= {path.name for path in (home / "runs" / "en-de").iterdir()}


@pytest.mark.whole
@pytest.mark.parametrize("number", range(len(blocks(ENGLISH, "python"))))
def test_the_python_blocks_run(
    home: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    monkeypatch.chdir(home)
    exec(compile(blocks(ENGLISH, "python")[number], "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_every_verb_is_named_and_every_named_verb_is_there() -> None:
    named = set(
        re.findall(r"\bregard ([a-z]+)", "\n".join([*blocks(ENGLISH, "sh"), *re.findall(r"`([^`\n]+)`", ENGLISH)]))
    )
    assert named == set(VERBS)


def test_every_make_target_is_there() -> None:
    targets = re.findall(r"^make (\w+)", "\n".join(blocks(ENGLISH, "text")), flags=re.MULTILINE)
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    assert targets and all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


@pytest.mark.parametrize("part", ["sh", "python", "text"])
def test_the_chinese_readme_has_the_same_blocks(part: str) -> None:
    def bare(text: str) -> list[str]:
        return [re.sub(r" +# .*", "", block) for block in blocks(text, part)]

    assert bare(ENGLISH) == bare(CHINESE) != []


@pytest.mark.parametrize("part", ["^## ", r"^\| `(\w+)`", r"^\| (\d+)", "TODO-LEAD"])
def test_the_chinese_readme_has_the_same_parts(part: str) -> None:
    assert re.findall(part, ENGLISH, flags=re.MULTILINE) == re.findall(part, CHINESE, flags=re.MULTILINE)


def test_links_lead_somewhere() -> None:
    for text in (ENGLISH, CHINESE):
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (CHECKOUT / target).exists(), target
