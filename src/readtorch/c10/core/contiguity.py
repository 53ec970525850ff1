# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence

Ints = tuple[int, ...]


def contiguous_strides(shape: Ints) -> Ints:
    """The strides, in elements, of a tensor in one piece, last dimension innermost."""
    return dense_strides(shape, range(len(shape) - 1, -1, -1))


def dense_strides(shape: Ints, order: Sequence[int]) -> Ints:
    """The strides of a tensor in one piece whose dimensions lie in memory as `order` lists them, innermost first."""
    strides, step = [1] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def channels_innermost(rank: int) -> Ints:
    """The order of dimensions, innermost first, of the channels-last formats."""
    return (1, *range(rank - 1, 1, -1), 0)


def is_contiguous(shape: Ints, strides: Ints, order: Sequence[int] | None = None) -> bool:
    """Do the elements follow each other, without gaps, in this order of dimensions (innermost first; else the last one first)?"""
    step = 1
    for dim in range(len(shape) - 1, -1, -1) if order is None else order:
        if shape[dim] != 1:
            if strides[dim] != step:
                return order is None and 0 in shape
            step *= shape[dim]
    return True


def is_non_overlapping_and_dense(shape: Ints, strides: Ints) -> bool:
    """Do the elements follow each other in some order of dimensions?"""
    order = sorted(range(len(shape)), key=lambda dim: (shape[dim] < 2, strides[dim]))
    return is_contiguous(shape, strides, order)


def strides_of_result(shape: Ints, operands: Sequence[tuple[Ints, Ints]]) -> Ints:
    """The strides of what is computed of operands, given by shape and strides, that are broadcast to `shape`."""
    first = operands[0][1] if operands else ()
    if all(sizes == shape for sizes, _ in operands):
        if all(is_contiguous(*operand) for operand in operands):
            return contiguous_strides(shape)
        if len(shape) == 4 and all(is_contiguous(*operand, channels_innermost(4)) for operand in operands):
            return dense_strides(shape, channels_innermost(4))
        if all(steps == first for _, steps in operands) and is_non_overlapping_and_dense(shape, first):
            return first
    rank = len(shape)
    stretched = []
    for sizes, steps in operands:
        lead = rank - len(sizes)
        stretched.append((0,) * lead + tuple(0 if n == 1 != shape[lead + i] else steps[i] for i, n in enumerate(sizes)))
    order = list(range(rank - 1, -1, -1))
    for start in range(1, rank):
        place = start
        for before in range(start - 1, -1, -1):
            verdict = _inside_out(shape, stretched, order[before], order[place])
            if verdict > 0:
                order[before], order[place] = order[place], order[before]
                place = before
            elif verdict < 0:
                break
    return dense_strides(shape, order)


def strides_of_copy(shape: Ints, strides: Ints) -> Ints:
    """The strides of a copy that keeps the order of its source: the same if that has no gaps and no element twice."""
    return strides if is_non_overlapping_and_dense(shape, strides) else strides_of_result(shape, [(shape, strides)])


def _inside_out(shape: Ints, operands: Sequence[Ints], one: int, other: int) -> int:
    """Positive if dimension `one` is to lie outside of `other`, negative if inside, 0 if no operand can tell."""
    for steps in operands:
        if steps[one] and steps[other]:
            if steps[one] != steps[other]:
                return 1 if steps[one] > steps[other] else -1
            if shape[one] > shape[other]:
                return 1
    return 0


def strides_of_view(shape: Ints, strides: Ints, wanted: Ints) -> Ints | None:
    """The strides that show these elements in the shape `wanted`, which has as many; None if only a copy could."""
    if 0 in shape:
        return strides if shape == wanted else contiguous_strides(wanted)
    result, left = [1] * len(wanted), len(wanted) - 1
    step, count, filled = strides[-1] if strides else 1, 1, 1
    for dim in range(len(shape) - 1, -1, -1):
        count *= shape[dim]
        if dim and (shape[dim - 1] == 1 or strides[dim - 1] == count * step):
            continue
        while left >= 0 and (filled < count or wanted[left] == 1):
            result[left] = filled * step
            filled *= wanted[left]
            left -= 1
        if filled != count:
            return None
        if dim:
            step, count, filled = strides[dim - 1], 1, 1
    for dim in range(left, -1, -1):
        result[dim] = filled * step
        filled *= wanted[dim]
    return tuple(result) if left < 0 or filled == count else None
