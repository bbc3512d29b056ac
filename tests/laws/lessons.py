"""Tiny lessons of every task that can be trained, of some dozens of invented lines; and, as a script, ranks and faults.

python lessons.py RANK FOLDER [FAULT]      one rank of law 16 on every lesson: {lesson: outcome} in FOLDER/RANK.json
python lessons.py sit FAULT                the sittings of laws 23 and 25 with that fault
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from regard.data.conll import Tagged
from regard.data.documents import Document
from regard.data.encoding import encode_documents
from regard.data.squad import Question, Questions, Reference
from regard.laws import LAWS, Lesson, sitting
from regard.model import Model, Rope, TransformerConfig, make_model
from regard.tasks.classification import ClassificationData, ClassificationTask, Labels
from regard.tasks.language_modeling import LanguageData, LanguageModelTask
from regard.tasks.masked_lm import MaskedData, MaskedLMTask
from regard.tasks.quiz import QuestionData
from regard.tasks.reading import read_texts
from regard.tasks.spans import ExtractiveQATask
from regard.tasks.tagging import TaggingData, TaggingTask
from regard.tasks.translation import TranslationData, TranslationTask
from regard.text import Tokenizer

ENCODER, DECODER = {"n_encoder_layers": 1}, {"n_decoder_layers": 1}
LETTERS = "abcdefghijkl"


def words(count: int, seed: int = 0, least: int = 2, most: int = 9) -> list[list[str]]:
    """So many lists of different lengths of words of one to three letters; each begins with another letter than its
    neighbours."""
    dice = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        drawn = ["".join(dice.choice(list(LETTERS), dice.integers(1, 4))) for _ in range(dice.integers(least, most))]
        rows.append([LETTERS[number % len(LETTERS)], *drawn])
    return rows


def texts(count: int, seed: int = 0) -> list[str]:
    return [" ".join(row) for row in words(count, seed)]


def model_of(tokenizer: Tokenizer, head: str, n_labels: int = 1, **axes: Any) -> Model:
    torch.manual_seed(7)
    sizes = {"d_model": 12, "n_heads": 2, "d_ff": 16, "max_len": 80, "dropout": 0.3}
    model = make_model(TransformerConfig(vocab_size=tokenizer.vocab_size, **sizes | axes), head, n_labels)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def vocabulary(**frame: str) -> Tokenizer:
    plain = Tokenizer.train(texts(40), kind="chars", vocab_size=60)
    return plain.framed(**frame) if frame else plain


def translation(lengths: tuple[int, ...] = (), tokens: int = 90, smoothing: float = 0.1) -> Lesson:
    """Random pairs whose targets have these lengths, ends included; none: of 3 to 19."""
    tokenizer, dice = vocabulary(), np.random.default_rng(3)
    lengths = lengths or tuple(3 + (5 * i) % 17 for i in range(23))
    both = [[dice.integers(6, tokenizer.vocab_size, n + more).tolist() for n in lengths] for more in (2, -1)]
    data = TranslationData(tokenizer, (both[0], both[1]), (both[0], both[1]), tokens_per_batch=tokens, seed=1,
                           multiple=4, max_len=40)  # fmt: skip
    model = model_of(tokenizer, "language-model", head_bias=True, logit_scale=1.5, **ENCODER, **DECODER)
    return Lesson(model, TranslationTask(smoothing), data)


def language_model() -> Lesson:
    tokenizer = vocabulary()
    train, dev = (
        encode_documents([Document(text, Path("x"), 1) for text in texts(n, seed)], tokenizer)
        for n, seed in ((26, 1), (9, 2))
    )
    data = LanguageData(tokenizer, train, dev, length=40, tokens_per_batch=200, seed=1)
    return Lesson(model_of(tokenizer, "language-model", positions=Rope(), **DECODER), LanguageModelTask(), data)


def masked_lm() -> Lesson:
    tokenizer = vocabulary(before="bos", after="eos")
    ids = [tokenizer.wrap(tokenizer.encode(text))[0] for text in texts(30, 1)]
    data = MaskedData(tokenizer, ids[9:], ids[:9], vocab_size=tokenizer.vocab_size, tokens_per_batch=200, seed=1,
                      multiple=1, max_len=60)  # fmt: skip
    return Lesson(model_of(tokenizer, "masked-lm", **ENCODER), MaskedLMTask(), data)


def classification(kind: str = "one") -> Lesson:
    tokenizer = vocabulary(before="bos", after="eos")
    reads, _ = read_texts(tokenizer, [(text,) for text in texts(30, 1)], 60)
    said: list[Any] = [["x", "y", "z"][i % 3] if kind == "one" else i / 7 for i in range(30)]
    labels = Labels.of(said, kind, ("x", "y", "z"))  # type: ignore[arg-type]
    targets = labels.targets(said)
    data = ClassificationData(
        labels, targets[9:], reads[:9], targets[:9], tokenizer=tokenizer, train=reads[9:], dropout=None, cut=0,
        tokens_per_batch=200, seed=1, multiple=1, max_len=60,
    )  # fmt: skip
    task = ClassificationTask(kind, 0.1 if kind == "one" else 0.0)  # type: ignore[arg-type]
    return Lesson(model_of(tokenizer, "classifier", len(labels.names), **ENCODER), task, data)


def tagging() -> Lesson:
    tokenizer, rows = vocabulary(before="bos", after="eos"), words(30, 1)
    tags = [["B-X" if len(word) == 3 else "O" for word in row] for row in rows]
    train, dev = (Tagged(rows[part], tags[part], [(1, 1)] * len(rows[part]), (), {})
                  for part in (slice(9, None), slice(9)))  # fmt: skip
    data = TaggingData(tokenizer, ["O", "B-X", "I-X"], train, dev, most=60, tokens_per_batch=200, seed=1, multiple=1)
    return Lesson(model_of(tokenizer, "tagger", 3, **ENCODER), TaggingTask(0.1), data)


def question_answering() -> Lesson:
    tokenizer = vocabulary(before="bos", after="eos")

    def questions(count: int, seed: int) -> Questions:
        items = []
        for number, row in enumerate(words(count, seed, least=8, most=12)):
            text, start = " ".join(row), len(" ".join(row[:3])) + 1
            answers = (Reference(row[3], start),) if number % 4 else ()
            items.append(Question(str(number), row[2], text, answers, f"x:{number}"))
        return Questions(tuple(items), {})

    data = QuestionData(tokenizer, questions(14, 1), questions(6, 2), length=30, overlap=8, tokens_per_batch=200,
                        seed=1, multiple=1)  # fmt: skip
    return Lesson(model_of(tokenizer, "span", **ENCODER), ExtractiveQATask(), data)


LESSONS: dict[str, Callable[[], Lesson]] = {
    "translation": translation, "language-model": language_model, "masked-lm": masked_lm,
    "classification": classification, "tagging": tagging, "question-answering": question_answering,
}  # fmt: skip
"""By the task's name in a recipe."""
SHARED: dict[str, Callable[[], Lesson]] = {
    **LESSONS, "3 tokens and 30": lambda: translation((3, 30, 30), tokens=1_000),
    "one row, and nothing": lambda: translation((12,)),
}  # fmt: skip
"""What ranks share, with both of law 16's own cases."""


def nothing_is_added_up() -> None:
    dist.all_reduce = lambda tensor, *more, **options: None  # type: ignore[assignment]


def each_rank_divides_by_its_own_count() -> None:
    """The mean of the ranks' means, as by torch's DistributedDataParallel."""
    add_up = dist.all_reduce

    def averaged(tensor: torch.Tensor) -> None:
        if tensor.numel() == 1 and tensor.ndim == 1:  # the counts
            return
        add_up(tensor)

    dist.all_reduce = averaged  # type: ignore[assignment]


def the_random_state_is_not_stored() -> None:
    torch.set_rng_state = lambda state: None  # type: ignore[assignment]


def the_order_begins_anew() -> None:
    from regard.training.loop import Loop

    update = Loop._update

    def from_the_start(self: Loop) -> Any:
        self.began = getattr(self, "began", self.progress.step)
        batch, began = self.data.batch, self.began
        self.data.batch = lambda step, *ranks: batch(step - began, *ranks)
        try:
            return update(self)
        finally:
            self.data.batch = batch

    Loop._update = from_the_start  # type: ignore[method-assign]


def ranks_draw_their_own_batches() -> None:
    """Each rank takes whole batches in turn, so that their number decides what a step sees."""
    noted = sitting.Noted.batch
    sitting.Noted.batch = lambda self, step, rank=0, world=1: noted(self, step * world + rank)  # type: ignore[method-assign]


def the_pointer_is_written_before_the_folder() -> None:
    from regard.hub.atomic import point
    from regard.training import run

    commit = run.commit_folder

    def hasty(target: Path, write: Callable[[Path], None], **more: Any) -> None:
        point(target.parent.parent / "latest", target.name)
        commit(target, write, **more)

    run.commit_folder = hasty


FAULTS = {fault.__name__: fault for fault in (
    nothing_is_added_up, each_rank_divides_by_its_own_count, the_random_state_is_not_stored, the_order_begins_anew,
    ranks_draw_their_own_batches, the_pointer_is_written_before_the_folder,
)}  # fmt: skip
"""Those of other processes, by name."""


def one_rank(rank: int, folder: Path) -> None:
    """A file to meet at leaves no port to be taken by somebody else."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    found = {name: LAWS[16](lesson()) for name, lesson in SHARED.items()}
    said = {name: [verdict.outcome, verdict.sentence] for name, verdict in found.items()}
    (folder / f"{rank}.json").write_text(json.dumps(said))
    dist.destroy_process_group()


if __name__ == "__main__":
    first, second, *faults = sys.argv[1:]
    for fault in faults or [second] * (first == "sit"):
        FAULTS[fault]()
    if first == "sit":
        sitting.main()
    else:
        one_rank(int(first), Path(second))
