"""Walks over the tree of modules, and conversions that ride on them."""

from __future__ import annotations

from typing import Any

import pytest

import readtorch as torch
from readtorch import nn


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        return x * self.weight


class Shared(nn.Module):
    """Two parents of one Scale."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Module(), nn.Module()
        self.left.leaf = self.right.leaf = Scale()


def test_named_modules_gives_parents_first_and_a_shared_module_once() -> None:
    model = Shared()
    assert [name for name, _ in model.named_modules()] == ["", "left", "left.leaf", "right"]
    every = [name for name, _ in model.named_modules(remove_duplicate=False)]
    assert every == ["", "left", "left.leaf", "right", "right.leaf"]
    assert next(iter(model.named_modules(prefix="p")))[0] == "p"


def test_children_are_direct_and_unique() -> None:
    parent, child = nn.Module(), nn.Module()
    parent.a = parent.b = child
    parent.none = None
    assert list(parent.children()) == [child]
    assert [name for name, _ in parent.named_children()] == ["a"]


def test_named_parameters_and_buffers_follow_the_walk() -> None:
    model = Shared()
    model.bias = nn.Parameter(torch.zeros(1))
    assert [name for name, _ in model.named_parameters()] == ["bias", "left.leaf.weight"]
    assert [name for name, _ in model.named_parameters(recurse=False)] == ["bias"]
    assert [name for name, _ in model.named_buffers("m", remove_duplicate=False)] == [
        "m.left.leaf.calls",
        "m.right.leaf.calls",
    ]


def test_paths_lead_to_members_and_name_the_step_that_fails() -> None:
    model = Shared()
    assert model.get_submodule("") is model
    assert model.get_submodule("left.leaf") is model.left.leaf
    assert model.get_parameter("left.leaf.weight") is model.left.leaf.weight
    assert model.get_buffer("left.leaf.calls") is model.left.leaf.calls
    with pytest.raises(AttributeError, match="Module has no attribute `absent`"):
        model.get_submodule("left.absent")
    with pytest.raises(AttributeError, match=r"`weight` is not an nn\.Module"):
        model.get_submodule("left.leaf.weight")
    with pytest.raises(AttributeError, match=r"not an nn\.Parameter"):
        model.get_parameter("left.leaf.calls")
    with pytest.raises(AttributeError, match="not a buffer"):
        model.get_buffer("left.leaf.weight")


def test_set_submodule_replaces_or_creates_the_last_step() -> None:
    model = Shared()
    model.set_submodule("left.leaf", nn.Identity() if hasattr(nn, "Identity") else nn.Module())
    assert not isinstance(model.left.leaf, Scale)
    model.set_submodule("left.new", Scale())
    with pytest.raises(AttributeError, match="`absent`"):
        model.set_submodule("left.absent", Scale(), strict=True)
    with pytest.raises(ValueError, match="target"):
        model.set_submodule("", Scale())
    with pytest.raises(ValueError, match=r"not an nn\.Module"):
        model.set_submodule("left", 3)


def test_apply_visits_children_first_and_a_shared_one_once_per_parent() -> None:
    model, order = Shared(), []
    assert model.apply(order.append) is model
    leaf = model.left.leaf
    assert order == [leaf, model.left, leaf, model.right, model]


def test_train_and_eval_flip_the_flag_below_and_return_self() -> None:
    model = Shared()
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.left.train()
    assert [module.training for module in model.modules()] == [False, True, True, False]
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        model.train(1)


def test_zero_grad_drops_gradients_or_fills_them_in_place() -> None:
    model = Scale()
    model(torch.ones(2)).sum().backward()
    gradient = model.weight.grad
    model.zero_grad(set_to_none=False)
    assert model.weight.grad is gradient
    assert gradient.tolist() == [0, 0]
    model.zero_grad()
    assert model.weight.grad is None


@pytest.mark.parametrize("convert", ["double", "half", "float"])
def test_shorthands_keep_parameter_objects_and_integer_buffers(convert: str) -> None:
    model = Scale().double() if convert == "float" else Scale()
    weight = model.weight
    assert getattr(model, convert)() is model
    assert model.weight is weight
    assert weight.dtype is {"double": torch.float64, "half": torch.float16, "float": torch.float32}[convert]
    assert model.calls.dtype is torch.int64


def test_type_casts_integer_buffers_too() -> None:
    assert Scale().type(torch.float64).calls.dtype is torch.float64


def test_to_takes_dtype_device_or_tensor_and_refuses_integers() -> None:
    assert Scale().to(torch.float64).weight.dtype is torch.float64
    assert Scale().to("cpu", torch.float64).weight.dtype is torch.float64
    assert Scale().to(torch.ones(1, dtype=torch.float64)).weight.dtype is torch.float64
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        Scale().to(torch.int64)


def test_conversion_takes_the_gradient_along() -> None:
    model = Scale()
    model(torch.ones(2)).sum().backward()
    gradient = model.weight.grad
    model.double()
    assert model.weight.grad is gradient
    assert gradient.dtype is torch.float64


def test_conversion_keeps_tied_parameters_and_unties_buffers() -> None:
    model = nn.Module()
    model.a, model.b = Scale(), Scale()
    model.b.weight = model.a.weight
    model.b.calls = model.a.calls = torch.zeros(1)
    model.double()
    assert model.a.weight is model.b.weight
    assert model.a.calls is not model.b.calls


def test_moving_to_meta_makes_new_parameters_and_moving_back_needs_to_empty() -> None:
    model = Scale()
    weight = model.weight
    model.to("meta")
    assert model.weight is not weight
    assert model.weight.is_meta
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")
    assert model.to_empty(device="cpu").weight.shape == (2,)


def test_overwriting_is_chosen_by_the_future_flag() -> None:
    model = Scale()
    weight = model.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert model.weight is not weight
    assert weight.dtype is torch.float32


class Shown(nn.Module):
    def __init__(self, text: str, **children: nn.Module) -> None:
        super().__init__()
        self.text = text
        for name, child in children.items():
            self.add_module(name, child)

    def extra_repr(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (Shown(""), "Shown()"),
        (Shown("a=1"), "Shown(a=1)"),
        (Shown("a\nb"), "Shown(\n  a\n  b\n)"),
        (Shown("a", x=Shown("b")), "Shown(\n  a\n  (x): Shown(b)\n)"),
        (
            Shown("", x=Shown("b\n\nc"), y=Shown("")),
            "Shown(\n  (x): Shown(\n    b\n\n    c\n  )\n  (y): Shown()\n)",
        ),
    ],
)
def test_repr_shows_arguments_and_children_indented(module: nn.Module, text: str) -> None:
    assert repr(module) == text


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(2, 3, device="meta"),
        lambda: nn.Conv2d(1, 2, 3, device="meta"),
        lambda: nn.BatchNorm2d(3, device="meta"),
        lambda: nn.Embedding(5, 3, padding_idx=0, device="meta"),
        lambda: nn.LSTM(2, 3, device="meta"),
    ],
)
def test_a_layer_on_meta_initialises_without_drawing_and_is_given_memory_by_to_empty(make: Any) -> None:
    before = torch.get_rng_state()
    layer = make()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.is_meta for p in layer.parameters())
    with pytest.raises(NotImplementedError, match="to_empty"):
        layer.to("cpu")
    assert all(p.device.type == "cpu" for p in layer.to_empty(device="cpu").parameters())


@pytest.mark.parametrize("view", ["as_strided", "unfold", "diagonal", "expand"])
def test_views_made_by_strides_know_their_storage(view: str) -> None:
    base = torch.arange(9.0).reshape(3, 3)
    made = {
        "as_strided": lambda: base.as_strided((2,), (3,), 1),
        "unfold": lambda: base[1].unfold(0, 2, 1),
        "diagonal": lambda: base.diagonal(),
        "expand": lambda: base[0].expand(4, 3),
    }[view]()
    assert made.untyped_storage() is base.untyped_storage()
    assert made.storage_offset() == {"as_strided": 1, "unfold": 3}.get(view, 0)
