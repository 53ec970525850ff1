"""Whole models trained step by step on both libraries from the same weights: losses, gradients, drift.

float64 has to agree to 1e-9 for twenty steps. In float32 the first loss and its gradients are compared; after that rounding is
amplified by training itself, so the bound is PyTorch's own: how far its float32 run strays from its float64 run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import programs
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

STEPS = 20


def program(name: str, function: Callable[..., programs.Program], *marks: Any, **sizes: Any) -> Any:
    """A program of the given sizes. Its tests share a process, and so torch's run in float64."""
    return pytest.param(partial(function, **sizes), id=name, marks=[*marks, pytest.mark.xdist_group(name)])


SLOW = pytest.mark.slow
PROGRAMS = [
    program("ResNet-18, narrow", programs.resnet18, width=8, size=16, batch=32),
    program("ResNet-18", programs.resnet18, SLOW),
    program("LSTM language model", programs.lstm_language_model),
    program("LSTM language model, wide", programs.lstm_language_model, SLOW, words=400, width=128, length=35, batch=20),
    program("GPT, tied head", programs.gpt),
    program("GPT, own head, scaled_dot_product_attention", programs.gpt, tied=False, fused_attention=True),
    program("GPT, wide", programs.gpt, SLOW, width=128, length=64, words=200),
    program("DCGAN", programs.dcgan),
    program("DCGAN, wide", programs.dcgan, SLOW, width=48, latent=100, batch=16),
]

every_program = pytest.mark.parametrize("program", PROGRAMS)

Builder = Callable[..., programs.Program]


def build(program: Builder, dtype: str) -> tuple[programs.Program, programs.Program]:
    """The program on both libraries, ours with torch's initial weights."""
    theirs, ours = (program(library, getattr(library, dtype)) for library in (torch, readtorch))
    for name, module in theirs.modules.items():
        state = {key: readtorch.from_numpy(value.numpy().copy()) for key, value in module.state_dict().items()}
        ours.modules[name].load_state_dict(state)
    torch.manual_seed(11)
    readtorch.manual_seed(11)
    return theirs, ours


def losses(program: programs.Program, steps: int = STEPS) -> np.ndarray:
    """The losses of each step, one row a step."""
    return np.array([list(program.step(number).values()) for number in range(steps)])


@cache
def reference(program: Builder) -> np.ndarray:
    """Torch's losses in float64."""
    theirs, _ = build(program, "float64")
    return losses(theirs)


@every_program
def test_the_same_seed_gives_the_same_initial_weights(program: Builder) -> None:
    theirs, ours = (program(library, library.float32) for library in (torch, readtorch))
    for name, module in theirs.modules.items():
        expected = module.state_dict()
        state = ours.modules[name].state_dict()
        assert list(state) == list(expected)
        for key, value in expected.items():
            np.testing.assert_allclose(state[key].numpy(), value.numpy(), rtol=1e-6, atol=1e-8, err_msg=key)


@every_program
def test_float64_losses_agree_for_twenty_steps(program: Builder) -> None:
    expected = reference(program)
    _, ours = build(program, "float64")
    assert np.ptp(expected) > 1e-3, "the program does not train"
    np.testing.assert_allclose(losses(ours), expected, rtol=0, atol=1e-9)


@every_program
def test_float32_first_loss_and_gradients(program: Builder) -> None:
    theirs, ours = build(program, "float32")
    np.testing.assert_allclose(losses(ours, 1), losses(theirs, 1), rtol=0, atol=1e-5)
    mine = ours.parameters()
    for name, parameter in theirs.parameters().items():
        expected, grad = parameter.grad.numpy(), mine[name].grad.numpy()
        assert grad.dtype == expected.dtype
        scale = max(float(np.linalg.norm(expected)), 1e-7)
        assert np.linalg.norm(grad - expected) <= 1e-4 * scale, name


@every_program
def test_float32_strays_from_float64_no_more_than_torch_does(program: Builder) -> None:
    exact = reference(program)
    theirs, ours = build(program, "float32")
    of_torch, of_ours = (np.abs(losses(run) - exact).max() for run in (theirs, ours))
    rounding = 1e-6 * max(1.0, float(np.abs(exact).max()))
    assert of_ours <= max(3 * of_torch, rounding)
