# Tangled from chapters/a4_distributions/5b_several_variables.py — edit there, or here and run `readtorch sync`.
"""Student's t distribution (twin of `torch/distributions/studentT.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.chi2 import Chi2
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import _standard_normal, broadcast_all


class StudentT(Distribution):
    """A normal number over the root of a chi² number of `df` degrees of freedom over `df`."""

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return torch.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        spread = self.scale.pow(2) * self.df / (self.df - 2)
        return torch.where(self.df > 2, spread, torch.where(self.df > 1, math.inf, math.nan))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(StudentT, ("df", "loc", "scale"), batch_shape, _instance)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * (noise * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        y, df = (self._checked(value) - self.loc) / self.scale, self.df
        normalizer = (
            self.scale.log()
            + 0.5 * df.log()
            + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * df)
            - torch.lgamma(0.5 * (df + 1.0))
        )
        return -0.5 * (df + 1.0) * torch.log1p(y**2.0 / df) - normalizer

    def entropy(self) -> Tensor:
        df = self.df
        log_beta = torch.lgamma(0.5 * df) + math.lgamma(0.5) - torch.lgamma(0.5 * (df + 1))
        return (
            self.scale.log()
            + 0.5 * (df + 1) * (torch.digamma(0.5 * (df + 1)) - torch.digamma(0.5 * df))
            + 0.5 * df.log()
            + log_beta
        )
