"""The view of a recorded import in headless Chromium: graph, table, keyboard, two runs, a phone's width, the dark, no JavaScript."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from readtorch.literate.trace.import_page import element_html, import_script, imports_js, page_html
from readtorch.literate.trace.imports import Imported, ImportRun, document, record_import

pytestmark = pytest.mark.browser


def made(name: str, rows: list[tuple[str, int, int, int]], **more: Any) -> ImportRun:
    """A run with these (name, parent, begin, total)."""
    modules = [Imported(*row) for row in rows]
    meta = {"python": "3.11.7", "platform": "linux", "version": "1.0.0", "touched": "", "made": ""}
    given = {
        "outcome": "imported",
        "error": "",
        "before": 33,
        "by_hand": [],
        "later": {},
        "lazy": [],
        "meta": meta,
        **more,
    }
    return ImportRun(name=name, modules=modules, total=max(b + t for _, _, b, t in rows), **given)


OURS = made(
    "readtorch",
    [
        ("readtorch", -1, 0, 40_000),
        ("readtorch.nn", 0, 5_000, 30_000),
        ("json", 1, 6_000, 10_000),
        ("readtorch.own", 0, 36_000, 3_000),
    ],
    later={"readtorch": ["onnx"]},
    lazy=["readtorch"],
)
THEIRS = made("torch", [("torch", -1, 0, 900_000), ("torch.first", 0, 1_000, 9_000), ("torch.nn", 0, 20_000, 400_000)])


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    tab = context.new_page()
    tab.errors = []
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))

    def show(*runs: ImportRun, html: str = "") -> Any:
        file = tmp_path / "page.html"
        file.write_text(html or page_html(document(*runs)), encoding="utf-8")
        tab.goto(file.as_uri())
        tab.wait_for_function("document.querySelector('readtorch-imports').shadowRoot?.querySelector('tbody tr')")
        return tab

    tab.show = show
    yield tab
    assert tab.errors == []
    context.close()


def rows(tab: Any) -> list[str]:
    return tab.evaluate(
        "[...document.querySelector('readtorch-imports').shadowRoot.querySelectorAll('tbody tr')].map((r) => r.querySelector('.name, code').textContent)"
    )


def test_the_table_is_the_tree_with_cumulative_and_self_time(page: Any) -> None:
    tab = page.show(OURS)
    assert rows(tab) == ["readtorch", "readtorch.nn", "json", "readtorch.own"]
    first = tab.locator("tbody tr").nth(1).inner_text().split()
    assert first == ["readtorch.nn", "30.0", "20.0"]
    assert "4 modules" in tab.locator("header").inner_text() and "40.0 ms" in tab.locator("header").inner_text()


def test_find_and_the_other_orders(page: Any) -> None:
    tab = page.show(OURS)
    tab.locator("select").select_option("self")
    assert rows(tab)[0] == "readtorch.nn"
    tab.locator("select").select_option("later")
    assert "onnx" in tab.locator("tbody").inner_text() and "__getattr__" in tab.locator("tbody").inner_text()
    tab.locator("select").select_option("order")
    tab.locator("input[type=search]").fill("OWN")
    assert rows(tab) == ["readtorch.own"]


def test_a_click_on_a_bar_zooms_and_escape_comes_back(page: Any) -> None:
    tab = page.show(OURS)
    canvas = tab.locator("canvas")
    whole = canvas.bounding_box()["height"]
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.5, "y": 17 + 8})
    assert "readtorch.nn" in tab.locator(".line").inner_text() and tab.locator("header button").is_visible()
    assert canvas.bounding_box()["height"] < whole
    assert tab.locator("tr[aria-current]").count() == 1
    tab.locator("tbody .name").first.focus()
    tab.keyboard.press("Escape")
    assert not tab.locator("header button").is_visible() and canvas.bounding_box()["height"] == whole


def test_rows_are_walked_closed_and_opened_by_keyboard(page: Any) -> None:
    tab = page.show(OURS)
    tab.locator("tbody .name").nth(0).focus()
    tab.keyboard.press("ArrowDown")
    active = "document.querySelector('readtorch-imports').shadowRoot.activeElement.closest('tr').innerText.split('\\t')[0].trim()"
    tab.keyboard.press("ArrowLeft")
    assert rows(tab) == ["readtorch", "readtorch.nn", "readtorch.own"]
    tab.keyboard.press("ArrowRight")
    assert rows(tab) == ["readtorch", "readtorch.nn", "json", "readtorch.own"]
    assert tab.evaluate(active) == "readtorch.nn"


@pytest.mark.parametrize("runs", [1, 2])
def test_a_row_that_is_chosen_by_keyboard_keeps_the_focus(page: Any, runs: int) -> None:
    tab = page.show(*(OURS, THEIRS)[:runs])
    tab.locator("tbody .name").nth(0).focus()
    active = (
        "document.querySelector('readtorch-imports').shadowRoot.activeElement.innerText.replace('readtorch', 'torch')"
    )
    for key in ("ArrowDown", "Enter"):
        tab.keyboard.press(key)
        assert tab.evaluate(active) == "torch.nn"
    assert tab.locator("header button").first.is_visible()
    tab.keyboard.press("Escape")
    assert tab.evaluate(active) == "torch.nn" and not tab.locator("header button").first.is_visible()


def test_two_runs_are_aligned_by_upstreams_names(page: Any) -> None:
    tab = page.show(OURS, THEIRS)
    assert rows(tab) == ["torch", "torch.nn"]
    assert tab.locator("tbody tr").nth(1).inner_text().split() == ["torch.nn", "2", "30.0", "3", "400"]
    tab.locator("tbody .name").nth(1).click()
    link = tab.locator(".line a").get_attribute("href")
    assert link == "https://github.com/pytorch/pytorch/blob/v1.0.0/torch/nn.py"
    lines = tab.locator(".line").all_inner_texts()
    assert "readtorch.nn" in lines[0] and "torch.nn" in lines[1]


def test_a_failed_import_says_so_and_text_is_text(page: Any) -> None:
    evil = '<img src=x onerror="window.pwned=1">'
    run = made("bad", [("bad", -1, 0, 100), (evil, 0, 10, 50)], outcome="raised", error=evil)
    run.modules[1].error = evil
    tab = page.show(run)
    assert "raised" in tab.locator(".facts.bad").inner_text()
    assert evil in tab.locator("tbody").inner_text() and not tab.evaluate("window.pwned")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(browser: Any, tmp_path: Path, scheme: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_html(document(OURS, THEIRS)), encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(file.as_uri())
    tab.wait_for_selector("canvas")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    dark = tab.evaluate(
        "document.querySelector('readtorch-imports').shadowRoot.querySelector('.frame').classList.contains('dark')"
    )
    assert dark == (scheme == "dark")
    context.close()


def test_a_document_in_a_file_of_its_own_is_loaded_from_disk(page: Any, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "imports-a.js").write_text(imports_js("imports-a", document(OURS)), encoding="utf-8")
    html = f"{element_html(document(OURS), identifier='imports-a', src='traces/imports-a.js')}<script>{import_script()}</script>"
    assert rows(page.show(html=html)) == ["readtorch", "readtorch.nn", "json", "readtorch.own"]


def test_without_javascript_there_is_a_list(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_html(document(record_import("json"))), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(file.as_uri())
    assert "Recorded import" in tab.inner_text("body") and "json.decoder" in tab.inner_text("body")
    context.close()


def test_the_script_is_small() -> None:
    assert len(gzip.compress(import_script().encode(), 9)) <= 12 * 1024
