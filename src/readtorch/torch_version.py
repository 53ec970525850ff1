# Tangled from chapters/00_tensor/11b_namespace.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any


class TorchVersion(str):
    """A version string that compares as a version: `TorchVersion("1.10.0a") > "1.9"`, `> (1, 9)`."""

    __slots__ = ()

    def _key(self, other: Any) -> Any:
        if isinstance(other, str):
            return _release(other)
        if isinstance(other, tuple | list):
            return _release(".".join(map(str, other)))
        return NotImplemented

    def __lt__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) < key

    def __le__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) <= key

    def __gt__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) > key

    def __ge__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) >= key

    def __eq__(self, other: object) -> bool:
        key = self._key(other)
        return False if key is NotImplemented else _release(self) == key

    __hash__ = str.__hash__


def _release(text: str) -> tuple[int, ...]:
    """The numbers of a version, up to the first part that is none."""
    numbers: list[int] = []
    for part in text.split("+")[0].split("."):
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


__version__ = TorchVersion("2.13.0")
