"""The command line where nothing but NumPy and readtorch is installed: every command works, or says what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from readtorch.literate.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import from that holds NumPy alone."""
    folder = tmp_path_factory.mktemp("bare")
    site = Path(numpy.__file__).resolve().parents[1]
    for name in ("numpy", "numpy.libs"):
        if (site / name).exists():
            (folder / name).symlink_to(site / name)
    return folder


def run(bare: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`readtorch …` in a Python without site-packages."""
    import os

    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{bare}", "COLUMNS": "80"}
    command = [sys.executable, "-S", str(REPOSITORY / "src/readtorch_cli.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd, env=environment)


LACKS = {
    "read": (["read", "--port", "0"], "readtorch read: not installed: tornado, mkdocs, "),
    "lab": (["lab", "--no-browser", "--dir", "copy"], "readtorch lab: not installed: jupyterlab, jupytext, "),
    "run": (["run", "02_module/6_digits"], "readtorch run: not installed: matplotlib\n"),
}
WORKS = {
    "tangle": (["tangle", "--check"], 0, ""),
    "sync": (["sync", "--dry-run"], 0, ""),
    "coverage": (["coverage"], 0, "every line of the package is shown"),
    "claims": (["claims", "--list"], 0, "02_module/1_registration"),
    "trace": (["trace", "view", "none.json"], 1, "none.json: no such file"),
    "upstream": (["upstream", "sync"], 1, "torch: is not installed"),
    "show": (["show", "nn.Module.register_buffer"], 0, "def register_buffer"),
    "record": (["record", "--import", "none.zip"], 1, "none.zip"),
}


def test_every_command_is_tried() -> None:
    assert LACKS.keys() | WORKS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", LACKS)
def test_a_command_that_needs_more_says_what_and_how_before_it_does_anything(
    name: str, bare: Path, tmp_path: Path
) -> None:
    arguments, message = LACKS[name]
    done = run(bare, *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(message), done.stderr
    assert "pip install -e '.[book]'" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", WORKS)
def test_the_others_work(name: str, bare: Path, tmp_path: Path) -> None:
    arguments, status, shown = WORKS[name]
    done = run(bare, *arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert shown in done.stdout + done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_a_script_that_raises_leaves_its_recording(bare: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import readtorch as torch\n\n\ndef f(x):\n    return x / [0]\n\n\nf(torch.ones(3))\n")
    done = run(bare, "trace", "run", "-o", "run.json", "script.py", cwd=tmp_path)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{script}", line 8, in <module>'
    assert "literate" not in done.stderr
    assert "runpy" not in done.stderr
    assert "wrote run.json" in lines[-1]
    (saved,) = tmp_path.glob("*.json")
    assert '"script.py"' in saved.read_text()
    shown = run(bare, "trace", "view", "run.json", "-o", "run.html", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr


def test_a_script_for_torch_is_told_of_as_torch(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\n\nprint(torch.ones(2).sum())\n")
    done = run(bare, "trace", "run", "script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "No module named 'torch'\n`readtorch trace run --as-torch" in done.stderr
    done = run(bare, "trace", "run", "--as-torch", "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tensor(2.)\n"
    assert "ones" in (tmp_path / "trace.json").read_text()


def test_an_unknown_part_gets_the_nearest_ones_and_the_way_to_list_all(bare: Path, tmp_path: Path) -> None:
    for command in ("claims", "run"):
        done = run(bare, command, "02_module/1_regstration", "nothing_like_it", cwd=tmp_path)
        assert done.returncode == 1
        assert (
            "02_module/1_regstration: is no chapter or part\n    did you mean 02_module/1_registration" in done.stderr
        )
        assert "`readtorch claims --list`" in done.stderr
        assert "nothing_like_it: is no chapter or part\n    the chapters are 00_tensor, " in done.stderr
        assert max(map(len, done.stderr.splitlines())) < 240
