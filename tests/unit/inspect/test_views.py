"""One run with everything seen: what is seen is what the model does, whatever the task, written or given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import ConfigError
from regard.inspect.edits import EdgeOff, HeadOff, NoPositions, Unscaled
from regard.inspect.scripts import LIMIT
from regard.inspect.views import Request, View, run
from regard.loaded import Loaded
from regard.model import HIDDEN_BELOW
from regard.model import equations as eq
from regard.text import Tokenizer

CASES = [("sinusoidal", "post"), ("rope", "pre"), ("relative", "window"), ("alibi", "pre")]


@pytest.fixture(params=CASES, ids="-".join)
def translator(request: pytest.FixtureRequest, opened) -> Loaded:
    return opened("translation", *request.param)


@pytest.fixture(scope="module")
def trained(workplace: Path) -> Loaded:
    return regard.load(workplace / "run")


def ask(text: str = "A man rides", **more: object) -> Request:
    return Request(texts=(text,), **more)


def consistent(view: View) -> None:
    """Weights are the softmax of the scores, sums their sums, and outputs made of them by W_O, in every part."""
    for part in view.parts:
        weights, mask = view.tensor(f"{part.name}.weights"), view.tensor(f"{part.name}.mask").astype(bool)
        rows, columns = (len(view.source if side == "source" else view.target) for side in (part.queries, part.keys))
        assert weights.shape == (part.layers, part.heads, rows, columns) and mask.shape == (rows, columns)
        assert mask.all() == (not part.causal or rows == 1)
        norms, share = view.tensor(f"{part.name}.norms"), part.heads // part.kv_heads
        for layer in range(part.layers):
            site = part.at(layer)
            q, k, v = (view.tensor(f"{site}.{leaf}").astype(np.float64) for leaf in "qkv")
            bias = view.tensor(f"{site}.bias") if f"{site}.bias" in view.names else np.zeros((part.heads, 1, 1))
            W_O, z = view.tensor(f"{site}.W_O"), list[np.ndarray]()
            for h in range(part.heads):
                scores = eq.scores(q[h], k[h // share], part.scale) + bias[h]
                np.testing.assert_allclose(view.tensor(f"{site}.scores")[h][mask], scores[mask], atol=1e-4)
                assert (view.tensor(f"{site}.scores")[h][~mask] < HIDDEN_BELOW).all()
                alpha = eq.softmax(eq.masked_scores(scores, mask))
                np.testing.assert_allclose(weights[layer, h], alpha, atol=1e-5)
                z.append(alpha @ v[h // share])
                np.testing.assert_allclose(view.tensor(f"{site}.z")[h], z[-1], atol=1e-4)
                sizes = np.linalg.norm(v[h // share] @ W_O[h], axis=-1)
                np.testing.assert_allclose(norms[layer, h], weights[layer, h] * sizes, rtol=1e-3, atol=1e-5)
            out = sum(z[h] @ W_O[h] for h in range(part.heads)) + view.tensor(f"{site}.b_O")
            np.testing.assert_allclose(view.tensor(f"{site}.out"), out, atol=1e-3)


def test_what_is_seen_is_what_the_equations_say(translator: Loaded) -> None:
    view = run(translator, ask(target="Ein Mann", to="de"))
    assert [part.name for part in view.parts] == ["encoder.self", "decoder.self", "decoder.cross"]
    consistent(view)
    assert view.tensor("logits").shape == (len(view.target), translator.model.config.vocab_size)
    assert all(view.tensor(name).dtype in (np.float32, np.uint8) for name in view.names)


def test_a_given_target_is_scored_as_everywhere(translator: Loaded) -> None:
    view = run(translator, ask(target="Ein Mann fährt", to="fr"))
    ((*scores,),) = translator.token_scores(["A man rides"], ["Ein Mann fährt"], to="fr")
    assert [written.text for written in view.target.writes] == [token for token, _ in scores]
    np.testing.assert_allclose([np.log(written.p) for written in view.target.writes], [p for _, p in scores], atol=1e-4)
    for row, written in enumerate(view.target.writes):
        p = view.tensor("logits")[row].astype(np.float64)
        assert written.rank == 1 + (p > p[written.id]).sum()
        assert [index for _, index, _ in written.top] == np.argsort(-p, kind="stable")[:5].tolist()
    assert view.text == "Ein Mann fährt" and view.target.writes[-1].kind == "special"


def test_the_sides_of_a_translation(translator: Loaded) -> None:
    view = run(translator, ask(target="Ein", to="de"))
    assert view.source.tokens[0].kind == "lead" and view.source.tokens[0].text == "<to:de>"
    assert view.source.tokens[-1].kind == "special"
    assert {token.kind for token in view.source.tokens[1:-1]} == {"text"}
    assert view.target.tokens[0].text == "<s>"
    reads, writes = view.target.tokens[1:], view.target.writes[:-1]
    assert [(token.id, token.word) for token in reads] == [(written.id, written.word) for written in writes]


@pytest.mark.parametrize("mode", ["greedy", "beam"])
def test_a_translator_writes_what_it_translates(mode: str, trained: Loaded) -> None:
    for text in ("A man rides a bicycle.", "Two dogs play in the snow."):
        view = run(trained, ask(text, mode=mode, beam=3))
        (translation,) = trained.translate([text], beam=1 if mode == "greedy" else 3)
        assert view.text == translation.text
        assert view.target.writes[-1] is None or view.target.writes[-1].kind == "special"


def test_sampling_is_repeatable_and_an_edit_that_changes_nothing_draws_the_same(translator: Loaded) -> None:
    asked = ask(to="de", mode="sample", seed=3, temperature=0.7)
    plain = run(translator, asked)
    assert run(translator, asked).target.ids == plain.target.ids
    assert run(translator, replace(asked, seed=4)).target.ids != plain.target.ids
    nothing = EdgeOff("decoder.self", 0, 0, LIMIT, 0)  # no row has this number
    assert run(translator, replace(asked, edits=(nothing,))).target.ids == plain.target.ids


def test_a_language_model_writes_what_it_generates(opened) -> None:
    loaded = opened("language-model", "rope", "pre")
    for prompt in ("A man", ""):
        view = run(loaded, ask(prompt, max_tokens=9))
        generation = loaded.generate(prompt, max_tokens=9)
        assert view.text == generation.text and view.target.texts == (prompt, generation.text)
        said = [token.id for token in view.target.tokens if token.part == 1]
        assert tuple(said) == generation.ids
        consistent(view)
    given = run(loaded, ask("A man", target=" rides"))
    assert given.target.ids == run(loaded, ask("A man rides", max_tokens=0)).target.ids
    assert [token.part for token in given.target.tokens] == sorted(token.part for token in given.target.tokens)
    assert given.target.writes[-1] is None and given.text == " rides"
    assert given.script.opening == sum(token.part == 0 for token in given.target.tokens) > 1


def test_a_prefix_is_kept_and_gone_on_from(translator: Loaded) -> None:
    first = run(translator, ask(to="de"))
    other = next(index for _, index, _ in first.target.writes[1].top if index != first.target.writes[1].id)
    prefix = (first.target.writes[0].id, other)
    view = run(translator, ask(to="de", prefix=prefix))
    assert tuple(view.target.ids[1:3]) == prefix
    assert view.target.writes[0].p == pytest.approx(first.target.writes[0].p, abs=1e-5)
    end = translator.conventions.end
    ended = run(translator, ask(to="de", prefix=(prefix[0], end)))
    assert [written.id for written in ended.target.writes] == [prefix[0], end]


def test_edits_change_what_is_written_and_seen(translator: Loaded) -> None:
    plain = run(translator, ask(to="de"))
    off = run(translator, ask(to="de", edits=(HeadOff("decoder.cross", 1, 2), Unscaled()), mode="beam"))
    assert (off.tensor("decoder.layers.1.cross_attn.z")[2] == 0).all()
    assert off.notes and not plain.notes
    given = run(translator, ask(to="de", target="Ein", edits=(HeadOff("decoder.cross", 1, 2),)))
    bare = run(translator, ask(to="de", target="Ein"))
    same = "decoder.layers.0.cross_attn.z"
    np.testing.assert_array_equal(given.tensor(same), bare.tensor(same))
    assert not np.allclose(given.tensor("logits"), bare.tensor("logits"), atol=1e-3)
    again = run(translator, ask(to="de"))
    np.testing.assert_array_equal(again.tensor("logits"), plain.tensor("logits"))


def test_what_is_written_under_edits_is_the_likeliest_under_edits(translator: Loaded) -> None:
    view = run(translator, ask(to="de", edits=(NoPositions(),)))
    silent = set(translator.conventions.silent)
    for row, written in enumerate(view.target.writes):
        if written is not None:
            may = [i for i in range(translator.tokenizer.vocab_size) if i not in silent]
            logits = view.tensor("logits")[row]
            assert logits[written.id] == pytest.approx(max(logits[i] for i in may), abs=1e-5)


def test_models_that_read_say_what_their_verbs_say(opened) -> None:
    pair = ("Who rides?", "A man rides a bicycle.")
    classifier = opened("classification", about={"labels": ["x", "y", "z"]})
    view = run(classifier, ask())
    (label,) = classifier.classify(["A man rides"], top_k=3)
    assert [(one.label, one.p) for one in view.outputs] == list(label.likeliest)
    of_pairs = opened("classification", about={"labels": ["x", "y", "z"], "texts": 2})
    assert len(run(of_pairs, Request(texts=pair)).outputs) == 3
    number = opened("classification", about={"labels": ["number"], "label_kind": "number"})
    (output,) = run(number, ask()).outputs
    assert output.p is None and output.value == pytest.approx(number.classify(["A man rides"])[0].label)
    tagger = opened("tagging", "rope", "pre")
    spans = [(one.label, one.start, one.stop) for one in run(tagger, ask()).outputs]
    assert spans == [(span.label, span.start, span.stop) for span in tagger.tag(["A man rides"])[0]]
    answerer = opened("question-answering", "learned")
    best = run(answerer, Request(texts=pair)).outputs[0]
    answer = answerer.answer(*pair)
    assert (best.label, best.p, best.start) == (answer.text, answer.score, answer.start)
    for loaded in (classifier, tagger, opened("embedding")):
        view = run(loaded, ask())
        assert view.target is None and view.text is None and view.source.writes is None
        consistent(view)


def test_a_masked_language_model_guesses_at_every_place(opened) -> None:
    view = run(opened("masked-lm", "rope"), ask())
    assert [written.id for written in view.source.writes] == view.source.ids
    assert all(len(written.top) == 5 for written in view.source.writes)


def test_imported_models_can_be_looked_into(model_dir, minilm: Path) -> None:
    stories = regard.load(model_dir("stories260k"))
    view = run(stories, ask("Once upon a time", max_tokens=5))
    assert view.text == stories.generate("Once upon a time", max_tokens=5).text
    assert view.tensor("decoder.layers.0.self_attn.k").shape == (4, len(view.target), 8)
    consistent(view)
    view = run(regard.load(minilm), ask())
    assert view.source.tokens[0].text == "[CLS]" and [p.name for p in view.parts] == ["encoder.self"]
    consistent(view)


def test_a_conversation_has_what_stands_around_each_turn(opened) -> None:
    template = {role: [f"<s>{role}\n", "</s>"] for role in ("system", "user", "assistant")}
    loaded = opened("language-model", "rope", "pre", about={"chat": template}, max_len=256)
    view = run(loaded, ask(" A man ", max_tokens=6))
    assert view.text == loaded.generate(" A man ", max_tokens=6).text
    kinds = "".join(token.kind[0] for token in view.target.tokens)
    assert kinds.lstrip("l")[0] == "t" and "tl" in kinds and view.target.texts[0] == "A man"
    given = run(loaded, ask(" A man ", target="rides"))
    assert {token.part for token in given.target.tokens if token.kind == "text"} == {0, 1}


def test_a_translator_of_two_vocabularies_whose_outputs_are_forced_to_begin(opened) -> None:
    writes = Tokenizer.train(["Ein Mann fährt", "un café noir"] * 3, vocab_size=310)
    first = writes.encode("un")[0]
    about = {"conventions": {"start": writes.bos_id, "ends": [writes.eos_id, first], "forced": [first]}}
    loaded = opened("translation", "sinusoidal", target_tokenizer=writes, about=about)
    view = run(loaded, ask("A man", to="de"))
    assert [token.kind for token in view.target.tokens[:2]] == ["special", "lead"]
    assert view.target.writes[0].kind == "lead" and view.target.tokens[1].id == first
    assert view.text == writes.decode(view.target.ids[2:])
    given = run(loaded, ask("A man", to="de", target="Ein Mann"))
    assert given.target.ids[2:] == writes.encode("Ein Mann")
    consistent(given)


def test_norms_are_offered_with_their_gains(opened) -> None:
    view = run(opened("translation", "rope", "pre"), ask(to="de", target="Ein"))
    x, at = view.tensor("decoder.layers.1.resid_out"), "decoder.norm"
    norm = eq.rms_norm(x, view.tensor(f"{at}.gain"), view.loaded.model.config.norm_eps)
    np.testing.assert_allclose(view.tensor(at), norm, atol=1e-4)
    assert f"{at}.shift" not in view.names


def test_an_empty_text_where_the_model_can_run_on_it(opened, minilm: Path) -> None:
    assert [token.text for token in run(opened("translation"), ask("", to="de")).source.tokens] == ["<to:de>", "</s>"]
    assert run(opened("language-model"), ask("", max_tokens=2)).target.tokens[0].text == "<s>"
    assert len(run(regard.load(minilm), ask("")).source) == 2
    with pytest.raises(ConfigError, match="no token"):
        run(opened("tagging"), ask(""))


@pytest.mark.parametrize(
    ("task", "request_", "said"),
    [
        ("translation", {"texts": ("a",)}, "several target languages"),
        ("translation", {"texts": ("a", "b"), "to": "de"}, "how many texts"),
        ("translation", {"texts": ("a b " * 40,), "to": "de"}, "too long"),
        ("translation", {"texts": ("a",), "to": "de", "target": "b c " * 40}, "too long"),
        ("translation", {"texts": ("a",), "to": "de", "prefix": (10**6,)}, "no token has this id"),
        ("translation", {"texts": ("a",), "to": "de", "edits": (HeadOff("decoder.cross", 9, 0),)}, "no such layer"),
        ("language-model", {"texts": ("a",), "to": "de"}, "only a translator"),
        ("language-model", {"texts": ("a",), "edits": (HeadOff("encoder.self", 0, 0),)}, "no such attention"),
        ("tagging", {"texts": ("a",), "target": "b"}, "writes nothing"),
        ("question-answering", {"texts": ("a",)}, "how many texts"),
        ("question-answering", {"texts": ("a", "b c " * 40)}, "too long"),
    ],
)
def test_what_cannot_be_run_is_refused(task: str, request_: dict, said: str, opened) -> None:
    with pytest.raises(ConfigError, match=said):
        run(opened(task), Request(**request_))


@pytest.mark.parametrize(
    "field",
    [{"mode": "best"}, {"beam": 0}, {"temperature": 0.0}, {"temperature": float("nan")}, {"max_tokens": -1},
     {"max_tokens": 10**6}, {"target": "a", "prefix": (1,)}, {"seed": -1}],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused(field: dict) -> None:
    with pytest.raises(ConfigError):
        ask(**field)


def test_600_tokens_are_too_many_to_look_at(opened) -> None:
    loaded = opened("language-model", "rope", max_len=2000)
    with pytest.raises(ConfigError, match="512"):
        run(loaded, ask("a " * 600))
    view = run(loaded, ask("a " * 250, max_tokens=400))
    assert len(view.target) <= LIMIT


def test_an_unknown_name_is_refused_with_its_neighbours(opened) -> None:
    view = run(opened("tagging"), ask())
    with pytest.raises(ConfigError, match=r"encoder.layers.0.self_attn.weights"):
        view.tensor("encoder.layers.0.self_attn.weight")
    for name in ("decoder.cross.weights", "logits", "", "encoder", "encoder.layers.0.self_attn.bias"):
        with pytest.raises(ConfigError):
            view.tensor(name)


def test_a_view_does_not_follow_the_model(opened) -> None:
    """What was seen is a copy: training on, or another run, changes nothing of it."""
    loaded = opened("masked-lm")
    view = run(loaded, ask())
    before = {name: value.copy() for name, value in view.tensors.items()}
    run(loaded, ask("the cat"))
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter.add_(1.0)
    assert all(np.array_equal(value, before[name]) for name, value in view.tensors.items())
