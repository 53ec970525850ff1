"""What `help` shows of operators."""

from __future__ import annotations

import pytest

import readtorch as torch
from readtorch.aten.core.dispatch import dispatcher
from readtorch.csrc.autograd.python_torch_functions import docstring

functional = torch.nn.functional
PUBLIC = sorted(
    name for name, entry in dispatcher.operators.items() if not name.startswith("_") and "function" in entry.variants
)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_docstring_of_an_operator_begins_with_its_call(name: str) -> None:
    entry = dispatcher.operators[name]
    first, _, _ = entry.call.__doc__.partition("\n")
    assert first.startswith(f"{name}(") and " -> " in first
    for parameter in entry.schema.names:
        assert ("input" if parameter == "self" else parameter) in first


def test_the_functions_of_nn_functional_say_what_they_compute() -> None:
    silent = []
    for name in dir(functional):
        function = getattr(functional, name)
        if not name.startswith("_") and callable(function) and not isinstance(function, type):
            text = (function.__doc__ or "").strip()
            text = text.partition("\n\n")[2] if text.startswith(f"{name}(") else text  # behind the call
            if not text:
                silent.append(name)
    assert silent == []


def test_an_operator_in_place_is_told_from_the_one_that_returns_a_new_tensor() -> None:
    assert torch.Tensor.clamp_.__doc__.startswith("clamp_(min=None, max=None) -> Tensor\n\nIn place. ")
    assert torch.Tensor.clamp.__doc__ == torch.clamp.__doc__ == docstring(dispatcher.operators["clamp"])
    assert "out=None" in torch.clamp.__doc__ and "out=" not in torch.Tensor.clamp_.__doc__
