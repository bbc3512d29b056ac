"""`regard demo`: makes its data, trains on it, scores what it has never seen, draws the model's attention, and writes
a page on which all of it can be looked at.

What is unusual: nothing is downloaded, and it is no path of its own: `train` by flags that anybody could type, on a
table that anybody could write (`data.localiser`). Run again, it scores and shows the model that is there; a run that
was cut short is gone on with.
What it does not know: how texts are made, how a model is trained, how a picture is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from regard.cli import train
from regard.cli.common import Common
from regard.cli.console import err_console, print_json, progress, table
from regard.cli.look import open_in_browser

if TYPE_CHECKING:
    from regard.api import Loaded
    from regard.data.localiser import Item

SEED = 1
"""Of the data; a run's own is --seed."""
SETTINGS = (
    "tokenizer.vocab_size=2000", "model.d_model=128", "model.n_heads=4", "model.d_ff=256", "model.n_encoder_layers=2",
    "model.n_decoder_layers=2", "model.positions=rope", "model.dropout=0.0", "label_smoothing=0.0", "batch.tokens=700",
    "optim.lr=5e-3", "optim.matrix_lr=1e-2",
)  # fmt: skip
"""What a plan would choose is for sentences that repeat. This data is exact and hardly seen twice, so it wants many
small updates at a high rate, without dropout or smoothing; rotary positions learn to copy digits sooner."""
SHOWN = 10
"""Translations."""
SENTENCES = 30
"""On which the roles of heads are measured."""
TOGETHER = 100
"""Texts translated between two looks at the progress."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Train a translator of dates, amounts, names and numbers, English to German, French and Chinese, in minutes."""

    minutes: Annotated[float, arg(metavar="M")] = 3.8
    """Wall clock for the training."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/demo")
    """The run's folder; its data is in DIR/data, its picture is DIR/reordering.svg, its page DIR/demo.html."""


@dataclass(frozen=True)
class Score:
    """How good the translations of one kind into one language are."""

    kind: str
    to: str
    examples: int
    exact: float
    """The share that is right to the last character."""
    chrf: float
    """sacrebleu's, 0 to 100."""


def run(args: Arguments) -> None:
    """Make the data, train, score, show, draw, and say what to type next."""
    device = args.apply()
    from regard.api import load
    from regard.data.localiser import make_items

    began = time.monotonic()
    items = make_items("test", SEED)
    if not (args.out / "checkpoints" / "final").exists():
        _train(args)
    model = load(args.out, device=str(device))
    outputs = _translate(model, items, quiet=args.quiet)
    scores = score(items, outputs)
    picture, layer, errors = draw(model, items, args.out)
    page = write_page(model, args.out)
    if args.json:
        rows = [
            {"source": item.source, "to": item.to, "kind": item.kind, "translation": output, "reference": item.target}
            for item, output in zip(items, outputs, strict=True)
        ]
        print_json({
            "model": args.out, "data": args.out / "data" / "test.tsv", "examples": len(items), "scores": scores,
            "picture": picture, "page": page, "layer": layer, "alignment_errors": errors, "translations": rows,
            "seconds": round(time.monotonic() - began, 1),
        })  # fmt: skip
        return
    _show(items, outputs, scores)
    print(f"\npicture of the cross-attention of layer {layer + 1}, which strays least ({errors[layer]:.0%}): {picture}")
    print(f"page with every number of it: {page}, or, with a text of your own: regard look {args.out}")
    open_in_browser(page.resolve().as_uri())
    print(f"\nnow: echo 'July 4, 2031' | regard translate {args.out} --to zh\n     regard info {args.out}")
    print("your own: regard train translation SRC TGT --dev SRC TGT --out DIR --minutes 10")


def _train(args: Arguments) -> None:
    """Write the data, and train on it as the command would; a run that is there is gone on with."""
    from regard.data.localiser import make_items, write_items

    folder = args.out / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev", "test"):
        if not args.quiet:
            err_console.print(f"writing {folder / part}.tsv")
        write_items(make_items(part, SEED), folder / f"{part}.tsv")
    train.train_and_tell(
        train.Arguments(
            what=("translation", str(folder / "train.tsv")), dev=(str(folder / "dev.tsv"),), languages="en,mul",
            out=args.out, minutes=args.minutes, set=SETTINGS, resume=(args.out / "latest").exists(), quiet=args.quiet,
            device=args.device, threads=args.threads, seed=args.seed,
        )
    )  # fmt: skip


def _translate(model: Loaded, items: Sequence[Item], *, quiet: bool) -> list[str]:
    outputs = list[str]()
    with progress("translating", len(items), quiet=quiet) as advance:
        for start in range(0, len(items), TOGETHER):
            some = items[start : start + TOGETHER]
            found = model.translate([item.source for item in some], to=[item.to for item in some])
            outputs += [translation.text for translation in found]
            advance(len(some), "")
    return outputs


def score(items: Sequence[Item], outputs: Sequence[str]) -> list[Score]:
    """The score of each kind in each language, and of all kinds in each language under the name "all"."""
    from regard.data.localiser import KINDS, TARGETS
    from regard.tasks.metrics import translation_metrics

    scores = []
    for kind in (*KINDS, "all"):
        for to in TARGETS:
            rows = [i for i, item in enumerate(items) if item.to == to and kind in (item.kind, "all")]
            found, wanted = [outputs[i] for i in rows], [items[i].target for i in rows]
            exact = sum(map(str.__eq__, found, wanted)) / len(rows)
            chrf = translation_metrics(found, wanted, to)["chrf"]["score"]
            scores.append(Score(kind, to, len(rows), round(exact, 4), round(chrf, 2)))
    return scores


def draw(model: Loaded, items: Sequence[Item], out: Path) -> tuple[Path, int, list[float]]:
    """Draw one date into German and Chinese; also the layer that is drawn, and the alignment error of each layer.

    The layer is the one whose attention strays least from the true alignment, over all items that have one.
    """
    from regard.data.localiser import same_date
    from regard.inspect.alignment import PairAttention, layer_errors, pair_attention
    from regard.inspect.picture import draw_reordering
    from regard.tasks.prefix import source_prefix

    def look(item: Item) -> PairAttention:
        prefix = source_prefix(model.tokenizer, item.to)
        texts = item.source, item.target
        return pair_attention(model.model, model.tokenizer, *texts, item.alignment, prefix=prefix)

    errors = layer_errors(look(item) for item in items if item.alignment)
    layer = min(range(len(errors)), key=errors.__getitem__)
    names = {"de": "English into German", "zh": "English into Chinese"}
    picture = out / "reordering.svg"
    draw_reordering({names[item.to]: look(item) for item in same_date(SEED) if item.to in names}, layer, picture)
    return picture, layer, errors


def write_page(model: Loaded, out: Path) -> Path:
    """Write the page with one date into each language and the roles of the heads, whole in one file."""
    from regard.api import look
    from regard.data.localiser import same_date
    from regard.hub.atomic import write_text_atomic
    from regard.inspect.desk import measured_roles
    from regard.inspect.embedded import page_of
    from regard.inspect.payload import fingerprint
    from regard.inspect.samples import samples

    views = [look(model, item.source, to=item.to).view for item in same_date(SEED)]
    page, roles = out / "demo.html", measured_roles(model, samples(model, SENTENCES))
    write_text_atomic(page, page_of(model, views, mark=fingerprint(model.path), roles=roles))
    return page


def _show(items: Sequence[Item], outputs: Sequence[str], scores: Sequence[Score]) -> None:
    from regard.data.localiser import TARGETS

    print(f"\nOn {len(items)} items with values it has not seen, exact to the last character, and chrF:\n")
    rows = [scores[i : i + len(TARGETS)] for i in range(0, len(scores), len(TARGETS))]
    cells = ([row[0].kind, *(f"{found.exact:4.0%}  {found.chrf:5.1f}" for found in row)] for row in rows)
    table(["", *(f"en-{to}" for to in TARGETS)], cells)
    print()
    shown = zip(items[:SHOWN], outputs, strict=False)
    table(
        ["English", "to", "translation", ""],
        [(i.source, i.to, o, "right" if o == i.target else f"wrong: {i.target}") for i, o in shown],
    )
