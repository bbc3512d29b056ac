"""An encoder-decoder learns to say a sequence backwards."""

from __future__ import annotations

import torch

from regard.data import Batch, collate
from regard.generate import Hypothesis, beam_search
from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks.translation import TranslationTask

PAD, BOS, EOS, V, LONGEST = 0, 1, 2, 13, 40


def model() -> Model:
    return make_language_model(
        TransformerConfig(
            vocab_size=V, d_model=32, n_heads=4, d_ff=64, n_encoder_layers=1, n_decoder_layers=1, max_len=LONGEST
        )
    )


def sources(n: int, seed: int) -> list[list[int]]:
    """Sequences of 3 to 8 random symbols."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 9, (n,), generator=random).tolist()
    return [torch.randint(3, V, (length,), generator=random).tolist() for length in lengths]


def batch(rows: list[list[int]], targets: list[list[int]]) -> Batch:
    return collate(rows, targets, pad_id=PAD, bos_id=BOS, eos_id=EOS)


def outputs(model: Model, rows: list[list[int]]) -> list[Hypothesis]:
    """The best output for each, free to go on up to the longest there may be."""
    given, transformer = batch(rows, [[]] * len(rows)), model.transformer
    with torch.no_grad():
        state = transformer.start(transformer.encode(given.src, real=given.src_real), given.src_real, capacity=LONGEST)
    first, limits = torch.full((len(rows), 1), BOS), torch.full((len(rows),), LONGEST)
    return [best[0] for best in beam_search(model, state, first, ends=(EOS,), limits=limits, beam=1)]


def test_learns_to_reverse(train) -> None:
    def reversing(step: int) -> Batch:
        rows = sources(64, seed=step)
        return batch(rows, [row[::-1] for row in rows])

    learned = train(model(), TranslationTask(), reversing, 180)
    rows = sources(200, seed=10**6)
    right = [one.finished and list(one.ids) == row[::-1] for one, row in zip(outputs(learned, rows), rows, strict=True)]
    assert sum(right) >= 196
