"""Constraints on weights, pruning, and the rarer layers beside PyTorch 2.13.0."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch


def both(run: Callable[[Any], list[Any]]) -> None:
    """Run on both libraries and compare tensors, everything else by equality; or the types of the errors."""
    results: list[Any] = []
    for library in (readtorch, torch):
        library.manual_seed(4)
        try:
            results.append(run(library))
        except Exception as error:
            results.append(type(error).__name__)
    ours, theirs = results
    if isinstance(ours, str) or isinstance(theirs, str):
        assert ours == theirs
        return
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if hasattr(b, "detach"):
            assert str(a.dtype) == str(b.dtype)
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-8, err_msg=f"value {number}"
            )
        else:
            assert a == b


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder", "no such map"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)], ids=str)
def test_orthogonal_weights_and_their_gradients(shape: tuple[int, int], kind: str | None, base: bool) -> None:
    def run(library: Any) -> list[Any]:
        orthogonal = library.nn.utils.parametrizations.orthogonal
        layer = library.nn.Linear(*shape, bias=False).double()
        layer = orthogonal(layer, orthogonal_map=kind, use_trivialization=base)
        (layer(library.arange(2.0 * shape[0]).reshape(2, -1).double() / 10) ** 3).sum().backward()
        original = layer.parametrizations.weight.original
        found = [layer.weight, original, original.grad, repr(layer), *layer.state_dict()]
        layer.weight = library.ones(shape[1], shape[0]).double() + library.eye(shape[1], shape[0]).double()
        return [*found, layer.weight]

    both(run)


@pytest.mark.parametrize("bad", ["name", "vector", "complex"])
def test_what_cannot_be_orthogonal(bad: str) -> None:
    def run(library: Any) -> list[Any]:
        dtype = library.complex128 if bad == "complex" else library.float64
        layer = library.nn.Linear(3, 3, dtype=dtype)
        name = {"name": "nothing", "vector": "bias", "complex": "weight"}[bad]
        library.nn.utils.parametrizations.orthogonal(layer, name, "householder")
        return []

    both(run)


PRUNINGS: dict[str, Callable[[Any, Any], Any]] = {
    "l1": lambda prune, layer: prune.l1_unstructured(layer, "weight", 0.3),
    "l1, a number": lambda prune, layer: prune.l1_unstructured(layer, "weight", 7),
    "none": lambda prune, layer: prune.l1_unstructured(layer, "weight", 0),
    "too many": lambda prune, layer: prune.l1_unstructured(layer, "weight", 70),
    "more than all": lambda prune, layer: prune.l1_unstructured(layer, "weight", 1.5),
    "of a word": lambda prune, layer: prune.l1_unstructured(layer, "weight", "all"),
    "by scores": lambda prune, layer: prune.l1_unstructured(
        layer, "weight", 0.3, importance_scores=-layer.weight.abs()
    ),
    "by scores of another shape": lambda prune, layer: prune.l1_unstructured(layer, "weight", 0.3, layer.bias),
    "random": lambda prune, layer: prune.random_unstructured(layer, "weight", 0.3),
    "random channels": lambda prune, layer: prune.random_structured(layer, "weight", 2, dim=1),
    "channels": lambda prune, layer: prune.ln_structured(layer, "weight", 0.5, n=2, dim=-1),
    "channels of nothing": lambda prune, layer: prune.ln_structured(layer, "bias", 0.5, n=2, dim=0),
    "channels of dimension 2": lambda prune, layer: prune.ln_structured(layer, "weight", 0.5, n=2, dim=2),
    "identity": lambda prune, layer: prune.identity(layer, "bias"),
    "no such parameter": lambda prune, layer: prune.identity(layer, "nothing"),
    "twice": lambda prune, layer: prune.ln_structured(prune.l1_unstructured(layer, "weight", 0.5), "weight", 1, 1, 0),
    "thrice": lambda prune, layer: prune.identity(PRUNINGS["twice"](prune, layer), "weight"),
    "removed": lambda prune, layer: prune.remove(prune.l1_unstructured(layer, "weight", 0.5), "weight"),
    "removed without need": lambda prune, layer: prune.remove(layer, "weight"),
    "everywhere": lambda prune, layer: prune.global_unstructured(
        [(layer, "weight"), (layer, "bias")], prune.L1Unstructured, amount=0.4
    ),
    "everywhere by channels": lambda prune, layer: prune.global_unstructured(
        [(layer, "weight")], prune.RandomStructured, amount=0.4
    ),
}


@pytest.mark.parametrize("name", PRUNINGS)
def test_pruning(name: str) -> None:
    def run(library: Any) -> list[Any]:
        prune = importlib.import_module(f"{library.__name__}.nn.utils.prune")
        layer = library.nn.Linear(5, 4).double()
        with library.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(
                    library.linspace(-1, 1.3, parameter.numel(), dtype=library.float64).reshape(parameter.shape).sin()
                )
        PRUNINGS[name](prune, layer)
        layer(library.ones(2, 5).double()).pow(2).sum().backward()
        state = layer.state_dict()
        grads = [parameter.grad for parameter in layer.parameters()]
        return [*state, *state.values(), *grads, layer.weight, prune.is_pruned(layer)]

    both(run)


@pytest.mark.parametrize("channels", [3, 7, 12])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_response_normalization_across_maps(size: int, channels: int) -> None:
    numbers = np.random.default_rng(0).standard_normal((2, channels, 3, 2))

    def run(library: Any) -> list[Any]:
        layer = library.nn.CrossMapLRN2d(size, alpha=0.3, beta=0.8, k=1.5)
        x = library.from_numpy(numbers.copy()).requires_grad_()
        y = layer(x)
        (y**2 * library.arange(channels).double()[:, None, None]).sum().backward()
        return [y, x.grad, repr(layer)]

    both(run)
    both(lambda library: [library.nn.CrossMapLRN2d(size)(library.ones(3, 4))])


LOSSES: dict[str, tuple[dict[str, Any], tuple[int, ...], Any]] = {
    "classes": ({}, (4, 5), [0, 2, 1, 2]),
    "bias": ({"bias": True}, (4, 5), [0, 2, 1, 2]),
    "smoothed": ({"label_smoothing": 0.2, "reduction": "sum"}, (4, 5), [0, 2, 1, 2]),
    "ignoring": ({"ignore_index": 2, "reduction": "none"}, (4, 5), [0, 2, 1, 2]),
    "one": ({}, (5,), 1),
    "further dimensions": ({"out_features": (2,), "bias": True}, (2, 5), [[0, 1], [2, 2]]),
    "further dimensions of one": ({"out_features": (2,)}, (5,), [0, 1]),
    "probabilities": ({}, (2, 5), [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]),
    "probabilities, ignoring": ({"ignore_index": 1}, (2, 5), [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]),
    "wrong width": ({}, (4, 6), [0, 2, 1, 2]),
    "three dimensions": ({}, (1, 4, 5), [0, 2, 1, 2]),
    "too smooth": ({"label_smoothing": 2.0}, (4, 5), [0, 2, 1, 2]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_linear_cross_entropy(name: str) -> None:
    options, shape, target = LOSSES[name]
    numbers = np.random.default_rng(0).standard_normal(shape)

    def run(library: Any) -> list[Any]:
        loss = library.nn.LinearCrossEntropyLoss(5, 3, **options, dtype=library.float64)
        with library.no_grad():
            for parameter in loss.parameters():
                parameter.copy_(
                    library.linspace(-1, 1, parameter.numel(), dtype=library.float64).reshape(parameter.shape)
                )
        x = library.from_numpy(numbers.copy()).requires_grad_()
        wanted = library.tensor(target)
        y = loss(x, wanted.double() if wanted.is_floating_point() else wanted)
        y.sum().backward()
        return [y, x.grad, *(parameter.grad for parameter in loss.parameters()), repr(loss), *loss.state_dict()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(run)
