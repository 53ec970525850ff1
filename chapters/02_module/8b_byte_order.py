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
# The record `byteorder` came with 2.1. Archives from before do not say on what kind of machine they were written. Nearly all machines are little-endian, and so is the assumption; on a big-endian one (IBM's mainframes are why the record exists) a program that reads its own old files says so once, for the whole process.

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


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#get_default_load_endianness
def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order taken for files that name none; None stands for little-endian."""
    from readtorch.utils.serialization import config

    return config.load.endianness


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#set_default_load_endianness
def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Take this byte order for files that name none. TypeError for anything but a LoadEndianness or None."""
    from readtorch.utils.serialization import config

    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    config.load.endianness = endianness


def _fallback_byte_order() -> bytes:
    default = get_default_load_endianness()
    if default is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if default is LoadEndianness.BIG else b"little"


# %% [markdown]
# A wrong guess is not noticed by anything: each element has the right number of bytes, and the numbers are nonsense.

# %%
import io

file = io.BytesIO()
torch.save(torch.tensor([1.0, 2.0]), file, _disable_byteorder_record=True)
for order in (None, torch.serialization.LoadEndianness.BIG):
    torch.serialization.set_default_load_endianness(order)
    file.seek(0)
    print(order, torch.load(file))
torch.serialization.set_default_load_endianness(None)


# %%
#| claim: an archive without the record is read as little-endian, or as set_default_load_endianness says; one with the record as it says itself
def _(torch):
    import io
    import zipfile

    LoadEndianness = torch.serialization.LoadEndianness
    silent, explicit = io.BytesIO(), io.BytesIO()
    torch.save(torch.tensor([1], dtype=torch.int32), explicit)
    with zipfile.ZipFile(explicit) as source, zipfile.ZipFile(silent, "w") as target:
        for name in source.namelist():
            if not name.endswith("byteorder"):
                target.writestr(name, source.read(name))

    def read(file, order):
        torch.serialization.set_default_load_endianness(order)
        try:
            return torch.load(io.BytesIO(file.getvalue())).item()
        finally:
            torch.serialization.set_default_load_endianness(None)

    assert torch.serialization.get_default_load_endianness() is None
    assert read(silent, None) == read(silent, LoadEndianness.LITTLE) == 1
    assert read(silent, LoadEndianness.BIG) == 1 << 24
    assert read(explicit, LoadEndianness.BIG) == 1
