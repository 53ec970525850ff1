# Tangled from chapters/01_import/d7_torch_cuda.py — edit there, or here and run `readtorch sync`.
"""Queues of work and marks in them (twin of `torch/cuda/streams.py`)."""

from __future__ import annotations

from typing import Any

from readtorch.c10.core.device import device as Device
from readtorch.c10.cuda import cuda_functions, cuda_stream
from readtorch.c10.cuda.cuda_guard import CUDAGuard
from readtorch.cuda._utils import _get_device_index


def _need_cuda() -> None:
    from readtorch import cuda

    cuda._lazy_init()


class Stream:
    """One of the device's 32 queues of that priority; work in different ones may overlap. `priority` -1 goes before 0."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        cuda_functions.require("torch.cuda.Stream")
        _need_cuda()
        queue = kwargs.get("_queue")
        number = _get_device_index(device, optional=True) if queue is None else kwargs["_number"]
        self._number = number
        self._queue = cuda_stream.get_stream_from_pool(number, priority) if queue is None else queue
        self.priority = min(priority, 0)

    @property
    def device(self) -> Device:
        """The device it belongs to."""
        return Device("cuda", self._number)

    @property
    def device_index(self) -> int:
        """The number of that device."""
        return self._number

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self._queue.ptr)

    stream_id = cuda_stream

    def wait_event(self, event: Event) -> None:
        """Let later work wait for `event`; the host goes on."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for all that is in `stream` now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Put a mark behind what is in the stream now."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Is nothing left to do?"""
        return bool(self._queue.done)

    def synchronize(self) -> None:
        """Let the host wait for it."""
        cuda_functions.stream_synchronize(self._queue, "synchronize")

    def __enter__(self) -> Stream:
        from readtorch import cuda

        self.__dict__.setdefault("_contexts", []).append(cuda.StreamContext(self))
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._contexts.pop().__exit__(*exc)

    _contexts: list[Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self._number, self.cuda_stream) == (other._number, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self._number, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream, to wait for or to take the time at. It belongs to the device on which it is first recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        cuda_functions.require("torch.cuda.Event")
        self._options = {"block": blocking, "disable_timing": not enable_timing, "interprocess": interprocess}
        self._mark: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind what is in `stream`, by default the current one, now."""
        _need_cuda()
        queue = cuda_stream.get_current_stream() if stream is None else stream._queue
        number = cuda_functions.current_device() if stream is None else stream._number
        with CUDAGuard(number):
            if self._mark is None:
                self._mark = cuda_functions.library().cuda.Event(**self._options)
            self._mark.record(queue)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of `stream`, by default the current one, wait for the mark."""
        _need_cuda()
        if self._mark is not None:
            queue = cuda_stream.get_current_stream() if stream is None else stream._queue
            queue.wait_event(self._mark)

    def query(self) -> bool:
        """Has everything before the mark been done?"""
        return self._mark is None or bool(self._mark.done)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another. RuntimeError unless both were made with `enable_timing` and recorded."""
        for event in (self, end_event):
            if event._options["disable_timing"]:
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if event._mark is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(cuda_functions.library().cuda.get_elapsed_time(self._mark, end_event._mark))

    def synchronize(self) -> None:
        """Let the host wait for the mark."""
        if self._mark is not None:
            self._mark.synchronize()

    @property
    def cuda_event(self) -> int:
        """The driver's handle; 0 before the first record."""
        return int(getattr(self._mark, "ptr", 0) or 0)

    def __repr__(self) -> str:
        return (
            f"<torch.cuda.Event {self.cuda_event:#x}>" if self._mark is not None else "<torch.cuda.Event uninitialized>"
        )
