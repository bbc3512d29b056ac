"""The ledger: recipes that were run, what came out, and what a rerun may be expected to give.

    recipes/NAME.toml          a plain Recipe; its data is named as `multi30k/train.en.gz` and found by `find_data`
    recipes/ledger.toml        for each NAME: a title, the test sets and how they are scored, data to be made first
    recipes/NAME.result.json   what its runs gave; absent until one was recorded

What is unusual: a rerun is judged against an interval for ONE new run, not for the mean of the old ones. From three
seeds on it is the 95 % prediction interval, mean +- t s sqrt(1 + 1/n) with Student's t for n - 1 degrees of freedom;
with fewer, the spread of seeds cannot be told from them, and it is mean +- the metric's `TOLERANCES`.
What it does not know: how to train, and how translations are made (`cli.reproduce` does both).
"""

from __future__ import annotations

import difflib
import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard.config import build, load_toml, to_tree
from regard.data.places import find_data, made_data
from regard.errors import ConfigError
from regard.hub.atomic import write_text_atomic
from regard.hub.folder import describe_model
from regard.hub.packaged import model_path
from regard.machine import speeds
from regard.tasks.apart import QuestionsApart
from regard.tasks.both_ways import BothWays
from regard.tasks.metrics import translation_metrics
from regard.tasks.parted import PartedTable, PythonSources
from regard.tasks.portions import FewLabels, FoldApart
from regard.training.pace import as_quick_here
from regard.training.recipe import Recipe
from regard.training.start import hash_weights

RECIPES = Path(__file__).parent / "recipes"
TOLERANCES = {"bleu": 1.5, "chrf": 1.5}
"""Points of BLEU or chrF: about three times the standard deviation over seeds of small models on Multi30k."""
PLACES = 4
"""Decimal places of what is recorded."""
BASELINES = ("bag_of_words_", "unigram_", "ngram_", "xz_")
"""How the names of scores begin that are not the model's."""
SHARE = 0.03
"""Of the score itself: the tolerance of any other metric."""
Metrics = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""test set -> metric -> {"score", "signature"}."""
T_95 = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, two-sided 95 %, for 2 to 9 degrees of freedom; for more the last one is a little wide."""


@dataclass(frozen=True, kw_only=True)
class TestSet:
    """What a model of a recipe is scored on, and how.

    Attributes:
        data: two parallel files, one table, or texts, named as in a recipe; none: the part that the run itself held out
            for development, where nothing was chosen by it.
        field: of the text, in a table of documents.
        metrics: which of the scores there are to be kept; the first stands in the short tables. Those of BASELINES are
            of a bag of words, of n-grams or of xz after what the recipe trains on, development part included.
        tokenize: sacrebleu's tokenizer; empty: the usual one of the target language.
        joiner: what ends a piece of a word in the files, as "@@ "; outputs and references are joined before scoring.
        published: somebody else's first metric in this very setting, and whose it is.
    """

    data: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("bleu", "chrf")
    field: str = "text"
    tokenize: str = ""
    joiner: str = ""
    published: tuple[float, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recipe of the ledger, beside the recipe itself."""

    title: str
    tests: dict[str, TestSet]
    beam: int = 4
    made: BothWays | PartedTable | PythonSources | QuestionsApart | FoldApart | FewLabels | None = None
    """Files that have to be made first; the recipe names them NAME/..."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One metric on one test set over the recorded runs: the mean, and where one more run should fall."""

    score: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run of a recipe."""

    seed: int
    scores: dict[str, dict[str, float]]
    """test set -> metric -> points."""
    minutes: float
    updates: int
    parameters: int
    machine: dict[str, Any]
    versions: dict[str, str]
    date: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """What the runs of a recipe gave: NAME.result.json."""

    recipe: str
    """`fingerprint` of the recipe that was run."""
    command: str
    data: dict[str, str]
    """The SHA-256 of every file trained or scored on, by its name in the ledger, and of a model to start from."""
    figures: dict[str, dict[str, Figure]]
    """test set -> metric -> figure."""
    runs: tuple[Outcome, ...]


# ---------------------------------------------------------------- the shipped recipes


def names() -> list[str]:
    """The shipped recipes, in the order of the ledger."""
    return list(load_toml(RECIPES / "ledger.toml"))


def find_entry(name: str) -> Entry:
    """What the ledger says of a recipe; raises ConfigError for a name that it does not have."""
    known = load_toml(RECIPES / "ledger.toml")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise ConfigError("there is no such recipe", expected=" or ".join(known), got=name,
                          mend=f"did you mean {near[0]}?" if near else None)  # fmt: skip
    return build(Entry, known[name], where=f"ledger.toml: {name}")


def named_recipe(name: str) -> Recipe:
    """A shipped recipe as it is written, its data by name."""
    return build(Recipe, load_toml(RECIPES / f"{name}.toml"), where=f"{name}.toml")


def find_recipe(name: str, device: torch.device) -> Recipe:
    """A shipped recipe as it can be run on this machine: its data where it lies, in a precision that is quick here.

    What has to be made of the data is made.

    Raises:
        ConfigError: there is no such recipe.
        DataError: its data is absent; says where to get it.
    """
    if made := find_entry(name).made:
        made.write(made_data() / name)
    recipe = named_recipe(name)
    train, dev = (tuple(str(find_data(file)) for file in files) for files in (recipe.data.train, recipe.data.dev))
    recipe = replace(recipe, data=replace(recipe.data, train=train, dev=dev))
    return (
        as_quick_here(recipe, speeds(device))
        if "bfloat16" in (recipe.loop.dtype, recipe.optim.matrix_dtype)
        else recipe
    )


def find_record(name: str) -> Record | None:
    """What was recorded of a recipe as it now is, if anything was."""
    path = RECIPES / f"{name}.result.json"
    if not path.exists():
        return None
    record = build(Record, json.loads(path.read_text(encoding="utf-8")), where=str(path))
    return record if record.recipe == fingerprint(name) else None


def fingerprint(name: str) -> str:
    """The SHA-256 of what a shipped recipe says, its seed left out; comments and the order of lines do not matter.

    Of what is written, not of the Recipe built from it: a new field with a default leaves what was recorded valid.
    """
    tree = {field: value for field, value in load_toml(RECIPES / f"{name}.toml").items() if field != "seed"}
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def hash_data(name: str) -> dict[str, str]:
    """The SHA-256 of each file that a recipe is trained and scored on, and of the weights that it starts from.

    Raises:
        DataError, CheckpointError: one is absent.
    """
    recipe = named_recipe(name)
    data, tests = recipe.data, [file for test in find_entry(name).tests.values() for file in test.data]
    origin = {recipe.init_from: hash_weights(describe_model(model_path(recipe.init_from)))} if recipe.init_from else {}
    found = {**origin}
    for file in dict.fromkeys([*data.train, *data.dev, *tests]):
        with find_data(file).open("rb") as stream:
            found[file] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


# ---------------------------------------------------------------- scores


def score(
    test: TestSet, outputs: Sequence[str], references: Sequence[str], language: str | None
) -> dict[str, dict[str, Any]]:
    """{"bleu": {"score", "signature"}, "chrf": {...}} of a run's outputs, as the test set wants to be scored."""
    if test.joiner:
        outputs, references = ([text.replace(test.joiner, "") for text in side] for side in (outputs, references))
    return translation_metrics(outputs, references, language, test.tokenize)


def interval(scores: Sequence[float], metric: str) -> tuple[float, float]:
    """Where the score of one more run should fall; the module says how it is formed."""
    n, mean = len(scores), statistics.fmean(scores)
    if n < 3:
        tolerance = TOLERANCES.get(metric, SHARE * abs(mean))
        return mean - tolerance, mean + tolerance
    reach = T_95[min(n - 3, len(T_95) - 1)] * statistics.stdev(scores) * (1 + 1 / n) ** 0.5
    return mean - reach, mean + reach


def record_run(name: str, run: Outcome, metrics: Metrics, data: Mapping[str, str]) -> Path:
    """Add a run to what is recorded of a recipe, and return the file.

    It takes the place of an earlier run with its seed; runs of other data, or of the recipe before a change, are
    dropped. Raises UserError where the file cannot be written.
    """
    before = find_record(name)
    others = [old for old in before.runs if old.seed != run.seed] if before and before.data == data else []
    runs = tuple(sorted([*others, run], key=lambda one: one.seed))
    figures = {
        test: {
            metric: _figure(metric, [one.scores[test][metric] for one in runs], of.get("signature", ""))
            for metric, of in found.items()
        }
        for test, found in metrics.items()
    }
    record = Record(recipe=fingerprint(name), command=f"regard reproduce {name}", data=dict(data),
                    figures=figures, runs=runs)  # fmt: skip
    path = RECIPES / f"{name}.result.json"
    write_text_atomic(path, json.dumps(to_tree(record), indent=1, ensure_ascii=False) + "\n")
    return path


def _figure(metric: str, scores: Sequence[float], signature: str) -> Figure:
    low, high = (round(end, PLACES) for end in interval(scores, metric))
    return Figure(score=round(statistics.fmean(scores), PLACES), low=low, high=high, signature=signature)
