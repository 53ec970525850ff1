"""A recording goes on after the recorded code has run out of stack, and leaves no mark on what that code sees."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import traceback

import pytest
from trace_story import calls

from readtorch.literate.trace import Trace, trace

SAMPLE = """
import copy

def f(n):
    return f(n + 1)

def caught_at_once(n):
    try:
        return caught_at_once(n + 1)
    except RecursionError:
        return n

class Nested:
    def __init__(self, n):
        self.inner = Nested(n + 1)

def gen(n):
    yield from gen(n + 1)

def generators(n):
    return list(gen(n))

def elsewhere(n):
    nested = []
    for _ in range(5000):
        nested = [nested]
    copy.deepcopy(nested)

def after(n):
    return n + 1
"""

DEFAULT = "sys.settrace" if sys.version_info < (3, 12) else "sys.monitoring"
"""The other, asked for on 3.12 and later, ends there and says so."""


def recorded(sample, name: str, values: str, depth: int) -> tuple[Trace, list[str]]:
    """Overflow twice, `depth` frames further in; what the code saw of it comes back too."""
    if depth:
        return recorded(sample, name, values, depth - 1)
    seen = []
    with trace("traced_sample", values=values, mechanism=DEFAULT) as t:
        for turn in range(2):
            try:
                getattr(sample, name)(0)
            except RecursionError as error:
                seen += [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            sample.after(turn)
    return t, seen


def check(sample, name: str, values: str, depth: int) -> None:
    t, seen = recorded(sample, name, values, depth)
    t.validate()
    assert t.truncated == ""
    after = [f for f in t.decoded.frames if t.decoded.name(f) == "after"]
    assert [f.depth for f in after] == [1, 1]
    assert [f.left for f in after] == ["R", "R"]
    if name == "f":
        assert calls(t).count("f") > 900
        assert {f.left for f in t.decoded.frames if t.decoded.name(f) == "f"} == {"E"}
    assert not any("literate/trace/" in file.replace("tests/literate", "") for file in seen)


@pytest.mark.parametrize("name", ["f", "caught_at_once", "Nested", "generators", "elsewhere"])
def test_what_comes_after_a_recursion_error_is_recorded(tmp_path, name):
    """In a process of its own: whoever else keeps errors in this one would end the recording, as the next test wants it."""
    (tmp_path / "traced_sample.py").write_text(SAMPLE)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, __file__, name],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring removes nothing")
def test_a_kept_error_ends_the_recording_and_it_says_so(module):
    sample = module(SAMPLE)
    kept = []
    with trace("traced_sample") as t:
        try:
            sample.f(0)
        except RecursionError as error:
            kept.append(error)
        sample.after(1)
    t.validate()
    assert t.truncated == "recursion"
    assert "after" not in calls(t)


def test_an_error_that_leaves_the_block_cuts_nothing_off(module):
    sample = module(SAMPLE)
    with pytest.raises(RecursionError), trace("traced_sample", mechanism=DEFAULT) as t:
        sample.f(0)
    t.validate()
    assert t.truncated == ""
    assert calls(t).count("f") > 500


def test_a_tracer_taken_away_is_reported(module):
    sample = module(SAMPLE)
    with trace("traced_sample", mechanism="sys.settrace") as t:
        sys.settrace(None)
        sample.after(1)
    assert t.truncated == "tracer"


if __name__ == "__main__":
    for values in ("no", "summary"):
        for depth in range(3):
            check(importlib.import_module("traced_sample"), sys.argv[1], values, depth)
