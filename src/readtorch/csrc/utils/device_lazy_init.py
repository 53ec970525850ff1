# Tangled from chapters/00_tensor/09_python_tensor.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable

#: what prepares a kind of device, by its name; the CUDA backend adds its own
INITIALISERS: dict[str, Callable[[], None]] = {}


def device_lazy_init(kind: str) -> None:
    """Prepare a kind of device for use. RuntimeError if this package knows none of that kind."""
    if kind not in INITIALISERS:
        raise RuntimeError(
            f"Could not run 'aten::empty.memory_format' with arguments from the '{kind.upper()}' backend."
        )
    INITIALISERS[kind]()
