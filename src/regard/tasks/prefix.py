"""What stands before a source's own tokens: a tag, then the target language.

    <tag:bt> <to:de> A man rides a bicycle .          model and data of several target languages, a back-translated pair

What is unusual: one model serves many target languages by nothing but such a token (Johnson et al. 2017), and tells
translated text from written text by another one (tagged back-translation, Caswell et al. 2019). Which there are is
read from the vocabulary, so a model folder needs no second list.
What it does not know: texts, and where the pairs came from.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from regard.data import Pairs
from regard.data.languages import language_of, spoken
from regard.errors import ConfigError
from regard.text import Tokenizer


def language_token(code: str) -> str:
    """The special token of a target language: `<to:de>`."""
    return f"<to:{code}>"


def tag_token(name: str) -> str:
    """The special token of a kind of source: `<tag:bt>`."""
    return f"<tag:{name}>"


def prefix_tokens(tags: Iterable[str], languages: Iterable[str]) -> list[str]:
    """The special tokens that a vocabulary needs for such sources: the tags, then the languages, each sorted."""
    return [*map(tag_token, sorted(set(tags))), *map(language_token, sorted(set(languages)))]


def target_languages(tokenizer: Tokenizer) -> tuple[str, ...]:
    """The codes of the target languages that a vocabulary has tokens for, sorted; none: of one direction only."""
    return tuple(sorted(token[4:-1] for token in tokenizer.specials if token.startswith("<to:")))


def source_prefix(
    tokenizer: Tokenizer, to: str | None, tag: str | None = None, *, only: str | None = None
) -> list[int]:
    """The ids that go before a source's own: its tag's, where it has one, and its target language's.

    Args:
        to: the language to translate into; None only where the model has one.
        tag: the kind of source, as in training; None for what people wrote.
        only: the target language of a model of one direction, where it is known: to ask for it is no mistake.

    Raises:
        ConfigError: `to` is unknown, missing, or not the one direction's; the vocabulary has no such tag.
    """
    languages = target_languages(tokenizer)
    if to is None and len(languages) == 1:
        to = languages[0]
    known = languages or ((only,) if only else ())
    if to is not None and to not in known:
        to = _meant(to, known)
    if languages:
        if to not in languages:
            near = difflib.get_close_matches(to or "", languages, n=1)
            what = "this model has several target languages" if to is None else "this model has no such target language"
            raise ConfigError(
                what, where="the target language", expected=" or ".join(languages), got=to or "none",
                mend=f"did you mean {near[0]}?" if near else "say which one: --to CODE, or to=CODE",
            )  # fmt: skip
    elif to not in (None, only):
        raise ConfigError(
            "this model translates in one direction only", where="the target language",
            expected=only or "none named", got=to, mend="leave it out, or take a model that has it",
        )  # fmt: skip
    tokens = [] if tag is None else [tag_token(tag)]
    tokens += [language_token(to)] if languages and to else []
    return [_known(tokenizer, token) for token in tokens]


def _meant(to: str, known: Sequence[str]) -> str:
    """The code among those known that is meant: de for de-AT, zh_TW for zh and zh-TW, but for zh-CN only itself."""
    same = [code for code in known if code.replace("_", "-").lower() == to.replace("_", "-").lower()]
    wider = [code for code in known if code.lower() == language_of(to)]
    return next(iter(same + wider), None) or (to if to.lower() != language_of(to) else spoken(to, known) or to)


def source_prefixes(tokenizer: Tokenizer, pairs: Pairs, tag: str | None = None) -> list[list[int]]:
    """What goes before each source of N pairs: N lists of ids.

    The language is each pair's own (`Pairs.to`), or else that of the files, which a model of one direction ignores.

    Raises:
        ConfigError: the vocabulary has no such language or tag.
    """
    only = pairs.languages[1]
    codes = [only] * len(pairs) if pairs.to is None else pairs.to
    if tag is not None:
        _known(tokenizer, tag_token(tag))
    try:
        prefix = {code: source_prefix(tokenizer, code, tag, only=only) for code in set(codes)}
    except ConfigError as error:
        mend = "name the language in a column target_language, or by --languages A,B; a new one needs a new tokenizer"
        where = " and ".join(map(str, pairs.files))
        raise ConfigError(error.what, where=where, expected=error.expected, got=error.got, mend=mend) from None
    return [prefix[code] for code in codes]


def _known(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_id(token)
    if found is None:
        tags = [special for special in tokenizer.specials if special.startswith("<tag:")]
        raise ConfigError("the vocabulary has no such tag", expected=" or ".join(tags) or "no tag", got=token,
                          mend="train a tokenizer with it: leave out --from")  # fmt: skip
    return found
