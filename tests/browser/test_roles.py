"""Screen 4, Head roles: measured with a bar and a stop, shown as the Python says, and a way from each head onwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from regard.inspect.edits import HeadOff
from regard.inspect.embedded import page_of
from regard.inspect.roles import HeadRole, head_roles
from regard.inspect.samples import samples
from regard.inspect.scripts import Request
from regard.inspect.views import run

from .conftest import Opened, Served

TEXT = "A man rides a bicycle."
PLACE = "screen=roles&text=A+man+rides+a+bicycle."


@pytest.fixture(scope="module")
def roles(translator: Served) -> list[HeadRole]:
    """What the Python finds over the ten sentences that the page measures."""
    chosen = samples(translator.model, 10, longest=200)
    asked = [Request(texts=sample.texts, target=sample.target, to=sample.to) for sample in chosen]
    return head_roles(translator.model, asked)


def measure(page: Page) -> None:
    page.get_by_label("How many sentences").select_option("10")
    page.get_by_role("button", name="Measure").click()
    expect(page.locator(".roles-table")).to_be_visible()


def test_what_is_measured_is_shown(visit: Callable[..., Opened], translator: Served, roles: list[HeadRole]) -> None:
    opened = visit(translator, PLACE)
    page = opened.page
    lines = list[str]()
    page.on("request", lambda asked: lines.append(asked.url) if asked.url.endswith("api/roles") else None)
    measure(page)
    name = "head => regard.store.get('lang') && document.querySelector(`.role-cell[data-head='${head}']`).textContent"
    for role in roles:
        cell = page.evaluate(name, f"{role.part} {role.layer} {role.head}")
        assert cell.startswith("mixed") if role.role == "mixed" else "%" in cell
    effects = page.locator(".roles-table .number").all_text_contents()
    assert [float(text.replace("−", "-")) for text in effects] == [pytest.approx(r.effect, abs=6e-4) for r in roles]
    cheap = sum(role.effect is not None and role.effect < 0.01 for role in roles)
    expect(page.locator(".roles-found .words").first).to_contain_text(f"{cheap} of {len(roles)} heads")
    page.keyboard.press("5")
    page.keyboard.press("4")
    expect(page.get_by_role("button", name="Measure")).to_be_visible()
    page.get_by_label("How many sentences").select_option("10")
    expect(page.locator(".roles-table")).to_be_visible()
    assert len(lines) == 1, "what was measured is kept"


def test_sorted_by_what_can_be_removed(visit: Callable[..., Opened], translator: Served) -> None:
    page = visit(translator, PLACE).page
    measure(page)
    page.get_by_role("button", name="Which heads could I remove?").click()
    shown = [float(text.replace("−", "-")) for text in page.locator(".roles-table .number").all_text_contents()]
    assert shown == sorted(shown)
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("loss without it")
    page.locator("thead").get_by_role("button", name="role", exact=True).click()
    kinds = [name.startswith("mixed") for name in page.locator(".role-name").all_text_contents()]
    assert kinds == sorted(kinds), "heads without a role come last"


def test_a_measurement_can_be_stopped(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    page = opened.page
    page.get_by_label("How many sentences").select_option("200")
    page.get_by_role("button", name="Measure").click()
    expect(page.locator("progress")).to_be_visible()
    opened.until("document.querySelector('progress').value > 0")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Measure")).to_be_visible()
    assert page.locator(".roles-table").count() == 0 and opened.get("status")["kind"] == "idle"


def test_a_head_leads_to_its_example(visit: Callable[..., Opened], translator: Served, roles: list[HeadRole]) -> None:
    opened = visit(translator, PLACE)
    measure(opened.page)
    number, role = next((i, role) for i, role in enumerate(roles) if role.example is not None)
    assert role.example is not None
    opened.page.locator(".roles-table tbody tr").nth(number).get_by_role("button", name="example").click()
    expect(opened.page.get_by_role("heading", name="Who looks at whom")).to_be_visible()
    sentence = asdict(samples(translator.model, 10, longest=200)[role.example.sentence])
    assert opened.get("view")["request"]["texts"] == list(sentence["texts"])
    assert [opened.get(key) for key in ("part", "layer", "head", "row", "key", "locked")] == [
        role.part, role.layer, role.head, role.example.row, role.example.key, True
    ]  # fmt: skip


def test_the_text_without_a_head(visit: Callable[..., Opened], translator: Served, roles: list[HeadRole]) -> None:
    opened = visit(translator, PLACE)
    measure(opened.page)
    number = max(range(len(roles)), key=lambda i: roles[i].effect or 0)
    role = roles[number]
    line = opened.page.locator(f".roles-table tbody tr[data-head='{role.part} {role.layer} {role.head}']")
    line.get_by_role("button", name="without it").click()
    edit = HeadOff(role.part, role.layer, role.head)
    views = [run(translator.model, Request(texts=(TEXT,), edits=edits)) for edits in ((), (edit,))]
    written = opened.page.locator(".ablated .written")
    expect(written).to_have_text([view.text or "∅" for view in views])
    same = "the same" if views[0].text == views[1].text else "another one"
    expect(opened.page.locator(".ablated .hint")).to_have_text(f"The output is {same}.")
    line.get_by_role("button", name="without it").click()
    expect(written).to_have_count(0)


def test_a_cell_moves_the_pivot(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    measure(opened.page)
    opened.page.locator(".role-cell[data-head='encoder.self 0 1']").click()
    assert [opened.get(key) for key in ("part", "layer", "head")] == ["encoder.self", 0, 1]
    expect(opened.page.locator(".roles-table tr.current")).to_have_attribute("data-head", "encoder.self 0 1")


def test_an_exported_page_says_that_it_has_none(
    visit: Callable[..., Opened], translator: Served, tmp_path: Path
) -> None:
    view = run(translator.model, Request(texts=(TEXT,)))
    (tmp_path / "page.html").write_text(page_of(translator.model, [view], mark="0"), encoding="utf-8")
    page = visit(Served((tmp_path / "page.html").as_uri(), translator.model), "screen=roles").page
    expect(page.locator(".roles-found")).to_contain_text("This needs the running model")
