# Tangled from chapters/a1_operators/nn_8_recurrent.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import autograd, composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.activation import keep_where
from readtorch.aten.native.linear_algebra import _one_dtype
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim
from readtorch.c10.util.exception import warn_once


def _steps(batch_sizes: Sequence[int], reverse: bool) -> list[tuple[int, slice]]:
    """(Sequences running, their rows) of each step, in the order in which the layer meets them."""
    ends = list(accumulate(batch_sizes))
    steps = [(size, slice(end - size, end)) for size, end in zip(batch_sizes, ends, strict=True)]
    return steps[::-1] if reverse else steps


def _sigmoid(x: Array) -> Array:
    """In place, without an exponential that could overflow."""
    x *= 0.5
    np.tanh(x, out=x)
    x += 1
    x *= 0.5
    return x


def _input_gates(data: Array, w_ih: Array, b_ih: Array | None, b_hh: Array | None) -> Array:
    gates = data @ w_ih.T
    for bias in (b_ih, b_hh):
        if bias is not None:
            gates += bias
    return gates


Step = Callable[[Any, Any, tuple[Any, ...]], tuple[tuple[Any, ...], tuple[Any, ...]]]
Back = Callable[[Any, tuple[Any, ...], tuple[Any, ...]], tuple[Any, Any, tuple[Any, ...]]]


def _unrolled_gradients(
    at: Any,
    step: Step,
    back: Back,
    d_output: Any,
    d_last: Sequence[Any],
    data: Any,
    states: Sequence[Any],
    weights: Sequence[Any],
    batch_sizes: Sequence[int],
    reverse: bool,
) -> tuple[Any, ...]:
    """The gradients with respect to data, states, both weights and both biases, by operators."""
    w_ih, w_hh, b_ih, b_hh = weights
    n, steps = states[0].shape[0], _steps(batch_sizes, reverse)
    gates, now, kept = at.linear(data, w_ih, b_ih), tuple(states), []
    for running, rows in steps:
        before = tuple(at.narrow(state, 0, 0, running) for state in now)
        own = (at.narrow(gates, 0, rows.start, running), at.linear(before[0], w_hh, b_hh))
        after, needed = step(at, own, before)
        kept.append((before[0], needed))
        now = tuple(_first_rows(at, new, old, running, n) for new, old in zip(after, now, strict=True))
    back_now = tuple(at.zeros_like(state) if grad is None else grad for grad, state in zip(d_last, states, strict=True))
    found = []
    for (running, rows), (hidden, needed) in zip(reversed(steps), reversed(kept), strict=True):
        arriving = [at.narrow(grad, 0, 0, running) for grad in back_now]
        if d_output is not None:
            arriving[0] = arriving[0] + at.narrow(d_output, 0, rows.start, running)
        d_gate, d_share, before = back(at, tuple(arriving), needed)
        through = at.matmul(d_share, w_hh)
        before = (through if before[0] is None else before[0] + through, *before[1:])
        back_now = tuple(_first_rows(at, new, old, running, n) for new, old in zip(before, back_now, strict=True))
        found.append((rows.start, d_gate, d_share, hidden))
    found.sort(key=lambda entry: entry[0])
    d_gates, d_shares, hiddens = (at.cat([entry[k] for entry in found], 0) for k in (1, 2, 3))
    d_weights = at.matmul(at.t(d_gates), data), at.matmul(at.t(d_shares), hiddens)
    return at.matmul(d_gates, w_ih), *back_now, *d_weights, at.sum(d_gates, 0), at.sum(d_shares, 0)


def _first_rows(at: Any, new: Any, old: Any, running: int, n: int) -> Any:
    """`old` with its first `running` rows replaced."""
    return new if running == n else at.cat([new, at.narrow(old, 0, running, n - running)], 0)


def _parts(at: Any, gates: Any, count: int) -> list[Any]:
    size = gates.shape[1] // count
    return [at.narrow(gates, 1, k * size, size) for k in range(count)]


@register(
    "_lstm_layer",
    variants="",
    outputs="output hy cy gates cells states",
    differentiable_outputs=(0, 1, 2),
    node="LstmLayer",
)
def _lstm_layer(
    data: Array,
    h0: Array,
    c0: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> tuple[Array, ...]:
    """Hidden states of all steps, the last hidden and cell state; and, for backward, gates and previous states."""
    kind = data.dtype
    data, w_ih, w_hh = in_working_precision(data), in_working_precision(w_ih), in_working_precision(w_hh)
    gates = _input_gates(data, w_ih, b_ih, b_hh)
    h, c = h0.astype(data.dtype), c0.astype(data.dtype)
    size = h.shape[1]
    output = np.empty((len(data), size), data.dtype)
    cells, states = np.empty_like(output), np.empty_like(output)
    recurrent = np.ascontiguousarray(w_hh.T)
    for running, rows in _steps(batch_sizes, reverse):
        gate = gates[rows]
        states[rows], cells[rows] = h[:running], c[:running]
        gate += h[:running] @ recurrent
        _sigmoid(gate[:, : 2 * size])
        np.tanh(gate[:, 2 * size : 3 * size], out=gate[:, 2 * size : 3 * size])
        _sigmoid(gate[:, 3 * size :])
        i, f, g, o = np.split(gate, 4, 1)
        cell = c[:running]
        cell *= f
        cell += i * g
        np.multiply(o, np.tanh(cell), out=h[:running])
        output[rows] = h[:running]
    if kind != data.dtype:
        output, h, c = output.astype(kind), h.astype(kind), c.astype(kind)
    return output, h, c, gates, cells, states


@register("_lstm_layer_backward", variants="", outputs="data h0 c0 w_ih w_hh b_ih b_hh")
def _lstm_layer_backward(
    d_output: Array | None,
    d_h: Array | None,
    d_c: Array | None,
    data: Array,
    w_ih: Array,
    w_hh: Array,
    gates: Array,
    cells: Array,
    states: Array,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> tuple[Array, ...]:
    """The gradients with respect to data, both states, both weights and both biases."""
    kind, size = data.dtype, states.shape[1]
    n = max(batch_sizes)
    dh = np.zeros((n, size), gates.dtype) if d_h is None else d_h.astype(gates.dtype)
    dc = np.zeros((n, size), gates.dtype) if d_c is None else d_c.astype(gates.dtype)
    w_hh = w_hh.astype(gates.dtype, copy=False)
    d_gates = np.empty_like(gates)
    for running, rows in reversed(_steps(batch_sizes, reverse)):
        i, f, g, o = np.split(gates[rows], 4, 1)
        di, df, dg, do = np.split(d_gates[rows], 4, 1)
        h, c, previous = dh[:running], dc[:running], cells[rows]
        if d_output is not None:
            h += d_output[rows]
        bent = np.tanh(f * previous + i * g)
        np.multiply(h * bent, o * (1 - o), out=do)
        c += h * o * (1 - bent * bent)
        np.multiply(c * g, i * (1 - i), out=di)
        np.multiply(c * previous, f * (1 - f), out=df)
        np.multiply(c * i, 1 - g * g, out=dg)
        c *= f
        np.matmul(d_gates[rows], w_hh, out=h)
    return _weight_gradients(d_gates, d_gates, data, w_ih, states, kind, dh, dc)


def _weight_gradients(
    d_gates: Array, d_hidden: Array, data: Array, w_ih: Array, states: Array, kind: Any, *d_states: Array
) -> tuple[Array, ...]:
    """What is left when the gates' gradients are known. `d_hidden` is that of the hidden state's share of the gates."""
    x, w = in_working_precision(data), in_working_precision(w_ih)
    found = (
        d_gates @ w,
        *d_states,
        d_gates.T @ x,
        d_hidden.T @ states,
        d_gates.sum(0),
        d_hidden.sum(0),
    )
    return tuple(array.astype(kind, copy=False) for array in found)


def _lstm_forth(at: Any, gates: Any, states: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    i, f, g, o = _parts(at, gates[0] + gates[1], 4)
    i, f, g, o = at.sigmoid(i), at.sigmoid(f), at.tanh(g), at.sigmoid(o)
    cell = f * states[1] + i * g
    bent = at.tanh(cell)
    return (o * bent, cell), (i, f, g, o, bent, states[1])


def _lstm_back(at: Any, grads: tuple[Any, ...], kept: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    i, f, g, o, bent, previous = kept
    h, c = grads
    c = c + h * o * (1 - bent * bent)
    parts = [c * g * i * (1 - i), c * previous * f * (1 - f), c * i * (1 - g * g), h * bent * o * (1 - o)]
    d_gate = at.cat(parts, 1)
    return d_gate, d_gate, (None, c * f)


def _lstm_gradients(
    at: Any,
    grads: Sequence[Any],
    data: Any,
    h0: Any,
    c0: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    gates: Any,
    cells: Any,
    states: Any,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> Any:
    if at is autograd:
        weights = (w_ih, w_hh, b_ih, b_hh)
        return _unrolled_gradients(
            at, _lstm_forth, _lstm_back, grads[0], grads[1:3], data, (h0, c0), weights, batch_sizes, reverse
        )
    return at._lstm_layer_backward(*grads[:3], data, w_ih, w_hh, gates, cells, states, batch_sizes, reverse)


derivative("_lstm_layer", {"data, h0, c0, w_ih, w_hh, b_ih, b_hh": _lstm_gradients})


@register(
    "_gru_layer",
    variants="",
    outputs="output hy gates candidates states",
    differentiable_outputs=(0, 1),
    node="GruLayer",
)
def _gru_layer(
    data: Array,
    h0: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> tuple[Array, ...]:
    """Hidden states of all steps and the last; and, for backward, gates, `U h + b'` of the candidate, previous states."""
    kind = data.dtype
    data, w_ih, w_hh = in_working_precision(data), in_working_precision(w_ih), in_working_precision(w_hh)
    gates = _input_gates(data, w_ih, b_ih, None)
    h = h0.astype(data.dtype)
    size = h.shape[1]
    output = np.empty((len(data), size), data.dtype)
    candidates, states = np.empty_like(output), np.empty_like(output)
    recurrent = np.ascontiguousarray(w_hh.T)
    for running, rows in _steps(batch_sizes, reverse):
        gate, hidden = gates[rows], h[:running]
        states[rows] = hidden
        share = hidden @ recurrent
        if b_hh is not None:
            share += b_hh
        gate[:, : 2 * size] += share[:, : 2 * size]
        _sigmoid(gate[:, : 2 * size])
        r, z, n = np.split(gate, 3, 1)
        candidates[rows] = share[:, 2 * size :]
        n += r * candidates[rows]
        np.tanh(n, out=n)
        hidden -= n
        hidden *= z
        hidden += n
        output[rows] = hidden
    if kind != data.dtype:
        output, h = output.astype(kind), h.astype(kind)
    return output, h, gates, candidates, states


@register("_gru_layer_backward", variants="", outputs="data h0 w_ih w_hh b_ih b_hh")
def _gru_layer_backward(
    d_output: Array | None,
    d_h: Array | None,
    data: Array,
    w_ih: Array,
    w_hh: Array,
    gates: Array,
    candidates: Array,
    states: Array,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> tuple[Array, ...]:
    """The gradients with respect to data, state, both weights and both biases."""
    kind, size = data.dtype, states.shape[1]
    dh = np.zeros((max(batch_sizes), size), gates.dtype) if d_h is None else d_h.astype(gates.dtype)
    w_hh = w_hh.astype(gates.dtype, copy=False)
    d_gates, d_hidden = np.empty_like(gates), np.empty_like(gates)
    for running, rows in reversed(_steps(batch_sizes, reverse)):
        r, z, n = np.split(gates[rows], 3, 1)
        dr, dz, dn = np.split(d_gates[rows], 3, 1)
        h = dh[:running]
        if d_output is not None:
            h += d_output[rows]
        np.multiply(h * (states[rows] - n), z * (1 - z), out=dz)
        np.multiply(h * (1 - z), 1 - n * n, out=dn)
        np.multiply(dn * candidates[rows], r * (1 - r), out=dr)
        d_hidden[rows] = d_gates[rows]
        d_hidden[rows][:, 2 * size :] *= r
        h *= z
        h += d_hidden[rows] @ w_hh
    return _weight_gradients(d_gates, d_hidden, data, w_ih, states, kind, dh)


def _gru_forth(at: Any, gates: Any, states: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    (xr, xz, xn), (hr, hz, hn) = (_parts(at, value, 3) for value in gates)
    r, z = at.sigmoid(xr + hr), at.sigmoid(xz + hz)
    n = at.tanh(xn + r * hn)
    return ((states[0] - n) * z + n,), (r, z, n, hn, states[0])


def _gru_back(at: Any, grads: tuple[Any, ...], kept: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    r, z, n, hn, previous = kept
    (h,) = grads
    dn = h * (1 - z) * (1 - n * n)
    dr, dz = dn * hn * r * (1 - r), h * (previous - n) * z * (1 - z)
    return at.cat([dr, dz, dn], 1), at.cat([dr, dz, dn * r], 1), (h * z,)


def _gru_gradients(
    at: Any,
    grads: Sequence[Any],
    data: Any,
    h0: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    gates: Any,
    candidates: Any,
    states: Any,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> Any:
    if at is autograd:
        weights = (w_ih, w_hh, b_ih, b_hh)
        return _unrolled_gradients(
            at, _gru_forth, _gru_back, grads[0], grads[1:2], data, (h0,), weights, batch_sizes, reverse
        )
    return at._gru_layer_backward(*grads[:2], data, w_ih, w_hh, gates, candidates, states, batch_sizes, reverse)


derivative("_gru_layer", {"data, h0, w_ih, w_hh, b_ih, b_hh": _gru_gradients})


@register("_rnn_layer", variants="", outputs="output hy states", differentiable_outputs=(0, 1), node="RnnLayer")
def _rnn_layer(
    data: Array,
    h0: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    batch_sizes: Sequence[int],
    reverse: bool,
    relu: bool,
) -> tuple[Array, ...]:
    """Hidden states of all steps and the last; and, for backward, the previous states."""
    kind = data.dtype
    data, w_ih, w_hh = in_working_precision(data), in_working_precision(w_ih), in_working_precision(w_hh)
    output = _input_gates(data, w_ih, b_ih, b_hh)
    h, states = h0.astype(data.dtype), np.empty_like(output)
    recurrent = np.ascontiguousarray(w_hh.T)
    for running, rows in _steps(batch_sizes, reverse):
        states[rows] = h[:running]
        hidden = output[rows]
        hidden += h[:running] @ recurrent
        h[:running] = np.maximum(hidden, 0, out=hidden) if relu else np.tanh(hidden, out=hidden)
    if kind != data.dtype:
        output, h = output.astype(kind), h.astype(kind)
    return output, h, states


@register("_rnn_layer_backward", variants="", outputs="data h0 w_ih w_hh b_ih b_hh")
def _rnn_layer_backward(
    d_output: Array | None,
    d_h: Array | None,
    data: Array,
    w_ih: Array,
    w_hh: Array,
    output: Array,
    states: Array,
    batch_sizes: Sequence[int],
    reverse: bool,
    relu: bool,
) -> tuple[Array, ...]:
    """The gradients with respect to data, state, both weights and both biases."""
    kind = data.dtype
    dh = np.zeros((max(batch_sizes), states.shape[1]), states.dtype) if d_h is None else d_h.astype(states.dtype)
    w_hh = w_hh.astype(states.dtype, copy=False)
    d_gates = np.empty_like(states)
    for running, rows in reversed(_steps(batch_sizes, reverse)):
        h, y = dh[:running], output[rows]
        if d_output is not None:
            h += d_output[rows]
        if relu:
            keep_where(d_gates[rows], h, y.astype(np.bool_))
        else:
            np.multiply(h, 1 - y * y, out=d_gates[rows])
        np.matmul(d_gates[rows], w_hh, out=h)
    return _weight_gradients(d_gates, d_gates, data, w_ih, states, kind, dh)


def _rnn_halves(relu: bool) -> tuple[Step, Back]:
    def step(at: Any, gates: Any, states: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        total = gates[0] + gates[1]
        y = at.relu(total) if relu else at.tanh(total)
        return (y,), (y,)

    def back(at: Any, grads: tuple[Any, ...], kept: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
        (y,) = kept
        d_gate = at.where(y <= 0, 0, grads[0]) if relu else grads[0] * (1 - y * y)
        return d_gate, d_gate, (None,)

    return step, back


def _rnn_gradients(
    at: Any,
    grads: Sequence[Any],
    data: Any,
    h0: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    output: Any,
    states: Any,
    batch_sizes: Sequence[int],
    reverse: bool,
    relu: bool,
) -> Any:
    if at is autograd:
        weights, step, back = (w_ih, w_hh, b_ih, b_hh), *_rnn_halves(relu)
        return _unrolled_gradients(at, step, back, grads[0], grads[1:2], data, (h0,), weights, batch_sizes, reverse)
    return at._rnn_layer_backward(*grads[:2], data, w_ih, w_hh, output, states, batch_sizes, reverse, relu)


derivative("_rnn_layer", {"data, h0, w_ih, w_hh, b_ih, b_hh": _rnn_gradients})


def _grouped(params: Sequence[Any], has_biases: bool, projected: bool) -> Iterator[tuple[Any, ...]]:
    """(w_ih, w_hh, b_ih or None, b_hh or None, w_hr or None) for each layer and direction."""
    width = 2 + 2 * has_biases + projected
    for first in range(0, len(params), width):
        group = params[first : first + width]
        biases = tuple(group[2:4]) if has_biases else (None, None)
        yield (*group[:2], *biases, group[-1] if projected else None)


def _run_layer(
    at: Any,
    mode: str,
    data: Any,
    states: tuple[Any, ...],
    weights: tuple[Any, ...],
    sizes: Sequence[int],
    reverse: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """One layer in one direction: the output of all steps and the last states."""
    *plain, projection = weights
    if mode == "LSTM" and projection is not None:
        return _projected_lstm(at, data, states, weights, sizes, reverse)
    if mode == "LSTM":
        output, hy, cy = at._lstm_layer(data, *states, *plain, sizes, reverse)[:3]
        return output, (hy, cy)
    if mode == "GRU":
        output, hy = at._gru_layer(data, *states, *plain, sizes, reverse)[:2]
    else:
        output, hy = at._rnn_layer(data, *states, *plain, sizes, reverse, mode == "RNN_RELU")[:2]
    return output, (hy,)


def run_layers(
    at: Any,
    mode: str,
    data: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    sizes: Sequence[int],
    projected: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """All layers over packed `data`; `states` are `(layers · directions, N, H)`. Returns the output and the last states."""
    groups = list(_grouped(params, has_biases, projected))
    directions = 2 if bidirectional else 1
    last: list[tuple[Any, ...]] = []
    for first in range(0, len(groups), directions):
        outputs = []
        for number in range(first, first + directions):
            own = tuple(at.select(state, 0, number) for state in states)
            output, final = _run_layer(at, mode, data, own, groups[number], sizes, number % directions == 1)
            outputs.append(output)
            last.append(final)
        data = outputs[0] if directions == 1 else at.cat(outputs, 1)
        if dropout and train and first + directions < len(groups):
            data = at.dropout(data, dropout, True)
    return data, tuple(at.stack(kind, 0) for kind in zip(*last, strict=True))


@composite("_recurrent", module="nn", autocast="low")
def _recurrent(
    at: Any,
    input: Array,
    states: Sequence[Array],
    params: Sequence[Array],
    mode: str,
    has_biases: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    batch_sizes: Sequence[int] | None,
    projected: bool,
) -> Any:
    """What `nn.RNN`, `nn.LSTM` and `nn.GRU` call: (output, last states...) of a batch, or of packed data with its sizes."""
    rest = has_biases, dropout, train, bidirectional
    _one_dtype("mat1 and mat2 must have the same dtype, but got ", *states, input)
    if projected:
        warn_once("LSTM with projections is not supported with oneDNN. Using default implementation.")
    if batch_sizes is not None:
        output, last = run_layers(at, mode, input, states, params, *rest, batch_sizes, projected)
        return (output, *last)
    x = at.transpose(input, 0, 1) if batch_first else input
    steps, n, features = x.shape
    if not steps:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    output, last = run_layers(
        at, mode, at.reshape(x, (steps * n, features)), states, params, *rest, [n] * steps, projected
    )
    output = at.reshape(output, (steps, n, output.shape[1]))
    return (at.transpose(output, 0, 1) if batch_first else output, *last)


def _projected_lstm(
    at: Any, data: Any, states: tuple[Any, ...], weights: tuple[Any, ...], sizes: Sequence[int], reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    h, c = states
    n = h.shape[0]
    outputs: list[Any] = []
    for running, rows in _steps(sizes, reverse):
        x = at.narrow(data, 0, rows.start, running)
        own = tuple(at.narrow(state, 0, 0, running) for state in (h, c))
        hidden, cell = _lstm_step(at, x, own, w_ih, w_hh, b_ih, b_hh)
        hidden = at.matmul(hidden, at.t(w_hr))
        outputs.append(hidden)
        if running < n:
            hidden = at.cat([hidden, at.narrow(h, 0, running, n - running)], 0)
            cell = at.cat([cell, at.narrow(c, 0, running, n - running)], 0)
        h, c = hidden, cell
    return at.cat(outputs[::-1] if reverse else outputs, 0), (h, c)


def _lstm_step(at: Any, x: Any, states: tuple[Any, ...], w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple[Any, Any]:
    h, c = states
    gates = at.linear(x, w_ih, b_ih) + at.linear(h, w_hh, b_hh)
    size = gates.shape[1] // 4
    i, f, g, o = (at.narrow(gates, 1, k * size, size) for k in range(4))
    cell = at.sigmoid(f) * c + at.sigmoid(i) * at.tanh(g)
    return at.sigmoid(o) * at.tanh(cell), cell


def _check_cell(input: Any, states: Sequence[Any], w_ih: Any, w_hh: Any, gates: int) -> None:
    """RuntimeError unless a cell's input, states and weights have sizes that go together. IndexError for dimensions that are missing."""
    shape, rows = input.shape, w_hh.shape
    fits = len(shape) == len(rows) == 2 and all(state.shape == (shape[0], rows[1]) for state in states)
    if fits and w_ih.shape == (gates * rows[1], shape[1]) and rows == (gates * rows[1], rows[1]):
        return

    def size(tensor: Any, dim: int) -> int:
        return tensor.shape[maybe_wrap_dim(dim, len(tensor.shape), wrap_scalar=False)]

    features, hidden = size(w_ih, 1), size(w_hh, 1)
    if size(input, 1) != features:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {features}")
    for number, state in enumerate(states):
        if size(input, 0) != size(state, 0):
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{number} batch size {state.shape[0]}"
            )
        if size(state, 1) != hidden:
            raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {size(state, 1)}, expected {hidden}")
    for name, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if size(weight, 0) != gates * hidden:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {gates * hidden}, but got {size(weight, 0)}"
            )


@composite("lstm_cell", autocast="low")
def lstm_cell(
    at: Any,
    input: Array,
    hx: Sequence[Array],
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
) -> Any:
    """One LSTM step: `(h', c')` from `(N, in)` and the pair `(h, c)`; gates in the order i, f, g, o."""
    states = tuple(hx)
    if len(states) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    for number, state in enumerate(states):
        if not hasattr(state, "shape"):
            raise TypeError(f"expected Tensor as element {number} in argument 1, but got {type(state).__name__}")
    _check_cell(input, states, w_ih, w_hh, 4)
    return _lstm_step(at, input, states, w_ih, w_hh, b_ih, b_hh)


@composite("gru_cell", autocast="low")
def gru_cell(
    at: Any,
    input: Array,
    hx: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
) -> Any:
    """One GRU step: `h'` from `(N, in)` and `(N, H)`; gates in the order r, z, n."""
    _check_cell(input, (hx,), w_ih, w_hh, 3)
    ours, theirs = at.linear(input, w_ih, b_ih), at.linear(hx, w_hh, b_hh)
    size = ours.shape[1] // 3
    (xr, xz, xn), (hr, hz, hn) = ([at.narrow(v, 1, k * size, size) for k in range(3)] for v in (ours, theirs))
    z = at.sigmoid(xz + hz)
    n = at.tanh(xn + at.sigmoid(xr + hr) * hn)
    return (hx - n) * z + n


@composite("rnn_tanh_cell", autocast="low")
def rnn_tanh_cell(
    at: Any,
    input: Array,
    hx: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
) -> Any:
    """One step: `tanh(W x + b + U h + b')`."""
    _check_cell(input, (hx,), w_ih, w_hh, 1)
    return at.tanh(at.linear(input, w_ih, b_ih) + at.linear(hx, w_hh, b_hh))


@composite("rnn_relu_cell", autocast="low")
def rnn_relu_cell(
    at: Any,
    input: Array,
    hx: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
) -> Any:
    """One step: `relu(W x + b + U h + b')`."""
    _check_cell(input, (hx,), w_ih, w_hh, 1)
    return at.relu(at.linear(input, w_ih, b_ih) + at.linear(hx, w_hh, b_hh))
