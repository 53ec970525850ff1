"""Each line of the parity tables with a gradient asked of one input alone, beside PyTorch 2.13.0.

An operator keeps less where less is asked of it, so each choice of inputs is a path of its own. Compared: which results require a
gradient; the gradient, twice through a graph that was retained; whether a third time is refused; and the second derivative, or
that there is none.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from beside import Case as Line
from listed import reasons
from parity_table import Case
from test_operators import attempt, evaluate, flat, tensors
from test_written_between import LINES, arrays, cosines, same

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

LEFT = reasons("each_input_alone.txt")
"""Lines in which the libraries are known to differ, and how."""


def leaves_and_roots(torch: Any, case: Case | Line, alone: int) -> tuple[Any, list[Any], list[Any]]:
    """The one leaf (None: this input can have no gradient), the results that require a gradient, and seeds for them."""
    torch.manual_seed(0)
    drawn = [(array, floating and number == alone) for number, (array, floating) in enumerate(arrays(case))]
    inputs = tensors(torch, drawn, "float64", True)
    if alone >= len(inputs) or not inputs[alone].requires_grad:
        return None, [], []
    results = flat(evaluate(torch, case, inputs) if isinstance(case, Case) else case.call(torch, *inputs))
    roots = [one for one in results if getattr(one, "requires_grad", False)]
    return inputs[alone], results, [cosines(torch, one) for one in roots]


def thrice(torch: Any, case: Case | Line, alone: int) -> Any:
    leaf, results, seeds = leaves_and_roots(torch, case, alone)
    marks = [getattr(one, "requires_grad", None) for one in results]
    if not seeds:
        return marks
    roots = [one for one in results if getattr(one, "requires_grad", False)]
    first = torch.autograd.grad(roots, [leaf], seeds, allow_unused=True, retain_graph=True)
    second = torch.autograd.grad(roots, [leaf], seeds, allow_unused=True)
    _, refused = attempt(lambda: torch.autograd.grad(roots, [leaf], seeds, allow_unused=True))
    return [*marks, *first, *second, type(refused).__name__]


def twice_differentiated(torch: Any, case: Case | Line, alone: int) -> Any:
    leaf, results, seeds = leaves_and_roots(torch, case, alone)
    roots = [one for one in results if getattr(one, "requires_grad", False)]
    if not seeds:
        return []
    (gradient,) = torch.autograd.grad(roots, [leaf], seeds, allow_unused=True, create_graph=True)
    if gradient is None or not gradient.requires_grad:
        return [gradient]
    seed = cosines(torch, gradient)
    return [gradient, *torch.autograd.grad([gradient], [leaf], [seed], allow_unused=True)]


def differences(case: Case | Line) -> list[tuple[str, str]]:
    """What differs, "gradient" or what is asked besides, and how."""
    found = []
    for alone in range(4):
        for question in (thrice, twice_differentiated):
            theirs, their_error = attempt(partial(question, upstream, case, alone))
            ours, our_error = attempt(partial(question, readtorch, case, alone))
            label = f"input {alone} alone, {question.__name__}"
            if type(our_error) is not type(their_error):
                found.append(("error", f"{label}: {our_error!r}, upstream {their_error!r}"))
            elif their_error is None:
                assert ours is not None
                assert theirs is not None
                gradients = slice(-1) if question is thrice else slice(1)
                for kind, part in (("gradient", gradients), ("besides", slice(None))):
                    if not alike(ours[part], theirs[part]):
                        found.append((kind, f"{label}: {ours}, upstream {theirs}"))
                        break
    return found


def alike(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(
        mine == yours if isinstance(yours, bool | str) else same(mine, yours)
        for mine, yours in zip(ours, theirs, strict=True)
    )


def test_what_is_listed_is_a_line_of_the_tables() -> None:
    assert set(LEFT) - set(LINES) == set()


@pytest.mark.parametrize("name", LINES)
def test_one_input_alone(name: str) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [one for case in LINES[name] if case.grad for one in differences(case)]
    texts = "\n".join(text for _, text in found)
    if name not in LEFT:
        assert not found, texts
        return
    assert found, f"agrees now: take it off ({LEFT[name]})"
    if "marks all results" not in LEFT[name]:
        assert "gradient" not in [kind for kind, _ in found], texts
