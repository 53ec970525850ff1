# Tangled from chapters/01_import/8g_profiled_steps.py — edit there, or here and run `readtorch sync`.
"""Profiles of chosen steps of a loop."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Self

from readtorch.autograd import profiler as prof
from readtorch.autograd.profiler_util import EventList


class ProfilerActivity(enum.Enum):
    """What may be recorded."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What to do in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def supported_activities() -> set[ProfilerActivity]:
    """What is recorded here: the calls, as the CPU makes them."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Skip `skip_first` steps, then in cycles: `wait`, `warmup`, `active`; `repeat` cycles, or with 0 no end of them.

    `skip_first_wait` not 0: the first cycle does not wait. AssertionError for negative numbers and nothing active.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got {wait=}, {warmup=}, {repeat=}, {skip_first=} (need >= 0), {active=} (need > 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step >= repeat * cycle:
            return ProfilerAction.NONE
        at = step % cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each trace to a file of its own below `dir_name`, which is made if need be."""

    def write(seen: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        seen.export_chrome_trace(os.path.join(dir_name, name))

    return write


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Record the steps that `schedule` chooses, all of them without one; `step()` ends a step.

    `on_trace_ready` gets this object at the end of each cycle. `acc_events` keeps the events of all cycles, else those of
    the last one. Other options are `torch.autograd.profiler.profile`'s. AssertionError for no activities, and for results
    before anything was recorded.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        **options: Any,
    ) -> None:
        chosen = supported_activities() if activities is None else set(activities)
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        if not chosen:
            raise AssertionError("No valid profiler activities found")
        self.activities = chosen
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.acc_events = with_flops, acc_events
        self.on_trace_ready, self.schedule, self.record_steps = (
            on_trace_ready,
            schedule or _always,
            schedule is not None,
        )
        self.step_num = 0
        self.step_rec_fn: prof.record_function | None = None
        self.current_action = self.schedule(0)
        self.profiler: prof.profile | None = None
        self._earlier: EventList | None = None
        self._recording = False
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the action of step 0."""
        self._change(None, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """End; a cycle that was being recorded is handed over as it is."""
        self._close_step()
        self._change(self.current_action, None)

    def step(self) -> None:
        """A step of the program has ended."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        self._open_step()

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Name traces by `callback`."""
        self._metadata["trace_id"] = callback()

    def _open_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = prof.record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _change(self, before: ProfilerAction | None, after: ProfilerAction | None) -> None:
        """From one step's action to the next one's; None stands for before the first and after the last."""
        stays = before is ProfilerAction.RECORD and after in _RECORDING
        if self._recording and not stays:
            if before is ProfilerAction.RECORD and after is not None:
                warnings.warn(f"Incorrect schedule: RECORD followed by {after.name}", stacklevel=3)
            assert self.profiler is not None
            self.profiler.__exit__(None, None, None)
            self._recording = False
            if self.on_trace_ready is not None and (before is ProfilerAction.RECORD_AND_SAVE or after is None):
                self.on_trace_ready(self)
        if after in _RECORDING and not self._recording:
            if self.acc_events and self.profiler is not None:
                self._earlier = self.events()
            self.profiler = prof.profile(
                record_shapes=self.record_shapes,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_flops=self.with_flops,
            )
            self.profiler._metadata = self._metadata
            self.profiler.__enter__()
            self._recording = True

    def _done(self) -> prof.profile:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized: nothing has been recorded")
        return self.profiler

    def events(self) -> EventList:
        """All events, in the order of their begin."""
        found = self._done().function_events
        if self._earlier is None:
            return found
        return EventList([*self._earlier, *found], self.profile_memory, self.with_flops)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The sums of the events by name."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: Any, use_python_export: bool = False) -> None:
        """Write the intervals for `chrome://tracing` or Perfetto; compressed if `path` ends in `.gz`."""
        self._done().export_chrome_trace(path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write each stack and its time as one line, as flame graph tools read them."""
        self._done().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into traces."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value, given as JSON, into traces."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json
