"""Laws 23, 25 and 32 on real runs of a few updates, and shown faults of the processes that make them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.laws import LAWS, Rerun, Scored, ends
from regard.tasks import translation
from regard.tasks.conventions import Conventions
from regard.tasks.translation import TranslationTask
from regard.text import Tokenizer
from regard.training import Recipe
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe

from . import lessons

Patch = pytest.MonkeyPatch
RUN_FAULTS = [
    (23, lessons.the_random_state_is_not_stored), (23, lessons.the_order_begins_anew),
    (23, lessons.ranks_draw_their_own_batches), (25, lessons.the_pointer_is_written_before_the_folder),
]  # fmt: skip
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.3}


@pytest.fixture
def rerun(tmp_path: Path) -> Rerun:
    """Eight updates, of seven an epoch or more, each in three parts, with dropout; a save after every other."""
    table, runs = tmp_path / "pairs.tsv", tmp_path / "runs"
    pairs = zip(lessons.texts(90, 1), lessons.texts(90, 2), strict=True)
    table.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    runs.mkdir()
    recipe = Recipe(
        data=DataRecipe(train=(str(table),)), tokenizer=TokenizerRecipe(kind="chars", vocab_size=40), model=SIZES,
        batch=BatchRecipe(tokens=400, accumulate=3, max_len=60), schedule=ScheduleRecipe(warmup=2),
        loop=LoopRecipe(steps=8, evaluate_every=2),
    )  # fmt: skip
    return Rerun(recipe, runs)


def with_fault(rerun: Rerun, fault: Callable[[], None]) -> Rerun:
    return replace(rerun, command=(sys.executable, lessons.__file__, "sit", fault.__name__))


@pytest.mark.whole
def test_law_23_holds(rerun: Rerun) -> None:
    verdict = LAWS[23](rerun)
    assert (verdict.outcome, verdict.measured) == ("pass", 0.0), verdict


@pytest.mark.whole
def test_law_25_holds(rerun: Rerun) -> None:
    verdict = LAWS[25](replace(rerun, kills=4))
    assert (verdict.outcome, verdict.measured) == ("pass", 0.0), verdict


@pytest.mark.whole
@pytest.mark.parametrize(("number", "fault"), RUN_FAULTS)
def test_law_fails(number: int, fault: Callable[[], None], rerun: Rerun) -> None:
    verdict = LAWS[number](with_fault(rerun, fault))
    assert verdict.outcome == "fail" and "sitting" not in verdict.sentence, verdict


@pytest.mark.whole
def test_a_sitting_that_stops_by_itself_is_no_pass(rerun: Rerun) -> None:
    lost = replace(rerun.recipe, data=DataRecipe(train=("nowhere.tsv",)))
    verdict = LAWS[25](replace(rerun, recipe=lost))
    assert verdict.outcome == "fail" and "a sitting in whole stopped: regard.errors.DataError" in verdict.sentence, (
        verdict
    )


# ------------------------------------------------------------------ scores


@pytest.fixture
def scored(tmp_path: Path) -> Scored:
    """A translator that knows six sentences, with apostrophes in them, by heart, and said two more."""
    said = [text.replace(" ", " d'", 1) for text in lessons.texts(8, 2)]
    files = tmp_path / "test.en", tmp_path / "test.fr"
    for file, lines in zip(files, (lessons.texts(8, 1), said), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    tokenizer = Tokenizer.train([*lessons.texts(8, 1), *said], kind="chars", vocab_size=40)
    ids = tokenizer.encode_batch(lessons.texts(6, 1)), tokenizer.encode_batch(said[:6])
    batch = Conventions.read({}, tokenizer).batch(*ids)
    sizes: dict[str, Any] = {"d_model": 32, "d_ff": 64, **lessons.ENCODER, **lessons.DECODER}
    model = lessons.model_of(tokenizer, "language-model", **sizes)
    return Scored(ends.by_heart(model, TranslationTask(), batch), tokenizer, *files)


def test_law_32_holds(scored: Scored) -> None:
    verdict = LAWS[32](scored)
    assert verdict.outcome == "pass", verdict


def test_law_32_cannot_be_told_by_who_says_nothing_right(scored: Scored) -> None:
    model = lessons.model_of(scored.tokenizer, "language-model", **lessons.ENCODER, **lessons.DECODER)
    assert LAWS[32](replace(scored, model=model)).outcome == "undecided"


def references_are_tokenised(patch: Patch) -> None:
    score = translation.translation_metrics

    def tokenised(outputs: Any, references: Any, *rest: Any) -> Any:
        return score(outputs, [line.replace("'", " ' ") for line in references], *rest)

    patch.setattr(translation, "translation_metrics", tokenised)


def words_are_cut_otherwise(patch: Patch) -> None:
    score = translation.translation_metrics
    patch.setattr(translation, "translation_metrics", lambda *given: score(*given, tokenize="char"))


SCORE_FAULTS = [(32, references_are_tokenised), (32, words_are_cut_otherwise)]


@pytest.mark.parametrize(("number", "fault"), SCORE_FAULTS)
def test_law_of_scores_fails(number: int, fault: Callable[[Patch], None], scored: Scored, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    verdict = LAWS[number](scored)
    assert verdict.outcome == "fail", verdict
