"""The real command in its own process: verbs, exit codes, streams, and how quickly it starts."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import regard
from regard.cli.main import VERBS, how_to_wait, main, module_of

# A verb written here, to end in whichever way a test needs.
VERB = """
import sys, types, time, dataclasses
from regard.cli import main
from regard.errors import CheckpointError
module = types.ModuleType("regard.cli.probe")
@dataclasses.dataclass
class Arguments:
    json: bool = False
def run(args):
    {body}
module.Arguments, module.run = Arguments, run
sys.modules["regard.cli.probe"] = module
main.VERBS["probe"] = "end somehow"
sys.exit(main.main(["probe", *sys.argv[1:]]))
"""


def start(words: Sequence[str], **more: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *words], text=True, encoding="utf-8", env=os.environ | more, **pipes)


def regard_command(*words: str, **more: str) -> tuple[int, str, str]:
    process = start(["-m", "regard", *words], **more)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def probe(body: str, *words: str) -> tuple[int, str, str]:
    process = start(["-c", VERB.format(body=body), *words])
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_help_and_version_go_to_stdout() -> None:
    code, out, err = regard_command("--help")
    assert (code, err) == (0, "")
    assert all(verb in out for verb in VERBS)
    assert regard_command("--version") == (0, f"regard {regard.__version__}\n", "")


@pytest.mark.whole
def test_usage_mistakes_end_with_2_on_stderr() -> None:
    for words, says in {
        (): "usage",
        ("docter",): "did you mean: regard doctor?",
        ("zzz",): "regard --help",
        ("--seed", "1"): "before the verb",
        ("doctor", "--sped"): "--speed",
        ("doctor", "--threads", "many"): "--threads",
        ("doctor", "--device", "gpu"): "device",
    }.items():
        code, out, err = regard_command(*words)
        assert code == 2 and says in err, words
        assert "{" not in out and "Traceback" not in err


def test_help_starts_quickly_because_it_imports_little() -> None:
    heavy = ["torch", "numpy", "tyro", "pydantic", "matplotlib", "regard.cli.doctor"]
    code = f"import sys; from regard.cli.main import main; main(['--help']); print(set(sys.modules) & set({heavy}))"
    out, _ = start(["-c", code]).communicate(timeout=60)
    assert out.splitlines()[-1] == "set()"
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        regard_command("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.3


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_module(verb: str) -> None:
    module = module_of(verb)
    assert is_dataclass(module.Arguments) and callable(module.run)


def test_a_users_mistake_is_a_sentence_and_with_json_an_object() -> None:
    body = 'raise CheckpointError("bad [bold]sum", where="m/x", expected=1, got=2, mend="copy it anew")'
    code, out, err = probe(body)
    assert (code, out) == (4, "")
    assert err == "error: m/x: bad [bold]sum\n  expected: 1\n  got: 2\n  to mend it: copy it anew\n"
    code, out, err = probe(body, "--json")
    parts = {"what": "bad [bold]sum", "where": "m/x", "expected": "1", "got": "2", "mend": "copy it anew"}
    assert (code, json.loads(out)) == (4, {"error": {"type": "CheckpointError", **parts, "exit_code": 4}})


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    code, out, err = probe("return 1 / 0", "--json")
    assert code == 1 and json.loads(out)["error"]["type"] == "ZeroDivisionError"
    assert "Traceback" in err and "please report it" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_through_every_finally(number: signal.Signals, code: int) -> None:
    body = 'try: print("ready", flush=True); time.sleep(60)\n    finally: print("cleaned")'
    process = start(["-c", VERB.format(body=body)])
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "cleaned\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("body", ["for i in range(10**6): print(i)", "print(0, flush=True); time.sleep(.5); print(1)"])
def test_a_reader_that_leaves_is_no_error(body: str) -> None:
    process = start(["-c", VERB.format(body=body)])
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


def test_any_text_can_be_written_in_any_locale() -> None:
    process = start(
        ["-c", VERB.format(body=r'print("\xdf\udc80")')], LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii"
    )
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "ß\\udc80\n")


@pytest.mark.skipif(not Path("/proc/loadavg").exists(), reason="what runs just now is only told on Linux")
def test_threads_do_not_spin_where_anything_else_wants_a_core() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.3)
        assert how_to_wait() == {"GOMP_SPINCOUNT": "300"}
    finally:
        busy.kill()
        busy.wait()


def test_what_the_user_says_of_waiting_threads_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert main(["--version"]) == 0
    assert os.environ["GOMP_SPINCOUNT"] == "7" and "OMP_WAIT_POLICY" not in os.environ
