"""Small vocabularies of other tools, each as the folder that a model comes with, and texts that are hard to cut."""

from __future__ import annotations

import io
import json
import unicodedata
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.data import read_lines

ODD = [
    "", " ", "   ", " a", "a ", "  Two  men\t are\n outside. ", "\n", "\t\n a", "a\r\nb\r\n", "don't  stop -- me",
    "👩\u200d👩\u200d👧 🙂 🏳️\u200d🌈", "café naïve", "中文文本，测试。日本語", "Привет мир mixed 中 text", "▁a ▁", "▁",
    unicodedata.normalize("NFD", "café 각 한국어 tiếng Việt Ωμέγα"), "1234567890 12,5 ½", "a" * 999, "ab" * 300,
    "= = ===== ----", "\u200b\u200d\ufeff", "ﬁ ＡＢＣ ｶﾞ ㌔", "\u00a0x\u3000y\u2003z", "\x00a\x01 b", "~～", "İ ß ſ",
    "x<y && z>w <b>bold</b>", "Ġhello ##ing", "\u0301",
]  # fmt: skip
TYPED = [
    "</s>", "<s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>", "<extra_id_0>", "<0x41>",
    "a </s> <s><unk>x</s>", "[CLS] a[SEP]</s>", "</s></s> <pad>a", "</s", "<", "[", "|", ">>fra", "a >>fra<< b",
    " >>fra<< b",
]  # fmt: skip
"""Control tokens as a user may type them."""
IN_CORPUS = [
    "日本語のテキスト 中文 文本",
    "Привет мир, это текст",
    "emoji 🙂 | [x] (y)",
    "</tag> <b> x < y > z",
    "tiếng Việt có dấu",
]


@pytest.fixture(scope="session")
def odd() -> list[str]:
    return [*ODD, *TYPED]


@pytest.fixture(scope="session")
def sides(data_dir: Callable[[str], Path]) -> tuple[list[str], list[str]]:
    """Real sentences, English and German, with other scripts among them."""
    folder = data_dir("multi30k")
    texts = (list(islice(read_lines(folder / f"val.{code}.gz"), 600)) for code in ("en", "de"))
    source, target = ([*lines, *IN_CORPUS * 10] for lines in texts)
    return source, target


@pytest.fixture(scope="session")
def spm_model() -> Callable[..., bytes]:
    """Trains a SentencePiece model: `spm_model(texts, vocab_size=..)` is its .model file."""
    with warnings.catch_warnings():  # of the bindings, on import
        warnings.simplefilter("ignore")
        import sentencepiece

    def train(texts: list[str], **options: Any) -> bytes:
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=written, minloglevel=2, num_threads=1, **options
        )
        return written.getvalue()

    return train


LLAMA = {
    "model_type": "bpe", "vocab_size": 1000, "byte_fallback": True, "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False, "split_digits": True, "allow_whitespace_only_pieces": True, "pad_id": -1,
    "character_coverage": 0.999,
}  # fmt: skip
T5 = {"vocab_size": 500, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


@pytest.fixture(scope="session")
def folders(
    tmp_path_factory: pytest.TempPathFactory, sides: tuple[list[str], list[str]], spm_model: Callable[..., bytes]
) -> dict[str, Path]:
    """One folder of each kind that is opened."""
    source, target = sides
    found = {
        name: tmp_path_factory.mktemp(name) for name in ("bert", "gpt2", "roberta", "t5", "llama", "marian", "json")
    }
    (found["t5"] / "spiece.model").write_bytes(spm_model(source, **T5))
    write(found["t5"] / "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": 100})
    (found["llama"] / "tokenizer.model").write_bytes(spm_model(source + target, **LLAMA))
    _wordpiece(found["bert"], source)
    _bytelevel(found["gpt2"], source, ["<|endoftext|>"])
    _bytelevel(found["roberta"], source, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    _marian(found["marian"], spm_model(source, vocab_size=450), spm_model(target, vocab_size=500))
    _unigram_json(found["json"], found["t5"] / "spiece.model")
    return found


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def _wordpiece(folder: Path, texts: list[str]) -> None:
    backend = Backend(models.WordPiece(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=specials, show_progress=False)
    backend.train_from_iterator([text.lower() for text in texts], trainer)
    vocab = backend.get_vocab()
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(vocab, key=vocab.__getitem__)), "utf-8")
    write(folder / "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": "BertTokenizer"})


def _bytelevel(folder: Path, texts: list[str], specials: list[str]) -> None:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    backend.model.save(str(folder))


def _marian(folder: Path, source: bytes, target: bytes) -> None:
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    write(folder / "vocab.json", {piece: index for index, piece in enumerate(marian_pieces(source, target))})
    write(folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "source_lang": "en"})


def marian_pieces(*files: bytes) -> list[str]:
    """The pieces of these models, each once, with Marian's control tokens and two languages."""
    import sentencepiece

    opened = [sentencepiece.SentencePieceProcessor(model_proto=file) for file in reversed(files)]
    pieces = [
        one.id_to_piece(i) for one in opened for i in range(len(one)) if not (one.is_control(i) or one.is_unknown(i))
    ]
    return list(dict.fromkeys(["</s>", "<unk>", ">>fra<<", ">>cmn_Hans<<", *pieces, "<pad>"]))


def _unigram_json(folder: Path, spm: Path) -> None:
    """T5's vocabulary as a tokenizer.json of its converters: </s> is a piece like any other there."""
    import sentencepiece

    one = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    backend = Backend(models.Unigram([(one.id_to_piece(i), one.get_score(i)) for i in range(len(one))], unk_id=2))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    backend.add_special_tokens(["<pad>", "</s>", "<unk>"])
    backend.enable_padding(length=64)
    backend.enable_truncation(16)
    backend.save(str(folder / "tokenizer.json"))
    write(folder / "config.json", {"pad_token_id": 0, "eos_token_id": [1], "bos_token_id": None})
    write(folder / "special_tokens_map.json", {"pad_token": {"content": "<pad>"}})
