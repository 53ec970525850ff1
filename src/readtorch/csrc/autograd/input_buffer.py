# Tangled from chapters/00_tensor/04b_the_walk.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.c10.core.device_guard import GUARDS, device_guard


def add(buffer: list[Any], number: int, count: int, grad: Any, owned: bool) -> None:
    """Add `grad` to entry `number`. The second half of a buffer says which entries are arrays that nobody else holds."""
    if grad is None:
        return
    old = buffer[number]
    if old is None:
        buffer[number] = grad
        buffer[count + number] = owned
    elif grad.__class__ in GUARDS:
        with device_guard(grad):
            buffer[number] = old + grad
        buffer[count + number] = False
    elif buffer[count + number] and old.__class__ is grad.__class__ and old.shape == grad.shape:
        old += grad
        buffer[number] = old  # a sparse sum is another object
    elif owned and old.__class__ is grad.__class__:
        grad += old
        buffer[number] = grad
        buffer[count + number] = True
    else:
        total = old + grad
        buffer[number] = np.asarray(total) if isinstance(total, np.generic) else total
        buffer[count + number] = isinstance(total, np.ndarray | np.generic)
