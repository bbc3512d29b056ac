"""What a work could cost at least on this machine, for bench/inference.py: its memory and its arithmetic, as measured.

What is unusual: a limit is of the whole work, phase by phase. Each pass reads all weights once or multiplies by all of
them once for each row, whichever takes longer. Attention's own products and its cache are left out, as is all that is
not a matrix. So nothing can reach it, and how near an engine comes says what is left.
What it does not know: engines.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from inference_models import FULL, encoder_folder, sentences, sizes, sources

READ, FLOPS = 34.5e9, 205e9
"""Of the machine that the known figures of inference_table.py are from: bytes read a second, FLOP/s of float32."""
PROMPTS = {"gpt2": (1, 128, 128), "gpt2-batch8": (8, 128, 128), "prefill": (1, 512, 1), "load": (1, 16, 1)}
"""Prompts, tokens of each, tokens asked for."""


# ---------------------------------------------------------------- arithmetic


@dataclass(frozen=True)
class Limits:
    """Of this machine: bytes read a second, and operations a second by the bits of a number."""

    read: float
    flops: Mapping[int, float]

    @property
    def gain(self) -> float:
        """The speed that is due here, as a share of that of the machine KNOWN is from; 1 on a quicker one."""
        return min(1.0, self.read / READ, self.flops[32] / FLOPS)

    def or_better(self, other: Limits) -> Limits:
        """The higher of two measurements of each."""
        return Limits(
            max(self.read, other.read), {width: max(of, other.flops[width]) for width, of in self.flops.items()}
        )

    def seconds(self, width: int, weights: float, products: float) -> float:
        """The least time to read so many weights of that many bits, and to multiply and add so often with them."""
        return max(weights * width / 8 / self.read, 2 * products / self.flops[width])


@dataclass(frozen=True)
class Stack:
    """So many matrix elements as a layer's worth; `head` those of the projection onto the vocabulary."""

    blocks: float
    head: float = 0

    def read(self, limits: Limits, width: int, rows: float, said: float) -> float:
        """The least seconds for rows through the blocks of which `said` also go through the head."""
        weights = self.blocks + (self.head if said else 0)
        return limits.seconds(width, weights, self.blocks * rows + self.head * said)


def writer_limits(limits: Limits, width: int, stack: Stack, rows: int, prompt: int, count: int) -> list[float]:
    """The most tokens a second, and the most without the prompt."""
    begun, step = (stack.read(limits, width, rows * tokens, rows) for tokens in (prompt, 1))
    return [rows * count / (begun + (count - 1) * step), rows / step]


def translator_limits(limits: Limits, width: int, layers: int, d: int, vocabulary: int, length: int, count: int,
                      sentences: int) -> list[float]:  # fmt: skip
    """The most sentences a second greedily and by a beam of 4, and the least milliseconds for one alone."""
    encoder = Stack(layers * 14 * d * d)  # 12 of its own, and the keys and values that the decoder asks for
    decoder = Stack(layers * 14 * d * d, vocabulary * d)

    def seconds(rows: int, beam: int) -> float:
        step = decoder.read(limits, width, rows * beam, rows * beam)
        return encoder.read(limits, width, rows * length, 0) + count * step

    return [sentences / seconds(sentences, 1), sentences / seconds(sentences, 4), 1_000 * seconds(1, 1)]


# ---------------------------------------------------------------- of the works


def shapes(work: str) -> tuple[int, int, int]:
    """Of the prompts, as the sizes have it."""
    rows, length, count = PROMPTS[work]
    return (rows, length, count) if sizes() is FULL else (rows, min(length, 12), min(count, 8))


def most_of(work: str, limits: Limits) -> dict[int, list[float]]:
    """The limit of each measure, by bits."""
    size, found = sizes(), {}
    writer = Stack(12 * size.layers * size.width**2, size.vocabulary * size.width)
    for width in (32, 16, 8):
        if work == "translation":
            found[width] = translator_limits(limits, width, size.t_layers, size.t_width, size.t_vocabulary,
                                             1 + len(sources()[0]), 25, len(sources()))  # fmt: skip
        elif work == "encoder":
            stack = Stack(6 * 12 * 384**2)
            found[width] = [len(sentences()) / stack.read(limits, width, sentence_tokens(), 0)]
        elif work == "prefill":
            rows, length, _ = shapes(work)
            found[width] = [rows * length / writer.read(limits, width, rows * length, rows)]
        elif work != "load":
            found[width] = writer_limits(limits, width, writer, *shapes(work))
    return found


def sentence_tokens() -> int:
    """Of all sentences, [CLS] and [SEP] included."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(encoder_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    return sum(len(encoding.ids) for encoding in tokenizer.encode_batch(sentences()))


# ---------------------------------------------------------------- of this machine


def measured_limits() -> Limits:
    """Of this machine, now: the quicker of torch's product and of oneDNN's with weights packed for it."""
    import torch

    from regard.machine import measure_speeds

    speeds = measure_speeds(torch.device("cpu"), budget_seconds=4)
    flops = {width: max(speeds.matmul_flops.get(name, 0.0), best_product(partial(packed_product, getattr(torch, name))))
             for width, name in ((32, "float32"), (16, "bfloat16"))}  # fmt: skip
    numbers = torch.ones(2**27)  # 512 MiB: no cache holds a part worth speaking of
    numbers.sum()
    read = numbers.nbytes / min(seconds_of(numbers.sum, 0) for _ in range(9))
    return Limits(read, {**flops, 8: max(best_product(integer_product), flops[16])})


def best_product(make: Callable[[int], Callable[[], object]]) -> float:
    """Operations a second of a square product; 0 where this torch has none of the kind."""
    best = 0.0
    for size in (1_024, 2_048):
        try:
            (product := make(size))()
        except (AttributeError, RuntimeError):  # they are private, and not for every machine
            return 0.0
        best = max(best, 2 * size**3 / seconds_of(product, 0.3))
    return best


def packed_product(dtype: Any, size: int) -> Callable[[], object]:
    """By oneDNN, the weights packed beforehand."""
    import torch

    square = torch.randn(size, size).to(dtype)
    packed = torch.ops.mkldnn._reorder_linear_weight(square, size)
    return lambda: torch.ops.mkldnn._linear_pointwise(square, packed, None, "none", [], "")


def integer_product(size: int) -> Callable[[], object]:
    """Of 8-bit integers into 32."""
    import torch

    square = torch.randint(-128, 127, (size, size), dtype=torch.int8)
    return lambda: torch._int_mm(square, square)


def seconds_of(run: Callable[[], object], most: float) -> float:
    """The median of runs within so many seconds; one at least."""
    times: list[float] = []
    while not times or (sum(times) + times[-1] < most and len(times) < 20):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
