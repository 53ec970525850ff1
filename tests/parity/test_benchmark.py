"""`torch.utils.benchmark` beside PyTorch's: the same times give the same statistics, words and tables."""

from __future__ import annotations

import importlib
import itertools
import random
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch
LIBRARIES = ("readtorch", "torch")


def _both(ask: Any) -> tuple[Any, Any]:
    """What `ask(benchmark, common)` says of either library."""
    found = []
    for library in LIBRARIES:
        benchmark = importlib.import_module(f"{library}.utils.benchmark")
        common = importlib.import_module(f"{library}.utils.benchmark.utils.common")
        found.append(ask(benchmark, common))
    return found[0], found[1]


def _measurements(benchmark: Any, common: Any, seed: int) -> list[Any]:
    draw = random.Random(seed)
    made = []
    for label, row, column, threads, env in itertools.product(
        (None, "sums"), ("a", "long name"), ("n=1", "n=16"), (1, 4), (None, "old") if seed % 2 else (None,)
    ):
        if draw.random() < 0.2:
            continue
        middle = 10 ** draw.uniform(-8, -1 + seed % 2)
        times = [middle * draw.uniform(1, 1.05 if draw.random() < 0.5 else 3) for _ in range(draw.choice((1, 3, 4, 9)))]
        task = common.TaskSpec("x + 1", "pass", "", label, row, column, env, threads)
        made.append(benchmark.Measurement(draw.choice((1, 10)), times, task))
    return made


@pytest.mark.parametrize("seed", range(6))
def test_statistics_and_words_of_a_measurement(seed: int) -> None:
    def ask(benchmark: Any, common: Any) -> list[Any]:
        return [
            (
                [round(value * 1e12) for value in (m.median, m.mean, m.iqr)],
                m.significant_figures,
                m.has_warnings,
                m.title,
                m.as_row_name,
                repr(m).split("\n")[1:],
                (m.label, m.num_threads, m.description),
            )
            for m in _measurements(benchmark, common, seed)
        ]

    ours, theirs = _both(ask)
    assert ours == theirs and len(ours) > 5


@pytest.mark.parametrize("options", ["", "trim_significant_figures", "highlight_warnings", "colorize", "all"])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_tables(seed: int, options: str) -> None:
    def ask(benchmark: Any, common: Any) -> str:
        table = benchmark.Compare(_measurements(benchmark, common, seed))
        for option in ("trim_significant_figures", "highlight_warnings", "colorize"):
            if options in (option, "all"):
                getattr(table, option)()
        return str(table)

    ours, theirs = _both(ask)
    assert ours == theirs


def test_tables_with_environments_and_rows_of_colours() -> None:
    def ask(benchmark: Any, common: Any) -> str:
        made = [m for m in _measurements(benchmark, common, 1) if m.task_spec.env is not None]
        other = [
            benchmark.Measurement(1, [3e-5], common.TaskSpec("f", "pass", "", label, "a", "n=1", "newer", 1))
            for label in (None, "sums")
        ]
        table = benchmark.Compare(made + other)
        table.colorize(rowwise=True)
        return str(table)

    ours, theirs = _both(ask)
    assert ours == theirs


def test_units_and_digits() -> None:
    times = [10**power * factor for power in range(-10, 3) for factor in (1, 1.0000001, 0.999999, 3.7)]

    def ask(benchmark: Any, common: Any) -> list[Any]:
        units = [common.select_unit(time) for time in times]
        digits = [float(f"{common.trim_sigfig(x, n):.6g}") for x in (3.14159, 12345.6, 0.00123456) for n in (1, 2, 4)]
        return [units, digits, common.unit_to_english("us"), common.ordered_unique([3, 1, 3])]

    ours, theirs = _both(ask)
    assert ours == theirs


REFUSED = {
    "no text": lambda benchmark: benchmark.Timer(3),
    "a language nobody knows": lambda benchmark: benchmark.Timer("1", language="x"),
    "code for a compiler": lambda benchmark: benchmark.Timer("1", global_setup="x"),
    "a fault": lambda benchmark: benchmark.Timer("a b"),
    "a name": lambda benchmark: benchmark.Timer("y").timeit(2),
    "autorange": lambda benchmark: benchmark.Timer("1").autorange(),
    "repeat": lambda benchmark: benchmark.Timer("1").repeat(),
    "no measurement": lambda benchmark: benchmark.Compare([3]),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_a_timer_refuses(call: Any) -> None:
    def ask(benchmark: Any, common: Any) -> str:
        with pytest.raises(Exception) as caught:  # which one is what is compared
            call(benchmark)
        return type(caught.value).__name__

    ours, theirs = _both(ask)
    assert ours == theirs


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_timer_measures(library: str) -> None:
    torch = importlib.import_module(library)
    benchmark = importlib.import_module(f"{library}.utils.benchmark")
    seen: list[int] = []
    threads: list[int] = []
    timer = benchmark.Timer(
        "calls.append(1); threads.append(torch.get_num_threads())",
        "\n    calls.clear()\n",
        globals={"calls": seen, "threads": threads},
        num_threads=1,
        label="calls",
    )
    one = timer.timeit(200)
    assert one.number_per_run == 200 and len(one.raw_times) == 1 and len(seen) == 200 and set(threads) == {1}
    blocks = timer.blocked_autorange(min_run_time=0.01)
    assert sum(blocks.raw_times) >= 0.01 and blocks.task_spec == one.task_spec and blocks.median > 0
    told: list[tuple[int, float]] = []
    until = timer.adaptive_autorange(
        threshold=10.0, min_run_time=0.001, callback=lambda number, time: told.append((number, time))
    )
    assert len(until.raw_times) == len(told) >= 4 and {number for number, _ in told} == {until.number_per_run}
    before = torch.get_num_threads()
    assert [m.number_per_run for m in benchmark.Measurement.merge([one, blocks])] == [1]
    assert torch.get_num_threads() == before


def test_what_needs_a_compiler_says_so() -> None:
    from readtorch.utils import benchmark

    with pytest.raises(NotImplementedError, match="no compiler"):
        benchmark.Timer("1", language="c++")
    with pytest.raises(NotImplementedError, match="instructions"):
        benchmark.Timer("1").collect_callgrind()
    with pytest.raises(AttributeError, match="PyTorch has it"):
        benchmark.Fuzzer
