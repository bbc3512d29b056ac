"""The process is told about its machine once, and works the same before and after."""

from __future__ import annotations

import sys

import pytest
import torch

from regard.machine import AttentionRow, Speeds
from regard.model import attention, use_kernels
from regard.runtime import keep_freed_memory, longest_open, open_attention_until


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_freed_memory_is_kept_for_reuse() -> None:
    assert keep_freed_memory()
    before = torch.arange(4_000_000.0).sum()
    assert torch.equal(torch.arange(4_000_000.0).sum(), before)


def test_the_open_path_ends_where_the_table_first_says_fused() -> None:
    rows = tuple(AttentionRow("float32", n, 1.0, opened) for n, opened in ((16, 0.5), (32, 0.5), (64, 2.0), (128, 0.5)))
    table = Speeds("cpu", {"float32": 1.0, "bfloat16": 1.0}, 1.0, rows)
    cpu = torch.device("cpu")
    assert longest_open(table, cpu, torch.float32) == 32
    assert longest_open(table, cpu, torch.bfloat16) == 0, "nothing was measured"
    assert longest_open(table, torch.device("cuda"), torch.float32) == 0, "measured elsewhere"


def test_attention_keeps_to_the_number_it_was_given() -> None:
    try:
        open_attention_until(32)
        chosen = [attention._kernel_table("cpu", torch.float32, keys) for keys in (1, 32, 33)]
        assert chosen == ["open", "open", "fused"]
    finally:
        use_kernels(None)
