"""From texts to texts: what is required is there, white space is kept, and the score is the model's own.

The model is random: it would never say any of this of itself.
"""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.model import TransformerConfig, make_language_model
from regard.tasks.alignment import score_tokens
from regard.tasks.terms import Terms
from regard.tasks.texts import Request, Translation, Translator
from regard.text import Kind, Tokenizer
from regard.text.placeholders import find

pytestmark = pytest.mark.usefixtures("one_thread")


def make(lines: Sequence[str], kind: Kind) -> Translator:
    tokenizer = Tokenizer.train(lines, kind=kind, vocab_size=700, specials=["<to:de>", "<to:fr>"])
    torch.manual_seed(2)
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, n_decoder_layers=1,
        max_len=64, tie_embeddings=False,
    )  # fmt: skip
    model = make_language_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0 if parameter.ndim == 2 else 1.0)
    return Translator(model, tokenizer, ratio=1.0)


@pytest.fixture(scope="module", params=get_args(Kind))
def translator(request: pytest.FixtureRequest, data_dir: Callable[[str], Path]) -> Translator:
    path = data_dir("multi30k") / "val.en.gz"
    return make(gzip.decompress(path.read_bytes()).decode().splitlines(), request.param)


@pytest.fixture(scope="module")
def bpe(data_dir: Callable[[str], Path]) -> Translator:
    path = data_dir("multi30k") / "val.en.gz"
    return make(gzip.decompress(path.read_bytes()).decode().splitlines(), "bpe")


def translate(
    translator: Translator, texts: Sequence[str], *, to: str | None = "de", prefix: str = "", **options
) -> list[Translation]:
    count = len(texts)
    return translator.translate(texts, [to] * count, [prefix] * count, Request(**{"beam": 2, **options}))


def copies(text: str) -> list[str]:
    return sorted(text[start:end] for start, end in find(text))


ITEMS = ["{name}", "{0}", "{0}", "%s", "%1$d", "https://a.org/b?c=d", "a.b@c.org", "<b>", "</b>", "<a href='x'>", "%%"]


@pytest.mark.whole
@settings(max_examples=12, deadline=None)
@given(items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4), beam=st.integers(1, 3))
def test_what_must_be_copied_comes_out_exactly_and_as_often(translator, items: list[str], beam: int) -> None:
    source = "A man " + " rides ".join(items)
    [found] = translate(translator, [source], beam=beam, n_best=beam)
    for one in (found, *found.alternatives):
        assert not [item for item in copies(source) if copies(one.text).count(item) < copies(source).count(item)]
    [free] = translate(translator, ["A man"], beam=beam)
    assert not copies(free.text), "else it proves nothing"


NUMBERS = ["17", "3.5", "1,234.5", "2024", "٣", "0", "12.05.2024", "5:30"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3))
def test_numbers_come_out_whole_when_asked_for(bpe, numbers: list[str]) -> None:
    source, terms = "He has " + " and ".join(numbers), Terms(protect="numbers")
    [found] = translate(bpe, [source], terms=terms)
    said = [found.text[start:end] for start, end in terms.copied(found.text)]
    assert all(said.count(number) >= numbers.count(number) for number in numbers)
    [free] = translate(bpe, ["He has and"])
    assert not terms.copied(free.text), "else it proves nothing"


GLOSSARY = {
    "man": "Herr",
    "New York": "Neu-York",
    "York": "Eboracum",
    "dog": "狗",
    "bike": "x² {y}",
    "A": "Zwölf Ägäen",
}


@pytest.mark.parametrize("beam", [1, 3])
def test_glossary_terms_come_out_as_given_where_the_source_holds_them(translator: Translator, beam: int) -> None:
    sources = ["A man in New York.", "York: a dog (dog) dogs", "my bike", "mankind, Aman, Yorks", "man, man.\nman"]
    wanted = [["Herr", "Neu-York", "Zwölf Ägäen"], ["Eboracum", "狗"], ["x² {y}"], [], ["Herr"]]
    terms = Terms(GLOSSARY)
    found = translate(translator, sources, beam=beam, n_best=beam, terms=terms)
    for translation, texts in zip(found, wanted, strict=True):
        for one in (translation, *translation.alternatives):
            for text in texts:
                letter = "[A-Za-zÄ-ü]"
                before = f"(?<!{letter})" if re.match(letter, text[0]) else ""
                after = f"(?!{letter})" if re.match(letter, text[-1]) else ""
                assert re.search(before + re.escape(text) + after, one.text), one.text
    assert terms.required("mankind, Aman, Yorks") == []
    assert len(re.findall("Herr", found[4].text)) >= 2, "each sentence holds the term"


def test_a_prefix_begins_the_translation_and_is_no_reason_to_repeat_what_it_holds(translator: Translator) -> None:
    for prefix in ("Zwei  Hündchen", "Go to {name}", "é", "<"):
        [found] = translate(translator, ["A man. {name} rides."], prefix=prefix, n_best=2)
        for one in (found, *found.alternatives):
            assert one.text.startswith(prefix) and one.text.count("{name}") == 1


@pytest.mark.parametrize("beam", [1, 4])
def test_a_score_under_constraints_is_what_teacher_forcing_says(bpe: Translator, beam: int) -> None:
    """Law 28, of tokens; and law 29: alone or together."""
    seen = []
    read = Translator._read

    def spy(self: Translator, part, found, links):
        seen.append((part, found))
        return read(self, part, found, links)

    texts = ["A man {name} rides.", "Two dogs.", "See https://a.org/x and %s"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "_read", spy)
        together = translate(bpe, texts, beam=beam, n_best=beam)
    ended = [(part, found) for part, found in seen if found.finished]
    scores = score_tokens(bpe.model, bpe.tokenizer, [(part.lead + part.ids, found.ids) for part, found in ended])
    assert [sum(own) for own in scores] == pytest.approx([found.logprob for _, found in ended], abs=1e-3)
    for text, one in zip(texts, together, strict=True):
        [alone] = translate(bpe, [text], beam=beam, n_best=beam)
        assert alone.text == one.text and alone.score == pytest.approx(one.score, abs=1e-4)


def test_sentences_are_translated_one_by_one_and_white_space_is_kept(bpe: Translator) -> None:
    one, two, three = translate(bpe, ["A man runs.", "Two dogs?", "A girl"], alignments=True)
    [whole] = translate(bpe, ["  A man runs. \n\n Two dogs?\tA girl \r"], alignments=True)
    assert whole.text == f"  {one.text} \n\n {two.text}\t{three.text} \r"
    assert whole.logprob == pytest.approx(one.logprob + two.logprob + three.logprob, abs=1e-3)
    assert whole.score == pytest.approx(whole.logprob / (one.length + two.length + three.length))
    assert whole.confidence == pytest.approx(math.exp(whole.score)) and 0 < whole.confidence <= 1
    assert whole.source_tokens == one.source_tokens + two.source_tokens + three.source_tokens
    shift = len(one.source_tokens), len(one.target_tokens)
    assert whole.alignment[len(one.alignment) :][: len(two.alignment)] == tuple(
        (s + shift[0], t + shift[1]) for s, t in two.alignment
    )


def test_where_the_source_has_no_space_between_sentences_the_translation_has_one(bpe: Translator) -> None:
    [one, two] = translate(bpe, ["你好。", "再见。"])
    [whole] = translate(bpe, ["你好。再见。"])
    assert whole.text == f"{one.text} {two.text}"


def test_many_required_parts_are_cut_apart_and_all_come_out(bpe: Translator) -> None:
    source = " ".join(f"a {{{i}}}" for i in range(40))
    [found] = translate(bpe, [source], beam=1)
    assert not set(copies(source)) - set(copies(found.text)) and found.left_out == 0
    [found] = translate(bpe, [" ".join(["a man"] * 20)], beam=1, terms=Terms({"man": "Herr"}))
    assert "Herr" in found.text and found.left_out == 0


def test_a_text_of_copies_alone_is_its_own_translation(bpe: Translator) -> None:
    for text in ("{name}", "  %s: {x}, https://a.org/b \n", "<b></b>"):
        [found] = translate(bpe, [text], alignments=True)
        assert found.text == text and found.confidence == 1 and len(found.alignment) == len(found.target_tokens)


def test_a_translation_that_has_the_copies_already_stands(bpe: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that learned to copy knows better where they go."""
    [plain] = translate(bpe, ["A man runs."])
    searches = []
    search = Translator._search
    monkeypatch.setattr(Translator, "_search", lambda *given: searches.append(given[1]) or search(*given))
    monkeypatch.setattr(Terms, "lacks", lambda *given: False)
    [found] = translate(bpe, ["A man {name} runs."])
    assert "{name}" not in found.text and [len(parts) for parts in searches] == [1, 0]
    assert found.alignment is None and plain.alignment is None


def test_copies_take_part_in_the_alignment(bpe: Translator) -> None:
    [found] = translate(bpe, ["A man {name} runs."], alignments=True, n_best=2)
    for one in (found, *found.alternatives):
        assert one.source_tokens.count("▁{name}") == 1
        pair = [(one.source_tokens[s], one.target_tokens[t]) for s, t in one.alignment if "{" in one.source_tokens[s]]
        assert len(pair) == 1 and pair[0][1].strip("▁") == "{name}"
        assert [t for _, t in one.alignment] == list(range(len(one.target_tokens)))


def test_capitals_are_read_as_small_letters_that_the_vocabulary_knows(bpe: Translator) -> None:
    plain, loud = translate(bpe, ["A man rides his bicycle.", "A MAN RIDES HIS BICYCLE."], alignments=True)
    assert loud.text == plain.text.upper() and loud.source_tokens == plain.source_tokens
    [found] = translate(bpe, ["A MAN {name} RIDES HIS BICYCLE."])
    assert found.text.count("{name}") == 1 and found.text.replace("{name}", "").isupper()
    [word] = translate(bpe, ["NATO"], alignments=True)
    assert word.source_tokens == tuple(bpe.tokenizer.tokens(bpe.tokenizer.encode("NATO")))
    shouting = make(["A MAN RIDES HIS BICYCLE.", "TWO DOGS RUN IN THE SNOW."] * 30, "bpe")
    [found] = translate(shouting, ["A MAN RIDES HIS BICYCLE."], alignments=True)
    assert "".join(found.source_tokens).replace("▁", " ").strip().isupper(), "it knows capitals alone"


def test_a_sentence_much_longer_than_those_of_its_training_is_cut(bpe: Translator) -> None:
    """At commas, into parts that it knows; a word that is longer is read whole as long as the model can."""
    text = ", ".join(["a man and a dog run"] * 6)
    one = len(bpe.tokenizer.encode("a man and a dog run, "))
    assert len(bpe.tokenizer.encode(text)) < bpe.most_read
    [whole], [cut] = (translate(replace(bpe, seen=seen), [text], to="de") for seen in (None, 2 * one + 1))
    thirds = translate(
        bpe, ["a man and a dog run, a man and a dog run,"] * 2 + ["a man and a dog run, a man and a dog run"]
    )
    assert cut.text == " ".join(part.text for part in thirds) != whole.text
    [word] = translate(replace(bpe, seen=3), ["Donaudampfschifffahrt"])
    assert word == translate(bpe, ["Donaudampfschifffahrt"])[0] and word.left_out == 0


def test_the_language_asked_for_goes_before_the_source_and_is_nobodys_origin(bpe: Translator) -> None:
    texts = ["A man runs.", "Two dogs."]
    both = bpe.translate(texts, ["de", "fr"], ["", ""], Request(beam=1))
    assert [one.text for one in both] == [
        translate(bpe, [text], to=code, beam=1)[0].text for text, code in zip(texts, ("de", "fr"), strict=True)
    ]
    assert translate(bpe, texts[:1], to="fr")[0].text != translate(bpe, texts[:1], to="de")[0].text
    [found] = translate(bpe, texts[:1], alignments=True)
    assert found.source_tokens == tuple(bpe.tokenizer.tokens(bpe.tokenizer.encode(texts[0])))
    assert all(0 <= s < len(found.source_tokens) for s, _ in found.alignment)
    for wrong in (None, "dee"):
        with pytest.raises(ConfigError, match="de or fr"):
            translate(bpe, texts, to=wrong)


def test_what_is_longer_than_the_model_writes_cannot_be_required(bpe: Translator) -> None:
    with pytest.raises(ConfigError, match="longer than the model writes"):
        translate(bpe, ["man"], terms=Terms({"man": "x y " * 40}))


def test_protection_can_be_left_out(bpe: Translator) -> None:
    [found] = translate(bpe, ["Go to {name}"], terms=Terms(protect="none"))
    assert "{name}" not in found.text
