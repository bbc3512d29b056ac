"""Two tabs on one model, whose files change meanwhile: each says so, and shows the new one once it is loaded anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import regard

from .conftest import Opened, Served

CHANGED = "changed on disk"


def type_text(opened: Opened, text: str) -> str:
    """What the model writes for it."""
    opened.page.locator("regard-try textarea").first.fill(text)
    opened.until("regard.store.get('view')?.request.texts[0] === given", text)
    opened.wait()
    return opened.get("view")["text"]


def test_a_model_that_changes_under_two_tabs(
    visit: Callable[..., Opened], serve: Callable[..., Served], workplace: Path, tmp_path: Path
) -> None:
    model, runs = tmp_path / "model", workplace / "run" / "checkpoints"
    shutil.copytree(runs / "final", model)
    served = serve(model)
    one, two = visit(served), visit(served)
    before = type_text(one, "Two dogs run.")
    assert type_text(two, "Two dogs run.") == before and CHANGED not in one.page.inner_text("body")

    shutil.rmtree(model)
    shutil.copytree(runs / "step-000020", model)
    after = regard.look(model, "Two dogs run.").view.target
    assert after is not None
    type_text(one, "Two dogs run!")
    assert CHANGED in one.page.inner_text("body")
    with one.page.expect_navigation():
        one.page.get_by_role("button", name="Open the new one").click()
    one.wait()
    assert CHANGED not in one.page.inner_text("body")
    type_text(one, "Two dogs run.")
    seen = one.get("view")["target"]["writes"]
    assert [row and row["p"] for row in seen] == pytest.approx([row and row.p for row in after.writes or ()])

    assert CHANGED not in two.page.inner_text("body")
    type_text(two, "Two dogs run!")
    assert CHANGED in two.page.inner_text("body"), "its runs are no longer of the model that it shows"
