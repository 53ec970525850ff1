"""Recordings of small synthetic modules, on both of Python's mechanisms."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from trace_story import MECHANISMS


@pytest.fixture(params=MECHANISMS)
def mechanism(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[..., ModuleType]]:
    """`module(source)` imports source from a file of its own; its name is recordable as a package."""
    names: list[str] = []

    def load(source: str, name: str = "traced_sample") -> ModuleType:
        file = tmp_path / f"{name}.py"
        file.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[name] = found
        names.append(name)
        spec.loader.exec_module(found)
        return found

    yield load
    for name in names:
        sys.modules.pop(name, None)
