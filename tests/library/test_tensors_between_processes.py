"""Tensors that are sent to other processes: arguments, queues, pipes, pools. What arrives is the same memory."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

import readtorch as torch
import readtorch.multiprocessing as mp
from readtorch import nn

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs files in memory"),
    pytest.mark.cpu("host memory is what crosses; a device's is copied"),
]


def sent(thing: Any) -> Any:
    return pickle.loads(ForkingPickler.dumps(thing))


def add_rank(rank: int, model: nn.Module, counts: torch.Tensor) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    counts[rank] += rank + 1


def test_arguments_of_spawned_processes_are_shared_although_nobody_asked() -> None:
    model, counts = nn.Linear(2, 2), torch.zeros(2)
    before = model.weight.detach().clone()
    mp.spawn(add_rank, (model, counts), nprocs=2)
    assert counts.tolist() == [1, 2] and counts.is_shared()
    #: two processes at once may lose one of the additions, but not both
    assert bool((model.weight > before).all())


def fill_what_comes(incoming: Any, outgoing: Any) -> None:
    tensor = incoming.get(timeout=60)
    tensor.fill_(7)
    result = torch.arange(3)
    outgoing.put(result)
    incoming.get(timeout=60)  # alive until the other side has the descriptor


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_goes_through_a_queue_is_the_same_memory(method: str) -> None:
    context = mp.get_context(method)
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=fill_what_comes, args=(there, back))
    process.start()
    x = torch.zeros(2, 3)
    there.put(x)
    result = back.get(timeout=60)
    assert result.tolist() == [0, 1, 2] and result.is_shared() and x.eq(7).all()
    there.put("done")
    process.join(60)
    assert process.exitcode == 0


def double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 2


def test_a_pool_takes_and_gives_tensors() -> None:
    with mp.get_context("fork").Pool(2) as pool:
        assert [each.tolist() for each in pool.map(double, [torch.ones(2), torch.arange(2)])] == [[2, 2], [0, 2]]


THINGS = {
    "0-d": lambda: torch.tensor(3, dtype=torch.int16),
    "empty": lambda: torch.zeros(0, 4),
    "strided": lambda: torch.arange(12.0).reshape(3, 4).t()[1:, ::2],
    "bool": lambda: torch.tensor([True, False]),
    "bfloat16": lambda: torch.arange(3.0).bfloat16(),
    "complex": lambda: torch.tensor([1 + 2j]),
    "expanded": lambda: torch.ones(1).expand(5),
    "leaf": lambda: torch.ones(2, requires_grad=True),
}


@pytest.mark.parametrize("name", THINGS)
def test_kinds_of_tensors(name: str) -> None:
    x = THINGS[name]()
    y = sent(x)
    assert y.dtype == x.dtype and y.shape == x.shape and y.stride() == x.stride() and torch.equal(x, y)
    assert y.requires_grad == x.requires_grad
    assert x.numel() == 0 or x.data_ptr() == y.data_ptr()


def test_a_module_with_tied_weights_arrives_tied_and_shared() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    arrived = sent(model)
    assert arrived[0].weight is arrived[1].weight and isinstance(arrived[0].weight, nn.Parameter)
    assert arrived[0].weight.data_ptr() == model[0].weight.data_ptr()


def test_views_of_shared_memory_arrive_on_one_storage() -> None:
    x = torch.zeros(4).share_memory_()
    whole, part = sent([x, x[2:]])
    part.fill_(1)
    assert whole.tolist() == x.tolist() == [0, 0, 1, 1]
    assert whole.untyped_storage()._cdata == part.untyped_storage()._cdata


def test_storages_cross_whole_and_parts_are_copied() -> None:
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
    storage.share_memory_()
    sent(storage)[0] = 9
    sent(storage[1:3])[0] = 8
    assert storage.tolist() == [9, 1, 2, 3]


def test_a_batch_of_a_loader_leaves_the_loaders_memory() -> None:
    loader = torch.utils.data.DataLoader(torch.ones(4, 1 << 14), batch_size=2, num_workers=1)
    first, second = loader
    assert first.is_shared()
    arrived = sent(first)
    first[0, 0] = 5
    assert arrived[0, 0].item() == 5 and arrived.untyped_storage().nbytes() == first.nbytes
    assert second.share_memory_().eq(1).all()


def test_a_meta_tensor_sends_its_shape_and_a_subclass_its_attributes() -> None:
    assert sent(torch.empty(2, device="meta")).shape == (2,)
    named = torch.ones(2)
    named.label = "kept"
    assert sent(named).label == "kept"


def test_a_history_does_not_cross() -> None:
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        ForkingPickler.dumps(torch.ones(1, requires_grad=True) * 2)


def test_a_plain_pickle_does_not_touch_the_sender() -> None:
    x = torch.ones(2)
    assert pickle.loads(pickle.dumps(x)).tolist() == [1, 1] and not x.is_shared()


@pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")
def test_descriptors_are_given_back() -> None:
    def count() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    sent(torch.ones(3))  # starts the thread that gives descriptors away
    before = count()
    for _ in range(30):
        x = torch.ones(100)
        y = sent(x)
        del x, y
    deadline = time.monotonic() + 30
    while count() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)  # the thread that gives descriptors away closes its end when it comes to it
    assert count() <= before + 2


def test_memory_that_only_forked_processes_share_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", full)
    x = torch.ones(2).share_memory_()
    assert x.is_shared()
    with pytest.raises(RuntimeError, match="no file descriptor"):
        ForkingPickler.dumps(x)


SCRIPT = """
import multiprocessing

import torch


def work(weight, queue):
    weight.data.fill_(3)
    queue.put((torch.__name__, type(weight) is torch.nn.Parameter))
    queue.close()
    queue.join_thread()


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    weight, queue = torch.nn.Parameter(torch.zeros(2)), context.Queue()
    process = context.Process(target=work, args=(weight, queue))
    process.start()
    print(*queue.get(timeout=60), end=" ")
    process.join()
    print(weight.tolist())
"""


def test_a_script_that_spawns_by_pythons_own_multiprocessing(tmp_path: Path) -> None:
    """Run by as_torch, children mean readtorch too when they say torch, also where PyTorch is installed."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "readtorch.as_torch", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.returncode) == ("readtorch True [3.0, 3.0]\n", 0), done.stderr
