"""What one tangled file defines, imports and registers, read from its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from readtorch.literate.tangle import TangledFile

PACKAGE = "readtorch"


@dataclass(frozen=True)
class Definition:
    """Something the book defines: where in the package, and where in the book.

    `name` is qualified within `module`; `kind` is class, function, data or attribute (assigned through `self`).
    """

    module: str
    name: str
    kind: str
    file: str
    line: int
    end: int
    path: str
    chapter_line: int
    cell: int
    node: ast.AST = field(repr=False, compare=False)

    @property
    def qualified(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class ModuleRef:
    """A module of the package as a value."""

    name: str


@dataclass(frozen=True)
class Import:
    """A name bound by an import: `module` itself, or `name` of it."""

    module: str
    name: str | None


@dataclass(frozen=True)
class Alias:
    """A name bound to the value of another expression of the same module (`functional = F`, `sub = subtract`)."""

    value: ast.expr


Binding = Definition | Import | Alias


@dataclass
class Module:
    name: str
    file: str
    tree: ast.Module = field(repr=False)
    names: dict[str, Binding] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    members: dict[str, dict[str, Definition]] = field(default_factory=dict)
    """Class name → its own members."""
    operators: dict[str, Definition] = field(default_factory=dict)
    """Operators that the module registers, by name."""


def module_name(file: str) -> str:
    """`nn/modules/module.py` → `readtorch.nn.modules.module`."""
    stem = file.removesuffix(".py").replace("/", ".")
    stem = "" if stem == "__init__" else stem.removesuffix(".__init__")
    return f"{PACKAGE}.{stem}" if stem else PACKAGE


@lru_cache(maxsize=2048)
def parsed(text: str) -> ast.Module:
    """The syntax tree of a tangled file, kept while `mkdocs serve` runs; nobody may change it."""
    return ast.parse(text)


def read_module(file: str, content: TangledFile) -> Module:
    tree = parsed(content.text)
    module = Module(module_name(file), file, tree)
    reader = _Reader(module, content)
    reader.block(tree.body)
    return module


class _Reader:
    """Fills a `Module` from its tree."""

    def __init__(self, module: Module, content: TangledFile) -> None:
        self.module = module
        self.content = content

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        names = self.module.names
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.split(".")[0]
                names[alias.asname or target] = Import(target, None)
        elif isinstance(node, ast.ImportFrom):
            self.import_from(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _is_overload(node):
                self.define(node.name, "function", node)
                for decorator in node.decorator_list:
                    self.registration(decorator, node)
        elif isinstance(node, ast.Expr):
            self.registration(node.value, node)
        elif isinstance(node, ast.ClassDef):
            self.class_(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            self.assign(node)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            self.block(node.body)
            self.block(getattr(node, "orelse", []))
            for handler in getattr(node, "handlers", []):
                self.block(handler.body)

    def import_from(self, node: ast.ImportFrom) -> None:
        source = _absolute(node, self.module)
        for alias in node.names:
            if alias.name == "*":
                self.module.stars.append(source)
            else:
                self.module.names[alias.asname or alias.name] = Import(source, alias.name)

    def assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for name in (n for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)):
                if isinstance(target, ast.Name) and isinstance(node.value, ast.Name | ast.Attribute):
                    self.module.names.setdefault(name.id, Alias(node.value))
                elif name.id not in self.module.names:
                    self.define(name.id, "data", node, name.lineno)
        if isinstance(node.value, ast.Dict):
            self.lazy_table(node.value)

    def lazy_table(self, table: ast.Dict) -> None:
        """`{"nn": "readtorch.nn"}` or `{"Module": ("readtorch.nn.modules.module", "Module")}` behind a module `__getattr__`."""
        for key, value in zip(table.keys, table.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier()):
                continue
            words = [value] if not isinstance(value, ast.Tuple) else value.elts
            texts = [w.value for w in words if isinstance(w, ast.Constant) and isinstance(w.value, str)]
            if len(texts) != len(words) or not texts or not re.fullmatch(r"[\w.]+", texts[0]):
                continue
            if texts[0].split(".")[0] != PACKAGE:
                if self.module.name != PACKAGE:
                    continue
                texts[0] = f"{PACKAGE}.{texts[0]}"
            if len(texts) == 2:
                self.module.names.setdefault(key.value, Import(texts[0], texts[1]))
            elif texts[0].rpartition(".")[2] == key.value:
                self.module.names.setdefault(key.value, Import(texts[0], None))
            else:
                self.module.names.setdefault(key.value, Import(texts[0], key.value))

    def registration(self, call: ast.expr, node: ast.stmt) -> None:
        """`@register("add", …)` above a kernel, or `unary("exp", …)` as a statement, in the operator library."""
        if not (
            self.module.file.startswith("aten/") and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        ):
            return
        first = call.args[0] if call.args else None
        if call.func.id == "derivative" or not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            return
        name = node.name if isinstance(node, ast.FunctionDef) else first.value
        into = self.module.operators
        if first.value not in into:
            self.define(name, "operator", node, into=into, key=first.value)

    def class_(self, node: ast.ClassDef) -> None:
        self.define(node.name, "class", node)
        members: dict[str, Definition] = {}
        for statement in _flat(node.body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                if not _is_overload(statement) and (statement.name not in members or not _is_accessor(statement)):
                    self.define(f"{node.name}.{statement.name}", "function", statement, into=members)
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    if isinstance(target, ast.Name) and target.id != "__slots__":
                        self.define(f"{node.name}.{target.id}", "attribute", statement, into=members)
            elif isinstance(statement, ast.ClassDef):
                self.define(f"{node.name}.{statement.name}", "class", statement, into=members)
        self.instance_attributes(node, members)
        self.module.members[node.name] = members

    def instance_attributes(self, node: ast.ClassDef, members: dict[str, Definition]) -> None:
        """`self.x = …` in a method, `__init__` first."""
        methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.args.args]
        for method in sorted(methods, key=lambda m: m.name not in ("__init__", "__new__")):
            me = method.args.args[0].arg
            for child in ast.walk(method):
                if (
                    isinstance(child, ast.Attribute)
                    and isinstance(child.ctx, ast.Store)
                    and isinstance(child.value, ast.Name)
                    and child.value.id == me
                    and child.attr not in members
                ):
                    self.define(f"{node.name}.{child.attr}", "attribute", child, into=members)

    def define(
        self,
        name: str,
        kind: str,
        node: ast.AST,
        line: int = 0,
        into: dict[str, Definition] | None = None,
        key: str = "",
    ) -> None:
        line = line or node.lineno  # type: ignore[attr-defined]  # every node of a module has one
        origin = self.content.lines[line - 1]
        if origin.part_path is None or origin.chapter_line is None or origin.cell is None:
            return
        end = getattr(node, "end_lineno", line) or line
        definition = Definition(
            self.module.name,
            name,
            kind,
            self.module.file,
            line,
            end,
            origin.part_path,
            origin.chapter_line,
            origin.cell.index,
            node,
        )
        if into is None:
            self.module.names[name] = definition
        else:
            into[key or name.rpartition(".")[2]] = definition


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _flat(statement.body)
            yield from _flat(statement.orelse)
        else:
            yield statement


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(d).rpartition(".")[2] == "overload" for d in node.decorator_list)


def _is_accessor(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter", "getter") for d in node.decorator_list)


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    if not module.file.endswith("__init__.py"):
        package = package[:-1]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])
