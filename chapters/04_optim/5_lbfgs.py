# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # L-BFGS: the one optimizer that needs its closure
#
# The others read a gradient that is already there. A quasi-Newton method moves along a line and has to know the loss *there*, and the gradient, several
# times in one `step`. That is what the closure is for; for every other optimizer it is a convenience.

# %%
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor, nn, optim
from readtorch.literate import live
from readtorch.optim.optimizer import Optimizer, ParamsT, _to_scalar

live()

# %%
#| into: optim/lbfgs.py
"""Limited-memory BFGS (Liu & Nocedal 1989), with a strong-Wolfe line search by cubic interpolation."""

# %%
#| into: optim/lbfgs.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _check_lr_tensor, _check_not_negative, _to_scalar

# %% [markdown]
# ## Where is the minimum between two points?
#
# Two values and two slopes determine a cubic. Its minimum has a closed form, which is then kept inside the bounds; where the cubic has none
# (the root is negative), the middle will do.


# %%
#| into: optim/lbfgs.py
#| upstream: torch/optim/lbfgs.py#_cubic_interpolate
@dataclass(slots=True)
class _Point:
    """A point on the search line: step length, loss, flat gradient, slope along the direction."""

    t: Any
    loss: Any
    grad: Tensor
    slope: Any


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimiser of the cubic through `a` and `b`, clamped to `bounds` (default: the interval between them)."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    left, right = (a, b) if a.t <= b.t else (b, a)
    position = right.t - (right.t - left.t) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2))
    return min(max(position, low), high)


# %% [markdown]
# ## Strong Wolfe: far enough down, and flat enough
#
# A step is accepted when the loss fell by at least `c1` of what the slope promised and the slope is at most `c2` of what it was. The search
# first brackets such a step by going further and further, then shrinks the bracket.


# %%
#| into: optim/lbfgs.py
#| upstream: torch/optim/lbfgs.py#_strong_wolfe
def _strong_wolfe(
    evaluate: Callable[[Any], _Point],
    start: _Point,
    t: Any,
    direction_size: Any,
    *,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[_Point, int]:
    """Search along a line from `start`, first at step `t`; returns the accepted point and the number of evaluations.

    `evaluate(t)` gives the point at step `t`; `direction_size` is the largest component of the direction.
    """

    def rises(point: _Point, than: _Point) -> bool:
        return bool(point.loss > start.loss + c1 * point.t * start.slope) or bool(point.loss >= than.loss)

    def is_flat(point: _Point) -> bool:
        return bool(abs(point.slope) <= -c2 * start.slope)

    evaluations = 1
    previous, point = start, evaluate(t)
    bracket: list[_Point] = []
    iteration = 0
    while iteration < max_ls:
        too_high = point.loss > start.loss + c1 * point.t * start.slope
        if too_high or (evaluations > 1 and point.loss >= previous.loss):
            bracket = [previous, point]
            break
        if is_flat(point):
            return point, evaluations
        if point.slope >= 0:
            bracket = [previous, point]
            break
        bounds = (point.t + 0.01 * (point.t - previous.t), point.t * 10)
        further = _cubic_minimum(previous, point, bounds)
        previous, point = point, evaluate(further)
        evaluations += 1
        iteration += 1
    else:
        bracket = [start, point]

    low, high = sorted(bracket, key=lambda p: p.loss)
    stalled = False
    while iteration < max_ls:
        left, right = sorted((low.t, high.t))
        if (right - left) * direction_size < tolerance_change:
            break
        t = _cubic_minimum(bracket[0], bracket[1])
        #: A guess within a tenth of the bracket's end, twice in a row, is pushed inwards, else shrinking would stall.
        margin = 0.1 * (right - left)
        near_an_end = min(right - t, t - left) < margin
        if near_an_end and (stalled or t >= right or t <= left):
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            near_an_end = False
        stalled = bool(near_an_end)
        point = evaluate(t)
        evaluations += 1
        iteration += 1
        replaced = high
        if rises(point, low):
            high = point
        else:
            if is_flat(point):
                return point, evaluations
            if point.slope * (high.t - low.t) >= 0:
                high = low
            low = point
        bracket = [low, high] if replaced is high else [high, low]
        if high.loss < low.loss:
            low, high = high, low
    return low, evaluations


# %%
#| into: optim/lbfgs.py
#| upstream: torch/optim/lbfgs.py#LBFGS
class LBFGS(Optimizer):
    """L-BFGS over all parameters as one flat vector; one parameter group only.

    `lr` scales every step; `max_iter` iterations and `max_eval` (default 5/4 of them) evaluations per `step` at most; ends
    early when the largest gradient component is below `tolerance_grad` or the change below `tolerance_change`. Memory:
    `history_size` + 1 copies of the parameters. `line_search_fn`: None or "strong_wolfe".

    State is kept under the first parameter. Raises ValueError for several groups or a negative `lr`.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(lr=("learning rate", lr))
        defaults = {
            "lr": _to_scalar(lr),
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        pieces = []
        for param in self._params:
            grad = torch.zeros_like(param) if param.grad is None else param.grad
            pieces.append(torch.view_as_real(grad).reshape(-1) if torch.is_complex(grad) else grad.reshape(-1))
        return torch.cat(pieces, 0)

    def _move(self, t: Any, direction: Tensor) -> None:
        """Add `t` times the flat `direction` to the parameters, in place."""
        offset = 0
        for param in self._params:
            target = torch.view_as_real(param) if torch.is_complex(param) else param
            size = target.numel()
            target.add_(direction[offset : offset + size].view_as(target), alpha=float(t))
            offset += size

    def _set(self, values: list[Tensor]) -> None:
        for param, value in zip(self._params, values, strict=True):
            param.copy_(value)


# %% [markdown]
# The direction comes from the two-loop recursion: multiply by the inverse Hessian without forming it, from the last steps `s` and gradient
# differences `y`. A pair whose curvature $y^\top s$ is not clearly positive would make the estimate indefinite; it is dropped.


# %%
#| into: optim/lbfgs.py
#| upstream: torch/optim/lbfgs.py#LBFGS.step
class LBFGS(LBFGS):
    def _direction(self, state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """The next direction; takes the last step into the history first."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        change = grad.sub(state["prev_flat_grad"])
        step = state["d"].mul(state["t"])
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(state["old_dirs"]) == history_size:
                for history in ("old_dirs", "old_stps", "ro"):
                    state[history].pop(0)
            state["old_dirs"].append(change)
            state["old_stps"].append(step)
            state["ro"].append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        memory = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        weights = state.setdefault("al", [None] * history_size)
        q = grad.neg()
        for i, (y, s, ro) in reversed(list(enumerate(memory))):
            weights[i] = s.dot(q) * ro
            q.add_(y, alpha=-float(weights[i]))
        direction = q.mul(state["H_diag"])
        for i, (y, s, ro) in enumerate(memory):
            direction.add_(s, alpha=float(weights[i] - y.dot(direction) * ro))
        return direction

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Iterate until a tolerance or a limit is reached; `closure` clears the gradients, computes the loss and backward.

        Returns the loss before the first iteration.
        """
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = self._evaluate(closure)
        loss = float(first_loss)
        grad = self._flat_grad()
        evaluations = 1
        state["func_evals"] += 1
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone()
            previous_loss = loss
            lr = group["lr"]
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction)
            state.update(d=direction, t=t, prev_loss=previous_loss)
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is not None:
                point, used = self._search(closure, _Point(0, loss, grad, slope), t, direction, group)
                loss, grad, t = point.loss, point.grad, point.t
                self._move(t, direction)
                state["t"] = t
            else:
                self._move(t, direction)
                used = 0
                if iteration != group["max_iter"]:
                    #: The last iteration skips this evaluation: its gradient would not be used.
                    loss = float(self._evaluate(closure))
                    grad = self._flat_grad()
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if evaluations >= group["max_eval"] or grad.abs().max() <= group["tolerance_grad"]:
                break
            if direction.mul(t).abs().max() <= group["tolerance_change"]:
                break
            if abs(loss - previous_loss) < group["tolerance_change"]:
                break
        return first_loss

    def _search(
        self, closure: Callable[[], Any], start: _Point, t: Any, direction: Tensor, group: dict[str, Any]
    ) -> tuple[_Point, int]:
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        origin = [param.clone(memory_format=torch.contiguous_format) for param in self._params]

        def evaluate(step: Any) -> _Point:
            self._move(step, direction)
            loss = float(self._evaluate(closure))
            grad = self._flat_grad()
            self._set(origin)
            return _Point(step, loss, grad, grad.dot(direction))

        return _strong_wolfe(evaluate, start, t, direction.abs().max(), tolerance_change=group["tolerance_change"])


# %% [markdown]
# A narrow curved valley, where plain gradient steps zigzag:


# %%
def rosenbrock(p: Tensor) -> Tensor:
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


p = nn.Parameter(torch.tensor([-1.5, 2.0]))
optimizer = optim.LBFGS([p], max_iter=50, line_search_fn="strong_wolfe")


def closure() -> Tensor:
    optimizer.zero_grad()
    loss = rosenbrock(p)
    loss.backward()
    return loss


optimizer.step(closure)
p.data, optimizer.state[p]["func_evals"]
