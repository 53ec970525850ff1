"""What a Module registers when an attribute is assigned, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import readtorch as torch
from readtorch import nn
from readtorch.nn.modules import module as module_file


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        return x * self.weight


def test_assigned_kinds_go_to_their_tables_and_not_into_the_instance_dict() -> None:
    module = nn.Module()
    module.weight, module.mean, module.child, module.width = (
        nn.Parameter(torch.ones(1)),
        nn.Buffer(torch.ones(1)),
        nn.Module(),
        3,
    )
    assert [list(module._parameters), list(module._buffers), list(module._modules)] == [["weight"], ["mean"], ["child"]]
    assert "width" in vars(module)
    assert not {"weight", "mean", "child"} & set(vars(module))


@pytest.mark.parametrize("value", [nn.Parameter(torch.ones(1)), nn.Module(), nn.Buffer(torch.ones(1))])
def test_assignment_before_init_says_what_is_missing(value: Any) -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.x = value

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_plain_values_may_be_assigned_before_init() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.width = 3
            super().__init__()

    assert Early().width == 3


def test_init_refuses_arguments_by_name_of_the_subclass() -> None:
    class Careless(nn.Module):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    with pytest.raises(TypeError, match=r"Careless.__init__\(\) got an unexpected keyword argument 'x'"):
        Careless(x=1)
    with pytest.raises(TypeError, match=r"Careless.__init__\(\) takes 1 positional argument but 3 were given"):
        Careless(1, 2)


def test_init_makes_seventeen_attributes_without_the_subclass_setattr() -> None:
    class Watched(nn.Module):
        def __setattr__(self, name: str, value: Any) -> None:
            raise AssertionError(name)

    assert len(vars(Watched())) == 17


@pytest.mark.parametrize("register", ["register_parameter", "register_buffer", "add_module", "register_module"])
def test_register_refuses_names_that_cannot_be_a_step_of_a_path(register: str) -> None:
    module = Scale()
    for name in ("", "a.b", "forward", "training"):
        with pytest.raises(KeyError):
            getattr(module, register)(name, None)
    with pytest.raises(TypeError, match="should be a string"):
        getattr(module, register)(3, None)


def test_a_name_taken_by_another_kind_is_refused_and_by_the_same_kind_replaced() -> None:
    module = Scale()
    with pytest.raises(KeyError, match="already exists"):
        module.register_buffer("weight", None)
    replacement = nn.Parameter(torch.zeros(1))
    module.register_parameter("weight", replacement)
    assert module.weight is replacement


def test_register_buffer_accepts_a_tensor_or_none_only() -> None:
    with pytest.raises(TypeError, match="torch Tensor or None required"):
        nn.Module().register_buffer("b", 3)


def test_register_parameter_refuses_a_parameter_with_history() -> None:
    frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    frozen.add_(nn.Parameter(torch.ones(1)))
    with pytest.raises(ValueError, match="non-leaf"):
        nn.Module().register_parameter("w", frozen)


def test_none_keeps_a_name_that_a_later_parameter_fills() -> None:
    module = nn.Module()
    module.register_parameter("bias", None)
    assert module.bias is None
    assert list(module.parameters()) == []
    module.bias = nn.Parameter(torch.ones(1))
    assert len(list(module.parameters())) == 1


@pytest.mark.parametrize(("name", "kind"), [("weight", "parameter"), ("child", "child module"), ("calls", "buffer")])
def test_a_registered_name_refuses_a_value_of_no_kind(name: str, kind: str) -> None:
    module = Scale()
    module.child = nn.Module()
    with pytest.raises(TypeError, match=rf"cannot assign 'int' as {kind} '{name}'"):
        setattr(module, name, 3)


def test_parameter_replaces_a_child_and_a_child_does_not_replace_a_parameter() -> None:
    module = nn.Module()
    module.x = nn.Module()
    module.x = nn.Parameter(torch.ones(1))
    assert module._modules == {}
    with pytest.raises(TypeError):
        module.x = nn.Module()


def test_tensor_assigned_to_a_non_persistent_buffer_stays_out_of_the_state() -> None:
    module = nn.Module()
    module.register_buffer("b", torch.zeros(1), persistent=False)
    module.b = torch.ones(1)
    assert module._buffers["b"].item() == 1
    assert module.state_dict() == {}
    module.b = nn.Buffer(torch.ones(1))
    assert list(module.state_dict()) == ["b"]


def test_deleting_a_buffer_forgets_that_it_was_not_persistent() -> None:
    module = nn.Module()
    module.register_buffer("b", torch.zeros(1), persistent=False)
    del module.b
    assert not hasattr(module, "b")
    module.register_buffer("b", torch.zeros(1))
    assert list(module.state_dict()) == ["b"]


def test_buffer_subclass_that_ignores_persistence_is_served_and_told() -> None:
    class Old(nn.Module):
        def register_buffer(self, name: str, tensor: Any) -> None:
            super().register_buffer(name, tensor)

    module = Old()
    module.kept = nn.Buffer(torch.ones(1))
    assert list(module.state_dict()) == ["kept"]
    with pytest.raises(RuntimeError, match="without the persistent argument"):
        module.dropped = nn.Buffer(torch.ones(1), persistent=False)


def test_missing_attribute_names_class_and_attribute() -> None:
    with pytest.raises(AttributeError, match="'Scale' object has no attribute 'nothing'"):
        _ = Scale().nothing


def test_dir_lists_members_and_leaves_out_what_is_no_identifier() -> None:
    listed = dir(nn.Sequential(Scale()))
    assert "0" not in listed
    assert {"weight", "calls", "forward"} <= set(dir(Scale()))


def test_registration_hooks_see_and_may_replace_what_is_registered() -> None:
    def frozen(module: nn.Module, name: str, parameter: nn.Parameter) -> nn.Parameter:
        return nn.Parameter(parameter, requires_grad=False)

    with module_file.register_module_parameter_registration_hook(frozen):
        assert not Scale().weight.requires_grad
    assert Scale().weight.requires_grad


def test_removed_hook_leaves_no_entry_in_any_table() -> None:
    module = Scale()
    handle = module.register_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)
    assert module._forward_hooks_with_kwargs
    handle.remove()
    handle.remove()
    for table in module_file._HOOK_TABLES:
        assert not getattr(module, table)
    handle = module_file.register_module_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)
    handle.remove()
    assert not module_file._global_forward_hooks_with_kwargs


def test_parameter_shares_memory_and_requires_a_gradient_under_no_grad() -> None:
    values = torch.zeros(2)
    with torch.no_grad():
        weight = nn.Parameter(values)
    values.fill_(3)
    assert weight.requires_grad
    assert weight.is_leaf
    assert weight.tolist() == [3, 3]


def test_parameter_of_integers_needs_requires_grad_false() -> None:
    with pytest.raises(RuntimeError, match="floating point and complex"):
        nn.Parameter(torch.ones(1, dtype=torch.int64))
    assert nn.Parameter(torch.ones(1, dtype=torch.int64), requires_grad=False).dtype is torch.int64


def test_result_of_arithmetic_on_a_parameter_is_a_plain_tensor() -> None:
    weight = nn.Parameter(torch.ones(2, 2))
    assert {type(result) for result in (weight * 2, weight[0], weight.t(), weight.sum())} == {torch.Tensor}


def test_parameter_survives_deepcopy_and_pickle_with_its_flag() -> None:
    weight = nn.Parameter(torch.ones(2), requires_grad=False)
    for twin in (copy.deepcopy(weight), pickle.loads(pickle.dumps(weight))):
        assert type(twin) is nn.Parameter
        assert not twin.requires_grad
        assert twin.tolist() == [1, 1]
        assert twin.data_ptr() != weight.data_ptr()


def test_buffer_is_a_marked_tensor_of_the_class_it_was_given() -> None:
    table = nn.Buffer(torch.ones(2), persistent=False)
    assert type(table) is torch.Tensor
    assert isinstance(table, nn.Buffer)
    assert not isinstance(torch.ones(2), nn.Buffer)
    assert not table.persistent
