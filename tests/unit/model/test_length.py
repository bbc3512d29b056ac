"""Decision 11 of the architecture: what a pass holds grows with the length of its row, not with its square."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
SHORTER, LONGER = 2048, 4096

MEASURE = f"""
import json, sys
import torch
sys.path.insert(0, {str(BENCH)!r})
from length import growth, make_pass
torch.set_num_threads(1)
run = make_pass(sys.argv[1], "training", {LONGER})
run(64)
print(json.dumps([growth(run, length) for length in ({SHORTER}, {LONGER})]))
"""


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("none", "learned", "rope", "alibi", "documents")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of resident memory is read from /proc")
@pytest.mark.parametrize("scheme", ["window", *SLOW])
def test_twice_the_length_is_about_twice_the_memory(scheme: str) -> None:
    """Of forward and backward, in a process of its own; a T x T tensor would make it four times."""
    run = subprocess.run([sys.executable, "-c", MEASURE, scheme], capture_output=True, text=True, check=True)
    shorter, longer = json.loads(run.stdout)
    assert 1e6 < longer < 2.6 * shorter, (shorter, longer)
