"""`regard train classification`, `classify` and `evaluate` on it, by the command."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.cli.main import main
from regard.hub.atomic import commit_folder
from regard.hub.folder import write_model
from regard.model import Model, TransformerConfig, make_model
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
Run = Callable[..., tuple[int, str, str]]
TINY = ("loop.steps=3", "loop.evaluate_every=3", "tokenizer.vocab_size=400", "model.d_model=16", "batch.tokens=600")


@pytest.fixture
def run(tmp_path: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("classify", "model")` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(workplace / "cache"))

    def ask(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*words, "--threads", "1", "--device", "cpu"]), *capsys.readouterr()

    return ask


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """`folder(kind, texts)` is a random classifier of that kind over short English texts."""

    def write(kind: str = "one", texts: int = 1, labels: tuple[str, ...] = ("bad", "good", "none")) -> Path:
        tokenizer = Tokenizer.train(["the film is a good one , not a bad one"], kind="bpe", vocab_size=300)
        tokenizer = tokenizer.framed(before="bos", after="eos")
        config = TransformerConfig(
            vocab_size=300, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, norm_order="pre", n_token_types=2,
            max_len=32,
        )  # fmt: skip
        names = ("number",) if kind == "number" else labels
        model = make_model(config, "classifier", len(names)).eval()
        about = {"task": "classification", "labels": list(names), "label_kind": kind, "texts": texts}
        commit_folder(tmp_path / kind, lambda draft: write_model(draft, model, tokenizer, about))
        return tmp_path / kind

    return write


def test_from_files_to_scores(run: Run, data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    """The whole way by the command, on questions of TREC; what the run printed is what `evaluate` finds."""
    lines = (data_dir("trec") / "train.txt").read_text(encoding="utf-8").split("\n")
    (tmp_path / "train.txt").write_text("\n".join(lines[:150]) + "\n", encoding="utf-8")
    (tmp_path / "dev.txt").write_text("\n".join(lines[150:200]) + "\n", encoding="utf-8")
    changes = [word for change in (*TINY, 'data.label_until=":"') for word in ("--set", change)]
    words = ["train", "classification", "train.txt", "--dev", "dev.txt", "--out", "model", "--json", *changes]
    code, out, err = run(*words)
    assert code == 0, err
    trained = json.loads(out)
    assert "150 texts, each labelled with one of 6 classes" in err
    code, out, err = run("evaluate", "model", "dev.txt", "--json", "--out", "report", "--baseline", "train.txt")
    assert code == 0, err
    report = json.loads(out)
    metrics = report["metrics"]
    assert metrics["accuracy"]["score"] == pytest.approx(trained["dev_accuracy"])
    assert metrics["accuracy"]["low"] <= metrics["accuracy"]["score"] <= metrics["accuracy"]["high"]
    assert metrics["bag_of_words_accuracy"]["score"] > metrics["majority_accuracy"]["score"]
    assert report["examples"] == 50 == sum(row["support"] for row in report["classes"])
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {"confusion.svg", "errors.jsonl", "reliability.svg"}
    errors = [json.loads(line) for line in (tmp_path / "report" / "errors.jsonl").read_text().splitlines()]
    assert len(errors) == round(50 * (1 - metrics["accuracy"]["score"]))
    sure = [row["probability"] for row in errors]
    assert sure == sorted(sure, reverse=True) and errors[0]["where"].startswith("dev.txt:")
    code, out, _ = run("compare", "model", "model", "dev.txt")
    assert code == 0 and "the same model twice: every one of the 50 labels is the same" in out
    code, out, _ = run("evaluate", "model", "dev.txt")
    assert code == 0 and "accuracy" in out and "(95 %)" in out and "ENTY" in out


def test_law_31_a_line_in_a_line_out(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    """The command says what Python says, byte for byte, for odd lines too."""
    path, texts = folder(), ["a good one", "", "  ", "</s> 你好 e\u0301", "not\u2028bad"]
    (tmp_path / "a.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    code, out, _ = run("classify", str(path), "a.txt")
    found = regard.load(path, device="cpu").classify(texts)
    expected = "".join(f"{label.label}\t{label.probability:.4f}\t{text}\n"
                       for label, text in zip(found, texts, strict=True))  # fmt: skip
    assert (code, out) == (0, expected)
    code, out, _ = run("classify", str(path), "a.txt", "--top-k", "9")
    assert len(out.split("\n")) - 1 == 3 * len(texts), "no more classes than there are"
    code, out, _ = run("classify", str(path), "a.txt", "--json", "--top-k", "2")
    rows = [json.loads(line) for line in out.rstrip("\n").split("\n")]
    assert [row["text"] for row in rows] == texts and [len(row["likeliest"]) for row in rows] == [2] * 5
    assert [row["probability"] for row in rows] == [row["likeliest"][0]["probability"] for row in rows]


def test_why(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    path = folder()
    (tmp_path / "a.txt").write_text("a good one\n\n", encoding="utf-8")
    code, out, _ = run("classify", str(path), "a.txt", "--why", "--json")
    first, second = (json.loads(line) for line in out.rstrip("\n").split("\n"))
    model = regard.load(path, device="cpu")
    without = dict(model.classify(["a  one"], top_k=3)[0].likeliest)[first["label"]]
    words = first["why"]["words"]
    assert [word["text"] for word in words] == ["a", "good", "one"]
    assert words[1]["effect"] == pytest.approx(first["probability"] - without, abs=1e-6)
    assert [word["text"] for word in second["why"]["words"]] == []
    assert first["why"]["tokens"][0]["token"] == "<s>"
    code, out, _ = run("classify", str(path), "a.txt", "--why")
    assert code == 0 and out.split("\n")[0].split("\t")[3].startswith("a:")


def test_several_numbers_and_pairs(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a good one\n", encoding="utf-8")
    number = regard.load(folder("number"), device="cpu").classify(["a good one"])[0]
    assert run("classify", "number", "a.txt")[1] == f"{number.label:.4f}\t\ta good one\n"
    pair = regard.load(folder("one", 2), device="cpu").classify([("a", "b")])[0]
    (tmp_path / "b.txt").write_text("a\tb\n", encoding="utf-8")
    assert run("classify", "one", "b.txt")[1] == f"{pair.label}\t{pair.probability:.4f}\ta\tb\n"


def test_each_of_several_classes_has_a_probability_of_its_own(
    run: Run, folder: Callable[..., Path], tmp_path: Path
) -> None:
    """With --top-k and without, as text and as JSON, what stands beside a class is the probability of that class."""
    texts = ["a good one", "not a bad film , not a bad one", "", "film film film"]
    (tmp_path / "a.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    found = regard.load(folder("several"), device="cpu").classify(texts, top_k=3)
    assert len({label.label for label in found}) > 1, "the texts differ in how many classes they have"
    shares = [dict(label.likeliest) for label in found]
    above = [[name for name in ("bad", "good", "none") if own[name] > 0.5] for own in shares]
    _, out, _ = run("classify", "several", "a.txt")
    expected = ["\t".join(("|".join(names), "|".join(f"{own[name]:.4f}" for name in names), text))
                for names, own, text in zip(above, shares, texts, strict=True)]  # fmt: skip
    assert out.split("\n") == [*expected, ""]
    _, out, _ = run("classify", "several", "a.txt", "--top-k", "2")
    rows = [line.split("\t")[:2] for line in out.rstrip("\n").split("\n")]
    assert rows == [[name, f"{share:.4f}"] for label in found for name, share in label.likeliest[:2]]
    for top_k in ("1", "2"):
        _, out, _ = run("classify", "several", "a.txt", "--json", "--top-k", top_k)
        said = [json.loads(line) for line in out.splitlines()]
        assert [row["label"] for row in said] == above
        assert [row["probability"] for row in said] == [
            pytest.approx([own[name] for name in names]) for names, own in zip(above, shares, strict=True)
        ]
    assert [len(row["likeliest"]) for row in said] == [2] * 4


SINGLE, PAIRS = [("a good one",), ('a "bad" film',)], [("the film", "is good"), ("a film", "not, a bad one")]


def as_table(ends: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as a file of that name has them; without names, which a .jsonl has, no header."""
    if ends == "jsonl":
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    stream = io.StringIO()
    if ends == "csv":
        csv.writer(stream, lineterminator="\n").writerows([*([names] * bool(names)), *rows])
        return stream.getvalue()
    return "".join("\t".join(row) + "\n" for row in [*([names] * bool(names)), *rows])


@pytest.mark.parametrize("ends", ["tsv", "csv", "jsonl", "csv.gz"])
@pytest.mark.parametrize(
    ("names", "texts"),
    [(("text", "label"), 1), (("Review",), 1), (("label", "id", "sentence"), 1), ((), 1), ((), 2),
     (("premise", "hypothesis", "label"), 2), (("sentence2", "sentence1"), 2)],
)  # fmt: skip
def test_a_file_in_the_format_of_training_is_read_as_such(
    run: Run, folder: Callable[..., Path], tmp_path: Path, names: tuple[str, ...], texts: int, ends: str
) -> None:
    """Whatever its columns and its format are: a result for each row, of its texts; header and label are none."""
    wanted = SINGLE if texts == 1 else PAIRS
    header = names or (("text", "label") if texts == 1 else ("premise", "hypothesis", "label"))
    own: dict[str, Sequence[str]] = {name.lower(): [] for name in header}
    order = {"premise": 0, "hypothesis": 1, "sentence1": 0, "sentence2": 1, "text": 0, "review": 0, "sentence": 0}
    rows = [[row[order[name]] if name in order else "good" for name in own] for row in wanted]
    data, name = as_table(ends.removesuffix(".gz"), header if ends == "jsonl" else names, rows).encode(), f"a.{ends}"
    (tmp_path / name).write_bytes(gzip.compress(data) if ends.endswith("gz") else data)
    path = folder(texts=texts)
    code, out, err = run("classify", str(path), name, "--json")
    assert code == 0, err
    said = [json.loads(line) for line in out.splitlines()]
    assert [row["text"] for row in said] == [row[0] if texts == 1 else list(row) for row in wanted]
    found = regard.load(path, device="cpu").classify(wanted)
    assert [row["probability"] for row in said] == [pytest.approx(label.probability) for label in found]
    code, out, _ = run("classify", str(path), name)
    assert [line.split("\t")[2:] for line in out.splitlines()] == [list(row) for row in wanted]


@pytest.mark.parametrize("ends", ["tsv", "csv"])
def test_a_header_of_unknown_names_is_found_as_in_training(
    run: Run, folder: Callable[..., Path], tmp_path: Path, ends: str
) -> None:
    rows = [(f"film number {i}", ("good", "bad")[i % 2]) for i in range(12)]
    (tmp_path / f"a.{ends}").write_text(as_table(ends, ("tweet", "target"), rows), encoding="utf-8")
    (tmp_path / f"b.{ends}").write_text(as_table(ends, (), [row[::-1] for row in rows]), encoding="utf-8")
    path = str(folder())
    code, out, err = run("classify", path, f"a.{ends}")
    assert code == 0 and [line.split("\t")[2] for line in out.splitlines()] == [text for text, _ in rows]
    assert "tweet" in err and "--columns 1,2" in err
    code, out, _ = run("classify", path, f"a.{ends}", "--columns", "1,2")
    assert code == 0 and [line.split("\t")[2] for line in out.splitlines()] == ["tweet", *(text for text, _ in rows)]
    code, _, err = run("classify", path, f"b.{ends}")
    assert code == 3 and "--columns 2,1" in err, "the labels are the first column"
    code, out, _ = run("classify", path, f"b.{ends}", "--columns", "2,1")
    assert code == 0 and [line.split("\t")[2] for line in out.splitlines()] == [text for text, _ in rows]


def test_columns_are_chosen_as_in_training(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("no\tPhrase\tMood\n1\tone\tgood\n", encoding="utf-8")
    (tmp_path / "b.tsv").write_text("1\tone\tgood\n", encoding="utf-8")
    (tmp_path / "c.csv").write_text('text,label\n"two\nlines",good\n', encoding="utf-8")
    one, two = str(folder()), str(folder("several", 2))
    for model, name, columns, texts in (
        (one, "a.tsv", "Phrase", ["one"]), (one, "a.tsv", "Phrase,Mood", ["one"]), (one, "b.tsv", "2", ["one"]),
        (two, "a.tsv", "Mood,Phrase", ["good", "one"]), (two, "b.tsv", "2,1,3", ["one", "1"]),
        (one, "c.csv", "text", ["two lines"]), (one, "c.csv", "1", ["two lines"]),
    ):  # fmt: skip
        code, out, err = run("classify", model, name, "--columns", columns)
        assert code == 0 and [line.split("\t")[2:] for line in out.splitlines()] == [texts], (columns, out, err)


@pytest.mark.parametrize(
    ("name", "content", "words", "code", "says"),
    [
        ("a.tsv", "Phrase\tSentiment\none\tgood\n", "", 3, "cannot tell the columns"),
        ("a.tsv", "a\tb\tc\n", "", 3, "--columns TEXT"),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\tgood\n", "", 3, "a first row with 'premise, hypothesis, label'"),
        ("a.tsv", "text\tlabel\none\n", "", 3, "a.tsv:2"),
        ("a.jsonl", '{"text": "one"}\n{"label": "good"}\n', "", 3, "a.jsonl:2: the field 'text' is missing"),
        ("a.jsonl", '{"text": 1}\n', "", 3, "not a string"),
        ("a.jsonl", '{"text": "one"}\n{"text"\n', "", 3, "a.jsonl:2"),
        ("a.tsv", "a\tb\n", "--columns phrase", 3, "there are no such columns"),
        ("a.tsv", "a\tb\n", "--columns 3", 3, "there are no such columns"),
        ("a.tsv", "a\tb\n", "--columns a,b,c", 2, "--columns"),
        ("a.txt", "a\tb\n", "--columns 1", 2, "only a table has columns"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_read(
    run: Run, folder: Callable[..., Path], tmp_path: Path, name: str, content: str, words: str, code: int, says: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    got, _, err = run("classify", str(folder()), name, *words.split())
    assert got == code and says in err and "--skip-bad" not in err


@pytest.mark.parametrize("name", ["-", "b.txt", "b.tsv", "b.jsonl"])
def test_what_stands_before_a_bad_line_is_answered(
    run: Run, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of a pipe, a file and a table; then the bad line is named."""
    lines = ["a\tb", "c\td", "only one", "e\tf"]
    if name == "b.jsonl":
        lines = [json.dumps(dict(zip(("text1", "text2"), line.split("\t"), strict=False))) for line in lines]
    (tmp_path / "b.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder(texts=2)
    with (tmp_path / "b.txt").open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        (tmp_path / "b.txt").rename(tmp_path / name)
        code, out, err = run("classify", str(path), name)
    assert code == 3 and f"{name}:3" in err
    assert [line.split("\t")[2:] for line in out.splitlines()] == [["a", "b"], ["c", "d"]]


def test_what_a_model_cannot_do(run: Run, folder: Callable[..., Path], workplace: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n", encoding="utf-8")
    code, _, err = run("classify", str(workplace / "run"), "a.txt")
    assert code == 2 and "classification" in err
    code, _, err = run("translate", str(folder()), "a.txt")
    assert code == 2 and "it can classify" in err
    assert regard.load(tmp_path / "one", device="cpu").embed(["text"]).shape == (1, 16)
    with pytest.raises(TypeError):
        regard.load(tmp_path / "one", device="cpu").classify("one string")


def test_a_class_that_the_model_does_not_know(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("fine\tgood\nodd\tgod\n", encoding="utf-8")
    code, _, err = run("evaluate", str(folder()), "a.tsv")
    assert code == 3 and "a.tsv:2" in err and "did you mean good" in err


@pytest.mark.parametrize("labels", [None, [], ["a", "a", "b"], ["a", 1, "b"], "abc", ["a", "b"]])
def test_labels_that_do_not_fit_the_head(run: Run, folder: Callable[..., Path], labels: object) -> None:
    """Fault 8: named before use, exit code 4."""
    path = folder()
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    config["labels"] = labels
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (path / "MANIFEST.sha256").unlink()
    (path.parent / "a.txt").write_text("text\n", encoding="utf-8")
    code, _, err = run("classify", str(path), "a.txt")
    assert code == 4 and ("labels" in err or "head.out" in err)


def test_flags_that_do_not_go_together(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n", encoding="utf-8")
    code, _, err = run("train", "classification", "a.tsv", "--out", "x", "--multi-label", "--regression")
    assert code == 2 and "either" in err
    code, _, err = run("train", "classification", "a.tsv", "--out", "x", "--columns", "a,b,c,d")
    assert code == 2 and "--columns" in err
    code, _, err = run("train", "classification", "--out", "x")
    assert code == 2 and "labelled texts" in err


def test_gradient_times_input_adds_up_where_all_is_linear() -> None:
    """For a score that is linear in the embeddings the effects are exact: they add up to it (without its constant)."""
    import torch

    from regard.inspect.attribution import gradient_x_input

    config = TransformerConfig(vocab_size=30, d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, norm_order="pre")
    model: Model = make_model(config, "none").eval()
    for parameter in model.transformer.encoder.layers.parameters() if model.transformer.encoder else ():
        torch.nn.init.zeros_(parameter)  # a layer of nothing: what goes in comes out, and is normed
    direction, ids = torch.randn(16), [3, 4, 5]
    seen = {}

    def score(hidden: torch.Tensor) -> torch.Tensor:
        seen["hidden"] = hidden.detach()
        return (hidden @ direction).sum()

    effects = gradient_x_input(model, ids, [0, 0, 0], score)
    assert effects.shape == (3,) and all(p.grad is None for p in model.parameters())
    shifted = model.transformer.tokens.weight.detach().clone()
    for place, token in enumerate(ids):
        with torch.no_grad():
            model.transformer.tokens.weight[token] *= 1 + 1e-3
        after = (model.transformer.encode(torch.tensor([ids])).detach() @ direction).sum()
        model.transformer.tokens.weight.data.copy_(shifted)
        slope = float(after - (seen["hidden"] @ direction).sum()) / 1e-3
        assert effects[place] == pytest.approx(slope, abs=0.02)
    assert np.abs(effects).max() > 0
