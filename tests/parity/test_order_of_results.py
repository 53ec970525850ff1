"""In which order the elements of a result lie, beside PyTorch 2.13.0: it decides what `.view` can do, and which element a dropout hits."""

from __future__ import annotations

import importlib
import warnings

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

OPERATORS = [
    *("x * 2", "x.exp()", "-x", "x.clone()", "x.double()", "x > 1", "x.bool()", "F.relu(x)", "F.silu(x)", "F.gelu(x)"),
    *("x.softmax(-1)", "x.log_softmax(1)", "x.softmax(1)", "F.softmin(x, 0)", "F.layer_norm(x, x.shape[-1:])"),
    *("x.sum(1)", "x.sum(0)", "x.sum((0, 2))", "x.mean(-1)", "x.mean(0)", "x.var(1)", "x.std(-1)", "x.prod(1)"),
    *("x.amax(0)", "x.max(1)[0]", "x.max(1)[1]", "x.argmin(0)", "(x > 1).all(1)", "(x > 1).any(0)", "x.logsumexp(1)"),
    *("x.norm(dim=1)", "x.cumsum(1)", "x.cumprod(-1)", "torch.cat([x, x], 1)", "torch.cat([x, x * 1], -1)"),
    *(
        "torch.stack([x, x])",
        "torch.stack([x, x], 2)",
        "x.roll(1, 1)",
        "x.roll(1)",
        "x.flip(1)",
        "x.tril()",
        "x.triu(1)",
    ),
    *("x.masked_fill(x > 1, 0)", "x.index_select(1, rows)", "x.gather(1, zeros)", "x.scatter(1, zeros, 1.0)"),
    *("x.scatter(1, zeros, x)", "x.scatter_add(1, zeros, x)", "x.index_add(1, rows, x[:, :2])", "x.repeat(1, 1, 2)"),
    *("x.index_copy(1, rows, x[:, :2])", "x.index_fill(1, rows, 0)", "x.repeat_interleave(2, 1)", "F.pad(x, (1, 1))"),
]
#: how the dimensions of a tensor of shape (2, 3, 4) lie in memory
ORDERS = {"transposed": (0, 2, 1), "reversed": (2, 1, 0), "batch second": (1, 0, 2), "in order": (0, 1, 2)}


def _names(library: str, order: tuple[int, ...]) -> dict[str, object]:
    torch = importlib.import_module(library)
    shape = [(2, 3, 4)[dim] for dim in order]
    x = (torch.arange(24.0) / 8).reshape(shape).permute(*order)  # each of these permutations is its own inverse
    assert x.shape == (2, 3, 4)
    zeros, rows = torch.zeros(2, 3, 4, dtype=torch.int64), torch.tensor([0, 1])
    return {"torch": torch, "F": torch.nn.functional, "x": x, "zeros": zeros, "rows": rows}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("source", OPERATORS)
def test_strides_of_what_one_tensor_gives(source: str, order: tuple[int, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (eval(source, _names(library, order)) for library in ("readtorch", "torch"))
    assert ours.stride() == theirs.stride()


@pytest.mark.parametrize(
    "index", ["[:, rows]", "[..., rows]", "[rows]", "[:, rows, rows]", "[:, None, rows]", "[0, :, rows]"]
)
def test_what_is_picked_from_a_tensor_in_order_lies_in_order(index: str) -> None:
    ours, theirs = (eval(f"x{index}", _names(library, (0, 1, 2))) for library in ("readtorch", "torch"))
    assert ours.tolist() == theirs.tolist() and ours.stride() == theirs.stride()


@pytest.mark.parametrize("kind", ["double", "half", "int", "bool"])
def test_an_expanded_tensor_in_another_type_lies_in_order(kind: str) -> None:
    for library in ("readtorch", "torch"):
        torch = importlib.import_module(library)
        assert getattr(torch.ones(2, 1, 3).expand(2, 4, 3), kind)().view(8, 3).shape == (8, 3)
