"""Values: described from the outside, whatever they would do if asked."""

from __future__ import annotations

import collections
import json
import os
import time

import numpy as np
import pytest
from trace_story import variables

from readtorch.literate.trace import scope, trace
from readtorch.literate.trace.describe import Describer
from readtorch.literate.trace.events import dumps
from readtorch.literate.trace.scope import without_machine_paths
from readtorch.literate.trace.tensors import EXACT
from readtorch.literate.trace.validate import schema


def described(value):
    describer = Describer(summary=True)
    index = describer.index(value)
    return describer.values[index]


class Hostile:
    """Everything about it fails or hangs when touched."""

    def __repr__(self):
        raise AssertionError("repr was called")

    def __len__(self):
        raise AssertionError("len was called")

    def __iter__(self):
        while True:
            yield 1

    def __eq__(self, other):
        raise AssertionError("== was called")

    def __hash__(self):
        raise AssertionError("hash was called")

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked for")

    @property
    def shape(self):
        raise AssertionError("a property was evaluated")

    @property
    def __class__(self):
        raise AssertionError("__class__ was asked for")


def test_hostile_objects_are_named_by_class_and_never_asked():
    assert described(Hostile())[0] == "o"
    assert described([Hostile()])[3][0][0] == "o"
    assert described({"k": Hostile()})[0] == "c"


def test_a_metaclass_with_hostile_methods():
    class Meta(type):
        def __hash__(cls):
            raise AssertionError("hash of a class")

        def __eq__(cls, other):
            raise AssertionError("== of a class")

        def __instancecheck__(cls, other):
            raise AssertionError("isinstance")

    class Thing(metaclass=Meta):
        pass

    assert described(Thing()) == ("o", f"{__name__}.{Thing.__qualname__}")
    assert described(Thing)[0] == "k"


def test_hostile_subclasses_of_containers_are_read_through_their_base():
    class Endless(list):
        def __iter__(self):
            while True:
                yield 1

        def __len__(self):
            raise AssertionError("len")

        def __repr__(self):
            raise AssertionError("repr")

    class Text(str):
        def __getitem__(self, key):
            raise AssertionError("getitem")

        def __len__(self):
            raise AssertionError("len")

    assert described(Endless([1, 2]))[2:] == (2, (("n", 1), ("n", 2)))
    assert described(Text("abc")) == ("s", "abc", 3)
    assert described(collections.OrderedDict(a=1))[1:] == ("OrderedDict", 1, ((("s", "a", 1), ("n", 1)),))


def test_hostile_values_in_a_traced_function(module, mechanism):
    sample = module("def f(thing):\n    other = thing\n    return [other]\n")
    with trace("traced_sample", values="summary", mechanism=mechanism) as t:
        sample.f(Hostile())
    assert variables(t, "f", 2)["other"][0] == "o"
    t.validate()


def test_scalars_keep_their_type_and_value():
    assert described(3) == ("n", 3)
    assert described(3.0) == ("n", 3.0, "float")
    assert described(True) == ("b", True)
    assert described(None) == ("z",)
    assert described(float("nan")) == ("n", "nan", "float")
    assert described(float("-inf")) == ("n", "-inf", "float")
    assert described(1 << 60) == ("n", str(1 << 60))
    assert described(1 << 100_000) == ("n", "an integer of 100001 bits")
    describer = Describer(summary=True)
    assert len({describer.index(v) for v in (1, 1.0, True, 0, 0.0, False)}) == 6


def test_bare_arrays_are_described():
    # an ndarray has an attribute `data` too, a memoryview: nothing may be fooled by it
    kind, _, version, dtype, shape, device, flags, stats, head = described(np.arange(6.0).reshape(2, 3))
    assert (kind, version, dtype, shape, device, flags) == ("t", 0, "float64", (2, 3), "numpy", "")
    assert stats == (0, 5, 2.5, "")
    assert head == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8", "bool", "complex64"])
def test_arrays_of_every_dtype_fit_into_json(dtype):
    jsonschema = pytest.importorskip("jsonschema")
    value = {"$defs": schema()["$defs"], "$ref": "#/$defs/value"}
    for shape in [(), (0,), (3,), (2, 0, 3), (2, 3), (20, 20)]:
        jsonschema.validate(json.loads(dumps(described(np.ones(shape, dtype)))), value)


def test_arrays_of_objects_are_not_looked_into():
    array = np.empty(1, dtype=object)
    array[0] = Hostile()
    value = described(array)
    assert value[3] == "object" and value[7:] == (0, 0)


def test_nan_and_infinity_in_statistics():
    stats = described(np.array([1.0, np.nan, 2.0]))[7]
    assert stats[:3] == ("nan", "nan", "nan")
    assert described(np.array([1.0, np.inf]))[7][1] == "inf"


def test_an_array_is_one_object_in_many_versions():
    describer = Describer(summary=True)
    a = np.zeros(3)
    first, again = describer.index(a), describer.index(a)
    a += 1
    later = describer.index(a)
    other = describer.index(np.ones(3))
    values = describer.values
    assert first == again != later
    assert values[first][1] == values[later][1] != values[other][1]
    assert (values[first][2], values[later][2]) == (0, 1)


def test_an_id_that_is_used_again_is_a_new_tensor():
    describer = Describer(summary=True)
    serials = {describer.values[describer.index(np.zeros(4))][1] for _ in range(20)}
    assert len(serials) == 20


def test_large_arrays_are_sampled_and_say_so():
    a = np.zeros((1000, 4 * EXACT // 1000))
    a[:] = 2.0
    stats = described(a)[7]
    assert stats == (2, 2, 2, "~")


def test_describing_large_arrays_takes_little_time():
    a = np.ones((4000, 4000), np.float32)
    begin = time.process_time()
    described(a)
    described(a.T)
    described(a[::2, ::3])
    assert time.process_time() - begin < 0.25


def test_non_contiguous_arrays_show_their_first_elements_in_reading_order():
    a = np.arange(12).reshape(3, 4)
    assert described(a.T)[8] == (0, 4, 8, 1, 5, 9)


def test_long_text_is_cut_and_its_length_kept():
    kind, text, length = described("x" * 1000)
    assert (kind, len(text), length) == ("s", 80, 1000)


def test_half_a_character_is_spelled_out_wherever_it_stands(module, mechanism, tmp_path):
    sample = module("def f(name):\n    found = {name: [name]}\n    raise OSError(name)\n")
    with pytest.raises(OSError), trace("traced_sample", values="summary", title="\ud800", mechanism=mechanism) as t:
        sample.f("\udcff.txt")
    assert variables(t, "f", 1)["name"] == ["s", r"\udcff.txt", 5]
    assert t.title == r"\ud800"
    for name in ("t.json", "t.json.gz"):
        t.save(tmp_path / name)
        assert type(t).load(tmp_path / name).document == t.document
    bundle = t._repr_mimebundle_()
    json.dumps(bundle, ensure_ascii=False).encode()
    t.export_chrome_trace(tmp_path / "t.chrome.json")


def test_only_changed_variables_are_noted(module, mechanism):
    sample = module("def f():\n    a = 1\n    b = [1]\n    a = 1\n    b.append(2)\n    return a\n")
    with trace("traced_sample", values="summary", mechanism=mechanism) as t:
        sample.f()
    decoded = t.decoded
    frame = next(f for f in decoded.frames if decoded.name(f) == "f")
    names = [decoded.strings[t.document["events"]["name"][decoded.detail[e]]] for e in frame.sets]
    assert names == ["a", "b", "b"]


def test_values_are_off_unless_asked(module, mechanism):
    sample = module("def f(x):\n    y = x\n    return y\n")
    with trace("traced_sample", mechanism=mechanism) as t:
        sample.f(np.ones(3))
    assert "S" not in t.decoded.kinds and t.document["values"] == []


def test_recording_keeps_no_tensor_alive(module, mechanism):
    import weakref

    sample = module("import numpy as np\ndef f(refs, ref):\n    a = np.ones(3)\n    refs.append(ref(a))\n")
    refs: list = []
    with trace("traced_sample", values="summary", mechanism=mechanism) as t:
        sample.f(refs, weakref.ref)
        assert refs[0]() is None
    t.validate()


def test_paths_of_the_machine_are_cut_out_of_text():
    assert without_machine_paths("/home/me/data/x.npy") == "…/x.npy"
    assert without_machine_paths("cannot open '/home/me/x.npy' here") == "cannot open '…/x.npy' here"
    assert without_machine_paths(r"C:\Users\me\x.npy") == "…/x.npy"
    assert without_machine_paths("a/b and conv/1 and 1/2") == "a/b and conv/1 and 1/2"
    assert without_machine_paths("https://example.org/a/b") == "https://example.org/a/b"


def test_no_path_of_the_machine_is_in_a_document(module, mechanism, tmp_path):
    sample = module(
        "import os\ndef f():\n    here = __file__\n    where = os.getcwd() + '/x'\n    raise OSError(where)\n"
    )
    with pytest.raises(OSError), trace("traced_sample", "torch", values="summary", mechanism=mechanism) as t:
        sample.f()
    text = dumps(t.document)
    for secret in (str(tmp_path), os.getcwd(), os.path.expanduser("~") + "/", os.path.dirname(os.__file__)):
        assert secret not in text
    assert {f["path"].split("/")[-1] for f in t.document["files"]} >= {"traced_sample.py"}


BINDINGS = """
import contextlib


def bindings(n, *rest, flag=True, **named):
    total = 0
    def add(by):
        nonlocal total
        total += by
        return total
    for i in range(n):
        add(i)
        if flag: flag = False; late = i
    squares = [
        j * j
        for j in range(n)
    ]
    if (half := n // 2) > 0:
        first, *others = squares
    try:
        raise KeyError(n)
    except KeyError as error:
        kept = error.args
    with contextlib.nullcontext(5) as five:
        del half
    late += five
    growing = []
    growing.append(growing)
    table = {}
    while n:
        n -= 1
        table[n] = growing; growing = [n]
    match squares:
        case [a, *_]:
            named = a
    import math as m
    class Inner:
        x = 1
        y = x + 1
    return [total, late]


def counting():
    sent = yield 1
    while sent:
        sent = yield sent
"""


def test_looking_only_at_what_a_line_may_bind_misses_nothing(tmp_path, monkeypatch, mechanism):
    file = tmp_path / "bindings.py"
    file.write_text(BINDINGS)
    namespace = {"__name__": "bindings"}
    exec(compile(BINDINGS, str(file), "exec"), namespace)

    def seen():
        with trace(values="summary", namespace=namespace, mechanism=mechanism) as t:
            namespace["bindings"](3, 1, flag=True, other=2)
            counter = namespace["counting"]()
            next(counter)
            counter.send(2)
            counter.close()
        return [(t.document["strings"][n]) for n in t.document["events"]["name"]], t.document

    names, quick = seen()
    monkeypatch.setattr(scope, "_stores", lambda code, names: {})  # look at every variable after every line
    _, thorough = seen()
    assert {"total", "late", "half", "others", "error", "five", "table", "a", "m", "sent", "x", "y"} <= set(names)
    for part in ("values", "strings"):
        assert quick[part] == thorough[part]
    for column in ("kinds", "name", "value", "leave"):
        assert quick["events"][column] == thorough["events"][column]


def test_an_object_of_the_library_that_is_being_made_is_named_by_class():
    import readtorch as torch

    unfinished = object.__new__(torch.device)
    assert described(unfinished)[0] == "o"


def test_a_variable_that_is_let_go_is_not_kept_alive(tmp_path):
    class Thing:
        pass

    import weakref

    with trace(values="summary") as t:
        thing = Thing()
        gone = weakref.ref(thing)
        del thing
        alive = gone()
    assert alive is None and t.document["events"]["count"]


def test_a_cell_begins_at_its_first_statement():
    import linecache

    source = '#| trace: torch.nn values=summary title="x"\n\nz = 1\ny = z\n'
    linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(keepends=True), "<cell 1>")
    namespace = {"__name__": "__main__"}
    with trace(values="summary", namespace=namespace) as t:
        exec(compile(source, "<cell 1>", "exec"), namespace)
    assert t.document["code"][0][2] == 3
    assert t.document["files"][0]["excerpts"] == [[2, "\nz = 1\ny = z"]]
    assert [t.decoded.line[e] for e, kind in enumerate(t.decoded.kinds) if kind == "L"] == [3, 4]
