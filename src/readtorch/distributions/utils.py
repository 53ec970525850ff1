# Tangled from chapters/a4_distributions/1_foundations.py — edit there, or here and run `readtorch sync`.
"""Parameters of distributions: broadcast, converted, computed late (twin of `torch/distributions/utils.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape. Numbers take dtype and device of the first tensor, else the default dtype.

    Raises ValueError for anything else.
    """
    if not all(isinstance(value, (Tensor, int, float, bool)) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((value for value in values if isinstance(value, Tensor)), None)
    like: dict[str, Any] = (
        {"dtype": torch.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    )
    tensors = [value if isinstance(value, Tensor) else torch.tensor(value, **like) for value in values]
    return tuple(torch.broadcast_tensors(*tensors))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value.flatten(value.dim() - dim).sum(-1) if dim else value


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log-odds (`is_binary`), or of logarithms known up to a constant, along the last dimension."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's precision, so that their logarithms are finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The other way round."""
    kept = clamp_probs(probs)
    return torch.log(kept) - torch.log1p(-kept) if is_binary else torch.log(kept)


class lazy_property:
    """A method computed when first asked for; its value then stands in the instance, where it is found before this descriptor."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            return vars(instance).setdefault(self.wrapped.__name__, self.wrapped(instance))


class _SuccessProbability:
    """`probs` and `logits` of trials with two outcomes: the one that was given, and the other computed from it when asked for."""

    def _take(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Keep the one that is given; return `others` in its dtype, all of one shape. ValueError unless exactly one is."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        *taken, self._param = broadcast_all(*others, given)
        setattr(self, name, self._param)
        return [other.type_as(self._param) for other in taken]

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> torch.Size:
        """The shape of the parameter."""
        return self._param.size()


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of each matrix, row after row. ValueError if `diag` lies outside the matrix."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows = torch.arange(n, device=mat.device)
    return mat[..., rows < rows.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of `tril_matrix_to_vec`. ValueError for a length that no triangle has."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square matrix."
        )
    size = round(n)
    rows = torch.arange(size, device=vec.device)
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[..., rows < rows.view(-1, 1) + (diag + 1)] = vec
    return matrix
