"""`regard doctor`: what is wrong with this machine, with a model, or with data.

What it is: no word: the machine, whether it computes rightly, and with --speed how fast. A model's folder: its files
against their sums, then the laws of laws.md run on it, as a report card. Files: what they hold, and the checks that
training makes of that.
What is unusual: it ends with 1 when a check or a law fails, 3 for data and 4 for files that cannot be read, so that
scripts may ask it.
What it does not know: how anything is measured (`regard.machine`, `regard.laws`, `regard.data`), and how what files
hold is told (`data.kinds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard import __version__
from regard.cli.common import Common
from regard.cli.console import print_json, size, table
from regard.cli.reporter import places
from regard.cli.train import columns_of, pair_of
from regard.errors import DataError
from regard.hub.packaged import PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from regard.data import Finding
    from regard.data.kinds import Kind
    from regard.machine import Machine, Speeds
    from regard.runtime import Form, Way

KINDS: dict[Kind, str] = {
    "pairs": "pairs, as for regard train translation",
    "one": "texts with a class each, as for regard train classification",
    "several": "texts with any number of classes, as for regard train classification --multi-label",
    "tags": "sentences with tags, as for regard train tagging",
    "questions": "questions on texts, as for regard train question-answering",
}
NO_SUMS = "no SHA-256 sums lie in this folder (regard import writes them)"


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Look for what is wrong: with this machine (no word), a model (its folder), or data (its files)."""

    what: Annotated[Positional[tuple[Path, ...]], arg(metavar="[MODEL] | [DATA...]", help_behavior_hint="")] = ()
    """Nothing, the folder of a model or a run, or files of what is trained on: pairs, labelled texts,
    tagged sentences, questions."""
    allow_nonfinite: bool = False
    """Open a model although it holds NaN or infinite weights."""
    speed: bool = False
    """Also measure how fast products, memory and attention are (about 3 s), and keep the table for training."""
    columns: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """The columns of source and target in a table, or of text (or two texts) and label: names, or numbers from 1."""
    languages: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """The two languages to take from a TMX file."""
    skip_bad: Annotated[int, arg(metavar="N")] = 0
    """How many malformed lines may be left out."""


def run(args: Arguments) -> int:
    """Look at what was named, show it, and say by the exit code whether all is well."""
    match args.what:
        case []:
            return _machine(args)
        case [path] if path.is_dir() or str(path).startswith(PREFIX):
            return _model(args, path)
    return _data(args)


def _model(args: Arguments, path: Path) -> int:
    device = args.apply()
    from regard.api import load
    from regard.hub.atomic import verify_manifest
    from regard.laws import OF_PARAMETERS, report_card, summary

    loaded = load(path, device=str(device), dtype="fp32", allow_nonfinite=args.allow_nonfinite)
    sums = "every file is as its SHA-256 sum says" if verify_manifest(loaded.path) else NO_SUMS
    card = report_card(loaded.model)
    # Texts are read and written by the model as it is packed for this machine, which the same laws bind.
    used = report_card(loaded.fast, numbers=[v.number for v in card if v.number not in OF_PARAMETERS])
    broken = [verdict for verdict in used if verdict.outcome == "fail"]
    if args.json:
        print_json({"model": loaded.path, "files": sums, "laws": card, "in_use": used, "summary": summary(card)})
    else:
        print(f"{loaded}: {sums}\n")
        rows = [(str(v.number), v.name, v.outcome, v.sentence) for v in card]
        rows += [(str(v.number), f"packed for this machine: {v.name}", v.outcome, v.sentence) for v in broken]
        table(["law", "", "", ""], rows)
        told = f"{sum(v.outcome == 'pass' for v in used)} of them also of the model as it is packed for this machine"
        print(f"\n{summary(card)}{'' if broken else f' {told}.'}")
    return 1 if any(verdict.outcome == "fail" for verdict in (*card, *used)) else 0


def _findings(args: Arguments, kind: Kind) -> list[Finding]:
    """What the checks of that kind find."""
    from regard.data import check_pairs, read_pairs
    from regard.data.conll import read_tagged
    from regard.data.label_checks import check_labelled, refuse_few_classes
    from regard.data.labelled import read_labelled
    from regard.data.question_checks import check_questions
    from regard.data.squad import read_questions
    from regard.tasks.tagged import check_tagged

    match kind:
        case "questions":
            return check_questions(read_questions(args.what, skip_bad=args.skip_bad))
        case "tags":
            return check_tagged(read_tagged(args.what, skip_bad=args.skip_bad))
        case "one" | "several":
            names = columns_of(args.columns)
            examples = read_labelled(args.what, kind=kind, columns=names, skip_bad=args.skip_bad)
            refuse_few_classes(examples)
            return check_labelled(examples)
    columns, languages = pair_of("columns", args.columns), pair_of("languages", args.languages)
    return check_pairs(read_pairs(args.what, columns=columns, languages=languages, skip_bad=args.skip_bad))


def _data(args: Arguments) -> int:
    from regard.data.kinds import kind_of

    kind = kind_of(args.what, columns_of(args.columns))
    findings = _findings(args, kind)
    if args.json:
        print_json({"data": args.what, "kind": kind, "findings": findings})
    else:
        print(f"read as {KINDS[kind]}\n")
        table(["", "check", "found", "for example"], [(f.severity, f.name, f.sentence, places(f)) for f in findings])
    return DataError.exit_code if any(finding.severity == "error" for finding in findings) else 0


def _machine(args: Arguments) -> int:
    from regard.machine import describe_machine, self_test, speeds
    from regard.runtime import FORMS, absence, measured_way, slower_here

    device = args.apply()
    machine, checks = describe_machine(), self_test(device)
    measured = speeds(device, refresh=True) if args.speed else None
    missing, lacks = absence(), slower_here()
    ways = {form: measured_way(form, refresh=True) for form in FORMS} if args.speed else {}
    if args.json:
        facts = {"kernels": missing or "compiled", "lacks": lacks, "ways": ways or None}
        print_json(_as_json(machine, device, checks, measured) | facts)
    else:
        _show_machine(machine, device, missing, lacks)
        _show_checks(checks)
        if measured:
            _show_speeds(measured, device, ways)
    return 0 if all(passed for _, passed, _ in checks) else 1


def _as_json(
    machine: Machine, device: torch.device, checks: list[tuple[str, bool, str]], measured: Speeds | None
) -> dict[str, Any]:
    tests = [{"name": name, "ok": passed, "sentence": sentence} for name, passed, sentence in checks]
    speed = {"speeds": measured} if measured else {}
    return {"regard": __version__, **vars(machine), "device": str(device), "self_test": tests, **speed}


def _show_machine(machine: Machine, device: torch.device, missing: str | None, lacks: Sequence[str]) -> None:
    rows = [
        ("regard", f"{__version__}, torch {machine.torch}, Python {machine.python}"),
        ("cpu", f"{machine.cpu}, {machine.instruction_set}"),
        ("cores", f"{machine.cores}, computing with {machine.threads} thread{'s' * (machine.threads > 1)}"),
        ("memory", f"{size(machine.memory_bytes)}, {size(machine.available_bytes)} available"),
        ("disk", f"{size(machine.disk_free_bytes)} free here"),
        ("devices", ", ".join(machine.devices)),
        ("device", str(device)),
        ("decoding", "kernels compiled for this CPU" if missing is None else f"by plain torch, slower: {missing}"),
        ("many rows", f"slower than elsewhere: {'; '.join(lacks)}" if lacks else "matrices in the CPU's own order"),
    ]
    table(["machine", ""], rows)


def _show_checks(checks: list[tuple[str, bool, str]]) -> None:
    print()
    table(["self-test", "", ""], [(name, "ok" if passed else "FAILED", sentence) for name, passed, sentence in checks])


def _show_speeds(measured: Speeds, device: torch.device, ways: Mapping[Form, Way]) -> None:
    from regard.machine import DTYPES, attention_kernel
    from regard.training.plan import bfloat16_from

    flops = ", ".join(f"{name} {value / 1e9:.0f} GFLOP/s" for name, value in measured.matmul_flops.items())
    width = bfloat16_from(measured)
    up_to = ", ".join(f"{form} {way.few}" for form, way in ways.items())
    wide = " and ".join(form for form, way in ways.items() if way.widened)
    print()
    rows = [
        ("products", flops),
        ("memory read", f"{measured.read_bytes_per_second / 1e9:.1f} GB/s"),
        ("training", "in float32" + (f"; from width {width} on in bfloat16" if width else "")),
        ("compiled kernels", f"for at most so many rows: {up_to}"),
        ("many rows", f"{wide} slower than float32 here: widened to it" if wide else "each form in its own"),
    ]
    table(["speed", ""], rows)
    print()
    kernels = [
        (
            row.dtype,
            str(row.length),
            f"{1000 * row.fused_seconds:.2f}",
            f"{1000 * row.open_seconds:.2f}",
            attention_kernel(measured, device, DTYPES[row.dtype], row.length),
        )
        for row in measured.attention
    ]
    table(["attention", "length", "fused ms", "open ms", "use"], kernels)
