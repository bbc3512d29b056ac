"""The process is told about its machine once, and works the same before and after."""

from __future__ import annotations

import sys

import pytest
import torch

from regard.model import attention, use_kernels
from regard.runtime import keep_freed_memory, use_measured_kernels


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_freed_memory_is_kept_for_reuse() -> None:
    assert keep_freed_memory()
    before = torch.arange(4_000_000.0).sum()
    assert torch.equal(torch.arange(4_000_000.0).sum(), before)


def test_attention_follows_the_measured_table(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        use_measured_kernels(torch.device("cpu"))
        assert attention._kernel_table("cpu", torch.float32, 64) in ("fused", "open")
        assert list(tmp_path.glob("regard/speeds-*.json"))
    finally:
        use_kernels(None)
