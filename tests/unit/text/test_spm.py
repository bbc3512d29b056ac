"""A bare SentencePiece model cuts as the library sentencepiece does, whatever its settings; other files are refused."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import CheckpointError
from regard.text import Tokenizer
from regard.text.foreign import open_tokenizers
from regard.text.spm_file import BYTE, CONTROL, MOST, read_spm

Train = Callable[..., bytes]
BYTES = {"byte_fallback": True, "vocab_size": 800, "character_coverage": 0.999}
LIKE_LLAMA = {
    "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "split_digits": True,
    "allow_whitespace_only_pieces": True, "pad_id": -1,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "unigram": {"vocab_size": 500, "control_symbols": ["<ctl>"]},
    "unigram, T5's ids": {"vocab_size": 500, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "unigram with bytes": {**BYTES, "normalization_rule_name": "nfkc_cf"},
    "unigram, user-defined": {"vocab_size": 500, "user_defined_symbols": ["<sep>", "men", "</x>"]},
    "unigram, spaces kept": {"vocab_size": 500, "remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "bpe": {"vocab_size": 500, "model_type": "bpe", "control_symbols": ["<ctl>"]},
    "bpe as Llama's": {**BYTES, **LIKE_LLAMA, "model_type": "bpe"},
    "bpe, user-defined": {**BYTES, **LIKE_LLAMA, "model_type": "bpe", "user_defined_symbols": ["<sep>", "men", "\n\n"]},
    "bpe, no space before": {"vocab_size": 500, "model_type": "bpe", "add_dummy_prefix": False},
}


def _folder(tmp_path: Path, model: bytes, name: str = "tokenizer.model", **config: object) -> Path:
    (tmp_path / name).write_bytes(model)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize("name", SETTINGS)
def test_the_ids_are_those_of_sentencepiece(
    name: str, spm_model: Train, sides: tuple[list[str], list[str]], odd: list[str], tmp_path: Path
) -> None:
    import sentencepiece

    model = spm_model([*sides[0], *sides[1]], **SETTINGS[name])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    ours, _ = open_tokenizers(_folder(tmp_path, model))
    draw = random.Random(name)
    letters = "".join(sides[0][-5:]) + "  \n\t_=</>s▁12 éü🙂"
    mixed = ["".join(draw.choices(letters, k=draw.randrange(40))) for _ in range(150)]
    for text in (*odd, *mixed, *sides[1][:50]):
        ids = theirs.encode(text)
        assert ours.encode(text) == ids, text
        known = [index for index in ids if index != theirs.unk_id()]
        assert ours.decode(known) == theirs.decode(known), text
    assert (
        ours.decode(controls := [i for i in range(len(theirs)) if theirs.is_control(i)])
        == theirs.decode(controls)
        == ""
    )
    whole = SETTINGS[name].get("user_defined_symbols", [])
    assert all(theirs.piece_to_id(text) in ours.encode(f"a{text}b") for text in whole)
    plain = [i for i in range(len(theirs)) if not (theirs.is_control(i) or theirs.is_unknown(i) or theirs.is_byte(i))]
    assert ours.tokens(plain) == [theirs.id_to_piece(i).replace(" ", "▁") for i in plain]
    for _ in range(200):  # what a model may say, and no text is cut into
        row = draw.choices(plain, k=6)
        assert ours.decode(row) == theirs.decode(row)


def test_what_stands_around_a_text(spm_model: Train, sides: tuple[list[str], list[str]], tmp_path: Path) -> None:
    like_t5, like_llama = (spm_model(sides[0], **SETTINGS[name]) for name in ("unigram, T5's ids", "bpe as Llama's"))
    ours, _ = open_tokenizers(_folder(tmp_path, like_t5, "spiece.model", extra_ids=3))
    assert ours.wrap([9]) == ([9, 1], [0, 0]) and ours.wrap([9], [8])[0] == [9, 1, 8, 1]
    assert ours.roles == {"pad": 0, "eos": 1, "unk": 2}
    assert ours.tokens([500, 501, 502]) == ["<extra_id_2>", "<extra_id_1>", "<extra_id_0>"] and ours.vocab_size == 503
    (tmp_path / "tokenizer_config.json").unlink()
    assert open_tokenizers(tmp_path)[0].vocab_size == 500
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": ["<extra_id_0>", "<extra_id_1>"]})
    )
    assert open_tokenizers(tmp_path)[0].tokens([500, 501]) == ["<extra_id_1>", "<extra_id_0>"]
    (tmp_path / "spiece.model").unlink()
    ours, _ = open_tokenizers(_folder(tmp_path, like_llama))
    assert ours.wrap([9])[0] == [1, 9] and ours.roles == {"bos": 1, "eos": 2, "unk": 0}
    ours, _ = open_tokenizers(_folder(tmp_path, like_llama, add_bos_token=False, add_eos_token=True))
    assert ours.wrap([9], [8])[0] == [9, 2, 8, 2]


def test_the_reader_finds_what_is_in_the_file(
    spm_model: Train, sides: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    import sentencepiece

    model = spm_model(sides[0], **SETTINGS["bpe, user-defined"])
    (tmp_path / "m").write_bytes(model)
    ours, theirs = read_spm(tmp_path / "m"), sentencepiece.SentencePieceProcessor(model_proto=model)
    assert [(p.text, p.score) for p in ours.pieces] == [
        (theirs.id_to_piece(i), theirs.get_score(i)) for i in range(800)
    ]
    assert [p.type == BYTE for p in ours.pieces] == [theirs.is_byte(i) for i in range(800)]
    assert [p.type == CONTROL for p in ours.pieces] == [theirs.is_control(i) for i in range(800)]
    assert (ours.controls, ours.unk_id) == ({"bos": 1, "eos": 2}, 0)
    assert (ours.byte_fallback, ours.dummy_prefix, ours.fewer_spaces, ours.charsmap) == (True, True, False, b"")


def _refused(folder: Path, name: str, match: str) -> None:
    start = time.perf_counter()
    with pytest.raises(CheckpointError, match=match) as caught:
        open_tokenizers(folder)
    assert time.perf_counter() - start < 5
    assert str(folder / name) in str(caught.value) and len(str(caught.value)) < 2_000


IMPOSTERS = {
    "empty": (b"", "not a SentencePiece model"),
    "a Git-LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 800000\n", "git lfs pull"),
    "an HTML page": (b"<!DOCTYPE html><html>", "HTML page"),
    "tiktoken's": (b"IQ== 0\nIg== 1\nIw== 2\n", "not a SentencePiece model"),
    "JSON": (b'{"version": "1.0"}', "not a SentencePiece model"),
    "an endless number": (b"\xff" * 100, "not a SentencePiece model"),
    "a length beyond the end": (b"\x0a\xff\xff\xff\xff\x0f", "not a SentencePiece model"),
    "pieces that are numbers": (b"\x08\x01" * 9, "not a SentencePiece model"),
    "too many pieces": (b"\x0a\x00" * (MOST + 1), "not a SentencePiece model"),
    "one piece twice": (b"\x0a\x08\x0a\x01<\x18\x02\x18\x02\x18\x02" + b"\x0a\x03\x0a\x01a" * 2, "not a SentencePiece"),
    "no text": (b"\x0a\x05\x0a\x03\xff\xfe\xfd", "not a SentencePiece model"),
}


@pytest.mark.parametrize("name", IMPOSTERS)
def test_a_file_that_is_no_model(name: str, tmp_path: Path) -> None:
    content, match = IMPOSTERS[name]
    _refused(_folder(tmp_path, content), "tokenizer.model", match)


def test_a_damaged_model(spm_model: Train, sides: tuple[list[str], list[str]], tmp_path: Path) -> None:
    whole = spm_model(sides[0], vocab_size=400)
    draw = random.Random(0)
    (tmp_path / "tokenizer.model").touch()
    for _ in range(60):  # cut or changed anywhere: refused by name, or else a vocabulary
        damaged = bytearray(whole[: draw.randrange(len(whole))] if draw.random() < 0.5 else whole)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(damaged)) if damaged else 0 :][:1] = bytes([draw.randrange(256)])
            if damaged:
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        (tmp_path / "tokenizer.model").write_bytes(damaged)
        try:
            assert isinstance(open_tokenizers(tmp_path)[0], Tokenizer)
        except CheckpointError as error:
            assert str(tmp_path) in str(error)
    _refused(_folder(tmp_path, whole[: len(whole) // 2]), "tokenizer.model", "not a SentencePiece model")


def test_what_is_not_followed_is_refused(spm_model: Train, sides: tuple[list[str], list[str]], tmp_path: Path) -> None:
    for options, match in (
        ({"model_type": "word", "vocab_size": 300}, "a kind other than unigram and bpe"),
        ({"model_type": "char", "vocab_size": 60}, "a kind other than unigram and bpe"),
        ({"treat_whitespace_as_suffix": True, "vocab_size": 300}, "spaces that end a word"),
        ({"denormalization_rule_tsv": _table(tmp_path), "vocab_size": 300}, "a table for outputs"),
    ):
        _refused(_folder(tmp_path, spm_model(sides[0], **options)), "tokenizer.model", match)
    plain = spm_model(sides[0], vocab_size=300)
    _refused(_folder(tmp_path, plain, tokenizer_class="AlbertTokenizer"), "tokenizer_config.json", "AlbertTokenizer")
    _refused(_folder(tmp_path, plain, extra_ids=10**9), "tokenizer_config.json", "0 to 10,000")
    _refused(_folder(tmp_path, plain, "sentencepiece.bpe.model"), "sentencepiece.bpe.model", "save_pretrained")
    unescaped = plain + b"\x1a\x02\x28\x00"  # a second normaliser, whose fields count: escape_whitespaces = false
    (tmp_path / "sentencepiece.bpe.model").unlink()
    _refused(_folder(tmp_path, unescaped), "tokenizer.model", "spaces that are not escaped")
    unused = b"\x0a\x0a\x0a\x01~\x15" + struct.pack("<f", -9.0) + b"\x18\x05"
    merges = spm_model(sides[0], vocab_size=300, model_type="bpe") + unused
    _refused(_folder(tmp_path, merges), "tokenizer.model", "unused pieces")


def test_an_unused_piece_is_only_decoded(spm_model: Train, sides: tuple[list[str], list[str]], tmp_path: Path) -> None:
    import sentencepiece

    plain = spm_model(sides[0], vocab_size=300)
    model = plain + b"\x0a\x0e\x0a\x05trees\x15" + struct.pack("<f", 0.0) + b"\x18\x05"
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    ours, _ = open_tokenizers(_folder(tmp_path, model))
    assert ours.encode("trees trees") == theirs.encode("trees trees") and 300 not in ours.encode("trees")
    assert ours.decode([300]) == theirs.decode([300]) == "trees" and ours.tokens([300]) == ["trees"]


def _table(folder: Path) -> str:
    path = folder / "table.tsv"
    path.write_text("41\t42\n")
    return str(path)
