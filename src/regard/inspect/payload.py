"""What the page is told: a model and a view of one run as JSON, tensors as bytes.

What is unusual: a tensor goes out whole or by its rows, in float16 where it is only drawn; the very low number that
hides a score is then the lowest that float16 has, never -inf, so a page can compute with it.
What it does not know: HTTP (`inspect.app`), files (`inspect.bundle`), and how a view came to be (`inspect.views`).

Shapes: T queries; a tensor (.., T, D) or (T, D) is cut along T.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import __version__
from regard.config import to_tree
from regard.errors import ConfigError, UserError
from regard.hub.atomic import MANIFEST
from regard.hub.snapshots import find_snapshots
from regard.inspect.edits import to_json
from regard.inspect.lens import logit_lens
from regard.inspect.parts import parts_of
from regard.inspect.samples import Sample
from regard.inspect.scripts import LIMIT, Request
from regard.inspect.views import View
from regard.model.equations import FORMULAS

if TYPE_CHECKING:
    from regard.loaded import Loaded

DTYPES = {"float16": np.float16, "float32": np.float32}
ALIGNED = 4
"""Bytes that each tensor's beginning is a multiple of, as a page's Float32Array wants it."""
EQUATIONS = "model/equations.py"


# ---------------------------------------------------------------- models


def fingerprint(folder: Path) -> str:
    """What changes when the model in a folder does: of its sums where it has some, else of its files' sizes and times.

    Raises:
        OSError: the folder is gone.
    """
    sums = folder / MANIFEST
    if sums.is_file():
        told = sums.read_bytes()
    else:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        told = repr([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]).encode()
    return hashlib.sha256(told).hexdigest()[:16]


def name_of(folder: Path) -> str:
    """What a model is called: its folder's name, of a run's checkpoint the run's."""
    folder = folder.resolve()
    return folder.parents[1].name if folder.parent.name == "checkpoints" else folder.name


def model_json(loaded: Loaded, *, samples: Sequence[Sample], asked: Sample | None, mark: str) -> dict[str, Any]:
    """All that the page knows of a model before anything ran.

    Args:
        samples: texts to begin with.
        asked: what the user typed, which then is the first example.
        mark: its fingerprint.
    """
    config = loaded.model.config
    decodes = config.n_decoder_layers > 0
    pairs = loaded.task == "question-answering" or (loaded.task == "classification" and loaded.classifier.parts == 2)
    examples = [sample for sample in (asked, *samples) if sample is not None]
    return {
        "version": __version__, "name": name_of(loaded.path), "path": str(loaded.path), "hash": mark,
        "task": loaded.task, "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "config": to_tree(config), "languages": list(loaded.languages),
        "targets": list(loaded.targets) if loaded.task == "translation" else [],
        "labels": loaded.about.get("labels"), "vocab_size": config.vocab_size, "limit_tokens": LIMIT,
        "parts": [{**asdict(part), "path": part.path} for part in parts_of(config)], "positions": config.positions.kind,
        "norm_order": config.norm_order, "norm": config.norm, "activation": config.activation,
        "gated": config.gated_ffn, "d_model": config.d_model, "d_ff": config.d_ff, "embed_scale": config.embed_scale,
        "norm_eps": config.norm_eps,
        "can": {"write": decodes, "force": decodes, "pairs": pairs, "lens": decodes, "roles": True},
        "examples": [asdict(sample) for sample in examples], "asked": None if asked is None else asdict(asked),
        "snapshots": snapshots(loaded.path), "functions": functions(),
    }  # fmt: skip


def snapshots(folder: Path) -> list[dict[str, Any]]:
    """The early states of a run that were kept, oldest first; of a folder that is no run's, none."""
    return [{"id": kept.name, "step": step} for step, kept in find_snapshots(folder)]


def functions() -> dict[str, dict[str, str]]:
    """The chapter's formulas by the names of their functions."""
    return {
        name: {"section": formula.section, "statement": formula.statement, "file": EQUATIONS}
        for name, formula in FORMULAS.items()
    }


# ---------------------------------------------------------------- views


def request_json(request: Request) -> dict[str, Any]:
    """A request as the page sends it: all that tells it from others, the kinds of its edits too."""
    return {**asdict(request), "edits": [to_json(edit) for edit in request.edits]}


def view_json(view: View, *, mark: str, run: str | None = None, changed: bool = False) -> dict[str, Any]:
    """One run in words; its tensors are fetched by name.

    Args:
        mark: the fingerprint of the model that made it.
        run: its name where it is kept.
        changed: the model's files are no longer what they were when it was opened.
    """
    return {
        "id": run, "hash": mark, "changed": changed, "request": request_json(view.request),
        "source": None if view.source is None else asdict(view.source),
        "target": None if view.target is None else asdict(view.target),
        "outputs": [asdict(output) for output in view.outputs], "text": view.text,
        "parts": [part.name for part in view.parts], "seconds": round(view.seconds, 4),
        "edited": bool(view.request.edits), "notes": list(view.notes),
    }  # fmt: skip


def lens_json(view: View) -> dict[str, Any]:
    """What each layer of the decoder would have written, ten tokens a row, and how far it is from the last one."""
    lens = logit_lens(view)
    rows = 0 if view.target is None else len(view.target)
    return {"layers": list(lens.layers), "rows": rows, "top": lens.top, "divergence": lens.divergence}


def error_json(error: UserError) -> dict[str, Any]:
    """An error's parts; null where it has none."""
    parts = {name: getattr(error, name) for name in ("what", "where", "expected", "got", "mend")}
    return {"error": {name: None if value is None else str(value) for name, value in parts.items()}}


# ---------------------------------------------------------------- tensors


def as_dtype(tensor: np.ndarray, dtype: str) -> np.ndarray:
    """The tensor in float16 or float32, little-endian and in C order; what float16 cannot hold is its nearest number.

    Raises:
        ConfigError: another dtype.
    """
    if dtype not in DTYPES:
        raise ConfigError("tensors go out in two dtypes", where="dtype", expected=" or ".join(DTYPES), got=dtype)
    kind = np.dtype(DTYPES[dtype]).newbyteorder("<")
    if dtype == "float16":
        limit = float(np.finfo(np.float16).max)
        tensor = np.clip(tensor, -limit, limit)
    return np.ascontiguousarray(tensor, dtype=kind)


def rows_of(tensor: np.ndarray, rows: str | None) -> np.ndarray:
    """The rows "a:b" of a tensor, by queries; None: all of it.

    Raises:
        ConfigError: there are no such rows, or the tensor has none.
    """
    if rows is None:
        return tensor
    found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", rows, re.ASCII)
    most = tensor.shape[-2] if tensor.ndim > 1 else 0
    if found is None or not int(found[1]) < int(found[2]) <= most:
        raise ConfigError("there are no such rows", where="rows", expected=f"a:b, with 0 <= a < b <= {most}", got=rows)
    return tensor[..., int(found[1]) : int(found[2]), :]


def packed(tensors: Iterable[tuple[str, np.ndarray]]) -> tuple[bytes, list[dict[str, Any]]]:
    """Named tensors one after another, and where each lies: {name, shape, dtype, offset}."""
    body, index = bytearray(), list[dict[str, Any]]()
    for name, tensor in tensors:
        index.append({"name": name, "shape": list(tensor.shape), "dtype": tensor.dtype.name, "offset": len(body)})
        body += tensor.tobytes()
        body += b"\0" * (-len(body) % ALIGNED)
    return bytes(body), index


def write_npz(path: Any, tensors: Mapping[str, np.ndarray]) -> None:
    """All tensors into one .npz, a path or a stream; compressed, since scores of hidden places repeat."""
    np.savez_compressed(path, allow_pickle=False, **dict(tensors))
