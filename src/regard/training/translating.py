"""Translation as training sees it: pairs of texts, a vocabulary of both sides, BLEU at the end.

What it does not know: how a run is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from regard.data.languages import language_of
from regard.errors import ConfigError
from regard.model import Model, TransformerConfig
from regard.tasks.pairs import Corpus, read_corpus
from regard.tasks.prefix import prefix_tokens, source_prefixes
from regard.tasks.translation import TranslationData, TranslationTask, bleu_on, length_ratio, longest_seen
from regard.tasks.variation import Variation, vary
from regard.text import Tokenizer
from regard.text.dropout import BpeDropout
from regard.training.recipe import Recipe
from regard.training.start import Origin

BLEU_ON = 300
"""Development pairs that are translated at the end, greedily."""


@dataclass(frozen=True)
class Translating:
    """See `training.subject.Subject`.

    Attributes:
        origin: the model that a run goes on from; its target tokenizer and its conventions are kept.
    """

    origin: Origin | None = None
    head = "language-model"
    unit = "tokens"
    projected = 1.0

    def read(self, recipe: Recipe) -> Corpus:
        """The pairs that a recipe names, read, checked and cleaned; raises DataError."""
        data = recipe.data
        if data.columns is not None and len(data.columns) != 2:
            raise ConfigError("a pair has two columns", where="data.columns", expected="source and target",
                              got=", ".join(data.columns))  # fmt: skip
        columns = None if data.columns is None else (data.columns[0], data.columns[1])
        return read_corpus(
            data.train, data.dev, extra=data.extra, tag=data.extra_tag, columns=columns, languages=data.languages,
            skip_bad=data.skip_bad, seed=recipe.seed,
        )  # fmt: skip

    def tokenizer(self, recipe: Recipe, corpus: Corpus) -> Tokenizer:
        """A vocabulary of the training texts, in the forms in which they are first seen, and of their prefixes."""
        pairs = list(zip(*corpus.sides, strict=True))
        if recipe.augment:
            pairs = [vary(s, t, recipe.augment, Random(f"{recipe.seed} {i}")) for i, (s, t) in enumerate(pairs)]
        return Tokenizer.train(
            [*(source for source, _ in pairs), *(target for _, target in pairs)],
            kind=recipe.tokenizer.kind, vocab_size=recipe.tokenizer.vocab_size,
            specials=prefix_tokens([corpus.tag] if corpus.tag else [], corpus.targets),
        )  # fmt: skip

    def data(self, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer) -> TranslationData:
        """The training and development pairs as ids.

        Raises:
            ConfigError: the vocabulary lacks a language or a tag of theirs; no pair is short enough; they are the other
                way round than what the model translates that the run goes on from.
        """
        if self.origin:
            refuse_turned(self.origin, corpus)
        batch, prefixes = recipe.batch, list[list[int]]()
        for pairs, tag in corpus.parts:
            prefixes += source_prefixes(tokenizer, pairs, tag)
        says, conventions = (
            (self.origin.target_tokenizer, self.origin.conventions) if self.origin else (tokenizer, None)
        )
        sources, targets = corpus.sides
        plain = _with(prefixes, tokenizer.encode_batch(sources)), says.encode_batch(targets)
        held = corpus.dev
        dev = _with(source_prefixes(tokenizer, held), tokenizer.encode_batch(held.source))
        dropout = None
        if recipe.tokenizer.dropout:
            first = BpeDropout(tokenizer, recipe.tokenizer.dropout)
            dropout = first, first if says is tokenizer else BpeDropout(says, recipe.tokenizer.dropout)
        variation = Variation(
            tokenizer, says, sources, targets, prefixes, plain, seed=recipe.seed, max_len=batch.max_len,
            augment=recipe.augment, dropout=dropout,
        )  # fmt: skip
        return TranslationData(
            says, plain, (dev, says.encode_batch(held.target)), conventions=conventions,
            tokens_per_batch=batch.tokens, seed=recipe.seed, multiple=batch.multiple, max_len=batch.max_len,
            variation=variation if recipe.augment or dropout else None,
        )  # fmt: skip

    def task(self, recipe: Recipe, data: TranslationData) -> TranslationTask:
        """Label-smoothed cross entropy of the target."""
        return TranslationTask(recipe.label_smoothing, recipe.rdrop)

    def scores(self, model: Model, data: TranslationData, corpus: Corpus) -> tuple[dict[str, float], dict[str, str]]:
        """BLEU and chrF, greedy, on up to 300 development pairs, and their signatures."""
        return bleu_on(model, data, corpus.dev, language=corpus.languages[1], at_most=BLEU_ON)

    def glimpse(self, model: Model, data: TranslationData) -> None:
        """The scores tell enough."""

    def facts(self, data: TranslationData, corpus: Corpus) -> dict[str, Any]:
        """Languages, how much longer than its source a translation may be, and how long the sources are that it knows.

        A model that goes on keeps what it knew, where that is known.
        """
        targets = {"targets": list(corpus.targets)} if len(corpus.targets) > 1 else {}
        ratio = round(length_ratio(*data.train), 3)
        before = self.origin.about.get("longest_seen") if self.origin else 0
        seen = {} if before is None else {"longest_seen": max(before, longest_seen(data.train[0], data.max_len))}
        return {"languages": list(corpus.languages), **targets, "length_ratio": ratio, **seen}

    def axes(self, width: int, layers: int) -> dict[str, Any]:
        """As many layers on either side; heads of 32 to 64, d_ff = 4 d_model from 256 on, 2 d_model below."""
        return {
            "d_model": width, "n_heads": max(2, width // 32) if width < 512 else width // 64,
            "d_ff": width * (4 if width >= 256 else 2), "n_encoder_layers": layers, "n_decoder_layers": layers,
            "norm_order": "pre", "max_len": 256, "embed_scale": width**0.5,
        }  # fmt: skip

    def unset(self, base: Recipe) -> Recipe:
        """A recipe's own defaults are those of translation."""
        return base

    def about(self, config: TransformerConfig) -> str:
        """Both sides' layers."""
        return f"{config.n_encoder_layers} + {config.n_decoder_layers} layers"


def _with(prefixes: list[list[int]], rows: list[list[int]]) -> list[list[int]]:
    return [prefix + ids for prefix, ids in zip(prefixes, rows, strict=True)]


def refuse_turned(origin: Origin, corpus: Corpus) -> None:
    """Raise ConfigError for pairs in the other direction; those of other languages may be meant."""
    ours, theirs = ([code and language_of(code) for code in pair or ()] for pair in
                    (corpus.languages, origin.about.get("languages")))  # fmt: skip
    if None not in theirs and len({*theirs}) == 2 and ours == theirs[::-1]:
        said = " to ".join(map(str, corpus.languages))
        raise ConfigError("the pairs are the other way round than the model translates", where=origin.path,
                          expected=f"{theirs[0]} to {theirs[1]}", got=said,
                          mend="name the two files in the other order, or leave out --from")  # fmt: skip
