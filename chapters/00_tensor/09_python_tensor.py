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
# What does a tensor tell about itself, and what is it that you read when you read `x.grad`, `x.data` or `float(x)`? All
# floors below work on slots and raw arrays. Here the object gets the attributes and methods that programs use. Most
# surprises that are no bugs are here as well: a gradient that two names share, a tensor that is contiguous in two formats
# at once, a float that was never in the tensor, a list of losses without a graph.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why does "go to definition" end at `x.shape`?
#
# `torch.Tensor` is a Python class with little in it. Its one base, `torch._C.TensorBase`, is made in C++ and has two
# tables. The getters and setters (`shape`, `grad`, `data`, `T`; some fifty) are written by hand. The methods (`add`,
# `sum`; more than 600) are mostly generated from `native_functions.yaml`, each a parser and a call of the dispatcher.
# Neither table has a Python source, so an IDE has nowhere to go and `inspect.signature` fails. Completion reads the
# stubs, `torch/_C/__init__.pyi`.
#
# Ours are Python functions put on the same base: a debugger that steps into `x.grad` lands in `get_grad` below.


# %%
#| claim: the operators are methods of TensorBase, the one base of Tensor; torch.add is the function that torch._C exports
#| upstream: tools/autograd/templates/python_variable_methods.cpp#torch::autograd::variable_methods
def _(torch):
    assert torch.Tensor.__mro__ == (torch.Tensor, torch._C.TensorBase, object)
    assert "add" not in vars(torch.Tensor) and "add" in vars(torch._C.TensorBase)
    assert "backward" in vars(torch.Tensor)
    assert torch.add is torch._C._VariableFunctions.add


# %% [markdown]
# In a debugger these attributes answer most questions about a tensor:
#
# | question | ask |
# |---|---|
# | Is it a view, and of what? | `x._base` (a view of a view has the first one's base) |
# | Was it written to? | `x._version` |
# | Who made it, and as which output? | `x.grad_fn`, `x.output_nr` |
# | Will it get a `.grad`? | `x.is_leaf and x.requires_grad`, or `x.retains_grad` |
# | Do these two share memory? | `x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()` |
# | How much does it keep alive? | `x.untyped_storage().nbytes()`, not `x.nbytes` |
# | May it be saved for backward? | `not x.is_inference()` |

# %%
#| into: csrc/autograd/python_variable.py
#| imports
from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.functorch.batched_tensor_impl import refuse_condition
from readtorch.aten.functorch.dynamic_layer import detached_below
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.functorch.tensor_wrapper import no_storage
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


# %%
#| into: csrc/autograd/python_variable.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_properties
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

# %% [markdown]
# ## What is `.grad`?
#
# A slot that holds a tensor; nothing is hidden behind it. Assigning stores the object that was given, without a copy, and
# the next backward adds to *that object* in place. If two parameters were given one gradient, it counts both. If a
# data-parallel bucket was made a `.grad`, the engine fills the bucket and nobody copies (DDP's
# `gradient_as_bucket_view`).
#
# The setter checks size, device and dtype, because the engine trusts the slot. The dtype is the tensor's own unless the
# leaf says otherwise. Half-precision parameters that collect many small gradients lose them one by one; `grad_dtype`, a
# recent attribute, lets the sum be taken in float32 while the parameter stays as it is.


# %%
#| into: csrc/autograd/python_variable.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_set_grad
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


# %%
#| claim: the object assigned to .grad is the one that later gradients are added to
def _(torch):
    p, q = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    p.grad = q.grad = shared = torch.zeros(2)
    (p * 2 + q * 3).sum().backward()
    assert p.grad is q.grad is shared and shared.tolist() == [5, 5]


# %%
#| claim: in float16 a small gradient is lost beside a large one; grad_dtype keeps the sum in float32
#| upstream: aten/src/ATen/core/TensorBase.h#at::TensorBase::grad_dtype
def _(torch):
    def accumulated(grad_dtype):
        p = torch.ones(1, dtype=torch.float16, requires_grad=True)
        p.grad_dtype = grad_dtype
        for factor in (2048.0, 1.0):
            (p * factor).sum().backward()
        return p.grad.item()

    assert accumulated(torch.float16) == 2048 and accumulated(torch.float32) == 2049


# %% [markdown]
# ## What is `.data = …` good for?
#
# [The part on storage](02_storage_and_views.py#who-shares-a-version-counter-and-who-does-not) tells `x.data` and
# `x.detach()` apart: the same memory, without and with the version counter. *Assigning* to `.data` is another matter, and
# the one use of it that has no replacement. It exchanges the memory under a tensor whose identity stays. Every list that
# holds the tensor, every optimizer state keyed by it, and the module that owns it see other numbers from then on, even of
# another dtype or shape. That is how `module.half()` and `module.cuda()` work while an optimizer holds the parameters
# (chapter 2).
#
# What was derived from the old memory does not follow: `.grad` keeps its dtype and shape, and a graph recorded before
# keeps what it saved.


# %%
#| into: csrc/autograd/python_variable.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_set_data
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


# %%
#| claim: assigning to .data changes dtype and shape of the same leaf, for everybody who holds it; its version is as it was
#| upstream: torch/csrc/autograd/variable.cpp#torch::autograd::VariableHooks::set_data
def _(torch):
    leaf = torch.ones(2, requires_grad=True)
    held = [leaf]
    leaf.data = torch.zeros(3, dtype=torch.float64)
    assert held[0].shape == (3,) and held[0].is_leaf and held[0].requires_grad and held[0]._version == 0
    (leaf * 2).sum().backward()
    assert leaf.grad.dtype is torch.float64 and leaf.grad.shape == (3,)


# %%
#| claim: a gradient that is there keeps its dtype when .data is exchanged, and later gradients are rounded to it
def _(torch):
    leaf = torch.ones(1, requires_grad=True)
    leaf.sum().backward()
    leaf.data = leaf.data.double()
    (leaf * 1e-9).sum().backward()
    assert leaf.grad.dtype is torch.float32 and leaf.grad.item() == 1


# %% [markdown]
# ## Is it contiguous?
#
# The question is about strides, and the stride of a dimension of size 1 means nothing, since nobody ever takes a step
# along it. Such strides are not looked at, so a tensor may answer yes for two formats at once: with one channel, or for a
# 1 × 1 image, `contiguous` and `channels_last` are the same bytes. Code that asks "is it channels-last?" to choose the
# format of its output chooses by accident there. Upstream's convolutions ask `suggest_memory_format` instead, which looks
# at those strides too and takes a tie as contiguous.


# %%
#| into: csrc/autograd/python_variable.py
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


# %%
#| needs: a1_operators
#| claim: strides of dimensions of size 1 do not count; with one channel a tensor is contiguous and channels-last at once
#| upstream: aten/src/ATen/core/TensorBase.h#at::TensorBase::suggest_memory_format
def _(torch):
    column = torch.ones(4, 3)[:1].t()
    assert column.shape == (3, 1) and column.stride() == (1, 3) and column.is_contiguous()
    last = torch.channels_last
    for shape in ((2, 1, 3, 3), (2, 3, 1, 1)):
        image = torch.ones(shape)
        assert image.is_contiguous() and image.is_contiguous(memory_format=last)
    assert not torch.ones(2, 3, 2, 2).is_contiguous(memory_format=last)


# %%
#| claim: a tensor's nbytes counts elements, its storage counts memory: an expanded tensor claims more than there is, a slice keeps more than it claims
def _(torch):
    wide = torch.ones(1, 3).expand(4, 3)
    assert wide.nbytes == 48 and wide.untyped_storage().nbytes() == 12


# %% [markdown]
# ## What does a number cost?
#
# `x.item()`, `float(x)`, `if x > 0:`, `range(n)` and `some_list[i]` with tensors are all one operator,
# `aten::_local_scalar_dense`. It copies one element to the host, and on a GPU the host must wait until everything queued
# before it has been computed. A training loop that says `total += loss.item()` runs in step with the device; one that
# adds tensors and asks once at the end does not. In a profile these waits have that operator's name, whoever called it.
#
# The number itself is exact, and shows digits that `print(x)` has hidden: a float32 has about seven, and a Python float
# prints up to seventeen.

# %%
x = torch.tensor([0.1, 1.5])
print(x, x.tolist())


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


# %%
#| claim: any tensor of one element can stand for a number, an integer one for an index; truth values of others are refused; nan is true
#| upstream: aten/src/ATen/native/native_functions.yaml#_local_scalar_dense
def _(torch):
    assert [10, 20, 30][torch.tensor(1)] == [10, 20, 30][torch.tensor([1])] == 20
    assert list(range(torch.tensor(2))) == [0, 1] and int(torch.tensor(-2.7)) == -2
    assert bool(torch.tensor(float("nan"))) and not torch.tensor([[0.0]])
    for refused, error in ((lambda: bool(torch.ones(2)), RuntimeError), (lambda: [1][torch.tensor(0.0)], TypeError)):
        try:
            refused()
        except error:
            continue
        raise AssertionError("converted")


# %% [markdown]
# A chain like `0 < x < 3` is `(0 < x) and (x < 3)`, and `and` asks the first for its truth: *Boolean value of Tensor with more than one value is ambiguous*. Write `(0 < x) & (x < 3)`.
#
# ## Seven ways to make a tensor from data
#
# | call | copies? | dtype | remark |
# |---|---|---|---|
# | `torch.tensor(data)` | always | inferred | no graph: the result is a leaf |
# | `torch.as_tensor(data)` | only if it must | inferred, or kept | the same object for a tensor that fits |
# | `torch.asarray(data)` | only if it must | inferred, or kept | `copy=True` or `False` makes it a promise |
# | `torch.from_numpy(a)` | never | the array's | float64 arrays stay float64 |
# | `torch.frombuffer(b, dtype=)` | never | given | bytes of a file or a socket |
# | `torch.from_dlpack(x)` | never | kept | across libraries and devices |
# | `torch.Tensor(…)` | only if it must | default | `Tensor(3)` is three uninitialised elements, `Tensor([3])` is one; of a tensor or an array of its dtype it is a view |
#
# `torch.tensor` walks over nested lists three times. It reads the shape from the *first* element at each depth, promotes
# the dtype over *all* numbers, and only then fills the memory, complaining about the first list that is not as long as
# the one before it.

# %%
#| into: csrc/utils/__init__.py
"""Argument parsing and conversions (twin of `torch/csrc/utils/`)."""

# %%
#| into: csrc/utils/tensor_new.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.native.type_properties import number_type
from readtorch.aten.tensor_iterator import ignore_floating_errors, restore_floating_errors
from readtorch.c10.core.device import current_default_device, device
from readtorch.c10.core.device_guard import NOTHING, on_host
from readtorch.c10.core.device_guard import with_index
from readtorch.c10.core.dispatch_key import on_meta, without_values
from readtorch.c10.core.scalar_type import dtype, from_numpy_dtype, promote_types, to_numpy_dtype
from readtorch.c10.core.storage_impl import StorageImpl, storage_of
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.csrc.autograd.variable import set_requires_grad, warn_of_gradient
from readtorch.csrc.utils.device_lazy_init import device_lazy_init


# %%
#| into: csrc/utils/tensor_new.py
#| upstream: torch/csrc/utils/tensor_new.cpp#torch::utils::compute_sizes
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


# %% [markdown]
# The walks are for nested sequences only. What has memory already (a tensor, an array, a storage, anything with
# `__array__` or DLPack) is taken as an array and copied at most once. That is the whole difference in speed between
# `torch.tensor(list_of_arrays)` and `torch.tensor(np.stack(list_of_arrays))`.


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


# %% [markdown]
# The constructors themselves. All of them end in `finish`, which brings the array to its device, wraps it, and makes a
# leaf of it if a gradient is wanted. So `torch.tensor(…, device="cuda")` builds on the CPU first and copies, here and
# upstream.


# %%
#| into: csrc/utils/tensor_new.py
#| upstream: torch/csrc/utils/tensor_new.cpp#torch::utils::tensor_ctor
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


# %%
#| trace: torch.csrc.utils.tensor_new layers=calls values=summary title="shape from the first elements, dtype from all"
torch.tensor([[1, 2.5], [True, 4]])

# %% [markdown]
# One float in the list decides that this is float32. NumPy's scalars carry a dtype of their own and do not decay to
# Python floats: one `np.float64` in a list (the mean of an array, for instance), and the tensor is in double precision.
# The next layer then refuses it: *mat1 and mat2 must have the same dtype, but got Double and Float*. (A layer without a
# bias multiplies by `mm`, which says *expected m1 and m2 to have the same dtype*.)


# %%
#| claim: Python floats give the default dtype, NumPy's float64 scalars and arrays stay float64; True among ints is an int; an empty list is float
#| upstream: torch/csrc/utils/tensor_new.cpp#infer_scalar_type
def _(torch):
    import numpy as np

    assert torch.tensor([1, 2.0]).dtype is torch.float32
    assert torch.tensor([np.float64(1.0)]).dtype is torch.tensor(np.array([1.0])).dtype is torch.float64
    assert torch.tensor([np.float32(1.0), 2.0]).dtype is torch.float32
    assert torch.tensor([True, 2]).dtype is torch.int64
    assert torch.tensor([]).dtype is torch.float32 and torch.tensor([1, 2j]).dtype is torch.complex64


# %%
#| needs: a1_operators
#| claim: `from_numpy`, as_tensor and asarray look into the array's memory, tensor copies, Tensor copies what is not of its dtype; writes through NumPy are not counted
def _(torch):
    import numpy as np

    array = np.zeros(2, np.float32)
    sharing = [torch.from_numpy(array), torch.as_tensor(array), torch.asarray(array)]
    copied = torch.tensor(array)
    array[0] = 7
    assert all(t[0].item() == 7 and t._version == 0 for t in sharing) and copied[0].item() == 0
    tensor = torch.ones(2)
    for legacy in (torch.Tensor(tensor), torch.Tensor(tensor.numpy())):
        assert legacy.data_ptr() == tensor.data_ptr()
    doubles = np.zeros(2)
    assert (
        torch.Tensor(doubles).dtype is torch.float32 and torch.DoubleTensor(doubles).data_ptr() == doubles.ctypes.data
    )
    assert torch.as_tensor(tensor) is tensor and tensor.numpy().__array_interface__["data"][0] == tensor.data_ptr()


# %% [markdown]
# So NumPy is a third way around the version counter, after `.data` and C extensions: `x.numpy()[0] = 5` between forward
# and backward gives a wrong gradient and no error.
#
# > [!NOTE]
# > **Often told otherwise.** "`torch.tensor([loss_a, loss_b]).sum().backward()` adds losses." It takes a number out of
# > each and starts anew. The error, *does not require grad and does not have a grad_fn*, comes two lines later.
# > `torch.stack([loss_a, loss_b])` is the operator.


# %%
#| needs: a1_operators
#| claim: `torch.tensor` on a list of tensors takes their numbers and leaves their graph behind; stack keeps it
def _(torch):
    import warnings

    losses = [torch.ones(1, requires_grad=True).sum() for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not torch.tensor(losses).requires_grad
    assert torch.stack(losses).requires_grad


# %% [markdown]
# ### A device that nobody has used yet
#
# Which kinds of memory exist is not known when the library is imported: a GPU is looked for when the first tensor is to
# go there.

# %%
#| into: csrc/utils/device_lazy_init.py
#| imports
from __future__ import annotations

from collections.abc import Callable


# %%
#| into: csrc/utils/device_lazy_init.py
#| upstream: torch/csrc/utils/device_lazy_init.h#torch::utils::device_lazy_init
#: what prepares a kind of device, by its name; the CUDA backend adds its own
INITIALISERS: dict[str, Callable[[], None]] = {}


def device_lazy_init(kind: str) -> None:
    """Prepare a kind of device for use. RuntimeError if this package knows none of that kind."""
    if kind not in INITIALISERS:
        raise RuntimeError(
            f"Could not run 'aten::empty.memory_format' with arguments from the '{kind.upper()}' backend."
        )
    INITIALISERS[kind]()


# %% [markdown]
# ### What upstream does more
#
# * While C++ holds a tensor, it also keeps its Python object alive, with all attributes ([what is a tensor, as an
#   object?](02_storage_and_views.py#what-is-a-tensor-as-an-object)).
# * Negative strides do not exist. `from_numpy(a[::-1])` is refused, because kernels count on offsets that grow; `flip`
#   copies.

# %%
#| fact: torch/csrc/autograd/python_variable.cpp#THPVariable_properties

# %% [markdown]
# Attributes are half of what Python sees. The other half is syntax, and it begins with [brackets](10_indexing_and_operators.py).
