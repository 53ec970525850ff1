"""The trace viewer in headless Chromium: by keyboard, by link, in a phone's width, in the dark, without JavaScript."""

from __future__ import annotations

import functools
import gzip
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from readtorch.literate.trace import Trace, trace, viewer_script
from readtorch.literate.trace.page import element_html, page_html, trace_js

pytestmark = pytest.mark.browser

PROGRAM = '''
import threading
import numpy as np

EVIL = '<img src=x onerror="window.pwned=1">'


class Layer:
    def __call__(self, x):
        """Call forward.

        A docstring of several lines, which a trace leaves out.
        """
        result = self.forward(x)
        return result


class Double(Layer):
    def forward(self, x):
        scale = 2.0
        return x * scale


def evil(text):
    copy = text
    raise ValueError(copy)


def background(n):
    return n + 1


def run(times):
    x = np.arange(6.0).reshape(2, 3)
    layer = Double()
    for i in range(times):
        x = layer(x)
    try:
        evil(EVIL)
    except ValueError:
        pass
    thread = threading.Thread(target=background, args=(1,))
    thread.start()
    thread.join()
    return x
'''


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trace]:
    folder = tmp_path_factory.mktemp("sample")
    file = folder / "viewer_sample.py"
    file.write_text(PROGRAM, encoding="utf-8")

    def run(times: int = 3, title: str = "Three layers <b>&", changed: str = "", layers: Any = None) -> Trace:
        source = PROGRAM.replace("scale = 2.0", changed or "scale = 2.0")
        file.write_text(source, encoding="utf-8")
        namespace: dict[str, Any] = {"__name__": "viewer_sample"}
        exec(compile(source, str(file), "exec"), namespace)
        import linecache

        linecache.checkcache(str(file))
        with trace(values="summary", title=title, namespace=namespace, layers=layers) as t:
            namespace["run"](times)
        return t

    return run


class Reader:
    """A page with what a reader sees of the trace in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.on("request", lambda r: self.requests.append(r.url))

    def open(self, address: str | Path) -> Reader:
        self.page.goto(address if isinstance(address, str) else address.as_uri())
        self.page.locator("readtorch-trace .counter").first.wait_for()
        return self

    def text(self, selector: str) -> str:
        return self.page.locator(f"readtorch-trace {selector}").first.inner_text()

    def press(self, *keys: str) -> Reader:
        if not self.page.evaluate("document.activeElement.tagName === 'READTORCH-TRACE'"):
            self.page.locator("readtorch-trace .code").first.focus()
        for key in keys:
            self.page.keyboard.press(key)
        return self

    @property
    def step(self) -> int:
        return int(self.text(".counter").split("/")[0])

    @property
    def line(self) -> str:
        return self.text(".ln.now code")

    @property
    def call(self) -> str:
        return self.text(".row[aria-current] .name")

    def variable(self, name: str) -> str:
        return self.page.locator("readtorch-trace .var", has=self.page.get_by_text(name, exact=True)).first.inner_text()

    def go(self, line: str) -> Reader:
        """Step into until the line that contains `line` is about to run."""
        self.press("Home")
        for _ in range(300):
            if line in self.line:
                return self
            self.press("ArrowRight")
        raise AssertionError(f"never came to {line!r}")


@pytest.fixture
def reader(browser: Any) -> Iterator[Callable[..., Reader]]:
    contexts = []

    def make(**options: Any) -> Reader:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(10_000)
        contexts.append(context)
        return Reader(context.new_page())

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page_file(record: Callable[..., Trace], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page_html(record().document, name="sample"), encoding="utf-8")
    return file


def test_without_the_layer_of_lines_no_line_is_said_to_run(reader, record, tmp_path):
    """Where a call begins is known; which line of it an operator or a return belongs to is not."""
    file = tmp_path / "calls.html"
    file.write_text(page_html(record(layers=("calls", "ops")).document), encoding="utf-8")
    r = reader().open(file)
    r.press("Home")
    kinds = set()
    for _ in range(12):
        marked = r.page.locator("readtorch-trace .ln.now")
        if "lines were not recorded" in r.text(".place"):
            assert marked.count() == 0
            kinds.add("unknown")
        else:
            assert re.match(r"\s*(def |@)", r.line), r.line
            kinds.add("known")
        r.press("ArrowRight")
    assert {"known", "unknown"} <= kinds
    assert r.errors == []


def test_opens_from_a_file_without_errors_or_requests(reader, page_file):
    r = reader().open(page_file)
    assert r.text("header h1") == "Three layers <b>&"
    r.press("ArrowRight", "ArrowDown")
    assert r.errors == []
    assert [u for u in r.requests if not u.startswith(("file:", "data:"))] == []


def test_keys_step_into_over_out_and_back(reader, page_file):
    r = reader().open(page_file).go("x = layer(x)")
    assert r.call == "run"
    r.press("ArrowRight")
    assert r.call == "Layer.__call__" and "def __call__" in r.line
    r.press("ArrowRight")
    assert "result = self.forward(x)" in r.line
    before = r.step
    r.press("ArrowDown")
    assert "return result" in r.line and r.step > before + 1
    r.press("ArrowLeft")
    assert r.call == "Double.forward"
    r.press("ArrowUp")
    assert r.call == "Layer.__call__"
    r.press("ArrowUp")
    assert r.call == "run"
    r.press("Home")
    assert r.step == 1
    r.press("End")
    current, last = r.text(".counter").split("/")
    assert int(current) == int(last)


def test_buttons_do_the_same_and_name_their_keys(reader, page_file):
    r = reader().open(page_file)
    buttons = r.page.locator("readtorch-trace .toolbar button[aria-keyshortcuts]")
    keys = {buttons.nth(i).get_attribute("aria-keyshortcuts") for i in range(buttons.count())}
    assert {"Home", "ArrowLeft", "ArrowRight", "ArrowDown", "ArrowUp", "End", "Space"} <= keys
    r.page.get_by_label("Step into").click()
    assert r.step == 2
    r.page.get_by_label("Step back").click()
    assert r.step == 1


def test_next_and_previous_pass_of_a_line(reader, page_file):
    r = reader().open(page_file).go("x = layer(x)")
    first = r.step
    r.press("n")
    second = r.step
    r.press("n")
    assert r.step > second > first and "x = layer(x)" in r.line
    r.press("p", "p")
    assert r.step == first
    r.press("p")
    assert r.step == first and "does not run earlier" in r.text(".live")


def test_a_click_on_a_line_goes_there_and_keeps_to_it(reader, page_file):
    r = reader().open(page_file).go("x = np.arange")
    r.page.locator("readtorch-trace .ln", has_text="x = layer(x)").click()
    assert "x = layer(x)" in r.line
    at = r.step
    r.press("ArrowRight", "ArrowRight", "n")
    assert "x = layer(x)" in r.line and r.step > at


def test_values_are_shown_and_changed_ones_marked(reader, page_file):
    r = reader().open(page_file).go("layer = Double()")
    shown = r.variable("x")
    assert "float64" in shown and "(2, 3)" in shown and "ndarray" in shown
    assert re.search(r"min\s*0", shown) and re.search(r"max\s*5", shown) and re.search(r"mean\s*2.5", shown)
    assert "0  1  2  3  4  5" in shown
    assert r.page.locator("readtorch-trace .var.changed .key").all_inner_texts() == ["x"]
    assert "x: float64 (2, 3)" in r.page.locator("readtorch-trace .ln", has_text="np.arange").inner_text()


def test_a_returned_value_and_an_exception_are_shown(reader, page_file):
    r = reader().open(page_file).go("return x * scale").press("ArrowRight")
    assert "returns" in r.text(".var.result") and "float64" in r.text(".var.result")
    r.go("raise ValueError(copy)").press("ArrowRight")
    assert "ValueError" in r.text(".var.result")
    assert "is left by ValueError" in r.text(".live")


def test_markup_in_values_and_titles_is_text(reader, page_file):
    r = reader().open(page_file).go("raise ValueError(copy)")
    assert '<img src=x onerror="window.pwned=1">' in r.variable("copy")
    r.press("ArrowRight")
    assert "<img" in r.text(".live")
    assert r.page.evaluate("window.pwned") is None
    assert r.page.evaluate("document.querySelector('readtorch-trace').shadowRoot.querySelectorAll('img').length") == 0
    assert r.page.locator("img").count() == 0


def test_a_permalink_opens_the_same_step(reader, page_file):
    r = reader(permissions=["clipboard-read", "clipboard-write"]).open(page_file).go("return x * scale").press("n")
    r.page.get_by_label("Copy a link").click()
    address = r.page.url
    assert "#rt=sample@" in address and "Double.forward" in address and "[2]" in address
    step, line = r.step, r.line
    other = reader().open(address)
    assert (other.step, other.line) == (step, line)


def test_a_permalink_survives_another_recording(reader, page_file, record, tmp_path):
    r = reader().open(page_file).go("return x * scale").press("n")
    r.page.get_by_label("Copy a link").click()
    fragment = r.page.url.partition("#")[2]
    again = tmp_path / "again.html"
    # two lines more above, so that every line number and event is another
    t = record(changed="unused = 0\n        scale = 2.0")
    again.write_text(page_html(t.document, name="sample"), encoding="utf-8")
    other = reader().open(f"{again.as_uri()}#{fragment}")
    assert other.call == "Double.forward"
    assert other.page.locator("readtorch-trace .row[aria-current]").count() == 1


def test_a_permalink_to_what_is_not_there_says_so(reader, page_file):
    r = reader().open(page_file.as_uri() + "#rt=sample@run/nowhere:+1")
    assert "not in this recording" in r.text(".live")


def test_a_link_in_the_open_page_is_followed(reader, page_file):
    r = reader().open(page_file)
    r.page.evaluate("location.hash = '#rt=sample@run:+4'")
    r.page.wait_for_function("document.querySelector('readtorch-trace').views[0].model.label("
                             "document.querySelector('readtorch-trace').views[0].event) === '+4'")  # fmt: skip


def test_search_finds_calls_variables_and_tensors(reader, page_file):
    r = reader().open(page_file)
    box = r.page.get_by_label("Find")
    box.fill("double.forward")
    assert r.call == "Double.forward" and r.text(".found") == "3"
    first = r.step
    box.press("Enter")
    assert r.step > first
    box.fill("scale")
    assert "return x * scale" in r.line
    box.fill("nothing like it")
    assert r.text(".found") == "none"


def test_typing_in_the_search_field_does_not_step(reader, page_file):
    r = reader().open(page_file)
    r.page.get_by_label("Find").focus()
    r.page.keyboard.type("np")
    assert r.page.get_by_label("Find").input_value() == "np"


def test_keys_of_the_page_around_do_not_hear_of_steps(reader, page_file):
    r = reader().open(page_file)
    r.page.evaluate("window.heard = []; document.addEventListener('keydown', (e) => heard.push(e.key))")
    r.press("ArrowRight", "n", "Home", "b")
    assert r.page.evaluate("heard") == []
    r.page.keyboard.press("Control+s")
    assert r.page.evaluate("heard").count("s") == 1


def test_threads_are_lanes_that_can_be_visited(reader, page_file):
    r = reader().open(page_file)
    assert r.page.locator("readtorch-trace .lane").all_inner_texts() == ["main", "background"]
    r.press("]")
    assert r.call == "background"
    r.press("[")
    assert r.call == "run"
    r.page.locator("readtorch-trace .lane", has_text="background").click()
    assert r.call == "background"


def test_a_click_in_the_timeline_goes_there(reader, page_file):
    r = reader().open(page_file)
    box = r.page.locator("readtorch-trace .strip").bounding_box()
    r.page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 6)
    current, last = map(int, r.text(".counter").split("/"))
    assert 0.3 < current / last < 0.7


def test_the_tree_opens_and_closes(reader, page_file):
    r = reader().open(page_file)
    rows = r.page.locator("readtorch-trace .row")
    before = rows.count()
    r.page.locator("readtorch-trace .row", has_text="Layer.__call__").first.locator(".toggle").click()
    assert rows.count() == before - 1
    assert r.call == "run"


def test_play_goes_on_by_itself_and_stops(reader, page_file):
    r = reader().open(page_file)
    r.page.get_by_label("Play").click()
    r.page.wait_for_function(
        "document.querySelector('readtorch-trace').shadowRoot.querySelector('.counter').textContent[0] > 2"
    )
    r.page.get_by_label("Pause").click()
    at = r.step
    r.page.wait_for_timeout(900)
    assert r.step == at


def test_the_live_region_says_each_step_in_a_sentence(reader, page_file):
    r = reader().open(page_file).go("layer = Double()")
    live = r.page.locator("readtorch-trace .live")
    assert live.get_attribute("aria-live") == "polite"
    assert r.text(".live").endswith("x is float64 (2, 3).")


def test_panes_that_scroll_can_be_focused_and_are_named(reader, page_file):
    r = reader().open(page_file)
    panes = r.page.locator("readtorch-trace .scroll")
    for i in range(panes.count()):
        assert panes.nth(i).get_attribute("tabindex") == "0" and panes.nth(i).get_attribute("aria-label")


def test_fits_a_phone(reader, page_file):
    r = reader(viewport={"width": 390, "height": 844}).open(page_file)
    assert r.page.evaluate("document.documentElement.scrollWidth") <= 390
    source, values, calls = (
        r.page.locator(f"readtorch-trace .pane.{name}").bounding_box() for name in ("source", "values", "calls")
    )
    assert source["y"] < values["y"] < calls["y"]
    assert source["width"] > 340
    r.page.get_by_label("Step into").click()
    assert r.step == 2


@pytest.mark.parametrize(("scheme", "bright"), [("light", True), ("dark", False)])
def test_follows_the_systems_scheme_and_keeps_contrast(reader, page_file, scheme, bright):
    r = reader(color_scheme=scheme).open(page_file).press("ArrowRight")
    colours = r.page.evaluate(CONTRAST)
    assert (colours["background"] > 0.5) is bright
    low = {name: ratio for name, ratio in colours["ratios"].items() if ratio < 4.5}
    assert low == {}


CONTRAST = """() => {
  const root = document.querySelector('readtorch-trace').shadowRoot;
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgb = (colours) => { canvas.clearRect(0, 0, 1, 1); for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255); };
  const light = ([r, g, b]) => { const f = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const behind = (node) => { const found = []; for (let n = node; n && n.nodeType === 1; n = n.parentElement) found.unshift(getComputedStyle(n).backgroundColor); return found; };
  const ratios = {};
  for (const node of root.querySelectorAll('*')) {
    if (![...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()) || !node.getClientRects().length || node.tagName === 'STYLE') continue;
    const back = behind(node);
    const style = getComputedStyle(node);
    const a = light(rgb(back)), b = light(rgb([...back, style.color]));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const name = node.tagName + '.' + node.className;
    ratios[name] = Math.min(ratio, ratios[name] ?? 99);
  }
  return {background: light(rgb(behind(root.querySelector('.frame')))), ratios};
}"""


def test_follows_the_switch_of_the_site(reader, page_file, tmp_path):
    file = tmp_path / "site.html"
    style = "<style>body{--md-default-bg-color:#fff;--md-default-fg-color:#222}body[data-md-color-scheme=slate]{--md-default-bg-color:#1e2129;--md-default-fg-color:#e2e4e9}</style>"
    file.write_text(page_file.read_text(encoding="utf-8").replace("</head>", style + "</head>"), encoding="utf-8")
    r = reader(color_scheme="dark").open(file)
    dark = "document.querySelector('readtorch-trace').shadowRoot.querySelector('.frame').classList.contains('dark')"
    assert r.page.evaluate(dark) is False
    r.page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
    r.page.wait_for_function(dark)


def test_without_javascript_there_is_an_ordered_list(reader, page_file):
    r = reader(java_script_enabled=False)
    r.page.goto(page_file.as_uri())
    items = r.page.locator("readtorch-trace ol > li")
    assert items.first.is_visible()
    text = r.page.locator(".readtorch-trace-fallback").inner_text()
    assert "run" in text and "Layer.__call__" in text and "raises ValueError" in text
    assert "<img src=x" in text and r.page.locator("img").count() == 0


def test_the_fallback_is_not_shown_beside_the_viewer(reader, page_file):
    r = reader().open(page_file)
    assert not r.page.locator("readtorch-trace ol").first.is_visible()


def test_a_truncated_recording_says_so(reader, tmp_path, record):
    t = record()
    t.document["meta"]["truncated"] = "events"
    file = tmp_path / "cut.html"
    file.write_text(page_html(t.document), encoding="utf-8")
    assert "ended before the code did" in reader().open(file).text(".notice")
    plain = reader(java_script_enabled=False)
    plain.page.goto(file.as_uri())
    assert "ended before the code did" in plain.page.locator(".readtorch-trace-fallback").inner_text()


def test_a_document_that_is_none_leaves_the_list_and_says_why(reader, tmp_path, record):
    document = {**record().document, "schema": "readtorch-trace/9"}
    file = tmp_path / "other.html"
    file.write_text(page_html(document), encoding="utf-8")
    r = reader()
    r.page.goto(file.as_uri())
    r.page.get_by_text("This trace cannot be shown: this viewer reads readtorch-trace/1").wait_for()
    assert r.page.locator("readtorch-trace ol").first.is_visible()


def test_a_trace_far_below_is_loaded_when_the_reader_comes_near(reader, tmp_path, record):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "far.js").write_text(trace_js("far", record().document), encoding="utf-8")
    (tmp_path / "viewer.js").write_text(viewer_script(), encoding="utf-8")
    element = element_html(record().document, identifier="far", src="traces/far.js")
    page = tmp_path / "page.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><div style="height:6000px"></div>{element}'
                    '<script src="viewer.js"></script>', encoding="utf-8")  # fmt: skip
    r = reader()
    r.page.goto(page.as_uri())
    r.page.wait_for_timeout(300)
    assert not any(u.endswith("far.js") for u in r.requests)
    r.page.evaluate("scrollTo(0, 6000)")
    r.page.locator("readtorch-trace .counter").wait_for()
    assert any(u.endswith("far.js") for u in r.requests) and r.errors == []
    linked = reader()
    linked.page.goto(page.as_uri() + "#rt=far@run/Layer.__call__[2]")
    linked.page.locator("readtorch-trace .counter").wait_for()
    assert linked.call == "Layer.__call__"


def test_a_missing_file_is_reported_in_place(reader, tmp_path, record):
    page = tmp_path / "page.html"
    element = element_html(record().document, identifier="gone", src="traces/gone.js")
    page.write_text(f"<!doctype html><meta charset=utf-8>{element}<script>{viewer_script()}</script>", encoding="utf-8")
    r = reader()
    r.page.goto(page.as_uri())
    r.page.get_by_text("gone.js could not be loaded").wait_for()
    assert r.page.locator("readtorch-trace ol").first.is_visible()


def test_two_traces_side_by_side(reader, tmp_path, record):
    a, b = record(), record(changed="scale = 2.0 + np.zeros((2, 1))")
    file = tmp_path / "pair.html"
    file.write_text(page_html(a.document, b.document, name="pair"), encoding="utf-8")
    r = reader(viewport={"width": 1600, "height": 1000}).open(file)
    assert r.page.locator("readtorch-trace .view").count() == 2
    r.go("layer = Double()")
    lines = r.page.locator("readtorch-trace .ln.now code").all_inner_texts()
    assert len(lines) == 2 and lines[0] == lines[1]
    r.page.get_by_role("button", name="First difference").click()
    assert re.match(r"1 of \d+: ", r.text(".why"))
    rows = r.page.locator("readtorch-trace .row[aria-current] .name").all_inner_texts()
    assert rows == ["Double.forward", "Double.forward"]


def test_traces_with_different_calls_differ_there(reader, tmp_path, record):
    file = tmp_path / "pair.html"
    file.write_text(page_html(record(2).document, record(3).document, name="pair"), encoding="utf-8")
    r = reader(viewport={"width": 1600, "height": 1000}).open(file)
    r.page.get_by_role("button", name="First difference").click()
    assert re.match(r"1 of \d+: ", r.text(".why"))
    assert r.page.locator("readtorch-trace .row.alone").count() >= 1


def test_equal_traces_have_no_difference(reader, tmp_path, record):
    t = record()
    file = tmp_path / "pair.html"
    file.write_text(page_html(t.document, t.document, name="pair"), encoding="utf-8")
    r = reader().open(file)
    assert "No difference" in r.text(".why")


def test_downloads_a_chrome_trace(reader, page_file):
    import json

    r = reader().open(page_file)
    with r.page.expect_download() as waiting:
        r.page.get_by_label("Download for Perfetto").click()
    events = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))["traceEvents"]
    assert sum(e["ph"] == "B" for e in events) == sum(e["ph"] == "E" for e in events) > 5


def test_tells_the_page_of_every_step(reader, page_file):
    r = reader().open(page_file)
    r.page.evaluate("window.told = []; addEventListener('readtorch-step', (e) => told.push(e.detail))")
    r.press("ArrowRight", "ArrowRight")
    told = r.page.evaluate("told")
    assert len(told) == 2
    assert told[-1]["name"] == "run" and told[-1]["file"].endswith("viewer_sample.py") and told[-1]["trace"] == "sample"


def test_a_step_is_drawn_within_a_frame(reader, tmp_path, record):
    t = record(600)
    assert t.document["events"]["count"] > 5000
    file = tmp_path / "long.html"
    file.write_text(page_html(t.document, name="long"), encoding="utf-8")
    r = reader().open(file)
    steps = """() => {
      const view = document.querySelector('readtorch-trace').views[0];
      const times = [];
      for (let i = 0; i < 200; i++) {
        const begin = performance.now();
        view.step('into');
        view.element.getBoundingClientRect();
        times.push(performance.now() - begin);
      }
      return times.sort((a, b) => a - b);
    }"""
    # The median of 200 steps, in the round of three that other work on the machine disturbed least.
    rounds = [r.page.evaluate(steps) for _ in range(3)]
    medians = [times[100] for times in rounds]
    assert min(medians) <= 16, f"medians {medians}, worst {max(times[-1] for times in rounds):.1f} ms"


def test_works_when_served_and_reattached(reader, page_file):
    """The site moves elements about when it changes pages without a reload."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(page_file.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        r = reader().open(f"http://127.0.0.1:{server.server_address[1]}/{page_file.name}").press("ArrowRight")
        r.page.evaluate(
            "const e = document.querySelector('readtorch-trace'), p = e.parentNode; e.remove(); p.append(e)"
        )
        assert r.step == 2
        r.press("ArrowRight")
        assert r.step == 3 and r.errors == []
        server.shutdown()


def test_the_viewer_is_small():
    assert len(gzip.compress(viewer_script().encode(), 9)) <= 20 * 1024


GPU_PROGRAM = """
import readtorch as torch
from readtorch.literate.trace import trace
torch.cuda.init()
x = torch.ones(3, device="cuda")
with trace("torch.nn", layers=["calls", "ops", "kernels"], title="on a GPU") as t:
    y = (x * 2).sum()
    value = y.item()
t.save(__import__("sys").argv[1])
"""


def test_a_gpus_stream_is_a_lane_and_a_step_says_what_it_launched(reader, tmp_path):
    environment = {**os.environ, "READTORCH_SIM_CUDA": "1"}
    subprocess.run([sys.executable, "-c", GPU_PROGRAM, str(tmp_path / "t.json")], check=True, env=environment)
    document = Trace.load(tmp_path / "t.json").document
    (tmp_path / "t.html").write_text(page_html(document))
    r = reader().open(tmp_path / "t.html")
    assert r.page.locator("readtorch-trace .lane").all_inner_texts() == ["main", "cuda:0"]
    r.page.locator("readtorch-trace .lane", has_text="cuda:0").click()
    said = r.page.locator("readtorch-trace [aria-live]").first.inner_text()
    assert re.search(r"operator aten::mul: .* → .*; aten::mul launched in \d+ µs on cuda:0", said), said
    assert r.errors == []
