"""Draw the pictures of the README from a trained translator: python docs/pictures.py runs/en-de

docs/alignment.svg  who the decoder looked at while it translated one sentence: cross-attention, the mean over the heads
                    of each layer, read through `watch` in one teacher-forced pass; rows are target tokens and sum to 1
docs/curves.svg     the run's own curves
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import regard
from regard.model import watch
from regard.tasks.translation import TranslationTask, collate

SENTENCE = "A woman with a red umbrella is walking two dogs in the park."
HERE = Path(__file__).parent


def cross_attention(loaded: regard.api.Loaded, text: str) -> tuple[list[str], list[str], list[torch.Tensor]]:
    """Source tokens (S), target tokens (T), and for each layer the mean over heads of its weights, (T, S)."""
    best = loaded.translate([text], alignments=True)[0]
    tokenizer = loaded.tokenizer
    source, target = tokenizer.encode(text), tokenizer.encode(best.text)
    batch = collate([source], [target], pad_id=tokenizer.pad_id, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
    with torch.no_grad(), watch(loaded.model, "decoder.layers.*.cross_attn.weights") as seen:
        TranslationTask().hidden(loaded.model, batch)
    ends = ([*tokenizer.tokens(source), "</s>"], [*tokenizer.tokens(target), "</s>"])
    return *ends, [weights[0].mean(0) for weights in seen.values()]


def draw(loaded: regard.api.Loaded, path: Path) -> None:
    """One small matrix a layer, and the mean of them all with the words beside it."""
    source, target, layers = cross_attention(loaded, SENTENCE)
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    grid = figure.add_gridspec(len(layers), 2, width_ratios=(1, 4))
    for i, weights in enumerate(layers):
        axis = figure.add_subplot(grid[i, 0])
        axis.imshow(weights, cmap="Blues", vmin=0, aspect="auto")
        axis.set(title=f"layer {i}", xticks=[], yticks=[])
        axis.title.set_fontsize(8)
    axis = figure.add_subplot(grid[:, 1])
    axis.imshow(torch.stack(layers).mean(0), cmap="Blues", vmin=0, aspect="auto")
    axis.set_xticks(range(len(source)), source, rotation=60, ha="right", fontsize=8)
    axis.set_yticks(range(len(target)), target, fontsize=8)
    axis.set_title("cross-attention: each target token (row) over the source, mean of all layers and heads", fontsize=9)
    figure.savefig(path)


def main() -> None:
    """Write both pictures."""
    run = Path(sys.argv[1])
    draw(regard.load(run), HERE / "alignment.svg")
    shutil.copy(run / "curves.svg", HERE / "curves.svg")


if __name__ == "__main__":
    main()
