"""What `regard evaluate` writes and shows of classes, spans and answers, and which flags it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.cli.evaluate import TASKS, Arguments, refuse_flags, show_classes
from regard.cli.main import main
from regard.data.squad import read_questions
from regard.errors import ConfigError
from regard.hub.atomic import commit_folder
from regard.hub.folder import write_model
from regard.model import TransformerConfig, make_model
from regard.tasks.squad_metrics import score_answers
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
Run = Callable[..., tuple[int, str, str]]
TEXT = "How far is Denver from New York today ? It was written by Ada in 1843 , a good film , not a bad one"
NAMES, TAGS = ("bad", "good", "none"), ("O", "B-PLACE", "I-PLACE", "B-TIME", "I-TIME")
ABOUT = {
    "one": ("classifier", {"task": "classification", "labels": list(NAMES), "label_kind": "one", "texts": 1}),
    "several": ("classifier", {"task": "classification", "labels": list(NAMES), "label_kind": "several", "texts": 1}),
    "tagger": ("tagger", {"task": "tagging", "labels": list(TAGS)}),
    "qa": ("span", {"task": "question-answering",
                    "answering": {"length": 40, "overlap": 10, "longest": 8, "null": True}}),
}  # fmt: skip
"""The head and the facts of a random model of each name."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("evaluate", "one", ..)` in a folder where that model is written when it is named."""
    monkeypatch.chdir(tmp_path)

    def ask(verb: str, name: str, *words: str) -> tuple[int, str, str]:
        if not Path(name).exists():
            tokenizer = Tokenizer.train([TEXT] * 9, kind="bpe", vocab_size=350).framed(before="bos", after="eos")
            config = TransformerConfig(
                vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1,
                n_decoder_layers=0, n_token_types=2, max_len=48,
            )  # fmt: skip
            head, about = ABOUT[name]
            model = make_model(config, head, len(about.get("labels", "12"))).eval()
            commit_folder(Path(name), lambda draft: write_model(draft, model, tokenizer, about))
        capsys.readouterr()
        return main([verb, name, *words, "--threads", "1", "--device", "cpu"]), *capsys.readouterr()

    return ask


def rows_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def given(flag: str) -> Arguments:
    """The arguments of `evaluate` with one flag."""
    values = {"to": "de", "beam": 5, "columns": "a,b", "out": Path("x"), "baseline": Path("x"), "unit": "line",
              "field": "body", "context": 3, "by_position": True}  # fmt: skip
    return Arguments(model=Path("model"), data=(Path("a"),), **{flag: values[flag]})


@pytest.mark.parametrize("task", sorted({task for tasks in TASKS.values() for task in tasks}))
@pytest.mark.parametrize("flag", TASKS)
def test_a_flag_that_says_nothing_to_the_task_is_refused(flag: str, task: str) -> None:
    refuse_flags(Arguments(model=Path("model"), data=()), task)
    if task in TASKS[flag]:
        refuse_flags(given(flag), task)
        return
    with pytest.raises(ConfigError, match=f"--{flag.replace('_', '-')}") as caught:
        refuse_flags(given(flag), task)
    assert all(own in str(caught.value) for own in TASKS[flag]) and task in str(caught.value)


def test_every_flag_of_evaluate_is_of_all_tasks_or_of_some() -> None:
    """So that a new one is not forgotten, and ignored in silence."""
    own = {name for cls in Arguments.__mro__[:2] for name in vars(cls).get("__annotations__", {})}
    assert own - {"model", "data"} == set(TASKS)


def test_the_command_refuses(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("question\tcontext\tanswer\nWho?\tby Ada\tAda\n", encoding="utf-8")
    code, out, err = run("evaluate", "qa", "dev.tsv", "--baseline", "dev.tsv")
    assert (code, out) == (2, "") and "--baseline" in err and "classification" in err and "question-answering" in err


def test_pairs_for_a_model_of_texts_are_counted_in_words(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("premise\thypothesis\tlabel\na\tb\tgood\n", encoding="utf-8")
    code, _, err = run("evaluate", "one", "dev.tsv")
    assert code == 3 and "expected: one text and a label" in err and "got: two texts and a label" in err


def test_a_row_that_is_taken_for_names_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("tweet\ttarget\n" + "a good film\tgood\na bad one\tbad\n" * 4, encoding="utf-8")
    code, out, err = run("evaluate", "one", "a.tsv", "--json")
    assert code == 0 and json.loads(out)["examples"] == 8 and "taken for names of columns" in err


def test_several_classes_have_a_table_and_errors(run: Run, tmp_path: Path) -> None:
    texts, labels = ["a good film", "not a bad one", "film", "good bad"], ["good", "bad|none", "", "bad|good"]
    rows = zip(texts, labels, strict=True)
    (tmp_path / "dev.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    code, out, err = run("evaluate", "several", "dev.tsv", "--json", "--out", "report")
    assert code == 0, err
    report = json.loads(out)
    assert report["written"] == ["errors.jsonl"] == [path.name for path in (tmp_path / "report").iterdir()]
    found = regard.load("several", device="cpu").classify(texts, top_k=3)
    true = [{*label.split("|")} - {""} for label in labels]
    for row in report["classes"]:
        has = np.array([row["label"] in own for own in true])
        said = np.array([row["label"] in label.label for label in found])
        right, support = int((has & said).sum()), int(has.sum())
        assert row["support"] == support and row["recall"] == pytest.approx(right / max(1, support))
        assert row["precision"] == pytest.approx(right / max(1, int(said.sum())))
        assert row["f1"] == pytest.approx(2 * right / max(1, support + int(said.sum())))
    assert {row["label"] for row in report["classes"]} >= {"bad", "good", "none"}
    wrong = {text: dict(label.likeliest) for text, label, own in zip(texts, found, true, strict=True)
             if {*label.label} != own}  # fmt: skip
    errors = rows_of(tmp_path / "report" / "errors.jsonl")
    assert wrong and {row["text"] for row in errors} == set(wrong)
    for row in errors:
        assert row["probability"] == [pytest.approx(wrong[str(row["text"])][name]) for name in row["said"]]  # type: ignore[attr-defined]
    code, out, _ = run("evaluate", "several", "dev.tsv")
    assert code == 0 and "support" in out and "micro_f1" in out


def test_the_worst_sentences_of_a_tagger(run: Run, tmp_path: Path) -> None:
    """A span that was missed and one that is not there are wrong alike; the places are those of the text."""
    sentences = [["How", "far", "?"], ["Denver", "from", "New", "York", "today", "Denver"], ["York"]]
    tags = [["O", "O", "O"], ["B-PLACE", "O", "B-PLACE", "I-PLACE", "B-TIME", "B-PLACE"], ["B-PLACE"]]
    lines = ["".join(f"{word} {tag}\n" for word, tag in zip(*pair, strict=True))
             for pair in zip(sentences, tags, strict=True)]  # fmt: skip
    (tmp_path / "dev.conll").write_text("\n".join(lines), encoding="utf-8")
    code, out, err = run("evaluate", "tagger", "dev.conll", "--json", "--out", "report")
    assert code == 0, err
    assert json.loads(out)["written"] == ["errors.jsonl"]
    errors = rows_of(tmp_path / "report" / "errors.jsonl")
    texts = [" ".join(words) for words in sentences]
    found = dict(zip(texts, regard.load("tagger", device="cpu").tag(texts), strict=True))
    assert errors and [row["wrong"] for row in errors] == sorted((row["wrong"] for row in errors), reverse=True)  # type: ignore[type-var]
    for row in errors:
        text = str(row["text"])
        said = [
            {"start": span.start, "stop": span.stop, "label": span.label, "text": span.text} for span in found[text]
        ]
        assert row["said"] == said and str(row["where"]).startswith("dev.conll:")
        true = row["true"]
        assert isinstance(true, list) and all(text[own["start"] : own["stop"]] == own["text"] for own in true)
        both = [{(span["start"], span["stop"], span["label"]) for span in spans} for spans in (true, said)]
        assert row["wrong"] == len(both[0] ^ both[1]) > 0
    long = next((row for row in errors if row["text"] == texts[1]), None)
    assert long is None or [own["text"] for own in long["true"]] == ["Denver", "New York", "today", "Denver"]  # type: ignore[attr-defined]


QUESTIONS = {"data": [{"paragraphs": [{"context": TEXT, "qas": [
    {"id": "who", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 59}] * 2},
    {"id": "when", "question": "When?", "answers": [{"text": "1843", "answer_start": 66}]},
    {"id": "why", "question": "Why?", "answers": [], "is_impossible": True},
]}]}]}  # fmt: skip


def test_the_worst_answers(run: Run, tmp_path: Path) -> None:
    """Into a folder with what was expected; a file gets the answers alone, as before."""
    (tmp_path / "dev.json").write_text(json.dumps(QUESTIONS), encoding="utf-8")
    code, out, err = run("evaluate", "qa", "dev.json", "--json", "--quiet", "--out", "report")
    assert code == 0, err
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"errors.jsonl", "answers.json"}
    assert set(json.loads(out)["written"]) == {"errors.jsonl", "answers.json"}
    said = json.loads((tmp_path / "report" / "answers.json").read_text(encoding="utf-8"))
    scores = score_answers(list(said.values()), read_questions([tmp_path / "dev.json"]).items)
    wrong = {name: 100 * f1 for name, exact, f1 in zip(said, scores.exact, scores.f1, strict=True) if not exact}
    errors = rows_of(tmp_path / "report" / "errors.jsonl")
    assert {row["id"]: row["f1"] for row in errors} == pytest.approx(wrong) and wrong
    assert [row["f1"] for row in errors] == sorted(wrong.values())
    expected = {"who": ["Ada"], "when": ["1843"], "why": []}
    assert all(row["said"] == said[row["id"]] and row["expected"] == expected[str(row["id"])] for row in errors)
    for name in ("said.json", "report"):
        code, out, _ = run("evaluate", "qa", "dev.json", "--json", "--quiet", "--out", name)
        written = tmp_path / name / "answers.json" if name == "report" else tmp_path / name
        assert code == 0 and json.loads(written.read_text(encoding="utf-8")) == said
        assert json.loads(out).get("written", []) == ([] if name == "said.json" else ["errors.jsonl", "answers.json"])


@pytest.mark.parametrize("name", ["one", "tagger"])
def test_a_report_is_a_folder(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "dev.tsv").write_text("far\tgood\n" if name == "one" else "far\tO\n", encoding="utf-8")
    (tmp_path / "there").write_text("mine", encoding="utf-8")
    code, _, err = run("evaluate", name, "dev.tsv", "--out", "there")
    assert code == 2 and "the report is a folder" in err and (tmp_path / "there").read_text() == "mine"


def classes(supports: Sequence[int]) -> list[dict[str, object]]:
    return [{"label": f"c{i}", "precision": 0.5, "recall": 0.5, "f1": 0.5, "support": n}
            for i, n in enumerate(supports)]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "says"), [(100, None), (101, "and 1 more class:"), (10_000, "and 9,900 more classes:")]
)
def test_of_many_classes_those_with_most_examples_are_shown(
    count: int, says: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    supports = [i % 7 for i in range(count)]
    supports[-1] = 1_000
    show_classes(classes(supports))
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()[1:101]]
    shown = [int(row[-1].replace(",", "")) for row in rows]
    if says is None:
        assert shown == supports and "more class" not in out
        return
    assert shown == sorted(supports, reverse=True)[:100] and rows[0][0] == f"c{count - 1}"
    assert says in out.splitlines()[-1] and "--json has all" in out.splitlines()[-1]


def test_json_has_every_class(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{i:03}" for i in range(120)]
    monkeypatch.setitem(ABOUT, "many", ("classifier", {**ABOUT["one"][1], "labels": names}))
    (tmp_path / "dev.tsv").write_text("".join(f"far {name}\t{name}\n" for name in names), encoding="utf-8")
    code, out, err = run("evaluate", "many", "dev.tsv", "--json")
    assert code == 0, err
    assert [row["label"] for row in json.loads(out)["classes"]] == names
