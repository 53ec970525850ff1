"""What hooks may answer, what a node's post-hooks see, and `del x.grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import readtorch as torch


def product() -> tuple[Any, Any]:
    x, w = torch.ones(2, requires_grad=True), torch.ones(2)
    return x, x * w


@pytest.mark.parametrize(
    ("hook", "kind", "message"),
    [
        (lambda g: (g[0], g[0]), RuntimeError, r"incorrect number of values \(got 2, but expected 1\)"),
        (lambda g: g[0] * 3, TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda g: [g[0]], TypeError, "expected tuple, but hook returned 'list'"),
        (lambda g: (3,), TypeError, "expected Variable, but hook returned 'int'"),
        (
            lambda g: (g[0].double(),),
            RuntimeError,
            r"changed the type of value \(was torch\S*.FloatTensor got torch\S*.Double",
        ),
        (lambda g: (g[0][:1],), RuntimeError, "changed the size of value"),
    ],
)
def test_a_nodes_pre_hook_answers_with_its_gradients(hook: Callable, kind: type, message: str) -> None:
    _, y = product()
    y.grad_fn.register_prehook(hook)
    with pytest.raises(kind, match=message):
        y.sum().backward()


@pytest.mark.parametrize(
    ("hook", "kind", "message"),
    [
        (lambda to, of: to[:1], RuntimeError, r"incorrect number of values \(got 1, but expected 2\)"),
        (lambda to, of: to[0], TypeError, "expected tuple"),
        (lambda to, of: (1, to[1]), TypeError, "expected Variable"),
        (lambda to, of: (to[0], to[0]), RuntimeError, "can't replace a None gradient"),
        (lambda to, of: (to[0].half(), None), RuntimeError, "changed the type of value"),
    ],
)
def test_a_nodes_post_hook_answers_with_its_gradients(hook: Callable, kind: type, message: str) -> None:
    _, y = product()
    y.grad_fn.register_hook(hook)
    with pytest.raises(kind, match=message):
        y.sum().backward()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("convert", [lambda g: g.double(), lambda g: g.to(torch.complex64), lambda g: g.to("meta")])
def test_a_tensors_hook_keeps_dtype_and_device(convert: Callable, create_graph: bool) -> None:
    for place in (0, 1):
        tensors = product()
        tensors[place].register_hook(convert)
        with pytest.raises(RuntimeError, match="hook '<lambda>' has changed the type of value"):
            tensors[1].sum().backward(create_graph=create_graph)


def test_a_hook_may_drop_a_gradient_and_scale_one() -> None:
    x, y = product()
    y.grad_fn.register_prehook(lambda g: (g[0] * 3,))
    y.grad_fn.register_hook(lambda to, of: (to[0] + of[0], None))
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]
    x, y = product()
    y.grad_fn.register_hook(lambda to, of: (None, None))
    y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_post_hook_sees_gradients_in_the_shapes_of_the_operands(create_graph: bool) -> None:
    bias, rows = torch.ones(2, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    total = bias + rows
    seen: list[tuple] = []
    total.grad_fn.register_hook(lambda to, of: seen.extend(tuple(g.shape) for g in to))
    total.sum().backward(create_graph=create_graph)
    assert seen == [(2,), (3, 2)]
    assert bias.grad.tolist() == [3, 3]


def test_what_a_post_accumulate_hook_returns_is_at_least_a_tensor() -> None:
    x = torch.ones(1, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf)
    (x * 2).backward()
    x.register_post_accumulate_grad_hook(lambda leaf: 3)
    with pytest.raises(TypeError, match="expected Variable"):
        (x * 2).backward()


def test_a_gradient_can_be_deleted() -> None:
    x = torch.ones(1, requires_grad=True)
    (x * 2).backward()
    del x.grad
    assert x.grad is None
