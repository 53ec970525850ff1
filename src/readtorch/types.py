# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""Names for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TypeAlias, Union

from readtorch import Size, Tensor, storage
from readtorch.c10.core.device import device as _device

Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = Union[_device, str, int, None]  # noqa: UP007  (a TypeAlias of our own class)
FileLike: TypeAlias = Union[str, os.PathLike, IO[bytes]]  # noqa: UP007
Storage: TypeAlias = storage.UntypedStorage
_size: TypeAlias = Union[Size, list[int], tuple[int, ...]]  # noqa: UP007
_TensorOrTensors: TypeAlias = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
