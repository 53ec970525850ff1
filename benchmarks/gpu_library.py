"""Work of whole calls for benchmarks/gpu.py: operators, copies and training steps as a program makes them, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gpu_kernels import Bench, Run, Work

import readtorch


def on_device(make: Callable[[Bench], Iterator[Work]]) -> Callable[[Bench], Iterator[Work]]:
    """Tensors need a device, so a dry run simulates one. Where launches of full sizes are looked at, there is nothing to look at."""

    def rows(b: Bench) -> Iterator[Work]:
        if b.scale < 0:
            return
        if b.xp is np and not readtorch.cuda.is_available():
            readtorch.cuda.simulate(1)
        yield from make(b)

    return rows


def both(b: Bench, make: Callable[[Any], Run]) -> tuple[Run, dict[str, Run]]:
    """The same work made with this library and with PyTorch."""
    return make(readtorch), b.peers(lambda torch: {"torch": make(torch)})


@on_device
def ufuncs(b: Bench) -> Iterator[Work]:
    size = b.few(1 << 28)

    def work(library: Any) -> Run:
        x = library.rand(size, device="cuda")
        return lambda: library.exp(x)

    ours, peers = both(b, work)
    yield Work("one ufunc (exp)", 8 * size, ours, peers, {"torch": 1.25}, 0.75)


@on_device
def products(b: Bench) -> Iterator[Work]:
    size = 8192 if b.scale == 1 else 16
    for kind in ("bfloat16", "float32"):

        def work(library: Any, kind: str = kind) -> Run:
            x, y = (library.randn(size, size, device="cuda").to(getattr(library, kind)) for _ in range(2))
            return lambda: x @ y

        ours, peers = both(b, work)
        yield Work(f"product of matrices {size}³, {kind}", 0, ours, peers, {"torch": 1.05})


@on_device
def one_element(b: Bench) -> Iterator[Work]:
    def work(library: Any) -> Run:
        x, y = (library.ones(1, device="cuda", requires_grad=True) for _ in range(2))
        return lambda: x * y

    ours, peers = both(b, work)
    yield Work("an operator on one element, with autograd (at most 0.040 ms)", 0, ours, peers, {"torch": 6.0})


@on_device
def copies(b: Bench) -> Iterator[Work]:
    count = b.few(1 << 26)

    def work(library: Any) -> Run:
        x = library.ones(count).pin_memory()
        return lambda: x.to("cuda", non_blocking=True)

    ours, peers = both(b, work)
    yield Work("256 MB from pinned memory", 0, ours, peers, {"torch": 1.11})


@on_device
def prefetching(b: Bench) -> Iterator[Work]:
    """Batches that arrive on a side stream while the one before is worked on: about as long to copy as to work on."""
    count, width = b.few(1 << 26), 4096 if b.scale == 1 else 16
    batches = [readtorch.ones(count).pin_memory() for _ in range(4)]
    a = readtorch.randn(width, width, device="cuda")

    def work(batch: Any) -> Any:
        return (a @ a) * batch[0], a @ a

    def one_after_the_other() -> Any:
        return [work(batch.to("cuda", non_blocking=True)) for batch in batches]

    side = readtorch.cuda.Stream()

    def prefetched() -> None:
        current, waiting = readtorch.cuda.current_stream(), None
        for batch in [*batches, None]:
            arriving = None
            if batch is not None:
                with readtorch.cuda.stream(side):
                    arriving = batch.to("cuda", non_blocking=True)
                    arrived = side.record_event()
            if waiting is not None:
                current.wait_event(waiting[1])
                waiting[0].record_stream(current)
                work(waiting[0])
            waiting = None if arriving is None else (arriving, arrived)

    yield Work(
        "four batches, prefetched",
        0,
        prefetched,
        {"one after the other": one_after_the_other},
        {"one after the other": 0.6},
    )


def step(library: Any, model: Any, x: Any, y: Any) -> Run:
    """Forward, backward and SGD."""
    optimizer = library.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        library.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return run


@on_device
def networks(b: Bench) -> Iterator[Work]:
    batch, side = (256, 32) if b.scale == 1 else (2, 8)

    def convolutional(library: Any) -> Run:
        nn = library.nn
        model = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2, padding=1),
            nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128 * (side // 4) ** 2, 10),
        ).cuda()  # fmt: skip
        x, y = library.randn(batch, 3, side, side, device="cuda"), library.arange(batch, device="cuda") % 10
        return step(library, model, x, y)

    tokens, length, width = (64, 256, 512) if b.scale == 1 else (2, 4, 16)

    def transformer(library: Any) -> Run:
        nn = library.nn
        layers = [nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True) for _ in range(2)]
        model = nn.Sequential(*layers, nn.Flatten(0, 1), nn.Linear(width, 100)).cuda()
        x = library.randn(tokens, length, width, device="cuda")
        return step(library, model, x, library.arange(tokens * length, device="cuda") % 100)

    for name, make, goal in (("a small CNN", convolutional, 3.0), ("a transformer of two layers", transformer, 2.0)):
        ours, peers = both(b, make)
        yield Work(f"training step of {name}", 0, ours, peers, {"torch": goal})


WORK = (ufuncs, products, one_element, copies, prefetching, networks)
