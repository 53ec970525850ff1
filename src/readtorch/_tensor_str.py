# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.
"""The text of a tensor."""

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


def tensor_totype(t: Any) -> Any:
    """In the type in which numbers are compared for printing: float64."""
    return t.double()


def get_summarized_data(self: Any) -> Any:
    """The elements at the ends of each dimension, where there are more than twice `edgeitems`."""
    from readtorch import cat

    edge, result = PRINT_OPTS.edgeitems, self
    if self.dim() > 1 and not edge:
        return self.new_empty([0] * self.dim())
    for dim, size in enumerate(self.shape):
        if size > 2 * edge:
            start = size - edge if edge else 0
            result = cat((result.narrow(dim, 0, edge), result.narrow(dim, start, size - start)), dim)
    return result
