"""The machine under our feet: its cores, memory and devices, how fast it is, and which kernel and dtype suit it.

What it is: `describe_machine` says what there is, `self_test` whether it computes rightly, `speeds` how fast it is.
What is unusual: nothing is guessed from names. Whether bfloat16 pays, and whether attention is quicker fused or as open
matrix products, differs from CPU to CPU by factors in both directions, so it is timed once (about two seconds) and kept
in a cache. Cores and memory are what this process may use: its affinity and its control group, not the whole machine's.
What it does not know: models and data. It never measures unless asked. Off Linux some facts are None, that is unknown.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config import build, to_tree
from regard.errors import ConfigError
from regard.limits import memory, others_at_work, usable_cores

T = TypeVar("T")

# ---------------------------------------------------------------- what there is


@dataclass(frozen=True)
class Machine:
    """What this process may use; sizes in bytes, None where the system does not say."""

    cpu: str
    instruction_set: str
    cores: int
    threads: int
    memory_bytes: int | None
    available_bytes: int | None
    disk_free_bytes: int
    devices: tuple[str, ...]
    torch: str
    python: str


def describe_machine(path: str | Path = ".") -> Machine:
    """Describe the machine; `disk_free_bytes` is that of `path`, or of its nearest folder that exists."""
    memory_bytes, available_bytes = memory()
    folder = next(place for place in (Path(path).absolute(), *Path(path).absolute().parents) if place.exists())
    return Machine(
        cpu=_cpu_name(),
        instruction_set=torch.backends.cpu.get_cpu_capability(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        memory_bytes=memory_bytes,
        available_bytes=available_bytes,
        disk_free_bytes=shutil.disk_usage(folder).free,
        devices=tuple(_devices()),
        torch=torch.__version__,
        python=platform.python_version(),
    )


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _devices() -> list[str]:
    found = ["cpu"]
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        found.append(f"cuda:{index} {card.name} ({card.total_memory / 2**30:.0f} GiB)")
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


# ---------------------------------------------------------------- what to use


def pick_device(name: str | None = None) -> torch.device:
    """The device of that name ("cpu", "cuda", "cuda:1", "mps"); None or "auto" is the quickest kind there is.

    Raises ConfigError for an unknown name and for a device that this machine has not.
    """
    present = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if name in (None, "auto"):
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if present[kind]))
    kind, colon, index = str(name).partition(":")
    if kind in present and (index.isdecimal() if colon else True) and int(index or 0) < present[kind]:
        return torch.device(str(name))
    raise ConfigError(
        "no such device here" if kind in present else "unknown device",
        where="device",
        expected=", ".join(device.split(" ")[0] for device in _devices()),
        got=name,
        mend="name none, to take the quickest one",
    )


def set_threads(count: int | None = None) -> None:
    """Compute with `count` threads; None: as OMP_NUM_THREADS says, else no more than the cores we may use.

    Raises ConfigError for a count below 1.
    """
    if count is None:
        if "OMP_NUM_THREADS" not in os.environ:  # torch has read it already; it knows nothing of a group's quota
            torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))
    elif count < 1:
        mend = f"this machine has {usable_cores()} cores for you"
        raise ConfigError("too few threads", where="threads", expected="1 or more", got=count, mend=mend)
    else:
        torch.set_num_threads(count)


def check_seed(seed: int) -> None:
    """Raise ConfigError for a seed that not every generator takes: torch's end at 64 bits, NumPy's begin at 0."""
    if not (0 <= seed < 2**63 and seed == int(seed)):
        raise ConfigError("no such seed", where="seed", expected="a whole number from 0 to 2^63 - 1", got=seed)


def set_seed(seed: int) -> None:
    """Seed the global generators: Python's, NumPy's (by 32 bits), torch's on all devices. Raises as `check_seed`."""
    check_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


# ---------------------------------------------------------------- how fast it is

Kernel = Literal["fused", "open"]
Attend = Callable[..., Tensor]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
_TOKENS, _HEADS, _WIDTH = 2_048, 4, 32  # of the attention that is timed: a usual batch; the length varies


@dataclass(frozen=True)
class AttentionRow:
    """Seconds of one attention, forward and backward, without a mask, by the fused and by the open path."""

    dtype: str
    length: int
    fused_seconds: float
    open_seconds: float


@dataclass(frozen=True)
class Speeds:
    """The measured table of one kind of device. A dtype too slow to be timed at a length has no row for it."""

    device: str
    matmul_flops: dict[str, float]
    """FLOP/s of the best square product, by dtype."""
    read_bytes_per_second: float
    attention: tuple[AttentionRow, ...]


def attention_kernel(speeds: Speeds, device: torch.device, dtype: torch.dtype, length: int) -> Kernel:
    """The quicker path for this length, by the nearest measured one (in ratio).

    Fused where nothing was measured, beyond the longest measured length, and at a near tie: it needs memory linear in
    the length, the open path quadratic.
    """
    rows = [row for row in speeds.attention if DTYPES[row.dtype] is dtype]
    if device.type != speeds.device or not rows or length > max(row.length for row in rows):
        return "fused"
    nearest = min(rows, key=lambda row: abs(math.log(max(length, 1) / row.length)))
    return "open" if nearest.open_seconds < 0.9 * nearest.fused_seconds else "fused"


def speeds(device: torch.device, *, refresh: bool = False) -> Speeds:
    """The table of this device, CPU, torch and thread count: from the cache, else measured (2 s) and put there.

    `regard doctor --speed` takes it anew.
    """
    facts = [device.type, LENGTHS, _TOKENS]
    return remembered("speeds", facts, Speeds, lambda: measure_speeds(device), refresh=refresh)


def remembered(kind: str, facts: Sequence[object], form: type[T], measure: Callable[[], T], *, refresh: bool) -> T:
    """What `measure` finds on this machine, with this torch and so many threads: from the cache, else measured.

    What was measured while others were at work may mislead by any factor, so it is measured again when they are not.

    Args:
        kind: the cache's file is `$XDG_CACHE_HOME/regard/<kind>-<hash>.json`; one that cannot be read or written is
            done without.
        facts: what else it depends on.
        form: the dataclass that it is.
        refresh: measure anew.
    """
    known = [*facts, _cpu_name(), _devices(), torch.__version__, torch.get_num_threads()]
    name = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]
    file = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard" / f"{kind}-{name}.json"
    if not refresh:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, ConfigError):
            kept = json.loads(file.read_text())
            if kept["alone"] or others_at_work():
                return build(form, kept["table"], where=str(file))
    alone = not others_at_work()
    measured = measure()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"alone": alone, "table": to_tree(measured)}))
        os.replace(draft, file)
    return measured


def measure_speeds(device: torch.device, budget_seconds: float = 2.0) -> Speeds:
    """Time products, memory and attention on `device` within about `budget_seconds`.

    Sizes go up from small ones and stop before a step that would outrun its share: some CPUs do bfloat16 a hundred
    times slower than float32. There attention in bfloat16 is not timed at all: nobody should compute in it.
    """
    share = budget_seconds / 10
    numbers = torch.ones(2**24, device=device)  # 64 MiB, more than most caches hold
    read = numbers.nbytes / _fastest(numbers.sum, device, share)
    flops = {name: _matmul_flops(device, dtype, 1.5 * share) for name, dtype in DTYPES.items()}
    _attention_seconds(_open_attention, device, torch.float32, LENGTHS[0], 0)  # torch's first backward imports for long
    worth_it = [name for name in DTYPES if flops[name] > flops["float32"] / 4]
    rows = [row for name in worth_it for row in _attention_rows(device, name, 2.5 * share)]
    return Speeds(device.type, flops, read, tuple(rows))


def _fastest(run: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Seconds of the fastest of 1 to 10 runs (as many as `seconds` allow) after one that pays for setting up."""
    times: list[float] = []
    while len(times) < 2 or (len(times) <= 10 and sum(times[1:]) <= seconds):
        before = time.perf_counter()
        run()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        times.append(time.perf_counter() - before)
    return min(times[1:])


def _matmul_flops(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    best, end = 0.0, time.perf_counter() + seconds
    for size in (256, 512, 1024, 2048, 4096):
        square = torch.randn(size, size, device=device).to(dtype)
        took = _fastest(partial(torch.mm, square, square), device, seconds / 8)
        best = max(best, 2 * size**3 / took)
        if time.perf_counter() + 2 * 8 * took > end:  # two runs, each of eight times the work
            break
    return best


def _attention_rows(device: torch.device, name: str, seconds: float) -> list[AttentionRow]:
    rows: list[AttentionRow] = []
    end = time.perf_counter() + seconds
    for length in LENGTHS:
        paths = (F.scaled_dot_product_attention, _open_attention)
        fused, opened = (_attention_seconds(path, device, DTYPES[name], length, seconds / 20) for path in paths)
        rows.append(AttentionRow(name, length, fused, opened))
        growth = 2 * max(1, 2 * length / _TOKENS)  # of the work in the next row, twice as long
        if time.perf_counter() + 2 * growth * (fused + opened) > end:
            break
    return rows


def _attention_seconds(attend: Attend, device: torch.device, dtype: torch.dtype, length: int, seconds: float) -> float:
    shape = (max(1, _TOKENS // length), _HEADS, length, _WIDTH)
    qkv = [torch.randn(shape, device=device).to(dtype).requires_grad_() for _ in range(3)]
    gradient = torch.ones_like(qkv[0])
    return _fastest(lambda: torch.autograd.grad(attend(*qkv), qkv, gradient), device, seconds)


def _open_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * _WIDTH**-0.5, dim=-1) @ v  # (B, H, T, d)


def self_test(device: torch.device | None = None) -> list[tuple[str, bool, str]]:
    """(name, passed, sentence) of each quick check of this torch on this device (default: the CPU)."""
    device = device or torch.device("cpu")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(129, 257, generator=generator).to(device)
    exact = x.cpu().double() @ x.cpu().double().T
    product = ((x @ x.T).cpu().double() - exact).abs().max().item() / exact.abs().max().item()
    softmax = (torch.softmax(50 * x, dim=-1).sum(-1) - 1).abs().max().item()
    q = x[:128, :256].reshape(4, 2, 128, _WIDTH)
    paths = (F.scaled_dot_product_attention(q, q, q) - _open_attention(q, q, q)).abs().max().item()
    # Many pulls on few rows: the case where a parallel sum may change its order from run to run.
    ids = torch.randint(0, 5, (2000,), generator=generator).to(device)
    pulls = torch.randn(2000, 64, generator=generator).to(device)
    table = torch.zeros(5, 64, device=device, requires_grad=True)
    same = torch.equal(*(torch.autograd.grad(F.embedding(ids, table), table, pulls)[0] for _ in range(2)))
    return [
        ("softmax", softmax < 1e-5, f"each row sums to 1 within {softmax:.1e}"),
        ("product", product < 2e-3, f"a float32 product equals the float64 one within {product:.1e}"),
        ("attention", paths < 2e-3, f"fused and open attention agree within {paths:.1e}"),
        ("embedding", same, f"the gradient of an embedding, taken twice, {'is' if same else 'is not'} the same bits"),
    ]
