# Tangled from chapters/04_optim/ — edit there, or here and run `readtorch sync`.
"""Adam's step in place over blocks of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.native.cpu_blas import axpby
from readtorch.aten.native.fused_sgd import Row, arrays_of, bump, device_groups, on_device, scratch, step_in_blocks


def adam(
    params: Sequence[Any],
    grads: Sequence[Any],
    exp_avgs: Sequence[Any],
    exp_avg_sqs: Sequence[Any],
    max_exp_avg_sqs: Sequence[Any] | None,
    steps: Sequence[float],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled: bool,
) -> frozenset[int]:
    """One step of the parameters in plain memory, in place: which those were. `max_exp_avg_sqs` is None without AMSGrad."""

    def update(row: Row, start: int, stop: int) -> None:
        step = steps[row.number]
        root = math.sqrt(1 - beta2**step)
        g, p, m, v, *most = (array[start:stop] for array in row.arrays)
        s, t, u = (array[: stop - start] for array in scratch(p.dtype, 3))
        if maximize:
            g = np.negative(g, out=s)
        if weight_decay != 0 and decoupled:
            np.multiply(p, 1 - lr * weight_decay, out=p)
        elif weight_decay != 0:
            g = np.add(g, np.multiply(p, weight_decay, out=t), out=s)
        axpby(1 - beta1, g, beta1, m, t)
        axpby(1 - beta2, np.multiply(g, g, out=t), beta2, v, u)
        for largest in most:
            v = np.maximum(largest, v, out=largest)
        np.sqrt(v, out=t)
        np.add(t, eps * root, out=t)
        np.divide(m, t, out=t)
        axpby(-lr * root / (1 - beta1**step), t, 1.0, p, u)

    moments = [exp_avgs, exp_avg_sqs, *([] if max_exp_avg_sqs is None else [max_exp_avg_sqs])]
    return step_in_blocks(zip(grads, params, *moments, strict=True), update)


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
    counted = all(on_device(step) and step._array.dtype == np.float32 for step in state_steps)
    steps = None if counted else _host_numbers(state_steps)
    for numbers in device_groups([*written, grads], steps):
        step = arrays_of(state_steps, numbers) if steps is None else steps[numbers[0]]
        most = None if max_exp_avg_sqs is None else arrays_of(max_exp_avg_sqs, numbers)
        arrays = [arrays_of(one, numbers) for one in (params, grads, exp_avgs, exp_avg_sqs)]
        with jit_utils.target.beside(arrays[0][0]):
            kernel(arrays[0], arrays[1], arrays[2], arrays[3], most, step, **options)
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
