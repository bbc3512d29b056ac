"""Labelled texts from files: every shape of file gives the same examples, and what is wrong is named with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from regard.data.labelled import LabelKind, Labelled, read_labelled
from regard.errors import DataError

Write = Callable[[str, str], Path]
ROWS = [("a fine film", "good"), ("tab less, quote less", "bad"), ("long and dull", "bad")]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        return tmp_path / name

    return file


def read(path: Path, kind: LabelKind = "one", columns: Sequence[str] | None = None) -> Labelled:
    return read_labelled([path], kind=kind, columns=columns)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "".join(f"{text}\t{label}\n" for text, label in ROWS)),
        ("header.tsv", "label\tid\tsentence\r\n" + "".join(f"{label}\t7\t{text}\r\n" for text, label in ROWS)),
        ("a.csv", "Text,Label\n" + "".join(f'"{text}",{label}\n' for text, label in ROWS)),
        ("a.json", "".join(json.dumps({"label": label, "review": text}) + "\n" for text, label in ROWS)),
        ("a.txt", "\ufeff" + "".join(f"__label__{label} {text}\n" for text, label in ROWS)),
    ],
)
def test_every_shape_of_file_holds_the_same(write: Write, name: str, text: str) -> None:
    path = write(name, text)
    found = read(path)
    assert list(zip((row[0] for row in found.texts), found.labels, strict=True)) == ROWS
    assert found.classes == ("bad", "good") and not found.paired
    first = 1 + text.lower().startswith(("label", "text"))
    assert [found.where(i) for i in range(3)] == [f"{path}:{first + i}" for i in range(3)]


def test_columns_by_name_and_number_and_what_is_there_instead(write: Write) -> None:
    path = write("a.tsv", "mood\tnumber\tsaid\ngood\t1\tyes\nbad\t2\tno\n")
    assert read(path, columns=["said", "mood"]).texts == [("yes",), ("no",)]
    assert read(path, columns=["3", "1"]).labels == ["mood", "good", "bad"], (
        "a number says so: unknown names, no header"
    )
    with pytest.raises(DataError, match="no columns text, mod") as caught:
        read(path, columns=["text", "mod"])
    assert "mood, number, said" in str(caught.value)
    with pytest.raises(DataError, match="cannot tell the columns"):
        read(write("b.jsonl", '{"satz": "ja", "klasse": "gut"}\n'))


def test_a_header_without_a_label_is_no_example(write: Write) -> None:
    """The test files of GLUE have no labels: their first row must not become an example of the class `sentence2`."""
    with pytest.raises(DataError, match="cannot tell the columns"):
        read(write("test.tsv", "index\tsentence1\tsentence2\n0\tIt rains.\tIt is wet.\n"))


FILMS = [(f"film number {i} , said to be fine", "good" if i % 3 else "bad") for i in range(12)]
NEWS = [
    (f"headline {i} of a day", f"what happened on day {i}", ["World", "Sports", "Business"][i % 3]) for i in range(12)
]


@pytest.mark.parametrize("separator", ["\t", ","])
@pytest.mark.parametrize(
    ("names", "kind", "labels"),
    [
        ("tweet target", "one", ["good", "bad"]), ("Utterance Gold-Label", "one", ["1", "0", "2"]),
        ("tweet aspects", "several", ["food|price", "food", "price", ""]), ("文本 标签", "one", ["好", "差"]),
    ],
)  # fmt: skip
def test_a_header_of_unknown_names_is_no_example(
    write: Write, names: str, kind: LabelKind, labels: list[str], separator: str
) -> None:
    lines = [names.split(), *([text.replace(",", ""), labels[i % len(labels)]] for i, (text, _) in enumerate(FILMS))]
    path = write("a.tsv" if separator == "\t" else "a.csv", "".join(separator.join(line) + "\n" for line in lines))
    found = read(path, kind)
    assert len(found) == 12 and found.where(0) == f"{path}:2"
    assert set(found.classes) == {name for label in labels for name in label.split("|") if name}
    [header] = found.headers
    assert header.where == f"{path}:1" and names.split()[1] in str(header) and "--columns 1,2" in str(header)
    assert len(read(path, kind, ["1", "2"])) == 13, "which is how to say that it is an example"
    named = read(path, kind, names.split())
    assert (len(named), named.headers) == (12, ())


def test_names_beside_numbers_are_a_header_though_they_are_more_words(write: Write) -> None:
    path = write(
        "a.tsv", "what was said\thow it was meant\n" + "".join(f"{t}\t{i % 2}\n" for i, (t, _) in enumerate(FILMS))
    )
    assert read(path).classes == ("0", "1") and len(read(path).headers) == 1


def test_of_numbers_a_header_of_unknown_names_is_an_error_that_says_how_to_name_it(write: Write) -> None:
    path = write("a.tsv", "tweet\twarmth\n" + "".join(f"{text}\t{i}.5\n" for i, (text, _) in enumerate(FILMS)))
    for columns in (None, ["1", "2"]):
        with pytest.raises(DataError) as caught:
            read(path, "number", columns)
        assert "a.tsv:1" in str(caught.value) and "--columns tweet,warmth" in str(caught.value)
    assert len(read(path, "number", ["tweet", "warmth"])) == 12


@pytest.mark.parametrize("first", ["a sentence of a rare kind\trare", "film number 0\tgood", "Wow\tgood"])
def test_a_first_example_is_kept(write: Write, first: str) -> None:
    """Also the only one of its class, where its text is more than a word; `rare` is told by the checks."""
    found = read(write("a.tsv", first + "\n" + "".join(f"{text}\t{label}\n" for text, label in FILMS)))
    assert len(found) == 13 and found.headers == ()


def test_too_few_rows_to_tell_a_header(write: Write) -> None:
    assert len(read(write("a.tsv", "tweet\ttarget\nfine\tgood\ndull\tbad\n"))) == 3
    assert len(read(write("b.tsv", "Wow\tgood\nfine\tbad\ndull\tbad\n"))) == 3, "one class would be left"


def test_each_file_has_its_own_header(write: Write) -> None:
    body = "".join(f"{text}\t{label}\n" for text, label in FILMS)
    paths = [
        write(name, head + body)
        for name, head in (("a.tsv", "tweet\ttarget\n"), ("b.tsv", ""), ("c.tsv", "text\tlabel\n"))
    ]
    found = read_labelled(paths)
    assert len(found) == 36 and [header.where for header in found.headers] == [f"{paths[0]}:1"]
    assert [found.where(i) for i in (0, 12, 24)] == [f"{paths[0]}:2", f"{paths[1]}:1", f"{paths[2]}:2"]


@pytest.mark.parametrize("names", ["sentence\tlabel", "Text\tLabel", "tweet\tlabel", "sentence\tverdict"])
def test_columns_by_number_do_not_make_a_header_an_example(write: Write, names: str) -> None:
    """Two known names always make a header; of one the whole file must say that it is none of the classes."""
    path = write("a.tsv", names + "\n" + "".join(f"{text}\t{label}\n" for text, label in FILMS))
    found = read(path, columns=["1", "2"])
    assert (len(found), found.classes, found.where(0)) == (12, ("bad", "good"), f"{path}:2")
    swapped = write("b.tsv", "label\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in FILMS))
    assert read(swapped, columns=["2", "1"]).classes == ("bad", "good")
    numbers = write("c.tsv", "sentence\tscore\n" + "".join(f"{text}\t{i}.5\n" for i, (text, _) in enumerate(FILMS)))
    assert len(read(numbers, "number", ["1", "2"])) == 12


@pytest.mark.parametrize(
    ("name", "head", "order", "mend"),
    [
        ("a.tsv", "", (2, 0), "--columns 2,1"), ("a.csv", "", (2, 0, 1), "--columns 2,3,1"),
        ("a.tsv", "", (0, 2, 1), "--columns 1,3,2"), ("a.tsv", "verdict\ttweet\n", (2, 0), "--columns tweet,verdict"),
        ("a.csv", "topic,title,description\n", (2, 0, 1), "--columns title,description,topic"),
        ("a.csv", "class,title,description\n", (2, 0, 1), "--columns title,description,class"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["one", "several"])
def test_a_label_that_does_not_come_last_is_an_error_with_its_mend(
    write: Write, name: str, head: str, order: tuple[int, ...], mend: str, kind: LabelKind
) -> None:
    separator = "\t" if name == "a.tsv" else ","
    path = write(name, head + "".join(separator.join(row[i] for i in order) + "\n" for row in NEWS))
    with pytest.raises(DataError) as caught:
        read(path, kind)
    assert f"{name}:1" in str(caught.value) and str(caught.value).endswith(mend)
    found = read(path, kind, mend.partition(" ")[2].split(","))
    assert (len(found), found.classes) == (12, ("Business", "Sports", "World"))


def test_premises_that_are_shared_are_no_labels(write: Write) -> None:
    text = "".join(f"premise {i % 3}\ta hypothesis {i}\t{'yes' if i % 2 else 'no'}\n" for i in range(12))
    assert read(write("a.tsv", text)).classes == ("no", "yes")
    numbers = "".join(f"premise {i % 3}\ta hypothesis {i}\t{i / 7}\n" for i in range(12))
    assert len(read(write("b.tsv", numbers), "number")) == 12


def test_labels_that_look_like_numbers_are_names(write: Write) -> None:
    path = write("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": "01"}\n{"text": "c", "label": 10}\n'
                            '{"text": "d", "label": "2"}\n{"text": "e", "label": " 1 "}\n')  # fmt: skip
    assert read(path).labels == ["1", "01", "10", "2", "1"]
    assert read(path).classes == ("01", "1", "2", "10"), "whole numbers in their order, which is that of the ids"


def test_several_classes(write: Write) -> None:
    path = write("a.tsv", "text\tlabels\na\tx|y\nb\t\nc\tz\n")
    assert read(path, "several").labels == [("x", "y"), (), ("z",)]
    path = write("a.jsonl", '{"text": "a", "labels": ["y", "x"]}\n{"text": "b", "labels": []}\n')
    assert read(path, "several").labels == [("x", "y"), ()]
    with pytest.raises(DataError, match="--multi-label"):
        read(path)


@pytest.mark.parametrize("bad", ["warm", "nan", "inf", ""])
def test_numbers(write: Write, bad: str) -> None:
    path = write("a.tsv", "one\ttwo\t1.5\nthree\tfour\t-2e1\n")
    assert read(path, "number").labels == [1.5, -20.0] and read(path, "number").paired
    with pytest.raises(DataError) as caught:
        read(write("b.tsv", f"one\ttwo\t1.5\nthree\tfour\t{bad}\n"), "number")
    assert "b.tsv:2" in str(caught.value)


def test_pairs_without_an_agreed_label_are_left_out(write: Write) -> None:
    lines = [{"sentence1": "a", "sentence2": "b", "label": label} for label in ("neutral", "-", "entailment")]
    found = read(write("a.jsonl", "".join(json.dumps(line) + "\n" for line in lines)))
    assert (found.labels, found.undecided) == (["neutral", "entailment"], 1)
    assert read(write("b.tsv", "plus\t+\nminus\t-\n")).labels == ["+", "-"], "of single texts it is a class"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("text\tlabel\nfine\tgood\nfine\n", 3), ("text\tlabel\nfine\tgood\tmore\n", 2), ("text\tlabel\nfine\t\n", 2),
        ("text\tlabel\n\xe9\tgood\nfine\t \n", 3),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_or_left_out(write: Write, text: str, line: int) -> None:
    path = write("a.tsv", text + "another\tbad\n")
    with pytest.raises(DataError) as caught:
        read_labelled([path], skip_bad=0)
    assert f"a.tsv:{line}" in str(caught.value) and "--skip-bad" in str(caught.value)
    with pytest.raises(DataError) as caught:
        read(path)
    assert "correct the line" in str(caught.value) and "--skip-bad" not in str(caught.value), (
        "the verb has no such flag"
    )
    found = read_labelled([path], skip_bad=1)
    assert len(found.skipped) == 1 and found.labels[-1] == "bad"


def test_files_that_do_not_go_together(write: Write) -> None:
    one, two = write("a.tsv", "text\tlabel\nfine\tgood\n"), write("b.tsv", "a\tb\tgood\n")
    with pytest.raises(DataError, match="do not go together"):
        read_labelled([one, two])
    with pytest.raises(DataError, match="no examples"):
        read(write("empty.tsv", ""))


def test_the_real_sets(data_dir: Callable[[str], Path]) -> None:
    """Counts as their READMEs have them."""
    trec = read_labelled([data_dir("trec") / "train.txt"], until=":")
    counts = {name: trec.labels.count(name) for name in trec.classes}
    assert counts == {"ABBR": 86, "DESC": 1162, "ENTY": 1250, "HUM": 1223, "LOC": 835, "NUM": 896}
    assert len(read_labelled([data_dir("trec") / "train.txt"]).classes) == 50
    dev = read(data_dir("ocnli") / "dev.json.gz")
    assert (len(dev), dev.undecided, dev.paired) == (2950, 50, True)
    rte = read(data_dir("rte") / "dev.tsv.gz")
    assert len(rte) == 277 and rte.labels.count("entailment") / 277 == pytest.approx(0.527, abs=1e-3)
