"""What goes before a source: the right tokens, and a plain answer to a language that is not there."""

from __future__ import annotations

import pytest

from regard.data import Pairs
from regard.errors import ConfigError
from regard.tasks.prefix import language_token, source_prefix, source_prefixes, tag_token, target_languages
from regard.text import Tokenizer

TEXTS = ["ein Hund", "un chien"]
ONE = Tokenizer.train(TEXTS, kind="chars", vocab_size=60)
TOKENS = ("<to:de>", "<to:fr>", "<to:zh_TW>", "<tag:bt>")
SEVERAL = Tokenizer.train(TEXTS, kind="chars", vocab_size=60, specials=TOKENS)


def test_the_tag_comes_first_and_then_the_language() -> None:
    assert (language_token("fr"), tag_token("bt")) == ("<to:fr>", "<tag:bt>")
    assert SEVERAL.tokens(source_prefix(SEVERAL, "fr")) == ["<to:fr>"]
    assert SEVERAL.tokens(source_prefix(SEVERAL, "de", "bt")) == ["<tag:bt>", "<to:de>"]


def test_one_direction_has_no_prefix_and_may_be_asked_for_by_its_name() -> None:
    assert source_prefix(ONE, None) == source_prefix(ONE, "de", only="de") == []
    for only in (None, "fr"):
        with pytest.raises(ConfigError, match=r"one direction(.|\n)*got: de"):
            source_prefix(ONE, "de", only=only)


def test_a_region_of_a_language_is_that_language() -> None:
    """What a translation tool exports is in de-DE, whatever the model calls it."""
    assert source_prefix(ONE, "de-DE", only="de") == source_prefix(ONE, "de", only="de_AT") == []
    assert source_prefix(SEVERAL, "fr_CA") == source_prefix(SEVERAL, "fr")
    assert source_prefix(SEVERAL, "zh") == source_prefix(SEVERAL, "zh-TW") == source_prefix(SEVERAL, "zh_TW")
    for code, only in (("zh-CN", None), ("pt-BR", "pt-PT")):  # another region is another thing
        with pytest.raises(ConfigError, match=f"got: {code}"):
            source_prefix(ONE if only else SEVERAL, code, only=only)


@pytest.mark.parametrize(("to", "mend"), [(None, "--to"), ("dee", "did you mean de"), ("xx", "--to")])
def test_a_language_that_is_not_there_is_answered_with_those_that_are(to: str | None, mend: str) -> None:
    with pytest.raises(ConfigError, match=rf"expected: de or fr or zh_TW(.|\n)*{mend}"):
        source_prefix(SEVERAL, to)


def test_a_tag_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"expected: no tag(.|\n)*got: <tag:bt>"):
        source_prefix(ONE, None, "bt")
    with pytest.raises(ConfigError, match="expected: <tag:bt>"):
        source_prefix(SEVERAL, "de", "noise")


def test_a_tag_of_back_translations_is_missed_by_its_own_name(tmp_path) -> None:
    pairs = Pairs(["a"], ["b"], ("en", "de"), (tmp_path / "a.tsv",), [1], {})
    with pytest.raises(ConfigError, match=r"<tag:bt>(.|\n)*leave out --from"):
        source_prefixes(ONE, pairs, "bt")


def test_the_languages_are_those_of_the_vocabulary_also_after_saving(tmp_path) -> None:
    SEVERAL.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert target_languages(loaded) == target_languages(SEVERAL) == ("de", "fr", "zh_TW")
    assert target_languages(ONE) == ()
    assert loaded.specials == SEVERAL.specials and loaded.specials[5:] == TOKENS
    assert all(loaded.encode(token) != source_prefix(loaded, "fr") for token in TOKENS)
