"""`regard export`: a model for other tools, with a report that it computes the same there.

What is unusual: nothing stands at OUT before the other tool has opened it and agreed with our model on real text; one
that differs by more than the tolerance is not left there.
What it does not know: how a model is written (`regard.hub.export`) and compared (`regard.tasks.parity`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import err_console, print_json, table
from regard.errors import ConfigError, UserError

if TYPE_CHECKING:
    from regard.hub.export import Form, Ids
    from regard.hub.folder import ModelFolder
    from regard.tasks.parity import Parity

TABLES = (".tsv", ".csv", ".jsonl", ".tmx")
MOST = 1_000
"""Texts that are compared, spread over the data."""
MANY = 100
"""More than so many take their time, which is said."""
NEXT = {
    "hf": "transformers.{opened_by}.from_pretrained({out!r}), transformers.AutoTokenizer.from_pretrained({out!r})",
    "ctranslate2": "ctranslate2.{opened_by}({out!r}), transformers.AutoTokenizer.from_pretrained({out!r})",
}
"""What to type next."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Write a model for other tools, and compare the two on real text before it is given away.

    regard export runs/en-de en-de-hf --to hf --data test.en test.de

    regard export runs/en-de en-de-int8 --to ctranslate2 --quantization int8 --data test.en test.de

    The report is printed, and lies in OUT as parity.json.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """The folder to write: a new one, or an empty one."""
    to: Literal["hf", "ctranslate2"]
    """hf: a Hugging Face folder, for transformers and whatever reads its models; ctranslate2: for CTranslate2."""
    data: Annotated[tuple[Path, ...], arg(metavar="FILE", help_behavior_hint="")] = ()
    """What to compare on: for a translator SRC TGT or a table of pairs (then BLEU is measured too), else lines of text;
    without it, some sentences of our own."""
    quantization: Annotated[str | None, arg(metavar="TYPE", help_behavior_hint="")] = None
    """Round the weights, as CTranslate2 calls it: int8, int8_float32, int16, float16, bfloat16."""
    tolerance: Annotated[float | None, arg(metavar="X", help_behavior_hint="")] = None
    """The greatest difference allowed: of logits (1e-4), of log-probabilities (1e-3), or, of rounded weights, how much
    worse: BLEU points (0.5), or nats a token where there are no references (0.05)."""


@dataclass(frozen=True)
class Texts:
    """What is compared on: N texts, and for a translator, perhaps, N references in the languages `to`."""

    texts: Sequence[str]
    references: Sequence[str] | None = None
    to: Sequence[str] | None = None


def run(args: Arguments) -> None:
    """Open, write, compare, and say how they compare."""
    args.apply()
    from regard.hub.atomic import refuse_existing
    from regard.hub.folder import load_model
    from regard.hub.labels import settle_units
    from regard.tasks.peers import need

    if args.quantization is not None and args.to != "ctranslate2":
        raise ConfigError("only CTranslate2 has such weights", where="--quantization", got=f"--to {args.to}",
                          mend="leave it out, or export --to ctranslate2")  # fmt: skip
    if args.tolerance is not None and not args.tolerance >= 0:
        raise ConfigError("a difference is not below 0", where="--tolerance", got=args.tolerance)
    refuse_existing(args.out)
    need(args.to)
    found = load_model(args.model)
    settle_units(found.model, found.about)
    data = read_texts(args.data, found)
    if len(data.texts) > MANY and not args.quiet:
        err_console.print(f"to be compared on {len(data.texts):,} texts, which may take minutes")
    report = export(
        found, args.out, to=args.to, data=data, quantization=args.quantization, tolerance=args.tolerance
    )  # fmt: skip
    if args.json:
        print_json(report)
    else:
        _show(report, quiet=args.quiet)


def read_texts(files: Sequence[Path], found: ModelFolder) -> Texts:
    """The texts of --data, or our own. Two files or a table are pairs, for a translator; others are lines.

    Of many, a thousand spread over the data.
    """
    from regard.data import read_lines, read_pairs
    from regard.data.languages import bare
    from regard.tasks.parity_cases import SENTENCES

    if not files:
        return Texts(SENTENCES)
    if found.about.get("task") == "translation" and (len(files) == 2 or bare(files[0]).suffix.lower() in TABLES):
        pairs = read_pairs(files)
        pairs = pairs.take(_spread(len(pairs)))
        return Texts(pairs.source, pairs.target, pairs.to)
    lines = [line for path in files for line in read_lines(path) if line.strip()]
    if not lines:
        raise ConfigError("there is no text in the data", where="--data", got=", ".join(map(str, files)),
                          mend="name files with a text on each line")  # fmt: skip
    return Texts([lines[i] for i in _spread(len(lines))])


def _spread(count: int) -> list[int]:
    return sorted({i * count // MOST for i in range(MOST)})


def export(
    found: ModelFolder, out: Path, *, to: str, data: Texts, quantization: str | None = None,
    tolerance: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Write the model at `out` in the form that `to` names, whole and compared, or not at all.

    Returns:
        The report that is also in parity.json.

    Raises:
        ConfigError: the model cannot be said in that form.
        UserError: the two differ by more than is allowed; or the disk.
    """
    from regard.hub.atomic import commit_folder
    from regard.hub.ctranslate import refuse_unconverted, write_ctranslate2
    from regard.hub.export import find_form, write_hugging_face
    from regard.model import head_name

    config, head = found.model.config, head_name(found.model)
    form = find_form(config, head, found.about.get("family"))
    if to == "ctranslate2":
        refuse_unconverted(form.family, config, found.path)
    ids = _ids(found)
    report: dict[str, Any] = {}

    def write(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".tmp-export-") as scratch:
            theirs = folder if to == "hf" else Path(scratch)
            notes = write_hugging_face(theirs, found, form, ids)
            if to == "ctranslate2":
                write_ctranslate2(folder, theirs, found, ids, quantization)
        measured = _compare(found, folder, data, ids, to, quantized=quantization not in (None, "float32"),
                            tolerance=tolerance)  # fmt: skip
        notes = (*found.notes, *notes, *_on_languages(found))
        report.update(_report(found, out, form, measured, notes, to=to, quantization=quantization))
        if not measured.passed:
            raise _refused(out, measured, rounded=quantization not in (None, "float32"))
        public = {name: value for name, value in report.items() if name not in ("model", "out")}
        (folder / "parity.json").write_text(json.dumps(public, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    commit_folder(out, write, needs=4 * config.n_parameters * (2 if to == "ctranslate2" else 1))
    return report


def _ids(found: ModelFolder) -> Ids:
    """What the model begins and ends with, and never says."""
    from regard.hub.export import Ids
    from regard.tasks.conventions import Conventions
    from regard.tasks.prefix import source_prefix, target_languages

    said = found.target_tokenizer
    own = Conventions.read(found.about, found.tokenizer, said)
    lead = source_prefix(found.tokenizer, None) if len(target_languages(found.tokenizer)) < 2 else []
    beyond = range(said.vocab_size, found.model.config.target_vocab_size)
    start = own.start if found.model.config.n_encoder_layers else None
    return Ids(start, own.ends, tuple(lead), own.forced, (*own.silent, *beyond))


def _compare(
    found: ModelFolder, folder: Path, data: Texts, ids: Ids, to: str, *, quantized: bool, tolerance: float | None
) -> Parity:
    """Both on the same texts."""
    from regard.hub.export import exported_tokenizer
    from regard.model import head_name
    from regard.tasks.parity import Peer, measure, with_scores
    from regard.tasks.parity_cases import ask
    from regard.tasks.peers import CTranslate2Peer, TransformersPeer, read_differently

    config, tokenizer = found.model.config, exported_tokenizer(found, ids)
    if others := read_differently(folder, tokenizer, data.texts):
        first = others[0]
        raise UserError(
            "transformers cuts texts into other tokens with this vocabulary", where=found.path,
            expected=f"{first.shown(first.ours)} for {first.text[:80]!r}",
            got=f"{first.shown(first.theirs)}, and other ids for {len(others):,} of {len(data.texts):,} texts in all",
            mend="use the model with regard, or in transformers the folder that it was imported from, if any; for a "
            "model that is to be exported, take a vocabulary of the family that it is exported as",
        )  # fmt: skip
    peer: Peer = (
        TransformersPeer(folder, config, head_name(found.model), ids)
        if to == "hf"
        else CTranslate2Peer(folder, config, ids)
    )
    _, language = found.about.get("languages") or (None, None)
    cases, questions = ask(config, tokenizer, data.texts, ids, leads=_leads(found, data),
                           ratio=float(found.about.get("length_ratio", 1.0)))  # fmt: skip
    measured, ours, theirs = measure(found.model, ids, peer, cases, questions, quantized=quantized, tolerance=tolerance)
    if data.references is None:
        return measured
    read = found.target_tokenizer.decode
    return with_scores(measured, [*map(read, ours)], [*map(read, theirs)], data.references, language, tolerance)


def _on_languages(found: ModelFolder) -> list[str]:
    """What no template can put before a source, for the user must choose."""
    from regard.tasks.prefix import language_token, target_languages

    if len(languages := target_languages(found.tokenizer)) < 2:
        return []
    tokens = " or ".join(map(language_token, languages))
    return [f"before the ids of each source goes that of the language to translate into: {tokens}"]


def _leads(found: ModelFolder, data: Texts) -> list[list[int]]:
    """What stands before each source of a translator of several languages: the data's, or else its first."""
    from regard.tasks.prefix import source_prefix, target_languages

    if len(languages := target_languages(found.tokenizer)) < 2:
        return []
    return [source_prefix(found.tokenizer, code) for code in data.to or languages[:1] * len(data.texts)]


def _report(
    found: ModelFolder, out: Path, form: Form, measured: Parity, notes: Sequence[str], **asked: Any
) -> dict[str, Any]:
    given = {name: value for name, value in asked.items() if value is not None}
    return {
        "model": str(found.path), "out": str(out), **given, "family": form.family.name, **asdict(measured),
        "passed": measured.passed, "notes": list(notes),
    }  # fmt: skip


def _refused(out: Path, measured: Parity, *, rounded: bool) -> UserError:
    parts = [f"{measured.judged}: {measured.difference:.3g}"]
    if measured.outputs:
        parts.append(f"{measured.same:,} of {measured.outputs:,} greedy outputs the same ({measured.ties:,} ties)")
    return UserError(
        "the exported model does not do what the original does, so it is not left there", where=out,
        expected=f"{measured.judged}: a difference of at most {measured.allowed:.3g}", got=", ".join(parts),
        mend=f"{'round the weights less' if rounded else 'report it, for the two should agree'}, or allow more: "
        "--tolerance X",
    )  # fmt: skip


def _show(report: Mapping[str, Any], *, quiet: bool) -> None:
    """The report as a table on stdout; what to do next on stderr."""
    outputs = f"{report['same']:,} of {report['outputs']:,} the same"
    rows = [
        ("family", report["family"]),
        ("compared by", report["peer"]),
        ("on", f"{report['texts']:,} texts, {report['tokens']:,} tokens"),
        (report["quantity"], f"largest difference {report['largest']:.2g}, spread {report['spread']:.2g}"),
    ]
    rows += [("greedy outputs", outputs + (f", {report['ties']:,} ties" if report["ties"] else ""))] * bool(
        report["outputs"]
    )
    rows += [(name, f"{of['ours']:.2f} before, {of['exported']:.2f} after  {of['signature']}")
             for name, of in report["scores"].items()]  # fmt: skip
    rows += [("judged", f"{report['judged']}: {report['difference']:.2g}, allowed {report['allowed']:.2g}")]
    table([f"exported to {report['to']}", ""], [*rows, *(("note", note) for note in report["notes"])])
    if not quiet:
        err_console.print(f"\nnow, in Python: {NEXT[report['to']]}".format(**report), markup=False)
