"""Stands for matplotlib on a machine that records the book without it: figures are left out, what was computed for them is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class Absent:
    """Anything of matplotlib's: it can be called, asked and unpacked into two."""

    def __call__(self, *args: Any, **kwargs: Any) -> Absent:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, index: Any) -> Absent:
        return self

    def __iter__(self) -> Iterator[Absent]:
        return iter((self, self))

    def __repr__(self) -> str:
        return "(a figure, which this recording was made without)"


def install() -> None:
    """Let `import matplotlib` and `matplotlib.pyplot` give it."""
    absent = Absent()
    for name in ("matplotlib", "matplotlib.pyplot"):
        module = ModuleType(name)
        module.__path__ = []
        module.__getattr__ = lambda name: absent  # type: ignore[method-assign]  # a module may have one
        sys.modules[name] = module
