"""Tensors by name, and a call run on both libraries: what the lines of `option_calls.txt` are made of.

`f4_2x3_vt` is a float32 tensor of shape (2, 3) whose values hold NaN, infinities and zeros (`v`), transposed in memory (`t`). The
numbers come from the name, so that both libraries get the same, and a name is the same tensor wherever it stands in a call.
"""

from __future__ import annotations

import math
import re
import warnings
import zlib
from typing import Any

import numpy as np

KINDS = {
    "f2": "float16", "f4": "float32", "f8": "float64", "bf": "bfloat16", "c8": "complex64", "c16": "complex128", "b1": "bool",
    "u1": "uint8", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
}  # fmt: skip
NAME = re.compile(rf"({'|'.join(KINDS)})_(0d|\d+(?:x\d+)*)(?:_([a-z]+))?")
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 2.5, -2.5, 1e-30])
TOLERANCE = {"float16": 6e-3, "bfloat16": 4e-2, "float32": 2e-4, "complex64": 2e-4, "float64": 1e-8, "complex128": 1e-8}


def numbers(name: str) -> np.ndarray:
    """What the tensor of this name holds."""
    found = NAME.fullmatch(name)
    if found is None:
        raise KeyError(name)
    kind, size, flags = found[1], found[2], found[3] or ""
    shape = () if size == "0d" else tuple(map(int, size.split("x")))
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values: np.ndarray = np.asarray(rng.standard_normal(shape))
    if kind[0] in "iu":
        values = np.asarray(rng.integers(-3 if kind[0] == "i" else 0, 6, shape))
    if kind == "b1" or "k" in flags:  # `k`: indices into anything of two elements
        values = np.asarray(rng.integers(0, 2, shape))
    if "p" in flags:
        values = np.asarray(rng.uniform(0.05, 0.95, shape))
    if "v" in flags:
        values = np.where(rng.integers(0, 2, shape) == 1, rng.choice(SPECIAL, shape), values)
    if kind[0] == "c":
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype("f4" if kind == "bf" else KINDS[kind], copy=False).reshape(shape)


class Tensors(dict[str, Any]):
    """The names of a call for one library; tensors are made when they are asked for."""

    def __init__(self, torch: Any, grad: bool) -> None:
        super().__init__(t=torch, F=torch.nn.functional, nn=torch.nn, inf=math.inf, nan=math.nan)
        self.grad, self.made = grad, {}

    def __missing__(self, name: str) -> Any:
        torch, values = self["t"], numbers(name)
        tensor = torch.from_numpy(values.copy()).clone()
        if name.startswith("bf"):
            tensor = tensor.to(torch.bfloat16)
        if "t" in name.split("_")[-1] and tensor.ndim > 1:
            tensor = tensor.transpose(0, -1).contiguous().transpose(0, -1)
        if self.grad and (tensor.is_floating_point() or tensor.is_complex()):
            tensor.requires_grad_()
        self.made[name] = self[name] = tensor
        return tensor


def flat(value: Any) -> list[Any]:
    return [one for part in value for one in flat(part)] if isinstance(value, tuple | list) else [value]


def parts(torch: Any, call: str, grad: bool) -> tuple[list[Any], list[Any], list[Any]]:
    """The results, what the call left in its tensors, and the gradients (when asked for)."""
    names = Tensors(torch, grad)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = flat(eval(call, {}, names))
        left = [names.made[name] for name in sorted(names.made)]
        if not grad:
            return results, left, []
        roots = [one for one in results if getattr(one, "requires_grad", False)]
        leaves = [one for one in left if one.requires_grad and one.is_leaf]
        seeds = [
            torch.from_numpy(np.cos(np.arange(x.numel())).reshape(tuple(x.shape)).copy()).to(x.dtype) for x in roots
        ]
        try:
            gradients = list(torch.autograd.grad(roots, leaves, seeds, allow_unused=True)) if roots and leaves else []
        except Exception as error:
            error.add_note("while taking the gradient")
            raise
        return results, left, gradients


def outcome(torch: Any, call: str, grad: bool) -> list[Any]:
    """The type of the call's error, or all its parts."""
    try:
        results, left, gradients = parts(torch, call, grad)
    except Exception as error:
        return [type(error).__name__]
    return results + left + gradients


def difference(theirs: Any, ours: Any) -> str | None:
    """How two results differ, if they do."""
    if not hasattr(theirs, "requires_grad"):
        return (
            None
            if theirs == ours or (theirs != theirs and ours != ours)
            else f"{ours!r} where upstream gives {theirs!r}"
        )
    if not hasattr(ours, "requires_grad"):
        return f"{ours!r} in place of a tensor"
    for what in ("dtype", "shape", "requires_grad"):
        a, b = (getattr(one, what) for one in (theirs, ours))
        if str(a) != str(b) and tuple([a] if what != "shape" else a) != tuple([b] if what != "shape" else b):
            return f"{what} {b} where upstream has {a}"
    tolerance = TOLERANCE.get(str(theirs.dtype).removeprefix("torch."), 0)
    a, b = (plain(one) for one in (theirs, ours))
    return None if np.allclose(b, a, tolerance, tolerance, equal_nan=True) else f"{b} where upstream gives {a}"


def plain(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor.resolve_conj()).numpy(force=True)
