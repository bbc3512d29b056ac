"""The machine describes itself truly, measures within its budget, and picks by what it measured."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

from regard import machine
from regard.errors import ConfigError
from regard.machine import AttentionRow, Speeds

CPU = torch.device("cpu")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """With more threads than free cores, a barrier waits for other programs, and a timing says nothing."""
    before = torch.get_num_threads()
    machine.set_threads(1)
    yield
    machine.set_threads(before)


def test_the_description_agrees_with_psutil() -> None:
    found = machine.describe_machine()
    assert found.devices[0] == "cpu"
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.memory_bytes is not None and found.available_bytes is not None
    assert 0 < found.available_bytes <= found.memory_bytes <= psutil.virtual_memory().total
    assert found.disk_free_bytes == pytest.approx(psutil.disk_usage(".").free, rel=0.05)


def test_a_folder_not_yet_made_lies_on_the_disk_of_its_parent(tmp_path: Path) -> None:
    there, later = (machine.describe_machine(path) for path in (tmp_path, tmp_path / "runs" / "new"))
    assert later.disk_free_bytes == pytest.approx(there.disk_free_bytes, rel=0.05)


def test_pick_device_knows_what_is_there() -> None:
    assert machine.pick_device("cpu") == CPU
    assert machine.pick_device() == machine.pick_device("auto")
    absent = f"cuda:{torch.cuda.device_count()}"
    for name in ("gpu", "", "cpu:", "cpu:1", "cuda:-1", "cuda:x", absent):
        with pytest.raises(ConfigError) as caught:
            machine.pick_device(name)
        assert "cpu" in caught.value.expected and caught.value.got == name


def test_set_threads_and_set_seed(one_thread: None) -> None:
    machine.set_threads(2)
    assert torch.get_num_threads() == 2
    with pytest.raises(ConfigError):
        machine.set_threads(0)
    for seed in (-1, 2**63):
        with pytest.raises(ConfigError, match="no such seed"):
            machine.set_seed(seed)
    machine.set_seed(2**63 - 1)
    draws = []
    for _ in range(2):
        machine.set_seed(2**40 + 1)
        draws.append(torch.rand(3).tolist())
    assert draws[0] == draws[1]


def test_measuring_keeps_its_budget_and_the_cache_keeps_the_table(
    one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "others_at_work", lambda: False)
    started = time.process_time()
    measured = machine.speeds(CPU)
    assert time.process_time() - started < 5  # the budget is 2; torch's first backward pass imports for another
    assert min(*measured.matmul_flops.values(), measured.read_bytes_per_second) > 0
    assert [row.length for row in measured.attention if row.dtype == "float32"][:3] == [16, 32, 64]
    (file,) = (tmp_path / "regard").iterdir()
    before = file.stat().st_mtime_ns
    assert machine.speeds(CPU) == measured and file.stat().st_mtime_ns == before
    monkeypatch.setattr(machine, "measure_speeds", lambda device: replace(measured, read_bytes_per_second=1.0))
    file.write_text("{ half a fi")
    assert machine.speeds(CPU).read_bytes_per_second == 1.0
    assert json.loads(file.read_text())["table"]["read_bytes_per_second"] == 1.0
    machine.set_threads(2)
    machine.speeds(CPU)
    assert len(list((tmp_path / "regard").iterdir())) == 2, "another thread count is another table"


def test_what_was_measured_beside_others_is_measured_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first look at a busy machine must not slow down every day after it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tables = [Speeds("cpu", {}, rate, ()) for rate in (1.0, 2.0, 3.0)]
    monkeypatch.setattr(machine, "measure_speeds", lambda device: tables.pop(0))
    rates = []
    for busy in (True, True, False, False, True):
        monkeypatch.setattr(machine, "others_at_work", lambda busy=busy: busy)
        rates.append(machine.speeds(CPU).read_bytes_per_second)
    assert rates == [1.0, 1.0, 2.0, 2.0, 2.0]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    table = Speeds("cpu", {}, 1.0, ())
    monkeypatch.setattr(machine, "measure_speeds", lambda device: table)
    assert machine.speeds(CPU) is table


def test_the_table_chooses() -> None:
    rows = (
        AttentionRow("bfloat16", 64, fused_seconds=2.0, open_seconds=1.0),
        AttentionRow("bfloat16", 1024, fused_seconds=1.0, open_seconds=2.0),
        AttentionRow("float32", 64, fused_seconds=1.0, open_seconds=0.99),
    )
    table = Speeds("cpu", {"float32": 200e9, "bfloat16": 420e9}, 35e9, rows)

    def kernel(dtype: torch.dtype, length: int, device: torch.device = CPU) -> str:
        return machine.attention_kernel(table, device, dtype, length)

    assert [kernel(torch.bfloat16, n) for n in (0, 1, 64, 255, 257, 1024)] == ["open"] * 4 + ["fused"] * 2
    assert kernel(torch.float32, 64) == "fused", "a near tie goes to the path with less memory"
    assert kernel(torch.float16, 64) == "fused", "nothing was measured"
    assert kernel(torch.bfloat16, 64, torch.device("cuda")) == "fused", "measured elsewhere"
    open_always = replace(table, attention=rows[:1])
    assert machine.attention_kernel(open_always, CPU, torch.bfloat16, 65) == "fused", "beyond what was measured"


def test_the_self_test_passes_here_and_fails_where_torch_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(passed for _, passed, _ in machine.self_test())
    true_softmax = torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda x, dim: 1.01 * true_softmax(x, dim))
    assert {name for name, passed, _ in machine.self_test() if not passed} == {"softmax", "attention"}
