"""The import recorder: any package, in a fresh process, also one that does not let itself be imported."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from readtorch.literate import cli
from readtorch.literate.errors import LiterateError
from readtorch.literate.trace.import_page import SHOWN, element_html, imports_js, page_html
from readtorch.literate.trace.imports import ImportRun, align, document, load, record_import, save

Make = Any


@pytest.fixture
def package(tmp_path: Path) -> Make:
    """`package(name, init, **parts)` writes a package and gives the folder it lies in."""

    def write(name: str, init: str, **parts: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text(init, encoding="utf-8")
        for part, text in parts.items():
            (folder / f"{part}.py").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def by_name(run: ImportRun) -> dict[str, Any]:
    return {module.name: module for module in run.modules}


def tree(run: ImportRun, top: str) -> list[str]:
    return ["  " * run.depth(i) + m.name for i, m in enumerate(run.modules) if m.name.partition(".")[0] == top]


def test_modules_stand_below_the_first_to_import_them(package: Make) -> None:
    at = package("pkg", "from pkg import a\nfrom pkg import b\n", a="import pkg.c", b="import pkg.c", c="")
    run = record_import("pkg", path=[at])
    assert run.outcome == "imported"
    assert tree(run, "pkg") == ["pkg", "  pkg.a", "    pkg.c", "  pkg.b"]
    assert by_name(run)["pkg"].kind == "source" and by_name(run)["pkg"].package and not by_name(run)["pkg.a"].package


def test_a_package_stands_before_the_submodule_that_brought_it_in(package: Make) -> None:
    inner = package("inner", "", deep="")
    package("outer", "import inner.deep\n")
    run = record_import("outer", path=[inner])
    assert tree(run, "outer") == ["outer"] and tree(run, "inner") == ["  inner", "  inner.deep"]
    assert record_import("inner.deep", path=[inner]).names() == ["inner", "inner.deep"]


def test_self_time_leaves_out_what_was_imported(package: Make) -> None:
    at = package("slow", "import time\nimport slow.part\ntime.sleep(0.05)\n", part="import time; time.sleep(0.1)")
    run = record_import("slow", path=[at])
    times = {module.name: (module.total, run.self_time(i)) for i, module in enumerate(run.modules)}
    assert times["slow"][0] >= 150_000 and 50_000 <= times["slow"][1] < 100_000
    assert times["slow.part"][0] >= 100_000
    assert run.total >= times["slow"][0] and times["slow"][0] == times["slow"][1] + times["slow.part"][0]


def test_nothing_has_been_imported_before(package: Make) -> None:
    at = package("fresh", "import json, decimal, dataclasses\n")
    run = record_import("fresh", path=[at])
    assert {"json", "decimal", "dataclasses"} <= set(run.names())
    assert 10 < run.before < 120


def test_what_was_put_off_is_told(package: Make) -> None:
    init = "def __getattr__(name):\n    import lazy.now\n    return lazy.now\n"
    at = package("lazy", init, now="", never="", _private="")
    plain = record_import("lazy", path=[at])
    assert plain.names() == ["lazy"] and plain.lazy == ["lazy"]
    assert plain.later == {"lazy": ["_private", "never", "now"]}
    touched = record_import("lazy", path=[at], touch=["now"])
    assert tree(touched, "lazy") == ["lazy", "  lazy.now"] and touched.later == {"lazy": ["_private", "never"]}
    assert by_name(touched)["lazy.now"].asked == "lazy.__getattr__"
    assert [m.name for m in touched.modules if m.kind == "attribute"] == [".now"]


def test_entries_of_sys_modules_made_by_hand_are_counted(package: Make) -> None:
    at = package("hand", "import sys, types\nsys.modules['hand.made'] = types.ModuleType('hand.made')\n")
    assert "hand.made" in record_import("hand", path=[at]).by_hand


def test_the_kinds_of_loaders_are_told_apart(package: Make) -> None:
    at = package("kinds", "import _thread, zlib, math, kinds.empty.inner\n")
    (at / "kinds" / "empty").mkdir()
    (at / "kinds" / "empty" / "inner.py").write_text("", encoding="utf-8")
    kinds = {name: module.kind for name, module in by_name(record_import("kinds", path=[at])).items()}
    assert kinds["kinds.empty"] == "namespace" and kinds["kinds.empty.inner"] == "source"
    assert {kinds[name] for name in ("zlib", "math") if name in kinds} <= {"extension", "built-in"}


def test_a_package_that_raises_is_reported_with_what_came_before(package: Make) -> None:
    at = package("bad", "import json\nimport bad.part\n", part="import no_such_module_at_all\n")
    run = record_import("bad", path=[at])
    assert run.outcome == "raised" and run.error == "ModuleNotFoundError: No module named 'no_such_module_at_all'"
    assert tree(run, "bad") == ["bad", "  bad.part"] and "json" in run.names()
    assert "ModuleNotFoundError" in by_name(run)["bad.part"].error and not by_name(run)["json"].error


def test_a_namespace_package_below_a_package_that_failed_is_told_as_one(package: Make) -> None:
    at = package("half", "from half import _C\nfrom half._C import Size\n")
    (at / "half" / "_C").mkdir()
    run = record_import("half", path=[at])
    assert run.outcome == "raised" and by_name(run)["half._C"].kind == "namespace"


def test_an_optional_import_that_was_caught_is_marked_and_does_no_harm(package: Make) -> None:
    at = package("optional", "try:\n    import no_such_module_at_all\nexcept ImportError:\n    pass\n")
    run = record_import("optional", path=[at])
    assert run.outcome == "imported"
    assert by_name(run)["no_such_module_at_all"].error.startswith("ModuleNotFoundError")


@pytest.mark.parametrize("name", ["no_such_module_at_all", "json.no_such_part"])
def test_what_cannot_be_found_is_reported(name: str) -> None:
    run = record_import(name)
    assert run.outcome == "raised" and "ModuleNotFoundError" in run.error


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def broken(:", "SyntaxError: "),
    ],
)
def test_an_import_may_raise_anything(package: Make, body: str, error: str) -> None:
    run = record_import("odd", path=[package("odd", body)])
    assert run.outcome == "raised" and run.error.startswith(error)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("import os, json; os._exit(7)", "the process ended itself with status 7"),
        ("import os, json, signal; os.kill(os.getpid(), signal.SIGKILL)", "the process was ended by SIGKILL"),
    ],
)
def test_a_process_that_dies_leaves_what_it_did(package: Make, body: str, error: str) -> None:
    run = record_import("dies", path=[package("dies", body)])
    assert run.outcome == "ended" and run.error == f"{error} while dies was imported"
    assert {"dies", "json"} <= set(run.names())


def test_an_import_that_hangs_is_given_up(package: Make) -> None:
    run = record_import("hangs", path=[package("hangs", "import time; time.sleep(60)")], limit=1)
    assert run.outcome == "hung" and run.error == "not done after 1 s while hangs was imported"


def test_what_a_module_prints_is_kept_and_does_no_harm(package: Make) -> None:
    run = record_import("loud", path=[package("loud", "print('(1, 2)')\nraise OSError('line one\\nline two')")])
    assert run.output == "(1, 2)\n" and run.error == "OSError: line one"


def test_of_what_a_module_prints_without_end_the_end_is_kept(package: Make) -> None:
    run = record_import("louder", path=[package("louder", "for i in range(30_000):\n    print('line', i)\n")])
    assert run.outcome == "imported" and len(run.output) <= 65536 and run.output.endswith("line 29999\n")


def test_an_error_that_cannot_be_told_is_named_and_stays_what_it_is(package: Make) -> None:
    mute = "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\n\nraise Mute\n"
    run = record_import("mute", path=[package("mute", mute)])
    assert run.error == by_name(run)["mute"].error == "Mute: (its message raises RuntimeError)"


@pytest.mark.parametrize("then", ["", "open('another.txt', 'w')\n"])
def test_a_package_that_closes_all_descriptors_is_recorded_on(
    package: Make, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    at = package("tidy", f"import os\nos.closerange(3, 100)\nmine = {then or 'None'}\nimport json\n")
    run = record_import("tidy", path=[at])
    assert run.outcome == "imported" and {"tidy", "json"} <= set(run.names())
    assert not (tmp_path / "another.txt").exists() or (tmp_path / "another.txt").read_text() == ""


def test_what_a_forked_child_imports_is_not_the_targets(package: Make) -> None:
    init = "import os\nchild = os.fork()\nif child == 0:\n    import wave\n    os._exit(0)\nos.waitpid(child, 0)\nimport json\n"
    run = record_import("forks", path=[package("forks", init)])
    assert run.outcome == "imported" and "json" in run.names() and "wave" not in run.names()


def test_modules_imported_by_other_threads_have_a_place(package: Make) -> None:
    init = "import threading\nt = threading.Thread(target=lambda: __import__('wave'))\nt.start(); t.join()\n"
    run = record_import("threads", path=[package("threads", init)])
    assert by_name(run)["wave"].parent == -1 and by_name(run)["wave"].total > 0


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no name of a module"):
        record_import("a; import os")


def test_two_runs_are_aligned_by_upstreams_names(package: Make) -> None:
    at = package("readtorch", "import readtorch.nn, readtorch.own\n", nn="", own="")
    package("torch", "import torch.first\nimport torch.nn\n", first="", nn="")
    ours, theirs = (record_import(name, environment={"PYTHONPATH": str(at)}) for name in ("readtorch", "torch"))
    aligned = align(ours, theirs)
    assert [pair.name for pair in aligned.matched if pair.name.startswith("torch")] == ["torch", "torch.nn"]
    alone = {pair.name: (pair.a, pair.b) for pair in aligned.pairs}
    assert alone["torch.first"][0] is None and alone["torch.own"][1] is None


def test_a_run_is_saved_and_loaded(package: Make, tmp_path: Path) -> None:
    run = record_import("kept", path=[package("kept", "import json\n", left="")])
    for name in ("run.json", "run.json.gz"):
        save(tmp_path / name, run)
        (again,) = load(tmp_path / name)
        assert again.document() == run.document() and again.later == {"kept": ["left"]}
    (tmp_path / "wrong.json").write_text(json.dumps({"schema": "readtorch-trace/1"}), encoding="utf-8")
    with pytest.raises(LiterateError, match="no recorded import"):
        load(tmp_path / "wrong.json")


def test_a_recording_holds_names_and_times_and_no_text_or_machine(package: Make) -> None:
    at = package("secret", "PASSWORD = 'tr0ub4dor'\nimport json\n")
    text = json.dumps(document(record_import("secret", path=[at])))
    assert "tr0ub4dor" not in text and str(at) not in text and os.path.expanduser("~") not in text


def test_the_page_holds_the_list_and_no_markup_from_names() -> None:
    run = record_import("json")
    run.modules[0].name = "<img src=x>"
    page = page_html(document(run), "x</script>")
    assert "<img src=x>" not in page and "<readtorch-imports" in page
    assert "<" not in imports_js("x", document(run))


def test_the_list_stays_short(package: Make) -> None:
    parts = {f"p{i}": "" for i in range(SHOWN + 5)}
    at = package("many", "\n".join(f"import many.{part}" for part in parts), **parts)
    html = element_html(document(record_import("many", path=[at])), src="x.js")
    assert html.count("<li>") == SHOWN + 1 and "5 more" in html


def test_the_command_prints_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", "import", "json", "--depth", "2", "--top", "3"]) == 0
    out = capsys.readouterr().out
    assert "import json: " in out and "  json.decoder" in out and "slowest by themselves" in out
    assert "json has and did not load: tool" in out


def test_a_module_that_the_interpreter_has_loaded_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", "import", "sys"]) == 0
    assert "nothing was left to import" in capsys.readouterr().out


def test_a_long_chain_of_imports_is_no_trouble(tmp_path: Path) -> None:
    for number in range(120):
        (tmp_path / f"link{number}.py").write_text(
            f"import link{number + 1}\n" if number < 119 else "", encoding="utf-8"
        )
    run = record_import("link0", path=[tmp_path])
    assert run.outcome == "imported" and len(run.names()) == 120 and run.depth(119) == 119


def test_the_command_reports_failures_and_writes_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, data = tmp_path / "out.html", tmp_path / "out.json.gz"
    assert cli.main(["trace", "import", "no_such_module_at_all", "-o", str(page)]) == 1
    assert "raised: ModuleNotFoundError" in capsys.readouterr().out and "<readtorch-imports" in page.read_text()
    assert cli.main(["trace", "import", "json", "colorsys", "-o", str(data)]) == 0
    assert len(load(data)) == 2
    assert cli.main(["trace", "view", str(data), "-o", str(page)]) == 0
    assert "import json beside import colorsys" in page.read_text()
    assert cli.main(["trace", "import", "no-name"]) == 2


def test_the_recorded_import_of_pytorch_says_where_it_comes_from_and_holds_names_and_times() -> None:
    (run,) = load(Path(__file__).parents[3] / "chapters" / "data" / "import_torch.json.gz")
    assert run.name == "torch" and run.outcome == "imported" and run.names()[0] == "torch"
    assert {"torch._C", "torch.nn.modules.module", "torch._tensor"} <= set(run.own()) and len(run.own()) > 700
    assert run.meta["version"].startswith("2.13.0") and "PyTorch 2.13.0" in run.provenance
    kept = json.dumps(document(run))
    assert "/" not in "".join(run.names()) and "def " not in kept and "site-packages" not in kept
