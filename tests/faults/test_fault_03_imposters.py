"""Fault 3: a Git-LFS pointer, an HTML page or a zip under the name `.safetensors`."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from regard.errors import CheckpointError
from regard.hub.weights import read_model_weights, write_weights


def a_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/weights", "1 2 3")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "kind", "mend"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 1044992\n", "Git-LFS", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html><title>404</title></html>", "HTML", "download"),
        (b"\n\n <HTML lang='en'><title>Sign in</title></HTML>", "HTML", "download"),
        (a_zip(), "a zip archive", "safetensors"),
        (b"GIF89a and so on", "begins with b'GIF89a", "download"),
    ],
    ids=["git-lfs", "doctype", "html", "zip", "something else"],
)
def test_it_says_what_the_file_is(tmp_path: Path, content: bytes, kind: str, mend: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a safetensors file") as caught:
        read_model_weights(tmp_path)
    assert kind in str(caught.value.got)
    assert mend in str(caught.value.mend)


def test_a_header_whose_length_looks_like_a_pickle_is_none(tmp_path: Path) -> None:
    """0x280 bytes of header begin with the two bytes of a pickle; what matters is the `{` that follows the length."""
    write_weights(tmp_path / "model.safetensors", {}, {"pad": "x" * (0x280 - 45)})
    assert (tmp_path / "model.safetensors").read_bytes()[:2] == b"\x80\x02"
    assert read_model_weights(tmp_path) == {}
