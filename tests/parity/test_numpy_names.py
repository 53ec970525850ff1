"""`axis` for `dim` and `keepdims` for `keepdim`, as programs that began in NumPy write them, beside PyTorch 2.13.0."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

REDUCTIONS = (
    "sum mean amax amin max min prod std var argmax argmin all any logsumexp median mode nansum nanmean aminmax"
)
ALONG = (
    "softmax log_softmax cumsum cumprod cummax logcumsumexp sort argsort unsqueeze squeeze unbind count_nonzero diff"
)
CALLS = [
    *(f"torch.{name}(x, axis=1)" for name in f"{REDUCTIONS} {ALONG} std_mean var_mean".split()),
    *(f"x.{name}(axis=1)" for name in f"{REDUCTIONS} {ALONG}".split()),
    *(f"x.{name}(axis=1, keepdims=True)" for name in REDUCTIONS.split()),
    *("x.sum(axis=(0, 1))", "x.mean(1, keepdims=True)", "x.sum(dim=1, keepdims=True)", "x.sum(axis=None)"),
    *("torch.cat([x, x], axis=1)", "torch.stack([x, x], axis=-1)", "torch.concatenate((x, x), axis=0)"),
    *("x.gather(axis=1, index=rows[:, None])", "x.index_select(axis=1, index=rows)", "x.topk(1, axis=0)[0]"),
    *("x.chunk(2, axis=0)[1]", "torch.quantile(x, 0.5, axis=1, keepdims=True)", "x.select(axis=0, index=1)"),
    *("torch.linalg.vector_norm(x, axis=1)", "x.cumsum_(axis=0)", "torch.sum(x, axis=0, out=torch.empty(3))"),
    *(
        "x.sum(dim=1, axis=1)",
        "x.sum(1, axis=1)",
        "x.norm(axis=1)",
        "x.flip(axis=0)",
        "x.exp(axis=1)",
        "x.sum(keepdims=True)",
    ),
]


@pytest.mark.parametrize("call", CALLS)
def test_names_of_numpy(call: str) -> None:
    found: list[Any] = []
    for library in ("torch", "readtorch"):
        torch = importlib.import_module(library)
        names = {"torch": torch, "x": torch.arange(6.0).reshape(2, 3), "rows": torch.tensor([0, 1])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = eval(call, names)
                parts = [result] if isinstance(result, torch.Tensor) else list(result)
                found.append([part.to(torch.float64).tolist() for part in parts])
            except Exception as error:
                found.append(type(error))
    ours, theirs = found[1], found[0]
    assert ours == theirs if isinstance(theirs, type) else _flat(ours) == pytest.approx(_flat(theirs), rel=1e-6)


def _flat(values: Any) -> list[float]:
    return [number for value in values for number in _flat(value)] if isinstance(values, list) else [values]
