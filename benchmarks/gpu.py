"""Our work on a GPU beside PyTorch's, in one process, and beside what the device's memory allows.

    python benchmarks/gpu.py [--only WORD] [--seconds S] [--json FILE]
    python benchmarks/gpu.py --dry-run

Runs alternate; what counts are medians. PyTorch's TF32 is off. The floor of a row is the bytes that it has to move over the rate
at which this device, in this run, copies an array of a gigabyte.

A dry run needs no GPU. It makes the launches of the full sizes without running them, and checks each against the limits of a
device; then it runs every kernel on the CPU, on small arrays, through the kernels' own source (`readtorch.literate.fibres`), and
what is measured as a program calls it on a simulated device.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gpu_kernels
import gpu_library
import numpy as np
from gpu_kernels import Bench, Work

from readtorch.aten.native.cuda import jit_utils
from readtorch.literate import fibres

SECTIONS: list[Any] = [gpu_kernels, gpu_library]
"""Modules with a table WORK of functions from a Bench to rows."""

MULTIPROCESSORS = 132
"""Of an H200, for which a dry run makes its launches."""


def rows(bench: Bench, only: str) -> Iterator[Work]:
    """Each section's rows, one group of arrays in memory at a time."""
    for section in SECTIONS:
        for make in section.WORK:
            for work in make(bench):
                if only in work.name:
                    yield work


# -- on a GPU ----------------------------------------------------------------------------------------------------------


def seconds_of(run: Callable[[], Any], wait: Callable[[], None], repeat: int) -> float:
    wait()
    began = time.perf_counter()
    for _ in range(repeat):
        run()
    wait()
    return (time.perf_counter() - began) / repeat


def alternating(runs: dict[str, Callable[[], Any]], wait: Callable[[], None], seconds: float) -> dict[str, float]:
    """Median seconds of each; all take turns."""
    repeat, rounds = {}, 7
    for name, run in runs.items():
        for _ in range(2):
            once = seconds_of(run, wait, 1)
        repeat[name] = max(1, min(50, int(seconds / len(runs) / rounds / max(once, 1e-6))))
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(seconds_of(run, wait, repeat[name]))
    return {name: statistics.median(times) for name, times in taken.items()}


def copy_rate(cupy: Any, wait: Callable[[], None]) -> float:
    """Bytes a second that a copy reads and writes."""
    source = cupy.zeros(1 << 28, cupy.float32)
    target = cupy.empty_like(source)
    times = alternating({"copy": lambda: cupy.copyto(target, source)}, wait, 0.5)
    return 2 * source.nbytes / times["copy"]


def measure(only: str, seconds: float) -> dict[str, Any]:
    import cupy

    wait = cupy.cuda.Device().synchronize
    try:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.ones(1, device="cuda")
    except (ImportError, AssertionError, RuntimeError) as error:
        print(f"without PyTorch's times: {error}\n")
        torch = None
    rate = copy_rate(cupy, wait)
    print(
        f"copies move {rate / 1e12:.2f} TB/s\n\n| work | ms | of the floor | against | ms | ratio | goal |\n|---|---|---|---|---|---|---|"
    )
    results = []
    for work in rows(Bench(cupy, torch), only):
        times = alternating({"ours": work.ours, **work.peers}, wait, seconds)
        share = work.bytes / rate / times["ours"]
        result = {
            "work": work.name,
            "ms": times,
            "bytes": work.bytes,
            "share": share,
            "goal_share": work.share,
            "goals": work.times,
        }
        results.append(result)
        print(table_row(result), flush=True)
        cupy.get_default_memory_pool().free_all_blocks()
    return {"provenance": provenance(cupy, torch), "copy_bytes_per_second": rate, "rows": results}


def table_row(result: dict[str, Any]) -> str:
    ours = result["ms"]["ours"]
    goal = "" if result["goal_share"] is None else f" (≥ {result['goal_share']:.0%})"
    share = f"{result['share']:.0%}{goal}" if result["bytes"] else ""
    head = f"| {result['work']} | {ours * 1e3:.3f} | {share} |"
    peers = [(name, taken) for name, taken in result["ms"].items() if name != "ours"] or [("", None)]
    lines = []
    for name, taken in peers:
        wanted = f"≤ {result['goals'][name]}" if name in result["goals"] else ""
        cells = " | | |" if taken is None else f" {name} | {taken * 1e3:.3f} | {ours / taken:.2f} |"
        lines.append(f"{head}{cells} {wanted} |")
        head = "| | | |"
    return "\n".join(lines)


def provenance(cupy: Any, torch: Any) -> dict[str, str]:
    runtime = cupy.cuda.runtime
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return {
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "driver": str(runtime.driverGetVersion()),
        "cuda": str(runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "torch": "" if torch is None else torch.__version__,
        "python": platform.python_version(),
        "revision": done.stdout.strip() or os.environ.get("READTORCH_REVISION", ""),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


# -- without one -------------------------------------------------------------------------------------------------------


class Checked(fibres.OnCpu):
    """Runs nothing: looks at each launch."""

    def launch(self, instance: Any, grid: Any, block: Any, arguments: Sequence[Any], reached: Sequence[Any]) -> None:
        blocks, threads = (((size,) if isinstance(size, int) else tuple(size)) + (1, 1) for size in (grid, block))
        fits = 1 <= blocks[0] < 1 << 31 and all(1 <= size <= 65_535 for size in blocks[1:3])
        count = threads[0] * threads[1] * threads[2]
        if not fits or not 1 <= count <= 1024 or count % 32:
            raise ValueError(f"{instance.expression}: no device takes grid {grid}, block {block}")
        for number, value in enumerate(arguments):
            if not (value is None or isinstance(value, int | float | np.ndarray)):
                raise TypeError(f"{instance.expression}: argument {number} is a {type(value).__name__}")
        self.launches.append((instance.expression, grid, block))


def dry_run(only: str) -> list[tuple[str, list[str]]]:
    """Names of the rows and of what each launches. Raises on a launch that a device would refuse, or a fault of a kernel."""
    found = []
    for scale in (-1, 512):
        target = Checked(MULTIPROCESSORS) if scale < 0 else fibres.OnCpu(MULTIPROCESSORS)
        ready = scale < 0 or fibres.available()
        if not ready:
            print("no g++ here: the kernels are not run")
            continue
        with jit_utils.running_on(target), np.errstate(all="ignore") if scale < 0 else nullcontext():
            for work in rows(Bench(np, scale=scale), only):
                target.launches.clear()
                work.ours()
                launches = [f"{name} grid {grid} block {block}" for name, grid, block in target.launches]
                found.append((work.name, launches))
                how = f"{work.bytes / 1e9:.2f} GB to move" if scale < 0 else "runs"
                print(f"{work.name}: {how}{': ' if launches else ''}{'; '.join(launches)}", flush=True)
                if scale > 0:
                    for peer in work.peers.values():
                        peer()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="rows whose name contains it")
    parser.add_argument("--seconds", type=float, default=1.0, help="a row takes about so long (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with where they come from")
    parser.add_argument("--dry-run", action="store_true", help="check launches and run small sizes on the CPU")
    options = parser.parse_args()
    if options.dry_run:
        return 0 if dry_run(options.only) else 1
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        print(f"no CUDA device can be used ({error}); --dry-run needs none")
        return 0
    figures = measure(options.only, options.seconds)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
