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
# # Recurrent layers, packed sequences
#
# `nn.LSTM` owns, for each layer and direction, two weights and two biases, and hands all of them to one operator.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## Packed sequences
#
# Sequences of different lengths in one padded batch waste work on padding, and an LSTM that runs into padding ends in a state that
# depends on it. Packing sorts them by length and keeps, step by step, only the rows of the sequences that still run.

# %%
#| into: nn/utils/rnn.py
#| imports
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.csrc.utils.python_arg_parser import require


# %%
#| into: nn/utils/rnn.py
#| upstream: torch/nn/utils/rnn.py#PackedSequence
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


# %%
#| into: nn/utils/rnn.py
#| upstream: torch/nn/utils/rnn.py#invert_permutation
def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes `permutation`."""
    if permutation is None:
        return None
    inverse = torch.empty_like(permutation)
    inverse[permutation] = torch.arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return inverse


# %% [markdown]
# In a padded batch `(T, N, *)` the places that hold data are those of step `t` and sequence `n` with `t < length[n]`. Packing selects
# them in that order; padding selects from the packed rows with one row of padding added.


# %%
#| into: nn/utils/rnn.py
#| upstream: torch/nn/utils/rnn.py#pack_padded_sequence
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


# %%
#| into: nn/utils/rnn.py
#| upstream: torch/nn/utils/rnn.py#pad_packed_sequence
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


# %%
#| into: nn/utils/rnn.py
#| upstream: torch/nn/utils/rnn.py#pad_sequence
#| upstream: torch/nn/utils/rnn.py#unpad_sequence
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


# %% [markdown]
# ## What the three layers have in common

# %%
#| into: nn/modules/rnn.py
#| imports
from __future__ import annotations

import math
import numbers
import warnings
import weakref
from typing import Any

import readtorch as torch
from readtorch._C import _nn
from readtorch._tensor import Tensor
from readtorch.nn import init
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter
from readtorch.nn.utils.rnn import PackedSequence

# %%
#| into: nn/modules/rnn.py
#| upstream: torch/nn/modules/rnn.py#RNNBase
#| upstream: torch/nn/modules/rnn.py#apply_permutation
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """An old name of `tensor.index_select(dim, permutation)`."""
    message = "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead"
    warnings.warn(message, FutureWarning, stacklevel=2)
    return _apply_permutation(tensor, permutation, dim)


class RNNBase(Module):
    """Parameters, checks and shapes of `RNN`, `LSTM` and `GRU`."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._flat_weight_refs: list[Any] = []
        self._flat_weights: list[Any] = []
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                self._add_layer(layer, suffix, device, dtype)
        self._init_flat_weights()
        self.reset_parameters()

    def _add_layer(self, layer: int, suffix: str, device: Any, dtype: Any) -> None:
        gates = self.hidden_size if _GATES[self.mode] == 1 else _GATES[self.mode] * self.hidden_size
        out = self.proj_size or self.hidden_size
        inputs = self.input_size if layer == 0 else out * (2 if self.bidirectional else 1)
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, inputs), "weight_hh": (gates, out)}
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = []
        for kind, shape in shapes.items():
            names.append(f"{kind}_l{layer}{suffix}")
            setattr(self, names[-1], Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self._flat_weights_names.extend(names)
        self._all_weights.append(names)

    def reset_parameters(self) -> None:
        """All from U(-b, b), b = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value is not usual if isinstance(usual, bool) else value != usual:
                text += f", {name}={value}"
        return text

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]


# %%
#| into: nn/modules/rnn.py
def _check_arguments(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bias: bool,
    batch_first: bool,
    dropout: float,
    proj_size: int,
) -> None:
    float(dropout)  # TypeError for what is none
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError("dropout should be a number in range [0, 1]: how likely each element is to become zero")
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so it does nothing unless num_layers "
            f"is above 1: here dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


# %% [markdown]
# The operator takes the parameters as a list, and building it by attribute look-up on every call would be slow: `_flat_weights` caches
# it. Whoever replaces a parameter must not leave a stale entry: that is what `__setattr__` and the weak references are for.


# %%
#| into: nn/modules/rnn.py
#| upstream: torch/nn/modules/rnn.py#RNNBase._init_flat_weights
#| upstream: torch/nn/modules/rnn.py#RNNBase.flatten_parameters
class RNNBase(RNNBase):
    def _init_flat_weights(self) -> None:
        self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]

    def __setattr__(self, name: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names", ())
        if name in names and len(self._flat_weights) == len(names):
            self._flat_weights[names.index(name)] = value
        super().__setattr__(name, value)

    def flatten_parameters(self) -> None:
        """Nothing: cuDNN wants the parameters in one piece of memory, no kernel here does."""

    def _update_flat_weights(self) -> None:
        for ref, name in zip(self._flat_weight_refs, self._flat_weights_names, strict=False):
            if ref is not None and ref() is not getattr(self, name, None):
                self._init_flat_weights()
                return

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._flat_weight_refs = []
        result = super()._apply(fn, recurse)
        self._init_flat_weights()
        return result

    def _replicate_for_data_parallel(self) -> Any:
        replica = super()._replicate_for_data_parallel()
        for shared in ("_flat_weights", "_flat_weights_names"):
            setattr(replica, shared, list(getattr(replica, shared)))
        return replica

    def __getstate__(self) -> dict[str, Any]:
        self._update_flat_weights()
        #: Weak references cannot be pickled.
        return {key: value for key, value in self.__dict__.items() if key != "_flat_weight_refs"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)
        self._init_flat_weights()


# %%
#| into: nn/modules/rnn.py
#| upstream: torch/nn/modules/rnn.py#RNNBase.check_input
#| upstream: torch/nn/modules/rnn.py#RNNBase.get_expected_hidden_size
class RNNBase(RNNBase):
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """ValueError for another dtype than the weights', RuntimeError for a wrong rank or number of features."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}): "
                f"bring one to the other's, by input.to({weight.dtype}) or model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _expected_state(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        if batch_sizes is not None:
            n = int(batch_sizes[0])
        else:
            n = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), n, size

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """`(layers · directions, N, H)`, H being `proj_size` if there is one."""
        return self._expected_state(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """RuntimeError if a state has another shape."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """All checks of a call."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states in another order of the batch."""
        return hx if permutation is None else _apply_permutation(hx, permutation)


# %% [markdown]
# One call. Packed or not, batched or not, with states or without: each case is brought to the operator's form and its result back.


# %%
#| into: nn/modules/rnn.py
#| upstream: torch/nn/modules/rnn.py#LSTM.forward
class RNNBase(RNNBase):
    def _zero_states(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[Tensor, ...]:
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return (torch.zeros(shape, dtype=input.dtype, device=input.device),)

    def _states_ranked(self, states: tuple[Tensor, ...], rank: int) -> bool:
        return all(state.dim() == rank for state in states)

    def _wrong_rank(self, states: tuple[Tensor, ...], batched: bool) -> RuntimeError:
        batch, rank = ("batched 3-D", 3) if batched else ("unbatched 2-D", 2)
        got = ", ".join(f"{state.dim()}-D" for state in states)
        if len(states) == 1:
            return RuntimeError(f"For {batch} input, hx should also be {rank}-D but got {got} tensor")
        return RuntimeError(f"For {batch} input, hx and cx should also be {rank}-D but got ({got}) tensors")

    def _run(self, input: Any, states: tuple[Tensor, ...] | None) -> tuple[Any, tuple[Tensor, ...]]:
        """The output, packed if the input is, and the last states."""
        self._update_flat_weights()
        if isinstance(input, PackedSequence):
            data, batch_sizes, sorted_indices, unsorted_indices = input
            if states is None:
                states = self._zero_states(data, batch_sizes)
            elif sorted_indices is not None:
                states = tuple(_apply_permutation(state, sorted_indices) for state in states)
            output, *last = self._call(data, states, batch_sizes)
            if unsorted_indices is not None:
                last = [_apply_permutation(state, unsorted_indices) for state in last]
            return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), tuple(last)
        if input.dim() not in (2, 3):
            kind = self.mode.split("_")[0]
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        if states is not None and not self._states_ranked(states, 3 if batched else 2):
            raise self._wrong_rank(states, batched)
        if batched:
            output, *last = self._call(input, states or self._zero_states(input, None), None)
            return output, tuple(last)
        axis = 0 if self.batch_first else 1
        input = input.unsqueeze(axis)
        given = self._zero_states(input, None) if states is None else tuple(state.unsqueeze(1) for state in states)
        output, *last = self._call(input, given, None)
        return output.squeeze(axis), tuple(state.squeeze(1) for state in last)

    def _call(self, input: Tensor, states: tuple[Tensor, ...], batch_sizes: Tensor | None) -> Any:
        self.check_forward_args(input, states if len(states) > 1 else states[0], batch_sizes)
        sizes = None if batch_sizes is None else batch_sizes.tolist()
        return _nn._recurrent(
            input,
            states,
            self._flat_weights,
            self.mode,
            self.bias,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
            sizes,
            self.proj_size > 0,
        )


# %% [markdown]
# ## RNN, LSTM, GRU


# %%
#| into: nn/modules/rnn.py
#| upstream: torch/nn/modules/rnn.py#RNN
#| upstream: torch/nn/modules/rnn.py#LSTM
#| upstream: torch/nn/modules/rnn.py#GRU
class RNN(RNNBase):
    """Elman RNN: `h' = tanh(W x + b + U h + b')`, or ReLU.

    Arguments: input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
    bidirectional=False. Input `(T, N, input_size)`, `(N, T, input_size)` with batch_first, without batch, or packed. Returns
    the output of all steps and the last hidden state `(layers · directions, N, hidden_size)`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if nonlinearity not in modes:
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(modes[nonlinearity], *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, (hidden,) = self._run(input, None if hx is None else (hx,))
        return output, hidden


class GRU(RNNBase):
    """Gated recurrent unit (Cho et al. 2014); arguments and shapes as `RNN`, without nonlinearity."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, (hidden,) = self._run(input, None if hx is None else (hx,))
        return output, hidden


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997); as `RNN`, with a pair of states and `proj_size`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """`(layers · directions, N, hidden_size)`."""
        return self._expected_state(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """All checks of a call."""
        self.check_input(input, batch_sizes)
        wanted = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for number, (state, size) in enumerate(zip(hidden, wanted, strict=True)):
            self.check_hidden_size(state, size, f"Expected hidden[{number}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Both states in another order of the batch."""
        return hx if permutation is None else tuple(_apply_permutation(state, permutation) for state in hx)

    def _zero_states(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[Tensor, ...]:
        shapes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        return tuple(torch.zeros(shape, dtype=input.dtype, device=input.device) for shape in shapes)

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, ...]]:
        return self._run(input, None if hx is None else (hx[0], hx[1]))


# %% [markdown]
# ## Cells
#
# One step, for those who write the loop themselves.


# %%
#| into: nn/modules/rnn.py
#| upstream: torch/nn/modules/rnn.py#RNNCellBase
class RNNCellBase(Module):
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(torch.empty((gates, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(torch.empty((gates, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            values = Parameter(torch.empty(gates, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All from U(-b, b), b = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _step(self, function: Any, input: Tensor, states: tuple[Tensor, ...] | None, count: int) -> Any:
        """Call an operator of `(input, states, parameters)` with or without a batch dimension."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for number, state in enumerate(states or ()):
            if state.dim() not in (1, 2):
                which = "hidden" if count == 1 else f"hx[{number}]"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")
        batched = input.dim() == 2
        if batched and any(state.dim() == 1 for state in states or ()):
            raise RuntimeError(f"Input batch size {input.size(0)} doesn't match that of a hidden state without batch")
        if not batched:
            input = input.unsqueeze(0)
            states = states and tuple(state.unsqueeze(0) for state in states)
        if states is None:
            zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            states = (zeros,) * count
        parameters = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        result = function(input, states if count > 1 else states[0], *parameters)
        if batched:
            return result
        return tuple(state.squeeze(0) for state in result) if count > 1 else result.squeeze(0)


# %%
#| into: nn/modules/rnn.py
#| upstream: torch/nn/modules/rnn.py#RNNCell
#| upstream: torch/nn/modules/rnn.py#LSTMCell
#| upstream: torch/nn/modules/rnn.py#GRUCell
class RNNCell(RNNCellBase):
    """`tanh(W x + b + U h + b')`, or ReLU, of `(N, input_size)` and `(N, hidden_size)`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        functions = {"tanh": torch.rnn_tanh_cell, "relu": torch.rnn_relu_cell}
        if self.nonlinearity not in functions:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(functions[self.nonlinearity], input, None if hx is None else (hx,), 1)


class LSTMCell(RNNCellBase):
    """One LSTM step: `(h', c')` from `(N, input_size)` and `(h, c)`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if isinstance(hx, Tensor):
            raise TypeError("lstm_cell(): argument 'hx' must be tuple of Tensors, not Tensor")
        return self._step(torch.lstm_cell, input, None if hx is None else tuple(hx), 2)


class GRUCell(RNNCellBase):
    """One GRU step."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(torch.gru_cell, input, None if hx is None else (hx,), 1)


# %%
torch.manual_seed(0)
lstm = nn.LSTM(3, 4, num_layers=2)
output, (h, c) = lstm(torch.zeros(5, 2, 3))
output.shape, h.shape, c.shape


# %%
#| claim: a packed batch gives each sequence the last state that it has by itself
def _(torch):
    torch.manual_seed(0)
    gru = torch.nn.GRU(2, 3)
    long, short = torch.rand(4, 2), torch.rand(2, 2)
    packed = torch.nn.utils.rnn.pack_sequence([long, short])
    assert packed.batch_sizes.tolist() == [2, 2, 1, 1]
    _, last = gru(packed)
    assert torch.allclose(last[:, 1], gru(short)[1], atol=1e-6)
    assert torch.allclose(last[:, 0], gru(long)[1], atol=1e-6)


# %% [markdown]
# ## What is where?
#
# **In `weight_ih_l0`:** the gates one above the other, of an LSTM in the order i, f, g, o, of a GRU r, z, n. Two biases, because cuDNN has two; those of an LSTM are only ever added. (A forget gate that is to start open gets its bias in the *second* quarter.)
#
# **In `output[-1]`:** the last state of the forward direction, and of a backward direction the *first* one, which has seen one element. What a classifier wants is `h`, or `output[0]` for that half.
#
# **`batch_first`** speaks of input and output. The states are `(layers · directions, N, H)` in any case.
#
# **`dropout`** lies between layers. With one layer it does nothing, and says so when the layer is made.


# %%
#| claim: an LSTM's gates are in the order i, f, g, o; the backward direction ends at output[0]; batch_first leaves the states as they are; dropout of a single layer does nothing
#| upstream: torch/nn/modules/rnn.py#RNNBase
def _(torch):
    import warnings

    torch.manual_seed(0)
    cell, x = torch.nn.LSTMCell(1, 1), torch.ones(1, 1)
    h, c = cell(x, (torch.zeros(1, 1), torch.ones(1, 1)))
    i, f, g, o = cell.weight_ih @ x[0] + cell.bias_ih + cell.bias_hh
    by_hand = f.sigmoid() * 1 + i.sigmoid() * g.tanh()
    assert torch.allclose(c[0, 0], by_hand) and torch.allclose(h[0, 0], o.sigmoid() * by_hand.tanh())

    output, h = torch.nn.GRU(2, 3, bidirectional=True)(torch.rand(4, 1, 2))
    assert torch.equal(output[-1, 0, :3], h[0, 0]) and torch.equal(output[0, 0, 3:], h[1, 0])
    assert not torch.equal(output[-1, 0, 3:], h[1, 0])

    output, (h, c) = torch.nn.LSTM(2, 3, batch_first=True)(torch.rand(5, 4, 2))
    assert output.shape == (5, 4, 3) and h.shape == (1, 5, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.nn.LSTM(2, 3, dropout=0.5)
    assert "dropout option adds dropout after all but last recurrent layer" in str(caught[0].message)
