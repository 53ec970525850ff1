# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Number
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.functorch.dynamic_layer import drawn, made_beside, made_like
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.map_allocator import map_file
from readtorch.aten.native.type_properties import number_type
from readtorch.aten.tensor_iterator import check_real, fitting, shapes
from readtorch.aten.wrap_dim_utils import sizes, together
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core import scalar_type
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.contiguity import channels_innermost, dense_strides, strides_of_copy
from readtorch.c10.core.default_dtype import get_default_complex_dtype, get_default_dtype
from readtorch.c10.core.device import current_default_device
from readtorch.c10.core.device_guard import device_guard, on_host
from readtorch.c10.core.dispatch_key import device_of, geometry, meta_array, meta_like, without_values
from readtorch.c10.core.layout import EMPTY_OF, LAYOUT_OF, strided
from readtorch.c10.core.scalar_type import dtype, from_numpy_dtype, not_implemented, to_numpy_dtype, to_string
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.autograd.python_torch_functions import module
from readtorch.csrc.utils.gates import gates
from readtorch.csrc.utils.python_arg_parser import checked, is_float, is_number, require, type_name
from readtorch.csrc.utils.tensor_new import as_tensor, finish, finish_on, from_numpy, library_of, target_device, tensor


def _new(
    make: Any, shape: tuple[int, ...], kind: np.dtype, device: Any, requires_grad: bool, strides: Any = None
) -> Any:  # fmt: skip
    """A tensor of `make(numpy, shape, kind)`, made on the device itself; on the meta device nothing is made, and `strides` are told."""
    for size in shape:
        if size < 0:
            if make is _zeros:
                raise RuntimeError("zeros: Dimension size must be non-negative.")
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(shape)}")
    target = target_device(device)
    if target.type == "meta":
        return finish_on(target, meta_array(shape, kind, strides), requires_grad)
    numpy, guard = library_of(target)
    with guard:
        try:
            made = make(numpy, shape, kind)
        except (MemoryError, ValueError) as error:
            _refuse_size(shape, kind, error)
            raise
        return finish_on(target, made, requires_grad)


def _zeros(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
    return numpy.zeros(shape, kind)


def _refuse_size(shape: tuple[int, ...], kind: np.dtype, error: Exception) -> None:
    """RuntimeError if that is more than the address space, or than there is."""
    for position, size in enumerate(shape, 1):
        if size >= 1 << 63:
            raise TypeError(
                f"argument 'size' failed to unpack the object at pos {position}: Overflow when unpacking long long"
            )
    wanted = math.prod(shape) * kind.itemsize
    if wanted >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}") from error
    if isinstance(error, MemoryError):
        raise RuntimeError(
            f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {wanted} bytes"
        ) from error


def zeros(
    *size: Any,
    out: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Any:
    """Filled with 0."""
    if layout is not None and layout is not strided:
        return _without_elements(layout, sizes(size, "size", named), _kind(dtype), device, requires_grad)
    return _new(
        _zeros,
        sizes(size, "size", named),
        _kind(dtype),
        device,
        requires_grad,
    )


def ones(
    *size: Any,
    out: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Any:
    """Filled with 1."""
    _only_strided(layout)
    return _new(
        lambda numpy, shape, kind: numpy.ones(shape, kind),
        sizes(size, "size", named),
        _kind(dtype),
        device,
        requires_grad,
    )


def empty(
    *size: Any, out: Any = None, dtype: dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: Any = None, **named: Any,
) -> Any:  # fmt: skip
    """Uninitialised memory."""
    if layout is not None and layout is not strided:
        return _without_elements(layout, sizes(size, "size", named), _kind(dtype), device, requires_grad)
    shape = sizes(size, "size", named)
    strides = _strides_in(memory_format, shape) if _is_meta(device) else None
    return _new(_empty_in(memory_format), shape, _kind(dtype), device, requires_grad, strides)


def _empty_in(memory_format: Any) -> Any:
    if memory_format is formats.preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    if memory_format not in (formats.channels_last, formats.channels_last_3d):
        return lambda numpy, shape, kind: numpy.empty(shape, kind)

    def make(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
        rank = len(shape)
        needed, name = (4, "channels_last") if memory_format is formats.channels_last else (5, "channels_last_3d")
        if rank != needed:
            raise RuntimeError(f"required rank {needed} tensor to use {name} format")
        return numpy.empty((shape[0], *shape[2:], shape[1]), kind).transpose((0, rank - 1, *range(1, rank - 1)))

    return make


def _strides_in(memory_format: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    channels_last = memory_format in (formats.channels_last, formats.channels_last_3d)
    return dense_strides(shape, channels_innermost(len(shape))) if channels_last else None


def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Filled with `fill_value`, whose type decides the dtype unless one is given."""
    _only_strided(layout)
    if not is_number(fill_value):
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type(fill_value).__name__}")
    if isinstance(fill_value, TensorImpl):
        dtype = from_numpy_dtype(fill_value._array.dtype) if dtype is None else dtype
        fill_value = fill_value._array.item()
    kind = to_numpy_dtype(number_type(fill_value) if dtype is None else dtype)
    number = fitting(fill_value, kind)
    if isinstance(number, np.ndarray):
        number = float(fill_value.real) if kind.kind == "V" else number.item()
    return _new(
        lambda numpy, shape, kind: numpy.full(shape, number, kind),
        together(size),
        kind,
        device,
        requires_grad,
    )


def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Uninitialised memory seen through the given strides."""
    kind = _kind(dtype)
    shape, steps = together(size), together(stride, "stride")
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        )
    count = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) if all(shape) else 0
    strides = tuple(step * kind.itemsize for step in steps)

    def make(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
        return numpy.lib.stride_tricks.as_strided(numpy.empty(count, kind), shape, strides)

    return _new(make, shape, kind, device, requires_grad, strides=steps)


def _like(make: Any) -> Any:
    """`zeros_like` and its family: shape, dtype, device and memory order of another tensor."""

    def like(
        input: Array, *, dtype: dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
        memory_format: Any = formats.preserve_format, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        array = input._array
        if state.layers or is_wrapped(array):
            options = {"dtype": dtype, "device": device, "requires_grad": requires_grad, "memory_format": memory_format}
            return made_like(like, input, options)
        kind = array.dtype if dtype is None else to_numpy_dtype(dtype)
        target = device_of(array) if device is None else device
        if layout is not None or array.__class__ in LAYOUT_OF:
            return _like_in(make, layout, array, kind, target, requires_grad)
        if _is_meta(target):
            keep = memory_format is formats.preserve_format
            strides = strides_of_copy(*geometry(array)) if keep else _strides_in(memory_format, array.shape)
            return finish(meta_array(array.shape, kind, strides), "meta", requires_grad)
        if memory_format is not formats.preserve_format:
            return _new(
                lambda numpy, shape, kind: make(_empty_in(memory_format)(numpy, shape, kind), kind),
                array.shape,
                kind,
                target,
                requires_grad,
            )
        if target_device(target) != device_of(array):
            return _new(
                lambda numpy, shape, kind: make(numpy.empty(shape, kind), kind),
                array.shape,
                kind,
                target,
                requires_grad,
            )
        plain = {"subok": False} if isinstance(array, np.ndarray) else {}
        with device_guard(array):
            return finish(make(array, kind, "C" if 0 in array.strides else "K", **plain), target, requires_grad)

    return like


zeros_like = _like(np.zeros_like)
ones_like = _like(np.ones_like)
empty_like = _like(np.empty_like)


def full_like(
    input: Array, fill_value: Number, *, dtype: dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = formats.preserve_format, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Filled with `fill_value`, otherwise like `input`."""
    result = empty_like(
        input, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad, memory_format=memory_format
    )
    if isinstance(fill_value, TensorImpl):
        fill_value = on_host(fill_value._array)
    dispatcher.operators["_fill_scalar_"].call(result.detach(), fill_value)
    return result


dispatcher.cpu.zeros_like = dispatcher.cuda.zeros_like = np.zeros_like
dispatcher.cpu.ones_like = dispatcher.cuda.ones_like = np.ones_like
dispatcher.meta.zeros_like = dispatcher.meta.ones_like = meta_like
dispatcher.autograd.zeros_like = zeros_like
dispatcher.autograd.ones_like = ones_like


_WIDEST = np.dtype(np.float64)


def _end_point(op: str, name: str, value: Any) -> Any:
    """A number, or the one in a 0-d tensor. RuntimeError for other tensors, TypeError for the rest."""
    if isinstance(value, TensorImpl):
        if value._array.ndim:
            raise RuntimeError(
                f"{op}: a tensor as {name} must be 0-dimensional, and has {value._array.ndim} dimension(s)"
            )
        value = value._array.item()
    require(op, "Number", **{name: value})
    return value


def arange(
    start: Number = UNSAID, end: Number = UNSAID, step: Number = UNSAID, *, out: Any = None, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """`start`, `start + step`, … below `end`. Integers give int64, a float among them the default dtype."""
    if start is None or end is None:
        if step is not None or (start is None and end is None):
            raise TypeError('arange() missing 1 required positional arguments: "end"')
        start, end = 0, start if end is None else end
    if step is None:
        step = 1
    start, end, step = (value.item() if isinstance(value, TensorImpl) else value for value in (start, end, step))
    for value in (start, end, step):
        check_real(value, _WIDEST)
    whole = all(isinstance(value, int) or hasattr(value, "__index__") for value in (start, end, step))
    kind = np.dtype(np.int64) if dtype is None and whole else _kind(dtype)
    if kind.kind in "bc":
        raise not_implemented("arange_cpu", kind)
    first, _, by = (_in_steps_of(kind, value) for value in (start, end, step))
    if not (by > 0 or by < 0):
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if kind == np.int64:  # alone among the dtypes: counted after the fractions have been cut off
        start, end = int(start), int(end)
    count = math.ceil((end - start) / step)
    compute = np.dtype(np.int64 if kind.kind in "iu" else np.float64)

    def make(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
        if numpy is np and kind.kind in "fV":
            return _in_lanes(count, first, by, kind)
        return (numpy.arange(count, dtype=compute) * by + first).astype(kind)

    return _new(make, (count,), kind, device, requires_grad)


def _fused(kind: np.dtype) -> tuple[Any, Any]:
    """The type in which upstream counts elements of `kind`, and one so wide that a product and a sum in it round once."""
    return (
        (np.float32, np.float64)
        if kind.itemsize == 2
        else (np.float64, np.longdouble if kind.itemsize == 8 else np.float64)
    )


def _in_lanes(count: int, first: float, by: float, kind: np.dtype) -> Any:
    compute, wide = _fused(kind)
    lanes = 32 // kind.itemsize
    start, step = wide(compute(first)), wide(compute(by))

    def counted(places: Any, origin: Any) -> Any:
        return (step * places + origin).astype(compute).astype(kind)

    whole = count - count % (2 * lanes)
    bases = counted(np.arange(0, whole, lanes).astype(wide), start)
    vectors = counted(np.arange(lanes).astype(wide), bases[:, None].astype(wide))
    return np.concatenate([vectors.reshape(-1), counted(np.arange(whole, count).astype(wide), start)])


def _from_both_ends(start: float, end: float, steps: int, kind: np.dtype) -> Any:
    """Each half is counted from its own end."""
    begin, last = kind.type(start), kind.type(end)
    index = np.arange(steps)
    places = np.where(index < steps // 2, index, index - (steps - 1))
    origin = np.where(index < steps // 2, begin, last)
    if kind.itemsize == 2:  # these have no fused instruction: each step rounds
        step = kind.type((np.float32(last) - np.float32(begin)) / np.float32(steps - 1))
        return (origin + (step * places.astype(kind)).astype(kind)).astype(kind)
    _, wide = _fused(kind)
    step = (last - begin) / kind.type(steps - 1)
    return (wide(step) * places.astype(wide) + origin.astype(wide)).astype(kind)


def _in_steps_of(kind: np.dtype, value: Any) -> Any:
    """A bound as the kernels for `kind` compute with it. RuntimeError where it does not fit."""
    if kind.kind not in "iu" or (value.__class__ is int and -(1 << 63) <= value < 1 << 63):
        return value
    return int(fitting(value, _INDEX))


_INDEX = np.dtype(np.int64)


def linspace(
    start: Array | Number, end: Array | Number, steps: int, *, out: Any = None, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """`steps` values from `start` to `end`, both included. Each half is counted from its own end, as upstream does."""
    start, end, kind = _evenly("linspace", start, end, steps, dtype)
    work = kind if kind.kind in "fc" and kind.itemsize >= 4 else np.dtype(np.float64)

    def make(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
        if steps == 1:
            return numpy.full(1, start, kind)
        if steps and kind.kind == "b":
            raise not_implemented("linspace_cpu", kind)
        if numpy is np and kind.kind in "fV" and steps:
            return _from_both_ends(start, end, steps, kind)
        step = work.type((end - start) / (steps - 1)) if steps else work.type(0)
        index = numpy.arange(steps).astype(work)
        lower = work.type(start) + step * index
        upper = work.type(end) - step * (work.type(steps - 1) - index)
        return numpy.where(numpy.arange(steps) < steps // 2, lower, upper).astype(kind)

    return _new(make, (steps,), kind, device, requires_grad)


def _evenly(op: str, start: Any, end: Any, steps: Any, dtype: Any) -> tuple[Any, Any, np.dtype]:
    """The ends of `linspace` and `logspace` as numbers of the dtype of the result, and that dtype."""
    start, end = _end_point(op, "start", start), _end_point(op, "end", end)
    require(op, "int", steps=steps)
    kind = _kind(dtype)
    if (isinstance(start, complex) or isinstance(end, complex)) and kind.kind != "c":
        if dtype is not None:
            wanted, given = (to_string(one) for one in (get_default_complex_dtype(), dtype))
            raise RuntimeError(f"{op}(): inferred dtype {wanted} can't be safely cast to passed dtype {given}")
        kind = to_numpy_dtype(get_default_complex_dtype())
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if kind.kind in "iu":
        start, end = (int(fitting(value, kind)) for value in (start, end))
    return start, end, kind


def logspace(
    start: Array | Number,
    end: Array | Number,
    steps: int,
    base: float = 10.0,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    """`base` to the powers of `linspace(start, end, steps)`, whose ends are cut to integers for an integral dtype."""
    start, end, kind = _evenly("logspace", start, end, steps, dtype)
    require("logspace", "float", base=base)

    def make(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
        if steps > 1 and kind.kind == "b":
            raise not_implemented("logspace_cpu", kind)
        with np.errstate(all="ignore"):
            powers = np.asarray(base, np.complex128 if kind.kind == "c" else np.float64) ** np.linspace(
                start, end, steps
            )
            return numpy.asarray(powers.astype(kind))

    return _new(make, (steps,), kind, device, requires_grad)


def eye(
    n: int,
    m: int = UNSAID,
    *,
    out: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Ones on the diagonal of an `n × m` matrix of zeros."""
    for name, size in (("n", n), ("m", n if m is None else m)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return _new(
        lambda numpy, shape, kind: numpy.eye(*shape, dtype=kind),
        (n, n if m is None else m),
        _kind(dtype),
        device,
        requires_grad,
    )


def scalar_tensor(
    s: Number,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A 0-d tensor of the default dtype."""
    require("scalar_tensor", "Number", s=s)
    check_real(s, _kind(dtype))
    return _new(lambda numpy, shape, kind: numpy.full(shape, s, kind), (), _kind(dtype), device, requires_grad)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A 1-d tensor that shares the memory of an object with the buffer protocol."""
    kind = to_numpy_dtype(dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("could not retrieve buffer from object") from None
    if view.readonly:
        warn_once(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors: a write to the tensor would "
            "be one to the buffer. Copy the buffer, or make it writable, before converting it to a tensor.",
            stacklevel=3,
        )
    length, size = view.nbytes, kind.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"buffer length ({length} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
        )
    if count > 0 and offset + count * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than actual "
            f"buffer length ({length} bytes)"
        )
    return finish(np.frombuffer(buffer, dtype=kind, count=count, offset=offset), "cpu", requires_grad)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Any:
    """`obj` as a tensor: `copy` True never shares its memory, False always does (ValueError where that cannot be), None if it can."""
    made = as_tensor(obj, dtype, device)
    held = obj._array if isinstance(obj, TensorImpl) else obj
    shared = held is made._array or (isinstance(held, np.ndarray) and np.may_share_memory(held, made._array))
    if copy and shared:
        made = dispatcher.autograd.clone(made)
    elif copy is False and not shared:
        raise ValueError(f"can't alias {type(obj).__name__} into a tensor of this dtype on this device: copy=False")
    if not requires_grad and made._edge is not None:
        made = made.detach()
    return made.requires_grad_() if requires_grad else made


class _Capsule:
    """A capsule as NumPy wants it: behind the method that gave it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor that shares the memory of an object with `__dlpack__`, of whatever library, or of the capsule that it gave."""
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = _Capsule(ext_tensor)
    elif not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once."
        )
    return from_numpy(np.from_dlpack(ext_tensor))


def _new_method(function: Any) -> Any:
    """`x.new_zeros(2, 3)`: the creation function with the tensor's dtype and device as defaults."""

    def new(
        self: Array,
        *size: Any,
        dtype: dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
        **named: Any,
    ) -> Any:
        kind = from_numpy_dtype(self._array.dtype) if dtype is None else dtype
        where = device_of(self._array) if device is None else device
        if is_one_of_many(self):
            return made_beside(
                self, lambda shape: function(shape, dtype=kind, device=where), sizes(size, "size", named)
            )
        if layout is not None or self._array.__class__ in LAYOUT_OF:
            named["layout"] = _layout_beside(self, layout, function)
        return function(*size, dtype=kind, device=where, requires_grad=requires_grad, **named)

    return new


def _new_full(
    self: Array,
    size: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    kind = from_numpy_dtype(self._array.dtype) if dtype is None else dtype
    if is_one_of_many(self):
        return made_beside(self, lambda shape: full(shape, fill_value, dtype=kind), sizes((size,)))
    return full(
        size,
        fill_value,
        dtype=kind,
        device=device_of(self._array) if device is None else device,
        requires_grad=requires_grad,
    )


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype an operation on these two, tensors or numbers, is computed in."""
    from readtorch.aten.native import type_properties

    require("result_type", "Array | Number", tensor1=tensor1, tensor2=tensor2)
    return type_properties.result_type(
        [value._array if isinstance(value, TensorImpl) else value for value in (tensor1, tensor2)]
    )


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that holds the values of both."""
    return scalar_type.promote_types(
        scalar_type.as_dtype(type1, "promote_types", "type1", 1),
        scalar_type.as_dtype(type2, "promote_types", "type2", 2),
    )


def can_cast(from_: dtype, to: dtype) -> Any:
    """May a result of one dtype be written to a tensor of another?"""
    return scalar_type.can_cast(
        scalar_type.as_dtype(from_, "can_cast", "from_", 1), scalar_type.as_dtype(to, "can_cast", "to", 2)
    )


def range_(
    start: Number, end: Number, step: Number = 1, *, out: Any = None, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Deprecated: `arange` with its end included, of the default dtype."""
    warnings.warn(
        "torch.range is deprecated, since unlike Python's range it includes its end. torch.arange stops before it.",
        stacklevel=3,
    )
    start, end, step = (value._array.item() if isinstance(value, TensorImpl) else value for value in (start, end, step))
    require("range", "Number", start=start, end=end, step=step)
    kind = _kind(dtype)
    for value in (start, end, step):
        check_real(value, _WIDEST)
    if kind.kind in "bc":
        raise not_implemented("range_cpu", kind)
    start, end, step = (_in_steps_of(kind, value) for value in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    return _new(
        lambda numpy, shape, kind: (numpy.arange(count) * step + start).astype(kind),
        (count,),
        kind,
        device,
        requires_grad,
    )


range_.__name__ = "range"


def detach(input: Array) -> Any:
    """The same memory as a tensor without history."""
    return input.detach()


def conj(input: Array) -> Any:
    """The complex conjugate."""
    if not isinstance(input, TensorImpl):
        raise TypeError(f"conj(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return dispatcher.autograd.conj(input)


def from_file(
    filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A 1-d tensor of `size` elements in a file's memory; `shared`: writes reach the file, which grows if need be."""
    kind, count = _kind(dtype), size or 0
    array = map_file(filename, bool(shared), count * kind.itemsize).view(kind)
    return finish(array, device, requires_grad)


further: list[Callable[[], None]] = []
"""What later chapters have to offer besides."""

FUNCTIONS = (
    zeros, ones, empty, full, empty_strided, full_like, arange, linspace, logspace, eye, scalar_tensor, frombuffer, from_dlpack, tensor, as_tensor,
    from_numpy, result_type, promote_types, can_cast, range_, detach, conj, from_file,
)  # fmt: skip


def init() -> None:
    """Offer these functions, and the `new_*` methods."""
    namespace = module("")
    for function in FUNCTIONS:
        gates.attach(namespace, function.__name__, checked(function))
    for name, function in (("zeros_like", zeros_like), ("ones_like", ones_like), ("empty_like", empty_like)):
        function.__name__ = name
        gates.attach(namespace, name, checked(function))
    gates.attach(namespace, "asarray", asarray)
    for name, function in (("new_zeros", zeros), ("new_ones", ones), ("new_empty", empty)):
        method = _new_method(function)
        method.__name__ = name
        gates.attach(TensorImpl, name, checked(method))
    _new_full.__name__ = "new_full"
    gates.attach(TensorImpl, "new_full", checked(_new_full))
    for offer in further:
        offer()


def _kind(dtype: Any) -> np.dtype:
    return to_numpy_dtype(get_default_dtype() if dtype is None else dtype)


def _is_meta(device: Any) -> bool:
    if device is None:
        return current_default_device().type == "meta"
    return str(device) == "meta"


def _without_elements(layout: Any, shape: tuple[int, ...], kind: np.dtype, device: Any, requires_grad: bool) -> Any:
    """A tensor of a layout that stores what is not zero: it stores nothing."""
    if layout not in EMPTY_OF:
        raise NotImplementedError(f"layout {layout!r} is not here: torch.strided and torch.sparse_coo are")
    return finish(EMPTY_OF[layout](shape, kind), device, requires_grad)


def _only_strided(layout: Any) -> None:
    """RuntimeError for a layout that has no room for other elements than 0."""
    if layout is not None and layout is not strided:
        raise RuntimeError("full(...) is not implemented for sparse layout")


def _like_in(make: Any, layout: Any, array: Any, kind: np.dtype, target: Any, requires_grad: bool) -> Any:
    """`zeros_like` and its family in a layout that is given, or that of a tensor that is not strided."""
    layout = LAYOUT_OF.get(array.__class__, strided) if layout is None else layout
    if layout is strided:
        return _new(
            lambda numpy, shape, kind: make(numpy.empty(shape, kind), kind), array.shape, kind, target, requires_grad
        )
    if make is np.ones_like:
        raise NotImplementedError("Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend.")
    return _without_elements(layout, array.shape, kind, target, requires_grad)


def _layout_beside(self: Any, layout: Any, function: Any) -> Any:
    """The layout of what `self.new_zeros()` and its family make."""
    if layout is None and function is ones:
        raise NotImplementedError("Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend.")
    return LAYOUT_OF.get(self._array.__class__) if layout is None else layout


def _column(numpy: Any, name: str) -> Any:
    """The raw kernel of an operator for the arrays of this library."""
    return getattr(dispatcher.cpu if numpy is np else dispatcher.cuda, name)


def _random(name: str) -> Any:
    def make(
        *size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        shape = sizes(size)
        if state.layers:
            options = {"dtype": dtype, "device": device, "requires_grad": requires_grad, "generator": generator}
            return drawn(lambda shape: make(*shape, **options) if shape else make((), **options), shape)
        return _new(
            lambda numpy, shape, kind: _column(numpy, name)(numpy.empty(shape, kind), generator=generator),
            shape,
            _kind(dtype),
            device,
            requires_grad,
        )

    return make


rand = _random("uniform_")
randn = _random("normal_")


def randint(
    *args: Any, low: int | None = None, high: int | None = None, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Integers from [low, high), or [0, high): `randint(high, size)`, `randint(low, high, size)`."""
    rest = list(args)
    if len(rest) > 3:
        raise TypeError(f"randint() takes from 2 to 3 positional arguments but {len(rest)} were given")
    if size is None and rest:
        size = rest.pop()
    if rest and high is None:
        high = rest.pop()
    if rest and low is None:
        low = rest.pop()
        require("randint", "int", low=low)
    low = 0 if low is None else low
    require("randint", "int", low=low, high=high)
    if not isinstance(size, list | tuple | TensorImpl):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    bounds: list[Any] = [low, high]
    low, high = (bound.__index__() for bound in bounds)
    if high >= 1 << 63 or low < -(1 << 63):
        raise ValueError("randint(): Overflow when unpacking long long")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to': [{low}, {high}) is empty")
    if state.layers:
        options = {"generator": generator, "dtype": dtype, "device": device, "requires_grad": requires_grad}
        return drawn(lambda shape: randint(low, high, shape, **options), sizes((size,)))
    kind = np.dtype(np.int64) if dtype is None else to_numpy_dtype(dtype)
    return _new(
        lambda numpy, shape, kind: _column(numpy, "random_")(numpy.empty(shape, kind), low, high, generator=generator),
        sizes((size,)),
        kind,
        device,
        requires_grad,
    )


def randperm(
    n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The numbers below `n` in random order."""
    require("randperm", "int", n=n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if state.layers:

        def permutations(shape: tuple[int, ...]) -> Any:
            if len(shape) > 1:
                return dispatcher.autograd.stack([permutations(shape[1:]) for _ in range(shape[0])], 0)
            return randperm(n, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad)

        return drawn(permutations, (n,))
    kind = np.dtype(np.int64) if dtype is None else to_numpy_dtype(dtype)

    def make(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
        from readtorch.aten.native.distributions import above_all

        if kind.kind in "bc":
            raise not_implemented("randperm", kind)
        if kind.itemsize == 2 and kind.kind in "fV" and n > above_all(kind):
            raise RuntimeError(f"n cannot be greater than {above_all(kind)} for {to_string(kind)} type.")
        if kind.kind in "iu":
            fitting(n, kind)
        order = _column(numpy, "_randperm")(n, generator=generator)
        return order if order.dtype == kind else order.astype(kind)

    return _new(make, (n,), kind, device, requires_grad)


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Normal numbers with the means and deviations of tensors, or of two numbers and a size."""
    if size is not None:
        mean, std = (v.item() if isinstance(v, TensorImpl) and not v._array.ndim else v for v in (mean, std))
    for name, value in (("mean", mean), ("std", std)):
        if not is_float(value) and (size is not None or not isinstance(value, TensorImpl)):
            raise TypeError(f"normal(): argument '{name}' must be float, not {type(value).__name__}")
    if size is None and (dtype is not None or layout is not None or device is not None):
        raise TypeError("normal() takes dtype, layout and device together with a size alone")
    if isinstance(std, TensorImpl) and std._array.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if isinstance(std, TensorImpl):
        if (
            std._array.size
            and not without_values(std)
            and not is_one_of_many(std)
            and not (on_host(std._array) >= 0).all()
        ):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if size is not None:
        return randn(together(size), generator=generator, dtype=dtype, device=device) * std + mean
    shape = shapes("normal", [value._array for value in (mean, std) if isinstance(value, TensorImpl)])
    if not any(isinstance(value, TensorImpl) for value in (mean, std)):
        raise TypeError('normal() missing 1 required positional arguments: "size"')
    like = next(value for value in (mean, std) if isinstance(value, TensorImpl))
    kind = from_numpy_dtype(like._array.dtype)
    drawn = randn(shape, generator=generator, dtype=kind, device=device_of(like._array)) * std + mean
    return drawn if drawn._array.dtype == like._array.dtype else dispatcher.autograd._to_copy(drawn, kind)


def _bound(value: Any) -> Any:
    """A bound of `randint_like`: an int, or what a tensor of no dimensions holds of one."""
    if not isinstance(value, TensorImpl):
        return value
    if value._array.ndim:
        raise RuntimeError("high must be a scalar tensor and on CPU")
    return int(value.item())


def _random_like(function: Any) -> Any:
    def like(
        input: Array, *, generator: Any = None, dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        array = input._array
        strided = array.__class__ is np.ndarray and not array.flags.c_contiguous and 0 not in array.strides
        if strided and memory_format in (None, formats.preserve_format) and device in (None, "cpu"):
            result = finish(np.empty_like(array, array.dtype if dtype is None else to_numpy_dtype(dtype), order="K"))
            fill = dispatcher.autograd.normal_ if function is randn else dispatcher.autograd.uniform_
            return fill(result, generator=generator).requires_grad_(requires_grad)
        return _drawn_like(input, (), function, generator, dtype, device, requires_grad, memory_format)

    return like


def randint_like(
    input: Array, *args: Any, low: Any = UNSAID, high: Any = UNSAID, generator: Any = None, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Integers from [low, high), or [0, high), in the shape and dtype of `input`."""
    bounds = [*args, *(value for value in (low, high) if value is not None)]
    if not 1 <= len(bounds) <= 2 or (low is not None and len(bounds) == 1):
        raise TypeError('randint_like() missing 1 required positional arguments: "high"')
    bounds = [_bound(value) for value in bounds]
    for value in bounds:
        require("randint_like", "int", high=value)
    return _drawn_like(input, tuple(bounds), randint, generator, dtype, device, requires_grad, memory_format)


def _drawn_like(
    input: Any, bounds: tuple, function: Any, generator: Any, dtype: Any, device: Any, requires_grad: bool, memory_format: Any
) -> Any:  # fmt: skip
    array = input._array
    kind = from_numpy_dtype(array.dtype) if dtype is None else dtype
    where = device_of(array) if device is None else device
    if str(where) == "meta":
        return empty_like(input, dtype=kind, device=where, requires_grad=requires_grad)
    if memory_format in (formats.channels_last, formats.channels_last_3d):
        _empty_in(memory_format)(np, array.shape, np.dtype(np.bool_))  # says if there are not as many dimensions
    return function(*bounds, array.shape, dtype=kind, device=where, requires_grad=requires_grad, generator=generator)


def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Fill with 0 and 1; `p`, a number or a tensor, is the probability of 1."""
    name = "_bernoulli_tensor_" if isinstance(p, TensorImpl) else "_bernoulli_scalar_"
    return dispatcher.operators[name].call(self, p, generator=generator)


def init_random() -> None:
    """Offer the random functions."""
    namespace = module("")
    for name, function in {
        "rand": rand, "randn": randn, "randint": randint, "randperm": randperm, "normal": normal, "rand_like": _random_like(rand),
        "randn_like": _random_like(randn), "randint_like": randint_like,
    }.items():  # fmt: skip
        if hasattr(function, "__code__"):
            function.__name__ = name
        gates.attach(namespace, name, checked(function))
    gates.attach(TensorImpl, "bernoulli_", bernoulli_)
    gates.attach(TensorImpl, "bernoulli", dispatcher.autograd.bernoulli)
    _rename_from("uniform_")
    _rename_from("random_")


def _rename_from(name: str) -> None:
    """`from` is no name in Python: as a keyword it arrives here."""
    from readtorch.aten.native.distributions import above_all

    method = getattr(TensorImpl, name)

    def renamed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "from" in kwargs:
            kwargs["from_"] = kwargs.pop("from")
        given = (*args, *(kwargs[key] for key in ("from_", "to") if key in kwargs))
        if name == "random_" and len(given) == 2 and given[1] is None:
            return method(self, given[0], above_all(self._array.dtype), generator=kwargs.get("generator"))
        if name == "random_" and len(given) == 2 and given[0] is None:
            raise TypeError("random_(): argument 'from' (position 1) must be int, not NoneType")
        return method(self, *args, **kwargs)

    renamed.__name__ = name
    gates.attach(TensorImpl, name, renamed)


further.append(init_random)


def _needs_tensor(op: str, input: Any) -> None:
    if not isinstance(input, TensorImpl):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type_name(input)}")


def _copying(name: str) -> Any:
    def copy(input: Any, *args: Any, **named: Any) -> Any:
        _needs_tensor(f"{name}_copy", input)
        if name == "alias" and (args or named):
            raise TypeError("alias_copy() takes 1 positional argument and no keywords")
        found = input if name == "alias" else getattr(input, name)(*args, **named)
        return tuple(part.clone() for part in found) if isinstance(found, tuple) else found.clone()

    copy.__doc__ = f"A copy of what `{name}` looks at."
    return copy


def _slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """A copy of a slice of one dimension."""
    _needs_tensor("slice_copy", input)
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)].clone()


def _method(name: str) -> Any:
    def function(input: Any, *args: Any, **named: Any) -> Any:
        _needs_tensor(name, input)
        return getattr(input, name)(*args, **named)

    function.__doc__ = f"`input.{name}(…)`."
    return function


def arctan2(input: Array, other: Array) -> Any:
    """The angle of the point (other, input): `atan2`."""
    return dispatcher.autograd.atan2(input, other)


def lu_solve(b: Array, LU_data: Array, LU_pivots: Array) -> Any:
    """X of A X = b, where `torch.linalg.lu_factor` has factored A. Deprecated, for its order of arguments."""
    warn_once("torch.lu_solve is deprecated in favor of torch.linalg.lu_solve(LU, pivots, B)")
    return dispatcher.autograd.linalg_lu_solve(LU_data, LU_pivots, b)


def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Uninitialised, without gaps, its dimensions from the outermost in memory to the innermost as `physical_layout` has them."""
    shape, order = together(size), together(physical_layout, "physical_layout")
    if len(order) != len(shape):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {len(shape)} "
            f"is not equal to len(physical_layout) = {len(order)}"
        )
    if any(not 0 <= place < len(shape) for place in order):
        raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {order})")
    if len(set(order)) < len(order):
        raise RuntimeError("Duplicate dim not allowed")
    steps, step = [0] * len(shape), 1
    for place in reversed(order):
        steps[place], step = step, step * shape[place]
    return empty_strided(shape, tuple(steps), dtype=dtype, device=device, requires_grad=requires_grad)


def _new_empty_strided(
    self: Any, size: Any, stride: Any, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    kind = from_numpy_dtype(self._array.dtype) if dtype is None else dtype
    where = device_of(self._array) if device is None else device
    return empty_strided(size, stride, dtype=kind, device=where, requires_grad=requires_grad)


def init_seldom() -> None:
    """Offer the functions of the part on names that are seldom called."""
    namespace = module("")
    for function in (arctan2, lu_solve, empty_permuted):
        gates.attach(namespace, function.__name__, checked(function))
    for name in (
        *("alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "split", "split_with_sizes"),
        *("squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view"),
    ):
        gates.attach(namespace, f"{name}_copy", _copying(name))
    gates.attach(namespace, "slice_copy", _slice_copy)
    for name in ("view_as_complex", "view_as_real"):
        gates.attach(
            namespace, f"{name}_copy", lambda input, name=name: getattr(dispatcher.autograd, name)(input).clone()
        )
    for name in (
        *(
            "get_device",
            "is_conj",
            "is_distributed",
            "is_inference",
            "is_neg",
            "is_same_size",
            "is_signed",
            "dequantize",
        ),
        *("as_strided_", "conj_physical_", "detach_", "fill_", "i0_", "resize_as_"),
    ):
        gates.attach(namespace, name, _method(name))
    gates.attach(TensorImpl, "new_empty_strided", _new_empty_strided)


further.append(init_seldom)


def _filled(
    name: str, shape: Callable[..., Any], window_length: int, periodic: bool, values: tuple[float, ...], dtype: Any, device: Any,
    requires_grad: bool,
) -> Any:  # fmt: skip
    """A window: `shape(x, n, *values)` over the n places. A periodic window of n is that of n + 1 without its last."""
    kind = _kind(dtype)
    if kind.kind not in "fVc":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {scalar_type.to_string(kind)}")
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
    if window_length <= 1:
        return finish(np.ones(window_length, kind), device, requires_grad)
    if kind.kind == "c":
        raise scalar_type.not_implemented("arange_cpu", kind)
    count = window_length + int(periodic)
    work = np.dtype(np.float32) if kind.itemsize == 2 else kind
    values_of = shape(np.arange(count).astype(work), count, *values)
    return finish(values_of[:window_length].astype(kind), device, requires_grad)


def _window(name: str, shape: Callable[..., Any]) -> Callable[..., Any]:
    def window(
        window_length: int, periodic: bool = True, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        return _filled(name, shape, window_length, periodic, (), dtype, device, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"The {name.removesuffix('_window').capitalize()} window."
    return window


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The Hamming window, alpha − beta · cos."""
    return _filled("hamming_window", _hamming, window_length, periodic, (alpha, beta), dtype, device, requires_grad)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The Kaiser window, of quotients of Bessel functions."""
    return _filled("kaiser_window", _kaiser, window_length, periodic, (beta,), dtype, device, requires_grad)


def _hamming(x: np.ndarray, count: int, alpha: float, beta: float) -> np.ndarray:
    kind = x.dtype.type
    return np.cos(x * kind(math.pi * 2 / (count - 1))) * kind(-beta) + kind(alpha)


def _bartlett(x: np.ndarray, count: int) -> np.ndarray:
    x = x * x.dtype.type(2 / (count - 1))
    x[((count - 1) >> 1) + 1 :] = 2 - x[((count - 1) >> 1) + 1 :]
    return x


def _blackman(x: np.ndarray, count: int) -> np.ndarray:
    x = x * x.dtype.type(math.pi / (count - 1))
    return np.cos(x * 4) * x.dtype.type(0.08) - np.cos(x * 2) * x.dtype.type(0.5) + x.dtype.type(0.42)


def _kaiser(x: np.ndarray, count: int, beta: float) -> np.ndarray:
    middle = (count - 1) / 2
    return (
        np.i0(beta * np.sqrt(np.maximum(1 - ((x.astype(np.float64) - middle) / middle) ** 2, 0))) / np.i0(beta)
    ).astype(x.dtype)


def init_windows() -> None:
    """Offer the windows."""
    namespace = module("")
    for function in (
        _window("hann_window", lambda x, count: _hamming(x, count, 0.5, 0.5)),
        hamming_window,
        _window("bartlett_window", _bartlett),
        _window("blackman_window", _blackman),
        kaiser_window,
    ):
        gates.attach(namespace, function.__name__, checked(function))


further.append(init_windows)


def init_sparse() -> None:
    """Offer the constructor of sparse tensors."""
    from readtorch.csrc.utils.tensor_new import sparse_coo_tensor

    gates.attach(module(""), "sparse_coo_tensor", sparse_coo_tensor)


further.append(init_sparse)
