# Tangled from chapters/a1_operators/9c_sparse_in_python.py — edit there, or here and run `readtorch sync`.
"""Functions of sparse tensors (twin of `torch/sparse/__init__.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from readtorch import Tensor, _C, sparse_coo, sparse_coo_tensor
from readtorch.csrc.tensor.python_tensor import SPARSE as _SPARSE
from readtorch.csrc.utils.gates import COMPILED, Public, face, gates
from readtorch.csrc.utils.tensor_new import _Invariants

_at = _C._VariableFunctions
mm = face(_at._sparse_mm)
addmm = face(_at._sparse_addmm)
globals().update(_SPARSE)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """The sum over `dim` (everything for None), dense if no sparse dimension is left. Its gradient has the places of `input`."""
    if dtype is not None:
        input = input.to(dtype)
    if dim is None:
        return input.coalesce().values().sum()
    return _sparse_at._sparse_sum_dim(input, dim)


def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax along `dim` over the elements that are listed; the others count as −∞."""
    return _sparse_at._sparse_softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _sparse_at._sparse_log_softmax(input if dtype is None else input.to(dtype), dim)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> Tensor:
    """A matrix with the rows of `diagonals` as its diagonals, `offsets` from the main one; of a row counts what lies in a column that is there."""
    if layout not in (None, sparse_coo):
        raise NotImplementedError(f"spdiags: {layout} is not here, torch.sparse_coo is")
    diagonals, offsets = (diagonals[None], offsets.reshape(1)) if diagonals.dim() == 1 else (diagonals, offsets)
    if diagonals.dim() != 2 or len(offsets) != len(diagonals):
        raise RuntimeError(
            f"Number of diagonals ({len(diagonals)}) does not match the number of offsets ({len(offsets)})"
        )
    if len(set(offsets.tolist())) != len(offsets):
        raise RuntimeError("Offset tensor contains duplicate values")
    rows, columns = shape
    places, values = [], []
    for offset, diagonal in zip(offsets.tolist(), diagonals, strict=True):
        for column in range(max(offset, 0), min(columns, rows + offset, len(diagonal))):
            places.append((column - offset, column))
            values.append(diagonal[column])
    if not places:
        return sparse_coo_tensor(size=(rows, columns), dtype=diagonals.dtype)
    at = diagonals.new_tensor(places, dtype=offsets.dtype).t().contiguous()
    return sparse_coo_tensor(at, _at.stack(values), (rows, columns))


from readtorch.aten.core.dispatch.dispatcher import autograd as _sparse_at


class check_sparse_tensor_invariants:
    """Check the parts of sparse tensors when they are made: a context manager, a decorator, and three functions."""

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Are they checked?"""
        return bool(_Invariants.checked)

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        _Invariants.checked = True

    @staticmethod
    def disable() -> None:
        """Do not check from now on."""
        _Invariants.checked = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError("This context manager instance is already activated: use another one to nest them.")
        self.saved_state = self.is_enabled()
        _Invariants.checked = self.state

    def __exit__(self, *exception: object) -> None:
        _Invariants.checked, self.saved_state = self.saved_state, None

    def __call__(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return method(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """A `gradcheck` that takes sparse tensors, and functions of and to them. It has one option more, `masked`."""

    def check(func: Callable[..., Any], inputs: Any, *, masked: bool = False, **options: Any) -> bool:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        parts: list[Any] = []
        shown: list[Any] = []
        for value in inputs:
            if not (isinstance(value, Tensor) and value.is_sparse and value.requires_grad):
                parts.append(None)
                shown.append(value)
                continue
            impl = value.detach()
            if not masked:
                impl = impl.to_dense().sparse_mask(_at.ones_like(impl.to_dense()).to_sparse(impl.sparse_dim()))
            parts.append((impl._indices(), tuple(impl.shape), impl.is_coalesced()))
            shown.append(impl._values().clone().requires_grad_())

        def dense(*values: Any) -> Any:
            restored = [
                value
                if part is None
                else sparse_coo_tensor(part[0], value, part[1], is_coalesced=part[2], check_invariants=False)
                for part, value in zip(parts, values, strict=True)
            ]
            outputs = func(*restored)
            several = outputs if isinstance(outputs, tuple | list) else (outputs,)
            strided = tuple(
                o.to_dense(masked_grad=masked) if isinstance(o, Tensor) and o.is_sparse else o for o in several
            )
            return strided if several is outputs else strided[0]

        return gradcheck(dense, tuple(shown), **options)

    return check


gates.offer(globals(), "torch.sparse", COMPILED, Public(globals()))
