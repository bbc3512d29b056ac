"""Language models as training sees them, on documents: those that foretell the next token, and masked ones.

What is unusual: files of conversations are told by their first record, and make a language model one that answers.
What is planned are points of published families, so that a model trained here opens elsewhere: a language model is
Llama's kind (RMSNorm, RoPE, gated feed-forward, no constant terms), a masked one is BERT's.
What it does not know: how a run is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.data.chat import is_chat
from regard.data.shards import is_prepared
from regard.model import Model, TransformerConfig
from regard.tasks.baselines import counted_bits
from regard.tasks.continuation import Wish, Writer
from regard.tasks.conventions import Conventions
from regard.tasks.conversations import ChatData, Conversations, read_conversations, template_of
from regard.tasks.documents import Documents, read_texts
from regard.tasks.language_modeling import LanguageData, LanguageModelTask
from regard.tasks.masked_lm import CHOSEN, MaskedData, MaskedLMTask, pieces
from regard.text import Tokenizer
from regard.training.recipe import Recipe
from regard.training.start import Origin

GLIMPSE = 40
"""Tokens that are written at each look at the development documents."""
PASSES = 10.0
"""Over the texts at most when a trained encoder guesses on: what is hidden is drawn anew in each."""


class OverDocuments:
    """What both kinds have in common."""

    unit = "tokens"

    def facts(self, data: Any, corpus: Documents) -> dict[str, Any]:
        """Nothing beside the training."""
        return {}

    def unset(self, base: Recipe) -> Recipe:
        """Byte-level BPE, which writes any text as it stands; sharp targets; as many positions as a row has tokens."""
        length = min(base.batch.max_len, base.model.get("max_len", base.batch.max_len))
        folder, pieces = Path(base.data.train[0]), replace(base.tokenizer, kind="bytes")
        if is_prepared(folder):
            pieces = replace(pieces, vocab_size=Tokenizer.load(folder).vocab_size)
        return replace(
            base, label_smoothing=0.0, model={"max_len": length, **base.model}, tokenizer=pieces,
            batch=replace(base.batch, max_len=length),
        )  # fmt: skip


@dataclass(frozen=True)
class LanguageModelling(OverDocuments):
    """See `training.subject.Subject`.

    Attributes:
        origin: the model that a run goes on from; its conventions are kept.
    """

    origin: Origin | None = None
    head = "language-model"
    projected = 1.0

    def read(self, recipe: Recipe) -> Documents | Conversations:
        """The documents, or the conversations, that a recipe names; raises DataError."""
        data = recipe.data
        if is_chat(Path(data.train[0])):
            return read_conversations(data.train, data.dev, skip_bad=data.skip_bad, seed=recipe.seed)
        return _documents(recipe)

    def tokenizer(self, recipe: Recipe, corpus: Documents | Conversations) -> Tokenizer:
        """A vocabulary of the training texts; <s> begins a text."""
        return corpus.tokenizer(recipe.tokenizer).framed(before="bos")

    def data(self, recipe: Recipe, corpus: Documents | Conversations, tokenizer: Tokenizer) -> LanguageData | ChatData:
        """The documents, or the conversations, as ids."""
        conventions = self.origin.conventions if self.origin else Conventions.read({}, tokenizer)
        batch, seed = recipe.batch, recipe.seed
        if isinstance(corpus, Conversations):
            about = self.origin.about if self.origin else {}
            template = template_of(about, tokenizer, conventions)
            return ChatData(
                tokenizer, template, corpus.train, corpus.dev, seed=seed, conventions=conventions,
                tokens_per_batch=batch.tokens, multiple=batch.multiple, max_len=batch.max_len,
            )  # fmt: skip
        train, dev = corpus.ids(tokenizer, seed=seed)
        return LanguageData(tokenizer, train, dev, length=batch.max_len, seed=seed, tokens_per_batch=batch.tokens,
                            conventions=conventions)  # fmt: skip

    def task(self, recipe: Recipe, data: Any) -> LanguageModelTask:
        """Cross entropy of the next token."""
        return LanguageModelTask()

    def facts(self, data: Any, corpus: Any) -> dict[str, Any]:
        """What stands between the turns of a conversation."""
        return {"chat": data.template.facts} if isinstance(data, ChatData) else {}

    def scores(self, model: Model, data: Any, corpus: Any) -> tuple[dict[str, float], dict[str, str]]:
        """Bits a byte that counting needs for the development documents, to be held against the model's."""
        if isinstance(data, ChatData):
            return {}, {}
        return counted_bits(data.tokenizer, data.train, data.dev, data.conventions.end), {}

    def glimpse(self, model: Model, data: LanguageData | ChatData) -> str:
        """How it begins a text, or answers the first question, drawn by the same seed each time, on one line."""
        wish = Wish(max_tokens=GLIMPSE, temperature=0.8, top_p=0.95, seed=1, truncate=True)
        does, prompt, conventions = "writes", "", data.conventions
        if isinstance(data, ChatData):
            does, conventions = "answers", conventions.answering(data.template, data.tokenizer)
            prompt = next(turn.content for turn in data.chats[0].turns if turn.role == "user")
        model.eval()
        text = Writer(model, data.tokenizer, conventions).generate([prompt], wish)[0].text
        return f"it {does}: " + " / ".join(text.split("\n"))

    def axes(self, width: int, layers: int) -> dict[str, Any]:
        """Llama's: half as many layers again as a translator has on a side, a feed-forward of 8/3 of the width."""
        return {
            "d_model": width, "n_heads": max(2, width // 32) if width < 512 else width // 64,
            "d_ff": -(-8 * width // 3 // 32) * 32, "n_decoder_layers": layers + layers // 2, "norm_order": "pre",
            "norm": "rms", "positions": "rope", "activation": "silu", "gated_ffn": True, "bias": "none",
        }  # fmt: skip

    def about(self, config: TransformerConfig) -> str:
        """The decoder's layers."""
        return f"{config.n_decoder_layers} layers"


class MaskedLanguageModelling(OverDocuments):
    """See `training.subject.Subject`."""

    head = "masked-lm"
    projected = CHOSEN

    def read(self, recipe: Recipe) -> Documents:
        """The documents that a recipe names, read and parted; raises DataError."""
        return _documents(recipe)

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

    def task(self, recipe: Recipe, data: MaskedData) -> MaskedLMTask:
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
            "embed_norm": True, "n_token_types": 2, "head_bias": True, "norm_eps": 1e-12,
        }  # fmt: skip

    def unset(self, base: Recipe) -> Recipe:
        """The same; from a trained encoder a few passes of AdamW at a low rate, with its dropout, or BERT's."""
        base = super().unset(base)
        if base.init_from is None:
            return base
        dropout = base.model.get("dropout") or 0.1
        return replace(
            base, model={**base.model, "dropout": dropout}, loop=replace(base.loop, epochs=PASSES),
            optim=replace(base.optim, kind="adamw", lr=1e-4, weight_decay=0.01),
        )  # fmt: skip

    def about(self, config: TransformerConfig) -> str:
        """The encoder's layers."""
        return f"{config.n_encoder_layers} layers"


def _documents(recipe: Recipe) -> Documents:
    data = recipe.data
    return read_texts(
        data.train, data.dev, unit=data.unit, field=data.field, skip_bad=data.skip_bad, seed=recipe.seed,
        letters=recipe.tokenizer.kind == "chars",
    )  # fmt: skip
