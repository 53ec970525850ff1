"""`linear_cross_entropy` with options beside PyTorch 2.13.0: values, gradients, what is refused."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch
LIBRARIES = (readtorch, torch)
CLOSE = {"float64": 1e-10, "float32": 1e-5, "bfloat16": 3e-2, "float16": 3e-3}


def problem(library: Any, dtype: str, rows: int, classes: int, ignored: int = -100) -> tuple[Any, ...]:
    """Input, weight, bias, class weights and targets, the second of which is to be ignored."""
    rng = np.random.default_rng(rows * classes)
    kind = getattr(library, dtype)
    x, w, b = (
        library.tensor(rng.normal(size=shape)).to(kind).requires_grad_()
        for shape in ((rows, 4), (classes, 4), (classes,))
    )
    counts = library.tensor(rng.uniform(0.5, 2, size=(classes,))).to(kind)
    target = library.tensor(rng.integers(0, classes, size=(rows,)).tolist(), dtype=library.int64)
    if rows > 1:
        target[1] = ignored
    return x, w, b, counts, target


def plain(*tensors: Any) -> list[Any]:
    return [None if t is None else np.array(t.detach().double().tolist()) for t in tensors]


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize(("rows", "classes"), [(7, 20), (5, 3), (1, 50), (0, 11)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_values_and_gradients(dtype: str, rows: int, classes: int, reduction: str) -> None:
    choices = itertools.product(
        ({}, {"batch_chunk_size": 2}, {"chunking_method": "aspect_ratio"}, {"chunking_method": None}),
        (False, True),
        (False, True),
        (None, 2, -1),
    )
    for options, biased, weighted, ignored in choices:
        found = []
        for library in LIBRARIES:
            x, w, b, counts, target = problem(library, dtype, rows, classes, -100 if ignored is None else ignored)
            loss = library.nn.functional.linear_cross_entropy(
                x,
                w,
                target,
                linear_bias=b if biased else None,
                weight=counts if weighted else None,
                reduction=reduction,
                ignore_index=ignored,
                options=library.nn.LinearCrossEntropyOptions(**options),
            )
            assert str(loss.dtype) == f"torch.{dtype}"
            (loss * 2).sum().backward()
            found.append(plain(loss, x.grad, w.grad, b.grad))
        for ours, theirs in zip(*found, strict=True):
            if theirs is None:
                assert ours is None
            else:
                np.testing.assert_allclose(ours, theirs, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def outcome(function: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            value = function(*arguments)
        except Exception as error:
            value = type(error).__name__
    return value, [w.category.__name__ for w in said]


OPTIONS: list[dict[str, Any]] = [
    {"acc_policy": "best"},
    {"chunking_method": "aspect"},
    {"chunking_method": "aspect_ratio:"},
    {"chunking_method": "aspect_ratio:0"},
    {"chunking_method": "aspect_ratio:2"},
    {"batch_chunk_size": 0},
    {"batch_chunk_size": 2.0},
    {"batch_chunk_size": 3, "chunking_method": "aspect_ratio"},
    {"batch_chunk_size": 100},
    {"acc_dtype": "int64"},
    {"acc_dtype": "float64"},
    {"acc_dtype": "float16"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_are_checked_alike(options: dict[str, Any]) -> None:
    def call(library: Any) -> Any:
        given = {k: getattr(library, v) if k == "acc_dtype" else v for k, v in options.items()}
        x, w, _, _, target = problem(library, "float32", 7, 20)
        made = library.nn.LinearCrossEntropyOptions(**given)
        return round(library.nn.functional.linear_cross_entropy(x, w, target, options=made).item(), 4)

    ours, theirs = (outcome(call, library) for library in LIBRARIES)
    assert ours == theirs


CALLS: dict[str, Any] = {
    "a row without a batch": lambda t, F, x, w, y, o: F.linear_cross_entropy(x[0], w, y[0], options=o()).shape,
    "no class of this number": lambda t, F, x, w, y, o: F.linear_cross_entropy(x, w, y + 30, options=o()),
    "an unknown reduction": lambda t, F, x, w, y, o: F.linear_cross_entropy(x, w, y, reduction="max", options=o()),
    "smoothing": lambda t, F, x, w, y, o: F.linear_cross_entropy(x, w, y, label_smoothing=0.1, options=o()).shape,
    "probabilities": lambda t, F, x, w, y, o: F.linear_cross_entropy(x, w, t.ones(7, 20) / 20, options=o()).shape,
    "more dimensions": lambda t, F, x, w, y, o: (
        F.linear_cross_entropy(x, w.reshape(10, 2, 4), y.clamp(0, 9).unsqueeze(1).repeat(1, 2), options=o()).shape
    ),
    "no second derivative": lambda t, F, x, w, y, o: (
        t.autograd.grad(F.linear_cross_entropy(x, w, y, options=o()), x, create_graph=True)[0].requires_grad
    ),
    "rows twice": lambda t, F, x, w, y, o: [
        loss.sum().backward(retain_graph=True)
        for loss in [F.linear_cross_entropy(x, w, y, reduction="none", options=o())] * 2
    ],
    "twice": lambda t, F, x, w, y, o: [
        loss.backward(retain_graph=True) for loss in [F.linear_cross_entropy(x, w, y, options=o())] * 2
    ],
    "twice, kept": lambda t, F, x, w, y, o: [
        loss.backward(retain_graph=True)
        for loss in [F.linear_cross_entropy(x, w, y, options=o(allow_retain_graph=True))] * 2
    ],
    "a frozen weight": lambda t, F, x, w, y, o: t.autograd.grad(
        F.linear_cross_entropy(x, w.detach(), y, options=o()), [x, w], allow_unused=True
    )[1],
    "without gradients": lambda t, F, x, w, y, o: (
        t.no_grad()(F.linear_cross_entropy)(x, w, y, options=o()).requires_grad
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_is_refused_warned_of_and_returned(name: str) -> None:
    def call(library: Any) -> Any:
        x, w, _, _, target = problem(library, "float32", 7, 20, ignored=0)
        return CALLS[name](library, library.nn.functional, x, w, target, library.nn.LinearCrossEntropyOptions)

    ours, theirs = (outcome(call, library) for library in LIBRARIES)
    assert ours == theirs


def test_the_module_hands_its_options_on() -> None:
    found = []
    for library in LIBRARIES:
        library.manual_seed(0)
        layer = library.nn.LinearCrossEntropyLoss(4, 20, bias=True, options=library.nn.LinearCrossEntropyOptions())
        layer(library.ones(7, 4), library.arange(7)).backward()
        found.append(plain(layer.linear.weight.grad, layer.linear.bias.grad))
        assert "options=LinearCrossEntropyOptions(allow_retain_graph=False" in repr(layer)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
