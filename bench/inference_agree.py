"""How alike an engine's outputs are to those of `transformers` in float32, for bench/inference.py.

What is unusual: two engines that round otherwise part at the first near tie, and then say other things for ever. So
each token is judged by itself: whether the reference, given what the engine itself said before it, would say it too, or
holds it for as good within a hundredth of the logits' spread.
What it does not know: speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from inference_models import Ids, sentences, sources, translator, writer_folder

if TYPE_CHECKING:
    from torch import Tensor

TIE = 0.01
"""In standard deviations of a row of logits: what counts as equally good."""
LEAST = {32: 0.99, 16: 0.9, 8: 0.7}
"""Share of tokens that must agree, by the bits of a weight; below it an engine computes something else."""
LEAST_COSINE = {32: 0.999_99, 16: 0.99, 8: 0.97}
LARGEST = 1e-3
"""Difference of vectors in float32."""


def good(logits: Tensor, said: Tensor) -> float:
    """The share of said tokens, (R, T), that are the best of their logits, (R, T, V), or as good."""
    chosen = logits.gather(-1, said[..., None])[..., 0]
    return float(((logits.amax(-1) - chosen) <= TIE * logits.std(-1)).float().mean())


def writer_judge(prompts: Ids) -> Callable[[Ids], float]:
    """Judges what was said after these prompts."""
    import torch
    from transformers import AutoModelForCausalLM

    model, given = AutoModelForCausalLM.from_pretrained(writer_folder()).eval(), torch.tensor(prompts)

    @torch.inference_mode()
    def judge(outputs: Ids) -> float:
        said = torch.tensor(outputs)
        logits = model(torch.cat([given, said], 1)[:, :-1], logits_to_keep=said.size(1)).logits
        return good(logits, said)

    return judge


def translator_judge() -> Callable[[Ids], float]:
    """Judges greedy outputs for the sources."""
    import torch
    from translation import as_marian

    ours, tokenizer = translator()
    model = as_marian(ours, tokenizer)
    ids = torch.tensor([[*source, tokenizer.eos_id] for source in sources()])

    @torch.inference_mode()
    def judge(outputs: Ids) -> float:
        said = torch.tensor(outputs)
        begun = torch.cat([torch.full((len(said), 1), tokenizer.bos_id), said[:, :-1]], 1)
        return good(model(input_ids=ids, decoder_input_ids=begun).logits, said)

    return judge


def encoder_judge() -> Callable[[Any], tuple[float, float]]:
    """Judges vectors of the sentences: the least cosine, the largest difference."""
    from inference_peers import transformers_encoder

    due = transformers_encoder("fp32")(sentences())

    def judge(vectors: Any) -> tuple[float, float]:
        found = np.asarray(vectors, dtype=np.float64)
        return float((found * due).sum(1).min()), float(np.abs(found - due).max())

    return judge


def verdicts(work: str, said: dict[str, Any], bits: Callable[[str], int], judge: Callable[[Any], Any]) -> tuple[
    dict[str, str], frozenset[str]
]:  # fmt: skip
    """(how alike each engine's outputs are, in words; those too unlike to count). Ends where float32 is unlike."""
    told, unlike = {}, set()
    for engine, outputs in said.items():
        found = judge(outputs)
        if isinstance(found, tuple):
            cosine, largest = found
            fine = cosine >= LEAST_COSINE[bits(engine)] and (bits(engine) < 32 or largest <= LARGEST)
            told[engine] = f"{cosine:.4f}"
        else:
            fine, told[engine] = found >= LEAST[bits(engine)], f"{found:.1%}"
        if not fine and bits(engine) == 32:
            raise SystemExit(f"{work}: {engine} agrees to {told[engine]} alone: not the same function")
        if not fine:
            unlike.add(engine)
    return told, frozenset(unlike)
