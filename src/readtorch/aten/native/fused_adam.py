# Tangled from chapters/04_optim/9_fused.py — edit there, or here and run `readtorch sync`.
"""Adam's step in place over blocks of memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.native.cpu_blas import axpby
from readtorch.aten.native.fused_sgd import blocks, bump, plain_arrays, scratch


def adam(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    max_exp_avg_sq: Any,
    step: float,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled: bool,
) -> bool:
    """One step in place, if the memory allows it: whether it was done. `max_exp_avg_sq` is None without AMSGrad."""
    written = (param, exp_avg, exp_avg_sq) if max_exp_avg_sq is None else (param, exp_avg, exp_avg_sq, max_exp_avg_sq)
    arrays = plain_arrays(grad, *written)
    if arrays is None:
        return False
    root = math.sqrt(1 - beta2**step)
    size, floor = -lr * root / (1 - beta1**step), eps * root
    pool = scratch(arrays[1].dtype, 3)
    for piece in blocks(*arrays):
        g, p, m, v = piece[:4]
        s, t, u = (array[: p.size] for array in pool)
        if maximize:
            g = np.negative(g, out=s)
        if weight_decay != 0 and decoupled:
            np.multiply(p, 1 - lr * weight_decay, out=p)
        elif weight_decay != 0:
            g = np.add(g, np.multiply(p, weight_decay, out=t), out=s)
        axpby(1 - beta1, g, beta1, m, t)
        axpby(1 - beta2, np.multiply(g, g, out=t), beta2, v, u)
        second = v if max_exp_avg_sq is None else np.maximum(piece[4], v, out=piece[4])
        np.sqrt(second, out=t)
        np.add(t, floor, out=t)
        np.divide(m, t, out=t)
        axpby(size, t, 1.0, p, t)
    bump(*written)
    return True
