"""The library's tokenizer, opened from files that nobody has vouched for; and what every vocabulary here has in common.

What is unusual: the library panics on some malformed files, and a panic is a BaseException. So a vocabulary is built
and tried once behind `open_backend` or `built`, and a file is never read before its size is known (fault 9).
What it does not know: kinds of vocabulary, and what a control token is for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

from tokenizers import Tokenizer as Backend

from regard.errors import UNREADABLE, CheckpointError

ROLES = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
"""What control tokens are for, and how those of a vocabulary trained here are written."""
LARGEST_FILE = 32 * 2**20  # the largest published vocabularies just fit; malformed JSON of this size fails in < 5 s
CONVERT = "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)  # in Python, with transformers"
"""The command that writes a tokenizer.json beside files that regard does not read."""
AGAIN = "copy or download the file again from where it came"
TRIAL = "A word, 1 more.\n"


def valid(text: str) -> str:
    """The text with each lone surrogate, which UTF-8 cannot write, as U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def content(token: Any) -> str:
    """A control token in tokenizer_config.json is a string, or an object that holds one; "" for anything else."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else ""


def read_bytes(path: Path) -> bytes:
    """A file of at most 32 MiB. Raises CheckpointError when it is missing, unreadable or larger."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise CheckpointError("the file is too large", where=path, expected=f"<= {LARGEST_FILE:,} bytes", got=size)
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError("the file cannot be read", where=path, got=error, mend=UNREADABLE) from None


def read_text(path: Path) -> str:
    """`read_bytes` as UTF-8, its lines ended by \\n alone."""
    try:
        return read_bytes(path).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise CheckpointError("the file cannot be read", where=path, got=error, mend=UNREADABLE) from None


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object. Raises CheckpointError when the file holds anything else."""
    try:
        value = json.loads(read_text(path).removeprefix("\ufeff"))  # which some editors put first
    except (ValueError, RecursionError) as error:
        raise CheckpointError("this is not JSON", where=path, got=str(error)[:200], mend=AGAIN) from None
    if not isinstance(value, dict):
        raise CheckpointError("this is not a JSON object", where=path, got=type(value).__name__, mend=AGAIN)
    return value


def is_id(value: object) -> TypeGuard[int]:
    """Whether a value from a JSON file can be the id of a token in the library, which has 32 bits for it."""
    return type(value) is int and 0 <= value < 2**32


def read_ids(path: Path) -> dict[str, int]:
    """A vocabulary as JSON, token -> id. Raises CheckpointError where an id is no id, or that of two tokens."""
    vocab, token_of = read_object(path), dict[int, str]()
    for token, index in vocab.items():
        if not is_id(index):
            raise CheckpointError(
                "a token has no valid id", where=path, expected="0 or more", got=f"{token!r}: {index!r}"[:200]
            )
        if index in token_of:
            raise CheckpointError(
                "two tokens have the same id", where=path, got=f"{index}: {token_of[index]!r}, {token!r}"[:200]
            )
        token_of[index] = token
    if not vocab:
        raise CheckpointError("the vocabulary is empty", where=path)
    return vocab


def settled(backend: Backend) -> Backend:
    """The same vocabulary, changed to take text for text and to leave its length as it is."""
    backend.encode_special_tokens = True
    backend.no_truncation()
    backend.no_padding()
    return backend


def open_backend(text: str) -> Backend | str:
    """The library's tokenizer from a tokenizer.json, tried once, or why there is none."""
    return _tried(lambda: Backend.from_str(text))


def built(build: Callable[[], Backend], path: Path) -> Backend:
    """What `build` makes of a file. Raises CheckpointError where the library refuses or panics."""
    backend = _tried(build)
    if isinstance(backend, str):
        raise CheckpointError("this is not a vocabulary", where=path, got=backend[:200])
    return backend


def _tried(build: Callable[[], Backend]) -> Backend | str:
    try:
        backend = build()
        backend.decode(backend.encode(TRIAL).ids)
        return backend
    except (KeyboardInterrupt, SystemExit, CheckpointError):
        raise
    except BaseException as error:
        return str(error)
