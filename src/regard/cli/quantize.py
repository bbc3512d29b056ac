"""`regard quantize`: a model with rounded matrices, and a report on what that costs on its own kind of data.

What is unusual: nothing is written before the rounded model was scored beside the plain one, as `regard evaluate`
scores it; one that is worse by more than the tolerance is not written at all.
What it does not know: how matrices are rounded (`regard.runtime`), how they lie in a file (`regard.hub.quantized`), and
which score decides (`regard.tasks.quantization`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import err_console, print_json, size, table
from regard.errors import ConfigError, UserError

if TYPE_CHECKING:
    from regard.cli.evaluate import Arguments as Evaluated
    from regard.data.corpus import Corpus
    from regard.loaded import Loaded
    from regard.tasks.parity_cases import Case
    from regard.tasks.quantization import Verdict

Metrics = dict[str, dict[str, Any]]
VERBS = {
    "translation": "translate {}", "language-model": "generate {} --prompt TEXT", "classification": "classify {}",
    "masked-lm": "embed {} FILE --out F.npy", "embedding": "embed {} FILE --out F.npy", "tagging": "tag {}",
    "question-answering": "answer {} --question Q --context TEXT",
}  # fmt: skip
"""What to type next."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Round a model's matrices to bf16 or int8: a half or a quarter of the bytes, and quicker on a CPU.

    regard quantize runs/en-de en-de-int8 --to int8 --data test.en test.de

    It is scored on the data before and after, as `regard evaluate` would, and written only if it is hardly worse. OUT
    is used like any model, but not trained on, exported or looked into. The report is printed, and lies in config.json.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run, or a Hugging Face folder."""
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """The folder to write: a new one, or an empty one."""
    to: Literal["int8", "bf16"]
    """int8: whole numbers, a scale for each row of a matrix; bf16: bfloat16, everything."""
    data: Annotated[tuple[Path, ...], arg(metavar="FILE", help_behavior_hint="(required)")] = ()
    """What to score on: what `regard evaluate` takes for such a model; of an encoder that embeds, lines of text."""
    columns: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """The columns of source and target in a table, or of text (or two texts) and label."""
    unit: Annotated[str, arg(metavar="UNIT")] = "file"
    """What of a plain text is one document: file, paragraph, line, or a line that stands between two."""
    tolerance: Annotated[float | None, arg(metavar="X", help_behavior_hint="")] = None
    """How much worse is allowed: BLEU (0.5 points), loss (0.01 of it), accuracy, micro F1, correlation and F1 of spans
    (0.01), F1 of answers (1 point), cosine (0.005)."""


def run(args: Arguments) -> None:
    """Score both, write, open what was written, and say how they compare."""
    args.apply()
    from regard.api import load
    from regard.hub.atomic import refuse_existing

    _possible(args)
    refuse_existing(args.out)
    began = time.monotonic()
    before = load(args.model, device="cpu", dtype="fp32")
    opened = time.monotonic() - began
    report = quantize(before, args)
    began = time.monotonic()
    load(args.out, device="cpu")
    report |= {"open_seconds": {"before": round(opened, 3), "after": round(time.monotonic() - began, 3)}}
    if args.json:
        print_json(report)
    else:
        _show(report, quiet=args.quiet)


def quantize(before: Loaded, args: Arguments) -> dict[str, Any]:
    """Write the model at `args.out` with its matrices rounded, whole and found good, or not at all.

    Returns:
        The report that is also in config.json.

    Raises:
        UserError: the score of the rounded one is worse by more than is allowed; or the disk.
        ConfigError, DataError: the data is not what such a model is scored on.
    """
    from regard.hub.atomic import commit_folder
    from regard.hub.quantized import quantized_card, skeleton, write_quantized
    from regard.model import head_name
    from regard.runtime import furnish, narrowed

    tensors = narrowed(before.model, args.to)
    bare = skeleton(before.model.config, head_name(before.model), len(before.about.get("labels") or ()) or 1)
    after = replace(before, model=furnish(bare, tensors, args.to), form=None)
    verdict, report = measure(before, after, args)
    if not verdict.passed:
        raise _refused(args, verdict, report)
    report["bytes"] = {"before": _weights_of(before.path), "after": sum(tensor.nbytes for tensor in tensors.values())}
    texts = {"README.md": quantized_card(before.path, args.to, _told(report), args.out.name)}
    if (recipe := before.path / "recipe.toml").is_file():
        texts["recipe.toml"] = recipe.read_text(encoding="utf-8")
    target = None if before.target_tokenizer is before.tokenizer else before.target_tokenizer

    def write(draft: Path) -> None:
        write_quantized(draft, after.model, tensors, before.tokenizer, before.about, args.to, report, texts,
                        target_tokenizer=target)  # fmt: skip

    commit_folder(args.out, write, needs=report["bytes"]["after"])
    return {"model": before.path, "out": args.out, **report}


def measure(before: Loaded, after: Loaded, args: Arguments) -> tuple[Verdict, dict[str, Any]]:
    """Whether the second may take the place of the first, and the report."""
    from regard.cli import evaluate
    from regard.tasks.quantization import compare_outputs, judge

    asked = evaluate.Arguments(model=args.model, data=args.data, columns=args.columns, unit=args.unit, quiet=args.quiet,
                               seed=args.seed)  # fmt: skip
    change = compare_outputs(before.model, after.model, _cases(before, asked))
    if before.task == "embedding":
        examples, one, other = _embedded(before, after, args.data)
    else:
        examples, one, _ = evaluate.measure(before, asked)
        _, other, _ = evaluate.measure(after, asked)
    verdict = judge(before.task, one, other, args.tolerance)
    scores = {
        name: {"before": _finite(own["score"]), "after": _finite(other[name]["score"]),
               **({"signature": own["signature"]} if own.get("signature") else {})}
        for name, own in one.items() if name in other and name != "majority_accuracy"
    }  # fmt: skip
    return verdict, {
        "form": args.to, "task": before.task, "data": list(map(str, args.data)), "examples": examples, "scores": scores,
        **asdict(verdict), "passed": verdict.passed, "sentence": verdict.sentence, "limit": verdict.limit,
        **{name: _finite(value) for name, value in asdict(change).items()},
    }  # fmt: skip


def _possible(args: Arguments) -> None:
    """Raise ConfigError for what cannot be meant."""
    if not args.data:
        raise ConfigError("no data is given, and what rounding costs is known from data alone", where="--data",
                          expected="data of the model's task that it has not seen, as `regard evaluate` takes it",
                          mend="--data FILES")  # fmt: skip
    if args.tolerance is not None and not args.tolerance >= 0:
        raise ConfigError("a difference is not below 0", where="--tolerance", got=args.tolerance)
    if args.device not in (None, "cpu"):
        raise ConfigError("rounded models are made and scored on the CPU", where="--device", expected="cpu",
                          got=args.device)  # fmt: skip


def _cases(model: Loaded, args: Evaluated) -> list[Case]:
    """Texts of the data as the model reads them, some of all, each cut to what it reads."""
    from regard.tasks.parity_cases import Case
    from regard.tasks.quantization import LONGEST, windows_of
    from regard.tasks.reading import read_texts

    most = min(model.model.config.max_len, LONGEST)
    if model.task == "translation":
        return list(_pairs(model, args, most))
    if model.task == "language-model":
        first = model.conventions.lead or (model.beginning,)
        return [Case(target=(*first, *ids)) for ids in windows_of(_corpus(model, args), most - len(first))]
    if model.task == "masked-lm":
        around = len(model.tokenizer.wrap([])[0])
        windows = windows_of(_corpus(model, args), max(1, most - around))
        return [Case(*map(tuple, model.tokenizer.wrap(ids))) for ids in windows]
    reads, _ = read_texts(model.tokenizer, _texts(model, args), most)
    return [Case(source=tuple(read.ids), types=tuple(read.types)) for read in reads if read.ids]


def _pairs(model: Loaded, args: Evaluated, most: int) -> Iterator[Case]:
    """Sources, with their references, after which the next token is foretold."""
    from regard.cli.evaluate import read_data
    from regard.tasks.parity_cases import Case
    from regard.tasks.prefix import source_prefix
    from regard.tasks.quantization import spread_over

    pairs = read_data(args.data, args.columns, args.to)
    pairs, around = pairs.take(spread_over(len(pairs))), model.conventions
    codes: Sequence[str | None] = pairs.to or [None] * len(pairs)
    sources, targets = (of.encode_batch(side) for of, side in ((model.tokenizer, pairs.source),
                                                               (model.target_tokenizer, pairs.target)))  # fmt: skip
    for code, source, target in zip(codes, sources, targets, strict=True):
        lead = source_prefix(model.tokenizer, code, only=model.languages[1])
        room = most - len(around.lead) - len(around.tail)
        read = (*around.lead, *(lead + source)[:room], *around.tail)
        yield Case(source=read, target=(*around.first, *target)[:most])


def _texts(model: Loaded, args: Evaluated) -> list[tuple[str, ...]]:
    """Those of labelled texts, of tagged words, of questions with their contexts, or lines."""
    from regard.data import read_lines
    from regard.data.conll import read_tagged
    from regard.data.labelled import read_labelled
    from regard.data.squad import read_questions
    from regard.tasks.quantization import spread_over
    from regard.tasks.tagging import joined

    texts: list[tuple[str, ...]]
    if model.task == "classification":
        columns = args.columns.split(",") if args.columns else None
        kind, until = model.classifier.labels.kind, model.about.get("label_until")
        texts = read_labelled(args.data, kind=kind, columns=columns, until=until).texts
    elif model.task == "tagging":
        texts = [(joined(words)[0],) for words in read_tagged(args.data).words]
    elif model.task == "question-answering":
        texts = [(question.question, question.context) for question in read_questions(args.data)]
    else:
        texts = [(line,) for path in args.data for line in read_lines(path) if line.strip()]
    return [texts[i] for i in spread_over(len(texts))]


def _corpus(model: Loaded, args: Evaluated) -> Corpus:
    """The documents as ids; of conversations the words that were said, without what stands around them."""
    from regard.data.chat import is_chat, read_chats
    from regard.data.documents import Document, read_documents
    from regard.data.encoding import encode_documents
    from regard.data.shards import is_prepared, open_shards

    if len(args.data) == 1 and is_prepared(args.data[0]):
        return open_shards(args.data[0], model.tokenizer)
    if model.task == "language-model" and is_chat(args.data[0]):
        chats = read_chats(args.data).chats
        said = (Document("\n".join(turn.content for turn in chat.turns), chat.path, chat.line) for chat in chats)
        return encode_documents(said, model.tokenizer)
    return encode_documents(read_documents(args.data, unit=args.unit, field=args.field), model.tokenizer)


def _embedded(before: Loaded, after: Loaded, files: Sequence[Path]) -> tuple[int, Metrics, Metrics]:
    """How many lines, and the mean cosine of their vectors with those of before, which is 1 before."""
    import torch

    from regard.data import read_lines
    from regard.tasks.quantization import cosines

    lines = [line for path in files for line in read_lines(path) if line.strip()]
    if not lines:
        raise ConfigError("there is no text in the data", where="--data", got=", ".join(map(str, files)),
                          mend="name files with a text on each line")  # fmt: skip
    one, other = (torch.from_numpy(model.embed(lines)) for model in (before, after))
    return len(lines), {"cosine": {"score": 1.0}}, {"cosine": {"score": cosines(one, other)}}


def _weights_of(folder: Path) -> int:
    """Bytes of the files with a model's weights."""
    from regard.hub.weights import find_weights

    return sum(path.stat().st_size for path in {stored.path for stored in find_weights(folder).values()})


def _finite(value: Any) -> Any:
    """The same; None for a number that JSON has no name for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _refused(args: Arguments, verdict: Verdict, report: Mapping[str, Any]) -> UserError:
    other = "--to bf16, which rounds less" if args.to == "int8" else "keep the plain model"
    return UserError(
        "the rounded model is worse than the original by more than is allowed, so it is not written", where=args.out,
        expected=f"{verdict.judged}: at most {verdict.limit}", got=f"{verdict.sentence}, {_on(report)}",
        mend=f"{other}; or allow more: --tolerance X",
    )  # fmt: skip


def _on(report: Mapping[str, Any]) -> str:
    return f"on {_counted(report)} of {', '.join(report['data'])}"


def _counted(report: Mapping[str, Any]) -> str:
    return f"{report['examples']:,} example{'s' * (report['examples'] != 1)}"


def _told(report: Mapping[str, Any]) -> str:
    of = report["scores"][report["judged"]]
    return f"{report['judged']} is {of['before']:.4g} before and {of['after']:.4g} after, {_on(report)}."


def _show(report: Mapping[str, Any], *, quiet: bool) -> None:
    """The report as a table on stdout; what to do next on stderr."""
    both = report["bytes"]
    rows = [("on", _counted(report))]
    rows += [(name, f"{_number(of['before'])} before, {_number(of['after'])} after  {of.get('signature', '')}".rstrip())
             for name, of in report["scores"].items()]  # fmt: skip
    rows += [
        (report["quantity"], f"largest difference {_number(report['largest'])}, spread {_number(report['spread'])}, "
                             f"on {report['texts']:,} texts"),
        ("weights", f"{size(both['before'])} before, {size(both['after'])} after"),
        ("opened in", "{before:.2f} s before, {after:.2f} s after".format(**report["open_seconds"])),
        ("judged", f"{report['sentence']}, allowed {report['limit']}"),
    ]  # fmt: skip
    table([f"quantized to {report['form']}", ""], rows)
    if not quiet:
        err_console.print(f"\nnow: regard {VERBS[report['task']].format(report['out'])}", markup=False)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
