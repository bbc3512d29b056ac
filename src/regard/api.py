"""The Python face: load a model and use it, train one. The commands call what is here.

    model = regard.load("runs/en-de")
    model.translate(["A man rides a bicycle."])        # -> [Translation('Ein Mann fährt Fahrrad.', score=-0.31)]
    regard.train("translation", source="train.en", target="train.de", out="runs/en-de", minutes=10)

What is unusual: nothing raises for odd text. Whatever is typed is plain text (`</s>` too), an empty text has an empty
translation, and a long one is cut where sentences end and put together again.
What it does not know: the command line. It prints nothing but, in `train`, a line now and then on stderr.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import machine
from regard.config import to_toml
from regard.data import Finding
from regard.errors import CheckpointError, ConfigError
from regard.hub.folder import load_model
from regard.model import Model
from regard.runtime import keep_freed_memory
from regard.tasks.alignment import score_tokens
from regard.tasks.prefix import source_prefix, target_languages
from regard.tasks.terms import Protect, Terms
from regard.tasks.texts import Request, Translation, Translator
from regard.text import Tokenizer
from regard.training import DevEvent, Event, Progress, Recipe, Reporter, Result
from regard.training import train as carry_out
from regard.training.outcome import refuse_mixing
from regard.training.recipe import DataRecipe
from regard.training.resolve import planned, resumed

TOGETHER = 256
"""Texts searched at a time: like lengths find one another among them, and no output waits for a whole file."""

TextPath = str | Path

__all__ = ["TOGETHER", "Loaded", "TextPath", "Translation", "load", "train"]


@dataclass(frozen=True)
class Loaded:
    """A model ready for use; from `regard.load`. It holds no state between calls, and its weights are not changed."""

    path: Path
    """The folder that was read: of a run, its best checkpoint."""
    model: Model = field(repr=False)
    """The network itself, in evaluation mode."""
    tokenizer: Tokenizer = field(repr=False)
    about: Mapping[str, Any] = field(repr=False)
    """The facts of config.json: task, languages, training."""

    @property
    def task(self) -> str:
        """What the model was trained for."""
        return str(self.about["task"])

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Codes of the source and the target language, where they are known."""
        source, target = self.about["languages"]
        return source, target

    @property
    def longest_source(self) -> int:
        """How many source tokens the model reads; its end needs one more."""
        return self.model.config.max_len - 1

    @property
    def targets(self) -> tuple[str, ...]:
        """The target languages to choose from by `to`; none where there is one direction."""
        return target_languages(self.tokenizer)

    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | Sequence[str] | None = None,
        beam: int = 4,
        n_best: int = 1,
        alignments: bool = False,
        prefix: Sequence[str] | None = None,
        glossary: Mapping[str, str] | None = None,
        protect: Protect = "placeholders",
        no_repeat_ngram: int = 0,
    ) -> list[Translation]:
        """The best translation of each text, in their order.

        A text of several sentences or lines is translated one by one, and put together with the white space it had. An
        empty text, or one of spaces, has an empty translation. A sentence longer than the model reads is cut at its
        clauses, or else between words; of a word still longer the rest is left out, with a warning and in
        `Translation.left_out`. No text is read as a command: `</s>` is four characters.

        Args:
            texts: a list; the results do not depend on what is translated together (to rounding in the score).
            to: the target language, one for all or one for each, where the model has several (`targets`).
            beam: hypotheses kept at each step; 1 is greedy.
            n_best: how many to give of each text, at most `beam`; all but the best in `alternatives`.
            alignments: also say which source token each target token is from.
            prefix: what each translation begins with, "" for nothing. Such a text is not cut into sentences.
            glossary: source term -> target term. Where a source holds the one, its translation holds the other.
            protect: what a translation must copy: "placeholders", addresses and markup ({name}, %s, https://a.org,
                <b>); "numbers", these and each run of digits; "none".
            no_repeat_ngram: say no so many tokens in a row twice in a sentence; 0: do. (Loops end anyway: no output
                grows longer than the length of its source allows.)

        Raises:
            TypeError: `texts` is one string.
            ConfigError: `beam`, `n_best`, `to`, `protect` or `no_repeat_ngram` cannot be, a list has another length
                than `texts`, or what must be said is longer than the model writes.
        """
        texts = _texts(texts)
        _possible(beam, n_best, no_repeat_ngram)
        codes = [to] * len(texts) if to is None or isinstance(to, str) else _beside(texts, to, "to")
        prefixes = [""] * len(texts) if prefix is None else _beside(texts, _texts(prefix), "prefix")
        translator = Translator(self.model, self.tokenizer, float(self.about["length_ratio"]), self.languages[1])
        request = Request(
            beam=beam, n_best=n_best, alignments=alignments, terms=Terms(glossary or {}, protect),
            no_repeat_ngram=no_repeat_ngram,
        )  # fmt: skip
        found: list[Translation] = []
        for start in range(0, len(texts), TOGETHER):
            some = slice(start, start + TOGETHER)
            found += translator.translate(texts[some], codes[some], prefixes[some], request)
        if cut := [translation.left_out for translation in found if translation.left_out]:
            reads = f"the {self.longest_source:,} tokens that the model reads"
            what = f"{len(cut):,} of {len(found):,} texts hold a word longer than {reads}"
            warnings.warn(f"{what}; up to {max(cut):,} tokens of a text were left out", stacklevel=2)
        return found

    def score(
        self, source: Sequence[str], target: Sequence[str], *, to: str | Sequence[str] | None = None
    ) -> list[float]:
        """log p(target | source) of each pair: the sum of its `token_scores`, whose errors it raises."""
        return [sum(score for _, score in tokens) for tokens in self.token_scores(source, target, to=to)]

    def token_scores(
        self, source: Sequence[str], target: Sequence[str], *, to: str | Sequence[str] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Each token of each target with its log-probability after the source and the tokens before it; last the end.

        By teacher forcing; natural logarithm. Nothing is left out, since a score of half a text would be no score of
        it, and no text is cut into sentences.

        Args:
            to: the target language, one for all or one for each, where the model has several.

        Raises:
            TypeError: one string in place of a list.
            ConfigError: the lists differ in length, a text is longer than the model reads, or `to` cannot be.
        """
        source, target = _texts(source), _texts(target)
        if len(source) != len(target):
            got = f"{len(source):,} sources and {len(target):,} targets"
            raise ConfigError("pairs are needed", expected="as many targets as sources", got=got)
        pairs = self._pairs(source, target, to)
        if long := self._long(pairs):
            raise ConfigError("a text is longer than the model reads", where=f"pair {long[0] + 1}",
                              expected=f"at most {self.longest_source:,} tokens a side", mend="split it")  # fmt: skip
        scores = score_tokens(self.model, self.tokenizer, pairs)
        end = self.tokenizer.tokens([self.tokenizer.eos_id])
        return [
            list(zip(self.tokenizer.tokens(ids) + end, own, strict=True))
            for (_, ids), own in zip(pairs, scores, strict=True)
        ]

    def too_long(
        self, source: Sequence[str], target: Sequence[str], *, to: str | Sequence[str] | None = None
    ) -> list[int]:
        """The places of the pairs with a side longer than the model reads, which have no score."""
        return self._long(self._pairs(source, target, to))

    def _long(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[int]:
        return [i for i, pair in enumerate(pairs) if max(map(len, pair)) > self.longest_source]

    def _pairs(
        self, source: Sequence[str], target: Sequence[str], to: str | Sequence[str] | None
    ) -> list[tuple[list[int], list[int]]]:
        """Both sides as ids, with what goes before each source."""
        codes = [to] * len(source) if to is None or isinstance(to, str) else _beside(source, to, "to")
        leads = {code: source_prefix(self.tokenizer, code, only=self.languages[1]) for code in set(codes)}
        encode = self.tokenizer.encode_batch
        sources = [leads[code] + ids for code, ids in zip(codes, encode(source), strict=True)]
        return list(zip(sources, encode(target), strict=True))

    def __repr__(self) -> str:
        source, target = (code or "?" for code in self.languages)
        return f"<{self.task} {source} to {target}, {self.model.config.n_parameters:,} parameters, {self.path}>"


def load(
    path: TextPath, *, device: str | None = None, threads: int | None = None, allow_nonfinite: bool = False
) -> Loaded:
    """Open a model folder, or a run folder, whose best checkpoint it takes.

    Args:
        device: "cpu", "cuda", "cuda:1", "mps"; None: the quickest there is.
        threads: to compute with, in the whole process; None leaves it as it is.
        allow_nonfinite: open a model although it holds NaN or infinite weights.

    Raises:
        CheckpointError: the folder is missing, damaged, of another task, or its parts do not fit one another.
        ConfigError: there is no such device.
    """
    if threads is not None:
        machine.set_threads(threads)
    where = machine.pick_device(device)
    keep_freed_memory()
    folder = load_model(path, allow_nonfinite=allow_nonfinite)
    if folder.about.get("task") != "translation":
        raise CheckpointError("a model of a task that this regard does not know", where=folder.path / "config.json",
                              expected='"task": "translation"', got=folder.about.get("task"))  # fmt: skip
    return Loaded(folder.path, folder.model.to(where), folder.tokenizer, folder.about)


def _texts(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("a list of texts is needed, not one string: [text]")
    return texts


def _beside(texts: Sequence[str], values: Sequence[str], name: str) -> Sequence[str]:
    if len(values) != len(texts):
        raise ConfigError("one value is needed for each text", where=name, expected=f"{len(texts):,} values",
                          got=f"{len(values):,}")  # fmt: skip
    return values


def _possible(beam: int, n_best: int, no_repeat_ngram: int) -> None:
    """Raise ConfigError for numbers that cannot be searched with."""
    for name, value, least in (("beam", beam, 1), ("n_best", n_best, 1), ("no_repeat_ngram", no_repeat_ngram, 0)):
        if value < least:
            raise ConfigError("the number is too small", where=name, expected=f"{least} or more", got=value)
    if n_best > beam:
        raise ConfigError("a search finds no more outputs than its beam is wide", expected="n_best <= beam",
                          got=f"n_best {n_best}, beam {beam}", mend=f"raise beam to {n_best}")  # fmt: skip


# ---------------------------------------------------------------- training


def train(
    task: str,
    *,
    source: TextPath,
    target: TextPath | None = None,
    dev_source: TextPath | None = None,
    dev_target: TextPath | None = None,
    out: TextPath,
    minutes: float = 10.0,
    resume: bool = False,
    device: str | None = None,
    reporter: Reporter | None = None,
    **recipe: Any,
) -> Result:
    """Train a model from files, of the size and schedule that suit them and the time; what `regard train` calls.

    Args:
        task: "translation".
        source, target: two parallel text files, or one table of pairs in `source` alone.
        dev_source, dev_target: the same for development; without them a tenth is held out.
        out: the run folder; `regard.load(out)` opens its best model.
        minutes: wall clock from this call; `loop={"steps": N}` makes so many updates in its place.
        resume: go on with the run in `out`, by the recipe in it.
        reporter: is told what happens; None: a few lines on stderr.
        recipe: fields of the recipe that win over the plan: `seed=3, model={"d_model": 128}, optim={"lr": 1e-3}`;
            `init_from="runs/en-de"` trains that model on.

    Raises:
        ConfigError, DataError, NonFiniteError, UserError: as their names say.
    """
    began, where = time.monotonic(), machine.pick_device(device)
    if task != "translation":
        raise ConfigError("unknown task", where="task", expected="translation", got=task)
    changes = list(_assignments(recipe))
    if resume:
        chosen, corpus = resumed(Path(out), changes), None
    else:
        refuse_mixing(Path(out), resume=False)  # before anything is read
        files, dev = ([str(path) for path in pair if path] for pair in ((source, target), (dev_source, dev_target)))
        base = Recipe(data=DataRecipe(train=tuple(files), dev=tuple(dev)))
        plan = planned(base, changes, minutes=minutes, device=where)
        chosen, corpus = plan.recipe, plan.corpus
    return carry_out(chosen, Path(out), device=where, reporter=reporter or _Lines(), resume=resume, began=began,
                     corpus=corpus)  # fmt: skip


def _assignments(tree: Mapping[str, Any], path: str = "") -> Iterable[str]:
    """{"optim": {"lr": 1e-3}} as `optim.lr = 0.001`, which `override` reads."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _assignments(value, f"{path}{key}.")
        else:
            yield path + to_toml({key: "none" if value is None else value}).strip()


class _Lines:
    """A reporter for scripts and notebooks: warnings and looks at the development set, as lines on stderr."""

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr)

    def show(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if finding.severity in ("warn", "error"):
                self.say(f"{finding.severity}: {finding.sentence}")

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        if isinstance(event, DevEvent):
            self.say(f"update {event.step:,}: development loss {event.scores['dev_loss']:.3f} after {seconds:,.0f} s")
