# Tangled from chapters/00_tensor/, chapters/a1_operators/, chapters/02_module/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many, refuse_condition
from readtorch.aten.functorch.dynamic_layer import detached_below
from readtorch.aten.functorch.tensor_wrapper import is_wrapped, no_storage
from readtorch.c10.core import contiguity, scalar_type, tensor_impl
from readtorch.c10.core import layout as layouts
from readtorch.c10.core.device import device
from readtorch.c10.core.device_guard import on_host
from readtorch.c10.core.dispatch_key import MetaArray, device_of
from readtorch.c10.core.scalar_type import cpp_type, dtype, to_string
from readtorch.c10.core.storage_impl import FreedArray, data_address, owner_of, storage_of
from readtorch.c10.core.tensor_impl import (
    INFERENCE,
    TensorImpl,
    current_version,
    init,
    is_inference,
    new,
    version_counter,
)
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.node import next_sequence_nr, split_edge
from readtorch.csrc.size import Size
from readtorch.csrc.utils.gates import face


def bind(name: str, getter: Any, setter: Any = None, deleter: Any = None) -> None:
    """Add a property to the tensor class."""
    setattr(TensorImpl, name, property(face(getter), face(setter), face(deleter)))


def shape(self: Any) -> Size:
    """The sizes of the dimensions."""
    return tuple.__new__(Size, self._array.shape)


def get_dtype(self: Any) -> dtype:
    """The type of the elements."""
    return scalar_type.FROM_NUMPY[self._array.dtype]


def get_device(self: Any) -> device:
    """Where the elements lie."""
    return device_of(self._array)


def version(self: Any) -> int:
    """How often the memory was written to. RuntimeError for tensors made in inference mode, where nobody counts."""
    if is_inference(self):
        raise RuntimeError("Inference tensors do not track version counter.")
    return current_version(self)


bind("shape", shape)
bind("dtype", get_dtype)
bind("device", get_device)
bind("ndim", lambda self: self._array.ndim)
bind("layout", lambda self: layouts.LAYOUT_OF.get(self._array.__class__, layouts.strided))
bind("itemsize", lambda self: self._array.itemsize)
bind("nbytes", lambda self: self._array.nbytes)
bind("is_cuda", lambda self: device_of(self._array).type == "cuda")
bind("is_cpu", lambda self: device_of(self._array).type == "cpu")
bind("is_meta", lambda self: self._array.__class__ is MetaArray)
bind("is_sparse", lambda self: self._array.__class__ in layouts.LAYOUT_OF)
bind("is_sparse_csr", lambda self: False)
bind("is_quantized", lambda self: False)
bind("is_mkldnn", lambda self: False)
bind("is_nested", lambda self: False)
bind("is_mps", lambda self: False)
bind("is_xpu", lambda self: False)
bind("_version", version)
bind("grad_fn", variable.grad_fn)
bind("is_leaf", variable.is_leaf)
bind("output_nr", lambda self: split_edge(variable.own_edge(self))[1])
bind("_base", lambda self: self._view[0] if self._view is not None else None)


def get_requires_grad(self: Any) -> bool:
    """Are operations on this tensor recorded?"""
    try:
        return self._edge is not None
    except AttributeError:
        return variable.requires_grad(self)


def set_requires_grad(self: Any, wanted: bool) -> None:
    if not isinstance(wanted, bool):
        raise RuntimeError("requires_grad must be a bool")
    if wanted and not variable.has_no_node(self):
        raise RuntimeError("you can only change requires_grad flags of leaf variables.")
    variable.set_requires_grad(self, wanted)


def get_grad(self: Any) -> Any:
    """The accumulated gradient, None before the first backward. Warns on tensors that keep none."""
    grad = self._grad
    if grad is None and not variable.has_no_node(self) and not retains_grad(self):
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
        ours = cpp_type(get_dtype(grad))
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
    edge = variable.gradient_edge(self)
    if edge is not None and wanted is not None:
        edge._dtype = scalar_type.to_numpy_dtype(wanted)


def retains_grad(self: Any) -> bool:
    """Will `.grad` of this non-leaf be filled?"""
    edge = variable.own_edge(self)
    if edge is None or edge.__class__ is AccumulateGrad:
        return False
    node, number = split_edge(edge)
    return node._retains_grad is not None and number in node._retains_grad


bind("requires_grad", get_requires_grad, set_requires_grad)
bind("grad", get_grad, set_grad, lambda self: set_grad(self, None))
bind("_grad_", lambda self: self._grad)
bind("grad_dtype", grad_dtype, set_grad_dtype)
bind("retains_grad", retains_grad)


def get_data(self: Any) -> Any:
    """The same memory in a tensor that autograd knows nothing of."""
    if is_wrapped(self._array):
        return detached_below(self, get_data)
    tensor = init(new(tensor_impl.Tensor), self._array)
    tensor._meta = INFERENCE if is_inference(self) else None
    return tensor


def set_data(self: Any, data: Any) -> None:
    """Make this tensor object hold another tensor's memory."""
    if not isinstance(data, TensorImpl):
        raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
    self._array = data._array
    edge = variable.own_edge(self)
    if edge.__class__ is AccumulateGrad:
        if data._array.dtype.kind not in "fcV":
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        if data._array.dtype != edge._dtype or device_of(data._array) != device_of(edge._array):
            edge.describe(data._array)
        else:
            del edge  # which counts as one that refers to it
            variable.tell_leaf(self)


def detach(self: Any) -> Any:
    """The same memory, outside of the graph. Writes through it are noticed by saved-tensor checks."""
    if self._array.__class__ is not np.ndarray and is_wrapped(self._array):
        return detached_below(self, detach)
    tensor = new(tensor_impl.Tensor)
    tensor._array = self._array
    tensor._edge = None
    tensor._vc = self._vc or version_counter(self)
    tensor._view = None
    tensor._grad = None
    tensor._meta = INFERENCE if is_inference(self) else None
    return tensor


def detach_(self: Any) -> Any:
    """Cut this tensor from its history, in place. RuntimeError on a view, whose base would still know."""
    if self._view is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if not variable.has_no_node(self):
        version_counter(self)
        self._meta = {**(self._meta or {}), "detached": next_sequence_nr()}
    self._edge = None
    return self


bind("data", get_data, set_data)


def reversed_dims(self: Any) -> Any:
    """The dimensions in reverse order; deprecated for other than matrices."""
    if self._array.ndim != 2:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 is deprecated, and a later release refuses it. "
            "A batch of matrices is transposed by `x.mT`; all dimensions are reversed by `x.permute(*range(x.ndim - 1, -1, -1))`.",
            stacklevel=2,
        )
    return dispatcher.autograd.permute(self, tuple(range(self._array.ndim - 1, -1, -1)))


def transposed_matrices(self: Any) -> Any:
    """The last two dimensions exchanged."""
    if not self._array.ndim:
        warnings.warn(
            "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.", stacklevel=2
        )
        return dispatcher.autograd.alias(self)
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


def strides_in_elements(array: Any) -> tuple[int, ...]:
    """Strides as upstream counts them. NumPy's are 0 where there is no element; upstream's are those of one per dimension."""
    itemsize = array.itemsize
    if array.__class__ is MetaArray:
        return array.steps
    if not array.size:
        return contiguity.contiguous_strides(array.shape)
    return tuple(step // itemsize for step in array.strides)


def stride(self: Any, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along `dim`, or along each dimension."""
    steps = strides_in_elements(self._array)
    if dim.__class__ is bool:
        raise TypeError("stride(): argument 'dim' (position 1) must be int, not bool")
    if dim is None:
        return steps
    try:
        return steps[dim]
    except IndexError:
        bound = max(len(steps), 1)
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        ) from None


def untyped_storage(self: Any) -> Any:
    """The bytes this tensor looks into. A meta tensor's are a number of bytes and no more."""
    array = self._array
    if array.__class__ in layouts.LAYOUT_OF:
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")
    return array.storage if array.__class__ is MetaArray else storage_of(array, device_of(array))


def data_ptr(self: Any) -> int:
    """Address of the first element; 0 for a tensor without memory, from which a meta tensor counts its offset."""
    array = self._array
    if is_wrapped(array):
        raise no_storage()
    if not array.size or array.__class__ is FreedArray:
        return 0
    return array.offset * array.itemsize if array.__class__ is MetaArray else data_address(array)


def storage_offset(self: Any) -> int:
    """How many elements lie between the storage's start and the first element."""
    array = self._array
    if array.__class__ is MetaArray:
        return array.offset
    if not array.size:
        return 0
    if is_wrapped(array):
        return storage_offset(array.value)
    owner = owner_of(array)
    return 0 if owner is array else (data_address(array) - data_address(owner)) // array.itemsize


def is_contiguous(self: Any, *, memory_format: Any = None) -> bool:
    """Are the elements in memory in the order of the last dimension first?"""
    from readtorch.c10.core import memory_format as formats

    array = self._array
    order = None
    if memory_format not in (None, formats.contiguous_format, formats.preserve_format):
        rank = 4 if memory_format is formats.channels_last else 5
        if array.ndim != rank:
            return False
        order = contiguity.channels_innermost(rank)
    if array.__class__ is MetaArray:
        return contiguity.is_contiguous(array.shape, array.steps, order)
    return bool((array if order is None else array.transpose(order[::-1])).flags.c_contiguous)


def size(self: Any, dim: int | None = None) -> Any:
    """The shape, or one size of it."""
    if dim is None:
        return tuple.__new__(Size, self._array.shape)
    sizes = self._array.shape
    if dim.__class__ is int and -len(sizes) <= dim < len(sizes):
        return sizes[dim]
    from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

    return sizes[maybe_wrap_dim(dim, len(sizes), wrap_scalar=False)]


def item(self: Any) -> Any:
    """The one element as a Python number. RuntimeError unless there is exactly one."""
    array = self._array
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    if array.__class__ is MetaArray:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    value = on_host(array).item()
    return float(value) if array.dtype.kind == "V" else value


def to_bool(self: Any) -> bool:
    array = self._array
    if array.size != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no values' if array.size == 0 else 'more than one value'} is ambiguous"
        )
    if is_one_of_many(array):
        raise refuse_condition()
    return bool(item(self))


def index(self: Any) -> int:
    if self._array.size != 1 or self._array.dtype.kind not in "iub":
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


def tolist(self: Any) -> Any:
    """Nested lists of Python numbers; a number for a 0-d tensor."""
    if self._array.__class__ is MetaArray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    array = on_host(self._array)
    return array.astype(np.float32).tolist() if array.dtype.kind == "V" else array.tolist()


def number_of(self: Any, kind: type) -> Any:
    if kind is not int:
        variable.warn_of_gradient(self)
    if self._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    value = item(self)
    if isinstance(value, complex) and kind is not complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {kind.__name__} without overflow")
        value = value.real
    return kind(value)


EMPTY = object()


def _volatile(self: Any) -> bool:
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


bind("is_ipu", lambda self: False)
bind("is_maia", lambda self: False)
bind("is_mtia", lambda self: False)
bind("is_vulkan", lambda self: False)
bind("is_xla", lambda self: False)
bind("name", lambda self: None)
bind("volatile", _volatile)
bind("_grad_fn", variable.grad_fn)


def swap_tensor_impl(a: Any, b: Any) -> None:
    """Exchange all that two tensor objects hold: memory, history, gradient, version, hooks."""
    for slot in ("_array", "_edge", "_grad", "_meta", "_vc", "_view"):
        of_a, of_b = getattr(a, slot, EMPTY), getattr(b, slot, EMPTY)
        for tensor, value in ((a, of_b), (b, of_a)):
            if value is not EMPTY:
                setattr(tensor, slot, value)
            elif slot == "_edge":
                tensor.forget_edge()
    for counter in {id(x._vc): x._vc for x in (a, b) if x._vc is not None and x._view is not None}.values():
        counter.exchange(a, b)
    for tensor in (a, b):
        if variable.own_edge(tensor).__class__ is AccumulateGrad:
            #: The node accumulates into an object, and that object holds something else now.
            tensor._edge = tensor._edge.successor(tensor)
