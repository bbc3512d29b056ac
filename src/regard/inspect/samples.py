"""Texts to look at a model with: a few of its own development data, else some of ours.

What is unusual: a model folder says by its recipe where its data lay. It is read again only where it still lies there
and is small; nothing is kept of it in the model. Whatever is wrong with that data, a model can be looked at without it.
What it does not know: what the texts are used for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data import read_pairs
from regard.data.conll import read_tagged
from regard.data.documents import read_documents
from regard.data.labelled import read_labelled
from regard.data.places import find_data
from regard.data.squad import read_questions
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.loaded import Loaded

MOST_BYTES = 2**24
"""Of a data file; a larger one is not read for a few examples."""
SHORTEST = 12
"""Characters: enough for a few words."""
READ = 2_000
"""Documents, at most, of which some are chosen."""


@dataclass(frozen=True)
class Sample:
    """A text, or two that are read together; its translation, where there is one; and the language of that."""

    texts: tuple[str, ...]
    target: str | None = None
    to: str | None = None


def samples(loaded: Loaded, count: int, *, longest: int = 80) -> list[Sample]:
    """At most so many texts, from all over the data and in turn into each language.

    They have at most so many characters and at least a few words, where there are such texts.
    """
    found = _of_recipe(loaded, longest) or _ours(loaded)
    fitting = [sample for sample in found if SHORTEST <= _length(sample) <= longest]
    fitting = fitting if len(fitting) >= count else sorted(found, key=lambda sample: _length(sample) > longest)[:count]
    kinds = sorted({sample.to or "" for sample in fitting})
    each = [_spread([sample for sample in fitting if (sample.to or "") == to], count) for to in kinds]
    turns = [sample for turn in range(count) for row in each for sample in row[turn : turn + 1]]
    return turns[:count]


def _length(sample: Sample) -> int:
    return sum(map(len, sample.texts))


def _spread(found: Sequence[Sample], count: int) -> list[Sample]:
    """So many of them at equal distances."""
    return [found[i * len(found) // count] for i in range(count)] if len(found) > count else list(found)


# ---------------------------------------------------------------- the model's own


def _of_recipe(loaded: Loaded, longest: int) -> list[Sample]:
    path = loaded.path / "recipe.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))["data"]
        files = [find_data(name) for name in data.get("dev") or data["train"]]
        if any(file.stat().st_size > MOST_BYTES for file in files):
            return []
        return list(islice(READERS[loaded.task](files, data, longest), READ))
    except (OSError, ValueError, KeyError, UserError):  # no recipe, or its data is gone, or no longer what it was
        return []


def _pairs(files: Sequence[Path], data: Mapping[str, Any], longest: int) -> Iterator[Sample]:
    columns, languages = (tuple(data[name]) if data.get(name) else None for name in ("columns", "languages"))
    pairs = read_pairs(files, columns=columns, languages=languages, skip_bad=data.get("skip_bad", 0))
    codes = [None] * len(pairs) if pairs.to is None else pairs.to
    return (Sample((s,), t, to) for s, t, to in zip(pairs.source, pairs.target, codes, strict=True) if s.strip())


def _documents(files: Sequence[Path], data: Mapping[str, Any], longest: int) -> Iterator[Sample]:
    named = {name: data[name] for name in ("field", "skip_bad") if name in data}
    unit = data.get("unit", "file")
    # Of a novel that is one document, a paragraph here and there.
    for document in read_documents(files, unit="paragraph" if unit == "file" else unit, **named):
        yield Sample((_beginning(document.text, longest),))


def _labelled(files: Sequence[Path], data: Mapping[str, Any], longest: int) -> Iterator[Sample]:
    found = read_labelled(files, kind=data.get("labels", "one"), columns=data.get("columns"),
                          until=data.get("label_until"), skip_bad=data.get("skip_bad", 0))  # fmt: skip
    return (Sample(texts) for texts in found.texts)


def _tagged(files: Sequence[Path], data: Mapping[str, Any], longest: int) -> Iterator[Sample]:
    return (Sample((" ".join(words),)) for words in read_tagged(files, skip_bad=data.get("skip_bad", 0)).words)


def _questions(files: Sequence[Path], data: Mapping[str, Any], longest: int) -> Iterator[Sample]:
    found = read_questions(files, skip_bad=data.get("skip_bad", 0))
    return (Sample((question.question, question.context)) for question in found)


READERS: dict[str, Callable[[Sequence[Path], Mapping[str, Any], int], Iterator[Sample]]] = {
    "translation": _pairs,
    "language-model": _documents,
    "masked-lm": _documents,
    "classification": _labelled,
    "tagging": _tagged,
    "question-answering": _questions,
}
"""By task; a model of any other has no data that we could know."""


def _beginning(text: str, longest: int) -> str:
    """The first line that says something, cut between words."""
    line = next(line.strip() for line in text.split("\n") if line.strip())
    return line if len(line) <= longest else line[:longest].rpartition(" ")[0] or line[:longest]


# ---------------------------------------------------------------- ours

TEXTS = {
    "en": (
        "A man rides a bicycle through the old town.", "The children who play in the garden are tired.",
        "Two dogs run across the field to the river.", "When the rain stopped, the girl opened the window.",
        "Anna gave Peter the book because he had asked for it.", "The old and the new bridge are both closed.",
    ),
    "de": (
        "Ein Mann fährt mit dem Fahrrad durch die Altstadt.", "Die Kinder, die im Garten spielen, sind müde.",
        "Zwei Hunde laufen über das Feld zum Fluss.", "Als der Regen aufhörte, öffnete das Mädchen das Fenster.",
    ),
    "fr": (
        "Un homme traverse la vieille ville à vélo.", "Les enfants qui jouent dans le jardin sont fatigués.",
        "Deux chiens courent à travers champs.", "Quand la pluie a cessé, la fille a ouvert la fenêtre.",
    ),
    "es": (
        "Un hombre cruza el casco antiguo en bicicleta.", "Los niños que juegan en el jardín están cansados.",
    ),
    "zh": (
        "一个男人骑着自行车穿过老城。", "在花园里玩耍的孩子们累了。", "两只狗穿过田野跑向河边。",
        "雨停了，女孩打开了窗户。",
    ),
}  # fmt: skip
"""Plain sentences by language."""
BEGINNINGS = ("Once upon a time", "The old man looked at the sea and", "When the rain stopped,")
QUESTION = ("Where do the dogs run?", "The children play in the garden. Two dogs run across the field to the river.")
PREMISE = ("Two dogs run across the field to the river.", "The animals are asleep.")


def _ours(loaded: Loaded) -> list[Sample]:
    """What any model of the task can be shown."""
    if loaded.task == "question-answering":
        return [Sample(QUESTION)]
    if loaded.task == "classification" and loaded.classifier.parts == 2:
        return [Sample(PREMISE)]
    if loaded.task == "language-model":
        return [Sample((text,)) for text in BEGINNINGS]
    texts = TEXTS.get((loaded.languages[0] or "en").split("-")[0].lower(), TEXTS["en"])
    codes = loaded.targets or (None,)
    return [Sample((text,), to=to) for text in texts for to in codes]
