# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The index names of each operand and of the result; `...` becomes names of its own. RuntimeError on a malformed equation."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        fewer = "fewer" if len(ranks) < len(terms) else "more"
        raise RuntimeError(
            f"einsum(): {fewer} operands were provided than specified in the equation: {len(ranks)}, not {len(terms)}"
        )
    spread = max(
        [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term],
        default=0,
    )
    inputs = []
    for number, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        names = _names_of(term, rank, spread)
        if len(names) != rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(names)}) does not match the number of dimensions ({rank}) "
                f"for operand {number} and no ellipsis was given"
            )
        inputs.append(names)
    if arrow:
        output = _names_of(right, None, spread)
        known = {name for names in inputs for name in names}
        for name in output:
            if name not in known:
                raise RuntimeError(
                    f"einsum(): output subscript {name} does not appear in the equation for any input operand"
                )
            if output.count(name) > 1:
                raise RuntimeError(f"einsum(): output subscript {name} appears more than once in the output")
        return inputs, output
    flat = [name for names in inputs for name in names]
    dots = [f"#{i}" for i in range(spread)]
    return inputs, dots + sorted({name for name in flat if flat.count(name) == 1 and not name.startswith("#")})


def _names_of(term: str, rank: int | None, spread: int) -> list[str]:
    head, dots, tail = term.partition("...")
    for letter in head + tail:
        if not letter.isalpha():
            raise RuntimeError(f"einsum(): invalid subscript given, subscripts must be in [a-zA-Z], found {letter}")
    if not dots:
        return list(head)
    count = spread if rank is None else rank - len(head) - len(tail)
    return [*head, *(f"#{i}" for i in range(spread - count, spread)), *tail]


@composite("einsum", variants="")
def einsum(at: Any, equation: str, operands: Sequence[Array]) -> Any:
    """The sum of products that the equation spells, `"bij,bjk->bik"`."""
    inputs, output = parse_equation(equation, [operand.ndim for operand in operands])
    sizes: dict[str, int] = {}
    for number, (names, operand) in enumerate(zip(inputs, operands, strict=True)):
        own: dict[str, int] = {}
        for name, size in zip(names, operand.shape, strict=True):
            if own.setdefault(name, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {name} is repeated for operand {number} but the sizes don't match, {size} != {own[name]}"
                )
            if sizes.setdefault(name, size) != size:
                if sizes[name] == 1:
                    sizes[name] = size
                elif size != 1:
                    raise RuntimeError(
                        f"einsum(): subscript {name} has size {size} for operand {number} which does not broadcast with previously seen size {sizes[name]}"
                    )
    current, names = _diagonals(at, operands[0], inputs[0])
    for number in range(1, len(operands)):
        other, other_names = _diagonals(at, operands[number], inputs[number])
        later = {name for rest in inputs[number + 1 :] for name in rest} | set(output)
        current, names = _pair(at, current, names, other, other_names, later)
    extra = [i for i, name in enumerate(names) if name not in output]
    if extra:
        current = at.sum(current, tuple(extra))
        names = [name for name in names if name in output]
    return at.permute(current, [names.index(name) for name in output]) if names != output else current


def _diagonals(at: Any, operand: Any, names: list[str]) -> tuple[Any, list[str]]:
    """A name that stands twice means the diagonal."""
    names = list(names)
    while len(set(names)) != len(names):
        name = next(n for n in names if names.count(n) > 1)
        first = names.index(name)
        second = names.index(name, first + 1)
        operand = at.diagonal(operand, 0, first, second)
        names = [n for i, n in enumerate(names) if i not in (first, second)] + [name]
    return operand, names


def _pair(at: Any, a: Any, a_names: list[str], b: Any, b_names: list[str], later: set[str]) -> tuple[Any, list[str]]:
    """Multiply two operands, summing the indices that nothing later needs."""
    a, a_names = _sum_alone(at, a, a_names, set(b_names) | later)
    b, b_names = _sum_alone(at, b, b_names, set(a_names) | later)
    shared = [n for n in a_names if n in b_names]
    a_size, b_size = dict(zip(a_names, a.shape, strict=True)), dict(zip(b_names, b.shape, strict=True))
    summed = [n for n in shared if n not in later and a_size[n] == b_size[n]]
    batch = [n for n in shared if n not in summed]
    a_only, b_only = [n for n in a_names if n not in shared], [n for n in b_names if n not in shared]
    batch_shape = [max(a_size[n], b_size[n]) for n in batch]
    a = at.permute(a, [a_names.index(n) for n in batch + a_only + summed])
    b = at.permute(b, [b_names.index(n) for n in batch + summed + b_only])
    rows = [a_size[n] for n in a_only]
    columns = [b_size[n] for n in b_only]
    inner = [a_size[n] for n in summed]
    a = at.expand(a, (*batch_shape, *rows, *inner))
    b = at.expand(b, (*batch_shape, *inner, *columns))
    if not summed and len(batch) == len(shared):
        return _multiplied(at, a, b, batch_shape, rows, columns), batch + a_only + b_only
    count = math.prod(batch_shape)
    a = at.reshape(a, (count, math.prod(rows), math.prod(inner)))
    b = at.reshape(b, (count, math.prod(inner), math.prod(columns)))
    left = [n for n in batch if n not in later]
    result = at.reshape(at.bmm(a, b), (*batch_shape, *rows, *columns))
    names = batch + a_only + b_only
    if left:
        result = at.sum(result, tuple(names.index(n) for n in left))
        names = [n for n in names if n not in left]
    return result, names


def _multiplied(at: Any, a: Any, b: Any, batch: list[int], rows: list[int], columns: list[int]) -> Any:
    """The product of operands of which nothing is summed."""
    return at.reshape(a, (*batch, *rows, *[1] * len(columns))) * at.reshape(b, (*batch, *[1] * len(rows), *columns))


def _sum_alone(at: Any, operand: Any, names: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    """Sum at once over indices that occur in this operand alone."""
    alone = [i for i, name in enumerate(names) if name not in keep]
    return (at.sum(operand, tuple(alone)), [name for name in names if name in keep]) if alone else (operand, names)


@composite("tensordot", variants="function", out=True)
def tensordot(at: Any, a: Any, b: Any, dims: Any = 2) -> Any:
    """The sum of products over the last dimensions of one and the first of the other, or over the pairs given."""
    if hasattr(dims, "dtype") and dims.ndim == 0:
        dims = int(dims)
    if not isinstance(dims, int | list | tuple) and not hasattr(dims, "dtype"):
        raise RuntimeError(
            f"tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]], but got {dims}"
        )
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > a.ndim or dims > b.ndim:
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        pairs = dims.tolist() if hasattr(dims, "dtype") else list(dims)
        if len(pairs) != 2:
            raise ValueError(f"tensordot takes two lists of dimensions; these are {len(pairs)}")
        for name, ds in zip(("dims_self", "dims_other"), pairs, strict=True):
            if not isinstance(ds, list | tuple) or any(d is None or isinstance(d, str | float) for d in ds):
                raise TypeError(f"tensordot(): argument '{name}' must be tuple of ints, not {type(ds).__name__}")
        if len(pairs[0]) != len(pairs[1]):
            raise RuntimeError("both dimension lists should have same length")
        first, second = (
            [maybe_wrap_dim(d, x.ndim, wrap_scalar=False) for d in ds] for ds, x in zip(pairs, (a, b), strict=True)
        )
    for i, j in zip(first, second, strict=True):
        if a.shape[i] == 1 != b.shape[j]:  # stretched: the sum of products is a product with the sum
            b = at.sum(b, j, True)
        elif b.shape[j] == 1 != a.shape[i]:
            a = at.sum(a, i, True)
        elif a.shape[i] != b.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}"
            )
    rows, columns = [i for i in range(a.ndim) if i not in first], [j for j in range(b.ndim) if j not in second]
    inner = math.prod(a.shape[i] for i in first)
    left = at.reshape(at.permute(a, rows + first), (math.prod(a.shape[i] for i in rows), inner))
    right = at.reshape(at.permute(b, second + columns), (inner, math.prod(b.shape[j] for j in columns)))
    return at.reshape(at.mm(left, right), (*(a.shape[i] for i in rows), *(b.shape[j] for j in columns)))


@composite("linear", module="nn", out=True)
def linear(at: Any, input: Array, weight: Array, bias: Array | None = None) -> Any:
    """`x Wᵀ + b`: `(*, in)` and `weight (out, in)` to `(*, out)`."""
    if bias is None:
        return at.matmul(input, at.t(weight))
    shape = tuple(input.shape)
    if len(shape) == 2:
        return at.addmm(bias, input, at.t(weight))
    if shape and len(weight.shape) == 2:
        rows = at.reshape(input, (math.prod(shape[:-1]), shape[-1]))
        return at.reshape(at.addmm(bias, rows, at.t(weight)), (*shape[:-1], weight.shape[0]))
    if not shape:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are 0D and {len(weight.shape)}D")
    return at.matmul(input, at.t(weight)) + bias


@composite("bilinear")
def bilinear(at: Any, input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Any:
    """`y[k] = x1ᵀ W[k] x2 + b[k]` over the last dimensions."""
    kinds = [to_string(value.dtype) for value in (input1, input2, weight, bias) if value is not None]
    if len(set(kinds)) > 1:
        raise RuntimeError(f"All tensors must have the same dtype, got {', '.join(kinds)}")
    if len(weight.shape) < 3:
        rank = max(len(weight.shape), 1)
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {rank})")
    if len(weight.shape) > 3:
        raise RuntimeError(f"bilinear(): expected a 3-dimensional weight, but got {list(weight.shape)}")
    out, in1, in2 = weight.shape
    _check_bilinear(input1, input2, weight, bias)
    left = at.matmul(input1, at.reshape(at.permute(weight, (1, 0, 2)), (in1, out * in2)))
    left = at.reshape(left, (*input1.shape[:-1], out, in2))
    y = at.sum(left * at.unsqueeze(input2, -2), -1, dtype=input1.dtype)
    return y if bias is None else y + bias


def _check_bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> None:
    if len(input1.shape) != len(input2.shape):
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {len(input1.shape)} and {len(input2.shape)}"
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError("bilinear(): input batch dimensions do not match")
    for number, (value, size) in enumerate(((input1, weight.shape[1]), (input2, weight.shape[2])), 1):
        if value.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {value.shape[-1]} but expected {size}"
            )
    if bias is not None and not bias.shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}"
        )
