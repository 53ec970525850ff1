# Tangled from chapters/a2_layers/09_recurrent.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.csrc.utils.python_arg_parser import require


class PackedSequence_(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


_T = TypeVar("_T")
_R = TypeVar("_R")


def bind(optional: _T | None, fn: Callable[[_T], _R]) -> _R | None:
    """`fn(optional)`, or None for None."""
    return None if optional is None else fn(optional)


class PackedSequence(PackedSequence_):
    """Rows `(sum of lengths, *)` step by step, and the number of sequences running at each step.

    `sorted_indices` is the order that sorted the sequences by length, None if they came sorted. Made by `pack_sequence` and
    `pack_padded_sequence`, not by hand.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. pack_sequence and "
                "pack_padded_sequence of nn.utils.rnn see to it: make a PackedSequence with them."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _converted(self, convert: Callable[[Tensor], Tensor], indices: Callable[[Tensor], Tensor]) -> Self:
        data = convert(self.data)
        if data is self.data:
            return self
        return type(self)(
            data, self.batch_sizes, bind(self.sorted_indices, indices), bind(self.unsorted_indices, indices)
        )

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The data converted as by `Tensor.to`; the indices follow it to its device."""
        data = self.data.to(*args, **kwargs)
        return self._converted(lambda _: data, lambda index: index.to(data.device))

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        return self.to(*args, **{"device": "cuda", **kwargs}) if not args else self.to(*args, **kwargs)

    def double(self) -> Self:
        return self.to(dtype=torch.double)

    def float(self) -> Self:
        return self.to(dtype=torch.float)

    def half(self) -> Self:
        return self.to(dtype=torch.half)

    def long(self) -> Self:
        return self.to(dtype=torch.long)

    def int(self) -> Self:
        return self.to(dtype=torch.int)

    def short(self) -> Self:
        return self.to(dtype=torch.short)

    def char(self) -> Self:
        return self.to(dtype=torch.int8)

    def byte(self) -> Self:
        return self.to(dtype=torch.uint8)

    def pin_memory(self) -> Self:
        return self._converted(lambda data: data.pin_memory(), lambda index: index.pin_memory())

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes `permutation`."""
    if permutation is None:
        return None
    inverse = torch.empty_like(permutation)
    inverse[permutation] = torch.arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return inverse


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack `(T, N, *)`, or `(N, T, *)` with `batch_first`, given the length of each sequence.

    Unless `enforce_sorted` the sequences may come in any order. Raises RuntimeError if they are not sorted although they
    should be, or if a length is not positive.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"pack_padded_sequence(): argument 'input' must be Tensor, not {type(input).__name__}")
    require("pack_padded_sequence", "bool", batch_first=batch_first)
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    lengths = torch.as_tensor(lengths, dtype=torch.int64).cpu()
    if lengths.dim() != 1:
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D")
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = torch.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    counts = lengths.tolist()
    _check_lengths(input, counts)
    steps = torch.arange(counts[0], device="cpu")
    running = steps.unsqueeze(1) < lengths.unsqueeze(0)
    batch_sizes = running.sum(1)
    rows = input[: counts[0]].reshape(counts[0] * len(counts), *input.shape[2:])
    places = running.reshape(-1).nonzero().reshape(-1).to(input.device)
    return PackedSequence(rows.index_select(0, places), batch_sizes, sorted_indices, None)


def _check_lengths(input: Tensor, counts: list[int]) -> None:
    if len(counts) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={input.size(1)})"
        )
    if min(counts) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in itertools.pairwise(counts)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement."
        )
    if counts[0] > input.size(0):
        raise RuntimeError(f"a length of {counts[0]} exceeds the padded length {input.size(0)}")


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo packing: the padded batch, in the original order, and the lengths."""
    sizes = sequence.batch_sizes
    longest = sizes.size(0)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence; "
            f"total_length={total_length}, and that is {longest}"
        )
    length = longest if total_length is None else total_length
    data, n = sequence.data, int(sizes[0])
    running = torch.arange(n, device="cpu").unsqueeze(0) < sizes.unsqueeze(1)
    lengths = running.sum(0)
    padding = torch.full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    source = torch.full((length * n,), data.size(0), dtype=torch.int64, device="cpu")
    source[running.reshape(-1).nonzero().reshape(-1)] = torch.arange(data.size(0), device="cpu")
    padded = torch.cat([data, padding]).index_select(0, source.to(data.device)).reshape(length, n, *data.shape[1:])
    if batch_first:
        padded = padded.transpose(0, 1)
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences `(L_i, *)` as one batch `(T, N, *)`, the shorter ones padded."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    require("pad_sequence", "str", padding_side=padding_side)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    rows = list(sequences)
    if not rows:
        raise RuntimeError("received an empty list of sequences")
    for number, row in enumerate(rows):
        if not isinstance(row, Tensor):
            raise TypeError(f"expected Tensor as element {number} in argument 0, but got {type(row).__name__}")
    require("pad_sequence", "bool", batch_first=batch_first)
    longest = max(row.size(0) for row in rows)
    padded = []
    for row in rows:
        for dim, (a, b) in enumerate(zip(rows[0].shape[1:], row.shape[1:], strict=True), 1):
            if a != b:
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"
                )
        missing = longest - row.size(0)
        sides = (0, missing) if padding_side == "right" else (missing, 0)
        padded.append(torch.constant_pad_nd(row, (*(0,) * (2 * (row.dim() - 1)), *sides), padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each at its own length."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    places = torch.arange(rows.shape[1], device=lengths.device)
    return [row[places < length] for row, length in zip(rows, lengths, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences `(L_i, *)`."""
    lengths = torch.as_tensor([row.size(0) for row in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch, in the original order."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
