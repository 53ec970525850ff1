"""Names that few scripts touch, beside PyTorch 2.13.0: the adaptive softmax, Muon, in-place activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

LIBRARIES = (readtorch, torch)


def same(results: list[list[Any]], tolerance: float = 1e-9) -> None:
    for a, b in zip(*results, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert tuple(a.shape) == tuple(b.shape)
            assert str(a.dtype) == str(b.dtype)
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


def refusal(call: Any) -> type[BaseException]:
    with pytest.raises(Exception) as caught:
        call()
    return caught.type


@pytest.mark.parametrize("options", [{}, {"head_bias": True, "div_value": 2.0}])
@pytest.mark.parametrize("batched", [True, False])
def test_adaptive_softmax(options: dict[str, Any], batched: bool) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((7, 8) if batched else (8,))
    classes = np.array([0, 3, 4, 9, 10, 19, 12]) if batched else np.array(12)
    results = []
    for library in LIBRARIES:
        library.manual_seed(3)
        layer = library.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], **options).double()
        x = library.tensor(rows, requires_grad=True)
        output, loss = layer(x, library.tensor(classes))
        (loss + output.pow(2).sum()).backward()
        rest = [layer.log_prob(x), layer.predict(x)] if batched else []
        results.append([output, loss, x.grad, *(p.grad for p in layer.parameters()), *rest])
        assert next(iter(layer.state_dict())) == "head.weight"
    same(results)


@pytest.mark.parametrize("cutoffs", [[], [4, 4], [10, 4], [0, 3], [20], [2.5]])
def test_adaptive_softmax_refuses_cutoffs(cutoffs: list[Any]) -> None:
    kinds = [refusal(lambda lib=lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)) for lib in LIBRARIES]
    assert kinds == [ValueError, ValueError]


@pytest.mark.parametrize(
    ("rows", "classes"), [((3, 8), [0, 1]), ((3, 8), [0, 1, 20]), ((8,), [0]), ((3, 8), [[0], [1], [2]])]
)
def test_adaptive_softmax_refuses_targets(rows: tuple[int, ...], classes: Any) -> None:
    kinds = [
        refusal(lambda lib=lib: lib.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])(lib.zeros(rows), lib.tensor(classes)))
        for lib in LIBRARIES
    ]
    assert kinds == [RuntimeError, RuntimeError]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nesterov": False, "weight_decay": 0.0},
        {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.5},
        {"ns_steps": 2, "ns_coefficients": (2.0, -1.5, 0.5)},
    ],
)
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (3, 3)])
def test_muon(options: dict[str, Any], shape: tuple[int, int]) -> None:
    pytest.importorskip("ml_dtypes", reason="Muon computes in bfloat16")
    start = np.random.default_rng(0).standard_normal(shape).astype("f4")
    results = []
    for library in LIBRARIES:
        parameter = library.nn.Parameter(library.tensor(start))
        optimizer = library.optim.Muon([parameter], lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()
        state = optimizer.state_dict()
        assert list(state["state"][0]) == ["momentum_buffer"]
        results.append([parameter, state["state"][0]["momentum_buffer"]])
    same(results, 2e-2)  # bfloat16 sums in another order


def test_muon_takes_matrices_alone() -> None:
    for arguments in ({"lr": -1.0}, {"momentum": -1.0}, {"weight_decay": -1.0}, {"adjust_lr_fn": "no"}):
        kinds = [
            refusal(lambda lib=lib, a=arguments: lib.optim.Muon([lib.nn.Parameter(lib.zeros(2, 2))], **a))
            for lib in LIBRARIES
        ]
        assert kinds == [ValueError, ValueError]
    assert [refusal(lambda lib=lib: lib.optim.Muon([lib.nn.Parameter(lib.zeros(2))])) for lib in LIBRARIES] == [
        ValueError,
        ValueError,
    ]


@pytest.mark.parametrize(
    "call",
    ["relu_(x)", "threshold_(x, 0.1, -2.0)", "hardtanh_(x, -0.5, 0.5)", "elu_(x, 0.7)", "selu_(x)", "celu_(x, 0.5)", "leaky_relu_(x, 0.2)", "rrelu_(x, 0.1, 0.1)"],
)  # fmt: skip
def test_in_place_activations(call: str) -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 4))
    results = []
    for library in LIBRARIES:
        leaf = library.tensor(numbers, requires_grad=True)
        x = leaf * 1
        out = eval(f"F.{call}", {"F": library.nn.functional, "x": x})
        assert out is x
        out.pow(2).sum().backward()
        results.append([out, leaf.grad])
    same(results)
