# Tangled from chapters/00_tensor/, chapters/02_module/, chapters/05_data/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec

import numpy as np

if TYPE_CHECKING:
    from readtorch._tensor import Tensor
    from readtorch.nn.parameter import Parameter


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Any:
    """A tensor on a typed storage. RuntimeError if it would reach outside."""
    from readtorch.c10.core.scalar_type import to_numpy_dtype
    from readtorch.c10.core.tensor_impl import wrap
    from readtorch.csrc.autograd.python_variable_methods import array_of_storage
    from readtorch.csrc.utils.tensor_new import finish

    size, stride = tuple(size), tuple(stride)
    numbers = (storage_offset, *size, *stride)
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
        raise RuntimeError(f"a tensor cannot have offset {storage_offset!r}, size {size!r} and stride {stride!r}")
    untyped, itemsize = storage._untyped_storage, storage.dtype.itemsize
    needed = 0 if 0 in size else storage_offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if needed * itemsize > untyped.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(size)} with strides {list(stride)} from offset {storage_offset} (itemsize "
            f"{itemsize}) need {needed * itemsize} bytes, and are out of bounds for storage of size {untyped.nbytes()}"
        )
    if untyped.device.type == "meta":
        return wrap(array_of_storage(untyped, to_numpy_dtype(storage.dtype), storage_offset, size, stride))
    kind = to_numpy_dtype(storage.dtype)
    if not needed:
        return finish(np.empty(size, kind), untyped.device)
    return wrap(array_of_storage(untyped, kind, storage_offset, size, stride))


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: OrderedDict[int, Any],
    metadata: Any = None,
) -> Any:
    """What pickles since 0.4 call. Hooks are not restored; they were never meant to be saved."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    #: What upstream notes on a tensor and has not yet done to its elements.
    if isinstance(metadata, dict) and metadata.get("conj"):
        tensor = tensor.conj().resolve_conj()
    if isinstance(metadata, dict) and metadata.get("neg"):
        tensor = -tensor
    if requires_grad:
        tensor.requires_grad_()
    return tensor


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: OrderedDict[int, Any],
    dtype: Any,
    metadata: Any = None,
) -> Any:
    """The same for a dtype that no storage class is named after: the storage is bytes, and the dtype is an argument."""
    from readtorch.c10.core import scalar_type
    from readtorch.storage import TypedStorage

    if not isinstance(dtype, scalar_type.dtype):
        raise RuntimeError(f"a tensor cannot have the dtype {dtype!r:.80}")
    untyped = getattr(storage, "_untyped_storage", storage)
    typed = TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
    return _rebuild_tensor_v2(typed, storage_offset, size, stride, requires_grad, backward_hooks)


def _rebuild_sparse_tensor(layout: Any, data: tuple) -> Any:
    """A tensor of a list of places and values. RuntimeError if they do not belong together."""
    from readtorch import sparse_coo, sparse_coo_tensor

    if layout is not sparse_coo or len(data) not in (3, 4):
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout!r:.40}: readtorch has sparse_coo alone")
    #: Files from before the flag was written have three parts.
    indices, values, size, *coalesced = data
    return sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=any(coalesced) or None)


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Sequence[int], stride: Sequence[int], requires_grad: bool) -> Any:
    """A tensor on the meta device: there are no elements, so a file needs no record for them."""
    from readtorch import empty_strided
    from readtorch.c10.core import scalar_type

    size, stride = tuple(size), tuple(stride)
    if not isinstance(dtype, scalar_type.dtype) or len(size) != len(stride):
        raise RuntimeError(f"a tensor cannot have dtype {dtype!r:.80}, size {size!r:.80} and stride {stride!r:.80}")
    return empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _reduce_tensor(tensor: Any) -> tuple[Callable[..., Any], tuple]:
    """Function and arguments that rebuild `tensor`. RuntimeError for one that is not a leaf."""
    from readtorch.storage import TypedStorage, _new_dtypes

    if tensor.requires_grad:
        from readtorch.utils.hooks import warn_if_has_hooks

        warn_if_has_hooks(tensor)
    if tensor.is_sparse:
        parts = (tensor._indices(), tensor._values(), tensor.size(), tensor.is_coalesced())
        return _rebuild_sparse_tensor, (tensor.layout, parts)
    offset, size, stride = tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride())
    if tensor.device.type == "meta":
        from readtorch.serialization import _serialization_tls

        if _serialization_tls.skip_data:
            warnings.warn(
                "Serializing tensors on the meta device under skip_data context manager is a no-op", stacklevel=3
            )
        return _rebuild_meta_tensor_no_storage, (tensor.dtype, size, stride, tensor.requires_grad)
    hooks: OrderedDict[int, Any] = OrderedDict()
    if tensor.dtype in _new_dtypes():
        untyped = tensor.untyped_storage()
        return _rebuild_tensor_v3, (untyped, offset, size, stride, tensor.requires_grad, hooks, tensor.dtype)
    storage = TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
    return _rebuild_tensor_v2, (storage, offset, size, stride, tensor.requires_grad, hooks)


def _share_memory(tensor: Any) -> None:
    """Move the tensor's storage to shared memory."""
    from readtorch.storage import SharedMemory, _mapping_of, _move, _shared_copy, is_alone

    storage = tensor.untyped_storage()
    #: Other processes can open a GPU's memory. A loader's batch is shared, but its memory will be used again: it moves too.
    if storage.device.type != "cpu" or isinstance(_mapping_of(storage.owner), SharedMemory):
        return
    only = tensor if is_alone(tensor) else None
    _move(storage, _shared_copy(storage.bytes()), only)


def _is_shared(tensor: Any) -> bool:
    return tensor.untyped_storage().is_shared()


def _type(storage: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """What `storage.type()` does for bytes."""
    if dtype is None:
        return f"torch.{type(storage).__module__.partition('.')[2]}.{type(storage).__name__}"
    if isinstance(dtype, str):
        dtype = _import_dotted_name(dtype)
    if dtype is type(storage):
        return storage
    if not isinstance(dtype, type):
        raise AttributeError(f"type() takes a class of storages or its name, and {dtype!r} is neither")
    return dtype(storage.size()).copy_(storage, non_blocking)


def _import_dotted_name(name: str) -> Any:
    """What `torch.cuda.FloatStorage` stands for."""
    found: Any = import_module("readtorch")
    for word in name.split(".")[1:]:
        found = getattr(found, word)
    return found


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: OrderedDict[int, Any]) -> Parameter:
    from readtorch.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: OrderedDict[int, Any], state: dict[str, Any]
) -> Parameter:
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    for name, value in state.items():
        setattr(parameter, name, value)
    return parameter


_P = ParamSpec("_P")


class _ClassProperty:
    """What `classproperty` makes."""

    def __init__(self, function: classmethod | staticmethod) -> None:
        self.fget = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.fget.__get__(instance, type(instance) if owner is None else owner)()


def classproperty(func: Any) -> Any:
    """Decorator: a property that is read from the class."""
    return _ClassProperty(func if isinstance(func, classmethod | staticmethod) else classmethod(func))


class CallbackRegistry(Generic[_P]):
    """Functions to be called when something of that name happens. An error in one is logged, and the others are called."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.callback_list: list[Callable[_P, None]] = []

    def add_callback(self, cb: Callable[_P, None]) -> None:
        """Call this one, too, from now on."""
        self.callback_list.append(cb)

    def fire_callbacks(self, *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call them all."""
        for callback in self.callback_list:
            try:
                callback(*args, **kwargs)
            except Exception:
                logging.getLogger(__name__).exception(
                    "Exception in callback for %s registered with gpu trace", self.name
                )


def try_import(module_name: str) -> ModuleType | None:
    """The module, or None if there is none of that name."""
    if module_name not in sys.modules and importlib.util.find_spec(module_name) is None:
        return None
    return importlib.import_module(module_name)


def cpu_count() -> int | None:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def get_current_device_index() -> int:
    """The number of the current CUDA device, -1 if there is none."""
    from readtorch import cuda

    return cuda.current_device() if cuda.device_count() else -1


def is_compiling() -> bool:
    """Is the program being compiled? Deprecated: `torch.compiler.is_compiling` is asked."""
    from readtorch import compiler

    warnings.warn("`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.", stacklevel=2)
    return compiler.is_compiling()


def render_call(fn: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """A call as one line, tensors by their shapes."""
    from readtorch import _tensor_str, overrides

    with _tensor_str.printoptions(threshold=0, edgeitems=0):
        shown = [*(repr(arg) for arg in args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"{overrides.resolve_name(fn) or fn}({', '.join(shown)})"


def get_tensor_metadata(tensor: Any) -> dict[str, bool]:
    """What a file would have to say of a tensor besides its elements: nothing here, where a conjugate is computed at once."""
    from readtorch import Tensor

    if not isinstance(tensor, Tensor):
        raise AssertionError(f"expected torch.Tensor, got {type(tensor).__name__}")
    return {name: True for name, noted in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if noted}


def set_tensor_metadata(tensor: Any, metadata: dict[str, bool]) -> None:
    """Do to the elements what a file says of them besides."""
    from readtorch import Tensor

    if not isinstance(metadata, dict):
        raise AssertionError(f"expected dict, got {type(metadata).__name__}")
    if not isinstance(tensor, Tensor):
        raise AssertionError(f"expected torch.Tensor, got {type(tensor).__name__}")
    if metadata.get("conj"):
        tensor.conj_physical_()
    if metadata.get("neg"):
        tensor.neg_()


class KeyErrorMessage(str):
    """A message that KeyError shows as it is: its repr is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


class ExceptionWrapper:
    """The exception being handled, in a form that can be sent to another process or thread. `where` says where it was."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        #: The text only: a traceback holds every frame, and through them this very object.
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise the same class with the original traceback in its message, or RuntimeError where it cannot be made."""
        kind, text = self.exc_type, f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        exception: Exception = RuntimeError(text)
        if getattr(kind, "message", None):
            exception = kind(message=text)
        else:
            with contextlib.suppress(Exception):
                exception = kind(KeyErrorMessage(text) if kind is KeyError else text)
        raise exception
