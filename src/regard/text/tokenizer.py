"""Text to token ids and back: five kinds of vocabulary over the library `tokenizers`, and those of other tools.

What it is: one frozen value that trains, encodes, decodes, saves and loads. The kinds that are trained here:

    bpe      merges of characters inside a word; any other character is written as its UTF-8 bytes (the default)
    unigram  the likeliest pieces inside a word; the same byte fallback
    bytes    merges of bytes inside a word; nothing unknown, nothing normalised, and decode(a + b) is
             decode(a) + decode(b) as long as no character is cut
    chars    one token a character; a character never seen in training is <unk>
    words    one token for what stands between two spaces, for text that is cut into pieces already (the BPE files of a
             published experiment); a piece never seen in training, or beyond the size, is <unk>

A word is a run of letters with the space before it; each digit, and each punctuation mark, is a word of its own, so
that " Hund" is one token before "." and before " und". In bpe and unigram a space is put before the text (and taken
away by decode), so that a word is the same token at the start of a sentence and inside it.

What is unusual: (1) the round trip. `decode(encode(text))` is the NFC form of text, with every space kept, for bpe and
unigram; text itself for bytes; for chars the NFC form without the unknown characters; for words the NFC form without
the unknown words, with one space between two. A lone surrogate becomes U+FFFD.
(2) Text is only ever text: `</s>` typed by a user becomes its characters, never the control token. It is a property of
the vocabulary too: a control token holds brackets and letters, and no word does (in words, each begins with a space).
(3) A word has at most 32 characters, so a million letters without a space take linear time.

A vocabulary of another tool (`text.foreign` opens them) keeps that tool's rules instead of (1) and (3), and may lack
any of the control tokens; (2) holds for it too.

What it does not know: the model, and where its control tokens go (`data.batch` puts <s> and </s> around the ids).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, processors

from regard.errors import CheckpointError, ConfigError
from regard.text.backend import ROLES, content, open_backend, read_object, read_text, settled, valid
from regard.text.template import Template, template
from regard.text.trainers import Kind, learn
from regard.text.unreachable import SHOWN

BATCH = 10_000


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A vocabulary. Immutable, and safe to use from several threads.

    Attributes:
        backend: the library's tokenizer; what `save` writes to tokenizer.json.
        roles: the ids of the control tokens that it has, by what they are for: pad, bos, eos, unk, mask.
    """

    backend: Backend
    roles: Mapping[str, int]

    @classmethod
    def train(
        cls, texts: Iterable[str], *, kind: Kind = "bpe", vocab_size: int, specials: Sequence[str] = ()
    ) -> Tokenizer:
        """Learn a vocabulary of at most `vocab_size` tokens; the same texts give the same one.

        The control tokens come first, then `specials`, then (bpe, unigram) the 256 bytes, then what was learned.
        With "unigram" the last digits of the scores are free: the library sums them in no fixed order.

        Raises:
            ConfigError: `vocab_size` leaves no room to learn, or a special is not like `<name>`.
        """
        return cls.of(learn(texts, kind, vocab_size, specials), ROLES)

    @classmethod
    def of(cls, backend: Backend, roles: Mapping[str, str]) -> Tokenizer:
        """A vocabulary of the library's, from now on `settled`, with its control tokens, role -> token.

        Raises:
            CheckpointError: a token is not in the vocabulary.
        """
        settled(backend)
        found = {role: backend.token_to_id(token) for role, token in roles.items()}
        if missing := [f"{roles[role]!r} ({role})" for role, index in found.items() if index is None]:
            raise CheckpointError("control tokens are not in the vocabulary", got=f"no token {', '.join(missing)}")
        return cls(backend, {role: index for role, index in found.items() if index is not None})

    @property
    def pad_id(self) -> int:
        """What fills the rows of a batch; 0 for a vocabulary without a token for it, since nobody looks at it."""
        return self.roles.get("pad", 0)

    @property
    def bos_id(self) -> int:
        """What begins a text. Raises ConfigError for a vocabulary without it."""
        return self._needed("bos", "begins a text")

    @property
    def eos_id(self) -> int:
        """What ends a text. Raises ConfigError for a vocabulary without it."""
        return self._needed("eos", "ends a text")

    @property
    def mask_id(self) -> int:
        """What hides a token. Raises ConfigError for a vocabulary without it."""
        return self._needed("mask", "hides a token")

    @property
    def unk_id(self) -> int | None:
        """What stands for text that the vocabulary cannot write; None where there is no such token."""
        return self.roles.get("unk")

    def role(self, name: str) -> int | None:
        """The control token for pad, bos, eos, unk or mask, or None."""
        return self.roles.get(name)

    def _needed(self, role: str, use: str) -> int:
        if role not in self.roles:
            has = ", ".join(f"{name} {self.backend.id_to_token(index)}" for name, index in self.roles.items())
            raise ConfigError(f"the vocabulary has no token that {use}", where="tokenizer",
                              expected=f"a {role} token", got=has or "no control token")  # fmt: skip
        return self.roles[role]

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest id; asked for with every request, and 10 ms of work for 50,000 tokens."""
        return max(self.backend.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def specials(self) -> tuple[str, ...]:
        """The tokens that no text encodes to: the control tokens, those given to `train`, another tool's own; by id."""
        added = sorted(self.backend.get_added_tokens_decoder().items())
        return tuple(token.content for _, token in added if token.special)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without what `wrap` puts around; never a control token, whatever the text says."""
        return list(self.backend.encode(valid(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts, on all threads."""
        ids: list[list[int]] = []
        for start in range(0, len(texts), BATCH):  # the library's own records are a hundred times larger than the ids
            batch = [valid(text) for text in texts[start : start + BATCH]]
            ids += [row.ids for row in self.backend.encode_batch_fast(batch, add_special_tokens=False)]
        return ids

    def words(self, text: str) -> list[str]:
        """What the text is cut into before each part is encoded by itself, written as the vocabulary writes it."""
        normalizer, text = self.backend.normalizer, valid(text)
        normal = normalizer.normalize_str(text) if normalizer else text
        cut = self.backend.pre_tokenizer
        return [word for word, _ in cut.pre_tokenize_str(normal)] if cut else [normal]

    def wrap(self, ids: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """A text, or two, with what the vocabulary puts around: `[CLS] a [SEP] b [SEP]`; and the type of each token.

        A vocabulary with nothing to put around gives the ids as they are. One that was trained here is such, until it
        is `framed`.
        """
        return self._template.fill([ids] if second is None else [ids, second])

    def framed(self, *, before: str | None = None, after: str | None = None) -> Tokenizer:
        """This vocabulary with a control token, named by its role, before or after each text: `<s> a </s>`."""
        names = {role: str(self.backend.id_to_token(index)) for role, index in self.roles.items()}
        first, last = (f"{names[role]} " if role else "" for role in (before, after))
        backend = Backend.from_str(self.backend.to_str())
        backend.post_processor = processors.TemplateProcessing(
            single=f"{first}$A {last}".strip(),
            pair=f"{first}$A {last}$B:1 {last.strip() and last.strip() + ':1'}".strip(),
            special_tokens=[(names[role], self.roles[role]) for role in (before, after) if role],
        )
        return Tokenizer.of(backend, names)

    @cached_property
    def _template(self) -> Template:
        return template(self.backend)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control and special tokens are left out, bytes that are no UTF-8 become U+FFFD."""
        return str(self.backend.decode(ids, skip_special_tokens=True))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id as a piece to show, its spaces as `▁`; an id beyond the vocabulary as `<id>`."""
        if isinstance(self.backend.decoder, decoders.ByteLevel):
            pieces = [self.backend.decode([index], skip_special_tokens=False) or f"<{index}>" for index in ids]
        else:
            pieces = [self.backend.id_to_token(index) or f"<{index}>" for index in ids]
        return [piece.translate(SHOWN) for piece in pieces]

    def token_id(self, token: str) -> int | None:
        """The id of one token as the vocabulary writes it, or None."""
        return self.backend.token_to_id(token)

    def unwritable(self, text: str) -> set[str]:
        """The characters of `text` that encode to <unk>; empty for a vocabulary that falls back to bytes."""
        return {char for char in set(unicodedata.normalize("NFC", valid(text))) if self.unk_id in self.encode(char)}

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, which `transformers` opens as a `PreTrainedTokenizerFast`."""
        roles = {f"{role}_token": self.backend.id_to_token(index) for role, index in self.roles.items()}
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **roles,
            "additional_special_tokens": [token for token in self.specials if token not in roles.values()],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,
        }
        (folder / "tokenizer.json").write_text(self.backend.to_str(pretty=True), encoding="utf-8")
        text = json.dumps(config, indent=2, ensure_ascii=False)
        (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Open what `save` wrote. For another tool's folder see `text.foreign`.

        Raises:
            CheckpointError: a file is missing, malformed or above 32 MiB, or a control token is not in the vocabulary.
        """
        path, config_path = folder / "tokenizer.json", folder / "tokenizer_config.json"
        backend = open_backend(read_text(path))
        if isinstance(backend, str):
            raise CheckpointError("this is not a tokenizer", where=path, got=backend)
        named = {role: content(token) for role, token in _role_tokens(read_object(config_path)).items()}
        try:
            return cls.of(backend, named)
        except CheckpointError as error:
            raise CheckpointError(error.what, where=config_path, got=error.got) from None


def _role_tokens(config: Mapping[str, object]) -> dict[str, object]:
    """The control tokens that a tokenizer_config.json names; null is none."""
    named = {role: config.get(f"{role}_token") for role in ROLES}
    return {role: token for role, token in named.items() if token is not None}
