"""Conversations to learn answering from: JSONL whose records have `messages`, as chat services write them.

    {"messages": [{"role": "user", "content": "Who was here?"}, {"role": "assistant", "content": "A dog."}]}

What is unusual: what comes after the last answer teaches nothing and goes; a record in which nobody answers is a bad
line, like one that is no JSON.
What it does not know: token ids, and what stands between the turns (`text.chat`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import STDIN, Lines, shorten
from regard.data.languages import bare
from regard.data.parts import KINDS
from regard.data.tables import READERS, Skipped
from regard.errors import DataError
from regard.text.chat import ROLES, Turn

FIELD = "messages"


@dataclass(frozen=True)
class Chat:
    """One conversation, and where it came from; its last turn is an answer."""

    turns: tuple[Turn, ...]
    path: Path
    line: int


@dataclass(frozen=True)
class Chats:
    """Those of some files.

    Attributes:
        sha256: of each file, by its name.
        skipped: the bad lines that were left out.
    """

    chats: list[Chat]
    sha256: dict[str, str]
    skipped: list[DataError]


def is_chat(path: Path) -> bool:
    """Whether a file is JSONL whose first record has `messages`; reads no more than that, and nothing of a pipe."""
    if path == STDIN or not path.is_file() or KINDS.get(bare(path).suffix.lower()) != "jsonl":
        return False
    with Lines(path) as lines:
        first = next(READERS["jsonl"](lines, Skipped(1)), None)
    return first is not None and isinstance(first[1], dict) and FIELD in first[1]


def read_chats(paths: Sequence[Path], *, skip_bad: int | None = None) -> Chats:
    """The conversations of JSONL files, in order.

    Args:
        skip_bad: how many bad lines may be left out. None: none, and the user has no say in it.

    Raises:
        DataError: a file cannot be read, has no conversation, or one bad line too many.
    """
    found, sha256, bad = list[Chat](), dict[str, str](), Skipped(skip_bad)
    for path in paths:
        with Lines(path) as lines:
            for number, row in READERS["jsonl"](lines, bad):
                turns = _turns(row[FIELD] if isinstance(row, dict) and FIELD in row else None)
                if isinstance(turns, str):
                    bad.add(lines.bad(turns, got=shorten(str(row)), number=number))
                else:
                    found.append(Chat(turns, path, number))
            sha256[str(path)] = lines.sha256
    if not found:
        raise DataError("there is no conversation", where=" ".join(map(str, paths)), expected=f"records with {FIELD!r}")
    return Chats(found, sha256, bad.errors)


def _turns(messages: object) -> tuple[Turn, ...] | str:
    """The turns up to the last answer, or what is wrong with them."""
    if not isinstance(messages, list) or not messages:
        return f"the field {FIELD!r} is no list of messages"
    turns = list[Turn]()
    for message in messages:
        role, content = (message.get(key) if isinstance(message, dict) else None for key in ("role", "content"))
        if role not in ROLES:
            return f"a message is by {role!r}, not by {', '.join(ROLES)}"
        if not isinstance(content, str) or (role == "assistant" and not content.strip()):
            return "the content of a message is no text" if not isinstance(content, str) else "an answer is empty"
        if role == "system" and turns:
            return "a system message stands after another message"
        turns.append(Turn(role, content))
    last = max((i for i, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    return tuple(turns[: last + 1]) if last > 0 and turns[0].role != "assistant" else _nobody(turns)


def _nobody(turns: Sequence[Turn]) -> str:
    return "an answer stands before any question" if turns[0].role == "assistant" else "nobody answers"
