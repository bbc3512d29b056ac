"""The Python face: load a model and use it, train one. The commands call what is here.

    model = regard.load("runs/en-de")
    model.translate(["A man rides a bicycle."])        # -> [Translation('Ein Mann fährt Fahrrad.', score=-0.31)]
    regard.train("translation", source="train.en", target="train.de", out="runs/en-de", minutes=10)

What is unusual: nothing raises for odd text. Whatever is typed is plain text (`</s>` too), an empty text has an empty
translation, and what lies beyond the model's length is left out, said in a warning and counted in the result.
What it does not know: the command line. It prints nothing but, in `train`, a line now and then on stderr.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard import machine
from regard.config import to_toml
from regard.data import Finding
from regard.errors import CheckpointError, ConfigError
from regard.generate import Hypothesis
from regard.hub.folder import load_model
from regard.model import Model
from regard.runtime import keep_freed_memory
from regard.tasks.alignment import align_pairs, score_pairs
from regard.tasks.translation import search_translations
from regard.text import Tokenizer
from regard.training import DevEvent, Event, Progress, Recipe, Reporter, Result
from regard.training import train as carry_out
from regard.training.recipe import DataRecipe
from regard.training.resolve import planned, resumed

TOGETHER = 256
"""Texts searched at a time: like lengths find one another among them, and no output waits for a whole file."""

TextPath = str | Path


@dataclass(frozen=True)
class Translation:
    """One output of a translator, best of its search."""

    text: str
    """On one line, whatever the source."""
    score: float
    """What the search compares: logprob / length, the length in tokens with the end."""
    logprob: float
    """log p(text | source), natural logarithm; 0 for an empty source."""
    alternatives: tuple[Translation, ...] = ()
    """The next best ones, when more than one was asked for."""
    alignment: tuple[tuple[int, int], ...] | None = None
    """(source token, target token) for each target token, when asked for; they number the two fields below."""
    source_tokens: tuple[str, ...] | None = None
    target_tokens: tuple[str, ...] | None = None
    left_out: int = 0
    """Source tokens at the end that the model is too short to read."""

    def __repr__(self) -> str:
        more = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        more += f", {self.left_out:,} source tokens left out" if self.left_out else ""
        return f"Translation({self.text!r}, score={self.score:.3f}{more})"


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

    def translate(
        self, texts: Sequence[str], *, beam: int = 4, n_best: int = 1, alignments: bool = False
    ) -> list[Translation]:
        """The best translation of each text, in their order.

        An empty text, or one of spaces, has an empty translation. Of a text beyond `longest_source` tokens the rest is
        left out, with a warning and in `Translation.left_out`. No text is read as a command: `</s>` is four characters.

        Args:
            texts: a list; the results do not depend on what is translated together (to rounding in the score).
            beam: hypotheses kept at each step; 1 is greedy.
            n_best: how many to give of each text, at most `beam`; all but the best in `alternatives`.
            alignments: also say which source token each target token is from.

        Raises:
            TypeError: `texts` is one string.
            ConfigError: `beam` or `n_best` cannot be.
        """
        texts = _texts(texts)
        if not 1 <= n_best <= beam:
            raise ConfigError("these cannot be searched for", expected="1 <= n_best <= beam",
                              got=f"n_best {n_best}, beam {beam}", mend="raise beam")  # fmt: skip
        found: list[Translation] = []
        for start in range(0, len(texts), TOGETHER):
            found += self._translate(texts[start : start + TOGETHER], beam, n_best, alignments)
        if cut := [translation.left_out for translation in found if translation.left_out]:
            reads = f"the {self.longest_source:,} tokens that the model reads"
            what = f"{len(cut):,} of {len(found):,} texts are longer than {reads}"
            warnings.warn(f"{what}; up to {max(cut):,} tokens at their ends were left out", stacklevel=2)
        return found

    def _translate(self, texts: Sequence[str], beam: int, n_best: int, alignments: bool) -> list[Translation]:
        found = [Translation("", 0.0, 0.0, *(((), (), (), ()) if alignments else ())) for _ in texts]
        going = [i for i, text in enumerate(texts) if text.strip()]
        whole = self.tokenizer.encode_batch([texts[i] for i in going])
        sources = [ids[: self.longest_source] for ids in whole]
        ratio = float(self.about["length_ratio"])
        searched = search_translations(self.model, self.tokenizer, sources, ratio=ratio, beam=beam, n_best=n_best)
        flat = [(s, h) for s, best in zip(sources, searched, strict=True) for h in best]
        links = align_pairs(self.model, self.tokenizer, [(s, h.ids) for s, h in flat]) if alignments else None
        one_by_one = (self._read(s, h, None if links is None else links[k]) for k, (s, h) in enumerate(flat))
        for i, ids, source, best in zip(going, whole, sources, searched, strict=True):
            first, *others = islice(one_by_one, len(best))
            found[i] = replace(first, alternatives=tuple(others), left_out=len(ids) - len(source))
        return found

    def _read(self, source: list[int], best: Hypothesis, links: tuple[tuple[int, int], ...] | None) -> Translation:
        text = re.sub(r"[\r\n]+", " ", self.tokenizer.decode(best.ids))
        found = Translation(text, best.score, best.logprob)
        if links is None:
            return found
        source_tokens, target_tokens = (tuple(self.tokenizer.tokens(ids)) for ids in (source, best.ids))
        return replace(found, alignment=links, source_tokens=source_tokens, target_tokens=target_tokens)

    def score(self, source: Sequence[str], target: Sequence[str]) -> list[float]:
        """log p(target | source) of each pair by teacher forcing: natural logarithm, the end of the target included.

        Nothing is left out, since a score of half a text would be no score of it.

        Raises:
            TypeError: one string in place of a list.
            ConfigError: the lists differ in length, or a text is longer than the model reads.
        """
        source, target = _texts(source), _texts(target)
        if len(source) != len(target):
            got = f"{len(source):,} sources and {len(target):,} targets"
            raise ConfigError("pairs are needed", expected="as many targets as sources", got=got)
        encode = self.tokenizer.encode_batch
        pairs = list(zip(encode(source), encode(target), strict=True))
        for i, pair in enumerate(pairs):
            if max(map(len, pair)) > self.longest_source:
                raise ConfigError("a text is longer than the model reads", where=f"pair {i + 1}",
                                  expected=f"at most {self.longest_source:,} tokens a side",
                                  got=f"{len(pair[0]):,} and {len(pair[1]):,}", mend="split it")  # fmt: skip
        return score_pairs(self.model, self.tokenizer, pairs)

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
        recipe: fields of the recipe that win over the plan: `seed=3, model={"d_model": 128}, optim={"lr": 1e-3}`.

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
