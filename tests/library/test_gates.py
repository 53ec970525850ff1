"""The gates in front of public functions: down and without a trace until there is somebody to ask, then in front of all."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import readtorch as torch
from readtorch.csrc.utils.gates import gate, gates
from readtorch.overrides import TorchFunctionMode

DUCK = """
import readtorch as torch
from readtorch.csrc.utils.gates import gates

class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, [kind.__name__ for kind in types], len(args), kwargs

D, t = Duck(), torch.ones(3)
assert not gates.up
"""


def run(code: str) -> str:
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return process.stdout.strip()


def test_a_program_without_subclasses_meets_no_gate() -> None:
    code = """
import readtorch as torch
from readtorch.csrc.utils.gates import gates
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LazyLinear(1))
model(torch.ones(1, 2)).sum().backward()
class Weight(torch.nn.Parameter): pass
print(gates.up, torch.nn.Buffer(torch.ones(1)) + Weight(torch.ones(1)), gates.has(torch.add), gates.has(torch.nn.functional.relu))
"""
    assert run(code) == "False tensor([2.], grad_fn=<AddBackward0>) False False"


FIRST = {
    "torch.mean(D)": ("mean", ["Duck"], 1, None),
    "torch.add(t, D)": ("add", ["Duck"], 2, None),
    "t + D": ("add", ["Duck"], 2, None),
    "D + t": ("add", ["Duck"], 2, None),
    "t - D": ("sub", ["Duck"], 2, None),
    "t @ D": ("matmul", ["Duck"], 2, None),
    "torch.stack([D, t])": ("stack", ["Duck"], 1, None),
    "torch.std(D, dim=0)": ("std", ["Duck"], 1, {"dim": 0}),
    "torch.reshape(D, (1,))": ("reshape", ["Duck"], 2, None),
    "torch.where(D, t, t)": ("where", ["Duck"], 3, None),
    "t.add_(D)": ("add_", ["Duck"], 2, None),
    "torch.conv2d(D, t)": ("conv2d", ["Duck"], 2, None),
    "torch.split(D, 2)": ("split", ["Duck"], 2, {"dim": 0}),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case needs a process in which nobody has been asked")
def test_the_first_thing_that_behaves_like_a_tensor_is_asked_as_every_later_one() -> None:
    code = f"""{DUCK}
import os, sys
for expression, answer in {FIRST!r}.items():
    child = os.fork()
    if not child:
        good = eval(expression) == answer == eval(expression) and gates.up
        os._exit(0 if good else 1)
    if os.waitpid(child, 0)[1]:
        print(expression)
"""
    assert run(code) == ""


def test_functions_stay_the_objects_they_were_and_keep_their_signatures() -> None:
    code = """
import inspect
import readtorch as torch
before = torch.add, torch.Tensor.add, torch.nn.functional.relu, torch.Tensor.__len__, torch.linalg.inv
signatures = [inspect.signature(function) for function in before]
class Plain(torch.Tensor): pass
after = torch.add, torch.Tensor.add, torch.nn.functional.relu, torch.Tensor.__len__, torch.linalg.inv
print(all(a is b for a, b in zip(before, after)), [inspect.signature(function) for function in after] == signatures)
print(before[2](torch.ones(1).as_subclass(Plain)), [function.__name__ for function in after])
"""
    assert run(code).splitlines() == ["True True", "Plain([1.]) ['add', 'add', 'relu', '__len__', 'linalg_inv']"]


def test_a_module_imported_when_the_gates_are_up_gets_its_own() -> None:
    code = """
import readtorch as torch
class Plain(torch.Tensor): pass
x = torch.ones(2, 2).as_subclass(Plain)
import readtorch.nn.functional, readtorch.fft
print(type(readtorch.nn.functional.softsign(x)).__name__, type(torch.fft.fft(x)).__name__, torch.overrides.resolve_name(torch.nn.functional.softsign))
"""
    assert run(code) == "Plain Plain torch.nn.functional.softsign"


class Plain(torch.Tensor):
    pass


def test_an_operator_registered_later_gets_a_gate_too() -> None:
    from readtorch.aten.core.dispatch import dispatcher

    @dispatcher.register("seventeenfold", variants="function method")
    def seventeenfold(self: Array) -> Array:  # type: ignore[name-defined]  # noqa: F821  the annotation is read as text
        return self * 17

    namespace: Any = torch._C._VariableFunctions
    try:
        x = torch.ones(1).as_subclass(Plain)
        assert type(namespace.seventeenfold(x)) is type(x.seventeenfold()) is Plain
        assert gates.has(namespace.seventeenfold) and namespace.seventeenfold is not torch.Tensor.seventeenfold
    finally:
        del dispatcher.operators["seventeenfold"], namespace.seventeenfold
        del torch._C.TensorBase.seventeenfold


def test_a_gate_is_the_same_few_lines_for_all() -> None:
    assert torch.add.__code__.co_code[2:] == torch.Tensor.__len__.__code__.co_code[2:] == gate.__code__.co_code[2:]
    assert torch.add.__code__.co_firstlineno == gate.__code__.co_firstlineno
    assert inspect.unwrap(torch.add) is not torch.add


def test_a_debugger_may_look_into_a_gate() -> None:
    """Local variables of a frame are read through its cells."""
    seen = set()

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        seen.add((frame.f_code.co_name, tuple(sorted(frame.f_locals))))
        return tracer

    x = torch.ones(1).as_subclass(Plain)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        x + 1, len(x), x.shape
    finally:
        sys.settrace(before)
    assert any(name == "gate" and {"_face", "args", "kwargs"} <= set(names) for name, names in seen)


def test_modes_belong_to_their_thread() -> None:
    seen: list[str] = []

    class Seen(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def elsewhere() -> None:
        torch.zeros(1)

    with Seen():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        torch.ones(1)
    assert seen == ["ones"]


def test_the_formulas_of_a_second_backward_ask_nobody() -> None:
    asked: list[str] = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    factor = torch.full((2,), 3.0).as_subclass(Asked)
    x = torch.ones(2, requires_grad=True)
    y = (x * factor).as_subclass(torch.Tensor) ** 2
    del asked[:]
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert asked == [] and type(grad) is torch.Tensor and second.tolist() == [18.0, 18.0]


def test_what_is_wrong_with_a_call_is_said_as_before() -> None:
    x = torch.ones(2).as_subclass(Plain)
    with pytest.raises(TypeError, match="missing 1 required positional arguments"):
        torch.add(x)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        torch.nn.functional.relu(x, in_place=True)
    with pytest.raises(RuntimeError, match="must match the size"):
        x + torch.ones(3)
    with pytest.raises(AttributeError):
        _ = x.no_such_attribute


def test_a_warning_points_at_the_line_that_deserves_it() -> None:
    code = (
        DUCK
        + """
import warnings
class Sub(torch.Tensor):
    pass
s, q = torch.ones(2).as_subclass(Sub), torch.ones(2, requires_grad=True) * 1
calls = {
    "attribute": lambda: q.grad, "deprecated": lambda: torch.tensor(1.0).mT, "with keywords": lambda: torch.range(start=0, end=3),
    "python": lambda: torch.nn.functional.tanh(t), "method": lambda: torch.tensor(2.0).mT,
}
for up in (False, True):
    if up:
        torch.add(s, 1)
        assert gates.up
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        print(name, up, sorted({warning.filename for warning in caught}))
"""
    )
    lines = run(code).splitlines()
    assert len(lines) == 10
    assert any("<string>" in line for line in lines)
    assert all(line.endswith(("[]", "['<string>']")) for line in lines), lines
    assert [line.replace("True", "False") for line in lines[5:]] == lines[:5]
