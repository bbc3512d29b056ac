"""Training tokens a second of language models, ours beside plain loops over transformers and x-transformers.

    python bench/language_model.py [--sizes small large] [--rounds 3] [--seconds 25] [--engines "regard bf16" ..]

The sizes are nanoGPT's two: small, 4 layers of width 128 and rows of 64 characters, 12 a step; large, 6 layers of width
384 and rows of 256, 16 a step. Each engine runs in a process of its own, as its users run it, alternately for some
rounds; the table gives medians and ratios. All have the same real batches (characters of tinyshakespeare, packed),
AdamW fused, no dropout, learned positions, pre-norm and GELU; constant terms are as each library has them.

    regard               TrainStep on PackedBatches
    transformers         GPT2LMHeadModel with its built-in loss, as it comes
    x-transformers       TransformerWrapper around a Decoder, as it comes; "flash": with the fused kernel
    plain                the loop of plain_gpt.py

An engine is one of these and words after it, in any order: bf16, compiled, flash. Tokens are those that a model is
given. Nothing else should run beside this.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from side_by_side import add_flags, alternately, medians

if TYPE_CHECKING:
    from torch import Tensor, nn

    from regard.data.packing import TokenBatch

SIZES = {
    # layers, heads, d_model, tokens a row, rows a step
    "small": (4, 4, 128, 64, 12),
    "large": (6, 6, 384, 256, 16),
}
ENGINES = (
    "regard", "regard bf16", "regard bf16 compiled", "transformers", "transformers bf16", "x-transformers",
    "x-transformers bf16", "x-transformers bf16 flash", "plain", "plain bf16",
)  # fmt: skip
KEPT, LR = 100, 1e-3
"""Batches that are made before the clock starts, and then used over and over; the rate of all."""

Forward = Callable[["TokenBatch"], "Tensor"]
"""The mean loss of a batch."""


def real_batches(size: str) -> tuple[list[TokenBatch], int]:
    """The first batches of a seeded order over tinyshakespeare's characters, and the size of their vocabulary."""
    from regard.data.documents import Document
    from regard.data.encoding import encode_documents
    from regard.data.packing import PackedBatches
    from regard.text import Tokenizer

    root = os.environ.get("REGARD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    file = Path(root) / "tinyshakespeare" / "input.txt"
    text = file.read_text()
    tokenizer = Tokenizer.train([text], kind="chars", vocab_size=200)
    corpus = encode_documents([Document(text, file, 1)], tokenizer)
    _, _, _, length, rows = SIZES[size]
    control = {"bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id, "pad_id": tokenizer.pad_id}
    order = PackedBatches(corpus, length=length, rows=rows, seed=1, **control)
    return [order.batch(step) for step in range(KEPT)], tokenizer.vocab_size


def ours(words: list[str], size: str, vocabulary: int) -> tuple[Callable[[TokenBatch], float], nn.Module]:
    """regard's own step, through TrainStep, and its model."""
    import torch

    from regard.machine import speeds
    from regard.model import Learned, TransformerConfig, make_language_model
    from regard.runtime import keep_freed_memory, longest_open, open_attention_until
    from regard.tasks.language_modeling import LanguageModelTask
    from regard.training import TrainStep, add_gradients, make_optimizers
    from regard.training.recipe import OptimRecipe

    keep_freed_memory()
    cpu, dtype = torch.device("cpu"), torch.bfloat16 if "bf16" in words else torch.float32
    open_attention_until(longest_open(speeds(cpu), cpu, dtype))
    layers, heads, width, length, _ = SIZES[size]
    config = TransformerConfig(
        vocab_size=vocabulary, d_model=width, n_heads=heads, d_ff=4 * width, n_decoder_layers=layers, max_len=length,
        norm_order="pre", positions=Learned(), activation="gelu", bias="none",
    )  # fmt: skip
    model = make_language_model(config)
    step = TrainStep(model, LanguageModelTask(), dtype, compiled="compiled" in words).train()
    optimizers = make_optimizers(model, OptimRecipe(kind="adamw", lr=LR))

    def one(batch: TokenBatch) -> float:
        loss, count = add_gradients(step, [batch])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss / count

    return one, model


def from_transformers(words: list[str], size: str, vocabulary: int) -> tuple[Forward, nn.Module]:
    """GPT2LMHeadModel; its loss leaves out the last token of each row."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, heads, width, length, _ = SIZES[size]
    config = GPT2Config(
        vocab_size=vocabulary, n_positions=length, n_embd=width, n_layer=layers, n_head=heads,
        activation_function="gelu", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).train()
    run = torch.compile(model) if "compiled" in words else model
    return lambda batch: run(input_ids=batch.ids, labels=batch.ids).loss, model


def from_x_transformers(words: list[str], size: str, vocabulary: int) -> tuple[Forward, nn.Module]:
    """TransformerWrapper around a Decoder, and cross entropy."""
    import torch
    import torch.nn.functional as F
    from x_transformers import Decoder, TransformerWrapper

    layers, heads, width, length, _ = SIZES[size]
    decoder = Decoder(
        dim=width, depth=layers, heads=heads, attn_dim_head=width // heads, attn_flash="flash" in words
    )  # fmt: skip
    model = TransformerWrapper(num_tokens=vocabulary, max_seq_len=length, attn_layers=decoder, tie_embedding=True)
    run = torch.compile(model) if "compiled" in words else model
    return lambda batch: F.cross_entropy(run(batch.ids).flatten(0, 1), batch.targets.flatten()), model.train()


def from_plain(words: list[str], size: str, vocabulary: int) -> tuple[Forward, nn.Module]:
    """plain_gpt.Gpt."""
    import plain_gpt
    import torch

    names = ("LAYERS", "HEADS", "WIDTH", "CONTEXT", "BATCH")
    vars(plain_gpt).update(zip(names, SIZES[size], strict=True))  # it is written for one size, in constants
    model = plain_gpt.Gpt(vocabulary)
    run = torch.compile(model) if "compiled" in words else model
    return lambda batch: run(batch.ids, batch.targets), model


PEERS = {"transformers": from_transformers, "x-transformers": from_x_transformers, "plain": from_plain}


def peer(name: str, words: list[str], size: str, vocabulary: int) -> tuple[Callable[[TokenBatch], float], nn.Module]:
    """The loop that people write around a model."""
    import torch

    forward, model = PEERS[name](words, size, vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)
    precision = torch.autocast("cpu", dtype=torch.bfloat16, enabled="bf16" in words)

    def one(batch: TokenBatch) -> float:
        with precision:
            loss = forward(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return one, model


def work(engine: str, size: str, seconds: float) -> None:
    """Run one engine and print its tokens a second as JSON."""
    import torch

    torch.manual_seed(0)
    name, *words = engine.split()
    batches, vocabulary = real_batches(size)
    one, model = ours(words, size, vocabulary) if name == "regard" else peer(name, words, size, vocabulary)
    warm = time.monotonic()
    first, *_ = [one(batch) for batch in batches[:3]]
    warm = time.monotonic() - warm
    steps, loss, started = 0, first, time.monotonic()
    while steps == 0 or time.monotonic() - started < seconds:
        loss = one(batches[steps % KEPT])
        steps += 1
    rate = steps * batches[0].ids.numel() / (time.monotonic() - started)
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"tokens_per_second": rate, "warm_seconds": warm, "first_loss": first, "loss": loss,
                      "parameters": parameters}))  # fmt: skip


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    add_flags(parser)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, arguments.sizes[0], arguments.seconds)
        return
    for size in arguments.sizes:
        rates = medians(alternately(__file__, arguments.engines or ENGINES, size, arguments))
        best = max((rate for engine, rate in rates.items() if engine.startswith("regard")), default=0)
        print(f"\n{size}: {SIZES[size]}\n| engine | tokens/s (median of {arguments.rounds}) | our best is |")
        print("|---|---|---|")
        for engine, rate in rates.items():
            print(f"| {engine} | {rate:,.0f} | {best / rate:.2f} x |")


if __name__ == "__main__":
    main()
