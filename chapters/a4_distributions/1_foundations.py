# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A distribution, and what may be asked of it
#
# A policy that draws an action, a variational autoencoder that draws a code, a loss that is a likelihood: each needs three things of a distribution: numbers drawn from it, the logarithm of its density, and gradients of both by its parameters.
# `torch.distributions` holds some forty of them under one interface. This chapter builds that interface, thirty of the distributions, the transforms between them and the table of their divergences.
#
# Three shapes meet in every call, and most mistakes are between them:
#
# | | is the shape of | for `MultivariateNormal(torch.zeros(5, 3), torch.eye(3)).sample((7,))` |
# |---|---|---|
# | `sample_shape` | what was asked for: independent and equal draws | `(7,)` |
# | `batch_shape` | independent, not equal: one set of parameters each | `(5,)` |
# | `event_shape` | one draw, whose parts depend on each other | `(3,)` |
#
# A draw has all three in this order; `log_prob` gives one number for each event, so the last is gone from its result.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: distributions/constraints.py
"""What a parameter or a value may be (twin of `torch/distributions/constraints.py`)."""

# %%
#| into: distributions/constraints.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor

# %% [markdown]
# ## Constraints
#
# `Normal(0.0, -1.0)` is refused when it is made, and `log_prob` of a value outside the support when it is asked for. Both are the same question: does each event of this tensor lie in a set? A constraint is the set. `event_dim` says how many
# dimensions at the end make one answer (a simplex asks whole rows), `is_discrete` whether its members can be counted.


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#Constraint
class Constraint:
    """A set of values. `check` gives one truth for each event of its argument."""

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """True where an event of `value` is in the set: `value.shape` without the last `event_dim` dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


# %% [markdown]
# The support of `Uniform(low, high)` is not known before there is a `low`. On the class it can say no more than *depends*; on an instance it is an ordinary constraint. One object plays both parts: a property that is itself a constraint, found as such
# when the class is asked and called when an instance is.


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#_Dependent
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


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#_DependentProperty
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


# %% [markdown]
# ## The sets
#
# Those of one number first.


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#_Boolean
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


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#_IntegerInterval
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


# %% [markdown]
# Those of a vector or a matrix give one truth for the whole of it. A row of probabilities need not sum to one exactly: single precision leaves $10^{-6}$.


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#_OneHot
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


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#_LowerCholesky
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


# %% [markdown]
# Several events seen as one are checked together: that is all `independent` adds.


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#_IndependentConstraint
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


# %%
#| into: distributions/constraints.py
#| upstream: torch/distributions/constraints.py#dependent
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


# %%
#| claim: a constraint on whole rows gives one truth for each row
def _(torch):
    rows = torch.tensor([[0.2, 0.8], [0.5, 0.6], [1.0, 0.0]])
    assert torch.distributions.constraints.simplex.check(rows).tolist() == [True, False, True]


# %% [markdown]
# ## Parameters
#
# `Normal(torch.zeros(3), 2.0)` has one scale for three means: parameters are broadcast to a common shape, numbers become tensors of the dtype of the tensors beside them, and what they have in common is the batch. A categorical has its parameter twice,
# as probabilities and as their logarithms up to a constant. The one that was not given is computed when somebody asks for it: a descriptor without `__set__`, which writes its value over itself in the instance. The distributions of trials with two outcomes have this pair in common, with log-odds for the logarithms: `_SuccessProbability`.

# %%
#| into: distributions/utils.py
"""Parameters of distributions: broadcast, converted, computed late (twin of `torch/distributions/utils.py`)."""

# %%
#| into: distributions/utils.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor

# %%
#| into: distributions/utils.py
#| upstream: torch/distributions/utils.py#broadcast_all
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


# %%
#| into: distributions/utils.py
#| upstream: torch/distributions/utils.py#logits_to_probs
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


# %%
#| into: distributions/utils.py
#| upstream: torch/distributions/utils.py#lazy_property
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


# %%
#| into: distributions/utils.py
#| upstream: torch/distributions/utils.py#tril_matrix_to_vec
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


# %% [markdown]
# ## The base class
#
# What is checked when a distribution is made can be turned off for one (`validate_args=False`) or for all; under `python -O` it is off from the start, since upstream ties the default to `__debug__`.

# %%
#| into: distributions/distribution.py
"""The interface of all distributions (twin of `torch/distributions/distribution.py`)."""

# %%
#| into: distributions/distribution.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.utils import lazy_property


# %%
#| into: distributions/distribution.py
#| upstream: torch/distributions/distribution.py#Distribution
class Distribution:
    """Something that can be drawn from. `batch_shape` numbers independent sets of parameters, `event_shape` is one draw's.

    Raises ValueError, if checking is on, for parameters outside `arg_constraints`.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: ClassVar[Any] = {}
    support: Any = None

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check parameters and values unless told otherwise. ValueError for anything but a bool."""
        if value not in (True, False):
            raise ValueError(f"validate_args must be True or False, got {value!r}")
        Distribution._validate_args = value

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> Size:
        """One set of parameters for each index."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw."""
        return self._event_shape


# %%
#| into: distributions/distribution.py
#| upstream: torch/distributions/distribution.py#Distribution.rsample
class Distribution(Distribution):
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`, without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws as a differentiable function of the parameters and of noise that does not depend on them."""
        raise NotImplementedError

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of density or probability at `value`; one number for each event."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw not above `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The number that a draw stays below with probability `value`."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expectation of `-log_prob`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a new first dimension; repeated for each set of parameters if `expand`."""
        raise NotImplementedError

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its parameters broadcast to `batch_shape`."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expectation of a draw."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The expectation of the squared distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def perplexity(self) -> Tensor:
        """`exp` of the entropy."""
        return torch.exp(self.entropy())


# %% [markdown]
# What subclasses share: the shape of what is drawn, the check of a value, the room that an enumerated support leaves for the batch, and an empty instance for `expand`, which must not run `__init__` and check again what was checked.


# %%
#| into: distributions/distribution.py
#| upstream: torch/distributions/distribution.py#Distribution._validate_sample
class Distribution(Distribution):
    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = value.dim() - len(self._event_shape)
        if value.shape[max(events, 0) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        for i, j in zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape), strict=False):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {self._batch_shape + self._event_shape}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if support is not None and not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Tensor) -> Tensor:
        """`value`. ValueError, if checking is on, for one that no draw can have."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _numbered(self, values: Tensor, expand: bool) -> Tensor:
        """Events along the first dimension, with the batch's dimensions after it; of size 1, or of the batch's sizes (`expand`)."""
        batch = len(self._batch_shape)
        values = values[(slice(None),) + (None,) * batch]
        return values.expand((-1, *self._batch_shape, *values.shape[1 + batch :])) if expand else values

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]  # compared, not called
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(self, cls: type, names: Sequence[str], batch_shape: Any, _instance: Any, event: int = 0) -> Any:
        """A copy whose tensors `names` (those that exist) are broadcast to `batch_shape` and their last `event` dimensions."""
        new = self._get_checked_instance(cls, _instance)
        batch_shape = Size(batch_shape)
        for name in names:
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(new, name, value.expand(batch_shape + value.shape[value.dim() - event :]))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        values = ((name, self.__dict__[name]) for name in names)
        return f"{type(self).__name__}({', '.join(f'{k}: {v if v.numel() == 1 else v.size()}' for k, v in values)})"


# %% [markdown]
# ### Exponential families
#
# Many densities have the form $h(x)\exp(\eta \cdot t(x) - A(\eta))$. Their entropy needs no formula of its own: the gradient of the log normalizer $A$ is the mean of $t$, and autograd can take that gradient.

# %%
#| into: distributions/exp_family.py
"""Densities whose logarithm is linear in their natural parameters (twin of `torch/distributions/exp_family.py`)."""

# %%
#| into: distributions/exp_family.py
#| imports
from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions.distribution import Distribution


# %%
#| into: distributions/exp_family.py
#| upstream: torch/distributions/exp_family.py#ExponentialFamily
class ExponentialFamily(Distribution):
    """Subclasses give the natural parameters, the log normalizer, and the mean of log h(x)."""

    _mean_carrier_measure: float = 0.0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """A − η · ∇A − E[log h], the gradient by autograd."""
        natural = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        with torch.enable_grad():
            log_normalizer = self._log_normalizer(*natural)
            gradients = torch.autograd.grad(log_normalizer.sum(), natural, create_graph=True)
        result = log_normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(natural, gradients, strict=True):
            product = parameter * gradient
            result = result - product.reshape((*self._batch_shape, -1)).sum(-1)
        return result
