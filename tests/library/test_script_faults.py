"""Faults that public training scripts brought to light, each as the smallest program that showed it."""

from __future__ import annotations

import io
import itertools
import math
import time

import numpy as np
import pytest

import readtorch as torch


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
