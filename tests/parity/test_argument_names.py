"""The names, order, defaults and keyword-only marks of arguments, beside those of PyTorch 2.13.0.

Operators are compared with the native schemas (one of the overloads must fit), functions written in Python with upstream's signatures.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import readtorch
from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import Schema

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

EVERYWHERE = frozenset(["dtype", "layout", "device", "pin_memory", "out", "memory_format"])
"""Keywords that belong to the creation of a result: not every operator of ours takes all of them."""

SEVERAL = "one function here for what upstream tells apart as overloads"
LEADING = "a tensor that is always given by position"
DOCUMENTED = "upstream documents the name `A` or `x` and its parser takes `input`; both are taken here"
REASONS = f"""
argsort isin max min norm random_ scatter sort std std_mean trapezoid trapz uniform_ var var_mean where: {SEVERAL}
dsplit hsplit vsplit tensor_split tensordot true_divide linalg_matrix_rank linalg_pinv nonzero: {SEVERAL}
cumulative_trapezoid: {SEVERAL}
alpha_dropout_ dropout_ feature_alpha_dropout_ feature_dropout_: {LEADING}
linalg_cholesky linalg_eigh linalg_matrix_exp linalg_matrix_power linalg_vector_norm: {DOCUMENTED}
"""
ELSEWHERE = {
    name: reason
    for names, _, reason in (line.partition(": ") for line in REASONS.strip().splitlines())
    for name in names.split()
}


def native(name: str) -> list[tuple[list[str], set[str]]]:
    """Positional names and keyword-only names of each overload."""
    found = []
    for schema in SCHEMAS.get(name, []):
        positional = [argument.name for argument in schema.arguments if not argument.kwarg_only]
        keywords = {argument.name for argument in schema.arguments if argument.kwarg_only}
        found.append((positional, keywords - EVERYWHERE))
    return found


SCHEMAS: dict[str, list[Any]] = {}
for one in torch._C._jit_get_all_schemas():
    if one.name.startswith("aten::"):
        SCHEMAS.setdefault(one.name.removeprefix("aten::"), []).append(one)

readtorch.add  # loads the operators
OPERATORS = sorted(
    name
    for name, entry in dispatcher.operators.items()
    if not name.startswith("_") and any(entry.variants) and name in SCHEMAS
)


def spelled(schema: Schema) -> tuple[list[str], set[str]]:
    positional = list(schema.names[: schema.positional])
    if schema.var_positional is not None:
        positional.append(schema.var_positional)
    return positional, set(schema.keyword_only) - EVERYWHERE


def test_what_is_listed_is_an_operator() -> None:
    assert set(ELSEWHERE) - set(OPERATORS) == set()


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_has_the_names_of_one_of_upstreams_overloads(name: str) -> None:
    ours = spelled(dispatcher.operators[name].schema)
    same = ours in native(name)
    if name in ELSEWHERE:
        assert not same, f"{name} agrees: take it off the list"
    else:
        assert same, f"{ours} beside {native(name)}"


#: Python functions whose signatures differ, and how
APART = {
    "functional": dict.fromkeys(
        ("norm", "tensordot"), "the operators themselves, which spell their arguments when called"
    ),
    "nn.utils": {"clip_grad_norm": "passes on whatever it gets, with a warning"},
}


def functions(library: Any, path: str) -> dict[str, inspect.Signature]:
    owner = library
    for part in path.split("."):
        owner = getattr(owner, part) if part else owner
    found = {}
    for name in dir(owner):
        value = getattr(owner, name)
        if name.startswith("_") or not inspect.isroutine(value):
            continue
        try:
            found[name] = inspect.signature(value)
        except (TypeError, ValueError):
            continue
    return found


def told(signature: inspect.Signature) -> list[str]:
    """The parameters as text: names, defaults, and which are keyword-only."""
    return [
        f"{'*' if p.kind is p.KEYWORD_ONLY else ''}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}")
        for p in signature.parameters.values()
    ]


PYTHON = [
    "nn.functional",
    "nn.init",
    "functional",
    "autograd",
    "autograd.graph",
    "random",
    "nn.utils",
    "nn.utils.rnn",
    "serialization",
]


@pytest.mark.parametrize("path", PYTHON)
def test_python_functions_have_upstreams_signatures(path: str) -> None:
    ours = functions(readtorch, path)
    theirs = functions(torch, path)
    apart = {}
    for name in ours.keys() & theirs.keys():
        a, b = told(ours[name]), told(theirs[name])
        if a != b and b != ["args", "kwargs"]:
            apart[name] = (a, b)
    known = set(APART.get(path, {}))
    assert {name: signatures for name, signatures in apart.items() if name not in known} == {}
    assert known <= set(apart), "of these some agree: take them off the list"
