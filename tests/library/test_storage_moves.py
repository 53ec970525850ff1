"""A storage whose bytes move or change their size: the tensors that look into it follow."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import readtorch as torch
from readtorch import multiprocessing
from readtorch import storage as storages
from readtorch.c10.core.tensor_impl import wrap

WITHOUT = "its data is not allocated"


@pytest.mark.parametrize("size", [0, 4, 15])
def test_views_of_a_storage_that_shrank_keep_their_shapes_and_refuse_to_be_read(size: int) -> None:
    x = torch.arange(4.0)
    view, storage = x[1:].view(3, 1), x.untyped_storage()
    assert storage.resize_(size) is storage and storage.nbytes() == size == len(storage)
    assert (x.shape, view.shape, view.stride(), view.storage_offset()) == ((4,), (3, 1), (1, 1), 1)
    assert view.untyped_storage() is storage and x.device == storage.device and view.data_ptr() == 0
    assert x.detach().view(2, 2).t()[0].shape == (2,)


READS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "add": lambda x: torch.ones(4) + x,
    "out": lambda x: torch.add(torch.ones(4), 1, out=x),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0]),
    "numpy": lambda x: x.numpy(),
    "repr": repr,
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(torch.float64),
    "fill_": lambda x: x.fill_(1),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(torch.ones(4)),
    "mul_": lambda x: x.mul_(2),
    "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(),
    "cat": lambda x: torch.cat([x, x]),
    "matmul": lambda x: x @ x,
    "linear": lambda x: torch.nn.functional.linear(x, torch.ones(1, 4)),
    "softmax": lambda x: torch.softmax(x, 0),
    "sort": lambda x: x.sort(),
    "setitem": lambda x: x.__setitem__(0, 1.0),
}


@pytest.mark.cpu("a device's library refuses it in its own words")
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_tensor_without_bytes_is_not_read(read: Callable[[Any], Any]) -> None:
    x = torch.arange(4.0)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=WITHOUT):
        read(x)


def test_bytes_come_back_for_the_tensor_its_views_and_views_made_in_between() -> None:
    x = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    before, storage = x.detach().t(), x.untyped_storage()
    storage.resize_(0)
    between = x.detach()[1]
    storage.resize_(24)
    x.data.copy_(torch.ones(2, 3))
    between[0] = 5
    assert x.tolist() == [[1, 1, 1], [5, 1, 1]] and before.stride() == (1, 3) and before[0, 1].item() == 5
    assert all(each.untyped_storage() is storage for each in (x, before, between))


def test_what_fits_is_kept_and_a_tensor_that_fits_can_be_read() -> None:
    x = torch.arange(4.0)
    head, storage = x[:2], x.untyped_storage()
    storage.resize_(8)
    assert head.tolist() == [0, 1] and head.data_ptr() == storage.data_ptr() != 0
    storage.resize_(32)
    assert x[:2].tolist() == [0, 1] and x.untyped_storage() is head.untyped_storage()


def test_a_sharded_layer_whose_weight_is_freed_between_its_calls_trains_as_one_that_is_not() -> None:
    torch.manual_seed(0)
    plain, sharded = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    sharded.load_state_dict(plain.state_dict())
    weight = sharded.weight
    shard, nbytes = weight.detach().clone(), weight.untyped_storage().nbytes()
    weight.untyped_storage().resize_(0)
    x = torch.randn(4, 3)

    def gather(*_: Any) -> None:
        weight.untyped_storage().resize_(nbytes)
        weight.data.copy_(shard)

    def free(*_: Any) -> None:
        weight.untyped_storage().resize_(0)

    sharded.register_forward_pre_hook(gather)
    sharded.register_forward_hook(free)
    for layer in (plain, sharded):
        layer(x).square().sum().backward()
    assert weight.untyped_storage().nbytes() == 0
    assert torch.equal(plain.weight.grad, sharded.weight.grad)


@pytest.mark.parametrize(("size", "kind"), [(-1, RuntimeError), (1.5, RuntimeError), ("s", RuntimeError)])
def test_sizes_that_are_none(size: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="resize_"):
        torch.zeros(2).untyped_storage().resize_(size)


def test_a_file_s_bytes_have_their_size(tmp_path: Any) -> None:
    (tmp_path / "bytes").write_bytes(b"\0" * 8)
    storage = torch.UntypedStorage.from_file(tmp_path / "bytes", nbytes=8)
    assert not storage.resizable() and storage.is_shared() and torch.zeros(2).untyped_storage().resizable()
    with pytest.raises(RuntimeError, match="not resizable"):
        storage.resize_(4)


def test_resize_keeps_the_storage_its_offset_and_the_order_in_memory() -> None:
    x = torch.arange(6.0).view(2, 3).t()
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    tail = x[2:]
    assert tail.resize_(3).tolist() == [2, 3, 4] and tail.storage_offset() == 2
    tail.resize_(10)
    assert x.untyped_storage().nbytes() == 48 and tail.storage_offset() == 2
    tail[0] = 9
    assert x[2].item() == 9


def test_set_makes_a_storage_larger_and_takes_a_tensor_for_its_storage() -> None:
    x = torch.arange(4.0)
    y = torch.empty(0).set_(x.untyped_storage(), 1, (8,))
    assert y[:3].tolist() == [1, 2, 3] and x.untyped_storage().nbytes() == 36
    y[0] = 7
    assert x[1].item() == 7
    assert torch.empty(0).set_(x, 1, (2,), (2,)).tolist() == [7, 3]


@pytest.mark.cpu("host memory is what is shared")
@pytest.mark.parametrize("which", [0, 1])
def test_all_views_move_to_shared_memory(which: int) -> None:
    x = torch.arange(4.0)
    pair = (x, x[2:])
    storage = x.untyped_storage()
    pair[which].share_memory_()
    x[2] = 7
    assert x.is_shared() and pair[1].is_shared() and pair[1].tolist() == [7, 3]
    assert x.untyped_storage() is storage is pair[1].untyped_storage() and pair[1].storage_offset() == 2


@pytest.mark.cpu("host memory is what is shared")
def test_a_storage_moves_its_tensors_to_shared_memory() -> None:
    x = torch.arange(4.0)
    x.untyped_storage().share_memory_()
    assert x.is_shared() and x.tolist() == [0, 1, 2, 3]


@pytest.mark.cpu("host memory is what crosses")
def test_two_views_arrive_on_one_storage() -> None:
    x = torch.zeros(4)
    part = x[2:]
    assert multiprocessing.get_sharing_strategy() == "file_descriptor"
    there, there_part = pickle.loads(ForkingPickler.dumps([part, x]))
    there_part[2] = 5
    assert there[0].item() == 5 == part[0].item() == x[2].item()
    assert there.untyped_storage() is there_part.untyped_storage()


@pytest.mark.cpu("host memory is what is shared")
def test_nobody_is_looked_for_where_a_tensor_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, view, kept = torch.zeros(4), wrap(np.zeros(4)[1:]), torch.zeros(4)
    assert storages.is_alone(alone) and storages.is_alone(view)
    other = kept[1:]
    assert not storages.is_alone(kept) and not storages.is_alone(other)
    twice = torch.zeros(8).as_strided((2, 2), (1, 1)).as_strided((2,), (1,))
    assert not storages.is_alone(twice)
    monkeypatch.setattr(gc, "get_objects", lambda: pytest.fail("looked for tensors"))
    alone.share_memory_()
    view.share_memory_()
    torch.empty(0).resize_(5).resize_(9)
    assert alone.is_shared() and view.is_shared()
