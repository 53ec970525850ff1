# Tangled from chapters/a4_distributions/1_foundations.py — edit there, or here and run `readtorch sync`.
"""The interface of all distributions (twin of `torch/distributions/distribution.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.utils import lazy_property


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
