# Tangled from chapters/a1_operators/z_batching_rules.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.functorch.batch_rules_helper import at, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer, map_tensors
from readtorch.c10.core.tensor_impl import TensorImpl

#: their results have a size that depends on elements, of which examples have different ones
DYNAMIC = frozenset(["_nonzero", "masked_select", "_unique", "_unique_consecutive"])


class Warned:
    """Whether `loop` says that it is one: `torch._C._functorch._set_vmap_fallback_warning_enabled`."""

    enabled = True


@rule("loop")
def loop(layer: VmapLayer, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """An operator without a rule: called for one example after the other, and the results are stacked."""
    name = entry.name.lstrip("_")
    if entry.name in DYNAMIC:
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
            f"aten::{name}: each example would give a result of its own size."
        )
    if not layer.size:
        raise RuntimeError(
            f"aten::{name} has no batching rule, and there is no example to call it for: vmap over 0 examples"
        )
    if Warned.enabled:
        warnings.warn(
            f"There is a performance drop because there is no batching rule for aten::{name}: it is called for one example after the other.",
            stacklevel=6,
        )

    def one(number: int) -> Callable[[Any], Any]:
        return lambda tensor: at.select(tensor._array.value, 0, number) if layer.is_batched(tensor) else tensor

    results = [call(*map_tensors(one(i), args), **map_tensors(one(i), kwargs)) for i in range(layer.size)]
    return _stacked(results)


def _stacked(results: list[Any]) -> Any:
    first = results[0]
    if isinstance(first, TensorImpl):
        return at.stack(results, 0)
    if isinstance(first, list | tuple):
        return tuple(_stacked(list(parts)) for parts in zip(*results, strict=True))
    return first


@rule("in place")
def in_place(
    layer: VmapLayer, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
) -> Any:
    """`NAME_`: written to the tensor of all examples, which must be one of many for that."""
    from readtorch.aten.functorch import batch_rules_helper as helper

    target = args[0] if args else kwargs["self"]
    if not layer.is_batched(target):
        raise RuntimeError(
            f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
            f"that has more elements than `self`: aten::{method} would write what differs from example to example into a "
            "tensor that is the same for all. Call the out-of-place operator, or make `self` of a batched tensor."
        )
    whole = layer.physical(target)
    if entry.pointwise is not None or entry.name in helper.ALIGNED or entry.name in ("copy_", "_fill_scalar_", "zero_"):
        rank = helper.rank_of(target)
        rest = map_tensors(lambda tensor: helper.padded(layer, _at_most(layer, tensor, rank), rank), args[1:])
        return call(whole, *rest, **map_tensors(lambda tensor: helper.padded(layer, tensor, rank), kwargs))
    if entry.name == "_fill_tensor_":
        return at.copy_(whole, helper.padded(layer, args[1], helper.rank_of(target)))
    found = helper.RULES.get(entry.name)
    if found is None or entry.name.endswith("_"):
        _loop_in_place(layer, call, args, kwargs)
        return None
    values = entry.schema.bind(method, args, kwargs)
    return at.copy_(whole, found(layer, helper.Operator(entry, entry.call), *values))


def _at_most(layer: VmapLayer, tensor: Any, rank: int) -> Any:
    """Leading dimensions of size 1 that the target does not have are left out, as broadcasting does."""
    while tensor._array.ndim > rank and tensor._array.shape[0] == 1:
        tensor = (
            layer.batch(at.select(layer.physical(tensor), 1, 0))
            if layer.is_batched(tensor)
            else at.select(tensor, 0, 0)
        )
    return tensor


def _loop_in_place(layer: VmapLayer, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
    for number in range(layer.size):

        def one(tensor: Any, number: int = number) -> Any:
            return at.select(tensor._array.value, 0, number) if layer.is_batched(tensor) else tensor

        call(*map_tensors(one, args), **map_tensors(one, kwargs))
