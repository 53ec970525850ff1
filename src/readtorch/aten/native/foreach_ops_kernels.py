# Tangled from chapters/a1_operators/, chapters/04_optim/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.native.fused_sgd import arrays_of, bump, device_groups, on_device


def _rows(name: str, tensors: Sequence[Any], others: tuple) -> list[tuple]:
    """The arguments of each single call: lists are taken apart, everything else is repeated."""
    if not len(tensors):
        raise RuntimeError("Tensor list must have at least one tensor.")
    columns = []
    for other in others:
        if isinstance(other, list | tuple):
            if len(other) != len(tensors):
                raise RuntimeError(
                    f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}"
                )
            columns.append(other)
        else:
            columns.append([other] * len(tensors))
    return list(zip(tensors, *columns, strict=True))


def _register_foreach(name: str) -> None:
    scaled = name.startswith("addc")  # their last operand is `value`, which the operator takes by name

    def call(operator: Any, row: Sequence[Any], options: dict[str, Any]) -> Any:
        return operator(*row[:3], value=row[3]) if scaled and len(row) == 4 else operator(*row, **options)

    def each(at: Any, self: Sequence[Any], *others: Any, **options: Any) -> Any:
        operator = getattr(at, name)
        return tuple(call(operator, row, options) for row in _rows(name, self, others))

    def each_in_place(at: Any, self: Sequence[Any], *others: Any, **options: Any) -> Any:
        operator = getattr(at, f"{name}_")
        for row in _rows(name, self, others):
            call(operator, row, options)
        return list(self)

    composite(f"_foreach_{name}")(each)
    composite(f"_foreach_{name}_")(each_in_place)


for _name in (
    *(
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "expm1",
        "floor",
        "frac",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
    ),
    *("neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
    *("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "addcmul", "addcdiv", "lerp"),
):
    _register_foreach(_name)


def _pairwise(name: str, bound: str) -> None:
    """`maximum` of lists and lists, and the operator that bounds by a number for a number or several."""

    def chosen(at: Any, one: Any, other: Any) -> Any:
        return getattr(at, name if hasattr(other, "dtype") else bound)(one, other)

    def each(at: Any, self: Sequence[Any], other: Any) -> Any:
        return tuple(chosen(at, *row) for row in _rows(name, self, (other,)))

    def each_in_place(at: Any, self: Sequence[Any], other: Any) -> list[Any]:
        for first, second in _rows(name, self, (other,)):
            at.copy_(first, chosen(at, first, second))
        return list(self)

    composite(f"_foreach_{name}")(each)
    composite(f"_foreach_{name}_")(each_in_place)


_pairwise("maximum", "clamp_min")
_pairwise("minimum", "clamp_max")


@composite("_foreach_norm")
def _foreach_norm(at: Any, self: Sequence[Any], ord: float = 2, dtype: Any = None) -> Any:
    """The norm of each tensor."""
    return tuple(at.linalg_vector_norm(tensor, ord, dtype=dtype) for tensor in self)


@composite("_foreach_zero_")
def _foreach_zero_(at: Any, self: Sequence[Any]) -> list[Any]:
    """Set all to zero."""
    for tensor in self:
        at.zero_(tensor)
    return list(self)


@composite("_foreach_copy_")
def _foreach_copy_(at: Any, self: Sequence[Any], src: Sequence[Any], non_blocking: bool = False) -> list[Any]:
    """Copy each source into its target."""
    for target, source in _rows("copy", self, (list(src),)):
        at.copy_(target, source)
    return list(self)


def lerp_on_device(starts: Sequence[Any], ends: Sequence[Any], weight: float) -> frozenset[int]:
    """`start += weight (end - start)` in place for the pairs that a device's kernel can take: which those were."""
    if not starts or not on_device(starts[0]):
        return frozenset()
    from readtorch.aten.native.cuda import jit_utils
    from readtorch.aten.native.cuda.foreach_ternary_op import lerp as kernel

    done: set[int] = set()
    for numbers in device_groups([starts, ends]):
        arrays = [arrays_of(one, numbers) for one in (starts, ends)]
        with jit_utils.target.beside(arrays[0][0]):
            kernel(arrays[0], arrays[1], weight)
        bump(*(starts[number] for number in numbers))
        done.update(numbers)
    return frozenset(done)
