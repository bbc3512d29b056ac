from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.cli.main import main
from regard.hub.atomic import commit_folder
from regard.hub.folder import write_model
from regard.model import TransformerConfig, make_model
from regard.text import Tokenizer

CONTEXT = "It was written by Ada\r\nin the year  1843, far from the sea. Nobody read it then. 北京 👩‍👩‍👧 Café"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two untrained models, `knows` and `guesses`; the first may say that there is no answer."""
    place = tmp_path_factory.mktemp("answer")
    tokenizer = Tokenizer.train([CONTEXT] * 9, kind="bpe", vocab_size=400).framed(before="bos", after="eos")
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=0,
        n_token_types=2, max_len=64,
    )  # fmt: skip
    model = make_model(config, "span")
    for name, null in (("knows", True), ("guesses", False)):
        rules = {"length": 40, "overlap": 10, "longest": 8, "null": null}
        about = {"task": "question-answering", "answering": rules}
        commit_folder(place / name, lambda draft, about=about: write_model(draft, model, tokenizer, about))
    return place


@pytest.fixture
def command(
    folder: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(folder)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words, "--threads", "1"])
        return code, *capsys.readouterr()

    return run


def test_an_answer_with_its_place(command: Command) -> None:
    code, out, err = command("answer", "guesses", "--question", "Who?", "--context", CONTEXT, "--json", "--top-k", "3")
    found = json.loads(out)
    assert code == 0 and not err and found["question"] == "Who?" and len(found["alternatives"]) == 2
    for one in (found, *found["alternatives"]):
        assert one["answer"] == CONTEXT[one["start"] : one["end"]] != "" and 0 < one["score"] < 1
    code, out, _ = command("answer", "guesses", "--question", "Who?", "--context", CONTEXT, "--top-k", "3")
    lines = out.splitlines()
    assert code == 0 and lines[0].split() == ["answer", "start", "end", "score"] and len(lines) == 4
    assert lines[1].split()[-3:] == [str(found["start"]), str(found["end"]), f"{found['score']:.4f}"]


def test_places_are_those_of_the_file(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "text.txt").write_bytes(b"\xef\xbb\xbf" + CONTEXT.encode())
    words = ("answer", "guesses", "--question", "When?", "--json")
    _, given, _ = command(*words, "--context", CONTEXT)
    code, read, _ = command(*words, "--context-file", "text.txt")
    assert code == 0 and json.loads(read) == json.loads(given)


def test_a_text_that_does_not_say(command: Command) -> None:
    words = ("--question", "Who?", "--context", CONTEXT, "--null-threshold", "-1000")
    code, out, _ = command("answer", "knows", *words)
    assert code == 0 and "(the text does not say)" in out
    _, out, _ = command("answer", "knows", *words, "--json")
    found = json.loads(out)
    assert (found["answer"], found["start"], found["end"]) == ("", None, None) and 0 < found["score"] < 1
    for context in ("", " \n"):
        code, out, _ = command("answer", "guesses", "--question", "Who?", "--context", context, "--json")
        assert code == 0 and json.loads(out)["answer"] == "" and json.loads(out)["score"] == 1


def test_a_question_that_is_too_long_is_cut_and_said_so(command: Command) -> None:
    code, _, err = command("answer", "guesses", "--question", "who " * 100, "--context", CONTEXT)
    assert code == 0 and "tokens were left out" in err


def test_what_cannot_be_asked(command: Command, folder: Path) -> None:
    ask = ("answer", "guesses", "--question", "Who?")
    for words in (ask, (*ask, "--context", "a", "--context-file", "text.txt")):
        code, _, err = command(*words)
        assert code == 2 and "--context TEXT or --context-file FILE" in err
    code, _, err = command(*ask, "--context-file", "nothing.txt")
    assert code == 3 and "no such file" in err
    (folder / "latin.txt").write_bytes("one\nzwölf".encode("latin-1"))
    code, _, err = command(*ask, "--context-file", "latin.txt")
    assert code == 3 and "latin.txt:2" in err
    code, _, err = command(*ask, "--context", "a", "--top-k", "0")
    assert code == 2 and "top_k" in err
    code, _, err = command("answer", "guesses", "--context", "a")
    assert code == 2 and "question" in err


QUESTIONS = {
    "version": "v2.0",
    "data": [{"paragraphs": [{"context": CONTEXT, "qas": [
        {"id": "who", "question": "Who wrote it?", "answers": [{"text": "Ada", "answer_start": 18}]},
        {"id": "when", "question": "When?", "answers": [{"text": t, "answer_start": 36} for t in ("1843", "MDCCC")]},
        {"id": "why", "question": "Why?", "answers": [], "is_impossible": True},
    ]}]}],
}  # fmt: skip


@pytest.mark.parametrize("name", ["knows", "guesses"])
def test_evaluating_on_questions(command: Command, folder: Path, name: str) -> None:
    (folder / "dev.json").write_text(json.dumps(QUESTIONS))
    code, out, err = command("evaluate", name, "dev.json", "--json", "--quiet", "--out", "said.json")
    report = json.loads(out)
    assert code == 0 and report["task"] == "question-answering" and report["examples"] == 3
    said = json.loads((folder / "said.json").read_text())
    assert set(said) == {"who", "when", "why"} and all(answer in CONTEXT for answer in said.values())
    assert name == "knows" or all(said.values())
    assert "1 of 3 questions (33.3%) have an answer that their context does not hold" in err
    metrics = report["metrics"]
    assert metrics["exact"]["signature"] == "SQuAD 2.0, words"
    right = sum(said[q] == text for q, text in (("who", "Ada"), ("when", "1843"), ("why", "")))
    assert metrics["exact"]["score"] == pytest.approx(100 * right / 3)
    assert metrics["f1"]["low"] <= metrics["f1"]["score"] <= metrics["f1"]["high"]
    assert metrics["best_exact"]["score"] >= max(metrics["exact"]["score"], 100 / 3)
    assert isinstance(metrics["best_f1"]["null_threshold"], float) and "answerable_f1" in metrics
    code, out, _ = command("evaluate", name, "dev.json", "--quiet")
    assert code == 0 and "(95 %)" in out and "null threshold" in out


def test_comparing_two_models(command: Command, folder: Path) -> None:
    (folder / "dev.json").write_text(json.dumps(QUESTIONS))
    code, out, _ = command("compare", "knows", "guesses", "dev.json", "--json", "--quiet")
    report = json.loads(out)
    assert code == 0 and report["examples"] == 3 and 0 <= report["same_answers"] <= 3
    for name in ("exact", "f1"):
        scores = []
        for model in ("knows", "guesses"):
            scores.append(json.loads(command("evaluate", model, "dev.json", "--json", "--quiet")[1])["metrics"][name])
        found = report["metrics"][name]
        assert [found["one"], found["two"]] == [pytest.approx(one["score"]) for one in scores] and 0 < found["p"] <= 1
    code, out, _ = command("compare", "knows", "knows", "dev.json", "--quiet")
    assert code == 0 and "the same model twice: every one of the 3 answers is the same" in out


def test_evaluating_on_something_else(command: Command, folder: Path) -> None:
    code, _, err = command("evaluate", "knows")
    assert code == 2 and "SQuAD's JSON" in err
    (folder / "pairs.tsv").write_text("one\n")
    code, _, err = command("evaluate", "knows", "pairs.tsv")
    assert code == 3 and "question and context" in err


def test_the_doctor_looks_at_questions(command: Command, folder: Path) -> None:
    (folder / "dev.json").write_text(json.dumps(QUESTIONS))
    code, out, _ = command("doctor", "dev.json", "--json")
    found = {finding["name"]: finding["count"] for finding in json.loads(out)["findings"]}
    assert code == 0 and (found["questions"], found["nowhere"], found["impossible"]) == (3, 1, 1)


def test_training_without_a_file(command: Command) -> None:
    code, _, err = command("train", "question-answering", "--out", "run")
    assert code == 2 and "trains on questions" in err
