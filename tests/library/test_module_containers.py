"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import readtorch as torch
from readtorch import nn


class Scale(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), float(factor)))

    def forward(self, x: Any) -> Any:
        return x * self.weight

    def extra_repr(self) -> str:
        return f"{self.weight.item():g}"


def scales(*factors: float) -> list[Scale]:
    return [Scale(factor) for factor in factors]


def factors(modules: Any) -> list[float]:
    return [module.weight.item() for module in modules]


def test_sequential_chains_numbered_or_named_modules() -> None:
    assert nn.Sequential(*scales(2, 3))(torch.ones(1)).item() == 6
    named = nn.Sequential(OrderedDict(a=Scale(2), b=Scale(3)))
    assert list(named._modules) == ["a", "b"]
    assert named.b is named[-1]
    assert nn.Sequential()(5) == 5


def test_sequential_takes_a_plain_dict_for_a_module_and_refuses_it() -> None:
    with pytest.raises(TypeError, match="dict is not a Module subclass"):
        nn.Sequential({"a": Scale()})


@pytest.mark.parametrize("container", [nn.Sequential(*scales(1, 2)), nn.ModuleList(scales(1, 2))])
def test_indices_are_integers_in_range(container: Any) -> None:
    assert factors([container[0], container[-1], container[True]]) == [1, 2, 2]
    for index in (2, -3):
        with pytest.raises(IndexError, match="out of range"):
            container[index]
    with pytest.raises(TypeError):
        container["0"]


def test_slices_share_modules_and_differ_in_names() -> None:
    chain, listed = nn.Sequential(*scales(1, 2, 3)), nn.ModuleList(scales(1, 2, 3))
    assert list(chain[1:]._modules) == ["1", "2"]
    assert list(listed[1:]._modules) == ["0", "1"]
    assert chain[1:][0] is chain[1]
    assert listed[::-1][0] is listed[2]


def test_sequential_edits_keep_numbers_in_order() -> None:
    chain = nn.Sequential(*scales(1, 2, 3, 4))
    chain[0] = Scale(9)
    del chain[1]
    assert factors(chain) == [9, 3, 4]
    assert chain.insert(1, Scale(7)).append(Scale(8)).extend(scales(6)) is chain
    chain.insert(-1, Scale(5))
    assert factors(chain) == [9, 7, 3, 4, 8, 5, 6]
    assert chain.pop(0).weight.item() == 9
    del chain[1:3]
    assert factors(chain) == [7, 8, 5, 6]
    assert list(chain._modules) == ["0", "1", "2", "3"]


def test_sequential_insert_refuses_what_does_not_fit() -> None:
    with pytest.raises(IndexError):
        nn.Sequential(Scale()).insert(2, Scale())
    with pytest.raises(AssertionError, match="should be of type"):
        nn.Sequential().insert(0, 3)
    with pytest.raises(KeyError):
        nn.Sequential(OrderedDict(a=Scale(), b=Scale())).insert(0, Scale())


def test_deleting_from_a_named_sequential_loses_names() -> None:
    chain = nn.Sequential(OrderedDict(a=Scale(1), b=Scale(2)))
    del chain[0]
    assert list(chain._modules) == ["0"]


def test_sequential_arithmetic_shares_modules() -> None:
    a, b = nn.Sequential(Scale(1)), nn.Sequential(*scales(2, 3))
    joined = a + b
    assert factors(joined) == [1, 2, 3]
    assert joined[0] is a[0]
    assert factors(b * 2) == factors(2 * b) == [2, 3, 2, 3]
    first = b[0]
    b *= 3
    assert len(b) == 6
    assert b[4] is first
    a += b
    assert len(a) == 7


@pytest.mark.parametrize(
    ("expression", "error"),
    [("s + [1]", ValueError), ("s * 0", ValueError), ("s * 1.5", TypeError), ("s.__imul__(-1)", ValueError)],
)
def test_sequential_arithmetic_refuses_nonsense(expression: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        eval(expression, {"s": nn.Sequential(Scale())})


def test_module_list_behaves_like_a_list() -> None:
    layers = nn.ModuleList(scales(1, 2))
    layers.append(Scale(3)).extend(scales(4))
    layers += scales(5)
    layers.insert(1, Scale(6))
    layers[0] = Scale(7)
    assert factors(layers) == [7, 6, 2, 3, 4, 5]
    assert layers.pop(2).weight.item() == 2
    del layers[0]
    assert factors(layers + scales(9)) == [6, 3, 4, 5, 9]
    assert list(layers._modules) == ["0", "1", "2", "3"]
    assert len(list(layers.parameters())) == 4


def test_module_list_is_not_callable_and_extends_by_iterables_only() -> None:
    with pytest.raises(NotImplementedError):
        nn.ModuleList([Scale()])(1)
    with pytest.raises(TypeError, match="iterable, but got int"):
        nn.ModuleList().extend(3)


def test_module_list_repr_folds_neighbours_that_look_alike() -> None:
    assert repr(nn.ModuleList()) == "ModuleList()"
    shown = repr(nn.ModuleList(scales(1, 1, 5, 1)))
    assert shown == "ModuleList(\n  (0-1): 2 x Scale(1)\n  (2): Scale(5)\n  (3): Scale(1)\n)"


def test_module_dict_behaves_like_a_dict() -> None:
    modules = nn.ModuleDict({"b": Scale(1), "a": Scale(2)})
    modules["c"] = Scale(3)
    modules.update([("d", Scale(4)), ["a", Scale(5)]])
    modules.update(nn.ModuleDict({"e": Scale(6)}))
    assert list(modules) == list(modules.keys()) == ["b", "a", "c", "d", "e"]
    assert factors(modules.values()) == [1, 5, 3, 4, 6]
    assert "a" in modules
    assert modules.pop("b").weight.item() == 1
    del modules["a"]
    assert [name for name, _ in modules.named_parameters()] == ["c.weight", "d.weight", "e.weight"]
    modules.clear()
    assert len(modules) == 0


def test_module_dict_update_says_which_element_is_wrong() -> None:
    with pytest.raises(TypeError, match="iterable of key/value pairs, but got int"):
        nn.ModuleDict().update(3)
    with pytest.raises(TypeError, match="element #0 should be Iterable"):
        nn.ModuleDict([3])
    with pytest.raises(ValueError, match="element #1 has length 1; 2 is required"):
        nn.ModuleDict([("a", Scale()), ["b"]])


def test_parameter_list_makes_parameters_and_keeps_other_values() -> None:
    values = nn.ParameterList([torch.ones(1), nn.Parameter(torch.ones(2), requires_grad=False), "text"])
    values.append(torch.ones(3)).extend([4])
    values[0] = torch.zeros(5)
    assert [type(value).__name__ for value in values] == ["Parameter", "Parameter", "str", "Parameter", "int"]
    assert list(values.state_dict()) == ["0", "1", "3"]
    assert values[0].shape == (5,)
    assert not values[1].requires_grad
    assert [type(value).__name__ for value in values[1:3]] == ["Parameter", "str"]
    assert values[-1] == 4
    shown = repr(nn.ParameterList([torch.ones(2, 3), "text"]))
    assert "(0): Parameter containing: [torch.float32 of size 2x3" in shown
    assert "(1): Object of type: str" in shown


def test_parameter_list_refuses_rows_of_a_tensor_and_calls() -> None:
    with pytest.raises(TypeError, match="iterable, but got"):
        nn.ParameterList().extend(torch.ones(2))
    with pytest.raises(RuntimeError, match="should not be called"):
        nn.ParameterList()(1)


def test_parameter_dict_behaves_like_a_dict() -> None:
    values = nn.ParameterDict({"b": torch.ones(1), "a": torch.ones(2)})
    values["n"] = 3
    assert list(values) == ["a", "b", "n"]
    assert list(reversed(values)) == ["n", "b", "a"]
    assert list(values.state_dict()) == ["a", "b"]
    merged = values | nn.ParameterDict({"z": torch.ones(1)})
    assert list(merged) == ["a", "b", "n", "z"]
    assert merged["a"] is values["a"]
    assert values.get("q", 5) == 5
    assert values.setdefault("a", None) is values["a"]
    assert values.popitem() == ("n", 3)
    assert values.pop("a").shape == (2,)
    assert list(values.fromkeys(["u", "v"], torch.ones(1))) == ["u", "v"]
    values.clear()
    assert len(values) == 0
    with pytest.raises(KeyError):
        values.popitem()


def test_parameter_dict_sorts_a_plain_dict_and_keeps_the_order_of_pairs() -> None:
    pairs = [("b", torch.ones(1)), ("a", torch.ones(1))]
    assert list(nn.ParameterDict(dict(pairs))) == ["a", "b"]
    assert list(nn.ParameterDict(pairs)) == ["b", "a"]
    assert list(nn.ParameterDict(OrderedDict(pairs))) == ["b", "a"]


def test_parameter_dict_takes_strings_as_keys_only() -> None:
    with pytest.raises(TypeError, match="cannot be used as a key"):
        nn.ParameterDict({3: torch.ones(1)})


def test_container_warns_that_it_is_not_needed() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        container = nn.Container(a=Scale(2))
    assert container.a.weight.item() == 2
