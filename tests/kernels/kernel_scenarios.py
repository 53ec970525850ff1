"""Calls of every kernel's wrapper beside the function that computes the same in NumPy, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import readtorch.aten.native.activation as activation
import readtorch.aten.native.convolution as convolution
import readtorch.aten.native.embedding as embedding
import readtorch.aten.native.fused_adam as fused_adam
import readtorch.aten.native.fused_sgd as fused_sgd
import readtorch.aten.native.im2_col as im2_col
import readtorch.aten.native.layer_norm as layer_norm
import readtorch.aten.native.loss_nll as loss_nll
import readtorch.aten.native.normalization as normalization
import readtorch.aten.native.soft_max as soft_max
from readtorch.aten.core.philox_rng_engine import philox
from readtorch.aten.cuda.specialisations import uniform
from readtorch.aten.native.cuda import activation_gelu_kernel as cuda_gelu
from readtorch.aten.native.cuda import convolution_mm2d as cuda_convolution
from readtorch.aten.native.cuda import dropout as cuda_dropout
from readtorch.aten.native.cuda import embedding_backward_kernel as cuda_embedding
from readtorch.aten.native.cuda import foreach_ternary_op as cuda_lerp
from readtorch.aten.native.cuda import fused_adam_kernel as cuda_adam
from readtorch.aten.native.cuda import fused_sgd_kernel as cuda_sgd
from readtorch.aten.native.cuda import im2_col as cuda_im2_col
from readtorch.aten.native.cuda import jit_utils
from readtorch.aten.native.cuda import layer_norm_kernel as cuda_layer_norm
from readtorch.aten.native.cuda import loss as cuda_loss
from readtorch.aten.native.cuda import normalization as cuda_normalization
from readtorch.aten.native.cuda import soft_max as cuda_soft_max
from readtorch.c10.core.tensor_impl import wrap

KINDS: dict[str, Any] = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}

TOLERANCE = {"float32": 4e-6, "float64": 1e-13, "float16": 1.5e-3, "bfloat16": 1.2e-2}
"""Of the largest number of a result: some roundings of the type that it is stored in."""

Pairs = Iterator[tuple[Any, Any]]
Scenario = Callable[["Numbers"], Pairs]
SCENARIOS: dict[str, Scenario] = {}
"""Each yields what the kernels gave, and what the twin gives in float64."""


@dataclass
class Numbers:
    """Input of a scenario, the same for each call, on the device under test: NumPy's arrays by default."""

    kind: str
    place: Callable[[np.ndarray], Any] = np.asarray

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(12)
        self.dtype = np.dtype(KINDS[self.kind])
        self.accumulator = np.dtype(np.float64 if self.kind == "float64" else np.float32)

    def normal(self, *shape: int, mean: float = 0.0, acc: bool = False) -> tuple[Any, np.ndarray]:
        """(array of the type, its content in float64)."""
        values = (mean + self.rng.standard_normal(shape)).astype(self.accumulator if acc else self.dtype)
        return self.given(values)

    def positive(self, *shape: int, acc: bool = False) -> tuple[Any, np.ndarray]:
        values = (0.1 + self.rng.random(shape)).astype(self.accumulator if acc else self.dtype)
        return self.given(values)

    def given(self, values: np.ndarray) -> tuple[Any, np.ndarray]:
        exact = values.astype(np.float64)
        placed = self.place(values)
        return placed, exact

    def classes(self, count: int, shape: Any) -> tuple[Any, np.ndarray]:
        values = self.rng.integers(0, count, shape)
        return self.place(values), values


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def remember(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return remember


# -- normalization ---------------------------------------------------------------------------------------------------


def _batch_norm(shape: tuple[int, ...], last: bool = False) -> Scenario:
    def run(n: Numbers) -> Pairs:
        x, X = n.normal(*shape, mean=3.0)
        dy, DY = n.normal(*shape)
        if last:
            x, dy = (_channels_last(a) for a in (x, dy))
        c = shape[1]
        (w, W), (b, B), (m, M) = (n.normal(c, acc=True) for _ in range(3))
        v, V = n.positive(c, acc=True)
        y, mean, invstd = cuda_normalization.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5)
        Y, MEAN, INVSTD = normalization.native_batch_norm(X, W, B, M, V, True, 0.1, 1e-5)
        yield from zip((y, mean, invstd, m, v), (Y, MEAN, INVSTD, M, V), strict=True)
        ours = cuda_normalization.native_batch_norm_backward(dy, x, w, None, None, mean, invstd, True, 1e-5)
        theirs = normalization.native_batch_norm_backward(DY, X, W, None, None, MEAN, INVSTD, True, 1e-5)
        yield from zip(ours, theirs, strict=True)
        yield (
            cuda_normalization.native_batch_norm(x, None, None, m, v, False, 0.0, 1e-5)[0],
            normalization.native_batch_norm(X, None, None, M, V, False, 0.0, 1e-5)[0],
        )
        ours = cuda_normalization.native_batch_norm_backward(dy, x, None, m, v, None, None, False, 1e-5)
        theirs = normalization.native_batch_norm_backward(DY, X, None, M, V, None, None, False, 1e-5)
        yield from zip(ours, theirs, strict=True)

    return run


def _channels_last(array: Any) -> Any:
    xp = jit_utils.array_module(array)
    return xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(array, 1, -1)), -1, 1)


SCENARIOS["batch norm, planes of whole vectors"] = _batch_norm((6, 3, 8, 16))
SCENARIOS["batch norm, odd planes"] = _batch_norm((5, 3, 7, 7))
SCENARIOS["batch norm, more channels than blocks"] = _batch_norm((2, 40, 4, 4))
SCENARIOS["batch norm, channels last"] = _batch_norm((3, 24, 5, 5), last=True)
SCENARIOS["batch norm, a matrix"] = _batch_norm((70, 20))
SCENARIOS["batch norm, an odd and wide matrix"] = _batch_norm((9, 301))
SCENARIOS["batch norm, three columns"] = _batch_norm((3000, 3))
SCENARIOS["batch norm, one channel in many pieces"] = _batch_norm((3, 1, 250, 301))


def _layer_norm(rows: int, *normalized: int, affine: bool = True) -> Scenario:
    def run(n: Numbers) -> Pairs:
        x, X = n.normal(rows, *normalized, mean=-2.0)
        dy, DY = n.normal(rows, *normalized)
        w, W = n.normal(*normalized, acc=True) if affine else (None, None)
        b, B = n.normal(*normalized, acc=True) if affine else (None, None)
        y, mean, rstd = cuda_layer_norm.native_layer_norm(x, normalized, w, b, 1e-5)
        Y, MEAN, RSTD = layer_norm.native_layer_norm(X, normalized, W, B, 1e-5)
        yield from zip((y, mean, rstd), (Y, MEAN, RSTD), strict=True)
        ours = cuda_layer_norm.native_layer_norm_backward(dy, x, normalized, mean, rstd, w)
        theirs = layer_norm.native_layer_norm_backward(DY, X, normalized, MEAN, RSTD, W)
        yield from zip(ours, theirs, strict=True)

    return run


SCENARIOS["layer norm, a warp a row"] = _layer_norm(41, 64)
SCENARIOS["layer norm, odd rows"] = _layer_norm(6, 5, 27)
SCENARIOS["layer norm, a block a row"] = _layer_norm(5, 1200)
SCENARIOS["layer norm, longer than registers"] = _layer_norm(2, 17_000, affine=False)
SCENARIOS["layer norm, odd and longer than registers"] = _layer_norm(3, 2053)


# -- softmax and losses ----------------------------------------------------------------------------------------------


def _softmax(*shape: int, dim: int = -1) -> Scenario:
    def run(n: Numbers) -> Pairs:
        x, X = n.normal(*shape)
        dy, DY = n.normal(*shape)
        for name in ("_softmax", "_log_softmax"):
            y, Y = getattr(cuda_soft_max, name)(x, dim), getattr(soft_max, name)(X, dim)
            yield y, Y
            back = f"{name}_backward_data"
            # the twin's input is the rounded result: what is tested is the kernel
            exact = np.asarray(_host(y), np.float64)
            yield getattr(cuda_soft_max, back)(dy, y, dim), getattr(soft_max, back)(DY, exact, dim)

    return run


def _host(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


SCENARIOS["softmax, a warp a row"] = _softmax(33, 40)
SCENARIOS["softmax, odd rows"] = _softmax(3, 2, 131)
SCENARIOS["softmax, longer than registers"] = _softmax(2, 17_000)
SCENARIOS["softmax, odd and longer than registers"] = _softmax(2, 2051)
SCENARIOS["softmax, over channels"] = _softmax(2, 5, 6, 7, dim=1)


def _nll(*shape: int, reduction: int, weighted: bool) -> Scenario:
    def run(n: Numbers) -> Pairs:
        count, classes, *places = shape
        x, X = n.normal(*shape)
        target, T = n.classes(classes, (count, *places))
        w, W = n.positive(classes, acc=True) if weighted else (None, None)
        ignored = int(T.flat[0])
        ours = cuda_loss.nll_loss_forward(x, target, w, reduction, ignored)
        theirs = loss_nll.nll_loss_forward(X, T, W, reduction, ignored)
        yield ours[0], theirs[0]
        if reduction != loss_nll.NONE:
            yield ours[1], theirs[1]
        dy, DY = n.normal(*(T.shape if reduction == loss_nll.NONE else ()))
        yield (
            cuda_loss.nll_loss_backward(dy, x, target, w, reduction, ignored),
            loss_nll.nll_loss_backward(DY, X, T, W, reduction, ignored),
        )

    return run


SCENARIOS["nll loss, mean"] = _nll(1500, 7, reduction=loss_nll.MEAN, weighted=True)
SCENARIOS["nll loss, sum of places"] = _nll(3, 5, 4, 3, reduction=loss_nll.SUM, weighted=False)
SCENARIOS["nll loss, each"] = _nll(70, 9, reduction=loss_nll.NONE, weighted=True)


def _cross_entropy(rows: int, width: int) -> Scenario:
    def run(n: Numbers) -> Pairs:
        x, X = n.normal(rows, width)
        target, T = n.classes(width, rows)
        w, W = n.positive(width, acc=True)
        ignored = int(T[1])
        losses, log_sums = cuda_loss.cross_entropy_forward(x, target, w, ignored)
        log = soft_max._log_softmax(X, 1)
        kept = ignored != T
        yield losses, loss_nll.nll_loss_forward(log, T, W, loss_nll.NONE, ignored)[0]
        shares, S = n.normal(rows, acc=True)
        dlog = loss_nll.nll_loss_backward(S * kept, log, T, None, loss_nll.NONE, ignored)
        yield (
            cuda_loss.cross_entropy_backward(shares, x, target, log_sums, ignored),
            soft_max._log_softmax_backward_data(dlog, log, 1),
        )

    return run


SCENARIOS["cross-entropy, short rows"] = _cross_entropy(19, 40)
SCENARIOS["cross-entropy, odd rows"] = _cross_entropy(5, 333)
SCENARIOS["cross-entropy, a vocabulary"] = _cross_entropy(2, 20_000)


# -- optimizers ------------------------------------------------------------------------------------------------------

SIZES = (3, 0, 16_384, 40_001, 64)


def _lists(n: Numbers, *which: str, odd: bool = False) -> tuple[list[list[Any]], list[list[np.ndarray]]]:
    """Lists of arrays; `odd` ones begin at an address that is no multiple of anything."""
    skip = int(odd)
    pairs = [[getattr(n, name)(size + skip) for size in SIZES] for name in which]
    return [[a[skip:] for a, _ in row] for row in pairs], [[e[skip:].copy() for _, e in row] for row in pairs]


def _wrapped(lists: list[list[np.ndarray]]) -> list[list[Any]]:
    return [[wrap(array) for array in row] for row in lists]


def _adam(odd: bool = False, **options: Any) -> Scenario:
    def run(n: Numbers) -> Pairs:
        ours, exact = _lists(n, "normal", "normal", "normal", "positive", "positive", odd=odd)
        settings = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-4, "weight_decay": 0.1} | options
        amsgrad, counted = settings.pop("amsgrad", False), settings.pop("counted", False)
        steps = [n.place(np.full((), 3, np.float32)) for _ in SIZES] if counted else 3.0
        settings = {"maximize": False, "decoupled": False} | settings
        cuda_adam.adam(*ours[:4], ours[4] if amsgrad else None, steps, **settings)
        p, g, m, v, most = _wrapped(exact)
        done = fused_adam.adam(p, g, m, v, most if amsgrad else None, [3.0] * len(SIZES), **settings)
        assert done == frozenset(range(len(SIZES)))
        for which in (0, 2, 3, 4):
            yield from zip(ours[which], exact[which], strict=True)

    return run


SCENARIOS["adam"] = _adam()
SCENARIOS["adam, decoupled decay, largest second moment"] = _adam(amsgrad=True, decoupled=True)
SCENARIOS["adam, uphill, odd addresses"] = _adam(maximize=True, odd=True)
SCENARIOS["adam, counters on the device"] = _adam(counted=True, amsgrad=True)


@scenario("sgd, plain, odd addresses")
def _(n: Numbers) -> Pairs:
    ours, exact = _lists(n, "normal", "normal", odd=True)
    settings = {"weight_decay": 0.1, "momentum": 0.0, "lr": 0.05, "dampening": 0.0, "nesterov": False, "maximize": True}
    cuda_sgd.sgd(*ours, None, **settings)
    params, grads = _wrapped(exact)
    assert fused_sgd.sgd(params, grads, [None] * len(SIZES), **settings) == frozenset(range(len(SIZES)))
    yield from zip(ours[0], exact[0], strict=True)


@scenario("sgd, two steps with momentum")
def _(n: Numbers) -> Pairs:
    ours, exact = _lists(n, "normal", "normal", "positive")
    settings = {"weight_decay": 0.0, "momentum": 0.9, "lr": 0.05, "dampening": 0.2, "nesterov": True, "maximize": False}
    first = {**settings, "dampening": 0.0}
    cuda_sgd.sgd(*ours, **first, first=True)
    cuda_sgd.sgd(*ours, **settings)
    for buffer in exact[2]:
        buffer[...] = 0
    for options in (first, settings):
        assert fused_sgd.sgd(*_wrapped(exact), **options) == frozenset(range(len(SIZES)))
    for which in (0, 2):
        yield from zip(ours[which], exact[which], strict=True)


def _lerp(weight: float, odd: bool = False) -> Scenario:
    def run(n: Numbers) -> Pairs:
        ours, exact = _lists(n, "normal", "normal", odd=odd)
        cuda_lerp.lerp(*ours, weight)
        for mine, start, end in zip(ours[0], *exact, strict=True):
            yield mine, start + weight * (end - start)

    return run


SCENARIOS["moving average"] = _lerp(0.001)
SCENARIOS["average of few, odd addresses"] = _lerp(0.75, odd=True)


# -- element by element ----------------------------------------------------------------------------------------------


def _gelu(approximate: str, count: int, skip: int = 0) -> Scenario:
    def run(n: Numbers) -> Pairs:
        (x, X), (dy, DY) = (n.normal(count + skip) for _ in range(2))
        x, X, dy, DY = (array[skip:] for array in (x, X, dy, DY))
        yield cuda_gelu.gelu(x, approximate=approximate), activation.gelu(X, approximate=approximate)
        yield cuda_gelu.gelu_backward(dy, x, approximate), activation.gelu_backward(DY, X, approximate)

    return run


SCENARIOS["gelu"] = _gelu("none", 5003)
SCENARIOS["gelu by tanh"] = _gelu("tanh", 5003)
SCENARIOS["gelu, odd address"] = _gelu("none", 301, skip=1)
SCENARIOS["gelu by tanh, odd address"] = _gelu("tanh", 301, skip=1)

# -- dropout, columns, embedding -------------------------------------------------------------------------------------


def _dropout(count: int, skip: int = 0) -> Scenario:
    def run(n: Numbers) -> Pairs:
        x, X = n.normal(count + skip)
        x, X = x[skip:], X[skip:]
        seed, offset = (1 << 63) + 12345, 4 * 7
        y, mask = cuda_dropout.native_dropout(x, 0.25, seed, offset)
        numbers = philox(seed, offset // 4, -(-count // 4)).reshape(-1)[:count]
        kept = uniform(numbers) < np.float32(0.75)
        assert (_host(mask) == kept).all()
        yield y, X * kept / 0.75
        yield cuda_dropout.native_dropout_backward(x, mask, 1 / 0.75), X * kept / 0.75

    return run


SCENARIOS["dropout, whole groups"] = _dropout(4096)
SCENARIOS["dropout, a group cut off"] = _dropout(1027)
SCENARIOS["dropout, an odd address"] = _dropout(1021, skip=3)


def _columns(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    stride: tuple[int, int],
) -> Scenario:
    def run(n: Numbers) -> Pairs:
        x, X = n.normal(*shape)
        geometry = (kernel, dilation, padding, stride)
        columns, COLUMNS = cuda_im2_col.im2col(x, *geometry), im2_col.im2col(X, *geometry)
        yield columns, COLUMNS
        yield cuda_im2_col.col2im(columns, shape[-2:], *geometry), im2_col.col2im(COLUMNS, shape[-2:], *geometry)

    return run


SCENARIOS["columns, three by three"] = _columns((2, 3, 9, 20), (3, 3), (1, 1), (1, 1), (1, 1))
SCENARIOS["columns, strides and gaps, no batch"] = _columns((2, 11, 17), (3, 2), (2, 3), (2, 1), (3, 2))


def _convolution(
    shape: tuple[int, ...], weight: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int = 1
) -> Scenario:
    def run(n: Numbers) -> Pairs:
        if n.kind == "bfloat16" or (n.kind == "float16" and n.place is np.asarray):
            return  # declined; and NumPy adds up products of half precision in half precision
        x, X = n.normal(*shape)
        w, W = n.normal(*weight)
        b, B = n.normal(weight[0])
        rest = (stride, padding, dilation)
        y = cuda_convolution.convolution(x, w, b, *rest, False, (0,) * len(stride), groups)
        yield y, convolution.convolution(X, W, B, *rest, False, (0,) * len(stride), groups)
        dy, DY = n.normal(*y.shape)
        yield (
            cuda_convolution._conv_input(dy, w, shape, *rest, groups),
            convolution._conv_input(DY, W, shape, *rest, groups),
        )
        yield (
            cuda_convolution._conv_weight(dy, x, weight, *rest, groups),
            convolution._conv_weight(DY, X, weight, *rest, groups),
        )

    return run


SCENARIOS["convolution, three by three"] = _convolution((3, 4, 9, 7), (5, 4, 3, 3), (1, 1), (1, 1), (1, 1))
SCENARIOS["convolution, groups, strides, gaps"] = _convolution(
    (2, 6, 11, 12), (4, 3, 3, 2), (2, 1), (2, 1), (1, 2), groups=2
)
SCENARIOS["convolution, one by one"] = _convolution((2, 3, 5, 4), (6, 3, 1, 1), (1, 1), (0, 0), (1, 1))
SCENARIOS["convolution, of rows"] = _convolution((2, 3, 20), (4, 3, 5), (2,), (2,), (1,))


def _embedding(words: int, rows: int, columns: int, **options: Any) -> Scenario:
    def run(n: Numbers) -> Pairs:
        dy, DY = n.normal(words, columns)
        # few words occur often, as in a text
        values = np.minimum(rows - 1, n.rng.geometric(0.2, words) - 1)
        arguments = (rows, options.get("padding", -1), options.get("by_count", False))
        ours = cuda_embedding.embedding_dense_backward(dy, n.place(values), *arguments)
        yield ours, embedding.embedding_dense_backward(DY, values, *arguments)

    return run


SCENARIOS["embedding, runs over several pieces"] = _embedding(700, 20, 33)
SCENARIOS["embedding, by count, with padding"] = _embedding(300, 9, 130, padding=1, by_count=True)
SCENARIOS["embedding, one word"] = _embedding(200, 1, 8)
SCENARIOS["embedding, one piece"] = _embedding(30, 50, 4)
