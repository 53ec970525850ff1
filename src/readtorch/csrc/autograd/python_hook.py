# Tangled from chapters/00_tensor/10b_starting_the_engine.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.c10.core import tensor_impl


def as_tensor(grad: Any, graph: bool) -> Any:
    """A gradient as hooks see it; in a walk that is recorded it is a tensor already."""
    return grad if graph or grad is None else tensor_impl.wrap(grad)


def _as_grad(value: Any, graph: bool) -> Any:
    return value if graph or value is None else value._array


def call_tensor_pre_hooks(hooks_of: dict[int, Any], grads: list[Any], graph: bool) -> None:
    """The hooks of a node's outputs, by number of the output. `grads` gets their answers."""
    for number, hooks in hooks_of.items():
        for hook in list(hooks.values()):
            given = as_tensor(grads[number], graph)
            if given is None:
                continue
            result = hook(given)
            if result is not None:
                _check_single(hook, given, result)
                grads[number] = _as_grad(result, graph)


def call_pre_hooks(hooks: dict[int, Any], grads: list[Any], graph: bool) -> list[Any]:
    """A node's hooks on what arrives: the gradients of its outputs."""
    values = tuple(as_tensor(grad, graph) for grad in grads)
    for hook in list(hooks.values()):
        values = _checked(hook, values, hook(values))
    return [_as_grad(value, graph) for value in values]


def call_post_hooks(hooks: dict[int, Any], outputs: Any, grads: list[Any], graph: bool) -> list[Any]:
    """A node's hooks on what it hands on: the gradients of its inputs. They also see those of its outputs."""
    values = tuple(as_tensor(_array_again(output), graph) for output in outputs)
    incoming = tuple(as_tensor(grad, graph) for grad in grads)
    for hook in list(hooks.values()):
        values = _checked(hook, values, hook(values, incoming))
    return [_as_grad(value, graph) for value in values]


def _array_again(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value


def _checked(hook: Any, given: tuple, result: Any) -> tuple:
    """The answer of a hook on several gradients; what it was given if it answers nothing."""
    if result is None:
        return given
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(given):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(result)}, but expected {len(given)})"
        )
    for before, after in zip(given, result, strict=True):
        if after is not None:
            _check_single(hook, before, after)
    return result


def _check_single(hook: Any, given: Any, result: Any) -> None:
    """TypeError or RuntimeError unless `result` may stand in place of `given`."""
    check_is_tensor(result)
    if given is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if result.dtype != given.dtype or result.device != given.device or result.is_sparse != given.is_sparse:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {given.type()} got {result.type()})"
        )
    if result.shape != given.shape:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the size of value: from {list(given.shape)} to {list(result.shape)}"
        )


def check_is_tensor(result: Any) -> None:
    """TypeError unless a hook returned a tensor."""
    if not isinstance(result, tensor_impl.TensorImpl):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")
