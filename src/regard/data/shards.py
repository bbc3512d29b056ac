"""A corpus prepared once, as memory-mapped files of token ids, by any number of workers.

    DIR/  tokenizer.json  tokenizer_config.json
          00000-of-00007.tokens     ids of this worker's documents, one after another, uint16 or uint32, little-endian
          00000-of-00007.index      (N + 1, 2) uint64: tokens and UTF-8 bytes before each document, and in all
          00000-of-00007.json       what it was made from, and what it holds; written last, so it says that all is there

What is unusual: a shard is a function of the files, the tokenizer and i/n alone (no clock, no name of a machine), so
any scheduler may run any shard anywhere, twice, or again after a crash: one that is there and was made from the same
bytes is left as it is. The documents of all shards, one shard after another, are the same for every n (`data.parts`).
What it does not know: control tokens, which the reader puts around a document, and training.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.corpus import Corpus
from regard.data.documents import Documents
from regard.data.encoding import id_type, runs
from regard.data.files import MAX_BYTES
from regard.data.parts import Part, Source, digest, find_sources, share
from regard.data.shard_files import MANIFEST, SAME, drafts, open_shard, read_manifest, sizes, stem
from regard.errors import ConfigError, DataError, UserError
from regard.text import Tokenizer

FORMAT = 1
Progress = Callable[[int, int, int], None]
"""Told bytes read, bytes to read, and tokens written."""


@dataclass(frozen=True)
class Prepared:
    """One shard.

    Attributes:
        path: its manifest.
        facts: what the manifest says: documents, tokens, bytes, empty, skipped, dtype, ...
        was_there: it had been made before, from the same bytes, and was left as it is.
        why: why one that was there was made anew.
    """

    path: Path
    facts: Mapping[str, Any]
    was_there: bool
    why: str | None = None


def prepare(
    paths: Sequence[Path],
    out: Path,
    tokenizer: Tokenizer,
    *,
    shard: tuple[int, int] = (0, 1),
    unit: str = "file",
    field: str = "text",
    skip_bad: int = 0,
    max_bytes: int = MAX_BYTES,
    progress: Progress = lambda done, total, tokens: None,
) -> Prepared:
    """Make shard i of n of the corpus in `out`, unless it is there; other arguments as `data.documents.Documents`.

    What lies in `out` is no part of the corpus, should `out` be in one of the folders.

    Raises:
        ConfigError: there is no such shard, or `out` holds shards of another tokenizer or of another number.
        DataError: a file is missing, broken, or changed while it was read; a line is bad.
        UserError: `out` cannot be written.
    """
    sources = find_sources(paths, besides=out)
    parts = share(sources, *shard)
    documents = Documents(parts, unit=unit, field=field, skip_bad=skip_bad, max_bytes=max_bytes)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _refuse_other_numbers(out, shard)
        keep_tokenizer(tokenizer, out)
        made_from = {
            "format": FORMAT, "shard": list(shard), "tokenizer": fingerprint(tokenizer), "unit": unit, "field": field,
            "sources": _listed(sources), "parts": [_described(part) for part in parts],
        }  # fmt: skip
        path = out / f"{stem(*shard)}.json"
        facts = read_manifest(path) if path.exists() else None
        why = None if facts is None else _difference(facts, made_from, path)
        if facts is not None and why is None and facts["skipped"] <= skip_bad:
            return Prepared(path, facts, was_there=True)
        path.unlink(missing_ok=True)
        facts = _write(path, documents, tokenizer, made_from, parts, progress)
    except OSError as error:
        mend = "check that there is room, and that you may write there; the same command goes on"
        raise UserError("cannot write", where=error.filename or out, got=error.strerror, mend=mend) from error
    return Prepared(path, facts, was_there=False, why=why)


USUAL = {"unit": "file", "field": "text"}
"""What `prepare` takes where nothing is said."""


def open_shards(folder: Path, tokenizer: Tokenizer | None = None) -> Corpus:
    """The corpus in a prepared folder, its files mapped into memory.

    Args:
        tokenizer: that of the model it is for; None: the folder's own, `Tokenizer.load(folder)`.

    Raises:
        DataError: nothing is prepared there, a shard is missing, damaged or was made from other data, or the ids are
            of another vocabulary.
    """
    names = sorted(path.name for path in folder.iterdir() if MANIFEST.fullmatch(path.name)) if folder.is_dir() else []
    if not names:
        raise DataError("there is no prepared corpus", where=folder, mend=f"regard prepare FILES --out {folder}")
    facts = [read_manifest(folder / name) for name in names]
    made_from = facts[0]["made_from"]
    count = made_from["shard"][1]
    missing = sorted(set(range(count)) - {each["made_from"]["shard"][0] for each in facts})
    if missing or len(names) != count:
        without = f", without {', '.join(f'{i}/{count}' for i in missing[:8])}" if missing else ""
        way = "".join(f" --{name} {made_from[name]}" for name, usual in USUAL.items() if made_from[name] != usual)
        way += f" --shard {[*missing, 'i'][0]}/{count}"
        raise DataError("the prepared corpus is not complete", where=folder, expected=f"{count} shards",
                        got=f"{len(names)}{without}{', ...' if len(missing) > 8 else ''}",
                        mend=f"regard prepare FILES --out {folder}{way}")  # fmt: skip
    _refuse_mixture(folder, names, facts)
    wanted, theirs = fingerprint(tokenizer or Tokenizer.load(folder)), made_from["tokenizer"]
    if theirs != wanted:
        mend = f"prepare the corpus again with this tokenizer, or use the one in {folder}"
        raise DataError("the prepared ids are of another vocabulary", where=folder, expected=f"tokenizer {wanted[:12]}",
                        got=f"tokenizer {theirs[:12]}", mend=mend)  # fmt: skip
    stretches = [open_shard(folder / name, each) for name, each in zip(names, facts, strict=True)]
    hashes = {f"{Path(name).stem}.tokens": each["sha256"]["tokens"] for name, each in zip(names, facts, strict=True)}
    return Corpus(stretches, hashes)


def is_prepared(folder: Path) -> bool:
    """Whether `prepare` wrote into this folder."""
    return folder.is_dir() and any(MANIFEST.fullmatch(path.name) for path in folder.iterdir())


def shards_missing(folder: Path) -> list[int]:
    """The shards that are not there yet."""
    found = [MANIFEST.fullmatch(path.name) for path in folder.iterdir()]
    numbers = {(int(match[1]), int(match[2])) for match in found if match}
    return sorted(set(range(max(n for _, n in numbers))) - {i for i, _ in numbers}) if numbers else []


def fingerprint(tokenizer: Tokenizer) -> str:
    """The SHA-256 of a vocabulary, without what it puts around a text: two with the same one give the same ids."""
    facts = json.loads(tokenizer.backend.to_str()) | {"post_processor": None}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8")).hexdigest()


def keep_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Save it into the folder, or see that the one there is the same; else ConfigError."""
    if (folder / "tokenizer.json").exists():
        theirs, ours = fingerprint(Tokenizer.load(folder)), fingerprint(tokenizer)
        if theirs != ours:
            mend = "choose another --out, or leave --tokenizer out"
            raise ConfigError("this folder has another tokenizer", where=folder, expected=f"tokenizer {theirs[:12]}",
                              got=f"tokenizer {ours[:12]}", mend=mend)  # fmt: skip
        return
    with drafts(folder, "tokenizer") as draft:
        draft.mkdir()
        tokenizer.save(draft)
        for file in sorted(draft.iterdir(), key=lambda file: file.name == "tokenizer.json"):  # which says all is there
            file.replace(folder / file.name)


def _listed(sources: Sequence[Source]) -> str:
    """One hash for the names and sizes of all files, which decide who reads what."""
    names = json.dumps([(source.name, source.size) for source in sources])
    return hashlib.sha256(names.encode("utf-8")).hexdigest()


def _described(part: Part) -> dict[str, Any]:
    sha256 = None if part.source.kind is None else digest(part)  # what comes through a pipe is not known beforehand
    return {"name": part.source.name, "start": part.start, "stop": part.stop, "sha256": sha256}


def _difference(facts: Mapping[str, Any], made_from: Mapping[str, Any], path: Path) -> str | None:
    """Why the shard that is there is not the one to be made; None: it is."""
    before = facts["made_from"]
    for name in ("format", "unit", "field"):
        if before[name] != made_from[name]:
            return f"it was made with {name} {before[name]!r}, not {made_from[name]!r}"
    if any(part["sha256"] is None for part in made_from["parts"]):
        return "what comes through a pipe is only known when it is read"
    if changed := [part["name"] for part in made_from["parts"] if part not in before["parts"]]:
        return f"{changed[0]} is not what it was made from"
    if before != made_from:
        return "the files are not the ones it was made from"
    found = {end: file.stat().st_size for end in ("tokens", "index") if (file := path.with_suffix(f".{end}")).exists()}
    return None if found == sizes(facts) else "its files are missing or cut short"


def _refuse_other_numbers(out: Path, shard: tuple[int, int]) -> None:
    for path in out.iterdir():
        match = MANIFEST.fullmatch(path.name)
        if match and int(match[2]) != shard[1]:
            raise ConfigError("this folder holds a corpus in another number of shards", where=path,
                              expected=f"--shard i/{int(match[2])}", got=f"--shard {shard[0]}/{shard[1]}",
                              mend="choose another --out, or remove the old shards")  # fmt: skip


def _refuse_mixture(folder: Path, names: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> None:
    if facts[0]["made_from"]["format"] != FORMAT:
        raise DataError("the corpus is of another format", where=folder / names[0], expected=f"format {FORMAT}",
                        got=facts[0]["made_from"]["format"], mend="prepare it again")  # fmt: skip
    for key in SAME:
        values = [each["made_from"][key] for each in facts]
        if odd := next((i for i, value in enumerate(values) if value != values[0]), None):
            raise DataError("the shards were not made from the same files in the same way", where=folder / names[odd],
                            expected=f"{key} {str(values[0])[:12]}, as in {names[0]}", got=str(values[odd])[:12],
                            mend="prepare all shards again")  # fmt: skip


def _write(
    path: Path, documents: Documents, tokenizer: Tokenizer, made_from: dict[str, Any], parts: Sequence[Part],
    progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """Write the two files, then the manifest, each of which appears whole; returns what the manifest says."""
    total, sums = sum(part.stop - part.start for part in parts), np.zeros(2, dtype="<u8")
    count, hashes = 0, {"tokens": hashlib.sha256(), "index": hashlib.sha256()}
    with drafts(path.parent, path.stem) as draft:
        paths = {end: draft.with_name(f"{draft.name}.{end}") for end in hashes}
        with paths["tokens"].open("wb") as ids_file, paths["index"].open("wb") as index_file:
            files = (ids_file, index_file)

            def put(*both: bytes) -> None:
                for file, data, sha256 in zip(files, both, hashes.values(), strict=True):
                    file.write(data)
                    sha256.update(data)

            put(b"", sums.tobytes())
            for ids, size in runs(documents, tokenizer):
                sums += np.array([len(ids), size], dtype="<u8")
                put(ids.tobytes(), sums.tobytes())
                count += 1
                progress(documents.done, total, int(sums[0]))
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        _refuse_change(made_from["parts"], parts, documents.sha256)
        if made_from["shard"][1] == 1 and not count:
            raise DataError("there are no documents in it", where=" and ".join(str(part.source.path) for part in parts),
                            expected="at least one text that is not empty", mend="name other files")  # fmt: skip
        facts = {
            "made_from": made_from, "dtype": id_type(tokenizer.vocab_size).str, "documents": count,
            "tokens": int(sums[0]), "bytes": int(sums[1]), "empty": documents.empty, "skipped": len(documents.skipped),
            "sha256": {end: sha256.hexdigest() for end, sha256 in hashes.items()},
        }  # fmt: skip
        for end, written in paths.items():
            written.replace(path.with_suffix(f".{end}"))
        draft.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
    return facts


def _refuse_change(described: Sequence[dict[str, Any]], parts: Sequence[Part], sha256: Mapping[str, str]) -> None:
    """Whole files were hashed again while they were read; what came through a pipe, only then."""
    for about, part in zip(described, parts, strict=True):
        read = sha256.get(str(part.source.path)) if part.whole else None
        about["sha256"] = about["sha256"] or read
        if read is not None and about["sha256"] != read:
            raise DataError("the file changed while it was read", where=part.source.path, mend="run it again")
