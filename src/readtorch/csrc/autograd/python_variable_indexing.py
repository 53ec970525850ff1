# Tangled from chapters/00_tensor/10_indexing_and_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.functorch.batched_tensor_impl import concrete_mask, is_one_of_many
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.tensor_iterator import fitting
from readtorch.c10.core.device import cpu
from readtorch.c10.core.device_guard import device_guard, on_host
from readtorch.c10.core.dispatch_key import MetaArray, device_of, meta_like
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.csrc.utils.tensor_new import array_from_data


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
