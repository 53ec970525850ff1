# Tangled from chapters/00_tensor/13d_levels_of_transforms.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.functorch.batched_tensor_impl import BatchedArray
from readtorch.aten.functorch.tensor_wrapper import TensorWrapper, WrappedArray, is_dead, tensor_of, unwrap_if_dead
from readtorch.c10.core import autograd_state
from readtorch.c10.core.autograd_state import counts, state
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.c10.core.tensor_impl import TensorImpl

GO_ON: Any = object()
"""What `dispatch` returns where the operator's ordinary path is the right one: all its tensors belong to the innermost level, which records."""

#: what is drawn at random, and is asked of `vmap`'s `randomness` even where no tensor is batched
RANDOM: set[str] = set()


class Layer:
    """One transform that has been entered. `state.layers` holds them, the innermost last; calls go to that one."""

    def __init__(self) -> None:
        self.level = 0

    def __enter__(self) -> Any:
        if not state.layers:
            counts.change(special=1)
        self.level = len(state.layers) + 1
        state.layers = (*state.layers, self)
        return self

    def __exit__(self, *exception: Any) -> None:
        state.layers = state.layers[:-1]
        if not state.layers:
            counts.change(special=-1)

    def lift(self, tensor: Any) -> Any:
        """A tensor made inside: as this level has it."""
        return tensor

    def below(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function on tensors of the level below, as if this level were not there."""
        before = state.layers
        state.layers = before[: before.index(self)] if self in before else before
        try:
            return function(*args, **kwargs)
        finally:
            state.layers = before

    def process(
        self, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
    ) -> Any:
        """What a call of an operator gives here."""
        raise NotImplementedError

    def refuse_captured(self, method: str, tensor: Any) -> None:
        """RuntimeError for a write to a tensor that this level must leave alone."""

    def outlived(self, tensor: Any) -> Any:
        """The value of a tensor of this level after the level has ended."""
        raise NotImplementedError


class GradLayer(Layer):
    """A level of its own for autograd. Its tensors wrap those of the level below, which cannot tell that they are recorded."""

    def __init__(self) -> None:
        super().__init__()
        #: Recording outside of this level is what it was when the level began; `no_grad` inside is no one else's business.
        self.outer_grad_mode = state.grad_mode

    def lift(self, tensor: Any) -> Any:
        array = tensor._array
        if isinstance(array, WrappedArray) and (array.layer is self or array.layer not in state.layers):
            return tensor
        return tensor_of(TensorWrapper(tensor, self))

    def owns(self, tensor: Any) -> bool:
        """Does this level record it?"""
        array = tensor._array
        return array.__class__ is TensorWrapper and array.layer is self

    def below(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode = state.grad_mode
        if mode and not self.outer_grad_mode:
            autograd_state.set_grad_enabled(False)
        try:
            return super().below(function, *args, **kwargs)
        finally:
            autograd_state.set_grad_enabled(mode)

    def process(
        self, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
    ) -> Any:
        found = list(tensors_in(args, kwargs))
        if any(is_dead(tensor) for tensor in found):
            return call(*map_tensors(unwrap_if_dead, args), **map_tensors(unwrap_if_dead, kwargs))
        owned = [self.owns(tensor) for tensor in found]
        if method.endswith("_") and found and not owned[0]:
            self.refuse_captured(method, found[0])
        if any(owned):
            if all(owned):
                return GO_ON
            return call(*map_tensors(self.as_constant, args), **map_tensors(self.as_constant, kwargs))
        return map_tensors(self.lift, self.below(call, *args, **kwargs))

    def as_constant(self, tensor: Any) -> Any:
        """Any tensor as one of this level; without history unless it has one here."""
        return self.lift(unwrap_if_dead(tensor))

    def refuse_captured(self, method: str, tensor: Any) -> None:
        """RuntimeError for a write to a tensor from outside: its derivative would be lost with this level."""
        if not self.owns(unwrap_if_dead(tensor)):
            raise RuntimeError(
                "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
                f"(aten::{method}) that would mutate a captured Tensor. This is not supported: make the tensor an argument of "
                "the function, or write to a clone() of it."
            )

    def outlived(self, tensor: Any) -> Any:
        return tensor._array.value


class VmapLayer(Layer):
    """The level of `vmap` over `size` examples. `randomness`: "error", "same" or "different"."""

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        load_rules()
        self.size = size
        self.randomness = randomness

    def check_randomness(self) -> None:
        """RuntimeError for a random operation where nobody said what it should be."""
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                "randomness flags on vmap or perform the randomness operation out of vmap"
            )

    def batch(self, value: Any) -> Any:
        """The tensor that stands for one example of `value`, whose first dimension counts them."""
        return tensor_of(BatchedArray(value, self))

    def is_batched(self, tensor: Any) -> bool:
        """Does it differ from example to example?"""
        array = tensor._array
        return array.__class__ is BatchedArray and array.layer is self

    def physical(self, tensor: Any) -> Any:
        """The tensor of all examples; a tensor that is the same for all as it is."""
        array = tensor._array
        return array.value if array.__class__ is BatchedArray and array.layer is self else tensor

    def full(self, tensor: Any) -> Any:
        """The tensor of all examples; one that is the same for all is repeated, without a copy."""
        array = tensor._array
        if array.__class__ is BatchedArray and array.layer is self:
            return array.value
        return dispatcher.autograd.expand(tensor, (self.size, *array.shape))

    def process(
        self, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
    ) -> Any:
        args, kwargs = map_tensors(unwrap_if_dead, args), map_tensors(unwrap_if_dead, kwargs)
        batched = any(self.is_batched(tensor) for tensor in tensors_in(args, kwargs))
        if not batched and entry.name not in RANDOM:
            return self.below(call, *args, **kwargs)
        return self.below(batching.apply, self, entry, call, args, kwargs, method)

    def outlived(self, tensor: Any) -> Any:
        raise RuntimeError(
            "a Tensor of a vmap that has ended was used: it stood for one of many examples, inside of it only"
        )


class Batching:
    """Where the batching rules are put; they are written with operators, and so above this file."""

    apply: Any = None


batching = Batching()


def load_rules() -> None:
    """Import the rules, when somebody first enters a `vmap`."""
    if batching.apply is None:
        from readtorch.aten import functorch

        functorch.load_rules()


def dispatch(
    entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str = ""
) -> Any:
    """A call in which a tensor of a transform was met, or a random operator inside of one: the innermost level decides."""
    if not state.layers:
        return call(*map_tensors(unwrap_if_dead, args), **map_tensors(unwrap_if_dead, kwargs))
    return state.layers[-1].process(entry, call, args, kwargs, method or entry.name)


def tensors_in(*values: Any) -> Iterator[Any]:
    """The tensors among values, in lists, tuples and dictionaries of them."""
    for value in values:
        if isinstance(value, TensorImpl):
            yield value
        elif value.__class__ in (list, tuple):
            yield from tensors_in(*value)
        elif value.__class__ is dict:
            yield from tensors_in(*value.values())


def map_tensors(function: Callable[[Any], Any], values: Any) -> Any:
    """The same nest with `function` applied to its tensors."""
    if isinstance(values, TensorImpl):
        return function(values)
    if isinstance(values, list | tuple):
        mapped = [map_tensors(function, value) for value in values]
        return (
            mapped if isinstance(values, list) else type(values)(mapped) if type(values) is not tuple else tuple(mapped)
        )
    if values.__class__ is dict:
        return {key: map_tensors(function, value) for key, value in values.items()}
    return values


def grad_wrapper_kernel(entry: OperatorEntry) -> Callable[..., Any]:
    """The operator in the column of `TensorWrapper`: called once more, one level down."""

    def kernel(*raw: Any, **options: Any) -> Any:
        layer = state.layers[-1]
        source = next((value for value in raw if value.__class__ is TensorWrapper), None)
        inside = layer.below(entry.call, *_values(raw), **{name: _values(option) for name, option in options.items()})
        return _wrapped(inside, layer, source)

    return kernel


def _values(raw: Any) -> Any:
    if raw.__class__ is TensorWrapper:
        return raw.value
    return type(raw)(_values(item) for item in raw) if raw.__class__ in (list, tuple) else raw


def _wrapped(inside: Any, layer: Layer, source: Any) -> Any:
    if isinstance(inside, TensorImpl):
        if source is not None and inside is source.value:
            return source
        array = TensorWrapper(inside, layer)
        if inside._view is not None:
            array.base = source
        return array
    if isinstance(inside, list | tuple):
        return [_wrapped(item, layer, source) for item in inside]
    return inside


dispatcher.KERNEL_MAKERS[DispatchKey.FuncTorchGradWrapper] = grad_wrapper_kernel


def made_like(function: Callable[..., Any], tensor: Any, options: dict[str, Any]) -> Any:
    """`zeros_like` and its family: a tensor like another one, which is one of many if that is."""
    tensor = unwrap_if_dead(tensor)
    if not state.layers:
        return function(tensor, **options)
    layer = state.layers[-1]
    if tensor._array.__class__ is BatchedArray and tensor._array.layer is layer:
        return layer.batch(layer.below(function, tensor._array.value, **options))
    if tensor._array.__class__ is TensorWrapper and tensor._array.layer is layer:
        tensor = tensor._array.value
    return layer.lift(layer.below(function, tensor, **options))


def made_beside(tensor: Any, make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    """`x.new_zeros` and its family: a tensor of any shape, of which there are as many as of `x`."""
    tensor = unwrap_if_dead(tensor)
    if not isinstance(tensor._array, WrappedArray):
        return make(shape)
    layer, value = tensor._array.layer, tensor._array.value
    if tensor._array.__class__ is BatchedArray:
        return layer.batch(layer.below(made_beside, value, make, (layer.size, *shape)))
    return layer.lift(layer.below(made_beside, value, make, shape))


def drawn(make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    """`torch.rand` and its family: one draw, or one for every example of the innermost `vmap`."""
    layer = state.layers[-1]
    if not isinstance(layer, VmapLayer):
        return layer.lift(layer.below(make, shape))
    layer.check_randomness()
    if layer.randomness == "same":
        return layer.below(make, shape)
    return layer.batch(layer.below(make, (layer.size, *shape)))


def detached_below(tensor: Any, detach: Callable[[Any], Any]) -> Any:
    """A tensor of a transform without history, here and on all levels below."""
    array = tensor._array
    return tensor_of(type(array)(array.layer.below(detach, array.value), array.layer))
