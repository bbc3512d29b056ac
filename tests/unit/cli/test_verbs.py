"""`regard doctor` and `regard completion`, run for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard import machine
from regard.cli.main import main


def test_doctor_json_is_flat_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--device", "cpu", "--threads", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"regard", "torch", "python", "cores", "memory_bytes", "disk_free_bytes", "self_test"} <= set(found)
    assert (found["device"], found["threads"]) == ("cpu", 2)
    assert all(check["ok"] for check in found["self_test"])


def test_doctor_shows_a_table_and_fails_with_the_self_test(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "self_test", lambda device: [("product", False, "7 is 8")])
    assert main(["doctor", "--threads", "2"]) == 1
    out = capsys.readouterr().out
    assert "memory" in out and "FAILED  7 is 8" in out


@pytest.mark.whole
def test_doctor_speed_shows_the_measured_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    table = machine.Speeds(
        "cpu", {"float32": 2e11, "bfloat16": 4e11}, 3e10, (machine.AttentionRow("bfloat16", 64, 0.002, 0.001),)
    )
    monkeypatch.setattr(machine, "measure_speeds", lambda device: table)
    assert main(["doctor", "--speed", "--device", "cpu", "--threads", "2"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["bfloat16", "64", "2.00", "1.00", "open"] in lines
    assert any(line[:3] == ["training", "in", "float32;"] and line[-1] == "bfloat16" for line in lines)


@pytest.mark.whole
def test_flag_beats_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("REGARD_DEVICE", "no-such-device")
    assert main(["doctor", "--threads", "2", "--device", "cpu"]) == 0
    assert main(["doctor", "--threads", "2"]) == 2
    assert "no-such-device" in capsys.readouterr().err
    command = [sys.executable, "-m", "regard", "doctor", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "REGARD_DEVICE": "cpu"}
    found = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert json.loads(found)["threads"] == 1


def test_bash_completes_verbs_flags_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def completed(*words: str) -> list[str]:
        call = f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _regard; echo "${{COMPREPLY[@]}}"'
        shell = ["bash", "-c", f"{script}\n{call}"]
        return subprocess.run(shell, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()

    assert completed("regard", "doc") == ["doctor"]
    assert completed("regard", "doctor", "--s") == ["--seed", "--speed", "--skip-bad"]
    assert completed("regard", "train", "--fr") == ["--from"]
    assert completed("regard", "doctor", "x") == []
    assert "--shell" not in completed("regard", "completion", "--")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_name_every_verb_and_flag(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "doctor" in script and "speed" in script and "threads" in script
