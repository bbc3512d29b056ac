"""A committed folder is whole at every moment, for every reader, whatever happens to the writer."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import CheckpointError, UserError
from regard.hub.atomic import (
    MANIFEST,
    commit_folder,
    point,
    read_pointer,
    recover_folder,
    remove_folder,
    replace_file,
    verify_manifest,
    write_text_atomic,
)


def filler(version: int) -> Callable[[Path], None]:
    """Write a folder in which every file says the same version."""

    def write(folder: Path) -> None:
        (folder / "state").mkdir()
        for name in ("config.json", "model.safetensors", "state/optimizer.safetensors"):
            (folder / name).write_text(f"{version}\n" * 1000)

    return write


def version_of(folder: Path) -> int:
    """The version of a folder that is known to be whole and of one piece."""
    assert verify_manifest(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST]
    lines = {line for path in files for line in path.read_text().split()}
    assert len(lines) == 1, f"a mixture of versions: {lines}"
    return int(lines.pop())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_is_made_and_replaced(tmp_path: Path) -> None:
    target = tmp_path / "run" / "checkpoints" / "step-1"
    commit_folder(target, filler(1))
    assert version_of(target) == 1
    commit_folder(target, lambda folder: (folder / "new").write_text("2\n"))
    assert names(target) == {"new", MANIFEST}
    assert names(target.parent) == {"step-1"}


def test_the_manifest_is_what_sha256sum_reads(tmp_path: Path) -> None:
    commit_folder(tmp_path / "model", filler(1))
    done = subprocess.run(["sha256sum", "-c", MANIFEST], cwd=tmp_path / "model", capture_output=True, text=True)
    assert (done.returncode, done.stdout.count(": OK")) == (0, 3), done.stderr


@pytest.mark.parametrize("failure", [ValueError("a bug"), KeyboardInterrupt(), OSError(errno.EIO, "I/O error")])
def test_a_failing_write_leaves_the_old_folder(tmp_path: Path, failure: BaseException) -> None:
    target = tmp_path / "model"
    commit_folder(target, filler(1))

    def fail(folder: Path) -> None:
        filler(2)(folder)
        raise failure

    with pytest.raises(UserError if isinstance(failure, OSError) else type(failure)):
        commit_folder(target, fail)
    assert version_of(target) == 1
    assert names(tmp_path) == {"model"}


def test_a_full_disk_leaves_the_old_folder_and_says_so(tmp_path: Path) -> None:
    target = tmp_path / "model"
    commit_folder(target, filler(1))

    def overflow(folder: Path) -> None:
        filler(2)(folder)
        (folder / "big").symlink_to("/dev/full")
        (folder / "big").write_text("no room")

    with pytest.raises(UserError, match="the disk is full"):
        commit_folder(target, overflow)
    with pytest.raises(UserError, match="the disk is full"):
        replace_file(target / "config.json", lambda _: Path("/dev/full").write_text("no room"))
    with pytest.raises(UserError, match=r"expected: 1,000,000,000,000,000,000 bytes free\n *got: [\d,]+ bytes free"):
        commit_folder(target, filler(2), needs=10**18)
    assert version_of(target) == 1
    assert names(tmp_path) == {"model"}


def test_what_regard_did_not_write_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    commit_folder(tmp_path / "empty", filler(1))
    assert version_of(tmp_path / "empty") == 1

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("years of work")
    for place in (tmp_path / "home", tmp_path / "file"):
        with pytest.raises(UserError, match="did not write"):
            commit_folder(place, filler(2))
    assert (tmp_path / "home" / "thesis.tex").read_text() == (tmp_path / "file").read_text() == "years of work"


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    commit_folder(tmp_path / "real", filler(1))
    (tmp_path / "link").symlink_to("real")
    commit_folder(tmp_path / "link", filler(2))
    assert (tmp_path / "link").is_symlink()
    assert version_of(tmp_path / "real") == 2


def test_a_reader_puts_the_old_folder_back(tmp_path: Path) -> None:
    commit_folder(tmp_path / "model", filler(1))
    (tmp_path / "model").rename(tmp_path / ".old-model")  # where a writer died
    assert version_of(tmp_path / "model") == 1
    recover_folder(tmp_path / "model")
    assert names(tmp_path) == {"model"}


def test_a_writer_taken_for_dead_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader finds the place empty between the two renames and puts the old folder back; the writer must notice."""
    target, rename, interruptions = tmp_path / "model", Path.rename, []
    commit_folder(target, filler(1))

    def rename_and_be_interrupted(path: Path, to: Path) -> Path:
        moved = rename(path, to)
        if path == target and len(interruptions) < 3:
            interruptions.append(version_of(target))
        return moved

    monkeypatch.setattr(Path, "rename", rename_and_be_interrupted)
    commit_folder(target, filler(2))
    assert interruptions == [1, 1, 1], "each reader saw the old folder, whole"
    assert version_of(target) == 2
    assert names(tmp_path) == {"model"}


WRITER = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    from regard.hub.atomic import commit_folder, remove_folder

    def filler(version):
        def write(folder):
            (folder / "state").mkdir()
            for name in ("config.json", "model.safetensors", "state/optimizer.safetensors"):
                (folder / name).write_text(f"{version}\\n" * 1000)
        return write
""")
LOOP = """
target, version = Path(sys.argv[1]), int(sys.argv[2])
while True:
    commit_folder(target, filler(version))
    print(version, flush=True)
    version += 1
"""
DIE_AT = """
target, version = Path(sys.argv[1]), int(sys.argv[2])
for fatal in range(10**6):
    child = os.fork()
    if child == 0:
        left = fatal
        def die(event, args):
            global left
            if event.partition(".")[0] in ("open", "os", "shutil"):
                left -= 1
                if left < 0:
                    signal.raise_signal(signal.SIGKILL)
        sys.addaudithook(die)
        commit_folder(target, filler(version + fatal))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(fatal, flush=True)
    sys.stdin.readline()  # until the parent has looked
    if status == 0:
        break
"""


def test_a_kill_at_every_step_leaves_a_whole_folder(tmp_path: Path) -> None:
    """The writer is killed before its 1st, 2nd, ... call into the file system, until one attempt lives to its end."""
    target = tmp_path / "model"
    commit_folder(target, filler(1000))
    command = [sys.executable, "-c", WRITER + DIE_AT, str(target), "1001"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin and writer.stdout
        seen, last = [], 1000
        for line in writer.stdout:
            found = version_of(target)
            assert found in (last, 1001 + int(line)), "neither the old folder nor the new one"
            seen.append(found)
            last = found
            writer.stdin.write("\n")
            writer.stdin.flush()
    assert writer.returncode == 0
    assert len(seen) > 30 and seen[0] == 1000 and seen[-1] == 1000 + len(seen), "it died too rarely to prove anything"


def test_a_kill_at_any_instant_leaves_a_whole_folder(tmp_path: Path) -> None:
    target, instants = tmp_path / "model", random.Random(0)
    commit_folder(target, filler(0))
    version = 0
    for _ in range(10):
        command = [sys.executable, "-c", WRITER + LOOP, str(target), str(version + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout
            writer.stdout.readline()
            time.sleep(instants.uniform(0, 0.05))
            writer.kill()
            printed = [int(line) for line in writer.stdout.read().split()]
        assert printed or version_of(target) > version
        assert version_of(target) >= (printed[-1] if printed else version + 1), "a finished save was lost"
        version = version_of(target)


def test_a_half_removed_folder_is_never_found_under_its_name(tmp_path: Path) -> None:
    commit_folder(tmp_path / "step-1", filler(1))
    remove_folder(tmp_path / "step-1")
    assert names(tmp_path) == set()


@pytest.mark.parametrize("change", ["delete", "truncate", "append", "resave", "replace by a link"])
def test_a_changed_file_is_named(tmp_path: Path, change: str) -> None:
    commit_folder(tmp_path / "model", filler(1))
    victim = tmp_path / "model" / "state" / "optimizer.safetensors"
    old = victim.read_bytes()
    if change == "delete":
        victim.unlink()
    elif change == "replace by a link":
        shutil.move(victim, tmp_path / "outside")
        victim.symlink_to(tmp_path / "outside")
    else:
        victim.write_bytes({"truncate": old[:-1], "append": old + b"\n", "resave": old.replace(b"1", b"2")}[change])
    with pytest.raises(CheckpointError, match=r"state/optimizer\.safetensors"):
        verify_manifest(tmp_path / "model")


def test_a_foreign_folder_has_no_manifest_and_a_note_does_not_matter(tmp_path: Path) -> None:
    filler(1)(tmp_path)
    assert verify_manifest(tmp_path) is False
    commit_folder(tmp_path / "model", filler(1))
    (tmp_path / "model" / "note.txt").write_text("mine")
    assert verify_manifest(tmp_path / "model") is True


@settings(max_examples=25)
@given(text=st.text())
def test_text_is_written_as_it_is(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("text") / "file"
    write_text_atomic(path, text)
    assert path.read_bytes() == text.encode()
    assert names(path.parent) == {"file"}


def test_a_pointer_names_a_folder(tmp_path: Path) -> None:
    assert read_pointer(tmp_path / "latest") is None
    point(tmp_path / "latest", "step-000500")
    point(tmp_path / "latest", "step-001000")
    assert read_pointer(tmp_path / "latest") == "step-001000"


@pytest.mark.parametrize("content", [b"", b"\n", b"..", b"../other/step-1\n", b"/etc", b"a\nb\n", b"\0"])
def test_a_pointer_never_leads_elsewhere(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "latest").write_bytes(content)
    with pytest.raises(CheckpointError, match="does not name a checkpoint"):
        read_pointer(tmp_path / "latest")
