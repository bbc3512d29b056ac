"""What a vocabulary puts around a text before a model reads it: `[CLS] a [SEP] b [SEP]`, `<s> a`, `a </s>`, or nothing.

What is unusual: it is not read from the post-processor, of which there are many kinds, but seen: two texts go in, and
what comes out around them is the template.
What it does not know: what the tokens mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from tokenizers import Tokenizer as Backend

Slot = tuple[int | None, int, int]
"""(None, which text, its type) where a text stands, or (a control token, 0, its type)."""


@dataclass(frozen=True)
class Template:
    """What stands around one text, and around two."""

    single: tuple[Slot, ...]
    pair: tuple[Slot, ...]

    def fill(self, texts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """The ids of one or two texts with what stands around them, and the type of each."""
        ids: list[int] = []
        types: list[int] = []
        for token, which, kind in self.single if len(texts) == 1 else self.pair:
            part = texts[which] if token is None else (token,)
            ids += part
            types += [kind] * len(part)
        return ids, types


PLAIN = Template(single=((None, 0, 0),), pair=((None, 0, 0), (None, 1, 0)))
"""Nothing around one text, and nothing between two."""


def template(backend: Backend) -> Template:
    """What the post-processor of a vocabulary does."""
    if backend.post_processor is None:
        return PLAIN
    # Any text will do that is written with at least one token; a small vocabulary may lack the letter a.
    texts = chain(("a", "1", "."), backend.get_vocab())
    text = next((text for text in texts if backend.encode(text, add_special_tokens=False).ids), None)
    return PLAIN if text is None else Template(_seen(backend, text, None), _seen(backend, text, text))


def _seen(backend: Backend, one: str, two: str | None) -> tuple[Slot, ...]:
    encoded = backend.encode(one, two)
    slots: list[Slot] = []
    for token, which, kind in zip(encoded.ids, encoded.sequence_ids, encoded.type_ids, strict=True):
        slot = (token, 0, kind) if which is None else (None, which, kind)
        if which is None or slots[-1:] != [slot]:  # a text of several tokens is one slot
            slots.append(slot)
    return tuple(slots)
