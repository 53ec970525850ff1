"""Messages are our own but for the phrases that people paste into a search box: these are PyTorch 2.13.0's to the letter."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

PHRASES = {
    "x = t.ones(3, requires_grad=True); y = x.exp(); y.add_(1); y.sum().backward()": "one of the variables needed for gradient computation has been modified by an inplace operation",
    "t.nn.functional.conv1d(t.ones(1, 1, 2), t.ones(1, 1, 3))": "Kernel size can't be greater than actual input size",
    "t.nn.Conv2d(1, 1, 3)(t.ones(1, 1, 2, 2))": "Kernel size can't be greater than actual input size",
    "t.zeros(3).expand(2, 3).add_(1)": "more than one element of the written-to tensor refers to a single memory location",
    "x = t.arange(4.0); x[1:].add_(x[:-1])": "some elements of the input tensor and the written-to tensor refer to a single memory location",
    "m = t.nn.Linear(1, 1); m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True); m(t.ones(1))": "must return None or a tuple of (new_args, new_kwargs)",
    "t.ones(3)[5]": "index 5 is out of bounds for dimension 0 with size 3",
    "t.ones(3, 2)[:, 5]": "index 5 is out of bounds for dimension 1 with size 2",
    "t.ones(3)[t.tensor([5])]": "index 5 is out of bounds for dimension 0 with size 3",
    "t.ones(3, 2).select(1, -4)": "index -4 out of range for tensor of size [3, 2] at dimension 1",
    "t.gather(t.ones(3), 0, t.tensor([5]))": "index 5 is out of bounds for dimension 0 with size 3",
    "t.index_select(t.ones(3), 0, t.tensor([5]))": "index out of range in self",
    "t.nn.Embedding(3, 2)(t.tensor([5]))": "index out of range in self",
    "t.nn.EmbeddingBag(3, 2)(t.tensor([[5]]))": "is not in the valid range [0, 3)",
    "t.nn.functional.cross_entropy(t.ones(1, 3), t.tensor([5]))": "Target 5 is out of bounds.",
    "t.einsum('ij,jk->ii', t.ones(2, 2), t.ones(2, 2))": "output subscript i appears more than once in the output",
    "t.einsum('ij->ii', t.ones(2, 2))": "output subscript i appears more than once in the output",
    "t.nn.Linear(2, 2)(t.ones(2).double())": "mat1 and mat2 must have the same dtype, but got Double and Float",
    "t.nn.Linear(2, 2)(t.ones(3, 4, 2).half())": "mat1 and mat2 must have the same dtype, but got Half and Float",
    "t.addmm(t.ones(2), t.ones(2, 2), t.ones(2, 2).double())": "self and mat2 must have the same dtype, but got Float and Double",
    "t.full((2,), 300, dtype=t.uint8)": "value cannot be converted to type uint8_t without overflow",
    "t.nn.functional.pad(t.ones(1, 1, 4, 4), (1, 1), mode='reflect')": "Padding size 2 is not supported for 4D input tensor.",
    "t.save(1, '/no such folder/x')": "Parent directory /no such folder does not exist.",
    "t.Generator('cuda')": "Cannot get CUDA generator without",
}


@pytest.mark.parametrize("program", PHRASES)
def test_phrases_that_people_search_for_are_upstreams(program: str) -> None:
    errors = []
    for name in ("torch", "readtorch"):
        names: dict[str, Any] = {"t": importlib.import_module(name)}
        with pytest.raises((RuntimeError, IndexError)) as caught:
            exec(program, names)
        assert PHRASES[program] in str(caught.value)
        errors.append(caught.type)
    assert errors[0] is errors[1]
