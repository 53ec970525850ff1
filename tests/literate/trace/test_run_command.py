"""`readtorch trace run`: what the script sees, where the recording goes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from readtorch.literate import cli
from readtorch.literate.trace import Trace, chrome, trace


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "readtorch.literate", "trace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=folder)


def test_the_script_is_run_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/script.py").write_text(
        "import os, pickle, sys\nclass Thing: pass\npickle.dumps(Thing())\n"
        "print(sys.argv, __name__, __file__, sys.path[0], __package__, __spec__)\nos.chdir('/')\n"
    )
    alone = subprocess.run(
        [sys.executable, "inner/script.py", "-x"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    done = run(tmp_path, "run", "inner/script.py", "-x")
    assert done.stdout == alone.stdout
    assert "1 call>\nwrote trace.json;" not in done.stderr and "2 calls>\nwrote trace.json;" in done.stderr
    assert Trace.load(tmp_path / "trace.json").title == "script.py"


def test_a_name_that_was_not_asked_for_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("x = 1\n")
    (tmp_path / "trace.json").write_text("mine")
    (tmp_path / "trace-2.json").symlink_to("nowhere")
    done = run(tmp_path, "run", "s.py")
    assert "1 call>\nwrote trace-3.json; `readtorch trace view trace-3.json`" in done.stderr
    assert (tmp_path / "trace.json").read_text() == "mine"
    Trace.load(tmp_path / "trace-3.json")


@pytest.mark.parametrize("name", ["gone/x.json", "folder", "file.json/x.json"])
@pytest.mark.parametrize("action", ["run", "import", "view", "export"])
def test_a_target_that_cannot_be_written_is_refused_first(
    tmp_path: Path, name: str, action: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.json").write_text("")
    (tmp_path / "s.py").write_text("open('ran', 'w')\n")
    with trace() as t:
        pass
    t.save("t.json")
    subject = {"run": "s.py", "import": "json"}.get(action, "t.json")
    assert cli.main(["trace", action, "-o", name, subject]) == 1
    told = capsys.readouterr()
    assert told.err.startswith(f"{name}: cannot be written: ")
    assert not told.out
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("option", ["--top", "--depth"])
def test_less_than_none_is_no_number_of_lines(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text, why in (("-1", "-1 is less than none"), ("x", "invalid int value: 'x'")):
        with pytest.raises(SystemExit):
            cli.main(["trace", "import", option, text, "json"])
        assert why in capsys.readouterr().err


def test_the_chrome_export_has_no_lines(mechanism: str) -> None:
    with trace(mechanism=mechanism) as t:
        for _ in range(9):
            pass
    phases = [e["ph"] for e in chrome.chrome_trace(t.decoded)["traceEvents"]]
    assert sorted(p for p in phases if p != "M") == ["B", "E"]


@pytest.mark.parametrize("packages", ["torch", "torch.nn"])
def test_a_torch_that_the_script_imports_is_recorded_from_then_on(
    tmp_path: Path, packages: str, mechanism: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(
        "from torch import nn\nfor _ in range(9): nn.used()\ndef ones(): pass\n"
    )
    (tmp_path / "torch/nn.py").write_text("def used(): return 1\ndef fresh(): return used()\n")
    (tmp_path / "s.py").write_text("import torch\ntorch.ones()\ntorch.nn.fresh()\n")
    environment = {**os.environ, "READTORCH_TRACE_RECORDER": mechanism}
    command = [sys.executable, "-m", "readtorch.literate", "trace", "run", "--packages", packages, "s.py"]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path, env=environment, capture_output=True)
    t = Trace.load(tmp_path / "trace.json")
    ones = ["ones"] if packages == "torch" else []
    assert [t.decoded.name(f) for f in t.decoded.frames] == ["<module>", *ones, "fresh", "used"]
    assert all("sha256" not in f for f in t.document["files"] if f["path"].startswith("torch"))
