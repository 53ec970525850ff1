# Tangled from chapters/00_tensor/13d_levels_of_transforms.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.tensor_wrapper import WrappedArray
from readtorch.c10.core.device_guard import TO_HOST
from readtorch.c10.core.dispatch_key import BACKENDS, DEVICE_OF, DispatchKey, device_of


class BatchedArray(WrappedArray):
    """The array of a tensor that stands for one of many examples: the first dimension of `value` counts them and is not seen."""

    __slots__ = ()

    def __init__(self, value: Any, layer: Any) -> None:
        super().__init__(value, layer)
        self.shape = self.shape[1:]

    @property
    def strides(self) -> tuple[int, ...]:
        return self.value._array.strides[1:]


def refuse_number(array: BatchedArray) -> Any:
    """The error of whoever asks one of many examples for its number."""
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor: "
        "it stands for many, and each has a number of its own. Use operations on tensors."
    )


def refuse_condition() -> RuntimeError:
    """The error of `if` and `while` on one of many examples."""
    return RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet: "
        "the examples would go different ways. `torch.where` computes both and chooses."
    )


def is_one_of_many(tensor: Any) -> bool:
    """Does a tensor or its array stand, at whatever level, for many examples, whose elements cannot be asked for?"""
    array = getattr(tensor, "_array", tensor)
    while isinstance(array, WrappedArray):
        if array.__class__ is BatchedArray:
            return True
        array = array.value._array
    return False


def concrete_mask(array: Any) -> Any:
    """The elements of a mask, under all levels that record. RuntimeError if it is one of many examples."""
    while isinstance(array, WrappedArray):
        if array.__class__ is BatchedArray:
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing "
                "with a boolean mask: each example would give a result of its own size. Use torch.where or masked_fill."
            )
        array = array.value._array
    return array


BACKENDS[BatchedArray] = DispatchKey.FuncTorchBatched
DEVICE_OF[BatchedArray] = lambda array: device_of(array.value._array)
TO_HOST[BatchedArray] = refuse_number
