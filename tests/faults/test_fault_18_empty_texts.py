"""Fault 18, through the Python face and the command: empty text, only spaces, empty list, empty file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import regard

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("blank", ["", " ", "\t \u3000\u00a0", "\n", " " * 10**6])
def test_nothing_is_translated_to_nothing(workplace: Path, one_thread: None, blank: str) -> None:
    model = regard.load(workplace / "run", device="cpu")
    before, found, after = model.translate(["A man.", blank, "A dog."], beam=2, n_best=2)
    assert (found.text, found.score, found.logprob, found.alternatives, found.left_out) == ("", 0.0, 0.0, (), 0)
    assert [before.text, after.text] == [t.text for t in model.translate(["A man.", "A dog."], beam=2)]
    assert model.translate([]) == model.score([], []) == []
    if len(blank) < 100:
        assert model.score([blank], ["x"])[0] < 0


def test_an_empty_file(command: Command, workplace: Path) -> None:
    (workplace / "empty.en").write_text("")
    (workplace / "blank.en").write_text(" \n\n\t\n")
    assert command("translate", "run", "empty.en") == (0, "", "")
    assert command("translate", "run", "blank.en") == (0, "\n\n\n", "")
    for verb in (("evaluate", "run"), ("doctor",), ("train", "--out", "never", "translation")):
        code, _, err = command(*verb, "empty.en", "empty.en")
        assert code == 3 and "empty.en" in err and "Traceback" not in err, verb
    assert not (workplace / "never").exists()


def test_a_language_model_has_nothing_to_read_in_it(
    command: Command, workplace: Path, model_dir: Callable[[str], Path]
) -> None:
    for name, text in (("nothing.txt", ""), ("spaces.txt", " \n\t\n")):
        (workplace / name).write_text(text)
        code, _, err = command("evaluate", str(model_dir("stories260k")), name)
        assert code == 3 and f"{name}: there are no documents in it" in err
