"""Folders and files that are either wholly there or not there, whatever happens while they are written.

What it is: a folder is written beside its place under another name, flushed to the disk with a manifest of SHA-256
sums, and renamed into place; small files likewise.

    checkpoints/.tmp-step-500-4711/   being written by process 4711; a crash leaves it, `lock_folder` sweeps it away
    checkpoints/.old-step-500/        the folder being replaced, between two renames; put back if the second never came
    checkpoints/step-500/             always whole

What is unusual: no folder can be replaced in one step in POSIX, so a reader may find the place empty between the two
renames; `recover_folder`, called by every reader here, then puts the old folder back, and the writer, if it was only
slow and not dead, notices and renames again. A manifest is in the format of `sha256sum -c`.
What it does not know: what is in the files. One process at a time may write a given folder (see `lock.py`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import CheckpointError, ConfigError, UserError

MANIFEST = "MANIFEST.sha256"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def commit_folder(target: Path, write: Callable[[Path], None], *, needs: int = 0) -> None:
    """Make `target` the folder that `write` fills, or leave it exactly as it was.

    Args:
        target: the folder's place. An existing folder there is replaced if it is empty or was committed by us.
        write: is given an empty folder to fill with files.
        needs: bytes that `write` is known to need; less free space refuses before anything is written.
    Raises:
        UserError: the disk is full or fails, or `target` holds something that is not ours to replace.
    """
    target = Path(os.path.realpath(target))  # a link to a folder is followed, not replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        recover_folder(target)
        _refuse_foreign(target)
        refuse_full(target.parent, needs)
        with _scratch(target) as folder:
            folder.mkdir()
            write(folder)
            _write_manifest(folder)
            _swap_in(folder, target)
    except OSError as error:
        raise cannot_write(target, error) from error


def refuse_full(folder: Path, needs: int) -> None:
    """Raise UserError where the disk of an existing folder has less than so many bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needs:
        raise _disk_full(folder, f"{needs:,} bytes free", f"{free:,} bytes free")


def refuse_existing(target: Path) -> None:
    """Raise ConfigError unless there is nothing at `target` or an empty folder, for who makes a new model there."""
    recover_folder(target)
    try:
        taken = target.exists() and not (target.is_dir() and not any(target.iterdir()))
    except OSError as error:
        raise cannot_write(target, error) from error
    if taken:
        raise ConfigError("there is something here already", where=target, expected="a new or empty folder",
                          got="a folder with files in it" if target.is_dir() else "a file",
                          mend="choose another OUT, or remove it")  # fmt: skip


def recover_folder(target: Path) -> None:
    """Put the old folder back if a writer died between moving it aside and renaming the new one into its place."""
    aside = _aside(target)
    if aside.exists() and not target.exists():
        try:
            aside.rename(target)
            _fsync(target.parent)
        except OSError as error:
            # Somebody else was quicker: another reader put it back, or the writer was alive and has finished.
            if error.errno not in (*_NOT_EMPTY, errno.ENOENT):
                raise CheckpointError(
                    f"an interrupted save left the old folder at {aside.name}, which cannot be put back",
                    where=target,
                    got=error.strerror,
                    mend=f"mv {aside} {target}",
                ) from error


def verify_manifest(folder: Path) -> bool:
    """Compare every file that the folder's manifest lists with its SHA-256 sum.

    Returns:
        True when all agree; False for a folder without a manifest, which somebody else made. Files that the manifest
        does not list (a note, a page written later) are not looked at.
    Raises:
        CheckpointError: names the first file that changed or is missing.
    """
    with reading(folder):
        recover_folder(folder)
        if not folder.is_dir():
            what = "not a folder" if folder.exists() else "no such folder"
            raise CheckpointError(what, where=folder, expected="a model folder", mend="check the path")
        if not (folder / MANIFEST).is_file():
            return False
        for digest, name in _read_manifest(folder):
            _compare(inside(folder, name), digest)
    return True


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within it, failing to read is a CheckpointError that names the file: the one that failed, else `path`."""
    try:
        yield
    except OSError as error:
        mend = "check the path, and that you may read it"
        raise CheckpointError("cannot read", where=error.filename or path, got=error.strerror, mend=mend) from error


def inside(folder: Path, name: str) -> Path:
    """Return `folder / name`, refusing a name or a link that leads out of the folder.

    Raises:
        CheckpointError: the name is absolute, climbs out with `..`, is a link to somewhere else, or is no name at all.
    """
    path = folder / name
    try:
        leaves = not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except ValueError:  # a NUL or half a character: no file has such a name
        leaves = True
    if leaves:
        raise CheckpointError(
            f"the file name {name!r} leads out of the folder",
            where=folder,
            expected="files inside the folder",
            mend=f"if you trust it, copy the files that its links point to: cp -rL {folder} COPY",
        )
    return path


def remove_folder(folder: Path) -> None:
    """Remove a folder so that, even after a crash, half of it is never found under its name; raises OSError."""
    trash = folder.with_name(f".tmp-{folder.name}-{os.getpid()}")
    folder.rename(trash)
    _fsync(trash.parent)
    remove_path(trash)


def remove_path(path: Path) -> None:
    """Remove a file, a folder or nothing, without care for what is left after a crash."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_text_atomic(path: Path, text: str) -> None:
    """Replace a small text file (UTF-8, `\\n`) in one step; raises UserError when the disk is full or fails."""
    replace_file(path, lambda scratch: scratch.write_bytes(text.encode()))


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Make `path` the file that `write` writes, or leave it exactly as it was; raises UserError as `commit_folder`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(path) as scratch:
            write(scratch)
            _fsync(scratch)
            scratch.replace(path)
            _fsync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error


def point(pointer: Path, target_name: str) -> None:
    """Let the small file `pointer` (`latest`, `best`) name the checkpoint folder `target_name`, in one step."""
    write_text_atomic(pointer, target_name + "\n")


def read_pointer(pointer: Path) -> str | None:
    """Return the folder name that `point` wrote, or None when there is no such pointer.

    Raises:
        CheckpointError: the file holds anything but one plain folder name.
    """
    with reading(pointer):
        if not pointer.exists():
            return None
        name = pointer.read_bytes().decode("utf-8", "replace").removesuffix("\n")
    if name in ("", ".", "..") or "/" in name or "\n" in name or "\0" in name:
        raise CheckpointError(
            "does not name a checkpoint",
            where=pointer,
            expected="one folder name",
            got=repr(name[:80]),
            mend="write the name of a folder in checkpoints/ into it",
        )
    return name


def _aside(target: Path) -> Path:
    return target.with_name(f".old-{target.name}")


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """Yield the free name beside `target` that this process writes to; what is still there at the end is removed."""
    scratch = target.with_name(f".tmp-{target.name}-{os.getpid()}")
    remove_path(scratch)
    try:
        yield scratch
    finally:
        remove_path(scratch)


def _refuse_foreign(target: Path) -> None:
    ours = (target / MANIFEST).is_file() or (target.is_dir() and not any(target.iterdir()))
    if target.exists() and not ours:
        raise UserError(
            "there is something here already that regard did not write; it is left alone",
            where=target,
            expected="a new or empty folder, or one that regard wrote",
            mend="choose another place, or move this one away",
        )


def _swap_in(folder: Path, target: Path) -> None:
    aside, done = _aside(target), False
    while not done:
        if target.exists():
            if aside.exists():  # left by a dead writer, and not needed since the place is taken
                remove_folder(aside)
            target.rename(aside)
        try:
            folder.rename(target)
            done = True
        except OSError as error:
            if error.errno not in _NOT_EMPTY:  # not a reader who took us for dead and put the old folder back
                recover_folder(target)
                raise
    _fsync(target.parent)
    if aside.exists():
        remove_folder(aside)


def _write_manifest(folder: Path) -> None:
    """Flush every file and folder to the disk, with the sums of what was flushed."""
    entries = sorted(folder.rglob("*"))
    lines = []
    for path in entries:
        if path.is_file():
            lines.append(f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n")
            _fsync(path)
    (folder / MANIFEST).write_bytes("".join(lines).encode())
    for path in (folder / MANIFEST, *(p for p in entries if p.is_dir()), folder):
        _fsync(path)


def _read_manifest(folder: Path) -> Iterator[tuple[str, str]]:
    text = (folder / MANIFEST).read_bytes().decode("utf-8", "replace")
    for line in text.removesuffix("\n").split("\n"):
        digest, separator, name = line.partition("  ")
        if not (separator and name and len(digest) == 64):
            raise CheckpointError(
                "the manifest is damaged",
                where=folder / MANIFEST,
                expected="lines of `<sha256>  <file>`",
                got=repr(line[:80]),
                mend="copy the folder again from where it came",
            )
        yield digest, name


def _compare(path: Path, digest: str) -> None:
    mend = f"copy the folder again from where it came, or, if you made the change, delete {MANIFEST}"
    if not path.is_file():
        raise CheckpointError("the file is missing", where=path, expected=f"as {MANIFEST} lists it", mend=mend)
    found = _sha256(path)
    if found != digest:
        raise CheckpointError(
            "the file is not the one that was saved",
            where=path,
            expected=f"sha256 {digest}",
            got=f"sha256 {found} ({path.stat().st_size:,} bytes)",
            mend=mend,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _disk_full(target: Path, expected: str | None, got: str | None) -> UserError:
    mend = "free some space, or choose a place on another disk; what was there before is untouched"
    return UserError("the disk is full", where=target, expected=expected, got=got, mend=mend)


def cannot_write(target: Path, error: OSError) -> UserError:
    """Return what to tell the user when writing `target` failed."""
    if error.errno in _FULL:
        return _disk_full(target, None, error.strerror)
    mend = "check that the folder exists and that you may write to it; what was there before is untouched"
    return UserError("cannot write", where=target, got=error.strerror or str(error), mend=mend)
