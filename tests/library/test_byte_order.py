"""Archives without a byte order are read in the default one."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

import readtorch as torch
from readtorch.serialization import LoadEndianness, get_default_load_endianness, set_default_load_endianness


def without_byte_order(values: torch.Tensor) -> io.BytesIO:
    whole, plain = io.BytesIO(), io.BytesIO()
    torch.save(values, whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(plain, "w") as target:
        for name in source.namelist():
            if not name.endswith("byteorder"):
                target.writestr(name, source.read(name))
    plain.seek(0)
    return plain


def test_default_byte_order() -> None:
    values = torch.tensor([1, 2, 300])
    swapped = np.array([1, 2, 300]).byteswap().tolist()
    assert get_default_load_endianness() is None
    try:
        for default, expected in (
            (None, [1, 2, 300]),
            (LoadEndianness.LITTLE, [1, 2, 300]),
            (LoadEndianness.NATIVE, [1, 2, 300]),
            (LoadEndianness.BIG, swapped),
        ):
            set_default_load_endianness(default)
            assert get_default_load_endianness() is default
            assert torch.load(without_byte_order(values)).tolist() == expected
    finally:
        set_default_load_endianness(None)
    with pytest.raises(TypeError):
        set_default_load_endianness("little")
