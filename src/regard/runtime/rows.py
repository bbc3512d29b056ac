"""Whether this machine has compiled kernels for the steps of decoding, and what calls them.

What is unusual: each is compiled when it is first called with numbers of a kind (about a second, then kept by Numba on
disk), so the first text after an installation waits. Where Numba or its OpenMP layer is missing, `absence` says
so in words, and plain torch does the work.
What it does not know: models, and what is quicker (`choice.py`).
"""

from __future__ import annotations

import functools
import threading
import warnings
from typing import Any

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.bfloat16, torch.int8)
"""What the matrices may consist of."""


@functools.cache
def absence() -> str | None:
    """Why there are no kernels for few rows here, in words; None: there are."""
    try:
        from regard.runtime.compiled import rows_times_matrix
    except ImportError as error:
        if error.name in ("numba", "llvmlite"):
            return "Numba is not installed: pip install 'regard[fast]'"
        return f"Numba cannot be used here: {error}"
    except Exception as error:  # it looks for a folder to keep what it compiles in before it compiles anything
        mend = "; NUMBA_CACHE_DIR names a folder that can be written" if "cache" in str(error) else ""
        return f"Numba cannot be used here: {_first_line(error)}{mend}"
    try:
        _run(rows_times_matrix, torch.zeros(1, 8), Matrix(torch.zeros(8, 8)), torch.empty(1, 8))
    except Exception as error:  # whatever keeps a compiler from compiling here is a reason to do without it
        return f"Numba cannot compile here: {_first_line(error)}"
    return None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


class Matrix:
    """A matrix w (N, K) as the kernels take it, with a scale and a bias for each of its outputs."""

    def __init__(self, weight: Tensor, scale: Tensor | None = None, bias: Tensor | None = None) -> None:
        n = weight.size(0)
        assert weight.is_contiguous() and weight.dtype in DTYPES and weight.device.type == "cpu"
        self.outputs, self.inputs = weight.shape
        self.weight = _array(weight)
        self.scale = _array(torch.ones(n) if scale is None else scale.float().contiguous())
        self.bias = _array(torch.zeros(n) if bias is None else bias.float().contiguous())


def few_rows_times(x: Tensor, matrix: Matrix, out_dtype: torch.dtype, activation: int = 0) -> Tensor:
    """x (.., K) in float32 or bfloat16, few rows -> sigma(x w^T * scale + bias), (.., N); where `absence` is None.

    Args:
        activation: sigma, one of `activations()`; 0: none.
    """
    from regard.runtime.compiled import rows_times_matrix

    out = torch.empty((*x.shape[:-1], matrix.outputs), dtype=out_dtype)
    _run(rows_times_matrix, x.contiguous(), matrix, out, activation)
    return out


def activations() -> dict[str, int]:
    """What `few_rows_times` can end with, by the activations' names; only where `absence` is None."""
    from regard.runtime.compiled import ACTIVATIONS

    return ACTIVATIONS


def int8_rows_times(x: Tensor, w: Tensor, matrix: Matrix, activation: int = 0) -> Tensor:
    """x (.., K) times w (N, K) int8, any number of rows: rounded, multiplied as integers, and scaled, in three passes.

    Only where `absence` is None. What `regard.runtime.products.int8_linear` does in nine.
    """
    from regard.runtime.compiled import from_whole, to_whole

    x = x.contiguous()
    threads, rows = torch.get_num_threads(), x.numel() // matrix.inputs
    _use_threads(threads)
    whole, steps = torch.empty(rows, matrix.inputs, dtype=torch.int8), torch.empty(rows)
    to_whole(x.data_ptr(), _LIKE[x.dtype], whole.data_ptr(), _LIKE[torch.int8], steps.numpy(), matrix.inputs, threads)
    sums = torch._int_mm(whole, w.T)
    out = torch.empty((*x.shape[:-1], matrix.outputs), dtype=x.dtype)
    from_whole(
        sums.data_ptr(), _LIKE[torch.int32], steps.numpy(), matrix.scale, matrix.bias, activation, out.data_ptr(),
        _LIKE[x.dtype], threads,
    )  # fmt: skip
    return out


def few_queries_attend(
    q: Tensor, k: Tensor, v: Tensor, shown: Tensor | None, scale: float, lies: Tensor | None = None
) -> Tensor:
    """softmax(scale Q K^T) V of a few queries over the keys shown; only where `absence` is None.

    Args:
        q: (B, H, T, d) float32 or bfloat16.  k, v: (P, K, S, d) of the same; in each the d numbers lie together.
        shown: (B|1, S) booleans; None: all.
        lies: (B, S) the row of k and v in which each key of a row lies; None: its own, and P = B.

    Returns:
        (B, H, T, d), laid out as (B, T, H, d); zero for a query that sees no key.
    """
    from regard.runtime.compiled import few_queries

    batch, heads, queries, width = q.shape
    out = torch.empty((batch, queries, heads, width), dtype=q.dtype)
    seen = NONE_HIDDEN if shown is None else shown.expand(batch, -1).contiguous().numpy()
    rows = OWN_ROWS if lies is None else lies.contiguous().numpy()
    threads = torch.get_num_threads()
    _use_threads(threads)
    few_queries(
        q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), _LIKE[q.dtype], seen, rows,
        (batch, heads, queries, k.size(1), k.size(2), width), _steps(q), _steps(k), _steps(v), scale, threads,
    )  # fmt: skip
    return out.transpose(1, 2)


def _steps(x: Tensor) -> tuple[int, int, int]:
    """Bytes from one row, head and place of x (B, H, T, d) to the next."""
    size, (row, head, place, element) = x.element_size(), x.stride()
    assert element == 1
    return row * size, head * size, place * size


def _run(kernel: Any, x: Tensor, matrix: Matrix, out: Tensor, activation: int = 0) -> None:
    rows, threads = x.numel() // matrix.inputs, torch.get_num_threads()
    _use_threads(threads)
    kernel(
        x.data_ptr(), _LIKE[x.dtype], matrix.weight, matrix.scale, matrix.bias, activation, out.data_ptr(),
        _LIKE[out.dtype], rows, threads,
    )  # fmt: skip


class _Threads(threading.local):
    """How many threads Numba was told to use by this one; it is asked in every product, and Numba takes 2 us to say."""

    told = 0


_THREADS = _Threads()


def _use_threads(count: int) -> None:
    if _THREADS.told != count:
        import numba

        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        _THREADS.told = count


def _array(tensor: Tensor) -> Any:
    """The same memory as NumPy has it; bfloat16, which NumPy has not, as its bits."""
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()


with warnings.catch_warnings():
    _LIKE = {
        dtype: _array(torch.empty(0, dtype=dtype)) for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.int32)
    }
"""An array of each kind of numbers that go in and come out."""

NONE_HIDDEN = torch.empty(0, 0, dtype=torch.bool).numpy()
"""What stands for a mask that hides nothing."""
OWN_ROWS = torch.empty(0, 0, dtype=torch.long).numpy()
"""What stands for keys that lie in the rows of their queries."""
