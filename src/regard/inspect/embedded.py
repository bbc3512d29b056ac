"""Runs put into the page itself, so that one file shows them without a server.

What is unusual: a page with everything would be too large to send to anybody, so tensors go in by how much is seen
through them: first what is drawn at once, in float16; then, exact, what one head computes; then the steps between
layers; last the logits. What no longer fits is named in the file, and the page says so in its place.
What it does not know: how the file is made (`inspect.bundle`), and how a view came to be.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regard.inspect.bundle import page_html
from regard.inspect.payload import as_dtype, lens_json, model_json, view_json
from regard.inspect.samples import Sample
from regard.inspect.views import View

if TYPE_CHECKING:
    from regard.loaded import Loaded

MOST_BYTES = 30 * 2**20
"""Of all tensors in a file, as text (base64)."""
OF_LAYERS = r"\w+\.(self|cross)\.(weights|norms|mask)"
"""Tensors that are drawn, of all layers at once; in float16."""
ORDER = (
    r"\w+\.(self|cross)\.(weights|mask)",
    r".*_attn\.(q|k|v|bias|scores|weights|z|out)|.*\.angles",
    OF_LAYERS,
    r"\w+\.(embed|positions|norm)|.*\.(resid_\w+|gain|shift)|.*_norm\.out|.*\.b_O",
    r".*\.ffn\.(out|act|pre)",
    r".*\.W_O",
    r".*",
)
"""Names by how soon they are wanted."""


def page_of(loaded: Loaded, views: Sequence[View], *, mark: str, roles: Mapping[str, Any] | None = None) -> str:
    """The page with these runs of one model, as one HTML text.

    Args:
        mark: the fingerprint of the model.
        roles: of its heads (`desk.measured_roles`), where they were measured.
    """
    return page_html(page_data(loaded, views, mark=mark, roles=roles))


def page_data(
    loaded: Loaded, views: Sequence[View], *, mark: str, roles: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What such a page is made from: the model, the runs, their tensors, and what was left out."""
    runs = {f"run-{i}": view for i, view in enumerate(views, 1)}
    texts = [Sample(view.request.texts, view.request.target, view.request.to) for view in views]
    tensors, left_out = embedded(runs)
    decodes = loaded.model.config.n_decoder_layers > 0
    return {
        # early states of the model cannot be run from a file
        "model": {**model_json(loaded, samples=texts, asked=None, mark=mark), "snapshots": []},
        "runs": [view_json(view, mark=mark, run=name) for name, view in runs.items()],
        "tensors": tensors,
        "left_out": left_out,
        "lens": {name: lens_json(view) for name, view in runs.items()} if decodes else {},
        "roles": roles,
    }  # fmt: skip


def embedded(
    runs: Mapping[str, View], most_bytes: int = MOST_BYTES
) -> tuple[dict[str, dict[str, dict[str, Any]]], dict[str, list[str]]]:
    """The tensors of each run as base64, {run: {name: {shape, dtype, base64}}}, and the names of those that do not fit.

    All runs get their first tensors before any gets its last.
    """
    tensors = {run: dict[str, dict[str, Any]]() for run in runs}
    left_out = {run: list[str]() for run in runs}
    room = most_bytes
    for run, name, view in _in_order(runs):
        dtype = "float16" if re.fullmatch(OF_LAYERS, name) else "float32"
        tensor = view.tensor(name)
        size = -(-tensor.size * (2 if dtype == "float16" else 4) // 3) * 4
        if size > room:
            left_out[run].append(name)
            continue
        room -= size
        text = base64.b64encode(as_dtype(tensor, dtype).tobytes()).decode()
        tensors[run][name] = {"shape": list(tensor.shape), "dtype": dtype, "base64": text}
    return tensors, left_out


def _in_order(runs: Mapping[str, View]) -> Iterator[tuple[str, str, View]]:
    """Every tensor of every run, as (run, name, view)."""
    rank = {
        run: {name: next(i for i, pattern in enumerate(ORDER) if re.fullmatch(pattern, name)) for name in view.names}
        for run, view in runs.items()
    }
    for place in range(len(ORDER)):
        yield from ((run, name, view) for run, view in runs.items() for name in view.names if rank[run][name] == place)
