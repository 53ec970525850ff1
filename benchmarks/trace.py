"""What recording costs: time while it runs and size of what it leaves, beside the goals.

Run from anywhere: `python benchmarks/trace.py [--rounds N]`. Every figure is a ratio to the untraced step measured just before
it in the same round; the median of the rounds is printed. CPU time of one thread.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).parent))

import trace_step as sample  # noqa: E402  # found by the line above

from readtorch.literate.trace import recording, tensors, trace, viewer_script  # noqa: E402  # NumPy reads the variables above
from readtorch.literate.trace.encode import gzipped_size  # noqa: E402  # the same

STEPS = 20

MODES: dict[str, tuple[float, dict[str, Any]]] = {
    "operators": (1.25, {"layers": ["ops"]}),
    "calls and lines": (4, {"layers": ["calls", "lines"]}),
    "calls, lines, operators": (4, {"layers": ["calls", "lines", "ops"]}),
    "lines and values": (40, {"layers": ["calls", "lines"], "values": "summary"}),
}


def timed(run: Callable[[], object]) -> float:
    begin = time.process_time_ns()
    run()
    return (time.process_time_ns() - begin) / 1e3


def steps(count: int = STEPS) -> None:
    network, x, target = PROBLEM
    for _ in range(count):
        sample.step(network, x, target)


PROBLEM = sample.problem()


def hook_ratio() -> float:
    """The step with a slot for an observer that is empty, beside the step without one."""
    sample.dispatch = sample.dispatch_bare
    bare = min(timed(steps) for _ in range(5))
    sample.dispatch = sample.dispatch_observed
    return min(timed(steps) for _ in range(5)) / bare


def recorded(options: dict[str, Any]) -> tuple[float, float, Any]:
    """(time inside the block, time to make the document, the trace)"""
    elapsed = 0.0
    begin = time.process_time_ns()
    with trace("trace_step", mechanism=MECHANISM, **options) as t:
        elapsed = timed(steps)
    return elapsed, (time.process_time_ns() - begin) / 1e3 - elapsed, t


MECHANISM: str | None = None


def facts(value: sample.Value) -> tensors.Facts:
    array = value.array
    return array.dtype, array.shape, "cpu", "", value.version


def main() -> None:
    global MECHANISM
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mechanism", help="sys.monitoring or sys.settrace (default: the better one there is)")
    arguments = parser.parse_args()
    MECHANISM = arguments.mechanism
    recording._observer_slot = lambda: sample  # the sample stands in for the library: its dispatcher and its tensor
    tensors.READERS.append(
        ("trace_step", "Value", lambda: tensors.Reader(facts, attrgetter("array"), attrgetter("version"), plain=True))
    )
    steps()
    ratios: dict[str, list[float]] = {mode: [] for mode in ("hooks off", *MODES)}
    encoding: dict[str, list[float]] = {mode: [] for mode in MODES}
    traces: dict[str, Any] = {}
    plain: list[float] = []
    for _ in range(arguments.rounds):
        ratios["hooks off"].append(hook_ratio())
        for mode, (_, options) in MODES.items():
            before = timed(steps)
            elapsed, ending, traces[mode] = recorded(options)
            plain.append(before)
            ratios[mode].append(elapsed / before)
            encoding[mode].append(ending)
    name = traces["calls and lines"].document["meta"]["recorder"]
    print(f"Python {sys.version.split()[0]}, {name}; untraced step {median(plain) / STEPS:.0f} µs")
    print(f"{'':26}{'× untraced':>12}{'goal':>8}{'events/step':>14}{'document, ms':>14}")
    print(f"{'hooks off':26}{median(ratios['hooks off']):12.2f}{1.02:8.2f}")
    for mode, (goal, _) in MODES.items():
        events = traces[mode].document["events"]["count"] / STEPS
        print(f"{mode:26}{median(ratios[mode]):12.2f}{goal:8.2f}{events:14.0f}{median(encoding[mode]) / 1e3:14.0f}")
    sizes()


def sizes() -> None:
    """Documents of one and of twenty steps with everything in them, and the viewer."""
    print(f"\n{'gzipped':26}{'KB':>12}{'goal':>8}")
    for count, goal in ((1, 8), (20, 60)):
        with trace("trace_step", values="summary", mechanism=MECHANISM) as t:
            steps(count)
        print(f"{f'trace of {count} step(s)':26}{gzipped_size(t.document) / 1e3:12.1f}{goal:8}")
    print(f"{'viewer':26}{len(gzip.compress(viewer_script().encode(), 9)) / 1e3:12.1f}{20:8}")


if __name__ == "__main__":
    main()
