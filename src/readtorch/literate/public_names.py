"""What a public name such as `torch.add` means: the loaded library is asked, for a name alone does not tell.

Many files define something called `add`; `torch.add` is none of these, but an operator, whose kernel and derivative are registered
under its name. The library is imported here and nowhere else in `show`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from readtorch.literate import facts
from readtorch.literate.chapter import Book, Cell, statement_start

PACKAGE = "readtorch"
OPERATOR_LISTS = ("aten/src/ATen/native/native_functions.yaml", "tools/autograd/derivatives.yaml")


@dataclass(frozen=True)
class Meaning:
    """A file of the package, an operator, or a definition (`name`, qualified) in a file."""

    kind: Literal["module", "operator", "definition"]
    path: str
    """Below the package; "" of an operator."""
    name: str
    public: str = ""
    """The last component of the name that was asked for, where it is one of `torch` or of `torch.Tensor`."""
    line: int = 0
    """Of a function without a name of its own: where it stands in the file."""
    kernels: tuple[tuple[str, str], ...] = ()
    """Of an operator: (path, qualified name) of the functions that are its kernels."""


def meaning(name: str) -> Meaning | None:
    """What the name is in the loaded library; None where it has no such name, or an object of which no file can be told."""
    try:
        library = importlib.import_module(PACKAGE)
        owner, found = _look_up(library, name)
    except (AttributeError, ImportError, SyntaxError):  # SyntaxError: the package may be being edited
        return None
    folder = Path(library.__file__ or "").parent
    if isinstance(found, types.ModuleType):
        path = _below(folder, found.__file__ or "")
        return Meaning("module", path, "") if path else None
    public = name.rpartition(".")[2] if owner is library or owner is library.Tensor else ""
    if isinstance(found, type):
        path, qualified = _of_class(folder, found)
        return Meaning("definition", path, qualified) if path else None
    function = _function(found)
    if function is None:
        return None
    entry = _operator(function, name.rpartition(".")[2] if public else "")
    if entry is not None:
        kernels = [*entry.kernels.values(), entry.composite]
        places = dict.fromkeys(p for k in kernels if isinstance(k, types.FunctionType) and (p := _place(folder, k))[0])
        return Meaning("operator", "", entry.name, public or entry.name, kernels=tuple(places))
    path, qualified = _place(folder, function)
    line = function.__code__.co_firstlineno if qualified.endswith("<lambda>") else 0
    return Meaning("definition", path, qualified, public, line) if path else None


def _look_up(library: types.ModuleType, name: str) -> tuple[Any, Any]:
    """The object that has the last component, and what that is."""
    first, _, rest = name.partition(".")
    owner, found = None, library
    for component in (rest if first in (PACKAGE, "torch") else name).split("."):
        if component:
            owner = found
            found = (inspect.getattr_static if isinstance(owner, type) else getattr)(owner, component)
    return owner, found


def _function(found: Any) -> types.FunctionType | None:
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod | types.MethodType):
        found = found.__func__
    found = inspect.unwrap(found) if callable(found) else None
    return found if isinstance(found, types.FunctionType) else None


def _operator(function: types.FunctionType, public: str) -> Any:
    """The table entry that the function is the entry point of: it has it in its closure, or is made for that name."""
    from readtorch.aten.core.dispatch import dispatcher
    from readtorch.aten.core.dispatch.operator_entry import OperatorEntry

    for cell in function.__closure__ or ():
        try:
            if isinstance(cell.cell_contents, OperatorEntry):
                return cell.cell_contents
        except ValueError:  # an empty cell
            continue
    if public and function.__module__ != PACKAGE and "<locals>" in function.__code__.co_qualname:
        return dispatcher.operators.get(public) or dispatcher.operators.get(public.removesuffix("_"))
    return None


def _place(folder: Path, function: types.FunctionType) -> tuple[str, str]:
    """File and qualified name of the definition that a function was made by; its name for readers may be another."""
    code = function.__code__
    return _below(folder, code.co_filename), code.co_qualname.partition(".<locals>")[0]


def _of_class(folder: Path, cls: type) -> tuple[str, str]:
    """A class's file is that of its own methods; it may say another `__module__`, as upstream's classes do."""
    for value in vars(cls).values():
        function = _function(value)
        if function is not None:
            path, qualified = _place(folder, function)
            if path and qualified.startswith(cls.__qualname__ + "."):
                return path, cls.__qualname__
    return "", ""


def _below(folder: Path, file: str) -> str:
    path = Path(file)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""


def registrations(book: Book, operator: str) -> Iterator[tuple[Cell, ast.stmt]]:
    """The statements of the chapters that register the operator: a decorated kernel, or a call that begins with its name.

    A loop over many names counts where nothing else does: it may make other operators out of them (`_foreach_add`).
    """
    found = list(_candidates(book, operator))
    yield from [pair for pair in found if not isinstance(pair[1], ast.For)] or found


def _candidates(book: Book, operator: str) -> Iterator[tuple[Cell, ast.stmt]]:
    for part in book.parts:
        for cell in part.code_cells:
            if (cell.into or "").startswith("aten/") and operator in cell.code:
                for statement in cell.tree.body:
                    if _registers(statement, operator):
                        yield cell, statement


def _registers(statement: ast.stmt, operator: str) -> bool:
    if isinstance(statement, ast.FunctionDef):
        return any(_is_call_for(decorator, operator) for decorator in statement.decorator_list)
    if isinstance(statement, ast.Expr | ast.Assign):
        return _is_call_for(statement.value, operator)
    if isinstance(statement, ast.For):
        return any(isinstance(node, ast.Constant) and node.value == operator for node in ast.walk(statement.iter))
    return False


def _is_call_for(node: ast.expr, operator: str) -> bool:
    """`register("add")`, `register("add")(kernel)`."""
    while isinstance(node, ast.Call):
        if node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == operator:
            return True
        node = node.func
    return False


def text_of(cell: Cell, statement: ast.stmt) -> str:
    lines = cell.code.split("\n")
    return "\n".join(
        lines[statement_start(statement) - cell.code_line : (statement.end_lineno or 0) - cell.code_line + 1]
    )


def operator_targets(public: str, operator: str, cells: list[Cell]) -> Iterator[str]:
    """Upstream's entries of an operator, what the cells name of it, and its C++ function as far as it is known."""
    for path, name in zip(OPERATOR_LISTS, (public, operator), strict=True):
        entry = _entry(path, name)
        if entry:
            yield f"{path}#{entry}"
    for cell in cells:
        for target in cell.get_all("upstream"):
            path, _, name = target.partition("#")
            last = name.partition(".")[0] if path in OPERATOR_LISTS else name.rpartition("::")[2]
            if last in (public, operator):
                yield target
    known = facts.named(f"at::native::{operator}")
    if known is not None:
        yield f"{known.path}#{known.name}"


def _entry(path: str, name: str) -> str:
    """The overload that a reader means by the name: the one without a suffix, of tensors, or the first."""
    names = [t.name for t in facts.symbols_in(path) if t.name.partition(".")[0] == name]
    return next((n for n in (name, f"{name}.Tensor") if n in names), names[0] if names else "")
