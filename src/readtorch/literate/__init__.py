"""The book's tools: chapter model, tangle, sync, execution, evidence, traces, weave.

The library never imports this package. What a chapter or notebook calls is here by name and loaded at first use.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` takes 8 ms to import, a tenth of tangling a book
if TYPE_CHECKING:
    from typing import Any

_PUBLIC = {
    "live": "readtorch.literate.notebook",
    "reset": "readtorch.literate.notebook",
    "diff": "readtorch.literate.notebook",
    "trace": "readtorch.literate.trace",
}

__all__ = ["diff", "live", "reset", "trace"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_PUBLIC[name])
    value = getattr(module, name)
    globals()[name] = value
    return value


if "IPython" in sys.modules:
    import_module("readtorch.literate.notebook").tell_once_without_live()
