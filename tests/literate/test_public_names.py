"""`readtorch show torch.add`: the names that a reader tries first mean what they mean in the library."""

from __future__ import annotations

import json

import pytest

from readtorch.literate import public_names, show
from readtorch.literate.chapter import Book
from readtorch.literate.cli import main


@pytest.fixture(scope="module")
def whole_book() -> Book:
    return Book.load()


OPERATORS = {
    "torch.add": ("aten/native/binary_ops.py", "np.add", "add.Tensor", "add.Tensor"),
    "torch.Tensor.add_": ("aten/native/binary_ops.py", "np.add", "add_.Tensor", "add.Tensor"),
    "torch.matmul": ("aten/native/linear_algebra.py", '@composite("matmul"', "matmul", "matmul"),
    "torch.Tensor.matmul": ("aten/native/linear_algebra.py", '@composite("matmul"', "matmul", "matmul"),
    "torch.sum": ("aten/native/reduce_ops.py", 'derivative("sum"', "sum", "sum"),
    "torch.nn.functional.linear": ("aten/native/linear.py", '"linear"', "linear", "linear"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_shown_with_its_kernel_and_upstreams_entries(whole_book: Book, name: str) -> None:
    path, text, function, derivative = OPERATORS[name]
    found = show.our_source(name, whole_book)
    assert found.path == path
    assert text in found.source
    assert f"aten/src/ATen/native/native_functions.yaml#{function}" in found.upstream
    assert f"tools/autograd/derivatives.yaml#{derivative}" in found.upstream
    assert found.source.split("\n")[0] in (whole_book.root / found.chapter).read_text(encoding="utf-8")
    assert "_foreach" not in found.source
    if name == "torch.matmul":
        assert "aten/src/ATen/native/LinearAlgebra.cpp#at::native::matmul" in found.upstream


def test_functions_of_torch_and_of_its_tensor_are_in_the_book(whole_book: Book) -> None:
    import readtorch

    definitions = list(show._definitions(whole_book))
    missing = []
    for prefix, owner in (("torch.", readtorch), ("torch.Tensor.", readtorch.Tensor)):
        for name in dir(owner)[::7]:
            known = None if name.startswith("_") or name == "literate" else public_names.meaning(prefix + name)
            if known is not None and show._by_meaning(known, definitions, whole_book) is None:
                missing.append(prefix + name)
    assert missing == []


def test_a_method_without_a_name_of_its_own_is_the_line_that_says_it(whole_book: Book) -> None:
    found = show.our_source("torch.Tensor.arctan2", whole_book)
    assert found.source.strip().startswith('"arctan2": lambda')
    lines = (whole_book.root / found.chapter).read_text(encoding="utf-8").split("\n")
    assert lines[found.line - 1].strip() == found.source.strip()


def test_a_definition_behind_a_public_name(whole_book: Book) -> None:
    view = show.our_source("torch.Tensor.view", whole_book)
    assert (view.path, view.name) == ("csrc/autograd/python_variable_methods.py", "view")
    assert "aten/src/ATen/native/native_functions.yaml#view" in view.upstream
    inherited = show.our_source("torch.nn.Linear.register_buffer", whole_book)
    assert (inherited.path, inherited.name) == ("nn/modules/module.py", "Module.register_buffer")


@pytest.mark.parametrize("prefix", ["readtorch.", "torch.", ""])
def test_a_method_is_shown_beside_upstreams_method(whole_book: Book, prefix: str) -> None:
    found = show.our_source(f"{prefix}nn.Linear.forward", whole_book)
    assert found.upstream == ("torch/nn/modules/linear.py#Linear.forward",)
    assert found.source.strip().startswith("def forward")


def test_a_module_is_its_file(whole_book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    found = show.our_source("torch", whole_book)
    assert found.path == "__init__.py"
    assert found.source == (whole_book.package / "__init__.py").read_text(encoding="utf-8")
    assert show.our_source("torch.nn.functional", whole_book).path == "nn/functional.py"
    assert main(["show", "torch", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [u["path"] for u in said["upstream"]] == ["torch/__init__.py"]
    assert said["upstream"][0]["url"].endswith("/blob/v2.13.0/torch/__init__.py")


def test_what_the_library_does_not_have_means_nothing() -> None:
    assert public_names.meaning("torch.no_such_name") is None
    assert public_names.meaning("Module.register_buffer") is None
    assert public_names.meaning("torch.pi") is None
