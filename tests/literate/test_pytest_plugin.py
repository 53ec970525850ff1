"""Chapters in pytest: items, failures by chapter and line, as-of runs, what is skipped and said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from small_books import SmallBook

CHAPTER = """
    # %% [markdown]
    # # A chapter

    # %%
    from readtorch import answer
    answer

    # %%
    #| test
    def test_answer():
        assert answer == 42

    # %%
    #| exercise: double
    def double(x):
        raise NotImplementedError

    # %%
    #| solution: double
    def double(x):
        return 2 * x

    # %%
    #| check: double
    assert double(4) == 8

    # %%
    #| claim: a claim that holds
    def _(torch):
        assert torch.answer == 42

    # %%
    #| needs: 07_distributed
    #| test
    assert False
    """


@pytest.fixture
def small(tmp_path: Path) -> SmallBook:
    small = SmallBook(tmp_path)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    torch: t\n    gpu: g\naddopts = -p no:cacheprovider\n"
    )
    small.module("__init__.py", "answer = 42\n")
    small.module("../torch/__init__.py", "answer = 42\n")
    small.module("../torch/version.py", "__version__ = '9.9'\n")
    small.chapter(CHAPTER)
    return small


def pytest_run(small: SmallBook, *arguments: str, torch: bool = True) -> tuple[int, str]:
    """Exit status and output of pytest over the book, with the stand-in torch or (hidden) none."""
    paths = [str(small.package.parent)]
    if not torch:
        (small.package.parent / "torch" / "version.py").unlink()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200", "NO_COLOR": "1"}
    installed = any(point.name == "readtorch" for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "readtorch.literate.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *plugin, *arguments]
    done = subprocess.run(command, cwd=small.root, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def outcomes(text: str) -> dict[str, str]:
    return dict(re.findall(r"^chapters/\S+?::(.+?) (PASSED|FAILED|SKIPPED|ERROR)", text, re.MULTILINE))


def test_each_thing_that_a_chapter_promises_is_an_item(small: SmallBook) -> None:
    status, text = pytest_run(small, "chapters", "-v")
    assert status == 0, text
    assert outcomes(text) == {
        "runs": "PASSED",
        "test: test_answer": "PASSED",
        "exercise: double": "PASSED",
        "claim: a claim that holds[readtorch]": "PASSED",
        "claim: a claim that holds[torch]": "PASSED",
        "test: a-chapter-7": "SKIPPED",
    }
    assert "needs chapter 07_distributed" in text


def test_a_chapter_named_on_the_command_line_is_not_imported(small: SmallBook) -> None:
    status, text = pytest_run(small, "chapters/02_module.py", "-q")
    assert status == 0, text
    assert "5 passed, 1 skipped" in text


def test_failures_name_chapter_and_line(small: SmallBook) -> None:
    small.module("__init__.py", "answer = 43\n")
    status, text = pytest_run(small, "chapters", "-v")
    assert status == 1
    assert outcomes(text)["test: test_answer"] == "FAILED"
    assert outcomes(text)["claim: a claim that holds[readtorch]"] == "FAILED"
    assert outcomes(text)["claim: a claim that holds[torch]"] == "PASSED"
    assert outcomes(text)["runs"] == "PASSED"
    assert f"chapters/02_module.py:{small.line_of('test_answer')}: AssertionError" in text or (
        f"chapters/02_module.py:{small.line_of('assert answer')}: AssertionError" in text
    )
    assert f"chapters/02_module.py:{small.line_of('assert torch.answer')}: the claim does not hold on readtorch" in text


def test_an_exercise_without_solution_or_check_fails(small: SmallBook) -> None:
    small.chapter("# %%\n#| exercise: alone\ndef alone(): ...\n")
    status, text = pytest_run(small, "chapters", "-v")
    assert status != 0
    assert "alone" in text
    assert "solution" in text


def test_without_torch_claims_on_torch_are_skipped_and_counted(small: SmallBook) -> None:
    status, text = pytest_run(small, "chapters", "-v", torch=False)
    assert status == 0, text
    assert outcomes(text)["claim: a claim that holds[torch]"] == "SKIPPED"
    assert "1 claims not cross-checked with PyTorch (first reason: torch is not installed)" in text


def test_workers_of_xdist_share_the_work(small: SmallBook) -> None:
    pytest.importorskip("xdist")
    small.chapter("# %%\n1\n", "03_norm")
    status, text = pytest_run(small, "chapters", "-q", "-n2", "--dist", "loadgroup")
    assert status == 0, text
    assert "6 passed, 1 skipped" in text


def test_as_of_runs_a_chapter_against_the_package_up_to_it(small: SmallBook) -> None:
    small.chapter(
        """
        # %%
        #| into: __init__.py
        answer = 41

        # %%
        #| into: later.py
        present = True

        # %%
        #| test
        def test_answer():
            from readtorch import answer
            assert answer == 41

        # %%
        #| needs: 03_norm
        #| test
        import readtorch.norm
        """,
    )
    small.chapter("# %%\n#| into: norm.py\nx = 1\n\n# %%\n#| test\nimport readtorch.norm\n", "03_norm")
    status, text = pytest_run(small, "chapters", "-v", "--as-of", "02_module")
    assert status == 0, text
    found = outcomes(text)
    assert found["test: test_answer"] == "PASSED"
    assert sorted(found.values()) == ["PASSED", "PASSED", "SKIPPED"]
    assert "needs chapter 03_norm" in text
    status, text = pytest_run(small, "chapters", "-v", "--as-of", "03_norm")
    assert status == 0, text
    assert "03_norm" in text
    assert "02_module.py::" not in text


def test_a_book_that_cannot_be_read_is_one_collection_error(small: SmallBook) -> None:
    small.chapter("# %%\n#| no_such_directive: x\n1\n")
    status, text = pytest_run(small, "chapters")
    assert status == 2
    assert "chapters/02_module.py:2: unknown directive 'no_such_directive'" in text
    assert "Traceback" not in text


def test_nothing_heavy_is_imported_when_no_chapter_is_collected(small: SmallBook) -> None:
    (small.root / "test_light.py").write_text(
        "import sys\n\ndef test_light():\n"
        "    heavy = ('IPython', 'matplotlib', 'jupytext', 'nbformat', 'readtorch.literate.chapter', 'readtorch.literate.execute')\n"
        "    assert [m for m in heavy if m in sys.modules] == []\n"
    )
    status, text = pytest_run(small, "test_light.py")
    assert status == 0, text
