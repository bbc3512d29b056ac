"""`regard export` of classifiers, taggers and answerers: in transformers they say the same, and by the same names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

import regard
from regard.cli.export import Texts, export
from regard.errors import CheckpointError, ConfigError
from regard.hub.atomic import commit_folder
from regard.hub.folder import ModelFolder, load_model, write_model
from regard.hub.labels import settle_units
from regard.model import Learned, TransformerConfig, make_model
from regard.tasks.parity_cases import SENTENCES
from regard.text import Tokenizer

logging.disable_progress_bar()
pytestmark = pytest.mark.usefixtures("one_thread")
Command = Callable[..., tuple[int, str, str]]

LABELS, TAGS = ["bad", "good", "none at all"], ["O", "B-NAME", "I-NAME"]
BERT: dict[str, Any] = {"positions": Learned(), "n_token_types": 2}
ROBERTA: dict[str, Any] = {"positions": Learned(offset=1), "n_token_types": 1}
DISTIL: dict[str, Any] = {"positions": Learned()}
ONE = {"task": "classification", "labels": LABELS, "label_kind": "one", "texts": 1}
KINDS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "bert, one class": ("BERT", "cls-classifier", BERT, ONE),
    "bert, several classes": ("BERT", "cls-classifier", BERT, {**ONE, "label_kind": "several"}),
    "roberta, one class": ("RoBERTa", "cls-classifier", ROBERTA, ONE),
    "distilbert, one class": ("DistilBERT", "relu-classifier", DISTIL, ONE),
    "bert, a number": ("BERT", "cls-classifier", BERT, {
        "task": "classification", "labels": ["number"], "label_kind": "number", "label_units": [3.0, 0.5], "texts": 1}),
    "bert, tags": ("BERT", "tagger", BERT, {"task": "tagging", "labels": TAGS}),
    "distilbert, tags": ("DistilBERT", "tagger", DISTIL, {"task": "tagging", "labels": TAGS}),
    "roberta, answers": ("RoBERTa", "span", ROBERTA, {
        "task": "question-answering", "answering": {"length": 48, "overlap": 8, "longest": 30, "null": False}}),
}  # fmt: skip


def drawn(head: str, axes: dict[str, Any], about: dict[str, Any]) -> ModelFolder:
    tokenizer = Tokenizer.train(SENTENCES * 3, vocab_size=420).framed(before="bos", after="eos")
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=2, max_len=96,
        norm_order="post", norm_eps=1e-12, activation="gelu", embed_norm=True, **axes,
    )  # fmt: skip
    model = make_model(config, head, len(about.get("labels", ())) or 1).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.35).add_(name.endswith("norm.weight"))
    return ModelFolder(Path("drawn"), model, tokenizer, tokenizer, {"languages": [None, None], **about})


@pytest.mark.parametrize("kind", KINDS)
def test_they_say_the_same_there_and_come_back_as_what_they_are(kind: str, tmp_path: Path) -> None:
    family, head, axes, about = KINDS[kind]
    found = drawn(head, axes, about)
    settle_units(found.model, found.about)
    report = export(found, tmp_path / "hf", to="hf", data=Texts(SENTENCES[:5]))
    assert report["family"] == family and report["passed"] and report["quantity"] == "logits"
    assert report["spread"] > (0.01 if kind == "bert, a number" else 0.2) and report["outputs"] == 0
    told = AutoConfig.from_pretrained(tmp_path / "hf")
    if "labels" in about:
        assert [told.id2label[i] for i in range(len(about["labels"]))] == about["labels"]
        assert told.label2id == {name: i for i, name in enumerate(about["labels"])}
    again = load_model(tmp_path / "hf")
    assert again.about["task"] == about["task"] and again.about["family"] == family
    assert again.about.get("labels") == about.get("labels") and again.about.get("label_kind") == about.get("label_kind")
    with torch.no_grad():
        ids, real = torch.tensor([[5, 9, 20, 7]]), torch.ones(1, 4, dtype=torch.bool)
        args = (real,) if "classifier" in head else ()
        one, two = (model.head(model.transformer.encode(ids), *args) for model in (found.model, again.model))
    assert torch.equal(one, two)


def test_an_imported_classifier_gives_the_labels_and_probabilities_of_transformers(
    command: Command, tmp_path: Path
) -> None:
    """Through files: written, imported by the command, and used by both on texts, and on pairs of texts."""
    export(drawn("cls-classifier", BERT, ONE), tmp_path / "hf", to="hf", data=Texts(SENTENCES[:2]))
    code, out, err = command("import", str(tmp_path / "hf"), str(tmp_path / "ours"))
    assert code == 0 and "regard classify" in out + err
    model = regard.load(tmp_path / "ours", device="cpu")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    for label, text in zip(model.classify(SENTENCES[:4], top_k=3), SENTENCES[:4], strict=True):
        with torch.no_grad():
            shares = theirs(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0]
        assert label.label == theirs.config.id2label[int(shares.argmax())]
        assert dict(label.likeliest) == pytest.approx(
            {theirs.config.id2label[i]: float(share) for i, share in enumerate(shares)}, abs=1e-5
        )
    assert model.classifier.parts is None, "the folder does not say, and a classifier of pairs looks the same"
    (pair,) = model.classify([(SENTENCES[0], SENTENCES[1])])
    assert pair.label in LABELS
    (tmp_path / "a.txt").write_text(f"{SENTENCES[0]}\t{SENTENCES[1]}\n", encoding="utf-8")
    code, out, _ = command("classify", str(tmp_path / "ours"), str(tmp_path / "a.txt"), "--json")
    assert code == 0 and json.loads(out)["text"] == [*SENTENCES[:2]] and json.loads(out)["label"] == pair.label
    with pytest.raises(ConfigError, match="not what the model was trained on"):
        model.classify([(SENTENCES[0], SENTENCES[1]), SENTENCES[2]])


def test_law_37_an_imported_model_answers_with_pieces_of_the_text(tmp_path: Path) -> None:
    """Of a text of three windows, in NFD and with emoji; and where transformers finds the best span of a short text."""
    found = drawn("span", BERT, KINDS["roberta, answers"][3])
    export(found, tmp_path / "hf", to="hf", data=Texts(SENTENCES[:1]))
    model = regard.load(tmp_path / "hf", device="cpu")
    assert model.about["answering"] == {"length": 96, "overlap": 24, "longest": 30, "null": False}
    context = " ".join(["Cafe\u0301 \U0001f6b2 fährt, nai\u0308ve Leute warten."] * 12)
    assert len(model.tokenizer.encode(context)) > 2 * 96
    answer = model.answer("Wer wartet ?", context, top_k=5)
    for one in (answer, *answer.alternatives):
        assert one.text and one.text == context[one.start : one.end]
    question, short = "What is red ?", SENTENCES[0]
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "hf").eval()
    given = AutoTokenizer.from_pretrained(tmp_path / "hf")(question, short, return_tensors="pt")
    with torch.no_grad():
        out = theirs(**given)
    answer, first = model.answer(question, short), given.input_ids[0].tolist().index(model.tokenizer.eos_id) + 1
    last = given.input_ids.size(1) - 1
    begin, end = out.start_logits[0, first:last], out.end_logits[0, first:last]
    best = max((float(begin[i] + end[j]), i, j) for i in range(len(begin)) for j in range(i, min(len(end), i + 30)))
    ids = given.input_ids[0, first + best[1] : first + best[2] + 1].tolist()
    said = AutoTokenizer.from_pretrained(tmp_path / "hf").decode(ids).strip()
    assert said in answer.text, "a word that it begins or ends in is taken whole"


def test_a_number_comes_out_in_the_users_units(command: Command, tmp_path: Path) -> None:
    found = drawn("cls-classifier", BERT, KINDS["bert, a number"][3])
    commit_folder(tmp_path / "ours", lambda draft: write_model(draft, found.model, found.tokenizer, found.about))
    code, out, _ = command("export", str(tmp_path / "ours"), str(tmp_path / "hf"), "--to", "hf", "--json")
    assert code == 0 and json.loads(out)["passed"]
    ours, theirs = (regard.load(tmp_path / name, device="cpu") for name in ("ours", "hf"))
    one, two = ([label.label for label in model.classify(SENTENCES[:4])] for model in (ours, theirs))
    assert one == pytest.approx(two, abs=1e-5) and abs(one[0] - 3) < 5
    assert AutoConfig.from_pretrained(tmp_path / "hf").problem_type == "regression"


def test_a_mean_has_no_counterpart_and_the_message_says_what_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pooling=cls"):
        export(drawn("classifier", BERT, ONE), tmp_path / "hf", to="hf", data=Texts(SENTENCES[:2]))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of three classes, exported."""
    out = tmp_path_factory.mktemp("written") / "hf"
    export(drawn("cls-classifier", BERT, ONE), out, to="hf", data=Texts(SENTENCES[:1]))
    return out


@pytest.fixture
def exported(written: Path, tmp_path: Path) -> Callable[..., Path]:
    """`exported(id2label=None)` is that folder with other fields in its config.json; None takes a field out."""

    def change(**fields: Any) -> Path:
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(written, out)
        (out / "MANIFEST.sha256").unlink()
        told = json.loads((out / "config.json").read_text()) | fields
        told = {name: value for name, value in told.items() if value is not None}
        (out / "config.json").write_text(json.dumps(told))
        return out

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id2label": {"0": "a", "2": "b"}}, "id2label"),
        ({"id2label": {"0": "a", "1": "a"}}, "id2label"),
        ({"id2label": {"0": "a", "1": None}}, "id2label"),
        ({"id2label": ["a", "b"]}, "id2label"),
        ({"id2label": {}}, "id2label"),
        ({"problem_type": "ranking"}, "problem_type"),
        ({"problem_type": "regression"}, "one label"),
        ({"id2label": {"0": "a", "1": "b"}}, "classifier.weight"),
    ],
)
def test_labels_that_cannot_be_are_refused_by_name(
    exported: Callable[..., Path], change: dict[str, Any], says: str
) -> None:  # fmt: skip
    with pytest.raises(CheckpointError, match=says):
        load_model(exported(**change))


def test_classes_without_names_are_numbered_as_there(exported: Callable[..., Path]) -> None:
    """Of two classes transformers writes no names at all; of three it writes what it calls them."""
    with pytest.raises(CheckpointError, match=r"classifier\.weight"):
        load_model(exported(id2label=None, problem_type=None))
    assert load_model(exported(id2label=None, num_labels=3)).about["labels"] == ["LABEL_0", "LABEL_1", "LABEL_2"]
