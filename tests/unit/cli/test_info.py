"""`regard info`: the facts of a model's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from regard.hub.folder import load_model

Command = Callable[..., tuple[int, str, str]]


def test_info_says_what_the_model_is(command: Command, workplace: Path) -> None:
    code, out, _ = command("info", "run", "--json")
    facts = json.loads(out)
    model = load_model(workplace / "run").model
    assert code == 0 and facts["task"] == "translation" and facts["languages"] == ["en", "de"]
    assert facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert facts["transformer"]["d_model"] == 32 and facts["training"]["steps"] == 40
    assert facts["scores"] == {
        **facts["scores"],
        "dev_loss": json.loads((workplace / "trained.json").read_text())["dev_loss"],
    }
    assert facts["license"] == "unknown" and facts["files_bytes"]["model.safetensors"] > 4 * facts["parameters"]


def test_info_for_people(command: Command) -> None:
    code, out, err = command("info", "run")
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "") and ["task", "translation", "en", "to", "de"] in lines
    assert ["positions.kind", "sinusoidal"] in lines and ["model.safetensors"] in [line[:1] for line in lines]


def test_info_of_what_is_no_model(command: Command) -> None:
    assert command("info", "nowhere")[0] == 4
    code, _, err = command("info", "cache")
    assert code == 4 and "holds no model" in err
