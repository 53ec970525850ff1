# Tangled from chapters/04_optim/ — edit there, or here and run `readtorch sync`.
"""Adam's step in place over blocks of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.native.cpu_blas import axpby
from readtorch.aten.native.fused_sgd import arrays_of, blocks, bump, device_groups, on_device, plain_arrays, scratch


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


def adam_on_device(
    params: Sequence[Any],
    grads: Sequence[Any],
    exp_avgs: Sequence[Any],
    exp_avg_sqs: Sequence[Any],
    max_exp_avg_sqs: Sequence[Any] | None,
    state_steps: Sequence[Any],
    **options: Any,
) -> frozenset[int]:
    """Step the parameters that a device's kernel can take: which those were. The counters have been moved on before."""
    if not params or not on_device(params[0]):
        return frozenset()
    from readtorch.aten.native.cuda import jit_utils
    from readtorch.aten.native.cuda.fused_adam_kernel import adam as kernel

    done: set[int] = set()
    written = [params, exp_avgs, exp_avg_sqs, *([] if max_exp_avg_sqs is None else [max_exp_avg_sqs])]
    steps = _host_numbers(state_steps)
    for numbers in device_groups([*written, grads], steps):
        most = None if max_exp_avg_sqs is None else arrays_of(max_exp_avg_sqs, numbers)
        arrays = [arrays_of(one, numbers) for one in (params, grads, exp_avgs, exp_avg_sqs)]
        with jit_utils.target.beside(arrays[0][0]):
            kernel(arrays[0], arrays[1], arrays[2], arrays[3], most, steps[numbers[0]], **options)
        bump(*(one[number] for one in written for number in numbers))
        done.update(numbers)
    return frozenset(done)


def _host_numbers(tensors: Sequence[Any]) -> list[float]:
    """The values of single numbers, with one wait where they lie on a device."""
    arrays = [tensor._array for tensor in tensors]
    if all(isinstance(array, np.ndarray) for array in arrays):
        return [float(array) for array in arrays]
    from readtorch.aten.native.cuda.jit_utils import array_module

    return array_module(arrays[0]).stack(arrays).get().tolist()
