"""What docs/look.md claims is run; docs/look.zh.md has the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
ENGLISH, CHINESE = ((CHECKOUT / "docs" / name).read_text(encoding="utf-8") for name in ("look.md", "look.zh.md"))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def home(workplace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained translator in runs/en-de, and with `regard` in its bin/."""
    folder = tmp_path_factory.mktemp("look")
    (folder / "runs").mkdir()
    (folder / "runs" / "en-de").symlink_to(workplace / "run")
    command = folder / "bin" / "regard"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.mark.whole
def test_the_shell_block_does_what_is_said(home: Path) -> None:
    (script,) = blocks(ENGLISH, "sh")
    environment = os.environ | {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    words = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "decoder.cross, layer 0" in done.stdout
    assert "regard-data" in (home / "look.html").read_text(encoding="utf-8")


@pytest.mark.whole
@pytest.mark.parametrize("number", range(len(blocks(ENGLISH, "python"))))
def test_the_python_blocks_run(
    home: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    monkeypatch.chdir(home)
    exec(compile(blocks(ENGLISH, "python")[number], "look.md", "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("part", ["sh", "python"])
def test_the_chinese_page_has_the_same_blocks(part: str) -> None:
    def bare(text: str) -> list[str]:
        return [re.sub(r" +# .*", "", block) for block in blocks(text, part)]

    assert bare(ENGLISH) == bare(CHINESE) != []


@pytest.mark.parametrize("part", ["^## ", r"^\| (\d)", r"^(\*\*)"])
def test_the_chinese_page_has_the_same_parts(part: str) -> None:
    assert re.findall(part, ENGLISH, flags=re.MULTILINE) == re.findall(part, CHINESE, flags=re.MULTILINE) != []
