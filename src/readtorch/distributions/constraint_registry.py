# Tangled from chapters/a4_distributions/4_transforms.py — edit there, or here and run `readtorch sync`.
"""Transforms by the set that they reach (twin of `torch/distributions/constraint_registry.py`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from readtorch.distributions import constraints, transforms
from readtorch.distributions.constraints import Constraint


class ConstraintRegistry(Constraint):
    """From a type of constraint to what makes a transform onto one."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Give a type of constraints (or that of an instance) its factory; without one, a decorator. TypeError for another object."""
        if factory is None:
            return partial(self.register, constraint)
        match constraint:
            case Constraint():
                self._registry[type(constraint)] = factory
            case type() if issubclass(constraint, Constraint):
                self._registry[constraint] = factory
            case _:
                raise TypeError(f"Expected a Constraint subclass or instance, but got {constraint!r}")
        return factory

    def __call__(self, constraint: Constraint) -> Any:
        """The transform for `constraint`. NotImplementedError where nobody registered one."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _below(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _above(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0.0, 1.0):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _independent(table: ConstraintRegistry) -> Callable[[Any], Any]:
    return lambda constraint: transforms.IndependentTransform(
        table(constraint.base_constraint), constraint.reinterpreted_batch_ndims
    )


for _table in (biject_to, transform_to):
    _table.register(constraints.independent, _independent(_table))
    _table.register(constraints.real, lambda constraint: transforms.identity_transform)
    _table.register(constraints.greater_than, _above)
    _table.register(constraints.greater_than_eq, _above)
    _table.register(constraints.less_than, _below)
    _table.register(constraints.interval, _between)
    _table.register(constraints.half_open_interval, _between)
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
