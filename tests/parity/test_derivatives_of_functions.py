"""torch.autograd.functional and torch.utils._pytree beside PyTorch."""

from __future__ import annotations

import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import readtorch

upstream = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

FUNCTIONS: dict[str, tuple[Callable[[Any], Callable[..., Any]], int]] = {
    "one to one": (lambda t: lambda x: (x**3).sin(), 1),
    "one to number": (lambda t: lambda x: (x**3).sum(), 1),
    "two to one": (lambda t: lambda x, y: x * y.exp() + y, 2),
    "two to two": (lambda t: lambda x, y: (x * y, (x.sum(-1) ** 2)), 2),
    "independent of one": (lambda t: lambda x, y: x * 2, 2),
    "independent of all": (lambda t: lambda x: t.ones(2, dtype=t.float64), 1),
}
NUMBERS: dict[str, tuple[Callable[..., Any], int]] = {
    "cubic": (lambda x: (x**3).sum(), 1),
    "of two": (lambda x, y: (x * y.exp()).sum() + (y**2).sum(), 2),
    "linear": (lambda x: x.sum(), 1),
}


def inputs(torch: Any, count: int, requires_grad: bool = False) -> Any:
    source = np.random.default_rng(3)
    made = tuple(torch.from_numpy(source.standard_normal((2, 3))).requires_grad_(requires_grad) for _ in range(count))
    return made if count > 1 else made[0]


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    return (tuple(value.shape), value.requires_grad, np.round(value.detach().numpy(), 9).tolist())


def told(ask: Callable[[Any], Any]) -> list[Any]:
    answers = []
    for torch in (upstream, readtorch):
        try:
            answers.append(plain(ask(torch)))
        except Exception as error:
            answers.append(type(error).__name__)
    return answers


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_and_products(name: str, create_graph: bool, strict: bool) -> None:
    make, count = FUNCTIONS[name]

    def asked(torch: Any, kind: str) -> Any:
        at = inputs(torch, count, requires_grad=create_graph)
        function, functional = make(torch), torch.autograd.functional
        options = {"create_graph": create_graph, "strict": strict}
        if kind == "jacobian":
            return functional.jacobian(function, at, **options)
        like = function(*(at if count > 1 else (at,))) if kind == "vjp" else at
        many = isinstance(like, tuple)
        v = tuple(torch.ones_like(each) * 0.5 for each in (like if many else (like,)))
        return getattr(functional, kind)(function, at, v if many else v[0], **options)

    for kind in ("jacobian", "vjp", "jvp"):
        theirs, ours = told(lambda torch, kind=kind: asked(torch, kind))
        assert ours == theirs, kind


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_hessians_and_products(name: str, create_graph: bool) -> None:
    function, count = NUMBERS[name]

    def asked(torch: Any, kind: str) -> Any:
        at = inputs(torch, count, requires_grad=create_graph)
        v = tuple(torch.ones_like(each) * 0.5 for each in (at if count > 1 else (at,)))
        ask = getattr(torch.autograd.functional, kind)
        if kind == "hessian":
            return ask(function, at, create_graph=create_graph)
        return ask(function, at, v if count > 1 else v[0], create_graph=create_graph)

    for kind in ("hessian", "vhp", "hvp"):
        theirs, ours = told(lambda torch, kind=kind: asked(torch, kind))
        assert ours == theirs, kind


@pytest.mark.parametrize(
    "ask",
    [
        lambda f, t: f.jacobian(lambda x: x, 3.0),
        lambda f, t: f.vjp(lambda x: x * 2, t.ones(2)),
        lambda f, t: f.vjp(lambda x: x * 2, t.ones(2), t.ones(3)),
        lambda f, t: f.jvp(lambda x: x * 2, t.ones(2)),
        lambda f, t: f.hessian(lambda x: x * 2, t.ones(2)),
        lambda f, t: f.vjp(lambda x: 3, t.ones(2)),
        lambda f, t: f.jacobian(lambda x: x, t.ones(2), strategy="sideways"),
    ],
)
def test_refusals(ask: Callable[[Any, Any], Any]) -> None:
    theirs, ours = told(lambda torch: ask(torch.autograd.functional, torch))
    assert theirs == ours and isinstance(ours, str)


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "nest",
    [
        3,
        [1, (2, 3), {"b": 4, "a": [5]}],
        Pair([1], {"x": (2,)}),
        OrderedDict(z=1, a=2),
        defaultdict(list, {"k": [1, 2]}),
        deque([1, [2]], maxlen=4),
        [],
        {},
        None,
    ],
)
def test_nests(nest: Any) -> None:
    trees = [importlib.import_module(f"{library}.utils._pytree") for library in ("torch", "readtorch")]
    flat = [tree.tree_flatten(nest) for tree in trees]
    assert flat[0][0] == flat[1][0] and flat[0][1].num_leaves == flat[1][1].num_leaves
    assert [tree.tree_unflatten(*pair) for tree, pair in zip(trees, flat, strict=True)] == [nest, nest]
    shown = [tree.tree_map(lambda leaf: (leaf, "seen"), nest) for tree in trees]
    assert shown[0] == shown[1] and type(shown[0]) is type(shown[1])
    doubled = [tree.tree_map_only(int, lambda leaf: leaf * 2, nest) for tree in trees]
    assert doubled[0] == doubled[1]
    for tree in trees:
        with pytest.raises(ValueError):
            tree.tree_unflatten([1] * 9, flat[trees.index(tree)][1])


def test_the_choice_of_attention_kernels_is_accepted_and_changes_nothing() -> None:
    found = []
    for torch in (upstream, readtorch):
        kernels = importlib.import_module(f"{torch.__name__}.nn.attention")
        q = torch.linspace(-1, 1, 24).view(1, 2, 3, 4)
        with kernels.sdpa_kernel([kernels.SDPBackend.MATH, kernels.SDPBackend.FLASH_ATTENTION]):
            found.append(torch.nn.functional.scaled_dot_product_attention(q, q, q).numpy())
        with pytest.raises(AssertionError):
            kernels.sdpa_kernel(3).__enter__()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
