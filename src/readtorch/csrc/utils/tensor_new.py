# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.native.type_properties import number_type
from readtorch.aten.tensor_iterator import ignore_floating_errors, restore_floating_errors
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.device import current_default_device, device
from readtorch.c10.core.device_guard import NOTHING, on_host, with_index
from readtorch.c10.core.dispatch_key import on_meta, without_values
from readtorch.c10.core.scalar_type import dtype, from_numpy_dtype, promote_types, to_numpy_dtype
from readtorch.c10.core.storage_impl import StorageImpl, storage_of
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.autograd.variable import set_requires_grad, warn_of_gradient
from readtorch.csrc.utils.device_lazy_init import device_lazy_init


def infer_shape(data: Any) -> tuple[int, ...]:
    """The shape of nested sequences, judged by their first elements. ValueError on a sequence inside itself.

    A tensor in the place of an element is one number, whatever its shape: `torch.tensor` does not stack.
    """
    shape = []
    while isinstance(data, Sequence):
        shape.append(len(data))
        if len(shape) > 128:  # a letter is a text that holds itself
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if not data:
            break
        data = data[0]
    return tuple(shape)


def infer_dtype(data: Any) -> dtype | None:
    """The dtype that holds every number in nested sequences; None if there are none. TypeError on what is no number."""
    if isinstance(data, TensorImpl):
        return from_numpy_dtype(data._array.dtype)
    if isinstance(data, bool | int | float | complex) and not isinstance(data, np.generic):
        return number_type(data)
    if isinstance(data, np.generic | np.ndarray):
        return from_numpy_dtype(data.dtype)
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, Sequence):
        return _common(data)
    if hasattr(data, "__index__") or hasattr(data, "__float__"):
        return number_type(int(data) if hasattr(data, "__index__") else float(data))
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _common(data: Sequence[Any]) -> dtype | None:
    kinds = {element.__class__ for element in data}
    if len(kinds) == 1 and (kind := kinds.pop()) in (int, float, bool, complex):
        return number_type(kind())
    found: dtype | None = None
    for element in data:
        inner = infer_dtype(element)
        if inner is not None:
            found = inner if found is None or found is inner else promote_types(found, inner)
    return found


def check_ragged(data: Any, shape: tuple[int, ...], depth: int = 0) -> None:
    """ValueError naming the first sequence whose length differs from that of the first one at its depth."""
    if depth == len(shape):
        if isinstance(data, Sequence) and not isinstance(data, str):
            raise TypeError(f"not a sequence of length {len(data)} expected at dim {depth}")
        return
    if isinstance(data, TensorImpl) and data._array.ndim:
        data = list(data)
    if not isinstance(data, Sequence):
        raise TypeError(f"expected a sequence at dim {depth}, got {type(data).__name__}")
    if len(data) != shape[depth]:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})")
    for element in data:
        check_ragged(element, shape, depth + 1)


def array_from_data(data: Any, wanted: dtype | None, copy: bool = True) -> np.ndarray:
    """A NumPy array of nested sequences, numbers, arrays, tensors, or anything with `__array__`."""
    if isinstance(data, TensorImpl):
        array = data._array
    elif isinstance(data, np.ndarray | np.generic) or (hasattr(data, "__array__") and not isinstance(data, Sequence)):
        array = native(np.asarray(data))
    elif hasattr(data, "__dlpack__") and not isinstance(data, Sequence):
        array = np.from_dlpack(data)
    elif isinstance(getattr(data, "_untyped_storage", None), StorageImpl):
        array = data._untyped_storage.bytes().view(to_numpy_dtype(data.dtype))
    elif isinstance(data, StorageImpl) and wanted is not None:
        array = data.bytes()  # what users hold is an UntypedStorage
    else:
        return _from_sequence(data, wanted)
    from_numpy_dtype(array.dtype)
    target = array.dtype if wanted is None else to_numpy_dtype(wanted)
    if target == array.dtype:
        return array.copy(order="C") if copy else array
    if array.dtype.kind == "c" and target.kind != "c":
        array = array.real
    return array.astype(target, order="C")


def native(array: np.ndarray) -> np.ndarray:
    """The array in the machine's byte order; ValueError otherwise, as upstream. Subclasses become plain arrays."""
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is not supported."
        )
    return array if array.__class__ is np.ndarray else array.view(np.ndarray)


def _from_sequence(data: Any, wanted: dtype | None) -> np.ndarray:
    from readtorch.c10.core.default_dtype import get_default_dtype

    if isinstance(data, str):
        infer_dtype(data)
    shape = infer_shape(data)
    try:
        inferred = infer_dtype(data)
    except RuntimeError as error:
        if wanted is None:
            raise
        raise TypeError(f"must be real number: {error}") from None
    kind = wanted or inferred or get_default_dtype()
    target = to_numpy_dtype(kind)
    if 0 in shape:
        return np.empty(shape, target)
    if len(shape) != 1:
        check_ragged(data, shape)
    values = _plain(data, len(shape), target) if _holds_tensors(data) else data
    token = ignore_floating_errors()
    try:
        if inferred is not None and inferred.is_complex and target.kind not in "cb":
            raise TypeError(f"must be real number, not complex, to be an element of {kind}")
        if target.kind == "V" and inferred is not None and not inferred.is_floating_point:
            return np.array(values, dtype=np.float32).astype(target)
        if target.kind in "iu" and inferred is not None and inferred.is_floating_point:
            if target == np.uint64:
                raise TypeError("'float' object cannot be interpreted as an integer")
            numbers = np.array(values, dtype=np.float64)
            return _whole(numbers if target.kind == "u" else np.trunc(numbers), target)
        return np.array(values, dtype=target)
    except ValueError as error:
        lengths = [len(value) for value in data if isinstance(value, np.ndarray) and value.ndim]
        for length in lengths:
            if length != lengths[0]:
                raise ValueError(f"expected sequence of length {lengths[0]} at dim 1 (got {length})") from None
        odd = next(type(value).__name__ for value in data if not isinstance(value, bool | int | float | complex))
        raise TypeError(f"'{odd}' object cannot be interpreted as an integer") from error
    except OverflowError:
        return _whole(np.array(values, dtype=object), target)
    finally:
        restore_floating_errors(token)


def _whole(numbers: np.ndarray, target: np.dtype) -> np.ndarray:
    """Whole numbers as an integer type, where they have to fit; unsigned types take negative ones, as in C."""
    if numbers.dtype.kind == "O":
        low, high = (0, 1 << 64) if target == np.uint64 else (-(1 << 63), 1 << 63)
        if not all(low <= number < high for number in numbers.flat):
            error = OverflowError if target == np.uint64 else ValueError
            raise error(f"Overflow when unpacking long long: an integer is beyond what {target.name} is read from")
    limits = np.iinfo(target)
    lowest = -limits.max if target.kind == "u" and numbers.dtype.kind == "O" else limits.min
    if not ((numbers >= lowest) & (numbers <= limits.max) & (numbers < 2.0**63 if target == np.int64 else True)).all():
        raise RuntimeError(f"value cannot be converted to type {target.name} without overflow")
    return numbers.astype(np.uint64 if target == np.uint64 else np.int64).astype(target)


def _holds_tensors(data: Any) -> bool:
    if isinstance(data, TensorImpl):
        return True
    if not isinstance(data, Sequence) or isinstance(data, str) or not data:
        return False
    return any(_holds_tensors(element) for element in data)


def _plain(data: Any, rank: int, target: np.dtype) -> Any:
    """The sequences of a tensor of `rank` dimensions, with numbers for tensors."""
    if rank and isinstance(data, TensorImpl):
        data = list(data)
    if rank and isinstance(data, Sequence) and not isinstance(data, str):
        return [_plain(element, rank - 1, target) for element in data]
    if not isinstance(data, TensorImpl):
        return data
    if data._array.size != 1:
        if target.kind in "iu":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        raise ValueError("only one element tensors can be converted to Python scalars")
    if target.kind in "fcV":
        warn_of_gradient(data)
    array = on_host(data._array)
    if without_values(data):
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    return array.reshape(()).tolist()


#: NumPy's stand-in on a device, and the context to use it in, by device type; the CUDA backend adds its own
LIBRARIES: dict[str, Callable[[device], tuple[Any, AbstractContextManager[Any]]]] = {"cpu": lambda where: (np, NOTHING)}


def target_device(where: Any) -> device:
    """The device asked for, with its number; for None, the one where tensors are made by default."""
    return with_index(current_default_device() if where is None else device(where))


def library_of(target: device) -> tuple[Any, AbstractContextManager[Any]]:
    """What makes arrays on a device: looks like the module `numpy`. AssertionError for CUDA in a build without it."""
    if target.type not in LIBRARIES:
        device_lazy_init(target.type)
    return LIBRARIES[target.type](target)


def finish(array: Any, where: Any = None, requires_grad: bool = False) -> Any:
    """A tensor around a fresh array, on the device asked for."""
    return finish_on(target_device(where), array, requires_grad)


def finish_on(target: device, array: Any, requires_grad: bool) -> Any:
    """A tensor around a fresh array, on a device with its number."""
    tensor = wrap(place(array, target))
    if requires_grad:
        set_requires_grad(tensor, True)
    observer = record_function.observer
    if observer is not None and target.type != "meta":
        observer.alloc(storage_of(tensor._array, target))
    return tensor


#: how an array gets to a device, by device type; the CUDA backend adds its own
PLACERS: dict[str, Any] = {
    "cpu": lambda array, target, non_blocking: array,
    "meta": lambda array, target, non_blocking: on_meta(array),
}


def place(array: Any, target: device, non_blocking: bool = False) -> Any:
    """`array` on the device `target`. AssertionError for CUDA in a build without it.

    `non_blocking`: the host need not wait for the copy where the memory allows it.
    """
    placer = PLACERS.get(target.type)
    if placer is None:
        device_lazy_init(target.type)
        placer = PLACERS[target.type]
    return placer(array, target, non_blocking)


def tensor(
    data: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A tensor that holds a copy of `data`: a number, nested sequences, an array, another tensor."""
    if isinstance(data, TensorImpl):
        warnings.warn(
            "To copy construct from a tensor x, write x.detach().clone() (and .requires_grad_(True) after it where wanted); torch.tensor(x) does the same less clearly.",
            stacklevel=2,
        )
        if device is None:
            device = data.device
    return finish(array_from_data(data, dtype), device, requires_grad)


def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Any:
    """`data` as a tensor, sharing its memory where dtype and device already fit."""
    if isinstance(data, TensorImpl):
        return data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray):
        return finish(array_from_data(data, dtype, copy=False), device)
    return finish(array_from_data(data, dtype), device)


def from_numpy(array: Any) -> Any:
    """A tensor that shares the array's memory. TypeError for element types without a counterpart."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    from_numpy_dtype(native(array).dtype)
    if any(step < 0 for step in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
            "(You can probably work around this by making a copy of your array with array.copy().)"
        )
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to this tensor will "
            "result in undefined behavior.",
            stacklevel=2,
        )
    return wrap(native(array))


def _of_size(shape: tuple, wanted: dtype) -> np.ndarray:
    for size in shape:
        if size < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(shape)}")
    return np.empty(shape, to_numpy_dtype(wanted))


def legacy_tensor(cls: type, args: tuple, wanted: dtype, where: Any = None) -> Any:
    """`torch.Tensor(2, 3)`, `torch.Tensor([1, 2])`, `torch.Tensor(other)`: the constructor of the early days."""
    if not args:
        return np.empty(0, to_numpy_dtype(wanted))
    if len(args) == 1:
        first = args[0]
        if isinstance(first, TensorImpl):
            if from_numpy_dtype(first._array.dtype) is not wanted:
                raise TypeError(f"expected {wanted} (got {from_numpy_dtype(first._array.dtype)})")
            return first._array
        if not isinstance(first, int) or isinstance(first, bool):
            if isinstance(first, float | complex | bool | str):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            if type(first).__name__ == "Size":
                return _of_size(tuple(first), wanted)
            if isinstance(first, np.ndarray) and first.dtype == to_numpy_dtype(wanted):
                return from_numpy(first)._array
            if type(first).__name__ in ("TypedStorage", "UntypedStorage"):
                return _array_of_legacy_storage(first, wanted)
            return array_from_data(first, wanted)
    if all(isinstance(arg, int) for arg in args):
        return _of_size(args, wanted)
    raise TypeError(
        f"new() received an invalid combination of arguments - got ({', '.join(type(a).__name__ for a in args)})"
    )


def _array_of_legacy_storage(given: Any, wanted: dtype) -> Any:
    """The elements of a storage, without a copy. RuntimeError if it is of another dtype."""
    from readtorch.csrc.autograd.python_variable_methods import array_of_storage

    if getattr(given, "dtype", wanted) is not wanted:
        raise RuntimeError(f"Expected a Storage of {wanted} or an UntypedStorage, but got one of {given.dtype}")
    return array_of_storage(getattr(given, "_untyped_storage", given), to_numpy_dtype(wanted), 0, None, None)


def legacy_new(cls: type, args: tuple, wanted: dtype | None) -> Any:
    """The array of `torch.Tensor(*args)`."""
    from readtorch.c10.core.default_dtype import get_default_dtype

    return legacy_tensor(cls, args, get_default_dtype() if wanted is None else wanted)


class _Invariants:
    """Are the parts of sparse tensors checked? None: nobody has said."""

    checked: bool | None = None


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """A sparse tensor that has `values[k]` at `indices[:, k]`, or, given a size alone, zeros.

    `indices (sparse_dim, nnz)`, `values (nnz, *)`; a place may occur several times, and then its values add up. No memory is copied.
    """
    from readtorch.aten.native.sparse import sparse_tensor as parts

    where = _sparse_device(device)
    if values is None:
        if (indices is None) == (size is None):
            raise TypeError(
                "sparse_coo_tensor() received an invalid combination of arguments: indices and values, or a size"
            )
        shape = tuple(indices if size is None else size)
        return finish_on(where, parts.empty_sparse(shape, _default_kind(dtype)), requires_grad)
    places = _index_array(indices)
    held = values if isinstance(values, TensorImpl) else wrap(array_from_data(values, dtype, copy=False))
    if dtype is not None and held._array.dtype != to_numpy_dtype(dtype):
        held = held.to(dtype)
    if not held._array.ndim:
        held = dispatcher.autograd.reshape(held, (1,))
    shape = _inferred_size(places, held._array) if size is None else tuple(int(number) for number in size)
    parts.check_size(places, held._array, shape)
    checked = _checks() if check_invariants is None else check_invariants
    if checked:
        parts.check_invariants(places, shape, is_coalesced)
    make = dispatcher.autograd._sparse_coo_tensor_with_dims_and_tensors
    result = make(held if state.grad_mode else held.detach(), wrap(places), shape, bool(is_coalesced))
    if requires_grad and result._edge is None:
        set_requires_grad(result, True)
    return result


def _checks() -> bool:
    if _Invariants.checked is None:
        warn_once(
            "Sparse invariant checks are implicitly disabled: indices outside of the size are not noticed. Say which you want: "
            "torch.sparse.check_sparse_tensor_invariants.enable() or .disable()",
            stacklevel=4,
        )
    return bool(_Invariants.checked)


def _sparse_device(where: Any) -> device:
    target = target_device(where)
    if target.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if target.type != "cpu":
        raise RuntimeError(f"sparse tensors are on the CPU: there are no kernels for {target.type} devices")
    return target


def _index_array(indices: Any) -> np.ndarray:
    array = array_from_data(indices, None, copy=False)
    if array.dtype != np.int64:
        array = array.astype(np.int64)
    return array


def _inferred_size(places: np.ndarray, held: np.ndarray) -> tuple[int, ...]:
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if not places.shape[1]:
        return (0,) * places.shape[0] + held.shape[1:]
    if places.size and places.min() < 0:
        raise RuntimeError(f"found negative index {places.min()} for dim {int(np.argwhere(places < 0)[0][0])}")
    return tuple(int(row.max()) + 1 for row in places) + held.shape[1:]


def _default_kind(wanted: dtype | None) -> np.dtype:
    from readtorch.c10.core.default_dtype import get_default_dtype

    return to_numpy_dtype(get_default_dtype() if wanted is None else wanted)


def legacy_sparse(cls: type, args: tuple, wanted: dtype) -> Any:
    """What `torch.sparse.FloatTensor(indices, values, size)` holds; of the values' dtype, whatever the name says."""
    from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, empty_sparse

    if len(args) in (2, 3) and all(isinstance(arg, TensorImpl) for arg in args[:2]):
        return sparse_coo_tensor(args[0], args[1].detach(), *args[2:], check_invariants=False)._array
    if len(args) == 1 and isinstance(args[0], TensorImpl):
        return args[0]._array
    if len(args) == 1 and isinstance(args[0], tuple | list):
        args = tuple(args[0])
    if not all(isinstance(arg, int) for arg in args):
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({', '.join(type(a).__name__ for a in args)})"
        )
    kind = to_numpy_dtype(wanted)
    return (
        empty_sparse(args, kind)
        if args
        else SparseTensorImpl(np.zeros((1, 0), np.int64), np.zeros(0, kind), (0,), True)
    )
