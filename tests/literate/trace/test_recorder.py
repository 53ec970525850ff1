"""What a recording holds: calls, lines, generators, exceptions, threads, limits; equal on both mechanisms."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading

import pytest
from trace_story import MECHANISMS, calls, story, variables

from readtorch.literate.trace import trace
from readtorch.literate.trace.decode import Decoded
from readtorch.literate.trace.events import MAX_EVENTS


def test_calls_lines_and_returns_in_order(module, mechanism):
    sample = module("def inner(n):\n    m = n + 1\n    return m\n\ndef outer():\n    a = inner(1)\n    return a\n")
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.outer()
    inside = [s for s in story(t) if "test_calls" not in s]
    assert inside == [
        "C outer", "outer+1", "C inner", "inner+1", "inner+2", "R inner", "outer+2", "R outer",
    ]  # fmt: skip


def test_the_block_itself_is_recorded_from_its_first_to_its_last_line(mechanism):
    with trace(mechanism=mechanism, values="summary") as t:
        first = 1
        second = first + 1
    assert [s.rpartition("+")[2] for s in story(t) if "+" in s] == ["2", "3"]
    assert story(t)[-1].startswith("R ")
    end = len(t.decoded.kinds) - 1
    assert t.decoded.values[t.decoded.variables(end)["second"]] == ["n", 2]
    assert second == 2


def test_only_the_named_package_and_the_block_are_recorded(module, mechanism):
    module("def helper():\n    return 1\n", "traced_other")
    sample = module("import traced_other\ndef f():\n    return traced_other.helper()\n")
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.f()
    assert "helper" not in calls(t)
    with trace("traced_sample", "traced_other", mechanism=mechanism) as t:
        sample.f()
    assert calls(t)[1:] == ["f", "helper"]


def test_calls_alone_have_no_lines(module, mechanism):
    sample = module("def f():\n    x = 1\n    return x\n")
    with trace("traced_sample", layers=["calls"], mechanism=mechanism) as t:
        sample.f()
    assert "L" not in t.decoded.kinds
    assert calls(t)[1:] == ["f"]


def test_a_generator_is_one_call_left_and_reentered(module, mechanism):
    sample = module("def gen():\n    yield 1\n    yield 2\n\ndef use():\n    return list(gen())\n")
    with trace("traced_sample", mechanism=mechanism, values="summary") as t:
        sample.use()
    inside = [s for s in story(t) if "gen" in s and "test" not in s]
    assert inside == ["C gen", "gen+1", "Y gen", "G gen", "gen+2", "Y gen", "G gen", "R gen"]
    assert calls(t).count("gen") == 1
    yields = [t.decoded.values[t.decoded.detail[e]] for e, k in enumerate(t.decoded.kinds) if k == "Y"]
    assert yields == [["n", 1], ["n", 2]]


def test_two_generators_interleaved_keep_their_variables(module, mechanism):
    sample = module("def gen(name):\n    n = 0\n    while n < 2:\n        n += 1\n        yield n\n\n"
                    "def use():\n    return list(zip(gen('a'), gen('b')))\n")  # fmt: skip
    with trace("traced_sample", mechanism=mechanism, values="summary") as t:
        assert sample.use() == [(1, 1), (2, 2)]
    frames = [f for f in t.decoded.frames if t.decoded.name(f) == "gen"]
    last = [t.decoded.variables(f.spans[1][1]) for f in frames]
    assert [t.decoded.values[v["name"]][1] for v in last] == ["a", "b"]
    assert [t.decoded.values[v["n"]] for v in last] == [["n", 2], ["n", 2]]


def test_an_exception_is_told_apart_from_a_return_of_none(module, mechanism):
    sample = module("def bad():\n    raise ValueError('no')\n\ndef quiet():\n    try:\n        bad()\n    except ValueError:\n"
                    "        return None\n")  # fmt: skip
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.quiet()
    ends = {t.decoded.name(f): f.left for f in t.decoded.frames}
    assert ends["bad"] == "E" and ends["quiet"] == "R"
    bad = next(f for f in t.decoded.frames if t.decoded.name(f) == "bad")
    assert t.decoded.values[bad.result] == ["e", "ValueError", "no"]


def test_an_exception_thrown_into_a_generator_unwinds_it(module, mechanism):
    sample = module("def gen():\n    try:\n        yield 1\n    except KeyError:\n        yield 2\n\n"
                    "def use():\n    g = gen()\n    next(g)\n    g.throw(KeyError('k'))\n    try:\n        g.throw(ValueError('v'))\n"
                    "    except ValueError:\n        pass\n")  # fmt: skip
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.use()
    inside = [s for s in story(t) if "gen" in s and "test" not in s]
    assert inside[0] == "C gen" and inside[-1] == "E gen"
    assert inside.count("Y gen") == 2


def test_an_exception_that_leaves_the_block_passes_on_and_is_recorded(module, mechanism):
    sample = module("def bad():\n    raise KeyError('gone')\n")
    with pytest.raises(KeyError, match="gone"), trace("traced_sample", mechanism=mechanism) as t:
        sample.bad()
    assert "E bad" in story(t)
    t.validate()


def test_recursion_nests(module, mechanism):
    sample = module("def down(n):\n    return 0 if n == 0 else down(n - 1)\n")
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.down(5)
    depths = [f.depth for f in t.decoded.frames if t.decoded.name(f) == "down"]
    assert depths == [1, 2, 3, 4, 5, 6]


def test_comprehensions_are_part_of_their_function_on_every_python(module, mechanism):
    sample = module("def g(i):\n    return i\n\ndef f():\n    return [g(i) for i in range(2)]\n")
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.f()
    assert calls(t)[1:] == ["f", "g", "g"]
    f = t.decoded.frames[1]
    assert t.decoded.children[f.number] == [2, 3]


def test_threads_are_lanes_of_their_own(module, mechanism):
    sample = module("import threading\ndef work(box):\n    box.append(1)\n\ndef go():\n    box = []\n"
                    "    t = threading.Thread(target=work, args=(box,))\n    t.start()\n    t.join()\n    return box\n")  # fmt: skip
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.go()
    assert [lane["name"] for lane in t.document["lanes"]] == ["main", "work"]
    assert [lane["kind"] for lane in t.document["lanes"]] == ["main", "thread"]
    assert story(t, lane=1) == ["C work", "work+1", "R work"]


def test_many_threads_at_once_nest_correctly_in_their_lanes(module, mechanism):
    sample = module("def leaf(n):\n    return n\n\ndef work():\n    for n in range(50):\n        leaf(n)\n")
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        sample.work()

    with trace("traced_sample", mechanism=mechanism) as t:
        threads = [threading.Thread(target=run, name=f"worker-{i}") for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    t.validate()
    for frame in t.decoded.frames:
        if t.decoded.name(frame) == "leaf":
            parent = t.decoded.frames[frame.parent]
            assert t.decoded.name(parent) == "work" and parent.lane == frame.lane
    assert calls(t).count("leaf") == 200


def test_a_generator_resumed_in_another_thread_belongs_to_that_lane(module, mechanism):
    sample = module("def gen():\n    yield 1\n    yield 2\n")
    g = sample.gen()
    with trace("traced_sample", mechanism=mechanism) as t:
        next(g)
        thread = threading.Thread(target=lambda: next(g), name="other")
        thread.start()
        thread.join()
    t.validate()
    resumed = t.decoded.kinds.index("G")
    assert t.document["lanes"][t.decoded.lane[resumed]]["name"] == "other"


def test_a_generator_begun_before_the_recording_is_shown_from_where_it_goes_on(module, mechanism):
    sample = module("def gen():\n    yield 1\n    yield 2\n")
    g = sample.gen()
    next(g)
    with trace("traced_sample", mechanism=mechanism) as t:
        next(g)
    t.validate()
    assert [s for s in story(t) if "gen" in s and "test" not in s] == ["C gen", "gen+2", "Y gen"]


def test_a_tracer_of_another_tool_is_put_back(module):
    sample = module("def f():\n    return 1\n")
    seen = []

    def other(frame, event, arg):
        seen.append(event)

    before = sys.gettrace()
    sys.settrace(other)
    try:
        with trace("traced_sample", mechanism="sys.settrace"):
            sample.f()
        assert sys.gettrace() is other
    finally:
        sys.settrace(before)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_the_tool_id_is_given_back():
    before = [sys.monitoring.get_tool(i) for i in range(6)]
    with trace(mechanism="sys.monitoring"):
        pass
    assert [sys.monitoring.get_tool(i) for i in range(6)] == before


def test_nothing_is_recorded_after_the_block(module, mechanism):
    sample = module("def f():\n    return 1\n")
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.f()
    count = t.document["events"]["count"]
    sample.f()
    assert t.document["events"]["count"] == count
    with trace("traced_sample", mechanism=mechanism) as again:
        sample.f()
    assert calls(again)[1:] == ["f"]


def test_one_recording_at_a_time():
    with trace() as t, pytest.raises(RuntimeError, match="already running"), trace():
        pass
    t.validate()


def test_the_recording_ends_at_the_limit_and_says_so(module, mechanism):
    sample = module("def spin(n):\n    for i in range(n):\n        x = i\n    return x\n")
    with trace("traced_sample", mechanism=mechanism) as t:
        assert sample.spin(MAX_EVENTS) == MAX_EVENTS - 1
    assert t.truncated == "events"
    assert t.document["events"]["count"] <= MAX_EVENTS
    t.validate()


def test_steps_ends_a_recording_early(module, mechanism):
    sample = module("def f():\n    a = 1\n    b = 2\n    c = 3\n    return a + b + c\n")
    with trace("traced_sample", steps=4, values="summary", mechanism=mechanism) as t:
        assert sample.f() == 6
    assert t.truncated == "steps"
    assert len(t.decoded.steps) == 4


def test_a_document_too_large_is_cut_and_says_so(module, mechanism, monkeypatch):
    from readtorch.literate.trace import encode

    monkeypatch.setattr(encode, "MAX_BYTES", 3000)
    sample = module("import random\ndef f(x):\n    return x\n\ndef go():\n    r = random.Random(0)\n    for _ in range(900):\n"
                    "        f(r.random())\n")  # fmt: skip
    with trace("traced_sample", values="summary", mechanism=mechanism) as t:
        sample.go()
    assert t.truncated == "bytes"
    assert encode.gzipped_size(t.document) <= 3000
    t.validate()


@pytest.mark.parametrize("steps", [None, 3])
def test_the_collector_runs_less_often_meanwhile_and_as_before_after(module, mechanism, steps):
    sample = module("import gc\ndef f():\n    found = gc.get_threshold()\n    return found\n")
    before = gc.get_threshold()
    with trace("traced_sample", mechanism=mechanism) as t:
        inside = sample.f()
    assert t.document["events"]["count"] > 3
    assert inside[0] > before[0]
    assert inside[1:] == before[1:]
    assert gc.get_threshold() == before
    with trace("traced_sample", mechanism=mechanism, steps=steps):
        sample.f()
        ended = gc.get_threshold()
    assert (ended == before) == (steps is not None)
    assert gc.get_threshold() == before


def test_what_the_recorded_code_sets_the_collector_to_stays(mechanism):
    before = gc.get_threshold()
    try:
        with trace(mechanism=mechanism):
            gc.set_threshold(1234, 5, 6)
        assert gc.get_threshold() == (1234, 5, 6)
    finally:
        gc.set_threshold(*before)


def test_a_recording_begun_inside_a_generator_sees_it_left_and_reentered(mechanism):
    def counting():
        with trace(mechanism=mechanism) as t:
            yield 1
            yield 2
        yield t

    *_, t = counting()
    assert [s[0] for s in story(t) if "counting" in s and s[0] in "CGYER"].count("Y") == 2


def test_notebook_code_is_recognised_by_its_globals(mechanism):
    namespace: dict = {"__name__": "__main__"}
    exec(compile("def helper():\n    return 1\n", "<cell one>", "exec"), namespace)
    code = compile("y = helper()\nz = y + 1\n", "<cell two>", "exec")
    with trace(namespace=namespace, values="summary", mechanism=mechanism,
               locate=lambda file, line: ("chapters/x.py", 100 + line, "cell-id") if file == "<cell two>" else None) as t:  # fmt: skip
        exec(code, namespace)
    assert calls(t) == ["<module>", "helper"]
    assert {f["path"] for f in t.document["files"]} == {"cell cell-id", "cell 2"}
    (cell,) = t.document["cells"]
    assert cell[1:3] == [1, 2] and cell[5] == 101
    assert [t.document["strings"][s] for s in cell[3:5]] == ["chapters/x.py", "cell-id"]


def test_unknown_package_layer_and_option_are_refused():
    with pytest.raises(ValueError, match=r"no package or module .torch\.nonsense."), trace("torch.nonsense"):
        pass
    with pytest.raises(ValueError, match="no layer 'tea'"):
        trace(layers=["tea"])
    with pytest.raises(ValueError, match="values is 'no' or 'summary'"):
        trace(values="all")
    with pytest.raises(ValueError, match="steps"):
        trace(steps=0)


def test_the_document_is_not_to_be_had_while_recording():
    with trace() as t, pytest.raises(RuntimeError, match="still recording"):
        _ = t.document
    assert "recording" not in repr(t)


def test_exit_stack_counts_as_the_block(mechanism):
    with contextlib.ExitStack() as stack:
        t = stack.enter_context(trace(mechanism=mechanism))
        marker = 1
        assert marker
    assert calls(t)[0] == "test_exit_stack_counts_as_the_block"


PROGRAM = """
import threading
def gen():
    yield 1
def bad():
    raise ValueError("x")
def work():
    return 1
def go():
    total = sum(gen())
    try:
        bad()
    except ValueError:
        pass
    t = threading.Thread(target=work)
    t.start()
    t.join()
    return [g for g in range(total)]
"""


def test_both_mechanisms_give_the_same_digest(module):
    sample = module(PROGRAM)
    digests = set()
    for mechanism in MECHANISMS * 2:
        with trace("traced_sample", mechanism=mechanism, values="summary") as t:
            sample.go()
        digests.add(t.digest)
    assert len(digests) == 1


def test_the_digest_tells_different_runs_apart(module):
    sample = module("def a():\n    pass\ndef b():\n    pass\ndef go(first):\n    a() if first else b()\n")
    with trace("traced_sample") as one:
        sample.go(True)
    with trace("traced_sample") as two:
        sample.go(False)
    assert one.digest != two.digest


def test_a_deleted_name_is_no_longer_shown(module, mechanism):
    sample = module("def f():\n    x = 1\n    del x\n    y = 2\n    return y\n")
    with trace("traced_sample", values="summary", mechanism=mechanism) as t:
        sample.f()
    assert "x" in variables(t, "f", 2)
    assert "x" not in variables(t, "f", 3)


def test_decoding_an_empty_recording():
    with trace(layers=["ops"]) as t:
        pass
    assert Decoded(t.document).steps == []
    t.validate()
