"""`readtorch show`: our source by name, the installed upstream source as it is here, and both on a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from readtorch.literate import columns, facts, installed, show
from readtorch.literate.chapter import Book
from readtorch.literate.cli import main
from readtorch.literate.errors import LiterateError

CHAPTER = """\
# %%
#| into: nn/modules/module.py
#| imports
import warnings

# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module
class Module:
    training = True

    def forward(self, value):
        return value

# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.register_buffer
#| upstream: torch/nn/modules/module.py#Module.register_module
class Module(Module):
    def register_buffer(self, name):
        return name

# %%
#| into: nn/functional.py
def relu(value):
    return value

# %%
#| into: aten/native/activation.py
#| upstream: aten/src/ATen/native/Activation.cpp#at::native::relu
def relu(value):
    return abs(value)
"""

OLD_MODULE = '''\
"""An older release: the same names, other lines."""


class Module:
    def register_module(self):
        pass

    def register_buffer(self, name):
        return "installed", name
'''


@pytest.fixture
def book(tmp_path: Path) -> Book:
    file = tmp_path / "chapters" / "02_module.py"
    file.parent.mkdir()
    file.write_text(CHAPTER, encoding="utf-8")
    return Book.load(tmp_path)


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site" / "torch"
    (folder / "nn" / "modules").mkdir(parents=True)
    (folder / "nn" / "modules" / "module.py").write_text(OLD_MODULE, encoding="utf-8")
    (folder / "version.py").write_text("__version__ = '2.9.1+cpu'\n", encoding="utf-8")
    header = folder / "include" / "c10" / "core" / "StorageImpl.h"
    header.parent.mkdir(parents=True)
    header.write_text(
        "#pragma once\nnamespace c10 {\nstruct C10_API StorageImpl : public c10::intrusive_ptr_target {\n"
        "  void reset() {\n    data_ptr_.clear();\n  }\n};\n}\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(installed, "installed_torch", lambda: folder)
    return folder


@pytest.mark.parametrize(
    "name", ["nn.Module.register_buffer", "torch.nn.Module.register_buffer", "Module.register_buffer"]
)
def test_a_method_is_found_by_its_public_name(book: Book, name: str) -> None:
    found = show.our_source(name, book)
    assert (found.name, found.path, found.chapter) == (
        "Module.register_buffer",
        "nn/modules/module.py",
        "chapters/02_module.py",
    )
    assert CHAPTER.split("\n")[found.line - 1] == "    def register_buffer(self, name):"
    assert found.upstream[0] == "torch/nn/modules/module.py#Module.register_buffer"


def test_the_path_before_a_name_tells_two_functions_apart(book: Book) -> None:
    assert show.our_source("nn.functional.relu", book).path == "nn/functional.py"
    assert show.our_source("aten.native.relu", book).path == "aten/native/activation.py"
    assert show.our_source("torch/nn/modules/module.py#Module", book).name == "Module"
    assert (
        show.our_source("aten/src/ATen/native/Activation.cpp#at::native::relu", book).path
        == "aten/native/activation.py"
    )


def test_a_member_without_an_upstream_line_of_its_own_uses_the_files_twin(book: Book) -> None:
    assert show.our_source("Module.forward", book).upstream == ("torch/nn/modules/module.py#Module.forward",), (
        "not the class around it, which would hide it"
    )
    assert show.our_source("nn.functional.relu", book).upstream == ("torch/nn/functional.py#relu",)


def test_a_class_is_shown_whole_as_it_stands_in_the_package(book: Book) -> None:
    file = book.package / "nn" / "modules" / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "class Module:\n    def forward(self): ...\n\n    def register_buffer(self): ...\n\n\nclass Other: ...\n",
        encoding="utf-8",
    )
    source = show.our_source("nn.Module", book).source
    assert source == "class Module:\n    def forward(self): ...\n\n    def register_buffer(self): ..."


@pytest.mark.parametrize("name", ["", " ", "#", "."])
def test_no_name_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", name])
    assert stopped.value.code == 2 and "give the name of" in capsys.readouterr().err


def test_an_unknown_name_names_near_ones(book: Book) -> None:
    with pytest.raises(LiterateError, match=r"no 'nn.Module.register_bufer'\n.*Module.register_buffer"):
        show.our_source("nn.Module.register_bufer", book)
    with pytest.raises(LiterateError, match=r"no 'optim\.Module'"):
        show.our_source("optim.Module", book)


def test_the_installed_source_is_found_where_it_stands_in_that_version(torch: Path) -> None:
    found = show.upstream_source("torch/nn/modules/module.py#Module.register_buffer")
    assert found is not None
    assert found.source == '    def register_buffer(self, name):\n        return "installed", name'
    assert (found.first_line, found.last_line, found.version, found.version_matches) == (8, 9, "2.9.1+cpu", False)
    assert found.note == "from the installed PyTorch 2.9.1+cpu; the book speaks of 2.13.0"
    (torch / "version.py").write_text("__version__ = '2.13.0'\n", encoding="utf-8")
    again = show.upstream_source("torch/nn/modules/module.py#Module.register_buffer")
    assert again is not None
    assert again.version_matches
    assert again.note == ""


def test_a_header_is_read_from_the_wheel(torch: Path) -> None:
    found = show.upstream_source("c10/core/StorageImpl.h#c10::StorageImpl::reset")
    assert found is not None
    assert found.source == "  void reset() {\n    data_ptr_.clear();\n  }"
    assert found.language == "cpp"


def test_what_is_not_here_says_why_and_keeps_its_link(torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = show.upstream_source("aten/src/ATen/native/Activation.cpp#at::native::relu")
    assert source is not None
    assert (source.source, source.reason) == (None, "not in the wheel")
    assert source.url.startswith("https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Activation.cpp")
    gone = show.upstream_source("torch/nn/modules/module.py#Module.state_dict")
    assert gone is not None
    assert gone.note == "the installed PyTorch 2.9.1+cpu has no Module.state_dict in torch/nn/modules/module.py"
    monkeypatch.setattr(installed, "installed_torch", lambda: None)
    absent = show.upstream_source("torch/nn/modules/module.py#Module")
    assert absent is not None
    assert absent.source is None
    assert absent.note.startswith("PyTorch is not installed here")
    assert "`make parity`" in absent.note
    assert "pip install torch==2.13.0" in absent.note
    assert show.upstream_source("torch/nn/modules/module.py#Nothing") is None
    assert show.upstream_source("../../etc/passwd#x") is None


def test_torch_is_not_imported() -> None:
    if installed.installed_torch() is None:
        pytest.skip("torch is not installed")
    was_loaded = "torch" in sys.modules
    assert show.upstream_source("torch/nn/modules/module.py#Module") is not None
    assert ("torch" in sys.modules) == was_loaded


@pytest.mark.torch
def test_the_installed_release_agrees_with_the_fact_base() -> None:
    if installed.installed_torch() is None:
        pytest.skip("torch is not installed")
    found = show.upstream_source("torch/nn/modules/module.py#Module.register_buffer")
    assert found is not None
    if not found.version_matches:
        pytest.skip(f"torch {found.version} is installed")
    target = facts.resolve("torch/nn/modules/module.py#Module.register_buffer")
    assert (found.first_line, found.last_line) == (target.start, target.end)
    assert found.source is not None
    assert found.source.lstrip().startswith("def register_buffer(")
    operator = show.upstream_source("aten/src/ATen/native/native_functions.yaml#add.Tensor")
    assert operator is not None
    assert "func: add.Tensor(" in (operator.source or "")


def both(book: Book) -> tuple[show.OurSource, list[show.UpstreamSource]]:
    ours = show.our_source("Module.register_buffer", book)
    return ours, [t for t in map(show.upstream_source, ours.upstream) if t]


def test_wide_terminals_get_two_columns_and_narrow_ones_one(book: Book, torch: Path) -> None:
    pytest.importorskip("rich")
    ours, theirs = both(book)
    wide, narrow = io.StringIO(), io.StringIO()
    columns.print_sources(ours, theirs, 180, wide, two_columns=True)
    columns.print_sources(ours, theirs, 80, narrow, two_columns=False)
    first = wide.getvalue().split("\n")[0]
    assert "readtorch/nn/modules/module.py, chapters/02_module.py:" in first
    assert "torch/nn/modules/module.py:8-9" in first
    assert narrow.getvalue().index("return name") < narrow.getvalue().index('return "installed", name')


def test_without_rich_both_are_printed_plainly(book: Book, torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    out = io.StringIO()
    columns.print_sources(*both(book), 180, out, two_columns=True)
    assert "── readtorch/nn/modules/module.py, chapters/02_module.py:" in out.getvalue()
    assert 'return "installed", name' in out.getvalue()
    assert "from the installed PyTorch 2.9.1+cpu" in out.getvalue()


def test_command(book: Book, torch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(show, "find_root", lambda: book.root)
    assert main(["show", "nn.Module.register_buffer", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ours"]["line"] == show.our_source("Module.register_buffer", book).line
    assert [u["name"] for u in said["upstream"]] == ["Module.register_buffer", "Module.register_module"]
    assert main(["show", "torch/nn/modules/module.py#Module.zero_grad"]) == 0, "upstream alone, where the book has none"
    assert main(["show", "nothing.like.this"]) == 1
    assert "the book defines no 'nothing.like.this'" in capsys.readouterr().err
