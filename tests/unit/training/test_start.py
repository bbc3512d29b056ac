"""What a run starts from: several target languages, tagged pairs, another model; and what a run's folder says of it."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regard.data import Finding
from regard.errors import CheckpointError, ConfigError
from regard.hub.folder import find_model, load_model
from regard.tasks.prefix import source_prefix, target_languages
from regard.training import Event, Progress, Recipe, Result, train
from regard.training.outcome import refuse_mixing
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe
from regard.training.resolve import planned
from regard.training.start import LOWER_RATE, Origin
from regard.training.translating import Translating, refuse_turned

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.1}


@pytest.mark.parametrize(("before", "after"), [(None, None), (3, 9), (50, 50)])
def test_a_model_that_is_trained_on_shorter_sources_still_knows_the_longer_ones(
    before: int | None, after: int | None
) -> None:
    """And where nobody knows how long those were, as of another tool's model, nothing is said."""
    data = SimpleNamespace(train=([[0] * 9] * 5, [[0] * 4] * 5), max_len=256)
    corpus = SimpleNamespace(languages=("en", "de"), targets=())
    assert Translating().facts(data, corpus)["longest_seen"] == 9  # type: ignore[arg-type]
    origin = SimpleNamespace(about={} if before is None else {"longest_seen": before})
    assert Translating(origin).facts(data, corpus).get("longest_seen") == after  # type: ignore[arg-type]


class Listener:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, unit: str) -> None:
        pass

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def show(self, findings: Iterable[Finding]) -> None:
        pass

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        pass


@pytest.fixture
def write(data_dir: Callable[[str], Path], tmp_path: Path) -> Callable[..., str]:
    """`write("a.tsv", "train", ["de", "fr"], range(300))` writes pairs of Multi30k, English into each language."""

    def lines(name: str, code: str) -> list[str]:
        text = gzip.decompress((data_dir("multi30k") / f"{name}.{code}.gz").read_bytes()).decode()
        return text.split("\n")

    def table(file: str, name: str, codes: Sequence[str], rows: range, *, header: bool = True) -> str:
        english = lines(name, "en")
        text = "source\ttarget\ttarget_language\n" if header else ""
        for code in codes:
            other = lines(name, code)
            text += "".join(f"{english[i]}\t{other[i]}" + (f"\t{code}" if header else "") + "\n" for i in rows)
        (tmp_path / file).write_text(text, encoding="utf-8")
        return str(tmp_path / file)

    return table


def recipe(data: DataRecipe, **changes: object) -> Recipe:
    whole = Recipe(
        data=data, tokenizer=TokenizerRecipe(vocab_size=500), model=SIZES, batch=BatchRecipe(tokens=800),
        schedule=ScheduleRecipe(warmup=2), loop=LoopRecipe(steps=3, evaluate_every=3),
    )  # fmt: skip
    return replace(whole, **changes)  # type: ignore[arg-type]


def run(recipe: Recipe, out: Path) -> tuple[Result, list[str]]:
    listener = Listener()
    return train(recipe, out, device=CPU, reporter=listener), listener.said


@pytest.fixture
def several(write: Callable[..., str], tmp_path: Path) -> tuple[Recipe, Path]:
    """A run of English into German and French."""
    data = DataRecipe(
        train=(write("t.tsv", "train", ["de", "fr"], range(200)),),
        dev=(write("d.tsv", "val", ["fr", "de"], range(20)),),
    )
    whole = recipe(data)
    run(whole, tmp_path / "several")
    return whole, tmp_path / "several"


def test_several_target_languages_are_tokens_before_the_source(several: tuple[Recipe, Path]) -> None:
    whole, out = several
    folder = load_model(out)
    tokenizer = folder.tokenizer
    assert target_languages(tokenizer) == ("de", "fr")
    assert (folder.about["languages"], folder.about["targets"]) == ([None, None], ["de", "fr"])
    corpus = Translating().read(whole)
    data = Translating().data(whole, corpus, tokenizer)
    for pairs, ids in ((corpus.train, data.train), (corpus.dev, data.dev)):
        assert pairs.to is not None and set(pairs.to) == {"de", "fr"}
        for code, source, mine in zip(pairs.to, pairs.source, ids[0], strict=True):
            assert mine == source_prefix(tokenizer, code) + tokenizer.encode(source)
    assert {"dev_bleu", "dev_bleu_de", "dev_bleu_fr", "dev_chrf_fr"} <= set(folder.about["training"]["scores"])


def test_one_direction_has_no_language_token_and_one_bleu(write: Callable[..., str], tmp_path: Path) -> None:
    data = DataRecipe(train=(write("t.tsv", "train", ["de"], range(200), header=False),), languages=("en", "de"))
    result, said = run(recipe(data), tmp_path / "run")
    assert target_languages(load_model(tmp_path / "run").tokenizer) == ()
    assert set(result.scores) == {"dev_loss", "dev_bleu", "dev_chrf"}
    assert not any("--languages" in sentence for sentence in said)


def test_unnamed_languages_are_said_with_how_to_name_them(write: Callable[..., str], tmp_path: Path) -> None:
    data = DataRecipe(train=(write("t.tsv", "train", ["de"], range(200), header=False),))
    _, said = run(recipe(data), tmp_path / "run")
    assert sum("--languages en,de" in sentence for sentence in said) == 1


def test_tagged_pairs_are_trained_on_and_never_in_dev(write: Callable[..., str]) -> None:
    train_file = write("t.tsv", "train", ["de"], range(200), header=False)
    dev = write("d.tsv", "val", ["de"], range(30), header=False)
    extra = write("x.tsv", "val", ["de"], range(20, 90), header=False)
    data = DataRecipe(train=(train_file,), dev=(dev,), extra=(extra,), extra_tag="bt", languages=("en", "de"))
    whole = recipe(data)
    corpus = Translating().read(whole)
    tokenizer = Translating().tokenizer(whole, corpus)
    ids, tag = Translating().data(whole, corpus, tokenizer), tokenizer.token_id("<tag:bt>")
    assert corpus.extra is not None and set(corpus.dev.target).isdisjoint(corpus.extra.target)
    assert 55 <= len(corpus.extra) <= 60 and len(ids.train[0]) == 200 + len(corpus.extra)
    assert [source[0] == tag for source in ids.train[0]] == [False] * 200 + [True] * len(corpus.extra)
    assert all(tag not in source for source in [*ids.dev[0], *(source[1:] for source in ids.train[0])])
    assert corpus.where(200).startswith(extra) and corpus.where(199) == f"{train_file}:200"
    with pytest.raises(ConfigError, match="--extra SRC TGT"):
        Translating().read(replace(whole, data=replace(data, extra=())))


def test_from_a_model_keeps_its_tokenizer_and_sizes_and_goes_on_from_its_weights(
    several: tuple[Recipe, Path], write: Callable[..., str], tmp_path: Path
) -> None:
    _, out = several
    french = write("f.tsv", "train", ["fr"], range(200, 300))
    base = Recipe(data=DataRecipe(train=(french,)), init_from=str(out))
    plan = planned(base, ["loop.steps=1", "batch.tokens=800", "model.dropout=0.3"], minutes=1, device=CPU)
    assert {**SIZES, "dropout": 0.3}.items() <= plan.recipe.model.items()
    assert plan.recipe.optim.lr == pytest.approx(LOWER_RATE * Recipe(data=base.data).optim.lr)
    still = replace(plan.recipe, optim=replace(plan.recipe.optim, lr=0.0, matrix_lr=0.0))
    result, _ = run(still, tmp_path / "tuned")
    before, after = load_model(out), load_model(tmp_path / "tuned")
    assert all(torch.equal(p, q) for p, q in zip(before.model.parameters(), after.model.parameters(), strict=True))
    assert (before.path / "tokenizer.json").read_bytes() == (after.path / "tokenizer.json").read_bytes()
    assert after.about["training"]["init"]["from"] == str(out) and len(after.about["training"]["init"]["sha256"]) == 64
    assert after.model.config.dropout == 0.3 and result.recipe.init_from == str(out)


def test_what_the_model_to_start_from_cannot_say(
    several: tuple[Recipe, Path], write: Callable[..., str], tmp_path: Path
) -> None:
    whole, out = several
    whole = replace(whole, init_from=str(out))
    unnamed = DataRecipe(train=(write("u.tsv", "train", ["de"], range(200), header=False),))
    with pytest.raises(ConfigError, match=r"u\.tsv: this model has several(.|\n)*expected: de or fr(.|\n)*--languages"):
        run(replace(whole, data=unnamed), tmp_path / "a")
    tagged = replace(whole.data, extra=(write("x.tsv", "val", ["de"], range(99)),), extra_tag="bt")
    with pytest.raises(ConfigError, match=r"(?s)no such tag.*expected: no tag"):
        run(replace(whole, data=tagged), tmp_path / "b")
    with pytest.raises(CheckpointError, match="there is no model folder"):
        run(replace(whole, init_from=str(tmp_path / "absent")), tmp_path / "c")
    with pytest.raises(CheckpointError, match="do not fit the model"):
        run(replace(whole, model={**SIZES, "d_ff": 32}), tmp_path / "d")


@pytest.mark.parametrize(
    ("change", "says"),
    [("model.d_model=64", "model.d_model"), ("model.n_decoder_layers=9", "model.n_decoder_layers"),
     ("tokenizer.vocab_size=300", "tokenizer.vocab_size"), ('tokenizer.kind="words"', "tokenizer.kind")],
)  # fmt: skip
def test_sizes_and_vocabulary_are_those_of_the_model_to_start_from(
    several: tuple[Recipe, Path], write: Callable[..., str], change: str, says: str
) -> None:
    """Else a plan tells of one model, and another one is trained."""
    base = Recipe(data=DataRecipe(train=(write("g.tsv", "train", ["fr"], range(200, 300)),)), init_from=str(several[1]))
    with pytest.raises(ConfigError, match=rf"(?s){says}.*of the model to start from.*leave out --from"):
        planned(base, ["loop.steps=1", change], minutes=1, device=CPU)


def test_pairs_the_other_way_round_are_refused() -> None:
    origin = Origin(path=Path("en-de"), tokenizer=None, target_tokenizer=None, about={"languages": ["en", "de-DE"]})  # type: ignore[arg-type]
    corpus = SimpleNamespace(languages=("de", "en"))
    with pytest.raises(ConfigError, match=r"(?s)other way round.*expected: en to de.*got: de to en"):
        Translating(origin).data(Recipe(data=DataRecipe(train=("a.tsv",))), corpus, None)  # type: ignore[arg-type]
    for ours, theirs in ((("en", "de"), ["en", "de"]), (("de", "en"), [None, None]), (("fr", "en"), ["en", "de"])):
        refuse_turned(replace(origin, about={"languages": theirs}), SimpleNamespace(languages=ours))  # type: ignore[arg-type]


def test_a_run_that_has_ended_says_so_and_does_no_work(several: tuple[Recipe, Path]) -> None:
    whole, out = several
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    listener = Listener()
    moved = replace(whole, data=DataRecipe(train=("absent",)))  # nothing is read
    result = train(moved, out, device=CPU, reporter=listener, resume=True)
    assert result.tokens_per_second is None and result.scores["dev_loss"] > 0
    assert listener.said == ["this run ended at update 3; nothing was done (more updates: --set loop.steps=N)"]
    assert files == {path: path.stat().st_mtime_ns for path in out.rglob("*")}


def test_a_run_without_a_checkpoint_is_begun_anew_and_the_messages_say_how(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('task = "translation"\n')
    with pytest.raises(ConfigError, match="whole command of the run, without --resume"):
        refuse_mixing(tmp_path, resume=True)
    refuse_mixing(tmp_path, resume=False)
    with pytest.raises(CheckpointError, match="whole command again, without --resume"):
        find_model(tmp_path)
