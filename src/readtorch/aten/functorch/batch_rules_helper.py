# Tangled from chapters/a1_operators/z_batching_rules.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.functorch.dynamic_layer import RANDOM, VmapLayer, batching, map_tensors, tensors_in
from readtorch.aten.native.type_properties import result_type
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

at = dispatcher.autograd
"""The operators on tensors, with which rules are written."""

RULES: dict[str, Callable[..., Any]] = {}
"""The rule of each operator that has one: a function of the level, the operator, and the value of every parameter."""

ALIGNED: set[str] = set()
"""Operators that go element by element, whose operands are broadcast."""


class Operator:
    """An operator as rules call it: with the value of every parameter."""

    __slots__ = ("call", "entry")

    def __init__(self, entry: OperatorEntry, call: Callable[..., Any]) -> None:
        self.entry = entry
        self.call = call

    def __call__(self, *values: Any) -> Any:
        schema = self.entry.schema
        if schema.var_positional:
            return self.call(*values[:-1], *values[-1])
        first = said = len(schema.names) - len(schema.keyword_only)
        while said and values[said - 1] is None and schema.defaults.get(schema.names[said - 1], 0) is None:
            said -= 1  # left out, as it was: some options may not be None
        return self.call(*values[:said], **dict(zip(schema.keyword_only, values[first:], strict=True)))


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the batching rule of these operators. It gives tensors of all examples."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return decorate


class Same:
    """What a rule returns in place of a tensor that is the same for all examples."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def apply(
    layer: VmapLayer, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
) -> Any:
    """A call of an operator with a batched tensor among its arguments, or of a random one."""
    if entry.name in RANDOM:
        return finished(
            layer, entry, RULES["random"](layer, Operator(entry, call), *entry.schema.bind(method, args, kwargs))
        )
    if method.endswith("_"):
        return RULES["in place"](layer, entry, call, args, kwargs, method)
    if entry.pointwise is not None or entry.name in ALIGNED:
        return finished(layer, entry, aligned(layer, call, args, kwargs))
    found = RULES.get(entry.name)
    if found is None:
        return finished(layer, entry, RULES["loop"](layer, entry, call, args, kwargs))
    return finished(layer, entry, found(layer, Operator(entry, call), *entry.schema.bind(entry.name, args, kwargs)))


batching.apply = apply


def finished(layer: VmapLayer, entry: OperatorEntry, result: Any) -> Any:
    """Tensors of all examples as the tensors of one."""
    if isinstance(result, TensorImpl):
        return layer.batch(result)
    if isinstance(result, Same):
        return result.tensor
    if isinstance(result, list | tuple):
        parts = [finished(layer, entry, part) for part in result]
        return entry.result_class(parts) if entry.result_class is not None else tuple(parts)
    return result


def rank_of(tensor: Any) -> int:
    """How many dimensions one example has."""
    return tensor._array.ndim


def padded(layer: VmapLayer, tensor: Any, rank: int) -> Any:
    """The tensor of all examples, with dimensions of size 1 behind the first so that each example has `rank` of them."""
    value = layer.physical(tensor)
    missing = rank - rank_of(tensor)
    if value is tensor or missing <= 0:
        return value
    shape = value._array.shape
    return at.reshape(value, (shape[0], *(1,) * missing, *shape[1:]))


def aligned(layer: VmapLayer, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Element by element: what broadcasting would put in front of an example's dimensions goes behind the batch's."""
    found = list(tensors_in(args, kwargs))
    rank = max(rank_of(tensor) for tensor in found)
    mixed = len({tensor._array.dtype for tensor in found}) > 1

    def fit(tensor: Any) -> Any:
        if mixed and not rank_of(tensor) and tensor._array.dtype.kind != "b":
            if not rank:  # numbers alone are equals, of which one must not look wider than the others
                return layer.physical(tensor) if layer.is_batched(tensor) else at.reshape(tensor, (1,))
            if layer.is_batched(
                tensor
            ):  # a number yields to the dtype of what has dimensions; the batch must not give it one
                kind = result_type([other._array for other in found])
                return padded_value(layer, at._to_copy(layer.physical(tensor), kind), rank)
        return padded(layer, tensor, rank)

    return call(*map_tensors(fit, args), **map_tensors(fit, kwargs))


def padded_value(layer: VmapLayer, numbers: Any, rank: int) -> Any:
    """A number for each example, with `rank` dimensions of size 1."""
    return at.reshape(numbers, (layer.size, *(1,) * rank))


def dim_of(dim: Any, rank: int) -> int:
    """Where a dimension of one example stands in the tensor of all."""
    return maybe_wrap_dim(dim, rank) + 1


def leading_scalar(value: Any, rank: int) -> Any:
    """The tensor of all examples, each with one dimension at least: a number may be asked for its dimension 0."""
    return value if rank else at.unsqueeze(value, -1)
