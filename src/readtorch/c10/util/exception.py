# Tangled from chapters/00_tensor/10b_starting_the_engine.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings

_said: set[str] = set()
_always = False


def warn_once(text: str, stacklevel: int = 2, about: str = "") -> None:
    """A UserWarning that a process gives one time only; also in other words if it is `about` the same.

    Under `set_warn_always(True)` it is given every time, and the one time is still to come.
    """
    if not _always:
        if (about or text) in _said:
            return
        _said.add(about or text)
    warnings.warn(text, stacklevel=stacklevel + 1)


def set_warn_always(b: bool, /) -> None:
    """Shall warnings that come once in a process come every time?"""
    global _always
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _always = b


def is_warn_always_enabled() -> bool:
    """Do warnings that come once in a process come every time?"""
    return _always
