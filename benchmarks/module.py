"""nn.Module beside PyTorch's, in one process: calls, construction, state_dict, load_state_dict, save and load.

    python benchmarks/module.py [--repeat N]

Prints one line per piece of work: both times (medians, microseconds), their ratio, and the ratio that is asked for. The modules
are built by the same code from either library's `nn.Module`; the model for the checkpoint has ResNet-18's tree of modules and its
122 entries, once with small tensors (what the bookkeeping costs) and once with the real ones (45 MB to copy).
"""

from __future__ import annotations

import argparse
import atexit
import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rows import emit


def classes(torch: Any) -> dict[str, Any]:
    """The modules of this benchmark, defined on `torch`."""
    nn = torch.nn

    class Empty(nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    class Layer(nn.Module):
        """A weight, a bias, a flag: what a linear layer registers."""

        def __init__(self, *shape: int) -> None:
            super().__init__()
            self.features = shape[0]
            self.weight = nn.Parameter(torch.empty(*shape))
            self.bias = nn.Parameter(torch.empty(shape[0]))

        def forward(self, x: Any) -> Any:
            return x

    class Convolution(nn.Module):
        def __init__(self, *shape: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(*shape))
            self.register_parameter("bias", None)

    class Norm(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(channels))
            self.bias = nn.Parameter(torch.zeros(channels))
            self.register_buffer("running_mean", torch.zeros(channels))
            self.register_buffer("running_var", torch.ones(channels))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.int64))

    class Block(nn.Module):
        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = Convolution(after, before, 3, 3), Norm(after)
            self.conv2, self.bn2 = Convolution(after, after, 3, 3), Norm(after)
            self.relu = Empty()
            if before != after:
                self.downsample = nn.Sequential(Convolution(after, before, 1, 1), Norm(after))

    class ResNet18(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.conv1, self.bn1, self.relu, self.maxpool = Convolution(width, 3, 7, 7), Norm(width), Empty(), Empty()
            before = width
            for number in range(4):
                after = width * 2**number
                setattr(self, f"layer{number + 1}", nn.Sequential(Block(before, after), Block(after, after)))
                before = after
            self.avgpool = Empty()
            self.fc = Layer(1000 if width == 64 else 10, before)

    class Tower(nn.Module):
        def __init__(self, make: Callable[[], Any]) -> None:
            super().__init__()
            for number in range(100):
                setattr(self, f"layer{number}", make())

    return {"Empty": Empty, "Layer": Layer, "ResNet18": ResNet18, "Tower": Tower}


def work(torch: Any) -> dict[str, Callable[[], Any]]:
    """Name to something to be timed."""
    made = classes(torch)
    empty, hooked, chain = made["Empty"](), made["Empty"](), torch.nn.Sequential(*(made["Empty"]() for _ in range(10)))
    hooked.register_forward_hook(lambda module, args, output: None)
    small, large = made["ResNet18"](4), made["ResNet18"](64)
    small_state, large_state = ({k: v.clone() for k, v in model.state_dict().items()} for model in (small, large))
    x = torch.ones(1)
    layer = made["Layer"](2, 2)
    plain = made["Empty"]()
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    file, small_file = folder / "large.pt", folder / "small.pt"
    torch.save(large_state, file)
    torch.save(small_state, small_file)

    def assign() -> None:
        for value in range(100):
            plain.width = value

    def read() -> None:
        for _ in range(100):
            _ = layer.weight

    return {
        "call, no hooks": lambda: [empty(x) for _ in range(100)],
        "call, one forward hook": lambda: [hooked(x) for _ in range(100)],
        "call of ten in Sequential": lambda: [chain(x) for _ in range(10)],
        "100 sub-modules built, empty": lambda: made["Tower"](made["Empty"]),
        "100 sub-modules built, weight and bias": lambda: made["Tower"](lambda: made["Layer"](2, 2)),
        "100 plain attributes set": assign,
        "100 parameters read": read,
        "ResNet-18 parameters()": lambda: list(small.parameters()),
        "ResNet-18 named_modules()": lambda: list(small.named_modules()),
        "ResNet-18 train()": small.train,
        "ResNet-18 zero_grad()": small.zero_grad,
        "ResNet-18 repr": lambda: repr(small),
        "ResNet-18 state_dict()": small.state_dict,
        "ResNet-18 load_state_dict(), small tensors": lambda: small.load_state_dict(small_state),
        "ResNet-18 load_state_dict(), 45 MB": lambda: large.load_state_dict(large_state),
        "ResNet-18 save, small tensors": lambda: torch.save(small_state, small_file),
        "ResNet-18 save, 45 MB": lambda: torch.save(large_state, file),
        "ResNet-18 load, small tensors": lambda: torch.load(small_file),
        "ResNet-18 load, 45 MB": lambda: torch.load(file),
        "ResNet-18 load, 45 MB, mapped": lambda: torch.load(file, mmap=True),
    }


GOALS = {
    "call, no hooks": 1.3,
    "100 sub-modules built, empty": 1.5,
    "100 sub-modules built, weight and bias": 1.5,
    "ResNet-18 state_dict()": 1.2,
    "ResNet-18 load_state_dict(), small tensors": 0.5,
    "ResNet-18 load_state_dict(), 45 MB": 1.2,
    "ResNet-18 save, 45 MB": 1.2,
    "ResNet-18 load, 45 MB": 1.2,
    "ResNet-18 load, 45 MB, mapped": 1.2,
}


def microseconds(run: Callable[[], Any]) -> float:
    """How long one run takes: repeated until the clock is coarse no more."""
    loops, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < 0.02:
        run()
        loops += 1
    return spent / loops * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=15, help="alternating measurements of each piece (default 15)")
    options = parser.parse_args()

    import torch

    import readtorch

    torch.set_num_threads(1)
    ours, theirs = work(readtorch), work(torch)
    print(f"{'':46} readtorch    PyTorch   ratio   asked")
    for name in ours:
        gc.collect()
        gc.disable()
        pairs = [(microseconds(ours[name]), microseconds(theirs[name])) for _ in range(options.repeat)]
        gc.enable()
        here, there = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        emit(name, ratio, GOALS.get(name))
        print(f"{name:46} {here:9.1f}  {there:9.1f}   {ratio:5.2f}   {GOALS.get(name, '')}")


if __name__ == "__main__":
    main()
