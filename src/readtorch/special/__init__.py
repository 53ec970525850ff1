# Tangled from chapters/a1_operators/9b_fourier_and_special.py — edit there, or here and run `readtorch sync`.
"""Special functions (twin of `torch/special/__init__.py`)."""

from __future__ import annotations

import math
from typing import Any

from readtorch import _C
from readtorch._tensor import Tensor
from readtorch.aten.core.dispatch import dispatcher
from readtorch.csrc.utils.gates import COMPILED, Public, face, gates
from readtorch.c10.core import scalar_type
from readtorch.csrc.utils.python_arg_parser import checked, require

_at = _C._VariableFunctions
digamma = psi = face(_at.digamma)
erf = face(_at.erf)
erfc = face(_at.erfc)
erfinv = face(_at.erfinv)
exp2 = face(_at.exp2)
expit = face(_at.sigmoid)
expm1 = face(_at.expm1)
gammainc = face(_at.igamma)
gammaincc = face(_at.igammac)
gammaln = face(_at.lgamma)
i0 = face(_at.i0)
log1p = face(_at.log1p)
log_softmax = face(_at.log_softmax)
logit = face(_at.logit)
logsumexp = face(_at.logsumexp)
multigammaln = face(_at.mvlgamma)
polygamma = face(_at.polygamma)
sinc = face(_at.sinc)
softmax = face(_at.softmax)
xlogy = face(_at.xlogy)


@checked
def i1(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The modified Bessel function of order 1."""
    return dispatcher.autograd._i1(input)


@checked
def entr(input: Tensor, *, out: Tensor | None = None) -> Any:
    """-x log x; 0 at 0, -inf below."""
    return dispatcher.autograd._entr(input)


@checked
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The share of a normal distribution below x."""
    scaled = input / math.sqrt(2)
    return _at.where(input < -1, 0.5 * _at.erfc(-scaled), 0.5 * (1 + _at.erf(scaled)))


@checked
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The inverse of `ndtr`."""
    if input.is_floating_point() and input.itemsize == 2:
        raise scalar_type.not_implemented("ndtri_cpu", input.dtype)
    return _at.erfinv(2.0 * input - 1) * math.sqrt(2)


@checked
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Any:
    """To so many decimals, halves to the even one."""
    return _at.round(input, decimals=decimals)


@checked
def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Any:
    """The product x log(1 + y); 0 where x is."""
    require("special_xlog1py", "Array | Number", input=input, other=other)
    if not (isinstance(input, Tensor) or isinstance(other, Tensor)):
        raise TypeError("special_xlog1py(): argument 'other' (position 2) must be Tensor, unless 'input' is")
    return dispatcher.autograd._xlog1py(input, other)


gates.offer(globals(), "torch.special", COMPILED, Public(globals()))
