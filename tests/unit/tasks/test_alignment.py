"""What a translator says of a given translation: its probability, and the source of each token."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.model import Model, TransformerConfig, make_language_model, watch
from regard.tasks import alignment
from regard.tasks.alignment import align_pairs, score_tokens
from regard.tasks.search import search_translations
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")

TOKENIZER = Tokenizer.train(["abcdefghijklmnop"], kind="chars", vocab_size=40)
PAIRS = [([6, 7, 8], [9, 10]), ([9] * 11, [7]), ([7], []), ([10, 6, 12, 8], [9, 6, 7, 12, 11, 10]), ([], [6])]


def score_pairs(*arguments) -> list[float]:
    return [sum(scores) for scores in score_tokens(*arguments)]


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(5)
    config = TransformerConfig(
        vocab_size=TOKENIZER.vocab_size, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, n_decoder_layers=2,
        max_len=24, tie_embeddings=False,
    )  # fmt: skip
    model = make_language_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.ndim == 2 else 1.0)
    return model


@torch.no_grad()
def test_a_score_is_the_sum_of_the_log_probabilities(model: Model) -> None:
    """The oracle: one pair, one token at a time, everything written out."""
    for source, target in PAIRS:
        ids = torch.tensor([[*source, TOKENIZER.eos_id]])
        expected, so_far = 0.0, [TOKENIZER.bos_id]
        for token in (*target, TOKENIZER.eos_id):
            state = model.transformer.start(model.transformer.encode(ids))
            hidden = model.transformer.decode(torch.tensor([so_far]), state)
            expected += float(model.logits(hidden)[0, -1].log_softmax(-1)[token])
            so_far.append(token)
        assert score_pairs(model, TOKENIZER, [(source, target)]) == pytest.approx([expected], abs=1e-4)


@pytest.mark.parametrize("together", [1, 12, 4_000])
def test_nothing_depends_on_what_is_scored_together(
    model: Model, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = [score_pairs(model, TOKENIZER, [pair])[0] for pair in PAIRS]
    links = [align_pairs(model, TOKENIZER, [pair])[0] for pair in PAIRS[:4]]
    assert len(set(scores)) == len(PAIRS)
    monkeypatch.setattr(alignment, "TOGETHER", together)
    assert score_pairs(model, TOKENIZER, PAIRS) == pytest.approx(scores, abs=1e-4)
    assert align_pairs(model, TOKENIZER, PAIRS[:4]) == links
    assert score_pairs(model, TOKENIZER, []) == align_pairs(model, TOKENIZER, []) == []


def test_what_a_search_found_scores_the_same_under_teacher_forcing(model: Model) -> None:
    """Law 28."""
    sources = [[6, 7, 8], [9] * 11, [10, 6, 12, 8, 9]]
    urge = torch.zeros(model.config.vocab_size)
    urge[TOKENIZER.eos_id] = 6.0
    with watch(model, "logits", edit=lambda name, logits: logits + urge):  # a model that comes to an end
        found = search_translations(model, TOKENIZER, sources, ratio=2.0, beam=4, n_best=4)
        ended = [(s, best) for s, several in zip(sources, found, strict=True) for best in several if best.finished]
        scores = score_pairs(model, TOKENIZER, [(source, best.ids) for source, best in ended])
    assert len({best.ids for _, best in ended}) > 3
    assert scores == pytest.approx([best.logprob for _, best in ended], abs=1e-4)


def test_an_alignment_is_read_off_the_cross_attention(model: Model) -> None:
    """Turn every head's eyes to chosen source tokens, and find just these."""
    source, target, chosen = [6, 7, 8, 9], [10, 11, 12], [2, 0, 3]

    def turn(name: str, scores: Tensor) -> Tensor:
        turned = scores.clone()
        for t, s in enumerate(chosen):
            turned[:, :, t, s] += 100
        turned[:, :, :, len(source)] += 110  # the end of the source draws most of all, and is nobody's origin
        return turned

    with watch(model, "decoder.layers.*.cross_attn.scores", edit=turn):
        [links] = align_pairs(model, TOKENIZER, [(source, target)])
    assert links == tuple((s, t) for t, s in enumerate(chosen))
