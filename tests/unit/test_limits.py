"""A control group's limits are the machine's, in either version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard import limits


def test_a_group_limit_counts_in_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total, _ = limits.memory()
    assert total is not None
    for version, files in {
        "v2": {"cpu.max": "50000 100000", "memory.max": "1000000", "memory.current": "400000"},
        "v1": {
            "cpu.cfs_quota_us": "50000",
            "cpu.cfs_period_us": "100000",
            "memory.limit_in_bytes": "1000000",
            "memory.usage_in_bytes": "400000",
        },
    }.items():
        group = tmp_path / version
        group.mkdir()
        for name, text in {**files, "memory.stat": "anon 1\ninactive_file 50000\n"}.items():
            (group / name).write_text(text)
        monkeypatch.setattr(limits, "_control_groups", lambda controller, group=group: [group])
        assert limits.usable_cores() == 1
        assert limits.memory() == (1_000_000, 650_000)
    (tmp_path / "v2" / "memory.max").write_text("max")
    (tmp_path / "v2" / "cpu.max").write_text("max 100000")
    monkeypatch.setattr(limits, "_control_groups", lambda controller: [tmp_path / "v2"])
    assert limits.memory()[0] == total
    assert limits.usable_cores() == len(os.sched_getaffinity(0))
