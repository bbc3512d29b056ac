"""Fault 9 for the files of other tools: what is missing, malformed or huge is named, in under 5 seconds, no panic."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import CheckpointError
from regard.text.backend import LARGEST_FILE
from regard.text.foreign import open_tokenizers


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """`copied("gpt2")` is a folder of that kind to do harm to."""
    return lambda kind: Path(shutil.copytree(folders[kind], tmp_path / kind))


def _refused(folder: Path, name: str, match: str | None = None) -> None:
    start = time.perf_counter()
    with pytest.raises(CheckpointError, match=match) as caught:
        open_tokenizers(folder)
    assert time.perf_counter() - start < 5
    assert str(folder / name) in str(caught.value) and len(str(caught.value)) < 2_000


FILES = [
    ("json", "tokenizer.json"), ("json", "special_tokens_map.json"), ("json", "config.json"), ("bert", "vocab.txt"),
    ("bert", "tokenizer_config.json"), ("gpt2", "vocab.json"), ("gpt2", "merges.txt"), ("marian", "vocab.json"),
    ("marian", "source.spm"), ("marian", "target.spm"), ("t5", "spiece.model"), ("llama", "tokenizer.model"),
]  # fmt: skip
each_file = pytest.mark.parametrize(("kind", "name"), FILES)


@each_file
def test_random_bytes_and_a_cut_file(kind: str, name: str, copied: Callable[[str], Path]) -> None:
    path = copied(kind) / name
    whole = path.read_bytes()
    for part in (b"\xff\xfe" + whole, bytes(range(256)) * 9, whole[: len(whole) // 2]):
        path.write_bytes(part)
        if not (name.endswith(".txt") and part in whole):  # half of a list is a list, only another
            _refused(path.parent, name)


@each_file
def test_a_huge_file(kind: str, name: str, copied: Callable[[str], Path]) -> None:
    path = copied(kind) / name
    with path.open("r+b") as file:
        file.truncate(LARGEST_FILE + 1)
    _refused(path.parent, name, "too large")


@pytest.mark.parametrize(
    "content", ["[" * 1_000_000, "[]", "7", "", "{", '{"a": 1'], ids=lambda text: text[:3] or "empty"
)
@pytest.mark.parametrize(("kind", "name"), [file for file in FILES if file[1].endswith(".json")])
def test_json_that_is_none(kind: str, name: str, content: str, copied: Callable[[str], Path]) -> None:
    path = copied(kind) / name
    path.write_text(content)
    _refused(path.parent, name)


def test_nothing_there(tmp_path: Path) -> None:
    _refused(tmp_path, "", r"(?s)no vocabulary.*tokenizer\.json or vocab\.txt.*AutoTokenizer")
    (tmp_path / "model.safetensors").touch()
    _refused(tmp_path, "", "got: model.safetensors")
    _refused(tmp_path / "gone", "", "cannot be read")


@pytest.mark.parametrize(
    ("kind", "name", "match"),
    [
        ("gpt2", "merges.txt", "file of merges"),
        ("marian", "source.spm", "source.spm, target.spm and vocab.json"),
        ("marian", "target.spm", "source.spm, target.spm and vocab.json"),
        ("marian", "vocab.json", "source.spm, target.spm and vocab.json"),
        ("gpt2", "vocab.json", "cannot be read"),
    ],
)
def test_a_file_of_several_is_missing(kind: str, name: str, match: str, copied: Callable[[str], Path]) -> None:
    folder = copied(kind)
    (folder / name).unlink()
    _refused(folder, name, match)


EDITS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "two tokens of one id": (lambda vocab: vocab.update(zz=5), "same id"),
    "a negative id": (lambda vocab: vocab.update(zz=-1), "no valid id"),
    "an id that is text": (lambda vocab: vocab.update(zz="5"), "no valid id"),
    "an id that is true": (lambda vocab: vocab.update(zz=True), "no valid id"),
    "an id beyond all": (lambda vocab: vocab.update(zz=2**40), "no valid id"),
    "an id that is half": (lambda vocab: vocab.update(zz=1.5), "no valid id"),
    "nothing": (lambda vocab: vocab.clear(), "empty"),
}


@pytest.mark.parametrize("kind", ["gpt2", "marian"])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_ids_that_are_none(
    kind: str, edit: tuple[Callable[[dict[str, Any]], None], str], copied: Callable[[str], Path]
) -> None:
    path = copied(kind) / "vocab.json"
    vocab = json.loads(path.read_text())
    edit[0](vocab)
    path.write_text(json.dumps(vocab))
    _refused(path.parent, "vocab.json", edit[1])


@pytest.mark.parametrize("kind", ["gpt2", "marian"])
def test_holes_among_the_ids(kind: str, copied: Callable[[str], Path]) -> None:
    """An id of no token is never written and decodes to nothing; all others are as they were."""
    path = copied(kind) / "vocab.json"
    vocab = json.loads(path.read_text())
    whole, size = open_tokenizers(path.parent)[1], len(vocab)
    vocab |= {"zz": size + 3}
    path.write_text(json.dumps(vocab))
    holed = open_tokenizers(path.parent)[1]
    assert holed.vocab_size == size + 4 and holed.encode("a man, 日") == whole.encode("a man, 日")
    assert holed.decode([size, size + 1, *whole.encode("a man")]) == "a man"
    path.write_text(json.dumps({**vocab, "zz": 10**9}))
    if kind == "marian":  # a list in the library; the other is a table, and its size is compared with the model's
        _refused(path.parent, "vocab.json", "most ids belong to no token")
    else:
        assert open_tokenizers(path.parent)[1].vocab_size == 10**9 + 1


def test_merges_that_are_none(copied: Callable[[str], Path]) -> None:
    path = copied("gpt2") / "merges.txt"
    lines = path.read_text().split("\n")
    for number, line in ((2, "a"), (3, "日 本"), (4, "a b c"), (5, "")):
        path.write_text("\n".join([*lines[: number - 1], line, *lines[number - 1 :]]))
        if line:
            _refused(path.parent, f"merges.txt:{number}", "no merge of two pieces")
        else:
            open_tokenizers(path.parent)
    path.write_text("\r\n".join(lines))  # as a checkout on Windows has it
    open_tokenizers(path.parent)


def test_a_piece_that_stands_twice_has_the_later_id(copied: Callable[[str], Path]) -> None:
    import transformers

    path = copied("bert") / "vocab.txt"
    once, _ = open_tokenizers(path.parent)
    lines = path.read_text().split("\n")[:-1]
    path.write_text("\r\n".join([*lines, "man", "a"]) + "\r\n")
    ours, _ = open_tokenizers(path.parent)
    theirs = transformers.BertTokenizer.from_pretrained(path.parent)
    assert (
        ours.encode("a man") == [len(lines) + 1, len(lines)] == theirs("a man", add_special_tokens=False)["input_ids"]
    )
    assert ours.encode("men, too") == once.encode("men, too") and ours.decode(ours.encode("a man")) == "a man"


def test_a_vocabulary_without_its_control_tokens(copied: Callable[[str], Path]) -> None:
    path = copied("bert") / "vocab.txt"
    whole = path.read_text()
    path.write_text(whole.replace("[UNK]\n", ""))
    _refused(path.parent, "vocab.txt", r"\[UNK\]")
    path.write_text(whole.replace("[CLS]\n", "").replace("[MASK]\n", ""))
    ours, _ = open_tokenizers(path.parent)
    assert ours.wrap([5]) == ([5], [0]) and ours.role("mask") is None
    path = copied("marian") / "vocab.json"
    vocab = json.loads(path.read_text())
    path.write_text(json.dumps({piece: index for piece, index in vocab.items() if piece != "</s>"}))
    _refused(path.parent, "vocab.json", "lacks a control token")


@pytest.mark.parametrize(("kind", "named"), [("bert", "MPNetTokenizer"), ("gpt2", "Qwen2Tokenizer"), ("marian", "X")])
def test_a_tokenizer_class_that_cuts_in_another_way(kind: str, named: str, copied: Callable[[str], Path]) -> None:
    folder = copied(kind)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": named}))
    _refused(folder, "tokenizer_config.json", f"(?s){named}.*AutoTokenizer")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "<x>"}}}, "no id or no text"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"7": {}}}, "no id or no text"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5000": {"content": "<x>"}}}, "does not follow upon"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5" * 40: {"content": "<x>"}}}, "no id or no text"),
        ("added_tokens.json", {"<x>": -1}, "no id"),
        ("added_tokens.json", {"<x>": 2**70}, "no id"),
        ("added_tokens.json", {"<x>": "7"}, "no id"),
    ],
)
def test_added_tokens_that_cannot_be(name: str, content: Any, match: str, copied: Callable[[str], Path]) -> None:
    folder = copied("json")
    (folder / name).write_text(json.dumps(content))
    _refused(folder, "" if "follow" in match else name, match)


@pytest.mark.parametrize(
    "config",
    [
        {"eos_token": 5, "pad_token": ["x"], "additional_special_tokens": None},
        {"added_tokens_decoder": []},
        {"unk_token": "<gone>"},
    ],
)
def test_fields_of_another_type_are_silent(config: dict[str, Any], copied: Callable[[str], Path]) -> None:
    folder = copied("json")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert open_tokenizers(folder)[0].roles == {"pad": 0, "eos": 1, "unk": 2}
