# Tangled from chapters/a4_distributions/1_foundations.py — edit there, or here and run `readtorch sync`.
"""What a parameter or a value may be (twin of `torch/distributions/constraints.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor


class Constraint:
    """A set of values. `check` gives one truth for each event of its argument."""

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """True where an event of `value` is in the set: `value.shape` without the last `event_dim` dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


class _Dependent(Constraint):
    """A set that depends on parameters. What is known of it without them, its makers say; what is not raises NotImplementedError."""

    def __init__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        self._known: dict[str, Any] = {"is_discrete": is_discrete, "event_dim": event_dim}

    def _ask(self, name: str) -> Any:
        answer = self._known[name]
        if answer is None:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return answer

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        """Whether its members can be counted."""
        return self._ask("is_discrete")

    @property
    def event_dim(self) -> int:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        """How many dimensions one event has."""
        return self._ask("event_dim")

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> _Dependent:
        return _Dependent(
            is_discrete=self._known["is_discrete"] if is_discrete is None else is_discrete,
            event_dim=self._known["event_dim"] if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        """Without parameters there is nothing to check against: ValueError."""
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property of distributions whose value is a constraint; on the class, a constraint that depends on the instance."""

    def __init__(
        self, fn: Callable[..., Any] | None = None, *, is_discrete: bool | None = None, event_dim: int | None = None
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any = None, **known: Any) -> Any:
        """`@dependent_property(is_discrete=…, event_dim=…)` above a method."""
        return _DependentProperty(fn, **self._known)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on parameters that it does not have."""
    return isinstance(constraint, _Dependent)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return value.eq(0) | value.eq(1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value.eq(value)  # false for NaN alone


class _Bounded(Constraint):
    """Numbers between bounds; a bound is None where there is none, and belongs to the set where it says so."""

    def __init__(
        self, lower: Any, upper: Any, *, closed: tuple[bool, bool] = (True, True), whole: bool = False
    ) -> None:
        self.lower_bound, self.upper_bound = lower, upper
        self._closed, self.is_discrete = closed, whole

    def check(self, value: Tensor) -> Tensor:
        inside = (value % 1).eq(0) if self.is_discrete else value.eq(value)
        if self.lower_bound is not None:
            inside = inside & (self.lower_bound <= value if self._closed[0] else self.lower_bound < value)
        if self.upper_bound is not None:
            inside = inside & (value <= self.upper_bound if self._closed[1] else value < self.upper_bound)
        return inside

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        return f"{type(self).__name__.removeprefix('_')}({', '.join(f'{k}={v}' for k, v in bounds.items() if v is not None)})"


class _IntegerInterval(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound, whole=True)


class _IntegerGreaterThan(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound, None, whole=True)


class _GreaterThan(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound, None, closed=(False, True))


class _GreaterThanEq(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound, None)


class _LessThan(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound, closed=(True, False))


class _Interval(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound)


class _HalfOpenInterval(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound, closed=(True, False))


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return (value.eq(0) | value.eq(1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return torch.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=torch.bool, device=value.device)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return value.tril().eq(value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        return torch.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return torch.linalg.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return torch.linalg.cholesky_ex(value).info == 0 if symmetric.all() else symmetric


class _IndependentConstraint(Constraint):
    """The last `reinterpreted_batch_ndims` batch dimensions of a constraint taken into its events."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        each = self.base_constraint.check(value)
        if each.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return each.reshape((*each.shape[: each.dim() - self.reinterpreted_batch_ndims], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
