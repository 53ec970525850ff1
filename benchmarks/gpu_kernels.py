"""Work of the CUDA kernels for benchmarks/gpu.py: what each moves, how it is called, what PyTorch does instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from readtorch.aten.native.cuda import (
    activation_gelu_kernel,
    convolution_mm2d,
    dropout,
    embedding_backward_kernel,
    foreach_ternary_op,
    fused_adam_kernel,
    fused_sgd_kernel,
    im2_col,
    layer_norm_kernel,
    loss,
    normalization,
    soft_max,
)

Run = Callable[[], Any]


@dataclass
class Work:
    """One row. `bytes` is what has to be moved at least; the goals are those of PERFORMANCE: at most so many times PyTorch's time,
    at least this share of the speed at which the device copies. None: not asked for.
    """

    name: str
    bytes: int
    ours: Run
    peers: dict[str, Run]
    times: dict[str, float]
    share: float | None = None


@dataclass
class Bench:
    """Where arrays are made: CuPy's and, over the same memory, PyTorch's; or NumPy's alone, `scale` times smaller in one dimension."""

    xp: Any
    torch: Any = None
    scale: int = 1

    def __post_init__(self) -> None:
        self.rng = self.xp.random.default_rng(0)

    def normal(self, *shape: int) -> Any:
        if self.scale < 0:  # sizes alone matter: memory that is never touched
            return self.xp.empty(shape, np.float32)
        return self.rng.standard_normal(shape, dtype=np.float32)

    def integers(self, high: int, *shape: int) -> Any:
        return self.xp.asarray(np.random.default_rng(0).integers(0, high, shape))

    def few(self, count: int) -> int:
        """A count, smaller in a dry run."""
        return max(1, count // abs(self.scale)) if self.scale > 0 else count

    def to_torch(self, *arrays: Any) -> list[Any]:
        return [self.torch.from_dlpack(array) for array in arrays]

    def peers(self, make: Callable[[Any], dict[str, Run]]) -> dict[str, Run]:
        return {} if self.torch is None else make(self.torch)


def _gradient(torch: Any, result: Any, inputs: list[Any], grad: Any) -> Run:
    return partial(torch.autograd.grad, result, inputs, grad, retain_graph=True)


def batch_norm(b: Bench, last: bool = False) -> Iterator[Work]:
    shape = (b.few(256), 64, 56, 56)
    x, dy = b.normal(*shape), b.normal(*shape)
    w, bias = b.normal(64), b.normal(64)
    running = [b.normal(64), b.xp.ones(64, np.float32)]
    if last:
        x, dy = (b.xp.moveaxis(b.xp.ascontiguousarray(b.xp.moveaxis(a, 1, -1)), -1, 1) for a in (x, dy))
    _, mean, invstd = normalization.native_batch_norm(x, w, bias, *running, True, 0.1, 1e-5)
    forward = partial(normalization.native_batch_norm, x, w, bias, *running, True, 0.1, 1e-5)
    backward = partial(normalization.native_batch_norm_backward, dy, x, w, None, None, mean, invstd, True, 1e-5)
    layout = ", channels last" if last else ""

    def peers(torch: Any, back: bool) -> dict[str, Run]:
        tx, tdy, tw, tb, tm, tv = b.to_torch(x, dy, w, bias, *(a.copy() for a in running))
        if not back:
            return {"torch": partial(torch.nn.functional.batch_norm, tx, tm, tv, tw, tb, True)}
        leaves = [t.clone().requires_grad_() for t in (tx, tw, tb)]
        y = torch.nn.functional.batch_norm(leaves[0], tm, tv, leaves[1], leaves[2], True)
        return {"torch": _gradient(torch, y, leaves, tdy)}

    yield Work(
        f"batch norm, forward{layout}", 12 * x.size, forward, b.peers(partial(peers, back=False)), {"torch": 1.3}, 0.65
    )
    yield Work(
        f"batch norm, backward{layout}", 20 * x.size, backward, b.peers(partial(peers, back=True)), {"torch": 1.3}, 0.65
    )


def layer_norm(b: Bench, rows: int = 65_536, width: int = 1024) -> Iterator[Work]:
    rows = b.few(rows)
    x, dy, w, bias = b.normal(rows, width), b.normal(rows, width), b.normal(width), b.normal(width)
    _, mean, rstd = layer_norm_kernel.native_layer_norm(x, (width,), w, bias, 1e-5)
    forward = partial(layer_norm_kernel.native_layer_norm, x, (width,), w, bias, 1e-5)
    backward = partial(layer_norm_kernel.native_layer_norm_backward, dy, x, (width,), mean, rstd, w)

    def peers(torch: Any, back: bool) -> dict[str, Run]:
        tx, tdy, tw, tb = b.to_torch(x, dy, w, bias)
        if not back:
            return {"torch": partial(torch.nn.functional.layer_norm, tx, (width,), tw, tb)}
        leaves = [t.clone().requires_grad_() for t in (tx, tw, tb)]
        return {
            "torch": _gradient(torch, torch.nn.functional.layer_norm(leaves[0], (width,), *leaves[1:]), leaves, tdy)
        }

    yield Work(
        f"layer norm {width}, forward", 8 * x.size, forward, b.peers(partial(peers, back=False)), {"torch": 1.3}, 0.65
    )
    yield Work(
        f"layer norm {width}, backward", 12 * x.size, backward, b.peers(partial(peers, back=True)), {"torch": 1.3}, 0.65
    )


def softmax(b: Bench, rows: int = 65_536, width: int = 1024) -> Iterator[Work]:
    rows = b.few(rows)
    x, dy = b.normal(rows, width), b.normal(rows, width)
    y = soft_max._softmax(x, 1)
    forward, backward = partial(soft_max._softmax, x, 1), partial(soft_max._softmax_backward_data, dy, y, 1)

    def peers(torch: Any, back: bool) -> dict[str, Run]:
        tx, tdy, ty = b.to_torch(x, dy, y)
        if back:
            return {"torch": partial(torch._softmax_backward_data, tdy, ty, 1, torch.float32)}
        return {"torch": partial(torch.softmax, tx, 1)}

    yield Work(f"softmax {width}, forward", 8 * x.size, forward, b.peers(partial(peers, back=False)), {"torch": 1.2})
    yield Work(f"softmax {width}, backward", 12 * x.size, backward, b.peers(partial(peers, back=True)), {"torch": 1.2})


def cross_entropy(b: Bench) -> Iterator[Work]:
    rows, width = b.few(8192), 32_000
    x, target = b.normal(rows, width), b.integers(width, rows)
    shares = b.xp.full(rows, 1 / rows, np.float32)

    def ours() -> Any:
        losses, log_sums = loss.cross_entropy_forward(x, target, None, -100)
        return losses.mean(), loss.cross_entropy_backward(shares, x, target, log_sums, -100)

    def separate() -> Any:
        log = soft_max._log_softmax(x, 1)
        value, _ = loss.nll_loss_forward(log, target, None, 1, -100)
        grad = loss.nll_loss_backward(b.xp.ones((), np.float32), log, target, None, 1, -100)
        return value, soft_max._log_softmax_backward_data(grad, log, 1)

    def peers(torch: Any) -> dict[str, Run]:
        tx, tt = b.to_torch(x, target)
        tx = tx.requires_grad_()

        def run() -> Any:
            return torch.autograd.grad(torch.nn.functional.cross_entropy(tx, tt), tx)

        return {"torch": run}

    yield Work("log-softmax and NLL, fused, forward and backward", 12 * x.size, ours, b.peers(peers), {"torch": 1.2})
    yield Work("the same by two operators", 24 * x.size, separate, b.peers(peers), {"torch": 1.2})


def optimizers(b: Bench) -> Iterator[Work]:
    count, each = 100, b.few(1_000_000)
    size = count * each
    lists = [[b.normal(each) for _ in range(count)] for _ in range(4)]
    params, grads, moments, seconds = lists
    for second in seconds:
        if b.scale >= 0:
            second[...] = abs(second)
    settings = {"lr": 1e-3, "weight_decay": 0.0, "maximize": False}
    adam = partial(
        fused_adam_kernel.adam, *lists, None, 10.0, beta1=0.9, beta2=0.999, eps=1e-8, decoupled=False, **settings
    )
    sgd = partial(fused_sgd_kernel.sgd, params, grads, moments, momentum=0.9, dampening=0.0, nesterov=False, **settings)
    ema = partial(foreach_ternary_op.lerp, params, grads, 0.001)

    def tensors(torch: Any) -> list[Any]:
        found = []
        for param, grad in zip(params, grads, strict=True):
            (p, g) = b.to_torch(param, grad)
            leaf = torch.nn.Parameter(p.clone())
            leaf.grad = g
            found.append(leaf)
        return found

    def steps(torch: Any, name: str, **choices: dict[str, Any]) -> dict[str, Run]:
        return {which: getattr(torch.optim, name)(tensors(torch), **options).step for which, options in choices.items()}

    def averages(torch: Any) -> dict[str, Run]:
        start, end = b.to_torch(*params), b.to_torch(*grads)
        return {"torch foreach": partial(torch._foreach_lerp_, start, end, 0.001)}

    adam_peers = b.peers(
        lambda torch: steps(torch, "Adam", **{"torch fused": {"fused": True}, "torch foreach": {"foreach": True}})
    )
    sgd_peers = b.peers(
        lambda torch: steps(torch, "SGD", **{"torch foreach": {"lr": 1e-3, "momentum": 0.9, "foreach": True}})
    )
    millions = f"{size / 1e6:.0f} M" if size >= 1e6 else str(size)
    yield Work(f"Adam, {millions} parameters", 28 * size, adam, adam_peers, {"torch fused": 1.1, "torch foreach": 0.6})
    yield Work(f"SGD with momentum, {millions}", 20 * size, sgd, sgd_peers, {"torch foreach": 1.1})
    yield Work(f"moving average, {millions}", 12 * size, ema, b.peers(averages), {"torch foreach": 1.1})


def dropouts(b: Bench) -> Iterator[Work]:
    x = b.normal(b.few(1 << 28))
    run = partial(dropout.native_dropout, x, 0.1, 1, 0)
    peers = b.peers(lambda torch: {"torch": partial(torch.native_dropout, *b.to_torch(x), 0.1, True)})
    yield Work("dropout", 9 * x.size, run, peers, {})


def chains(b: Bench) -> Iterator[Work]:
    x, dy = b.normal(b.few(1 << 28)), b.normal(b.few(1 << 28))

    def peers(torch: Any) -> dict[str, Run]:
        (tx,) = b.to_torch(x)

        def eager() -> Any:
            return 0.5 * tx * (1 + torch.tanh(0.7978845608028654 * (tx + 0.044715 * tx * tx * tx)))

        return {"torch eager": eager, "torch": partial(torch.nn.functional.gelu, tx, approximate="tanh")}

    forward = partial(activation_gelu_kernel.gelu, x, approximate="tanh")
    yield Work("GELU by tanh, forward", 8 * x.size, forward, b.peers(peers), {"torch eager": 0.4}, 0.8)
    yield Work(
        "GELU by tanh, backward", 12 * x.size, partial(activation_gelu_kernel.gelu_backward, dy, x, "tanh"), {}, {}
    )


def columns(b: Bench) -> Iterator[Work]:
    x = b.normal(b.few(64), 64, 56, 56)
    geometry = ((3, 3), (1, 1), (1, 1), (1, 1))
    unfolded = im2_col.im2col(x, *geometry)

    def peers(torch: Any, back: bool) -> dict[str, Run]:
        tx, tc = b.to_torch(x, unfolded)
        F = torch.nn.functional
        return {"torch": partial(F.fold, tc, (56, 56), 3, padding=1) if back else partial(F.unfold, tx, 3, padding=1)}

    yield Work(
        "im2col 3 × 3", 40 * x.size, partial(im2_col.im2col, x, *geometry), b.peers(partial(peers, back=False)), {}
    )
    yield Work(
        "col2im 3 × 3",
        40 * x.size,
        partial(im2_col.col2im, unfolded, (56, 56), *geometry),
        b.peers(partial(peers, back=True)),
        {},
    )


def convolutions(b: Bench) -> Iterator[Work]:
    # NumPy computes the products of a dry run, whatever becomes of the launches
    x, w = b.normal(2 if b.scale < 0 else b.few(256), 64, 56, 56), b.normal(64, 64, 3, 3)
    dy = b.normal(len(x), 64, 56, 56)
    geometry = ((1, 1), (1, 1), (1, 1))

    def backward() -> Any:
        grads = convolution_mm2d._conv_input(dy, w, x.shape, *geometry, 1)
        return grads, convolution_mm2d._conv_weight(dy, x, w.shape, *geometry, 1)

    def peers(torch: Any, back: bool) -> dict[str, Run]:
        tx, tw, tdy = b.to_torch(x, w, dy)
        if not back:
            return {"cuDNN": partial(torch.nn.functional.conv2d, tx, tw, None, 1, 1)}
        leaves = [t.clone().requires_grad_() for t in (tx, tw)]
        return {"cuDNN": _gradient(torch, torch.nn.functional.conv2d(*leaves, None, 1, 1), leaves, tdy)}

    forward = partial(convolution_mm2d.convolution, x, w, None, *geometry, False, (0, 0), 1)
    # read the input, write and read its columns, write the output; backward that twice, and the gradient read each time
    yield Work("convolution 3 × 3, forward", 80 * x.size, forward, b.peers(partial(peers, back=False)), {"cuDNN": 2.5})
    yield Work(
        "convolution 3 × 3, backward", 160 * x.size, backward, b.peers(partial(peers, back=True)), {"cuDNN": 2.5}
    )


def embeddings(b: Bench) -> Iterator[Work]:
    tokens, width, vocabulary = b.few(65_536), 1024, 50_257
    dy = b.normal(tokens, width)
    words = b.xp.asarray(np.random.default_rng(0).zipf(1.2, tokens).clip(1, vocabulary) - 1)
    run = partial(embedding_backward_kernel.embedding_dense_backward, dy, words, vocabulary, -1, False)
    peers = b.peers(
        lambda torch: {"torch": partial(torch.embedding_dense_backward, *b.to_torch(dy, words), vocabulary, -1, False)}
    )
    yield Work("embedding, backward", 4 * (tokens + vocabulary) * width, run, peers, {"torch": 2.0})


WORK: tuple[Callable[[Bench], Iterator[Work]], ...] = (
    batch_norm,
    partial(batch_norm, last=True),
    layer_norm,
    partial(layer_norm, rows=8192, width=8192),
    softmax,
    partial(softmax, rows=4096, width=32_768),
    cross_entropy,
    optimizers,
    chains,
    dropouts,
    columns,
    convolutions,
    embeddings,
)
