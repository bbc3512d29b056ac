"""The Python face: lists in, lists out, and a defined answer to odd text."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import regard
from regard.errors import ConfigError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(workplace: Path) -> regard.Loaded:
    return regard.load(workplace / "run", device="cpu")


@pytest.fixture(scope="module")
def sources(workplace: Path) -> list[str]:
    return (workplace / "test.en").read_text(encoding="utf-8").splitlines()


def test_importing_regard_imports_no_torch() -> None:
    code = "import sys, regard; regard.UserError; print({'torch', 'numpy', 'rich'} & set(sys.modules)); regard.load"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "set()\n"


def test_every_name_of_the_face_is_there() -> None:
    assert all(getattr(regard, name) is not None for name in regard.__all__)
    assert set(regard.__all__) <= set(dir(regard))
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = regard.lode


def test_a_model_says_what_it_is(model: regard.Loaded) -> None:
    assert (model.task, model.languages) == ("translation", ("en", "de"))
    assert f"translation en to de, {model.model.config.n_parameters:,} parameters" in repr(model)
    unknown = replace(model, about={**model.about, "languages": [None, None]})
    assert repr(unknown).startswith("<translation, "), "languages that nobody knows are left out"


def test_output_follows_input_whatever_is_translated_together(model: regard.Loaded, sources: list[str]) -> None:
    together = model.translate(sources, beam=2)
    assert len({translation.text for translation in together}) > 1, "such a model could not show a mixed-up order"
    turned = model.translate(sources[::-1], beam=2)[::-1]
    alone = [model.translate([text], beam=2)[0] for text in sources[:5]]
    assert [t.text for t in turned] == [t.text for t in together]
    assert [t.text for t in alone] == [t.text for t in together[:5]]
    assert [t.score for t in alone] == pytest.approx([t.score for t in together[:5]], abs=1e-4)


def test_the_best_come_first_and_each_once(model: regard.Loaded, sources: list[str]) -> None:
    best = model.translate(sources, beam=4, n_best=4)
    for translation, alone in zip(best, model.translate(sources, beam=4), strict=True):
        scores = [translation.score, *(other.score for other in translation.alternatives)]
        assert scores == sorted(scores, reverse=True) and len(scores) > 1
        assert translation.text == alone.text and not alone.alternatives


def test_scores_are_log_probabilities_of_each_pair(model: regard.Loaded, sources: list[str]) -> None:
    targets = sources[::-1]
    together = model.score(sources, targets)
    alone = [model.score([s], [t])[0] for s, t in zip(sources, targets, strict=True)]
    assert together == pytest.approx(alone, rel=1e-5) and max(together) < 0
    assert model.score(["a b"], [""])[0] > model.score(["a b"], ["x y z"])[0], (
        "more tokens cannot be more probable here"
    )


def test_alignments_name_a_source_token_for_each_target_token(model: regard.Loaded) -> None:
    [found] = model.translate(["Two dogs run."], alignments=True, n_best=2)
    for translation in (found, *found.alternatives):
        assert translation.source_tokens is not None and translation.target_tokens is not None
        assert translation.alignment is not None
        assert [target for _, target in translation.alignment] == list(range(len(translation.target_tokens)))
        assert all(0 <= source < len(translation.source_tokens) for source, _ in translation.alignment)
        assert "".join(translation.target_tokens).replace("▁", " ").strip() == translation.text
    assert model.translate(["Two dogs run."])[0].alignment is None
    assert model.translate([""], alignments=True)[0].alignment == ()


def test_what_cannot_be_asked(model: regard.Loaded) -> None:
    with pytest.raises(TypeError, match=r"\[text\]"):
        model.translate("one string")
    with pytest.raises(TypeError):
        model.score(["a"], "b")
    for name, wrong in (("beam", {"beam": 0}), ("n_best", {"beam": 2, "n_best": 3}), ("n_best", {"n_best": 0}),
                        ("no_repeat_ngram", {"no_repeat_ngram": -1}), ("protect", {"protect": "all"}),
                        ("to", {"to": ["de", "de"]}), ("prefix", {"prefix": []}),
                        ("glossary", {"glossary": {"a": " "}}),
                        ("direction", {"to": "fr"})):  # fmt: skip
        with pytest.raises(ConfigError, match=name):
            model.translate(["a"], **wrong)
    with pytest.raises(ConfigError, match="no targets"):
        model.score(["a"])
    with pytest.raises(ConfigError, match="2 sources and 1 targets"):
        model.score(["a", "b"], ["c"])
    with pytest.raises(ConfigError, match="task"):
        regard.train("divination", source="a", target="b", out="c")


def test_a_translation_shows_itself_briefly() -> None:
    plain = regard.Translation("Ein Hund.", -0.51234, -2.5)
    assert repr(plain) == "Translation('Ein Hund.', score=-0.512)"
    more = regard.Translation("x", -1.0, -1.0, alternatives=(plain,), left_out=1234)
    assert repr(more) == "Translation('x', score=-1.000, 1 alternatives, 1,234 source tokens left out)"


def test_training_from_python_is_the_command(
    workplace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pairs = [workplace / name for name in ("dev.en", "dev.de")]
    model = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.0}
    result = regard.train(
        "translation", source=pairs[0], target=pairs[1], out=tmp_path / "run", device="cpu",
        tokenizer={"vocab_size": 400}, model=model, loop={"steps": 2}, batch={"tokens": 500}, seed=7,
    )  # fmt: skip
    assert (result.recipe.seed, result.recipe.loop.steps, result.recipe.model["d_model"]) == (7, 2, 16)
    assert "update 2: development loss" in capfd.readouterr().err
    loaded = regard.load(tmp_path / "run", device="cpu")
    assert loaded.about["training"]["steps"] == 2 and loaded.languages == ("en", "de")


def test_what_a_task_cannot_do_is_refused_by_name(model: regard.Loaded, model_dir: Callable[[str], Path]) -> None:
    stories = regard.load(model_dir("stories260k"), device="cpu")
    assert stories.task == "language-model" and stories.languages == (None, None)
    assert repr(stories).startswith("<language-model, 260,032 parameters")
    asks = [
        (model, lambda: model.generate("x")), (model, lambda: model.stream("x")), (model, lambda: model.embed(["x"])),
        (stories, lambda: stories.translate(["x"])), (stories, lambda: stories.embed(["x"])),
    ]  # fmt: skip
    for loaded, ask in asks:
        with pytest.raises(ConfigError, match="this model cannot") as caught:
            ask()
        assert loaded.task in str(caught.value.got)


def test_a_language_model_scores_texts_as_it_says_them(model_dir: Callable[[str], Path]) -> None:
    stories = regard.load(model_dir("stories260k"), device="cpu")
    said = stories.generate("", max_tokens=12)
    texts = [said.text, "A dog.", ""]
    together, alone = stories.token_scores(texts), [stories.token_scores([text])[0] for text in texts]
    for one, other in zip(together, alone, strict=True):
        assert [token for token, _ in one] == [token for token, _ in other]
        assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=1e-4)
    assert [score for _, score in together[0][:-1]] == pytest.approx(said.logprobs, abs=1e-4)
    assert [tokens[-1][0] for tokens in together] == ["</s>"] * 3 and len(together[2]) == 1
    assert stories.score(texts) == pytest.approx([sum(score for _, score in tokens) for tokens in together])
    long = "dog " * 600
    assert stories.too_long(["x", long]) == [1]
    with pytest.raises(ConfigError, match=r"(?s)text 2.*at most 511 tokens"):
        stories.score(["x", long])
    with pytest.raises(ConfigError, match="texts alone"):
        stories.score(["x"], ["y"])


def test_a_language_model_continues(model_dir: Callable[[str], Path]) -> None:
    stories = regard.load(model_dir("stories260k"), device="cpu")
    one = stories.generate("Once upon a time", max_tokens=10)
    assert isinstance(one, regard.Generation) and len(one.tokens) == len(one.logprobs) == 10
    assert [other.text for other in stories.generate(["Once upon a time"], max_tokens=10)] == [one.text]
    assert "".join(stories.stream("Once upon a time", max_tokens=10)) == one.text
    long = "dog " * 600
    for ask in (stories.generate, stories.stream):
        with pytest.raises(ConfigError, match="at most 512"):
            ask(long, max_tokens=3)
        with pytest.warns(UserWarning, match="beginning were left out") as caught:
            ask(long, max_tokens=3, truncate=True)
        assert Path(caught[0].filename).name == Path(__file__).name
    with pytest.raises(ConfigError, match="call generate"):
        stories.stream("x", n=2)
    with pytest.raises(TypeError, match="tempurature"):
        stories.generate("x", tempurature=1)


def test_whoever_uses_a_model_waits_for_nothing_else(workplace: Path) -> None:
    """A line is translated without what trains, draws, looks or scores being imported."""
    script = (
        "import sys, regard; regard.load('run', device='cpu').translate(['A man.'])\n"
        "late = ['regard.training', 'regard.inspect', *'matplotlib sacrebleu sklearn pandas pydantic rich'.split()]\n"
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=workplace, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
