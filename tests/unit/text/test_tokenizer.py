from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import read_lines, read_pairs
from regard.errors import CheckpointError, ConfigError
from regard.text import Kind, Tokenizer

KINDS = get_args(Kind)
TEXTS = [
    "Two young, White males are outside near many bushes.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "A man in a blue shirt is standing on a ladder, cleaning a window.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
    "The bushes are green; the man's 3 dogs are not: why?",
    "Die Büsche sind grün, die 12 Hunde des Mannes sind es nicht.",
] * 5
TOKENIZERS = {kind: Tokenizer.train(TEXTS, kind=kind, vocab_size=450, specials=["<2de>"]) for kind in KINDS}
# Python's table of Unicode may be older than the library's, so characters unassigned here are left out.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"]))

each_kind = pytest.mark.parametrize("kind", KINDS)


def _reading(kind: Kind, text: str) -> str:
    """What a text comes back as: the documented rule."""
    if kind == "bytes":
        return text
    text = unicodedata.normalize("NFC", text)
    if kind == "words":
        return " ".join(word for word in text.split(" ") if word in " ".join(TEXTS).split(" "))
    known = set("".join(TEXTS))
    return text if kind != "chars" else "".join(char for char in text if char in known)


@each_kind
@settings(max_examples=150, deadline=None)
@given(text=ANY_TEXT)
def test_round_trip_of_any_text(kind: Kind, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == _reading(kind, text)
    assert all(0 <= index < tokenizer.vocab_size for index in ids)
    controls = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id, tokenizer.token_id("<2de>")}
    assert controls.isdisjoint(ids)


@each_kind
@pytest.mark.parametrize("text", ["", " ", "   ", " a", "a ", "a  b", "  \n\t a\r\n", "▁a ▁", "\u2028", "Ġ", "u\u0308"])
def test_spaces_and_lookalikes_survive(kind: Kind, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == _reading(kind, text)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_is_one_token_wherever_it_stands(kind: Kind) -> None:
    tokenizer = TOKENIZERS[kind]
    [start] = tokenizer.encode("bushes")
    for text in ("bushes", "many bushes", "bushes.", "bushes, bushes", "bushes;the"):
        assert start in tokenizer.encode(text), text
    assert tokenizer.tokens([start]) == ["▁bushes"]


def test_words_keep_the_pieces_of_a_published_file(data_dir: Callable[[str], Path]) -> None:
    lines = list(islice(read_lines(data_dir("multi30k") / "bpe-en-de" / "train.de.gz"), 2_000))
    tokenizer = Tokenizer.train(lines, kind="words", vocab_size=10_000)
    for line, ids in zip(lines, tokenizer.encode_batch(lines), strict=True):
        assert [piece.removeprefix("▁") for piece in tokenizer.tokens(ids)] == line.split(" ")
        assert tokenizer.decode(ids) == line
    assert tokenizer.encode("bü@@ sche bü@@sche")[2] == tokenizer.unk_id


@settings(max_examples=60, deadline=None)
@given(one=ANY_TEXT, two=ANY_TEXT)
def test_bytes_decode_in_parts(one: str, two: str) -> None:
    tokenizer = TOKENIZERS["bytes"]
    ids = tokenizer.encode(one), tokenizer.encode(two)
    assert tokenizer.decode(ids[0]) + tokenizer.decode(ids[1]) == tokenizer.decode(ids[0] + ids[1])


@each_kind
def test_control_tokens_come_first_and_are_not_decoded(kind: Kind) -> None:
    tokenizer = TOKENIZERS[kind]
    controls = [tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.mask_id]
    assert controls == [0, 1, 2, 3, 4] and tokenizer.token_id("<2de>") == 5
    assert tokenizer.tokens(controls) == ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    ids = tokenizer.encode("A man")
    assert tokenizer.decode([1, *ids[:2], 0, 4, *ids[2:], 5, 2, 0]) == "A man"
    assert tokenizer.token_id("<nothing>") is None


@each_kind
def test_batch_equals_one_by_one(kind: Kind) -> None:
    tokenizer = TOKENIZERS[kind]
    texts = [*TEXTS, "", "\ud800 </s>"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == []


def test_unwritable_characters() -> None:
    assert TOKENIZERS["chars"].unwritable("A man 日本é") == {"日", "本", "é"}
    assert TOKENIZERS["chars"].encode("日") == [TOKENIZERS["chars"].unk_id]
    for kind in ("bpe", "unigram", "bytes"):
        assert TOKENIZERS[kind].unwritable("A man 日本é\ud800\0") == set()


@each_kind
def test_save_and_load(kind: Kind, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[kind]
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    texts = [*TEXTS, " </s> <2de> ▁ 日"]
    assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)
    assert (loaded.vocab_size, loaded.eos_id, loaded.token_id("<2de>")) == (tokenizer.vocab_size, 2, 5)
    again = tmp_path / "again"
    again.mkdir()
    loaded.save(again)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (again / name).read_bytes() == (tmp_path / name).read_bytes()


@each_kind
def test_transformers_reads_the_same(kind: Kind, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = TOKENIZERS[kind]
    tokenizer.save(tmp_path)
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for text in (*TEXTS[:6], " two  spaces , </s><pad> ▁", ""):
        ids = tokenizer.encode(text)
        assert theirs(text)["input_ids"] == ids
        assert theirs.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids)
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id) == (0, 1, 2)
    assert (theirs.unk_token_id, theirs.mask_token_id) == (3, 4)


def test_training_is_deterministic_across_processes() -> None:
    code = (
        "import hashlib; from regard.text import Tokenizer; texts = [chr(97 + i % 26) * (i % 7) + ' \\u00e4b' + str(i)"
        " for i in range(2000)]; print([hashlib.sha256(Tokenizer.train(texts, kind=kind, vocab_size=400)"
        ".backend.to_str().encode()).hexdigest() for kind in ('bpe', 'bytes', 'chars', 'words')])"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1] and len(runs[0]) > 200


@each_kind
@pytest.mark.parametrize("texts", [[], [""], ["a"], ["\0" + chr(0xA7F7)], [chr(0x4E00 + i) * 2 for i in range(2000)]])
def test_vocabulary_never_exceeds_its_size(kind: Kind, texts: list[str]) -> None:
    tokenizer = Tokenizer.train(texts, kind=kind, vocab_size=300)
    assert tokenizer.vocab_size <= 300
    assert tokenizer.vocab_size == len(tokenizer.backend.get_vocab())
    if kind not in ("chars", "words"):
        assert tokenizer.decode(tokenizer.encode("".join(texts) + "b")) == "".join(texts) + "b"


@each_kind
def test_no_room_to_learn(kind: Kind) -> None:
    least = 5 + 16 + (0 if kind in ("chars", "words") else 256)
    for text in ("a b", "abcdefghijklmnopqrstuvwxyz" * 2):
        assert Tokenizer.train([text], kind=kind, vocab_size=least).vocab_size <= least
    with pytest.raises(ConfigError, match=f"at least {least} "):
        Tokenizer.train(["a b"], kind=kind, vocab_size=least - 1)


@pytest.mark.parametrize("special", ["de", "<2 de>", "<>", "<s>", "<0x41>"])
def test_a_special_that_text_could_spell_is_refused(special: str) -> None:
    with pytest.raises(ConfigError, match="special"):
        Tokenizer.train(TEXTS, vocab_size=450, specials=[special])


def test_config_of_another_library(tmp_path: Path) -> None:
    TOKENIZERS["bpe"].save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "eos_token": {"content": "<2de>", "lstrip": False}}))
    assert Tokenizer.load(tmp_path).eos_id == 5
    for broken in ({**config, "eos_token": "<gone>"}, {**config, "eos_token": {}}, []):
        path.write_text(json.dumps(broken))
        with pytest.raises(CheckpointError, match=r"eos|object"):
            Tokenizer.load(tmp_path)


def test_a_vocabulary_may_lack_control_tokens(tmp_path: Path) -> None:
    TOKENIZERS["bpe"].save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({"mask_token": config["mask_token"], "bos_token": None}))
    tokenizer = Tokenizer.load(tmp_path)
    assert (tokenizer.mask_id, tokenizer.unk_id, tokenizer.role("pad"), tokenizer.pad_id) == (4, None, None, 0)
    for role in ("bos", "eos"):
        with pytest.raises(ConfigError, match=rf"(?s){role}.*mask <mask>"):
            getattr(tokenizer, f"{role}_id")
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path).roles == {"mask": 4}


@each_kind
def test_nothing_is_put_around_a_text_here(kind: Kind) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.wrap([7, 8]) == ([7, 8], [0, 0])
    assert tokenizer.wrap([7, 8], [9]) == ([7, 8, 9], [0, 0, 0])
    assert tokenizer.wrap([]) == ([], [])


def test_multi30k(data_dir) -> None:
    folder = data_dir("multi30k")
    pairs = read_pairs([folder / "val.en.gz", folder / "val.de.gz"])
    texts = pairs.source + pairs.target
    tokenizer = Tokenizer.train(texts, vocab_size=4000)
    ids = tokenizer.encode_batch(texts)
    assert [tokenizer.decode(row) for row in ids] == [unicodedata.normalize("NFC", text) for text in texts]
    words = sum(len(text.split()) for text in texts)
    assert sum(map(len, ids)) < 1.6 * words
