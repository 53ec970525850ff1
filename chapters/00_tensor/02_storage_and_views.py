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
# # Storage and views
#
# `x.t()` copies nothing, and writing into it changes `x`. This part holds the object that makes that so, and the counter by which autograd later
# finds out that somebody wrote.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## The floors of the house
#
# The package is built as upstream is. `c10` knows what a tensor is and nothing of what is done with it; `aten` holds the operators, on raw
# arrays; `csrc` the engine and the bindings; `_C` is the face of all three. Each imports only downward.

# %%
#| into: c10/__init__.py
"""The ground: dtypes, devices, storage and the tensor object itself (twin of upstream's `c10/`)."""

# %%
#| into: c10/core/__init__.py
"""What a tensor is made of (twin of `c10/core/`)."""

# %%
#| into: aten/__init__.py
"""The operators on raw arrays, their derivatives and their dispatch (twin of `aten/src/ATen/`)."""

# %%
#| into: csrc/__init__.py
"""The engine, its nodes and the bindings (twin of `torch/csrc/`)."""

# %% [markdown]
# ## Who owns the bytes?
#
# A **storage** owns a flat run of bytes and knows nothing of shape. NumPy has the same idea without a name for it: the array at the end of the
# `.base` chain owns the memory, all others look into it. So a storage here is a face put on that array. It is made when somebody asks,
# since most tensors live and die without anyone asking; while it lives, asking again returns the same object.

# %%
#| into: c10/core/storage_impl.py
#| imports
from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from readtorch.c10.core.device import cpu, device


# %%
#| into: c10/core/storage_impl.py
#| upstream: c10/core/StorageImpl.h#c10::StorageImpl
class StorageImpl:
    """A flat run of bytes. `owner` is the array that owns them; every view's array leads to it through `.base`."""

    __slots__ = ("__weakref__", "device", "owner")

    def __init__(self, owner: Any, where: device = cpu) -> None:
        self.owner = owner
        self.device = where

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return data_address(self.owner)

    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.owner.nbytes)

    def bytes(self) -> np.ndarray:
        """The bytes as a flat uint8 array that shares the memory."""
        owner = self.owner
        if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
            raise RuntimeError("this storage wraps a strided array that owns no contiguous memory")
        return owner.reshape(-1, order="A").view(np.uint8)


#: the class of every storage that is handed out; `storage` puts `UntypedStorage` here when it is imported
Storage: type[StorageImpl] = StorageImpl
_alive: weakref.WeakValueDictionary[int, StorageImpl] = weakref.WeakValueDictionary()


def owner_of(array: Any) -> Any:
    """The array that owns the memory `array` looks into."""
    while isinstance(base := array.base, np.ndarray):
        array = base
    return array


def storage_of(array: Any, where: device) -> StorageImpl:
    """The storage behind an array: the same object for all views of it, as long as somebody holds it."""
    owner = owner_of(array)
    found = _alive.get(id(owner))
    if found is None or found.owner is not owner:
        found = _alive[id(owner)] = Storage.__new__(Storage)
        found.owner, found.device = owner, where
    return found


def data_address(array: Any) -> int:
    """Address of an array's first element."""
    return int(array.__array_interface__["data"][0])


# %% [markdown]
# ## How does autograd notice a write?
#
# `exp` keeps its result, because the derivative of eˣ is that result. If the program then adds one to it in place, backward would use a wrong number
# and say nothing. So every piece of memory carries a **version counter**: each in-place operation bumps it, whoever keeps a tensor for
# backward notes the number, and compares before use.
#
# All views of one memory share one counter. Almost no tensor is ever written to or viewed, so ours is made at the first view or write: until then its
# absence means zero.

# %%
#| into: c10/core/tensor_impl.py
#| imports
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np


# %%
#| into: c10/core/tensor_impl.py
#| upstream: c10/core/TensorImpl.h#c10::VariableVersion
class VariableVersion:
    """Counts in-place writes to one memory. `views` remembers the tensors whose history must follow when it is rewritten."""

    __slots__ = ("value", "views")

    def __init__(self) -> None:
        self.value = 0
        self.views: list[weakref.ref] | None = None

    def register_view(self, view: TensorImpl) -> None:
        """Remember a differentiable view, weakly. Dead entries are swept when the list has doubled."""
        views = self.views
        if views is None:
            self.views = [weakref.ref(view)]
            return
        if len(views) & 63 == 63:
            views[:] = [entry for entry in views if entry() is not None]
        views.append(weakref.ref(view))


# %% [markdown]
# ## One tensor object
#
# Upstream has three: `TensorImpl` with the data, `AutogradMeta` hanging from it, and the Python object `THPVariable` around both. In Python one object with
# slots does, and every nanosecond counts here: this class is instantiated once per operation. Six slots hold what the hot path reads and writes; anything a user
# attaches goes to the instance dictionary, which costs nothing until it is used.
#
# | slot | holds |
# |---|---|
# | `_array` | the raw array: NumPy's on the CPU, CuPy's on a GPU. Shape, strides, dtype and offset are its own |
# | `_edge` | where the gradient goes: a node, a pair (node, output number), or None where no gradient is wanted |
# | `_vc` | the version counter, None while zero and unshared |
# | `_view` | for a view that autograd tracks: its base, how to take it again, and under which circumstances it was made |
# | `_grad` | the accumulated gradient of a leaf |
# | `_meta` | rarely used facts: a name, hooks, the dtype gradients must have |


# %%
#| into: c10/core/tensor_impl.py
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl
class TensorImpl:
    """The tensor. Known to Python as `torch._C.TensorBase`; its methods are bound to it by `csrc/autograd/python_variable.py`."""

    __slots__ = ("__dict__", "__weakref__", "_array", "_edge", "_grad", "_meta", "_vc", "_view")
    _array: Any
    _edge: Any
    _vc: VariableVersion | None
    _view: tuple | None
    _grad: Any
    _meta: dict[str, Any] | None

    if TYPE_CHECKING:
        #: bound at import, for the type checker's eyes: attributes, methods and Python's operators
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def _operator(self, other: Any) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __pow__ = __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __matmul__ = __rmatmul__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _operator

        def __neg__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __index__(self) -> int: ...


# %% [markdown]
# The floors below `_tensor` must make tensors of the class `Tensor`, which is defined above them. Upstream solves this with a global slot,
# `THPVariableClass`, that the Python side fills at import; so do we.

# %%
#| into: c10/core/tensor_impl.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_Wrap
#: the class of every tensor that an operator returns; `_tensor` puts `Tensor` here when it is imported
Tensor: Any = TensorImpl
new: Any = object.__new__


def wrap(array: Any, edge: Any = None) -> Any:
    """A fresh tensor around an array. 0-d results of NumPy functions may be scalars: they become arrays again."""
    if array.__class__ is not np.ndarray and isinstance(array, np.generic):
        array = np.asarray(array)
    tensor = new(Tensor)
    tensor._array = array
    tensor._edge = edge
    tensor._vc = None
    tensor._view = None
    tensor._grad = None
    tensor._meta = None
    return tensor


def init(tensor: Any, array: Any, edge: Any = None) -> Any:
    """Fill the slots of a tensor made by a subclass's `__new__`."""
    tensor._array = array
    tensor._edge = edge
    tensor._vc = None
    tensor._view = None
    tensor._grad = None
    tensor._meta = None
    return tensor


# %% [markdown]
# A node may have kept the tensor as *its own result* before anyone needed a counter. When the counter comes into being, the node is told.


# %%
#| into: c10/core/tensor_impl.py
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl::version_counter
def version_counter(tensor: Any) -> VariableVersion:
    """The tensor's version counter, made now if there was none."""
    counter = tensor._vc
    if counter is None:
        counter = tensor._vc = VariableVersion()
        edge = tensor._edge
        if edge is not None:
            if edge.__class__ is tuple:
                edge[0].output_has_counter(edge[1], counter)
            else:
                edge.output_has_counter(0, counter)
    return counter


def current_version(tensor: Any) -> int:
    """How often the memory behind this tensor was written to."""
    return 0 if tensor._vc is None else tensor._vc.value


# %% [markdown]
# ## The shape is a tuple that knows its product

# %%
#| into: csrc/size.py
#| imports
from __future__ import annotations

import math
from typing import Any, SupportsIndex


# %%
#| into: csrc/size.py
#| upstream: torch/csrc/Size.cpp#THPSize_pynew
class Size(tuple[int, ...]):
    """A shape: a tuple of ints whose slices and sums are shapes again."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        values = tuple(sizes)
        for position, value in enumerate(values):
            if value.__class__ is not int:
                try:
                    values = (*values[:position], value.__index__(), *values[position + 1 :])
                except (AttributeError, TypeError):
                    kind = type(value).__name__
                    raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{kind}')") from None
        return tuple.__new__(cls, values)

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(tuple(other), self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


# %% [markdown]
# ## Watch the counter

# %%
x = torch.zeros(2, 3)
row = x[0]
row.add_(1)
x._version, row._version, x.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()


# %%
#| claim: a view shares the version counter and the storage; `.detach()` does too; `.data` shares the memory and not the counter
def _(torch):
    x = torch.zeros(2, 3)
    x[0].add_(1)
    assert x._version == 1
    assert x.detach()._version == 1 and x.data._version == 0
    x.detach().mul_(2)
    x.data.mul_(2)
    assert x._version == 2
    assert x.data.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


# %%
#| claim: a storage belongs to the memory, not to the view: its size is that of the whole
def _(torch):
    x = torch.arange(10, dtype=torch.float32)
    half = x[5:]
    assert half.untyped_storage().nbytes() == 40
    assert half.storage_offset() == 5
    assert half.untyped_storage().data_ptr() == x.data_ptr()
