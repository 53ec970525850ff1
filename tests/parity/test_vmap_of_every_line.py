"""Every line of the parity tables under `vmap`, `vjp` and both: what one gets example by example. `left_out_vmap.txt` says what is refused, and why."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from functional_table import CASES as FUNCTIONAL
from listed import reasons
from on_meta import leaves
from parity_table import op
from test_operators import evaluate, make

import readtorch as torch

pytest.importorskip("torch", reason="the tables are read beside the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch


SIZE = 3
Line = tuple[str, Callable[..., Any], list[Any], bool]


def lines() -> Iterator[Line]:
    """Id, function of one example, its inputs with the examples in the first dimension, and whether it has gradients."""
    seen: set[str] = set()
    for case in op.cases:
        name = case.id
        while name in seen:
            name += "'"
        seen.add(name)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        drawn = [[make(entry, "float64", "contiguous", rng)[0] for entry in case.inputs] for _ in range(SIZE)]
        yield name, lambda *x, case=case: evaluate(torch, case, list(x)), _stacked(drawn), case.grad
    for layer in FUNCTIONAL:
        if layer.build is None:
            rng = np.random.default_rng(zlib.crc32(layer.name.encode()))
            drawn = [[np.asarray(spec.draw(rng)) for spec in layer.inputs] for _ in range(SIZE)]
            yield layer.name, lambda *x, layer=layer: layer.call(torch, *x), _stacked(drawn), layer.grad


def _stacked(drawn: list[list[Any]]) -> list[Any]:
    columns = [[np.asarray(value) for value in column] for column in zip(*drawn, strict=True)]
    return [torch.from_numpy(np.stack(column)) for column in columns]


def tensors(value: Any) -> list[Any]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def one_by_one(function: Callable[..., Any], inputs: list[Any], dims: tuple[int | None, ...]) -> list[Any]:
    picked = [[x if dim is None else x[i] for x, dim in zip(inputs, dims, strict=True)] for i in range(SIZE)]
    results = [tensors(function(*example)) for example in picked]
    return [torch.stack(column) for column in zip(*results, strict=True)]


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of a function by its floating inputs, along ones; by a function transform."""

    def found(*x: Any) -> Any:
        places = [i for i, value in enumerate(x) if value.dtype.is_floating_point]

        def part(*y: Any) -> Any:
            given = list(x)
            for i, value in zip(places, y, strict=True):
                given[i] = value
            return tuple(t for t in tensors(function(*given)) if t.dtype.is_floating_point or t.dtype.is_complex)

        outputs, pull = torch.func.vjp(part, *(x[i] for i in places))
        return pull(tuple(torch.ones_like(each) for each in outputs))

    return found


def plain_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same by the engine."""

    def found(*x: Any) -> Any:
        given = [v.clone().requires_grad_() if v.dtype.is_floating_point else v for v in x]
        outputs = [t for t in tensors(function(*given)) if t.requires_grad]
        wanted = [value for value in given if value.requires_grad]
        if not outputs:
            return [torch.zeros_like(value) for value in wanted]
        seeds = [torch.ones_like(each) for each in outputs]
        return torch.autograd.grad(outputs, wanted, seeds, allow_unused=True, materialize_grads=True)

    return found


def fault(got: Callable[[], Any], wanted: Callable[[], Any]) -> str:
    """What is wrong with a result; nothing if the reference is itself an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = wanted()
        except Exception:
            return ""
        try:
            found = tensors(got())
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:150]}"
    if len(found) != len(expected):
        return f"{len(found)} results for {len(expected)}"
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{tuple(a.shape)} {a.dtype} for {tuple(b.shape)} {b.dtype}"
        if not torch.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True):
            return f"differs by {(a - b).abs().max().item():.3g}"
    return ""


def which(count: int) -> list[tuple[int | None, ...]]:
    """Which inputs have examples: any, but not none."""
    return [dims for dims in product((0, None), repeat=count) if any(dim == 0 for dim in dims)]


def faults_of(line: Line) -> Iterator[str]:
    name, function, inputs, grad = line
    vmap = torch.func.vmap
    for dims in which(len(inputs)):
        shared = [x if dim == 0 else x[0] for x, dim in zip(inputs, dims, strict=True)]
        said = "".join("b" if dim == 0 else "-" for dim in dims)
        if found := fault(
            lambda s=shared, d=dims: vmap(function, in_dims=d)(*s), lambda s=shared, d=dims: one_by_one(function, s, d)
        ):
            yield f"{name} vmap {said}: {found}"
        elif grad and (
            found := fault(
                lambda s=shared, d=dims: vmap(gradients(function), in_dims=d)(*s),
                lambda s=shared, d=dims: one_by_one(plain_gradients(function), s, d),
            )
        ):
            yield f"{name} vmap of vjp {said}: {found}"
    one = [x[0] for x in inputs]
    if grad and (found := fault(lambda: gradients(function)(*one), lambda: tensors(plain_gradients(function)(*one)))):
        yield f"{name} vjp: {found}"


def test_every_line_gives_under_vmap_and_vjp_what_a_loop_over_the_examples_gives() -> None:
    known, met, faults = set(reasons("left_out_vmap.txt")), set(), []
    for line in lines():
        for text in faults_of(line):
            name = text.split(": ")[0]
            met.add(name)
            if name not in known:
                faults.append(text)
    faults.extend(f"{name} agrees now: take it off left_out_vmap.txt" for name in known - met)
    assert not faults, "\n".join(faults)


if __name__ == "__main__":
    import sys

    for line in lines():
        if len(sys.argv) < 2 or sys.argv[1] in line[0]:
            for text in faults_of(line):
                print(text, flush=True)
