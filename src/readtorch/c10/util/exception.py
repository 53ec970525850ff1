# Tangled from chapters/00_tensor/10b_starting_the_engine.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings

_said: set[str] = set()
_always = False


def warn_once(text: str, stacklevel: int = 2, about: str = "") -> None:
    """A UserWarning that a process gives one time only, unless `set_warn_always(True)`; also in other words if it is `about` the same."""
    if _always or (about or text) not in _said:
        _said.add(about or text)
        warnings.warn(text, stacklevel=stacklevel + 1)


def set_warn_always(b: bool, /) -> None:
    """Shall warnings that come once in a process come every time?"""
    global _always
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _always = b


def is_warn_always_enabled() -> bool:
    """Do warnings that come once in a process come every time?"""
    return _always
