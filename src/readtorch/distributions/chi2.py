# Tangled from chapters/a4_distributions/2_continuous.py — edit there, or here and run `readtorch sync`.
"""The chi² distribution (twin of `torch/distributions/chi2.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.gamma import Gamma


class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
