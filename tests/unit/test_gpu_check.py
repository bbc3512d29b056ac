"""scripts/gpu_check, as far as a machine without a GPU can tell: every path of it on the CPU, with a tiny model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

CHECKOUT = Path(__file__).resolve().parents[2]
BARE = """
import sys
for name in ("tyro", "rich", "pydantic", "matplotlib", "sacrebleu", "transformers", "pytest"):
    sys.modules[name] = None
"""
"""A sitecustomize.py for a machine that has torch, numpy, tokenizers and safetensors."""


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> ModuleType:
    """The script as a module, with a compiler that compiles nothing: the real one takes minutes on a busy core."""
    monkeypatch.syspath_prepend(str(CHECKOUT / "bench"))
    import gpu_check

    monkeypatch.setattr(torch, "compile", lambda run, **_: run)
    return gpu_check


def script(tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "sitecustomize.py").write_text(BARE)
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [str(CHECKOUT / "scripts" / "gpu_check"), *flags]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)


@pytest.mark.whole
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_and_ends_with_3(tmp_path: Path) -> None:
    run = script(tmp_path)
    assert run.returncode == 3 and run.stdout == ""
    assert "no GPU" in run.stderr and torch.__version__ in run.stderr and "Traceback" not in run.stderr


@pytest.mark.slow
def test_a_table_from_a_bare_python(tmp_path: Path) -> None:
    run = script(tmp_path, "--device", "cpu", "--tiny", "--parts", "half")
    assert run.returncode == 0, run.stdout + run.stderr
    rows = [line for line in run.stdout.splitlines() if line.startswith("half ")]
    assert [row.split()[-1] for row in rows] == ["logits", "float16"]
    assert run.stdout.splitlines()[-1].startswith("none failed")


@pytest.mark.parametrize("part", ["laws", "half", "compile", "train", "decode"])
def test_every_part_has_rows_and_none_fails(check: ModuleType, part: str) -> None:
    setting = check.Setting(torch.device("cpu"), **check.TINY)
    rows = list(check.PARTS[part][0](setting))
    assert [row for row in rows if row.outcome == "FAILED"] == []
    assert any(row.outcome == "ok" for row in rows) and {row.part for row in rows} == {part}


def test_every_kind_of_model_is_near_itself_in_bfloat16(check: ModuleType) -> None:
    setting = check.Setting(torch.device("cpu"), seconds=0.1)
    rows = [row for row in check.half(setting) if row.outcome != "skipped"]
    assert len(rows) >= 8 and {row.outcome for row in rows} == {"ok"}, rows


def test_a_broken_law_and_wrong_gradients_fail(check: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu_laws

    from regard.laws import Verdict

    broken = Verdict(2, "padding", "fail", 0.5, 1e-4, "the largest gap: 0.5")
    monkeypatch.setattr(gpu_laws, "report_card", lambda model: [broken])
    real = gpu_laws.gradients
    calls = []

    def other(model):
        calls.append(model)
        return [g * (1 + 0.1 * len(calls)) for g in real(model)]

    monkeypatch.setattr(gpu_laws, "gradients", other)
    rows = list(check.laws(check.Setting(torch.device("cpu"), **check.TINY)))
    failed = {row.what: row.found for row in rows if row.outcome == "FAILED"}
    assert len(failed) == 2 and any("law 2 (padding)" in found for found in failed.values())


def test_what_stops_a_part_is_a_row(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stops(setting):
        yield check.Row("decode", "first", "ok", "")
        raise RuntimeError("CUDA error: out of memory\nmore of it")

    monkeypatch.setitem(check.PARTS, "decode", (stops, 60))
    check.work("decode", check.Setting(torch.device("cpu"), **check.TINY))
    first, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["outcome"] == "ok" and last["outcome"] == "FAILED" and "out of memory more of it" in last["found"]


def test_a_part_that_takes_too_long_is_given_up(check: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(check.PARTS, "half", (check.half, 0.05))
    assert [(row.what, row.outcome) for row in check.run_part("half", ["--device", "cpu", "--tiny"])] == [
        ("stopped", "FAILED")
    ]
