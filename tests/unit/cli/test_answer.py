from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import regard
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


ASKED = [("Who?", CONTEXT), ("When?", CONTEXT), ("Where?", "far from the sea"), ("who " * 100, "Ada wrote it")]
LABELLED = [{"question": q, "context": c, "answer": "Ada", "start": 0} for q, c in ASKED]


def as_file(name: str) -> str:
    """The same questions in that format; with answers, but where the name says that there are none."""
    if name.endswith(".json"):
        paragraphs = [{"context": c, "qas": [{"id": str(i), "question": q, "answers": []}]}
                      for i, (q, c) in enumerate(ASKED)]  # fmt: skip
        return json.dumps({"data": [{"paragraphs": paragraphs}]})
    if name.endswith(".jsonl"):
        rows = [{"question": q, "context": c} for q, c in ASKED] if name.startswith("none") else LABELLED
        return "".join(json.dumps(row) + "\n" for row in rows)
    if name.endswith(".csv"):
        return "context,question\n" + "".join(f'"{c}",{q}\n' for q, c in ASKED)
    header = "id\tquestion\tcontext\tanswer\n" if name == "header.tsv" else ""
    rows = [f"{i}\t{q}\t{c}\tAda\n" if header else f"{q}\t{c}\n" for i, (q, c) in enumerate(ASKED)]
    return header + "".join(row.replace("\r\n", " ") for row in rows)


@pytest.fixture
def stdin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """`stdin("a line\\n")` is what the next command reads there."""
    with ExitStack() as opened:

        def feed(text: str) -> None:
            (folder / "stdin").write_text(text, encoding="utf-8", newline="")
            monkeypatch.setattr(sys, "stdin", opened.enter_context((folder / "stdin").open("rb")))

        yield feed


def answers_of(asked: list[tuple[str, str]]) -> list[tuple[str, str, int | None]]:
    model = regard.load("guesses", device="cpu")
    found = [model.answer(*one) for one in asked]
    return [(question, answer.text, answer.start) for (question, _), answer in zip(asked, found, strict=True)]


@pytest.mark.parametrize(
    "name", ["a.json", "a.jsonl", "none.jsonl", "a.csv", "header.tsv", "bare.tsv", "a.json.gz", "a.csv.gz", "-"]
)
def test_a_file_of_questions(command: Command, folder: Path, stdin: Callable[[str], None], name: str) -> None:
    """In every format that training reads, and by a pipe: an answer for each, that of the question asked alone."""
    text = as_file("none.jsonl" if name == "-" else name.removesuffix(".gz"))
    if name == "-":
        stdin(text.replace("\n", "\n\n"))
    else:
        data = text.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    code, out, err = command("answer", "guesses", name, "--json")
    said = [json.loads(line) for line in out.splitlines()]
    end = " " if name.endswith(".tsv") else "\n" if ".csv" in name else "\r\n"  # what a table makes of that of a line
    asked = [(q, c.replace("\r\n", end)) for q, c in ASKED]
    assert code == 0 and "question 4 is too long" in err and "question 1 " not in err
    assert [(row["question"], row["answer"], row["start"]) for row in said] == answers_of(asked)


@pytest.mark.parametrize("name", ["-", None, "lines.txt", "lines.txt.gz"])
@pytest.mark.parametrize("by", ["--context", "--context-file"])
def test_questions_on_one_text(
    command: Command, folder: Path, stdin: Callable[[str], None], name: str | None, by: str
) -> None:
    """A question a line, also one that looks like JSON."""
    lines = ["Who?", '{"question": 1}', "When?"]
    if name in ("-", None):
        stdin("".join(line + "\n" for line in lines))
    else:
        data = "".join(line + "\n" for line in lines).encode()
        (folder / str(name)).write_bytes(gzip.compress(data) if str(name).endswith("gz") else data)
    (folder / "text.txt").write_bytes(CONTEXT.encode())
    words = (by, CONTEXT if by == "--context" else "text.txt", "--json")
    code, out, _ = command("answer", "guesses", *[name] * (name is not None), *words)
    said = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(row["question"], row["answer"], row["start"]) for row in said] == answers_of([(q, CONTEXT) for q in lines])


def test_for_people_each_answer_stands_under_its_question(command: Command, folder: Path) -> None:
    (folder / "lines.txt").write_text("Who?\nWhen?\n", encoding="utf-8")
    code, out, _ = command("answer", "guesses", "lines.txt", "--context", CONTEXT, "--top-k", "2")
    alone = [command("answer", "guesses", "--question", q, "--context", CONTEXT, "--top-k", "2")[1]
             for q in ("Who?", "When?")]  # fmt: skip
    assert (code, out) == (0, f"Who?\n{alone[0]}\nWhen?\n{alone[1]}")


@pytest.mark.parametrize("bad", ["Who?", "[1]", "{", '{"question": "Who?"}', '{"question": "Who?", "context": 1}'])
def test_what_stands_before_a_bad_line_is_answered(command: Command, stdin: Callable[[str], None], bad: str) -> None:
    stdin("\n".join([json.dumps(LABELLED[0]), "", bad, json.dumps(LABELLED[1])]))
    code, out, err = command("answer", "guesses", "--json")
    assert code == 3 and "-:3: the line is not a question with its text" in err and "--context-file" in err
    first, error = map(json.loads, out.splitlines())
    assert first["question"] == "Who?" and "question" not in error


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("a.jsonl --question Who?", 2, "either one question or a file"),
        ("- --question Who? --context a", 2, "either one question or a file"),
        ("lines.txt --context a --context-file b", 2, "--context TEXT or --context-file FILE"),
        ("- --context-file -", 2, "both the text and the questions"),
        ("--context-file -", 2, "both the text and the questions"),
        ("a.jsonl --context a", 2, "a text for each question"),
        ("a.json.gz --context-file a", 2, "a text for each question"),
        ("absent.jsonl", 3, "no such file"),
        ("absent.txt --context a", 3, "no such file"),
        ("absent.jsonl --top-k 0", 2, "top_k"),
    ],
)
def test_questions_that_cannot_be_asked(command: Command, words: str, code: int, says: str) -> None:
    got, out, err = command("answer", "guesses", *words.split())
    assert (got, out) == (code, "") and says in err


@pytest.mark.whole
def test_a_question_is_answered_before_the_next_is_sent(folder: Path) -> None:
    words = [sys.executable, "-m", "regard", "answer", "guesses", "-", "--threads", "1", "--json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=folder, text=True, encoding="utf-8", bufsize=1, **pipes) as process:
        assert process.stdin and process.stdout
        for row in LABELLED[:3]:
            process.stdin.write(json.dumps(row) + "\n")
            assert json.loads(process.stdout.readline())["question"] == row["question"]
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("asked", [(["Who?"], [CONTEXT]), ("Who?", [CONTEXT]), (["Who?"], CONTEXT), ("Who?", None)])
def test_from_python_one_question_is_asked(folder: Path, asked: tuple[str, str]) -> None:
    with pytest.raises(TypeError, match="one question and one text are needed"):
        regard.load(folder / "guesses", device="cpu").answer(*asked)


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
