"""docs/families.md is what docs/families.py writes, and every family in it is checked against transformers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from regard.hub.families import FAMILIES

CHECKOUT = Path(__file__).resolve().parents[1]


def load_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("families_page", CHECKOUT / "docs" / "families.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_its_script_writes() -> None:
    written = (CHECKOUT / "docs" / "families.md").read_text(encoding="utf-8")
    assert written == load_page().page(), "run: python docs/families.py"


def test_every_family_is_checked_in_at_least_two_variants() -> None:
    lines = [line for line in load_page().page().splitlines() if line.startswith("| ")]
    for family in FAMILIES:
        line = next(line for line in lines if line.startswith(f"| {family.name} |"))
        assert line.count(";") >= 1 and line.count(" | ") == 3, line
