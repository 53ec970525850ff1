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
# # Tensors without data: the `meta` device
#
# How large is this model, which of its layers gets a wrong shape, and will that `view` be refused? On the device `meta`
# all of it can be asked of a network that fits on no machine here, because its tensors have a shape, a dtype and strides,
# and no elements. The dispatcher needs one column for it, and no operator has to be changed. This part is that column,
# and with it the question every call begins with: which backend do these arrays belong to?

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| needs: a1_operators
with torch.device("meta"):
    layer, batch = torch.empty(50_000, 50_000), torch.empty(8, 50_000)
product = batch @ layer
product.shape, product.dtype, product.device, layer.untyped_storage().nbytes()

# %%
#| into: c10/core/dispatch_key.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from readtorch.c10.core import storage_impl
from readtorch.c10.core.contiguity import Ints, contiguous_strides, strides_of_copy, strides_of_result, strides_of_view
from readtorch.c10.core.device import cpu, device, meta
from readtorch.c10.core.storage_impl import StorageImpl, data_address

# %% [markdown]
# ## How can an array have strides and no elements?
#
# The array under a meta tensor is one element, seen through NumPy strides of zero, so any shape costs a few bytes.
#
# But `x.t().stride()` must tell the strides that a real tensor would have, so those have to be kept somewhere else. NumPy
# can do the bookkeeping. It knows elements of no bytes at all (a structure without fields), and an array of those may
# have any shape and any strides, because nothing is ever read. So each meta array has an *outline* of such elements,
# whose strides count elements, and a view of the array is the same view of its outline.
#
# The next two cells are that class, for readers who want to see it; the runs after them show what it does.


# %%
#| into: c10/core/dispatch_key.py
_NOWHERE = np.empty((), np.dtype([]))


def outline(shape: Ints, strides: Ints, offset: int = 0) -> np.ndarray:
    """Shape, strides and place of elements that are not there."""
    start = as_strided(_NOWHERE, (offset + 1,), (1,))[offset:] if offset else _NOWHERE
    return as_strided(start, shape, strides)


class MetaArray(np.ndarray):
    """The array of a tensor on the `meta` device: a shape, a dtype and strides over a single element.

    Arithmetic with it, as formulas of derivatives do, gives shapes, dtypes and strides again, and nothing can be written to it.
    """

    _outline: np.ndarray | None = None
    _storage: StorageImpl | None = None

    @property
    def outline(self) -> np.ndarray:
        """What NumPy's views are taken of."""
        if self._outline is None:
            self._outline = outline(self.shape, contiguous_strides(self.shape))
        return self._outline

    @property
    def steps(self) -> Ints:
        """The strides, in elements."""
        return contiguous_strides(self.shape) if self._outline is None else self._outline.strides

    @property
    def offset(self) -> int:
        """How many elements lie between the storage's start and the first element."""
        return 0 if self._outline is None else data_address(self._outline) - data_address(_NOWHERE)

    @property
    def storage(self) -> StorageImpl:
        """The storage of this array and its views: a number of bytes and no more."""
        if self._storage is None:
            extent = 1 + sum((n - 1) * step for n, step in zip(self.shape, self.steps, strict=True)) if self.size else 0
            self._storage = storage_impl.Storage.__new__(storage_impl.Storage)
            self._storage.owner = np.broadcast_to(np.zeros((), np.uint8), (extent * self.itemsize,))
            self._storage.device = meta
        return self._storage

    def seen_as(self, outline: np.ndarray, dtype: np.dtype | None = None) -> MetaArray:
        """A view: the same storage through another outline."""
        view = MetaArray(outline.shape, dtype or self.dtype, self.base, 0, (0,) * outline.ndim)
        view._outline, view._storage = outline, self.storage
        return view

    def read_as(self, dtype: Any, shape: Ints, drop: int = 0, tail: Ints = (), shift: int = 0) -> MetaArray:
        """A view of the bytes as other elements: without the last `drop` strides, with others in their place, from `shift` on."""
        kind = np.dtype(dtype)
        steps, offset = ([n * self.itemsize // kind.itemsize for n in ns] for ns in (self.steps, (self.offset,)))
        return self.seen_as(outline(shape, (*steps[: self.ndim - drop], *tail), offset[0] + shift), kind)


# %% [markdown]
# Arithmetic runs the ufunc on one element of each operand, to learn the dtype of the result; shape and strides come from
# [the rule for results](02_storage_and_views.py#strides_of_result). Views are views of the outline.


# %%
#| into: c10/core/dispatch_key.py
class MetaArray(MetaArray):
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is not None:
            return out[0] if len(out) == 1 else out
        if method == "at":
            return None
        if method != "__call__" or ufunc.signature is not None:
            found = getattr(ufunc, method)(*(specimen(x) for x in inputs), **options)
            return meta_like(found) if isinstance(found, np.ndarray | np.generic) else found
        options.pop("where", None)
        results = ufunc(*(specimen(x, 1, whole=False) for x in inputs), **options)
        shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
        strides = strides_of_result(shape, [geometry(x) for x in inputs])
        if ufunc.nout == 1:
            return meta_array(shape, results.dtype, strides)
        return tuple(meta_array(shape, result.dtype, strides) for result in results)

    def __getitem__(self, index: Any) -> Any:
        if any(isinstance(item, list | np.ndarray) for item in (index if isinstance(index, tuple) else (index,))):
            return meta_like(specimen(self)[index])
        return self.seen_as(np.asarray(self.outline[(*index, ...) if isinstance(index, tuple) else (index, ...)]))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Nothing is kept."""

    @property
    def T(self) -> MetaArray:
        """The dimensions in reverse order."""
        return self.seen_as(self.outline.T)

    def transpose(self, *axes: Any) -> MetaArray:
        """The dimensions in another order."""
        return self.seen_as(self.outline.transpose(*axes))

    def swapaxes(self, axis1: Any, axis2: Any) -> MetaArray:
        """Two dimensions exchanged."""
        return self.seen_as(self.outline.swapaxes(axis1, axis2))

    def reshape(self, *shape: Any, order: Any = "C") -> MetaArray:  # type: ignore[override]  # NumPy's overloads take fewer forms of a shape
        """The same elements in another shape: a view where the strides allow it."""
        wanted = np.broadcast_to(np.int8(0), self.shape).reshape(*shape, order=order).shape
        steps = strides_of_view(self.shape, self.steps, wanted) if order == "C" else None
        return meta_array(wanted, self.dtype) if steps is None else self.seen_as(outline(wanted, steps, self.offset))

    def copy(self, order: Any = "C") -> MetaArray:
        """Another that has as few elements."""
        return meta_array(self.shape, self.dtype, strides_of_copy(self.shape, self.steps) if order == "K" else None)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> MetaArray:
        """The same shape and order with another dtype."""
        return meta_array(self.shape, np.dtype(dtype), strides_of_copy(self.shape, self.steps))


# %% [markdown]
# Two tables tell the rest of the library about backends: which column a class of arrays belongs to, and how to ask such
# an array for its device. The functions below them make meta arrays, and make *specimens*: small real arrays on which a
# CPU kernel can be tried in order to learn what it would give for meta arguments.


# %%
#| into: c10/core/dispatch_key.py
#: which column an array's class belongs to; the CUDA backend adds its own class when it is loaded
BACKENDS: dict[type, DispatchKey] = {np.ndarray: DispatchKey.CPU, MetaArray: DispatchKey.Meta}

#: how to tell the device of an array of that class
DEVICE_OF: dict[type, Any] = {np.ndarray: lambda array: cpu, MetaArray: lambda array: meta}


def device_of(array: Any) -> device:
    """The device an array lies on."""
    return DEVICE_OF[array.__class__](array)


def meta_array(shape: Ints, dtype: np.dtype, strides: Ints | None = None) -> MetaArray:
    """An array of that shape without data. Strides count elements; without them it is in one piece."""
    array = MetaArray(shape, dtype, np.zeros(_LARGEST, np.uint8), 0, (0,) * len(shape))
    if strides is not None:
        array._outline = outline(shape, strides)
    return array


_LARGEST = np.dtype(np.complex128).itemsize


def meta_in(storage: StorageImpl, dtype: np.dtype, shape: Ints, strides: Ints, offset: int) -> MetaArray:
    """An array that looks into a storage without data."""
    array = meta_array(shape, dtype)
    array._outline, array._storage = outline(shape, strides, offset), storage
    return array


def meta_like(array: Any, shape: Ints | None = None) -> MetaArray:
    """The dtype of `array`, and its shape and order or another shape, without data."""
    if shape is not None:
        return meta_array(shape, array.dtype)
    return meta_array(array.shape, array.dtype, strides_of_copy(*geometry(array)))


def on_meta(array: Any) -> MetaArray:
    """What was made of meta arrays, as one of them."""
    return array if array.__class__ is MetaArray else meta_like(array)


def geometry(array: Any) -> tuple[Ints, Ints]:
    """Shape, and strides in elements; of a number, those of a tensor without dimensions."""
    if array.__class__ is MetaArray:
        return array.shape, array.steps
    shape = np.shape(array)
    itemsize = getattr(array, "itemsize", 1)
    return shape, tuple(step // itemsize for step in array.strides) if shape else ()


def specimen(array: Any, fill: int = 0, *, whole: bool = True) -> Any:
    """For a meta array, an array of NumPy's to try a kernel on: `fill` everywhere, in a single element.

    It may be written to. Unless `whole`, all sizes are 1; as many dimensions stay, since they matter for the dtype of a result.
    Other arguments are returned as they are, arrays among them shrunk alike.
    """
    if not isinstance(array, np.ndarray) or (whole and array.__class__ is not MetaArray):
        return array
    dtype = array.dtype
    element = np.zeros((), dtype) if not fill or dtype.kind == "V" else np.ones((), dtype)
    sizes = array.shape if whole else (1,) * array.ndim
    return np.ndarray(sizes, dtype, element, 0, (0,) * array.ndim)


def identity(array: Any) -> Any:
    """A specimen that can be inverted and decomposed: for matrices the unit matrix, one for all of a batch."""
    if array.__class__ is not MetaArray or array.ndim < 2 or array.dtype.kind == "V":
        return specimen(array, 1)
    one = np.eye(*array.shape[-2:], dtype=array.dtype)
    return np.ndarray(array.shape, array.dtype, one, 0, (0,) * (array.ndim - 2) + one.strides)


def without_values(tensor: Any) -> bool:
    """Does it lie on `meta`, where nothing can be asked of its elements?"""
    return getattr(tensor, "_array", tensor).__class__ is MetaArray


def values_for(operator: str, tensor: Any) -> None:
    """NotImplementedError for an operator that has nothing to say without the elements of `tensor`."""
    if without_values(tensor):
        raise NotImplementedError(
            f"aten::{operator} has no kernel for Meta tensors: its result is made of their elements"
        )


# %%
#| needs: a1_operators
left, right = torch.empty(3_000, 2_000, device="meta"), torch.empty(2_000, 10, device="meta")
product = left @ right
product.shape, product.device, product._array.strides

# %%
#| needs: a1_operators
part = product.t()[1:]
part.stride(), part.storage_offset(), (part + 1).stride(), part._array.strides, part.untyped_storage().nbytes()

# %% [markdown]
# A meta kernel answers *what would come out*, and where it would lie in memory. In the last tuple, `part.stride()` comes
# from the outline and `part._array.strides` from NumPy: zeros, since there is one element.
#
# Upstream has a kernel for `Meta` in most rows: the shape function of a structured kernel, generated for it, or a
# function in Python (`torch/_meta_registrations.py`). Ours fills the column with one function, `meta_kernel` of [the
# dispatcher](03_dispatcher.py#meta_kernel), which runs the CPU's kernel on a specimen. The compiler's `FakeTensor` is a
# meta tensor that remembers a device.


# %%
#| needs: a1_operators
#| claim: a meta tensor tells strides, offset and size of storage as a real one would, and refuses a view that a real one would refuse
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl
def _(torch):
    x = torch.empty(1 << 20, 1 << 20, device="meta")
    assert (
        x.t()[3:].stride() == (1, 1 << 20)
        and x.t()[3:].storage_offset() == 3
        and x[1:].untyped_storage().nbytes() == 1 << 42
    )
    assert (x.t() + 1).stride() == (1, 1 << 20) and x.t().contiguous().is_contiguous() and not x.t().is_contiguous()
    images = torch.empty(2, 3, 4, 5, device="meta").to(memory_format=torch.channels_last)
    assert torch.nn.functional.max_pool2d(images * 2, 2).is_contiguous(memory_format=torch.channels_last)
    try:
        x.t().view(-1)
    except RuntimeError as error:
        assert "view size is not compatible" in str(error)
    else:
        raise AssertionError("viewed")


# %%
#| claim: what needs the elements cannot be asked of a meta tensor: neither its number nor a list of them
#| needs: a1_operators
def _(torch):
    x = torch.ones(3, device="meta")
    for ask in (x.sum().item, x.tolist):
        try:
            ask()
        except (RuntimeError, NotImplementedError) as error:
            assert "eta" in str(error)
        else:
            raise AssertionError("answered")


# %% [markdown]
# ## Who makes a device the current one?
#
# Some hardware has a *current* device, on which whatever is launched runs. Code that touches arrays outside a kernel asks
# here for the context in which the device of its array is the current one. The CPU has none to choose, so the tables
# start empty, and the CUDA backend (chapter 1) fills them.

# %%
#| into: c10/core/device_guard.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any


import numpy as np

from readtorch.c10.core.device import device
from readtorch.c10.core.dispatch_key import MetaArray, meta_array


# %%
#| into: c10/core/device_guard.py
#| upstream: c10/core/DeviceGuard.h#c10::DeviceGuard
NOTHING: AbstractContextManager[Any] = nullcontext()

#: for a class of arrays, how to make their device the current one; the CUDA backend adds its own
GUARDS: dict[type, Callable[[Any], AbstractContextManager[Any]]] = {}


#: for a class of arrays, the current stream of their device; the CUDA backend adds its own
STREAMS: dict[type, Callable[[Any], Any]] = {}

#: for a class of arrays, the context for a node of a backward pass: (stream of the forward, gradient); the CUDA backend adds its own
BACKWARD: dict[type, Callable[[Any, Any], AbstractContextManager[Any]]] = {}


#: the current device of a kind; the CUDA backend adds its own
CURRENT: dict[str, Callable[[], int]] = {}


def with_index(wanted: device) -> device:
    """The device with its number: where none is given, the current one is meant."""
    if wanted.index is not None or wanted.type not in CURRENT:
        return wanted
    return device(wanted.type, CURRENT[wanted.type]())


#: how an array of a class gets to the host, which has to wait for it; the CUDA backend adds its own
TO_HOST: dict[type, Callable[[Any], Any]] = {}


def on_host(array: Any) -> Any:
    """The array, or its copy on the host."""
    mover = TO_HOST.get(array.__class__)
    return array if mover is None else mover(array)


#: for a class of arrays, a 0-d array of a number on the device of another array; the CUDA backend adds its own
NUMBERS: dict[type, Callable[[Any, np.dtype, Any], Any]] = {
    MetaArray: lambda value, dtype, like: meta_array((), np.asarray(value, dtype).dtype)
}


def number_beside(value: Any, dtype: np.dtype, like: Any) -> Any:
    """A number as a 0-d array on the device of `like`, without a copy over the bus."""
    make = NUMBERS.get(like.__class__)
    return np.asarray(value, dtype) if make is None else make(value, dtype, like)


def device_guard(array: Any) -> AbstractContextManager[Any]:
    """The context in which an array's device is the current one. NumPy's have none to choose."""
    guard = GUARDS.get(array.__class__)
    return NOTHING if guard is None else guard(array)


# %% [markdown]
# The table of operators is complete, columns and rows. What a call leaves behind for `backward`, and who runs it, is [the
# engine](04_engine.py).

# %%
#| fact: torch/_meta_registrations.py#register_meta
