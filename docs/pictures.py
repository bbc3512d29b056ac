"""Draw the README's picture of a trained translator: python docs/pictures.py runs/en-de

docs/alignment.svg  who the decoder looked at while it translated one sentence: cross-attention, the mean over the heads
                    of each layer, read through `watch` in one teacher-forced pass; rows are target tokens and sum to 1
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

import regard
from regard.inspect.alignment import pair_attention

SENTENCE = "Two young children are playing football on the beach."
HERE = Path(__file__).parent


def draw(loaded: regard.api.Loaded, path: Path) -> None:
    """One small matrix a layer, and the mean of them all with the words beside it."""
    best = loaded.translate([SENTENCE])[0]
    read = pair_attention(loaded.model, loaded.tokenizer, SENTENCE, best.text, {})
    source, target, layers = read.source, read.target, read.weights  # layers (L, T, S)
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    grid = figure.add_gridspec(len(layers), 2, width_ratios=(1, 4))
    for i, weights in enumerate(layers):
        axis = figure.add_subplot(grid[i, 0])
        axis.imshow(weights, cmap="Blues", vmin=0, aspect="auto")
        axis.set(title=f"layer {i + 1}", xticks=[], yticks=[])
        axis.title.set_fontsize(8)
    axis = figure.add_subplot(grid[:, 1])
    axis.imshow(layers.mean(0), cmap="Blues", vmin=0, aspect="auto")
    axis.set_xticks(range(len(source)), source, rotation=60, ha="right", fontsize=8)
    axis.set_yticks(range(len(target)), target, fontsize=8)
    axis.set_title("cross-attention: each target token (row) over the source, mean of all layers and heads", fontsize=9)
    figure.savefig(path)


def main() -> None:
    """Write it."""
    draw(regard.load(sys.argv[1]), HERE / "alignment.svg")


if __name__ == "__main__":
    main()
