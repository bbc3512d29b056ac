"""An encoder-decoder learns to say a sequence backwards; and law 18: it learns four pairs by heart, ends included."""

from __future__ import annotations

import pytest
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


def outputs(model: Model, rows: list[list[int]], beam: int) -> list[Hypothesis]:
    """The best output for each, free to go on up to the longest there may be."""
    given, transformer = batch(rows, [[]] * len(rows)), model.transformer
    with torch.no_grad():
        state = transformer.start(transformer.encode(given.src, real=given.src_real), given.src_real, capacity=LONGEST)
    first, limits = torch.full((len(rows), 1), BOS), torch.full((len(rows),), LONGEST)
    return [best[0] for best in beam_search(model, state, first, ends=(EOS,), limits=limits, beam=beam)]


def test_learns_to_reverse(train) -> None:
    def reversing(step: int) -> Batch:
        rows = sources(64, seed=step)
        return batch(rows, [row[::-1] for row in rows])

    learned = train(model(), TranslationTask(), reversing, 180)
    rows = sources(200, seed=10**6)
    right = [
        one.finished and list(one.ids) == row[::-1] for one, row in zip(outputs(learned, rows, 1), rows, strict=True)
    ]
    assert sum(right) >= 196


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_law_18_four_pairs_are_learned_by_heart_and_end_by_themselves(smoothing: float, train) -> None:
    """Targets of 2 to 20 tokens; whoever was never taught an end would run on to the limit."""
    rows, random = sources(4, seed=5), torch.Generator().manual_seed(6)
    targets = [torch.randint(3, V, (n,), generator=random).tolist() for n in (2, 20, 7, 11)]
    learned = train(model(), TranslationTask(smoothing), lambda step: batch(rows, targets), 100)
    for beam in (1, 4):
        found = outputs(learned, rows, beam)
        assert [list(one.ids) for one in found] == targets
        assert all(one.finished for one in found)
