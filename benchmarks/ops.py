"""Operators on ten elements, readtorch beside PyTorch in one process: what a call costs, forward with graph and backward.

    python benchmarks/ops.py [--threads 1 2] [--check]

Both libraries are timed in short alternating bursts and the best burst of each counts, so that a busy machine disturbs both
alike. `--check` exits 1 if a goal is missed: forward geometric mean 1.3 and 2.0 each (4.0 for mean, var, softmax, layer_norm), backward
geometric mean 1.0.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from rows import emit

import readtorch

Step = Callable[[], Any]
SLOW = ("mean", "var", "softmax", "layer_norm")


def cases(lib: Any) -> dict[str, Step]:
    lib.manual_seed(0)
    x, y = lib.randn(10).requires_grad_(), lib.randn(10).requires_grad_()
    a, b = lib.randn(2, 5).requires_grad_(), lib.randn(5, 2).requires_grad_()
    functional = lib.nn.functional
    return {
        "add": lambda: x + y,
        "mul by a number": lambda: x * 2.0,
        "relu": lambda: lib.relu(x),
        "exp": lambda: x.exp(),
        "sum": lambda: x.sum(),
        "reshape": lambda: x.reshape(2, 5),
        "index": lambda: x[2:7],
        "cat": lambda: lib.cat([x, y]),
        "mm 2x5": lambda: lib.mm(a, b),
        "mean": lambda: x.mean(),
        "var": lambda: x.var(),
        "softmax": lambda: lib.softmax(x, 0),
        "layer_norm": lambda: functional.layer_norm(x, (10,)),
    }


def burst(step: Step, count: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(count):
        step()
    return (time.perf_counter_ns() - begin) / count / 1e3


def duel(ours: Step, theirs: Step, bursts: int = 60, count: int = 200) -> tuple[float, float]:
    """Microseconds per call, best of alternating bursts."""
    best = [math.inf, math.inf]
    for _ in range(bursts):
        for i, step in enumerate((ours, theirs)):
            best[i] = min(best[i], burst(step, count))
    return best[0], best[1]


def backward(lib: Any, step: Step) -> Step:
    output = step()
    weight = lib.ones_like(output)
    return lambda: lib.autograd.backward((output,), (weight,), retain_graph=True)


def mean_of(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    ours, theirs = cases(readtorch), cases(torch)
    missed = [line for threads in options.threads for line in measure(ours, theirs, threads)]
    return int(bool(missed) and options.check)


def measure(ours: dict[str, Step], theirs: dict[str, Step], threads: int) -> list[str]:
    """Print the table for a number of threads; the goals that are missed."""
    torch.set_num_threads(threads)
    missed = []
    forward_ratios, backward_ratios = [], []
    print(f"{'':16s}   forward µs            backward µs\n{'':16s} readtorch torch ratio  readtorch torch ratio")
    for name in ours:
        fast, slow = duel(ours[name], theirs[name])
        back, back_slow = duel(backward(readtorch, ours[name]), backward(torch, theirs[name]), 40, 60)
        print(
            f"{name:16s} {fast:8.2f} {slow:6.2f} {fast / slow:5.2f}   {back:8.2f} {back_slow:6.2f} {back / back_slow:5.2f}"
        )
        limit = 4.0 if name in SLOW else 2.0
        emit(f"{name}, forward", fast / slow, limit, threads)
        emit(f"{name}, backward", back / back_slow, None, threads)
        if fast / slow > limit:
            missed.append(f"{name} forward {fast / slow:.2f} > {limit}")
        if name not in SLOW:
            forward_ratios.append(fast / slow)
            backward_ratios.append(back / back_slow)
    forward_mean, backward_mean = mean_of(forward_ratios), mean_of(backward_ratios)
    print(f"geometric mean   forward {forward_mean:.2f} (goal 1.3)   backward {backward_mean:.2f} (goal 1.0)")
    emit("geometric mean, forward (without the four slow ones)", forward_mean, 1.3, threads)
    emit("geometric mean, backward", backward_mean, 1.0, threads)
    if forward_mean > 1.3:
        missed.append(f"forward mean {forward_mean:.2f}")
    if backward_mean > 1.0:
        missed.append(f"backward mean {backward_mean:.2f}")
    for line in missed:
        print("missed:", line)
    return missed


if __name__ == "__main__":
    sys.exit(main())
