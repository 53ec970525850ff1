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
# # How a tensor is printed
#
# `print(t)` is the most used debugger of all. When does it lie? Everybody knows its output: four digits, one exponent for
# all or for none, `...` in the middle of what is large. All of it is Python upstream too, in one file, and each of those
# three habits can hide the number that you are looking for.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why do two tensors print alike and compare unequal?
#
# Four digits are shown, and float32 has seven. An assertion fails, both sides are printed, and they are the same:

# %%
#| needs: a1_operators
a = torch.tensor([0.1, 0.2, 0.3])
b = a + torch.tensor([0.0, 1e-8, 2e-6])
print(a, b, (a == b).tolist(), a.tolist(), b.tolist(), sep="\n")


# %%
#| claim: equal text does not mean equal numbers; a list shows them exactly
def _(torch):
    a, b = torch.tensor([0.1]), torch.tensor([0.10000001])
    assert repr(a) == repr(b) and a.tolist() != b.tolist()
    torch.set_printoptions(precision=8)
    shown = repr(a)
    torch.set_printoptions(profile="default")
    assert shown == "tensor([0.10000000])"


# %% [markdown]
# `tolist()` gives Python floats, which print as many digits as are needed to come back to the same number. What a tensor
# prints cannot be read back in; for that there are `torch.save` and `pickle`.
#
# The settings are one object for the process, read at each print.

# %%
#| into: _tensor_str.py
"""The text of a tensor."""

# %%
#| into: _tensor_str.py
#| imports
from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


from readtorch.aten.functorch.batched_tensor_impl import BatchedArray
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_complex_dtype, get_default_dtype
from readtorch.c10.core.device import current_default_device
from readtorch.csrc.utils.disable_torch_function import PLAIN


# %%
#| into: _tensor_str.py
#| upstream: torch/_tensor_str.py#set_printoptions
@dataclass
class _PrintOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PRINT_OPTS = _PrintOptions()
_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed, from here on.

    `precision`: digits after the point; `threshold`: how many elements are printed in full; `edgeitems`: how many at each
    end of what is not; `linewidth`: characters; `profile`: default, short or full; `sci_mode`: None lets the values decide.
    """
    if profile is not None:
        for name, value in _PROFILES.get(profile, {}).items():
            setattr(PRINT_OPTS, name, value)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, number in given.items():
        if number is not None:
            setattr(PRINT_OPTS, name, number)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The present settings."""
    return asdict(PRINT_OPTS)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions` for a block only."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(PRINT_OPTS, name, value)


# %% [markdown]
# ## Why does everything have an exponent now?
#
# A column of numbers is readable when the points are below each other. So one width and one notation are chosen for the
# whole tensor, from its finite, non-zero values:
#
# ```mermaid
# flowchart TD
#   accTitle: How the notation of a float tensor is chosen
#   accDescr: From the finite non-zero values, if there are none plain digits, if the largest is more than 1000 times the smallest or above 1e8 or the smallest below 1e-4 exponents, else if all are whole a point without digits, else four digits
#   V["finite, non-zero values"] --> N{"any?"}
#   N -- no --> P["0."]
#   N -- yes --> R{"max / min &gt; 1000,<br/>max &gt; 10⁸ or min &lt; 10⁻⁴"}
#   R -- yes --> S["1.0000e-03"]
#   R -- no --> W{"all whole?"}
#   W -- yes --> I["1."]
#   W -- no --> F["1.0000"]
# ```
#
# So one small value in a tensor turns all the others into exponents. A vector of losses does that on the day the training
# begins to work. `torch.set_printoptions(sci_mode=False)` always shows fixed digits, and a learning rate of 10⁻⁵ as
# `0.0000`.
#
# Infinities and NaN have no say, neither in the notation nor in the width: they stick out where the numbers are short.


# %%
#| into: _tensor_str.py
#| upstream: torch/_tensor_str.py#_Formatter
class _Formatter:
    """Notation and width for the elements of a real array."""

    def __init__(self, values: np.ndarray) -> None:
        self.floating = values.dtype.kind not in "iub"
        self.whole = True
        self.scientific = False
        self.width = 1
        if not self.floating:
            self.width = max((len(str(value)) for value in values.ravel().tolist()), default=1)
            return
        numbers = values.astype(np.float64).ravel()
        numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
        if not numbers.size:
            return
        sizes = np.abs(numbers)
        smallest, largest = float(sizes.min()), float(sizes.max())
        self.whole = bool((numbers == np.ceil(numbers)).all())
        wide_range = largest / smallest > 1000.0 or largest > 1.0e8
        self.scientific = wide_range or (not self.whole and smallest < 1.0e-4)
        if PRINT_OPTS.sci_mode is not None:
            self.scientific = PRINT_OPTS.sci_mode
        self.width = max(len(self._text(value)) for value in numbers.tolist())

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{PRINT_OPTS.precision}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{PRINT_OPTS.precision}f}"

    def format(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


class _ComplexFormatter:
    """Real and imaginary part, each with a notation of its own."""

    def __init__(self, values: np.ndarray) -> None:
        self._real, self._imag = _Formatter(values.real), _Formatter(values.imag)
        self.width = self._real.width + self._imag.width + 1

    def format(self, value: complex) -> str:
        imaginary = (self._imag.format(value.imag) + "j").lstrip()
        sign = "" if imaginary[0] in "+-" else "+"
        return self._real.format(value.real) + sign + imaginary


# %% [markdown]
# ## What is printed of a large tensor?
#
# Above a thousand elements, three at each end of every dimension. The format is chosen from *these*: what is in the
# middle has no influence and is not even read. A tensor that is NaN everywhere but at its edges prints as a healthy one.
# `x.isfinite().all()` and `x.aminmax()` look at all of it.


# %%
#| into: _tensor_str.py
#| upstream: torch/_tensor_str.py#_tensor_str_with_formatter
def _edges(array: np.ndarray) -> np.ndarray:
    """The elements that are printed of a summarised array: `edgeitems` at both ends of every dimension."""
    edge = PRINT_OPTS.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            kept = [*range(edge), *range(size - edge, size)]
            array = np.take(array, kept, axis)
    return array


def _vector(array: np.ndarray, indent: int, summarize: bool, formatter: Any) -> str:
    edge = PRINT_OPTS.edgeitems
    if summarize and len(array) > 2 * edge:
        first, last = array[:edge].tolist(), array[len(array) - edge :].tolist()
        words = [*map(formatter.format, first), " ...", *map(formatter.format, last)] if edge else ["..."]
    else:
        words = [formatter.format(value) for value in array.tolist()]
    per_line = max(1, (PRINT_OPTS.linewidth - indent) // (formatter.width + 2))
    lines = [", ".join(words[start : start + per_line]) for start in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _block(array: np.ndarray, indent: int, summarize: bool, formatter: Any) -> str:
    if array.ndim == 0:
        return formatter.format(array.item())
    if array.ndim == 1:
        return _vector(array, indent, summarize, formatter)
    edge = PRINT_OPTS.edgeitems
    if summarize and len(array) > 2 * edge:
        chosen: list[Any] = [*array[:edge], None, *array[len(array) - edge :]]
    else:
        chosen = list(array)
    parts = ["..." if part is None else _block(part, indent + 1, summarize, formatter) for part in chosen]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _contents(array: np.ndarray, indent: int) -> str:
    if array.size == 0:
        return "[]"
    if array.dtype.kind in "fV" and array.itemsize == 2:
        array = array.astype(np.float32)
    summarize = array.size > PRINT_OPTS.threshold
    shown = _edges(array) if summarize else array
    formatter = _ComplexFormatter(shown) if array.dtype.kind == "c" else _Formatter(shown)
    return _block(array, indent, summarize, formatter)


# %% [markdown]
# ## What is said after the numbers?
#
# Only what the reader could not guess: a device that is not the default one, a dtype that neither the numbers nor the
# default give away, the shape of something empty, and whether gradients are recorded. So two tensors with the same text
# may have been made under different defaults, and the text of *one* tensor changes with `set_default_dtype`.
#
# The last word is the most useful one: `requires_grad=True` is a leaf, `grad_fn=<…>` is the node that made the value. After a write through a view it says [`CopySlices`](../00_tensor/05a_place_in_the_graph.py#CopySlices), whatever the write was.


# %%
#| into: _tensor_str.py
#| upstream: torch/_tensor_str.py#_str_intern
def _history(tensor: Any) -> list[str]:
    """Its node, or that it wants a gradient. The node of a view that writes have cut off is not to be had: a text is."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{type(node).__name__}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _facts(tensor: Any) -> list[str]:
    facts = []
    where = tensor.device
    if where.type != current_default_device().type or where.type == "meta":
        facts.append(f"device='{where}'")
    expected = (get_default_dtype(), get_default_complex_dtype(), scalar_type.int64, scalar_type.bool)
    empty = tensor.numel() == 0
    if where.type == "meta" or (empty and tensor.dim() != 1):
        facts.append(f"size={tuple(tensor.shape)}")
    if tensor.dtype not in expected or (empty and tensor.dtype is not get_default_dtype()):
        facts.append(f"dtype={tensor.dtype}")
    facts += _history(tensor)
    return facts


def _add_facts(text: str, facts: list[str], indent: int, *, first_on_next: bool = False) -> str:
    """Append the facts, each on the present line while there is room."""
    pieces = [text]
    used = len(text) - text.rfind("\n") + 1
    for number, fact in enumerate(facts):
        if used + len(fact) + 2 > PRINT_OPTS.linewidth or (first_on_next and not number):
            pieces.append(",\n" + " " * indent + fact)
            used = indent + len(fact)
        else:
            pieces.append(", " + fact)
            used += len(fact) + 2
    return "".join([*pieces, ")"])


def _sparse_str(self: Any, prefix: str, tensor_contents: str | None) -> str:
    """The text of a sparse tensor: its indices and values, each as a tensor's, and what a list of them does not say."""
    indent = len(prefix)
    if tensor_contents is None:
        parts = []
        for name, array in (("indices", self._array.indices), ("values", self._array.values)):
            head = f"{name}=tensor("
            shape = "" if array.size else f", size={array.shape}"
            parts.append(f"{head}{_contents(array, indent + len(head))}{shape})")
        tensor_contents = (",\n" + " " * indent).join(parts)
    facts = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}"]
    if self.dtype not in (get_default_dtype(), get_default_complex_dtype(), scalar_type.int64, scalar_type.bool):
        facts.append(f"dtype={self.dtype}")
    facts.append(f"layout={self.layout}")
    facts += _history(self)
    return _add_facts(prefix + tensor_contents, facts, indent, first_on_next=True)


def _wrapped(tensor: Any) -> str:
    """A tensor inside a function transform: the level, and the tensor that it wraps."""
    array = tensor._array
    inside = _str(array.value).replace("\n", "\n    ")
    if array.__class__ is BatchedArray:
        return f"BatchedTensor(lvl={array.layer.level}, bdim=0, value=\n    {inside}\n)"
    return f"GradTrackingTensor(lvl={array.layer.level}, value=\n    {inside}\n)"


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor; `tensor_contents` in place of its numbers."""
    if is_wrapped(self._array) and tensor_contents is None:
        return _wrapped(self)
    prefix = "tensor(" if type(self) in PLAIN else f"{type(self).__name__}("
    if self.is_sparse:
        return _sparse_str(self, prefix, tensor_contents)
    if tensor_contents is None:
        on_host = self.device.type != "meta"
        array = self.detach().cpu()._array if on_host else None
        tensor_contents = "..." if array is None else _contents(array, len(prefix))
    return _add_facts(prefix + tensor_contents, _facts(self), len(prefix))


# %% [markdown]
# Both halves at once. In the trace, `_Formatter` is made first, with one look at all values; then the text is put together from the inside.

# %%
x = torch.tensor([[1.0, 1000.5], [-2.25, 1e-3]], requires_grad=True)

# %%
#| trace: torch._tensor_str layers=calls values=summary title="repr: one format, then blocks, then facts"
text = repr(x)

# %%
print(text)
print(torch.arange(2000.0).reshape(40, 50))
print(torch.tensor([1.0, 2.0, float("nan")]), torch.tensor([[1e9, float("inf")]]))


# %%
#| claim: one small value turns every element of a tensor into exponents; infinities and NaN do not
def _(torch):
    assert repr(torch.tensor([1.5, 2.5])) == "tensor([1.5000, 2.5000])"
    assert repr(torch.tensor([1.5, 2.5, 0.001])) == "tensor([1.5000e+00, 2.5000e+00, 1.0000e-03])"
    assert repr(torch.tensor([1.5, float("inf"), float("nan")])) == "tensor([1.5000,    inf,    nan])"
    assert repr(torch.tensor([1.0, float("nan")])) == "tensor([1., nan])"


# %%
#| needs: a1_operators
#| claim: what a summary leaves out does not change its format, not even a NaN
def _(torch):
    healthy, sick = torch.ones(2000), torch.ones(2000)
    sick[3:-3].fill_(float("nan"))
    sick[500:501].fill_(1e-9)
    assert repr(healthy) == repr(sick) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"
    sick[:1].fill_(1e-9)
    assert "e+00" in repr(sick)


# %%
#| claim: floats that are all whole numbers are printed with a point and no digits
def _(torch):
    assert repr(torch.tensor([1.0, -20.0])) == "tensor([  1., -20.])"


# %%
#| claim: an empty tensor names its shape unless it is a vector, and its dtype unless it is the default
def _(torch):
    assert repr(torch.empty(0)) == "tensor([])"
    assert repr(torch.empty(2, 0, dtype=torch.int64)) == "tensor([], size=(2, 0), dtype=torch.int64)"


# %%
#| needs: a1_operators
#| claim: the text names the node that made the value, CopySlices after a write through a view, requires_grad for a leaf; a default dtype is not named
#| upstream: torch/_tensor_str.py#_str_intern
def _(torch):
    leaf = torch.ones(2, requires_grad=True)
    assert repr(leaf) == "tensor([1., 1.], requires_grad=True)"
    value = leaf * 2
    assert repr(value) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    value[0].mul_(2)
    assert repr(value) == "tensor([4., 2.], grad_fn=<CopySlices>)"
    double = torch.ones(1, dtype=torch.float64)
    named = repr(double)
    torch.set_default_dtype(torch.float64)
    try:
        assert named == "tensor([1.], dtype=torch.float64)" and repr(double) == "tensor([1.])"
    finally:
        torch.set_default_dtype(torch.float32)


# %% [markdown]
# ## What does an f-string print?
#
# `f"{loss}"` prints a 0-d tensor as the number it holds, and `f"{loss:.3f}"` formats it, through `__format__`, which
# calls `item()`. Every other tensor refuses a format: a loss of shape `(1,)` raises a `TypeError` in the line that was to
# report it. Neither form shows dtype, device or `grad_fn`.


# %%
#| claim: a format in an f-string works for a tensor without dimensions and is refused for one of shape (1,)
#| upstream: torch/_tensor.py#Tensor.__format__
def _(torch):
    assert f"{torch.tensor(1.23456):.2f} {torch.tensor(3)}" == "1.23 3"
    assert f"{torch.tensor([1.5])}" == "tensor([1.5000])"
    try:
        f"{torch.tensor([1.23456]):.2f}"
    except TypeError as error:
        assert "unsupported format string passed to Tensor.__format__" in str(error)
    else:
        raise AssertionError("formatted")


# %% [markdown]
# ## What does a print cost?
#
# Upstream formats with tensor operators, on the tensor's own device: a selection, a minimum, a maximum, and then two
# *loops over the values*. The first compares each value with its ceiling, to find out whether all are whole, and ends at
# the first that is not. The second formats each, to find the longest. On a GPU each comparison is a launch and a wait for
# the answer, and each formatted number a wait. A thousand elements cost a thousand waits, and three thousand steps if all
# are whole. `print(x.cpu())` costs one copy. (Compiled devices, for which each of these operators would be a compilation,
# are copied first; CUDA is not.) The numbers in the output come row by row, by `tolist`.
#
# All this happens under `no_grad` and with the active modes switched off, so a print in a forward pass records nothing,
# and no `TorchDispatchMode` sees it. (A profiler does.) It still has an effect: it waits for the device, and so a race
# between streams disappears when one looks.
#
# ### What upstream does more
#
# * Sparse tensors print their indices and values, nested ones their parts, quantised ones scale and zero point, fake ones
#   (`FakeTensor(..., size=(2, 3))`) no numbers at all.
# * Inside `torch.func` transformations a tensor prints its wrappers: `GradTrackingTensor(lvl=1, value=…)`,
#   `BatchedTensor(lvl=1, bdim=0, value=…)`. A print looks through them to the value, which is why it works there and
#   `item()` does not.
# * A `Parameter` says `Parameter containing:` above its tensor, because its `repr` is its own.

# %%
#| fact: torch/_tensor_str.py#_functorch_wrapper_str_intern
#| fact: torch/_tensor_str.py#get_summarized_data
#| fact: torch/nn/parameter.py#Parameter.__repr__
