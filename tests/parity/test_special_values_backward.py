"""Each differentiable line of the parity tables at values that are not ordinary, beside PyTorch 2.13.0.

A kernel that selects and one that multiplies by a mask give the same for ordinary numbers; for a gradient that is infinite or NaN, or a
NaN among the inputs, they do not (0 · inf is NaN). So every line runs with NaN, infinities, zeros of both signs, denormal, huge and
tiny numbers: among its inputs, in the gradient that comes in, and in both. Compared are the results and the gradients of the leaves;
NaN has to meet NaN, infinity the same infinity. Not drawn are lines whose arithmetic is a library's own or an order of sums (BLAS,
LAPACK, FFT, convolutions, sampling at coordinates): what meets a NaN or an infinity there is another choice on each machine.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beside import Case as Line
from layers_table import MODULES
from parity_table import Case
from test_layers import build
from test_operators import attempt, evaluate, flat, plain, tensors
from test_written_between import LINES, arrays

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

SKIPPED = re.compile(
    r"linalg|cholesky|triangular|lu_unpack|ormqr|matrix_exp|det\(|fft|stft|onv|grid_sample|nterpolate|psampl|Transformer|RNN|GRU|LSTM"
)
ROWS = [
    row.split("\t")
    for row in (Path(__file__).parent / "special_values_left.txt").read_text(encoding="utf-8").splitlines()
    if row and not row.startswith("#")
]
LEFT = {name: kinds.split() for name, kinds, _ in ROWS}
"""The kinds of values for which a line is known to differ."""

KINDS = {
    "nan": [np.nan],
    "inf": [np.inf, -np.inf],
    "+inf": [np.inf],
    "zero": [0.0, -0.0],
    "odd": [0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, 5e-324, -1e-310, 1e-200, 1e200],
}
WHERE = ("inputs", "gradient", "both")


def strewn(array: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    """A copy with a sixth of its numbers, and one at least, replaced by special values."""
    found = np.array(array, np.float64)
    if found.size:
        places = rng.integers(0, found.size, max(1, found.size // 6))
        found.reshape(-1)[places] = rng.choice(KINDS[kind], len(places))
    return found


def pass_through(torch: Any, name: str, case: Case | Line | str, kind: str, where: str, first: bool) -> list[Any]:
    """Results and gradients of one line; `first` leaves the special values out of all inputs but the first."""
    rng = np.random.default_rng(zlib.crc32(f"{name}{kind}{where}".encode()))
    if isinstance(case, str):
        drawn = [(rng.standard_normal(MODULES[case]), True)]
    else:
        drawn = arrays(case)
    if where != "gradient":
        drawn = [
            (strewn(array, kind, rng), True) if floating and not (first and number) else (array, floating)
            for number, (array, floating) in enumerate(drawn)
        ]
    torch.manual_seed(0)
    leaves = tensors(torch, drawn, "float64", True)
    if isinstance(case, Case):
        results = evaluate(torch, case, leaves)
    elif isinstance(case, Line):
        results = case.call(torch, *leaves)
    else:
        module = build(torch, case).double()
        results = module(*leaves)
        leaves += list(module.parameters())
    results = [one for one in flat(results) if one is not None]
    roots = [one for one in results if getattr(one, "requires_grad", False)]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if not roots:
        return results
    seeds = []
    for one in roots:
        seed = np.cos(np.arange(one.numel())).reshape(tuple(one.shape))
        seeds.append(torch.from_numpy(seed if where == "inputs" else strewn(seed, kind, rng)).to(one.dtype))
    return [*results, "gradients", *torch.autograd.grad(roots, leaves, seeds, allow_unused=True)]


def alike(mine: Any, yours: Any) -> bool:
    if mine is None or yours is None:
        other = mine if yours is None else yours
        return other is None or not plain(other).any()
    if not hasattr(yours, "dtype"):
        return mine == yours or (mine != mine and yours != yours)
    a, b = plain(mine), plain(yours)
    return a.shape == b.shape and np.allclose(a, b, 1e-6, 1e-8, equal_nan=True)


def differences(name: str, case: Case | Line | str) -> Iterator[tuple[str, str, str]]:
    """The kind of values at which a line's results or gradients differ, where they stood, and how."""
    for where in WHERE:
        for kind in KINDS:
            for first in (False, True) if where != "gradient" else (False,):
                label = f"{name}: {kind} in {where}{' of the first' if first else ''}"
                run = partial(pass_through, name=name, case=case, kind=kind, where=where, first=first)
                theirs, their_error = attempt(lambda run=run: run(upstream))
                ours, our_error = attempt(lambda run=run: run(readtorch))
                if type(our_error) is not type(their_error):
                    yield kind, label, f"{our_error!r}, upstream {their_error!r}"
                elif their_error is None:
                    part = "result"
                    for mine, yours in zip(ours, theirs, strict=True):
                        if isinstance(yours, str) and yours == "gradients":
                            part = "gradient"
                        elif not alike(mine, yours):
                            yield kind, label, f"{part} {shown(mine)}\n      upstream {shown(yours)}"
                            break


def shown(value: Any) -> str:
    return (
        np.array2string(plain(value), precision=5, max_line_width=10**6, threshold=60).replace("\n", "")
        if hasattr(value, "dtype")
        else repr(value)
    )


EVERY: dict[str, list[Any]] = {**LINES, **{f"nn.{text}": [text] for text in MODULES}}
DRAWN = [name for name in EVERY if not SKIPPED.search(name)]


@pytest.mark.parametrize("name", DRAWN)
def test_special_values(name: str) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [triple for case in EVERY[name] if getattr(case, "grad", True) for triple in differences(name, case)]
    known = LEFT.get(name, [])
    assert found or not known, "agrees now: take it off special_values_left.txt"
    faults = [f"{label}: {what}" for kind, label, what in found if kind not in known]
    assert not faults, "\n".join(faults)


def test_the_list_names_lines() -> None:
    assert {name for name, *_ in ROWS} <= set(DRAWN)
    assert {kind for kinds in LEFT.values() for kind in kinds} <= set(KINDS)
