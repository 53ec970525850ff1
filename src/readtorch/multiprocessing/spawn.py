# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""Processes by rank, and what happens when one of them fails."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable
from typing import Any


class ProcessException(Exception):
    """A process failed; says which."""

    __slots__ = ("error_index", "error_pid")

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = self.error_pid = pid

    def __reduce__(self) -> tuple[type, tuple]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended with a Python exception; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with a status other than zero."""

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[type, tuple]:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _wrap(fn: Callable[..., None], rank: int, args: tuple, error_file: str) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        try:
            fn(rank, *args)
        except Exception:
            pathlib.Path(error_file).write_bytes(pickle.dumps(traceback.format_exc()))
            raise SystemExit(1) from None


class ProcessContext:
    """The processes of one `start_processes`."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: rank for rank, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The process ids, by rank."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one process to end. True when all have; raises when one failed, after ending the others."""
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout)
        failed = None
        for sentinel in ready:
            rank = self.sentinels.pop(sentinel)
            self.processes[rank].join()
            if self.processes[rank].exitcode != 0:
                failed = rank
                break
        if failed is None:
            return not self.sentinels
        self._end_all(grace_period)
        self._raise(failed)
        return False

    def _end_all(self, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30.0 if grace_period is None else grace_period)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, rank: int) -> None:
        process = self.processes[rank]
        if not os.path.getsize(self.error_files[rank]):
            if process.exitcode < 0:
                name = signal.Signals(-process.exitcode).name
                raise ProcessExitedException(
                    f"process {rank} terminated with signal {name}", rank, process.pid, process.exitcode, name
                )
            raise ProcessExitedException(
                f"process {rank} terminated with exit code {process.exitcode}", rank, process.pid, process.exitcode
            )
        with open(self.error_files[rank], "rb") as file:
            original = pickle.load(file)
        message = f"\n\n-- Process {rank} terminated with the following error:\n{original}"
        raise ProcessRaisedException(message, rank, process.pid)

    def __del__(self) -> None:
        for file in self.error_files:
            if os.path.exists(file):
                os.remove(file)


class SpawnContext(ProcessContext):
    """The same, of processes started by `spawn`."""


def start_processes(
    fn: Callable[..., None],
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    numa_options: Any = None,
) -> ProcessContext | None:
    """Run `fn(rank, *args)` in `nprocs` processes. With `join` wait for all and return None, else return their context."""
    context: Any = multiprocessing.get_context(start_method)
    processes, files = [], []
    for rank in range(nprocs):
        handle, name = tempfile.mkstemp(prefix="torch-multiprocessing-error-", suffix=".pickle")
        os.close(handle)
        process = context.Process(target=_wrap, args=(fn, rank, args, name), daemon=daemon)
        process.start()
        processes.append(process)
        files.append(name)
    started = (SpawnContext if start_method == "spawn" else ProcessContext)(processes, files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., None],
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by a fresh interpreter each, whose `fn` is found by import: it has to stand at a module's top level."""
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
