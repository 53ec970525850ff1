"""state_dict, and what comes back from it."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest

import readtorch as torch
from readtorch import nn


class Scale(nn.Module):
    def __init__(self, width: int = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        return x * self.weight


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Scale(), Scale()
        self.bias = nn.Parameter(torch.zeros(2))


NAMES = ["bias", "a.weight", "a.calls", "b.weight", "b.calls"]


def test_state_dict_lists_own_members_then_children_and_their_versions() -> None:
    state = Net().state_dict()
    assert type(state) is OrderedDict
    assert list(state) == NAMES
    assert state._metadata == {"": {"version": 1}, "a": {"version": 1}, "b": {"version": 1}}


def test_state_dict_aliases_memory_without_history() -> None:
    model = Net()
    state = model.state_dict()
    assert type(state["bias"]) is torch.Tensor
    assert not state["bias"].requires_grad
    with torch.no_grad():
        model.bias.fill_(7)
    assert state["bias"].tolist() == [7, 7]
    assert model.state_dict(keep_vars=True)["bias"] is model.bias


def test_state_dict_fills_a_destination_under_a_prefix() -> None:
    destination: dict[str, Any] = {"kept": 1}
    assert Scale().state_dict(destination=destination, prefix="p.") is destination
    assert list(destination) == ["kept", "p.weight", "p.calls"]


def test_state_dict_by_position_warns() -> None:
    destination: Any = OrderedDict()
    with pytest.warns(FutureWarning, match="Positional args"):
        Scale().state_dict(destination, "p.", True)
    assert destination["p.weight"].requires_grad


def test_state_dict_hooks_run_around_each_module() -> None:
    model, log = Net(), []
    model.register_state_dict_pre_hook(lambda module, prefix, keep_vars: log.append(("before", prefix)))
    model.a.register_state_dict_post_hook(lambda module, state, prefix, metadata: log.append((prefix, sorted(state))))
    model.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.__delitem__("bias"))
    assert list(model.state_dict()) == NAMES[1:]
    assert log == [("before", ""), ("a.", ["a.calls", "a.weight", "bias"])]


def test_public_post_hook_must_return_none_and_is_not_registered_twice() -> None:
    model = Scale()

    def hook(module: Any, state: Any, prefix: Any, metadata: Any) -> Any:
        return {}

    model.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="must return None"):
        model.state_dict()
    with pytest.raises(RuntimeError, match="register_state_dict_post_hook"):
        model._register_state_dict_hook(hook)


def test_loading_copies_in_place_and_reports_success() -> None:
    model = Net()
    bias = model.bias
    report = model.load_state_dict({name: value + 3 for name, value in Net().state_dict().items()})
    assert repr(report) == str(report) == "<All keys matched successfully>"
    assert report == ([], [])
    assert model.bias is bias
    assert bias.tolist() == [3, 3]
    assert model.a.calls.tolist() == [3]


def test_loading_casts_into_the_dtype_of_the_model() -> None:
    model = Scale()
    model.load_state_dict({"weight": torch.ones(2, dtype=torch.float64) * 4, "calls": torch.ones(1)})
    assert model.weight.dtype is torch.float32
    assert model.weight.tolist() == [4, 4]
    assert model.calls.dtype is torch.int64


def test_every_fault_of_a_checkpoint_is_in_one_message() -> None:
    state = {"bias": torch.zeros(3), "a.weight": 3, "a.calls": torch.zeros(1), "c": 1, "a.weight.x": 1, "a.c.d": 1}
    with pytest.raises(RuntimeError) as caught:
        Net().load_state_dict(state)
    lines = str(caught.value).split("\n\t")
    assert lines[0] == "Error(s) in loading state_dict for Net:"
    assert lines[1] == 'Missing key(s) in state_dict: "b.weight", "b.calls". '
    assert lines[2] == 'Unexpected key(s) in state_dict: "c", "a.weight.x", "a.c.d". '
    assert lines[3].startswith("size mismatch for bias: copying a param with shape torch.Size([3]) from checkpoint")
    assert "a.weight" in lines[4]
    assert len(lines) == 5


def test_not_strict_returns_names_and_still_raises_for_shapes() -> None:
    report = Net().load_state_dict({"bias": torch.zeros(2), "odd": 1}, strict=False)
    assert report.missing_keys == NAMES[1:]
    assert report.unexpected_keys == ["odd"]
    assert "missing_keys=" in repr(report)
    with pytest.raises(RuntimeError, match="size mismatch for bias"):
        Net().load_state_dict({"bias": torch.zeros(3)}, strict=False)


def test_what_fits_is_loaded_before_the_error() -> None:
    model = Net()
    with pytest.raises(RuntimeError):
        model.load_state_dict({"bias": torch.ones(2)})
    assert model.bias.tolist() == [1, 1]


def test_one_element_loads_into_a_scalar() -> None:
    model = nn.Module()
    model.register_buffer("s", torch.tensor(0.0))
    model.load_state_dict({"s": torch.ones(1)})
    assert model.s.shape == ()
    assert model.s.item() == 1


def test_only_mappings_are_loaded() -> None:
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        Net().load_state_dict([("bias", 1)])


def test_the_given_dictionary_is_not_changed() -> None:
    state = Net().state_dict()
    model = Net()
    model.a.register_load_state_dict_pre_hook(lambda module, state_dict, *_: state_dict.clear())
    with pytest.raises(RuntimeError, match="Missing"):
        model.load_state_dict(state)
    assert list(state) == NAMES


def test_assign_puts_the_checkpoints_tensors_in_place() -> None:
    model = Scale().to("meta")
    model.weight.requires_grad_(False)
    state = Scale().double().state_dict()
    model.load_state_dict(state, assign=True)
    assert type(model.weight) is nn.Parameter
    assert not model.weight.requires_grad
    assert model.weight.dtype is torch.float64
    assert model.weight.data_ptr() == state["weight"].data_ptr()
    assert model.calls is state["calls"]


def test_assign_leaves_no_flag_in_the_metadata_and_ignores_one_that_is_there() -> None:
    state = Scale().state_dict()
    Scale().load_state_dict(state, assign=True)
    assert state._metadata == {"": {"version": 1}}
    state._metadata[""]["assign_to_params_buffers"] = True
    model = Scale()
    weight = model.weight
    model.load_state_dict(state)
    assert model.weight is weight


def test_copying_into_meta_warns_that_nothing_happens() -> None:
    with pytest.warns(UserWarning, match="no-op"):
        Scale().to("meta").load_state_dict(Scale().state_dict())


def test_version_of_each_module_reaches_its_loader() -> None:
    seen = []

    class Versioned(Scale):
        _version = 3

        def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
            seen.append((prefix, local_metadata.get("version")))
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    model = Net()
    model.a = Versioned()
    model.load_state_dict(model.state_dict())
    model.load_state_dict(dict(model.state_dict()))
    assert seen == [("a.", 3), ("a.", None)]


def test_extra_state_is_saved_loaded_and_missed() -> None:
    class Extra(nn.Module):
        got: Any = None

        def get_extra_state(self) -> Any:
            return {"words": 2}

        def set_extra_state(self, state: Any) -> None:
            self.got = state

    model = nn.Sequential(Extra())
    state = model.state_dict()
    assert list(state) == ["0._extra_state"]
    model.load_state_dict(state)
    assert model[0].got == {"words": 2}
    with pytest.raises(RuntimeError, match=r'Missing key.*"0\._extra_state"'):
        model.load_state_dict({})
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"_extra_state"'):
        Scale().load_state_dict({**Scale().state_dict(), "_extra_state": 1})


def test_post_hook_may_forgive_and_may_not_return() -> None:
    model = Scale()
    with model.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear()):
        model.load_state_dict({})
    model.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="not expected to return"):
        model.load_state_dict(model.state_dict())


def test_child_whose_name_holds_a_dot_is_saved_and_reported_as_upstream_does() -> None:
    model = nn.Module()
    setattr(model, "a.b", Scale())
    assert list(model.state_dict()) == ["a.b.weight", "a.b.calls"]
    with pytest.raises(RuntimeError, match="Unexpected"):
        model.load_state_dict(model.state_dict())
    model.load_state_dict({"a.b.weight": torch.full((2,), 5.0)}, strict=False)
    assert getattr(model, "a.b").weight.tolist() == [5, 5]


def test_deep_copy_shares_nothing_but_what_was_tied() -> None:
    model = Net()
    model.b.weight = model.a.weight
    model.a(torch.ones(2)).sum().backward()
    twin = copy.deepcopy(model)
    assert twin.a.weight is twin.b.weight
    assert twin.a.weight is not model.a.weight
    assert twin.a.weight.grad is None
    twin.bias.data.fill_(9)
    assert model.bias.tolist() == [0, 0]


def test_pickle_keeps_state_and_restores_tables_that_old_pickles_lack() -> None:
    model = pickle.loads(pickle.dumps(Net()))
    assert list(model.state_dict()) == NAMES
    state = Scale().__getstate__()
    for absent in ("_forward_pre_hooks", "_load_state_dict_post_hooks", "_non_persistent_buffers_set"):
        del state[absent]
    old = Scale.__new__(Scale)
    old.__setstate__(state)
    assert old(torch.ones(2)).tolist() == [1, 1]
    assert list(old.state_dict()) == ["weight", "calls"]


def test_replica_has_no_parameters_and_warns_on_zero_grad() -> None:
    model = Net()
    replica = model._replicate_for_data_parallel()
    assert replica._parameters == {}
    assert replica.a is model.a
    assert replica._modules is not model._modules
    with pytest.warns(UserWarning, match="DataParallel"):
        replica.zero_grad()
