"""Opening text files: compressed or not, from disk or from standard input, one line at a time.

What it is: `Lines`, an iterator of lines that also learns the file's SHA-256 and counts its lines.
What is unusual: compression is told by the first bytes, never by the name. Lines end at \\n only, so U+2028 and a lone
\\r stay inside one; a \\r before the \\n goes. A bad line (not UTF-8, too long) comes out as a DataError *value*, so
that the reader decides whether to stop or to skip it. Memory is bounded by one line, whatever the file is.
What it does not know: what a line means.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import UNREADABLE, DataError, MissingExtraError, UserError

MAX_BYTES = 2 * 2**30
MAX_LINE_BYTES = 16 * 2**20
BLOCK_BYTES = 2**16
NOT_UTF8 = "iconv -f LATIN1 -t UTF-8 (or whatever its encoding is), if it is text at all"
"""What to do about a line that is not."""
STDIN = Path("-")
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZSTD_STEP = 1024  # bytes decompressed at once; a bomb makes 32 MiB of them


class Lines(Iterator["str | DataError"]):
    """The lines of one file, without their ends; a context that closes the file.

    Args:
        path: a file, plain or compressed with gzip or zstd; `-` is standard input.
        max_bytes: the most bytes to read after decompression.
        start: begin at this byte; of a file that is not compressed.
        stop: give no line that begins at this byte or later.

    Attributes:
        number: the number of the last line given, from 1 at `first`; 0 before the first.
        first: the byte at which the first line to be given begins.

    Raises (on construction or while reading):
        DataError: the file is missing, unreadable, broken or larger than `max_bytes`.
        MissingExtraError: the file is zstd and the library is absent.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, start: int = 0, stop: int | None = None) -> None:
        self.path, self.number = path, 0
        self._max_bytes, self._read = max_bytes, 0
        self._start, self.first, self._stop = start, start, stop
        self._hashed = _Hashed(_open(path, start))
        self._raw: io.BufferedReader[Any] = io.BufferedReader(self._hashed, 2**16)
        try:  # compression shows in the first bytes alone; anywhere else they may look like it by chance
            self._stream = self._raw if start else _decompressed(path, self._raw)
        except UserError:
            self._raw.close()
            raise

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def __next__(self) -> str | DataError:
        raw = b"" if self._stop is not None and self.offset >= self._stop else self._readline(MAX_LINE_BYTES + 1)
        if not raw:
            raise StopIteration
        self.number += 1
        if len(raw) <= MAX_LINE_BYTES:
            return self.decode(raw)
        if not raw.endswith(b"\n"):
            del raw
            self._read_over()
        return self.bad("the line is too long", expected=f"<= {MAX_LINE_BYTES:,} bytes")

    def pass_over(self) -> None:
        """Read to the end of the line that `start` lies in; numbers begin after it."""
        self._read_over()
        self.first = self.offset

    def _read_over(self) -> None:
        while (raw := self._readline(MAX_LINE_BYTES)) and not raw.endswith(b"\n"):
            pass  # the rest of the line is read, not kept

    @property
    def offset(self) -> int:
        """Where in the file, after decompression, the next line begins."""
        return self._start + self._read

    @property
    def consumed(self) -> int:
        """The bytes of the file as it lies on disk that were read so far."""
        return self._hashed.count

    @property
    def compressed(self) -> bool:
        """The file is compressed."""
        return self._stream is not self._raw

    def head(self) -> bytes:
        """The first bytes still to be read, at least one unless the file is empty; reads nothing."""
        return self._safely(lambda: self._stream.peek(1))

    def blocks(self) -> Iterator[bytes]:
        """The file's bytes after decompression, some at a time, for a reader that finds the lines itself."""
        while raw := self._take(lambda: self._stream.read1(BLOCK_BYTES)):
            yield raw

    def _readline(self, limit: int) -> bytes:
        return self._take(lambda: self._stream.readline(limit))

    def _take(self, read: Callable[[], bytes]) -> bytes:
        raw = self._safely(read)
        self._read += len(raw)
        if self._read > self._max_bytes:
            raise DataError(
                "the file is too large",
                where=self.path,
                expected=f"<= {self._max_bytes:,} bytes after decompression",
                mend="split it into several files; of texts, regard prepare --max-bytes N reads more",
            )
        return raw

    def _safely(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except Exception as error:  # each decompressor has errors of its own
            raise DataError("the file is broken and cannot be read to its end", where=self.path, got=error,
                            mend="copy or download it again") from None  # fmt: skip

    def decode(self, raw: bytes) -> str | DataError:
        """The bytes of line `number` as text without its end, or what is wrong with them."""
        if raw.endswith(b"\n"):
            raw = raw[:-1].removesuffix(b"\r")
        if self.number == 1 and self.first == 0:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            return self.bad(
                "the line is not UTF-8",
                got=f"byte 0x{raw[error.start]:02x} in {shorten(raw.decode('utf-8', 'replace'))}",
                mend=NOT_UTF8,
            )

    def bad(
        self, what: str, expected: object = None, got: object = None, mend: str | None = None, number: int | None = None
    ) -> DataError:
        """An error about the last line given, or about line `number`."""
        before = _line_ends(self.path, self.first) if self.first else 0
        where = f"{self.path}:{before + (self.number if number is None else number)}"
        return DataError(what, where=where, expected=expected, got=got, mend=mend)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes read of the file as it lies on disk: of all of it after the last line."""
        return self._hashed.digest.hexdigest()


def read_lines(path: Path, *, max_bytes: int = MAX_BYTES) -> Iterator[str]:
    """Each line of a file as soon as it is there; a bad line is raised as DataError. Arguments and errors: `Lines`."""
    with Lines(path, max_bytes=max_bytes) as lines:
        for line in lines:
            if isinstance(line, DataError):
                raise line
            yield line


def shorten(text: str, width: int = 80) -> str:
    """The text as Python would write it, cut to `width` characters, for a message."""
    return repr(text if len(text) <= width else text[: width - 3] + "...")


def _line_ends(path: Path, size: int) -> int:
    """How many lines end in the first `size` bytes; asked only where something in a later line is wrong."""
    count = 0
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(size, 2**20))):
            count, size = count + block.count(b"\n"), size - len(block)
    return count


PIPED = "a text itself comes by a pipe: echo 'TEXT' | regard VERB MODEL"


def _open(path: Path, start: int) -> BinaryIO:
    if path == STDIN:
        return open(0, "rb", closefd=False)
    try:
        file = path.open("rb")
        if start:  # a pipe can be opened, but knows no places
            file.seek(start)
        return file
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, _names(path.parent), n=3)
        mend = f"did you mean {' or '.join(near)}?" if near else PIPED if " " in path.name else None
        looked = None if path.is_absolute() else f"nothing of that name in {Path.cwd()}, where relative paths begin"
        raise DataError("there is no such file", where=path, got=looked, mend=mend) from None
    except IsADirectoryError:
        raise DataError("this is a folder", where=path, expected="a file", mend="name a file in it") from None
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or error
        raise DataError("the file cannot be opened", where=path, got=got, mend="check who may read it") from None


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _decompressed(path: Path, raw: io.BufferedReader[Any]) -> io.BufferedReader[Any] | gzip.GzipFile:
    try:
        magic = raw.peek(4)
    except OSError as error:
        raise DataError("the file cannot be read", where=path, got=error, mend=UNREADABLE) from None
    if magic.startswith(GZIP):
        return gzip.GzipFile(fileobj=raw)
    if magic.startswith(ZSTD):
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("zstandard", "data", f"reading {path}") from None
        return io.BufferedReader(_Zstd(raw, zstandard.ZstdDecompressor().decompressobj))
    return raw


class _Hashed(io.RawIOBase):
    """Bytes passing through, each read at once (a pipe's line is not held back), counted and added to a digest."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.digest, self.count = stream, hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._stream.readinto1(buffer)
        self.digest.update(memoryview(buffer)[:count])
        self.count += count
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Zstd(io.RawIOBase):
    """Frames of zstd, one after another. (The library's own reader takes a file cut short for a whole one.)"""

    def __init__(self, raw: io.BufferedReader[Any], new_frame: Callable[[], Any]) -> None:
        self._raw, self._new_frame = raw, new_frame
        self._frame, self._output = new_frame(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            ended = self._frame.eof
            data = (self._frame.unused_data if ended else b"") or self._raw.read1(ZSTD_STEP)
            if not data:
                if ended:
                    return 0
                raise EOFError("the last zstd frame is cut short")
            if ended:
                self._frame = self._new_frame()
            self._output = self._frame.decompress(data)
        count = min(len(buffer), len(self._output))
        buffer[:count], self._output = self._output[:count], self._output[count:]
        return count
