# Tangled from chapters/00_tensor/13_functions_and_graph.py — edit there, or here and run `readtorch sync`.

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


class FunctionMeta(type):
    """Makes, for each custom function `F`, the class of its nodes, `FBackward`."""

    def __init__(cls, name: str, bases: tuple, attributes: dict[str, Any]) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__slots__": ()})
        super().__init__(name, bases, attributes)


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
            "You must implement either the backward or vjp method: this autograd.Function has neither, and backward reached it."
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
