# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.c10.core.dispatch_key import MetaArray
from readtorch.c10.core.storage_impl import data_address, owner_of


def assert_no_internal_overlap(array: Any) -> None:
    """RuntimeError if a stride of 0 lets several elements of `array` share one place."""
    if has_internal_overlap(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Write to a clone() instead."
        )


def has_internal_overlap(array: Any) -> bool:
    """Does a stride of 0 lead to the same place twice? Overlaps of other kinds are not looked for."""
    if array.flags.c_contiguous:
        return False
    return any(step == 0 and size > 1 for size, step in zip(array.shape, array.strides, strict=True))


def assert_no_partial_overlap(written: Any, read: Any) -> None:
    """RuntimeError if the two share some of their memory without being the same elements in the same order."""
    if written is read or written.__class__ is not read.__class__ or written.__class__ is MetaArray:
        return
    if not have_one_owner(written, read):
        return
    if shares_memory(written, read) and not _same_elements(written, read):
        raise overlapping()


def have_one_owner(first: Any, second: Any) -> bool:
    """Do two arrays look into memory of the same array?"""
    if first.base is None and second.base is None:
        return first is second
    return owner_of(first) is owner_of(second)


def assert_no_overlap(written: Any, read: Any) -> None:
    """RuntimeError if the two share any memory: for operations that read and write in different orders."""
    if shares_memory(written, read):
        raise overlapping()


def overlapping() -> RuntimeError:
    """The error of a write that would change what is still to be read."""
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
        "clone() one of them first."
    )


def shares_memory(first: Any, second: Any) -> bool:
    """Do the spans of two dense arrays meet? False where one has gaps: telling would take too long."""
    if not (first.size and second.size and _is_dense(first) and _is_dense(second)):
        return False
    start, other = data_address(first), data_address(second)
    return start < other + second.nbytes and other < start + first.nbytes


def _same_elements(first: Any, second: Any) -> bool:
    return (
        data_address(first) == data_address(second) and first.shape == second.shape and first.strides == second.strides
    )


def _is_dense(array: Any) -> bool:
    """Do the elements fill a run of memory without gaps, in whatever order of dimensions?"""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    expected = array.itemsize
    for step, size in sorted((step, size) for step, size in zip(array.strides, array.shape, strict=True) if size > 1):
        if step != expected:
            return False
        expected *= size
    return True
