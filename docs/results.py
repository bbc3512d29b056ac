"""Write every table of results from the ledger: python docs/results.py

docs/results.md             all recipes that have a record, with signatures, machines and hashes
README.md, README.zh.md     the table between the two marks, one line a recipe: its first test set

A test compares the files with what this would write, so a figure cannot be typed in or go stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard import ledger
from regard.ledger import Entry, Figure, Record

CHECKOUT = Path(__file__).parents[1]
START, END = "<!-- results: written by docs/results.py -->\n", "<!-- /results -->"
HEADS = {
    "README.md": ("recipe", "test set", "scores", "seeds", "parameters", "minutes", "machine"),
    "README.zh.md": ("配方", "测试集", "分数", "种子数", "参数", "分钟", "机器"),
}
NAMES = {
    "bleu": "BLEU", "chrf": "chrF", "loss": "nats a token", "bits_per_byte": "bits a byte",
    "bits_per_character": "bits a character", "exact": "exact match", "f1": "F1", "macro_f1": "macro F1",
    "mcc": "Matthews", "bag_of_words_accuracy": "bag of words",
    "ngram_bits_per_byte": "n-grams' bits a byte", "xz_bits_per_byte": "bits a byte of xz -9",
}  # fmt: skip
SHORT = 2
"""Metrics of a recipe in the short table."""
BESIDE = ("multi30k-en-de-chapter", "multi30k-en-de-modern")
"""Recipes that differ in their architecture alone."""
PAGE = f"""# Results

Written by `python docs/results.py` from `src/regard/recipes`; a change by hand is lost, and a test notices it.
`regard reproduce NAME` runs a recipe again and says whether its scores fall where *a rerun should give* them: in the
95 % prediction interval over the recorded seeds, or with fewer than three of them around their mean, within
{ledger.TOLERANCES["bleu"]} points of BLEU or chrF, or {ledger.SHARE:.0%} of any other score. Sacrebleu scores text
against the references as they stand in the file, unless a line says otherwise. How fast models are used, beside other
engines, is in [inference.md](inference.md) (`python bench/inference.py --write`), and how fast they are trained in
[training.md](training.md).
"""


def recorded() -> Iterator[tuple[str, Entry, Record]]:
    """The recipes that have a record, in the order of the ledger."""
    for name in ledger.names():
        if record := ledger.find_record(name):
            yield name, ledger.find_entry(name), record


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(name: str, test: str, record: Record) -> tuple[str, ...]:
    """One line of the short table."""
    runs, figures = record.runs, record.figures[test]
    minutes = sorted(run.minutes for run in runs)
    took = f"{minutes[0]:.1f}" if minutes[0] == minutes[-1] else f"{minutes[0]:.1f} to {minutes[-1]:.1f}"
    metrics = ledger.find_entry(name).tests[test].metrics[:SHORT]
    scores = ", ".join(f"{label(metric)} {shown(metric, figures[metric].score)}" for metric in metrics)
    machines = dict.fromkeys(machine(run.machine) for run in runs)
    return (f"`{name}`", test, scores, str(len(runs)), f"{runs[0].parameters:,}", took, "; ".join(machines))


def label(metric: str) -> str:
    """A metric as people call it."""
    return NAMES.get(metric, metric.replace("_", " "))


def shown(metric: str, score: float) -> str:
    """Points to a tenth, all else to four digits."""
    return f"{score:.1f}" if metric in ("bleu", "chrf") else f"{score:.4g}"


def machine(facts: dict[str, object]) -> str:
    """A machine in a cell."""
    devices = facts["devices"]
    assert isinstance(devices, list)
    return (
        devices[-1]
        if len(devices) > 1
        else f"{facts['threads']} of {facts['cores']} CPU cores, {facts['instruction_set']}"
    )


def short_table(readme: str) -> str:
    """What stands between the marks of a README: the first test set of each recipe."""
    rows = [cells(name, next(iter(entry.tests)), record) for name, entry, record in recorded()]
    return START + "\n" + table(HEADS[readme], rows) + "\n" + END


def page() -> str:
    """docs/results.md."""
    sections = (section(name, entry, record) for name, entry, record in recorded())
    return "\n".join([PAGE, *architectures(), *sections])


def architectures() -> list[str]:
    """One table of the architectures set side by side, once each has a record."""
    records = [ledger.find_record(name) for name in BESIDE]
    rows = []
    for name, record in zip(BESIDE, records, strict=True):
        if record is None:
            return []
        axes, (test, found) = ledger.named_recipe(name).model, next(iter(record.figures.items()))
        scores = [", ".join(f"{run.scores[test][metric]:.2f}" for run in record.runs) for metric in found]
        means = [f"**{figure.score:.2f}** ({each})" for figure, each in zip(found.values(), scores, strict=True)]
        rows.append((f"`{name}`", f"{axes['norm_order']}, {axes['norm']}", axes["positions"],
                     f"{axes['activation']}{', gated' if axes.get('gated_ffn') else ''}",
                     f"{record.runs[0].parameters:,}", *means))  # fmt: skip
    metrics = [f"{label(metric)}: mean (each seed)" for metric in found]
    heads = ("recipe", "norm", "positions", "feed-forward", "parameters", *metrics)
    told = f"The same data, updates and rates (which suit norms before the sublayers), scored on {test}.\n"
    return ["## The chapter's architecture beside the modern one\n", told, table(heads, rows)]


def section(name: str, entry: Entry, record: Record) -> str:
    """All that is recorded of one recipe."""
    figures = [(test, metric, figure) for test, found in record.figures.items() for metric, figure in found.items()]
    rows = [
        (test, label(metric), f"{f.score:.4g}", f"{f.low:.4g} to {f.high:.4g}", signature(f))
        for test, metric, f in figures
    ]
    runs = [
        (str(run.seed), *(f"{run.scores[test][metric]:.4g}" for test, metric, _ in figures), f"{run.minutes:.1f}",
         f"{run.updates:,}", machine(run.machine), ", ".join(f"{k} {v}" for k, v in run.versions.items()), run.date)
        for run in record.runs
    ]  # fmt: skip
    heads = ("seed", *(f"{test} {label(metric)}" for test, metric, _ in figures))
    published = [
        f"Published in this setting: {test.published[0]} {label(test.metrics[0])} on {key}, {test.published[1]}."
        for key, test in entry.tests.items() if test.published
    ]  # fmt: skip
    return "\n".join([
        f"## {name}\n", f"{entry.title}. {record.runs[0].parameters:,} parameters{beam(entry)}.\n", *published,
        *([""] if published else []), f"    {record.command}\n",
        table(("test set", "metric", "score", "a rerun should give", "signature"), rows),
        table((*heads, "minutes", "updates", "machine", "versions", "date"), runs),
        "".join(f"- `{file}` sha256 {digest}\n" for file, digest in record.data.items()),
    ])  # fmt: skip


def beam(entry: Entry) -> str:
    """How a translator was searched."""
    return f", beam {entry.beam}" if any("bleu" in test.metrics for test in entry.tests.values()) else ""


def signature(figure: Figure) -> str:
    """For a cell: bars would end it."""
    return f"`{figure.signature}`".replace("|", "\\|") if figure.signature else ""


def with_table(text: str, readme: str) -> str:
    """A README with its table as the ledger has it."""
    before, rest = text.split(START)
    return before + short_table(readme) + rest.split(END)[1]


def main() -> None:
    """Write all three files."""
    (CHECKOUT / "docs" / "results.md").write_text(page(), encoding="utf-8")
    for readme in HEADS:
        path = CHECKOUT / readme
        path.write_text(with_table(path.read_text(encoding="utf-8"), readme), encoding="utf-8")


if __name__ == "__main__":
    main()
