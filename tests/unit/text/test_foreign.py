"""Vocabularies of other tools: equal ids on odd text, and every control token typed by a user is text (fault 16)."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.errors import ConfigError
from regard.text import Tokenizer
from regard.text.foreign import open_tokenizers

KINDS = ("bert", "gpt2", "roberta", "t5", "llama", "marian", "json")
each_kind = pytest.mark.parametrize("kind", KINDS)


def _opened(folder: Path) -> Tokenizer:
    source, target = open_tokenizers(folder)
    assert source is target
    return source


def _same_as_theirs(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    for text in texts:
        ids, pair = ours.encode(text), ours.encode("x y")
        assert ids == theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"], text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        for mine, other in ((ours.wrap(ids), (text,)), (ours.wrap(ids, pair), (text, "x y"))):
            row = theirs(*other, split_special_tokens=True)
            assert mine == (row["input_ids"], row.get("token_type_ids", mine[1])), text


@pytest.mark.parametrize(
    ("kind", "name"), [("bert", "BertTokenizer"), ("gpt2", "GPT2Tokenizer"), ("roberta", "RobertaTokenizer")]
)
def test_the_ids_are_theirs(kind: str, name: str, folders: dict[str, Path], odd: list[str]) -> None:
    import transformers

    theirs = getattr(transformers, name).from_pretrained(folders[kind], model_max_length=10_000)
    ours = _opened(folders[kind])
    _same_as_theirs(ours, theirs, odd)
    wanted = {role: getattr(theirs, f"{role}_token_id") for role in ("pad", "bos", "eos", "unk", "mask")}
    assert {role: ours.role(role) for role in wanted} == wanted
    ids = list(range(ours.vocab_size))
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(
    "config", [{"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_settings_of_a_wordpiece(
    config: dict[str, bool], folders: dict[str, Path], odd: list[str], tmp_path: Path
) -> None:
    import transformers

    shutil.copy(folders["bert"] / "vocab.txt", tmp_path)
    plain = _opened(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path, model_max_length=10_000)
    ours = _opened(tmp_path)
    _same_as_theirs(ours, theirs, odd)
    assert plain.encode_batch(odd) != ours.encode_batch(odd)


def test_a_class_that_puts_nothing_around_but_what_it_is_told(
    folders: dict[str, Path], odd: list[str], tmp_path: Path
) -> None:
    import transformers

    for name in ("vocab.json", "merges.txt"):
        shutil.copy(folders["roberta"] / name, tmp_path)
    marks = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    for config in ({"add_bos_token": True}, {}):
        (tmp_path / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "GPT2Tokenizer", **marks, **config})
        )
        theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path, model_max_length=10_000)
        ours = _opened(tmp_path)
        _same_as_theirs(ours, theirs, odd)
        assert ours.wrap([9])[0] == ([2, 9] if config else [9]) and ours.bos_id == 2


def test_a_real_vocab_txt_is_its_tokenizer_json(minilm: Path, odd: list[str], tmp_path: Path) -> None:
    import transformers

    whole = _opened(minilm)
    _same_as_theirs(whole, transformers.AutoTokenizer.from_pretrained(minilm, model_max_length=10_000), odd)
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(minilm / name, tmp_path)
    ours = _opened(tmp_path)
    assert ours.encode_batch(odd) == whole.encode_batch(odd) and ours.roles == whole.roles
    assert ours.wrap([7], [8]) == whole.wrap([7], [8]) == ([101, 7, 102, 8, 102], [0, 0, 0, 1, 1])
    assert ours.tokens(ours.encode("embeddings")) == ["em", "##bed", "##ding", "##s"]


def test_a_real_tokenizer_json(model_dir: Any, odd: list[str]) -> None:
    import transformers

    folder = model_dir("stories260k")
    ours = _opened(folder)
    _same_as_theirs(ours, transformers.AutoTokenizer.from_pretrained(folder, model_max_length=10_000), odd)
    assert (ours.bos_id, ours.eos_id, ours.unk_id, ours.pad_id, ours.role("pad")) == (1, 2, 0, 0, None)
    assert ours.tokens(ours.encode("Once upon")) == ["▁Once", "▁upon"]
    with pytest.raises(ConfigError, match="hides a token"):
        _ = ours.mask_id


def test_two_vocabularies_of_marian(
    folders: dict[str, Path], odd: list[str], sides: tuple[list[str], list[str]]
) -> None:
    import transformers

    with warnings.catch_warnings():  # it recommends a package that changes nothing here
        warnings.simplefilter("ignore")
        theirs = transformers.MarianTokenizer.from_pretrained(folders["marian"], model_max_length=10_000)
    source, target = open_tokenizers(folders["marian"])
    languages = [
        ">>fra<< A man",
        ">>fra<<A man",
        ">>fra<<",
        ">>cmn_Hans<<  a",
        ">>fra<< >>fra<< a",
        ">>fra<<日本 </s>",
        ">>fra<<\n",
    ]
    for text in (*odd, *languages, "日", "日日", "Q", "QQ 中文", *sides[0][:99], *sides[1][:99]):
        ids = theirs(text, split_special_tokens=True)["input_ids"]
        assert source.wrap(source.encode(text))[0] == ids, text
        other = theirs(text_target=text, split_special_tokens=True)["input_ids"]
        assert target.wrap(target.encode(text))[0] == other, text
        for row in (ids, other):
            assert source.decode(row) == target.decode(row) == theirs.decode(row, skip_special_tokens=True)
    pieces = json.loads((folders["marian"] / "vocab.json").read_text())
    assert target.tokens(list(pieces.values())) == source.tokens(list(pieces.values())) == list(pieces)
    assert source.decode(source.encode(">> a >> b <<")) == ">> a >> b <<"  # theirs takes such a beginning for <unk>
    assert source.token_id(">>fra<<") == source.encode(">>fra<< a")[0] == pieces[">>fra<<"]


def test_two_vocabularies_with_ids_of_their_own(
    folders: dict[str, Path], sides: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    import transformers

    shutil.copytree(folders["marian"], tmp_path, dirs_exist_ok=True)
    pieces = [piece for piece in json.loads((tmp_path / "vocab.json").read_text()) if not piece.startswith(">>")]
    turned = [*pieces[:2], *reversed(pieces[2:])]  # theirs takes </s> and <unk> of a target from vocab.json
    (tmp_path / "target_vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(turned)}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    source, target = open_tokenizers(tmp_path)
    for text in sides[1][:50]:
        ids = theirs(text_target=text)["input_ids"]
        assert target.wrap(target.encode(text))[0] == ids
        assert target.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert source.encode("A man") != target.encode("A man") and (source.pad_id, target.pad_id) == (len(pieces) + 1, 2)


@each_kind
def test_typed_control_tokens_are_text(kind: str, folders: dict[str, Path], odd: list[str], tmp_path: Path) -> None:
    for number, opened in enumerate(open_tokenizers(folders[kind])):
        (folder := tmp_path / str(number)).mkdir()
        opened.save(folder)
        loaded = Tokenizer.load(folder)
        assert loaded.roles == opened.roles and loaded.specials == opened.specials and opened.specials
        assert loaded.encode_batch(odd) == opened.encode_batch(odd) == [opened.encode(text) for text in odd]
        assert loaded.wrap([7, 8], [9]) == opened.wrap([7, 8], [9])
        every = list(range(opened.vocab_size))
        assert loaded.tokens(every) == opened.tokens(every) and loaded.decode(every) == opened.decode(every)
        controls = {opened.token_id(token) for token in opened.specials} - {opened.unk_id}
        if kind == "gpt2":
            controls |= {opened.eos_id}  # which is its <unk> too
        byte = {opened.token_id("<0x41>")} - {None}
        for text in (*odd, *opened.specials, "".join(opened.specials), " ".join(opened.specials)):
            assert (controls | byte).isdisjoint(opened.encode(text)), text


@each_kind
def test_saved_vocabularies_open_in_transformers(
    kind: str, folders: dict[str, Path], odd: list[str], tmp_path: Path
) -> None:
    import transformers

    opened = open_tokenizers(folders[kind])[0]
    opened.save(tmp_path)
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for text in odd:
        row = theirs(text)["input_ids"]
        assert row == opened.wrap(opened.encode(text))[0], text
        assert theirs.decode(row, skip_special_tokens=True) == opened.decode(row)


@pytest.mark.parametrize("template", [["<s>", "$A", "</s>"], ["$A", "</s>"], ["<s>", "$A"]])
def test_a_tokenizer_json_keeps_what_it_puts_around(
    template: list[str], folders: dict[str, Path], tmp_path: Path
) -> None:
    from tokenizers.processors import TemplateProcessing

    backend = Backend.from_file(str(folders["json"] / "tokenizer.json"))
    backend.add_special_tokens(["<s>"])
    ids = [(token, backend.token_to_id(token)) for token in ("<s>", "</s>")]
    backend.post_processor = TemplateProcessing(template, [*template, "$B:1"], ids)
    backend.save(str(tmp_path / "tokenizer.json"))
    ours = _opened(tmp_path)
    filled = [ours.token_id(token) if token != "$A" else 33 for token in template]
    assert ours.wrap([33]) == (filled, [0] * len(filled))
    assert ours.wrap([33], [34, 35]) == ([*filled, 34, 35], [0] * len(filled) + [1, 1])
    assert ours.wrap([])[0] == [token for token in filled if token != 33]


def test_roles_come_from_whichever_file_knows_them(folders: dict[str, Path], tmp_path: Path) -> None:
    ours = _opened(folders["json"])  # its ids are in config.json, as a list and as a null
    assert ours.roles == {"pad": 0, "eos": 1, "unk": 2}
    assert 16 < len(ours.encode("a " * 40)) < 64  # which the file asks to be cut and filled up
    shutil.copy(folders["gpt2"] / "vocab.json", tmp_path)
    shutil.copy(folders["gpt2"] / "merges.txt", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"pad_token_id": 5, "eos_token_id": 5}))
    ours = _opened(tmp_path)
    assert ours.role("pad") is None and ours.eos_id == 0  # 5 is a letter, and must stay one
    (tmp_path / "generation_config.json").write_text(json.dumps({"pad_token_id": 0}))
    assert _opened(tmp_path).role("pad") == 0


def test_added_tokens_follow_upon_the_vocabulary(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["llama"], tmp_path, dirs_exist_ok=True)
    size = _opened(tmp_path).vocab_size
    added = {
        str(size): {"content": "<|im_end|>", "special": True, "normalized": False},
        str(size + 1): {"content": "<tool>", "special": False, "normalized": False},
    }
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"added_tokens_decoder": added, "eos_token": "<|im_end|>", "add_eos_token": True})
    )
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<tool>": size + 1}))
    ours = _opened(tmp_path)
    assert (ours.vocab_size, ours.eos_id, ours.token_id("<tool>")) == (size + 2, size, size + 1)
    assert size not in ours.encode("x <|im_end|>") and size + 1 in ours.encode("x <tool> y")
    assert ours.wrap([9])[0] == [1, 9, size]


def _spelling() -> dict[str, Backend]:
    """Vocabularies in which a text could spell a control token."""
    pieces = ["<pad>", "</s>", "<unk>", "▁", "</", "s", ">", "<", "/", "a"]
    unigram = Backend(models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=2))
    unigram.normalizer = normalizers.Replace(" ", "▁")
    unigram.decoder = decoders.Replace("▁", " ")
    vocab = {piece: i for i, piece in enumerate(pieces)}
    bpe = Backend(models.BPE({**vocab, "s>": 10}, [("<", "/"), ("s", ">"), ("</", "s>")], unk_token="<unk>"))
    bpe.normalizer, bpe.decoder = normalizers.Replace(" ", "▁"), decoders.Fuse()
    words = Backend(models.WordLevel({**vocab, "</s>a": 10, "x": 11}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return {"unigram": unigram, "bpe": bpe, "words": words}


@pytest.mark.parametrize("name", ["unigram", "bpe", "words"])
def test_a_control_token_that_text_could_spell(name: str, tmp_path: Path) -> None:
    backend = _spelling()[name]
    assert 1 in backend.encode("a </s> a").ids  # so it is without further ado
    backend.add_special_tokens([AddedToken("<pad>", special=True), AddedToken("</s>", special=True)])
    backend.save(str(tmp_path / "tokenizer.json"))
    ours = _opened(tmp_path)
    for text in ("</s>", "a </s> a", "a</s>a", "<pad></s>"):
        assert {0, 1}.isdisjoint(ours.encode(text))
    assert ours.tokens([0, 1, 4, 7]) == ["<pad>", "</s>", "</", "<"] and ours.token_id("</s>") == 1
    if name == "words":
        assert ours.encode("a </s>a x </s>") == [9, 10, 11, 2] and ours.decode([9, 10, 1, 11]) == "a </s>a x"
    else:
        assert ours.tokens(ours.encode("a</s>")) in (["a", "</", "s", ">"], ["a", "</", "s>"])
        assert ours.decode(ours.encode("a</s>")) == "a</s>"
