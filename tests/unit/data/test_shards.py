"""Prepared corpora: the same ids for any number of shards, whole or not there, and noticed when they do not fit."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from regard.data import encoding
from regard.data.corpus import Corpus
from regard.data.documents import Document, read_documents
from regard.data.encoding import encode_documents, sample, vocabulary_size
from regard.data.shards import fingerprint, is_prepared, open_shards, prepare, shards_missing
from regard.errors import ConfigError, DataError, UserError
from regard.text import Tokenizer

ODD = "Ünïcode é e\u0301 汉字，没有空格。也没有换行 😀👍🏽 \u2028 \t\tx   y\r\n\n\n  'quoted'-words_1 <s></s> \ud800 "


@pytest.fixture(scope="module")
def shakespeare(data_dir) -> str:
    return (data_dir("tinyshakespeare") / "input.txt").read_text()[:100_000]


@pytest.fixture(scope="module")
def tokenizer(shakespeare: str) -> Tokenizer:
    return Tokenizer.train([shakespeare], kind="bytes", vocab_size=500)


@pytest.fixture
def files(tmp_path: Path, shakespeare: str) -> list[Path]:
    """Some of each kind, of which one cannot be divided."""
    plays = shakespeare.split("\n\n")
    (tmp_path / "in").mkdir()
    paths = [tmp_path / "in" / name for name in ("a.txt", "b.jsonl", "c.tsv.gz", "d.csv")]
    paths[0].write_text("\n\n".join(plays[:100]))
    paths[1].write_text("".join(json.dumps({"text": play}) + "\n" for play in plays[100:200]))
    paths[2].write_bytes(gzip.compress("".join(f"{play.splitlines()[0]}\n" for play in plays[200:250]).encode()))
    paths[3].write_text("id,text\n" + "".join(f'{i},"{play}"\n' for i, play in enumerate(plays[250:260])))
    return paths


def _all(corpus: Corpus) -> list[list[int]]:
    return [corpus.document(i).tolist() for i in range(len(corpus))]


def _prepare(paths: list[Path], out: Path, tokenizer: Tokenizer, count: int) -> Corpus:
    for i in reversed(range(count)):  # in any order
        prepare(paths, out, tokenizer, shard=(i, count), unit="paragraph")
    return open_shards(out)


def _merged(out: Path) -> tuple[bytes, bytes]:
    """All ids, and the index, of the shards in their order."""
    names = sorted(path.stem for path in out.glob("*.tokens"))
    ids = b"".join((out / f"{name}.tokens").read_bytes() for name in names)
    index, before = [np.zeros((1, 2), np.uint64)], np.zeros(2, np.uint64)
    for name in names:
        part = np.fromfile(out / f"{name}.index", dtype="<u8").reshape(-1, 2)
        index.append(part[1:] + before)
        before = before + part[-1]
    return ids, np.concatenate(index).tobytes()


# ------------------------------------------------------------------ ids


@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram", "chars", "words"])
def test_the_pieces_of_a_long_text_have_the_ids_of_the_whole(
    shakespeare: str, kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "PIECE", 300)
    monkeypatch.setattr(encoding, "TOGETHER", 2_000)
    texts = [
        shakespeare[:20_000],
        shakespeare[:20_000].replace("\n", " "),
        ODD * 20,
        "汉字没有。" * 500,
        "",
        "x" * 5_000,
    ]
    tokenizer = Tokenizer.train(texts, kind=kind, vocab_size=1_200)
    found = list(encoding.runs([Document(text, Path("a"), 1) for text in texts], tokenizer))
    expected = [(tokenizer.encode(text), len(text.encode("utf-8", "surrogatepass"))) for text in texts if text]
    same = [(ids.tolist(), size) == each for (ids, size), each in zip(found, expected, strict=True)]
    assert all(same[:4])
    if kind != "words":  # a word without an end is cut where it must be, and nothing is lost
        assert tokenizer.decode(found[-1][0].tolist()).count("x") == 5_000


def test_a_corpus_in_memory(shakespeare: str, tokenizer: Tokenizer) -> None:
    plays = shakespeare.split("\n\n")
    corpus = encode_documents([Document(play, Path("a"), 1) for play in plays], tokenizer)
    assert _all(corpus) == tokenizer.encode_batch(plays)
    assert corpus.tokens == sum(map(len, _all(corpus))) and corpus.bytes == sum(len(play.encode()) for play in plays)
    chosen = corpus.take(np.array([7, 3, 5]))
    assert _all(chosen) == [_all(corpus)[i] for i in (3, 5, 7)]
    assert chosen.bytes == sum(len(plays[i].encode()) for i in (3, 5, 7))
    assert np.shares_memory(corpus.document(3), chosen.document(0))
    with pytest.raises(IndexError):
        corpus.document(len(plays))
    with pytest.raises(DataError, match="no documents"):
        encode_documents([], tokenizer)


def test_a_vocabulary_of_more_than_65536_takes_four_bytes() -> None:
    text = "".join(map(chr, [*range(0x3400, 0xD800), *range(0x20000, 0x2B000)]))
    tokenizer = Tokenizer.train([text], kind="chars", vocab_size=90_000)
    corpus = encode_documents([Document(text, Path("a"), 1)], tokenizer)
    assert tokenizer.vocab_size > 2**16 and corpus.document(0).dtype == np.uint32
    assert tokenizer.decode(corpus.document(0).tolist()) == tokenizer.decode(tokenizer.encode(text))


def test_a_sample_is_spread_over_the_whole() -> None:
    documents = [Document(f"{i:04d}", Path("a"), i) for i in range(1_000)]
    numbers = [int(text) for text in sample(documents, 400)]
    assert 50 <= len(numbers) <= 100 and numbers[-1] > 950 and len(set(np.diff(numbers).tolist())) == 1
    assert sample(documents[:9], 400) == [document.text for document in documents[:9]]
    assert [vocabulary_size(size) for size in (10**6, 10**8, 10**9)] == [8_000, 16_000, 32_000]


# ------------------------------------------------------------------ shards


def test_one_and_seven_shards_are_the_same_corpus(files: list[Path], tmp_path: Path, tokenizer: Tokenizer) -> None:
    one = _prepare(files, tmp_path / "one", tokenizer, 1)
    assert len(one) > 150 and one.document(0).dtype == np.uint16
    documents = list(read_documents(files, unit="paragraph"))
    assert _all(one) == tokenizer.encode_batch([document.text for document in documents])
    assert one.bytes == sum(len(document.text.encode()) for document in documents)
    for count in (2, 7, 40):
        several = _prepare(files, tmp_path / str(count), tokenizer, count)
        assert _merged(tmp_path / str(count)) == _merged(tmp_path / "one")
        assert (_all(several), several.tokens, several.bytes) == (_all(one), one.tokens, one.bytes)
        numbers = np.random.default_rng(0).integers(len(one), size=50)
        assert several.lengths(numbers).tolist() == one.lengths(numbers).tolist()
        some = np.arange(0, len(one), 3)
        assert _all(several.take(some)) == _all(one.take(some)) == _all(one)[::3]


def test_a_shard_is_the_same_wherever_it_is_made(files: list[Path], tmp_path: Path, tokenizer: Tokenizer) -> None:
    shutil.copytree(tmp_path / "in", tmp_path / "elsewhere" / "in")
    _prepare([tmp_path / "in"], tmp_path / "one", tokenizer, 2)
    _prepare([tmp_path / "elsewhere" / "in"], tmp_path / "two", tokenizer, 2)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) == 8 and [path.name for path in sorted((tmp_path / "two").iterdir())] == names
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)


def test_what_is_there_is_left_and_what_changed_is_made_anew(
    files: list[Path], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    out = tmp_path / "out"
    first = prepare(files, out, tokenizer)
    stamps = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    again = prepare(files, out, Tokenizer.load(out))
    assert (first.was_there, again.was_there, again.facts) == (False, True, first.facts)
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == stamps

    raw = files[1].read_bytes()
    files[1].write_bytes(raw.replace(b"citizen", b"denizen"))
    changed = prepare(files, out, tokenizer)
    assert not changed.was_there and changed.why == "b.jsonl is not what it was made from"
    files[1].write_bytes(raw)
    assert "paragraph" in (prepare(files, out, tokenizer, unit="paragraph").why or "")
    assert prepare(files, out, tokenizer).facts == first.facts
    (out / "00000-of-00001.tokens").write_bytes(b"cut short")
    with pytest.raises(DataError, match=r"00000-of-00001\.tokens: the file is not the one that was prepared"):
        open_shards(out)
    assert "cut short" in (prepare(files, out, tokenizer).why or "")
    assert open_shards(out).tokens == first.facts["tokens"]


def test_the_output_is_no_part_of_the_input(files: list[Path], tmp_path: Path, tokenizer: Tokenizer) -> None:
    out = tmp_path / "in" / "prepared"
    prepare([tmp_path / "in"], out, tokenizer)
    assert prepare([tmp_path / "in"], out, tokenizer).was_there


def test_another_tokenizer_or_number_is_refused(files: list[Path], tmp_path: Path, tokenizer: Tokenizer) -> None:
    out, other = tmp_path / "out", Tokenizer.train(["other"], kind="bytes", vocab_size=300)
    prepare(files, out, tokenizer, shard=(0, 2))
    with pytest.raises(ConfigError, match="another tokenizer"):
        prepare(files, out, other, shard=(1, 2))
    with pytest.raises(ConfigError, match="another number of shards"):
        prepare(files, out, tokenizer, shard=(1, 3))
    prepare(files, out, tokenizer, shard=(1, 2))
    assert fingerprint(Tokenizer.load(out)) == fingerprint(tokenizer) != fingerprint(other)
    open_shards(out, tokenizer)
    with pytest.raises(DataError, match="another vocabulary"):
        open_shards(out, other)


def test_what_is_missing_or_mixed_is_named(files: list[Path], tmp_path: Path, tokenizer: Tokenizer) -> None:
    out = tmp_path / "out"
    with pytest.raises(DataError, match="no prepared corpus"):
        open_shards(out)
    assert not is_prepared(out) and not is_prepared(tmp_path / "in")
    for i in (0, 2, 3):
        prepare(files, out, tokenizer, shard=(i, 4))
    assert is_prepared(out) and shards_missing(out) == [1]
    with pytest.raises(DataError, match=r"without 1/4(.*\n)*.*--shard 1/4"):
        open_shards(out)
    by_line = tmp_path / "by-line"
    prepare(files, by_line, tokenizer, unit="line", shard=(0, 2))
    with pytest.raises(DataError, match=rf"prepare FILES --out {by_line} --unit line --shard 1/2"):
        open_shards(by_line)
    files[0].write_text("a text of another size")
    prepare(files, out, tokenizer, shard=(1, 4))
    with pytest.raises(DataError, match=r"00001-of-00004\.json: the shards were not made from the same files"):
        open_shards(out)
    for i in range(4):
        prepare(files, out, tokenizer, shard=(i, 4))
    assert open_shards(out).tokens
    manifest = out / "00002-of-00004.json"
    for damage in ("", "[]", '{"made_from": 1}'):
        manifest.write_text(damage)
        with pytest.raises(DataError, match=r"00002-of-00004\.json: this is not the manifest"):
            open_shards(out)


def test_a_killed_worker_leaves_nothing_that_counts(files: list[Path], tmp_path: Path, tokenizer: Tokenizer) -> None:
    out = tmp_path / "out"
    tokenizer.save(tmp_path)
    code = f"""
import os, signal
from pathlib import Path
from regard.data.shards import prepare
from regard.text import Tokenizer
prepare([Path({str(tmp_path / "in")!r})], Path({str(out)!r}), Tokenizer.load(Path({str(tmp_path)!r})), unit="paragraph",
        progress=lambda done, total, tokens: os.kill(os.getpid(), signal.SIGKILL) if tokens > 1000 else None)
"""
    killed = subprocess.run([sys.executable, "-c", code], env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(out.glob(".tmp-*"))) == 2
    with pytest.raises(DataError, match="no prepared corpus"):
        open_shards(out)
    made = prepare([tmp_path / "in"], out, tokenizer, unit="paragraph")
    assert not made.was_there and not list(out.glob(".tmp-*"))
    assert open_shards(out).tokens == made.facts["tokens"]


def test_nothing_to_learn_from_and_nowhere_to_write(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(DataError, match="no documents"):
        prepare([tmp_path / "a.txt"], tmp_path / "out", tokenizer)
    with pytest.raises(UserError, match="cannot write"):
        prepare([tmp_path / "a.txt"], tmp_path / "a.txt", tokenizer)
