from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.api import Loaded
from regard.data.squad import Question, Questions, read_questions
from regard.errors import DataError
from regard.model import SpanHead
from regard.tasks.extractive_qa import Answerer
from regard.tasks.quiz import QuestionData, read_quiz
from regard.tasks.squad_metrics import score_answers
from regard.text import Tokenizer

TINY: dict[str, Any] = {
    "tokenizer": {"vocab_size": 500, "dropout": 0.0},
    "model": {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 1, "dropout": 0.0},
    "batch": {"tokens": 600, "max_len": 96},
    "schedule": {"warmup": 5},
}
"""What a handful of questions teach in seconds."""
NEVER_SAID = "Who was the first king of Atlantis?"


@pytest.fixture(scope="module")
def asked(data_dir: Callable[[str], Path]) -> list[Question]:
    """One question on each of six short paragraphs."""
    items = read_questions([data_dir("xquad") / "xquad.en.json.gz"]).items
    short = {question.context: question for question in items if len(question.context) < 420}
    return list(short.values())[:6]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, asked: list[Question]) -> Iterator[tuple[Path, Any]]:
    """A run that learned these, and that there was no king of Atlantis, by heart; and its result."""
    folder = tmp_path_factory.mktemp("answering")
    file = _write(folder / "a.json", asked, impossible=True)
    torch.set_num_threads(1)
    result = regard.train(
        "question-answering", source=file, dev_source=file, out=folder / "run",
        loop={"steps": 110, "evaluate_every": 55}, **TINY,
    )  # fmt: skip
    yield folder, result
    torch.set_num_threads(2)


def _write(path: Path, questions: Sequence[Question], *, impossible: bool = False) -> Path:
    paragraphs = []
    for question in questions:
        answers = [{"text": a.text, "answer_start": a.start} for a in question.answers]
        qas = [{"id": question.id, "question": question.question, "answers": answers}]
        if impossible:
            qas.append({"id": question.id + "x", "question": NEVER_SAID, "answers": []})
        paragraphs.append({"context": question.context, "qas": qas})
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return path


def test_a_model_learns_answers_and_that_there_is_none(trained: tuple[Path, Any], asked: list[Question]) -> None:
    folder, result = trained
    assert result.scores["dev_f1"] > 80 and result.scores["dev_merit"] == result.scores["dev_f1"]
    model = regard.load(folder / "run")
    assert isinstance(model, Loaded) and model.task == "question-answering" and isinstance(model.model.head, SpanHead)
    assert model.about["answering"] == {"length": 96, "overlap": 24, "longest": 30, "null": True}
    assert model.about["training"]["train_questions"] == 12
    right = 0
    for question in asked:
        found = model.answer(question.question, question.context)
        assert found.text == question.context[found.start or 0 : found.end or 0]
        right += found.text == question.answers[0].text
        none = model.answer(NEVER_SAID, question.context, top_k=2)
        assert (none.text, none.start) == ("", None) and none.alternatives[0].text in question.context
    assert right >= 4


def test_a_run_scores_as_its_model_does_in_use(trained: tuple[Path, Any]) -> None:
    folder, result = trained
    model, items = regard.load(folder / "run"), read_questions([folder / "a.json"]).items
    answerer = Answerer(model.model, model.tokenizer, model.about)
    found = answerer.answer_all([q.question for q in items], [q.context for q in items])
    scores = score_answers([answer.text for answer in found], items)
    assert 100 * float(scores.f1.mean()) == pytest.approx(result.scores["dev_f1"])
    assert 100 * float(scores.exact.mean()) == pytest.approx(result.scores["dev_exact"])


@pytest.mark.usefixtures("one_thread")
def test_a_run_that_was_stopped_goes_on_to_the_same_end(tmp_path: Path, asked: list[Question]) -> None:
    file = _write(tmp_path / "a.json", asked)
    weights = []
    for name, loop in (("whole", {}), ("parts", {"stop": 3})):
        words: dict[str, Any] = {"source": file, "dev_source": file, "out": tmp_path / name}
        recipe = {**TINY, "model": {**TINY["model"], "dropout": 0.1}}
        regard.train("question-answering", **words, loop={"steps": 6, "evaluate_every": 3, **loop}, **recipe)
        if loop:
            regard.train("question-answering", **words, resume=True, loop={"steps": 6})
        weights.append(regard.load(tmp_path / name / "checkpoints" / "step-000006").model.state_dict())
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


@pytest.mark.whole
@pytest.mark.usefixtures("one_thread")
def test_a_run_begins_from_a_trained_encoder(tmp_path: Path, asked: list[Question], minilm: Path) -> None:
    file = _write(tmp_path / "a.json", asked[:2])
    result = regard.train(
        "question-answering", source=file, dev_source=file, out=tmp_path / "run", init_from=str(minilm),
        loop={"steps": 2, "evaluate_every": 2}, batch={"tokens": 96, "max_len": 96},
    )  # fmt: skip
    assert result.recipe.optim.kind == "adamw" and result.recipe.model["n_encoder_layers"] == 6
    tuned, origin = regard.load(tmp_path / "run"), regard.load(minilm)
    assert tuned.tokenizer.encode("Ångström") == origin.tokenizer.encode("Ångström")
    ours, theirs = (model.model.transformer.tokens.weight for model in (tuned, origin))
    assert 0 < float((ours - theirs).detach().abs().max()) < 0.01  # the same, but for two small updates
    assert tuned.about["answering"]["null"] is False
    text = "It was written by Ada in the year 1843. " * 20
    found = tuned.answer("When was it written?", text)
    assert found.text == text[found.start or 0 : found.end or 0] != ""


def _data(questions: Sequence[Question], **changes: Any) -> QuestionData:
    texts = [q.context + q.question for q in questions]
    tokenizer = Tokenizer.train(texts, kind="bpe", vocab_size=500).framed(before="bos", after="eos")
    some = Questions(tuple(questions), {"a.json": "0"})
    fields = {"length": 64, "overlap": 16, "tokens_per_batch": 256, "seed": 1, "multiple": 1, **changes}
    return QuestionData(tokenizer, some, some, **fields)


def test_every_window_is_seen_once_a_pass_and_says_whose_it_is(asked: list[Question]) -> None:
    data, seen = _data(asked), list[int]()
    for step in range(data.batches_per_epoch):
        batch, owners = data.batch(step), data.examples(step)
        seen += data.order.batch(step)
        assert batch.count == len(owners) == len(batch.ids)
        halves = [row for rank in (0, 1) for row in data.batch(step, rank, 2).targets.tolist()]
        assert sorted(halves) == sorted(batch.targets.tolist())
        for ids, (begin, end), owner in zip(batch.ids.tolist(), batch.targets.tolist(), owners, strict=True):
            answer = asked[owner].answers[0].text
            if begin:
                assert answer in asked[owner].context and data.tokenizer.decode(ids[begin : end + 1]).find(answer) >= 0
            else:
                assert end == 0
        assert data.batch(step, 99, 100).count == 0  # a rank may go empty-handed
    assert sorted(seen) == list(range(len(data.windows))) and len(data.windows) > len(asked)
    assert set(data.owners) == set(range(len(asked)))


def test_an_answer_that_no_window_holds_is_left_out_and_told(asked: list[Question]) -> None:
    long, *others = asked
    whole = type(long.answers[0])(long.context, 0)
    data = _data([Question("1", "What?", long.context, (whole,), "a.json:1"), *others])
    assert data.torn == 1 and "1 training questions have an answer that no window of 64 tokens" in str(data.left_out)
    assert 0 not in data.owners
    with pytest.raises(DataError, match="no question can be trained on"):
        _data([Question("1", "What?", long.context, (whole,), "a.json:1")])


def test_long_answers_may_be_given_where_they_were_learned(asked: list[Question]) -> None:
    assert _data(asked).rules.longest == 30
    question = asked[0]
    most = type(question.answers[0])(question.context[:200], 0)
    data = _data([Question("1", "What?", question.context, (most,), "a.json:1")], length=256)
    assert 30 < data.rules.longest < 200


def test_a_quiz_is_read_checked_and_parted(tmp_path: Path, asked: list[Question]) -> None:
    file = _write(tmp_path / "a.json", asked)
    quiz = read_quiz([str(file)], [], skip_bad=0, seed=1)
    assert quiz.held_out and len(quiz.train) + len(quiz.dev) == 6 and "held out" in quiz.told()[0]
    assert quiz.where(0).startswith(f"{file}: data[0]") and set(quiz.hashes) == {str(file)}
    both = read_quiz([str(file)], [str(file)], skip_bad=0, seed=1)
    assert {f.name: f.count for f in both.findings}["overlap"] == 6 and both.told() == []
    bad = json.loads(file.read_text())
    bad["data"][0]["paragraphs"][2]["qas"][0]["answers"][0]["text"] = "nothing like it"
    file.write_text(json.dumps(bad))
    with pytest.raises(DataError, match="does not stand in the context"):
        read_quiz([str(file)], [str(file)], skip_bad=0, seed=1)
    assert len(read_quiz([str(file)], [str(file)], skip_bad=1, seed=1).train) == 5
