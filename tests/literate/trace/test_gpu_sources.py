"""What a GPU did: records of CUPTI, events and the host's clock become spans under the operators that launched them."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from readtorch.literate.trace.chrome import chrome_trace
from readtorch.literate.trace.document import Trace
from readtorch.literate.trace.gpu import Clock, Cupti, Events, HostClock, Launch, Span, Work, join, short_name


def clock(offset: int = 1000, rate: float = 1.0) -> Clock:
    found = Clock()
    found.add(0, offset)
    found.add(1_000_000, offset + round(1_000_000 * rate))
    return found


def test_a_kernel_stands_under_the_innermost_operator_that_launched_it() -> None:
    work = [Work("k1", "", 0, 7, 500, 600, 1), Work("k2", "", 0, 7, 700, 900, 2), Work("k3", "", 0, 7, 50, 60, 3)]
    launches = [Launch(1, 110), Launch(2, 150), Launch(3, 5)]
    inner, outer = (1105, 1120, 40), (1100, 1200, 41)  # the inner one is noted first
    spans = join(work, launches, [inner, outer], clock())
    assert [(span.name, span.cause) for span in spans] == [("k3", -1), ("k1", 40), ("k2", 41)]
    assert [(span.begin, span.end) for span in spans] == [(1050, 1060), (1500, 1600), (1700, 1900)]


def test_two_clocks_of_different_rate_are_mapped_by_a_line() -> None:
    assert clock(10, 2.0).to_host(500_000) == 10 + 1_000_000
    single = Clock()
    single.add(5, 100)
    assert single.to_host(25) == 120


def test_a_kernels_name_loses_its_type() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int, float*)"
    assert short_name(name) == "vectorized_elementwise_kernel"
    assert short_name("cupy_add__float32_float32_float32") == "cupy_add__float32_float32_float32"


class Kind(IntEnum):
    CONCURRENT_KERNEL = 10
    MEMCPY = 1
    MEMCPY2 = 22
    MEMSET = 2
    RUNTIME = 5
    DRIVER = 4


class FakeCupti:
    """The part of `cupti-python` that is used, with records that a test gives."""

    ActivityKind = Kind

    def __init__(self, records: list[Any]) -> None:
        self.records, self.enabled, self.now = records, set(), 0

    def activity_register_callbacks(self, request: Any, complete: Any) -> None:
        assert request()[1] == 0
        self.complete = complete

    def activity_enable(self, kind: Kind) -> None:
        self.enabled.add(kind)

    def activity_disable(self, kind: Kind) -> None:
        self.enabled.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        self.complete(self.records)

    def get_timestamp(self) -> int:
        self.now += 1_000_000
        return self.now


def record(kind: Kind, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(kind=kind, device_id=0, stream_id=13, correlation_id=9, start=0, end=0, **fields)


def test_cupti_records_become_kernels_and_copies_with_grid_and_bytes() -> None:
    shape = {
        f"{of}_{axis}": n
        for of, sizes in (("grid", (4, 1, 1)), ("block", (256, 1, 1)))
        for axis, n in zip("xyz", sizes, strict=True)
    }
    fake = FakeCupti(
        [
            record(Kind.RUNTIME),
            record(Kind.CONCURRENT_KERNEL, name="void f<float>(int)", **shape),
            record(Kind.MEMCPY, copy_kind=2, bytes=4),
            record(Kind.MEMCPY2, copy_kind=10, bytes=64),
            record(Kind.MEMSET, bytes=512),
        ]
    )
    waited = []
    source = Cupti(fake, lambda: waited.append(True))
    source.start()
    assert fake.enabled == set(Kind)
    spans = source.stop()
    assert waited and not fake.enabled
    assert [(s.name, s.detail, s.stream) for s in spans] == [
        ("f", "grid (4, 1, 1) block (256, 1, 1)", 13), ("copy DtoH", "4 bytes", 13), ("copy PtoP", "64 bytes", 13), ("fill", "512 bytes", 13),
    ]  # fmt: skip


class FakeEvent:
    now = 0.0

    def record(self, stream: Any) -> None:
        FakeEvent.now += 1.5
        self.at = FakeEvent.now

    def synchronize(self) -> None: ...


def test_between_two_events_lies_the_time_of_the_later_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readtorch.literate.trace.gpu.current_stream", lambda device: 0)

    class Device:
        def __init__(self, number: int) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *exc: object) -> None: ...

    cuda = SimpleNamespace(
        Device=Device, Event=FakeEvent, get_current_stream=lambda: None, get_elapsed_time=lambda a, b: b.at - a.at
    )
    source = Events(cuda)
    made = SimpleNamespace(_array=SimpleNamespace(data=SimpleNamespace(device_id=0)))
    source.operator("aten::mm", made, 10_000, 11_000, 3)
    source.operator("aten::relu", made, 12_000, 13_000, 5)
    source.operator("aten::size", SimpleNamespace(_array=SimpleNamespace(data=b"")), 14_000, 15_000, 7)
    assert source.stop() == [
        Span("aten::mm", "", 0, 0, 10_000, 10_000, 3),
        Span("aten::relu", "", 0, 0, 10_000, 1_510_000, 5),
    ]


def test_on_the_hosts_clock_work_has_the_time_of_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readtorch.literate.trace.gpu.current_stream", lambda device: 4)
    source = HostClock()
    made = SimpleNamespace(_array=SimpleNamespace(data=SimpleNamespace(device_id=1)))
    source.operator("aten::add", (made,), 5, 9, 0)
    source.copy("DtoH", 8, SimpleNamespace(ptr=4, device_id=1), 10, 12, 1)
    assert source.stop() == [
        Span("aten::add", "launched in", 1, 4, 5, 9, 0),
        Span("copy DtoH", "8 bytes", 1, 4, 10, 12, 1),
    ]


PROGRAM = """
import readtorch as torch
from readtorch.literate.trace import trace
torch.cuda.init()
x = torch.ones(3, device="cuda:1")
with trace(layers=["calls", "ops", "kernels"]) as t:
    value = (x * 2).sum().item()
t.validate()
t.save(__import__("sys").argv[1])
"""


def test_a_recording_on_a_simulated_device_has_a_lane_for_its_stream_and_says_what_it_is(tmp_path: Any) -> None:
    file = tmp_path / "t.json"
    environment = {**os.environ, "READTORCH_SIM_CUDA": "2"}
    subprocess.run([sys.executable, "-c", PROGRAM, str(file)], check=True, env=environment)
    trace = Trace.load(file)
    document = trace.document
    assert [lane["kind"] for lane in document["lanes"]] == ["main", "stream"]
    assert document["lanes"][1]["name"] == "cuda:1"
    assert document["meta"]["clock"] == "host" and "imulated" in document["meta"]["device"]
    texts = [(document["strings"][s[1]], document["strings"][s[5]]) for s in document["spans"]]
    assert texts == [("aten::mul", "launched in"), ("aten::sum", "launched in"), ("copy DtoH", "4 bytes")]
    kinds = [document["events"]["kinds"][s[4]] for s in document["spans"]]
    assert kinds[:2] == ["O", "O"]
    exported = [e for e in chrome_trace(trace.decoded)["traceEvents"] if e.get("cat") == "gpu"]
    assert [e["name"] for e in exported] == ["aten::mul", "aten::sum", "copy DtoH"]
