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
# # What stands behind brackets: indexing, conversions
#
# Does `x[i]` share memory with `x`? Does `x.to(device)` copy? Brackets and `to` must find out what they were given before
# an operator can be called. What they find decides things that the line does not show: whether the result shares memory,
# and whether the graph goes on. ([Operators](10a_python_operators.py), `a + 1`, are the part after this.)

# %%
import time

import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What does `x[…]` do?
#
# `x[1, ..., None, mask]` is four languages in one pair of brackets. Upstream reads it from left to right. Integers,
# slices, `None` and `...` are applied at once, each as a view. Tensors are collected, and if there are any, one gather
# follows at the end. So one index is several operators, and the graph shows each:
#
# | item | operator | node | memory |
# |---|---|---|---|
# | `1`, a 0-d integer tensor | `select` | `SelectBackward0` | shared |
# | `1:3` | `slice` | `SliceBackward0` | shared |
# | `None` | `unsqueeze` | `UnsqueezeBackward0` | shared |
# | `...` alone | `alias` | `AliasBackward0` | shared |
# | a list, an array, a tensor, a mask, `True` | `index` | `IndexBackward0` | copied |
#
# An integer tensor without dimensions counts as an integer. On a GPU that means reading it, and the host waits: `x[i]`
# with `i` on the device stops as `i.item()` would, while `x[i[None]]` is a gather and does not. A mask waits too:
# `nonzero` turns it into positions, and only the data know how many there are.

# %%
#| into: csrc/autograd/python_variable_indexing.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.functorch.batched_tensor_impl import concrete_mask
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.tensor_iterator import fitting
from readtorch.c10.core.device import cpu
from readtorch.c10.core.device_guard import device_guard
from readtorch.c10.core.device_guard import on_host
from readtorch.c10.core.dispatch_key import MetaArray
from readtorch.c10.core.dispatch_key import device_of, meta_like
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.csrc.utils.tensor_new import array_from_data


# %%
#| into: csrc/autograd/python_variable_indexing.py
#| upstream: torch/csrc/autograd/python_variable_indexing.cpp#torch::autograd::applySlicing
def apply_slicing(tensor: Any, items: tuple, *, past_masks: bool = False) -> tuple[Any, list[Any]]:
    """Apply ints, slices, None and Ellipsis as views; return the view and the index tensors by dimension.

    With `past_masks` a mask is checked and stands for the dimensions it covers: nobody asks where it is true.
    """
    at = dispatcher.autograd
    rank = tensor._array.ndim
    taken = sum(_dimensions(item) for item in items)
    if taken > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    dim = 0
    indices: list[Any] = []
    for item in items:
        if item.__class__ is int:
            tensor = _pick(tensor, dim, item)
        elif item.__class__ is slice:
            if item != slice(None):
                tensor = at.slice(tensor, dim, *_bounds(item))
            dim += 1
        elif item is Ellipsis:
            dim += rank - taken
        elif item is None:
            tensor = at.unsqueeze(tensor, dim)
            dim += 1
        elif item is True or item is False:
            tensor = at.unsqueeze(tensor, dim)
            indices.extend([None] * (dim - len(indices)))
            indices.append(wrap(np.array([0] if item else [], np.int64)))
            dim += 1
        else:
            is_mask = item._array.dtype.kind == "b"
            if is_mask:
                _check_mask(item._array, tensor._array.shape, dim)
            if not (is_mask and past_masks):
                indices.extend([None] * (dim - len(indices)))
                indices.extend(_positions(item._array) if is_mask else [item])
            dim += item._array.ndim if is_mask else 1
    return tensor, indices


def _pick(tensor: Any, dim: int, index: int) -> Any:
    try:
        return dispatcher.autograd.select(tensor, dim, index)
    except IndexError:
        if not tensor._array.ndim:
            raise IndexError("invalid index of a 0-dim tensor. `tensor.item()` gives its number") from None
        size = tensor._array.shape[dim]
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}") from None


def _check_mask(mask: Any, shape: tuple[int, ...], dim: int) -> None:
    """IndexError if the shape of a mask is not that of the dimensions it covers, from `dim` on."""
    for axis, size in enumerate(mask.shape):
        if size != shape[dim + axis]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {axis} does not match "
                f"the shape of the indexed tensor {list(shape)} at index {dim + axis}"
            )


def _positions(mask: Any) -> list[Any]:
    """A mask as one index tensor per dimension it covers."""
    if is_wrapped(mask):
        mask = concrete_mask(mask)
    if mask.__class__ is MetaArray:
        raise NotImplementedError("a mask on the meta device has no positions (nonzero): how many depends on elements")
    with device_guard(mask):
        return [wrap(positions) for positions in mask.nonzero()]


def _dimensions(item: Any) -> int:
    if item is None or item is Ellipsis or item is True or item is False:
        return 0
    if isinstance(item, TensorImpl) and item._array.dtype.kind == "b":
        return item._array.ndim
    return 1


def _bounds(item: slice) -> tuple[int | None, int | None, int]:
    try:
        return _bounds_of_ints(item)
    except AttributeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None


def _bounds_of_ints(item: slice) -> tuple[int | None, int | None, int]:
    step = 1 if item.step is None else item.step.__index__()
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    start = None if item.start is None else item.start.__index__()
    stop = None if item.stop is None else item.stop.__index__()
    return start, stop, step


# %% [markdown]
# Before that, the items are brought into a few kinds: ints, slices, `None`, `...`, bools, tensors. Most of the errors
# that indexing raises come from here.


# %%
#| into: csrc/autograd/python_variable_indexing.py
#| upstream: torch/csrc/autograd/python_variable_indexing.cpp#torch::autograd::wrapTuple
def normalize(index: Any, rank: int) -> tuple:
    """The items of an index: Python ints, slices, None, Ellipsis, bools, tensors. TypeError or IndexError for the rest."""
    if index.__class__ is not tuple:
        index = tuple(index) if _stands_for_tuple(index) else (index,)
    try:
        return tuple([_normal_item(item) for item in index])
    except (TypeError, ValueError, RuntimeError):
        if sum(_written_dimensions(item) for item in index) > rank:  # counted before anybody looks at what they are
            raise IndexError(f"too many indices for tensor of dimension {rank}") from None
        raise


def _written_dimensions(item: Any) -> int:
    if isinstance(item, TensorImpl) and item._array.dtype == np.uint8:
        return item._array.ndim
    return _dimensions(item)


#: A sequence as long as this is data, whatever is in it: NumPy once had no room for more dimensions.
_LONGEST_TUPLE = 32


def _stands_for_tuple(index: Any) -> bool:
    """Whether a sequence that is no tuple is read as one: NumPy's early days, which upstream still keeps, with a warning."""
    if isinstance(index, tuple):
        return True
    if not isinstance(index, Sequence) or len(index) >= _LONGEST_TUPLE:
        return False
    if not any(item is None or item is Ellipsis or isinstance(item, _NOT_NUMBERS) for item in index):
        return False
    warnings.warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated: write x[tuple(seq)] for one item per "
        "dimension, as this is read now, or x[torch.tensor(seq)] for one tensor of positions.",
        stacklevel=4,
    )
    return True


_NOT_NUMBERS = (TensorImpl, Sequence, np.ndarray, slice)


def _normal_item(item: Any) -> Any:
    if item.__class__ in (int, slice, bool) or item is None or item is Ellipsis:
        return item
    if isinstance(item, TensorImpl) and not item._array.ndim and item._array.__class__ is MetaArray:
        return item.item()  # which number it is cannot be told
    if isinstance(item, TensorImpl):
        kind = item._array.dtype.kind
        if kind in "iu" and is_one_of_many(item):
            return item  # one of many has no number
        if item._array.ndim == 0 and kind in "iu" and item._array.dtype != np.uint8:
            return int(on_host(item._array))
        if item._array.ndim == 0 and kind in "bu":
            return bool(on_host(item._array))
        if kind not in "iub" or (item._array.itemsize < 4 and kind == "i"):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if kind == "u":
            warnings.warn("indexing with dtype torch.uint8 is deprecated: a mask is of torch.bool", stacklevel=5)
            return wrap(item._array.astype(bool))
        return item
    if isinstance(item, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(item, Sequence | np.ndarray):
        array = np.asarray(item) if isinstance(item, np.ndarray) else _from_list(item)
        if array.dtype.kind == "f":
            array = array.astype(np.int64)  # positions may be written as floats, which lose their fraction
        if array.dtype.kind not in "iub":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return wrap(array) if array.ndim else int(array)
    try:
        return item.__index__()
    except (AttributeError, TypeError):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(item).__name__})"
        ) from None


def _from_list(data: Sequence[Any]) -> Any:
    try:
        return array_from_data(data, None)
    except ValueError as error:
        if "'str'" in str(error):
            raise TypeError("new(): invalid data type 'str'") from None
        raise


# %% [markdown]
# Reading is views, and then a gather if there are index tensors. Writing is the same views, and then a `copy_` into the
# last of them, or a scatter. That is why `x[0] = y` shows as `CopySlices` in the graph.


# %%
#| into: csrc/autograd/python_variable_indexing.py
#| upstream: torch/csrc/autograd/python_variable_indexing.cpp#torch::autograd::THPVariable_getitem
def getitem(self: Any, index: Any) -> Any:
    """`self[index]`: a view where only ints, slices, None and `...` stand, else a gather."""
    if index.__class__ is int:
        return _pick(self, 0, index)
    at = dispatcher.autograd
    if index.__class__ is slice:
        return at.slice(self, 0, *_bounds(index))
    view, indices = apply_slicing(self, normalize(index, self._array.ndim))
    if not indices:
        return at.alias(view) if view is self else view
    if self._array.__class__ is not np.ndarray:
        indices = [beside(self, index) for index in indices]
    return at.index(view, indices)


def beside(tensor: Any, other: Any) -> Any:
    """`other` on the device of `tensor`: indices, and numbers that are assigned, may come from the host."""
    if other is None or other._array.__class__ is not np.ndarray or is_wrapped(tensor._array):
        return other
    if tensor._array.__class__ is MetaArray:
        return wrap(meta_like(other._array))
    return dispatcher.autograd._to_device(other, device_of(tensor._array), cpu, True)


def setitem(self: Any, index: Any, value: Any) -> None:
    """`self[index] = value`, by a copy into a view, or a scatter."""
    at = dispatcher.autograd
    is_number = not isinstance(value, TensorImpl)
    if is_number:
        value = wrap(_value_array(value, self))  # what is wrong with it is said before what is wrong with the index
    if index is False:  # no place at all: upstream does not look whether the value would fit
        return
    if index is True:
        index = None  # the whole, as a view
    items = normalize(index, self._array.ndim)
    #: Values wherever the mask is true: on the meta device it is not known where, and makes no difference.
    past_masks = self._array.__class__ is MetaArray
    view, indices = apply_slicing(self, items, past_masks=past_masks)
    if self._array.__class__ is not np.ndarray:
        value, indices = beside(self, value), [beside(self, index) for index in indices]
    if indices:
        by_mask = not any(
            item is True or item is False or (isinstance(item, TensorImpl) and item._array.dtype.kind != "b")
            for item in items
        )
        if is_number or (by_mask and value._array.size == 1):
            value = value.to(self.dtype)  # upstream fills by mask, which converts; dtypes have to match otherwise
            written = index if index.__class__ is tuple else (index,)
            if any(isinstance(item, TensorImpl) and item._array.dtype == np.uint8 for item in written):
                from readtorch.aten.native.tensor_advanced_indexing import fills_by_mask_only

                raise fills_by_mask_only()
        at.index_put_(view, indices, value)
        return
    shape = view._array.shape
    if value._array.ndim and value._array.shape != shape:
        while value._array.ndim and value._array.shape[0] == 1:
            value = at.select(value, 0, 0)
        if is_expandable_to(value._array.shape, shape) or not past_masks:
            value = at.expand(value, shape)
    if past_masks and any(isinstance(item, TensorImpl) for item in items):
        value = at.sum(value)  # of any shape: it depends on elements which is right
    if value._view is not None and value._array.ndim == 0:
        value = at.clone(value)  # x[0] = x[0, 1]: upstream fills with one number, read before anything is written
    at.copy_(view, value)


def delitem(self: Any, index: Any) -> None:
    """TypeError: a tensor's size is given by its memory."""
    raise TypeError("Tensor does not support deleting items")


def _value_array(value: Any, target: Any) -> np.ndarray:
    """The number that is assigned. TypeError for what is none: a list or a NumPy array has to be made a tensor first."""
    if not isinstance(value, bool | int | float | complex | np.integer):
        kind = type(value)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TypeError(f"can't assign a {name} to a {target.type()}; make a tensor of it")
    kind = target._array.dtype
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    if value.__class__ is float and kind.kind == "f" and -_HELD_BY_HALF < value < _HELD_BY_HALF:
        return np.asarray(value, kind)
    if kind == np.float16 and isinstance(value, int | float):
        return np.asarray(value, np.float64).astype(kind)  # infinite where it does not fit, without a word
    return np.asarray(fitting(value, kind), kind)


#: any floating dtype has numbers of this size
_HELD_BY_HALF = 65504.0


# %%
x, mask = torch.arange(24.0).reshape(2, 3, 4), torch.tensor([True, False, True, True])

# %% [markdown]
# One pair of brackets, step by step:

# %%
#| needs: a1_operators
#| trace: torch.csrc.autograd.python_variable_indexing layers=calls,ops values=summary title="x[1, ..., None, mask]: two views and a gather"
picked = x[1, ..., None, mask]

# %%
#| needs: a1_operators
picked.shape


# %%
#| needs: a1_operators
#| claim: integers, slices, None and a 0-d integer tensor give views; lists, index tensors, masks and True give copies
#| upstream: aten/src/ATen/TensorIndexing.h#at::indexing::impl::applySlicing
def _(torch):
    x = torch.arange(6.0).reshape(2, 3)

    def shared(y):
        return y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()

    for index in (0, slice(0, 1), None, ..., torch.tensor(0), (0, slice(None)), (..., None, 1)):
        assert shared(x[index]), index
    for index in ([0], torch.tensor([0]), x[:, 0] >= 0, True):
        assert not shared(x[index]), index


# %% [markdown]
# A list is read in two ways. `x[[0, 2]]` is one gather with two positions. But if something in the list cannot be a
# position (a list, a tensor, a slice, `None`), the list is read as a tuple, one item per dimension: `x[[[0, 1], [0, 2]]]`
# picks two elements and not two times two rows. NumPy did so before 1.23; PyTorch still does, warns, and means to stop. A
# list of 32 items or more is data in any case.


# %%
#| needs: a1_operators
#| claim: a list of fewer than 32 items with a list, a tensor, a slice or None among them is read as a tuple, with a warning
#| upstream: torch/csrc/autograd/python_variable_indexing.cpp#torch::autograd::treatSequenceAsTuple
def _(torch):
    import warnings

    x = torch.arange(24).reshape(2, 3, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert x[[0, 1]].shape == (2, 3, 4) and x[[[0]] * 32].shape == (32, 1, 3, 4) and not caught
        assert x[[[0, 1]]].shape == (2, 3, 4) and len(caught) == 1
        assert x[[[0, 1], [0, 2]]].tolist() == x[[0, 1], [0, 2]].tolist()
        assert x[[torch.tensor([0, 1]), torch.tensor([1, 2])]].tolist() == x[[0, 1], [1, 2]].tolist()
        x[[[0, 1], [0, 2]]] = -1
    assert x.sum(2).tolist() == [[-4, 22, 38], [54, 70, -4]] and len(caught) == 4
    assert "non-tuple sequence" in str(caught[0].message)


# %% [markdown]
# ### Why is the assignment lost?
# `x[mask][0] = 9` reads a copy and writes to it. Python turns `x[a][b] = v` into a *get* with `a` and a *set* with `b`;
# only the last pair of brackets is an assignment. If the first pair gives a view it works, which is what makes it a trap.
#
# The other trap is an index that occurs twice. Reading it twice is fine, and its gradient is the sum of both. Writing
# twice is a race that upstream leaves open on a GPU. `x[i] += 1` is a read, an addition and a write, so a position that
# occurs twice is incremented once. `index_add_`, or `index_put_(…, accumulate=True)`, adds every time; the backward pass
# of a gather is made of the latter, and so is that of an embedding.


# %%
#| needs: a1_operators
#| claim: a write into a masked selection is lost; an index that occurs twice is incremented once and differentiated twice
#| upstream: aten/src/ATen/native/native_functions.yaml#index_put_
def _(torch):
    x, twice = torch.zeros(3), torch.tensor([0, 0, 1])
    x[x < 1][0] = 9
    assert x.tolist() == [0, 0, 0]
    x[twice] += 1
    assert x.tolist() == [1, 1, 0]
    x.index_put_((twice,), torch.tensor(1.0), accumulate=True)
    assert x.tolist() == [3, 2, 0]
    leaf = torch.ones(3, requires_grad=True)
    leaf[twice].sum().backward()
    assert leaf.grad.tolist() == [2, 1, 0]


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "Indexing works as in NumPy." Nearly. If index arrays are separated by a slice, both put the
# > gathered dimension first. But NumPy counts an *integer* among them as an index array, and here it has been applied as
# > a view before any tensor is looked at. So `x[0, :, [1, 2]]` has its dimensions the other way round, which shows only
# > if they differ. And a step may not be negative.


# %%
#| needs: a1_operators
#| claim: an integer beside a separated index list gives another order of dimensions than in NumPy
#| upstream: aten/src/ATen/native/IndexingUtils.h#at::native::transposeToFront
def _(torch):
    import numpy as np

    ours, theirs = torch.zeros(2, 3, 4), np.zeros((2, 3, 4))
    assert tuple(ours[0, :, [1, 2]].shape) == (3, 2) and theirs[0, :, [1, 2]].shape == (2, 3)
    assert tuple(ours[[0], :, [1, 2]].shape) == theirs[[0], :, [1, 2]].shape == (2, 3)
    assert tuple(ours[:, [0, 1], [1, 2]].shape) == theirs[:, [0, 1], [1, 2]].shape == (2, 2)


# %% [markdown]
# ### Assigning converts, adding does not
# `counts[0] = 2.7` stores 2, without a word: an assignment is a `copy_`, and copies convert. `counts += 0.7` is refused,
# because there the types are [promoted first](01_dtype_and_device.py#can_cast). A gathered assignment is in between:
# `counts[[0]] = 2.7` converts the number, and a float *tensor* on the right is refused.


# %%
#| claim: assigning a float to an element of an integer tensor truncates it; adding it in place is refused
def _(torch):
    counts = torch.zeros(2, dtype=torch.int64)
    counts.copy_(torch.tensor([2.7, -2.7]))
    assert counts.tolist() == [2, -2]
    try:
        counts += 0.7
    except RuntimeError as error:
        assert "result type Float can't be cast to the desired output type Long" in str(error)
    else:
        raise AssertionError("added")


# %% [markdown]
# ### What does a loop over rows cost?
# The gradient of `x[i]` has the shape of `x`: zeros, except for one row. So a loop over all *n* rows allocates and adds
# *n* tensors of the size of `x` in backward, and the cost grows with the square of *n*. `for row in x:` looks like the
# same loop and is one operator, `unbind`, with as many outputs as there are rows and one node, which stacks their
# gradients once.


# %%
#| needs: a1_operators
def backward_seconds(rows_of, n=400):
    x = torch.ones(n, 50, requires_grad=True)
    total = sum((row * 2).sum() for row in rows_of(x))
    begin = time.perf_counter()
    total.backward()
    return time.perf_counter() - begin


loop = backward_seconds(lambda x: [x[i] for i in range(len(x))])
once = backward_seconds(lambda x: x)
f"backward with one node per row: {loop / once:.1f} times slower than with one node for all"


# %%
#| needs: a1_operators
#| claim: iterating over a tensor makes one node for all rows, indexing it in a loop makes one per row
#| upstream: torch/_tensor.py#Tensor.__iter__
def _(torch):
    x = torch.ones(4, 2, requires_grad=True)
    assert {row.grad_fn.name() for row in x} == {"UnbindBackward0"} and len({row.grad_fn for row in x}) == 1
    nodes = [x[i].grad_fn for i in range(4)]
    assert {node.name() for node in nodes} == {"SelectBackward0"} and len(set(nodes)) == 4


# %% [markdown]
# ## Conversions: what does `to` return?
#
# `to` takes a device, a dtype, both in this order, or another tensor. If nothing changes it returns the *same object*,
# not a copy. So whoever writes to the result of `x.to(device)` writes to `x` on a machine where `x` is there already, and
# to a copy on all others. It never works in place; `x.to("cuda")` as a statement does nothing at all. (`module.to` does
# work in place, because it can exchange `.data`.)
#
# `view(dtype)` is the other meaning of "give me this as int32": it converts nothing and takes the bytes for other
# numbers.

# %% [markdown]
# One of these methods, `set_`, has no derivative, and what it leaves may still be asked for a gradient. Such a result
# gets a node that raises when backward arrives, and not before: a program that never asks is not disturbed.

# %%
#| into: csrc/autograd/functions/basic_ops.py
"""Nodes of operations that have no derivative (twin of `torch/csrc/autograd/functions/basic_ops.cpp`)."""

# %%
#| into: csrc/autograd/functions/basic_ops.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.csrc.autograd.node import Node, next_sequence_nr


# %%
#| into: csrc/autograd/functions/basic_ops.py
#| upstream: torch/csrc/autograd/functions/basic_ops.cpp#torch::autograd::NotImplemented::apply
class NotImplementedNode(Node):
    """The node of an operation that has no derivative and whose result requires one: it raises when backward arrives."""

    __slots__ = ("operation",)

    def __init__(self, operation: str, edges: tuple) -> None:
        self.operation = operation
        self._edges = edges
        self._sequence = next_sequence_nr()

    def describe(self, array: Any) -> None:
        """What the operation left in its result."""
        self._shape, self._dtype = array.shape, array.dtype

    def name(self) -> str:
        return "torch::autograd::NotImplemented"

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        raise RuntimeError(f"derivative for {self.operation} is not implemented")


# %%
#| needs: a1_operators
#| claim: set_ on a tensor with a history leaves a node that raises in backward, not in the call
#| upstream: torch/csrc/autograd/functions/basic_ops.h#torch::autograd::NotImplemented
def _(torch):
    x = torch.ones(2, requires_grad=True) * 1
    x.set_(torch.zeros(2))
    assert x.requires_grad and x.grad_fn.name().endswith("NotImplemented")
    try:
        x.sum().backward()
    except RuntimeError as error:
        assert "derivative for" in str(error) and "is not implemented" in str(error)
    else:
        raise AssertionError("differentiated")


# %%
#| into: csrc/autograd/python_variable_methods.py
#| imports
from __future__ import annotations


from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.functorch.tensor_wrapper import no_storage
from readtorch.c10.core import scalar_type
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.contiguity import contiguous_strides
from readtorch.c10.core.device import device
from readtorch.c10.core.device_guard import with_index
from readtorch.c10.core.dispatch_key import MetaArray, device_of, meta_in
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.memory_format import memory_format
from readtorch.c10.core.scalar_type import dtype
from readtorch.c10.core.tensor_impl import INFERENCE, TensorImpl, init, is_inference, new, version_counter
from readtorch.csrc.autograd import python_variable as properties
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.functions.basic_ops import NotImplementedNode
from readtorch.csrc.autograd.node import split_edge
from readtorch.csrc.autograd.python_variable_indexing import delitem, getitem, setitem
from readtorch.csrc.utils.gates import gates
from readtorch.csrc.utils.python_arg_parser import require
from readtorch.csrc.utils.tensor_new import array_from_data, finish, legacy_tensor, library_of, place


# %%
#| into: csrc/autograd/python_variable_methods.py
#| upstream: torch/csrc/autograd/utils/python_arg_parsing.h#torch::autograd::utils::parse_to_conversion
def parse_to(args: tuple, kwargs: dict[str, Any]) -> tuple[device | None, dtype | None, bool, bool, Any]:
    """The arguments of `to`: device, dtype, non_blocking, copy, memory format. TypeError for what is none of them."""
    where, kind = kwargs.pop("device", None), kwargs.pop("dtype", None)
    if kind is not None and kind.__class__ is not dtype:
        kind = scalar_type.as_dtype(kind, "to", "dtype", 1)
    copy, layout = kwargs.pop("copy", False), kwargs.pop("memory_format", None)
    flags = [bool(kwargs.pop("non_blocking", False)), copy]
    given, device_given = 0, False
    other = kwargs.pop("other", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = list(args)
    if other is not None:
        rest.insert(0, other)
    while rest:
        value = rest.pop(0)
        if isinstance(value, dtype | type):
            if kind is not None:
                kinds = ", ".join(type(argument).__name__ for argument in args)
                raise TypeError(f"to() received an invalid combination of arguments - got ({kinds}): one dtype")
            kind = scalar_type.as_dtype(value, "to", "dtype", 1)
        elif isinstance(value, TensorImpl):
            where, kind = device_of(value._array), scalar_type.FROM_NUMPY[value._array.dtype]
            device_given = True
        elif isinstance(value, bool):
            flags[min(given, 1)] = value
            given += 1
        elif isinstance(value, str | int | device):
            if device_given or any(isinstance(earlier, dtype) for earlier in args[: len(args) - len(rest) - 1]):
                kinds = ", ".join(type(argument).__name__ for argument in args)
                raise TypeError(
                    f"to() received an invalid combination of arguments - got ({kinds}): one device, and it comes first"
                )
            where, device_given = value, True
        elif isinstance(value, memory_format):
            layout = value
        elif value is not None:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(value).__name__})")
    return None if where is None else device(where), kind, flags[0], flags[1], layout


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """This tensor in another dtype, on another device or in another memory format; itself if nothing changes and no copy is asked for."""
    where, kind, non_blocking, copy, layout = parse_to(args, kwargs)
    array = self._array
    at = dispatcher.autograd
    result = self
    if where is not None and (where := with_index(where)) != (here := device_of(array)):
        result = at._to_device(result, where, here, non_blocking)
    if kind is not None and kind.numpy != array.dtype:
        result = _converted(result, kind)
    elif copy and result is self:
        result = at.clone(self)
    if layout is not None and layout is not formats.preserve_format:
        result = contiguous(result, memory_format=layout)
    return result


def _converted(self: Any, kind: dtype) -> Any:
    """A copy in another dtype. Integers have no gradient, wherever they come from."""
    if not kind.is_complex and self._array.dtype.kind == "c":
        warn_once("Casting complex values to real discards the imaginary part", stacklevel=4)
    result = dispatcher.autograd._to_copy(self, kind)
    if kind._category <= scalar_type.INTEGRAL:
        result._edge = None
    return result


@dispatcher.register("_to_device", key="CPU CUDA Meta", variants="", node="ToCopy")
def _to_device(self: Array, target: device, source: device, non_blocking: bool = False) -> Array:
    """The elements on the device `target`; `source`, where they are, is where the gradient goes."""
    if self.__class__ is MetaArray and target.type != "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return place(self, target, non_blocking)


dispatcher.derivative("_to_device", self=lambda at, grad, target, source: at._to_device(grad, source, target))


def contiguous(self: Any, *, memory_format: Any = formats.contiguous_format) -> Any:
    """A tensor with these elements in memory order: this one if it is so already."""
    _require_format("contiguous", memory_format)
    if self._array.flags.c_contiguous and memory_format is formats.contiguous_format:
        return self
    if memory_format is formats.preserve_format:
        memory_format = formats.contiguous_format
    if properties.is_contiguous(self, memory_format=memory_format):
        return self
    return dispatcher.autograd.clone(self, memory_format=memory_format)


def _require_format(op: str, value: Any) -> None:
    if value is not None and not isinstance(value, memory_format):
        raise TypeError(f"{op}(): argument 'memory_format' must be torch.memory_format, not {type(value).__name__}")


# %% [markdown]
# The other methods of this file are those that do more than call an operator. `numpy` refuses a tensor that requires a
# gradient, because what NumPy computes is outside the graph. `set_` and `resize_` exchange or enlarge the memory under a
# tensor, which no derivative can follow.


# %%
#| into: csrc/autograd/python_variable_methods.py
#| upstream: tools/autograd/templates/python_variable_methods.cpp#variable_methods
def _cast_method(name: str, kind: dtype) -> Any:
    def cast(self: Any, *, memory_format: Any = formats.preserve_format) -> Any:
        _require_format(kind.name, memory_format)
        return self if self._array.dtype == kind.numpy else _converted(self, kind)

    cast.__doc__ = f"This tensor as {kind!r}; itself if it is."
    cast.__qualname__ = f"TensorBase.{name}"
    return cast


def view(self: Any, *shape: Any, **named: Any) -> Any:
    """The same memory in another shape, or, given a dtype, with the bytes read as other elements."""
    if "dtype" in named and not shape:
        shape = (named.pop("dtype"),)
    if len(shape) == 1 and isinstance(shape[0], dtype | type) and not named:
        return dispatcher.autograd._view_dtype(self, scalar_type.as_dtype(shape[0], "view", "dtype", 1))
    from readtorch.aten.wrap_dim_utils import sizes

    return dispatcher.autograd._view(self, sizes(shape, "size", named))


def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of this tensor's type (`torch.FloatTensor`); with an argument, the tensor as that type."""
    kind = properties.get_dtype(self)
    require("type", "bool", non_blocking=non_blocking)
    if dtype is None:
        place = "sparse." if self.is_sparse else "cuda." if device_of(self._array).type == "cuda" else ""
        return f"torch.{place}{kind._legacy}"
    if isinstance(dtype, str | type) or hasattr(dtype, "_legacy_dtype"):
        wanted = legacy_dtype(dtype)
    elif isinstance(dtype, scalar_type.dtype):
        wanted = dtype
    else:
        raise TypeError("dtype must be a type, str, or dtype object")
    return to(self, wanted)


def legacy_dtype(name: Any) -> dtype:
    """The dtype of `torch.FloatTensor` or its name. ValueError if there is none."""
    if not isinstance(name, str):
        if not hasattr(name, "_legacy_dtype"):
            if not isinstance(name, type):
                raise TypeError("invalid type object: only floating-point types are supported as the default type")
            raise ValueError(f"invalid type: '{name.__name__}'")
        return name._legacy_dtype
    for kind in scalar_type.ALL if name.startswith("torch.") else ():
        if name.split(".")[-1] == kind._legacy:
            return kind
    raise ValueError(f"invalid type: '{name}'")


def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    """Collect gradients in this tensor from now on."""
    require("requires_grad_", "bool", requires_grad=requires_grad)
    if state.layers and requires_grad and is_wrapped(self._array):
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() inside of a function being transformed by a functorch transform. "
            "This is unsupported: use torch.func.grad, vjp or jacrev, or call requires_grad_() outside of the function."
        )
    variable.set_requires_grad(self, requires_grad)
    return self


def fill_(self: Any, value: Any) -> Any:
    """Set every element to `value`, a number or a 0-d tensor."""
    require("fill_", "Array | Number", value=value)
    if isinstance(value, TensorImpl):
        return dispatcher.operators["_fill_tensor_"].call(self, value)
    return dispatcher.operators["_fill_scalar_"].call(self, value)


def numpy(self: Any, *, force: bool = False) -> Any:
    """A NumPy array that shares this tensor's memory. RuntimeError if it requires grad, TypeError off the CPU, unless `force`."""
    if force:
        return self.detach().cpu()._array
    if state.grad_mode and variable.requires_grad(self):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    array = self._array
    if is_wrapped(array):
        raise no_storage()
    if array.__class__ is not np.ndarray:
        where = device_of(array)
        if where.type == "cpu":
            if array.__class__ in LAYOUT_OF:
                raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")
            return array.copy()  # of a freed array, which says why it cannot be read
        raise TypeError(
            f"can't convert {where} device type tensor to numpy. Use Tensor.cpu() to copy it to host memory"
        )
    if array.dtype.kind == "V":
        raise TypeError("Got unsupported ScalarType BFloat16")
    return array


def new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of `data` with this one's dtype and device."""
    kind = properties.get_dtype(self) if dtype is None else dtype
    return finish(array_from_data(data, kind), device_of(self._array) if device is None else device, requires_grad)


def set_(self: Any, source: Any = None, *args: Any) -> Any:
    """Let this tensor look into other memory: a tensor's, or a storage's at an offset, with a shape and strides."""
    _has_memory(self, "set_")
    node = None
    if state.grad_mode and (
        variable.requires_grad(self) or (isinstance(source, TensorImpl) and variable.requires_grad(source))
    ):
        variable.check_inplace(self)
        tensors = (self, source) if isinstance(source, TensorImpl) else (self,)
        node = NotImplementedNode("set_", tuple(variable.gradient_edge(tensor) for tensor in tensors))
    if source is None:
        self._array = _empty_beside(self._array, 0)
    elif isinstance(source, TensorImpl) and not args:
        self._array = source._array
    else:
        if isinstance(source, TensorImpl):
            source = properties.untyped_storage(source)
        given: list[Any] = [*args, *[0, None, None][len(args) :]]
        self._array = _grown_to_hold(getattr(source, "_untyped_storage", source), None, self._array.dtype, *given)
    version_counter(self).bump()
    variable.tell_leaf(self)
    if node is not None:
        node.describe(self._array)
        variable.rebase_history(self, node)
    return self


def _grown_to_hold(storage: Any, asking: Any, kind: np.dtype, offset: int, shape: Any, strides: Any) -> Any:
    """The array of a storage, which is made larger if it is too small for it. `asking`: the tensor that looks into it."""
    if shape is not None and all(size > 0 for size in shape):
        steps = contiguous_strides(tuple(shape)) if strides is None else strides
        needed = offset + 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
        if needed * kind.itemsize > storage.nbytes():
            storage._resize(needed * kind.itemsize, asking)
    return array_of_storage(storage, kind, offset, shape, strides)


def array_of_storage(storage: Any, kind: np.dtype, offset: int, shape: Any, strides: Any) -> np.ndarray:
    """An array of elements of type `kind` over the bytes of a storage."""
    if storage.device.type == "meta":
        shape = (storage.nbytes() // kind.itemsize - offset,) if shape is None else tuple(shape)
        return meta_in(storage, kind, shape, contiguous_strides(shape) if strides is None else tuple(strides), offset)
    flat = storage.bytes()
    elements = flat[: flat.size // kind.itemsize * kind.itemsize].view(kind)
    if shape is None:
        return elements[offset:]
    if strides is None:
        strides = contiguous_strides(tuple(shape))
    needed = offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if all(shape) else 0
    if needed > elements.size:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)} with strides {list(strides)} from offset {offset} (itemsize {kind.itemsize}) need "
            f"{needed * kind.itemsize} bytes, and are out of bounds for storage of size {flat.size}"
        )
    steps = tuple(step * kind.itemsize for step in strides)
    if isinstance(flat, np.ndarray):
        return np.ndarray(tuple(shape), kind, flat, offset * kind.itemsize if all(shape) else 0, steps)
    numpy, guard = library_of(device_of(elements))
    with guard:
        return numpy.lib.stride_tricks.as_strided(elements[offset:], tuple(shape), steps)


def _empty_beside(array: Any, shape: Any) -> Any:
    """Uninitialised memory of this type on the same device."""
    numpy, guard = library_of(device_of(array))
    with guard:
        return numpy.empty(shape, array.dtype)


def _has_memory(self: Any, name: str) -> None:
    if self._array.__class__ in LAYOUT_OF:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend.")


def set_sizes(tensor: Any, shape: tuple[int, ...]) -> None:
    """Another shape, in its own memory where that is large enough, and no questions."""
    if shape != tensor._array.shape:
        offset = properties.storage_offset(tensor)
        storage = properties.untyped_storage(tensor)
        tensor._array = _grown_to_hold(storage, tensor, tensor._array.dtype, offset, shape, None)


def resize_(self: Any, *size: Any, **named: Any) -> Any:
    """Another shape, in place. New elements are uninitialised; memory is kept if it is large enough."""
    from readtorch.aten.wrap_dim_utils import sizes

    _has_memory(self, "resize_")
    if variable.requires_grad(self):
        raise RuntimeError("cannot resize variables that require grad")
    shape = sizes(size, "size", named)
    if any(size < 0 for size in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    set_sizes(self, shape)
    if is_inference(self):
        if not state.inference_mode:
            raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed")
    else:
        version_counter(self).bump()
    return self


def make_subclass(cls: type, data: Any, require_grad: bool = False) -> Any:
    """`Tensor._make_subclass`: the data of a tensor under another class."""
    require("_make_subclass", "bool", require_grad=require_grad)
    tensor = init(new(cls), data._array)
    tensor._meta = INFERENCE if is_inference(data) else None
    if require_grad:
        variable.set_requires_grad(tensor, True)
    return tensor


def as_subclass(self: Any, cls: type) -> Any:
    """A view of the whole of this tensor, under another class."""
    alias = dispatcher.autograd.alias(self)
    tensor = init(new(cls), alias._array, variable.own_edge(alias))
    tensor._vc, tensor._view, tensor._meta = alias._vc, alias._view, alias._meta
    if tensor._view is not None and tensor._vc is not None:
        if not hasattr(alias, "_edge"):
            tensor.forget_edge()
        tensor._vc.register_view(tensor)
    return tensor


# %% [markdown]
# The table of them, put on the class at import. Upstream these are the entries of `python_variable_methods.cpp` that a
# template spells out by hand.


# %%
#| into: csrc/autograd/python_variable_methods.py
def _tensor(name: str, other: Any) -> Any:
    if not isinstance(other, TensorImpl):
        raise TypeError(f"{name}(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    return other


METHODS = {
    "to": to,
    "contiguous": contiguous,
    "view": view,
    "type": type_,
    "requires_grad_": requires_grad_,
    "fill_": fill_,
    "numpy": numpy,
    "new_tensor": new_tensor,
    "set_": set_,
    "resize_": resize_,
    "as_subclass": as_subclass,
    "detach": properties.detach,
    "detach_": properties.detach_,
    "stride": properties.stride,
    "untyped_storage": properties.untyped_storage,
    "data_ptr": properties.data_ptr,
    "storage_offset": properties.storage_offset,
    "is_contiguous": properties.is_contiguous,
    "size": properties.size,
    "item": properties.item,
    "tolist": properties.tolist,
    "dim": lambda self: self._array.ndim,
    "ndimension": lambda self: self._array.ndim,
    "numel": lambda self: self._array.size,
    "nelement": lambda self: self._array.size,
    "element_size": lambda self: self._array.itemsize,
    "get_device": lambda self: -1 if device_of(self._array).type == "cpu" else device_of(self._array).index or 0,
    "is_floating_point": lambda self: self._array.dtype.kind in "fV",
    "is_complex": lambda self: self._array.dtype.kind == "c",
    "is_signed": lambda self: properties.get_dtype(self).is_signed,
    "is_pinned": lambda self, device=None: False,
    "pin_memory": lambda self, device=None: self,
    "is_inference": lambda self: is_inference(self),
    "_is_view": lambda self: self._base is not None,
    "is_set_to": lambda self, tensor: (
        self._array.shape == _tensor("is_set_to", tensor)._array.shape
        and properties.data_ptr(self) == properties.data_ptr(tensor)
    ),
    "is_same_size": lambda self, other: self._array.shape == _tensor("is_same_size", other)._array.shape,
    "cpu": lambda self, memory_format=None: to(self, "cpu"),
    "cuda": lambda self, device=None, non_blocking=False, memory_format=None: to(
        self, "cuda" if device is None else device, non_blocking=non_blocking
    ),
    "float": _cast_method("float", scalar_type.float32),
    "double": _cast_method("double", scalar_type.float64),
    "half": _cast_method("half", scalar_type.float16),
    "bfloat16": _cast_method("bfloat16", scalar_type.bfloat16),
    "long": _cast_method("long", scalar_type.int64),
    "int": _cast_method("int", scalar_type.int32),
    "short": _cast_method("short", scalar_type.int16),
    "char": _cast_method("char", scalar_type.int8),
    "byte": _cast_method("byte", scalar_type.uint8),
    "bool": _cast_method("bool", scalar_type.bool),
    "cfloat": _cast_method("cfloat", scalar_type.complex64),
    "cdouble": _cast_method("cdouble", scalar_type.complex128),
    "view_as": lambda self, other: view(self, _tensor("view_as", other)._array.shape),
    "reshape_as": lambda self, other: dispatcher.autograd.reshape(self, _tensor("reshape_as", other)._array.shape),
    "expand_as": lambda self, other: dispatcher.autograd.expand(self, _tensor("expand_as", other)._array.shape),
    "type_as": lambda self, other: to(self, _tensor("type_as", other)),
    "where": lambda self, condition, other: dispatcher.autograd.where(condition, self, other),
    "__getitem__": getitem,
    "__setitem__": setitem,
    "__delitem__": delitem,
    "__bool__": properties.to_bool,
    "__float__": lambda self: properties.number_of(self, float),
    "__int__": lambda self: properties.number_of(self, int),
    "__complex__": lambda self: properties.number_of(self, complex),
    "__index__": properties.index,
}
"""The methods that are more than an operator's entry point."""


def init_methods() -> None:
    """Put them on the class."""
    for name, function in METHODS.items():
        if function.__name__ == "<lambda>":
            function.__name__ = name
            function.__qualname__ = f"TensorBase.{name}"
        gates.attach(TensorImpl, name, function)
    tensor_class: Any = TensorImpl
    tensor_class._make_subclass = staticmethod(make_subclass)


# %%
#| claim: `to()` returns the tensor itself where nothing changes and never works in place; view(dtype) reads the same bytes as other numbers
#| needs: a1_operators
def _(torch):
    x = torch.ones(2)
    assert x.to("cpu") is x and x.to(torch.float32) is x and x.to(x) is x and x.float() is x
    assert x.to("cpu", copy=True) is not x
    x.to(torch.float64)
    assert x.dtype is torch.float32
    assert torch.ones(1).view(torch.int32).item() == 0x3F800000 and x.view(torch.uint8).shape == (8,)


# %% [markdown]
# ### What upstream does more
#
# * Indexing has a second path in C++, for the C++ API (`TensorIndexing.h`), and both meet in the same functions.
