"""One browser, and the two sites it is driven over."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sites import ROOT, build, planted_book

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))  # one build of the sites for all


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


@dataclass
class Built:
    """A site, as files and served."""

    folder: Path
    address: str

    def file(self, path: str) -> str:
        return (self.folder / path).as_uri()

    def url(self, path: str) -> str:
        return f"{self.address}/{path}"


def served(folder: Path) -> Iterator[Built]:
    handler = functools.partial(Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Built(folder, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The small book with planted contents."""
    folder = planted_book(tmp_path_factory.mktemp("small"))
    yield from served(build(folder, folder / "site"))


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The book itself, its chapters run (or taken from the cache)."""
    yield from served(build(ROOT, tmp_path_factory.mktemp("site")))


@dataclass
class Watched:
    """A page, and what must not happen on it."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def watch(browser: Any) -> Iterator[Any]:
    """Open a page in a context of its own: `watch(url, width=…, dark=…, scripts=…)`."""
    contexts = []

    def opened(url: str, *, width: int = 1500, dark: bool = False, scripts: bool = True) -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.on(
            "console", lambda m: watched.complaints.append(m.text) if m.type in ("error", "warning") else None
        )
        watched.page.on("pageerror", lambda e: watched.complaints.append(str(e)))
        watched.page.on("request", lambda r: watched.requests.append(r.url))
        watched.page.goto(url)
        watched.page.wait_for_load_state("networkidle")
        return watched

    yield opened
    for context in contexts:
        context.close()
