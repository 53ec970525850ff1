"""`out=` of every operator that has one, beside PyTorch 2.13.0: the same type of error, or the same dtype, shape, strides and contents, in the object given.

The calls stand in `out_calls.txt`, what is given as `out` in `outs.py`. Where the libraries are known to differ, `out_left.txt` says why; what agrees by now is a fault there.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from listed import lines
from outs import Made, fault, outcome, variants

import readtorch

torch = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

WITHOUT = {"t.arctan2", "t.hspmm", "t.lu_solve", "t.sspaddmm"}  # these take no out= here, nor do views as copies
SHARE = 16  # the quick test takes one variant in so many, of each call others


CALLS = list(dict.fromkeys(call.strip() for line in lines("out_calls.txt") for call in line.split(" | ")))
LEFT = [tuple(line.split("\t")) for line in lines("out_left.txt")]


def known(call: str, variant: str) -> tuple[str, ...] | None:
    """The line of `out_left.txt` that a case belongs to."""
    return next((line for line in LEFT if fnmatchcase(call, _plain(line[0])) and fnmatchcase(variant, line[1])), None)


def _plain(pattern: str) -> str:
    return pattern.replace("[", "[[]")


def cases(share: int) -> Iterator[tuple[str, str, Made]]:
    for call in CALLS:
        made = Made(torch, call)
        for variant in variants(call, made):
            if zlib.crc32(f"{call} {variant}".encode()) % share == 0:
                yield call, variant, made


def difference(call: str, variant: str, made: Made) -> str:
    return fault(*(outcome(library, call, variant, made) for library in (torch, readtorch)), made)


def test_a_share_of_all_calls_with_out() -> None:
    found = [
        f"{call}\t{variant}\t{differs}"
        for call, variant, made in cases(SHARE)
        if not known(call, variant) and (differs := difference(call, variant, made))
    ]
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_every_call_with_every_out() -> None:
    found, used = [], set()
    for call, variant, made in cases(1):
        if not (differs := difference(call, variant, made)):
            continue
        if (line := known(call, variant)) is not None:
            used.add(line)
        else:
            found.append(f"{call}\t{variant}\t{differs}")
    found += [f"{line} agrees: take it off out_left.txt" for line in LEFT if line not in used]
    assert not found, "\n".join(found)


def test_every_function_that_takes_out_upstream_stands_in_the_table() -> None:
    stubs = ast.parse(Path(torch.__file__).with_name("_C").joinpath("_VariableFunctions.pyi").read_text())
    takers = {
        node.name
        for node in ast.walk(stubs)
        if isinstance(node, ast.FunctionDef) and any(argument.arg == "out" for argument in node.args.kwonlyargs)
    }
    named = {ast.unparse(ast.parse(call, mode="eval").body.func) for call in CALLS}  # type: ignore[attr-defined]  # each is a call
    there = {f"t.{name}" for name in takers if not name.startswith("_") and hasattr(readtorch, name)}
    for schema in torch._C._jit_get_all_schemas():
        family, _, name = schema.name.removeprefix("aten::").partition("_")
        takes = any(argument.is_out for argument in schema.arguments)
        if takes and family in ("linalg", "special", "fft") and hasattr(getattr(readtorch, family), name):
            there.add(f"t.{family}.{name}")
    assert {name for name in there - named - WITHOUT if not name.endswith("_copy")} == set()
