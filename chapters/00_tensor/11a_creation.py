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
# # Creation functions
#
# Why does `torch.arange(1, 1.3, 0.1)` have four elements, and why has `torch.ones(2, requires_grad=True).double()` no
# `.grad`? `torch.ones(2)` says nothing of a dtype, a device, an order in memory. Somebody decides, and not always the
# same somebody. The first section has the rules; the code after it is for looking up.

# %%
import readtorch as torch
from readtorch.literate import live

live()


# %% [markdown]
# ## What do creation functions decide for you?
#
# They share the keywords `dtype`, `device` and `requires_grad`, and the rarely used `layout` and `pin_memory`. What is
# not given is decided by these rules:
#
# * `zeros`, `ones`, `empty`, `rand`: the default dtype and device. `full` and `arange`: the dtype of the numbers, so
#   `full((2,), 1)` is integral. (Before 1.7 it was float.)
# * `*_like`: everything of the model, its order of dimensions in memory included, but *not* `requires_grad`. `x.new_*`:
#   dtype and device only.
# * `requires_grad=True` makes the leaf *before* whatever follows the call: `torch.ones(2, requires_grad=True).double()`
#   is the leaf's child, and gets no `.grad`. Convert first.
# * `arange` with a floating step has `⌈(end − start) / step⌉` elements, computed in double precision, and rounding
#   decides whether the end is included. `linspace` is given the number of elements instead, and counts the second half
#   from the end, so that the last one is exact.

# %%
#| into: csrc/autograd/python_torch_functions_manual.py
#| imports
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Number
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.functorch.dynamic_layer import drawn
from readtorch.aten.functorch.dynamic_layer import made_beside
from readtorch.aten.functorch.dynamic_layer import made_like
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
from readtorch.c10.core.scalar_type import dtype, from_numpy_dtype, not_implemented, to_numpy_dtype, to_string
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd.python_torch_functions import module
from readtorch.csrc.utils.gates import gates
from readtorch.csrc.utils.python_arg_parser import checked, is_float, is_number, require
from readtorch.csrc.utils.tensor_new import as_tensor, finish, finish_on, from_numpy, library_of, target_device, tensor


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
#| upstream: torch/csrc/autograd/python_torch_functions_manual.cpp#torch::autograd::torch_functions_manual
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


# %% [markdown]
# `zeros_like` and its family ask a tensor for everything that is not given. They are also what formulas of derivatives
# call, so they are put into each column of the dispatcher as well.


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
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


# %% [markdown]
# Ranges, and constructors from foreign memory.


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
#| upstream: aten/src/ATen/native/RangeFactories.cpp#at::native::arange_out
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


# %% [markdown]
# Two loops that count, and two answers for the last bit. `linspace` computes each element by itself, `start + i · step`, which the processor rounds once (a fused multiply-add). `arange` fills vectors, of 32 bytes on x86: the first element of each is computed so, and the
# others are counted from it, except for a rest of less than two vectors. An element of an `arange` can therefore depend on how long it is.


# %%
#| needs: a1_operators
#| claim: on x86, element 43 of a range of 44 is in the rest, of 48 in a vector, and its last bit is another
#| upstream: aten/src/ATen/native/RangeFactories.h#at::native::arange_stub
def _(torch):
    import platform

    short, long = torch.arange(0, 0.565, 0.013), torch.arange(0, 0.62, 0.013)
    assert (len(short), len(long)) == (44, 48)
    elsewhere = platform.machine() not in ("x86_64", "AMD64")  # other processors have vectors of other widths
    assert (elsewhere or short[43] != long[43]) and torch.allclose(short, long[:44])
    assert short[43] == torch.tensor(43 * 0.013, dtype=torch.float64).float()


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
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


# %% [markdown]
# `x.new_zeros(2, 3)` takes dtype and device from `x`, so that a module can make a tensor beside its input without asking
# where that is. The last functions of the file answer questions about dtypes, and read memory from a file.


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
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


# %%
torch.arange(1, 1.3, 0.1), torch.linspace(1, 1.3, 4)


# %%
#| needs: a1_operators
#| claim: `arange(1, 1.3, 0.1)` has four elements, the last of them 1.3; the same call in NumPy agrees, and linspace ends exactly where it is told to
#| upstream: aten/src/ATen/native/RangeFactories.cpp#at::native::arange_out
def _(torch):
    import numpy as np

    assert len(torch.arange(1, 1.3, 0.1)) == len(np.arange(1, 1.3, 0.1)) == 4
    assert len(torch.arange(0, 0.3, 0.1)) == 3 and len(torch.arange(0, 3 * 0.1, 0.1)) == 4
    for steps in range(2, 50):
        assert torch.linspace(0, 1, steps)[-1].item() == 1


# %%
#| needs: a1_operators
#| claim: `full` takes its dtype from the number; zeros_like keeps the order in memory and no requires_grad; a leaf is made before what stands behind the call
def _(torch):
    assert torch.full((2,), 1).dtype is torch.int64 and torch.full((2,), True).dtype is torch.bool
    assert torch.zeros_like(torch.ones(2, 3).t()).stride() == (1, 3)
    assert torch.ones(2, 3).t().new_zeros(3, 2).stride() == (2, 1)
    assert not torch.zeros_like(torch.ones(2, requires_grad=True)).requires_grad
    assert not torch.ones(2, requires_grad=True).double().is_leaf
    assert torch.ones(2).double().requires_grad_().is_leaf


# %% [markdown]
# `empty` is what it says. Its content is whatever was there: often zeros in a fresh process and never in a long one,
# which is why a forgotten initialisation passes the tests. Under `torch.use_deterministic_algorithms(True)` upstream
# fills such memory with NaN (`torch.utils.deterministic.fill_uninitialized_memory`), the quickest way to find out.

# %%
#| fact: torch/utils/deterministic.py#_Deterministic.fill_uninitialized_memory
