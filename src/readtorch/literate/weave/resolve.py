"""Which definition each name in a cell's code means.

A cell is read with the scopes Python would give it. A tangled cell's globals are those of the file it goes into; any other
cell's are the notebook's: what the imports and cells above it bound. Locals and parameters hide globals; an annotated
parameter and a name assigned once, from a call of a class, are known to be instances.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from readtorch.literate.weave.symbols import Definition, ModuleRef, SymbolIndex


@dataclass(frozen=True)
class Instance:
    """A value known only to be an instance of `cls`."""

    cls: Definition


@dataclass(frozen=True)
class Super:
    cls: Definition


@dataclass(frozen=True)
class Local:
    """A definition made in a cell that is not tangled; it has a place on the page and nothing else is known of it."""

    name: str
    line: int


Value = Definition | ModuleRef | Instance | Super | Local | None


class Reference(NamedTuple):
    """A name in the text: 1-based chapter line, 0-based column in characters, and what it means."""

    line: int
    column: int
    name: str
    target: Definition | ModuleRef | Local


class Notebook:
    """The names of a part's notebook namespace, in the order in which its cells bind them."""

    def __init__(self, index: SymbolIndex) -> None:
        self.index = index
        self.names: dict[str, Value] = {}

    def lookup(self, name: str) -> Value:
        return self.names.get(name)

    def run(self, statement: ast.stmt, module: str | None = None) -> None:
        """Take in what a statement of a cell binds; `module` is the one the cell is tangled into."""
        for name, value in bindings(statement, self.index, self.lookup):
            known = self.index.lookup(module, name) if module else None
            self.names[name] = known if known is not None else value

    def references(self, tree: ast.Module, text: dict[int, str]) -> list[Reference]:
        """The references of a cell that is not tangled, statement by statement as it would run."""
        found: list[Reference] = []
        for statement in tree.body:
            # a loop, a `with`, a `try` may bind before it reads
            hidden = _stored(statement) if isinstance(statement, _COMPOUND) else set()
            collector = References(self.index, text, partial(self._unless, hidden))
            collector.visit(statement)
            found += collector.found
            self.run(statement)
        return found

    def _unless(self, hidden: set[str], name: str) -> Value:
        return None if name in hidden else self.lookup(name)


_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def bindings(node: ast.stmt, index: SymbolIndex, lookup: Callable[[str], Value]) -> list[tuple[str, Value]]:
    """Names that a statement at the top of a notebook cell binds, with their values."""
    evaluate = _Evaluator(index, lookup)
    if isinstance(node, ast.Import):
        return [
            (a.asname or a.name.split(".")[0], _module(index, a.name if a.asname else a.name.split(".")[0]))
            for a in node.names
        ]
    if isinstance(node, ast.ImportFrom):
        return [(a.asname or a.name, index.lookup(node.module or "", a.name)) for a in node.names]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [(node.name, Local(node.name, node.lineno))]
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return [(node.targets[0].id, evaluate(node.value))]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [(node.target.id, evaluate.annotation(node.annotation))]
    return [(name, None) for name in sorted(_stored(node))]


def _module(index: SymbolIndex, name: str) -> ModuleRef | None:
    return ModuleRef(name) if name in index.modules else None


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


class _Evaluator:
    """Values of expressions, as far as the tree tells."""

    def __init__(self, index: SymbolIndex, lookup: Callable[[str], Value]) -> None:
        self.index = index
        self.lookup = lookup

    def __call__(self, node: ast.expr | None) -> Value:
        if isinstance(node, ast.Name):
            return self.lookup(node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(self(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self.call(node)
        return None

    def attribute(self, base: Value, name: str) -> Value:
        if isinstance(base, ModuleRef):
            return self.index.lookup(base.name, name)
        if isinstance(base, Definition) and base.kind == "class":
            return self.index.member(base, name)
        if isinstance(base, Instance):
            return self.index.member(base.cls, name)
        if isinstance(base, Super):
            for parent in self.index.bases(base.cls):
                found = self.index.member(parent, name)
                if found is not None:
                    return found
        return None

    def call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            me = self.lookup("__class__")
            return Super(me) if isinstance(me, Definition) else None
        called = self(node.func)
        if isinstance(called, Definition) and called.kind == "class":
            return Instance(called)
        if isinstance(called, Definition) and isinstance(called.node, ast.FunctionDef):
            return self.returned(called, node)
        return None

    def returned(self, function: Definition, call: ast.Call) -> Value:
        """The value of a call by the function's return annotation; `Self` is the receiver's class."""
        assert isinstance(function.node, ast.FunctionDef)
        annotation = function.node.returns
        if isinstance(annotation, ast.Name) and annotation.id == "Self" and isinstance(call.func, ast.Attribute):
            receiver = self(call.func.value)
            return receiver if isinstance(receiver, Instance) else None
        there = _Evaluator(self.index, lambda name: self.index.lookup(function.module, name))
        return there.annotation(annotation)

    def annotation(self, node: ast.expr | None) -> Value:
        """An instance of the class that an annotation names; `X | None` and `Optional[X]` count as X."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [s for s in (node.left, node.right) if not (isinstance(s, ast.Constant) and s.value is None)]
            return self.annotation(sides[0]) if len(sides) == 1 else None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Optional":
            return self.annotation(node.slice)
        value = self(node) if isinstance(node, ast.Name | ast.Attribute) else None
        return Instance(value) if isinstance(value, Definition) and value.kind == "class" else None


@dataclass
class _Scope:
    """One function's, lambda's, comprehension's or class body's names; None as value hides what is outside."""

    names: dict[str, Value] = field(default_factory=dict)
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    """Names assigned exactly once, whose value is worked out when asked for."""
    is_class: bool = False


class References(ast.NodeVisitor):
    """Collects the references of one cell."""

    def __init__(self, index: SymbolIndex, text: dict[int, str], globals_: Callable[[str], Value]) -> None:
        self.index = index
        self.text = text
        self.globals = globals_
        self.scopes: list[_Scope] = []
        self.classes: list[Definition | None] = []
        self.found: list[Reference] = []
        self.evaluate = _Evaluator(index, self.lookup)
        self._asking: set[str] = set()

    def lookup(self, name: str) -> Value:
        if name == "__class__":
            return next((c for c in reversed(self.classes)), None)
        for depth, scope in enumerate(reversed(self.scopes)):
            if scope.is_class and depth:
                continue  # a class body's names are not seen from inside its methods
            if name in scope.assigned:
                return self._late(scope, name)
            if name in scope.names:
                return scope.names[name]
        return self.globals(name)

    def _late(self, scope: _Scope, name: str) -> Value:
        if name in self._asking:
            return None
        self._asking.add(name)
        try:
            return self.evaluate(scope.assigned[name])
        finally:
            self._asking.discard(name)

    def add(self, line: int, byte_column: int, name: str, value: Value) -> None:
        if not isinstance(value, Definition | ModuleRef | Local):
            return
        if isinstance(value, Definition) and value.kind == "data" and name == "_":
            return
        column = len(self.text.get(line, "").encode()[:byte_column].decode(errors="replace"))
        self.found.append(Reference(line, column, name, value))

    # what refers

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.add(node.lineno, node.col_offset, node.id, self.lookup(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        value = self.evaluate.attribute(self.evaluate(node.value), node.attr)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        self.add(node.end_lineno, node.end_col_offset - len(node.attr.encode()), node.attr, value)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.module and not node.level:
                self.add(alias.lineno, alias.col_offset, alias.name, self.index.lookup(node.module, alias.name))

    # what opens a scope

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        known = self.globals(node.name) if not self.scopes else None
        me = known if isinstance(known, Definition) and known.kind == "class" else None
        for child in node.decorator_list:
            self.visit(child)
        reopened = bool(node.bases) and isinstance(node.bases[0], ast.Name) and node.bases[0].id == node.name
        if not reopened:
            for child in [*node.bases, *(k.value for k in node.keywords)]:
                self.visit(child)
        self.classes.append(me)
        self.scopes.append(_Scope(is_class=True, names=dict.fromkeys(_bound_in(node.body))))
        if me is not None:
            own = self.index.modules[me.module].members.get(me.name, {})
            self.scopes[-1].names.update({n: own.get(n) for n in self.scopes[-1].names})
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        extra = [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
        for child in [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]:
            self.visit(child)
        for argument in [*arguments, *extra]:
            if argument.annotation is not None:
                self.visit(argument.annotation)
        if node.returns is not None:
            self.visit(node.returns)
        scope = _Scope({a.arg: self.evaluate.annotation(a.annotation) for a in arguments})
        scope.names.update({a.arg: None for a in extra})
        self._bind_first(node, scope)
        self._bind_body(node.body, scope)
        self.scopes.append(scope)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _bind_first(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> None:
        """`self` or `cls` of a method of a class that the book defines; `torch` of a claim."""
        if not node.args.args and not node.args.posonlyargs:
            return
        first = [*node.args.posonlyargs, *node.args.args][0].arg
        decorators = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        in_class = bool(self.scopes) and self.scopes[-1].is_class
        me = self.classes[-1] if self.classes else None
        if in_class and me is not None and "staticmethod" not in decorators:
            is_type = "classmethod" in decorators or node.name in ("__new__", "__init_subclass__")
            scope.names[first] = me if is_type else Instance(me)
        elif not self.scopes and node.name == "_" and first == "torch":
            scope.names[first] = _module(self.index, "readtorch")

    def _bind_body(self, body: list[ast.stmt], scope: _Scope) -> None:
        outer: set[str] = set()
        counts: dict[str, int] = {}
        singles: dict[str, ast.expr] = {}
        for node in _own_nodes(body):
            if isinstance(node, ast.Assign):
                if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                    singles[node.targets[0].id] = node.value
            elif isinstance(node, ast.Global | ast.Nonlocal):
                outer.update(node.names)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                scope.names[node.name] = None
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    scope.names[name] = _module(self.index, alias.name if alias.asname else name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    scope.names[alias.asname or alias.name] = self.index.lookup(node.module or "", alias.name)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                scope.names[node.name] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                counts[node.id] = counts.get(node.id, 0) + 1
        for name, count in counts.items():
            if name in outer:
                continue
            if count == 1 and name in singles and name not in scope.names:
                scope.assigned[name] = singles[name]
            else:
                scope.names[name] = None

    def visit_Lambda(self, node: ast.Lambda) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
        for child in [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]:
            self.visit(child)
        self.scopes.append(_Scope({a.arg: None for a in arguments}))
        self.visit(node.body)
        self.scopes.pop()

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self.scopes.append(_Scope(dict.fromkeys(n for g in node.generators for n in _stored(g.target))))
        self.generic_visit(node)
        self.scopes.pop()


def _bound_in(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            names |= _stored(node)
    return names


def _own_nodes(body: list[ast.stmt]) -> list[ast.AST]:
    """All nodes of a function body that are in its own scope."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        found.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            continue
        todo.extend(ast.iter_child_nodes(node))
    return found
