"""A gradient handed to several nodes is added to by none of them: random graphs, differentiated with and without in-place addition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import readtorch as torch
import readtorch.nn.functional as F

Tensor = torch.Tensor
ROWS, COLUMNS = 3, 4

#: Each takes two tensors of (2, 3, 4) and a weight of (4, 4), and gives another (2, 3, 4). Their derivatives hand gradients on as they came, as views, or made anew.
STEPS: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
    lambda a, b, w: a + b,
    lambda a, b, w: a - b,
    lambda a, b, w: b - a * 0.5,
    lambda a, b, w: sum([a, b, a]),
    lambda a, b, w: F.linear(a, w) + b,
    lambda a, b, w: F.linear(a, w),
    lambda a, b, w: a @ w,
    lambda a, b, w: F.layer_norm(a, (COLUMNS,)),
    lambda a, b, w: F.layer_norm(a, (COLUMNS,)) @ w + a,
    lambda a, b, w: torch.cat((a[..., :2], b[..., 2:]), -1),
    lambda a, b, w: torch.stack((a, b)).sum(0),
    lambda a, b, w: torch.stack((a, b), -1).mean(-1),
    lambda a, b, w: a.reshape(2, -1).view(2, ROWS, COLUMNS) + a,
    lambda a, b, w: a.transpose(0, 1).contiguous().transpose(0, 1) + b,
    lambda a, b, w: a.flatten().unflatten(0, (2, ROWS, COLUMNS)),
    lambda a, b, w: torch.cat(a.chunk(2, -1)[::-1], -1),
    lambda a, b, w: a.permute(2, 0, 1).flip(0).permute(1, 2, 0) + b,
    lambda a, b, w: a * torch.sigmoid(b),
    lambda a, b, w: a.tanh() + a,
    lambda a, b, w: torch.softmax(a, -1) + b,
    lambda a, b, w: a.mean(-1, keepdim=True) + b,
    lambda a, b, w: a.expand(2, 2, ROWS, COLUMNS).sum(0),
    lambda a, b, w: torch.where(a > b, a, b),
    lambda a, b, w: torch.maximum(a, b) + torch.minimum(a, b),
    lambda a, b, w: F.dropout(a, 0.0) + b.clone(),
    lambda a, b, w: torch.einsum("brc,cd->brd", a, w),
    lambda a, b, w: torch.lerp(a, b, 0.25),
    lambda a, b, w: torch.addcmul(a, b, b, value=0.5),
    lambda a, b, w: a.movedim(0, -1).movedim(-1, 0).squeeze().unsqueeze(0).squeeze(0),
    lambda a, b, w: a[:, [2, 0, 1]] + b.roll(1, -1),
]


def gradients(seed: int, create_graph: bool) -> list[np.ndarray]:
    source = np.random.default_rng(seed)
    leaves = [torch.from_numpy(source.standard_normal((2, ROWS, COLUMNS))).requires_grad_() for _ in range(2)]
    weights = [torch.from_numpy(source.standard_normal((COLUMNS, COLUMNS)) / 2).requires_grad_() for _ in range(3)]
    made = list(leaves)
    for _ in range(int(source.integers(3, 10))):
        step = STEPS[source.integers(len(STEPS))]
        a, b = made[-1], made[source.integers(len(made))]
        made.append(step(a, b, weights[source.integers(len(weights))]))
    total = (made[-1] ** 2).sum() + made[source.integers(len(made))].sum()
    inputs = leaves + weights
    grads = torch.autograd.grad(total, inputs, create_graph=create_graph, allow_unused=True, materialize_grads=True)
    return [grad.detach().numpy() for grad in grads]


@pytest.mark.cpu("the arrays are NumPy's; what the engine may add to in place is decided by one rule on every device")
def test_gradients_are_those_of_the_differentiable_backward_in_random_graphs() -> None:
    for seed in range(400):
        for plain, differentiable in zip(gradients(seed, False), gradients(seed, True), strict=True):
            np.testing.assert_allclose(plain, differentiable, rtol=1e-9, atol=1e-9, err_msg=f"graph {seed}")


def test_a_view_handed_to_both_branches_of_a_residual_is_added_to_by_neither() -> None:
    """Of a public vision transformer with parallel branches: the gradient came as a view, and both branches took it for theirs."""
    torch.manual_seed(0)
    weight = torch.randn(4, 4, dtype=torch.float64)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)

    def block(h: Tensor) -> Tensor:
        return sum([F.layer_norm(h, (4,)) @ weight, F.layer_norm(h, (4,)) @ weight.T]) + h

    y = (block(block(x * 2)) ** 2).sum()
    (differentiable,) = torch.autograd.grad(y, x, create_graph=True)
    (plain,) = torch.autograd.grad(y, x)
    assert torch.allclose(plain, differentiable)
