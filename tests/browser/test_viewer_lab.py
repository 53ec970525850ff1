"""The viewer in a real JupyterLab: run the cell, step by keyboard, save, open again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELL = """
def double(n):
    twice = 2 * n
    return twice

from readtorch.literate import trace
with trace("torch", values="summary", title="In JupyterLab") as t:
    result = double(4)
t
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab of its own over a folder with one notebook."""
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("jupyterlab")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(CELL), nbformat.v4.new_code_cell("1 + 1")],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    folder = tmp_path / "notebooks"
    folder.mkdir()
    nbformat.write(notebook, folder / "sample.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {f"JUPYTER_{name}_DIR": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    source = str(Path(__file__).resolve().parents[2] / "src")
    environment = {**os.environ, **places, "IPYTHONDIR": str(tmp_path / "ipython"), "PYTHONPATH": source}
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0",
        "--IdentityProvider.token=reader", f"--ServerApp.root_dir={folder}", "--allow-root", "--LabApp.news_url=",
    ]  # fmt: skip
    log = (tmp_path / "lab.log").open("w")
    with subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT) as server:
        try:
            _wait(f"http://127.0.0.1:{port}/api?token=reader")
            yield f"http://127.0.0.1:{port}/lab/tree/sample.ipynb?token=reader&reset"
        finally:
            server.terminate()
            log.close()


def _wait(address: str) -> None:
    for _ in range(120):
        try:
            urllib.request.urlopen(address)
        except urllib.error.URLError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError("JupyterLab did not start")


@pytest.fixture
def window(browser: Any) -> Iterator[Any]:
    """A browser window of its own, which closes with the test."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    context.set_default_timeout(60_000)
    yield context
    context.close()


def test_run_step_save_and_open_again(lab: str, window: Any) -> None:
    page = window.new_page()
    page.goto(lab)
    cells = page.locator(".jp-Notebook .jp-Cell")
    idle = page.get_by_text("Python 3 (ipykernel) | Idle")
    idle.wait_for()  # earlier, JupyterLab forgets what it is asked to run
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    counter = page.locator("readtorch-trace .counter")
    counter.wait_for()
    page.locator("readtorch-trace .code").focus()
    # d d, a, b and x would delete, insert and cut cells if JupyterLab heard of them
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "d", "d", "a", "b", "x"):
        page.keyboard.press(key)
    assert counter.inner_text().startswith("4 / ")
    assert "twice = 2 * n" in page.locator("readtorch-trace .ln.now").inner_text()
    assert cells.count() == 2
    page.keyboard.press("Control+s")
    page.wait_for_timeout(3000)
    again = window.new_page()
    again.goto(lab)
    again.locator("readtorch-trace .counter").wait_for()
