"""The files of one shard: their names, their manifest, and drafts of which nothing is left when a process dies.

What is unusual: drafts carry the machine's name and the process's number, for workers on many machines may share a
folder; whoever writes next on a machine sweeps away what its killed processes left.
What it does not know: what a corpus is made of (`data.shards`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.corpus import Stretch
from regard.errors import DataError
from regard.processes import alive

MANIFEST = re.compile(r"(\d{5,})-of-(\d{5,})\.json")
SAME = ("format", "tokenizer", "sources", "unit", "field")
"""What all shards of a corpus agree on, in `made_from`."""


def stem(index: int, count: int) -> str:
    """What the names of a shard's files begin with."""
    return f"{index:05d}-of-{count:05d}"


def sizes(facts: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of each of its files, by the end of its name."""
    return {"tokens": facts["tokens"] * np.dtype(facts["dtype"]).itemsize, "index": (facts["documents"] + 1) * 16}


@contextmanager
def drafts(folder: Path, name: str) -> Iterator[Path]:
    """A free name for drafts to begin with; at the end they go, and what killed processes left of the same name."""
    mine = f".tmp-{name}-{socket.gethostname()}-"
    try:
        yield folder / f"{mine}{os.getpid()}"
    finally:
        for path in folder.glob(f"{mine}*"):
            pid = path.name.removeprefix(mine).partition(".")[0]
            if pid == str(os.getpid()) or (pid.isdigit() and not alive(int(pid))):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def read_manifest(path: Path) -> dict[str, Any]:
    """What it says; raises DataError where it is none."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        sizes(facts)
        _ = facts["bytes"], facts["skipped"], facts["sha256"]["tokens"], facts["made_from"]["shard"][1]
        _ = facts["made_from"]["parts"], [facts["made_from"][key] for key in SAME]
        return facts
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise DataError("this is not the manifest of a shard", where=path, got=repr(error),
                        mend="remove it, and prepare the shard again") from None  # fmt: skip


def open_shard(manifest: Path, facts: Mapping[str, Any]) -> Stretch:
    """Its documents, mapped into memory; raises DataError where a file is not as long as the manifest says."""
    paths = {end: manifest.with_suffix(f".{end}") for end in ("tokens", "index")}
    for end, size in sizes(facts).items():
        got = paths[end].stat().st_size if paths[end].exists() else None
        if got != size:
            raise DataError("the file is not the one that was prepared", where=paths[end],
                            expected=f"{size:,} bytes", got="no file" if got is None else f"{got:,} bytes",
                            mend="prepare the shard again")  # fmt: skip
    index = np.asarray(np.memmap(paths["index"], dtype="<u8", mode="r").reshape(-1, 2))
    if index[-1].tolist() != [facts["tokens"], facts["bytes"]]:
        raise DataError("the index does not fit the manifest", where=paths["index"], mend="prepare the shard again")
    dtype = np.dtype(facts["dtype"])
    ids = np.asarray(np.memmap(paths["tokens"], dtype=dtype, mode="r")) if facts["tokens"] else np.zeros(0, dtype)
    return Stretch(ids, index[:-1], index[1:])
