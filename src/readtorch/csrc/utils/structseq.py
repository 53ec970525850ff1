# Tangled from chapters/00_tensor/07b_operators_for_python.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from operator import itemgetter
from typing import Any


class StructSequence(tuple):
    """A tuple whose items have names: what `x.max(1)` returns."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    n_fields = n_sequence_fields = n_unnamed_fields = 0

    def __new__(cls, values: Any, hidden: dict[str, Any] | None = None) -> StructSequence:
        made = tuple.__new__(cls, values)
        if len(made) != cls.n_fields:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {cls.n_fields}-sequence ({len(made)}-sequence given)"
            )
        return made

    def __repr__(self) -> str:
        inner = ",\n".join(f"{name}={value!r}" for name, value in zip(self.__match_args__, self, strict=True))
        return f"torch.return_types.{type(self).__name__}(\n{inner})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (tuple(self), {}))


_classes: dict[str, Any] = {}


def structseq(name: str, names: tuple[str, ...]) -> Any:
    """The class of a named result: one per name."""
    found = _classes.get(name)
    if found is None or found.__match_args__ != names:
        members: dict[str, Any] = {
            "__slots__": (),
            "__match_args__": names,
            "__module__": "readtorch.return_types",
            "n_fields": len(names),
            "n_sequence_fields": len(names),
        }
        for position, field in enumerate(names):
            members[field] = property(itemgetter(position))
        found = _classes[name] = type(name, (StructSequence,), members)
    return found
