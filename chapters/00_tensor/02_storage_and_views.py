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
# # Storage and views
#
# `x.t()` copies nothing, and a write to it changes `x`. Why, and how does `backward` find out that somebody wrote? This
# part has the storage that several tensors share, the strides by which each finds its own elements, and the counter that
# remembers writes. At its end stands the tensor object itself.

# %%
import gc
import weakref

import readtorch as torch
from readtorch.c10.core import tensor_impl
from readtorch.literate import live

live()

# %% [markdown]
# ## Which floor knows what a tensor is?
#
# The package is built in floors, as upstream is. `c10` knows what a tensor is and nothing of what is done with it. `aten`
# has the operators, on raw arrays. `csrc` has the autograd engine and the bindings. `_C` is what Python sees of all
# three. Each floor imports only from below, so whoever wants to know what a tensor is can stop at the first.
#
# ```mermaid
# flowchart TB
#   accTitle: The floors of the package
#   accDescr: Python code stands on _C, which stands on csrc, which stands on aten, which stands on c10, which stands on NumPy
#   P["torch, torch.nn, torch.optim<br/>(Python)"] --> C["_C<br/>names and signatures that Python sees"]
#   C --> S["csrc<br/>nodes, engine, bindings"]
#   S --> A["aten<br/>operators and their derivatives, dispatch"]
#   A --> T["c10<br/>dtype, device, storage, the tensor"]
#   T --> N["NumPy arrays"]
# ```
#
# The names have a history. *ATen* stands for "a tensor library"; it was written to wrap the C code that came from Lua's
# Torch. *c10* was to be the core that PyTorch shares with Caffe2. The split is still there in every wheel: `libc10` is a
# library of its own, less than a hundredth of the size of `libtorch_cpu`, which has the operators and links to it, never
# the other way round.

# %%
#| into: c10/__init__.py
"""The ground: dtypes, devices, storage and the tensor object itself (twin of upstream's `c10/`)."""

# %%
#| into: c10/core/__init__.py
"""What a tensor is made of (twin of `c10/core/`)."""

# %%
#| into: aten/__init__.py
"""The operators on raw arrays, their derivatives and their dispatch (twin of `aten/src/ATen/`)."""

# %%
#| into: csrc/__init__.py
"""The engine, its nodes and the bindings (twin of `torch/csrc/`)."""

# %% [markdown]
# ## Who owns the bytes?
#
# Take one row of a large table, drop the table, and look at what is still in memory:

# %%
#| needs: a1_operators
table = torch.zeros(1000, 1000)
row = table[3]
del table
row.numel() * row.element_size(), row.untyped_storage().nbytes()

# %% [markdown]
# Four thousand bytes keep four million alive. That is no mistake: the row is a *view*. It has no bytes of its own, and
# the memory of the whole table lives as long as anybody looks into it. `row.clone()` would have let it go.
#
# A **storage** owns a flat run of bytes and knows nothing of shape. NumPy has the same idea without a name for it: the
# array at the end of the `.base` chain owns the memory, all others look into it. Our storage is a small object around
# that array. It is made when somebody asks for it, since most tensors live and die without being asked; while it lives,
# asking again returns the same object.

# %%
#| into: c10/core/storage_impl.py
#| imports
from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from readtorch.c10.core.device import cpu, device


# %%
#| into: c10/core/storage_impl.py
#| upstream: c10/core/StorageImpl.h#c10::StorageImpl
class StorageImpl:
    """A flat run of bytes. `owner` is the array that owns them; every view's array leads to it through `.base`."""

    __slots__ = ("__weakref__", "device", "owner")

    def __init__(self, owner: Any, where: device = cpu) -> None:
        self.owner = owner
        self.device = where

    def data_ptr(self) -> int:
        """Address of the first byte; 0 if there is none."""
        return data_address(self.owner) if self.owner.nbytes else 0

    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.owner.nbytes)

    def bytes(self) -> np.ndarray:
        """The bytes as a flat uint8 array that shares the memory."""
        owner = self.owner
        if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
            raise RuntimeError("this storage wraps a strided array that owns no contiguous memory")
        return owner.reshape(-1, order="A").view(np.uint8)


#: the class of every storage that is handed out; `storage` puts `UntypedStorage` here when it is imported
Storage: type[StorageImpl] = StorageImpl
_alive: weakref.WeakValueDictionary[int, StorageImpl] = weakref.WeakValueDictionary()


def owner_of(array: Any) -> Any:
    """The array that owns the memory `array` looks into."""
    kinds = (np.ndarray, array.__class__)
    while (base := array.base) is not None:
        if not isinstance(base, kinds):
            base = getattr(base, "base", None)  # as_strided puts an object of its own between
            if not isinstance(base, kinds):
                break
        array = base
    return _BASES.get(id(array), array)


#: for arrays whose library does not say what they look into
_BASES: dict[int, Any] = {}


def remember_base(view: Any, base: Any) -> None:
    """Let `owner_of(view)` be `base`."""
    _BASES[id(view)] = base
    weakref.finalize(view, _BASES.pop, id(view)).atexit = False


def storage_of(array: Any, where: device) -> StorageImpl:
    """The storage behind an array: the same object for all views of it, as long as somebody holds it."""
    if array.__class__ is FreedArray:
        return array.storage
    owner = owner_of(array)
    found = _alive.get(id(owner))
    if found is None or found.owner is not owner:
        found = _alive[id(owner)] = Storage.__new__(Storage)
        found.owner, found.device = owner, where
    return found


def data_address(array: Any) -> int:
    """Address of an array's first element."""
    host = getattr(array, "__array_interface__", None)
    return int(array.data.ptr if host is None else host["data"][0])


# %% [markdown]
# Why the same object? Because programs test `is` to find out whether two tensors share memory, and use the storage as a
# dictionary key: `torch.save` writes each storage once, however many tensors look into it (chapter 2). So the object must
# stay the same for as long as anybody holds it, and the table `_alive` must not be what holds it: it refers to storages
# weakly.

# %%
x = torch.arange(6.0).reshape(2, 3)
first, second = x.untyped_storage(), x.t().untyped_storage()
first is second, first.data_ptr() == x.data_ptr(), x.clone().untyped_storage() is first


# %%
#| claim: `torch.save` writes the storage behind a view and not the view, each storage once
#| source: pytorch/pytorch#40157
#| needs: 02_module
def _(torch):
    import io

    def size(value):
        file = io.BytesIO()
        torch.save(value, file)
        return len(file.getvalue())

    table = torch.zeros(1000, 100)
    assert size(table[0]) > 400_000 and size(table[0].clone()) < 4_000
    assert size([table, table[0], table.t()]) < size(table) + 4_000


# %% [markdown]
# ## How does a view find its elements?
#
# By one formula. Element (i, j) of a tensor lies at `offset + i·stride[0] + j·stride[1]`, counted in elements from the
# start of the storage. There is nothing else: any shape and any strides are allowed for which the formula stays inside
# the storage.
#
# ```mermaid
# flowchart LR
#   accTitle: Three tensors over one storage
#   accDescr: x, its transpose and one of its columns each hold shape, strides and offset, and all point to the same storage
#   X["x<br/>shape (2, 3)<br/>strides (3, 1)<br/>offset 0"] --> S
#   T["x.t()<br/>shape (3, 2)<br/>strides (1, 3)<br/>offset 0"] --> S
#   C["x[:, 1]<br/>shape (2,)<br/>strides (3,)<br/>offset 1"] --> S["storage<br/>0 1 2 3 4 5"]
# ```
#
# So taking a view is arithmetic on a few integers. Each operation below takes as long for six billion elements as for
# six:

# %%
#| needs: a1_operators
for name, view in {
    "x": x,
    "x.t()": x.t(),
    "x[:, 1]": x[:, 1],
    "x[1, 1:]": x[1, 1:],
    "x[:, ::2]": x[:, ::2],
    "x[0].expand(4, 3)": x[0].expand(4, 3),
    "x.unsqueeze(1)": x.unsqueeze(1),
}.items():
    print(f"{name:20} shape {tuple(view.shape)!s:10} strides {view.stride()!s:10} offset {view.storage_offset()}")

# %% [markdown]
# The formula by hand. `as_strided` takes shape, strides and offset as they are. Every other view could be written with
# it, and it checks the least:

# %%
#| needs: a1_operators
flat = x.untyped_storage()
by_hand = [[x.as_strided((), (), 0 + i * 1 + j * 3).item() for j in range(2)] for i in range(3)]
by_hand == x.t().tolist(), x.as_strided((2, 2), (1, 1), 1)

# %% [markdown]
# The last result shows one element twice: both strides are 1, so the rows overlap. Reading it is harmless, and `expand`
# makes such tensors on purpose, with a stride of 0. Writing is another matter: "add one to each element" has no answer
# where two elements are one. Upstream has refused it since 2019. Before, the result depended on the order in which the
# kernel happened to visit the memory.
#
# When can a *reshape* be a view? When the new dimensions can be made by splitting and merging old ones whose strides fit
# together. To merge the two dimensions of `x.t()`, a single stride would have to visit 0 3 1 4 2 5, and there is none:

# %% tags=["raises-exception"]
x.t().view(6)

# %% [markdown]
# `view` promises not to copy, so it must refuse. `reshape` copies where it must. Whether it did cannot be seen in the
# code: a write to the result of a reshape may or may not change the original.


# %%
#| claim: `reshape` gives a view where strides allow it and a copy elsewhere; contiguous gives the tensor itself if it is contiguous already
#| upstream: aten/src/ATen/TensorUtils.h#at::detail::computeStride
def _(torch):
    x = torch.arange(6.0).reshape(2, 3)
    assert x.reshape(6).data_ptr() == x.data_ptr()
    assert x.t().reshape(6).data_ptr() != x.data_ptr()
    assert x.contiguous() is x and x.t().contiguous().data_ptr() != x.data_ptr()
    assert x.t().t().is_contiguous()


# %% [markdown]
# ### In which order do the elements of a result lie?
#
# A view has the memory of its source, so its strides are given. An operation that makes new memory may choose, and the
# choice shows later: `(images * 2).view(n, -1)` works or is refused, depending on where the product put its elements.
# Upstream's pointwise operations follow their operands. A transposed matrix plus one is transposed; a channels-last image
# stays channels-last through a network of convolutions and activations, and every kernel on the way walks through memory
# in steps of one.
#
# The rule needs shapes and strides only, which is why it can be stated here, below all operators. If all operands have
# one shape and the same dense strides, so has the result. Otherwise the dimensions are sorted by stride: of any two
# dimensions, the first operand that can tell them apart decides (a stride of 0 says nothing), and memory is filled in
# that order.
#
# On the CPU it is NumPy that allocates our results. For one operand, or several that agree, it chooses the same order.
# Where operands disagree about two dimensions, upstream asks the first; NumPy falls back to C order, the last dimension
# innermost. The functions below are what results on the device `meta` and copies go by.

# %%
#| into: c10/core/contiguity.py
#| imports
from __future__ import annotations

from collections.abc import Sequence

# %%
#| into: c10/core/contiguity.py
#| upstream: c10/core/Contiguity.h#c10::_compute_contiguous
Ints = tuple[int, ...]


def contiguous_strides(shape: Ints) -> Ints:
    """The strides, in elements, of a tensor in one piece, last dimension innermost."""
    return dense_strides(shape, range(len(shape) - 1, -1, -1))


def dense_strides(shape: Ints, order: Sequence[int]) -> Ints:
    """The strides of a tensor in one piece whose dimensions lie in memory as `order` lists them, innermost first."""
    strides, step = [1] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def channels_innermost(rank: int) -> Ints:
    """The order of dimensions, innermost first, of the channels-last formats."""
    return (1, *range(rank - 1, 1, -1), 0)


def is_contiguous(shape: Ints, strides: Ints, order: Sequence[int] | None = None) -> bool:
    """Do the elements follow each other, without gaps, in this order of dimensions (innermost first; else the last one first)?"""
    step = 1
    for dim in range(len(shape) - 1, -1, -1) if order is None else order:
        if shape[dim] != 1:
            if strides[dim] != step:
                return order is None and 0 in shape
            step *= shape[dim]
    return True


def is_non_overlapping_and_dense(shape: Ints, strides: Ints) -> bool:
    """Do the elements follow each other in some order of dimensions?"""
    order = sorted(range(len(shape)), key=lambda dim: (shape[dim] < 2, strides[dim]))
    return is_contiguous(shape, strides, order)


# %%
#| into: c10/core/contiguity.py
#| upstream: aten/src/ATen/TensorIterator.cpp#at::TensorIteratorBase::reorder_dimensions
#| upstream: aten/src/ATen/ExpandUtils.cpp#at::infer_dense_strides
def strides_of_result(shape: Ints, operands: Sequence[tuple[Ints, Ints]]) -> Ints:
    """The strides of what is computed of operands, given by shape and strides, that are broadcast to `shape`."""
    first = operands[0][1] if operands else ()
    if all(sizes == shape for sizes, _ in operands):
        if all(is_contiguous(*operand) for operand in operands):
            return contiguous_strides(shape)
        if len(shape) == 4 and all(is_contiguous(*operand, channels_innermost(4)) for operand in operands):
            return dense_strides(shape, channels_innermost(4))
        if all(steps == first for _, steps in operands) and is_non_overlapping_and_dense(shape, first):
            return first
    rank = len(shape)
    stretched = []
    for sizes, steps in operands:
        lead = rank - len(sizes)
        stretched.append((0,) * lead + tuple(0 if n == 1 != shape[lead + i] else steps[i] for i, n in enumerate(sizes)))
    order = list(range(rank - 1, -1, -1))
    for start in range(1, rank):
        place = start
        for before in range(start - 1, -1, -1):
            verdict = _inside_out(shape, stretched, order[before], order[place])
            if verdict > 0:
                order[before], order[place] = order[place], order[before]
                place = before
            elif verdict < 0:
                break
    return dense_strides(shape, order)


def strides_of_copy(shape: Ints, strides: Ints) -> Ints:
    """The strides of a copy that keeps the order of its source: the same if that has no gaps and no element twice."""
    return strides if is_non_overlapping_and_dense(shape, strides) else strides_of_result(shape, [(shape, strides)])


def _inside_out(shape: Ints, operands: Sequence[Ints], one: int, other: int) -> int:
    """Positive if dimension `one` is to lie outside of `other`, negative if inside, 0 if no operand can tell."""
    for steps in operands:
        if steps[one] and steps[other]:
            if steps[one] != steps[other]:
                return 1 if steps[one] > steps[other] else -1
            if shape[one] > shape[other]:
                return 1
    return 0


# %%
#| needs: a1_operators
image = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
(
    image.stride(),
    (image * 2).stride(),
    (torch.ones(3, 4).t() + 1).stride(),
    (torch.ones(4, 3) + torch.ones(4, 1).expand(4, 3)).stride(),
)


# %%
#| claim: where two operands lie in memory in different orders, the first decides
#| differs: NumPy allocates our results, and falls back to the order of C
def _(torch):
    turned, straight = torch.ones(4, 3).t(), torch.ones(3, 4)
    assert (turned + straight).stride() == (1, 3) and (straight + turned).stride() == (4, 1)


# %% [markdown]
# Whether a view is possible is arithmetic as well. Walk over the old dimensions from the last to the first and cut them
# into runs that one stride could walk; then see whether the new shape can be made by splitting and merging inside each
# run. None means that only a copy could have that shape. ([The first
# operators](08_first_operators.py#shapes-why-are-the-derivatives-shapes-again) show the runs of some tensors.)


# %%
#| into: c10/core/contiguity.py
#| upstream: aten/src/ATen/TensorUtils.cpp#at::detail::computeStride
def strides_of_view(shape: Ints, strides: Ints, wanted: Ints) -> Ints | None:
    """The strides that show these elements in the shape `wanted`, which has as many; None if only a copy could."""
    if 0 in shape:
        return strides if shape == wanted else contiguous_strides(wanted)
    result, left = [1] * len(wanted), len(wanted) - 1
    step, count, filled = strides[-1] if strides else 1, 1, 1
    for dim in range(len(shape) - 1, -1, -1):
        count *= shape[dim]
        if dim and (shape[dim - 1] == 1 or strides[dim - 1] == count * step):
            continue
        while left >= 0 and (filled < count or wanted[left] == 1):
            result[left] = filled * step
            filled *= wanted[left]
            left -= 1
        if filled != count:
            return None
        if dim:
            step, count, filled = strides[dim - 1], 1, 1
    for dim in range(left, -1, -1):
        result[dim] = filled * step
        filled *= wanted[dim]
    return tuple(result) if left < 0 or filled == count else None


# %% [markdown]
# ### Where may a write go?
#
# Before an in-place operation writes, two questions are asked, and both must be cheap.
#
# *Do two elements of the tensor share a place?* A dense tensor has none that do, and a stride of 0 has some. Between the
# two upstream answers "too hard to tell" and lets the write through: with `as_strided` one can build tensors whose
# overlap is a question of number theory.
#
# *Does the tensor share part of its memory with an operand?* `x.add_(x)` is harmless, because each element is read before
# it is written. `x[1:].add_(x[:-1])` would read what it had written one step before.

# %%
#| into: aten/memory_overlap.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core.dispatch_key import MetaArray
from readtorch.c10.core.storage_impl import data_address, owner_of


# %%
#| into: aten/memory_overlap.py
#| upstream: aten/src/ATen/MemoryOverlap.cpp#at::assert_no_internal_overlap
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


# %%
#| into: aten/memory_overlap.py
#| upstream: aten/src/ATen/MemoryOverlap.cpp#at::get_overlap_status
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


# %% tags=["raises-exception"]
#| needs: a1_operators
counters = torch.zeros(4)
counters[1:].add_(counters[:-1])


# %%
#| claim: an in-place operation on a tensor whose elements share memory by a stride of 0 is refused; filling it is not, since one value is as good as two
#| source: pytorch/pytorch#15358
#| upstream: aten/src/ATen/MemoryOverlap.h#at::assert_no_internal_overlap
#| needs: a1_operators
def _(torch):
    x = torch.zeros(3).expand(2, 3)
    for write in (lambda: x.add_(1), lambda: x.copy_(torch.ones(2, 3)), lambda: torch.add(torch.ones(2, 3), 1, out=x)):
        try:
            write()
        except RuntimeError as error:
            assert "single memory location" in str(error)
        else:
            raise AssertionError("written")
    assert x.fill_(2).sum() == 12 and x.zero_().sum() == 0


# %%
#| claim: an operand that shares a part of the written memory is refused; one that is all of it, or far enough away, is not
#| upstream: aten/src/ATen/MemoryOverlap.h#at::assert_no_partial_overlap
#| needs: a1_operators
def _(torch):
    x = torch.arange(4.0)
    assert x.clone().add_(x).tolist() == [0, 2, 4, 6]
    assert x[:2].add_(x[2:]).tolist() == [2, 4]
    square = torch.ones(3, 3)
    for write in (lambda: x[1:].add_(x[:-1]), lambda: square.copy_(square.t()), lambda: x.add_(x[0])):
        try:
            write()
        except RuntimeError as error:
            assert (
                "some elements of the input tensor and the written-to tensor refer to a single memory location"
                in str(error)
            )
        else:
            raise AssertionError("written")


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "A contiguous tensor is one that owns its memory." Contiguity is a statement about strides:
# > walking the elements in order visits neighbouring addresses. Any row of a contiguous tensor is contiguous, and owns nothing.


# %%
#| claim: a slice of a contiguous tensor can be contiguous while looking into a larger storage
#| needs: a1_operators
def _(torch):
    x = torch.zeros(4, 3)
    part = x[1:3]
    assert part.is_contiguous() and part.storage_offset() == 3
    assert part.untyped_storage().nbytes() == 48
    assert not x[:, :2].is_contiguous()


# %% [markdown]
# ## How does autograd notice a write?
#
# `exp` keeps its result, because the derivative of eˣ is that result. If the program then adds one to it in place,
# backward uses a wrong number and says nothing. `.data` goes around the protection, so it shows what that looks like:

# %%
#| needs: a1_operators
a = torch.zeros(1, requires_grad=True)
b = a.exp()
b.data.add_(1)
b.sum().backward()
a.grad

# %% [markdown]
# The derivative of eˣ at 0 is 1. Without `.data` the same program stops:

# %% tags=["raises-exception"]
#| needs: a1_operators
b = a.exp()
b.add_(1)
b.sum().backward()

# %% [markdown]
# For that, every piece of memory has a **version counter**. Each in-place operation bumps it. Whoever keeps a tensor for
# backward notes the number and compares it before use. All views of one memory share one counter, because a write through
# one of them changes what the others show.
#
# Almost no tensor is ever written to or viewed, so our counter is made at the first view or write. Until then its absence
# means zero.

# %%
#| into: c10/core/tensor_impl.py
#| imports
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from readtorch.c10.core.autograd_state import counts, state


# %%
#| into: c10/core/tensor_impl.py
#| upstream: c10/core/TensorImpl.h#c10::VariableVersion
class VariableVersion:
    """Counts in-place writes to one memory.

    `views` are the tensors that look into it and were made, or brought up to date, after the last write; `behind` are those that
    were not. Both hold them weakly.
    """

    __slots__ = ("behind", "room", "value", "views")

    def __init__(self) -> None:
        self.value = 0
        self.room = 64
        self.views: list[weakref.ref] | None = None
        self.behind: dict[int, weakref.ref] | None = None

    def register_view(self, view: TensorImpl) -> None:
        """Remember a view whose edge is right as of now. Dead entries are swept when there are as many, it may be, as living ones."""
        views = self.views
        if views is None:
            self.views = [weakref.ref(view)]
            return
        if len(views) >= self.room:
            views[:] = [entry for entry in views if entry() is not None]
            self.room = 64 + 2 * len(views)
        views.append(weakref.ref(view))

    def bump(self) -> None:
        """The memory was written to: what its views say of their history may be wrong from now on."""
        self.value += 1
        views = self.views
        if views is not None:
            self.views = None
            behind = self.behind = {} if self.behind is None else self.behind
            if len(behind) & 63 == 63:
                for key in [key for key, entry in behind.items() if entry() is None]:
                    del behind[key]
            for entry in views:
                view = entry()
                if view is not None:
                    behind[id(view)] = entry
                    view.fall_behind()

    def entries(self) -> list[weakref.ref]:
        """The references by which the views of this memory are remembered."""
        return [*(self.views or ()), *(self.behind or {}).values()]

    def living_views(self) -> list[TensorImpl]:
        """All views of this memory that still exist."""
        return [view for entry in self.entries() if (view := entry()) is not None]

    def exchange(self, a: TensorImpl, b: TensorImpl) -> None:
        """Each of two objects is from now on the view that the other was."""
        other = {id(a): weakref.ref(b), id(b): weakref.ref(a)}
        self.views = None if self.views is None else [other.get(id(entry()), entry) for entry in self.views]
        if self.behind is not None:
            changed = [other.get(key, entry) for key, entry in self.behind.items()]
            self.behind = {id(view): entry for entry in changed if (view := entry()) is not None}


# %% [markdown]
# `value` is the whole idea; the other fields are for a harder case. When memory is written to, everything that views of
# it know about their history may be wrong: they all show a value now that the in-place operation made. Upstream's views
# find out at the next read of `grad_fn`, by comparing the version with the one they remember. In Python such a comparison
# would cost too much, in every operator. So here the counter tells the views: `bump` *empties the slot* of each edge that
# may be wrong. A fast path reads the slot as before; where it is empty, Python raises `AttributeError`, and the slow path
# works out the history. ([A tensor's place in the graph](05a_place_in_the_graph.py) has that path.)

# %%
#| fact: torch/csrc/autograd/variable.h#torch::autograd::DifferentiableViewMeta

# %% [markdown]
# ## What is a tensor, as an object?
#
# Upstream it is three objects: `TensorImpl` with the data, `AutogradMeta` attached to it, and the Python object
# `THPVariable` around both. Here it is one.
#
# ```mermaid
# flowchart LR
#   accTitle: What a tensor consists of, upstream and here
#   accDescr: Upstream a Python object points to a TensorImpl, which points to a storage, a version counter and an AutogradMeta with grad, grad_fn and hooks. Here one object has slots for the array, the edge, the counter, the view, the gradient and the rest
#   subgraph R["readtorch"]
#     T["Tensor<br/>(six slots)"] -- "_array" --> A["ndarray, its .base"]
#     T -- "_vc" --> V2["VariableVersion"]
#     T -- "_edge" --> N["Node"]
#     T -- "_grad" --> G["Tensor"]
#   end
#   subgraph U["upstream"]
#     P["THPVariable<br/>(Python)"] --> I["TensorImpl<br/>sizes, strides, dtype, keys"]
#     I --> St["StorageImpl"]
#     I --> V["VariableVersion"]
#     I --> M["AutogradMeta<br/>grad, grad_fn, hooks"]
#   end
# ```
#
# Why three? The halves have different owners. C++ may hold a `TensorImpl`, for backward say, after Python has dropped its
# last name for the object; when the tensor comes back to Python, `x.foo` must still be there. So each half counts
# references to the other: while C++ holds the tensor, it holds the Python object too (`PyObjectSlot`, and a bit in the
# reference count of `intrusive_ptr`).
#
# Python alone needs no such agreement. One object with slots does, and every nanosecond counts, because this class is
# instantiated once per operation. Six slots have what the fast path reads and writes. What a user attaches goes to the
# instance dictionary, which costs nothing until it is used.
#
# | slot | holds |
# |---|---|
# | `_array` | the raw array: NumPy's on the CPU, CuPy's on a GPU. Shape, strides, dtype and offset are its own |
# | `_edge` | where the gradient goes: a node, a pair (node, output number), or None where no gradient is wanted |
# | `_vc` | the version counter, None while zero and unshared |
# | `_view` | for a view that autograd tracks: its base, how to take it again, and under which circumstances it was made |
# | `_grad` | the accumulated gradient of a leaf |
# | `_meta` | rarely used facts: a name, hooks, the dtype gradients must have |


# %%
#| into: c10/core/tensor_impl.py
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl
class TensorImpl:
    """The tensor. Known to Python as `torch._C.TensorBase`; its methods are bound to it by `csrc/autograd/python_variable.py`."""

    __slots__ = ("__dict__", "__weakref__", "_array", "_edge", "_grad", "_meta", "_vc", "_view")
    _array: Any
    _edge: Any
    _vc: VariableVersion | None
    #: of a view: (base, steps, creation), and as a fourth, once the memory was written to, the edge that the view had before
    _view: tuple | None
    _grad: Any
    _meta: dict[str, Any] | None

    def fall_behind(self) -> None:
        """This view's memory was written to. Its edge, unless there is none to find, is to be asked for (`gradient_edge`)."""
        assert self._view is not None
        own = getattr(self, "_edge", None)
        self._view = (*self._view, own)
        if own is not None or self._view[0]._edge is not None:
            self.forget_edge()

    def forget_edge(self) -> None:
        """Empty the slot of the edge."""
        if hasattr(self, "_edge"):
            del self._edge

    if TYPE_CHECKING:
        #: bound at import, for the type checker's eyes: attributes, methods and Python's operators
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def _operator(self, other: Any) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __pow__ = __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __matmul__ = __rmatmul__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _operator

        def __neg__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __index__(self) -> int: ...


# %%
#| fact: c10/core/impl/PyObjectSlot.h#c10::impl::PyObjectSlot
#| fact: torch/csrc/autograd/variable.h#torch::autograd::AutogradMeta


# %%
#| needs: a1_operators
#| claim: a tensor that only the graph holds keeps its Python object: the attribute that a program set is there when it comes back
def _(torch):
    import weakref

    leaf = torch.ones(2, requires_grad=True)
    hidden = leaf * 1
    hidden.note = "mine"
    there, square = weakref.ref(hidden), hidden * hidden
    del hidden
    assert there() is not None and square.grad_fn._saved_self.note == "mine"
    del square
    assert there() is None


# %%
#| needs: a1_operators
plain, leaf = torch.ones(2), torch.ones(2, requires_grad=True)
result = leaf * 2
for tensor in (plain, leaf, result, plain[0]):
    print({slot: getattr(tensor, slot) for slot in ("_array", "_edge", "_vc")})

# %% [markdown]
# One knot is left. Operators must return objects of the class `Tensor`, which is defined far above them. Upstream has a
# global slot for it, `THPVariableClass`, that the Python side fills at import; ours is the variable `Tensor` below.

# %%
#| into: c10/core/tensor_impl.py
#| upstream: torch/csrc/autograd/python_variable.cpp#THPVariable_Wrap
#: the class of every tensor that an operator returns; `_tensor` puts `Tensor` here when it is imported
Tensor: Any = TensorImpl
new: Any = object.__new__

#: the `_meta` of a tensor that was made in inference mode
INFERENCE = {"inference": True}


def is_inference(tensor: Any) -> bool:
    """Was it made in inference mode, and has no version counter therefore?"""
    return tensor._meta is not None and "inference" in tensor._meta


def wrap(array: Any, edge: Any = None) -> Any:
    """A fresh tensor around an array. 0-d results of NumPy functions may be scalars: they become arrays again."""
    if array.__class__ is not np.ndarray and isinstance(array, np.generic):
        array = np.asarray(array)
    tensor = new(Tensor)
    tensor._array = array
    tensor._edge = edge
    tensor._vc = None
    tensor._view = None
    tensor._grad = None
    tensor._meta = None
    return special(tensor) if counts.special else tensor


def special(tensor: Any) -> Any:
    """A fresh tensor as the modes of this thread have it."""
    if state.inference_mode:
        tensor._meta = INFERENCE
    return state.layers[-1].lift(tensor) if state.layers else tensor


def init(tensor: Any, array: Any, edge: Any = None) -> Any:
    """Fill the slots of a tensor made by a subclass's `__new__`."""
    tensor._array = array
    tensor._edge = edge
    tensor._vc = None
    tensor._view = None
    tensor._grad = None
    tensor._meta = None
    return tensor


# %% [markdown]
# The counter is made late, so somebody may have to be told. A node that keeps *its own result* (`exp`) did so before
# there was a counter to read.


# %%
#| into: c10/core/tensor_impl.py
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl::version_counter
def version_counter(tensor: Any) -> VariableVersion:
    """The tensor's version counter, made now if there was none."""
    counter = tensor._vc
    if counter is None:
        counter = tensor._vc = VariableVersion()
        edge = tensor._edge
        if edge is not None:
            if edge.__class__ is tuple:
                edge[0].output_has_counter(edge[1], counter)
            else:
                edge.output_has_counter(0, counter)
    return counter


def current_version(tensor: Any) -> int:
    """How often the memory behind this tensor was written to."""
    return 0 if tensor._vc is None else tensor._vc.value


# %%
#| needs: a1_operators
kept = torch.ones(2)
before = kept._vc
kept.add_(1)
before, tensor_impl.current_version(kept), kept[0]._vc is kept._vc

# %% [markdown]
# ## Why is `x.shape` not a plain tuple?
#
# Because programs ask it for `numel()`. `torch.Size` is a subclass of tuple: it unpacks, compares and hashes as one, and
# has a `repr` of its own. What needs care is that *operations* on it give a `Size` again, so that `x.shape[:-1].numel()`
# works.

# %%
#| into: csrc/size.py
#| imports
from __future__ import annotations

import math
from typing import Any, SupportsIndex


# %%
#| into: csrc/size.py
#| upstream: torch/csrc/Size.cpp#THPSize_pynew
class Size(tuple[int, ...]):
    """A shape: a tuple of ints whose slices and sums are shapes again."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        values = tuple(sizes)
        for position, value in enumerate(values):
            if value.__class__ is not int:
                try:
                    values = (*values[:position], value.__index__(), *values[position + 1 :])
                except (AttributeError, TypeError):
                    kind = type(value).__name__
                    raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{kind}')") from None
        return tuple.__new__(cls, values)

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(tuple(other), self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


# %%
shape = torch.zeros(2, 3, 4).shape
shape[:2], shape + (5,), shape.numel(), isinstance(shape, tuple), shape == (2, 3, 4)

# %% [markdown]
# ## Who shares a version counter, and who does not?
#
# A row is taken of a matrix and written to. In the trace, `version_counter` makes a counter for the matrix when the row
# is taken, the row gets the same one, and `bump` raises it for both.

# %%
#| needs: a1_operators
x = torch.zeros(2, 3)

# %%
#| needs: a1_operators
#| trace: torch.c10.core.tensor_impl torch.csrc.autograd.variable torch.csrc.autograd.variable_type layers=calls,ops values=summary title="x[0].add_(1): a view shares the counter, a write raises it"
row = x[0]
row.add_(1)

# %%
#| needs: a1_operators
x._version, row._version, x.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()


# %%
#| claim: a view shares the version counter and the storage; `.detach()` does too; `.data` shares the memory and not the counter
#| needs: a1_operators
def _(torch):
    x = torch.zeros(2, 3)
    x[0].add_(1)
    assert x._version == 1
    assert x.detach()._version == 1 and x.data._version == 0
    x.detach().mul_(2)
    x.data.mul_(2)
    assert x._version == 2
    assert x.data.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


# %%
#| claim: a storage belongs to the memory, not to the view: its size is that of the whole
#| needs: a1_operators
def _(torch):
    x = torch.arange(10, dtype=torch.float32)
    half = x[5:]
    assert half.untyped_storage().nbytes() == 40
    assert half.storage_offset() == 5
    assert half.untyped_storage().data_ptr() == x.data_ptr()


# %% [markdown]
# `detach` shares the counter because it means "the same values, outside the graph": a write through it changes what the
# graph may have kept. `.data` is older. It comes from the time when a `Variable` wrapped a tensor and `.data` was that
# tensor; code relied on writing through it unseen, so its counter starts afresh. Everything that `.data` is used for
# today has a safe form: `detach()` to read, `with torch.no_grad():` to write.


# %%
#| claim: a write through detach() is caught in backward, a write through .data is not
def _(torch):
    def gradient(write):
        x = torch.ones(1, requires_grad=True)
        y = x * 1
        z = y * y
        write(y)
        z.backward()
        return x.grad.item()

    assert gradient(lambda y: None) == 2
    assert gradient(lambda y: y.data.mul_(100)) == 200
    try:
        gradient(lambda y: y.detach().mul_(100))
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("not noticed")


# %% [markdown]
# ## Who keeps whom alive?
#
# A view holds the memory. A view that autograd tracks also holds its base, because its derivative may have to be found
# again through it. Nothing holds a view: the counter's list is weak. So there is no reference cycle, and reference
# counting frees everything as soon as the last name is gone.

# %%
#| needs: a1_operators
base = torch.ones(3, requires_grad=True) * 1
view = base[1:]
gone = weakref.ref(view)
gc.disable()
del view
freed = gone() is None
gc.enable()
freed, len(base._vc.views)

# %% [markdown]
# ### What upstream does more
#
# * Sizes and strides may be symbolic (`SymInt`), so that a compiler can trace one graph for all batch sizes.
# * A storage's bytes come from an allocator and know how to be freed; on a GPU from a caching one (see `c10/cuda`).
# * A storage can be resized, shared between processes, mapped from a file, or copied at the first write. The part on
#   storages as objects has what ours does of this.
# * `TensorImpl` is subclassed for tensors without strides: sparse, nested, opaque ones.
#
# Memory, views and writes are settled; what is still missing is anything that computes. [The
# dispatcher](03_dispatcher.py) is the table of what there is to call.

# %%
#| fact: c10/core/Allocator.h#c10::Allocator
#| fact: c10/core/SymInt.h#c10::SymInt
#| fact: aten/src/ATen/SparseTensorImpl.h#at::SparseTensorImpl
#| fact: c10/core/impl/COW.h#c10::impl::cow::lazy_clone_storage
