"""What stands around texts: read from the model's facts and the vocabulary's template; search and score keep to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tokenizers import processors

from regard.errors import CheckpointError, ConfigError
from regard.generate import Hypothesis
from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks.alignment import align_pairs, score_tokens
from regard.tasks.conventions import Conventions, around
from regard.tasks.search import search_translations
from regard.tasks.texts import Request, Translator
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
SOURCE = Tokenizer.train(["abcdefghij"], kind="chars", vocab_size=40)
TARGET = Tokenizer.train(["zyxwvutsrqponmlk"], kind="chars", vocab_size=40, specials=["<zh>"])
BART = {"start": 2, "ends": [2], "lead": [1], "forced": [1]}


def with_template(tokenizer: Tokenizer, single: str) -> Tokenizer:
    backend = type(tokenizer.backend).from_str(tokenizer.backend.to_str())
    backend.post_processor = processors.TemplateProcessing(
        single=single, pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return Tokenizer(backend, tokenizer.roles)


@pytest.fixture(scope="module")
def model() -> Model:
    """Two vocabularies of 15 and 22 tokens, the second padded to 24."""
    torch.manual_seed(1)
    config = TransformerConfig(
        vocab_size=SOURCE.vocab_size, decoder_vocab_size=24, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1,
        n_decoder_layers=1, max_len=30, tie_embeddings=False,
    )  # fmt: skip
    model = make_language_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.ndim == 2 else 1.0)
    return model


@torch.no_grad()
def told(model: Model, source: list[int], begun: list[int], ids: tuple[int, ...], end: int | None) -> float:
    """The oracle: log p of ids and of an end, given the source as it stands and what an output begins with."""
    memory = model.transformer.encode(torch.tensor([source]))
    said = [*begun, *ids]
    log_p = model.logits(model.transformer.decode(torch.tensor([said]), model.transformer.start(memory)))
    log_p = log_p[0].log_softmax(-1)
    after = [*ids, *([end] if end is not None else [])]
    return sum(float(log_p[len(begun) - 1 + t, token]) for t, token in enumerate(after))


def test_a_model_that_says_nothing_has_those_of_models_trained_here() -> None:
    found = Conventions.read({}, SOURCE)
    assert (found.start, found.ends, found.lead, found.tail, found.forced) == (1, (2,), (), (2,), ())
    assert found.first == [1] and found.end == 2 and found.silent == (0, 1, 4)
    batch = found.batch([[6, 7], [8]], [[9], []])
    assert batch.src.tolist() == [[6, 7, 2], [8, 2, 0]] and batch.tgt_in.tolist() == [[1, 9], [1, 0]]
    assert batch.tgt_out.tolist() == [[9, 2], [2, 0]] and batch.count == 3


def test_a_template_says_what_stands_around_a_source() -> None:
    assert around(SOURCE) == ((), ())
    assert around(with_template(SOURCE, "<s> $A </s>")) == ((1,), (2,))
    found = Conventions.read({"conventions": BART}, with_template(SOURCE, "<s> $A </s>"), TARGET)
    assert found.batch([[6]], [[9]]).src.tolist() == [[1, 6, 2]]
    assert found.batch([[6]], [[9]]).tgt_in.tolist() == [[2, 1, 9]]
    assert found.most_read(30) == 28 and found.most_said(30) == 29
    assert Conventions.read({}, with_template(SOURCE, "<s> $A")).tail == (), "the template is asked, and has no end"


@pytest.mark.parametrize("said", [[], {"ends": 2}, {"ends": ["2"]}, {"start": True}, {"lead": [-1]}, {"forced": "x"}])
def test_what_cannot_be_is_a_damaged_checkpoint(said: object) -> None:
    with pytest.raises(CheckpointError, match="conventions"):
        Conventions.read({"conventions": said}, SOURCE)


def test_without_a_start_or_an_end_nothing_is_translated(model: Model) -> None:
    for said in ({"ends": [2]}, {"start": 1, "ends": []}):
        conventions = Conventions.read({"conventions": said}, SOURCE, TARGET)
        with pytest.raises(ConfigError, match="nothing says what an output"):
            search_translations(model, TARGET, [[6]], ratio=1.0, beam=1, conventions=conventions)


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_and_scores_keep_to_them(model: Model, beam: int) -> None:
    """Against the oracle: what stands around source and output, several ends, two vocabularies."""
    said = {"start": 4, "ends": [2, 9, 11], "lead": [1], "forced": [5, 1]}
    conventions = Conventions.read({"conventions": said}, with_template(SOURCE, "<s> $A </s>"), TARGET)
    sources = [[6, 7, 8], [9, 9, 10, 11, 12], [7]]
    found = search_translations(
        model, TARGET, sources, ratio=2.0, beam=beam, n_best=beam, conventions=conventions
    )  # fmt: skip
    finished = 0
    for source, several in zip(sources, found, strict=True):
        for one in several:
            around_source = [1, *source, 2]
            assert not set(one.ids) & {0, 1, 2, 4, 5, 9, 11, 22, 23}, "control tokens, ends, ids without a token"
            ends = [told(model, around_source, [4, 5, 1], one.ids, end) for end in (2, 9, 11)]
            expected = max(ends) if one.finished else told(model, around_source, [4, 5, 1], one.ids, None)
            assert one.logprob == pytest.approx(expected, abs=1e-4)
            finished += one.finished
            [scores] = score_tokens(model, TARGET, [(source, one.ids)], conventions=conventions)
            assert len(scores) == len(one.ids) + 1 and sum(scores) == pytest.approx(ends[0], abs=1e-4)
    assert finished, "else ends are not tried"


def test_alignments_count_the_sources_own_tokens(model: Model) -> None:
    plain = Conventions.read({}, SOURCE, TARGET)
    led = replace(plain, lead=(1, 3), forced=(5,))
    source, target = [6, 7, 8, 9], [10, 11, 12]
    [links] = align_pairs(model, TARGET, [(source, target)], conventions=led)
    assert [t for _, t in links] == [0, 1, 2] and all(0 <= s < 4 for s, _ in links)
    # the same tokens, told as the source's own
    [all_own] = align_pairs(model, TARGET, [([1, 3, *source], [5, *target])], [2], conventions=plain)
    assert [s for s, _ in all_own][1:] == [s for s, _ in links]


def test_two_vocabularies_read_with_one_and_write_with_the_other(model: Model) -> None:
    said = {"start": 4, "ends": [2], "lead": [], "forced": [5]}
    conventions = Conventions.read({"conventions": said}, SOURCE, TARGET)
    translator = Translator(model, SOURCE, 2.0, None, TARGET, conventions)
    [found] = translator.translate(["abc"], [None], [""], Request(beam=2, alignments=True))
    assert found.text and set(found.text) <= set("zyxwvutsrqponmlk")
    assert found.source_tokens == ("a", "b", "c") and "".join(found.target_tokens) == found.text
    [begun] = translator.translate(["abc"], [None], ["zy"], Request(beam=2))
    assert begun.text.startswith("zy")
    hypotheses: list[list[Hypothesis]] = search_translations(
        model, TARGET, [SOURCE.encode("abc")], ratio=2.0, beam=2, conventions=conventions
    )
    assert TARGET.decode(hypotheses[0][0].ids) == found.text
