"""Loops shared among threads: every piece once, errors and settings of the caller, nesting, and child processes."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import readtorch as torch
from readtorch.aten import parallel


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    if torch.get_num_threads() != 3:
        pytest.skip("this NumPy's BLAS cannot be told how many threads to use")
    yield
    torch.set_num_threads(before)


def names_of_workers(pieces: int = 30) -> set[str]:
    """Who takes part in a loop whose pieces last long enough for all."""
    names = set()

    def piece(start: int, stop: int) -> None:
        names.add(threading.current_thread().name)
        time.sleep(0.01)

    parallel.parallel_for(0, pieces, 1, piece)
    return names


@pytest.mark.parametrize(("begin", "end", "grain"), [(0, 0, 4), (0, 1, 4), (3, 50, 4), (0, 48, 4), (0, 7, 1)])
def test_every_index_is_met_once(three_threads: None, begin: int, end: int, grain: int) -> None:
    met: list[int] = []
    parallel.parallel_for(begin, end, grain, lambda start, stop: met.extend(range(start, stop)))
    assert sorted(met) == list(range(begin, end))


def test_helpers_take_part_and_one_thread_means_the_caller_alone(three_threads: None) -> None:
    assert len(names_of_workers()) == 3
    torch.set_num_threads(1)
    assert names_of_workers(5) == {threading.current_thread().name}


def test_an_error_in_a_helper_is_raised_in_the_caller_when_all_have_ended(three_threads: None) -> None:
    ended = []

    def piece(start: int, stop: int) -> None:
        time.sleep(0.01)
        ended.append(start)
        if threading.current_thread().name.startswith("readtorch-parallel"):
            raise ValueError("from a helper")

    with pytest.raises(ValueError, match="from a helper"):
        parallel.parallel_for(0, 20, 1, piece)
    assert sorted(ended) == list(range(20))
    assert len(names_of_workers()) == 3


def test_error_settings_of_the_caller_hold_in_helpers(three_threads: None, recwarn: pytest.WarningsRecorder) -> None:
    def piece(start: int, stop: int) -> None:
        time.sleep(0.005)
        np.divide(np.ones(1000), np.zeros(1000))

    with np.errstate(divide="ignore"):
        parallel.parallel_for(0, 10, 1, piece)
    assert not recwarn.list


def test_a_loop_inside_a_loop_runs_where_it_is_met(three_threads: None) -> None:
    inner: list[bool] = []

    def piece(start: int, stop: int) -> None:
        here = threading.current_thread()
        parallel.parallel_for(0, 4, 1, lambda a, b: inner.append(threading.current_thread() is here))

    parallel.parallel_for(0, 12, 1, piece)
    assert inner == [True] * 48


def test_blas_has_one_thread_in_a_loop_and_gets_its_number_back(three_threads: None) -> None:
    blas = parallel._openblas()
    assert blas is not None
    seen = set()
    parallel.parallel_for(0, 6, 1, lambda start, stop: seen.add((blas[1](), torch.get_num_threads())))
    assert seen == {(1, 3)}
    assert blas[1]() == 3
    parallel.parallel_for(0, 6, 1, lambda start, stop: torch.set_num_threads(2))
    assert blas[1]() == torch.get_num_threads() == 2


def _count_in_child(answers: multiprocessing.SimpleQueue) -> None:
    answers.put(len(names_of_workers()))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_child_gets_helpers_of_its_own(three_threads: None) -> None:
    assert len(names_of_workers()) == 3
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_count_in_child, args=(answers,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert answers.get() == 3


def test_arrays_of_a_finished_loop_are_let_go(three_threads: None) -> None:
    import gc
    import weakref

    array = np.ones(1000)
    gone = weakref.ref(array)
    parallel.parallel_for(0, 3, 1, lambda start, stop, array=array: time.sleep(0.005))  # type: ignore[misc]  # its default holds the array
    del array
    names_of_workers()
    gc.collect()
    assert gone() is None


def _gradients(function: Any, *shapes: tuple[int, ...], last: bool = False) -> list[np.ndarray]:
    """Result and gradients of all inputs, which are random numbers of these shapes."""
    rng = np.random.default_rng(0)
    inputs = [torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
    if last:
        inputs[0] = inputs[0].contiguous(memory_format=torch.channels_last)
    for tensor in inputs:
        tensor.requires_grad_()
    result = function(*inputs)
    weights = torch.from_numpy(rng.standard_normal(result.shape).astype(np.float32))
    return [result.detach().numpy(), *(grad.numpy() for grad in torch.autograd.grad(result, inputs, weights))]


F = torch.nn.functional
OPERATORS: dict[str, Callable[[], list[np.ndarray]]] = {
    "conv2d": lambda: _gradients(lambda x, w: F.conv2d(x, w, padding=1), (16, 32, 24, 24), (40, 32, 3, 3)),
    "conv2d, channels last": lambda: _gradients(
        lambda x, w: F.conv2d(x, w, padding=1), (16, 32, 24, 24), (40, 32, 3, 3), last=True
    ),
    "conv2d, few channels": lambda: _gradients(lambda x, w: F.conv2d(x, w), (16, 3, 48, 48), (24, 3, 5, 5)),
    "conv2d, large weights": lambda: _gradients(
        lambda x, w: F.conv2d(x, w, padding=1), (40, 128, 4, 4), (256, 128, 3, 3)
    ),
    "conv2d, stride": lambda: _gradients(
        lambda x, w: F.conv2d(x, w, stride=2, padding=1), (16, 32, 32, 32), (64, 32, 3, 3)
    ),
    "conv2d, parts of an image": lambda: _gradients(
        lambda x, w: F.conv2d(x, w, stride=2, padding=1), (2, 16, 160, 160), (64, 16, 3, 3)
    ),
    "batch_norm": lambda: _gradients(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (32, 24, 32, 32), (24,), (24,)
    ),
    "batch_norm, channels last": lambda: _gradients(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (32, 24, 32, 32), (24,), (24,), last=True
    ),
    "layer_norm": lambda: _gradients(lambda x, w, b: F.layer_norm(x, (512,), w, b), (40, 64, 512), (512,), (512,)),
    "max_pool2d, overlapping": lambda: _gradients(lambda x: F.max_pool2d(x, 3, 2, 1), (40, 24, 24, 24)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_give_the_same_in_every_run_and_nearly_the_same_with_one_thread(
    three_threads: None, name: str
) -> None:
    shared, again = OPERATORS[name](), OPERATORS[name]()
    torch.set_num_threads(1)
    alone = OPERATORS[name]()
    for one, two, three in zip(shared, again, alone, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, three, rtol=1e-4, atol=1e-4 * np.abs(three).max())


@pytest.mark.parametrize("count", [1, 5, 200])
@pytest.mark.parametrize("shape", [(), (2,), (0, 4), (4, 0), (3, 64, 64)])
def test_stacked_samples_stand_behind_each_other(three_threads: None, shape: tuple[int, ...], count: int) -> None:
    samples = [np.full(shape, number, np.float32) for number in range(count)]
    stacked = torch.stack([torch.from_numpy(sample) for sample in samples])
    np.testing.assert_array_equal(stacked.numpy(), np.array(samples))
    assert stacked.is_contiguous() and stacked.shape == (count, *shape)


def test_transposed_samples_and_several_dtypes_are_stacked(three_threads: None) -> None:
    rows = torch.arange(12).reshape(3, 4)
    both = torch.stack([rows.t(), rows.reshape(4, 3).float()])
    assert both.dtype == torch.float32 and both.stride() == (12, 3, 1)
    assert torch.equal(both[0], rows.t().float()) and torch.equal(both[1], rows.reshape(4, 3).float())
