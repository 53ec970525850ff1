"""Training steps, optimizer steps and data loading beside PyTorch's, in one process.

    python benchmarks/training.py [--threads 1 2] [--repeat N] [--only WORD]

Both libraries run the same program on the same inputs; their runs alternate, and what counts is the ratio of the medians of one run.
The table is Markdown. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE, or OpenBLAS may run a slower kernel than the machine has; the
kernel that ran is printed above the table.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "parity"))

import programs  # the training programs that the parity tests hold to equal losses
from rows import emit, until_threads_sleep

Run = Callable[[], Any]


# -- training steps --------------------------------------------------------------------------------------------------


def mlp(torch: Any) -> Run:
    """784-512-512-10 with ReLU, batch 128, SGD with momentum."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return classifier(torch, model, (128, 784))


def lenet(torch: Any) -> Run:
    """Two convolutions of 3 by 3 (32, 64 channels), each pooled, two linear layers; batch 64 of 28 by 28."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 49, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    return classifier(torch, model, (64, 1, 28, 28))


def classifier(torch: Any, model: Any, shape: tuple[int, ...]) -> Run:
    """One step of `model` on a fixed batch, SGD with momentum."""
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    labels = torch.from_numpy(rng.integers(0, 10, shape[0]))
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()

    return step


def resnet(torch: Any) -> Run:
    program = programs.resnet18(torch, torch.float32, batch=32)
    return lambda: program.step(0)


def language_model(torch: Any) -> Run:
    program = programs.lstm_language_model(torch, torch.float32, words=1000, width=200, length=35, batch=20)
    return lambda: program.step(0)


def gpt(torch: Any) -> Run:
    program = programs.gpt(torch, torch.float32, width=128, length=64, words=200, batch=12)
    return lambda: program.step(0)


# -- optimizer steps -------------------------------------------------------------------------------------------------


def optimizer(name: str, **options: Any) -> Callable[[Any], Run]:
    """A step on ResNet-18's 62 parameters, 11.2 million numbers."""

    def make(torch: Any) -> Run:
        model = programs.resnet18(torch, torch.float32, batch=1).modules["model"]
        rng = np.random.default_rng(0)
        for parameter in model.parameters():
            grad = rng.standard_normal(tuple(parameter.shape)).astype(np.float32)
            parameter.grad = torch.from_numpy(np.asarray(grad * 1e-3))
        return getattr(torch.optim, name)(model.parameters(), **options).step

    return make


# -- data loading ----------------------------------------------------------------------------------------------------


def loader(workers: int) -> Callable[[Any], Run]:
    """One pass over 2,048 samples of 3 by 64 by 64, batches of 64; a sample is a row of one tensor."""

    def make(torch: Any) -> Run:
        data = torch.from_numpy(np.random.default_rng(0).standard_normal((2048, 3, 64, 64)).astype(np.float32))

        class Rows(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return len(data)

            def __getitem__(self, index: int) -> Any:
                return data[index]

        batches = torch.utils.data.DataLoader(
            Rows(), batch_size=64, num_workers=workers, persistent_workers=workers > 0
        )

        def epoch() -> None:
            for _ in batches:
                pass

        return epoch

    return make


# -- the table -------------------------------------------------------------------------------------------------------

WORK: dict[str, tuple[Callable[[Any], Run], float | None]] = {
    "MLP 784-512-512-10, batch 128, a step": (mlp, 1.0),
    "LeNet-like CNN, batch 64, a step": (lenet, 1.6),
    "ResNet-18 for CIFAR, batch 32, a step": (resnet, 1.5),
    "LSTM language model, 2 layers of 200, 35 × 20 words, a step": (language_model, None),
    "GPT, 4 layers of 128, 12 × 64 tokens, a step": (gpt, None),
    "Adam, ResNet-18's parameters, beside the default": (optimizer("Adam"), 0.6),
    "SGD with momentum, ResNet-18's parameters": (optimizer("SGD", lr=0.1, momentum=0.9), 0.8),
    "DataLoader, 2,048 samples, no workers": (loader(0), 1 / 1.4),
    "DataLoader, 2,048 samples, 2 workers": (loader(2), 1 / 4),
}
"""What is run, and the ratio asked for."""


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def milliseconds(run: Run) -> float:
    """The time of one run; several when it is short."""
    until_threads_sleep()
    loops, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < 0.03:
        run()
        loops += 1
    return spent / loops * 1e3


def kernels() -> str:
    """The BLAS libraries in this process and the kernels that they chose."""
    found = (
        f"{info.get('internal_api')} {info.get('version')} ({info.get('architecture')})" for info in threadpool_info()
    )
    return ", ".join(sorted({each for each in found if "None" not in each}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2], help="threads of both libraries (default 1 2)"
    )
    parser.add_argument("--repeat", type=int, default=7, help="alternating measurements of each piece (default 7)")
    parser.add_argument("--only", default="", help="the pieces whose name has this in it")
    options = parser.parse_args()

    import torch

    import readtorch

    readtorch.mm(readtorch.ones(2, 2), readtorch.ones(2, 2))
    print(f"PyTorch {torch.__version__}, NumPy {np.__version__}, Python {platform.python_version()}; BLAS: {kernels()}")
    print(f"{platform.machine()}, medians of {options.repeat} alternating runs\n")
    print("| work | threads | readtorch, ms | PyTorch, ms | ratio | asked |")
    print("|---|---|---|---|---|---|")
    for name, (make, asked) in WORK.items():
        if options.only not in name:
            continue
        for threads in options.threads:
            torch.set_num_threads(threads)
            readtorch.set_num_threads(threads)
            ours, theirs = make(readtorch), make(torch)
            for run in (ours, theirs):
                run()
                run()
            with no_collection():
                pairs = [(milliseconds(ours), milliseconds(theirs)) for _ in range(options.repeat)]
            here, there = (statistics.median(side) for side in zip(*pairs, strict=True))
            emit(name, here / there, asked, threads)
            goal = "" if asked is None else f"{asked:.2f}"
            print(f"| {name} | {threads} | {here:.1f} | {there:.1f} | {here / there:.2f} | {goal} |", flush=True)


if __name__ == "__main__":
    main()
