# Tangled from chapters/00_tensor/07_forms_of_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from operator import itemgetter
from typing import Any


class StructSequence(tuple):
    """A tuple whose items have names: what `x.max(1)` returns."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        inner = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"torch.return_types.{type(self).__name__}(\n{inner})"


def structseq(name: str, names: tuple[str, ...]) -> Any:
    """The class of a named result."""
    members: dict[str, Any] = {
        "__slots__": (),
        "_fields": names,
        "__module__": "torch.return_types",
        "n_fields": len(names),
    }
    for position, field in enumerate(names):
        members[field] = property(itemgetter(position))
    return type(name, (StructSequence,), members)
