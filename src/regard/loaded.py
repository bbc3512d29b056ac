"""A model in use: what `regard.load` gives. It translates, continues, classifies .. as its task has it.

    model.translate(["A man rides a bicycle."])        # -> [Translation('Ein Mann fährt Fahrrad.', score=-0.31)]
    model.generate("To be", max_tokens=50)             # -> Generation(', or not to be', ...)
    model.embed(["A man rides a bicycle."])            # -> an array, (1, D)

What is unusual: nothing raises for odd text. Whatever is typed is plain text (`</s>` too); and what a model was not
made for, it refuses with words for what it is. What encoders do is in `regard.tasks.understood`.
What it does not know: how a model is opened or trained (`regard.api`), and the command line. It prints nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack, overload

from regard.errors import ConfigError
from regard.generate import context
from regard.model import Model
from regard.runtime import Form, make_fast
from regard.tasks.alignment import score_tokens
from regard.tasks.continuation import Generation, Options, Wish, Writer
from regard.tasks.conventions import Conventions
from regard.tasks.language_modeling import score_texts
from regard.tasks.prefix import source_prefix, target_languages
from regard.tasks.terms import Protect, Terms
from regard.tasks.texts import Request, Translation, Translator
from regard.tasks.understood import Understanding, not_one
from regard.text import Tokenizer

TOGETHER = 256
"""Texts searched at a time: like lengths find one another among them, and no output waits for a whole file."""
DOES = {
    "translation": ("translate", "score"),
    "language-model": ("generate", "stream", "score"),
    "masked-lm": ("embed",),
    "embedding": ("embed",),
    "classification": ("classify", "embed"),
    "tagging": ("tag", "embed"),
    "question-answering": ("answer", "embed"),
}
"""What a model of each task can do."""


@dataclass(frozen=True)
class Loaded(Understanding):
    """A model ready for use; from `regard.load`. It holds no state between calls, and its weights are not changed."""

    path: Path
    """The folder that was read: of a run, its best checkpoint."""
    model: Model = field(repr=False)
    """The network itself, in evaluation mode."""
    tokenizer: Tokenizer = field(repr=False)
    target_tokenizer: Tokenizer = field(repr=False)
    """Of what is said; the same as `tokenizer`, but for a translator with two vocabularies."""
    about: Mapping[str, Any] = field(repr=False)
    """The facts of config.json: task, languages, training."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What of a folder of another tool's is not in the model, in sentences."""
    form: Form | None = None
    """What its matrices are brought into for use by `regard.runtime`: "fp32", "bf16", "int8"; None: they stay as is."""

    @property
    def task(self) -> str:
        """What the model was trained for."""
        return str(self.about["task"])

    @cached_property
    def fast(self) -> Model:
        """The model as texts are read and written with it; `model` is what is looked into."""
        return self.model if self.form is None else make_fast(self.model, self.form)

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Codes of the source and the target language, where they are known."""
        source, target = self.about.get("languages") or (None, None)
        return source, target

    @cached_property
    def conventions(self) -> Conventions:
        """What stands around sources, prompts and outputs."""
        return Conventions.read(self.about, self.tokenizer, self.target_tokenizer)

    @property
    def beginning(self) -> int:
        """The token that a text of nothing begins with. Raises ConfigError for a vocabulary without one."""
        return self.conventions.beginning

    @property
    def longest_source(self) -> int:
        """How many source tokens the model reads, beside those that stand around them."""
        return self.conventions.most_read(self.model.config.max_len)

    @property
    def targets(self) -> tuple[str, ...]:
        """The target languages to choose from by `to`; none where there is one direction."""
        return target_languages(self.tokenizer)

    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | Sequence[str] | None = None,
        beam: int = 4,
        n_best: int = 1,
        alignments: bool = False,
        prefix: Sequence[str] | None = None,
        glossary: Mapping[str, str] | None = None,
        protect: Protect = "placeholders",
        no_repeat_ngram: int = 0,
    ) -> list[Translation]:
        """The best translation of each text, in their order.

        A text of several sentences or lines is translated one by one, and put together with the white space it had. An
        empty text, or one of spaces, has an empty translation. A sentence longer than the model reads, or than those it
        was trained on, is cut at its clauses, or else between words, of Chinese and its like between characters; of a
        word still longer than it reads the rest is left out, with a warning and in `Translation.left_out`. No text is
        read as a command: `</s>` is four characters.

        Args:
            texts: a list; the results do not depend on what is translated together (to rounding in the score).
            to: the target language, one for all or one for each, where the model has several (`targets`).
            beam: hypotheses kept at each step; 1 is greedy.
            n_best: how many to give of each text, at most `beam`; all but the best in `alternatives`.
            alignments: also say which source token each target token is from.
            prefix: what each translation begins with, "" for nothing. Such a text is not cut into sentences.
            glossary: source term -> target term. Where a source holds the one, its translation holds the other.
            protect: what a translation must copy: "placeholders", addresses and markup ({name}, %s, https://a.org,
                <b>); "numbers", these and each number; "none".
            no_repeat_ngram: say no so many tokens in a row twice in a sentence; 0: do. (Loops end anyway: no output
                grows longer than the length of its source allows.)

        Raises:
            TypeError: `texts` is one string.
            ConfigError: `beam`, `n_best`, `to`, `protect` or `no_repeat_ngram` cannot be, a list has another length
                than `texts`, what must be said is longer than the model writes, or the model is no translator.
        """
        self._able("translate")
        texts = not_one(texts)
        _possible(beam, n_best, no_repeat_ngram)
        codes = [to] * len(texts) if to is None or isinstance(to, str) else _beside(texts, to, "to")
        prefixes = [""] * len(texts) if prefix is None else _beside(texts, not_one(prefix), "prefix")
        translator = Translator(self.fast, self.tokenizer, float(self.about.get("length_ratio", 3.0)),
                                self.languages[1], self.target_tokenizer, self.conventions,
                                self.about.get("longest_seen"))  # fmt: skip
        request = Request(
            beam=beam, n_best=n_best, alignments=alignments, terms=Terms(glossary or {}, protect),
            no_repeat_ngram=no_repeat_ngram,
        )  # fmt: skip
        found: list[Translation] = []
        for start in range(0, len(texts), TOGETHER):
            some = slice(start, start + TOGETHER)
            found += translator.translate(texts[some], codes[some], prefixes[some], request)
        if cut := [translation.left_out for translation in found if translation.left_out]:
            reads = f"the {self.longest_source:,} tokens that the model reads"
            holds = "hold a word" if prefix is None else "are kept whole by a prefix, or hold a word,"
            what = f"{len(cut):,} of {len(found):,} texts {holds} longer than {reads}"
            warnings.warn(f"{what}; up to {max(cut):,} tokens of a text were left out", stacklevel=2)
        return found

    def score(
        self, source: Sequence[str], target: Sequence[str] | None = None, *, to: str | Sequence[str] | None = None
    ) -> list[float]:
        """log p(target | source) of each pair, or log p of each text: the sum of its `token_scores`."""
        return [sum(score for _, score in tokens) for tokens in self.token_scores(source, target, to=to)]

    def token_scores(
        self, source: Sequence[str], target: Sequence[str] | None = None, *, to: str | Sequence[str] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Each token of each target with its log-probability after the source and the tokens before it; last the end.

        By teacher forcing; natural logarithm. Nothing is left out, since a score of half a text would be no score of
        it, and no text is cut into sentences.

        Args:
            source, target: of a translator; of a language model `source` alone, the texts themselves.
            to: the target language, one for all or one for each, where the model has several.

        Raises:
            TypeError: one string in place of a list.
            ConfigError: the lists differ in length, a text is longer than the model reads, or `to` cannot be.
        """
        pairs = self._pairs(source, target, to)
        if long := self._long(pairs):
            what = "pair" if self.task == "translation" else "text"
            raise ConfigError("a text is longer than the model reads", where=f"{what} {long[0] + 1}",
                              expected=self.reads, mend="split it")  # fmt: skip
        writes, end, targets = self.target_tokenizer, self.conventions.end, [target for _, target in pairs]
        if self.task == "language-model":
            scores = score_texts(self.model, targets, before=self.conventions.lead or (self.beginning,), end=end)
        else:
            scores = score_tokens(self.model, writes, pairs, conventions=self.conventions)
        rows = zip(targets, scores, strict=True)
        return [list(zip(writes.tokens([*ids, end]), own, strict=True)) for ids, own in rows]

    def too_long(
        self, source: Sequence[str], target: Sequence[str] | None = None, *, to: str | Sequence[str] | None = None
    ) -> list[int]:
        """The places of the pairs, or texts, that are longer than the model reads and have no score."""
        return self._long(self._pairs(source, target, to))

    @property
    def reads(self) -> str:
        """How much of an example it can score, in words."""
        return f"at most {self.longest_source:,} tokens" + " a side" * (self.task == "translation")

    def _long(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[int]:
        most = self.conventions.most_said(self.model.config.max_len)
        if self.task == "language-model":
            room = context(self.model.config)
            most = sys.maxsize if room is None else self.longest_source + 1
        return [i for i, (source, target) in enumerate(pairs)
                if len(source) > self.longest_source or len(target) >= most]  # fmt: skip

    def _pairs(
        self, source: Sequence[str], target: Sequence[str] | None, to: str | Sequence[str] | None
    ) -> list[tuple[list[int], list[int]]]:
        """Both sides as ids, with what goes before each source; before the texts of a language model is nothing."""
        self._able("score")
        source, alone = not_one(source), self.task == "language-model"
        if alone and target is None and to is None:
            return [([], ids) for ids in self.tokenizer.encode_batch(source)]
        if alone or target is None:
            expected = "texts alone" if alone else "sources, and as many targets"
            raise ConfigError("this is not what such a model scores", expected=expected, got="texts and more" if alone
                              else "no targets")  # fmt: skip
        target = not_one(target)
        if len(source) != len(target):
            got = f"{len(source):,} sources and {len(target):,} targets"
            raise ConfigError("pairs are needed", expected="as many targets as sources", got=got)
        codes = [to] * len(source) if to is None or isinstance(to, str) else _beside(source, to, "to")
        leads = {code: source_prefix(self.tokenizer, code, only=self.languages[1]) for code in set(codes)}
        encoded = zip(codes, self.tokenizer.encode_batch(source), strict=True)
        sources = [leads[code] + ids for code, ids in encoded]
        return list(zip(sources, self.target_tokenizer.encode_batch(target), strict=True))

    @overload
    def generate(self, prompt: str, **options: Unpack[Options]) -> Generation: ...

    @overload
    def generate(self, prompt: list[str] | tuple[str, ...], **options: Unpack[Options]) -> list[Generation]: ...

    def generate(self, prompt: str | Sequence[str], **options: Unpack[Options]) -> Generation | list[Generation]:
        """What the model says after a prompt, or after each of a list of prompts.

        A prompt is plain text: what the vocabulary puts before a text is put before it, and an empty one is the
        beginning of a text. Without options the likeliest token is taken each time. The results do not depend on what
        is continued together (to rounding in the logprobs).

        Args:
            max_tokens: the most to say (256); there is room for no more than the model's context holds, unless it looks
                back by a window.
            temperature: 0 is greedy, 1 draws by the model's own probabilities, above it is bolder. None (the default):
                1 where top_k, top_p, min_p or n asks for a draw, else 0.
            top_k: draw from the k likeliest tokens; 0 (the default): from all.
            top_p: from the fewest that hold this share of the probability; 1 (the default): from all.
            min_p: from those at least this share as probable as the likeliest; 0 (the default): from all.
            repetition_penalty: above 1, tokens of the prompt and the text so far become less likely; 1 (the default).
            presence_penalty: what the logits of tokens of the text so far lose; 0 (the default).
            stop: a string, or several, that ends the text, before it; it may span tokens.
            seed: the same one gives the same text, alone or in a list; None (the default): another each time.
            n: samples of each prompt (1); all but the first in `alternatives`. Sample k is the one of seed + k.
            truncate: leave out the beginning of a prompt that is too long, with a warning, in place of refusing it.
            raw: continue the prompt as it stands, where a model trained on conversations takes it for a question.

        Penalties come first, then temperature, top_k, top_p, min_p, and the draw (`regard.generate.sampling`).

        Raises:
            ConfigError: a number cannot be, a prompt is longer than the model's context, or it is no language model.
            NonFiniteError: the model says NaN.
        """
        self._able("generate")
        prompts = [prompt] if isinstance(prompt, str) else prompt
        found = Writer(self.fast, self.tokenizer, self.conventions).generate(prompts, Wish(**options))
        if cut := [one.left_out for one in found if one.left_out]:
            what = f"{len(cut):,} of {len(found):,} prompts are longer than the model looks back"
            warnings.warn(f"{what}; up to {max(cut):,} tokens at a beginning were left out", stacklevel=2)
        return found[0] if isinstance(prompt, str) else found

    def stream(self, prompt: str, **options: Unpack[Options]) -> Iterator[str]:
        """The text of `generate` in pieces, each as soon as nothing that follows can change it.

        Every piece is whole characters: half of one, or what a stop string begins with, is kept until it is certain.

        Args:
            options: those of `generate`; `n` must be 1.

        Raises:
            ConfigError, NonFiniteError: as `generate`; the first before the iterator is there.
        """
        self._able("generate")
        wish = Wish(**options)
        if wish.n != 1:
            raise ConfigError("one continuation is streamed", where="n", expected=1, got=wish.n, mend="call generate")
        left_out, pieces = Writer(self.fast, self.tokenizer, self.conventions).stream(prompt, wish)
        if left_out:
            what = "the prompt is longer than the model looks back"
            warnings.warn(f"{what}; {left_out:,} tokens at its beginning were left out", stacklevel=2)
        return pieces

    def _able(self, what: str) -> None:
        """Raise ConfigError unless a model of this task can do that."""
        if what not in DOES[self.task]:
            able = " or ".join(task for task, verbs in DOES.items() if what in verbs)
            raise ConfigError(f"this model cannot {what}", where=self.path, expected=f"a model of the task {able}",
                              got=f"one of the task {self.task}: it can {' and '.join(DOES[self.task])}")  # fmt: skip

    def __repr__(self) -> str:
        languages = " " + " to ".join(code or "?" for code in self.languages) if any(self.languages) else ""
        return f"<{self.task}{languages}, {self.model.config.n_parameters:,} parameters, {self.path}>"


def _beside(texts: Sequence[str], values: Sequence[str], name: str) -> Sequence[str]:
    if len(values) != len(texts):
        expected = f"{len(texts):,} value{'s' * (len(texts) != 1)}"
        raise ConfigError("one value is needed for each text", where=name, expected=expected, got=f"{len(values):,}")
    return values


def _possible(beam: int, n_best: int, no_repeat_ngram: int) -> None:
    """Raise ConfigError for numbers that cannot be searched with."""
    for name, value, least in (("beam", beam, 1), ("n_best", n_best, 1), ("no_repeat_ngram", no_repeat_ngram, 0)):
        if value < least:
            raise ConfigError("the number is too small", where=name, expected=f"{least} or more", got=value)
    if n_best > beam:
        raise ConfigError("a search finds no more outputs than its beam is wide", expected="n_best <= beam",
                          got=f"n_best {n_best}, beam {beam}", mend=f"raise beam to {n_best}")  # fmt: skip
