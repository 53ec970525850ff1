# Tangled from chapters/01_import/8e_benchmark.py — edit there, or here and run `readtorch sync`.
"""What was measured, and the statistics of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]


@dataclass(repr=False, frozen=True)
class TaskSpec:
    """What a timer was asked to measure. Two measurements with equal ones are replicates of each other."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or else the statement."""
        if self.label is None and "\n" in self.stmt:
            beside = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{beside}\n{textwrap.indent(self.stmt, '  ')}"
        return (self.stmt if self.label is None else self.label) + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """The setup as a measurement shows it; nothing for the default one."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, one below the other."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(part + "\n" if "\n" in part else part for part in parts)


@dataclass(repr=False)
class Measurement:
    """Times in seconds of blocks of `number_per_run` runs. The fields of its `task_spec` are its attributes, too."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds of one run, from each block."""
        return [time / self.number_per_run for time in self.raw_times]

    def _at(self, share: float) -> float:
        return float(np.quantile(self.times, share)) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        """Seconds of one run that half of the blocks were faster than."""
        return self._at(0.5)

    @property
    def mean(self) -> float:
        """Seconds of one run, on average."""
        return float(np.mean(self.times)) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """From the first quartile to the third."""
        return self._at(0.75) - self._at(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median can be believed, from 1 to 4: by the spread of the middle half, and never below 25 ns."""
        times = sorted(self.times)
        middle = np.array(times[len(times) // 4 : int(np.ceil(3 * len(times) / 4))])
        uncertain = max(1.645 * float(middle.std()) / float(np.sqrt(len(middle))), 25e-9)
        return int(min(max(np.floor(np.log10(self.median / uncertain)), 1), 4))

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Is the distance of the quartiles less than this share of the median?"""
        return self.iqr / self.median < threshold

    def _warning(self) -> str:
        if not self.raw_times or self.meets_confidence():
            return ""
        why = (
            "could indicate system fluctuation"
            if self.meets_confidence(0.25)
            else "suggests significant environmental influence"
        )
        return (
            f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median measurement.\n"
            f"           This {why}."
        )

    @property
    def has_warnings(self) -> bool:
        """Are the quartiles far apart?"""
        return bool(self._warning())

    @property
    def title(self) -> str:
        """The label, or else the statement."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What stands at the head of its row in a `Compare`."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        count, (unit, scale) = len(self.raw_times), select_unit(self.median)
        threads = self.task_spec.num_threads
        rows = [object.__repr__(self).replace("readtorch", "torch", 1), self.task_spec.summarize()]
        rows.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count >= 4:
            first, third = self._at(0.25) / scale, self._at(0.75) / scale
            rows.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({first:.2f} to {third:.2f})")
        each = f"{count} measurements, {self.number_per_run} runs per measurement,"
        one = f"{count} measurement, {self.number_per_run} runs ,"
        rows.append(f"  {each if count > 1 else one} {threads} thread{'s' if threads > 1 else ''}")
        return "\n".join(row for row in (*rows, self._warning()) if row)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task: the replicates' times together, of one run each, without metadata."""
        groups: dict[TaskSpec, list[float]] = {}
        for measurement in measurements:
            groups.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(1, times, task) for task, times in groups.items()]


_FIELDS = frozenset(field.name for field in fields(TaskSpec))


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which `t` seconds are a handy number, and its length in seconds."""
    with np.errstate(all="ignore"):
        power = float(np.float32(np.log10(np.float64(np.float32(t)))))
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(int(power // 3) if np.isfinite(power) else 0, "s")
    return unit, {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def unit_to_english(u: str) -> str:
    """The word for a unit."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` with `n` significant digits: 3.1 for 3.14159 and 2."""
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    scale = 10 ** (int(np.ceil(np.log10(np.abs(np.float32(x))))) - n)
    return float(np.float32(np.round(np.float32(x / scale)) * scale))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each of them once, in the order of their first appearance."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """So many threads in a block of code."""
    from readtorch import get_num_threads, set_num_threads

    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
