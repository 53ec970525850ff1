# Tangled from chapters/a1_operators/4_reductions.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array


def in_working_precision(x: Array) -> Array:
    """Two-byte floats as float32; everything else as it is."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x
