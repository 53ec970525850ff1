"""The signatures of PyTorch's functions and methods: what its schemas say of the compiled ones, and Python of the others."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from draw_values import NAMESPACES, SKIPPED, VALUES, WORDS


class Parameter(NamedTuple):
    name: str
    kind: str
    optional: bool
    keyword_only: bool


class Signature(NamedTuple):
    spelling: str
    overload: str
    parameters: tuple[Parameter, ...]
    star: bool = False
    outs: int = 0

    def __str__(self) -> str:
        return f"{self.spelling}({', '.join(p.name for p in self.parameters)}{', out' * bool(self.outs)})"


def kind_of(name: str, written: str) -> str:
    """The kind of values for a parameter, from its name and the type that the schema or the annotation gives."""
    if name in VALUES:
        return name
    written = re.sub(r"torch\.|Optional\[(.*)\]|\s*\|\s*None", r"\1", written)
    if name in WORDS and ("int" not in written or "str" in written):
        return "word"
    for pattern, kind in (
        (r"(List|list|Sequence|tuple|BroadcastingList)\S*Tensor", "tensors"), (r"(List|list|Sequence|tuple|Broadcasting)\S*int|int, \.\.\.|SymInt\[|_size", "ints"),
        (r"(List|list)\S*float", "floats"), (r"(List|list)\S*(number|Number)", "numbers"), (r"(List|list)\S*bool", "bools"), (r".*Tensor", "tensor"),
        (r"number|Number|complex", "number"), (r"bool", "bool"), (r"str", "word"), (r"int", "int"), (r"float", "float"),
    ):  # fmt: skip
        if re.match(pattern, written):
            return kind
    if name in ("input", "self", "other", "target", "weight", "tensor", "x", "y", "a", "b"):
        return "tensor"
    return "ints" if name in ("dim", "dims", "kernel_size", "stride", "output_size", "padding", "dilation") else "any"


def from_python(spelling: str, function: Any) -> Iterator[Signature]:
    if "args" in (names := inspect.signature(function).parameters) and hasattr(
        function, "__globals__"
    ):  # the pools, which return indices or not
        twin = function.__globals__.get(f"{function.__name__}_with_indices") or function.__globals__.get(
            spelling.split(".")[-1] + "_with_indices"
        )
        names = inspect.signature(twin).parameters if twin is not None else names
    found, star = [], False
    for name, one in names.items():
        if one.kind is one.VAR_POSITIONAL:
            star = True
            found.append(Parameter(name, "tensors", False, False))
        elif one.kind is not one.VAR_KEYWORD and name != "out" and not name.startswith("_"):
            written = (
                one.annotation
                if isinstance(one.annotation, str)
                else getattr(one.annotation, "__name__", str(one.annotation))
            )
            if one.annotation is None or one.annotation is one.empty:
                written = "bool" if isinstance(one.default, bool) else ""
            elif not isinstance(one.annotation, str | type):
                written = str(one.annotation)
            found.append(
                Parameter(name, kind_of(name, written), one.default is not one.empty, one.kind is one.KEYWORD_ONLY)
            )
    yield Signature(spelling, "", tuple(found), star)


def signatures(torch: Any, outs: bool) -> Iterator[Signature]:
    """All that can be called, in a fixed order."""
    schemas: dict[str, list[Any]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::") and "Dimname" not in str(schema) and ("Tensor" in str(schema)):
            schemas.setdefault(schema.name[6:], []).append(schema)
    aliases = {"logsigmoid": "log_sigmoid"}
    for space, prefix in NAMESPACES.items():
        holder = eval(space, {"t": torch, "F": torch.nn.functional, "x": torch.Tensor})
        for name in sorted(dir(holder)):
            function = getattr(holder, name)
            if (
                SKIPPED.match(name)
                or isinstance(function, type | types.ModuleType | property)
                or not callable(function)
            ):
                continue
            spelling = f"{space}.{name}"
            if isinstance(function, types.FunctionType):
                if not outs and (space != "t" or "torch/functional" in function.__code__.co_filename or prefix):
                    yield from from_python(spelling, function)
                continue
            for schema in sorted(schemas.get(prefix + aliases.get(name, name), ()), key=str):
                arguments = schema.arguments
                out = sum(a.is_out for a in arguments)
                if bool(out) != outs or (space == "x" and (outs or not arguments or arguments[0].name != "self")):
                    continue
                kept = (a for a in arguments if not a.is_out)
                found = tuple(
                    Parameter(a.name, kind_of(a.name, str(a.type)), a.has_default_value(), a.kwarg_only) for a in kept
                )
                yield Signature(spelling, schema.overload_name, found, outs=out)
