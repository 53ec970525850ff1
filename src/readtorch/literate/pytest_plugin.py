"""Collects chapters in pytest: that each part runs, its tests, its exercises, and every claim on both libraries.

This module is loaded in every pytest run of an environment that has readtorch; whatever is heavy is imported when the first chapter
is met.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from readtorch.literate.collection import PartFile


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("readtorch", "chapters of readtorch")
    group.addoption(
        "--as-of",
        metavar="CHAPTER",
        default=None,
        help="run that chapter's tests against the package as it stands at the end of that chapter",
    )
    group.addoption(
        "--book-device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where chapters run; auto: cuda if a selected cell asks for a GPU and there is one",
    )


def is_chapter(file: Path) -> bool:
    """Whether `file` may be a part of a book, judged by its name alone."""
    return file.suffix == ".py" and (file.parent.name == "chapters" or file.parent.parent.name == "chapters")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> PartFile | None:
    if not is_chapter(file_path) or parent.session.isinitpath(file_path):
        return None
    from readtorch.literate.collection import part_file

    return part_file(file_path, parent)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> Any:
    """A chapter named on the command line is a chapter, not a module to import."""
    if not is_chapter(module_path):
        return None
    from readtorch.literate.collection import part_file

    return part_file(module_path, parent)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Frames of the package in a traceback say which chapter they come from."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        try:
            from readtorch.literate.tracebacks import annotate_report
        except ImportError:
            return
        annotate_report(report, item.config.invocation_params.dir)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many claims could not be compared with PyTorch."""
    alone = [r for r in terminalreporter.stats.get("skipped", ()) if "::claim: " in r.nodeid and "[torch]" in r.nodeid]
    if alone:
        terminalreporter.write_line(
            f"{len(alone)} claims not cross-checked with PyTorch (first reason: {_reason(alone[0])})"
        )


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return text.removeprefix("Skipped: ")
