# Tangled from chapters/00_tensor/13d_levels_of_transforms.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from readtorch.c10.core import tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.device_guard import TO_HOST, on_host
from readtorch.c10.core.dispatch_key import BACKENDS, DEVICE_OF, DispatchKey, device_of
from readtorch.c10.core.tensor_impl import new


class WrappedArray:
    """What a tensor inside a transform holds in place of elements: `value`, a tensor of the level below.

    It has what can be asked of an array without its elements. Whoever reaches for these is refused.
    """

    __slots__ = ("base", "dtype", "layer", "shape", "value")

    def __init__(self, value: Any, layer: Any) -> None:
        array = value._array
        self.value = value
        self.layer = layer
        self.dtype = array.dtype
        self.shape = array.shape
        self.base: Any = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return self.value._array.strides

    @property
    def flags(self) -> Any:
        step, ordered = self.itemsize, True
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            ordered = ordered and (size == 1 or stride == step)
            step *= size
        return SimpleNamespace(c_contiguous=ordered or not self.size)

    def copy(self) -> Any:
        """One around a copy of the value."""
        return type(self)(self.layer.below(_clone, self.value), self.layer)

    def __setitem__(self, index: Any, source: Any) -> None:
        """The whole is written, one level down: `array[...] = source`."""
        self.layer.below(_copy, self.value, source.value)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise no_storage()


def _clone(tensor: Any) -> Any:
    return tensor.clone()


def _copy(tensor: Any, source: Any) -> Any:
    return tensor.copy_(source)


def no_storage() -> RuntimeError:
    """The error for elements that are asked for inside a transform."""
    return RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


class TensorWrapper(WrappedArray):
    """The array of a tensor that a level of `grad` records."""

    __slots__ = ()


def tensor_of(array: WrappedArray) -> Any:
    """A tensor around such an array. It belongs to the array's level, whichever is the innermost now."""
    tensor = new(tensor_impl.Tensor)
    tensor._array = array
    tensor._edge = tensor._vc = tensor._view = tensor._grad = tensor._meta = None
    return tensor


def is_dead(tensor: Any) -> bool:
    """Has the level that the tensor belongs to ended?"""
    array = tensor._array
    return array.__class__ is not np.ndarray and isinstance(array, WrappedArray) and array.layer not in state.layers


def unwrap_if_dead(tensor: Any) -> Any:
    """What is left of a tensor whose level has ended: the value, as deep as need be."""
    while is_dead(tensor):
        tensor = tensor._array.layer.outlived(tensor)
    return tensor


BACKENDS[TensorWrapper] = DispatchKey.FuncTorchGradWrapper
DEVICE_OF[TensorWrapper] = lambda array: device_of(array.value._array)
TO_HOST[TensorWrapper] = lambda array: on_host(array.value._array)


def is_wrapped(array: Any) -> bool:
    """Is it an array without elements, of a tensor inside a transform?"""
    return array.__class__ is not np.ndarray and isinstance(array, WrappedArray)
