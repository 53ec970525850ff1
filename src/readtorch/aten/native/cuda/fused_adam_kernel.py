# Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel, array_module
from readtorch.aten.native.cuda.multi_tensor_apply import multi_tensor_apply

_ADAM = Kernel("aten/native/cuda/fused_adam_kernel.cu", "fused_adam", VARIANTS)


def adam(
    params: Sequence[Array],
    grads: Sequence[Array],
    exp_avgs: Sequence[Array],
    exp_avg_sqs: Sequence[Array],
    max_exp_avg_sqs: Sequence[Array] | None,
    step: float | Sequence[Array],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled: bool,
) -> None:
    """One step of all `params` in place: contiguous arrays of one dtype. `max_exp_avg_sqs` is None without AMSGrad.

    `step` is how many steps they have made, this one counted; or a float32 on the device for each.
    """
    size, floor, corrections = -lr, float(eps), None
    if isinstance(step, int | float):
        root = math.sqrt(1 - beta2**step)
        size, floor = size * root / (1 - beta1**step), floor * root
    else:
        xp = array_module(params[0])
        counts = xp.stack([count for count, param in zip(step, params, strict=True) if param.size]).astype(np.float64)
        roots = xp.sqrt(1 - beta2**counts)
        corrections = xp.ascontiguousarray(xp.stack([roots / (1 - beta1**counts), roots], 1))
    decay, shrink = (0.0, 1 - lr * weight_decay) if decoupled else (float(weight_decay), 1.0)
    lists = [params, grads, exp_avgs, exp_avg_sqs, *([] if max_exp_avg_sqs is None else [max_exp_avg_sqs])]
    numbers = (float(beta1), float(beta2), decay, shrink, size, floor, -1.0 if maximize else 1.0)
    multi_tensor_apply(_ADAM, lists, int(max_exp_avg_sqs is not None), corrections, *numbers)
