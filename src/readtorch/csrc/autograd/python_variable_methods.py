# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.functorch.tensor_wrapper import is_wrapped, no_storage
from readtorch.c10.core import layout as layouts
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core import scalar_type
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.contiguity import contiguous_strides
from readtorch.c10.core.device import device
from readtorch.c10.core.device_guard import with_index
from readtorch.c10.core.dispatch_key import MetaArray, device_of, meta_in
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.memory_format import memory_format
from readtorch.c10.core.scalar_type import dtype
from readtorch.c10.core.tensor_impl import INFERENCE, TensorImpl, init, is_inference, new, version_counter, wrap
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.autograd import python_variable as properties
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.functions.basic_ops import NotImplementedNode
from readtorch.csrc.autograd.node import split_edge
from readtorch.csrc.autograd.python_variable_indexing import delitem, getitem, setitem
from readtorch.csrc.utils.gates import gates
from readtorch.csrc.utils.python_arg_parser import require
from readtorch.csrc.utils.tensor_new import array_from_data, finish, legacy_sparse, legacy_tensor, library_of, place


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


def _view_in_place(name: str) -> Any:
    """`NAME_`: this tensor becomes the view. The base of a tensor that was one already knows nothing of it."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name not in ("t", "transpose", "swapaxes", "swapdims"):
            _has_memory(self, "as_strided_")
        wants = state.grad_mode and variable.requires_grad(self)
        if wants:
            variable.check_inplace(self)
        result = getattr(dispatcher.autograd, name)(self, *args, **kwargs)
        edge = variable.gradient_edge(result) if wants else None
        version_counter(self).bump()
        self._array = result._array
        if edge is not None:
            node: Any = split_edge(edge)[0]
            node.become_inplace()
            variable.set_history(self, edge)
            variable.wake_views(self)
        else:
            variable.tell_leaf(self)
        return self

    method.__name__ = f"{name}_"
    return method


for _name in ("t", "transpose", "squeeze", "unsqueeze", "swapaxes", "swapdims", "as_strided"):
    METHODS[f"{_name}_"] = _view_in_place(_name)


def resize_as_(self: Any, template: Any, *, memory_format: Any = None) -> Any:
    """Take another tensor's shape, in place."""
    if self.is_sparse and template.is_sparse:
        return resize_as_sparse_(self, template)
    return resize_(self, template._array.shape)


def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Set the diagonal to a number."""
    require("fill_diagonal_", "Number", fill_value=fill_value)
    require("fill_diagonal_", "bool", wrap=wrap)
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    strides, start, length = self.stride(), self.storage_offset(), min(shape)
    at, step = dispatcher.autograd, (sum(strides),)
    at.as_strided(self, (length,), step, start).fill_(fill_value)
    height, width = shape[:2]
    if wrap and len(shape) == 2 and height > width + 1:  # below an empty row the diagonal begins again
        again = -(-height * width // (width + 1)) - length
        at.as_strided(self, (again,), step, start + strides[0] * (width + 1)).fill_(fill_value)
    return self


def apply_(self: Any, callable: Any) -> Any:
    """Replace every element by a function of it. A Python loop."""
    if self._array.__class__ is not np.ndarray:
        raise TypeError("apply_ is only implemented on CPU tensors")
    flat = self._array.reshape(-1)
    self._array[...] = np.array([callable(value) for value in flat.tolist()], dtype=self._array.dtype).reshape(
        self._array.shape
    )
    version_counter(self).bump()
    return self


def _other_elements(name: str, self: Any, other: Any) -> list[Any]:
    """The elements of another tensor of this dtype, stretched to this shape."""
    if not isinstance(other, TensorImpl):
        raise TypeError(f"{name}(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    for tensor in (self, other):
        if tensor.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
    if other._array.dtype != self._array.dtype:
        raise TypeError(f"{name}: expected {self.type()} for 'other' (got {other.type()})")
    if self._array.__class__ is not np.ndarray or other._array.__class__ is not np.ndarray:
        raise TypeError(f"{name} is only implemented on CPU tensors")
    return dispatcher.autograd.expand(other, self._array.shape)._array.reshape(-1).tolist()


def map_(self: Any, other: Any, callable: Any) -> Any:
    """Replace every element by a function of it and its neighbour in another tensor. A Python loop."""
    others = iter(_other_elements("map_", self, other))
    return apply_(self, lambda value: callable(value, next(others)))


def map2_(self: Any, x: Any, y: Any, callable: Any) -> Any:
    """`map_` with two other tensors."""
    pairs = zip(_other_elements("map2_", self, x), _other_elements("map2_", self, y), strict=True)
    return apply_(self, lambda value: callable(value, *next(pairs)))


METHODS.update(
    {
        "map_": map_,
        "map2_": map2_,
        "resize_as_": resize_as_,
        "fill_diagonal_": fill_diagonal_,
        "apply_": apply_,
        "is_conj": lambda self: False,
        "is_neg": lambda self: False,
        "is_distributed": lambda self: False,
        "record_stream": lambda self, stream: None,
        "dim_order": lambda self: tuple(sorted(range(self.ndim), key=lambda axis: -self.stride(axis))),
        "arctan2": lambda self, other: dispatcher.autograd.atan2(self, other),
        "arctan2_": lambda self, other: dispatcher.autograd.atan2_(self, other),
        "new": lambda self, *args: finish(
            (legacy_sparse if self.is_sparse else legacy_tensor)(
                type(self), args, scalar_type.from_numpy_dtype(self._array.dtype)
            ),
            device_of(self._array),
        ),
    }
)


def _without(error: type[Exception], why: str) -> Any:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        raise error(why)

    method.__doc__ = f"{error.__name__}: there is no such tensor here."
    return method


for _name in (
    *("q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme"),
    *("int_repr", "to_padded_tensor"),
):
    METHODS[_name] = _without(
        NotImplementedError, f"Could not run 'aten::{_name}' with arguments from the 'CPU' backend."
    )
for _name, _kind in (("crow", "row"), ("col", "row"), ("ccol", "column"), ("row", "column")):
    METHODS[f"{_name}_indices"] = _without(
        RuntimeError,
        f"{_name}_indices expected sparse {_kind} compressed tensor layout but got another",
    )
for _name in ("to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc", "to_mkldnn"):
    METHODS[_name] = _without(
        NotImplementedError, f"{_name}(): of the layouts there are torch.strided and torch.sparse_coo"
    )
for _name in ("mtia", "xpu"):
    METHODS[_name] = _without(AssertionError, f"Torch not compiled with {_name.upper()} enabled")
METHODS["ipu"] = _without(RuntimeError, "PyTorch is not linked with support for ipu devices")


def _lu_solve(self: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """`torch.lu_solve`."""
    warn_once("torch.lu_solve is deprecated in favor of torch.linalg.lu_solve(LU, pivots, B)")
    return dispatcher.autograd.linalg_lu_solve(LU_data, LU_pivots, self)


def positive(self: Any) -> Any:
    """`+x`: the tensor itself. RuntimeError for truth values."""
    if self._array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


METHODS.update(
    {
        "__pos__": positive,
        "__nonzero__": METHODS["__bool__"],
        "__long__": METHODS["__int__"],
        "__div__": lambda self, other: dispatcher.autograd.div(self, other),
        "__idiv__": lambda self, other: dispatcher.autograd.div_(self, other),
        "__ilshift__": lambda self, other: dispatcher.autograd.bitwise_left_shift_(self, other),
        "__irshift__": lambda self, other: dispatcher.autograd.bitwise_right_shift_(self, other),
        "const_data_ptr": properties.data_ptr,
        "dequantize": lambda self: to(self, scalar_type.float32),
        "lu_solve": _lu_solve,
        "polygamma": lambda self, n: dispatcher.autograd.polygamma(n, self),
        "polygamma_": lambda self, n: dispatcher.autograd._polygamma_in_place_(self, n),
    }
)


def _sparse(self: Any, name: str) -> Any:
    """The raw value of a sparse tensor. NotImplementedError for another."""
    if self._array.__class__ not in LAYOUT_OF:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CPU' backend.")
    return self._array


def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """This tensor in the strided layout; itself if it is. `masked_grad`: is the gradient to have the same places (by default it is)?"""
    if self._array.__class__ not in LAYOUT_OF:
        return self if dtype is None else to(self, dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return dispatcher.autograd._to_dense(self, masked_grad)


def to_sparse(
    self: Any, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Any:
    """The elements that are not zero, by their places. Of the layouts there is `torch.sparse_coo`."""
    if layout is not None and layout is not layouts.sparse_coo:
        raise NotImplementedError(f"to_sparse(layout={layout!r}): torch.sparse_coo is the sparse layout that is here")
    if blocksize is not None:
        raise RuntimeError("to_sparse: conversion to Sparse does not use the specified blocksize")
    if dense_dim is not None:
        sparse_dim = self._array.ndim - dense_dim
    if self._array.__class__ in LAYOUT_OF and sparse_dim in (None, self._array.sparse_dim):
        return self
    return dispatcher.autograd.to_sparse(self, sparse_dim)


def coalesce(self: Any) -> Any:
    """Each place once, in order; itself if it is so."""
    if self._array.__class__ in LAYOUT_OF and self._array.coalesced:
        return self
    return dispatcher.autograd.coalesce(self)


def is_coalesced(self: Any) -> bool:
    """Does no place occur twice, and are they in order?"""
    if self._array.__class__ not in LAYOUT_OF:
        raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got Strided")
    return self._array.coalesced


def _coalesced_(self: Any, coalesced: bool) -> Any:
    """Say so without looking."""
    impl = _sparse(self, "_coalesced_")
    self._array = type(impl)(impl.indices, impl.values, impl.shape, coalesced)
    return self


def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Another size, in place. Values stay where they are, so no dimension may shrink, nor change its kind, unless there are none."""
    impl, shape = _sparse(self, "sparse_resize_"), tuple(size)
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if not impl.nnz:
        return sparse_resize_and_clear_(self, shape, sparse_dim, dense_dim)
    for kind, old, wanted in (("sparse", impl.sparse_dim, sparse_dim), ("dense", impl.dense_dim, dense_dim)):
        if old != wanted:
            raise RuntimeError(
                f"changing the number of {kind} dimensions (from {old} to {wanted}) on a non-empty sparse tensor is not supported."
            )
    if any(new < old for old, new in zip(impl.shape, shape, strict=True)):
        first, second = list(impl.shape), list(shape)
        raise RuntimeError(
            f"shrinking the size of sparse dimensions (from {first} to {second}) on a non-empty sparse tensor is not supported."
        )
    room = [(0, 0), *((0, new - old) for old, new in zip(impl.shape[sparse_dim:], shape[sparse_dim:], strict=True))]
    self._array = type(impl)(
        impl.indices, np.pad(impl.values, room) if dense_dim else impl.values, shape, impl.coalesced
    )
    return self


def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Another size, and no values."""
    impl, shape = _sparse(self, "sparse_resize_and_clear_"), tuple(size)
    values = np.zeros((0, *shape[sparse_dim:]), impl.dtype)
    self._array = type(impl)(np.zeros((sparse_dim, 0), np.int64), values, shape, True)
    return self


def resize_as_sparse_(self: Any, the_template: Any) -> Any:
    """The size of another sparse tensor."""
    other = _sparse(the_template, "resize_as_sparse_")
    return sparse_resize_(self, other.shape, other.sparse_dim, other.dense_dim)


@dispatcher.sparse_row("_to_device")
def _sparse_to_device(self: Array, target: device, source: device, non_blocking: bool = False) -> Array:
    if target.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    library_of(target)  # says if there is no such device
    raise NotImplementedError(f"sparse tensors are on the CPU: there are no kernels for {target.type} devices")


def type_as(self: Any, other: Any) -> Any:
    """This tensor in the dtype and on the device of another, whose layout it must have."""
    if self.is_sparse != _tensor("type_as", other).is_sparse:
        raise RuntimeError(
            "to(options) doesn't support converting to a different layout: to_dense() and to_sparse() do, "
            f"and self.layout is {self.layout}, options.layout {other.layout}"
        )
    return to(self, other)


METHODS.update(
    {
        "type_as": type_as,
        "to_dense": to_dense,
        "to_sparse": to_sparse,
        "to_sparse_coo": lambda self: to_sparse(self),
        "coalesce": coalesce,
        "is_coalesced": is_coalesced,
        "_coalesced_": _coalesced_,
        "sparse_resize_": sparse_resize_,
        "sparse_resize_and_clear_": sparse_resize_and_clear_,
        "resize_as_sparse_": resize_as_sparse_,
        "_indices": lambda self: wrap(_sparse(self, "_indices").indices),
        "_values": lambda self: wrap(_sparse(self, "_values").values),
        "_nnz": lambda self: _sparse(self, "_nnz").nnz,
        "sparse_dim": lambda self: self._array.sparse_dim if self.is_sparse else 0,
        "dense_dim": lambda self: self._array.dense_dim if self.is_sparse else self._array.ndim,
    }
)
