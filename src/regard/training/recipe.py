"""A run, written down: everything that decides its result, and nothing that does not.

What is unusual: `regard train` always resolves what it was given (flags, a plan for so many minutes, a TOML file) to
one of these, and writes it into the run folder; running that file again is the same run.
What it does not know: how a field is used. A number outside its range is refused here; what must fit other things is
checked where the part it belongs to is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.errors import ConfigError
from regard.machine import check_seed

_BY_RANGE: tuple[tuple[str, Callable[[float], bool], str], ...] = (
    ("1 or more", lambda x: 1 <= x < math.inf,
     "vocab_size tokens accumulate multiple max_len steps stop evaluate_every"),
    ("0 or more, and an end", lambda x: 0 <= x < math.inf,
     "skip_bad lr matrix_lr weight_decay clip rank warmup epochs open_until patience keep average rdrop"),
    ("more than 0, and an end", lambda x: 0 < x < math.inf, "eps alpha minutes"),
    ("a share, 0 to 1", lambda x: 0 <= x <= 1, "dropout layer_decay decay augment"),
    ("a share, 0 or more and less than 1", lambda x: 0 <= x < 1, "betas ema label_smoothing"),
)  # fmt: skip
RANGES = {name: (said, holds) for said, holds, names in _BY_RANGE for name in names.split()}
"""Of every number in a recipe, in words and as a test; but for the seed, which all of this package has, and for the
axes of the model (`TransformerConfig`)."""

_OF_TASKS = {
    "pooling": ("classification",), "class_weights": ("classification",), "augment": ("translation",),
    "rdrop": ("translation", "classification"),
}  # fmt: skip
"""What only some tasks look at: elsewhere it would be set in vain."""


class _Ranged:
    """A part of a recipe, whose numbers are in their ranges; raises ConfigError where one is not."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            for number in value if isinstance(value, tuple) else (value,):
                if name in RANGES and number is not None and not RANGES[name][1](number):
                    raise ConfigError("a number outside its range", where=name, expected=RANGES[name][0], got=number)


@dataclass(frozen=True, kw_only=True)
class DataRecipe(_Ranged):
    """Where the examples come from."""

    train: tuple[str, ...]
    """Files: two parallel texts, or one table of pairs; for language models texts, or a prepared folder."""
    dev: tuple[str, ...] = ()
    """The same for development; none: a seeded tenth of train, at most 2,000 examples, is held out."""
    unit: str = "file"
    """What of a plain text is one document: file, paragraph, line, or the line that stands between two."""
    field: str = "text"
    """The column or field of the text in tables of documents."""
    columns: tuple[str, ...] | None = None
    """The columns of a table without a header, or to be taken from one with more: source and target; text (or both
    texts) and label."""
    labels: Literal["one", "several", "number"] = "one"
    """Of classification: what a text is labelled with, one class, any number of classes, or a number."""
    label_until: str | None = None
    """What of a class counts ends before this: ":" makes NUM of NUM:dist."""
    languages: tuple[str, str] | None = None
    """Source and target language; none: from the files' suffixes or header."""
    extra: tuple[str, ...] = ()
    """More pairs to train on, as `train`; those that share a text with the development pairs are left out."""
    extra_tag: str | None = None
    """Marks the sources of `extra`, "bt" for back-translated ones; none: they count as written text."""
    skip_bad: int = 0
    """How many malformed lines may be left out."""


@dataclass(frozen=True, kw_only=True)
class TokenizerRecipe(_Ranged):
    """How text becomes token ids; trained on the training files. With `init_from` only dropout is looked at."""

    kind: Literal["bpe", "unigram", "bytes", "chars", "words"] = "bpe"
    vocab_size: int = 8_000
    dropout: float = 0.0
    """Of the kinds bpe and bytes: the probability that a merge is left out, drawn anew in each epoch; 0.1 is usual."""


@dataclass(frozen=True, kw_only=True)
class BatchRecipe(_Ranged):
    """How much text one update sees."""

    tokens: int = 2_000
    """Tokens a step, padding included, on the longer side."""
    accumulate: int = 1
    """Micro-batches that a step's batch is cut into, to save memory."""
    multiple: int = 1
    """Lengths are padded to a multiple of this."""
    max_len: int = 256
    """Longer examples are left out, and counted; of documents, the tokens in a row."""


@dataclass(frozen=True, kw_only=True)
class OptimRecipe(_Ranged):
    """What turns gradients into updates."""

    kind: Literal["muon", "adamw"] = "muon"
    """muon: Muon on the matrices of the blocks, AdamW on the rest; adamw: AdamW on all."""
    lr: float = 3e-3
    """AdamW's peak rate."""
    matrix_lr: float = 5e-3
    """Muon's peak rate."""
    matrix_dtype: Literal["float32", "bfloat16"] = "float32"
    """What Muon orthogonalises in, where any precision does; a plan takes the one whose products are quicker here."""
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0
    layer_decay: float = 1.0
    """Each layer's rates as a share of those of the layer above it, the head's being the peak; 1: all alike."""
    clip: float = 1.0
    """Largest norm of the whole gradient; 0: none."""


@dataclass(frozen=True, kw_only=True)
class LoraRecipe(_Ranged):
    """Low-rank adapters, in place of training the whole of a model that a run starts from."""

    rank: int = 0
    """Of the adapters; 0: none, the whole model learns."""
    alpha: float = 16.0
    """An adapter counts alpha / rank."""


@dataclass(frozen=True, kw_only=True)
class ScheduleRecipe(_Ranged):
    """The learning rate over the run."""

    kind: Literal["wsd", "cosine", "inverse_sqrt"] = "wsd"
    """wsd: warm up, stay, decay to zero; its decay may begin when the clock says so."""
    warmup: int = 100
    decay: float = 0.5
    """wsd: the last share of all updates, over which the rate goes to zero."""


@dataclass(frozen=True, kw_only=True)
class LoopRecipe(_Ranged):
    """How long, how precisely, and how often to look."""

    steps: int = 10_000
    epochs: float = 0.0
    """A plan makes at most so many passes over the training examples, however much time there is; 0: any number."""
    stop: int | None = None
    """End after so many updates although the schedule was for `steps`: where a clock cut a run short."""
    minutes: float | None = None
    """Wall clock for the whole command; the steps that fitted in are what the written recipe says."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    open_until: int = 0
    """Attention over at most so many keys takes the open path; a plan measures where that is the quicker one."""
    compile: bool = False
    evaluate_every: int = 500
    patience: int = 0
    """Stop after so many evaluations without a better development loss, or score where the task has one; 0: never."""
    keep: int = 2
    """Checkpoints kept beside the best."""
    average: int = 0
    """At the end, also try the mean of the weights of this many last checkpoints."""
    ema: float = 0.0
    """Decay of a moving average of the weights, which is what is evaluated and saved; 0: none."""


@dataclass(frozen=True, kw_only=True)
class AdaptRecipe:
    """A run before the run: the encoder to start from guesses hidden tokens of texts without labels first.

    Its fields are those of a run of the task masked-lm; seed, model and vocabulary are those of the run itself.
    """

    data: DataRecipe
    batch: BatchRecipe = BatchRecipe()
    optim: OptimRecipe = OptimRecipe()
    schedule: ScheduleRecipe = ScheduleRecipe()
    loop: LoopRecipe = LoopRecipe()


@dataclass(frozen=True, kw_only=True)
class Recipe(_Ranged):
    """The whole of a run."""

    task: Literal["translation", "language-model", "masked-lm", "classification", "tagging", "question-answering"] = (
        "translation"
    )
    seed: int = 1
    data: DataRecipe
    init_from: str | None = None
    """A model or run whose weights, sizes and tokenizer the run starts from, or the model inside an installed package
    ("package:NAME"); none: from nothing."""
    adapt: AdaptRecipe | None = None
    """What the model in `init_from` is adapted to first; none: nothing."""
    freeze: Literal["none", "encoder"] = "none"
    """What of the model stays as it is: with "encoder" a new head is all that learns."""
    lora: LoraRecipe = LoraRecipe()
    tokenizer: TokenizerRecipe = TokenizerRecipe()
    model: dict[str, Any] = field(default_factory=dict)
    """Axes of TransformerConfig; vocab_size is the tokenizer's."""
    pooling: Literal["mean", "cls"] = "mean"
    """Of classification: what of a text is classified, the mean of its tokens, or its first token through a pooler."""
    label_smoothing: float = 0.1
    class_weights: Literal["none", "balanced"] = "none"
    """Of classification into one class: balanced, rare classes count as much in all as frequent ones."""
    rdrop: float = 0.0
    """alpha of R-Drop: each batch goes through twice, and the two predictions are drawn together; 5 is usual. Of
    translation, and of classification into one class."""
    augment: float = 0.0
    """Of translation: the share of training pairs that appear in CAPITALS, Title Case or without final marks, drawn
    anew in each epoch."""
    batch: BatchRecipe = BatchRecipe()
    optim: OptimRecipe = OptimRecipe()
    schedule: ScheduleRecipe = ScheduleRecipe()
    loop: LoopRecipe = LoopRecipe()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)
        for name, tasks in _OF_TASKS.items():
            if self.task not in tasks and getattr(self, name) != getattr(Recipe, name):
                raise ConfigError(f"{self.task} has no use for this", where=name, got=getattr(self, name),
                                  expected=f"a run of {' or '.join(tasks)}", mend=f"leave {name} out")  # fmt: skip
