"""Layers beside PyTorch's, in one process: convolutions, pooling, norms, and whole training steps of two CNNs.

    python benchmarks/layers.py [--threads 1 2] [--repeat N] [--only WORD]

Prints a line per piece of work: both times (medians of alternating runs, milliseconds), their ratio, and the ratio that is asked
for. One process per number of threads, since BLAS libraries read theirs when they are loaded; its first line says which BLAS
kernel NumPy ran.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rows import emit, until_threads_sleep

BATCH = 32
#: (channels in, out, size, kernel, stride), and how many of them a ResNet-18 for CIFAR has
CONVOLUTIONS = {
    (3, 64, 32, 3, 1): 1,
    (64, 64, 32, 3, 1): 4,
    (64, 128, 32, 3, 2): 1,
    (64, 128, 32, 1, 2): 1,
    (128, 128, 16, 3, 1): 3,
    (128, 256, 16, 3, 2): 1,
    (128, 256, 16, 1, 2): 1,
    (256, 256, 8, 3, 1): 3,
    (256, 512, 8, 3, 2): 1,
    (256, 512, 8, 1, 2): 1,
    (512, 512, 4, 3, 1): 3,
}
Work = Callable[[], Any]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def forward_and_backward(torch: Any, function: Callable[..., Any], *arrays: np.ndarray) -> Work:
    """Work that calls `function` on tensors and takes the gradients of all of them."""
    tensors = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays]
    weights = torch.from_numpy(numbers(*function(*tensors).shape))

    def run() -> Any:
        return torch.autograd.grad(function(*tensors), tensors, weights)

    return run


def convolution(torch: Any, shape: tuple[int, ...], last: bool) -> Work:
    c, o, size, kernel, stride = shape
    x, w = numbers(BATCH, c, size, size), numbers(o, c, kernel, kernel) / 30
    if last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    call = torch.nn.functional.conv2d
    return forward_and_backward(torch, lambda a, b: call(a, b, stride=stride, padding=kernel // 2), x, w)


def batch_norm(torch: Any) -> Work:
    norm = torch.nn.functional.batch_norm
    mean, var = torch.zeros(64), torch.ones(64)
    return forward_and_backward(
        torch,
        lambda x, w, b: norm(x, mean, var, w, b, training=True),
        numbers(32, 64, 32, 32),
        numbers(64),
        numbers(64),
    )


def layer_norm(torch: Any) -> Work:
    norm = torch.nn.functional.layer_norm
    return forward_and_backward(
        torch, lambda x, w, b: norm(x, (512,), w, b), numbers(64, 128, 512), numbers(512), numbers(512)
    )


def pool(torch: Any, name: str, *args: Any) -> Work:
    function = getattr(torch.nn.functional, name)
    return forward_and_backward(torch, lambda x: function(x, *args), numbers(64, 32, 24, 24))


def softmax_loss(torch: Any) -> Work:
    target = torch.from_numpy(np.random.default_rng(1).integers(0, 1000, 256))
    return forward_and_backward(torch, lambda x: torch.nn.functional.cross_entropy(x, target), numbers(256, 1000))


def lstm(torch: Any) -> Work:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(200, 200, 2)
    parameters = list(layer.parameters())
    x = torch.from_numpy(numbers(35, 20, 200))

    def run() -> Any:
        return torch.autograd.grad(layer(x)[0].sum(), parameters)

    return run


def attention(torch: Any) -> Work:
    call = torch.nn.functional.scaled_dot_product_attention
    arrays = [numbers(8, 4, 128, 32) for _ in range(3)]
    return forward_and_backward(torch, lambda q, k, v: call(q, k, v, is_causal=True), *arrays)


def lenet(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


def resnet18(torch: Any) -> Any:
    """He et al. 2016, in the form for 32×32 images."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(after)
            self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(after)
            self.shortcut = nn.Identity()
            if before != after:
                self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(y + self.shortcut(x))

    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for number, after in enumerate((64, 128, 256, 512)):
        layers += [Block(before, after, 2 if number else 1), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def training_step(torch: Any, make: Callable[[Any], Any], *shape: int) -> Work:
    """One step of plain SGD, by hand."""
    torch.manual_seed(0)
    model, loss = make(torch), torch.nn.CrossEntropyLoss()
    parameters = list(model.parameters())
    x = torch.from_numpy(numbers(*shape))
    y = torch.from_numpy(np.random.default_rng(1).integers(0, 10, shape[0]))

    def run() -> float:
        for parameter in parameters:
            parameter.grad = None
        value = loss(model(x), y)
        value.backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter.sub_(parameter.grad, alpha=0.01)
        return value.item()

    return run


def works() -> Iterator[tuple[str, Callable[[Any], Work], int, float | None]]:
    """(Name, maker, how often it counts in the convolutions' total, ratio asked for)."""
    for last in (False, True):
        for shape, count in CONVOLUTIONS.items():
            c, o, size, kernel, stride = shape
            name = f"conv {c}→{o} {kernel}×{kernel}/{stride} on {size}×{size}{', channels last' if last else ''}"
            yield name, lambda torch, s=shape, la=last: convolution(torch, s, la), count, None
    yield "BatchNorm2d (32,64,32,32)", batch_norm, 0, 1.8
    yield "LayerNorm (64,128,512)", layer_norm, 0, 3.0
    yield "max_pool2d 2 on (64,32,24,24)", lambda t: pool(t, "max_pool2d", 2), 0, None
    yield "max_pool2d 3/2, padding 1", lambda t: pool(t, "max_pool2d", 3, 2, 1), 0, None
    yield "avg_pool2d 2", lambda t: pool(t, "avg_pool2d", 2), 0, None
    yield "adaptive_avg_pool2d 1", lambda t: pool(t, "adaptive_avg_pool2d", 1), 0, None
    yield "cross_entropy (256,1000)", softmax_loss, 0, None
    yield "LSTM 2×200, 35 steps, batch 20", lstm, 0, None
    yield "attention (8,4,128,32), causal", attention, 0, None
    yield "LeNet-like CNN, batch 64, a step", lambda t: training_step(t, lenet, 64, 1, 28, 28), 0, 1.6
    yield "ResNet-18-CIFAR, batch 32, a step", lambda t: training_step(t, resnet18, 32, 3, 32, 32), 0, 1.5


def medians(ours: Work, theirs: Work, repeat: int) -> tuple[float, float]:
    """Both times in ms, the runs alternating."""
    times: tuple[list[float], list[float]] = ([], [])
    for work in (ours, theirs):
        work()
    for _ in range(repeat):
        for work, found in zip((ours, theirs), times, strict=True):
            until_threads_sleep()
            begin = time.perf_counter()
            work()
            found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times[0]), statistics.median(times[1])


def blas() -> str:
    import threadpoolctl

    found = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    return ", ".join(f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', '?')})" for pool in found)


def measure(threads: int, repeat: int, only: str) -> None:
    kernel = blas()  # before torch brings its own
    import torch

    import readtorch

    torch.set_num_threads(threads)
    print(
        f"\n{threads} thread{'s' if threads > 1 else ''}; NumPy {np.__version__}, {kernel}; torch {torch.__version__}"
    )
    totals: dict[bool, list[float]] = {}
    for name, make, count, wanted in works():
        if only not in name:
            continue
        a, b = medians(make(readtorch), make(torch), 3 if "ResNet" in name else repeat)
        emit(name, a / b, wanted or None, threads)
        goal = f"≤ {wanted}" if wanted else ""
        print(f"{name:<52} {a:9.2f} {b:9.2f} {a / b:7.2f}  {goal}", flush=True)
        if count:
            total = totals.setdefault("last" in name, [0.0, 0.0])
            total[0] += count * a
            total[1] += count * b
    for last, (a, b) in totals.items():
        name = f"ResNet-18-CIFAR's convolutions{', channels last' if last else ''}"
        emit(name, a / b, 1.3, threads)
        print(f"{name:<52} {a:9.2f} {b:9.2f} {a / b:7.2f}  ≤ 1.3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", default="", help="work whose name holds this")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        measure(args.threads[0], args.repeat, args.only)
        return
    print(f"{'forward and backward, ms':<52} {'readtorch':>9} {'torch':>9} {'ratio':>7}  asked")
    for threads in args.threads:
        limit = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        command = [sys.executable, __file__, "--here", "--threads", str(threads)]
        command += ["--repeat", str(args.repeat), "--only", args.only]
        subprocess.run(command, env={**os.environ, **limit}, check=True)


if __name__ == "__main__":
    main()
