"""`readtorch read` in a browser: the policy lets the page work, the live buttons do what they say, and are hidden elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sites import search_for

SHELF = "book/02_module/index.html"


@pytest.fixture(scope="module")
def address(small: Any) -> Iterator[str]:
    """The address that `readtorch read` prints for the small book."""
    root: Path = small.folder.parent
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "readtorch.literate", "read", "--port", "0"]
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    found = None
    for line in process.stdout:
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
        if found:
            break
    if not found:
        pytest.fail(process.stderr.read())
    yield found[0]
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def open_page(watch: Any, address: str, path: str) -> Any:
    seen = watch(address)
    seen.page.goto(f"{address.partition('?')[0]}{path}")
    seen.page.wait_for_load_state("networkidle")
    return seen


def test_the_policy_blocks_nothing_that_a_page_does(address: str, watch: Any) -> None:
    seen = open_page(watch, address, SHELF)
    seen.page.locator("readtorch-trace .view").first.wait_for()
    seen.page.locator("#planted").scroll_into_view_if_needed()
    seen.page.wait_for_function("document.querySelector('.rt-drawn svg') && document.querySelector('.katex')")
    seen.page.locator("[for=__palette_1], [for=__palette_0]").first.click()
    search_for(seen.page, "boxes")
    assert seen.complaints == []
    host = urlsplit(address).netloc
    assert {urlsplit(url).netloc for url in seen.requests} <= {host, ""}


def test_a_planted_script_does_not_run(address: str, watch: Any) -> None:
    seen = open_page(watch, address, SHELF)
    ran = seen.page.evaluate(
        """() => { const s = document.createElement('script'); s.textContent = 'window.ownedByPlant = 1';
                   document.body.append(s); return window.ownedByPlant ?? 0 }"""
    )
    assert ran == 0
    assert any("Content Security Policy" in text for text in seen.complaints)


def test_the_token_does_not_stay_in_the_address(address: str, watch: Any) -> None:
    seen = watch(address)
    assert "token" not in seen.page.url
    assert "readtorch-session" not in seen.page.evaluate("document.cookie")


def test_a_recorded_cell_is_run_again_with_the_readers_bounds(address: str, watch: Any) -> None:
    seen = open_page(watch, address, SHELF)
    cell = seen.page.locator("[id='planted-trace']")
    cell.scroll_into_view_if_needed()
    cell.locator(".view").wait_for()
    before = cell.locator(".counter").inner_text()
    cell.locator("input[name=steps]").fill("4")
    cell.get_by_role("button", name="Run it now").click()
    cell.locator(".rt-said").wait_for(timeout=60_000)
    assert "made just now" in cell.locator(".rt-said").inner_text()
    after = cell.locator(".counter").inner_text()
    assert int(after.split("/")[1]) < int(before.split("/")[1])
    assert seen.complaints == []


def test_a_bound_that_the_server_refuses_is_told(address: str, watch: Any) -> None:
    seen = open_page(watch, address, SHELF)
    status, answer = seen.page.evaluate(
        """async () => {
            const xsrf = document.cookie.split('; ').find((c) => c.startsWith('_xsrf=')).slice(6);
            const response = await fetch('/readtorch/run', { method: 'POST',
                headers: { 'Content-Type': 'application/json', 'X-XSRFToken': xsrf },
                body: JSON.stringify({ part: '02_module', cell: 'planted-trace', parameters: { steps: 1e9 } }) });
            return [response.status, await response.json()];
        }"""
    )
    assert status == 400
    assert "steps is a whole number from 1 to 20000" in answer["error"]


def test_the_upstream_pane_shows_the_installed_source_or_why_not(address: str, watch: Any) -> None:
    seen = open_page(watch, address, "book/00_tensor/1_box/index.html")
    seen.page.get_by_role("button", name="show mine").first.click()
    pane = seen.page.locator(".rt-pane")
    pane.wait_for()
    text = pane.inner_text()
    assert "torch/nn/modules/module.py" in text
    assert "def register_buffer" in text or "`make parity` adds it (pip install torch==2.13.0)" in text
    assert "/blob/v2.13.0/torch/nn/modules/module.py" in pane.get_by_role("link").get_attribute("href")
    seen.page.keyboard.press("Escape")
    assert pane.count() == 0
    assert seen.complaints == []


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (1400, True), (390, False)])
def test_the_upstream_pane_leaves_our_code_in_sight_and_gives_the_focus_back(
    address: str, watch: Any, width: int, dark: bool
) -> None:
    page = watch(address, width=width, dark=dark).page
    page.goto(f"{address.partition('?')[0]}book/00_tensor/1_box/index.html")
    answer = {"heading": "Module.register_buffer", "note": "", "url": "https://github.com/", "html": "long line " * 40}
    answer["html"] = "\n".join([answer["html"]] * 200)
    page.route("**/readtorch/upstream?*", lambda route: route.fulfill(json=answer))
    button = page.get_by_role("button", name="show mine").first
    button.click()
    pane = page.locator(".rt-pane")
    pane.wait_for()
    box, code = pane.bounding_box(), page.locator(".rt-cell:has(.rt-show) .rt-listing").first.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["width"] >= 360
    if width > 1000:
        assert box["x"] + box["width"] <= code["x"]
    else:
        assert 0 <= code["y"] < box["y"] - 100
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    assert pane.count() == 0
    assert page.evaluate("document.activeElement.matches('.rt-show')")
    assert page.evaluate("document.body.className").find("rt-halved") == -1
    button.click()
    pane.get_by_role("button", name="close").click()
    assert pane.count() == 0
    assert page.evaluate("document.activeElement.matches('.rt-show')")


def test_a_run_without_a_number_of_steps_says_why_beside_the_button(address: str, watch: Any) -> None:
    seen = open_page(watch, address, SHELF)
    cell = seen.page.locator("[id='planted-trace']")
    cell.scroll_into_view_if_needed()
    cell.locator("input[name=steps]").fill("")
    cell.get_by_role("button", name="Run it now").click()
    assert cell.locator("input[name=steps]").evaluate("field => field.validity.valueMissing")
    assert cell.locator(".rt-said").count() == 0
    cell.locator("form").evaluate("form => { form.noValidate = true; }")  # as a browser that leaves it to the server
    cell.get_by_role("button", name="Run it now").click()
    said = cell.locator("form + .rt-said")
    said.wait_for()
    assert "steps is a whole number from 1 to 20000" in said.inner_text()
    button = cell.get_by_role("button", name="Run it now").bounding_box()
    assert 0 <= said.bounding_box()["y"] - button["y"] < 80


def test_the_upstream_pane_without_torch_is_a_sentence_and_a_link(address: str, watch: Any) -> None:
    """Whether torch is installed here or not: the server's answer is that of a machine without it."""
    from readtorch.literate import installed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(installed, "installed_torch", lambda: None)
        found = installed.upstream_source("torch/nn/modules/module.py#Module.register_buffer")
    assert found is not None
    seen = open_page(watch, address, "book/00_tensor/1_box/index.html")
    answer = {"heading": found.heading, "note": found.note, "url": found.url, "html": ""}
    seen.page.route("**/readtorch/upstream?*", lambda route: route.fulfill(json=answer))
    seen.page.get_by_role("button", name="show mine").first.click()
    note = seen.page.locator(".rt-pane p")
    note.wait_for(state="visible")
    assert "PyTorch is not installed here" in note.inner_text()
    assert "make parity" in note.inner_text()
    box = seen.page.locator(".rt-pane").bounding_box()
    assert box["height"] < 150, "no large empty pane below the sentence"


def test_without_the_session_the_live_buttons_are_hidden(address: str, watch: Any, small: Any) -> None:
    for url in (f"{address.partition('?')[0]}{SHELF}", small.url(SHELF), small.file(SHELF)):
        page = watch(url).page
        assert page.get_by_role("button", name="Run it now").count() == 0
        assert page.get_by_role("button", name="JupyterLab").count() == 0
        assert page.locator(".rt-show").count() == 0
