"""The vocabulary of a Hugging Face folder, by the files that are in it.

    tokenizer.json                             as it is
    vocab.txt                                  BERT's pieces                        (text.wordpiece)
    vocab.json, merges.txt                     merges of bytes: GPT-2, RoBERTa      (text.bytelevel)
    source.spm, target.spm, vocab.json         Marian's two vocabularies            (text.marian)
    spiece.model or tokenizer.model            SentencePiece: T5, Llama             (text.spm)

The first of these that is there is opened. tokenizer.json wins over what a class of `transformers` would make of the
same folder (version 5 builds Llama's and T5's anew, with other spaces); a bare .model is read as the library
sentencepiece reads it, a space before the text included.

What is unusual: no text is cut into a control token, whatever the tool itself does; only a merge or a piece that could
lead there is changed.
What it does not know: the model that goes with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tokenizers import AddedToken, models, processors
from tokenizers import Tokenizer as Backend

from regard.errors import UNREADABLE, CheckpointError
from regard.text.backend import CONVERT, ROLES, built, content, open_backend, read_text
from regard.text.bytelevel import open_bytelevel
from regard.text.hints import Hints, read_hints
from regard.text.marian import open_marian
from regard.text.spm import convert
from regard.text.spm_file import SentencePieces, read_spm
from regard.text.tokenizer import Tokenizer
from regard.text.unreachable import guarded
from regard.text.wordpiece import open_wordpiece

MODELS = ("spiece.model", "tokenizer.model")
MODEL_CLASSES = ("T5Tokenizer", "LlamaTokenizer")
MOVED = "sentencepiece.bpe.model"
CONTROL = re.compile(r"[<\[].+[>\]]")
"""How control tokens are spelled; a role may also be given to plain text, which then stays text."""
MOST_EXTRA = 10_000


def open_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The vocabulary of sources and that of targets; the same one twice where there is but one.

    Raises:
        CheckpointError: there is none, or its files are malformed, too large (32 MiB), or read in a way unknown here.
    """
    try:
        has = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise CheckpointError("the folder cannot be read", where=folder, got=error.strerror, mend=UNREADABLE) from None
    opener = next((opener for name, opener in _OPENERS.items() if name in has), None)
    if opener is None:
        raise CheckpointError(
            "there is no vocabulary in this folder", where=folder, expected=" or ".join(_OPENERS), mend=CONVERT,
            got=", ".join(sorted(has)[:8]) or "an empty folder",
        )  # fmt: skip
    hints = read_hints(folder)
    backends, names = opener(hints)
    tokenizers = [_tokenizer(backend, hints, names) for backend in backends]
    return tokenizers[0], tokenizers[-1]


def _tokenizer(backend: Backend, hints: Hints, names: Mapping[str, str]) -> Tokenizer:
    """A vocabulary with its added tokens and its roles; `names` are those that the files may leave open."""
    _add(backend, hints.added(), hints.folder)
    roles = {role: token for role in ROLES if (token := _role(backend, hints, names, role)) is not None}
    marked = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    new = [token for token in dict.fromkeys(roles.values()) if token not in marked and CONTROL.fullmatch(token)]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in new])
    return Tokenizer.of(guarded(backend), roles)


def _add(backend: Backend, added: Mapping[int, AddedToken], folder: Path) -> None:
    """Add the tokens that are lacking, and mark control tokens. A token that has the place already keeps it."""
    for index, token in added.items():
        there = backend.id_to_token(index)
        if there is None or (there == token.content and token.special):
            backend.add_tokens([token])
        if there is None and backend.token_to_id(token.content) != index:
            raise CheckpointError("an added token does not follow upon the vocabulary", where=folder, mend=CONVERT,
                                  expected=f"the id {backend.token_to_id(token.content)}",
                                  got=f"{token.content!r}: {index}")  # fmt: skip


def _role(backend: Backend, hints: Hints, names: Mapping[str, str], role: str) -> str | None:
    for token in (hints.token(role), names.get(role)):
        if token is not None and backend.token_to_id(token) is not None:
            return token
    index = hints.token_id(role)
    token = backend.id_to_token(index) if index is not None else None
    return token if token is not None and CONTROL.fullmatch(token) else None


def _open_json(hints: Hints) -> tuple[tuple[Backend], dict[str, str]]:
    path = hints.folder / "tokenizer.json"
    text = read_text(path)
    backend = open_backend(text)
    if isinstance(backend, str):
        raise CheckpointError("this is not a tokenizer", where=path, got=backend[:200], mend=CONVERT)
    if isinstance(backend.model, models.Unigram):
        index = json.loads(text)["model"].get("unk_id")
        unknown = backend.id_to_token(index) if index is not None else None
    else:
        unknown = getattr(backend.model, "unk_token", None)
    return (backend,), {"unk": unknown} if unknown else {}


def _open_spm(hints: Hints) -> tuple[tuple[Backend], dict[str, str]]:
    hints.only(MODEL_CLASSES)
    path = next(path for name in MODELS if (path := hints.folder / name).is_file())
    spm = read_spm(path)
    backend = built(lambda: convert(spm), path)
    _add(backend, dict(sorted((_extra(spm, hints) | hints.added()).items())), hints.folder)
    names = {role: spm.pieces[index].text for role, index in {**spm.controls, "unk": spm.unk_id}.items()}
    # Llama's has a token that begins a text, which goes before it; T5's has but one that ends it, which goes after.
    first = ["bos"] if hints.flag("add_bos_token", "bos" in names) else []
    last = ["eos"] if hints.flag("add_eos_token", "bos" not in names) else []
    before, after = (
        [token for role in roles if (token := _role(backend, hints, names, role)) is not None]
        for roles in (first, last)
    )
    if before or after:
        single = [*before, "$A", *after]
        ids = [(token, backend.token_to_id(token)) for token in {*before, *after}]
        backend.post_processor = processors.TemplateProcessing(single, [*single, *before, "$B", *after], ids)
    return (backend,), names


def _extra(spm: SentencePieces, hints: Hints) -> dict[int, AddedToken]:
    """T5's tokens for what was left out of a text: they follow upon the pieces, the last of them first."""
    listed = [source.get("additional_special_tokens") for source in (hints.config, hints.tokens)]
    named = {content(token) for tokens in listed if isinstance(tokens, list) for token in tokens}
    count = hints.config.get("extra_ids")
    if count is None:
        count = sum(token.startswith("<extra_id_") for token in named)
    if type(count) is not int or not 0 <= count <= MOST_EXTRA:
        raise CheckpointError("the number of extra tokens is none", where=hints.folder / "tokenizer_config.json",
                              expected=f"0 to {MOST_EXTRA:,}", got=repr(count)[:80])  # fmt: skip
    tokens = (AddedToken(f"<extra_id_{count - 1 - i}>", special=True, normalized=False) for i in range(count))
    return dict(enumerate(tokens, start=len(spm.pieces)))


def _refuse(hints: Hints) -> tuple[tuple[Backend], dict[str, str]]:
    raise CheckpointError("the tools that write this file give its pieces other ids, which regard does not follow",
                          where=hints.folder / MOVED, mend=CONVERT)  # fmt: skip


Opener = Callable[[Hints], tuple[tuple[Backend, ...], dict[str, str]]]
"""The backends (of sources and of targets, or one) and the control tokens that the folder may leave unnamed."""
_OPENERS: dict[str, Opener] = {
    "tokenizer.json": _open_json,
    "vocab.txt": open_wordpiece,
    "merges.txt": open_bytelevel,
    **dict.fromkeys(("source.spm", "target.spm"), open_marian),
    MOVED: _refuse,
    "vocab.json": open_bytelevel,  # which says that merges.txt is missing
    **dict.fromkeys(MODELS, _open_spm),
}
