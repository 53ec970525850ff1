"""utils.checkpoint beside PyTorch 2.13.0: gradients, runs, random numbers, refusals."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch
LIBRARIES = (readtorch, torch)


def tools(library: Any) -> Any:
    return import_module(f"{library.__name__}.utils.checkpoint")


def trained(library: Any, reentrant: bool | None, **options: Any) -> list[Any]:
    library.manual_seed(0)
    model = library.nn.Sequential(
        library.nn.Linear(4, 6), library.nn.Tanh(), library.nn.Dropout(0.5), library.nn.Linear(6, 3)
    ).double()
    x = library.tensor(np.random.default_rng(0).standard_normal((5, 4)), requires_grad=True)
    runs = []

    def function(x: Any) -> Any:
        runs.append(1)
        return model(x)

    library.manual_seed(1)
    if reentrant is None:
        out = function(x)
    else:
        out = tools(library).checkpoint(function, x, use_reentrant=reentrant, **options)
    after = library.rand(1)
    out.pow(2).sum().backward()
    return [out, x.grad, *(p.grad for p in model.parameters()), after, library.tensor(len(runs))]


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_random_numbers_and_runs(reentrant: bool) -> None:
    ours, theirs, plain = trained(readtorch, reentrant), trained(torch, reentrant), trained(readtorch, None)
    for a, b, c in zip(ours[:-1], theirs[:-1], plain[:-1], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10)
        np.testing.assert_array_equal(a.detach().numpy(), c.detach().numpy())
    assert ours[-1].item() == theirs[-1].item() == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_without_keeping_the_random_state_other_numbers_are_dropped(reentrant: bool) -> None:
    kept = trained(readtorch, reentrant)
    other = trained(readtorch, reentrant, preserve_rng_state=False)
    assert not readtorch.equal(kept[1], other[1])


def test_second_derivatives_and_a_second_backward() -> None:
    for library in LIBRARIES:
        x = library.tensor([0.5, -1.0], requires_grad=True)
        y = tools(library).checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
        first = library.autograd.grad(y.sum(), x, create_graph=True, retain_graph=True)[0]
        again = library.autograd.grad(y.sum(), x, retain_graph=True)[0]
        assert library.equal(first, again)
        second = library.autograd.grad(first.sum(), x)[0]
        e = library.tensor([0.5, -1.0]).exp()
        np.testing.assert_allclose(second.numpy(), (e * e.cos() - e * e * e.sin()).numpy(), rtol=1e-5)


@pytest.mark.parametrize("stop", [True, False])
def test_early_stop(stop: bool) -> None:
    seen = []
    for library in LIBRARIES:
        ends: list[int] = []

        def function(x: Any, ends: list[int] = ends) -> Any:
            y = x.exp()
            z = y + 1
            ends.append(1)
            return z

        x = library.ones(2, requires_grad=True)
        with tools(library).set_checkpoint_early_stop(stop):
            y = tools(library).checkpoint(function, x, use_reentrant=False)
        y.sum().backward()
        seen.append(len(ends))
        np.testing.assert_allclose(x.grad.tolist(), np.exp([1.0, 1.0]), rtol=1e-6)
    assert seen[0] == seen[1]


def test_nested_and_keywords_and_structures() -> None:
    seen = []
    for library in LIBRARIES:
        check = tools(library).checkpoint
        x = library.tensor([0.3, 0.7], dtype=library.float64, requires_grad=True)

        def inner(x: Any, *, scale: float) -> Any:
            return (x * scale).exp()

        def outer(x: Any, check: Any = check, inner: Any = inner) -> dict[str, Any]:
            return {"a": check(inner, x, scale=2.0, use_reentrant=False).sin(), "b": [x.cos()]}

        out = check(outer, x, use_reentrant=False)
        (out["a"] * out["b"][0]).sum().backward()
        seen.append(x.grad.numpy())
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-12)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_sequential(segments: int, reentrant: bool) -> None:
    seen = []
    for library in LIBRARIES:
        library.manual_seed(0)
        layers = [library.nn.Linear(3, 3) if i % 2 else library.nn.Tanh() for i in range(7)]
        model = library.nn.Sequential(*layers)
        x = library.ones(2, 3, requires_grad=True)
        tools(library).checkpoint_sequential(model, segments, x, use_reentrant=reentrant).sum().backward()
        seen.append([x.grad.numpy(), *(p.grad.numpy() for p in model.parameters())])
    for a, b in zip(*seen, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def refused(call: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as caught:
            call()
    return caught.type.__name__


REFUSALS = {
    "keywords with re-entrant": lambda t, c: c.checkpoint(lambda x, k: x, t.ones(1), use_reentrant=True, k=1),
    "contexts with re-entrant": lambda t, c: c.checkpoint(
        lambda x: x, t.ones(1), use_reentrant=True, context_fn=lambda: ()
    ),
    "unknown check": lambda t, c: c.checkpoint(lambda x: x, t.ones(1), use_reentrant=False, determinism_check="no"),
    "grad with re-entrant": lambda t, c: t.autograd.grad(
        c.checkpoint(t.exp, x := t.ones(1, requires_grad=True), use_reentrant=True), x
    ),
    "unknown keywords in sequence": lambda t, c: c.checkpoint_sequential([t.exp], 1, t.ones(1), False, k=1),
    "other shapes in the second run": lambda t, c: (
        c.checkpoint(
            lambda x, sizes=[2, 3]: x.expand(sizes.pop()).exp(),
            t.ones(1, requires_grad=True),
            use_reentrant=False,
        )
        .sum()
        .backward()
    ),
    "fewer tensors in the second run": lambda t, c: c.checkpoint(
        lambda x, powers=[1, 4]: [x := x.exp() for _ in range(powers.pop())][-1],
        t.ones(1, requires_grad=True),
        use_reentrant=False,
    ).backward(),
    "no tuple": lambda t, c: c.detach_variable([t.ones(1)]),
    "changed argument": lambda t, c: _changed(t, c),
}


def _changed(library: Any, check: Any) -> None:
    x = library.ones(2, requires_grad=True) * 1
    out = check.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    x.mul_(2)
    out.sum().backward()


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    ours, theirs = (refused(lambda lib=lib: REFUSALS[name](lib, tools(lib))) for lib in LIBRARIES)
    assert ours == theirs


def test_warnings() -> None:
    for library in LIBRARIES:
        check = tools(library)
        with pytest.warns(UserWarning, match="use_reentrant parameter should be"):
            check.checkpoint(library.exp, library.ones(1, requires_grad=True))
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
            check.checkpoint(library.exp, library.ones(1), use_reentrant=True)
