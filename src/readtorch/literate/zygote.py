"""Runs many small tasks in forked children of one process that has already imported what they need.

Starting a Jupyter kernel takes more than a second; a fork of a process that holds IPython, NumPy and readtorch takes
milliseconds and starts from the same state each time. The zygote is a fresh interpreter, so that an edited package is what the
children see, however long the caller has been running; and children are isolated: one that crashes, hangs or changes global state
concerns nobody else.

This file is run by its path, with the standard library alone: a readtorch that cannot be imported is a fault of the chapters, to be
reported by the children like any other.

Caller and zygote speak in JSON lines: tasks go in by standard input, events come out by standard output.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass
class Task:
    """`function` is `module:name`, called in the child with (arguments, report) and returning what JSON can hold.

    It is ended when it reports nothing for `limit` seconds, or takes more than `whole` in all.
    """

    key: str
    function: str
    arguments: dict[str, Any] = field(repr=False)
    limit: float
    whole: float = math.inf


@dataclass
class Event:
    """`kind`: progress (data: what the child reported), done (data: its result), failed (`reason`), died (`reason`: signal,
    exit status or time-out; `where`: the Python stack at that moment, if it could be had).
    """

    task: Task
    kind: str
    data: Any = None
    reason: str = ""
    where: str = ""


class Zygote:
    """The caller's side. Use as a context manager; `run` may be called several times.

    `preload` names what the children share, as `module` or `module:attribute`; what is missing is left out.
    """

    def __init__(self, preload: Iterable[str], *, environment: Mapping[str, str], folder: Path) -> None:
        self._preload = list(preload)
        self._environment = dict(environment)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = Path()
        self._buffer = b""
        self._ready = False

    def __enter__(self) -> Zygote:
        self._answers = Path(tempfile.mkdtemp(prefix="readtorch-"))
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, json.dumps(self._preload), str(self._answers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            cwd=self._folder,
            start_new_session=True,
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()  # the zygote ends its children and itself
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        shutil.rmtree(self._answers, ignore_errors=True)

    def preload(self, names: Iterable[str]) -> None:
        """Let the children from now on share these too."""
        self._send({"preload": list(names)})

    def run(self, tasks: Iterable[Task], jobs: int, until: float = math.inf) -> Iterator[Event]:
        """Run the tasks, `jobs` at a time, in order; yields their events as they come. After `until` none is begun or goes on."""
        waiting = deque(tasks)
        running: dict[str, Task] = {}
        heard: dict[str, float] = {}
        overdue: dict[str, float] = {}
        begun: dict[str, float] = {}
        while waiting or running:
            while waiting and len(running) < max(jobs, 1):
                task = waiting.popleft()
                if time.monotonic() > until:
                    yield Event(task, "failed", reason="was not begun: no time was left")
                    continue
                begun[task.key] = time.monotonic()
                self._send({"start": task.key, "function": task.function, "arguments": task.arguments})
                running[task.key] = task
                heard[task.key] = time.monotonic()
            for message in self._receive(0.2):
                if "ready" in message:
                    self._ready = True
                    heard = dict.fromkeys(heard, time.monotonic())
                    begun = dict.fromkeys(begun, time.monotonic())
                    continue
                task = running[message["key"]]
                heard[task.key] = time.monotonic()
                if "report" in message:
                    if message["report"] is not None:
                        yield Event(task, "progress", message["report"])
                else:
                    del running[task.key]
                    yield self._ended(task, message, timed_out=task.key in overdue)
            now = time.monotonic()
            for key, task in running.items():
                if key in overdue:
                    if now > overdue[key]:
                        self._send({"signal": key, "number": int(signal.SIGKILL)})
                elif self._ready and (now - heard[key] > task.limit or now - begun[key] > task.whole or now > until):
                    overdue[key] = now + 0.5
                    self._send({"signal": key, "number": int(signal.SIGUSR1)})

    def _ended(self, task: Task, message: dict[str, Any], *, timed_out: bool) -> Event:
        answer, stack = self._answers / f"{message['pid']}.json", self._answers / f"{message['pid']}.stack"
        where = stack.read_text("utf-8", "replace") if stack.exists() else ""
        try:
            result = json.loads(answer.read_text("utf-8")) if answer.exists() else None
        except ValueError:
            result = None
        for file in (answer, stack):
            file.unlink(missing_ok=True)
        if timed_out:
            return Event(task, "died", reason=f"did nothing for {task.limit:g} seconds and was ended", where=where)
        if result is None:
            status = message["exit"]
            name = signal.Signals(-status).name if status < 0 else ""
            reason = f"was ended by {name}" if name else f"ended its process with status {status}"
            return Event(task, "died", reason=reason, where=where)
        if "failed" in result:
            return Event(task, "failed", reason=result["failed"])
        return Event(task, "done", result["result"])

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"the executor's process ended with status {self._process.wait()}") from None

    def _receive(self, seconds: float) -> Iterator[dict[str, Any]]:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            return
        chunk = os.read(self._process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise RuntimeError(f"the executor's process ended with status {self._process.wait()}")
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


class _Server:
    """The zygote's side: forks a child for each task, tells when it has ended."""

    def __init__(self, events: int, answers: Path) -> None:
        self.events = events
        self.answers = answers
        self.children: dict[int, str] = {}

    def serve(self) -> None:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        buffer = b""
        while True:
            ready, _, _ = select.select([0, wake_read], [], [])
            if wake_read in ready:
                os.read(wake_read, 4096)
            self._reap()
            if 0 in ready:
                chunk = os.read(0, 1 << 16)
                if not chunk:
                    break
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))
        for pid in self.children:
            _signal_group(pid, signal.SIGKILL)

    def _obey(self, message: dict[str, Any]) -> None:
        if "preload" in message:
            _preload(message["preload"])
            return
        if "signal" in message:
            for pid, key in self.children.items():
                if key == message["signal"]:
                    if message["number"] == signal.SIGKILL:
                        _signal_group(pid, signal.SIGKILL)
                    else:
                        os.kill(pid, message["number"])
            return
        pid = os.fork()
        if pid == 0:
            self._child(message)
        self.children[pid] = message["start"]

    def _reap(self) -> None:
        while self.children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            key = self.children.pop(pid, None)
            _signal_group(pid, signal.SIGKILL)  # what the task has left behind
            if key is not None:
                self.tell({"key": key, "pid": pid, "exit": os.waitstatus_to_exitcode(status)})

    def tell(self, message: dict[str, Any]) -> None:
        os.write(self.events, json.dumps(message).encode() + b"\n")

    def _child(self, message: dict[str, Any]) -> None:
        """Never returns. The answer is written whole or not at all."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        stack = open(self.answers / f"{os.getpid()}.stack", "w")  # noqa: SIM115  it must outlive this function
        faulthandler.enable(stack, all_threads=False)
        faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
        module, _, name = message["function"].partition(":")
        try:
            function = getattr(import_module(module), name)
            result = {
                "result": function(
                    message["arguments"], lambda data: self.tell({"key": message["start"], "report": data})
                )
            }
        except BaseException:
            result = {"failed": traceback.format_exc()}
        answer = self.answers / f"{os.getpid()}.json"
        partial = answer.with_suffix(".partial")
        partial.write_text(json.dumps(result), encoding="utf-8")
        partial.rename(answer)
        os._exit(0)


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _preload(names: Iterable[str]) -> None:
    for name in names:
        module, _, attribute = name.partition(":")
        with suppress(Exception):  # a child that needs it will say what is wrong
            loaded = import_module(module)
            if attribute:
                getattr(loaded, attribute)


def main(arguments: list[str]) -> None:
    events = os.dup(1)
    os.dup2(2, 1)  # what the preloaded modules print is no event
    _preload(json.loads(arguments[0]))
    server = _Server(events, Path(arguments[1]))
    server.tell({"ready": True})
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
