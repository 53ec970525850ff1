"""Batches that cross to another process: what arrives is what was sent, where it lies, and when its memory is used again."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import readtorch as torch
from readtorch.multiprocessing import reductions
from readtorch.multiprocessing.reductions import Receiver, Sender, SharedFile, pack
from readtorch.utils.data import DataLoader, Dataset, IterableDataset

pytestmark = pytest.mark.cpu("memory of the host crosses")
needs_files = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs files in memory")
BIG = 1 << 14
"""Numbers; in any dtype of two bytes or more they go by shared memory."""


@pytest.fixture
def ends() -> Iterator[tuple[Sender, Receiver]]:
    file = SharedFile()
    yield Sender(file, 3), Receiver(file)
    file.close()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and one.tolist() == other.tolist()
    return one.dtype == other.dtype and np.array_equal(one, other)


THINGS = {
    "scalar": lambda: torch.tensor(2.5),
    "empty": lambda: torch.zeros(0, 3),
    "small": lambda: torch.arange(5),
    "large": lambda: torch.arange(BIG, dtype=torch.float64).reshape(2, -1),
    "bfloat16": lambda: torch.arange(3.0).repeat(BIG).bfloat16(),
    "bool": lambda: torch.arange(3 * BIG) % 3 == 0,
    "complex": lambda: torch.complex(torch.ones(BIG), torch.arange(float(BIG))),
    "transposed": lambda: torch.arange(2.0 * BIG).reshape(2, -1).t(),
    "part": lambda: torch.arange(4.0 * BIG)[5 : 2 * BIG],
    "array": lambda: np.arange(BIG, dtype=np.float32),
    "array in Fortran's order": lambda: np.asfortranarray(np.arange(2.0 * BIG).reshape(2, -1)),
    "array of strings": lambda: np.array(["a", "b"]),
}


@needs_files
@pytest.mark.parametrize("name", THINGS)
def test_what_arrives_is_what_was_sent(ends: tuple[Sender, Receiver], name: str) -> None:
    sender, receiver = ends
    thing = THINGS[name]()
    message = pack({"it": [thing, "text"]}, sender)
    assert message.sender == 3
    arrived = receiver.unpack(message)["it"]
    assert arrived[1] == "text" and type(arrived[0]) is type(thing) and same(arrived[0], thing)


@needs_files
def test_leaves_that_want_gradients_and_subclasses_stay_what_they_are(ends: tuple[Sender, Receiver]) -> None:
    sender, receiver = ends
    for thing in (torch.ones(BIG, requires_grad=True), torch.nn.Parameter(torch.ones(BIG))):
        arrived = receiver.unpack(pack(thing, sender))
        assert type(arrived) is type(thing) and arrived.requires_grad and same(arrived, thing)


@needs_files
def test_large_buffers_are_shared_writable_and_not_in_the_pickle(ends: tuple[Sender, Receiver]) -> None:
    sender, receiver = ends
    message = pack([torch.ones(1 << 20), np.ones(1 << 20)], sender)
    assert len(message.data) < 1000 and len(message.places) == 2
    tensor, array = receiver.unpack(message)
    assert tensor.is_shared() and tensor.add_(1).sum().item() == 2 << 20
    array += 1


@needs_files
def test_memory_is_used_again_once_no_view_is_left_at_either_end(ends: tuple[Sender, Receiver]) -> None:
    sender, receiver = ends

    def send(kept: Any = None) -> tuple[Any, int]:
        message = pack(torch.ones(BIG) if kept is None else kept, sender)
        return receiver.unpack(message), message.places[0].extent

    first, place = send()
    view = first[3:]
    del first
    second = send()[1]
    assert second != place
    sender.released(receiver.released())
    assert send()[1] == second
    del view
    sender.released(receiver.released())
    held = [send(), send()]
    assert {extent for _, extent in held} == {place, second}


@needs_files
def test_what_the_sender_keeps_is_not_overwritten(
    ends: tuple[Sender, Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = ends
    monkeypatch.setattr(reductions, "outgoing", sender)
    kept = reductions.stacked([torch.zeros(BIG)] * 2)
    assert kept is not None
    for _ in range(2):
        assert same(receiver.unpack(pack(kept, sender)), kept)
        sender.released(receiver.released())
    other = reductions.stacked([torch.ones(BIG)] * 2)
    assert other is not None and not kept.any() and other.all()
    del kept
    assert reductions.stacked([torch.ones(BIG)] * 2) is not None
    assert len(sender._extents) == 2


@needs_files
def test_a_stacked_batch_is_sent_without_a_copy(ends: tuple[Sender, Receiver], monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = ends
    monkeypatch.setattr(reductions, "outgoing", sender)
    batch = reductions.stacked([torch.zeros(BIG), torch.ones(BIG)])
    assert batch is not None
    message = pack((batch, batch[1]), sender)
    assert [place.extent for place in message.places] == [0, 0] and len(sender._extents) == 1
    whole, row = receiver.unpack(message)
    whole[1, 0] = 7
    assert row[0].item() == batch[1, 0].item() == 7


@needs_files
def test_batches_of_changing_length_do_not_eat_up_the_file(ends: tuple[Sender, Receiver]) -> None:
    sender, receiver = ends
    for length in np.random.default_rng(0).integers(BIG, 20 * BIG, 200).tolist():
        assert receiver.unpack(pack(torch.ones(length), sender)).sum().item() == length
        sender.released(receiver.released())
    assert len(sender._extents) < 12


@needs_files
def test_a_buffer_larger_than_a_segment_gets_one_of_its_own(
    ends: tuple[Sender, Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reductions, "_SEGMENT", 1 << 17)
    sender, receiver = ends
    held = [receiver.unpack(pack(torch.full((length,), float(length)), sender)) for length in (BIG, 100_000, BIG)]
    assert [tensor.unique().tolist() for tensor in held] == [[BIG], [100_000], [BIG]]


# -- through a loader ------------------------------------------------------------------------------------------------


class Rows(Dataset):
    def __init__(self, count: int = 64) -> None:
        self.data = torch.arange(count * 8192, dtype=torch.float32).reshape(count, 8192)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.data[index], index


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        return iter(Rows(16).data)


def check(batches: list[Any], count: int = 64) -> None:
    rows = Rows(count)
    assert torch.equal(torch.cat([batch[0] for batch in batches]), rows.data)
    assert torch.cat([batch[1] for batch in batches]).tolist() == list(range(count))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_batches_that_are_kept_stay_as_they_are(method: str) -> None:
    batches = list(DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context=method))
    assert batches[0][0].is_shared() or not hasattr(os, "memfd_create")
    check(batches)


@needs_files
def test_epochs_that_are_left_early_lose_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    array, extents = Receiver._array, set()

    def noted(self: Receiver, place: reductions.Place) -> np.ndarray:
        extents.add(place.extent)
        return array(self, place)

    monkeypatch.setattr(Receiver, "_array", noted)
    loader = DataLoader(Rows(), 4, num_workers=2, persistent_workers=True, multiprocessing_context="fork")
    for _ in range(10):
        for number, _ in enumerate(loader):
            if number == 2:
                break
    check(list(loader))
    in_list = 64 // 4 // 2
    assert len(extents) <= in_list + 4


def test_without_files_in_memory_batches_are_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedFile, "if_possible", classmethod(lambda cls: None))
    batches = list(DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context="fork"))
    assert not batches[0][0].is_shared()
    check(batches)


def test_a_stream_in_a_worker_crosses_too() -> None:
    batches = list(DataLoader(Stream(), batch_size=4, num_workers=1, multiprocessing_context="fork"))
    assert torch.equal(torch.cat(batches), Rows(16).data)


def test_a_batch_that_cannot_be_pickled_raises_in_the_parent() -> None:
    loader = DataLoader(Rows(4), num_workers=1, collate_fn=lambda batch: lambda: batch, multiprocessing_context="fork")
    with pytest.raises(Exception, match=r"(?s)in DataLoader worker process 0.*pickle"):
        next(iter(loader))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_no_descriptor_is_left_and_batches_outlive_the_loader() -> None:
    def used() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    check(list(DataLoader(Rows(), 4, num_workers=2, multiprocessing_context="fork")))
    before = used()
    for _ in range(3):
        kept = list(DataLoader(Rows(), 4, num_workers=2, multiprocessing_context="fork"))
        check(kept)
        del kept
    assert used() <= before
