"""Each line of the parity tables with a write between its forward and its backward pass, beside PyTorch 2.13.0.

What is written to is one of the line's inputs or one of its results, in place, recorded or under `no_grad`. Where the backward
pass needs what was there before, both libraries refuse; where it does not, both give the same gradients. Lines in which the
libraries keep different things stand in `written_between.txt`; where a write goes through here alone, the gradients still have to
be those without it.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from beside import Case as Line
from functional_table import CASES
from listed import reasons
from parity_table import Case, op
from test_operators import attempt, evaluate, flat, make, plain, tensors

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

LEFT = reasons("written_between.txt")
LINES: dict[str, list[Case | Line]] = {}
for _case in [*op.cases, *CASES]:
    LINES.setdefault(_case.id if isinstance(_case, Case) else f"F.{_case.name}", []).append(_case)


def arrays(case: Case | Line) -> list[tuple[np.ndarray, bool]]:
    """The numbers of the inputs, and whether they can require a gradient."""
    if isinstance(case, Case):
        rng = np.random.default_rng(zlib.crc32(case.id.encode()))
        return [make(entry, "float64", "contiguous", rng) for entry in case.inputs]
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    drawn = [np.asarray(one.draw(rng)) for one in case.inputs]
    return [(one, one.dtype.kind == "f") for one in drawn]


def run(torch: Any, case: Case | Line, place: tuple[str, int], quietly: bool) -> list[Any] | None:
    """The gradients of the leaves after the write at this place; None where there is nothing to write to."""
    torch.manual_seed(0)
    leaves = tensors(torch, arrays(case), "float64", True)
    inputs = [leaf * 1 if leaf.requires_grad else leaf for leaf in leaves]
    results = flat(evaluate(torch, case, inputs) if isinstance(case, Case) else case.call(torch, *inputs))
    where, number = place
    if where != "nowhere":
        among = inputs if where == "input" else results
        if number >= len(among) or not getattr(among[number], "requires_grad", False):
            return None
        with torch.set_grad_enabled(not quietly):
            among[number].mul_(1.5)
    roots = [one for one in results if getattr(one, "requires_grad", False)]
    if not roots:
        return None
    seeds = [cosines(torch, one) for one in roots]
    return torch.autograd.grad(roots, [leaf for leaf in leaves if leaf.requires_grad], seeds, allow_unused=True)


def cosines(torch: Any, one: Any) -> Any:
    """A gradient for this result: no two of its numbers are alike."""
    return torch.from_numpy(np.cos(np.arange(one.numel())).reshape(tuple(one.shape)).copy()).to(one.dtype)


def differences(name: str, case: Case | Line) -> Iterator[tuple[str, str]]:
    """Place and what differs there."""
    for place in [(where, number) for where in ("input", "result") for number in range(4)]:
        for quietly in (False, True):
            theirs, their_error = attempt(partial(run, upstream, case, place, quietly))
            ours, our_error = attempt(partial(run, readtorch, case, place, quietly))
            label = f"{name} {place[0]} {place[1]}{' no_grad' if quietly else ''}"
            if our_error is None and their_error is not None and (quietly or place[0] == "input"):
                unwritten = run(readtorch, case, ("nowhere", 0), quietly)
                right = ours is not None and unwritten is not None and all(map(same, ours, unwritten))
                yield label, "right all the same" if right else "WRONG and not noticed"
            elif type(ours) is not type(theirs) or type(our_error) is not type(their_error):
                yield label, f"{_said(our_error)}, upstream {_said(their_error)}"
            elif theirs is not None:
                assert ours is not None
                for mine, yours in zip(ours, theirs, strict=True):
                    if not same(mine, yours):
                        yield label, "gradients differ"
                        break


def line_of(label: str) -> str:
    """The line that a label of `differences` speaks of."""
    return label.removesuffix(" no_grad").rsplit(" ", 2)[0]


def test_what_is_listed_is_a_line_of_the_tables() -> None:
    assert {line_of(label) for label in LEFT} - set(LINES) == set()


def _said(error: BaseException | None) -> str:
    return "works" if error is None else f"{type(error).__name__}: {str(error)[:60]!r}"


def same(mine: Any, yours: Any) -> bool:
    if mine is None or yours is None:
        other = mine if yours is None else yours
        return other is None or not plain(other).any()
    return np.allclose(plain(mine), plain(yours), 1e-6, 1e-8, equal_nan=True)


@pytest.mark.parametrize("name", LINES)
def test_a_write_between_forward_and_backward(name: str) -> None:
    found: dict[str, str] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in LINES[name]:
            if case.grad:
                found.update(differences(name, case))
    known = {label for label in LEFT if line_of(label) == name}
    faults = [f"{label}: {what}" for label, what in found.items() if label not in known]
    faults += [f"{label} agrees now: take it off written_between.txt" for label in sorted(known - set(found))]
    assert not faults, "\n".join(faults)
