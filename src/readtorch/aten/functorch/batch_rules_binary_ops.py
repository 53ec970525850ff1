# Tangled from chapters/a1_operators/z_batching_rules.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import ALIGNED, Operator, aligned, at, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer

#: beside the operators that a ufunc computes
ALIGNED.update(
    [
        "heaviside",
        "_conj_physical",
        "round",
        "abs",
        "_real",
        "_imag",
        "complex",
        "_polygamma",
        "frexp",
        "_to_copy",
        "clone",
        "addcmul",
        "addcdiv",
        "_lerp_scalar",
        "_lerp_tensor",
        "_clamp_scalar",
        "_clamp_tensor",
        "nan_to_num",
        "threshold",
        "leaky_relu",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "hardshrink",
        "softshrink",
        "_prelu_kernel",
        "elu",
        "softplus",
        "log_sigmoid",
        "silu",
        "mish",
        "gelu",
        "gelu_backward",
        "_masked_fill_scalar",
        "_where",
        "_to_device",
        "alias",
        "_finite",
        "_zero_where_nan",
        "native_dropout_backward",
        "_is_not_class",
        "_pixel",
        "_is_pixel",
        "_keep_mean",
        "_standard_gamma_grad",
    ]
)

NONE, MEAN, SUM = 0, 1, 2


@rule("mse_loss", "_smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
def elementwise_loss(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """The loss of each element, and then the mean or sum of each example."""
    place = op.entry.schema.names.index("reduction")
    reduction = values[place]
    first = (*values[:place], NONE, *values[place + 1 :])
    if op.entry.name.startswith("binary"):  # these do not broadcast their targets
        first = (*(layer.batch(layer.full(each)) for each in first[:2]), *first[2:])
    loss = aligned(layer, op, first, {})
    if reduction == NONE:
        return loss
    dims = tuple(range(1, loss._array.ndim))
    if not dims:
        return loss
    return at.mean(loss, dims) if reduction == MEAN else at.sum(loss, dims)


@rule("view_as_complex", "view_as_real", "_view_dtype", "linalg_inv", "linalg_det", "linalg_slogdet", "linalg_cholesky", "_linalg_qr",
      "_linalg_svd", "linalg_eigh", "_linalg_pinv", "_block_exponential", "tril", "triu", "_linalg_eig", "_linalg_lu", "_cholesky_info",
      "_inverse_info", "geqrf", "constant_pad_nd", "_pivots", "_eye_rows", "_cholesky_inverse", "_cholesky_until", "_norm_at_least")  # fmt: skip
def trailing(layer: VmapLayer, op: Operator, value: Any, *options: Any) -> Any:
    """What works on the last dimensions and takes any number before them takes one more."""
    return op(layer.physical(value), *options)


@rule("_linalg_solve")
def solve(layer: VmapLayer, op: Operator, matrix: Any, right: Any) -> Any:
    """Systems of equations; the right side may be a vector, which many of are no longer told from a matrix."""
    if rank_of(right) == 1 or (rank_of(right) == rank_of(matrix) - 1):
        solved = op(layer.full(matrix), at.unsqueeze(layer.full(right), -1))
        return at.squeeze(solved, -1)
    rank = max(rank_of(matrix), rank_of(right))
    from readtorch.aten.functorch.batch_rules_helper import padded

    return op(padded(layer, layer.batch(layer.full(matrix)), rank), padded(layer, layer.batch(layer.full(right)), rank))


@rule("_cholesky_solve")
def solve_with_factor(layer: VmapLayer, op: Operator, right: Any, factor: Any, upper: bool) -> Any:
    """Systems of equations, of matrices on both sides."""
    from readtorch.aten.functorch.batch_rules_helper import padded

    rank = max(rank_of(factor), rank_of(right))
    return op(*(padded(layer, layer.batch(layer.full(each)), rank) for each in (right, factor)), upper)


@rule("_masked_fill_tensor")
def masked_fill(layer: VmapLayer, op: Operator, self: Any, mask: Any, value: Any) -> Any:
    """One number where the mask is true, which may be each example's own."""
    if not layer.is_batched(value):
        return aligned(layer, op, (self, mask, value), {})
    chosen = layer.batch(at._to_copy(layer.physical(value), self.dtype))
    return aligned(layer, at._where, (mask, chosen, self), {})
