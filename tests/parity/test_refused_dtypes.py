"""Every operator on every dtype beside PyTorch: the same dtypes and shapes come out, or the same type of error."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]

UNARY = [
    "abs",
    "neg",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "sign",
    "sgn",
    "signbit",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "square",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "logical_not",
    "bitwise_not",
    "angle",
    "conj",
    "positive",
    "relu",
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "aminmax",
    "std",
    "var",
    "median",
    "nanmedian",
    "mode",
    "sort",
    "argsort",
    "unique",
    "nonzero",
    "norm",
    "all",
    "any",
    "nansum",
    "nanmean",
    "count_nonzero",
    "diff",
    "sinc",
    "deg2rad",
    "rad2deg",
    "nan_to_num",
    "bincount",
    "histc",
    "msort",
    "hardshrink",
    "softshrink",
]

WITH_ARGUMENT = {
    **dict.fromkeys(
        [
            "softmax",
            "log_softmax",
            "cumsum",
            "cumprod",
            "logcumsumexp",
            "cummax",
            "cummin",
            "logsumexp",
            "flip",
            "clamp",
            "clamp_min",
            "clamp_max",
        ],
        0,
    ),
    **dict.fromkeys(["topk", "kthvalue", "roll"], 1),
    "quantile": 0.5,
}

MATRIX = ["tril", "triu", "trace", "logdet", "det"]

BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "atan2",
    "hypot",
    "logaddexp2",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "logical_and",
    "logical_or",
    "logical_xor",
    "gcd",
    "lcm",
    "copysign",
    "nextafter",
    "xlogy",
    "float_power",
    "heaviside",
    "isclose",
    "dot",
    "outer",
]

ACTIVATIONS = [
    "relu",
    "gelu",
    "elu",
    "selu",
    "celu",
    "leaky_relu",
    "hardtanh",
    "relu6",
    "softplus",
    "softsign",
    "logsigmoid",
    "mish",
    "hardswish",
    "hardsigmoid",
    "tanhshrink",
]

ELSEWHERE = {("logcumsumexp", "complex64"), ("logcumsumexp", "complex128")}
"""Not here: the logarithm of a sum of complex exponentials has no NumPy loop."""


def outcome(library: Any, name: str, dtype: str) -> str:
    """The dtypes and shapes of what comes out, or the type of the error."""
    kind = getattr(library, dtype)
    vector, matrix = library.ones(3, dtype=kind), library.ones(2, 2, dtype=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if name.startswith("F."):
                result = getattr(library.nn.functional, name[2:])(vector)
            elif name in WITH_ARGUMENT:
                result = getattr(vector, name)(WITH_ARGUMENT[name])
            elif name in MATRIX:
                result = getattr(matrix, name)()
            elif name in BINARY:
                result = getattr(library, name)(vector, vector)
            else:
                result = getattr(vector, name)()
        except Exception as error:
            return type(error).__name__
    results = result if isinstance(result, tuple) else (result,)
    return " ".join(f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" for each in results)


@pytest.mark.parametrize("name", [*UNARY, *WITH_ARGUMENT, *MATRIX, *BINARY, *(f"F.{each}" for each in ACTIVATIONS)])
def test_dtypes(name: str) -> None:
    wrong = {
        dtype: (ours, theirs)
        for dtype in DTYPES
        if (name, dtype) not in ELSEWHERE
        and (ours := outcome(readtorch, name, dtype)) != (theirs := outcome(torch, name, dtype))
    }
    assert wrong == {}
