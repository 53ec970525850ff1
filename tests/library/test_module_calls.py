"""One call of a module: what runs, in which order, and what hooks may change."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest

import readtorch as torch
from readtorch import nn
from readtorch.nn.modules import module as module_file


class Scale(nn.Module):
    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), factor))

    def forward(self, x: Any, bias: Any = 0) -> Any:
        return x * self.weight + bias


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor([float(value) for value in values], requires_grad=True)


def test_forward_alone_runs_no_hook() -> None:
    model, seen = Scale(), []
    model.register_forward_hook(lambda *_: seen.append(1))
    model.forward(torch.ones(2))
    assert seen == []
    model(torch.ones(2))
    assert seen == [1]


def test_missing_forward_names_the_class() -> None:
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        nn.Module()(1)


def test_pre_hook_replaces_arguments_singly_or_as_a_tuple() -> None:
    model = Scale()
    with model.register_forward_pre_hook(lambda module, args: args[0] + 1):
        assert model(torch.ones(2)).tolist() == [4, 4]
    with model.register_forward_pre_hook(lambda module, args: (args[0], 10)):
        assert model(torch.ones(2)).tolist() == [12, 12]


def test_hooks_with_kwargs_see_and_replace_them() -> None:
    model, seen = Scale(), []
    model.register_forward_pre_hook(lambda module, args, kwargs: (args, {"bias": 5}), with_kwargs=True)
    model.register_forward_hook(lambda module, args, kwargs, output: seen.append(kwargs), with_kwargs=True)
    assert model(torch.ones(2), bias=1).tolist() == [7, 7]
    assert seen == [{"bias": 5}]


def test_pre_hook_with_kwargs_must_return_a_pair() -> None:
    model = Scale()
    model.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        model(torch.ones(2))


def test_forward_hooks_run_in_order_and_each_sees_the_output_of_the_one_before() -> None:
    model = Scale()
    model.register_forward_hook(lambda module, args, output: output + 1)
    model.register_forward_hook(lambda module, args, output: output * 10)
    model.register_forward_hook(lambda module, args, output: output - 1, prepend=True)
    assert model(torch.ones(2)).tolist() == [20, 20]


def test_global_hooks_run_for_every_module_before_its_own() -> None:
    log: list[str] = []
    outer = nn.Sequential(Scale())
    outer[0].register_forward_hook(lambda *_: log.append("own"))
    with module_file.register_module_forward_hook(lambda module, args, output: log.append(type(module).__name__)):
        outer(torch.ones(2))
    outer(torch.ones(2))
    assert log == ["Scale", "own", "Sequential", "own"]


def test_always_call_hook_runs_after_an_exception_with_what_there_is() -> None:
    def fail(*_: Any) -> None:
        raise ValueError("in a hook")

    model, seen = Scale(), []
    model.register_forward_hook(fail)
    model.register_forward_hook(lambda module, args, output: seen.append(output.tolist()), always_call=True)
    model.register_forward_hook(lambda *_: seen.append("ordinary"))
    with pytest.raises(ValueError, match="in a hook"):
        model(torch.ones(2))
    assert seen == [[2, 2]]


def test_always_call_hook_that_fails_becomes_a_warning() -> None:
    class Broken(nn.Module):
        def forward(self) -> None:
            raise KeyError("first")

    model = Broken()
    model.register_forward_hook(lambda: None, always_call=True)
    with pytest.warns(UserWarning, match="always_call"), pytest.raises(KeyError, match="first"):
        model()


def test_global_always_call_hook_with_kwargs_gets_them_after_an_exception() -> None:
    class Broken(nn.Module):
        def forward(self, x: Any) -> None:
            raise KeyError

    seen: list[Any] = []

    def hook(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        seen.append(kwargs)

    register = module_file.register_module_forward_hook
    with register(hook, with_kwargs=True, always_call=True), pytest.raises(KeyError):
        Broken()(x=1)
    assert seen == [{"x": 1}]


def test_full_backward_hook_sees_and_replaces_gradients() -> None:
    model, seen = Scale(), []

    def hook(module: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 10,)

    model.register_full_backward_hook(hook)
    x = leaf(1, 1)
    model(x).sum().backward()
    assert seen == [([2, 2], [1, 1])]
    assert x.grad.tolist() == [20, 20]
    assert model.weight.grad.tolist() == [1, 1]


def test_full_backward_hook_has_one_entry_per_argument_and_none_for_others() -> None:
    class Mixed(nn.Module):
        def forward(self, x: Any, n: int, y: Any) -> Any:
            return x * n, "text", y * 1

    model, seen = Mixed(), []
    model.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    out = model(leaf(1.0), 3, torch.ones(1))
    out[0].sum().backward()
    ((grad_input, grad_output),) = seen
    assert len(grad_input) == 3
    assert grad_input[0].tolist() == [3]
    assert grad_input[1] is None
    assert len(grad_output) == 3
    assert grad_output[1] is None
    assert out[1] == "text"


def test_backward_pre_hooks_run_before_and_may_replace_the_incoming_gradient() -> None:
    model = Scale()
    model.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))
    x = leaf(1, 1)
    model(x).sum().backward()
    assert x.grad.tolist() == [6, 6]
    assert model.weight.grad.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("register", "result"), [("register_full_backward_hook", (1, 2)), ("register_full_backward_pre_hook", ())]
)
def test_backward_hooks_must_return_as_many_gradients_as_they_got(register: str, result: tuple[int, ...]) -> None:
    model = Scale()
    getattr(model, register)(lambda *_: result)
    with pytest.raises(RuntimeError, match="invalid number of grad_"):
        model(leaf(1, 1)).sum().backward()


def test_full_backward_hook_without_grad_requiring_input_runs_at_the_output() -> None:
    model, seen = Scale(), []
    model.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        model(torch.ones(2)).sum().backward()
    assert seen == [(None,)]


def test_full_backward_hook_keeps_a_namedtuple_a_namedtuple() -> None:
    from collections import namedtuple

    Pair = namedtuple("Pair", ["left", "right"])

    class Two(nn.Module):
        def forward(self, x: Any) -> Any:
            return Pair(x * 1, x * 2)

    model = Two()
    model.register_full_backward_hook(lambda *_: None)
    out = model(leaf(1.0))
    assert type(out) is Pair
    assert out.right.tolist() == [2]


def test_changing_the_output_of_a_hooked_module_in_place_is_refused() -> None:
    model = Scale()
    model.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        model(leaf(1, 1)).add_(1)


def test_old_and_full_backward_hooks_do_not_mix() -> None:
    model = Scale()
    model.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        model.register_backward_hook(lambda *_: None)


def test_old_backward_hook_warns_where_it_misses_something(recwarn: pytest.WarningsRecorder) -> None:
    class Single(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(x)

    counts: list[int] = []
    right, wrong = Single(), Scale()
    for model in (right, wrong):
        model.register_backward_hook(lambda module, grad_input, grad_output: counts.append(len(grad_input)))
    right(leaf(1, 1) * 1).sum().backward()
    assert not recwarn.list
    with pytest.warns(FutureWarning, match="non-full backward hook"):
        wrong(leaf(1, 1) * 1, torch.ones(2)).sum().backward()
    assert counts == [1, 2]


def test_handle_does_not_keep_the_module_alive() -> None:
    model = Scale()
    handle = model.register_forward_hook(lambda *_: None)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None
    handle.remove()


def test_hooks_registered_with_their_module_follow_a_deep_copy() -> None:
    model, seen = Scale(), []
    model.register_load_state_dict_pre_hook(lambda module, *_: seen.append(module))
    twin = copy.deepcopy(model)
    twin.load_state_dict(model.state_dict())
    assert seen == [twin]


def test_weak_hook_of_a_dead_module_says_so() -> None:
    hook = module_file._WrappedHook(lambda module: None, Scale())
    gc.collect()
    with pytest.raises(RuntimeError, match="dead Module"):
        hook()


def test_compile_goes_through_the_hooked_call() -> None:
    model, seen = Scale(), []
    model.register_forward_hook(lambda *_: seen.append(1))
    model.compile()
    assert model(torch.ones(2)).tolist() == [2, 2]
    assert seen == [1]
    assert "_compiled_call_impl" not in model.__getstate__()
