# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch import _C
from readtorch._tensor import Tensor
from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.expand_utils import infer_size
from readtorch.c10.core import scalar_type
from readtorch.c10.core.device import current_default_device
from readtorch.c10.core.scalar_type import not_implemented
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.utils.gates import PYTHON, Public, gates
from readtorch.csrc.utils.python_arg_parser import checked, is_sequence_of_ints

_at = _C._VariableFunctions


def einsum(*args: Any) -> Tensor:
    """The sum of products that an equation spells: `einsum("bij,bjk->bik", a, b)`, or with lists of numbers in place of letters."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or pairs of an operand and the list of its subscripts"
        )
    if isinstance(args[0], Tensor):
        return _einsum_from_lists(args)
    equation, operands = args[0], args[1:]
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError("einsum(): must specify the equation string and at least one operand")
    return dispatcher.autograd.einsum(equation, operands)


def _einsum_from_lists(args: tuple) -> Tensor:
    """`einsum(a, [0, 1], b, [1, 2], [0, 2])`."""

    def letters(numbers: Sequence[Any]) -> str:
        return "".join(
            "..." if n is Ellipsis else chr(ord("A") + n) if n < 26 else chr(ord("a") + n - 26) for n in numbers
        )

    operands, terms = args[0 : len(args) // 2 * 2 : 2], args[1::2]
    equation = ",".join(letters(term) for term in terms)
    if len(args) % 2:
        equation += "->" + letters(args[-1])
    return dispatcher.autograd.einsum(equation, operands)


def _all_tensors(name: str, tensors: Any) -> None:
    """TypeError unless they are tensors: these functions take no list of them."""
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise TypeError(f"{name}(): expected Tensor as element {number} in argument 0, but got {kind}")


@checked
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, each stretched to their common shape."""
    _all_tensors("broadcast_tensors", tensors)
    shape: tuple[int, ...] = ()
    for tensor in tensors:
        shape = infer_size(shape, tuple(tensor.shape))
    return tuple(tensor.expand(shape) for tensor in tensors)


def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of several."""
    result: tuple[int, ...] = ()
    for number, shape in enumerate(shapes):
        wanted = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        if any(size < 0 for size in wanted):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        try:
            result = infer_size(result, wanted)
        except RuntimeError as error:
            raise RuntimeError(
                f"Shape mismatch: objects cannot be broadcast to a single shape. Mismatching argument at index {number} had "
                f"{wanted}; expected shape should be broadcastable to {list(result)}"
            ) from error
    return _C.Size(result)


@checked
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of one size, or of the sizes in a list, along `dim`."""
    return tensor.split(split_size_or_sections, dim)


@checked
def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of a grid, one tensor per vector. `indexing` "ij" or "xy"."""
    vectors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else list(tensors)
    _all_tensors("meshgrid", vectors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=2
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", not {indexing}')
    for vector in vectors:
        if vector.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the list, not {vector}")
        if vector.dtype != vectors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(vectors) >= 2
    if swap:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape = tuple(vector.numel() for vector in vectors)
    grids = [vector.reshape((-1,) + (1,) * (len(shape) - i - 1)).expand(shape) for i, vector in enumerate(vectors)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@checked
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of one element of each vector, as rows."""
    _all_tensors("cartesian_prod", tensors)
    for tensor in tensors:
        if tensor.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(tensor.shape)}")
        if tensor.dtype != tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if len(tensors) == 1:
        return tensors[0]
    return _at.stack([grid.reshape(-1) for grid in meshgrid(*tensors, indexing="ij")], 1)


@checked
def block_diag(*tensors: Tensor) -> Tensor:
    """The matrices along a diagonal, zeros elsewhere."""
    _all_tensors("block_diag", tensors)
    if not tensors:
        return _at.empty((1, 0))
    matrices = [tensor.reshape(1, -1) if tensor.ndim < 2 else tensor for tensor in tensors]
    width = sum(matrix.shape[1] for matrix in matrices)
    rows, start = [], 0
    for matrix in matrices:
        left, right = (
            matrix.new_zeros(matrix.shape[0], start),
            matrix.new_zeros(matrix.shape[0], width - start - matrix.shape[1]),
        )
        rows.append(_at.cat([left, matrix, right], 1))
        start += matrix.shape[1]
    return _at.cat(rows, 0)


@checked
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector, as rows."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    if input.shape[0] ** r > (1 << 63) - 1:  # upstream makes a grid of that many places, and crosses most of them out
        raise RuntimeError(f"numel: integer multiplication overflow, {input.shape[0]} elements in {r} places")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    index = _at.tensor(list(choose(range(input.shape[0]), r)), dtype=scalar_type.int64).reshape(-1, r)
    return input[index]


def _each(name: str, function: Any, tensors: tuple) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    tensors = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    _all_tensors(name, tensors)
    return tuple(function(tensor) for tensor in tensors)


@checked
def atleast_1d(*tensors: Tensor) -> Any:
    """At least one dimension."""
    return _each("atleast_1d", lambda x: x.reshape(1) if x.ndim == 0 else x, tensors)


@checked
def atleast_2d(*tensors: Tensor) -> Any:
    """At least two dimensions, new ones in front."""
    return _each(
        "atleast_2d", lambda x: x.reshape(1, 1) if x.ndim == 0 else x.unsqueeze(0) if x.ndim == 1 else x, tensors
    )


@checked
def atleast_3d(*tensors: Tensor) -> Any:
    """At least three dimensions."""
    return _each(
        "atleast_3d",
        lambda x: (
            x.reshape(1, 1, 1)
            if x.ndim == 0
            else x[None, :, None]
            if x.ndim == 1
            else x.unsqueeze(-1)
            if x.ndim == 2
            else x
        ),
        tensors,
    )


_CDIST_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@checked
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The p-norm distance of every row of `x1` to every row of `x2`."""
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {scalar_type.to_string(x.dtype)}"
            )
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns, not {x1.shape[-1]} and {x2.shape[-1]}")
    if x1.itemsize == 2:
        raise not_implemented("cdist", x1.dtype)
    if x1.dtype != x2.dtype:
        raise RuntimeError(
            f"expected scalar type {scalar_type.to_string(x1.dtype)} but found {scalar_type.to_string(x2.dtype)}"
        )
    return _C._linalg.linalg_vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@checked
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows, those of the first row first."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if input.is_floating_point() and input.itemsize == 2:
        raise not_implemented("pdist", input.dtype)
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = triu_indices(len(input), len(input), 1)
    return _C._linalg.linalg_vector_norm(input[first] - input[second], p, -1)


@checked
def chain_matmul(*matrices: Tensor, out: Any = None) -> Tensor:
    """A product of several matrices."""
    warn_once(
        "torch.chain_matmul is deprecated: torch.linalg.multi_dot takes its place, with a list of two or more tensors rather "
        "than several parameters."
    )
    for number, matrix in enumerate(matrices):
        if not isinstance(matrix, Tensor):
            raise TypeError(f"expected Tensor as element {number} in argument 0, but got {type(matrix).__name__}")
        if matrix.ndim != 2:
            raise RuntimeError(f"chain_matmul(): tensor {number} has dimension {matrix.ndim}, expected 2 instead.")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    result = matrices[0]
    for matrix in matrices[1:]:
        result = result @ matrix
    return result


@checked
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a flat array as coordinates in `shape`."""
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is scalar_type.bool:
        raise TypeError(f"unravel_index(): expected int tensor for argument 'indices', but got {indices.dtype}")
    if not is_sequence_of_ints(shape) or (
        isinstance(shape, list | tuple) and any(isinstance(x, Tensor) for x in shape)
    ):
        raise TypeError(f"unravel_index(): argument 'shape' must be int or sequence of ints, not {shape}")
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in wanted):
        raise ValueError(f"'shape' cannot have negative values, but got {wanted}")
    result: list[Tensor] = []
    for size in reversed(wanted):
        result.append(indices % size)
        indices = indices // size
    return tuple(reversed(result))


def _indices(
    op: str, triangle: Any, row: int, col: int, offset: int, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:  # fmt: skip
    for name, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{name} must be non-negative, got {size}")
    kind = scalar_type.int64 if dtype is None else dtype
    if scalar_type.to_numpy_dtype(kind) not in (np.int64, np.int32):
        raise scalar_type.not_implemented(op, scalar_type.to_numpy_dtype(kind))
    found = _C._from_numpy(np.stack(triangle(row, offset, col)).astype(np.int64))
    found = found.to(device=current_default_device() if device is None else device, dtype=kind)
    return found.requires_grad_() if requires_grad else found


@checked
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: scalar_type.dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Row and column numbers of the lower triangle."""
    return _indices("tril_indices", np.tril_indices, row, col, offset, dtype, device, requires_grad)


@checked
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: scalar_type.dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Row and column numbers of the upper triangle."""
    return _indices("triu_indices", np.triu_indices, row, col, offset, dtype, device, requires_grad)


@checked
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element, as rows."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(scalar_type.int64)
    if not count or not x.shape[0]:
        return x.new_empty((x.shape[0], count))
    x = x if x.is_floating_point() or x.is_complex() or x.dtype is scalar_type.bool else x.long()
    columns = [x**i for i in range(count)]
    return _at.stack(columns if increasing else columns[::-1], -1)


@checked
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The transforms of windowed pieces of a signal: (B, frequencies, pieces)."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied, whose edges leak into all frequencies.",
            stacklevel=3,
        )
    if return_complex is None and not (input.is_complex() or (window is not None and window.is_complex())):
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
    if return_complex is False:
        warnings.warn("stft with return_complex=False is deprecated: view_as_real() gives the same.", stacklevel=3)
    if not (input.is_floating_point() or input.is_complex()):
        if input.dtype is scalar_type.bool:
            raise not_implemented("reflection_pad1d", input.dtype)
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, but got {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {input.ndim}D")
    signal = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        fold = n_fft // 2
        padded = nn_pad(signal.unsqueeze(1), (fold, fold), pad_mode).squeeze(1)
    else:
        padded = signal
    length = padded.shape[-1]
    if n_fft <= 0 or n_fft > length:
        raise RuntimeError(f"stft: expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={width}")
    shape = _window_of(window, width, n_fft, padded)
    pieces = padded.unfold(-1, n_fft, hop)
    pieces = pieces if shape is None else pieces * shape
    half = not pieces.is_complex() if onesided is None else onesided
    norm = "ortho" if normalized else None
    from readtorch import fft

    result = (fft.rfft if half else fft.fft)(pieces, norm=norm).transpose(-2, -1)
    result = result if input.ndim == 2 else result.squeeze(0)
    return result if return_complex or return_complex is None else _at.view_as_real(result)


def nn_pad(input: Tensor, pad: tuple[int, int], mode: str) -> Tensor:
    """`nn.functional.pad`, which stands above this module."""
    from readtorch.nn import functional

    return functional.pad(input, pad, mode)


def _window_of(window: Tensor | None, width: int, n_fft: int, like: Tensor) -> Tensor | None:
    if window is not None and tuple(window.shape) != (width,):
        raise RuntimeError(
            f"stft: expected a 1D window tensor of size equal to win_length={width}, but got window with size {list(window.shape)}"
        )
    if width == n_fft:
        return window
    shape = like.new_ones(width) if window is None else window
    left = (n_fft - width) // 2
    return _at.constant_pad_nd(shape, [left, n_fft - width - left])


@checked
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal of which `stft` gave the pieces."""
    from readtorch import fft

    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.ndim not in (2, 3):
        raise RuntimeError(f"istft expected a tensor with 2 or 3 dimensions, but got {input.ndim}")
    spectrum = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(1, 2)
    half = n_fft // 2 + 1 != n_fft if onesided is None else onesided
    half = half and spectrum.shape[-1] != n_fft
    if spectrum.shape[-1] != (n_fft // 2 + 1 if half else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension to match n_fft={n_fft}, but got {spectrum.shape[-1]}"
        )
    norm = "ortho" if normalized else None
    pieces = fft.irfft(spectrum, n_fft, norm=norm) if half else fft.ifft(spectrum, norm=norm)
    pieces = pieces if return_complex or half else pieces.real
    shape = _window_of(window, width, n_fft, pieces.real if pieces.is_complex() else pieces)
    shape = pieces.new_ones(n_fft) if shape is None else shape
    count = pieces.shape[1]
    whole = n_fft + hop * (count - 1)
    place = (_at.arange(count).unsqueeze(1) * hop + _at.arange(n_fft)).reshape(-1)
    signal = pieces.new_zeros(pieces.shape[0], whole).index_add(1, place, (pieces * shape).reshape(pieces.shape[0], -1))
    weights = shape.new_zeros(whole).index_add(0, place, (shape * shape).expand(count, n_fft).reshape(-1))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - (n_fft // 2 if center else 0)
    signal, weights = signal[:, start:end], weights[start:end]
    if bool((weights.abs() < 1e-11).any()):
        raise RuntimeError("istft: window overlap add min: 1")
    signal = signal / weights
    if length is not None and signal.shape[-1] < length:
        signal = _at.constant_pad_nd(signal, [0, length - signal.shape[-1]])
    return signal if input.ndim == 3 else signal.squeeze(0)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """L and U in one matrix, and the swaps of rows; deprecated for `linalg.lu_factor`."""
    if not isinstance(A, Tensor):
        raise TypeError(f"lu(): argument 'input' (position 1) must be Tensor, not {type(A).__name__}")
    return A.lu(pivot, get_infos)


gates.offer(globals(), "torch.functional", PYTHON, Public(globals(), but=("broadcast_shapes",)))

norm, tensordot = _at.norm, _at.tensordot
unique, unique_consecutive = _at.unique, _at.unique_consecutive
