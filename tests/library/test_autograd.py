"""The engine: order, accumulation, hooks, in-place, modes, custom functions."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import readtorch as torch
from readtorch import autograd


def leaf(*shape: int) -> Any:
    return torch.ones(*shape, dtype=torch.float64).requires_grad_()


def test_a_node_runs_once_when_all_its_gradients_have_arrived() -> None:
    x = leaf(2)
    y = x * 3
    runs: list[int] = []
    y.grad_fn.register_hook(lambda grads, outs: runs.append(1))
    (y + y * y + y.exp()).sum().backward()
    assert runs == [1]
    np.testing.assert_allclose(x.grad.cpu().numpy(), 3 * (1 + 2 * 3 + np.exp(3)) * np.ones(2))


def test_backward_does_not_recurse() -> None:
    x = leaf(1)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1


def test_leaf_dies_with_its_last_user() -> None:
    x = leaf(2)
    ref = weakref.ref(x)
    y = (x * 2).sum()
    y.backward()
    del x, y
    assert ref() is None


def test_exp_keeps_its_result_without_a_circle() -> None:
    gc.disable()
    try:
        x = leaf(2)
        y = x.exp()
        ref = weakref.ref(y)
        del y
        assert ref() is None
    finally:
        gc.enable()


def test_gradient_is_not_the_array_that_backward_was_given() -> None:
    x = leaf(2)
    seed = torch.ones(2, dtype=torch.float64)
    (x + 0).backward(seed)
    x.grad.add_(1)
    assert seed.tolist() == [1.0, 1.0]


def test_two_leaves_of_a_sum_do_not_share_their_gradient() -> None:
    x, y = leaf(2), leaf(2)
    (x * 2 + y).exp().sum().backward()
    a, b = leaf(2), leaf(2)
    ((a + b) * 2).sum().backward()
    a.grad.add_(1)
    assert b.grad.tolist() == [2.0, 2.0]


def test_second_walk_fails_only_if_something_was_saved() -> None:
    x = leaf(2)
    y = (x + x).sum()
    y.backward()
    y.backward()
    z = (x * x).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


@pytest.mark.parametrize("operation", ["exp", "sigmoid", "tanh", "sqrt"])
def test_writing_to_a_saved_result_is_noticed(operation: str) -> None:
    x = leaf(2)
    y = getattr(x, operation)()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*version 1; expected version 0"):
        y.sum().backward()


def test_writing_through_a_view_or_a_detached_alias_is_noticed() -> None:
    for alias in (lambda t: t[0], lambda t: t.detach(), lambda t: t.detach()[1:]):
        x = leaf(3)
        y = x * 1
        z = y * y
        with torch.no_grad():
            alias(y).add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


def test_views_follow_when_their_base_is_rewritten() -> None:
    x = leaf(3)
    base = x * 1
    view = base[1:]
    base.mul_(5)
    view.sum().backward()
    assert x.grad.tolist() == [0.0, 5.0, 5.0]


def test_base_of_zeros_becomes_differentiable_by_a_write() -> None:
    x = leaf(2)
    out = torch.zeros(2, 2, dtype=torch.float64)
    row = out[0]
    out[0] = x * 3
    out[1] = x
    (row.sum() + out.sum()).backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_in_place_rules() -> None:
    x = leaf(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x[0].add_(1)
    with torch.no_grad():
        x.add_(1)
        view = x[0]
    with pytest.raises(RuntimeError, match="no_grad mode"):
        view.add_(1)
    with pytest.raises(RuntimeError, match="Output 1 of Unbind is a view"):
        (x * 2).unbind()[1].add_(1)


def test_hooks_run_in_the_documented_order() -> None:
    x = leaf(1)
    seen: list[str] = []
    y = x * 2
    y.register_hook(lambda g: seen.append("tensor"))
    y.retain_grad()
    y.grad_fn.register_prehook(lambda g: seen.append(f"pre {y._grad is not None}"))
    y.grad_fn.register_hook(lambda gi, go: seen.append("post"))
    x.register_hook(lambda g: seen.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(f"accumulated {p.grad.item()}"))
    y.backward()
    assert seen[0] == "tensor"
    assert seen[2:] == ["post", "leaf", "accumulated 2.0"]


def test_hook_handles_remove_and_hooks_replace_gradients() -> None:
    x = leaf(2)
    handle = x.register_hook(lambda g: g * 10)
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [11.0, 11.0]


def test_grad_runs_only_what_leads_to_the_inputs() -> None:
    x, w = leaf(2), leaf(2)
    y = x * w
    ran: list[int] = []
    side = (w * 3).exp()
    side.grad_fn.register_hook(lambda a, b: ran.append(1))
    (gx,) = autograd.grad((y + side).sum(), [x])
    assert gx.tolist() == [1.0, 1.0]
    assert not ran
    assert x.grad is None
    assert w.grad is None


def test_backward_with_inputs_leaves_other_leaves_alone() -> None:
    x, w = leaf(2), leaf(2)
    (x * w).sum().backward(inputs=[x])
    assert x.grad is not None
    assert w.grad is None


def test_third_derivative() -> None:
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y = x**5
    for expected in (80.0, 160.0, 240.0):
        (y,) = autograd.grad(y, x, create_graph=True)
        assert y.item() == expected


def test_gradient_mode_is_a_threads_own() -> None:
    x = leaf(1)
    inside, seen = threading.Event(), threading.Event()
    results: list[bool] = []

    def other() -> None:
        inside.wait(5)
        results.append((x * 2).requires_grad)
        seen.set()

    thread = threading.Thread(target=other)
    thread.start()
    with torch.no_grad():
        inside.set()
        seen.wait(5)
        results.append((x * 2).requires_grad)
    thread.join()
    assert results == [True, False]


def test_modes_as_decorators_and_generators() -> None:
    x = leaf(1)

    @torch.no_grad()
    def off() -> Any:
        yield (x * 2).requires_grad
        yield (x * 2).requires_grad

    generator = off()
    assert next(generator) is False
    assert (x * 2).requires_grad
    assert next(generator) is False
    with torch.inference_mode():
        y = x * 2
    assert y.is_inference()
    with pytest.raises(RuntimeError, match="inference tensor"):
        y.add_(1)


def test_backward_inside_backward() -> None:
    class Inner(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.detach() * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                (y * 2).sum().backward()
            return grad * y.grad

    x = leaf(2)
    Inner.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_queue_callback_runs_at_the_end() -> None:
    x = leaf(1)
    order: list[str] = []
    x.register_hook(lambda g: autograd.Variable._execution_engine.queue_callback(lambda: order.append("end")))
    x.register_post_accumulate_grad_hook(lambda p: order.append("leaf"))
    (x * 2).backward()
    assert order == ["leaf", "end"]
    with pytest.raises(RuntimeError, match="during backward"):
        autograd.Variable._execution_engine.queue_callback(lambda: None)


class Cube(autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


def test_custom_function_is_twice_differentiable() -> None:
    x = torch.tensor([1.5, -2.0], dtype=torch.float64, requires_grad=True)
    assert autograd.gradcheck(Cube.apply, (x,))
    assert autograd.gradgradcheck(Cube.apply, (x,))
    assert Cube.apply(x).grad_fn.name() == "CubeBackward"


def test_gradcheck_finds_a_wrong_derivative() -> None:
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    x = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    assert not autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        autograd.gradcheck(Wrong.apply, (x,))


def test_saved_tensor_hooks_pack_and_unpack() -> None:
    x = leaf(2)
    packed: list[Any] = []

    def pack(tensor: Any) -> int:
        packed.append(tensor.tolist())
        return len(packed) - 1

    with autograd.graph.saved_tensors_hooks(pack, lambda i: torch.tensor(packed[i], dtype=torch.float64)):
        y = (x * x).exp()
    y.sum().backward()
    assert len(packed) == 3
    np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * np.e * np.ones(2))


def test_once_differentiable_refuses_the_second_derivative() -> None:
    class Once(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @autograd.function.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 * ctx.saved_tensors[0]

    x = leaf(1)
    (g,) = autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_mark_dirty_and_non_differentiable() -> None:
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            sign = x.sign()
            ctx.mark_dirty(x)
            ctx.mark_non_differentiable(sign)
            return x, sign

        @staticmethod
        def backward(ctx: Any, grad: Any, unused: Any) -> Any:
            assert unused.tolist() == [0.0]
            return grad * 2

    x = leaf(1)
    y = x * 1
    z, sign = Double.apply(y)
    assert z is y
    assert not sign.requires_grad
    z.sum().backward()
    assert x.grad.item() == 2


def test_retain_grad_keeps_the_gradient_of_the_tensor_as_it_is_after_writes() -> None:
    leaf = torch.ones(2, requires_grad=True)
    hidden = leaf * 2
    hidden.retain_grad()
    hidden.mul_(3)
    hidden[0].mul_(5)
    hidden.sum().backward()
    assert hidden.grad.tolist() == [1, 1] and leaf.grad.tolist() == [30, 6]


def test_gradients_are_accumulated_in_the_grad_dtype_of_a_leaf() -> None:
    leaf = torch.ones(1, dtype=torch.float16, requires_grad=True)
    leaf.grad_dtype = torch.float32
    for factor in (2048.0, 1.0):
        (leaf * factor).sum().backward()
    assert leaf.grad.dtype is torch.float32 and leaf.grad.item() == 2049


# gradients that are kept instead of copied


@pytest.mark.cpu("counts NumPy's memory")
def test_a_weights_gradient_is_not_copied_on_its_way() -> None:
    layer = torch.nn.Linear(300, 200)
    x = torch.randn(50, 300)

    loss = layer(x).sum()
    tracemalloc.start()
    loss.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert layer.weight.nbytes < peak < 2 * layer.weight.nbytes


def test_a_linear_layers_gradient_lies_as_its_weight_lies() -> None:
    layer = torch.nn.Linear(4, 3)
    layer(torch.randn(5, 4)).sum().backward()
    assert layer.weight.grad.is_contiguous()
    plain = torch.randn(4, 3, requires_grad=True)
    torch.addmm(torch.zeros(3), torch.randn(5, 4), plain).sum().backward()
    assert plain.grad.is_contiguous()


@pytest.mark.parametrize("view", [lambda t: t.t(), lambda t: t.view(6), lambda t: t.unsqueeze(0), lambda t: t.t().t()])
def test_gradients_through_views_are_nobody_elses(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    a, b = (torch.randn(2, 3, requires_grad=True) for _ in range(2))
    seen = []
    out = view(a) * 2 + view(b) * 2
    out.register_hook(seen.append)
    inner = view(a)
    inner.retain_grad()
    (out.sum() + (inner * 3).sum()).backward()
    first = [seen[0].clone(), inner.grad.clone(), a.grad.clone(), b.grad.clone()]
    a.grad.add_(100)
    assert torch.equal(b.grad, first[3])
    b.grad.add_(100)
    assert torch.equal(seen[0], first[0])
    assert torch.equal(inner.grad, first[1])


def test_a_gradient_that_was_captured_or_hooked_is_not_written_to() -> None:
    leaf = torch.randn(3, 2, requires_grad=True)
    middle = leaf.t()
    (captured,) = torch.autograd.grad((middle * torch.ones(2, 3)).sum(), middle, retain_graph=True)
    before = captured.clone()
    kept = []
    middle = leaf.t()
    middle.register_hook(lambda grad: kept.append(grad) or grad)
    for _ in range(2):
        (middle * 2.0).sum().backward(retain_graph=True)
    assert torch.equal(captured, before)
    assert [k.tolist() for k in kept] == [[[2.0] * 3] * 2] * 2
    assert leaf.grad.tolist() == [[4.0] * 2] * 3


def test_functions_that_return_a_view_of_what_they_keep() -> None:
    kept = torch.ones(2, 3)

    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return kept.view(3, 2)

    x = torch.randn(3, 2, requires_grad=True)
    Keeping.apply(x).sum().backward()
    x.grad.zero_()
    assert kept.sum() == 6
