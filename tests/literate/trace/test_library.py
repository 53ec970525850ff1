"""Recordings of readtorch itself: operators, autograd, modules, hooks, chapter cells; and of PyTorch beside it."""

from __future__ import annotations

import sys

import pytest
from trace_story import calls

import readtorch as torch
from readtorch import nn
from readtorch.literate.trace import compare, trace
from readtorch.literate.trace.describe import Describer
from readtorch.literate.trace.encode import gzipped_size


def operators(t):
    return [(o.kind, o.name) for o in t.decoded.operators]


def test_operators_with_shapes_dtypes_and_results():
    x, y = torch.ones(2, 3), torch.ones(3)
    with trace(layers=["ops"]) as t:
        z = x * y
        z.sum()
    assert operators(t) == [("O", "aten::mul"), ("O", "aten::sum")]
    mul, total = t.decoded.operators
    values = t.decoded.values
    assert [values[v][3:6] for v in mul.inputs] == [["float32", [2, 3], "cpu"], ["float32", [3], "cpu"]]
    assert values[mul.outputs[0]][4] == [2, 3] and values[total.outputs[0]][4] == []
    assert mul.outputs[0] == total.inputs[0]
    t.validate()


def test_nothing_is_observed_outside_a_recording():
    from readtorch.aten import record_function

    with trace(layers=["ops"]):
        assert record_function.observer is not None
    assert record_function.observer is None


def test_autograd_nodes_in_the_order_they_run():
    w = torch.ones(2, requires_grad=True)
    loss = (w * 3).exp().sum()
    with trace(layers=["autograd"]) as t:
        loss.backward()
    names = ("SumBackward0", "ExpBackward0", "MulBackward0", "torch::autograd::AccumulateGrad")
    assert operators(t) == [("N", name) for name in names]
    t.validate()


def test_layers_are_independent():
    w = torch.ones(2, requires_grad=True)
    with trace(layers=["ops"]) as t:
        (w * 3).sum().backward()
    assert {kind for kind, _ in operators(t)} == {"O"} and t.decoded.frames == []
    with trace(layers=["calls"]) as t:
        (w * 3).sum().backward()
    assert operators(t) == [] and t.decoded.frames


def test_tensors_are_described_by_version():
    x = torch.zeros(2)
    with trace(values="summary", layers=["calls", "lines"]) as t:
        x += 1
        y = x
        x += 1
        assert y is x
    kinds = [v for v in t.decoded.values if v[0] == "t" and v[5] == "cpu" and v[4] == [2]]
    seen = sorted((v[1], v[2], v[7][2]) for v in kinds)
    serial = seen[0][0]
    assert [(v, mean) for s, v, mean in seen if s == serial] == [(0, 0), (1, 1), (2, 2)]


def test_what_only_requires_grad_tells():
    describer = Describer(summary=True)
    leaf = torch.ones(2, requires_grad=True)
    assert describer.values[describer.index(leaf)][6] == "g"
    assert describer.values[describer.index(leaf.detach())][6] == ""
    assert describer.values[describer.index(torch.float32)] == ("d", "torch.float32")
    assert describer.values[describer.index(torch.device("cuda:1"))] == ("d", "cuda:1")


def test_a_subclass_that_overrides_everything_is_read_through_the_base():
    class Sly(torch.Tensor):
        @property
        def shape(self):
            raise AssertionError("shape was asked for")

        def __repr__(self):
            raise AssertionError("repr was asked for")

    sly = torch.ones(2, 3).as_subclass(Sly)
    describer = Describer(summary=True)
    assert describer.values[describer.index(sly)][3:5] == ("float32", (2, 3))


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.w


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(Scale(), Scale())
        self.head = Scale()

    def forward(self, x):
        return self.head(self.layer1(x))


def of(t, name):
    return [f for f in t.decoded.frames if t.decoded.name(f) == name]


def test_module_calls_carry_the_path_of_their_module(mechanism):
    net = Net()
    with trace("torch.nn", mechanism=mechanism) as t:
        net(torch.ones(2, 3))
    paths = [t.document["modules"][f.module] for f in of(t, "Scale.forward")]
    assert [p[:2] for p in paths] == [["layer1.0", "Scale"], ["layer1.1", "Scale"], ["head", "Scale"]]
    root = t.document["modules"][of(t, "Net.forward")[0].module]
    assert root[0] == "" and root[1] == "Net" and root[2] == -1
    t.validate()


def test_hooks_are_recognised_with_their_kind_and_module(mechanism):
    net = Net()

    def before(module, args):
        return None

    def after(module, args, out):
        return None

    def everywhere(module, args):
        return None

    net.layer1[1].register_forward_pre_hook(before)
    net.head.register_forward_hook(after)
    handle = nn.modules.module.register_module_forward_pre_hook(everywhere)
    try:
        with trace("torch.nn", mechanism=mechanism) as t:
            net(torch.ones(2, 3))
    finally:
        handle.remove()
    hooks = {t.decoded.name(f).rpartition(".")[2]: f for f in t.decoded.frames if f.hook}
    assert hooks["before"].hook == "forward_pre_hook"
    assert t.document["modules"][hooks["before"].module][0] == "layer1.1"
    assert hooks["after"].hook == "forward_hook"
    assert "forward_pre_hook" in hooks["everywhere"].hook


def test_the_package_option_limits_what_is_recorded():
    net = Net()
    with trace("torch.nn.modules.container") as t:
        net(torch.ones(2, 3))
    files = {f["path"] for f in t.document["files"]}
    assert "readtorch/nn/modules/container.py" in files
    assert not any(f.startswith("readtorch/") and f != "readtorch/nn/modules/container.py" for f in files)


def test_lines_lead_to_chapter_cells():
    net = Net()
    with trace("torch.nn", layers=["calls"]) as t:
        net.state_dict()
    assert t.document["cells"]
    with trace("torch.nn") as t:
        net.state_dict()
    strings = t.document["strings"]
    for file, first, last, path, cell, line in t.document["cells"]:
        assert t.document["files"][file]["path"].startswith("readtorch/")
        assert strings[path].startswith("chapters/02_module") and strings[cell]
        assert first <= last and line >= 1
    path = "readtorch/nn/modules/module.py"
    (entry,) = [f for f in t.document["files"] if f["path"] == path]
    assert any("def state_dict" in body for _, body, *_ in entry["excerpts"])


def test_an_import_is_one_call():
    for name in [n for n in sys.modules if n.startswith("readtorch.utils.traced_probe")]:
        del sys.modules[name]
    import importlib

    module = importlib.import_module("readtorch.version")  # of plain values: nobody holds what the second run replaces
    with trace("torch") as t:
        importlib.reload(module)
    (body,) = of(t, "<module>")
    assert t.decoded.children[body.number] == []
    assert not [f for f in t.document["files"] if f["path"].endswith("version.py") and "excerpts" in f]


def test_a_training_step_is_small():
    net = Net()
    x = torch.ones(4, 3)

    def step():
        loss = (net(x) - 1).exp().sum()
        loss.backward()

    step()  # what is built at first use is not part of a step
    with trace("torch.nn", values="summary") as t:
        step()
    assert gzipped_size(t.document) <= 8_000
    with trace("torch.nn", values="summary") as t:
        for _ in range(20):
            step()
    assert gzipped_size(t.document) <= 60_000
    t.validate()


@pytest.mark.torch
def test_pytorch_is_traced_by_names_and_lines_and_aligned_with_readtorch():
    real = pytest.importorskip("torch")

    def run(torch):
        class Leaf(torch.nn.Module):
            def forward(self, x):
                return x * 2

        class Two(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = Leaf()
                self.b = torch.nn.Sequential(Leaf())

            def forward(self, x):
                return self.b(self.a(x))

        net = Two()
        x = torch.ones(2)
        with trace("torch.nn", values="summary", title=torch.__name__) as t:
            net(x)
            net.state_dict()
        t.validate()
        return t

    theirs, ours = run(real), run(torch)
    files = [f for f in theirs.document["files"] if f["path"].startswith("torch/")]
    assert {"torch/nn/modules/module.py", "torch/nn/modules/container.py"} <= {f["path"] for f in files}
    assert not any("excerpts" in f for f in files)
    for frame in theirs.decoded.frames:
        if theirs.decoded.path(frame).startswith("torch/"):
            assert frame.sets == [] and frame.result == -1
    assert "Sequential.forward" in calls(theirs)
    alignment = compare(ours, theirs)
    symbols = [p.symbol for p in alignment.matched]
    for wanted in ("Module._call_impl", "Sequential.forward", "Module.state_dict"):
        module = "container" if "Sequential" in wanted else "module"
        assert f"torch/nn/modules/{module}.py#{wanted}" in symbols
    assert all(ours.decoded.name(ours.decoded.frames[p.a]) == theirs.decoded.name(theirs.decoded.frames[p.b])
               for p in alignment.matched)  # fmt: skip
