"""How a vocabulary is learned from texts: one function for each kind (`Tokenizer` says what the kinds are).

What is unusual: the library's trainers are given less than they could take. A character too rare to learn is left to
the byte fallback, and unigram sees each word twice, once with a mark at its end.
What it does not know: encoding and decoding, and what the control tokens are for.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import ConfigError
from regard.text.backend import ROLES, valid

Kind = Literal["bpe", "unigram", "bytes", "chars", "words"]

WORD = r" ?[\p{L}\p{M}]{1,32}| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]|\s{1,16}(?!\S)|\s"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# A letter that no living script writes: it ends a copy of each word while unigram trains, see `_both_ends`.
END = "\ua7f7"
LEAST_ROOM = 16  # pieces beyond the fixed ones; with fewer than its characters need, unigram training would never end


def learn(texts: Iterable[str], kind: Kind, vocab_size: int, specials: Sequence[str]) -> Backend:
    """At most `vocab_size` tokens: the control tokens, the specials, 256 bytes (bpe, unigram), what was learned.

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
            mend="raise tokenizer.vocab_size, or choose the kind chars or words",
        )
    backend = _TRAINERS[kind](_Corpus(texts, kind), names, room)
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return backend


class _Corpus:
    """The texts to learn from, with the characters worth a token of their own.

    A character seen once would get an embedding trained once; a Chinese corpus has more characters than a small
    vocabulary has room. The rest are left to the byte fallback, so they are cut out of the texts here.
    """

    def __init__(self, texts: Iterable[str], kind: Kind) -> None:
        self.texts = [valid(text) if kind == "bytes" else unicodedata.normalize("NFC", valid(text)) for text in texts]
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
