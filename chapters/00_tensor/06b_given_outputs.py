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
# # `out=`: results written where the caller says
#
# "`torch.add(a, b, out=c)` saves an allocation. What may `c` be?" It depends on the operator more than one would think:
#
# | `out=` is | `add` | `mm` | `cat` |
# |---|---|---|---|
# | of another shape | resized | resized | resized |
# | of a wider dtype | converted | refused | converted |
# | an operand | allowed | wrong result | refused |
# | part of one | refused | wrong result | refused |
#
# A resize warns, unless `out` was empty. *Wrong result* means that there is no error: `mm` overwrites what it has yet to
# read (the claim is below).
#
# The answers follow the kernel that writes, not the mathematics of the operator. Upstream gives them in three places, one
# after another: the parser (is it a tensor, are there as many as results?), the generated Autograd kernel (nothing may be
# recorded), and whatever prepares the kernel's loop (dtype, shape, memory).
#
# Here a result is computed as always and then written to `out`. So one function can ask everything between the two, and
# nothing is written before all has been asked. What is left of the kernels is a table of names: which of them convert on
# the way out, which look for memory that an operand uses too, which resize without a word.

# %%
import warnings

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: csrc/autograd/variable_type_utils.py
#| imports
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.memory_overlap import (
    assert_no_internal_overlap,
    assert_no_overlap,
    assert_no_partial_overlap,
    have_one_owner,
)
from readtorch.c10.core import scalar_type, tensor_impl
from readtorch.c10.core.autograd_state import set_special, state
from readtorch.c10.core.dispatch_key import MetaArray, device_of
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.scalar_type import can_cast, to_string
from readtorch.c10.core.tensor_impl import TensorImpl, is_inference, version_counter
from readtorch.csrc.autograd.variable import check_inplace, requires_grad, tell_leaf
from readtorch.csrc.utils.python_arg_parser import complain
from readtorch.csrc.utils.structseq import StructSequence, structseq


# %% [markdown]
# ## Which dtype may `out=` have?
#
# A loop driven by upstream's `TensorIterator` converts each element to the dtype of `out` where `can_cast` allows it:
# integer to float, float to double. Most other kernels are compiled for one dtype and insist on it. Comparisons write
# truth values, which any dtype can hold. Sums, and functions that make new tensors, do it the other way round: they
# compute in the dtype of `out`.
#
# The sets below are facts about upstream's kernels, operator by operator. They are for looking up.


# %%
#| into: csrc/autograd/variable_type_utils.py
#| upstream: aten/src/ATen/TensorIterator.cpp#at::TensorIteratorBase::compute_types
def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: convert each element on the way out
CONVERTING = _names(
    """acos acosh add addcdiv addcmul addr angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and
    bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor cat cholesky cholesky_inverse cholesky_solve column_stack concat concatenate copysign cos cosh deg2rad
    diff digamma div divide dstack erf erfc erfinv exp exp2 expm1 floor_divide fmax fmin fmod gcd geqrf ger hstack hypot i0 igamma igammac kron lcm lgamma
    linalg_cond linalg_householder_product linalg_lstsq linalg_matrix_rank linalg_pinv linalg_tensorinv linalg_tensorsolve log log10 log1p log2
    logaddexp logaddexp2 logit logsumexp max maximum mean min minimum mul multiply mvlgamma nanmean nextafter normal orgqr outer polygamma pow rad2deg reciprocal
    remainder row_stack rsqrt sigmoid sin sinc sinh special_digamma special_entr special_erf special_erfc special_erfinv special_exp2 special_expit
    special_expm1 special_gammainc special_gammaincc special_gammaln special_i0 special_i1 special_log1p special_logit special_logsumexp special_multigammaln special_ndtr special_ndtri
    special_polygamma special_psi special_sinc special_xlog1py special_xlogy sqrt square stack std sub subtract tan tanh threshold true_divide var
    vstack xlogy"""
)

#: write truth values, which every dtype can hold
TRUTHS = _names(
    "bernoulli eq ge greater greater_equal gt le less less_equal logical_and logical_not logical_or logical_xor lt ne not_equal"
)

#: compute in the dtype of `out`
IN_DTYPE_OF_OUT = _names("cumprod cumsum mean nanmean nansum prod sum")

#: dtypes of `out`, by NumPy's letters, that have no kernel
UNIMPLEMENTED = {
    **dict.fromkeys(("arange", "randperm", "range"), "bc"),
    **dict.fromkeys(("cumprod", "cumsum", "linspace", "logspace"), "b"),
    **dict.fromkeys(("nanmean", "nansum"), "biuc"),
    **dict.fromkeys(("normal", "rand", "randn"), "biu"),
    **dict.fromkeys(("bernoulli", "fft_fftfreq", "fft_rfftfreq"), "c"),
}

#: the same, and they fill what they are given, of whatever shape it was, without a word
FILLING = _names(
    "arange empty eye full linspace logspace ones rand randint randn randperm range zeros fft_fftfreq fft_rfftfreq"
)

#: of these, what has as many elements keeps its shape
RANGES = _names("arange linspace logspace range")

#: when `out` is resized, these lay matrices column after column, as LAPACK wants them
IN_COLUMNS = _names(
    """inverse linalg_cholesky linalg_cholesky_ex linalg_eigh linalg_inv linalg_inv_ex linalg_lu_factor linalg_lu_solve linalg_qr linalg_solve
    linalg_solve_ex linalg_solve_triangular linalg_svd nonzero qr svd triangular_solve"""
)
#: and these if it was empty
IN_COLUMNS_IF_EMPTY = _names("cholesky_inverse geqrf linalg_eig linalg_householder_product orgqr ormqr")

#: the first operand may be `out`, and no other
SOURCES_APART = _names("index_add index_copy index_reduce scatter scatter_add scatter_reduce")

#: look at the first operand alone
FIRST_ALONE = _names("addmm addmv baddbmm linalg_solve_triangular")

#: resize without a warning
SILENT = FILLING | _names("addbmm bernoulli log_sigmoid multinomial narrow_copy")

#: these accept memory in which several elements share a place
SHARED_PLACES = FILLING & _names("empty eye full ones randperm zeros") | _names(
    "all amax amin any argmax argmin bmm cummax cummin histc linalg_vector_norm nansum norm prod std sum threshold tril triu var"
)

# %% [markdown]
# The same kind of table for memory: which operators look for overlap, and when.

# %%
#| into: csrc/autograd/variable_type_utils.py
#: one loop reads and writes: before they resize `out`, they look for several elements of it in one place, and for operands that are part of it
LOOPS = _names(
    """abs absolute acos acosh addcdiv addcmul addr angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
    bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min clip complex conj_physical copysign cos
    cosh deg2rad digamma div divide eq erf erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmax fmin fmod frac frexp gcd ge gelu
    ger greater greater_equal gt hardshrink heaviside hypot i0 index_select isneginf isposinf lcm ldexp le lerp less less_equal lgamma log log10 log1p
    log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_select maximum minimum multiply nan_to_num ne neg negative nextafter
    nonzero normalize not_equal outer polar polygamma rad2deg reciprocal remainder round rsqrt sgn sigmoid sign signbit
    sin sinc sinh softplus softshrink special_digamma special_entr special_erf special_erfc special_erfinv special_exp2 special_expit
    special_expm1 special_gammainc special_gammaincc special_gammaln special_i0 special_i1 special_log1p special_logit special_ndtri special_polygamma special_psi special_round special_sinc
    special_xlog1py special_xlogy sqrt square subtract take tan tanh true_divide trunc where xlogy"""
)

#: these look for operands that are part of `out` when it has its shape
LATER = _names(
    """addmm addmv aminmax baddbmm bernoulli cumprod cumsum index_add index_copy index_reduce linalg_solve_triangular logcumsumexp max median
    min mode msort nanmedian normal renorm scatter scatter_add scatter_reduce sort topk"""
)

#: these lay tensors beside each other
JOINING = _names("cat column_stack concat concatenate dstack hstack row_stack stack vstack")
#: these may not share memory with an operand at all
APART = JOINING | _names("cross gather index_select kron kthvalue linalg_cross take take_along_dim")

#: upstream has these write to `out` by an ordinary `copy_`, which is recorded
RECORDED = _names(
    """inner linalg_cond linalg_matrix_norm linalg_norm linalg_tensorinv linalg_tensorsolve nanquantile quantile tensordot"""
)


# %% [markdown]
# ## What is asked before anything is written?
#
# The parser's questions come first, then the call, then dtype, device, memory and shape of each result, then the write.
# Autocast is off inside: its casts are registered for operators that return a result, and `mm.out` is another operator
# than `mm`. (A result computed in bfloat16 could not be written to a float32 `out` of `mm` anyway.)


# %%
#| into: csrc/autograd/variable_type_utils.py
def with_out(entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """An operator's call without its `out=`, whose results are then written there.

    TypeError for what is no tensor, or not as many as there are results; RuntimeError if a result cannot be written: because of its dtype or device,
    because the memory is also an operand's, or because a gradient is wanted.
    """
    out = kwargs.pop("out")
    if out is None:
        return call(*args, **kwargs)
    try:
        return _write_results(entry, call, args, kwargs, out, _outs(entry, out))
    except RuntimeError:
        complain(entry, args, kwargs)  # of two faults, the one that a parser finds
        raise


def _write_results(
    entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], out: Any, outs: list[Any]
) -> Any:
    name = entry.name
    _refuse_overload(name, args, kwargs)
    operands = list(tensors_among((*args, *kwargs.values())))
    _refuse_transforms(name, (*outs, *operands))
    recorded = state.grad_mode and name in RECORDED
    for given in outs:
        _refuse_output(name, given, recorded)
    by_size = name == "normal" and (len(args) > 2 or "size" in kwargs)
    asked = _asking_for(name, outs[0], kwargs) if by_size or name in FILLING or name in IN_DTYPE_OF_OUT else kwargs
    autocast = set_special("autocast", None)
    try:
        result = call(*args, **asked)
    finally:
        set_special("autocast", autocast)
    several = isinstance(result, tuple | list)
    results = list(result) if several else [result]
    if several != isinstance(out, tuple | list):
        raise _wrong_kind(name, "tuple of Tensors" if several else "Tensor", out)
    if len(results) != len(outs):
        raise TypeError(f"{name}(): expected tuple of {len(results)} elements as out= but got {len(outs)}")
    if state.grad_mode and not recorded and any(requires_grad(one) for one in results):
        raise no_derivative(name)
    loops = entry.pointwise is not None or name in LOOPS or (name in ("max", "min") and len(operands) == 2)
    pairs = list(zip(outs, results, strict=True))
    for given, one in pairs:
        _check_device(name, given, one)
        _check_dtype(name, given, one, operands, several)
    if loops:
        for given, one in pairs:
            _check_memory(name, given, one, operands, loops)
    for given, one in pairs:
        _resize_output(name, given, one)
    if not loops:
        for given, one in pairs:
            _check_memory(name, given, one, operands, loops)
    for given, one in pairs:
        _resize_output(name, given, one)  # again: one tensor may have been given for two results
        _write(name, given, one, recorded)
    if not several:
        return out
    kind = type(result)
    if not issubclass(kind, StructSequence):
        return tuple(outs)
    return structseq(f"{kind.__name__}_out", kind.__match_args__)(outs)


#: these have an `out=` only with a dimension
_NEED_DIM = _names("median nanmedian prod sum")
#: of two operands, the first may be a number here
_NUMBER_FIRST = FILLING | _names(
    """add div divide float_power floor_divide mul multiply normal polygamma pow special_polygamma special_xlog1py
    sub subtract true_divide where xlogy"""
)


def _refuse_overload(name: str, args: tuple, kwargs: dict[str, Any]) -> None:
    """TypeError for the overloads that have no `out=`."""
    if name in _NEED_DIM and len(args) < 2 and "dim" not in kwargs and "axis" not in kwargs:
        raise TypeError(f'{name}() missing 1 required positional arguments: "dim"')
    if (name == "where" and len(args) + len(kwargs) < 3) or (name == "bernoulli" and len(args) > 1):
        raise TypeError(f"{name}() received an invalid combination of arguments: this overload takes no out=")
    second = args[1] if len(args) > 1 else None
    if (
        isinstance(second, TensorImpl)
        and args[0].__class__ in (int, float, bool, complex)
        and name not in _NUMBER_FIRST
    ):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(args[0]).__name__}")


# %% [markdown]
# The parser's part: is `out` a tensor, or a tuple of as many as there are results?


# %%
#| into: csrc/autograd/variable_type_utils.py
def _outs(entry: OperatorEntry, out: Any) -> list[Any]:
    several = bool(entry.named) or len(entry.outputs) > 1
    if isinstance(out, TensorImpl):
        if several and entry.name not in _EITHER:
            raise _wrong_kind(entry.name, "tuple of Tensors", out)
        return [out]
    if not isinstance(out, tuple | list) or not out or not all(isinstance(one, TensorImpl) for one in out):
        raise _wrong_kind(entry.name, "tuple of Tensors" if several else "Tensor", out)
    if not several and entry.name not in _EITHER and entry.composite is None:
        raise _wrong_kind(entry.name, "Tensor", out)
    if several and entry.name not in _EITHER and len(out) != len(entry.outputs):
        raise TypeError(f"{entry.name}(): expected tuple of {len(entry.outputs)} elements as out= but got {len(out)}")
    return list(out)


#: several results or one, by their arguments
_EITHER = _names("max median min nanmedian")


def _wrong_kind(name: str, wanted: str, out: Any) -> TypeError:
    return TypeError(f"{name}(): argument 'out' must be {wanted}, not {type(out).__name__}")


def tensors_among(values: Any) -> Iterator[Any]:
    """The tensors among these values, and in the lists among them."""
    for value in values:
        if isinstance(value, TensorImpl):
            yield value
        elif value.__class__ in (list, tuple):
            yield from tensors_among(value)


# %% [markdown]
# Why is nothing recorded? A node would have to say whose result `out` is: that of the call, or of what made `out` before.
# Upstream refuses both. Some functions compute a result first and copy it over; there the copy is an in-place operation
# like any other, and is recorded.


# %%
#| into: csrc/autograd/variable_type_utils.py
#| upstream: torch/csrc/autograd/VariableTypeUtils.h#torch::autograd::throw_error_out_requires_grad
def _refuse_transforms(name: str, tensors: Any) -> None:
    """RuntimeError inside of a function transform, which could not follow what is written."""
    if state.layers or any(is_wrapped(tensor._array) for tensor in tensors):
        raise RuntimeError(f"{name}(): functions with out=... arguments are not supported inside a function transform")


def no_derivative(name: str) -> RuntimeError:
    """The error of a call that would have to be recorded."""
    return RuntimeError(
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad: detach it, or leave out= away."
    )


def _refuse_output(name: str, out: Any, recorded: bool) -> None:
    """RuntimeError for a tensor that nothing can be written to."""
    if state.grad_mode and requires_grad(out) and (name not in TRUTHS or name == "bernoulli"):
        if recorded:
            check_inplace(out)
        else:
            raise no_derivative(name)
    if is_inference(out) and not state.inference_mode:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed: clone() it to get a normal tensor."
        )


# %% [markdown]
# Then the dtype. For sums it decides how the call is made; for the others it is compared with what the call gave.


# %%
#| into: csrc/autograd/variable_type_utils.py
def _asking_for(name: str, out: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords with which the call computes what `out` holds. RuntimeError if it asks for something else."""
    kind = scalar_type.FROM_NUMPY[out._array.dtype]
    wanted = kwargs.get("dtype")
    if wanted is not None and (wanted := scalar_type.as_dtype(wanted, name, "dtype", 1)) is not kind:
        raise RuntimeError(
            f"{name}(): dtype {to_string(wanted)} does not match dtype of out parameter ({to_string(kind)})"
        )
    if wanted is None and name in ("mean", "nanmean"):
        return kwargs  # an average is converted afterwards
    where = {} if name in IN_DTYPE_OF_OUT else {"device": device_of(out._array)}
    return {**kwargs, "dtype": kind, **where}


def _check_dtype(name: str, out: Any, result: Any, operands: list[Any], several: bool) -> None:
    source, target = result._array.dtype, out._array.dtype
    if target.kind in UNIMPLEMENTED.get(name, ""):
        kind = to_string(scalar_type.FROM_NUMPY[target])
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind}', which is the dtype of out=")
    if source == target or name in TRUTHS or (name in ("all", "any") and target in (np.uint8, np.bool_)):
        return
    a, b = scalar_type.FROM_NUMPY[source], scalar_type.FROM_NUMPY[target]
    if not _converts(name, operands, several, target):
        raise RuntimeError(
            f"{name}(): Expected out tensor to have dtype {to_string(a)}, but got {to_string(b)} instead"
        )
    if not can_cast(a, b):
        error = TypeError if name in JOINING else RuntimeError
        raise error(f"{name}(): result type {to_string(a)} can't be cast to the desired output type {to_string(b)}")


def _converts(name: str, operands: list[Any], several: bool, target: np.dtype) -> bool:
    """Is this a kernel that converts? Of some names there are two."""
    if name in ("clamp", "clamp_max", "clamp_min", "clip"):
        return len(operands) > 1  # bounds that are tensors: `maximum` and `minimum`
    if name == "lerp":
        return len(operands) == 2
    if name in ("abs", "absolute"):
        return operands[0]._array.dtype.kind == "c"
    if name in _TO_REALS:
        return target.kind != "c"
    return name in CONVERTING and not (several and name in ("max", "min"))


_TO_REALS = _names("fft_hfft fft_irfft fft_irfft2 fft_irfftn")


# %% [markdown]
# Then device and memory, by [the two questions of every write](02_storage_and_views.py#where-may-a-write-go).


# %%
#| into: csrc/autograd/variable_type_utils.py
def _check_device(name: str, out: Any, result: Any) -> None:
    have, wanted = device_of(out._array), device_of(result._array)
    if have != wanted:
        raise RuntimeError(
            f"{name}(): Expected all tensors to be on the same device: out= is on {have}, and the result on {wanted}"
        )


def _check_memory(name: str, out: Any, result: Any, operands: list[Any], loops: bool) -> None:
    """RuntimeError if writing would change what is still to be read, or write one place twice."""
    array, shape = out._array, result._array.shape
    if array.__class__ is MetaArray or array.__class__ in LAYOUT_OF:
        return
    if name not in SHARED_PLACES:
        assert_no_internal_overlap(array)
    if not loops and name not in APART and name not in LATER:
        return
    for number, operand in enumerate(operands[:1] if name in FIRST_ALONE else operands):
        apart = name in APART or (number and name in SOURCES_APART)
        if operand is out and not apart:
            if array.shape != shape:
                raise RuntimeError(
                    f"output with shape {list(array.shape)} doesn't match the broadcast shape {list(shape)}"
                )
        elif have_one_owner(array, operand._array):
            check = assert_no_overlap if apart or array.shape != shape else assert_no_partial_overlap
            check(array, operand._array)


# %% [markdown]
# Last, shape and write. A resize keeps the memory if it is large enough, and otherwise makes the storage larger, for
# every tensor that looks into it.


# %%
#| into: csrc/autograd/variable_type_utils.py
#| upstream: aten/src/ATen/native/Resize.cpp#at::native::resize_output
def _resize_output(name: str, out: Any, result: Any) -> None:
    """Give `out` the shape of the result, in its own memory where that is large enough. A warning unless it was empty."""
    from readtorch.csrc.autograd.python_variable_methods import set_sizes  # which needs the operators

    have, array = out._array, result._array
    sparse = array.__class__ in LAYOUT_OF or have.__class__ in LAYOUT_OF
    if sparse or have.shape == array.shape or (name in RANGES and have.size == array.size):
        return
    if have.size and name not in SILENT:
        warnings.warn(
            f"An output with one or more elements was resized: out= has shape {list(have.shape)}, and the result "
            f"is {list(array.shape)}. To reuse a tensor as out=, call resize_(0) on it first.",
            stacklevel=_level_of_caller(),
        )
    if array.ndim > 1 and (name in IN_COLUMNS or (name in IN_COLUMNS_IF_EMPTY and not have.size)):
        set_sizes(out, (*array.shape[:-2], *array.shape[:-3:-1]))
        out._array = out._array.swapaxes(-1, -2)
    else:
        set_sizes(out, array.shape)
    tell_leaf(out)


def _level_of_caller() -> int:
    """How many calls up the one was made that this library did not make itself: fewer for some forms of operators than for others."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("readtorch."):
        frame, level = frame.f_back, level + 1
    return level


def _write(name: str, out: Any, result: Any, recorded: bool) -> None:
    array = result._array
    if array.__class__ in LAYOUT_OF or out._array.__class__ in LAYOUT_OF:
        out._array = array.astype(out._array.dtype)
    elif name == "empty":
        return
    elif recorded and (requires_grad(result) or requires_grad(out)):
        tensor_impl.Tensor.copy_(out, result)
        return
    else:
        assign(out._array, array.reshape(out._array.shape))
    version_counter(out).bump()


def assign(target: Any, raw: Any) -> None:
    """Overwrite an array, on its device."""
    if target.__class__ is np.ndarray:
        target[...] = raw
    elif target.__class__ is not MetaArray:
        from readtorch.c10.core.device_guard import device_guard

        with device_guard(target):
            target[...] = raw


# %% [markdown]
# The same addition into four tensors. One of the right shape keeps its strides, a wider one is converted to, an empty one
# grows, and one that has elements grows with a warning.

# %%
#| needs: a1_operators
a = torch.arange(6.0).reshape(2, 3)
turned, wide = torch.zeros(3, 2).t(), torch.zeros(2, 3, dtype=torch.float64)
empty, small = torch.empty(0), torch.zeros(2)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for out in (turned, wide, empty, small):
        assert torch.add(a, 1, out=out) is out
[(out.stride(), out.dtype) for out in (turned, wide, empty, small)], len(caught)


# %%
#| needs: a1_operators
#| claim: add converts to the dtype of out= and mm does not; a sum is computed in it
def _(torch):
    a = torch.tensor([[1.5, 2.5], [3.5, 4.5]])
    wide = torch.empty(2, 2, dtype=torch.float64)
    assert torch.add(a, a, out=wide).dtype == torch.float64
    try:
        torch.mm(a, a, out=wide)
    except RuntimeError as error:
        assert "Expected out tensor to have dtype" in str(error)
    else:
        raise AssertionError("converted")
    whole = torch.empty(2, dtype=torch.int64)
    assert torch.sum(a, 1, out=whole).tolist() == [3, 7]


# %%
#| needs: a1_operators
#| claim: an operand may be out= of add, part of one may not; cat takes neither
def _(torch):
    a = torch.arange(4.0)
    assert torch.add(a, 1, out=a).tolist() == [1, 2, 3, 4]
    for refused in (
        lambda: torch.add(a[:3], 1, out=a[1:]),
        lambda: torch.cat([a[:2], a[2:]], out=a),
        lambda: torch.add(a, 1, out=torch.zeros(1).expand(4)),
    ):
        try:
            refused()
        except RuntimeError as error:
            assert "unsupported operation" in str(error)
        else:
            raise AssertionError("written")


# %%
#| needs: a1_operators
#| claim: mm does not look whether out= is one of its operands, and overwrites what it has yet to read: a wrong product and no error
#| differs: here the product is computed before it is written, and is right
def _(torch):
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.mm(a, a, out=a).tolist() != [[7.0, 10.0], [15.0, 22.0]]


# %%
#| needs: a1_operators
#| claim: an input that requires grad is refused, unless the result is copied over as tensordot's is: then the copy is recorded
def _(torch):
    a = torch.ones(2, 2, requires_grad=True)
    try:
        torch.mm(a, a, out=torch.empty(2, 2))
    except RuntimeError as error:
        assert "don't support automatic differentiation" in str(error)
    else:
        raise AssertionError("recorded")
    out = torch.empty(2, 2)
    torch.tensordot(a, a, 1, out=out)
    assert out.grad_fn is not None


# %%
#| needs: a1_operators
#| claim: an out= of another shape is resized, with a warning unless it was empty; one that cannot hold the dtype, or a gradient, is refused
#| upstream: aten/src/ATen/native/Resize.h#at::native::resize_output
def _(torch):
    import warnings

    ones = torch.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.add(ones, 1, out=torch.empty(0))
        assert not caught
        assert torch.add(ones, 1, out=torch.ones(3)).shape == (2,)
    assert "An output with one or more elements was resized" in str(caught[0].message)
    for refused in (
        lambda: torch.add(ones, 1, out=torch.empty(0, dtype=torch.int64)),
        lambda: torch.add(ones.clone().requires_grad_(), 1, out=torch.empty(0)),
    ):
        try:
            refused()
        except RuntimeError as error:
            assert "can't be cast" in str(error) or "don't support automatic differentiation" in str(error)
        else:
            raise AssertionError("written")


# %% [markdown]
# ### What upstream does more
#
# * The kernel writes to the given memory, which saves the allocation that `out=` is there for. Ours makes a result and
#   copies it; the form that does write straight into memory is the in-place one, `a.add_(b)`.
# * When a reduction gets its input as `out=` (`torch.sum(a, 1, out=a)`), upstream resizes the input before it looks at
#   the dimension, which may then be out of range, or sums what is left. Here the sum is right.
#
# So far a call was one of a few tensors and options. Pointwise operators and views take shorter ways: [the
# forms](07_forms_of_operators.py).
