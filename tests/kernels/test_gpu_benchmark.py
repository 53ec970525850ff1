"""`benchmarks/gpu.py` where there is no GPU: launches of the full sizes are ones that a device takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readtorch.aten.native.cuda import jit_utils

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def gpu() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import gpu as module
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


@pytest.fixture(scope="module")
def launches(gpu: Any) -> dict[str, list[Any]]:
    """Of each row, at full size and on 132 multiprocessors, with nothing run."""
    target = gpu.Checked(gpu.MULTIPROCESSORS)
    found = {}
    with jit_utils.running_on(target), np.errstate(all="ignore"):
        for work in gpu.rows(gpu.Bench(np, scale=-1), ""):
            target.launches.clear()
            work.ours()
            found[work.name] = list(target.launches)
    return found


def test_each_row_of_the_performance_goals_that_kernels_serve_is_there(launches: dict[str, list[Any]]) -> None:
    for words in ("batch norm, forward", "batch norm, backward", "layer norm 1024", "softmax 1024", "log-softmax and NLL", "Adam", "SGD", "moving average", "GELU", "convolution"):  # fmt: skip
        assert any(name.startswith(words) for name in launches), words


def test_a_hundred_million_parameters_are_one_launch(launches: dict[str, list[Any]]) -> None:
    (launch,) = launches["Adam, 100 M parameters"]
    assert launch == ("fused_adam<float, true>", 100 * -(-1_000_000 // 16_384), 512)


def test_every_row_reads_sixteen_bytes_at_a_time_where_a_kernel_can(launches: dict[str, list[Any]]) -> None:
    narrow = [
        name
        for row in launches.values()
        for name, _, _ in row
        if "<float, false" in name
    ]  # fmt: skip
    assert narrow == []


def test_grids_fill_a_device_of_132_multiprocessors(launches: dict[str, list[Any]]) -> None:
    """At least half of its threads' room, but for sums over a few thousand numbers."""
    for row, found in launches.items():
        if row.startswith("convolution"):
            continue  # of two images, since the products are computed
        blocks, threads = 0, 0
        for _, grid, block in found:
            sizes = [1 if size is None else int(np.prod(size)) for size in (grid, block)]
            if sizes[0] * sizes[1] > blocks * threads:
                blocks, threads = sizes
        assert blocks * threads >= 132 * 512, row


def test_a_launch_that_no_device_takes_is_found(gpu: Any) -> None:
    from readtorch.aten.native.cuda import dropout

    target = gpu.Checked()
    with jit_utils.running_on(target):
        with pytest.raises(ValueError, match="no device takes grid 0"):
            dropout._DROPOUT["float", "true"](0, 256, None, None, None, 0.5, 1, 0, 0)
        with pytest.raises(TypeError, match="argument 1 is a str"):
            dropout._DROPOUT["float", "true"](1, 256, None, "x", None, 0.5, 1, 0, 0)


def test_what_a_program_calls_is_measured_too_and_runs_on_a_simulated_device() -> None:
    """The goals for operators, copies and training steps: each row is there and runs, its peers that need no PyTorch as well."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy, gpu_library\nfrom gpu_kernels import Bench\n"
        "for make in gpu_library.WORK:\n"
        "    for work in make(Bench(numpy, scale=1 << 16)):\n"
        "        [run() for run in (work.ours, *work.peers.values())]\n"
        "        print(work.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(BENCHMARKS)], capture_output=True, text=True, check=True)
    for words in ("one ufunc", "bfloat16", "float32", "one element", "256 MB", "prefetched", "CNN", "transformer"):
        assert words in done.stdout, words
