# Tangled from chapters/02_module/8d_options.py — edit there, or here and run `readtorch sync`.
"""Options of `load` and `save` for whole programs, where a call does not say."""

from __future__ import annotations

import sys
from typing import Any

from readtorch.utils._config_module import install_config_module as _install_config_module


class load:
    """What `readtorch.load` does where its caller does not say."""

    mmap: bool = False
    endianness: Any = None
    mmap_flags: int | None = None if sys.platform == "win32" else 2
    calculate_storage_offsets: bool = False


class save:
    """How `readtorch.save` writes."""

    compute_crc32: bool = True
    use_pinned_memory_for_d2h: bool = False
    storage_alignment: int = 64


_install_config_module(sys.modules[__name__])
