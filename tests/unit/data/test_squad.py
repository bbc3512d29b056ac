from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.data.question_checks import check_questions, clean, split_questions
from regard.data.squad import Question, Questions, Reference, read_questions
from regard.errors import DataError

TEXT = "Ada wrote it in 1843. Ada wrote more."


def _write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _squad(path: Path, *qas: dict[str, Any], context: Any = TEXT) -> Path:
    return _write(path, json.dumps({"version": "1.1", "data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))


def _asked(text: str = "1843", start: Any = 16, **more: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "When?", "answers": [{"text": text, "answer_start": start}], **more}


def _rows(*rows: tuple[str, str, str]) -> Questions:
    """Questions without a file, each (question, context, answer)."""
    items = [
        Question(str(number), question, context, (Reference(text, context.find(text)),) * bool(text), f"file:{number}")
        for number, (question, context, text) in enumerate(rows, 1)
    ]
    return Questions(tuple(items), {"file": "0"})


@pytest.mark.parametrize(
    ("name", "questions", "texts"),
    [
        ("xquad/xquad.en.json.gz", 1_190, 240),
        ("xquad/xquad.zh.json.gz", 1_190, 240),
        ("cmrc2018/cmrc2018_trial.json.gz", 1_002, 256),
    ],
)
def test_published_sets(data_dir: Callable[[str], Path], name: str, questions: int, texts: int) -> None:
    folder, _, file = name.partition("/")
    path = data_dir(folder) / file
    read = read_questions([path])
    assert (len(read), len({q.context for q in read})) == (questions, texts)
    assert read.sha256 == {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}
    for question in read:
        for answer in question.answers:
            assert answer.start is not None
            assert question.context[answer.start : answer.start + len(answer.text)] == answer.text
    # The README of cmrc2018 says that five of its answers do not stand where it says.
    assert sum(q.moved for q in read) == (5 if folder == "cmrc2018" else 0)


def test_an_answer_that_stands_elsewhere_is_moved_to_the_nearest_place(tmp_path: Path) -> None:
    path = _squad(tmp_path / "a.json", _asked("Ada", 20), _asked("Ada", 2), _asked("Ada", -1), _asked("wrote", 4))
    read = read_questions([path])
    assert [q.answers[0].start for q in read] == [22, 0, 0, 4]
    assert [q.moved for q in read] == [1, 1, 1, 0]
    found = {finding.name: finding for finding in check_questions(read)}
    assert found["moved"].count == 3 and found["moved"].examples[0] == f"{path}: data[0].paragraphs[0].qas[0]"


def test_an_answer_that_stands_nowhere_can_be_scored_against_and_not_trained_on(tmp_path: Path) -> None:
    both = [{"text": "1844", "answer_start": 16}, {"text": "1843", "answer_start": 16}]
    path = _squad(tmp_path / "a.json", _asked("in 1844"), _asked(answers=both))
    read = read_questions([path])
    assert read.items[0].answer is None and read.items[1].answer == Reference("1843", 16)
    assert {f.name: f.count for f in check_questions(read)}["nowhere"] == 2
    with pytest.raises(DataError, match="does not stand in the context") as caught:
        clean(read)
    assert caught.value.where == f"{path}: data[0].paragraphs[0].qas[0]" and "1844" in str(caught.value.got)
    assert [q.answer for q in clean(read, skip_bad=1)] == [Reference("1843", 16)]


def test_what_is_trained_on_is_what_most_people_answered(tmp_path: Path) -> None:
    answers = [{"text": text, "answer_start": TEXT.find(text)} for text in ("in 1843", "1843", "1843")]
    (question,) = read_questions([_squad(tmp_path / "a.json", _asked(answers=answers))])
    assert question.answer == Reference("1843", 16) and len(question.answers) == 3


def test_a_question_may_have_no_answer(tmp_path: Path) -> None:
    path = _squad(tmp_path / "a.json", _asked(is_impossible=True), _asked(answers=[]), _asked("", 0), _asked())
    read = read_questions([path])
    assert [q.impossible for q in read] == [True, True, True, False] and read.some_impossible
    assert len(clean(read)) == 4


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", f"When?\t{TEXT}\t1843\t16\nWho?\t{TEXT}\t\t\n"),
        ("a.tsv", f"start\tcontext\tAnswer\tquestion\tnote\n16\t{TEXT}\t1843\tWhen?\tx\n\t{TEXT}\t\tWho?\tx\n"),
        ("a.csv", f'question,context,answer,start\nWhen?,"{TEXT}",1843,16\nWho?,"{TEXT}",,\n'),
        (
            "a.jsonl",
            json.dumps({"question": "When?", "context": TEXT, "answer": "1843", "start": 16})
            + "\n"
            + json.dumps({"question": "Who?", "context": TEXT, "answer": None}),
        ),
        (
            "a.jsonl",
            json.dumps({"question": "When?", "context": TEXT, "answers": {"text": ["1843"], "answer_start": [16]}})
            + "\n"
            + json.dumps({"question": "Who?", "context": TEXT, "answers": {"text": [], "answer_start": []}}),
        ),
    ],
)
def test_tables(tmp_path: Path, name: str, text: str) -> None:
    path = _write(tmp_path / name, gzip.compress(text.encode()))
    when, who = read_questions([path])
    assert (when.question, when.context, when.answers) == ("When?", TEXT, (Reference("1843", 16),))
    assert who.question == "Who?" and who.impossible
    assert when.context is who.context  # a text is kept once, however many questions there are on it
    assert who.where.startswith(f"{path}:")


@pytest.mark.parametrize("answers", [None, [], "none yet", [{"text": 3}], {"text": ["x"]}])
def test_questions_that_are_only_asked_need_no_answers(tmp_path: Path, answers: object) -> None:
    """Whatever stands in their place; with answers asked for, all but an empty list is refused."""
    asked = {"question": "Who?", "context": TEXT} | ({} if answers is None else {"answers": answers})
    squad = {"data": [{"paragraphs": [{"context": TEXT, "qas": [asked]}]}]}
    whole = _write(tmp_path / "a.json", json.dumps(squad).encode())
    for path in (whole, _write(tmp_path / "a.jsonl", json.dumps(asked).encode())):
        (read,) = read_questions([path], answered=False)
        assert (read.question, read.context, read.answers) == ("Who?", TEXT, ())
    if answers != []:
        with pytest.raises(DataError, match=r"answers|not a JSON object|not a string"):
            read_questions([whole])


def test_a_start_that_is_not_given_is_found(tmp_path: Path) -> None:
    (question,) = read_questions([_write(tmp_path / "a.tsv", f"When?\t{TEXT}\t1843\n")])
    assert question.answers == (Reference("1843", 16),) and question.moved == 0


@pytest.mark.parametrize(
    ("name", "text", "where", "says"),
    [
        ("a.json", "", ":1", "not JSON"),
        ("a.json", '{"data": [\n\n}', ":3", "not JSON"),
        ("a.json", b'{"data": "\n\xff"}', ":2", "UTF-8"),
        ("a.json", "[" * 100_000, "", "cannot be read"),
        ("a.json", "[1]", "", "not a JSON object"),
        ("a.json", "{}", "", "'data' is missing"),
        ("a.json", '{"data": 3}', "", "'data' is not a list"),
        ("a.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', ": data[0].paragraphs[0]", "'context' is missing"),
        (
            "a.json",
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": 1, "answers": []}]}]}]}',
            ": data[0].paragraphs[0].qas[0]",
            "'question' is not a string",
        ),
        ("a.jsonl", '{"question": "a", "context": "b"}\n{"question": "a"}\n', ":2", "'context' is missing"),
        ("a.jsonl", '{"question": "a", "context": "b", "answer": "b", "start": 1.5}\n', ":1", "whole number"),
        ("a.tsv", "q\tc\ta\t0\nq\tc\n", ":2", "2 columns and the first row 4"),
        ("a.tsv", "q\tc\ta\tzero\n", ":1", "whole number"),
        ("a.tsv", "only one\n", ":1", "no columns question and context"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, name: str, text: str | bytes, where: str, says: str
) -> None:
    path = _write(tmp_path / name, text)
    with pytest.raises(DataError, match=says) as caught:
        read_questions([path])
    assert str(caught.value.where) == f"{path}{where}"


@pytest.mark.parametrize("text", ['{"data": []}', '{"data": [{"paragraphs": [{"context": "a", "qas": []}]}]}'])
def test_a_file_without_a_question(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="no questions"):
        read_questions([_write(tmp_path / "a.json", text)])


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_file_that_swells_is_not_read_whole(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name, gzip.compress(b'{"question": "' + b" " * 10_000_000))
    with pytest.raises(DataError, match="too large"):
        read_questions([path], max_bytes=1_000_000)


def test_bad_records_may_be_left_out(tmp_path: Path) -> None:
    path = _squad(tmp_path / "a.json", _asked(start=1.5), _asked(), {"question": "?"})
    with pytest.raises(DataError):
        read_questions([path], skip_bad=1)
    read = read_questions([path], skip_bad=2)
    assert len(read) == 1 and len(read.skipped) == 2
    assert {f.name: f.count for f in check_questions(read)}["skipped"] == 2


def test_an_empty_question_or_context_is_left_out(tmp_path: Path) -> None:
    read = _rows(("", TEXT, "1843"), ("When?", " \n", ""), ("When?", TEXT, "1843"))
    assert {f.name: f.count for f in check_questions(read)}["empty"] == 2
    assert [q.where for q in clean(read)] == ["file:3"]
    with pytest.raises(DataError, match="no question can be trained on"):
        clean(_rows(("When?", "", "")))


def test_copies_and_shared_texts_are_counted() -> None:
    train = _rows(("When?", TEXT, "1843"), ("When?", TEXT, "1843"), ("Who?", TEXT, "Ada"), ("When?", "In 1.", "1"))
    dev = _rows(("Why?", TEXT, ""), ("When?", "In 2.", "2"))
    found = {finding.name: finding for finding in check_questions(train, dev)}
    assert found["duplicate"].count == 1 and found["duplicate"].examples == ("file:2",)
    assert found["overlap"].count == 1 and found["overlap"].severity == "warn"
    assert found["questions"].sentence.startswith("4 questions on 2 texts")


def test_what_is_held_out_shares_no_text_with_the_rest(data_dir: Callable[[str], Path]) -> None:
    whole = read_questions([data_dir("xquad") / "xquad.en.json.gz"])
    train, dev = split_questions(whole, seed=1)
    assert len(train) + len(dev) == len(whole) and 100 <= len(dev) <= 119
    assert {q.context for q in train}.isdisjoint({q.context for q in dev})
    again, other = split_questions(whole, seed=1)[1], split_questions(whole, seed=2)[1]
    assert again.items == dev.items and other.items != dev.items
    assert len(split_questions(whole, seed=1, at_most=20)[1]) <= 20


def test_few_texts_are_parted_or_refused() -> None:
    two = _rows(*((f"{n}?", text, "") for n in range(9) for text in ("one", "two")))
    train, dev = split_questions(two, seed=1)
    assert len(train) == len(dev) == 9
    with pytest.raises(DataError, match="all questions are on one text"):
        split_questions(_rows(("a", TEXT, ""), ("b", TEXT, "")), seed=1)
