"""What is made of a recording: saved and loaded, checked, exported, listed, compared, viewed from the command line."""

from __future__ import annotations

import copy
import gzip
import html.parser
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from trace_story import MECHANISMS, calls

from readtorch.literate import cli
from readtorch.literate.errors import LiterateError
from readtorch.literate.trace import MIME, Trace, compare, render_fallback, trace, viewer_script
from readtorch.literate.trace.chrome import chrome_trace
from readtorch.literate.trace.page import SCRIPTS, element_html, script_json, trace_js
from readtorch.literate.trace.squeeze import squeeze_script, squeeze_style

PROGRAM = """
import threading
EVIL = "</script><img src=x onerror=alert(1)>"

class Box:
    def fill(self, n):
        values = [n] * n
        return values

def numbers():
    yield 1
    yield 2

def broken():
    raise KeyError(EVIL)

def go(extra=False):
    box = Box()
    for n in numbers():
        box.fill(n)
    try:
        broken()
    except KeyError:
        pass
    if extra:
        box.fill(3)
    t = threading.Thread(target=box.fill, args=(1,), name="filler")
    t.start()
    t.join()
"""


@pytest.fixture
def recorded(module):
    sample = module(PROGRAM)

    def record(extra: bool = False, **options) -> Trace:
        with trace("traced_sample", values="summary", title='A "title" <b>', **options) as t:
            sample.go(extra)
        return t

    return record


def test_save_and_load_give_the_same_document(recorded, tmp_path):
    t = recorded()
    for name in ("t.json", "t.json.gz"):
        t.save(tmp_path / name)
        assert Trace.load(tmp_path / name).document == t.document
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == (tmp_path / "t.json").read_bytes()


def test_a_saved_document_is_the_same_from_run_to_run_but_for_times(recorded):
    def steady(t):
        document = copy.deepcopy(t.document)
        document["meta"].pop("created")
        document["meta"].pop("duration_us")
        document["events"].pop("time")
        return document

    first, second = (recorded(mechanism=MECHANISMS[-1]) for _ in range(2))
    assert steady(first) == steady(second)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_recordings_follow_the_schema(recorded, mechanism):
    pytest.importorskip("jsonschema")
    recorded(mechanism=mechanism).validate()


def _break(change):
    def broken(document):
        document = copy.deepcopy(document)
        change(document)
        return document

    return broken


BROKEN = {
    "schema": _break(lambda d: d.update(schema="other/2")),
    "leads nowhere": _break(lambda d: d["events"]["call"].__setitem__(0, 999)),
    "events.value": _break(lambda d: d["events"]["value"].__setitem__(0, -(10**6))),
    "has 0 entries": _break(lambda d: d["events"].__setitem__("call", [])),
    "outside of every call": _break(
        lambda d: d["events"].update(kinds=d["events"]["kinds"].replace("C", "L", 1)[::-1])
    ),
    "never called": _break(lambda d: d["events"].__setitem__("resume", [77, 77])),
    "additional": _break(lambda d: d.update(more=1)),
    "does not match": _break(lambda d: d["files"][0].update(path="/etc/passwd")),
    "is not one of": _break(lambda d: d["meta"].update(values="everything")),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_document_is_refused_with_the_reason(recorded, tmp_path, what):
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(BROKEN[what](recorded().document)), encoding="utf-8")
    with pytest.raises(LiterateError) as error:
        Trace.load(file)
    text = str(error.value)
    assert text.startswith("broken.json: ")
    assert what in text.lower() or what == "outside of every call"


def test_what_is_no_json_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("not json", encoding="utf-8")
    (tmp_path / "x.json.gz").write_bytes(b"not gzip")
    for name in ("x.json", "x.json.gz"):
        with pytest.raises(LiterateError, match=r"is no trace"):
            Trace.load(tmp_path / name)


def test_chrome_export_nests_and_covers_every_call(recorded, tmp_path):
    t = recorded()
    t.export_chrome_trace(tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert data == chrome_trace(t.decoded)
    events = data["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {"main", "filler"}
    for lane in {e["tid"] for e in events if "tid" in e}:
        stack, last = [], 0
        for e in (e for e in events if e.get("tid") == lane and e["ph"] in "BE"):
            assert e["ts"] >= last
            last = e["ts"]
            if e["ph"] == "B":
                stack.append(e["name"])
            else:
                assert stack.pop() == e["name"]
        assert stack == []
    begun = [e["name"] for e in events if e["ph"] == "B"]
    assert begun.count("Box.fill") == 3
    assert begun.count("numbers") == 3  # once called, twice resumed


def test_chrome_export_of_a_cut_recording_closes_what_is_open(recorded):
    t = recorded(steps=9)
    events = chrome_trace(t.decoded)["traceEvents"]
    assert t.truncated == "steps"
    assert sum(e["ph"] == "B" for e in events) == sum(e["ph"] == "E" for e in events)


class _Balance(html.parser.HTMLParser):
    """Tags must close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_fallback_is_a_balanced_list_in_one_div_and_escapes(recorded):
    text = render_fallback(recorded().document)
    balance = _Balance()
    balance.feed(text)
    assert balance.open == [] and "img" not in balance.seen and "script" not in balance.seen
    assert text.startswith("<div") and text.endswith("</div>") and "\n\n" not in text
    assert text.count("<ol>") >= 3
    assert "Box.fill" in text and "raises KeyError" in text and "list of 2" in text
    assert "&lt;img src=x" in text


def test_the_fallback_of_a_long_recording_is_short(module):
    sample = module("def f(n):\n    return n\n\ndef go():\n    for n in range(2000):\n        f(n)\n")
    with trace("traced_sample") as t:
        sample.go()
    text = render_fallback(t.document)
    assert text.count("<li>") < 200 and re.search(r"… \d+ more", text)


def test_a_notebook_gets_element_list_script_and_document(recorded):
    t = recorded()
    bundle = t._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", MIME}
    assert bundle[MIME] is t.document
    assert "<readtorch-trace" in bundle["text/html"] and "readtorch-trace-fallback" in bundle["text/html"]
    assert 'customElements.get("readtorch-trace")' in bundle["text/html"]
    assert bundle["text/html"].count("</script>") == 2


def test_json_in_a_page_cannot_end_its_script(recorded):
    document = recorded().document
    for text in (script_json(document), trace_js("x", document)):
        assert "<" not in text
    assert json.loads(script_json(document)) == document
    assert trace_js("a-b", document).startswith('readtorchTrace("a-b",{')


def test_element_attributes_are_escaped(recorded):
    text = element_html(recorded().document, identifier='x" onload="y', src="a.js", book="../book/")
    assert 'id="x&quot; onload=&quot;y"' in text and 'book="../book/"' in text


def test_the_viewer_is_one_guarded_script_of_all_files():
    script = viewer_script()
    folder = Path(sys.modules[Trace.__module__].__file__).parent / "viewer"
    assert {f.stem for f in folder.glob("*.js")} == set(SCRIPTS)
    assert "innerHTML" not in script and "insertAdjacentHTML" not in script and "eval(" not in script
    assert "http://" not in script.replace("http://www.w3.org/2000/svg", "") and "https://" not in script
    assert not re.search(r"^\s*(//|/\*)", script, re.M)


@pytest.mark.parametrize(
    ("source", "squeezed"),
    [
        ("const a = 1; // why\nconst b = a - -1;", "const a=1;const b=a- -1;"),
        ('const s = "a  //  b";', 'const s="a  //  b";'),
        ("const t = `a ${x ? `b  ${ y }` : \"}\"}  c`;", "const t=`a ${x ? `b  ${ y }` : \"}\"}  c`;"),
        ("const r = /^\\s+ [/] $/u.exec(a);", "const r=/^\\s+ [/] $/u.exec(a);"),
        ("const q = a / b / c;", "const q=a / b / c;"),
        ("/** a\n * b */\nif (x) return y;\nelse z();", "if(x)return y;else z();"),
        ("return a in b;", "return a in b;"),
    ],
)  # fmt: skip
def test_squeezing_leaves_meaning_alone(source, squeezed):
    assert squeeze_script(source) == squeezed


def test_squeezing_styles():
    assert squeeze_style("/* x */\na:hover b { color: red; margin: 0 1px; }\n") == "a:hover b{color:red;margin:0 1px}"


# -- comparison


def test_equal_runs_have_no_difference(recorded):
    alignment = compare(recorded(), recorded())
    assert alignment.first_difference is None
    assert [p.symbol.split("#")[1] for p in alignment.matched][1:3] == ["go", "numbers"]


def test_the_first_difference_is_the_call_that_one_run_lacks(recorded):
    alignment = compare(recorded(), recorded(extra=True))
    difference = alignment.first_difference
    assert difference is not None and difference.a is None
    assert difference.symbol.endswith("#Box.fill")


def test_a_layer_that_one_side_has_more_is_looked_through(module):
    plain = module("def leaf():\n    pass\n\ndef run():\n    leaf()\n    leaf()\n", "traced_sample")
    with trace("traced_sample") as a:
        plain.run()
    layered = module(
        "def leaf():\n    pass\n\ndef helper():\n    leaf()\n\ndef run():\n    helper()\n    helper()\n",
        "traced_sample",
    )
    with trace("traced_sample") as b:
        layered.run()
    alignment = compare(a, b)
    assert [p.symbol.split("#")[1] for p in alignment.matched][1:] == ["run", "leaf", "leaf"]
    assert {p.symbol.split("#")[1] for p in alignment.pairs if p.a is None} == {"helper"}


# -- command line


def test_run_view_and_export_from_the_command_line(tmp_path, capsys, monkeypatch):
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\ndef f(n):\n    return n\n\nprint(f(len(sys.argv)), __name__)\nsys.exit(3)\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "argv", ["x"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    out = tmp_path / "t.json"
    assert cli.main(["trace", "run", "--values", "summary", "-o", str(out), str(script), "--flag", "2"]) == 3
    assert capsys.readouterr().out == "3 __main__\n"
    t = Trace.load(out)
    assert calls(t) == ["<module>", "f"] and t.title == "job.py"
    assert str(tmp_path) not in out.read_text(encoding="utf-8")
    page = tmp_path / "t.html"
    assert cli.main(["trace", "view", str(out), "-o", str(page)]) == 0
    assert "<readtorch-trace" in page.read_text(encoding="utf-8")
    assert cli.main(["trace", "view", str(out), str(out), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8").count('<script type="application/json"') == 2
    exported = tmp_path / "c.json"
    assert cli.main(["trace", "export", str(out), "-o", str(exported)]) == 0
    assert json.loads(exported.read_text(encoding="utf-8"))["traceEvents"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["view", "nowhere.json"], "no such file"),
        (["run", "nowhere.py"], "no such script"),
        (["run", "--packages", "torch.nowhere", "{script}"], "no package or module"),
        (["run", "--layers", "tea", "{script}"], "no layer"),
        (["export", "{script}", "-o", "x.json"], "is no trace"),
    ],
)
def test_faults_on_the_command_line_are_one_line_and_exit_1(tmp_path, capsys, monkeypatch, arguments, message):
    script = tmp_path / "s.py"
    script.write_text("pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["x"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.main(["trace", *(a.format(script=script) for a in arguments)]) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_view_serves_one_page_to_this_machine_alone(recorded, tmp_path):
    file = tmp_path / "t.json"
    recorded().save(file)
    command = [sys.executable, "-m", "readtorch.literate", "trace", "view", "--no-browser", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{10,}/", address)
            with urllib.request.urlopen(address) as answer:
                assert b"<readtorch-trace" in answer.read()
            root = address.rsplit("/", 2)[0] + "/"
            for request in (root, urllib.request.Request(address, headers={"Host": "evil.example"})):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(request)
        finally:
            process.terminate()
