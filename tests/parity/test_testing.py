"""torch.testing beside PyTorch 2.13.0: what it accepts, and the facts that it tells of the rest."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

PAIRS: dict[str, Callable[[Any], Any]] = {
    "equal": lambda t: (t.ones(3), t.ones(3)),
    "one element differs": lambda t: (t.ones(3), t.tensor([1.0, 2, 3])),
    "a little": lambda t: (t.ones(3), t.ones(3) + 1e-6),
    "integers": lambda t: (t.tensor([[1, 2], [3, 9]]), t.tensor([[1, 2], [3, 4]])),
    "bools": lambda t: (t.tensor([True]), t.tensor([False])),
    "0-d": lambda t: (t.tensor(1.0), t.tensor(float("nan"))),
    "shapes": lambda t: (t.ones(2), t.ones(3)),
    "dtypes": lambda t: (t.ones(2), t.ones(2).double()),
    "half": lambda t: (t.ones(2).half(), t.ones(2).half() * 1.01),
    "complex": lambda t: (t.ones(2) + 1j, t.ones(2) * 1j),
    "empty": lambda t: (t.ones(0), t.ones(0)),
    "nested": lambda t: ({"x": [t.ones(2), 1.0]}, {"x": [t.zeros(2), 1.0]}),
    "keys": lambda t: ({"a": 1}, {"b": 1}),
    "lengths": lambda t: ([1, 2], [1]),
    "None": lambda t: (None, 1),
    "numbers": lambda t: (1.0, 1.1),
    "number types": lambda t: (1.0, 1),
    "Python bools": lambda t: (True, False),
    "strings": lambda t: ("a", "b"),
    "arrays": lambda t: (np.ones(2), np.zeros(2)),
    "array and tensor": lambda t: (np.ones(2), t.ones(2)),
    "parameter": lambda t: (t.nn.Parameter(t.ones(2)), t.ones(2)),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"rtol": 0.5, "atol": 0.5},
    {"rtol": 0, "atol": 0},
    {"check_dtype": False},
    {"equal_nan": True},
    {"allow_subclasses": False},
    {"msg": "mine"},
    {"msg": lambda text: f"<{text}>"},
    {"rtol": 1},
]


KEYS = (
    "are not close!",
    "are not equal!",
    "Mismatched elements",
    "Absolute difference",
    "Greatest absolute difference",
    "mine",
    "<",
)
"""What people search a log for: present in both messages, or in neither."""


def said(library: Any, pair: Callable[[Any], Any], options: dict[str, Any]) -> list[Any]:
    """The outcome without its wording: error type, key phrases, and then all figures, types, names in quotes and keys."""
    try:
        library.testing.assert_close(*pair(library), **options)
    except Exception as error:
        text = str(error).replace("readtorch._tensor", "torch").replace("readtorch.", "torch.")
        facts = re.findall(r"\b\d+(?:[.]\d+)?(?:e[-+]\d+)?%?|\bnan\b|\binf\b|'[^']*'|torch\.\w+", text)
        return [type(error).__name__, *(key in text for key in KEYS), *sorted(facts)]
    return ["close"]


@pytest.mark.parametrize(
    "options",
    OPTIONS,
    ids=lambda options: ",".join(f"{k}={v if not callable(v) else 'function'}" for k, v in options.items()),
)
@pytest.mark.parametrize("pair", PAIRS)
def test_assert_close(pair: str, options: dict[str, Any]) -> None:
    ours, theirs = (said(library, PAIRS[pair], options) for library in (readtorch, torch))
    if "rtol" in options and "atol" not in options:  # upstream says which of the two is missing in other words
        ours, theirs = ours[:1], theirs[:1]
    assert ours == theirs


DTYPES = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
MADE: list[dict[str, Any]] = [
    {},
    {"low": -2, "high": 3},
    {"noncontiguous": True},
    {"exclude_zero": True},
    {"requires_grad": True},
    {"low": 3, "high": 1},
    {"low": 1000, "high": 2000},
    {"low": float("nan")},
]


@pytest.mark.parametrize("options", MADE, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_make_tensor_draws_upstreams_numbers(dtype: str, options: dict[str, Any]) -> None:
    results = []
    for library in (readtorch, torch):
        library.manual_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = library.testing.make_tensor(2, 5, dtype=getattr(library, dtype), device="cpu", **options)
            except Exception as error:
                results.append(type(error).__name__)
            else:
                wide = made.detach().to(library.complex128 if made.is_complex() else library.float64)
                results.append((wide.tolist(), made.stride(), made.requires_grad))
    ours, theirs = results
    if isinstance(ours, str) or isinstance(theirs, str):
        assert ours == theirs
        return
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    assert ours[1:] == theirs[1:]
