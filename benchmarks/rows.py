"""What a benchmark found, a line of JSON per ratio, for `report.py`: written where READTORCH_BENCH_ROWS names a file."""

from __future__ import annotations

import json
import os


def emit(work: str, ratio: float, asked: float | None = None, threads: int = 1) -> None:
    """Note that readtorch took `ratio` times as long as PyTorch, in one run; at most `asked` is wanted."""
    if file := os.environ.get("READTORCH_BENCH_ROWS"):
        with open(file, "a", encoding="utf-8") as rows:
            print(json.dumps({"work": work, "threads": threads, "ratio": round(ratio, 3), "asked": asked}), file=rows)
