"""Questions on texts, with the answers that stand in them: SQuAD's JSON, 1.1 and 2.0, or a table.

What it is: `read_questions`, which gives `Questions`.
What is unusual: an answer is where the text has it, not where the file says it is. One that stands elsewhere (offsets
counted in bytes, or after a text was edited) is moved to the nearest place and counted. One that stands nowhere can
still be scored against, but never trained on (`data.question_checks`).
What it does not know: tokens, and models.

    SQuAD     {"data": [{"paragraphs": [{"context": .., "qas": [{"id": .., "question": .., "answers": [..]}]}]}]}
    a table   question, context, answer, start (by a header, by the fields' names, or in this order); a JSONL record may
              have `answers` in place of the last two: [{"text", "answer_start"}], or the lists of the library datasets
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.data.files import MAX_BYTES, NOT_UTF8, Lines, shorten
from regard.data.languages import bare
from regard.data.tables import Row, Skipped, rows
from regard.errors import DataError

COLUMNS = ("question", "context", "answer", "start")
"""Of a table without a header, in this order; the last two may be absent."""
KINDS: dict[type, str] = {list: "list", str: "string"}
LARGEST_JSON = MAX_BYTES // 4
"""Bytes of a JSON file, which is read at once and takes several times its size."""


@dataclass(frozen=True)
class Reference:
    """An answer that a person gave.

    Attributes:
        text: as it stands in the context.
        start: the character of the context at which it begins; None: the context does not have it.
    """

    text: str
    start: int | None


@dataclass(frozen=True)
class Question:
    """A question on a text.

    Attributes:
        id: the file's own, or else its number in the file.
        answers: what people answered; none: the text does not say (SQuAD 2.0).
        where: its place in the file.
        moved: how many of its answers do not stand where the file says.
    """

    id: str
    question: str
    context: str
    answers: tuple[Reference, ...]
    where: str
    moved: int = 0

    @property
    def impossible(self) -> bool:
        """The text does not answer it."""
        return not self.answers

    @property
    def answer(self) -> Reference | None:
        """What is trained on: of the answers that the text has, the one most people gave, else the first."""
        found = [reference for reference in self.answers if reference.start is not None]
        return max(found, key=found.count, default=None)


@dataclass(frozen=True)
class Questions:
    """N questions, in the order of their files.

    Attributes:
        sha256: of each file as it lies on disk, by its path.
        skipped: the bad records left out.
    """

    items: tuple[Question, ...]
    sha256: Mapping[str, str]
    skipped: tuple[DataError, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.items)

    def take(self, keep: Callable[[Question], bool]) -> Questions:
        """The questions of which `keep` says True."""
        return replace(self, items=tuple(filter(keep, self.items)))

    @property
    def some_impossible(self) -> bool:
        """There are questions that their text does not answer."""
        return any(question.impossible for question in self.items)


def read_questions(
    paths: Sequence[Path], *, answered: bool = True, skip_bad: int | None = None, max_bytes: int = MAX_BYTES
) -> Questions:
    """Read questions from files: SQuAD's JSON (.json), or tables (.tsv, .csv, .jsonl), all plain, .gz or .zst.

    Args:
        answered: the questions come with their answers; if not, what stands in their place is not looked at.
        skip_bad: how many bad records to leave out before giving up; they are in `Questions.skipped`. None: none, and
            the user has no say in it.
        max_bytes: the most bytes of a table after decompression; of a JSON file a quarter of it.

    Raises:
        DataError: a file is missing, broken or too large, or holds no question; a record is bad.
    """
    items, digests, skipped = list[Question](), dict[str, str](), Skipped(skip_bad)
    for path in paths:
        whole = bare(path).suffix.lower() == ".json"
        with Lines(path, max_bytes=min(max_bytes, LARGEST_JSON) if whole else max_bytes) as lines:
            items += (_squad if whole else _table)(lines, skipped, answered)
            digests[str(path)] = lines.sha256
    if not items:
        raise DataError("there are no questions in it", where=" and ".join(map(str, paths)),
                        expected='a question with its context, as SQuAD\'s JSON has them ("data", "paragraphs", "qas") '
                        f"or a table with {', '.join(COLUMNS)}")  # fmt: skip
    return Questions(tuple(items), digests, tuple(skipped.errors))


def _squad(lines: Lines, skipped: Skipped, answered: bool) -> Iterator[Question]:
    document = _whole(lines)
    for i, article in enumerate(_get(document, "data", list, str(lines.path))):
        where = f"{lines.path}: data[{i}]"
        for j, paragraph in enumerate(_get(article, "paragraphs", list, where)):
            place = f"{where}.paragraphs[{j}]"
            context = _get(paragraph, "context", str, place)
            for k, asked in enumerate(_get(paragraph, "qas", list, place)):
                try:
                    yield _asked(asked, context, f"{place}.qas[{k}]", answered)
                except DataError as error:
                    skipped.add(error)


def _asked(asked: Any, context: str, where: str, answered: bool) -> Question:
    question = _get(asked, "question", str, where)
    if not answered or asked.get("is_impossible") is True:
        answers = list[tuple[str, Any]]()
    else:
        answers = _listed(_get(asked, "answers", list, where), where)
    return _question(str(asked.get("id", where)), question, context, answers, where)


def _table(lines: Lines, skipped: Skipped, answered: bool) -> Iterator[Question]:
    keys: dict[str, Any] | None = None
    width, contexts = 0, dict[str, str]()
    for number, row in rows(lines, skipped):
        where = f"{lines.path}:{number}"
        if keys is None:
            keys, header = _columns(row, where)
            width = len(row)
            if header:
                continue
        try:
            if isinstance(row, list) and len(row) != width:
                what = f"the row has {len(row)} columns and the first row {width}"
                raise DataError(what, where=where, got=shorten(str(row)))
            yield _of_row(row, keys, contexts, where, answered)
        except DataError as error:
            skipped.add(error)


def _of_row(row: Row, keys: Mapping[str, Any], contexts: dict[str, str], where: str, answered: bool) -> Question:
    fields = row if isinstance(row, dict) else {name: row[key] for name, key in keys.items()}
    question, context = (_get(fields, name, str, where) for name in ("question", "context"))
    context = contexts.setdefault(context, context)  # one string for all questions on it
    answers = fields.get("answers") if answered and fields.get("is_impossible") is not True else []
    if isinstance(answers, dict):
        texts, starts = (_get(answers, name, list, f"{where}: answers") for name in ("text", "answer_start"))
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=False)]
    if isinstance(answers, list):
        found = _listed(answers, where)
    else:
        text = "" if fields.get("answer") is None else _get(fields, "answer", str, where)
        found = [(text, fields.get("start"))]
    return _question(str(fields.get("id", where)), question, context, found, where)


def _columns(row: Row, where: str) -> tuple[dict[str, Any], bool]:
    """Name -> key of what a table has, and whether its first row is a header."""
    if isinstance(row, dict):
        return {}, False
    names = [name.strip().lower() for name in row]
    if {"question", "context"} <= set(names):
        return {name: names.index(name) for name in (*COLUMNS, "id") if name in names}, True
    if len(row) in (2, 3, 4):
        return {name: place for place, name in enumerate(COLUMNS[: len(row)])}, False
    raise DataError("there are no columns question and context", where=where, got=shorten(", ".join(names)),
                    expected=f"a header with them, or the columns {', '.join(COLUMNS)}")  # fmt: skip


def _listed(answers: Sequence[Any], where: str) -> list[tuple[str, Any]]:
    return [(_get(answer, "text", str, f"{where}: answers"), answer.get("answer_start")) for answer in answers]


def _question(identity: str, question: str, context: str, answers: Iterable[tuple[str, Any]], where: str) -> Question:
    references, moved = list[Reference](), 0
    for text, said in answers:
        if not text.strip():
            continue
        stated = _number(said, where)
        start = _place(context, text, stated)
        moved += stated is not None and start is not None and start != stated
        references.append(Reference(text, start))
    return Question(identity, question, context, tuple(references), where, moved)


def _place(context: str, text: str, stated: int | None) -> int | None:
    """Where the text stands: at the stated character, or else as near to it as can be."""
    if stated is not None and stated >= 0 and context.startswith(text, stated):
        return stated
    found = (match.start() for match in re.finditer(re.escape(text), context))
    return min(found, key=lambda start: abs(start - (stated or 0)), default=None)


def _number(value: Any, where: str) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        return int(value)
    if type(value) is not int:
        raise DataError("the start of an answer is not a whole number", where=where, got=repr(value)[:80],
                        expected="the number of its first character in the context, from 0")  # fmt: skip
    return value


def _whole(lines: Lines) -> Any:
    """The JSON value of a file."""
    data = b"".join(lines.blocks()).removeprefix(b"\xef\xbb\xbf")
    try:
        return json.loads(data)
    except UnicodeDecodeError as error:
        place = data.count(b"\n", 0, error.start) + 1
        raise DataError("the file is not UTF-8", where=f"{lines.path}:{place}", got=error, mend=NOT_UTF8) from None
    except json.JSONDecodeError as error:
        raise DataError("the file is not JSON", where=f"{lines.path}:{error.lineno}", got=error.msg,
                        mend="name a file with a record on each line .jsonl") from None  # fmt: skip
    except (RecursionError, ValueError) as error:  # nested too deep; a number of thousands of digits
        raise DataError("the JSON cannot be read", where=lines.path, got=str(error)[:200]) from None


def _get(value: Any, key: str, kind: type, where: str) -> Any:
    """A field of a JSON object; raises DataError where it is not there, or is of another kind."""
    if not isinstance(value, dict):
        raise DataError("this is not a JSON object", where=where, got=shorten(str(value)), expected=f'{{"{key}": ..}}')
    if not isinstance(value.get(key), kind):
        what = f"the field {key!r} is {f'not a {KINDS[kind]}' if key in value else 'missing'}"
        raise DataError(what, where=where, got=shorten(str(value)))
    return value[key]
