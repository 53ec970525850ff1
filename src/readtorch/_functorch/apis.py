# Tangled from chapters/02_module/9b_functions_of_functions.py — edit there, or here and run `readtorch sync`.
"""`vmap`, `grad` and `grad_and_value`, as they are called (twin of `torch/_functorch/apis.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from readtorch._functorch import eager_transforms
from readtorch._functorch.vmap import _RANDOMNESS, vmap_impl


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function of many examples, made of `func`, which is written for one.

    `in_dims`: which dimension of each argument counts the examples, None for one that all share; a number, or a nest like
    the arguments'. `out_dims` says where it stands in the results. `randomness`: what random operations do: "error", draw
    "different" numbers for every example, or the "same" for all. `chunk_size`: at most so many examples at once.
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return vmap_impl(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return mapped


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, which gives one number, by the arguments that `argnums` numbers.

    With `has_aux`, `func` gives `(number, aux)` and the result is `(gradient, aux)`.
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return eager_transforms.grad_impl(func, argnums, has_aux, args, kwargs)

    return gradient


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """`grad` that gives `(gradient, number)`, or `(gradient, (number, aux))`."""

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        return eager_transforms.grad_and_value_impl(func, argnums, has_aux, args, kwargs)

    return both
