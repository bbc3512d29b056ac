"""What a model saw of one text, for people who write code: arrays by name, a figure, the page in a notebook.

    seen = regard.look("runs/demo", "July 4, 2031", to="zh")
    seen.weights("decoder.layers.1.cross_attn")           # (H, T, S)
    seen                                                  # in a notebook, the page; in a terminal, a map of text

What is unusual: it holds one pass, not a session: nothing runs again unless `regard.look` is called again. What a
notebook shows is the file that `save` writes, in a frame of its own that reaches nothing outside.
What it does not know: how a view comes to be (`inspect.views`), and the command line.

Shapes: H heads, T queries, S keys.
"""

from __future__ import annotations

import difflib
import html
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import ConfigError
from regard.hub.atomic import replace_file, write_text_atomic
from regard.inspect.embedded import page_of
from regard.inspect.parts import Part, check, parts_of
from regard.inspect.payload import fingerprint, write_npz
from regard.inspect.sides import Side
from regard.inspect.terminal import Labels, heat_map
from regard.inspect.views import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.loaded import Loaded

FRAME = '<iframe srcdoc="{}" sandbox="allow-scripts allow-downloads" title="{}" style="{}"></iframe>'
STYLE = "width:100%;height:860px;border:0"


@dataclass(frozen=True)
class Look:
    """One run of a model with all that was seen; from `regard.look`.

    Attributes:
        model: that ran.
        view: both sides with their tokens, what was written with its probabilities, outputs, and the tensors.
    """

    model: Loaded = field(repr=False)
    view: View = field(repr=False)

    @property
    def text(self) -> str | None:
        """What was written, as plain text; None of a model that writes nothing."""
        return self.view.text

    @cached_property
    def tokens(self) -> dict[str, list[str]]:
        """The tokens of "source" and "target" as they are read, and under "writes" what each target row writes."""
        found: dict[str, list[str]] = {side.name: [token.text for token in side.tokens] for side in self._sides}
        if self.view.target is not None:
            found["writes"] = ["" if row is None else row.text for row in self.view.target.writes or ()]
        return found

    @property
    def attentions(self) -> list[str]:
        """The places that `weights`, `labels` and `plot` know by name, such as "decoder.layers.0.cross_attn"."""
        return list(self._parts)

    def weights(self, name: str) -> np.ndarray:
        """Attention weights (H, T, S) float32 of one of `attentions`; rows sum to 1. Raises ConfigError for another."""
        self._part(name)
        return self.values(f"{name}.weights")

    def values(self, name: str) -> np.ndarray:
        """Any tensor of `view.names`, without the batch axis; raises ConfigError with near names for another name."""
        return self.view.tensor(name)

    def to_numpy(self) -> dict[str, np.ndarray]:
        """All that passed, by name."""
        return dict(self.view.tensors)

    def labels(self, name: str) -> tuple[list[str], list[str]]:
        """What stands beside the T rows and above the S columns of the weights of one of `attentions`.

        A row of cross-attention is called by what it writes, one of self-attention by what it reads. Raises ConfigError
        for another name.
        """
        part = self._part(name)
        rows = self.tokens["writes" if part.name == "decoder.cross" else part.queries]
        return rows, self.tokens[part.keys]

    def plot(self, name: str, head: int | None = None) -> Figure:
        """A matplotlib figure of the weights of one of `attentions`: of one head, or (None) the mean of all.

        Raises:
            ConfigError: `name` is none of `attentions` (other tensors are not drawn), or there is no such head.
        """
        from regard.inspect.plot import draw_attention

        weights, (rows, columns) = self.weights(name), self.labels(name)
        if head is not None:
            check("head", head, len(weights), f"counted from 0 ({name})")
        shown = weights.mean(0) if head is None else weights[head]
        return draw_attention(shown, rows, columns, f"{name}, {_whose(head, len(weights))}")

    def as_text(self, *, width: int = 80, blocks: bool = True) -> str:
        """What came out, and a map of the attention that tells most: the sharpest layer of the decoder's to its source.

        Of a model without both, of its only attention. Sharp: the largest weight of a row, on average.
        """
        part = parts_of(self.model.model.config)[-1]
        layers = self.view.tensor(f"{part.name}.weights").mean(1)  # (L, T, S)
        if not layers.size:
            return "\n".join(self._outcome())
        layer = int(layers.max(-1).mean(-1).argmax())
        rows, columns = self.labels(part.at(layer))
        of = f", the sharpest of {len(layers)}" if len(layers) > 1 else ""
        title = f"{part.name}, layer {layer}{of}, mean of {part.heads} heads"
        drawn = heat_map(Labels(rows, columns), layers[layer], width=width, blocks=blocks)
        return "\n".join([*self._outcome(), "", title, "", drawn])

    def save(self, path: str | Path) -> None:
        """Write the page with this run as one .html file, or all tensors as an .npz.

        Raises:
            ConfigError: the name ends in neither.
            UserError: it cannot be written.
        """
        where = Path(path)
        if where.suffix.lower() == ".html":
            write_text_atomic(where, self._page)
        elif where.suffix.lower() == ".npz":
            replace_file(where, self._write_npz)
        else:
            raise ConfigError("this look cannot be saved so", where=where, expected="a name ending in .html or .npz")

    def _write_npz(self, scratch: Path) -> None:
        with scratch.open("wb") as stream:  # to a name without .npz at its end NumPy would add it
            write_npz(stream, self.view.tensors)

    def _outcome(self) -> Iterator[str]:
        if self.text is not None:
            yield self.text
        for output in self.view.outputs:
            yield f"{output.label}  {output.p:.1%}" if output.p is not None else f"{output.label}  {output.value}"

    @property
    def _sides(self) -> list[Side]:
        return [side for side in (self.view.source, self.view.target) if side is not None]

    @cached_property
    def _parts(self) -> dict[str, Part]:
        return {part.at(layer): part for part in parts_of(self.model.model.config) for layer in range(part.layers)}

    def _part(self, name: str) -> Part:
        if name not in self._parts:
            near = difflib.get_close_matches(name, self._parts, n=1)
            raise ConfigError("the model has no such attention", where="name", expected=" or ".join(self._parts),
                              got=name, mend=f"did you mean {near[0]}?" if near else None)  # fmt: skip
        return self._parts[name]

    @cached_property
    def _page(self) -> str:
        return page_of(self.model, [self.view], mark=fingerprint(self.model.path))

    def _repr_html_(self) -> str:
        return FRAME.format(html.escape(self._page), html.escape(str(self.model)), STYLE)

    def __str__(self) -> str:
        return self.as_text(blocks=can_show_blocks())


def can_show_blocks() -> bool:
    """Whether standard output can be given ░▒▓█."""
    try:
        "░▒▓█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _whose(head: int | None, heads: int) -> str:
    return f"mean of {heads} heads" if head is None else f"head {head}"
