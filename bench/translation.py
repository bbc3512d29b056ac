"""Sentences translated a second, greedily and with a beam of 4: ours beside transformers' MarianMT on the same weights.

    python bench/translation.py [--rounds 3] [--model DIR]

The 1,000 English sentences of Multi30k's test set 2016, by a small model of the chapter's axes that is trained first
(three minutes, or kept in DIR): outputs end where they end. A Transformer of the base size, and other engines, are in
bench/inference.py.

Weights are copied from ours into Marian by a table, and both must say the same greedily before a table is printed. Each
engine runs in a process of its own, as its users run it, alternately for some rounds; the table gives medians. Ours is
asked through `search_translations`; theirs is given batches of 64 of like length, in its favour. Its beam search ends
by another rule, so with a beam the outputs are not compared. Nothing else should run beside this.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training import data_folder

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import MarianMTModel

    from regard.model import Model
    from regard.runtime import Form
    from regard.text import Tokenizer

FORMS: dict[str, Form] = {"regard": "fp32", "regard bf16": "bf16", "regard int8": "int8"}
ENGINES = (*FORMS, "transformers", "transformers bf16")
BEAMS = (1, 4)
BATCH = 64
ALIKE = 0.99
"""Share of greedy outputs that must be equal; a tie within rounding may fall either way."""
NEVER = -1e9
RECIPE = """
    tokenizer.vocab_size=8000 model.d_model=256 model.n_heads=4 model.d_ff=1024 model.n_encoder_layers=3
    model.n_decoder_layers=3 model.norm_order=post model.embed_scale=16 model.max_len=256
"""
ROWS = {
    "self_attn.{}": "self_attn.{}_proj",
    "self_attn_norm": "self_attn_layer_norm",
    "cross_attn.{}": "encoder_attn.{}_proj",
    "cross_attn_norm": "encoder_attn_layer_norm",
    "ffn.up": "fc1",
    "ffn.down": "fc2",
    "ffn_norm": "final_layer_norm",
}
"""Names of a layer's parts: ours, theirs."""

Ids = list[list[int]]


def load(folder: str) -> tuple[Model, Tokenizer, Ids, float]:
    """Our model, its tokenizer, the sources as ids, and their length ratio."""
    import regard
    from regard.data import read_pairs

    found = regard.load(folder)
    pairs = read_pairs([data_folder() / "test_2016_flickr.en.gz", data_folder() / "test_2016_flickr.de.gz"])
    return found.model, found.tokenizer, found.tokenizer.encode_batch(pairs.source), found.about["length_ratio"]


def renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The embedding and the layers under Marian's names."""
    copied = {"model.shared.weight": weights["transformer.tokens.weight"]}
    for name, tensor in weights.items():
        if ".layers." in name:
            stack, _, layer, rest = name.removeprefix("transformer.").split(".", 3)
            part, kind = rest.rsplit(".", 1)
            module, _, projection = part.rpartition(".")
            row = ROWS.get(part) or ROWS[module + ".{}"].format("out" if projection == "o" else projection)
            copied[f"model.{stack}.layers.{layer}.{row}.{kind}"] = tensor
    return copied


def as_marian(model: Model, tokenizer: Tokenizer) -> MarianMTModel:
    """The same function as a MarianMTModel: weights and positions copied, banned tokens kept away by the bias."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    ours, weights = model.config, model.state_dict()
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=ours.vocab_size, d_model=ours.d_model, encoder_layers=ours.n_encoder_layers,
            decoder_layers=ours.n_decoder_layers, encoder_ffn_dim=ours.d_ff, decoder_ffn_dim=ours.d_ff,
            encoder_attention_heads=ours.n_heads, decoder_attention_heads=ours.n_heads, activation_function="relu",
            scale_embedding=True, max_position_embeddings=ours.max_len, pad_token_id=tokenizer.pad_id,
            eos_token_id=tokenizer.eos_id, decoder_start_token_id=tokenizer.bos_id, forced_eos_token_id=None,
        )
    ).eval()  # fmt: skip
    copied = renamed(weights)
    assert ours.norm_order == "post" and ours.norm_eps == 1e-5 and ours.embed_scale == math.sqrt(ours.d_model)
    for stack in ("encoder", "decoder"):
        module = getattr(model.transformer, stack)
        nothing = torch.zeros(1, ours.max_len, ours.d_model)
        table = module.positions.embed(nothing, torch.arange(ours.max_len)[None])[0]
        copied[f"model.{stack}.embed_positions.weight"] = table
    bias = weights.get("head.bias", torch.zeros(ours.vocab_size)).clone()
    bias[[tokenizer.pad_id, tokenizer.bos_id]] = NEVER
    copied["final_logits_bias"] = bias[None]
    missing, unexpected = theirs.load_state_dict(copied, strict=False)
    tied = {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    assert not unexpected and set(missing) <= tied, (missing, unexpected)
    return theirs


def translator(engine: str, model: Model, tokenizer: Tokenizer, ratio: float) -> Callable[[Ids, int], Ids]:
    """Sources and a beam to outputs, as ids without control tokens."""
    import torch

    from regard.runtime import keep_freed_memory, make_fast
    from regard.tasks.search import search_translations

    dtype = torch.bfloat16 if "bf16" in engine else torch.float32
    if engine.startswith("regard"):
        keep_freed_memory()  # as `regard.load` does
        model = make_fast(model, FORMS[engine])

        def ours(sources: Ids, beam: int) -> Ids:
            found = search_translations(model, tokenizer, sources, ratio=ratio, beam=beam)
            return [list(best[0].ids) for best in found]

        return ours
    theirs, eos = as_marian(model, tokenizer).to(dtype), tokenizer.eos_id

    def peer(sources: Ids, beam: int) -> Ids:
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        found: Ids = [[] for _ in sources]
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            longest = 1 + max(len(sources[i]) for i in rows)
            limits = [math.ceil(ratio * (len(sources[i]) + 1)) + 10 for i in rows]  # as ours has them
            padded = [[*sources[i], eos] + [tokenizer.pad_id] * (longest - 1 - len(sources[i])) for i in rows]
            real = [[1] * (len(sources[i]) + 1) + [0] * (longest - 1 - len(sources[i])) for i in rows]
            said = theirs.generate(
                input_ids=torch.tensor(padded), attention_mask=torch.tensor(real), num_beams=beam, do_sample=False,
                max_new_tokens=max(limits),
            )  # fmt: skip
            for i, limit, ids in zip(rows, limits, said[:, 1:].tolist(), strict=True):
                found[i] = (ids[: ids.index(eos)] if eos in ids else ids)[:limit]
        return found

    return peer


def work(engine: str, folder: str) -> None:
    """Run one engine and print, for each beam, its sentences a second; and what it says greedily."""
    model, tokenizer, sources, ratio = load(folder)
    run, rates, said = translator(engine, model, tokenizer, ratio), dict[int, float](), dict[int, Ids]()
    for beam in BEAMS:
        run(sources[:BATCH], beam)
        started = time.monotonic()
        said[beam] = run(sources, beam)
        rates[beam] = len(sources) / (time.monotonic() - started)
    print(json.dumps({"rates": [rates[beam] for beam in BEAMS], "greedy": said[1]}))


def train_translator(folder: Path, minutes: float) -> None:
    """A model that Marian can hold, trained by the command."""
    files = [str(data_folder() / f"{part}.{code}.gz") for part in ("train", "val") for code in ("en", "de")]
    words = ["train", "translation", *files[:2], "--dev", *files[2:], "--out", str(folder), "--minutes", str(minutes)]
    changes = [word for change in RECIPE.split() for word in ("--set", change)]
    subprocess.run([sys.executable, "-m", "regard", *words, *changes, "--quiet"], check=True, stdout=sys.stderr)


def run_worker(engine: str, folder: Path) -> dict:
    """One process, as its users would start it."""
    command = [sys.executable, __file__, "--worker", engine, "--model", str(folder)]
    # As the command `regard` does; the peers run with the library's own default.
    spin = {"GOMP_SPINCOUNT": "100000"} if engine.startswith("regard") else {}
    run = subprocess.run(command, capture_output=True, text=True, env={**spin, **os.environ})
    if run.returncode:
        raise SystemExit(f"{engine}: failed\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def alike(one: Ids, other: Ids) -> float:
    """The share of outputs that are equal."""
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def table(found: dict[str, list[Sequence[float]]], greedy: dict[str, Ids]) -> None:
    """Print medians, and how many times transformers' default."""
    medians = {engine: [statistics.median(rates) for rates in zip(*rounds, strict=True)] for engine, rounds in
               found.items()}  # fmt: skip
    default = medians.get("transformers", [math.nan] * len(BEAMS))
    print("\n| engine | greedy, sentences/s | x transformers | beam 4 | x transformers | greedy alike |")
    print("|---|---|---|---|---|---|")
    for engine, rates in medians.items():
        cells = (f"{rate:,.1f} | {rate / theirs:.2f}" for rate, theirs in zip(rates, default, strict=True))
        print(f"| {engine} | {' | '.join(cells)} | {alike(greedy[engine], greedy['regard']):.1%} |")


def main() -> None:
    """Run the rounds and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--model", type=Path, help="where the small model is, or is to be kept")
    parser.add_argument("--minutes", type=float, default=3, help="to train it")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, str(arguments.model))
        return
    with tempfile.TemporaryDirectory() as own:
        folder = arguments.model or Path(own) / "model"
        if not folder.exists():
            train_translator(folder, arguments.minutes)
        found: dict[str, list[Sequence[float]]] = {engine: [] for engine in arguments.engines}
        greedy: dict[str, Ids] = {}
        for _ in range(arguments.rounds):
            for engine in arguments.engines:
                outcome = run_worker(engine, folder)
                found[engine].append(outcome["rates"])
                greedy[engine] = outcome["greedy"]
                rates = ", ".join(f"{rate:.1f}" for rate in outcome["rates"])
                print(f"  {engine:18} {rates} sentences/s greedy, beam 4", file=sys.stderr)
        if {"regard", "transformers"} <= set(greedy):
            same = alike(greedy["regard"], greedy["transformers"])
            if same < ALIKE:
                raise SystemExit(f"only {same:.1%} of the greedy outputs are equal: not the same function")
        table(found, greedy)


if __name__ == "__main__":
    main()
