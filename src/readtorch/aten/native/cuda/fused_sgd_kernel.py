# Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel
from readtorch.aten.native.cuda.multi_tensor_apply import multi_tensor_apply

_SGD = Kernel("aten/native/cuda/fused_sgd_kernel.cu", "fused_sgd", VARIANTS)


def sgd(
    params: Sequence[Array],
    grads: Sequence[Array],
    buffers: Sequence[Array] | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    first: bool = False,
) -> None:
    """One step of all `params` in place: contiguous arrays of one dtype. `first`: the buffers are fresh, and hold nothing yet."""
    lists = [params, grads, *([] if buffers is None else [buffers])]
    flags = (int(buffers is not None), int(first), int(nesterov))
    numbers = (float(weight_decay), float(momentum), float(lr), 1.0 - dampening, -1.0 if maximize else 1.0)
    multi_tensor_apply(_SGD, lists, *flags, *numbers)
