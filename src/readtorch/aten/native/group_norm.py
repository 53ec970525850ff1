# Tangled from chapters/a1_operators/nn_3_normalization.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import autograd, composite, derivative, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.layer_norm import _normalize_rows, _row_gradients
from readtorch.aten.native.normalization import as_kept, check_floats
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.op_math_type import in_working_precision


@register("native_group_norm", outputs="output mean rstd", differentiable_outputs=(0,))
def native_group_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Output, and mean and 1 / sqrt(variance + eps), each `(N, group)`."""
    check_floats("GroupNormKernelImpl", input, weight, bias)
    if not input.size:
        return input.copy(), np.zeros((N, group), input.dtype), np.zeros((N, group), input.dtype)
    x = in_working_precision(np.ascontiguousarray(input)).reshape(N * group, C // group * HxW)
    y, mean, rstd = _normalize_rows(x, None, None, eps)
    y = y.reshape(N, C, HxW)
    if weight is not None:
        y *= weight[:, None]
    if bias is not None:
        y += bias[:, None]
    mean, rstd = (as_kept(one, input, weight).reshape(N, group) for one in (mean, rstd))
    return y.reshape(input.shape).astype(input.dtype, copy=False), mean, rstd


@register("native_group_norm_backward", variants="", outputs="input weight bias")
def native_group_norm_backward(
    grad_out: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
) -> tuple[Array, Array, Array]:
    """The gradients with respect to input, weight and bias."""
    x = in_working_precision(np.ascontiguousarray(input)).reshape(N * group, C // group * HxW)
    dy = in_working_precision(np.ascontiguousarray(grad_out)).reshape(N, C, HxW)
    mean, rstd = in_working_precision(mean), in_working_precision(rstd)
    db = np.einsum("ncp->c", dy)
    # Σ g (x - μ) / σ over places, group by group: from two sums per example and channel
    dots = np.einsum("ncp,ncp->nc", dy, x.reshape(N, C, HxW)).reshape(N, group, C // group)
    sums = np.einsum("ncp->nc", dy).reshape(N, group, C // group)
    dw = ((dots - sums * mean[:, :, None]) * rstd[:, :, None]).sum(0).reshape(C)
    g = dy if weight is None else dy * weight[:, None]
    dx, _, _ = _row_gradients(g.reshape(x.shape), x, None, mean.reshape(-1), rstd.reshape(-1))
    kind = input.dtype if weight is None else weight.dtype
    dx = dx.reshape(input.shape).astype(input.dtype, copy=False)
    return dx, dw.astype(kind, copy=False), db.astype(kind, copy=False)


def _group_norm_gradients(
    at: Any,
    grads: Sequence[Any],
    input: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    dy = grads[0]
    if at is not autograd:
        return at.native_group_norm_backward(dy, input, mean, rstd, weight, N, C, HxW, group)
    x = at.reshape(input, (N, group, C // group * HxW))
    centred = x - at.mean(x, (2,), True)
    scale = at.rsqrt(at.mean(centred * centred, (2,), True) + eps)
    normal = centred * scale
    by_channel = at.reshape(dy, (N, C, HxW))
    g = by_channel if weight is None else by_channel * at.reshape(weight, (1, C, 1))
    g = at.reshape(g, tuple(x.shape))
    dx = (g - at.mean(g, (2,), True) - normal * at.mean(g * normal, (2,), True)) * scale
    dw = at.sum(by_channel * at.reshape(normal, (N, C, HxW)), (0, 2)) if mask[1] else None
    return at.reshape(dx, tuple(input.shape)), dw, at.sum(by_channel, (0, 2)) if mask[2] else None


results_lie(in_suggested_format, "native_group_norm")
derivative("native_group_norm", {"input, weight, bias": _group_norm_gradients})


@composite("group_norm", autocast="float32")
def group_norm(
    at: Any,
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Any:
    """`(x - mean) / sqrt(var + eps) · weight + bias` per example and group of channels of `(N, C, *)`; weight and bias are per channel."""
    shape = list(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    n, c, *size = shape
    if c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups: "
            f"an input of {shape} has no {num_groups} equal groups"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and list(value.shape) != [c]:
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(value.shape)} and input of shape {shape}"
            )
    places = int(np.prod(size)) if size else 1
    return at.native_group_norm(input, weight, bias, n, c, places, num_groups, eps)[0]
