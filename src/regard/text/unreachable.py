"""Pieces that no text is cut into: control tokens above all, in vocabularies whose tools let a text spell them.

    vocabulary   </s>  </  s>  ▁a          a control token keeps its sign <
                 ⋖/    s>  ▁a              pieces of text have another in its place, here shown as ⋖
    text         "a</s>"  ->  "a⋖/s>"      and so does every text, before it is cut

What is unusual: nothing is forbidden after the fact, so the ids of any other text stay what they were, and all of it
lies in tokenizer.json. The other signs are code points that Unicode keeps free of characters. A merge that would build
a control token is left out instead.
What it does not know: which tokens are control tokens; that is the vocabulary's own mark (`special`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from tokenizers import Tokenizer as Backend

from regard.errors import CheckpointError
from regard.text.backend import open_backend, settled

AWAY = "\ufdd0"
"""Ends a piece that is only ever decoded."""
SIGNS = {"<": "\ufdd1", "[": "\ufdd2", "|": "\ufdd3"}
"""What a control token is known by, and what stands for that sign in texts and in their pieces."""
SHOWN = {ord(AWAY): "", **{ord(other): sign for sign, other in SIGNS.items()}, ord(" "): "▁"}
"""For `str.translate`: a piece as it is shown."""


def signs(controls: Collection[str]) -> dict[str, str]:
    """The signs to exchange, so that none of these tokens can be spelled.

    Raises:
        CheckpointError: a token holds none of the signs, so it cannot be told from text.
    """
    chosen = {}
    for token in controls:
        sign = next((sign for sign in SIGNS if sign in token), None)
        if sign is None:
            raise CheckpointError("a control token is spelled like plain text", where="tokenizer.json", got=repr(token),
                                  expected=f"one of {' '.join(SIGNS)} in it")  # fmt: skip
        chosen[sign] = SIGNS[sign]
    return chosen


def exchanged(piece: str, chosen: Mapping[str, str]) -> str:
    """A piece of text as texts are written after the exchange."""
    return piece.translate({ord(sign): other for sign, other in chosen.items()})


def guarded(backend: Backend) -> Backend:
    """The same vocabulary, where no text is cut into a control token; the very same where that was so already."""
    if not _spelled(settled(backend)):
        return backend
    tree = json.loads(backend.to_str())
    if tree["model"]["type"] == "BPE":
        _drop_merges(tree)
    else:
        _exchange(tree)
    mended = open_backend(json.dumps(tree))
    assert not isinstance(mended, str), mended
    if found := _spelled(settled(mended)):
        raise CheckpointError("a text can spell a control token of this vocabulary", where="tokenizer.json", got=found)
    return mended


def _spelled(backend: Backend) -> str | None:
    """A control token that its own characters are cut into."""
    unknown = getattr(backend.model, "unk_token", None)
    for index, token in backend.get_added_tokens_decoder().items():
        if token.special and token.content != unknown and backend.model.token_to_id(token.content) == index:
            texts = (token.content, f"a {token.content} a", f"a{token.content}a")
            # Not by id: a character that unigram does not know has the id of <unk>, but is named as it is.
            if any(token.content in backend.encode(text, add_special_tokens=False).tokens for text in texts):
                return token.content
    return None


def _drop_merges(tree: dict[str, Any]) -> None:
    model, controls = tree["model"], _contents(tree, special=True)
    prefix = model["continuing_subword_prefix"] or ""
    pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    model["merges"] = [pair for pair in pairs if pair[0] + pair[1].removeprefix(prefix) not in controls]


def _exchange(tree: dict[str, Any]) -> None:
    """Write other signs in all pieces but the added ones, and have texts written and read so."""
    model, chosen = tree["model"], signs(_contents(tree, special=True))
    bytes_ = {f"<0x{byte:02X}>" for byte in range(256)} if model.get("byte_fallback") else set()
    kept = {*_contents(tree), *bytes_, model.get("unk_token")}
    if isinstance(model["vocab"], dict):
        model["vocab"] = {p if p in kept else exchanged(p, chosen): index for p, index in model["vocab"].items()}
    else:
        model["vocab"] = [[p if p in kept else exchanged(p, chosen), score] for p, score in model["vocab"]]
    there = [_replace(sign, other) for sign, other in chosen.items()]
    back = [_replace(other, sign) for sign, other in chosen.items()]
    # Without a decoder the library puts a space between tokens, as does this one with a mark that no token begins with.
    decoder = tree["decoder"] or {"type": "WordPiece", "prefix": AWAY, "cleanup": False}
    before = [tree["normalizer"]] if tree["normalizer"] else []
    tree["normalizer"] = {"type": "Sequence", "normalizers": [*before, *there]}
    tree["decoder"] = {"type": "Sequence", "decoders": [decoder, *back]}


def _contents(tree: dict[str, Any], *, special: bool = False) -> set[str]:
    """The added tokens, or the control tokens among them."""
    return {token["content"] for token in tree["added_tokens"] if token["special"] or not special}


def _replace(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}
