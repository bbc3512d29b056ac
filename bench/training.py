"""Training tokens a second, ours beside transformers' MarianMT, on the same real batches of Multi30k en-de.

    python bench/training.py [--size tiny base] [--rounds 3] [--ablate]

Each engine runs in a process of its own, as its users run it, alternately for some rounds; the table gives medians and
ratios. All have the same batches (a seeded order of length buckets, padding and masks included), AdamW fused, dropout
0.1; MarianMT computes its own built-in loss (without label smoothing, which is in its favour), ours is smoothed.
Tokens are real target tokens, ends included. Nothing else should run beside this.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from side_by_side import add_flags, alternately, medians

SIZES = {
    # d_model, layers a side, ffn, heads, tokens a batch, timed steps
    "tiny": (128, 4, 256, 4, 2_000, 24),
    "base": (512, 6, 2_048, 8, 1_000, 5),
}
VOCABULARY = 10_000
OURS = ("regard", "regard bf16", "regard compiled")
PEERS = ("transformers", "transformers bf16", "transformers compiled", "transformers bf16 compiled")
ABLATIONS = ("regard without kept memory", "regard with F.cross_entropy")


def data_folder() -> Path:
    """Multi30k, through REGARD_DATA or beside the checkout."""
    root = os.environ.get("REGARD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(root) / "multi30k"


def real_batches(size: str, count: int) -> list:
    """The first batches of a seeded order over Multi30k, with lengths padded to a multiple of 4."""
    from regard.data import read_pairs
    from regard.tasks.translation import TranslationData
    from regard.text import Tokenizer

    folder = data_folder()
    pairs = read_pairs([folder / "train.en.gz", folder / "train.de.gz"]).take(range(12_000))
    tokenizer = Tokenizer.train([*pairs.source, *pairs.target], kind="bpe", vocab_size=VOCABULARY)
    ids = tokenizer.encode_batch(pairs.source), tokenizer.encode_batch(pairs.target)
    data = TranslationData(tokenizer, ids, ([], []), tokens_per_batch=SIZES[size][4], seed=1, multiple=4, max_len=128)
    return [data.batch(step) for step in range(count)]


def ours(engine: str, size: str) -> tuple[Callable[[object], float], object]:
    """regard's own step, through TrainStep."""
    import torch
    import torch.nn.functional as F

    from regard.machine import speeds
    from regard.model import TransformerConfig, make_language_model
    from regard.runtime import keep_freed_memory, longest_open, open_attention_until
    from regard.tasks.translation import TranslationTask
    from regard.training import TrainStep, add_gradients, make_optimizers
    from regard.training.recipe import OptimRecipe

    if "without kept memory" not in engine:
        keep_freed_memory()
    cpu, dtype = torch.device("cpu"), torch.bfloat16 if "bf16" in engine else torch.float32
    open_attention_until(longest_open(speeds(cpu), cpu, dtype))
    width, layers, ffn, heads, _, _ = SIZES[size]
    config = TransformerConfig(
        vocab_size=VOCABULARY, d_model=width, n_heads=heads, d_ff=ffn, n_encoder_layers=layers, n_decoder_layers=layers,
        embed_scale=width**0.5, dropout=0.1, max_len=256,
    )  # fmt: skip
    model = make_language_model(config)
    task = TranslationTask(label_smoothing=0.1)
    if "F.cross_entropy" in engine:

        class Plain(TranslationTask):
            def loss(self, model, hidden, batch):
                labels = batch.tgt_out.masked_fill(~batch.tgt_real, -100).flatten()
                logits = model.logits(hidden).flatten(0, 1)
                return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1)

        task = Plain()
    step = TrainStep(model, task, dtype, compiled="compiled" in engine).train()
    optimizers = make_optimizers(model, OptimRecipe(kind="adamw", lr=1e-4))

    def one(batch: object) -> float:
        loss, count = add_gradients(step, [batch])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss / count

    return one, model


def peer(engine: str, size: str) -> tuple[Callable[[object], float], object]:
    """MarianMTModel as its users train it."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    width, layers, ffn, heads, _, _ = SIZES[size]
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_ffn_dim=ffn,
        decoder_ffn_dim=ffn, encoder_attention_heads=heads, decoder_attention_heads=heads, dropout=0.1,
        attention_dropout=0.0, activation_dropout=0.0, scale_embedding=True, max_position_embeddings=256,
        pad_token_id=0, eos_token_id=2, decoder_start_token_id=1, activation_function="relu",
    )  # fmt: skip
    model = MarianMTModel(config).train()
    forward = torch.compile(model, dynamic=True) if "compiled" in engine else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    precision = torch.autocast("cpu", dtype=torch.bfloat16, enabled="bf16" in engine)

    def one(batch) -> float:
        labels = batch.tgt_out.masked_fill(~batch.tgt_real, -100)
        with precision:
            loss = forward(
                input_ids=batch.src, attention_mask=batch.src_real.long(), decoder_input_ids=batch.tgt_in,
                decoder_attention_mask=batch.tgt_real.long(), labels=labels,
            ).loss  # fmt: skip
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return one, model


def work(engine: str, size: str, seconds: float) -> None:
    """Run one engine and print its tokens a second as JSON."""
    import torch

    torch.manual_seed(0)
    steps = SIZES[size][5]
    batches = real_batches(size, steps + 3)
    one, _ = (ours if engine.startswith("regard") else peer)(engine, size)
    warm = time.monotonic()
    # A compiler sees every shape before it is timed, however long it takes over them.
    for batch in batches if "compiled" in engine else batches[:3]:
        one(batch)
        if "compiled" not in engine and time.monotonic() - warm > seconds:
            break  # so slow that three steps would take minutes: its first step is its rate
    warm = time.monotonic() - warm
    tokens, started = 0, time.monotonic()
    for batch in batches[3:]:
        loss = one(batch)
        tokens += batch.count
        if time.monotonic() - started > seconds:
            break
    print(json.dumps({"tokens_per_second": tokens / (time.monotonic() - started), "warm_seconds": warm, "loss": loss}))


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    add_flags(parser)
    parser.add_argument("--ablate", action="store_true", help="also ours without each of its two savings")
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, arguments.size[0], arguments.seconds)
        return
    engines = arguments.engines or [*OURS, *PEERS, *(ABLATIONS if arguments.ablate else ())]
    for size in arguments.size:
        rates = medians(alternately(__file__, engines, size, arguments))
        best = max((rate for engine, rate in rates.items() if engine in OURS), default=0)
        print(f"\n{size}: {SIZES[size]}\n| engine | tokens/s (median of {arguments.rounds}) | our best is |")
        print("|---|---|---|")
        for engine, rate in rates.items():
            print(f"| {engine} | {rate:,.0f} | {best / rate:.2f} x |")


if __name__ == "__main__":
    main()
