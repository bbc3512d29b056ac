"""`regard tag`: what is a text and what is none; the whole way, from a file to spans, is in unit/tasks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.main import main
from regard.hub.atomic import commit_folder
from regard.hub.folder import write_model
from regard.model import TransformerConfig, make_model
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
Run = Callable[..., tuple[int, str, str]]
LABELS = ("O", "B-PLACE", "I-PLACE", "B-TIME", "I-TIME")
SENTENCES = [
    [("How", "O"), ("far", "O"), ("is", "O"), ("Denver", "B-PLACE"), ("today", "B-TIME")],
    [("New", "B-PLACE"), ("York", "I-PLACE"), ("is", "O"), ("far", "O")],
    [("Denver", "B-PLACE"), ("?", "O")],
]
"""Words with their tags."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in a folder with a random tagger, `tagger`: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    tokenizer = Tokenizer.train(["How far is Denver from New York today ?"] * 9, kind="bpe", vocab_size=300)
    config = TransformerConfig(
        vocab_size=300, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, n_decoder_layers=0, max_len=32
    )
    about = {"task": "tagging", "labels": list(LABELS)}
    model = make_model(config, "tagger", len(LABELS)).eval()
    commit_folder(tmp_path / "tagger", lambda draft: write_model(draft, model, tokenizer, about))

    def ask(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*words, "--threads", "1", "--device", "cpu"]), *capsys.readouterr()

    return ask


def as_columns(tab: str = " ") -> str:
    """The sentences as CoNLL has them."""
    return "".join("".join(f"{word}{tab}NN{tab}{tag}\n" for word, tag in words) + "\n" for words in SENTENCES)


@pytest.mark.parametrize("name", ["-", "a.conll", "a.txt", "a.tsv", "a.txt.gz"])
def test_words_with_their_tags_are_refused_as_a_text(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever the file is called, plain, compressed or by a pipe."""
    data = as_columns("\t" if name == "a.tsv" else " ").encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with (tmp_path / name).open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, err = run("tag", "tagger", name)
    assert (
        (code, out) == (3, "") and "words with their tags" in err and "awk" in err and "regard evaluate tagger" in err
    )


@pytest.mark.parametrize("text", ["Vitamin O\n", "Vitamin O\nis far\n", "O\nO\n", "\n\n", ""])
def test_a_text_is_tagged_line_by_line(run: Run, tmp_path: Path, text: str) -> None:
    """Also one whose line ends in what could be a tag."""
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    code, out, err = run("tag", "tagger", "a.txt", "--json")
    assert code == 0, err
    assert [json.loads(line)["text"] for line in out.splitlines()] == text.splitlines()
