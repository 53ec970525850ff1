"""Each line of the parity table on readtorch and on PyTorch: values, errors, first and second derivatives."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from cells import FLOATS, NARROW, Cell, operator_cells
from parity_table import Case, Input

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch

TOLERANCE = {
    "float16": 4e-3,
    "bfloat16": 2e-2,
    "float32": 2e-5,
    "float64": 1e-10,
    "complex64": 2e-5,
    "complex128": 1e-10,
}


def make(entry: Input, dtype: str, layout: str, rng: np.random.Generator) -> tuple[np.ndarray, bool]:
    """The numbers of an input, and whether it can require a gradient. Same layout in memory for both libraries."""
    shape = entry.shape
    if layout == "scalar":
        shape = ()
    elif layout == "empty" and shape:
        shape = (0, *shape[1:])
    if entry.kind == "bool":
        values = rng.integers(0, 2, shape).astype(bool)
    elif entry.kind == "int":
        values = np.asarray(rng.integers(int(entry.low), int(entry.high), shape), dtype=np.int64)
    elif dtype in ("int64", "uint8"):
        low = max(entry.low, 0) if dtype == "uint8" else entry.low
        values = np.asarray(rng.integers(int(np.floor(low)), int(np.ceil(entry.high)) + 1, shape)).astype(dtype)
    elif dtype == "bool":
        values = rng.integers(0, 2, shape).astype(bool)
    else:  # NumPy has no bfloat16: `tensors` rounds
        values = np.asarray(rng.uniform(entry.low, entry.high, shape)).astype("f4" if dtype == "bfloat16" else dtype)
    if layout == "strided" and values.ndim:
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        values = wide[..., ::2]
        if values.ndim >= 2:
            values = np.asarray(np.swapaxes(np.ascontiguousarray(np.swapaxes(values, 0, 1)), 0, 1))
    if layout == "broadcast" and values.ndim:
        values = np.broadcast_to(values[:1], values.shape)
    return np.asarray(values), values.dtype.kind == "f"


def tensors(torch: Any, arrays: list[tuple[np.ndarray, bool]], dtype: str, grad: bool) -> list[Any]:
    result = []
    for array, floating in arrays:
        tensor = torch.from_numpy(np.array(array, order="K", copy=True) if array.flags.c_contiguous else _copy(array))
        if floating and dtype == "bfloat16":
            tensor = tensor.to(torch.bfloat16)
        result.append(tensor.requires_grad_() if grad and floating else tensor)
    return result


def _copy(array: np.ndarray) -> np.ndarray:
    """A copy with the same strides."""
    base = np.zeros(array.size * 4 + 1, array.dtype)
    view = np.lib.stride_tricks.as_strided(base, array.shape, array.strides)
    view[...] = array
    return view


def evaluate(torch: Any, case: Case, inputs: list[Any]) -> Any:
    names = dict(zip("abc", inputs, strict=False), t=torch, float=float)
    return eval(case.expression, names)


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [item for part in value for item in flat(part)]
    return [value]


def plain(value: Any) -> Any:
    if hasattr(value, "detach"):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.resolve_conj().numpy(force=True)
    return value


def same(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    ours, theirs = flat(ours), flat(theirs)
    assert len(ours) == len(theirs), what
    for a, b in zip(ours, theirs, strict=True):
        if hasattr(b, "dtype"):
            assert str(a.dtype) == str(b.dtype), f"{what}: dtype {a.dtype}, upstream {b.dtype}"
            assert tuple(a.shape) == tuple(b.shape), f"{what}: shape {tuple(a.shape)}, upstream {tuple(b.shape)}"
            np.testing.assert_allclose(plain(a), plain(b), rtol=tolerance, atol=tolerance, err_msg=what)
        else:
            assert a == b, what


def attempt(function: Any) -> tuple[Any, BaseException | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(), None
        except Exception as error:
            return None, error


LINES: dict[int, list[Cell]] = {}
for _cell in operator_cells():
    LINES.setdefault(id(_cell.case), []).append(_cell)


@pytest.mark.parametrize("cells", LINES.values(), ids=lambda cells: cells[0].id.rsplit("-", 2)[0])
def test_operator_equals_upstream(cells: list[Cell]) -> None:
    """In every cell of the line; one in which the libraries are known to differ must still differ."""
    faults = []
    for cell in cells:
        try:
            compare(cell.case, cell.dtype, cell.layout)
        except Exception as error:
            if not cell.reason:
                faults.append(f"{cell.id}: {type(error).__name__}: {error}")
        else:
            if cell.reason:
                faults.append(f"{cell.id} agrees now: take it off left_out.txt")
    assert not faults, "\n".join(faults)


def compare(case: Case, dtype: str, layout: str) -> None:
    rng = np.random.default_rng(zlib.crc32(case.id.encode()))
    arrays = [make(entry, dtype, layout, rng) for entry in case.inputs]
    wants = case.grad and dtype in (*FLOATS, *NARROW)
    mine, yours = tensors(readtorch, arrays, dtype, wants), tensors(upstream, arrays, dtype, wants)
    theirs, their_error = attempt(lambda: evaluate(upstream, case, yours))
    ours, our_error = attempt(lambda: evaluate(readtorch, case, mine))
    if their_error is not None:
        assert our_error is not None, f"upstream raises {type(their_error).__name__}: {their_error}"
        assert type(our_error).__name__ == type(their_error).__name__, (
            f"{our_error!r} where upstream raises {their_error!r}"
        )
        return
    if our_error is not None:
        raise our_error
    tolerance = TOLERANCE.get(dtype, 1e-6) * case.tolerance
    same(ours, theirs, tolerance, "forward")
    if not wants:
        return
    assert [getattr(x, "requires_grad", False) for x in flat(ours)] == [
        getattr(x, "requires_grad", False) for x in flat(theirs)
    ]
    _same_gradients(case, dtype, rng, (ours, theirs), (mine, yours), tolerance)


def _same_gradients(
    case: Case, dtype: str, rng: np.random.Generator, outputs: Any, inputs: Any, tolerance: float
) -> None:
    weights = [rng.uniform(-1, 1, tuple(x.shape)) if hasattr(x, "shape") else None for x in flat(outputs[1])]
    results = []
    for torch, values, leaves in ((readtorch, outputs[0], inputs[0]), (upstream, outputs[1], inputs[1])):
        roots, cotangents = [], []
        for value, weight in zip(flat(values), weights, strict=True):
            if getattr(value, "requires_grad", False):
                roots.append(value)
                cotangents.append(torch.as_tensor(weight).to(value.dtype).requires_grad_())
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        if not roots or not leaves:
            return
        twice = case.double and dtype == "float64"
        grads = torch.autograd.grad(roots, leaves, cotangents, allow_unused=True, create_graph=twice)
        results.append((torch, leaves, cotangents, grads))
    _compare([r[3] for r in results], tolerance * 4, "backward")
    if not (case.double and dtype == "float64"):
        return
    seconds = []
    for torch, leaves, cotangents, grads in results:
        kept = [g for g in grads if g is not None and g.requires_grad]
        if not kept:
            seconds.append(None)
            continue
        seeds = [torch.as_tensor(np.cos(np.arange(g.numel())).reshape(tuple(g.shape))).to(g.dtype) for g in kept]
        seconds.append(torch.autograd.grad(kept, leaves + cotangents, seeds, allow_unused=True))
    assert (seconds[0] is None) == (seconds[1] is None), "twice differentiable on one side only"
    if seconds[0] is not None:
        _compare(seconds, tolerance * 100, "double backward")


def _compare(pair: list[Any], tolerance: float, what: str) -> None:
    ours, theirs = pair
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        label = f"{what}, input {number}"
        if a is None or b is None:
            other = a if b is None else b
            assert other is None or not plain(other).any(), f"{label}: no gradient on one side"
            continue
        same(a, b, tolerance, label)
