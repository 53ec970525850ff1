# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def reduced_dims(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce over: all for None and for an empty list. RuntimeError if one stands twice."""
    if dim is None:
        return tuple(range(rank))
    found: tuple[int, ...]
    if dim.__class__ is int or not isinstance(dim, list | tuple):
        found = (maybe_wrap_dim(dim, rank),)
    else:
        found = tuple(maybe_wrap_dim(d, rank) for d in dim)
    if not found:
        return tuple(range(rank))
    if len(set(found)) != len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found if rank else ()


def dim_for_keepdim(op: str, keepdim: Any) -> None:
    """TypeError for a `keepdim` without the dimension that it speaks of: the function without dimensions has no such argument."""
    if keepdim is not None:
        raise TypeError(f'{op}() missing 1 required positional arguments: "dim"')


def sizes(args: tuple, name: str = "size", named: dict[str, Any] | None = None) -> tuple[int, ...]:
    """A shape given as separate numbers or as one sequence, or by its `name`. TypeError unless they are integers."""
    if named:
        wrong = next((key for key in named if key != name), name if args else None)
        if wrong is not None:
            raise TypeError(f"got an unexpected keyword argument '{wrong}'")
        args = (named[name],)
        if hasattr(args[0], "__index__") and not getattr(args[0], "ndim", 0):
            raise TypeError(f"argument '{name}' must be tuple of ints, not {type(args[0]).__name__}")
    if not args:
        raise TypeError(f'missing 1 required positional arguments: "{name}"')
    values: Any = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    if values.__class__ is not tuple:
        if not isinstance(values, list | tuple):
            raise TypeError(f"argument '{name}' must be tuple of ints, not {type(values).__name__}")
        values = tuple(values)
    for value in values:
        if value.__class__ is not int:
            return tuple(_integer(v, name, position) for position, v in enumerate(values))
    return values


def together(value: Any, name: str = "size") -> tuple[int, ...]:
    """A shape that must be given as one sequence. TypeError for a number."""
    if hasattr(value, "__index__") and not getattr(value, "ndim", 0):
        raise TypeError(f"argument '{name}' must be tuple of ints, not {type(value).__name__}")
    return sizes((value,), name)


def _integer(value: Any, name: str, position: int) -> int:
    try:
        if value.__class__ is bool and not position:  # upstream looks at the first alone
            raise TypeError
        return value.__index__()
    except (AttributeError, TypeError):
        kind = type(value).__name__
        raise TypeError(
            f"argument '{name}' must be tuple of ints, but found element of type {kind} at pos {position}"
        ) from None
