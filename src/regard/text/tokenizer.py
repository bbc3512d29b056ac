"""Text to token ids and back: five kinds of vocabulary over the library `tokenizers`.

What it is: one frozen value that trains, encodes, decodes, saves and loads. The kinds:

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

What it does not know: the model, and where its control tokens go (`data.batch` puts <s> and </s> around the ids).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import CheckpointError, ConfigError

Kind = Literal["bpe", "unigram", "bytes", "chars", "words"]

ROLES = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
WORD = r" ?[\p{L}\p{M}]{1,32}| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]|\s{1,16}(?!\S)|\s"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# A letter that no living script writes: it ends a copy of each word while unigram trains, see `_both_ends`.
END = "\ua7f7"
LARGEST_FILE = 32 * 2**20  # the largest published vocabularies just fit; malformed JSON of this size fails in < 5 s
BATCH = 10_000
LEAST_ROOM = 16  # pieces beyond the fixed ones; with fewer than its characters need, unigram training would never end


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A trained vocabulary. Immutable, and safe to use from several threads.

    Attributes:
        backend: the library's tokenizer; what `save` writes to tokenizer.json.
        pad_id, bos_id, eos_id, unk_id, mask_id: the ids of the five control tokens.
    """

    backend: Backend
    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int
    mask_id: int

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
        names = [*ROLES.values(), *specials]
        for special in specials:
            # Brackets are words of their own, so no piece of plain text can be spelled like a special.
            if not re.fullmatch(r"[<\[]\S+[>\]]", special) or [*names, *BYTES].count(special) > 1:
                raise ConfigError("special tokens must look like <name>, each once", where="specials", got=special)
        room = vocab_size - len(names) - (0 if kind in ("chars", "words") else 256)
        if room < LEAST_ROOM:
            raise ConfigError(
                "the vocabulary has no room to learn in",
                where="vocab_size",
                expected=f"at least {vocab_size - room + LEAST_ROOM} for the kind {kind!r}",
                got=vocab_size,
            )
        backend = _TRAINERS[kind](_Corpus(texts, kind), names, room)
        backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
        return cls._wrap(backend, ROLES)

    @classmethod
    def _wrap(cls, backend: Backend, roles: dict[str, str]) -> Tokenizer:
        backend.encode_special_tokens = True
        backend.no_truncation()
        backend.no_padding()
        found = {role: backend.token_to_id(token) for role, token in roles.items()}
        ids = {f"{role}_id": index for role, index in found.items() if index is not None}
        if len(ids) < len(ROLES):
            missing = ", ".join(role for role in ROLES if f"{role}_id" not in ids)
            raise CheckpointError("control tokens are not in the vocabulary", got=f"no token for {missing}")
        return cls(backend, **ids)

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return max(self.backend.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def specials(self) -> tuple[str, ...]:
        """The tokens that no text encodes to: the five control tokens, and those given to `train`; by id."""
        added = sorted(self.backend.get_added_tokens_decoder().items())
        return tuple(token.content for _, token in added if token.special)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without <s> and </s>; never a control token, whatever the text says."""
        return list(self.backend.encode(_valid(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts, on all threads."""
        ids: list[list[int]] = []
        for start in range(0, len(texts), BATCH):  # the library's own records are a hundred times larger than the ids
            batch = [_valid(text) for text in texts[start : start + BATCH]]
            ids += [row.ids for row in self.backend.encode_batch_fast(batch, add_special_tokens=False)]
        return ids

    def words(self, text: str) -> list[str]:
        """What the text is cut into before each part is encoded by itself, written as the vocabulary writes it."""
        normalizer, text = self.backend.normalizer, _valid(text)
        normal = normalizer.normalize_str(text) if normalizer else text
        return [word for word, _ in self.backend.pre_tokenizer.pre_tokenize_str(normal)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control and special tokens are left out, bytes that are no UTF-8 become U+FFFD."""
        return str(self.backend.decode(ids, skip_special_tokens=True))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id as a piece to show, its spaces as `▁`; an id beyond the vocabulary as `<id>`."""
        if isinstance(self.backend.decoder, decoders.ByteLevel):
            pieces = [self.backend.decode([index], skip_special_tokens=False) for index in ids]
        else:
            pieces = [self.backend.id_to_token(index) or f"<{index}>" for index in ids]
        return [piece.replace(" ", "▁") for piece in pieces]

    def token_id(self, token: str) -> int | None:
        """The id of one token as the vocabulary writes it, or None."""
        return self.backend.token_to_id(token)

    def unwritable(self, text: str) -> set[str]:
        """The characters of `text` that encode to <unk>; empty for a vocabulary that falls back to bytes."""
        return {char for char in set(unicodedata.normalize("NFC", _valid(text))) if self.unk_id in self.encode(char)}

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, which `transformers` opens as a `PreTrainedTokenizerFast`."""
        roles = {f"{role}_token": self.backend.id_to_token(getattr(self, f"{role}_id")) for role in ROLES}
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
        """Open what `save` wrote, or any folder whose tokenizer_config.json names all five control tokens.

        Raises:
            CheckpointError: a file is missing, malformed or above 32 MiB, or a control token is not in the vocabulary.
        """
        path, config_path = folder / "tokenizer.json", folder / "tokenizer_config.json"
        backend = _open_backend(_read_limited(path))
        if isinstance(backend, str):
            raise CheckpointError("this is not a tokenizer", where=path, got=backend)
        try:
            config = json.loads(_read_limited(config_path))
        except (ValueError, RecursionError) as error:
            raise CheckpointError("this is not JSON", where=config_path, got=error) from None
        if not isinstance(config, dict):
            raise CheckpointError("this is not a JSON object", where=config_path, got=type(config).__name__)
        try:
            return cls._wrap(backend, {role: _content(config.get(f"{role}_token")) for role in ROLES})
        except CheckpointError as error:
            raise CheckpointError(error.what, where=config_path, got=error.got) from None


def _valid(text: str) -> str:
    """The text with each lone surrogate, which UTF-8 cannot write, as U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _read_limited(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise CheckpointError("the file is too large", where=path, expected=f"<= {LARGEST_FILE:,} bytes", got=size)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError("the file cannot be read", where=path, got=error) from None


def _open_backend(text: str) -> Backend | str:
    """The library's tokenizer, tried once, or why there is none (its panics on some files are BaseExceptions)."""
    try:
        backend = Backend.from_str(text)
        backend.decode(backend.encode("A word, 1 more.\n").ids)
        return backend
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return str(error)


def _content(token: Any) -> str:
    """A control token in tokenizer_config.json is a string, or an object that holds one."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else ""


class _Corpus:
    """The texts to learn from, with the characters worth a token of their own.

    A character seen once would get an embedding trained once; a Chinese corpus has more characters than a small
    vocabulary has room. The rest are left to the byte fallback, so they are cut out of the texts here.
    """

    def __init__(self, texts: Iterable[str], kind: Kind) -> None:
        self.texts = [_valid(text) if kind == "bytes" else unicodedata.normalize("NFC", _valid(text)) for text in texts]
        self.count: Counter[str] = Counter()
        for text in self.texts:
            self.count.update(text)

    def alphabet(self, size: int, at_least: int) -> list[str]:
        """The `size` most frequent characters seen `at_least` times; ties by code point."""
        known = [char for char, count in self.count.items() if count >= at_least and char not in ("\0", END)]
        return sorted(known, key=lambda char: (-self.count[char], char))[:size]

    def only(self, alphabet: Sequence[str]) -> Iterator[str]:
        rare = {ord(char): " " for char in self.count.keys() - set(alphabet)}
        return (text.translate(rare) for text in self.texts) if rare else iter(self.texts)


def _words(model: models.Model) -> Backend:
    """The frame shared by bpe and unigram: NFC, a space before the text, words, bytes back to characters."""
    backend = Backend(model)
    backend.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "isolated")
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return backend


def _train_bpe(corpus: _Corpus, names: list[str], room: int) -> Backend:
    backend = _words(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=room, min_frequency=2, show_progress=False)
    backend.train_from_iterator(corpus.only(corpus.alphabet(room // 2, 2)), trainer)
    learned = json.loads(backend.to_str())["model"]
    pieces = [*names, *BYTES, *sorted(learned["vocab"], key=learned["vocab"].__getitem__)]
    vocab, merges = {piece: index for index, piece in enumerate(pieces)}, [tuple(pair) for pair in learned["merges"]]
    backend.model = models.BPE(vocab, merges, unk_token=ROLES["unk"], byte_fallback=True)
    return backend


def _train_unigram(corpus: _Corpus, names: list[str], room: int) -> Backend:
    backend = _words(models.Unigram())
    trainer = trainers.UnigramTrainer(vocab_size=room, show_progress=False, unk_token=ROLES["unk"])
    backend.train_from_iterator(_both_ends(corpus.only(corpus.alphabet(room // 2, 2))), trainer)
    learned = json.loads(backend.to_str())["model"]["vocab"]
    # A byte's score is never used: bytes are taken only where no piece fits. Six decimals survive JSON unchanged.
    pieces = [(name, 0.0) for name in [*names, *BYTES]]
    pieces += [(piece, round(score, 6)) for piece, score in learned if END not in piece and piece not in names]
    backend.model = models.Unigram(pieces, unk_id=names.index(ROLES["unk"]), byte_fallback=True)
    return backend


def _both_ends(texts: Iterable[str]) -> Iterator[str]:
    """Each text, then again with a mark after each word.

    The library takes its first pieces from a suffix array, where only a string followed by two different things is a
    candidate. The end of a word is always followed by the same thing, so without the mark most whole words are lost
    ("sin|d", "bushe|s"): on Multi30k 17 tokens a sentence in place of 14.
    """
    for text in texts:
        yield text
        yield re.sub(r"\w+", lambda word: word[0] + END, text)


def _train_bytes(corpus: _Corpus, names: list[str], room: int) -> Backend:
    backend = Backend(models.BPE())
    split = pre_tokenizers.Split(Regex(WORD), "isolated")
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, letters])
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=len(names) + 256 + room,
        min_frequency=2,
        special_tokens=names,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(corpus.texts, trainer)
    return backend


def _train_chars(corpus: _Corpus, names: list[str], room: int) -> Backend:
    pieces = [*names, *corpus.alphabet(room, 1)]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    backend = Backend(models.WordLevel(vocab, unk_token=ROLES["unk"]))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return backend


def _train_words(corpus: _Corpus, names: list[str], room: int) -> Backend:
    count = Counter(f" {word}" for text in corpus.texts for word in text.split(" ") if word)
    pieces = [*names, *sorted(count, key=lambda word: (-count[word], word))[:room]]
    backend = Backend(models.WordLevel({piece: index for index, piece in enumerate(pieces)}, unk_token=ROLES["unk"]))
    backend.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r" [^ ]*"), "isolated")
    backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return backend


_TRAINERS = {
    "bpe": _train_bpe, "unigram": _train_unigram, "bytes": _train_bytes, "chars": _train_chars, "words": _train_words,
}  # fmt: skip
