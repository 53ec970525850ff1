"""Dimensions and sizes as separate numbers, as one sequence, or by name; and what an element of a list may be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import readtorch as torch

pytestmark = pytest.mark.cpu("its tensors are made when it is imported; arguments are read alike on every device")

A = torch.arange(12.0).reshape(3, 4)
S = torch.ones(1, 1, 3)

SAME: list[tuple[str, list[Callable[[], Any]]]] = [
    ("squeeze", [lambda: S.squeeze(0, 1), lambda: S.squeeze((0, 1)), lambda: S.squeeze(dim=(0, 1)), lambda: torch.ones(3)]),
    ("squeeze_", [lambda: S.clone().squeeze_(0, 1), lambda: torch.ones(3)]),
    ("count_nonzero", [lambda: A.count_nonzero(0, 1), lambda: A.count_nonzero((0, 1)), lambda: torch.tensor(11)]),
    ("count_nonzero of one", [lambda: A.count_nonzero(0), lambda: torch.count_nonzero(A, dim=0), lambda: torch.tensor([2, 3, 3, 3])]),
    ("permute", [lambda: A.permute(1, 0), lambda: A.permute(dims=(1, 0)), lambda: torch.permute(A, dims=(1, 0)), lambda: A.t()]),
    ("permute named", [lambda: torch.permute(input=A, dims=(1, 0)), lambda: A.t()]),
    ("view", [lambda: A.view(4, 3), lambda: A.view(size=(4, 3)), lambda: A.reshape(shape=(4, 3)), lambda: torch.reshape(A, shape=(4, 3))]),
    ("view as bytes", [lambda: A.view(dtype=torch.int32), lambda: A.view(torch.int32)]),
    ("expand", [lambda: A.expand(2, 3, 4), lambda: A.expand(size=(2, 3, 4)), lambda: A.broadcast_to(2, 3, 4), lambda: torch.broadcast_to(A, size=(2, 3, 4))]),
    ("repeat", [lambda: A.repeat(1, 2), lambda: A.repeat(repeats=(1, 2)), lambda: A.tile(dims=(1, 2)), lambda: torch.tile(A, dims=(1, 2))]),
    ("flip", [lambda: A.flip(0, 1), lambda: A.flip(dims=(0, 1)), lambda: torch.flip(A, dims=[0, 1]), lambda: torch.flip(input=A, dims=(0, 1))]),
    ("zeros", [lambda: torch.zeros(2, 3), lambda: torch.zeros(size=(2, 3)), lambda: A.new_zeros(size=(2, 3)), lambda: A.new_zeros(2, 3)]),
    ("ones", [lambda: torch.ones(2), lambda: torch.ones(size=(2,)), lambda: A.new_ones(size=[2])]),
    ("hsplit", [lambda: A.hsplit(1, 2)[1], lambda: A.hsplit((1, 2))[1]]),
    ("sum_to_size", [lambda: A.sum_to_size(1, 4), lambda: A.sum_to_size(size=(1, 4))]),
    ("combinations of none", [lambda: torch.combinations(torch.arange(3), 0), lambda: torch.empty(0, dtype=torch.int64)]),
    ("lists of tensors", [lambda: torch.tensor([torch.tensor([1.0]), 2.0, torch.tensor([[3]])]), lambda: torch.tensor([1.0, 2, 3])]),
    ("a tensor for a row", [lambda: torch.tensor([[3, 4], torch.tensor([1, 2])]), lambda: torch.tensor([[3, 4], [1, 2]])]),
    ("set_", [lambda: torch.empty(0).resize_(size=(2, 2)).zero_(), lambda: torch.zeros(2, 2)]),
]  # fmt: skip


@pytest.mark.parametrize("ways", [ways for _, ways in SAME], ids=[name for name, _ in SAME])
def test_all_ways_of_saying_it_give_the_same(ways: list[Callable[[], Any]]) -> None:
    first, *others = [way() for way in ways]
    for other in others:
        assert other.dtype == first.dtype and other.shape == first.shape and torch.equal(other, first)


def test_random_sizes_may_be_named() -> None:
    for make in (torch.rand, torch.randn, torch.empty):
        assert make(size=(2, 3)).shape == (2, 3) and make((2, 3), dtype=torch.float64).dtype == torch.float64


def test_gradients_go_through_arguments_that_are_named() -> None:
    x = torch.ones(1, 2, requires_grad=True)
    (x.permute(dims=(1, 0)).flip(dims=(0,)).squeeze(-1).expand(size=(3, 2)) * torch.tensor([1.0, 2.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[6, 3]]


BYTES = torch.tensor([1, 0, 1], dtype=torch.uint8)
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: S.squeeze(0, 0), RuntimeError, "appears multiple times"),
    (lambda: S.squeeze(0, 5), IndexError, "out of range"),
    (lambda: S.squeeze(0, "a"), TypeError, "dim"),
    (lambda: A.count_nonzero(0, 1.0), TypeError, "dim"),
    (lambda: A.count_nonzero(5, 0), IndexError, "out of range"),
    (lambda: A.permute((1, 0), dims=(1, 0)), TypeError, "dims"),
    (lambda: A.flip(dim=(0,)), TypeError, "dim"),
    (lambda: torch.zeros(2, size=(2,)), TypeError, "size"),
    (lambda: torch.zeros(shape=(2,)), TypeError, "zeros"),
    (lambda: torch.combinations(torch.arange(3), 99), RuntimeError, "overflow"),
    (lambda: torch.logsumexp(A, ()), RuntimeError, r"doesn't match the broadcast shape \[1, 1\]"),
    (lambda: torch.tensor([torch.tensor([1.0, 2.0])]), ValueError, "only one element tensors"),
    (lambda: torch.tensor([torch.tensor([1, 2]), [3, 4]]), TypeError, "only integer tensors of a single element"),
    (lambda: torch.zeros(3).__setitem__(BYTES, 5), RuntimeError, "only supports boolean masks"),
    (lambda: torch.zeros(3).index_put_((BYTES,), torch.tensor(5.0)), RuntimeError, "only supports boolean masks"),
    (lambda: torch.zeros(2).__setitem__(0, [1.0]), TypeError, "can't assign a list to a torch.FloatTensor"),
    (lambda: torch.zeros(2).__setitem__(0, np.ones(2)), TypeError, "can't assign a numpy.ndarray to a torch.FloatTensor"),
    (lambda: torch.zeros(2).__setitem__(0, None), TypeError, "can't assign a NoneType to a torch.FloatTensor"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize(("call", "kind", "phrase"), WRONG)
def test_what_is_no_way_of_saying_it(call: Callable[[], Any], kind: type[Exception], phrase: str) -> None:
    with pytest.raises(kind, match=phrase):
        call()


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_a_mask_of_bytes_still_takes_as_many_values_as_it_has_places() -> None:
    x = torch.zeros(3)
    x[BYTES] = torch.tensor([7.0, 8.0])
    assert x.tolist() == [7, 0, 8]
    assert x.index_put((BYTES,), torch.tensor([1.0, 2.0])).tolist() == [1, 0, 2]


PROGRAM = """
import warnings, math, readtorch as torch
warnings.simplefilter("always")
r = torch.tensor([2.0], requires_grad=True)
def said(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return ["Converting a tensor with requires_grad=True to a scalar" in str(warning.message) for warning in seen]
def quietly():
    with torch.no_grad():
        float(r)
for call in (lambda: int(r), lambda: r.item(), lambda: bool(r), lambda: r.tolist(), lambda: float(r.detach()), quietly):
    assert said(call) == [], call
assert said(lambda: CALL) == [True]
assert said(lambda: float(r)) == []
"""


@pytest.mark.parametrize("call", ["float(r)", "complex(r)", "math.sqrt(r * 2)", "torch.tensor([r, r])"])
def test_a_number_made_of_a_tensor_that_requires_grad_warns_once(call: str) -> None:
    program = PROGRAM.replace("CALL", call)
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
