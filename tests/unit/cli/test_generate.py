"""`regard generate`: what the model says, as it says it, and nothing else on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import regard
from regard.cli.main import main

pytestmark = pytest.mark.usefixtures("one_thread")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stories(model_dir: Callable[[str], Path]) -> str:
    return str(model_dir("stories260k"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """`run("--n", "2", stdin=b"..")`: exit code, stdout, stderr."""
    with ExitStack() as opened:

        def ask(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
            (tmp_path / "stdin").write_bytes(stdin)
            monkeypatch.setattr(sys, "stdin", opened.enter_context((tmp_path / "stdin").open("rb")))
            capsys.readouterr()
            return main(["generate", *words, "--threads", "1", "--device", "cpu"]), *capsys.readouterr()

        yield ask


def test_it_prints_the_story_that_transformers_tells(run: Run, stories: str) -> None:
    """shared/models/README.md."""
    code, out, err = run(stories, "--prompt", "", "--max-tokens", "60")
    assert (code, err) == (0, "")
    assert out.startswith("Once upon a time, there was a little girl named Lily. She loved to play outside in the ")
    assert out == regard.load(stories, device="cpu").generate("", max_tokens=60).text + "\n"


def test_a_prompt_comes_by_flag_or_by_stdin(run: Run, stories: str) -> None:
    expected = run(stories, "--prompt", "One day,", "--max-tokens", "8")
    assert expected[0] == 0 and expected[1].strip()
    for stdin in (b"One day,", b"One day,\n", b"\xef\xbb\xbfOne day,\r\n"):
        assert run(stories, "--max-tokens", "8", stdin=stdin) == expected
    assert run(stories, "--max-tokens", "8", stdin=b"One day,\n\n") != expected, "one line end goes, no more"
    code, out, err = run(stories, stdin=b"J\xfcrgen")
    assert (code, out) == (3, "") and "0xfc" in err


def test_samples_are_parted_by_a_line(run: Run, stories: str) -> None:
    words = (stories, "--prompt", "One day", "--max-tokens", "6", "--seed", "3")
    code, out, _ = run(*words, "--n", "2")
    first, second = out.removesuffix("\n").split("\n---\n")
    assert code == 0 and first != second
    assert run(*words, "--temperature", "1")[1] == first + "\n"
    row = json.loads(run(*words, "--n", "2", "--json")[1])
    assert (row["text"], [one["text"] for one in row["alternatives"]]) == (first, [second])


def test_json_holds_tokens_and_their_log_probabilities(run: Run, stories: str) -> None:
    row = json.loads(run(stories, "--prompt", "One day", "--max-tokens", "5", "--json")[1])
    assert set(row) == {"prompt", "text", "finish_reason", "tokens", "logprobs"}
    assert len(row["tokens"]) == len(row["logprobs"]) == 5 and max(row["logprobs"]) < 0
    assert (row["prompt"], row["finish_reason"]) == ("One day", "length")


def test_it_stops_before_a_string(run: Run, stories: str) -> None:
    _, whole, _ = run(stories, "--prompt", "", "--max-tokens", "30")
    _, out, _ = run(stories, "--prompt", "", "--max-tokens", "30", "--stop", "zebra", "--stop", " girl")
    assert out == whole[: whole.index(" girl")] + "\n"


def test_a_prompt_too_long_is_refused_or_cut_and_told(run: Run, stories: str) -> None:
    code, out, err = run(stories, "--prompt", "dog " * 600)
    assert (code, out) == (2, "") and "at most 512" in err and "--truncate" in err
    code, out, err = run(stories, "--prompt", "dog " * 600, "--truncate", "--max-tokens", "3")
    assert code == 0 and out.strip() and "left out" in err


@pytest.mark.whole
def test_pieces_are_written_as_they_are_made(stories: str) -> None:
    words = ["-m", "regard", "generate", stories, "--prompt", "", "--max-tokens", "400", "--threads", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen([sys.executable, *words], **pipes) as process:
        assert process.stdout and process.stderr
        first = process.stdout.read(9)
        assert first and b"Once upon a time".startswith(first[:4]) and process.poll() is None
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait(timeout=60) == 141


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("nowhere --prompt x", 4, "no model folder"),
        ("{stories} --prompt x --top-p 1.5", 2, "top_p"),
        ("{stories} --prompt x --temperature -1", 2, "temperature"),
        ("{stories} --prompt x --n 0", 2, "1 or more"),
        ("{stories} --prompt x --n 2 --temperature 0", 2, "raise temperature"),
        ("{stories} --prompt x --max-tokens -1", 2, "max_tokens"),
        ("{stories} --prompt x --stop=", 2, "leave it out"),
        ("{stories} --prompt x --top-q 1", 2, "--top"),
        ("", 2, "MODEL"),
    ],
)
def test_mistakes(run: Run, stories: str, words: str, code: int, says: str) -> None:
    got, out, err = run(*words.format(stories=stories).split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err
