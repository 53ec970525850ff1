"""The built site in a browser: nothing from elsewhere, stepping, links, folders, phones, the dark, and hostile values."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from sites import search_for

SHELF = "book/02_module/index.html"
TRACE = "02_module-planted-trace"
MOST = 150 * 1024
"""Bytes of HTML that a page may have."""


def near(page: Any, selector: str) -> Any:
    found = page.locator(selector).first
    found.scroll_into_view_if_needed()
    return found


def traced(page: Any) -> Any:
    """The planted trace's viewer, loaded and with the keyboard's focus."""
    near(page, f"readtorch-trace[id='{TRACE}']")
    viewer = page.locator(f"readtorch-trace[id='{TRACE}']")
    viewer.locator(".view").wait_for()
    viewer.locator(".code").focus()
    return viewer


def counter(viewer: Any) -> int:
    return int(viewer.locator(".counter").inner_text().split("/")[0])


def told(viewer: Any) -> str:
    return str(viewer.locator(".live").inner_text())


# nothing from elsewhere, nothing to complain about


@pytest.mark.parametrize("width", [390, 1280, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_no_complaint_and_no_request_to_another_host(small: Any, watch: Any, width: int, dark: bool) -> None:
    seen = watch(small.url(SHELF), width=width, dark=dark)
    traced(seen.page)
    seen.page.wait_for_function("document.querySelector('.rt-drawn svg') && document.querySelector('.katex')")
    assert seen.complaints == []
    assert {urlsplit(url).netloc for url in seen.requests} <= {urlsplit(small.address).netloc, ""}


def test_equations_and_diagrams_are_loaded_only_where_there_are_some(small: Any, watch: Any) -> None:
    with_some = watch(small.url(SHELF)).requests
    without = watch(small.url("book/00_tensor/1_box/index.html")).requests
    for name in ("katex.min.js", "mermaid.tiny.js", "trace.js"):
        assert any(name in url for url in with_some), name
        assert not any(name in url for url in without), name


# stepping through a recorded run


def test_keyboard_steps_into_over_out_and_back(small: Any, watch: Any) -> None:
    seen = watch(small.url(SHELF))
    viewer = traced(seen.page)
    page = seen.page
    for _ in range(40):
        page.keyboard.press("ArrowRight")
        if told(viewer).startswith("outer is called"):
            break
    assert told(viewer).startswith("outer is called")
    entered = counter(viewer)
    page.keyboard.press("ArrowRight")  # to the line that calls inner
    page.keyboard.press("ArrowRight")  # into it
    inside = counter(viewer)
    assert told(viewer).startswith("inner is called")
    page.keyboard.press("ArrowLeft")
    assert counter(viewer) == inside - 1
    page.keyboard.press("ArrowDown")  # over inner, to the next line of outer
    assert counter(viewer) > inside + 1
    assert "outer" in told(viewer)
    page.keyboard.press("ArrowUp")  # out of outer
    assert counter(viewer) > inside
    page.keyboard.press("Home")
    assert counter(viewer) <= entered
    assert seen.complaints == []


def test_a_permalink_opens_the_same_step_again(small: Any, watch: Any) -> None:
    seen = watch(small.url(SHELF))
    viewer = traced(seen.page)
    for _ in range(6):
        seen.page.keyboard.press("ArrowRight")
    here, words = counter(viewer), told(viewer)
    seen.page.wait_for_timeout(700)  # the theme writes the section scrolled to into the address, a moment later
    viewer.get_by_role("button", name=re.compile("link", re.IGNORECASE)).click()
    link = seen.page.url
    assert f"#rt={TRACE}@" in unquote(link)
    again = watch(link)
    viewer = again.page.locator(f"readtorch-trace[id='{TRACE}']")
    viewer.locator(".view").wait_for()
    assert counter(viewer) == here
    assert told(viewer).startswith(words[:20])
    assert again.complaints == []


def test_a_planted_string_in_a_trace_and_in_outputs_is_text(small: Any, watch: Any) -> None:
    seen = watch(small.url(SHELF))
    viewer = traced(seen.page)
    seen.page.keyboard.press("End")
    seen.page.keyboard.press("ArrowLeft")
    seen.page.keyboard.press("ArrowLeft")
    seen.page.wait_for_timeout(300)
    assert "<img src=x onerror=" in viewer.locator(".view").inner_text()
    assert seen.page.locator("img[src='x']").count() == 0
    assert seen.page.evaluate("document.title") != "owned"
    assert "<img src=x onerror=alert(1)>" in seen.page.locator("#a-run-1 .rt-stdout").inner_text()
    assert seen.page.locator(".rt-rich td").inner_text() == "kept"


# from a folder, on a phone, without scripts


def test_pages_traces_and_whole_classes_open_from_a_folder(small: Any, watch: Any) -> None:
    seen = watch(small.file("index.html"))
    seen.page.get_by_role("link", name="The boxes").click()
    seen.page.wait_for_url(re.compile(r"1_box/index\.html"))
    near(seen.page, "#Box .rt-whole summary").click()
    seen.page.locator("#Box .rt-whole .rt-listing").wait_for()
    assert "def opened" in seen.page.locator("#Box .rt-whole .rt-listing").inner_text()
    link = seen.page.locator("#Box .rt-whole .rt-listing a[href$='#twice']").first.get_attribute("href")
    assert link == small.file("book/00_tensor/1_box/index.html") + "#twice"
    seen.page.goto(small.file(SHELF))
    traced(seen.page)
    assert seen.complaints == []
    assert all(url.startswith(("file://", "data:", "blob:")) for url in seen.requests)


def test_search_finds_a_word_of_a_chapter(small: Any, watch: Any) -> None:
    seen = watch(small.url("index.html"))
    search_for(seen.page, "boxes")
    assert "shelf" in seen.page.locator(".md-search-result__list").inner_text().lower()


def test_the_search_field_shows_only_what_was_typed(small: Any, watch: Any) -> None:
    seen = watch(small.url("index.html"))
    search_for(seen.page, "boxe")
    assert seen.page.locator("[data-md-component=search-suggest]").count() == 0


@pytest.mark.book
@pytest.mark.parametrize(
    ("word", "place"),
    [("register_buffer", "02_module/1_registration/"), ("buffers", "02_module/2_walking_and_moving/")],
)
def test_a_name_leads_to_where_the_book_defines_it(book: Any, watch: Any, word: str, place: str) -> None:
    seen = watch(book.url("index.html"))
    search_for(seen.page, word)
    seen.page.wait_for_timeout(1000)
    first = seen.page.locator(".md-search-result__item").first
    assert place in first.locator("a").first.get_attribute("href")
    assert f"#Module.{word}" in first.locator("a").nth(1).get_attribute("href")


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_scrolls_down_only(small: Any, watch: Any, dark: bool) -> None:
    seen = watch(small.url(SHELF), width=390, dark=dark)
    traced(seen.page)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    side = watch(small.url("book/00_tensor/1_box/index.html"), width=390).page.locator(".rt-side").bounding_box()
    assert side["x"] >= 0
    assert side["x"] + side["width"] <= 390


def test_notes_stand_left_of_their_code_on_a_wide_screen(small: Any, watch: Any) -> None:
    page = watch(small.url(SHELF), width=1600).page
    note = page.locator(".rt-note:has(p)").first.bounding_box()
    code = page.locator(".rt-row:has(.rt-note p) .rt-code").first.bounding_box()
    assert note["x"] + note["width"] < code["x"]
    assert abs(note["y"] - code["y"]) < 24
    page = watch(small.url("book/00_tensor/1_box/index.html"), width=1600).page
    side = page.locator(".rt-side").bounding_box()
    line = page.locator(".rt-side + pre").bounding_box()
    assert side["x"] + side["width"] < line["x"]
    assert abs(side["y"] - line["y"]) < 24


def test_notes_stand_above_their_code_on_a_phone(small: Any, watch: Any) -> None:
    page = watch(small.url(SHELF), width=390).page
    note = page.locator(".rt-note:has(p)").first.bounding_box()
    code = page.locator(".rt-row:has(.rt-note p) .rt-code").first.bounding_box()
    assert note["y"] + note["height"] <= code["y"]


def test_the_dark_is_dark(small: Any, watch: Any) -> None:
    for dark in (False, True):
        page = watch(small.url(SHELF), dark=dark).page
        colours = page.evaluate(
            """[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]
               .map((c) => c.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3)"""
        )
        assert (colours[0] < 60 < 150 < colours[1]) is dark


def test_without_scripts_a_trace_is_an_ordered_list(small: Any, watch: Any) -> None:
    page = watch(small.url(SHELF), scripts=False).page
    fallback = page.locator(f"readtorch-trace[id='{TRACE}'] ol").first
    assert fallback.is_visible()
    text = page.locator(f"readtorch-trace[id='{TRACE}']").inner_text()
    assert text.index("outer") < text.index("inner")
    assert page.locator(".rt-tools").count() == 0


# the site as a whole


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.doubled: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        name = found.get("id") or (found.get("name") if tag == "a" else None)
        if name:
            if name in self.ids and not name.startswith("__"):
                self.doubled.append(name)
            self.ids.add(name)
        address = found.get("href") if tag in ("a", "link") else found.get("src")
        if address:
            self.links.append(address)


def pages_of(folder: Path) -> dict[str, _Page]:
    found = {}
    for file in sorted(folder.rglob("*.html")):
        parsed = _Page()
        parsed.feed(file.read_text(encoding="utf-8"))
        found[file.relative_to(folder).as_posix()] = parsed
    return found


def dead_links(folder: Path) -> list[str]:
    """Every link of every page, and of every whole-class script, that leads nowhere inside the site."""
    pages = pages_of(folder)
    dead = []
    for name, page in pages.items():
        if name == "404.html":  # its links begin at the server's root
            continue
        for link in page.links:
            parts = urlsplit(urljoin(f"http://site.invalid/{name}", link))
            if parts.netloc != "site.invalid":
                continue
            path = unquote(parts.path).lstrip("/")
            anchor = unquote(parts.fragment)
            if not (folder / path).is_file():
                dead.append(f"{name}: {link} (no such file)")
            elif anchor and path in pages and not anchor.startswith("__") and anchor not in pages[path].ids:
                dead.append(f"{name}: {link} (no such anchor)")
    for script in folder.glob("whole/*.js"):
        for path, anchor in re.findall(r'href=\\?"?~/([^"#>]+)#([^"> \\]*)', script.read_text(encoding="utf-8")):
            if path not in pages or unquote(anchor) not in pages[path].ids:
                dead.append(f"{script.name}: {path}#{anchor}")
    return dead


def test_every_link_of_the_small_site_leads_somewhere(small: Any) -> None:
    assert dead_links(small.folder) == []
    assert {n: p.doubled for n, p in pages_of(small.folder).items() if p.doubled} == {}


@pytest.mark.book
def test_every_link_of_the_book_leads_somewhere(book: Any) -> None:
    assert dead_links(book.folder) == []


@pytest.mark.book
def test_no_anchor_of_the_book_is_given_twice(book: Any) -> None:
    doubled = {n: p.doubled for n, p in pages_of(book.folder).items() if n.startswith("book/") and p.doubled}
    assert doubled == {}


@pytest.mark.book
def test_no_page_of_the_book_is_heavier_than_it_should_be(book: Any) -> None:
    heavy = {
        file.relative_to(book.folder).as_posix(): size
        for file in book.folder.rglob("*.html")
        if (size := file.stat().st_size) > MOST
    }
    assert heavy == {}


@pytest.mark.book
def test_the_pages_of_the_book_open_without_complaint(book: Any, watch: Any) -> None:
    names = [n for n in pages_of(book.folder) if n != "404.html" and not n.startswith("api/")]
    for name in names:
        seen = watch(book.url(name), width=1300)
        seen.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        seen.page.wait_for_load_state("networkidle")
        assert seen.complaints == [], name
        assert {urlsplit(url).netloc for url in seen.requests} <= {urlsplit(book.address).netloc, ""}, name
        seen.page.set_viewport_size({"width": 390, "height": 800})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390, name
        seen.page.context.close()


@pytest.mark.book
def test_every_trace_of_the_book_opens(book: Any, watch: Any) -> None:
    files = {
        n: re.findall(r'<readtorch-trace id="([^"]+)"', (book.folder / n).read_text()) for n in pages_of(book.folder)
    }
    for name, traces in files.items():
        for trace in traces:
            assert (book.folder / "traces" / f"{trace}.js").is_file()
        if traces:
            page = watch(book.url(f"{name}#rt={traces[0]}@")).page
            page.locator(f"readtorch-trace[id='{traces[0]}'] .view").wait_for()


@pytest.mark.book
def test_the_search_index_knows_the_book(book: Any) -> None:
    index = json.loads((book.folder / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = " ".join(entry["location"] for entry in index["docs"])
    for page in book.folder.glob("book/**/index.html"):
        assert page.relative_to(book.folder).as_posix() in places
