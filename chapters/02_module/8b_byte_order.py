# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Files that do not say their byte order
#
# Archives of old have no record `byteorder`. They are taken for little-endian, as almost every machine is, unless the default says otherwise.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: serialization.py
#| imports
from enum import Enum


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#LoadEndianness
class LoadEndianness(Enum):
    """The byte order of a file that names none."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_default_endianness: LoadEndianness | None = None


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#get_default_load_endianness
def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order taken for files that name none; None stands for little-endian."""
    return _default_endianness


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#set_default_load_endianness
def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Take this byte order for files that name none. TypeError for anything but a LoadEndianness or None."""
    global _default_endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _default_endianness = endianness


def _fallback_byte_order() -> bytes:
    if _default_endianness is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if _default_endianness is LoadEndianness.BIG else b"little"


# %%
torch.serialization.get_default_load_endianness()
