# Tangled from chapters/04_optim/9_fused.py — edit there, or here and run `readtorch sync`.
"""Adam's step in place over blocks of memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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
    weight = 1 - beta1
    one, two = scratch(arrays[1].dtype, 2)
    for piece in blocks(*arrays):
        g, p, m, v = piece[:4]
        s, t = one[: p.size], two[: p.size]
        if maximize:
            g = np.negative(g, out=s)
        if weight_decay != 0 and decoupled:
            np.multiply(p, 1 - lr * weight_decay, out=p)
        elif weight_decay != 0:
            g = np.add(g, np.multiply(p, weight_decay, out=t), out=s)
        np.subtract(g, m, out=t)
        if weight < 0.5:
            np.add(m, np.multiply(t, weight, out=t), out=m)
        else:
            np.subtract(g, np.multiply(t, 1 - p.dtype.type(weight), out=t), out=m)
        np.multiply(v, beta2, out=v)
        np.multiply(g, g, out=t)
        np.add(v, np.multiply(t, 1 - beta2, out=t), out=v)
        second = v if max_exp_avg_sq is None else np.maximum(piece[4], v, out=piece[4])
        np.sqrt(second, out=t)
        np.add(t, floor, out=t)
        np.divide(m, t, out=t)
        np.add(p, np.multiply(t, size, out=t), out=p)
    bump(*written)
    return True
