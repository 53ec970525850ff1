# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Close enough: `torch.testing`
#
# Two ways of adding the same numbers round differently, so a test of arithmetic asks for closeness, `|actual − expected| ≤ atol + rtol · |expected|`. How close is a matter of the dtype: the defaults are a few times what one rounding can do,
# and nothing at all for integers. `assert_close` also asks what `allclose` does not: that shape, dtype and device are equal.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: testing/_comparison.py
"""`assert_close` (twin of `torch/testing/_comparison.py`)."""

# %%
#| into: testing/_comparison.py
#| imports
from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

import readtorch as torch

# %%
#| into: testing/_comparison.py
#| upstream: torch/testing/_comparison.py#default_tolerances
#| upstream: torch/testing/_comparison.py#get_tolerances
_TOLERANCES = {
    torch.float16: (0.001, 1e-5),
    torch.bfloat16: (0.016, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
"""By dtype, the relative and the absolute part. Other dtypes have to be equal."""


def default_tolerances(
    *inputs: Any, dtype_precisions: Mapping[Any, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """The loosest (rtol, atol) of the dtypes, or of the dtypes of the tensors. TypeError for anything else."""
    kinds = [value.dtype if isinstance(value, torch.Tensor) else value for value in inputs]
    for kind in kinds:
        if not isinstance(kind, torch.dtype):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, which have tolerances, not a {type(kind)}.")
    found = [(dtype_precisions or _TOLERANCES).get(kind, (0.0, 0.0)) for kind in kinds]
    return max(rtol for rtol, _ in found), max(atol for _, atol in found)


# %% [markdown]
# A failure is found deep inside of nested containers and reported at the top, with the path that led there: an exception of its own carries it. The caller's `msg` speaks of values; containers that do not fit are reported as they are.


# %%
#| into: testing/_comparison.py
#| upstream: torch/testing/_comparison.py#ErrorMeta
class ErrorMeta(Exception):
    """What does not match: the type of the error to raise, its text, and the keys that lead to the item."""

    def __init__(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> None:
        super().__init__(msg)
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """The error for the user; `msg` replaces the text or, as a function, wraps it."""
        if isinstance(msg, str):
            return self.type(msg)
        text = self.msg
        if self.id:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in self.id)}"
        return self.type(msg(text) if callable(msg) else text)


# %%
#| into: testing/_comparison.py
#| upstream: torch/testing/_comparison.py#make_tensor_mismatch_msg
#| upstream: torch/testing/_comparison.py#make_scalar_mismatch_msg
def _difference(what: str, value: float, limit: float, index: tuple[int, ...] | None = None) -> str:
    place = "" if index is None else f" at index {index}"
    allowed = f", where {limit} is allowed" if limit else ""
    return f"{what} difference: {value}{place}{allowed}"


def _title(what: str, rtol: float, atol: float) -> str:
    return f"{what} are not {'equal' if not rtol and not atol else 'close'}!\n\n"


def _scalars_differ(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    distance = abs(actual - expected)
    relative = float("inf") if expected == 0 else distance / abs(expected)
    return (
        f"{_title('Scalars', rtol, atol)}{actual} where {expected} was expected.\n"
        f"{_difference('Absolute', distance, atol)}\n{_difference('Relative', relative, rtol)}"
    )


def _tensors_differ(actual: Any, expected: Any, matches: Any, rtol: float, atol: float) -> str:
    count, wrong = actual.numel(), int((~matches).sum())
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = actual.to(torch.int64), expected.to(torch.int64)
    distance = torch.abs(actual - expected).masked_fill(matches, 0)
    relative = (distance / torch.abs(expected)).masked_fill(matches, 0)
    lines = [f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})"]
    for what, values, limit in (("Greatest absolute", distance, atol), ("Greatest relative", relative, rtol)):
        place = int(torch.argmax(values.reshape(-1)))
        index = tuple(int(i) for i in np.unravel_index(place, tuple(values.shape)))
        lines.append(_difference(what, values.reshape(-1)[place].item(), limit, index))
    return _title("Tensor-likes", rtol, atol) + "\n".join(lines)


# %% [markdown]
# What can be compared: nothing with nothing, bools, numbers, and whatever can become a tensor, if the two are of related types. A list of numbers is taken item by item.


# %%
#| into: testing/_comparison.py
#| upstream: torch/testing/_comparison.py#not_close_error_metas
#| upstream: torch/testing/_comparison.py#TensorLikePair
Pair = tuple[Callable[[Any, Any, tuple[Any, ...]], None], Any, Any, tuple[Any, ...]]


class _Comparison:
    """One call of `assert_close`: its options, and a method for each kind of pair."""

    def __init__(self, rtol: float | None, atol: float | None, options: dict[str, bool]) -> None:
        self.rtol, self.atol, self.options = rtol, atol, options

    def tolerances(self, *kinds: Any) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        return default_tolerances(*kinds)

    def fail(self, text: str, path: tuple[Any, ...]) -> NoReturn:
        raise ErrorMeta(AssertionError, text, id=path)

    def pairs(self, actual: Any, expected: Any, path: tuple[Any, ...] = ()) -> Iterator[Pair]:
        """What there is to compare, and how: containers are taken apart before the first two values are looked at."""
        if all(isinstance(x, Sequence) and not isinstance(x, str) for x in (actual, expected)):
            if len(actual) != len(expected):
                self.fail(f"The sequences are of different length: {len(actual)} != {len(expected)}", path)
            for number, items in enumerate(zip(actual, expected, strict=True)):
                yield from self.pairs(*items, (*path, number))
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            for key in self.keys(actual, expected, path):
                yield from self.pairs(actual[key], expected[key], (*path, key))
        elif actual is None or expected is None:
            yield self.nothing, actual, expected, path
        elif all(isinstance(x, bool | np.bool_) for x in (actual, expected)):
            yield self.booleans, actual, expected, path
        else:
            if all(isinstance(x, int | float | complex | np.number) for x in (actual, expected)):
                pair: Pair = (self.numbers, actual, expected, path)
            else:
                pair = (self.tensors, *self.converted(actual, expected, path), path)
            if (self.rtol is None) ^ (self.atol is None):
                missing = "rtol" if self.rtol is None else "atol"
                text = f"rtol and atol must both be specified, or neither: {missing} is missing"
                raise ErrorMeta(ValueError, text, id=path)
            yield pair

    def nothing(self, actual: Any, expected: Any, path: tuple[Any, ...]) -> None:
        if actual is not expected:
            self.fail(f"None mismatch: {actual} is not {expected}", path)

    def booleans(self, actual: Any, expected: Any, path: tuple[Any, ...]) -> None:
        if bool(actual) is not bool(expected):
            self.fail(f"Booleans mismatch: {actual} is not {expected}", path)

    def keys(self, actual: Mapping[Any, Any], expected: Mapping[Any, Any], path: tuple[Any, ...]) -> list[Any]:
        ours, theirs = set(actual), set(expected)
        if ours != theirs:
            missing, extra = sorted(theirs - ours, key=str), sorted(ours - theirs, key=str)
            self.fail(
                f"The keys of the mappings do not match.\nOnly expected has: {missing}\nOnly actual has: {extra}",
                path,
            )
        return sorted(expected, key=str)

    def numbers(self, actual: Any, expected: Any, path: tuple[Any, ...]) -> None:
        ours, theirs = (value.item() if isinstance(value, np.number) else value for value in (actual, expected))
        if self.options["check_dtype"] and type(ours) is not type(theirs):
            self.fail(f"The types of the numbers do not match: {type(ours)} != {type(theirs)}.", path)
        wide = {int: torch.int64, float: torch.float64, complex: torch.complex128}
        rtol, atol = self.tolerances(wide[type(ours)], wide[type(theirs)])
        same = ours == theirs or (self.options["equal_nan"] and ours != ours and theirs != theirs)
        distance = abs(ours - theirs)
        if not same and not (math.isfinite(distance) and distance <= atol + rtol * abs(theirs)):
            self.fail(_scalars_differ(ours, theirs, rtol, atol), path)

    def converted(self, actual: Any, expected: Any, path: tuple[Any, ...]) -> tuple[Any, Any]:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if related and (self.options["allow_subclasses"] or type(actual) is type(expected)):
            try:
                return torch.as_tensor(actual), torch.as_tensor(expected)
            except Exception:
                pass  # no tensor can be made of it: the error below says so
        text = f"No pair was able to handle inputs of type {type(actual)} and {type(expected)}: there is no way to compare them."
        raise ErrorMeta(TypeError, text, id=path)

    def tensors(self, actual: Any, expected: Any, path: tuple[Any, ...]) -> None:
        for name in ("shape", "layout", "device", "dtype", "stride"):
            ours, theirs = (value() if callable(value := getattr(x, name)) else value for x in (actual, expected))
            if (name == "shape" or self.options[f"check_{name}"]) and ours != theirs:
                self.fail(f"The values for attribute '{name}' do not match: {ours} beside {theirs}.", path)
        if actual.is_meta or expected.is_meta:
            return  # nothing else is there to compare
        rtol, atol = self.tolerances(actual, expected)
        if actual.dtype != expected.dtype:
            common = torch.promote_types(actual.dtype, expected.dtype)
            actual, expected = actual.to(common), expected.to(common)
        actual, expected = actual.detach().cpu(), expected.detach().cpu()
        matches = torch.isclose(actual, expected, rtol, atol, self.options["equal_nan"])
        if bool(torch.all(matches)):
            return
        if actual.shape == ():
            self.fail(_scalars_differ(actual.item(), expected.item(), rtol, atol), path)
        self.fail(_tensors_differ(actual, expected, matches, rtol, atol), path)


# %%
#| into: testing/_comparison.py
#| upstream: torch/testing/_comparison.py#assert_close
def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless `actual` and `expected` are close: numbers, tensors, arrays, and lists and dicts of them.

    Tolerances follow the dtype unless both are given. TypeError for two things that have no common kind.
    """
    __tracebackhide__ = True
    options = {
        "allow_subclasses": allow_subclasses, "equal_nan": equal_nan, "check_device": check_device, "check_dtype": check_dtype,
        "check_layout": check_layout, "check_stride": check_stride,
    }  # fmt: skip
    try:
        pairs = list(_Comparison(rtol, atol, options).pairs(actual, expected))
    except ErrorMeta as found:
        raise found.to_error() from None
    try:
        for compare, *pair in pairs:
            compare(*pair)
    except ErrorMeta as found:
        raise found.to_error(msg) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older form, which converts and does not ask for equal dtypes. Deprecated."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12: "
        "`torch.testing.assert_close()` compares dtypes as well.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected, dtype=getattr(actual, "dtype", None))
    if rtol is None and atol is None:
        looser = {torch.float16: (1e-3, 1e-3), torch.float32: (1e-4, 1e-5), torch.float64: (1e-5, 1e-8)}
        rtol, atol = default_tolerances(actual, expected, dtype_precisions=looser)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        msg=msg or None,
    )


# %%
try:
    torch.testing.assert_close({"w": [torch.ones(3), 2.0]}, {"w": [torch.tensor([1.0, 1.1, 1.0]), 2.0]})
except AssertionError as error:
    print(error)

# %% [markdown]
# ## Tensors to test with
#
# A test wants numbers that are neither large nor special: within ±9, integers too, of any dtype and layout, from the generator that `manual_seed` sets.

# %%
#| into: testing/_creation.py
"""`make_tensor` (twin of `torch/testing/_creation.py`)."""

# %%
#| into: testing/_creation.py
#| imports
from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import readtorch as torch


# %%
#| into: testing/_creation.py
#| upstream: torch/testing/_creation.py#make_tensor
def _interval(dtype: Any, low: float | None, high: float | None, whole: bool) -> tuple[float, float]:
    """The bounds, within what the dtype can hold. ValueError for an empty interval."""
    if dtype == torch.bool:
        lowest, highest, low, high = 0, 2, 0 if low is None else low, 2 if high is None else high
    elif whole:
        limits = torch.iinfo(dtype)
        # randint counts in int64, which cannot hold its own largest number plus one
        lowest, highest = limits.min, limits.max + (dtype != torch.int64)
        low, high = -9 if low is None else low, 10 if high is None else high
    else:
        lowest, highest = torch.finfo(dtype).min, torch.finfo(dtype).max
        low, high = -9 if low is None else low, 9 if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low == high and not whole:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` is deprecated for floating or complex types, where "
            "[low, high) is empty: a constant comes from `torch.full(...)`.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(f"[low, high) is [{low}, {high}), but {dtype} only supports [{lowest}, {highest})")
    low, high = min(max(low, lowest), highest), min(max(high, lowest), highest)
    return (math.ceil(low), math.ceil(high)) if whole else (low, high)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of uniform numbers in [low, high), -9 to 9 by default; bools are 0 or 1. `noncontiguous` leaves gaps in memory.

    `exclude_zero` puts the smallest positive number for 0. ValueError for bounds that make no interval, and for a gradient of integers.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
    whole = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "`noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and whole:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes such as {dtype}")
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    if noncontiguous:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    low, high = _interval(dtype, low, high, whole)
    if whole:
        result = torch.randint(int(low), int(high), sizes, device=device, dtype=dtype)
    else:
        result = torch.empty(sizes, device=device, dtype=dtype)
        numbers = torch.view_as_real(result) if dtype.is_complex else result
        if high - low >= torch.finfo(dtype).max:
            numbers.uniform_(low / 2, high / 2).mul_(2)
        else:
            numbers.uniform_(low, high)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if whole else torch.finfo(dtype).tiny
    if not whole:
        result.requires_grad = requires_grad
    return result


# %%
#| into: testing/__init__.py
"""What tests compare with (twin of `torch/testing/__init__.py`)."""

from readtorch.testing._comparison import assert_allclose as assert_allclose
from readtorch.testing._comparison import assert_close as assert_close
from readtorch.testing._creation import make_tensor as make_tensor

# %%
#| into: __init__.py
_MODULES.append("testing")

# %%
torch.manual_seed(0)
(
    torch.testing.make_tensor(2, 3, dtype=torch.float32, device="cpu"),
    torch.testing.make_tensor(4, dtype=torch.int8, device="cpu"),
)


# %%
#| claim: assert_close asks for equal dtypes, allclose for equal values: a float64 result where float32 was meant fails the one alone
def _(torch):
    actual, expected = torch.ones(2, dtype=torch.float64), torch.ones(2)
    try:
        torch.testing.assert_close(actual, expected)
    except AssertionError as error:
        assert "dtype" in str(error)
    else:
        raise AssertionError("no error")
    torch.testing.assert_close(actual, expected, check_dtype=False)
