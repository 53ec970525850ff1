"""Faults that public training scripts brought to light, each as the smallest program that showed it."""

from __future__ import annotations

import gc
import io
import itertools
import math
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import readtorch as torch
import readtorch.nn.functional as F


@pytest.mark.cpu("a sampler's generator is one of the CPU, upstream too")
def test_random_sampler_with_replacement_makes_its_draws_as_they_are_asked_for() -> None:
    sampler = torch.utils.data.RandomSampler(range(10), replacement=True, num_samples=10**10)
    assert len(list(itertools.islice(sampler, 70))) == 70


def test_whole_modules_load_when_their_classes_are_allowed() -> None:
    stream = io.BytesIO()
    torch.save(torch.nn.Sequential(torch.nn.Dropout(0.25)), stream)
    stream.seek(0)
    with torch.serialization.safe_globals([torch.nn.Sequential, torch.nn.Dropout, set]):
        assert torch.load(stream)[0].p == 0.25


def test_erf_in_single_precision_is_right_to_the_last_place_but_one() -> None:
    x = np.linspace(-5, 5, 20001, dtype=np.float32)
    exact = np.array([math.erf(float(value)) for value in x])
    error = np.abs(torch.erf(torch.from_numpy(x)).cpu().numpy() - exact)
    assert (error / np.spacing(np.abs(exact).astype(np.float32))).max() < 0.6
    assert torch.erf(torch.tensor([math.inf, -math.inf])).tolist() == [1.0, -1.0]
    assert torch.erf(torch.tensor(math.nan)).isnan()


@pytest.mark.parametrize("exponent", [2, 3, 2.0, 3.0])
def test_small_powers_are_products(exponent: float) -> None:
    x = torch.randn(200_000)
    product = x * x if exponent == 2 else x * x * x
    assert torch.equal(x**exponent, product)
    small, general = [], []  # CPU time, and the least of several: machines are shared
    for _ in range(7):
        for power, spent in ((exponent, small), (2.5, general)):
            began = time.process_time()
            torch.pow(x, power)
            spent.append(time.process_time() - began)
    assert min(small) < min(general)


def test_rarely_used_functions_are_there() -> None:
    with pytest.warns(UserWarning, match="torch.range is deprecated"):
        assert torch.range(0, 1, 0.5).tolist() == [0, 0.5, 1]
    points = torch.tensor([[0.0, 0], [3, 4], [0, 1]])
    assert torch.allclose(torch.nn.functional.pdist(points), torch.tensor([5, 1, 18**0.5]))
    assert int(torch.ones(50, dtype=torch.uint8).random_(250, None).min()) >= 250
    assert torch.detach(torch.ones(2, requires_grad=True) * 2).grad_fn is None


@pytest.mark.cpu("map_ is the CPU's upstream too")
def test_a_function_of_python_over_the_elements() -> None:
    x = torch.arange(3.0)
    assert x.map_(torch.ones(3), max).tolist() == [1, 1, 2]
    assert x.map2_(torch.ones(3), torch.ones(1), lambda a, b, c: a + b + c).tolist() == [3, 3, 4]
    with pytest.raises(TypeError, match="for 'other'"):
        x.map_(torch.ones(3).double(), max)


@pytest.mark.cpu("files are mapped on the host, and its memory is swapped there")
def test_files_and_bytes_as_storages(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    torch.from_file(str(file), shared=True, size=3).fill_(2)
    assert torch.from_file(str(file), size=3).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="smaller than the required mapping size"):
        torch.from_file(str(file), size=4)
    storage = torch.tensor([1], dtype=torch.int16).untyped_storage()
    storage.byteswap(torch.int16)
    assert storage.tolist() == [0, 1] and storage.fill_(7).tolist() == [7, 7]


def test_a_square_keeps_its_input_alone_and_a_product_its_result_too() -> None:
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    assert x.square().grad_fn._result is None
    product = x.prod()
    assert product.grad_fn._saved_result.item() == 6
    product.backward()
    assert x.grad.tolist() == [3, 2]


@pytest.mark.cpu("an array of the host beside a tensor")
def test_in_place_with_an_array_binds_a_new_tensor() -> None:
    x = before = torch.ones(2)
    x *= np.ones(2) * 2
    assert x is not before and x.dtype is torch.float64 and before.tolist() == [1, 1]


def test_a_gradient_of_another_shape_is_refused_in_our_words() -> None:
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.ones(2)
    x.data = torch.ones(3)
    with pytest.raises(RuntimeError, match="size of tensor a"):
        x.sum().backward()


def test_complex_logarithms_of_sums() -> None:
    x = torch.randn(3, 4, dtype=torch.complex128)
    assert torch.allclose(x.logcumsumexp(0).exp(), x.exp().cumsum(0))
    assert torch.allclose(torch.logaddexp(x, x.flip(0)).exp(), x.exp() + x.flip(0).exp())


def test_a_checkpoint_inside_another_does_not_keep_its_arguments() -> None:
    from readtorch.utils.checkpoint import checkpoint

    seen = []

    def inner(y):
        return (y * 2).sin()

    def outer(y):
        seen.append(weakref.ref(z := y * 3))
        return checkpoint(inner, z, use_reentrant=False)

    x = torch.ones(3, requires_grad=True)
    result = checkpoint(outer, x, use_reentrant=False)
    gc.collect()
    assert seen[0]() is None
    result.sum().backward()
    assert torch.allclose(x.grad, 6 * torch.tensor(6.0).cos())


def test_what_was_pooled_may_be_written_to_before_backward() -> None:
    """Of a compact convolutional transformer: positions are added in place to what a max pooling gave."""
    image = torch.randn(2, 3, 8, 8, requires_grad=True)
    pooled = F.max_pool2d(F.relu(image), 3, 2, 1)
    (expected,) = torch.autograd.grad((pooled * 2).sum(), image)
    again = F.max_pool2d(F.relu(image), 3, 2, 1)
    again += 5
    (plain,) = torch.autograd.grad((again * 2).sum(), image)
    assert torch.equal(plain, expected)
    twice = F.max_pool2d(image, 2)
    twice.mul_(3)
    (differentiable,) = torch.autograd.grad((twice**2).sum(), image, create_graph=True)
    assert torch.autograd.grad(differentiable.sum(), image)[0].abs().sum() > 0


def test_new_takes_data_as_the_old_constructor_did() -> None:
    """Of a tutorial on extending autograd with NumPy."""
    like = torch.zeros(2, dtype=torch.float64)
    assert torch.equal(like.new(np.arange(6).reshape(2, 3)), torch.arange(6, dtype=torch.float64).view(2, 3))
    assert like.new((2, 3)).tolist() == like.new([2, 3]).tolist() == [2.0, 3.0]
    assert like.new(torch.Size((2, 3))).shape == like.new(2, 3).shape == (2, 3)
    assert like.new().shape == (0,)


def test_indices_may_have_been_written_to_before_they_index() -> None:
    """Of a detector's loss: cells of targets are clamped to the image, then index the predictions."""
    x = torch.rand(5, 6, requires_grad=True)
    across, down = torch.tensor([[1, 2], [3, 9]]).T
    cells = (down.clamp_(0, 4), across.clamp_(0, 4))
    x[cells].sum().backward()
    assert x.grad.nonzero().tolist() == [[2, 1], [4, 3]]
    picked = x[cells]
    down.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        picked.sum().backward()
