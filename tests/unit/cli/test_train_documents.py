"""Language models on the command line: trained on texts, planned, scored, and made to answer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import regard

Command = Callable[..., tuple[int, str, str]]
TINY = (
    "loop.steps=4 loop.evaluate_every=2 model.d_model=16 model.n_heads=2 model.d_ff=32 tokenizer.vocab_size=300 "
    "batch.tokens=300 batch.max_len=32 schedule.warmup=1"
)
SMALL = [word for change in TINY.split() for word in ("--set", change)]


@pytest.fixture
def texts(workplace: Path, data_dir: Callable[[str], Path]) -> Path:
    """`pages` (a folder with a picture in it), `lines.jsonl`, `held.txt` and `chat.jsonl` in the workplace."""
    if (workplace / "pages").exists():
        return workplace
    parts = (data_dir("tinyshakespeare") / "input.txt").read_text()[:12_000].split("\n\n")
    (workplace / "pages" / "deep").mkdir(parents=True)
    for i in range(0, 20, 4):
        (workplace / "pages" / "deep" / f"{i}.txt").write_text("\n\n".join(parts[i : i + 4]))
    (workplace / "pages" / "picture.png").write_bytes(b"\x89PNG\0\0\0")
    rows = [{"text": part} for part in parts[20:40]] + [{"text": " "}]
    (workplace / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (workplace / "short.txt").write_text("x")
    (workplace / "held.txt").write_text("\n\n".join(parts[40:50]))
    chat = [[{"role": "user", "content": f"Who {i}?"}, {"role": "assistant", "content": f"He {i}."}] for i in range(30)]
    (workplace / "chat.jsonl").write_text("".join(json.dumps({"messages": turns}) + "\n" for turns in chat))
    return workplace


@pytest.fixture
def novels(texts: Path, command: Command) -> tuple[Path, dict[str, object], str]:
    """A language model of the texts: its folder, what training reported, and what it told."""
    told = texts / "novels.json"
    if not told.exists():
        words = ("train", "language-model", "pages", "lines.jsonl", "--dev", "held.txt", "--out", "novels", "--json")
        code, out, err = command(*words, *SMALL)
        assert code == 0, err
        told.write_text(json.dumps([json.loads(out), err]))
    report, err = json.loads(told.read_text())
    return texts / "novels", report, err


def test_training_tells_what_it_read_and_reports_its_scores(novels: tuple[Path, dict[str, object], str]) -> None:
    _, report, err = novels
    assert (report["task"], report["steps"]) == ("language-model", 4)
    assert {"dev_loss", "dev_perplexity", "dev_bits_per_byte", "unigram_bits_per_byte", "ngram_bits_per_byte",
            "xz_bits_per_byte"} <= report.keys()  # fmt: skip
    assert "5 files read as plain text: each is one document; --unit paragraph" in err
    assert "1 file read as JSONL: column 'text'" in err and "1 file left out: no text" in err
    assert "empty documents left out: 1" in err and "it writes: " in err and "update 4: development loss" in err


def test_what_is_written_is_the_recipe(novels: tuple[Path, dict[str, object], str], command: Command) -> None:
    code, out, err = command("train", "novels/recipe.toml", "--out", "novels2", "--quiet")
    assert (code, err) == (0, "") and "now: regard generate novels2 --prompt" in out
    assert "regard evaluate novels2 held.txt" in out
    one, two = (Path(run) / "checkpoints" / "final" / "model.safetensors" for run in ("novels", "novels2"))
    assert one.read_bytes() == two.read_bytes()


def test_evaluate_gives_the_loss_of_training_and_by_position(
    novels: tuple[Path, dict[str, object], str], command: Command
) -> None:
    _, trained, _ = novels
    code, out, _ = command("evaluate", "novels", "held.txt", "--json", "--by-position")
    report = json.loads(out)
    metrics = {name: metric["score"] for name, metric in report["metrics"].items()}
    assert code == 0 and (report["examples"], report["context"]) == (1, 32)
    assert metrics["loss"] == pytest.approx(trained["dev_loss"], rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    assert metrics["bits_per_byte"] == pytest.approx(trained["dev_bits_per_byte"], rel=1e-5)
    rows = report["by_position"]
    assert sum(row["predictions"] for row in rows) == report["tokens"] and rows[-1]["to"] == 31
    whole = sum(row["loss"] * row["predictions"] for row in rows) / report["tokens"]
    assert whole == pytest.approx(metrics["loss"])
    further = json.loads(command("evaluate", "novels", "held.txt", "--context", "64", "--json")[1])
    assert further["context"] == 64 and further["metrics"]["loss"] != report["metrics"]["loss"]
    # beside it what is counted of the training texts: the lines that training itself reports
    words = ("train", "language-model", "pages", "--dev", "held.txt", "--out", "counted", "--json")
    trained = json.loads(command(*words, *SMALL)[1])
    code, out, _ = command("evaluate", "counted", "held.txt", "--baseline", "pages", "--json")
    beside = {name: metric["score"] for name, metric in json.loads(out)["metrics"].items()}
    counted = {name for name in beside if name.startswith(("unigram", "ngram", "xz"))}
    assert len(counted) == 3 and {name: beside[name] for name in counted} == {name: trained[name] for name in counted}
    table = command("evaluate", "novels", "held.txt", "--unit", "paragraph", "--by-position")[1]
    assert "bits_per_byte" in table and "tokens before" in table


def test_bits_a_character_and_a_byte_are_of_the_same_bits(
    novels: tuple[Path, dict[str, object], str], command: Command, texts: Path
) -> None:
    """A Chinese character is three bytes."""
    (texts / "moon.txt").write_text("床前明月光，疑是地上霜。" * 3, encoding="utf-8")
    metrics = json.loads(command("evaluate", "novels", "moon.txt", "--json")[1])["metrics"]
    assert metrics["bits_per_character"]["score"] == pytest.approx(3 * metrics["bits_per_byte"]["score"])


def test_score_is_pythons(novels: tuple[Path, dict[str, object], str], command: Command, texts: Path) -> None:
    lines = ["To be, or not.", "夜", "</s>"]
    (texts / "few.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = regard.load(novels[0], device="cpu")
    code, out, err = command("score", "novels", "few.txt")
    assert (code, err) == (0, "")
    assert [float(line) for line in out.splitlines()] == pytest.approx(model.score(lines), abs=1e-3)
    rows = [json.loads(row) for row in command("score", "novels", "few.txt", "--json", "--per-token")[1].splitlines()]
    assert [row["text"] for row in rows] == lines and all(row["tokens"][-1] == "</s>" for row in rows)
    assert all(sum(row["token_logprobs"]) == pytest.approx(row["logprob"]) for row in rows)
    whole = json.loads(command("score", "novels", "few.txt", "--unit", "file", "--json")[1])
    assert whole["text"] == "\n".join(lines) + "\n"
    (texts / "long.jsonl").write_text('{"text": "x"}\n' + json.dumps({"text": "a b " * 99}) + "\n")
    code, out, err = command("score", "novels", "long.jsonl")
    assert (code, out) == (3, "") and "long.jsonl:2" in err and "at most 31 tokens\n" in err
    assert command("score", "novels", "few.txt", "--to", "de")[0] == 2


def test_a_masked_model(texts: Path, command: Command) -> None:
    words = ("train", "masked-lm", "pages", "--out", "guess", "--unit", "paragraph", "--json", *SMALL)
    code, out, _ = command(*words)
    assert code == 0 and json.loads(out)["dev_loss"] > 0
    report = json.loads(command("evaluate", "guess", "held.txt", "--unit", "paragraph", "--json")[1])
    assert set(report["metrics"]) == {"loss", "perplexity", "accuracy"} and report["examples"] == 10
    assert command("embed", "guess", "held.txt", "--out", "held.npy")[0] == 0
    code, _, err = command("score", "guess", "held.txt")
    assert code != 0 and "Traceback" not in err


def test_a_model_that_answers(novels: tuple[Path, dict[str, object], str], command: Command) -> None:
    words = ("train", "language-model", "chat.jsonl", "--from", "novels", "--out", "answers", "--json")
    changes = ("batch.max_len=64", "model.max_len=64", "loop.steps=2", "loop.evaluate_every=2")
    code, _, err = command(*words, *(word for change in changes for word in ("--set", change)))
    assert code == 0 and "read as conversations" in err and "it answers: " in err
    said = [
        json.loads(command("generate", "answers", "--prompt", "Who 3?", "--max-tokens", "4", "--json", *more)[1])
        for more in ((), ("--raw",))
    ]
    assert said[0]["logprobs"] != said[1]["logprobs"]
    report = json.loads(command("evaluate", "answers", "chat.jsonl", "--json")[1])
    assert set(report["metrics"]) == {"loss", "perplexity"} and report["examples"] == 30
    assert (report["cut"], report["left_out"]) == (0, 0)


def test_a_plan_is_what_is_trained(novels: tuple[Path, dict[str, object], str], command: Command) -> None:
    code, out, _ = command("plan", "language-model", "pages", "--json", "--minutes", "3")
    plan = json.loads(out)
    assert code == 0 and plan["recipe"]["task"] == "language-model" and plan["minutes"] == 3
    assert plan["recipe"]["model"]["max_len"] == plan["recipe"]["batch"]["max_len"] == 256
    code, out, _ = command("plan", "novels/recipe.toml")
    assert code == 0 and f"{regard.load('novels', device='cpu').model.config.n_parameters:,} parameters" in out


def test_python_trains_the_same(novels: tuple[Path, dict[str, object], str], texts: Path) -> None:
    tree: dict[str, dict[str, object]] = {}
    for change in TINY.split():
        name, _, value = change.partition("=")
        room, _, field = name.partition(".")
        tree.setdefault(room, {})[field] = int(value)
    result = regard.train("language-model", source=["pages", Path("lines.jsonl")], dev_source="held.txt",
                          out=texts / "python", device="cpu", **tree)  # fmt: skip
    one, two = (texts / run / "checkpoints" / "final" / "model.safetensors" for run in ("novels", "python"))
    assert one.read_bytes() == two.read_bytes() and result.scores["dev_loss"] == novels[1]["dev_loss"]
    with pytest.raises(regard.ConfigError, match="only translations have a target"):
        regard.train("language-model", source="pages", target="held.txt", out="x")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("language-model", 2, "trains on texts"),
        ("masked-lm", 2, "trains on texts"),
        ("language-model absent.txt", 3, "absent.txt"),
        ("language-model pages --unit lien", 2, "did you mean line?"),
        ("language-model lines.jsonl --field body", 3, "lines.jsonl:1"),
        ("language-model pages --from run", 4, "another task"),
        ("language-model short.txt", 3, "too short"),
        ("language-model chat.jsonl --dev lines.jsonl", 3, "lines.jsonl:1"),
        ("masked-lm chat.jsonl", 3, "'text' is missing"),
    ],
)
def test_mistakes(texts: Path, command: Command, words: str, code: int, says: str) -> None:
    got, out, err = command("train", *words.split(), "--out", "nowhere")
    assert (got, out) == (code, "") and says in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [("novels", "no data is given"), ("novels held.txt --context 0", "no such context"), ("novels absent", "absent")],
)
def test_mistakes_of_evaluate(
    novels: tuple[Path, dict[str, object], str], command: Command, words: str, says: str
) -> None:
    got, out, err = command("evaluate", *words.split())
    assert (got in (2, 3), out) == (True, "") and says in err and "Traceback" not in err


def test_a_plan_names_the_size_that_suits_its_tokens(texts: Path, command: Command) -> None:
    """Twenty tokens a parameter; and a text that is read hundreds of times is too little text."""
    words = ("plan", "language-model", "pages", "--minutes", "1")
    found = json.loads(command(*words, "--json")[1])
    tokens = found["steps"] * 0.9 * found["recipe"]["batch"]["tokens"]
    assert found["optimal_parameters"] == pytest.approx(tokens / 20, rel=0.01)
    shown = command(*words)[1]
    assert "best size" in shown and "more text would help more than more minutes" in shown and "target" not in shown
    pairs = command("plan", "translation", "train.en", "train.de", "--minutes", "1")[1]
    assert "best size" not in pairs and "target tokens" in pairs
