# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.csrc.autograd import python_function
from readtorch.csrc.autograd.python_function import FunctionNode

FunctionCtx = FunctionNode


class BackwardCFunction(FunctionNode):
    """The node class from which each custom function's own node class is made."""

    __slots__ = ()

    def name(self) -> str:
        return type(self).__name__

    def apply_boxed(self, *args: Any) -> Any:
        """The backward that its function defines, with the gradients as they are given."""
        return self._forward_cls.backward(self, *args)

    def apply_jvp(self, *args: Any) -> Any:
        """The forward-mode derivative that its function defines."""
        return self._forward_cls.jvp(self, *args)


class FunctionMeta(type):
    """Makes, for each custom function `F`, the class of its nodes, `FBackward`."""

    def __init__(cls, name: str, bases: tuple, attributes: dict[str, Any]) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__slots__": ()})
        super().__init__(name, bases, attributes)
        if "vjp" in attributes and cls.__mro__[1] is not object:
            overridden = _backward_of(cls) is not _backward_of(cls.__mro__[-2])
            type.__setattr__(cls, "backward", staticmethod(_refuse_both if overridden else attributes["vjp"]))


def _backward_of(function: Any) -> Any:
    return function.backward


def _refuse_both(ctx: Any, *grads: Any) -> Any:
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed: implement one of them."
    )


class Function(metaclass=FunctionMeta):
    """Base of custom functions: override `forward` and `backward` as static methods, call `apply`.

    `forward(ctx, *args)` computes; or `forward(*args)` with `setup_context(ctx, inputs, output)` beside it.
    `backward(ctx, *grad_outputs)` returns one gradient, or None, per argument of forward.
    """

    _backward_cls: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated: methods on autograd functions are static and are used on the class itself, by {type(self).__name__}.apply(...). "
            "It will raise an error in a later version.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated: make forward and backward static methods. "
            "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Keep on `ctx` what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function: backward reached it."
        )

    #: whether `vmap` may vectorize `forward`, `setup_context` and `backward` as they are
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """Compute for all examples at once; return the output and the dimension that counts them in it."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record it."""
        two_step = cls.setup_context is not Function.setup_context
        if kwargs:
            import inspect

            bound = inspect.signature(cls.forward).bind(*(args if two_step else (None, *args)), **kwargs)
            bound.apply_defaults()
            args = bound.args if two_step else bound.args[1:]
        if autograd_state.state.layers:
            from readtorch._functorch.autograd_function import custom_function_call

            return custom_function_call(cls, args)
        return python_function.apply(cls, cls._backward_cls(), args, two_step)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Compute the outputs' tangents from the inputs', where a function defines it. Nothing here asks for it."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )


if "vjp" not in vars(Function):
    Function.vjp = Function.backward  # type: ignore[attr-defined]  # the older name


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a `backward` that is itself not differentiable: differentiating through it is an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = _C.is_grad_enabled()
        autograd_state.set_grad_enabled(False)
        try:
            outputs = fn(ctx, *args)
        finally:
            autograd_state.set_grad_enabled(recording)
        if not recording or not any(isinstance(arg, _C.TensorBase) and arg.requires_grad for arg in args):
            return outputs
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        failing = tuple(
            value if value is None else _DelayedError.apply(value.detach().requires_grad_()) for value in values
        )
        return failing if isinstance(outputs, tuple) else failing[0]

    return wrapper


class _DelayedError(Function):
    """The identity, whose derivative is an error."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


class InplaceFunction(Function):
    """A function that may write into its input. Kept for old code: `ctx.mark_dirty` says it today."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _tensors_in(value: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dicts, one after the other; TypeError for anything else."""
    if value is None:
        return []
    if isinstance(value, _C.TensorBase):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected tensors in lists, tuples and dicts, but got {type(value).__name__}")
    return [tensor for part in value for tensor in _tensors_in(part)]


class NestedIOFunction(Function):
    """A function whose arguments and results are nested. Kept for old code, which defines the `_extended` methods.

    It cannot be called: what it calls was removed with the non-static functions.
    """

    def forward(self, *args: Any) -> Any:  # type: ignore[override]  # a method here, static in the base
        """The tensors of what `forward_extended` returns, one after the other."""
        self._nested_output = self.forward_extended(*args)
        return tuple(_tensors_in(self._nested_output))

    def backward(self, *gradients: Any) -> Any:  # type: ignore[override]  # a method here, static in the base
        """The tensors of what `backward_extended` returns."""
        return tuple(_tensors_in(self.backward_extended(*gradients)))

    def save_for_backward(self, *args: Any) -> None:
        """Keep the tensors in nested arguments."""
        self.to_save = tuple(_tensors_in(args))
        self._to_save_nested = args

    @property
    def saved_tensors(self) -> Any:
        """What `save_for_backward` was given."""
        return self._to_save_nested

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Note the tensors that were written to."""
        self.dirty_tensors = tuple(_tensors_in((args, kwargs)))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Note the tensors that have no gradient."""
        self.non_differentiable = tuple(_tensors_in((args, kwargs)))

    def forward_extended(self, *input: Any) -> Any:
        """For the function to define."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> Any:
        """For the function to define."""
        raise NotImplementedError
