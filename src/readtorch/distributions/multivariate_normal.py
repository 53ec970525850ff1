# Tangled from chapters/a4_distributions/5b_several_variables.py — edit there, or here and run `readtorch sync`.
"""The multivariate normal distribution (twin of `torch/distributions/multivariate_normal.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import _standard_normal, lazy_property


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Each matrix by each vector."""
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor: Tensor, away: Tensor) -> Tensor:
    """awayᵀ (L Lᵀ)⁻¹ away, for factors L and vectors of broadcast batches."""
    shape = torch.broadcast_shapes(factor.shape[:-1], away.shape)
    solved = torch.linalg.solve_triangular(
        factor.expand(shape + shape[-1:]), away.expand(shape).unsqueeze(-1), upper=False
    )
    return solved.squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse, without the inverse: that of the matrix flipped in both directions, flipped back, transposed and solved."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    upper = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(upper, identity.expand_as(upper), upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors around `loc`. ValueError unless exactly one of the three matrices is given."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        matrices = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(matrices) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = matrices.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch_shape, -1))
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return torch.matmul(factor, factor.mT).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Its inverse."""
        inverse = torch.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(MultivariateNormal, ("loc",), batch_shape, _instance, event=1)
        for name in ("scale_tril", "covariance_matrix", "precision_matrix"):
            if name in self.__dict__:
                setattr(
                    new, name, self.__dict__[name].expand(Size(batch_shape) + self._event_shape + self._event_shape)
                )
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, self._checked(value) - self.loc)
        return -0.5 * distance - self._log_volume()

    def entropy(self) -> Tensor:
        return (self._log_volume() + 0.5 * self._event_shape[0]).expand(self._batch_shape)

    def _log_volume(self) -> Tensor:
        """Half the logarithm of |2πΣ|: that of the factor's diagonal, whose product is the root of the determinant, and √2π for each dimension."""
        widths = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1)
        return (math.sqrt(2 * math.pi) * widths).log().sum(-1)
