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
# # What a kernel was compiled for
#
# NumPy computes the maximum of complex numbers, the floor of truth values and the median of a mask: it orders complex numbers by their real parts and takes a bool for a small integer. Upstream compiles each kernel for a list of dtypes
# (`AT_DISPATCH_FLOATING_TYPES` and its relatives), and a dtype that is not on the list ends in the macro's last branch: `"median_cpu" not implemented for 'Bool'`. The quoted word is the name that the kernel gave the macro, which is why it
# reads like no function that anybody called. Some operators refuse earlier and in words of their own.
#
# The lists belong to operators that are spread over thirty files, and nearly all of what they say is of one form: so they are one table. An operator's own kernel stays free of it.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/native/__init__.py
from readtorch.aten import dispatch as dispatch

# %%
#| into: aten/dispatch.py
"""The dtypes that operators refuse, each in upstream's terms."""

# %%
#| into: aten/dispatch.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from readtorch.aten.core.dispatch.dispatcher import _changed, cpu, operators
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import dtype

# %%
#| into: aten/dispatch.py
_GROUPS: dict[str, Callable[[dtype], bool]] = {
    "bool": lambda kind: kind is scalar_type.bool,
    "whole": lambda kind: not (kind.is_floating_point or kind.is_complex or kind is scalar_type.bool),
    "small": lambda kind: _GROUPS["whole"](kind) and kind is not scalar_type.int64,
    "half": lambda kind: kind.is_floating_point and kind.itemsize == 2,
    "float": lambda kind: kind.is_floating_point and kind.itemsize > 2,
    "complex": lambda kind: kind.is_complex,
}

_CLAMP = "clamp is not supported for complex types"
_FLOATING = "Expected a floating point or complex tensor as input. Got {dtype}"
_NARROW = "Low precision dtypes not supported. Got {dtype}"

_REFUSED: tuple[tuple[str, str, type[Exception] | None, str], ...] = (
    # dtypes, operators, error (None: the macro's), label or message
    ("complex", "floor ceil trunc", NotImplementedError, "{name} is not supported for complex inputs"),
    ("complex", "signbit", NotImplementedError, "signbit is not implemented for complex tensors."),
    ("complex", "sign", NotImplementedError, "torch.sign is not intended to support complex numbers. Please use torch.sgn"),
    ("complex", "erf erfc erfinv lgamma round i0", None, "{name}_vml_cpu"),
    ("complex", "logit cummax cummin aminmax mode atan2 copysign xlogy lt le gt ge", None, "{name}_cpu"),
    ("complex", "digamma unique", None, "{name}"),
    ("complex", "unique_consecutive", None, "unique"),
    ("complex", "isposinf isneginf", RuntimeError, "{name} does not support complex inputs."),
    ("complex", "deg2rad rad2deg", RuntimeError, "{name} is not supported for complex tensors."),
    ("complex", "relu clamp clamp_min clamp_max hardtanh relu6", NotImplementedError, _CLAMP),
    ("complex", "amax", None, "max_values_cpu"),
    ("complex", "amin", None, "min_values_cpu"),
    ("complex", "_max_all _min_all", None, "{name}"),
    ("complex", "_max_dim", RuntimeError, "max(): does not support complex input"),
    ("complex", "_min_dim", RuntimeError, "min(): does not support complex input"),
    ("complex", "sort argsort msort", RuntimeError, "Sort does not support complex dtypes on CPU"),
    ("complex", "topk", RuntimeError, "topk does not support complex dtypes on CPU"),
    ("bool", "topk", RuntimeError, "topk does not support bool dtypes on CPU"),
    ("complex", "nansum", RuntimeError, "nansum on CPU does not support complex inputs"),
    ("complex", "maximum minimum fmax fmin", RuntimeError, "{name} not implemented for complex tensors."),
    ("bool", "pow dot trace", None, "{name}"),
    ("bool", "mm addmm", None, "addmm_impl_cpu_"),
    ("bool", "mv addmv", None, "addmv_impl_cpu"),
    ("bool", "bmm baddbmm", None, "{name}"),
    ("bool complex", "_trunc_div", None, "div_trunc_cpu"),
    ("complex", "_xlog1py", None, "xlog1py_cpu"),
    ("complex", "_i1", None, "i1_cpu"),
    ("complex", "_entr", None, "entr_cpu"),
    ("bool", "cov corrcoef", RuntimeError, "cov(): bool dtype is not supported for input"),
    ("bool", "trapezoid", RuntimeError, "trapezoid: received a bool input for `y`, but bool is not supported"),
    ("bool", "bitwise_left_shift", None, "lshift_cpu"),
    ("bool", "bitwise_right_shift", None, "rshift_cpu"),
    ("bool complex", "median nanmedian", None, "median_cpu"),
    ("bool complex", "kthvalue threshold remainder fmod", None, "{name}_cpu"),
    ("bool complex", "floor_divide _floor_div", None, "div_floor_cpu"),
    ("bool whole", "logcumsumexp", None, "logcumsumexp_out_cpu"),
    ("bool whole", "logaddexp", None, "logaddexp_cpu"),
    ("bool whole complex", "frac hypot logaddexp2 nextafter", None, "{name}_cpu"),
    ("bool whole complex", "histc", None, "histogram_cpu"),
    ("bool whole", "_lerp_scalar _lerp_tensor", None, "lerp_kernel_scalar"),
    ("bool half float complex", "gcd lcm bincount", None, "{name}_cpu"),
    ("bool whole", "nanmean", RuntimeError, "nanmean(): expected input to have floating point or complex dtype but got {dtype}"),
    ("complex", "nanmean", RuntimeError, "nansum on CPU does not support complex inputs"),
    ("bool whole half complex", "quantile nanquantile", RuntimeError, "{name}() input tensor must be either float or double dtype"),
    ("bool whole", "logdet", RuntimeError, "logdet: " + _FLOATING),
    ("bool whole", "inverse linalg_inv", RuntimeError, "linalg.inv: " + _FLOATING),
    ("bool whole", "det linalg_det", RuntimeError, "linalg.det: " + _FLOATING),
    ("bool whole", "linalg_slogdet", RuntimeError, "linalg.slogdet: " + _FLOATING),
    ("bool whole", "linalg_cholesky", RuntimeError, "linalg.cholesky: " + _FLOATING),
    ("bool whole", "_linalg_solve", RuntimeError, "linalg.solve: " + _FLOATING),
    ("bool whole", "_linalg_qr", RuntimeError, "linalg.qr: " + _FLOATING),
    ("bool whole", "_linalg_svd", RuntimeError, "linalg.svd: " + _FLOATING),
    ("bool whole", "_block_exponential", RuntimeError, "linalg.matrix_exp: " + _FLOATING),
    ("half", "inverse linalg_inv", RuntimeError, "linalg.inv: " + _NARROW),
    ("half", "linalg_slogdet", RuntimeError, "linalg.slogdet: " + _NARROW),
    ("half", "logdet", RuntimeError, "logdet: " + _NARROW),
    ("half", "det linalg_det _linalg_solve", None, "lu_cpu"),
    ("half", "linalg_cholesky", None, "cholesky_cpu"),
    ("half", "_linalg_qr", None, "geqrf_cpu"),
    ("half", "_linalg_svd", None, "linalg_svd_cpu"),
    ("bool whole half", "linalg_eigh", None, "linalg_eigh_cpu"),
    ("bool complex", "_max_pool", None, "max_pool2d"),
    ("bool small complex", "_avg_pool", None, "avg_pool2d"),
    ("complex", "_kept", None, "bernoulli_scalar_cpu_"),
    ("bool whole complex", "_windowed_max", None, "adaptive_max_pool2d"),
    ("bool whole complex", "max_unpool2d max_unpool3d", None, "{name}"),
    ("bool whole complex", "_prelu_kernel", None, "prelu_cpu"),
    ("bool whole complex", "glu", None, "{name}_cpu"),
    ("bool whole", "_kept", RuntimeError, "result type Float can't be cast to the desired output type {dtype}"),
    ("bool whole complex", "nll_loss_forward", None, "nll_loss_out_frame"),
    ("bool whole complex", "binary_cross_entropy_with_logits", None, "log_sigmoid_cpu"),
    ("bool whole", "kl_div", RuntimeError, "kl_div: Integral inputs not supported."),
    ("complex", "kl_div", RuntimeError, "kl_div: Complex inputs not supported."),
    ("bool whole", "soft_margin_loss", RuntimeError, "result type Float can't be cast to the desired output type {dtype}"),
    ("bool whole half", "multi_margin_loss", None, "{name}_cpu_kernel"),
    ("half", "_ctc_loss", None, "ctc_loss_cpu"),
    ("bool whole half", "linalg_pinv", RuntimeError, "linalg.pinv: expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"),
    ("bool whole half", "linalg_lu linalg_lu_factor", None, "lu_cpu"),
    ("bool whole", "linalg_lu_solve", RuntimeError, "torch.linalg.lu_solve: " + _FLOATING),
    ("half", "linalg_lu_solve", None, "linalg.lu_solve_cpu"),
    ("bool whole half", "triangular_solve", None, "triangular_solve_cpu"),
    ("bool whole half", "geqrf ormqr", None, "{name}_cpu"),
    ("bool whole half", "cholesky_inverse", None, "cholesky_inverse_out_cpu"),
    ("bool whole", "linalg_cholesky_ex", RuntimeError, "linalg.cholesky: " + _FLOATING),
    ("half", "linalg_cholesky_ex", None, "cholesky_cpu"),
    ("bool whole", "linalg_inv_ex", RuntimeError, "linalg.inv: " + _FLOATING),
    ("half", "linalg_inv_ex", RuntimeError, "linalg.inv: " + _NARROW),
    ("bool whole", "linalg_solve_ex", RuntimeError, "linalg.solve: " + _FLOATING),
    ("half", "linalg_solve_ex", None, "lu_cpu"),
    ("bool whole", "linalg_eig linalg_eigvals", RuntimeError, "Unknown Complex ScalarType for {dtype}"),
    ("half", "linalg_eig linalg_eigvals", None, "linalg_eig_out_cpu"),
    ("bool whole half", "linalg_householder_product orgqr", None, "orgqr_cpu"),
)  # fmt: skip

# %% [markdown]
# A pointwise operator asks after promotion (`x // True` is refused because both are bool, `x // 2` is not), others look at their first operand.

# %%
#| into: aten/dispatch.py
Refusal = Callable[[dtype], Exception | None]


def _refusal(name: str, rows: list[tuple[str, type[Exception] | None, str]]) -> Refusal:
    """What operator `name` answers to a dtype: the error, or None."""

    def refusal(kind: dtype) -> Exception | None:
        for groups, error, text in rows:
            if any(_GROUPS[group](kind) for group in groups.split()):
                shown = scalar_type.to_string(kind)
                text = text.format(name=name.lstrip("_"), dtype=shown)
                if error is None:
                    return scalar_type.not_implemented(text, kind)
                return error(text)
        return None

    return refusal


def _check(refusal: Refusal, value: Any) -> None:
    found = getattr(value, "dtype", None)
    if found is not None:
        error = refusal(found if isinstance(found, dtype) else scalar_type.from_numpy_dtype(found))
        if error is not None:
            raise error


def _checked(kernel: Callable[..., Any], refusal: Refusal) -> Callable[..., Any]:
    @wraps(kernel)
    def checked(self: Any, *rest: Any, **options: Any) -> Any:
        try:
            _check(refusal, self)
        except RuntimeError as refused:
            _shapes_first(refused, lambda: kernel(self, *rest, **options))
            raise
        return kernel(self, *rest, **options)

    return checked


def _shapes_first(refused: RuntimeError, attempt: Callable[[], Any]) -> None:
    """Of two faults, the one in the dimensions or shapes is named: a kernel that is not there is noticed when all else has been looked at."""
    try:
        attempt()
    except NotImplementedError:
        return
    except IndexError as fault:
        if str(fault).startswith("Dimension") or isinstance(refused, NotImplementedError):
            raise
    except RuntimeError:
        if isinstance(refused, NotImplementedError):
            raise
    except (TypeError, ValueError, ArithmeticError):
        return


#: the composites that look at shapes before dtypes
_SHAPES_FIRST = frozenset(["addmv", "baddbmm", "clamp", "clamp_max", "clamp_min"])


def _checked_composite(function: Callable[..., Any], refusal: Refusal) -> Callable[..., Any]:
    first = function.__code__.co_varnames[1]

    @wraps(function)
    def checked(at: Any, *args: Any, **options: Any) -> Any:
        try:
            _check(refusal, args[0] if args else options[first])
        except NotImplementedError as refused:
            if function.__name__ in _SHAPES_FIRST:
                _shapes_first(refused, lambda: function(at, *args, **options))
            raise
        return function(at, *args, **options)

    return checked


# %%
#| into: aten/dispatch.py
def _apply(name: str, refusal: Refusal) -> None:
    """Make operator `name` ask first."""
    entry = operators[name]
    if entry.pointwise is not None:
        before = entry.pointwise.refuse
        entry.pointwise.refuse = lambda kind: refusal(kind) or (before(kind) if before is not None else None)
    elif entry.composite is not None:
        entry.composite = _checked_composite(entry.composite, refusal)
        setattr(cpu, name, partial(entry.composite, cpu))
    else:
        for key, kernel in list(entry.kernels.items()):
            entry.kernels[key] = _checked(kernel, refusal)
    _changed(entry)


_rows: dict[str, list[tuple[str, type[Exception] | None, str]]] = {}
for _kinds, _names, _error, _text in _REFUSED:
    for _name in _names.split():
        _rows.setdefault(_name, []).append((_kinds, _error, _text))
for _name, _found in _rows.items():
    if _name in operators:
        _apply(_name, _refusal(_name, _found))

# %%
for call in (
    lambda: torch.median(torch.tensor([True, False])),
    lambda: torch.maximum(torch.tensor([1j]), torch.tensor([2j])),
    lambda: torch.floor(torch.tensor([1 + 2j])),
    lambda: torch.tensor([True]) // True,
):
    try:
        call()
    except (RuntimeError, NotImplementedError) as error:
        print(type(error).__name__, "·", error)


# %%
#| claim: truth values have no median and no quotient, complex numbers no order; NotImplementedError is a RuntimeError
def _(torch):
    mask, waves = torch.tensor([True, False]), torch.tensor([1j, 2j])
    for call in (mask.median, lambda: mask // mask, lambda: waves.max(), lambda: waves < waves, waves.sort):
        try:
            call()
        except RuntimeError:
            continue
        raise AssertionError("no error")
