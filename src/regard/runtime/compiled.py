"""What a step of decoding is made of, compiled for this machine by Numba (extra `fast`).

    few rows times a matrix     out[r, i] = scale[i] * sum_k x[r, k] * w[i, k] + bias[i]
    few queries' attention      z[t] = sum_s softmax_s(scale * q[t] . k[s]) v[s]         over the visible s

With a handful of rows a product is nothing but reading the matrix, as a query's attention is reading the cache, so what
counts is bytes and how fast they come. Here each core reads its own stretch of rows of w, in whatever form they lie
(float32, bfloat16, int8), and widens them in its registers; libraries made for many rows first arrange for work that
never comes.
What is unusual: it is written in Python. The sums of an output element are one core's, so any number of threads gives
the same bits; NaN stays NaN (of the fast-math flags only those that reorder and contract sums are set).
What it does not know: models. It is imported only where Numba is (`rows.py`).

Shapes: M rows, K inputs, N outputs; B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core.errors import NumbaTypeError
from numba.extending import intrinsic, overload

numba.config.THREADING_LAYER = "omp"  # of the layers that there may be, the one that several threads may enter at once
_SUMS = {"reassoc", "contract", "nsz"}
_AS_WRITTEN = {"contract"}
"""Said where rounding is what is meant: what says nothing is compiled by its caller's flags."""
NONE, RELU, GELU, GELU_TANH, SILU = range(5)
ACTIVATIONS = {"relu": RELU, "gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SILU}
"""What may be done to outputs before they are handed back."""


@intrinsic
def _address(typing: Any, address: Any, like: Any) -> Any:
    """An address as a pointer to the elements of an array."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(address, like), make


@intrinsic
def _from_bits(typing: Any, bits: Any) -> Any:
    """The float32 that has these 32 bits."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), make


@intrinsic
def _to_bits(typing: Any, value: Any) -> Any:
    """The 32 bits of a float32."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), make


def _widen(value: Any) -> Any:
    """An element as float32; bfloat16 comes as uint16."""
    raise NotImplementedError


def _narrow(value: Any, like: Any) -> Any:
    """A float32 as an element of an array like this."""
    raise NotImplementedError


@overload(_widen, inline="always")
def _widen_by_type(value: Any) -> Any:
    def from_bfloat16(value: Any) -> Any:
        return _from_bits(np.uint32(np.uint32(value) << np.uint32(16)))

    def from_number(value: Any) -> Any:
        return np.float32(value)

    if value not in (types.float32, types.int8, types.uint16):
        raise NumbaTypeError(f"no such elements: {value}")
    return from_bfloat16 if value == types.uint16 else from_number


@overload(_narrow)
def _narrow_by_type(value: Any, like: Any) -> Any:
    def to_nearest(value: Any, like: Any) -> Any:
        bits = _to_bits(value)
        if value != value:
            return np.uint16(0x7FC0)  # rounding could carry a NaN into infinity
        return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))

    def as_it_is(value: Any, like: Any) -> Any:
        return value

    return to_nearest if like.dtype == types.uint16 else as_it_is


LOG2_E, LN_2_HIGH, LN_2_LOW = np.float32(1.44269504), np.float32(0.693145752), np.float32(1.42860677e-6)
_LEAST = np.float32(-87.0)
"""Below it e^x is no normal float32; it counts as nothing."""


_SHIFT = np.float32(12_582_912)
"""1.5 * 2^23: what is left of x beside it is the nearest whole number, which then stands in its last bits."""


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_AS_WRITTEN)
def _nearest(x: Any) -> Any:
    """The nearest whole number of |x| < 2^22."""
    return (x + _SHIFT) - _SHIFT


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_AS_WRITTEN)
def _exp(x: Any) -> Any:
    """e^x for x <= 0 to 2e-7, without the library's function, so that the loop around it works on whole registers.

    x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its series, 2^n by the exponent's bits.
    """
    shifted = (x if x > _LEAST else _LEAST) * LOG2_E + _SHIFT
    n = shifted - _SHIFT
    r = (x - n * LN_2_HIGH) - n * LN_2_LOW
    one = np.float32(1)  # written out, for a loop would keep the loop around it from using whole registers
    series = np.float32(1 / 24) + r * (np.float32(1 / 120) + r * np.float32(1 / 720))
    series = one + r * (one + r * (np.float32(1 / 2) + r * (np.float32(1 / 6) + r * series)))
    power = _from_bits(np.uint32((_to_bits(shifted) + np.uint32(127)) << np.uint32(23)))
    return np.float32(0) if x <= _LEAST else series * power  # a NaN is not below it, and stays


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_AS_WRITTEN)
def _normal(x: Any) -> Any:
    """The share of the normal distribution below x, (1 + erf(x / sqrt 2)) / 2, to 2e-7.

    Source: Abramowitz and Stegun 1964, 7.1.26.
    """
    z = abs(x) * np.float32(0.70710678)
    t = np.float32(1) / (np.float32(1) + np.float32(0.3275911) * z)
    series = np.float32(1.421413741) + t * (np.float32(-1.453152027) + t * np.float32(1.061405429))
    series = np.float32(0.254829592) + t * (np.float32(-0.284496736) + t * series)
    above = np.float32(0.5) * series * t * _exp(-z * z)
    return np.float32(1) - above if x > 0 else above


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_AS_WRITTEN)
def _activate(row: Any, activation: int) -> None:
    """Numbers by an activation of `ACTIVATIONS`, in place."""
    if activation == RELU:
        for i in range(row.size):
            x = _widen(row[i])
            row[i] = _narrow(np.float32(0) if x < 0 else x, row)
    elif activation == GELU:
        for i in range(row.size):
            x = _widen(row[i])
            row[i] = _narrow(x * _normal(x), row)
    else:  # x sigmoid(y): silu with y = x; gelu's tanh form with y = 2 sqrt(2 / pi) (x + 0.044715 x^3)
        linear, cubic = (1.0, 0.0) if activation == SILU else (1.5957691, 0.0713548)
        for i in range(row.size):
            x = _widen(row[i])
            y = np.float32(linear) * x + np.float32(cubic) * x * x * x
            e = _exp(-abs(y))
            row[i] = _narrow(x * (np.float32(1) if y > 0 else e) / (np.float32(1) + e), row)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def _some_outputs(x: Any, w: Any, scale: Any, bias: Any, out: Any, start: int, stop: int) -> None:
    """out[:, start:stop] of x (M, K) float32 and w (N, K); four rows at a time share what is read of w."""
    rows, inputs = x.shape
    for i in range(start, stop):
        weights, factor, constant = w[i], scale[i], bias[i]
        r = 0
        while r + 4 <= rows:
            x0, x1, x2, x3 = x[r], x[r + 1], x[r + 2], x[r + 3]
            s0, s1, s2, s3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for k in range(inputs):
                weight = _widen(weights[k])
                s0 += weight * x0[k]
                s1 += weight * x1[k]
                s2 += weight * x2[k]
                s3 += weight * x3[k]
            out[r, i] = _narrow(s0 * factor + constant, out)
            out[r + 1, i] = _narrow(s1 * factor + constant, out)
            out[r + 2, i] = _narrow(s2 * factor + constant, out)
            out[r + 3, i] = _narrow(s3 * factor + constant, out)
            r += 4
        while r < rows:
            row, total = x[r], np.float32(0)
            for k in range(inputs):
                total += _widen(weights[k]) * row[k]
            out[r, i] = _narrow(total * factor + constant, out)
            r += 1


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def rows_times_matrix(
    x: int, x_like: Any, w: Any, scale: Any, bias: Any, activation: int, out: int, out_like: Any, rows: int, parts: int
) -> None:
    """Put sigma(x w^T * scale + bias) where `out` points.

    Args:
        x: the address of (M, K) elements, as those of the array `x_like` (float32, or uint16 for bfloat16).
        w: (N, K) float32, uint16 (bfloat16) or int8.
        scale, bias: (N,) float32.
        activation: sigma, as `ACTIVATIONS` numbers them.
        out: the address of (M, N) elements, as those of `out_like`.
        parts: stretches of outputs, one for each thread.
    """
    n, k = w.shape
    given = numba.carray(_address(x, x_like), (rows, k))
    said = numba.carray(_address(out, out_like), (rows, n))
    wide = np.empty((rows, k), np.float32)
    for r in range(rows):
        for j in range(k):
            wide[r, j] = _widen(given[r, j])
    for part in prange(parts):
        start, stop = part * n // parts, (part + 1) * n // parts
        _some_outputs(wide, w, scale, bias, said, start, stop)
        for r in range(rows if activation != NONE else 0):
            _activate(said[r, start:stop], activation)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def to_whole(x: int, like: Any, whole: int, whole_like: Any, steps: Any, inputs: int, parts: int) -> None:
    """Round each row of x (M, K) to int8 of its own step, a 127th of its greatest element.

    Args:
        x: the address of elements as those of the array `like`.
        whole: where the int8 (M, K) go; `whole_like`: an array of such.
        steps: (M,) float32, where the steps go; no number for a row that has a NaN or an infinity.
    """
    rows = steps.size
    given = numba.carray(_address(x, like), (rows, inputs))
    found = numba.carray(_address(whole, whole_like), (rows, inputs))
    for part in prange(parts):
        for r in range(part * rows // parts, (part + 1) * rows // parts):
            greatest = _to_bits(np.float32(1e-30))
            for k in range(inputs):  # the bits of numbers above 0 have their order; a NaN's are the greatest
                bits = _to_bits(_widen(given[r, k])) & np.uint32(0x7FFFFFFF)
                greatest = np.uint32(max(greatest, bits))
            step = _from_bits(greatest) / np.float32(127)
            factor = np.float32(1) / step
            for k in range(inputs):
                found[r, k] = np.int8(np.int32(_nearest(_widen(given[r, k]) * factor)))
            steps[r] = step


@njit(parallel=True, nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def from_whole(
    sums: int, sums_like: Any, steps: Any, scale: Any, bias: Any, activation: int, out: int, like: Any, parts: int
) -> None:  # fmt: skip
    """out (M, N) = sigma(sums (M, N) int32 * steps (M) * scale (N) + bias (N)); sums and out by their addresses."""
    rows, outputs = steps.size, scale.size
    given = numba.carray(_address(sums, sums_like), (rows, outputs))
    said = numba.carray(_address(out, like), (rows, outputs))
    for part in prange(parts):
        for r in range(part * rows // parts, (part + 1) * rows // parts):
            step = steps[r]
            for i in range(outputs):
                said[r, i] = _narrow(np.float32(given[r, i]) * step * scale[i] + bias[i], said)
            if activation != NONE:
                _activate(said[r], activation)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def _one_query(
    q: Any, k: Any, v: Any, steps: Any, row: int, lies: Any, like: Any, shown: Any, scale: Any, weights: Any, z: Any,
    out: Any,
) -> None:  # fmt: skip
    """q (d), S keys and values -> out (d); weights (S) and z (d) are scratch.

    Args:
        k, v: addresses of the head's first key and value in the first row.
        steps: bytes from a row to the next and from a place to the next, of k and then of v.
        row, lies: the row that keys lie in, or that of each of them.
    """
    keys, width = weights.size, q.size
    k_row, k_step, v_row, v_step = steps
    greatest = np.float32(-np.inf)
    for s in range(keys):
        place = (lies[s] if lies.size else row) * k_row + s * k_step
        key, score = numba.carray(_address(k + place, like), (width,)), np.float32(0)
        for j in range(width):
            score += q[j] * _widen(key[j])
        weights[s] = score * scale if shown.size == 0 or shown[s] else np.float32(-np.inf)
        greatest = max(greatest, weights[s])
    if greatest == np.float32(-np.inf):  # a query that sees no key gives zero
        greatest = np.float32(0)
    whole = np.float32(0)
    for s in range(keys):
        weights[s] = _exp(weights[s] - greatest)
        whole += weights[s]
    z[:] = 0
    for s in range(keys):
        place = (lies[s] if lies.size else row) * v_row + s * v_step
        value, weight = numba.carray(_address(v + place, like), (width,)), weights[s]
        for j in range(width):
            z[j] += weight * _widen(value[j])
    share = np.float32(0) if whole == 0 else np.float32(1) / whole
    for j in range(width):
        out[j] = _narrow(z[j] * share, out)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def few_queries(
    q: int, k: int, v: int, out: int, like: Any, shown: Any, lies: Any, shape: Any, q_steps: Any, k_steps: Any,
    v_steps: Any, scale: Any, parts: int,
) -> None:  # fmt: skip
    """Attention of q (B, H, T, d) over k, v (P, K, S, d), each key head serving H / K heads -> out (B, T, H, d).

    Args:
        q, k, v, out: addresses of elements as those of the array `like` (float32, or uint16 for bfloat16).
        shown: (B, S) which keys a row may look at, or (0, 0): all.
        lies: (B, S) the row of k and v that each key lies in, or (0, 0): that of the query.
        shape: B, H, T, K, S, d.
        q_steps, k_steps, v_steps: bytes from one row, head and place to the next; the d elements lie together.
    """
    batch, heads, queries, key_heads, keys, width = shape
    said = numba.carray(_address(out, like), (batch, queries, heads, width))
    steps = (k_steps[0], k_steps[2], v_steps[0], v_steps[2])
    for part in prange(parts):
        weights, z, wide = np.empty(keys, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
        for item in range(part * batch * heads // parts, (part + 1) * batch * heads // parts):
            b, h = item // heads, item % heads
            place = h * key_heads // heads
            seen = shown[b] if shown.shape[0] else shown.ravel()
            rows = lies[b] if lies.shape[0] else lies.ravel()
            for t in range(queries):
                query = numba.carray(_address(q + b * q_steps[0] + h * q_steps[1] + t * q_steps[2], like), (width,))
                for j in range(width):
                    wide[j] = _widen(query[j])
                _one_query(
                    wide, k + place * k_steps[1], v + place * v_steps[1], steps, b, rows, like, seen, scale, weights, z,
                    said[b, t, h],
                )  # fmt: skip
