"""Prompts and what comes after them, by a random model that would say anything: text, tokens, ends, cuts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from regard.errors import ConfigError, NonFiniteError
from regard.model import Rope, TransformerConfig, Window, make_language_model
from regard.runtime import Form
from regard.tasks import continuation
from regard.tasks.continuation import Generation, Wish, Writer
from regard.tasks.conventions import Conventions
from regard.text import Kind, Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["The dog runs to the red ball, 你好世界 and é.", "A cat sat; the mat was flat.", "1 2 3 你 好 👍"] * 6
PROMPTS = ["The dog", "", "A cat sat on a mat", "你好"]


def make(kind: Kind = "bpe", **axes: object) -> Writer:
    tokenizer = Tokenizer.train(TEXTS, kind=kind, vocab_size=400, specials=["<other>"])
    torch.manual_seed(2)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_decoder_layers": 1, "max_len": 64, "tie_embeddings": False}
    config = TransformerConfig(
        **{**sizes, "vocab_size": tokenizer.vocab_size + 24, "positions": Rope(), **axes}
    )  # a vocabulary padded to a round size
    model = make_language_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.ndim == 2 else 1.0)
    return Writer(model, tokenizer, Conventions.read({"task": "language-model"}, tokenizer))


@pytest.fixture(scope="module", params=get_args(Kind))
def writer(request: pytest.FixtureRequest) -> Writer:
    return make(request.param)


@pytest.fixture(scope="module")
def bpe() -> Writer:
    return make()


def streamed(writer: Writer, prompt: str, wish: Wish) -> list[str]:
    return list(writer.stream(prompt, wish)[1])


def same(ours: Sequence[Generation], theirs: Sequence[Generation]) -> bool:
    """But for the last digits."""
    return all(
        replace(one, logprobs=()) == replace(other, logprobs=())
        and one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        for one, other in zip(ours, theirs, strict=True)
    )


WISHES = [
    Wish(max_tokens=12),
    Wish(max_tokens=12, temperature=0.8, top_k=9, top_p=0.9, seed=8, repetition_penalty=1.3, presence_penalty=0.5),
]


@pytest.mark.parametrize("wish", WISHES)
def test_nothing_depends_on_what_is_continued_together(writer: Writer, wish: Wish, monkeypatch) -> None:
    """Law 29."""
    together = writer.generate(PROMPTS, wish)
    assert same([writer.generate([prompt], wish)[0] for prompt in PROMPTS], together)
    monkeypatch.setattr(continuation, "TOGETHER", 40)
    assert same(writer.generate(PROMPTS[::-1], wish)[::-1], together)
    assert len({one.ids for one in together}) > 1 and writer.generate([], wish) == []


@pytest.mark.parametrize("wish", WISHES)
def test_the_pieces_of_a_stream_are_the_text_and_the_text_is_what_the_ids_say(writer: Writer, wish: Wish) -> None:
    for prompt, one in zip(PROMPTS, writer.generate(PROMPTS, wish), strict=True):
        pieces = streamed(writer, prompt, wish)
        assert "".join(pieces) == one.text and all(pieces)
        before = writer.tokenizer.encode(prompt)
        text, whole = (writer.tokenizer.decode(ids) for ids in (before, [*before, *one.ids]))
        assert one.text == (whole[len(text) :] if whole.startswith(text) else writer.tokenizer.decode(one.ids))
        assert one.tokens == tuple(writer.tokenizer.tokens(one.ids)) and len(one.logprobs) == len(one.ids) <= 12
        assert one.finish_reason == ("length" if len(one.ids) == 12 else "stop")


@torch.no_grad()
def test_logprobs_are_the_models_own_whatever_the_settings(bpe: Writer) -> None:
    [one] = bpe.generate(["The dog"], WISHES[1])
    before = bpe.tokenizer.encode("The dog")
    hidden = bpe.model.transformer.decode(torch.tensor([[*before, *one.ids]]), bpe.model.transformer.start())
    log_p = bpe.model.logits(hidden)[0, len(before) - 1 : -1].log_softmax(-1)
    assert list(one.logprobs) == pytest.approx(log_p.gather(1, torch.tensor(one.ids)[:, None])[:, 0].tolist(), abs=1e-4)


def test_no_control_token_is_ever_said_nor_an_id_without_a_token(writer: Writer) -> None:
    """Hundreds of tokens drawn almost evenly from all there are: only </s> may come, and it ends."""
    tokenizer = writer.tokenizer
    free = replace(writer, conventions=replace(writer.conventions, silent=()))
    wish = Wish(max_tokens=60, temperature=50.0, seed=1, n=8)
    ids = {token for first in writer.generate(["a"], wish) for one in (first, *first.alternatives) for token in one.ids}
    controls = {tokenizer.token_id(token) for token in tokenizer.specials} - {tokenizer.unk_id}
    assert not ids & controls and max(ids) < tokenizer.vocab_size
    said = {token for first in free.generate(["a"], wish) for one in (first, *first.alternatives) for token in one.ids}
    assert said & controls, "else it proves nothing"


def test_an_end_ends_and_is_no_part(bpe: Writer) -> None:
    [free] = bpe.generate(["The dog"], Wish(max_tokens=12))
    end = free.ids[4]
    ended = replace(bpe, conventions=replace(bpe.conventions, ends=(bpe.tokenizer.eos_id, end)))
    [one] = ended.generate(["The dog"], Wish(max_tokens=12))
    assert one.ids == free.ids[: free.ids.index(end)] and one.finish_reason == "stop"


def test_a_stop_string_ends_before_it_wherever_tokens_end(writer: Writer) -> None:
    wish = Wish(max_tokens=12, temperature=1.0, seed=4)
    [free] = writer.generate(["The dog"], wish)
    for start in range(0, len(free.text) - 3, 4):
        stop = free.text[start : start + 3]
        [one] = writer.generate(["The dog"], replace(wish, stop=["never", stop]))
        assert one.text == free.text[: free.text.find(stop)] and one.finish_reason == "stop"
        assert len(one.ids) <= len(free.ids)
        assert "".join(streamed(writer, "The dog", replace(wish, stop=stop))) == one.text


def test_samples_are_those_of_the_seeds_after(bpe: Writer) -> None:
    [first, _] = bpe.generate(["The dog", "A"], Wish(max_tokens=8, n=3, seed=5))
    assert len(first.alternatives) == 2 and not first.alternatives[0].alternatives
    alone = [bpe.generate(["The dog"], Wish(max_tokens=8, temperature=1.0, seed=5 + k))[0] for k in range(3)]
    assert same([replace(first, alternatives=()), *first.alternatives], alone)
    assert len({one.ids for one in alone}) == 3


def test_an_empty_prompt_begins_as_a_text_does(bpe: Writer) -> None:
    """By what the template puts before a text, else <s>, else what ends the text before it (GPT-2)."""
    tokenizer, wish = bpe.tokenizer, Wish(max_tokens=3)

    def first(writer: Writer) -> list[int]:
        return writer._part("", wish, "").ids

    assert first(bpe) == [tokenizer.bos_id]
    assert first(replace(bpe, conventions=replace(bpe.conventions, lead=(7, 8)))) == [7, 8]
    without = Tokenizer(tokenizer.backend, {"eos": tokenizer.eos_id})
    assert first(replace(bpe, conventions=Conventions.read({}, without))) == [tokenizer.eos_id]
    with pytest.raises(ConfigError, match="how a text begins"):
        first(replace(bpe, conventions=Conventions.read({}, Tokenizer(tokenizer.backend, {}))))
    led = replace(bpe, conventions=replace(bpe.conventions, lead=(tokenizer.bos_id,)))
    assert led._part("The", wish, "").ids == [tokenizer.bos_id, *tokenizer.encode("The")]
    assert led.generate([""], wish)[0].ids == bpe.generate([""], wish)[0].ids


def test_a_prompt_that_is_too_long_is_refused_with_both_counts_or_cut_and_counted(bpe: Writer) -> None:
    """Fault 19."""
    count = len(bpe.tokenizer.encode("dog " * 100))
    with pytest.raises(ConfigError, match="prompt 2 of 2") as caught:
        bpe.generate(["a", "dog " * 100], Wish(max_tokens=5))
    assert caught.value.expected == "at most 64 tokens" and caught.value.got == f"{count:,}"
    for max_tokens, kept in ((5, 60), (64, 32), (10**6, 32), (0, 64)):
        [one] = bpe.generate(["dog " * 100], Wish(max_tokens=max_tokens, truncate=True))
        assert one.left_out == count - kept and len(one.ids) == min(max_tokens, 65 - kept)
    ids = bpe.tokenizer.encode("dog " * 100)[-60:]
    assert bpe._part("dog " * 100, Wish(max_tokens=5, truncate=True), "").ids == ids
    assert bpe.generate(["a"], Wish(truncate=True))[0].left_out == 0


def test_the_context_ends_a_text_and_a_window_does_not(bpe: Writer) -> None:
    [one] = bpe.generate(["dog dog dog"], Wish(max_tokens=10**6))
    assert len(one.ids) == 64 - len(bpe.tokenizer.encode("dog dog dog")) + 1 and one.finish_reason == "length"
    endless = make(window=Window(size=8))
    [one] = endless.generate(["dog dog dog"], Wish(max_tokens=300))
    assert len(one.ids) == 300


def test_a_model_that_says_nan_is_an_error_of_its_prompt(bpe: Writer) -> None:
    """Fault 43."""
    weight = bpe.model.transformer.tokens.weight
    lone = bpe.tokenizer.encode("你好")[-1]
    before = weight[lone].clone()
    with torch.no_grad():
        weight[lone] = math.nan
        try:
            with pytest.raises(NonFiniteError, match="prompt 2 of 2"):
                bpe.generate(["The dog", "你好"], Wish(max_tokens=3))
            with pytest.raises(NonFiniteError):
                streamed(bpe, "你好", Wish(max_tokens=3))
        finally:
            weight[lone] = before


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("max_tokens", {"max_tokens": -1}), ("n", {"n": 0}), ("n", {"n": 2, "temperature": 0}), ("stop", {"stop": ""}),
     ("stop", {"stop": ["a", ""]}), ("top_p", {"top_p": 2}), ("temperature", {"temperature": math.nan})],
)  # fmt: skip
def test_what_cannot_be_asked(name: str, wrong: dict) -> None:
    with pytest.raises(ConfigError, match=name):
        Wish(**wrong)


def test_a_draw_is_asked_for_by_any_setting_of_it() -> None:
    assert Wish().sampler.temperature == Wish(seed=3).sampler.temperature == 0
    for option in ({"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}, {"n": 2}):
        assert Wish(**option).sampler.temperature == 1
        assert Wish(**{"n": 1, **option}, temperature=0.3).sampler.temperature == 0.3


def test_typed_control_tokens_are_characters(writer: Writer) -> None:
    """Fault 16."""
    controls = {writer.tokenizer.token_id(token) for token in writer.tokenizer.specials} - {writer.tokenizer.unk_id}
    for prompt in ("</s>", "a <pad> b", "<s><other>"):
        assert controls.isdisjoint(writer._part(prompt, Wish(), "").ids)


def test_odd_prompts_have_continuations(writer: Writer) -> None:
    """Faults 15 and 18."""
    for prompt in (" ", "\n\n", "\0", "a\ud800", "\u202eabc", "e\u0301", "a\u2028b", "\ufeff"):
        [one] = writer.generate([prompt], Wish(max_tokens=4, temperature=1.0, seed=1))
        one.text.encode("utf-8")
        assert "".join(streamed(writer, prompt, Wish(max_tokens=4, temperature=1.0, seed=1))) == one.text


def test_a_real_model_tells_its_story(model_dir: Callable[[str], Path]) -> None:
    """The text printed in shared/models/README.md, by `transformers`."""
    import regard

    said = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she "
    model = regard.load(model_dir("stories260k"), device="cpu")
    found = model.generate(["", "Once upon a time"], max_tokens=60)
    assert found[0].text.startswith(said) and model.generate("", max_tokens=60).text == found[0].text
    pieces: Iterator[str] = model.stream("", max_tokens=60)
    assert "".join(pieces) == found[0].text


@pytest.mark.parametrize("form", ["fp32", "bf16"])
def test_a_real_model_says_the_same_without_its_cache(model_dir: Callable[[str], Path], form: Form) -> None:
    """Each token from the whole text before it, and from one step after the kept keys and values."""
    import regard

    model = regard.load(model_dir("stories260k"), device="cpu", dtype=form)
    for prompt in ("", "Once upon a time", "The big dog"):
        cached = model.generate(prompt, max_tokens=60).ids
        ids = model.tokenizer.encode(prompt) or [model.beginning]
        begun = len(ids)
        with torch.no_grad():
            for _ in cached:
                transformer = model.fast.transformer
                hidden = transformer.decode(torch.tensor([ids]), transformer.start())
                logits = model.fast.logits(hidden[0, -1])
                logits[[*model.conventions.silent]] = -torch.inf  # <s> is never said
                ids.append(int(logits.argmax()))
        assert ids[begun:] == [*cached]
