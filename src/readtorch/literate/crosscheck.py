"""What must hold of tangled cells: each by itself, the names of one file, and the chapters among each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from readtorch.literate.blocks import Block
from readtorch.literate.chapter import ORDER, Cell, bound_names
from readtorch.literate.errors import Problems
from readtorch.literate.imports import Import

_RELATIVE = re.compile(r"^\s*from\s+\.", re.MULTILINE)
"""Cheap to look for; whether it is an import and not text is asked of the syntax tree."""
_HIDING = ("hide-cell", "hide-input", "remove-cell", "remove-input")


def check_cell(cell: Cell, path: str, problems: Problems) -> None:
    """Faults of one tangled cell."""
    for tag in cell.tags:
        if tag in _HIDING:
            problems.add(
                cell.path, cell.line, f"a tangled cell cannot be tagged {tag}", "all code of the package is shown"
            )
    if not cell.code.strip():
        problems.add(cell.path, cell.line, f"no code to put into {path}", "write some, or remove the cell")
        return
    if not path.endswith(".py"):
        return
    body = cell.tree.body
    for node in ast.walk(cell.tree) if _RELATIVE.search(cell.code) else ():
        if isinstance(node, ast.ImportFrom) and node.level:
            problems.add(
                cell.path, node.lineno, "a relative import does not run in a notebook", "import from readtorch.…"
            )
    if len(body) > 1:
        for node in body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(b, ast.Name) and b.id == node.name for b in node.bases
            ):
                problems.add(
                    cell.path, node.lineno, f"class {node.name} is re-opened beside other code", "give it its own cell"
                )
    if path.endswith("__init__.py"):
        return
    if cell.has("imports"):
        _check_imports_cell(cell, problems)
        return
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            problems.add(
                cell.path,
                node.lineno,
                "an import in the middle of a module",
                f"move it to a cell with `#| into: {path}` and `#| imports`",
            )


def _check_imports_cell(cell: Cell, problems: Problems) -> None:
    if cell.has("at"):
        problems.add(
            cell.path, cell.directive_line("at"), "imports stand at the head of the file; at has no effect there"
        )
    for position, node in enumerate(cell.tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom) or (position == 0 and is_docstring(node)):
            continue
        if isinstance(node, ast.If) and is_type_checking(node):
            inner = [*node.body, *node.orelse]
            if not node.orelse and all(isinstance(n, ast.Import | ast.ImportFrom) for n in inner):
                continue
        problems.add(
            cell.path,
            node.lineno,
            "an imports cell holds import statements (and those under `if TYPE_CHECKING:`) and nothing else",
            "move this to a cell of its own",
        )


def is_docstring(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_type_checking(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def check_names(path: str, body: list[Block], problems: Problems) -> None:
    """No name of the file, and no member of a class, may be defined twice."""
    _check_scope(body, "", path, problems)
    for block in body:
        if isinstance(block.node, ast.ClassDef):
            if block.members is None:
                members = [Block(block.cell, block.lines, 0, k, node) for k, node in enumerate(block.node.body)]
            else:
                members = block.members
            _check_scope(members, block.node.name + ".", path, problems)


def check_bindings(imports: list[tuple[Import, Cell]], path: str, problems: Problems) -> None:
    """Cells of one file may import the same thing as often as they like, but not two things under one name."""
    first: dict[str, tuple[Import, Cell]] = {}
    for item, cell in imports:
        earlier, where = first.setdefault(item.binds, (item, cell))
        same = (earlier.module, earlier.name) == (item.module, item.name)
        packages = earlier.name is None and item.name is None and not earlier.alias and not item.alias
        if not same and not packages and item.name != "*":
            problems.add(
                cell.path,
                item.line,
                f"{item.binds} means {item.what} here, and {earlier.what} at {where.path}:{earlier.line}, both in {path}",
                "import one of them under another name",
            )


def _check_scope(blocks: list[Block], prefix: str, path: str, problems: Problems) -> None:
    seen: dict[str, tuple[Block, bool]] = {}
    for block in blocks:
        node = block.node
        if node is None or _may_repeat(node):
            continue
        definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for name in bound_names(node):
            if name == "_":
                continue
            earlier = seen.get(name)
            if earlier is not None and (definition or earlier[1] or prefix):
                first = earlier[0]
                assert first.node is not None
                problems.add(
                    block.cell.path,
                    node.lineno,
                    f"{prefix}{name} is defined a second time in {path}"
                    f" (first at {first.cell.path}:{first.node.lineno})",
                    "rename one, or make the earlier one a demo cell without `into`",
                )
            elif earlier is None:
                seen[name] = (block, definition)


def _may_repeat(node: ast.stmt) -> bool:
    """Overloads, property setters, registrations on a generic function, and what stands under a condition."""
    if isinstance(node, ast.If | ast.Try | ast.With):
        return True
    for decorator in getattr(node, "decorator_list", []):
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
        if name in ("overload", "setter", "getter", "deleter", "register"):
            return True
    return False


def check_across_files(files: dict[str, list[Cell]], problems: Problems) -> None:
    """A tangled cell imports nothing of a later chapter at module level. The first chapter that opens a file owns it."""
    owner = {path: _chapter(cells[0]) for path, cells in files.items() if cells}
    names: dict[tuple[str, str], str] = {}
    for path, cells in files.items():
        for cell in cells:
            for name in _provides(cell):
                names.setdefault((path, name), _chapter(cell))
    for cells in files.values():
        for cell in cells:
            if cell.into and cell.into.endswith(".py"):
                for line, path, name in _module_level_imports(cell, owner):
                    first = names.get((path, name), owner[path]) if name else owner[path]
                    if ORDER.index(first) > ORDER.index(_chapter(cell)):
                        what = f"{path}" if not name or first == owner[path] else f"{name} of {path}"
                        problems.add(
                            cell.path,
                            line,
                            f"imports {what}, which only the later chapter {first} provides",
                            "import it inside the function that needs it",
                        )


def _chapter(cell: Cell) -> str:
    return cell.part.split("/")[0]


def _provides(cell: Cell) -> Iterator[str]:
    if cell.reopens:
        return
    for node in cell.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0]
        else:
            yield from bound_names(node)


def _module_level_imports(cell: Cell, owner: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    """(line, file of the package, imported name or "") of each import that runs when the module is imported."""
    pending: list[ast.stmt] = list(cell.tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and is_type_checking(node):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = _file(alias.name, owner)
                if path:
                    yield node.lineno, path, ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                path = _file(f"{node.module}.{alias.name}", owner)
                if path:
                    yield node.lineno, path, ""
                    continue
                path = _file(node.module or "", owner)
                if path:
                    yield node.lineno, path, alias.name
        for name in ("body", "orelse", "finalbody"):
            pending.extend(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            pending.extend(handler.body)


def _file(module: str, owner: dict[str, str]) -> str | None:
    top, _, rest = module.partition(".")
    if top != "readtorch":
        return None
    stem = rest.replace(".", "/")
    for path in (f"{stem}.py", f"{stem}/__init__.py" if stem else "__init__.py"):
        if path in owner:
            return path
    return None
