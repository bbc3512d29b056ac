"""Faults 20 and 21, through the command: bad lines and unfit pairs are told with their places before training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., tuple[int, str, str]]
TINY = "tokenizer.kind=chars tokenizer.vocab_size=60 model.d_model=16 model.n_heads=2 model.d_ff=16 loop.steps=1"
CHANGES = [word for change in TINY.split() for word in ("--set", change)]


def test_a_bad_line_stops_with_its_place_unless_it_may_be_skipped(command: Command, workplace: Path) -> None:
    lines = [f"a {i}\tb {i}\n" for i in range(50)]
    (workplace / "bad.tsv").write_text("".join(lines[:3]) + "no tab here\n" + "".join(lines[3:]))
    words = ("train", "translation", "bad.tsv", "--out", "bad", *CHANGES)
    code, out, err = command(*words)
    assert (code, out) == (3, "") and "bad.tsv:4" in err and "no tab here" in err and "--skip-bad" in err
    assert not (workplace / "bad" / "latest").exists()
    code, out, err = command(*words, "--skip-bad", "1", "--json")
    assert code == 0, err
    assert "1 bad lines were left out" in err and "bad.tsv:4" in err and json.loads(out)["steps"] == 1


def test_files_of_unequal_length_end_with_3(command: Command) -> None:
    code, out, err = command("train", "translation", "train.en", "dev.de", "--out", "unequal")
    assert (code, out) == (3, "") and "400 and 40 lines" in err


def test_duplicates_and_overlap_are_counted_before_training(command: Command, workplace: Path) -> None:
    pairs = [f"a {i}\tb {i}\n" for i in range(50)]
    (workplace / "twice.tsv").write_text("".join(pairs + pairs[:5]))
    (workplace / "leak.tsv").write_text("".join(pairs[:7]))
    code, _, err = command("train", "translation", "twice.tsv", "--dev", "leak.tsv", "--out", "leaky", *CHANGES)
    assert code == 0
    assert "5 of 55 pairs (9.1%) repeat an earlier pair" in err and "twice.tsv:51" in err
    assert "7 of 7 pairs (100.0%) held out have a source text that is in the training pairs too" in err
    assert err.index("held out have") < err.index("development loss")
