"""Language models as training sees them: documents, next tokens (`Writing`) or hidden ones (`Guessing`).

What is unusual: what is planned are points of published families, so that a model trained here opens elsewhere: a
language model is Llama's kind (RMSNorm, RoPE, gated feed-forward, no constant terms), a masked one is BERT's.
What it does not know: how a run is carried out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.corpus import Corpus
from regard.model import Model, TransformerConfig
from regard.tasks.baselines import bits_per_byte, ngram_nats, unigram_nats, xz_bytes
from regard.tasks.continuation import Wish, Writer
from regard.tasks.conventions import Conventions
from regard.tasks.documents import Documents, read_texts
from regard.tasks.language_modeling import LanguageData, LanguageModelTask
from regard.tasks.masked_lm import MaskedData, MaskedLMTask, pieces
from regard.text import Tokenizer
from regard.training.recipe import Recipe

GLIMPSE = 40
"""Tokens that are written at each look at the development documents."""
COUNTED = 20_000_000
"""Tokens, or bytes, that the counting baselines look at: what a minute suffices for."""


class Documentary:
    """What both kinds have in common."""

    def read(self, recipe: Recipe) -> Documents:
        """The documents that a recipe names, read and parted; raises DataError."""
        data = recipe.data
        return read_texts(
            data.train, data.dev, unit=data.unit, field=data.field, skip_bad=data.skip_bad, seed=recipe.seed,
            letters=recipe.tokenizer.kind == "chars",
        )  # fmt: skip

    def facts(self, data: Any, corpus: Documents) -> dict[str, Any]:
        """Nothing beside the training."""
        return {}

    def unset(self, base: Recipe) -> Recipe:
        """Byte-level BPE, which writes any text as it stands; sharp targets."""
        return replace(base, label_smoothing=0.0, tokenizer=replace(base.tokenizer, kind="bytes"))


class Writing(Documentary):
    """See `training.subject.Subject`."""

    head = "language-model"

    def tokenizer(self, recipe: Recipe, corpus: Documents) -> Tokenizer:
        """A vocabulary of the training texts; <s> begins a text."""
        return corpus.tokenizer(recipe.tokenizer).framed(before="bos")

    def data(self, recipe: Recipe, corpus: Documents, tokenizer: Tokenizer) -> LanguageData:
        """The documents as ids."""
        train, dev = corpus.ids(tokenizer, seed=recipe.seed)
        return LanguageData(tokenizer, train, dev, length=recipe.batch.max_len, seed=recipe.seed,
                            tokens_per_batch=recipe.batch.tokens)  # fmt: skip

    def task(self, recipe: Recipe, tokenizer: Tokenizer) -> LanguageModelTask:
        """Cross entropy of the next token."""
        return LanguageModelTask()

    def scores(self, model: Model, data: LanguageData, corpus: Documents) -> tuple[dict[str, float], dict[str, str]]:
        """Bits a byte that counting needs for the development documents, to be held against the model's."""
        return counting(data), {}

    def glimpse(self, model: Model, data: LanguageData) -> str:
        """How it begins a text, drawn by the same seed each time, on one line."""
        wish = Wish(max_tokens=GLIMPSE, temperature=0.8, top_p=0.95, seed=1)
        writer = Writer(model, data.tokenizer, Conventions.read({}, data.tokenizer))
        model.eval()
        return "it writes: " + " / ".join(writer.generate([""], wish)[0].text.split("\n"))

    def axes(self, width: int, layers: int) -> dict[str, Any]:
        """Llama's: twice as many layers as a translator has on a side, a feed-forward of 8/3 of the width."""
        return {
            "d_model": width, "n_heads": max(2, width // 32) if width < 512 else width // 64,
            "d_ff": -(-8 * width // 3 // 32) * 32, "n_decoder_layers": layers + layers // 2, "norm_order": "pre",
            "norm": "rms", "positions": "rope", "activation": "silu", "gated_ffn": True, "bias": "none",
            "max_len": 256,
        }  # fmt: skip

    def about(self, config: TransformerConfig) -> str:
        """The decoder's layers."""
        return f"{config.n_decoder_layers} layers"


class Guessing(Documentary):
    """See `training.subject.Subject`."""

    head = "masked-lm"

    def tokenizer(self, recipe: Recipe, corpus: Documents) -> Tokenizer:
        """A vocabulary of the training texts; <s> and </s> stand around a text."""
        return corpus.tokenizer(recipe.tokenizer).framed(before="bos", after="eos")

    def data(self, recipe: Recipe, corpus: Documents, tokenizer: Tokenizer) -> MaskedData:
        """The documents as ids, long ones in pieces."""
        train, dev = corpus.ids(tokenizer, seed=recipe.seed)
        most = recipe.batch.max_len - len(tokenizer.wrap([])[0])
        size = recipe.model.get("vocab_size", tokenizer.vocab_size)
        return MaskedData(
            tokenizer, pieces(train, most, tokenizer), pieces(dev, most, tokenizer), vocab_size=size,
            tokens_per_batch=recipe.batch.tokens, seed=recipe.seed, multiple=recipe.batch.multiple,
            max_len=recipe.batch.max_len,
        )  # fmt: skip

    def task(self, recipe: Recipe, tokenizer: Tokenizer) -> MaskedLMTask:
        """Cross entropy of the hidden tokens."""
        return MaskedLMTask()

    def glimpse(self, model: Model, data: MaskedData) -> None:
        """Single words tell little."""

    def scores(self, model: Model, data: MaskedData, corpus: Documents) -> tuple[dict[str, float], dict[str, str]]:
        """What evaluation gives says it all."""
        return {}, {}

    def axes(self, width: int, layers: int) -> dict[str, Any]:
        """BERT's."""
        return {
            "d_model": width, "n_heads": max(2, width // 32) if width < 512 else width // 64, "d_ff": 4 * width,
            "n_encoder_layers": layers, "norm_order": "post", "positions": "learned", "activation": "gelu",
            "embed_norm": True, "n_token_types": 2, "head_bias": True, "norm_eps": 1e-12, "max_len": 256,
        }  # fmt: skip

    def about(self, config: TransformerConfig) -> str:
        """The encoder's layers."""
        return f"{config.n_encoder_layers} layers"


def counting(data: LanguageData) -> dict[str, float]:
    """Bits for each byte of the development documents by counts of tokens, of n-grams, and by xz."""
    train, held = (_stream(corpus, data.tokenizer.eos_id) for corpus in (data.train, data.dev))
    text, before = (data.tokenizer.decode(ids.tolist()).encode() for ids in (held, train[-COUNTED // 4 :]))
    size = data.tokenizer.vocab_size
    return {
        "unigram_bits_per_byte": bits_per_byte(unigram_nats(train, held, size), len(text)),
        "ngram_bits_per_byte": bits_per_byte(ngram_nats(train, held, size), len(text)),
        "xz_bits_per_byte": 8 * xz_bytes(before, text) / max(1, len(text)),
    }


def _stream(corpus: Corpus, end: int) -> np.ndarray:
    """The documents one after another, each with its end; no more than are counted."""
    parts, total = list[np.ndarray](), 0
    for number in range(len(corpus)):
        parts.append(np.append(corpus.document(number).astype(np.int64), end))
        total += len(parts[-1])
        if total > COUNTED:
            break
    return np.concatenate(parts)
