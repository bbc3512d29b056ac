"""BPE dropout: a text cut otherwise each time, so that a model meets words in pieces of many sizes.

While a word is put together from characters, each merge that could be made is left out with a probability, every time
it is looked at (Provilkov et al. 2020). With probability 0 the ids are exactly those of `Tokenizer.encode`.

What is unusual: the library `tokenizers` can do this too, but draws from a generator that nobody can seed; a resumed
run must see the same pieces again (law 23), so the merging is written once more here. Python is slow at it (10
microseconds a word), so each word has `WAYS` drawn ways to be cut, found when first met, and a text draws among them.
What it does not know: when and for which texts it is used; that is training's business alone.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import pairwise
from random import Random

from tokenizers.models import BPE

from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizer

WAYS = 32
WORDS_KEPT = 2**18
TEXTS_KEPT = 2**17


class BpeDropout:
    """Encodes with dropout.

    Args:
        tokenizer: of the kind bpe or bytes.
        probability: of leaving out a merge, in [0, 1].

    Raises:
        ConfigError: the vocabulary knows no merges.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        if not isinstance(tokenizer.backend.model, BPE):
            raise ConfigError("only a vocabulary of merges can leave some out", where="tokenizer.dropout",
                              expected="0 for kinds other than bpe and bytes", got=probability)  # fmt: skip
        model = json.loads(tokenizer.backend.to_str())["model"]
        self._probability, self._vocab = probability, model["vocab"]
        self._rank = {(left, right): rank for rank, (left, right) in enumerate(model["merges"])}
        self._way = lru_cache(WORDS_KEPT)(self._cut)
        self._words = lru_cache(TEXTS_KEPT)(tokenizer.words)

    def encode(self, text: str, random: Random) -> list[int]:
        """The ids of `text`, without <s> and </s>, as `random` would have them this time."""
        return [piece for word in self._words(text) for piece in self._way(word, random.randrange(WAYS))]

    def _cut(self, word: str, way: int) -> tuple[int, ...]:
        """The ids of a word; always the same for a word and a way."""
        draw, parts = Random(f"{way} {word}").random, list(word)
        while True:
            pairs = (self._rank.get(pair) for pair in pairwise(parts))
            left = [(rank, i) for i, rank in enumerate(pairs) if rank is not None and draw() >= self._probability]
            if not left:
                return tuple(index for part in parts for index in self._ids(part))
            _, i = min(left)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]

    def _ids(self, part: str) -> list[int]:
        known = self._vocab.get(part)
        return [known] if known is not None else [self._vocab[f"<0x{byte:02X}>"] for byte in part.encode()]
