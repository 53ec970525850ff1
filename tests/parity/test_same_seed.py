"""After the same seed both libraries give the same numbers; from 16 normal numbers on, those of two implementations of log and cos."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

EQUAL = """
t.ones(5).normal_(2,3)
t.ones(5).normal_(0,.5)
t.randn(5,dtype=t.float16)
t.randn(5,dtype=t.bfloat16)
t.randn(5,dtype=t.float64)
t.rand(5,dtype=t.float16)
t.rand(5,dtype=t.bfloat16)
t.ones(5).random_()
t.ones(5).random_(10)
t.ones(5).random_(3,10)
t.ones(5,dtype=t.int64).random_()
t.ones(5,dtype=t.int32).random_()
t.ones(5,dtype=t.uint8).random_()
t.ones(5,dtype=t.bool).random_()
t.ones(5,dtype=t.float16).random_()
t.ones(5,dtype=t.bfloat16).random_()
t.ones(5,dtype=t.float64).random_()
t.ones(5,dtype=t.int64).random_(0,2**40)
t.ones(5,dtype=t.int64).random_(2**33)
t.ones(5).random_(300)
t.ones(5).exponential_()
t.ones(20).exponential_(2.)
t.ones(5).geometric_(.3)
t.ones(5,dtype=t.int64).geometric_(.3)
t.ones(5).log_normal_()
t.ones(5).log_normal_(1.,.25)
t.ones(5).cauchy_()
t.ones(5).cauchy_(1.,3.)
t.poisson(t.tensor([.5,3.,20.,100.]))
t.ones(5).uniform_(-2,3)
t.ones(5,dtype=t.float64).uniform_(-2,3)
t.ones(5,dtype=t.float16).uniform_(-2,3)
t.randn(5,dtype=t.complex64)
t.rand(5,dtype=t.complex64)
t.normal(t.zeros(5),t.ones(5)*2)
t.normal(2.,t.ones(5))
t.normal(0.,2.,(5,))
t.randint(0,2**40,(5,))
t.randint(5,(5,),dtype=t.float32)
t.randperm(10)
t.randperm(10,dtype=t.int32)
t.bernoulli(t.full((5,),.3))
t.ones(5).bernoulli_(.3)
t.ones(5).bernoulli_(t.full((5,),.3))
t.ones(5,dtype=t.int64).bernoulli_(.3)
t.multinomial(t.tensor([.1,.2,.7]),2)
t.multinomial(t.tensor([.1,.2,.7]),5,True)
F.dropout(t.ones(5))
t.nn.init.trunc_normal_(t.ones(5))
""".strip().splitlines()

CLOSE = """
t.ones(20).normal_(0,.5)
t.randn(20,dtype=t.float16)
t.randn(20,dtype=t.bfloat16)
t.randn(20,dtype=t.float64)
t.ones(20).log_normal_(1.,.25)
t.randn(20,dtype=t.complex64)
t.normal(t.zeros(20),2.)
""".strip().splitlines()


def drawn(library: Any, program: str) -> tuple[np.ndarray, bytes]:
    """What the program draws after seed 0, and the generator's state after it."""
    library.manual_seed(0)
    result = eval(program, {"t": library, "F": library.nn.functional})
    assert str(result.dtype).startswith("torch.")
    whole = result.float() if str(result.dtype) == "torch.bfloat16" else result
    return whole.numpy(), library.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("program", [*EQUAL, *CLOSE])
def test_same_numbers_and_same_state_after_the_same_seed(program: str) -> None:
    (ours, our_state), (theirs, their_state) = drawn(readtorch, program), drawn(torch, program)
    assert ours.dtype == theirs.dtype and our_state == their_state
    if program in EQUAL:
        np.testing.assert_array_equal(ours, theirs)
    else:
        narrow = "float16" in program
        np.testing.assert_allclose(ours, theirs, rtol=1e-2 if narrow else 1e-5, atol=1e-6)


STRIDED = {
    "transposed": lambda torch: torch.zeros(5, 6).T,
    "small": lambda torch: torch.zeros(3, 4).T,
    "permuted": lambda torch: torch.zeros(4, 5, 2, 3).permute(1, 2, 0, 3),
    "channels last": lambda torch: torch.zeros(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    "every second": lambda torch: torch.zeros(8, 8)[:, ::2],
    "of odd number": lambda torch: torch.zeros(7, 3, dtype=torch.float64).T,
}


@pytest.mark.cpu("numbers of the CPU generator")
@pytest.mark.parametrize("draw", ["normal_", "uniform_", "randn_like", "rand_like"])
@pytest.mark.parametrize("name", STRIDED)
def test_numbers_are_drawn_into_memory_and_not_into_indices(name: str, draw: str) -> None:
    """Of a variational autoencoder that asks for `randn_like` of a permuted tensor."""
    found = []
    for library in (torch, readtorch):
        library.manual_seed(4)
        like = STRIDED[name](library)
        drawn = getattr(library, draw)(like) if draw.endswith("like") else getattr(like, draw)()
        found.append((drawn.stride(), drawn.numpy(), library.rand(1).item(), library.randn(1).item()))
    (strides, values, after, normal), (strides_too, values_too, after_too, normal_too) = found
    assert strides == strides_too and after == after_too and normal == pytest.approx(normal_too, rel=1e-5)
    np.testing.assert_allclose(values_too, values, rtol=1e-5)
