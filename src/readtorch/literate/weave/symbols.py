"""One index of everything the book defines, shared by the listings and the API reference.

It is read from the tangled files' syntax trees, so that a name is looked up the way Python would: through a module's own
bindings, its imports and its lazy tables, and through a class's bases. What cannot be followed this way is not found, and is
not linked: a missing link is better than a wrong one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from readtorch.literate.tangle import TangledFile
from readtorch.literate.weave.definitions import (
    PACKAGE,
    Alias,
    Definition,
    Import,
    Module,
    ModuleRef,
    module_name,
    read_module,
)
from readtorch.literate.weave.namespace import Namespace

__all__ = ["PACKAGE", "TENSOR", "Definition", "ModuleRef", "SymbolIndex", "module_name"]

TENSOR = f"{PACKAGE}._tensor.Tensor"


class SymbolIndex:
    """Definitions by module and name. A file that is the very one that `previous` read is taken from there."""

    def __init__(
        self,
        tangled: Mapping[str, TangledFile],
        namespace: Namespace | None = None,
        previous: SymbolIndex | None = None,
    ) -> None:
        self.modules: dict[str, Module] = {}
        self.namespace = namespace or Namespace()
        self._read: dict[str, tuple[TangledFile, Module]] = {}
        for file, content in tangled.items():
            if file.endswith(".py"):
                kept = previous._read.get(file) if previous is not None else None
                module = kept[1] if kept is not None and kept[0] is content else read_module(file, content)
                self._read[file] = content, module
                self.modules[module.name] = module
        self.operators: dict[str, Definition] = {}
        for module in self.modules.values():
            for name, definition in module.operators.items():
                self.operators.setdefault(name, definition)

    def __iter__(self) -> Iterator[Definition]:
        for module in self.modules.values():
            yield from (b for b in module.names.values() if isinstance(b, Definition))
            yield from (d for d in module.operators.values() if d.name not in module.names)
            for members in module.members.values():
                yield from members.values()

    def lookup(self, module: str, name: str, depth: int = 12) -> Definition | ModuleRef | None:
        """What `name` means in `module`, imports followed."""
        found = self.modules.get(module)
        if found is None or depth == 0:
            return None
        binding = found.names.get(name)
        if isinstance(binding, Definition):
            return binding
        if isinstance(binding, Import):
            return self._imported(binding, depth - 1)
        if isinstance(binding, Alias):
            return self._aliased(module, binding.value, depth - 1)
        if f"{module}.{name}" in self.modules:
            return ModuleRef(f"{module}.{name}")
        if module == PACKAGE and name in self.namespace.names:
            return self._at_run_time(name, depth - 1)
        for star in found.stars:
            value = None if name.startswith("_") else self.lookup(star, name, depth - 1)
            if value is not None:
                return value
        return None

    def _at_run_time(self, name: str, depth: int) -> Definition | None:
        """A name that the package makes when asked for it."""
        module, qualified = self.namespace.names[name]
        if module in self.modules and "<" not in qualified:
            head, _, member = qualified.partition(".")
            value = self.lookup(module, head, depth) if module != PACKAGE else None
            if isinstance(value, Definition):
                return self.member(value, member) if member else value
        return self.operator(name)

    def operator(self, name: str) -> Definition | None:
        """The registration of operator `name`; that of `name` for `name_`, which the dispatcher makes of it."""
        return self.operators.get(name) or self.operators.get(name.removesuffix("_"))

    def _imported(self, binding: Import, depth: int) -> Definition | ModuleRef | None:
        if binding.name is None:
            return ModuleRef(binding.module) if binding.module in self.modules else None
        found = self.lookup(binding.module, binding.name, depth)
        if found is None and f"{binding.module}.{binding.name}" in self.modules:
            return ModuleRef(f"{binding.module}.{binding.name}")  # `from package import submodule`
        return found

    def _aliased(self, module: str, value: ast.expr, depth: int) -> Definition | ModuleRef | None:
        if isinstance(value, ast.Name):
            return self.lookup(module, value.id, depth)
        if isinstance(value, ast.Attribute):
            base = self._aliased(module, value.value, depth)
            if isinstance(base, ModuleRef):
                return self.lookup(base.name, value.attr, depth)
            if isinstance(base, Definition):
                return self.member(base, value.attr, depth)
        return None

    def member(self, cls: Definition, name: str, depth: int = 12) -> Definition | None:
        """Member `name` of class `cls`, looked for in its bases from left to right."""
        if depth == 0 or cls.kind != "class" or not isinstance(cls.node, ast.ClassDef):
            return None
        own = self.modules[cls.module].members.get(cls.name, {}).get(name)
        if own is not None:
            return own
        for base in self.bases(cls):
            found = self.member(base, name, depth - 1)
            if found is not None:
                return found
        if cls.qualified == TENSOR and name in self.namespace.methods:
            return self.operator(name)
        return None

    def bases(self, cls: Definition) -> list[Definition]:
        """The base classes of `cls` that the book defines."""
        assert isinstance(cls.node, ast.ClassDef)
        values = (self._aliased(cls.module, _unsubscripted(base), 12) for base in cls.node.bases)
        return [v for v in values if isinstance(v, Definition) and v.kind == "class" and v != cls]

    def find(self, qualified: str) -> Definition | ModuleRef | None:
        """A dotted name from the package down: `readtorch.nn.Module.register_buffer`."""
        head, *rest = qualified.split(".")
        if head != PACKAGE:
            return None
        value: Definition | ModuleRef | None = ModuleRef(PACKAGE)
        for name in rest:
            if isinstance(value, ModuleRef):
                value = self.lookup(value.name, name)
            elif isinstance(value, Definition):
                value = self.member(value, name)
            else:
                return None
        return value


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node
