"""Conversations in JSONL: read, told from other files, and refused by line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.chat import is_chat, read_chats
from regard.errors import DataError
from regard.text.chat import Turn

ASK, SAY = {"role": "user", "content": "Who was here?"}, {"role": "assistant", "content": "A dog."}
SYSTEM = {"role": "system", "content": "Be brief."}


def write(path: Path, *conversations: object, packed: bool = False) -> Path:
    text = "".join(json.dumps({"messages": messages}, ensure_ascii=False) + "\n" for messages in conversations)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


def test_turns_come_as_they_stand_up_to_the_last_answer(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [SYSTEM, ASK, SAY, ASK], [ASK, {**SAY, "content": "狗"}])
    other = write(tmp_path / "b.jsonl.gz", [ASK, SAY, ASK, SAY], packed=True)
    found = read_chats([path, other])
    assert [(chat.path, chat.line, len(chat.turns)) for chat in found.chats] == [
        (path, 1, 3),
        (path, 2, 2),
        (other, 1, 4),
    ]
    assert found.chats[0].turns == tuple(Turn(**message) for message in (SYSTEM, ASK, SAY))
    assert found.chats[1].turns[1].content == "狗" and set(found.sha256) == {str(path), str(other)}


def test_its_first_record_tells_it_from_other_files(tmp_path: Path) -> None:
    assert is_chat(write(tmp_path / "a.jsonl.gz", [ASK, SAY], packed=True))
    (tmp_path / "text.jsonl").write_text('{"text": "messages"}\n')
    (tmp_path / "chat.txt").write_text('{"messages": []}\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text("{\n")
    assert not any(map(is_chat, [*tmp_path.glob("[!a]*"), tmp_path, tmp_path / "absent.jsonl", Path("-")]))


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "no list of messages"), ("x", "no list of messages"), (None, "no list of messages"),
        ([ASK], "nobody answers"), ([SYSTEM], "nobody answers"), ([SAY], "before any question"),
        ([ASK, {"role": "tool", "content": "x"}, SAY], "by 'tool'"), ([ASK, "x"], "by None"),
        ([{"role": "user", "content": None}, SAY], "no text"), ([ASK, {**SAY, "content": " \n"}], "an answer is empty"),
        ([ASK, SYSTEM, SAY], "stands after"),
    ],
)  # fmt: skip
def test_a_record_that_teaches_nothing_is_a_bad_line(tmp_path: Path, messages: object, says: str) -> None:
    path = write(tmp_path / "a.jsonl", [ASK, SAY], messages)
    with pytest.raises(DataError, match=says) as caught:
        read_chats([path])
    assert caught.value.where == f"{path}:2"
    found = read_chats([path], skip_bad=1)
    assert len(found.chats) == len(found.skipped) == 1
    with pytest.raises(DataError, match="no conversation"):
        read_chats([write(tmp_path / "b.jsonl", messages)], skip_bad=1)
