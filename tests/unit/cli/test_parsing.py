"""What cannot be read of a command line is told in the one form that all mistakes have; help names every word."""

from __future__ import annotations

import json
import re

import pytest

from regard.cli.main import VERBS, main, module_of
from regard.cli.parsing import arguments, usage

WRONG = {
    "train": ("words are missing", "regard train TASK DATA... --out DIR", "no words", "regard train --help"),
    "train translation a b": ("missing: --out DIR", "--out DIR", "translation a b", "regard train --help"),
    "train translation a b --ot r": ("unknown flag", "--out", "--ot", "did you mean --out?"),
    "train translation a b --out r --minuts 3": ("unknown flag", "--minutes", "--minuts", "did you mean --minutes?"),
    "train translation a b --out r --minutes abc": ("not a value", "a number", "abc", "regard train --help"),
    "train translation a b --out r --skip_bad=1.5": ("not a value", "a whole number", "1.5", "regard train --help"),
    "train translation a b --out": ("--out has no value", "--out DIR", "--out", "regard train --help"),
    "train translation a b --out r --resume 3": ("more words", "TASK DATA...", "3", "regard train --help"),
    "compare m": ("MODEL_B", "regard compare MODEL_A MODEL_B SRC TGT", "m", "regard compare --help"),
    "evaluate": ("words are missing", "regard evaluate MODEL FILE", "no words", "regard evaluate --help"),
    "completion zhs": ("choices", "bash, zsh, fish", "zhs", "did you mean zsh?"),
    "doctor --zzz": ("unknown flag", "--speed", "--zzz", "regard doctor --help"),
}


@pytest.mark.parametrize("line", WRONG)
def test_every_kind_of_mistake_has_the_one_form(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    what, expected, got, mend = WRONG[line]
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    parts = [part.split(":")[0].strip() for part in err.splitlines()]
    assert out == "" and parts == ["error", "expected", "got", "to mend it"], err
    for line_of_error, says in zip(err.splitlines(), (what, expected, got, mend), strict=True):
        assert says in line_of_error


def test_with_json_it_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "translation", "a", "b", "--minutes", "abc", "--out", "r", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["where"], error["expected"], error["got"]) == ("--minutes", "a number", "abc")
    assert (error["type"], error["exit_code"]) == ("ConfigError", 2)


@pytest.mark.parametrize("words", [["train", "--help"], ["train", "translation", "--help"], ["train", "x", "-h"]])
def test_help_is_the_same_wherever_it_is_asked_for(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.startswith("usage: regard train TASK DATA... --out DIR [OPTIONS]\n")
    assert "regard train RECIPE --out DIR" in out and "--minutes M" in out and "RECIPE: a .toml file" in out


@pytest.mark.parametrize("verb", VERBS)
def test_help_names_every_argument(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    out = capsys.readouterr().out
    cls = module_of(verb).Arguments
    assert all(line in out for line in usage(f"regard {verb}", cls))
    for argument in arguments(cls):
        assert argument.flag is None or argument.flag in out
        assert argument.flag or argument.metavar, "a word by its place needs a metavar"
    assert not re.search(rf"^regard {verb} .*\bregard {verb} ", out, re.MULTILINE), "two commands on one line"


@pytest.mark.parametrize("seed", [-1, 2**63, 10**23, 10**400])
@pytest.mark.parametrize("verb", VERBS)
def test_a_seed_that_nothing_takes(verb: str, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    known = list(arguments(module_of(verb).Arguments))
    if not any(argument.flag == "--seed" for argument in known):
        return
    words = ["x"] * sum(argument.flag is None and argument.required for argument in known)
    needed = {"--to": "int8" if verb == "quantize" else "hf"}
    flags = [word for one in known if one.flag and one.required for word in (one.flag, needed.get(one.flag, "x"))]
    assert main([verb, *words, *flags, "--seed", str(seed)]) == 2
    assert "0 to 2^63 - 1" in capsys.readouterr().err
