# Tangled from chapters/02_module/9b_functions_of_functions.py — edit there, or here and run `readtorch sync`.
"""Custom functions inside of transforms (twin of `torch/_functorch/autograd_function.py`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from readtorch.aten.functorch.dynamic_layer import (
    GradLayer,
    Layer,
    VmapLayer,
    map_tensors,
    tensors_in,
    unwrap_if_dead,
)
from readtorch.autograd.function import Function
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd import python_function

_MORE = "see https://docs.pytorch.org/docs/stable/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a custom function's `vmap` is told of the transform."""

    batch_size: int
    randomness: str


def custom_function_call(cls: Any, args: tuple) -> Any:
    """`cls.apply(*args)` with a transform entered: the innermost level decides, as for an operator."""
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
            f"setup_context staticmethod: {cls.__name__} keeps what backward needs while it computes; {_MORE}."
        )
    args = map_tensors(unwrap_if_dead, args)
    layer: Layer = state.layers[-1]
    if isinstance(layer, GradLayer):
        return _recorded(layer, cls, args)
    assert isinstance(layer, VmapLayer)
    if not any(layer.is_batched(tensor) for tensor in tensors_in(args)):
        return layer.below(cls.apply, *args)
    return _vectorized(layer, cls, args)


def _recorded(layer: GradLayer, cls: Any, args: tuple) -> Any:
    """A node on this level, whose forward is the same function one level down."""
    if not any(layer.owns(tensor) for tensor in tensors_in(args)):
        return map_tensors(layer.lift, layer.below(cls.apply, *args))
    inside = map_tensors(layer.as_constant, args)

    def forward(*given: Any) -> Any:
        values = tuple(value._array.value if isinstance(value, TensorImpl) else value for value in given)
        known = {id(value): shell for value, shell in zip(values, given, strict=True)}
        result = layer.below(cls.apply, *values)
        return map_tensors(lambda tensor: known.get(id(tensor)) or layer.lift(tensor), result)

    return python_function.apply(cls, cls._backward_cls(), inside, True, forward)


def _vectorized(layer: VmapLayer, cls: Any, args: tuple) -> Any:
    overrides = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and overrides:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod"
        )
    if not cls.generate_vmap_rule and not overrides:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            f"staticmethod or set generate_vmap_rule=True; {_MORE}."
        )
    dims = tuple(0 if isinstance(arg, TensorImpl) and layer.is_batched(arg) else None for arg in args)
    given = tuple(layer.physical(arg) if isinstance(arg, TensorImpl) else arg for arg in args)
    if overrides:
        output, out_dims = layer.below(cls.vmap, VmapInfo(layer.size, layer.randomness), dims, *given)
    else:
        output = layer.below(_generated(cls, layer, dims).apply, *given)
        out_dims = 0
    return _batched_again(layer, output, out_dims)


def _batched_again(layer: VmapLayer, output: Any, dim: Any) -> Any:
    if isinstance(output, tuple | list):
        dims = dim if isinstance(dim, tuple | list) else (dim,) * len(output)
        return type(output)(_batched_again(layer, part, at) for part, at in zip(output, dims, strict=True))
    if dim is None or not isinstance(output, TensorImpl):
        return output
    return layer.batch(output if dim == 0 else layer.below(_to_front, output, dim))


def _to_front(tensor: Any, dim: int) -> Any:
    return tensor.movedim(dim, 0)


class _Context:
    """What `setup_context` and `backward` of a vectorized function see in place of their node."""

    def __init__(self) -> None:
        self.saved_tensors: tuple = ()
        self.needs_input_grad: tuple = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.plain = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        raise RuntimeError("generate_vmap_rule=True: a function that writes to its inputs needs a vmap staticmethod")

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize = value


def _generated(cls: Any, layer: VmapLayer, dims: tuple) -> Any:
    """The function of all examples: forward, setup_context and backward of one, under a `vmap` each."""
    inner = VmapLayer(layer.size, layer.randomness)
    context = _Context()

    def batched(values: tuple) -> tuple:
        return tuple(value if dim is None else inner.batch(value) for value, dim in zip(values, dims, strict=True))

    class Vectorized(Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            with inner:
                output = cls.forward(*batched(values))
            return map_tensors(inner.full, output)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            context.needs_input_grad = ctx.needs_input_grad
            with inner:
                cls.setup_context(context, batched(inputs), map_tensors(inner.batch, output))
            ctx.mark_non_differentiable(*(inner.physical(tensor) for tensor in getattr(context, "plain", ())))
            ctx.set_materialize_grads(getattr(context, "materialize", True))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with inner:
                found = cls.backward(context, *(None if grad is None else inner.batch(grad) for grad in grads))
            results = found if isinstance(found, tuple) else (found,)
            return tuple(_for_input(inner, grad, dim) for grad, dim in zip(results, dims, strict=True))

    Vectorized.__name__ = Vectorized.__qualname__ = f"Vmapped{cls.__name__}"
    return Vectorized


def _for_input(inner: VmapLayer, grad: Any, dim: int | None) -> Any:
    """The gradient of an input: one per example, or of one that all share the sum."""
    if grad is None:
        return None
    return inner.full(grad) if dim is not None else inner.full(grad).sum(0)
