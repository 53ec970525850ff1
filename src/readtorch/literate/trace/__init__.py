"""Recorded executions: `with trace("torch.nn", values="summary") as t: …`.

`docs/reference/traces.md` tells how to record, read and share one. The modules: `scope` (what is covered), `recorder` with
`monitoring` and `settrace` (how Python tells), `describe` and `tensors` (values), `encode` and `decode` (the document), and
`page`, `fallback`, `chrome`, `compare` (what is made of it).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from readtorch.literate.trace.compare import compare
from readtorch.literate.trace.document import MIME, Trace
from readtorch.literate.trace.fallback import render_fallback
from readtorch.literate.trace.page import viewer_script
from readtorch.literate.trace.recording import DEFAULT, Recording
from readtorch.literate.trace.scope import Locate

__all__ = ["MIME", "Trace", "compare", "render_fallback", "trace", "viewer_script"]


def trace(
    *packages: str,
    layers: Iterable[str] | None = None,
    values: str = "no",
    steps: int | None = None,
    title: str = "",
    namespace: Mapping[str, Any] | None = None,
    locate: Locate | None = None,
    script: str | Path | None = None,
    mechanism: str | None = None,
    mask: bool = True,
) -> Recording:
    """Record what runs inside the `with` block, and leave it as a `Trace` in the variable after `as`.

    `packages` are named as upstream names them ("torch.nn"); without any, all of readtorch is covered. The code of the block
    and its notebook or script always is. `layers` are "calls", "lines", "ops", "autograd" (these four by default), "alloc",
    "queues", "comm" and "kernels". `values="summary"` adds the variables of every line, tensors by dtype, shape, extremes,
    mean and first elements. `steps` ends the recording after so many steps. A recording ends by itself at 60,000 events.

    Text under a name that says it is secret (`password`, `api_key`, …) is masked, unless `mask` is False.

    For tools that run code on someone's behalf: `namespace` holds the globals of the code to cover in place of the caller's
    block, `script` the file whose code (and that beside it) is covered in its place; `locate` maps a file name and line of
    covered code to (chapter path, chapter line, cell id). `mechanism` forces "sys.monitoring" or "sys.settrace".

    Raises ValueError for a package, layer or option that there is not, RuntimeError where a recording is already running.
    """
    chosen = DEFAULT if layers is None else tuple(layers)
    return Recording(packages, chosen, values, steps, title, namespace, locate, script, mechanism, mask)


class _Callable(ModuleType):
    """`from readtorch.literate import trace` gives this module once a submodule was imported before; it may be called too."""

    def __call__(self, *packages: str, **options: Any) -> Recording:
        return trace(*packages, **options)


sys.modules[__name__].__class__ = _Callable
