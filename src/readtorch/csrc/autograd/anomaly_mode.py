# Tangled from chapters/00_tensor/04b_the_walk.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import runpy
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from readtorch.csrc.autograd.node import Node

TRACEBACK = "traceback_"

#: what is C++ upstream has no frames in a Python stack
_COMPILED = tuple(str(Path(__file__).parents[2] / name) for name in ("aten", "csrc"))
_LAUNCHERS = ("<frozen runpy>", runpy.__file__, str(Path(__file__).parents[2] / "as_torch.py"))


def store_stack(node: Node) -> None:
    """Remember the Python stack of the forward call that made `node`: from the program's first line to the one that called an operator."""
    stack = traceback.extract_stack()
    while stack and stack[-1].filename.startswith(_COMPILED):
        stack.pop()
    while stack and stack[0].filename in _LAUNCHERS:
        del stack[0]
    node.metadata[TRACEBACK] = stack.format()


def report_forward(node: Node) -> None:
    """Warn with the stack of the forward call."""
    stack = node.metadata.get(TRACEBACK)
    if stack is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during forward pass for more information.",
            stacklevel=2,
        )
        return
    text = "".join(stack)
    warnings.warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{text}", stacklevel=2
    )


def check_finite(node: Node, outputs: Any) -> None:
    """RuntimeError if a gradient holds a NaN."""
    for number, output in enumerate(outputs):
        array = getattr(output, "_array", output)
        if array is not None and array.dtype.kind in "fc" and bool(np.isnan(array).any()):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")
