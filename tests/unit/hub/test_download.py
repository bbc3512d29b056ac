"""A model of the hub, fetched by the hub's own client from a server in this process that answers as the hub does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from regard.hub.folder import load_model

SHA = "a" * 40


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Its address, and what was fetched from it; it serves each folder NAME of tmp_path as `someone/NAME`."""
    fetched = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            name = path.partition("someone/")[2].partition("/")[0]
            root, call = tmp_path / name, path.partition(f"someone/{name}")[2]
            if not name or not root.is_dir():
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.end_headers()
            elif call.startswith("/revision/"):
                self._say(json.dumps({"id": f"someone/{name}", "sha": SHA, "siblings": []}).encode())
            elif call.startswith("/tree/"):
                files = [path for path in sorted(root.rglob("*")) if path.is_file()]
                self._say(json.dumps([{
                    "type": "file", "path": file.relative_to(root).as_posix(), "size": file.stat().st_size, "oid": SHA,
                } for file in files]).encode())  # fmt: skip
            else:
                file = call.removeprefix(f"/resolve/{SHA}/")
                if self.command == "GET":
                    fetched.append(f"{name}/{file}")
                self._say((root / file).read_bytes())

        do_HEAD = do_GET

        def _say(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Repo-Commit", SHA)
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", fetched
    server.shutdown()
    thread.join()
    server.server_close()


SESSION = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from regard.cli import main

for words in json.load(sys.stdin):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main.main(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def session(address: str, place: Path, *lines: str) -> list[tuple[int, str]]:
    """Commands in a process of its own, since the client reads the hub's address once: exit code and stdout of each."""
    homes = {"XDG_CACHE_HOME": str(place / "cache"), "HF_HOME": str(place / "hf"), "HF_ENDPOINT": address}
    words = json.dumps([line.split() for line in lines])
    done = subprocess.run([sys.executable, "-c", SESSION], env={**os.environ, **homes}, input=words,
                          capture_output=True, text=True, check=True, cwd=place)  # fmt: skip
    return [(code, out) for code, out, _ in map(json.loads, done.stdout.splitlines())]


@pytest.mark.whole
def test_only_what_can_be_opened_is_fetched_and_once(
    hub: tuple[str, list[str]], gpt2: Callable[..., Path], tmp_path: Path
) -> None:
    (address, fetched), tiny, pickled = hub, gpt2("tiny"), gpt2("pickled")
    (tiny / "onnx").mkdir()
    for name in ("pytorch_model.bin", "onnx/config.json", "flax_model.msgpack", "training_args.bin", "code.py"):
        (tiny / name).write_text("{}")
    (tiny / "README.md").write_text("---\nlicense: mit\n---\n# tiny\n")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    names = {"tiny": "tiny", "again": "tiny", "pickled": "pickled", "absent": "absent"}
    lines = [f"import someone/{name} out-{out} --download --json" for out, name in names.items()]
    (first, out), (again, _), (refused, why), (absent, reason) = session(address, tmp_path, *lines)

    assert (first, again) == (0, 0) and json.loads(out)["license"] == "mit"
    text = {"config.json", "tokenizer.json", "tokenizer_config.json"}
    assert sorted(fetched) == sorted([
        *(f"tiny/{name}" for name in ("README.md", "model.safetensors", *text)), *(f"pickled/{name}" for name in text),
    ])  # fmt: skip
    card = (tmp_path / "out-tiny" / "README.md").read_text()
    assert "imported from `someone/tiny`" in card and "license: mit" in card
    assert load_model(tmp_path / "out-tiny").about["family"] == "GPT-2"

    error = json.loads(why)["error"]
    assert refused == 4 and "not on the hub as safetensors" in error["what"] and "--revision" in error["mend"]
    assert not (tmp_path / "out-pickled").exists()
    error = json.loads(reason)["error"]
    assert absent == 4 and error["where"] == "someone/absent" and error["what"] == "the model cannot be downloaded"
