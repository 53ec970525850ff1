# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Measuring a line
#
# `torch.utils.benchmark` times statements in a way that respects how tensors are computed: it warms up, sets the number of threads, waits for the device before it looks at the clock, and repeats until a median means something. It lives beside the library and needs nothing of it but tensors for its statistics.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What was measured, and how good is it?
#
# A `Measurement` holds the times of several runs of a block, each block being the statement so many times. Its statistics are of the time of one run. Quartiles and not a standard deviation: the noise of a computer has one side, since nothing runs faster than it can.

# %%
#| into: utils/__init__.py
_MODULES.append("benchmark")

# %%
#| into: utils/benchmark/utils/__init__.py
"""The parts of `torch.utils.benchmark`."""

# %%
#| into: utils/benchmark/utils/common.py
"""What was measured, and the statistics of it."""

# %%
#| into: utils/benchmark/utils/common.py
#| imports
from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

# %%
#| into: utils/benchmark/utils/common.py
#| upstream: torch/utils/benchmark/utils/common.py#TaskSpec
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


# %%
#| into: utils/benchmark/utils/common.py
#| upstream: torch/utils/benchmark/utils/common.py#Measurement
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


# %% [markdown]
# Units and digits for people. Both round in single precision, as upstream's tensors do, which decides on which side of a power of ten a time lies.


# %%
#| into: utils/benchmark/utils/common.py
#| upstream: torch/utils/benchmark/utils/common.py#select_unit
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


# %% [markdown]
# ## How long is long enough?
#
# A clock takes time to read. `blocked_autorange` therefore first finds how many runs make a block so long that reading the clock is one part in ten thousand of it, which is its warm-up too, and then measures blocks until their sum reaches `min_run_time`. `adaptive_autorange` goes on until the
# quartiles are close together. Python's own `timeit` runs the loop, because a loop in a function that is compiled once is the least that Python can be asked to do between two statements.

# %%
#| into: utils/benchmark/utils/timer.py
"""A timer that knows about threads and devices."""

# %%
#| into: utils/benchmark/utils/timer.py
#| imports
from __future__ import annotations

import enum
import statistics
import textwrap
import timeit
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from readtorch.utils.benchmark.utils import common

# %%
#| into: utils/benchmark/utils/timer.py
#| upstream: torch/utils/benchmark/utils/timer.py#timer
__all__ = ["Language", "Timer", "timer"]


def timer() -> float:
    """The time, after the device has done what it was asked to do."""
    from readtorch import accelerator

    if accelerator.is_available():
        accelerator.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


# %%
#| into: utils/benchmark/utils/timer.py
#| upstream: torch/utils/benchmark/utils/timer.py#Timer
class Timer:
    """Measures `stmt`, after `setup`, both with the names in `globals` (and `torch`), on `num_threads` threads.

    `label` says what is measured, `sub_label` which variant (a row of `Compare`), `description` with what (a column), `env` where.
    """

    _timer_cls: type[timeit.Timer] = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError(
                "Timer(language='c++'): there is no compiler here; the statement has to be Python"
            )
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`. This can be part of `setup`.")
        if timer is not _DEFAULT:
            _warn_of_clock(timer)
        import readtorch

        self._language = Language.PYTHON
        self._globals = {"torch": readtorch, **(globals or {})}
        stmt, setup = (textwrap.dedent(code.removeprefix("\n")).rstrip() for code in (stmt, setup))
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = common.TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> common.Measurement:
        """One block of `number` runs, after a hundredth of them to warm up."""
        with common.set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return common.Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """NotImplementedError: a measurement is a series already."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], NoReturn] | None = None) -> None:
        """NotImplementedError: `blocked_autorange` took its place."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _estimate_block_size(self, min_run_time: float) -> int:
        with common.set_torch_threads(self._task_spec.num_threads):
            overhead = statistics.median(self._timeit(0) for _ in range(5))
            number = 1
            while number * 10 < 1 << 31:
                taken = self._timeit(number)
                if taken > min_run_time or (overhead <= taken * 1e-4 and taken >= min_run_time / 1000):
                    break
                number *= 10
        return number

    def _blocks(
        self,
        number: int,
        enough: Callable[[list[float]], bool],
        min_run_time: float,
        max_run_time: float | None,
        callback: Callable[[int, float], Any] | None,
    ) -> common.Measurement:
        times: list[float] = []
        total = 0.0
        with common.set_torch_threads(self._task_spec.num_threads):
            while total < min_run_time or not enough(times):
                taken = self._timeit(number)
                times.append(taken)
                total += taken
                if callback is not None:
                    callback(number, taken)
                if max_run_time is not None and total > max_run_time:
                    break
        return common.Measurement(number, times, self._task_spec)

    def blocked_autorange(
        self, callback: Callable[[int, float], NoReturn] | None = None, min_run_time: float = 0.2
    ) -> common.Measurement:
        """Blocks long enough for the clock not to count, until they have taken `min_run_time` seconds."""
        number = self._estimate_block_size(min_run_time)
        return self._blocks(number, lambda times: True, min_run_time, None, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], NoReturn] | None = None,
    ) -> common.Measurement:
        """Blocks until the quartiles are within `threshold` of the median, or `max_run_time` seconds are over."""
        number = self._estimate_block_size(min_run_time=0.05)

        def enough(times: list[float]) -> bool:
            return len(times) > 3 and common.Measurement(number, times, self._task_spec).meets_confidence(threshold)

        return self._blocks(number, enough, min_run_time, max_run_time, callback)

    def collect_callgrind(self, number: int = 100, **options: Any) -> NoReturn:
        """NotImplementedError: it counts the instructions of compiled code, of which there is none here."""
        raise NotImplementedError(
            "collect_callgrind(): readtorch is Python, and has no instructions of its own to count"
        )


_DEFAULT = timer


def _warn_of_clock(timer: Callable[[], float]) -> None:
    from readtorch import accelerator

    if timer is timeit.default_timer and accelerator.is_available():
        warnings.warn("this timer does not wait for the device: torch.utils.benchmark.timer() does", stacklevel=3)


# %% [markdown]
# ## A table
#
# `Compare` merges replicates, makes a table for each label, a row for each variant and a column for each description, all in the unit of the fastest.

# %%
#| into: utils/benchmark/utils/compare.py
"""Tables of measurements."""

# %%
#| into: utils/benchmark/utils/compare.py
#| imports
from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import numpy as np

from readtorch.utils.benchmark.utils import common

# %%
#| into: utils/benchmark/utils/compare.py
#| upstream: torch/utils/benchmark/utils/compare.py#Compare
__all__ = ["Colorize", "Compare"]


class Colorize(enum.Enum):
    """Among which measurements the best is sought, and coloured."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Measurements as tables: `print()`, or `str()` of it."""

    def __init__(self, results: list[common.Measurement]) -> None:
        self._results: list[common.Measurement] = []
        self.extend_results(results)
        self._trim = self._warn = False
        self._colorize = Colorize.NONE

    def extend_results(self, results: Iterable[common.Measurement]) -> None:
        """Add more. ValueError for what is no measurement."""
        results = list(results)
        for result in results:
            if not isinstance(result, common.Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show as many digits as can be believed."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the best of each column, or of each row, and what is far from it."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark what has a wide spread."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[str | None, list[common.Measurement]] = {}
        for result in common.Measurement.merge(self._results):
            groups.setdefault(result.task_spec.label, []).append(result)
        return "\n".join(_Table(group, self._colorize, self._trim, self._warn).render() for group in groups.values())


# %%
#| into: utils/benchmark/utils/compare.py
#| upstream: torch/utils/benchmark/utils/compare.py#Table
_Row = tuple[int, str | None, str]


class _Table:
    """The measurements of one label."""

    def __init__(self, results: list[common.Measurement], colorize: Colorize, trim: bool, warn: bool) -> None:
        self.colorize, self.trim = colorize, trim
        self.warn = warn and any(result.has_warnings for result in results)
        self.label = results[0].task_spec.label
        self.unit, self.scale = common.select_unit(min(result.median for result in results))
        at = {(self._row(result), result.task_spec.description): result for result in results}
        rows: list[_Row] = common.ordered_unique(self._row(result) for result in results)
        self.rows = sorted(rows, key=lambda row: (row[0], row[1] or ""))
        self.columns = common.ordered_unique(result.task_spec.description for result in results)
        self.cells = [[at.get((row, column)) for column in self.columns] for row in self.rows]

    @staticmethod
    def _row(result: common.Measurement) -> _Row:
        return result.task_spec.num_threads, result.task_spec.env, result.as_row_name

    def render(self) -> str:
        """The whole table."""
        heads = ["", *(str(column or "") for column in self.columns)]
        names = self._names()
        formats = [self._format([row[i] for row in self.cells]) for i in range(len(self.columns))]
        texts = [
            [name, *(self._text(cell, *formats[i]) for i, cell in enumerate(row))]
            for name, row in zip(names, self.cells, strict=True)
        ]
        widths = [max(len(row[i]) for row in (heads, *texts)) for i in range(len(heads))]
        lines = ["  |  ".join(head.center(width) for head, width in zip(heads, widths, strict=True))]
        whole, threads = len(lines[0]), None
        for number, (key, text) in enumerate(zip(self.rows, texts, strict=True)):
            if key[0] != threads:
                threads = key[0]
                lines.append(f"{threads} threads: ".ljust(whole, "-"))
            cells = [self._coloured(number, i, text[i + 1].center(widths[i + 1])) for i in range(len(self.columns))]
            lines.append("  |  ".join([text[0].ljust(widths[0]), *cells]))
        label = f" {self.label or ''} ".center(whole - 2, "-")
        legend = f"Times are in {common.unit_to_english(self.unit)}s ({self.unit})."
        spread = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n" if self.warn else ""
        return "\n".join([f"[{label}]", *lines, "", legend, spread])

    def _names(self) -> list[str]:
        """The heads of the rows: the environment where it changes, and the variant."""
        environments = {row[1] for row in self.rows}
        width = max(len(env or "") for env in environments) if len(environments) > 1 else 0
        names, before = [], None
        for row in self.rows:
            shown = f"({row[1]})" if width and row[:2] != before else ""
            before = row[:2]
            names.append(f"  {shown.ljust(width + 4)}{row[2]}")
        return names

    def _format(self, column: Sequence[common.Measurement | None]) -> tuple[int, int, int]:
        """How wide the numbers of a column are, how many of their digits are decimals, and how wide their marks are."""
        found = [cell for cell in column if cell is not None]
        leading = [int(np.ceil(np.log10(np.float32(cell.median / self.scale)))) for cell in found]
        decimals = 1
        if self.trim:
            decimals = min(max(cell.significant_figures - n, 0) for n, cell in zip(leading, found, strict=True))
        marks = 7 if self.warn and any(cell.has_warnings for cell in found) else 0
        return max(leading) + decimals + bool(decimals), decimals, marks

    def _text(self, cell: common.Measurement | None, width: int, decimals: int, marks: int) -> str:
        if cell is None:
            return " " * len(f"{1:>{width}.{decimals}f}{'':>{marks}}")
        value = cell.median / self.scale
        if self.trim:
            value = common.trim_sigfig(value, cell.significant_figures)
        mark = f" (! {cell.iqr / cell.median * 100:.0f}%)" if marks and cell.has_warnings else ""
        return f"{value:>{width}.{decimals}f}{mark:>{marks}}"

    def _coloured(self, row: int, column: int, text: str) -> str:
        cell = self.cells[row][column]
        if self.colorize is Colorize.NONE or cell is None:
            return text
        if self.colorize is Colorize.ROWWISE:
            among = self.cells[row]
        else:
            among = [
                other[column] for key, other in zip(self.rows, self.cells, strict=True) if key[0] == self.rows[row][0]
            ]
        best = min(other.median for other in among if other is not None)
        if cell.median <= best * 1.01 or cell.median <= best + 100e-9:
            return f"\033[92m\033[1m{text}\033[0m\033[0m"
        if cell.median <= best * 1.1:
            return f"\033[34m\033[1m{text}\033[0m\033[0m"
        if cell.median >= best * 5:
            return f"\033[31m\033[1m{text}\033[0m\033[0m"
        return f"\033[2m\033[91m{text}\033[0m\033[0m" if cell.median >= best * 2 else text


# %%
#| into: utils/benchmark/__init__.py
"""Timing of statements: `Timer`, the `Measurement`s that it makes, tables of them (twin of `torch/utils/benchmark/`)."""

from typing import Any as _Any

from readtorch.utils.benchmark import utils as utils
from readtorch.utils.benchmark.utils.common import Measurement as Measurement
from readtorch.utils.benchmark.utils.common import TaskSpec as TaskSpec
from readtorch.utils.benchmark.utils.common import ordered_unique as ordered_unique
from readtorch.utils.benchmark.utils.common import select_unit as select_unit
from readtorch.utils.benchmark.utils.common import set_torch_threads as set_torch_threads
from readtorch.utils.benchmark.utils.common import trim_sigfig as trim_sigfig
from readtorch.utils.benchmark.utils.common import unit_to_english as unit_to_english
from readtorch.utils.benchmark.utils.compare import Colorize as Colorize
from readtorch.utils.benchmark.utils.compare import Compare as Compare
from readtorch.utils.benchmark.utils.timer import Language as Language
from readtorch.utils.benchmark.utils.timer import Timer as Timer
from readtorch.utils.benchmark.utils.timer import timer as timer


def __getattr__(name: str) -> _Any:
    from readtorch import _not_here

    raise _not_here.missing("torch.utils.benchmark", name)


# %%
#| needs: 02_module
from readtorch.utils import benchmark

setup = "x = torch.ones(64, 64)"
results = [
    benchmark.Timer(stmt, setup, label="a product", sub_label=stmt, description="64").timeit(20)
    for stmt in ("x @ x", "torch.einsum('ij,jk->ik', x, x)")
]
[result.number_per_run for result in results], "a product" in str(benchmark.Compare(results))


# %%
#| claim: replicates are merged, and a table has a row for each variant and a column for each description
#| upstream: torch/utils/benchmark/utils/compare.py#Compare
#| needs: 02_module
def _(torch):
    import importlib

    benchmark = importlib.import_module(f"{torch.__name__}.utils.benchmark")
    common = importlib.import_module(f"{torch.__name__}.utils.benchmark.utils.common")
    made = [
        benchmark.Measurement(
            10, [time * 10 for time in times], common.TaskSpec("f(x)", "pass", "", "calls", row, column)
        )
        for row, column, times in (
            ("new", "n=1", [2e-6, 2.1e-6]),
            ("new", "n=1", [2.2e-6]),
            ("old", "n=1", [4e-6]),
            ("old", "n=4", [9e-6]),
        )
    ]
    lines = str(benchmark.Compare(made)).split("\n")
    assert lines[0].strip("[-] ") == "calls"
    assert [line.split() for line in lines[1:5]] == [
        ["|", "n=1", "|", "n=4"],
        ["1", "threads:", lines[2].split()[-1]],
        ["new", "|", "2.1", "|"],
        ["old", "|", "4.0", "|", "9.0"],
    ]
    assert lines[6] == "Times are in microseconds (us)."


# %% [markdown]
# ### What upstream does more
#
# * A statement may be C++ (`language="c++"`): it is compiled into an extension with its own loop. `collect_callgrind` runs a statement under Valgrind and counts instructions, which no noise can touch.
# * `Fuzzer`, `FuzzedTensor` and `FuzzedSparseTensor` draw operands of random shapes, strides and densities for a benchmark to run over.
