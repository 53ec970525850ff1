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
# # The face: `Tensor` as Python sees it
#
# Everything below this line of the house works on slots and raw arrays. Here the object gets the attributes and methods that programs use.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Attributes
#
# `x.shape`, `x.grad`, `x.requires_grad = True` are properties of `TensorBase`. Upstream writes them as a table of C getters and setters; ours are functions that `_tensor` floors up need not know.

# %%
#| into: csrc/autograd/python_variable.py
#| imports
from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core import layout as layouts
from readtorch.c10.core import scalar_type, tensor_impl
from readtorch.c10.core.device import device
from readtorch.c10.core.dispatch_key import MetaArray, device_of
from readtorch.c10.core.scalar_type import dtype, to_string
from readtorch.c10.core.storage_impl import StorageImpl, data_address, storage_of
from readtorch.c10.core.tensor_impl import TensorImpl, current_version, init, new, version_counter
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.node import split_edge
from readtorch.csrc.size import Size


# %%
#| into: csrc/autograd/python_variable.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_properties
def bind(name: str, getter: Any, setter: Any = None) -> None:
    """Add a property to the tensor class."""
    setattr(TensorImpl, name, property(getter, setter))


def shape(self: Any) -> Size:
    """The sizes of the dimensions."""
    return tuple.__new__(Size, self._array.shape)


def get_dtype(self: Any) -> dtype:
    """The type of the elements."""
    return scalar_type.FROM_NUMPY[self._array.dtype]


def get_device(self: Any) -> device:
    """Where the elements lie."""
    return device_of(self._array)


bind("shape", shape)
bind("dtype", get_dtype)
bind("device", get_device)
bind("ndim", lambda self: self._array.ndim)
bind("layout", lambda self: layouts.strided)
bind("itemsize", lambda self: self._array.itemsize)
bind("nbytes", lambda self: self._array.nbytes)
bind("is_cuda", lambda self: device_of(self._array).type == "cuda")
bind("is_cpu", lambda self: device_of(self._array).type == "cpu")
bind("is_meta", lambda self: self._array.__class__ is MetaArray)
bind("is_sparse", lambda self: False)
bind("is_sparse_csr", lambda self: False)
bind("is_quantized", lambda self: False)
bind("is_mkldnn", lambda self: False)
bind("is_nested", lambda self: False)
bind("is_mps", lambda self: False)
bind("is_xpu", lambda self: False)
bind("_version", current_version)
bind("grad_fn", variable.grad_fn)
bind("is_leaf", variable.is_leaf)
bind("output_nr", lambda self: 0 if self._edge is None else split_edge(self._edge)[1])
bind("_base", lambda self: self._view[0] if self._view is not None else None)

# %% [markdown]
# ### Gradients


# %%
#| into: csrc/autograd/python_variable.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_set_grad
def get_requires_grad(self: Any) -> bool:
    """Are operations on this tensor recorded?"""
    return self._edge is not None


def set_requires_grad(self: Any, wanted: bool) -> None:
    if not isinstance(wanted, bool):
        raise RuntimeError("requires_grad must be a bool")
    variable.set_requires_grad(self, wanted)


def get_grad(self: Any) -> Any:
    """The accumulated gradient, None before the first backward. Warns on tensors that keep none."""
    grad = self._grad
    if (
        grad is None
        and self._edge is not None
        and self._edge.__class__ is not AccumulateGrad
        and not retains_grad(self)
    ):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
            "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on it.",
            stacklevel=2,
        )
    return grad


def set_grad(self: Any, grad: Any) -> None:
    if grad is None:
        self._grad = None
        return
    if not isinstance(grad, TensorImpl):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}")
    if grad is self:
        raise RuntimeError("can't assign Variable as its own grad")
    wanted = grad_dtype(self)
    if wanted is not None and get_dtype(grad) is not wanted:
        ours = {"float32": "float", "float64": "double", "float16": "c10::Half", "int64": "long int"}.get(
            get_dtype(grad).name, get_dtype(grad).name
        )
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{ours}' to a tensor with grad_dtype '{to_string(wanted)}'. The gradient must match the "
            "tensor's grad_dtype (defaults to the tensor's dtype). Set grad_dtype on the tensor to another dtype, or to None to allow any."
        )
    if device_of(grad._array) != device_of(self._array):
        a, b = device_of(grad._array).type, device_of(self._array).type
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{a}' to a tensor with device type '{b}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if grad._array.shape != self._array.shape:
        have, want = list(grad._array.shape), list(self._array.shape)
        raise RuntimeError(
            f"attempting to assign a gradient of size '{have}' to a tensor of size '{want}'. Please ensure that the gradient and the tensor are the same size"
        )
    self._grad = grad


def grad_dtype(self: Any) -> dtype | None:
    """The dtype that `.grad` must have; None allows any."""
    if self._meta is not None and "grad_dtype" in self._meta:
        return self._meta["grad_dtype"]
    return get_dtype(self)


def set_grad_dtype(self: Any, wanted: dtype | None) -> None:
    if not variable.is_leaf(self):
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    self._meta = {**(self._meta or {}), "grad_dtype": wanted}


def retains_grad(self: Any) -> bool:
    """Will `.grad` of this non-leaf be filled?"""
    edge = self._edge
    if edge is None or edge.__class__ is AccumulateGrad:
        return False
    node, number = split_edge(edge)
    return node._retains_grad is not None and number in node._retains_grad


bind("requires_grad", get_requires_grad, set_requires_grad)
bind("grad", get_grad, set_grad)
bind("_grad_", lambda self: self._grad)
bind("grad_dtype", grad_dtype, set_grad_dtype)
bind("retains_grad", retains_grad)

# %% [markdown]
# ### `.data`, `.detach()` and what they share
# Both give a tensor outside of the graph that looks into the same memory. `detach` shares the version counter, so that a write through it is noticed; `.data` does not, which is why it silences the error and not the bug.


# %%
#| into: csrc/autograd/python_variable.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_set_data
def get_data(self: Any) -> Any:
    """The same memory in a tensor that autograd knows nothing of."""
    return init(new(tensor_impl.Tensor), self._array)


def set_data(self: Any, data: Any) -> None:
    """Make this tensor object hold another tensor's memory."""
    if not isinstance(data, TensorImpl):
        raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
    self._array = data._array
    if self._edge.__class__ is AccumulateGrad:
        if data._array.dtype.kind not in "fcV":
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        self._edge.describe(data._array)


def detach(self: Any) -> Any:
    """The same memory, outside of the graph. Writes through it are noticed by saved-tensor checks."""
    tensor = new(tensor_impl.Tensor)
    tensor._array = self._array
    tensor._edge = None
    tensor._vc = self._vc or version_counter(self)
    view = self._view
    tensor._view = (self if view is None else view[0], (), variable.DEFAULT)
    tensor._grad = None
    tensor._meta = None
    return tensor


def detach_(self: Any) -> Any:
    """Cut this tensor from its history, in place. RuntimeError on a view, whose base would still know."""
    if self._view is not None and self._view[1]:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    self._edge = None
    return self


bind("data", get_data, set_data)


def reversed_dims(self: Any) -> Any:
    """The dimensions in reverse order; deprecated for other than matrices."""
    if self._array.ndim != 2:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a "
            "future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))`.",
            stacklevel=2,
        )
    return dispatcher.autograd.permute(self, tuple(range(self._array.ndim - 1, -1, -1)))


def transposed_matrices(self: Any) -> Any:
    """The last two dimensions exchanged."""
    if self._array.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {self._array.ndim}-D tensor."
        )
    return dispatcher.autograd.transpose(self, -2, -1)


bind("T", reversed_dims)
bind("mT", transposed_matrices)
bind("H", lambda self: dispatcher.autograd.conj(reversed_dims(self)))
bind("mH", lambda self: dispatcher.autograd.conj(transposed_matrices(self)))
bind(
    "real", lambda self: dispatcher.autograd.real(self), lambda self, value: dispatcher.autograd.real(self).copy_(value)
)
bind(
    "imag", lambda self: dispatcher.autograd.imag(self), lambda self, value: dispatcher.autograd.imag(self).copy_(value)
)

# %% [markdown]
# ### Memory


# %%
#| into: csrc/autograd/python_variable.py
def strides_in_elements(array: Any) -> tuple[int, ...]:
    """Strides as upstream counts them. Dimensions of size 1 get the stride a contiguous tensor would have."""
    itemsize = array.itemsize
    return tuple(step // itemsize for step in array.strides)


def stride(self: Any, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along `dim`, or along each dimension."""
    steps = strides_in_elements(self._array)
    return steps if dim is None else steps[dim]


def untyped_storage(self: Any) -> Any:
    """The bytes this tensor looks into."""
    if self._array.__class__ is MetaArray:
        return StorageImpl(np.empty(0, np.uint8), device_of(self._array))
    return storage_of(self._array, device_of(self._array))


def data_ptr(self: Any) -> int:
    """Address of the first element; 0 for an empty tensor."""
    return data_address(self._array) if self._array.size and self._array.__class__ is not MetaArray else 0


def storage_offset(self: Any) -> int:
    """How many elements lie between the storage's start and the first element."""
    array = self._array
    if not array.size or array.__class__ is MetaArray:
        return 0
    return (data_address(array) - untyped_storage(self).data_ptr()) // array.itemsize


def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Are the elements in memory in the order of the last dimension first?"""
    from readtorch.c10.core import memory_format as formats

    if memory_format in (None, formats.contiguous_format, formats.preserve_format):
        return bool(self._array.flags.c_contiguous)
    rank = 4 if memory_format is formats.channels_last else 5
    if self._array.ndim != rank:
        return False
    return bool(self._array.transpose((0, *range(2, rank), 1)).flags.c_contiguous)


def size(self: Any, dim: int | None = None) -> Any:
    """The shape, or one size of it."""
    if dim is None:
        return tuple.__new__(Size, self._array.shape)
    sizes = self._array.shape
    if dim.__class__ is int and -len(sizes) <= dim < len(sizes):
        return sizes[dim]
    from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

    return sizes[maybe_wrap_dim(dim, len(sizes), wrap_scalar=False)]


# %% [markdown]
# ### Numbers out of a tensor


# %%
#| into: csrc/autograd/python_variable.py
#| upstream: tools/autograd/templates/python_variable_methods.cpp#THPVariable_item
def item(self: Any) -> Any:
    """The one element as a Python number. RuntimeError unless there is exactly one."""
    array = self._array
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    if array.__class__ is MetaArray:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    value = array.item()
    return float(value) if array.dtype.kind == "V" else value


def to_bool(self: Any) -> bool:
    array = self._array
    if array.size != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no values' if array.size == 0 else 'more than one value'} is ambiguous"
        )
    return bool(item(self))


def index(self: Any) -> int:
    if self._array.size != 1 or self._array.dtype.kind not in "iub":
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self._array.item())


def tolist(self: Any) -> Any:
    """Nested lists of Python numbers; a number for a 0-d tensor."""
    array = self._array
    return array.astype(np.float32).tolist() if array.dtype.kind == "V" else array.tolist()


def number_of(self: Any, kind: type) -> Any:
    value = item(self)
    if isinstance(value, complex) and kind is not complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {kind.__name__} without overflow")
        value = value.real
    return kind(value)


# %% [markdown]
# ## Making a tensor from data
#
# `torch.tensor([[1, 2], [3, 4]])` reads nested sequences, infers one dtype for all numbers in them, and always copies.

# %%
#| into: csrc/utils/__init__.py
"""Argument parsing and conversions (twin of `torch/csrc/utils/`)."""

# %%
#| into: csrc/utils/tensor_new.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.native.type_properties import number_type
from readtorch.c10.core.device import current_default_device, device
from readtorch.c10.core.dispatch_key import meta_like
from readtorch.c10.core.scalar_type import dtype, from_numpy_dtype, promote_types, to_numpy_dtype
from readtorch.c10.core.storage_impl import storage_of
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.csrc.autograd.variable import set_requires_grad


# %%
#| into: csrc/utils/tensor_new.py
#| upstream: torch/csrc/utils/tensor_new.cpp#torch::utils::compute_sizes
def infer_shape(data: Any) -> tuple[int, ...]:
    """The shape of nested sequences, judged by their first elements. ValueError on a sequence inside itself."""
    shape = []
    while isinstance(data, Sequence) and not isinstance(data, str | bytes):
        shape.append(len(data))
        if len(shape) > 128:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if not data:
            break
        data = data[0]
    return tuple(shape) + (data._array.shape if isinstance(data, TensorImpl) else ())


def infer_dtype(data: Any) -> dtype | None:
    """The dtype that holds every number in nested sequences; None if there are none. TypeError on what is no number."""
    if isinstance(data, TensorImpl):
        return from_numpy_dtype(data._array.dtype)
    if isinstance(data, bool | int | float | complex) and not isinstance(data, np.generic):
        return number_type(data)
    if isinstance(data, np.generic | np.ndarray):
        return from_numpy_dtype(data.dtype)
    if isinstance(data, str):
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
    if isinstance(data, TensorImpl):
        return
    if not isinstance(data, Sequence):
        raise TypeError(f"expected a sequence at dim {depth}, got {type(data).__name__}")
    if len(data) != shape[depth]:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})")
    for element in data:
        check_ragged(element, shape, depth + 1)


# %%
#| into: csrc/utils/tensor_new.py
#| upstream: torch/csrc/utils/tensor_new.cpp#torch::utils::internal_new_from_data
def array_from_data(data: Any, wanted: dtype | None, copy: bool = True) -> np.ndarray:
    """A NumPy array of nested sequences, numbers, arrays, tensors, or anything with `__array__`."""
    if isinstance(data, TensorImpl):
        array = data._array
    elif isinstance(data, np.ndarray | np.generic) or (hasattr(data, "__array__") and not isinstance(data, Sequence)):
        array = native(np.asarray(data))
    elif hasattr(data, "__dlpack__") and not isinstance(data, Sequence):
        array = np.from_dlpack(data)
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

    inferred = infer_dtype(data)
    kind = wanted or inferred or get_default_dtype()
    shape = infer_shape(data)
    if len(shape) > 1 or not shape:
        check_ragged(data, shape)
    values = _plain(data) if _holds_objects(data) else data
    target = to_numpy_dtype(kind)
    try:
        if inferred is not None and inferred.is_complex and not kind.is_complex:
            raise RuntimeError("value cannot be converted to a real type without overflow")
        if target.kind in "iu" and inferred is not None and inferred.is_floating_point:
            return np.array(values, dtype=np.float64).astype(target)
        return np.array(values, dtype=target)
    except OverflowError as error:
        name = {"uint8": "uint8_t", "int8": "int8_t"}.get(kind.name, kind.name)
        raise RuntimeError(f"value cannot be converted to type {name} without overflow") from error


def _holds_objects(data: Any) -> bool:
    while isinstance(data, Sequence) and data:
        if any(isinstance(element, TensorImpl) for element in data):
            return True
        data = data[0]
    return isinstance(data, TensorImpl)


def _plain(data: Any) -> Any:
    if isinstance(data, TensorImpl):
        return data._array.tolist()
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_plain(element) for element in data]
    return data


# %%
#| into: csrc/utils/tensor_new.py
#| upstream: torch/csrc/utils/tensor_new.cpp#torch::utils::tensor_ctor
def finish(array: Any, where: Any = None, requires_grad: bool = False) -> Any:
    """A tensor around a fresh array, on the device asked for."""
    target = current_default_device() if where is None else device(where)
    tensor = wrap(place(array, target))
    if requires_grad:
        set_requires_grad(tensor, True)
    observer = record_function.observer
    if observer is not None and target.type == "cpu":
        observer.alloc(storage_of(tensor._array, target))
    return tensor


#: how a CPU array gets to a device, by device type; the CUDA backend adds its own
PLACERS: dict[str, Any] = {"cpu": lambda array, target: array, "meta": lambda array, target: meta_like(array)}


def place(array: Any, target: device) -> Any:
    """`array` on the device `target`. AssertionError for CUDA in a build without it."""
    placer = PLACERS.get(target.type)
    if placer is None:
        if target.type == "cuda":
            raise AssertionError("Torch not compiled with CUDA enabled")
        raise RuntimeError(
            f"Could not run 'aten::empty.memory_format' with arguments from the '{target.type.upper()}' backend."
        )
    return placer(array, target)


def tensor(
    data: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A tensor that holds a copy of `data`: a number, nested sequences, an array, another tensor."""
    if isinstance(data, TensorImpl):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
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
    from_numpy_dtype(array.dtype)
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
                return np.empty(tuple(first), to_numpy_dtype(wanted))
            return array_from_data(first, wanted)
    if all(isinstance(arg, int) for arg in args):
        return np.empty(args, to_numpy_dtype(wanted))
    raise TypeError(
        f"new() received an invalid combination of arguments - got ({', '.join(type(a).__name__ for a in args)})"
    )


# %% [markdown]
# ## Indexing
#
# `x[1, ..., None, mask]` is four languages in one pair of brackets. Upstream reads it from left to right: integers, slices, `None` and `...` are applied at once, each as a view; tensors are collected, and if there are any, one gather follows at the end.

# %%
#| into: csrc/autograd/python_variable_indexing.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.csrc.utils.tensor_new import array_from_data


# %%
#| into: csrc/autograd/python_variable_indexing.py
#| upstream: torch/csrc/autograd/python_variable_indexing.cpp#torch::autograd::applySlicing
def apply_slicing(tensor: Any, items: tuple) -> tuple[Any, list[Any]]:
    """Apply ints, slices, None and Ellipsis as views; return the view and the index tensors by dimension."""
    at = dispatcher.autograd
    rank = tensor._array.ndim
    taken = sum(_dimensions(item) for item in items)
    if taken > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    dim = 0
    indices: list[Any] = []
    for item in items:
        if item.__class__ is int:
            tensor = at.select(tensor, dim, item)
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
            indices.extend([None] * (dim - len(indices)))
            if item._array.dtype.kind == "b":
                indices.extend(_positions(item._array, tensor._array.shape, dim))
                dim += item._array.ndim
            else:
                indices.append(item)
                dim += 1
    return tensor, indices


def _positions(mask: Any, shape: tuple[int, ...], dim: int) -> list[Any]:
    """A mask as one index tensor per dimension it covers. IndexError if its shape does not match."""
    for axis, size in enumerate(mask.shape):
        if size != shape[dim + axis]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {axis} does not match the shape of the indexed tensor {list(shape)} at index {dim + axis}"
            )
    return [wrap(positions) for positions in mask.nonzero()]


def _dimensions(item: Any) -> int:
    if item is None or item is Ellipsis or item is True or item is False:
        return 0
    if isinstance(item, TensorImpl) and item._array.dtype.kind == "b":
        return item._array.ndim
    return 1


def _bounds(item: slice) -> tuple[int | None, int | None, int]:
    step = 1 if item.step is None else item.step.__index__()
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    start = None if item.start is None else item.start.__index__()
    stop = None if item.stop is None else item.stop.__index__()
    return start, stop, step


# %%
#| into: csrc/autograd/python_variable_indexing.py
#| upstream: torch/csrc/autograd/python_variable_indexing.cpp#torch::autograd::wrapTuple
def normalize(index: Any) -> tuple:
    """The items of an index: Python ints, slices, None, Ellipsis, bools, tensors. TypeError or IndexError for the rest."""
    if index.__class__ is tuple:
        items = index
    elif isinstance(index, list) and _is_sequence_of_indices(index):
        items = tuple(index)
    else:
        items = (index,)
    return tuple(_normal_item(item) for item in items)


def _is_sequence_of_indices(index: list) -> bool:
    """`x[[slice(0, 2), None]]` meant a tuple in NumPy's early days, and still does."""
    return len(index) < 32 and any(isinstance(item, slice) or item is None or item is Ellipsis for item in index)


def _normal_item(item: Any) -> Any:
    if item.__class__ in (int, slice, bool) or item is None or item is Ellipsis:
        return item
    if isinstance(item, TensorImpl):
        kind = item._array.dtype.kind
        if item._array.ndim == 0 and kind in "iu":
            return int(item._array)
        if item._array.ndim == 0 and kind == "b":
            return bool(item._array)
        if kind not in "iub":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if kind == "u":
            return wrap(item._array.astype(bool))
        return item
    if isinstance(item, Sequence | np.ndarray) and not isinstance(item, str):
        array = np.asarray(item) if isinstance(item, np.ndarray) else array_from_data(item, None)
        if not array.size and array.dtype.kind == "f":
            array = array.astype(np.int64)
        if array.dtype.kind not in "iub":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return wrap(array) if array.ndim else int(array)
    try:
        return item.__index__()
    except (AttributeError, TypeError):
        raise TypeError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(item).__name__})"
        ) from None


# %%
#| into: csrc/autograd/python_variable_indexing.py
#| upstream: torch/csrc/autograd/python_variable_indexing.cpp#torch::autograd::THPVariable_getitem
def getitem(self: Any, index: Any) -> Any:
    """`self[index]`: a view where only ints, slices, None and `...` stand, else a gather."""
    at = dispatcher.autograd
    if index.__class__ is int:
        if not self._array.ndim:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
            )
        return at.select(self, 0, index)
    if index.__class__ is slice:
        return at.slice(self, 0, *_bounds(index))
    view, indices = apply_slicing(self, normalize(index))
    if not indices:
        return at.alias(view) if view is self else view
    return at.index(view, indices)


def setitem(self: Any, index: Any, value: Any) -> None:
    """`self[index] = value`, by a copy into a view, or a scatter."""
    at = dispatcher.autograd
    view, indices = apply_slicing(self, normalize(index))
    if not isinstance(value, TensorImpl):
        value = wrap(
            np.asarray(value) if isinstance(value, np.generic | np.ndarray) else _value_array(value, self._array.dtype)
        )
    if indices:
        value = value.to(self.dtype) if value._array.dtype != self._array.dtype else value
        at.index_put_(view, indices, value)
        return
    while value._array.ndim > view._array.ndim and value._array.shape[0] == 1:
        value = at.select(value, 0, 0)
    at.copy_(view, value)


def _value_array(value: Any, target: np.dtype) -> np.ndarray:
    if isinstance(value, bool | int | float | complex):
        if isinstance(value, complex) and target.kind != "c":
            raise RuntimeError("value cannot be converted to a real type without overflow")
        return np.asarray(value)
    return array_from_data(value, None)


# %% [markdown]
# ## Conversions
#
# `to` reads a dtype, a device or another tensor, in any order, and returns the same object where nothing changes.

# %%
#| into: csrc/autograd/python_variable_methods.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core import scalar_type
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.device import device
from readtorch.c10.core.dispatch_key import MetaArray, device_of
from readtorch.c10.core.memory_format import memory_format
from readtorch.c10.core.scalar_type import dtype
from readtorch.c10.core.tensor_impl import TensorImpl, init, new, version_counter
from readtorch.csrc.autograd import python_variable as properties
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.python_variable_indexing import getitem, setitem
from readtorch.csrc.utils.tensor_new import array_from_data, finish, place


# %%
#| into: csrc/autograd/python_variable_methods.py
#| upstream: torch/csrc/autograd/utils/python_arg_parsing.h#torch::autograd::utils::parse_to_conversion
def parse_to(args: tuple, kwargs: dict[str, Any]) -> tuple[device | None, dtype | None, bool, Any]:
    """The arguments of `to`: device, dtype, copy, memory format. TypeError for what is none of them."""
    where, kind = kwargs.pop("device", None), kwargs.pop("dtype", None)
    copy, layout = kwargs.pop("copy", False), kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    other = kwargs.pop("other", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = list(args)
    if other is not None:
        rest.insert(0, other)
    while rest:
        value = rest.pop(0)
        if isinstance(value, dtype):
            kind = value
        elif isinstance(value, TensorImpl):
            where, kind = device_of(value._array), scalar_type.FROM_NUMPY[value._array.dtype]
        elif isinstance(value, bool):
            copy = rest.pop(0) if rest and isinstance(rest[0], bool) else copy
        elif isinstance(value, str | int | device):
            where = value
        elif isinstance(value, memory_format):
            layout = value
        elif value is not None:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(value).__name__})")
    return None if where is None else device(where), kind, copy, layout


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """This tensor in another dtype, on another device or in another memory format; itself if nothing changes and no copy is asked for."""
    where, kind, copy, layout = parse_to(args, kwargs)
    array = self._array
    at = dispatcher.autograd
    result = self
    if where is not None and not same_device(where, device_of(array)):
        result = at._to_device(result, where)
    if kind is not None and kind.numpy != array.dtype:
        result = at._to_copy(result, kind)
    elif copy and result is self:
        result = at.clone(self)
    if layout is not None and layout is not formats.preserve_format:
        result = contiguous(result, memory_format=layout)
    return result


def same_device(wanted: device, have: device) -> bool:
    """Is `have` what `wanted` asks for? Without an index, any device of the kind."""
    return wanted.type == have.type and (wanted.index is None or wanted.index == have.index)


@dispatcher.register("_to_device", key="CPU CUDA Meta", variants="", node="ToCopy")
def _to_device(self: Array, target: device) -> Array:
    if self.__class__ is MetaArray and target.type != "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return place(self, target)


def contiguous(self: Any, memory_format: Any = formats.contiguous_format) -> Any:
    """A tensor with these elements in memory order: this one if it is so already."""
    if memory_format in (formats.contiguous_format, formats.preserve_format):
        return (
            self
            if self._array.flags.c_contiguous
            else dispatcher.autograd.clone(self, memory_format=formats.contiguous_format)
        )
    if properties.is_contiguous(self, memory_format):
        return self
    return dispatcher.autograd.clone(self, memory_format=memory_format)


# %%
#| into: csrc/autograd/python_variable_methods.py
#| upstream: tools/autograd/templates/python_variable_methods.cpp#variable_methods
def _cast_method(kind: dtype) -> Any:
    def cast(self: Any, memory_format: Any = formats.preserve_format) -> Any:
        return self if self._array.dtype == kind.numpy else dispatcher.autograd._to_copy(self, kind)

    cast.__doc__ = f"This tensor as {kind!r}; itself if it is."
    return cast


def view(self: Any, *shape: Any) -> Any:
    """The same memory in another shape, or, given a dtype, with the bytes read as other elements."""
    if len(shape) == 1 and isinstance(shape[0], dtype):
        return dispatcher.autograd._view_dtype(self, shape[0])
    from readtorch.aten.wrap_dim_utils import sizes

    return dispatcher.autograd._view(self, sizes(shape))


def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of this tensor's type (`torch.FloatTensor`); with an argument, the tensor as that type."""
    kind = properties.get_dtype(self)
    if dtype is None:
        return f"torch.{'cuda.' if device_of(self._array).type == 'cuda' else ''}{kind._legacy}"
    if isinstance(dtype, str) or hasattr(dtype, "_legacy_dtype"):
        wanted = legacy_dtype(dtype)
    else:
        wanted = dtype
    return to(self, wanted)


def legacy_dtype(name: Any) -> dtype:
    """The dtype of `torch.FloatTensor` or its name. ValueError if there is none."""
    if not isinstance(name, str):
        return name._legacy_dtype
    for kind in scalar_type.ALL:
        if name.split(".")[-1] == kind._legacy:
            return kind
    raise ValueError(f"invalid type: '{name}'")


def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    """Collect gradients in this tensor from now on."""
    variable.set_requires_grad(self, requires_grad)
    return self


def fill_(self: Any, value: Any) -> Any:
    """Set every element to `value`, a number or a 0-d tensor."""
    if isinstance(value, TensorImpl):
        return dispatcher.operators["_fill_tensor_"].call(self, value)
    return dispatcher.operators["_fill_scalar_"].call(self, value)


def numpy(self: Any, *, force: bool = False) -> Any:
    """A NumPy array that shares this tensor's memory. RuntimeError if it requires grad, TypeError off the CPU, unless `force`."""
    if force:
        return self.detach().cpu()._array
    if self._edge is not None and state.grad_mode:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    array = self._array
    if array.__class__ is not np.ndarray:
        where = device_of(array)
        raise TypeError(
            f"can't convert {where} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
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
    if source is None:
        self._array = np.empty(0, self._array.dtype)
    elif isinstance(source, TensorImpl):
        self._array = source._array
    else:
        given: list[Any] = [*args, *[0, None, None][len(args) :]]
        offset, shape, strides = given
        self._array = array_of_storage(source, self._array.dtype, offset, shape, strides)
    self._vc = None
    return self


def array_of_storage(storage: Any, kind: np.dtype, offset: int, shape: Any, strides: Any) -> np.ndarray:
    """An array of elements of type `kind` over the bytes of a storage."""
    raw = storage._untyped() if hasattr(storage, "_untyped") else storage
    flat = raw.bytes()
    elements = flat[: flat.size // kind.itemsize * kind.itemsize].view(kind)
    if shape is None:
        return elements[offset:]
    if strides is None:
        strides = contiguous_strides(tuple(shape))
    needed = offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if all(shape) else 0
    if needed > elements.size:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and itemsize {kind.itemsize} requiring a storage size of "
            f"{needed * kind.itemsize} are out of bounds for storage of size {flat.size}"
        )
    steps = tuple(step * kind.itemsize for step in strides)
    return np.lib.stride_tricks.as_strided(elements[offset:], tuple(shape), steps)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous tensor of this shape."""
    steps = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


def resize_(self: Any, *sizes: Any) -> Any:
    """Another shape, in place. New elements are uninitialised; memory is kept if it is large enough."""
    from readtorch.aten.wrap_dim_utils import sizes as parse

    if self._edge is not None:
        raise RuntimeError("cannot resize variables that require grad")
    shape = parse(sizes)
    flat = self._array.reshape(-1)
    count = int(np.prod(shape))
    if count <= flat.size:
        self._array = flat[:count].reshape(shape)
    else:
        grown = np.empty(count, self._array.dtype)
        grown[: flat.size] = flat
        self._array = grown.reshape(shape)
    return self


def make_subclass(cls: type, data: Any, require_grad: bool = False) -> Any:
    """`Tensor._make_subclass`: the data of a tensor under another class."""
    tensor = init(new(cls), data._array)
    if require_grad:
        variable.set_requires_grad(tensor, True)
    return tensor


def as_subclass(self: Any, cls: type) -> Any:
    """This tensor, history included, under another class."""
    tensor = init(new(cls), self._array, self._edge)
    tensor._vc = version_counter(self)
    return tensor


# %%
#| into: csrc/autograd/python_variable_methods.py
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
    "is_inference": lambda self: bool(self._meta and self._meta.get("inference")),
    "is_set_to": lambda self, other: (
        self._array.shape == other._array.shape and properties.data_ptr(self) == properties.data_ptr(other)
    ),
    "is_same_size": lambda self, other: self._array.shape == other._array.shape,
    "cpu": lambda self, memory_format=None: to(self, "cpu"),
    "cuda": lambda self, device=None, non_blocking=False, memory_format=None: to(
        self, "cuda" if device is None else device
    ),
    "float": _cast_method(scalar_type.float32),
    "double": _cast_method(scalar_type.float64),
    "half": _cast_method(scalar_type.float16),
    "bfloat16": _cast_method(scalar_type.bfloat16),
    "long": _cast_method(scalar_type.int64),
    "int": _cast_method(scalar_type.int32),
    "short": _cast_method(scalar_type.int16),
    "char": _cast_method(scalar_type.int8),
    "byte": _cast_method(scalar_type.uint8),
    "bool": _cast_method(scalar_type.bool),
    "cfloat": _cast_method(scalar_type.complex64),
    "cdouble": _cast_method(scalar_type.complex128),
    "view_as": lambda self, other: view(self, other._array.shape),
    "reshape_as": lambda self, other: dispatcher.autograd.reshape(self, other._array.shape),
    "expand_as": lambda self, other: dispatcher.autograd.expand(self, other._array.shape),
    "type_as": lambda self, other: to(self, other),
    "where": lambda self, condition, other: dispatcher.autograd.where(condition, self, other),
    "__getitem__": getitem,
    "__setitem__": setitem,
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
        setattr(TensorImpl, name, function)
        if function.__name__ == "<lambda>":
            function.__name__ = name
            function.__qualname__ = f"TensorBase.{name}"
    tensor_class: Any = TensorImpl
    tensor_class._make_subclass = staticmethod(make_subclass)


# %% [markdown]
# ## Python's operators
#
# `a + b` calls the same entry point as `torch.add`, with one difference: an operand that is neither tensor nor number gives NotImplemented, so that Python may ask the other operand.

# %%
#| into: csrc/autograd/python_variable_operators.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd.variable_type import binary


# %%
#| into: csrc/autograd/python_variable_operators.py
#| upstream: tools/autograd/templates/python_variable_methods.cpp#TypeError_to_NotImplemented_
def decline(entry: Any, position: int, operand: Any) -> Any:
    """Let Python ask the other operand."""
    return NotImplemented


BINARY = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "_true_div",
    "__pow__": "pow", "__mod__": "remainder", "__floordiv__": "floor_divide",
    "__and__": "bitwise_and", "__rand__": "bitwise_and", "__or__": "bitwise_or", "__ror__": "bitwise_or",
    "__xor__": "bitwise_xor", "__rxor__": "bitwise_xor", "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
    "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
}  # fmt: skip
REFLECTED = {
    "__rsub__": "sub",
    "__rtruediv__": "_true_div",
    "__rpow__": "pow",
    "__rmod__": "remainder",
    "__rfloordiv__": "floor_divide",
}
UNARY = {"__neg__": "neg", "__abs__": "abs", "__invert__": "bitwise_not"}
INPLACE = {
    "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__ipow__": "pow_", "__imod__": "remainder_",
    "__ifloordiv__": "floor_divide_", "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_",
}  # fmt: skip


def reflected(entry: Any) -> Any:
    """`number - tensor` and its like: the number becomes a 0-d operand on the left."""
    call = binary(entry, decline)

    def reflect(self: Any, other: Any) -> Any:
        return call(other, self)

    return reflect


def bind_operator(entry: Any) -> None:
    """Put the operators that call this entry on the class."""
    for name, operator in BINARY.items():
        if operator == entry.name and entry.pointwise is not None:
            _bind(name, binary(entry, decline))
    for name, operator in REFLECTED.items():
        if operator == entry.name and entry.pointwise is not None:
            _bind(name, reflected(entry))
    for name, operator in UNARY.items():
        if operator == entry.name:
            _bind(name, entry.call)
    if entry.name == "matmul":
        _bind(
            "__matmul__",
            lambda self, other: entry.call(self, other) if isinstance(other, TensorImpl) else NotImplemented,
        )
        _bind("__rmatmul__", lambda self, other: NotImplemented)


def _bind(name: str, function: Any) -> None:
    if function.__name__ in ("call", "<lambda>", "reflect"):
        function.__name__ = name
        function.__qualname__ = f"TensorBase.{name}"
    setattr(TensorImpl, name, function)


def _inplace_operator(method: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return getattr(self, method)(other)

    return operator


def init() -> None:
    """Bind the operators of every entry there is, and of every new one."""
    dispatcher.add_registration_listener(bind_operator)
    for name, method in INPLACE.items():
        _bind(name, _inplace_operator(method))
    TensorImpl.__hash__ = lambda self: id(self)  # type: ignore[method-assign]


# %% [markdown]
# ## Starting the engine

# %%
#| into: csrc/autograd/python_engine.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.csrc.autograd import engine
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.node import Node, split_edge


# %%
#| into: csrc/autograd/python_engine.py
#| upstream: torch/csrc/autograd/python_engine.cpp#THPEngine_run_backward
def run_backward(
    tensors: Sequence[Any],
    grad_tensors: Sequence[Any],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Any] = (),
    allow_unreachable: bool = False,
    accumulate_grad: bool = False,
) -> tuple[Any, ...]:
    """Check the roots, run the engine, wrap what it captured."""
    edges: list[Any] = []
    grads: list[Any] = []
    for number, (tensor, grad) in enumerate(zip(tensors, grad_tensors, strict=True)):
        edge = tensor._edge if isinstance(tensor, TensorImpl) else gradient_edge(tensor)
        if edge is None:
            raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
        edges.append(edge)
        grads.append(grad if create_graph or grad is None else grad._array)
    targets = [_target(number, tensor, accumulate_grad) for number, tensor in enumerate(inputs)]
    captured = engine.execute(tuple(edges), grads, keep_graph, create_graph, targets or None, accumulate_grad)
    if accumulate_grad or not targets:
        return ()
    results: list[Any] = []
    for number, grad in enumerate(captured):
        if grad is None and not allow_unreachable:
            raise RuntimeError(
                f"The differentiated Tensor at index {number} appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
            )
        results.append(grad if grad is None or create_graph else wrap(_detached(grad, grads)))
    return tuple(results)


def _detached(grad: Any, given: list[Any]) -> Any:
    """A captured gradient nobody else holds: not the array the caller passed in, not a stretched view."""
    return grad.copy() if grad.base is not None or any(grad is other for other in given) else grad


def _target(number: int, tensor: Any, accumulate: bool) -> tuple[Node, int]:
    if not isinstance(tensor, TensorImpl):
        return split_edge(gradient_edge(tensor))
    if tensor._edge is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    if accumulate and tensor._edge.__class__ is not AccumulateGrad:
        tensor.retain_grad()
    return split_edge(tensor._edge)


def gradient_edge(edge: Any) -> Any:
    """A `GradientEdge(node, output_nr)` as the engine writes edges."""
    node, number = edge[0], edge[1]
    return node if number == 0 else (node, number)
