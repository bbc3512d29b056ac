"""What holds, and how fast it is, on one GPU: `scripts/gpu_check`. No network, and of regard only what imports bare.

    laws      the report card of tiny models of each kind on the GPU, in float32; their gradients beside the CPU's
    half      the same models in bfloat16 beside float32; law 21 is skipped, for there is no float16 training
    compile   torch.compile of the training step: the losses of eager steps, and how much quicker
    train     GPT-2 of 124 M parameters in bfloat16: tokens/s and MFU, beside the plain loop of plain_gpt2.py
    decode    the same model says 128 tokens greedily after 128, one row and 32, beside the plain loop

Each part runs in a process of its own, so that one that crashes or runs out of memory or time leaves the others alone,
and prints its rows as JSON as it has them. A row that "FAILED" makes the exit code 1; speeds fail nothing.
MFU counts 6 N + 12 L D T operations a token (Chowdhery et al. 2022, appendix B), over what a large bfloat16 product
reaches here, and over what the maker says where that is known.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_laws import Row, Setting, half, judged, laws
from plain_gpt2 import Gpt
from torch import Tensor

from regard.data.packing import TokenBatch
from regard.generate import Prompt, Sampler, TokenStream
from regard.model import Learned, Model, TransformerConfig, make_language_model
from regard.tasks.language_modeling import LanguageModelTask
from regard.training import TrainStep, add_gradients, make_optimizers
from regard.training.recipe import OptimRecipe

NO_GPU = 3
COMPILED = 5e-3
"""Largest difference of a compiled step's loss, in nats of about 10: bfloat16, other kernels."""
PEAK = {
    "B200": 2250, "H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "RTX 4090": 165,
}  # fmt: skip
"""Dense bfloat16 TFLOP/s by the makers' data sheets, the first name that a device's holds."""

TINY = {"seconds": 0.2, "shape": (320, 2, 2, 32), "context": 32, "rows": 2, "prompt": 8, "said": 8, "kinds": 1}


# ---------------------------------------------------------------- a model of GPT-2's shape


def large(setting: Setting) -> Model:
    torch.manual_seed(0)
    vocabulary, layers, heads, width = setting.shape
    config = TransformerConfig(
        vocab_size=vocabulary, d_model=width, n_heads=heads, d_ff=4 * width, n_decoder_layers=layers,
        max_len=setting.context, norm_order="pre", positions=Learned(), activation="gelu_tanh",
    )  # fmt: skip
    return make_language_model(config).to(setting.device)


def plain(setting: Setting) -> Gpt:
    torch.manual_seed(0)
    vocabulary, layers, heads, width = setting.shape
    return Gpt(vocabulary=vocabulary, layers=layers, heads=heads, width=width, context=setting.context).to(
        setting.device
    )


def rows_that_fit(setting: Setting) -> int:
    """1,024 tokens of this model need about 1 GB with all their logits."""
    if setting.rows is not None:
        return setting.rows
    free = torch.cuda.mem_get_info(setting.device)[0] / 2**30
    return 32 if free > 70 else 16 if free > 36 else 8 if free > 18 else 4


def batch(setting: Setting) -> TokenBatch:
    """Random tokens, whole rows."""
    torch.manual_seed(3)
    ids = torch.randint(setting.shape[0], (rows_that_fit(setting), setting.context + 1), device=setting.device)
    real = torch.ones_like(ids[:, 1:], dtype=torch.bool)
    return TokenBatch(ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), real, None, None, real.numel())


def our_step(setting: Setting, *, compiled: bool) -> Callable[[TokenBatch], float]:
    """regard's own step, in bfloat16."""
    model = large(setting)
    step = TrainStep(model, LanguageModelTask(), torch.bfloat16, compiled=compiled).train()
    optimizers = make_optimizers(model, OptimRecipe(kind="adamw", lr=1e-4))

    def one(data: TokenBatch) -> float:
        loss, count = add_gradients(step, [data])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss / count

    return one


def plain_step(setting: Setting, *, compiled: bool) -> Callable[[TokenBatch], float]:
    model = plain(setting).train()
    loss_of = torch.compile(model.loss) if compiled else model.loss
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def one(data: TokenBatch) -> float:
        with torch.autocast(setting.device.type, dtype=torch.bfloat16):
            loss = loss_of(data.ids, data.targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return one


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(run: Callable[[], object], setting: Setting) -> float:
    """The median of as many runs as the setting allows, at least two, after one that pays for setting up."""
    run()
    wait(setting.device)
    times, end = list[float](), time.perf_counter() + setting.seconds
    while len(times) < 2 or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        wait(setting.device)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def compile_(setting: Setting) -> Iterator[Row]:
    """The same losses, eager and compiled, of three steps on one batch; then the speed of both."""
    data, found = batch(setting), dict[str, tuple[list[float], float]]()
    for name, compiled in (("eager", False), ("compiled", True)):
        one, began = our_step(setting, compiled=compiled), time.perf_counter()
        losses = [one(data) for _ in range(3)]
        took = time.perf_counter() - began
        found[name] = losses, seconds_of(partial(one, data), setting)
        yield Row("compile", f"{name}: first three steps", "", f"{took:.1f} s, then {1e3 * found[name][1]:.1f} ms each")
    (eager, slow), (compiled_losses, quick) = found["eager"], found["compiled"]
    gap = max(abs(a - b) for a, b in zip(eager, compiled_losses, strict=True))
    what = f"{', '.join(f'{loss:.4f}' for loss in compiled_losses)}: as eager within {gap:.1e}"
    yield judged("compile", "losses", gap <= COMPILED and all(map(math.isfinite, compiled_losses)), what)
    yield Row("compile", "speed", "", f"{slow / quick:.2f} times eager's")


def product_rate(setting: Setting) -> float:
    """FLOP/s of a large bfloat16 product."""
    size = 8192 if setting.device.type == "cuda" else 256
    square = torch.randn(size, size, device=setting.device).bfloat16()
    return 2 * size**3 / seconds_of(lambda: square @ square, setting)


def train(setting: Setting) -> Iterator[Row]:
    """Tokens a second, eager and compiled; MFU; the plain loop's beside it."""
    rate, data = product_rate(setting), batch(setting)
    name = torch.cuda.get_device_name(setting.device) if setting.device.type == "cuda" else "cpu"
    peak = next((1e12 * tera for known, tera in PEAK.items() if known in name), None)
    said = f", {peak / 1e12:,.0f} by the maker" if peak else ", and the maker's figure is not known here"
    yield Row("train", "bfloat16 product", "", f"{rate / 1e12:,.2f} TFLOP/s{said}")
    _, layers, _, width = setting.shape
    parameters = sum(p.numel() for p in large(setting).parameters())
    operations = 6 * parameters + 12 * layers * width * setting.context
    rates = dict[str, float]()
    for engine, make, compiled in (
        ("regard", our_step, False), ("plain", plain_step, False), ("regard compiled", our_step, True),
        ("plain compiled", plain_step, True),
    ):  # fmt: skip
        one = make(setting, compiled=compiled)
        rates[engine] = data.count / seconds_of(partial(one, data), setting)
        mfu = f"MFU {rates[engine] * operations / rate:.1%}"
        mfu += f", {rates[engine] * operations / peak:.1%} of the maker's" if peak else ""
        loss = one(data)
        found = f"{rates[engine]:,.0f} tokens/s, {mfu}; loss {loss:.2f}, {len(data.ids)} rows of {setting.context}"
        yield judged("train", engine, math.isfinite(loss), found)
        del one
        if setting.device.type == "cuda":
            torch.cuda.empty_cache()
    for words in ("", " compiled"):
        times = rates[f"regard{words}"] / rates[f"plain{words}"]
        yield Row("train", f"regard{words} / plain{words}", "", f"{times:.2f}")


@torch.no_grad()
def decode(setting: Setting) -> Iterator[Row]:
    """Tokens said a second after the prompt is read, greedily, weights in bfloat16."""
    ours, theirs = large(setting).bfloat16().eval(), plain(setting).bfloat16().eval()
    for rows in (1, 32):
        torch.manual_seed(4)
        prompts = torch.randint(setting.shape[0], (rows, setting.prompt))
        engines: dict[str, Callable[[], float]] = {
            "regard": partial(our_decoding, ours, prompts, setting),
            "plain": partial(plain_decoding, theirs, prompts.to(setting.device), setting),
        }
        rates = {name: [run() for _ in range(4)][1:] for name, run in engines.items()}  # the first sets up
        best = {name: max(found) for name, found in rates.items()}
        for name, found in best.items():
            yield judged("decode", f"{name}, {rows} rows", found > 0, f"{found:,.0f} tokens/s")
        yield Row("decode", f"regard / plain, {rows} rows", "", f"{best['regard'] / best['plain']:.2f}")


def our_decoding(model: Model, prompts: Tensor, setting: Setting) -> float:
    """Tokens a second through TokenStream; 0 where it said too few."""
    asked = [Prompt(ids, setting.said + 1, Sampler(temperature=0)) for ids in prompts.tolist()]
    state = model.transformer.start(capacity=setting.prompt + setting.said + 1)
    steps = iter(TokenStream(model, state, asked))
    next(steps)
    wait(setting.device)
    began = time.perf_counter()
    count = sum(said.token is not None for step in steps for said in step)
    wait(setting.device)
    took = time.perf_counter() - began
    return count / took if count == len(prompts) * setting.said else 0.0


def plain_decoding(model: Gpt, prompts: Tensor, setting: Setting) -> float:
    cache, token = model.first(prompts, setting.prompt + setting.said + 1)
    wait(setting.device)
    began = time.perf_counter()
    said = model.go_on(cache, token, setting.prompt, setting.said)
    wait(setting.device)
    return said.numel() / (time.perf_counter() - began)


# ---------------------------------------------------------------- the table

Part = Callable[[Setting], Iterator[Row]]
PARTS: dict[str, tuple[Part, float]] = {
    "laws": (laws, 110), "half": (half, 35), "compile": (compile_, 110), "train": (train, 150), "decode": (decode, 60),
}  # fmt: skip
"""What is run, and how many seconds it is given; 465 in all."""


def work(name: str, setting: Setting) -> None:
    """Run one part and print its rows."""
    try:
        for row in PARTS[name][0](setting):
            print(json.dumps(vars(row)), flush=True)
    except Exception as error:  # whatever it is belongs into the table
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        print(json.dumps(vars(Row(name, "stopped", "FAILED", reason))), flush=True)


def run_part(name: str, flags: list[str]) -> Iterator[Row]:
    """The rows of a part, from a process of its own."""
    limit = PARTS[name][1]
    command = [sys.executable, __file__, "--part", name, *flags]
    try:
        run = subprocess.run(command, capture_output=True, timeout=limit, text=True)
        out, why = run.stdout, run.stderr.strip().splitlines()[-1:] or [f"it ended with {run.returncode}"]
        stopped = run.returncode != 0
    except subprocess.TimeoutExpired as late:
        printed: Any = late.stdout or ""  # bytes, whatever was asked for
        out = printed.decode() if isinstance(printed, bytes) else printed
        stopped, why = True, [f"not done after {limit:.0f} s"]
    lines = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    yield from (Row(**json.loads(line)) for line in lines)
    if stopped:
        yield Row(name, "stopped", "FAILED", why[0][:300])


def main() -> int:
    """Run the parts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--device", default="cuda:0", help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    device = torch.device(asked.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
        print(f"gpu_check: torch sees no GPU here, so nothing is checked (torch {torch.__version__}, {build}).",
              "Does nvidia-smi show one, and is torch a build for CUDA?", file=sys.stderr)  # fmt: skip
        return NO_GPU
    if asked.part:
        work(asked.part, Setting(device, **(TINY if asked.tiny else {})))
        return 0
    began, failed = time.monotonic(), 0
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else asked.device
    print(f"{where}, torch {torch.__version__}, {Path(sys.executable)}")
    flags = ["--device", asked.device, *(["--tiny"] if asked.tiny else [])]
    for name in asked.parts:
        for row in run_part(name, flags):
            print(f"{row.part:8} {row.what:42} {row.outcome:8} {row.found}", flush=True)
            failed += row.outcome == "FAILED"
    print(f"\n{failed or 'none'} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
