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
# # `torch.profiler`: a few steps of many
#
# A training loop is too long to record whole, and its first steps are not typical. A *schedule* says for each step whether to wait, to warm up, to record, or to record and then hand over; the loop calls `step()`. (Warming up is for devices,
# whose first recorded kernels are slow; nothing happens in it here.) After the last step of a cycle, `on_trace_ready` gets the profile.

# %%
import json
import tempfile
import warnings
from pathlib import Path

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: __init__.py
_MODULES.append("profiler")

# %%
#| into: profiler/__init__.py
"""Which operators take the time: the profiler."""

# %%
#| into: profiler/__init__.py
from readtorch.autograd.profiler import kineto_available as kineto_available
from readtorch.autograd.profiler import record_function as record_function
from readtorch.autograd.profiler_util import DeviceType as DeviceType
from readtorch.profiler.profiler import ProfilerAction as ProfilerAction
from readtorch.profiler.profiler import ProfilerActivity as ProfilerActivity
from readtorch.profiler.profiler import profile as profile
from readtorch.profiler.profiler import schedule as schedule
from readtorch.profiler.profiler import supported_activities as supported_activities
from readtorch.profiler.profiler import tensorboard_trace_handler as tensorboard_trace_handler

# %%
#| into: profiler/profiler.py
"""Profiles of chosen steps of a loop."""

# %%
#| into: profiler/profiler.py
#| imports
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


# %%
#| into: profiler/profiler.py
#| upstream: torch/profiler/profiler.py#supported_activities
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


# %%
#| into: profiler/profiler.py
#| upstream: torch/profiler/profiler.py#schedule
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


# %%
#| into: profiler/profiler.py
#| upstream: torch/profiler/profiler.py#tensorboard_trace_handler
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


# %%
#| into: profiler/profiler.py
#| upstream: torch/profiler/profiler.py#profile
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


# %%
#| claim: a schedule chooses the steps; the handler gets each cycle when it has ended
#| upstream: torch/profiler/profiler.py#schedule
def _(torch):
    profiler = torch.profiler
    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    names = "NONE NONE WARMUP RECORD RECORD_AND_SAVE NONE WARMUP RECORD RECORD_AND_SAVE NONE NONE".split()
    assert [plan(step).name for step in range(11)] == names
    assert profiler.schedule(wait=2, warmup=1, active=1, skip_first_wait=1)(0).name == "WARMUP"
    got = []

    def ready(seen):
        counts = {total.key: total.count for total in seen.key_averages()}
        got.append((seen.step_num, counts["ProfilerStep*"], counts["aten::relu"]))

    x = torch.ones(3)
    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready) as seen:
        for _ in range(9):
            x.relu()
            seen.step()
    assert got == [(4, 2, 2), (8, 2, 2)]
    for wrong in ({"wait": -1, "warmup": 1, "active": 1}, {"wait": 1, "warmup": 1, "active": 0}):
        try:
            profiler.schedule(**wrong)
        except AssertionError as error:
            assert "Invalid profiler schedule arguments" in str(error)
        else:
            raise RuntimeError("no error")


# %%
#| claim: a trace is a file that Perfetto reads: each operator's begin and length, on its thread
#| upstream: torch/profiler/profiler.py#profile
def _(torch):
    import json
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write = torch.profiler.tensorboard_trace_handler(folder)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, on_trace_ready=write
        ):
            with torch.profiler.record_function("block"):
                torch.ones(3).relu()
        (name,) = os.listdir(folder)
        assert name.endswith(".pt.trace.json")
        with open(os.path.join(folder, name)) as file:
            events = {event["name"]: event for event in json.load(file)["traceEvents"] if event["ph"] == "X"}
        block, relu = events["block"], events["aten::relu"]
        assert block["ts"] <= relu["ts"] and relu["ts"] + relu["dur"] <= block["ts"] + block["dur"] + 0.01
        assert block["tid"] == relu["tid"] and relu["cat"] == "cpu_op" and block["cat"] == "user_annotation"


# %% [markdown]
# **What upstream does more.** Kernels on a device, with their times and what launched them; the Python functions between the operators (`with_stack` here notes where each operator was called from); memory at the allocator, over time; modules of
# TorchScript. For what runs when on a GPU, and for a picture of a call that can be stepped through, these pages have [their own recorder](../00_tensor/17_one_addition.py).

# %%
with warnings.catch_warnings():
    warnings.simplefilter("error")
    with torch.profiler.profile(profile_memory=True) as seen:
        (torch.rand(300, 300) @ torch.rand(300, 300)).exp().sum()
with tempfile.TemporaryDirectory() as folder:
    seen.export_chrome_trace(Path(folder) / "trace.json")
    print(len(json.loads((Path(folder) / "trace.json").read_text())["traceEvents"]), "events")
print([total.key for total in seen.key_averages()])
