# Tangled from chapters/01_import/8e_benchmark.py — edit there, or here and run `readtorch sync`.
"""A timer that knows about threads and devices."""

from __future__ import annotations

import enum
import statistics
import textwrap
import timeit
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from readtorch.utils.benchmark.utils import common

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
