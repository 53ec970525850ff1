"""What the benchmarks share: what one found, a line of JSON per ratio, for `report.py` (written where READTORCH_BENCH_ROWS
names a file), and the wait before a run."""

from __future__ import annotations

import json
import os
import time


def emit(work: str, ratio: float, asked: float | None = None, threads: int = 1) -> None:
    """Note that readtorch took `ratio` times as long as PyTorch, in one run; at most `asked` is wanted."""
    if file := os.environ.get("READTORCH_BENCH_ROWS"):
        with open(file, "a", encoding="utf-8") as rows:
            print(json.dumps({"work": work, "threads": threads, "ratio": round(ratio, 3), "asked": asked}), file=rows)


def until_threads_sleep() -> None:
    """Wait for the threads of the run before, which may be the other library's: OpenBLAS's spin for some 20 ms after their work,
    OpenMP's for 5, and would take a core away from the run to come."""
    time.sleep(0.04)
