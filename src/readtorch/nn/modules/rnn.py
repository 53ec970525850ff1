# Tangled from chapters/a2_layers/09_recurrent.py — edit there, or here and run `readtorch sync`.

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
