# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, operators, register
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Dims, Number, Real
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.native.binary_ops import times
from readtorch.aten.op_math_type import in_working_precision
from readtorch.aten.tensor_iterator import check_real, in_order, shapes
from readtorch.c10.core import scalar_type
from readtorch.c10.core.dispatch_key import DispatchKey, meta_like, without_values
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim
from readtorch.c10.util.exception import warn_once


@register("mm", key="CPU CUDA", variants="function method", out=True, autocast="low")
def mm(self: Array, mat2: Array) -> Array:
    """Matrix times matrix: `(n, m) × (m, p) → (n, p)`."""
    if self.ndim == 2 and mat2.ndim == 2 and self.dtype is mat2.dtype and self.dtype.char in "fdFD":
        try:
            return self.dot(mat2)
        except ValueError:
            pass
    if self.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    return product(self, mat2)


def product(a: Array, b: Array) -> Array:
    """`a @ b` for one dtype. RuntimeError for two. Half-width floats accumulate in float32, as upstream's kernels do."""
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        names = " != ".join(scalar_type.cpp_type(x.dtype) for x in (a, b))
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names}")
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


derivative(
    "mm",
    self=lambda at, grad, mat2: at.mm(grad, at.conj(at.t(mat2))),
    mat2=lambda at, grad, self: at.mm(at.conj(at.t(self)), grad),
)


def _check_floating(name: str, kind: Any) -> None:
    found = kind if isinstance(kind, scalar_type.dtype) else scalar_type.from_numpy_dtype(kind)
    if not (found.is_floating_point or found.is_complex):
        shown = scalar_type.to_string(found)
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {shown}")


@register("_vector_norm", key="CPU CUDA", variants="", node="LinalgVectorNorm", autocast="float32")
def _vector_norm(self: Array, ord: float, dims: tuple[int, ...], keepdim: bool) -> Array:
    from readtorch.aten.native.reduce_ops import sum_of_squares

    _check_floating("linalg.vector_norm", self.dtype)
    wide = in_working_precision(self)
    single = 1 in self.shape and all(self.shape[axis] == 1 for axis in dims)
    if ord == 2 and not single:
        result = np.sqrt(sum_of_squares(wide, dims, keepdim))
    elif ord == 1 or (single and ord):  # one element is its own norm: no power of it leaves the range
        result = np.abs(wide).sum(axis=dims, keepdims=keepdim)
    elif (ord < 0 or math.isinf(ord)) and any(not self.shape[axis] for axis in dims):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor: no number stands for it"
        )
    elif math.isinf(ord):
        reduce: Any = (np.maximum if ord > 0 else np.minimum).reduce
        result = reduce(np.abs(wide), axis=dims, keepdims=keepdim) if wide.ndim else np.abs(wide)
    elif ord == 0:
        result = (wide != 0).sum(axis=dims, keepdims=keepdim)
    else:
        size = np.abs(wide)
        result = (size ** size.dtype.type(ord)).sum(axis=dims, keepdims=keepdim) ** size.dtype.type(1 / ord)
    return in_order(np.asarray(result)).astype(self.real.dtype, copy=False)


def _norm_backward(at: Any, grad: Any, self: Any, ord: float, dims: tuple[int, ...], keepdim: bool, result: Any) -> Any:
    from readtorch.aten.native.reduce_ops import spread

    shape = tuple(self.shape)
    share = grad / at.pow(result, ord - 1) if ord not in (0, 1, 2) and not math.isinf(ord) else grad
    grad, result = spread(at, share, shape, dims, keepdim), spread(at, result, shape, dims, keepdim)
    if ord == 0:
        return at.zeros_like(self)
    if ord == 1:
        return at.sgn(self) * grad
    if ord == 2:
        return grad * at.where(result == 0, 0, self / result)
    size = at.abs(self)
    if math.isinf(ord):
        hit = at.logical_or(size == result, at.logical_and(at.isnan(size), at.isnan(result)))
        hit = at._to_copy(hit, grad.dtype)
        return at.sgn(self) * (hit / at.sum(hit, dims, True) * grad)
    scaled = at.sgn(self) * at.pow(size, ord - 1) * grad
    return at.where((result == 0) | (size == 0), 0, scaled) if ord < 2 else at.where(result == 0, 0, scaled)


derivative("_vector_norm", self=_norm_backward)


def _norm_dtype(name: str, have: Any, wanted: Any) -> Any:
    """`wanted`, in which a norm is to be computed. RuntimeError unless it holds all that `have` does, and is complex as `have` is."""
    source = have if isinstance(have, scalar_type.dtype) else scalar_type.from_numpy_dtype(have)
    wanted = scalar_type.as_dtype(wanted, name, "dtype", 5)
    shown = scalar_type.to_string(wanted)
    if not (wanted.is_floating_point or wanted.is_complex):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {shown}")
    if source.is_complex != wanted.is_complex:
        kind = "complex" if source.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {shown}")
    if scalar_type.promote_types(source, wanted) is not wanted:
        raise RuntimeError(
            f"{name}: the dtype of the input ({scalar_type.to_string(source)}) should be convertible without narrowing to the specified dtype ({shown})"
        )
    return wanted


@composite("linalg_vector_norm", module="linalg", variants="function", out=True)
def linalg_vector_norm(
    at: Any, x: Array, ord: Real = 2, dim: Dims | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """‖x‖ₚ over `dim` (all of it for None)."""
    from readtorch.aten.wrap_dim_utils import reduced_dims

    _check_floating("linalg.vector_norm", x.dtype)
    if dtype is not None:
        x = at._to_copy(x, _norm_dtype("linalg.vector_norm", x.dtype, dtype))
    return at._vector_norm(x, ord, reduced_dims(dim, x.ndim), keepdim)


@composite("norm", variants="function method", out=True)
def norm(
    at: Any, self: Array, p: Any = "fro", dim: Dims | None = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """‖x‖ₚ, of vectors, and of matrices with "fro" (the 2-norm of all elements) or "nuc"."""
    if p == "nuc":
        return at.linalg_matrix_norm(self, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found: {p}")
    return at.linalg_vector_norm(self, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


def matrix_dims(name: str, dim: Any, rank: int) -> tuple[int, int]:
    """The two dimensions that rows and columns lie along. RuntimeError unless there are two, and not the same."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    rows, columns = (maybe_wrap_dim(axis, rank) for axis in dims)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    return rows, columns


@composite("linalg_matrix_norm", module="linalg", variants="function", out=True)
def linalg_matrix_norm(
    at: Any, self: Array, ord: Any = "fro", dim: Dims = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
    name = "linalg.matrix_norm"
    if not isinstance(ord, str) and not isinstance(ord, int | float):
        raise TypeError(f"linalg_matrix_norm(): argument 'ord' must be Number or str, not {type(ord).__name__}")
    _check_floating(name, self.dtype)
    if self.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    rows, columns = matrix_dims(name, dim, self.ndim)
    if ord not in ("fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if dtype is not None:
        self = at._to_copy(self, _norm_dtype(name, self.dtype, dtype))
    if ord == "fro":
        return at.linalg_vector_norm(self, 2, (rows, columns), keepdim)
    size: Any = ord
    if ord in ("nuc", 2, -2):
        if self.itemsize == 2:
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {scalar_type.to_string(self.dtype)}")
        values = at.linalg_svdvals(at.movedim(self, (rows, columns), (-2, -1)))
        if ord == "nuc" or (ord == 2 and not values.shape[-1]):  # nothing stretches anything: the largest factor is 0
            result = at.sum(values, -1)
        else:
            result = at.amax(values, -1) if ord == 2 else at.amin(values, -1)
        for axis in sorted((rows, columns)) if keepdim else ():
            result = at.unsqueeze(result, axis)
        return result
    summed, searched = (rows, columns) if abs(size) == 1 else (columns, rows)
    sums = at.sum(at.abs(self), summed, True)
    if size > 0 and not sums.shape[searched]:
        result = at.sum(sums, searched, True)
    else:
        result = (at.amax if size > 0 else at.amin)(sums, searched, True)
    return result if keepdim else at.squeeze(result, (rows, columns))


@composite("dist", variants="function method")
def dist(at: Any, self: Array, other: Array, p: float = 2) -> Any:
    """The norm of the difference."""
    return at.linalg_vector_norm(self - other, p)


@composite("renorm", variants="function method", inplace=True, out=True)
def renorm(at: Any, self: Array, p: Real, dim: int, maxnorm: Real) -> Any:
    """Each slice along `dim` scaled down to a p-norm of at most `maxnorm`."""
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    place = maybe_wrap_dim(dim, self.ndim)
    dims = tuple(axis for axis in range(self.ndim) if axis != place)
    size = at.linalg_vector_norm(self, p, dims, True)
    return self * at.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)


@register("bmm", key="CPU CUDA", variants="function method", out=True, autocast="low")
def bmm(self: Array, mat2: Array) -> Array:
    """A product per batch."""
    if self.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if mat2.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor: [{self.shape[0]}, {self.shape[2]}], which fit the other batch; they are [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    return product(self, mat2)


derivative(
    "bmm",
    self=lambda at, grad, mat2: at.bmm(grad, at.conj(at.transpose(mat2, 1, 2))),
    mat2=lambda at, grad, self: at.bmm(at.conj(at.transpose(self, 1, 2)), grad),
)


@register("mv", key="CPU CUDA", variants="function method", out=True, autocast="low")
def mv(self: Array, vec: Array) -> Array:
    """Matrix times vector."""
    if not self.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {self.ndim}, {vec.ndim}")
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({self.shape[0]}), mat ({self.shape[0]}x{self.shape[1]}), vec ({vec.shape[0]})"
        )
    return product(self, vec)


derivative(
    "mv",
    self=lambda at, grad, vec: at.unsqueeze(grad, 1) * at.unsqueeze(at.conj(vec), 0),
    vec=lambda at, grad, self: at.mv(at.conj(at.t(self)), grad),
)


@register("dot", key="CPU CUDA", variants="function method", out=True)
def dot(self: Array, tensor: Array) -> Array:
    """The sum of the products of two vectors."""
    if self.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
    if self.dtype != tensor.dtype:
        names = [scalar_type.to_string(x.dtype) for x in (self, tensor)]
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {names[0]} and {names[1]}")
    if self.shape != tensor.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{self.shape[0]}] and src [{tensor.shape[0]}] to have the same number of elements, but got {self.shape[0]} and {tensor.shape[0]} elements respectively"
        )
    return product(self, tensor)


derivative(
    "dot", self=lambda at, grad, tensor: grad * at.conj(tensor), tensor=lambda at, grad, self: grad * at.conj(self)
)
composite("vdot", variants="function method", out=True)(lambda at, self, other: at.dot(at.conj(self), other))


@composite("inner", variants="function method", out=True)
def inner(at: Any, self: Array, other: Array) -> Any:
    """Products summed over the last dimension of both."""
    if not self.ndim or not other.ndim:
        return self * other
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(self.shape)} and {list(other.shape)}"
        )
    return at.tensordot(self, other, ([-1], [-1]))


@composite("outer", variants="function method", out=True)
def outer(at: Any, self: Array, vec2: Array) -> Any:
    """All products of an element of one vector and one of the other."""
    for position, value in enumerate((self, vec2)):
        if value.ndim != 1:
            raise RuntimeError(
                f"outer: Expected 1-D argument {'self' if position == 0 else 'vec2'}, but got {value.ndim}-D"
            )
    return at.reshape(self, (-1, 1)) * vec2


composite("ger", variants="function method", out=True)(lambda at, self, vec2: at.outer(self, vec2))


@composite("matmul", variants="function method", out=True, autocast="low")
def matmul(at: Any, self: Array, other: Array) -> Any:
    """The product by NumPy's rules: vectors, matrices, stacks of matrices."""
    a, b = self.ndim, other.ndim
    if a == 2 and b == 2:
        return at.mm(self, other)
    if a == 0 or b == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    if a == 1 and b == 1:
        return at.dot(self, other)
    if a == 2 and b == 1:
        return at.mv(self, other)
    if a == 1:
        return at.squeeze(at.matmul(at.unsqueeze(self, 0), other), -2)
    if b <= 2:
        shape = tuple(self.shape)
        if b == 1:
            return at._unsafe_view(at.mv(at.reshape(self, (-1, shape[-1])), other), shape[:-1])
        if shape[-1] != other.shape[0]:
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({math.prod(shape[:-1])}x{shape[-1]} and {other.shape[0]}x{other.shape[1]})"
            )
        return at._unsafe_view(
            at.mm(at.reshape(self, (math.prod(shape[:-1]), shape[-1])), other), (*shape[:-1], other.shape[1])
        )
    return _batched(at, self, other)


def _batched(at: Any, self: Any, other: Any) -> Any:
    from readtorch.aten.expand_utils import infer_size

    n, m = tuple(self.shape)[-2:]
    k, p = tuple(other.shape)[-2:]
    lead = infer_size(tuple(self.shape)[:-2], tuple(other.shape)[:-2])
    if m != k:
        count = math.prod(lead)
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor: [{count}, {m}], which fit the other batch; they are [{count}, {k}]."
        )
    first = at.reshape(at.expand(self, (*lead, n, m)), (math.prod(lead), n, m))
    second = at.reshape(at.expand(other, (*lead, k, p)), (math.prod(lead), k, p))
    return at._unsafe_view(at.bmm(first, second), (*lead, n, p))


def _gradient_of_mat2(at: Any, grad: Array, mat1: Array, geometry: tuple) -> Any:
    """mat1ᴴ · grad, in the memory order of the second matrix."""
    (rows, columns), strides, _ = geometry
    if strides[0] == 1 and strides[1] == rows and columns > 1:
        return at.t(at.mm(at.t(grad), at.conj(mat1)))
    return at.mm(at.conj(at.t(mat1)), grad)


def _scaled(array: Array, factor: Number) -> Array:
    if factor == 1:
        return array
    return array * array.dtype.type(_number_for(array.dtype, factor))


def _number_for(kind: np.dtype, number: Any) -> Any:
    """The number that stands for `number` beside elements of that kind: without its fraction beside integers."""
    check_real(number, kind)
    if kind.kind not in "iu":
        return number
    if isinstance(number, float) and not math.isfinite(number):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return int(number)


@register("addmm", key="CPU CUDA", variants="function method", inplace=True, out=True, autocast="low")
def addmm(self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """β · self + α · mat1 mat2."""
    for name, other in (("self", self), ("mat1", mat1)):
        if other.dtype is not mat2.dtype and other.dtype != mat2.dtype:
            kinds = " and ".join(scalar_type.to_string(scalar_type.from_numpy_dtype(x.dtype)) for x in (other, mat2))
            raise RuntimeError(f"{name} and mat2 must have the same dtype, but got {kinds}")
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            f"mat{1 if mat1.ndim != 2 else 2} must be a matrix, got {mat1.ndim if mat1.ndim != 2 else mat2.ndim}-D tensor"
        )
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({mat1.shape[0]}x{mat1.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    result = _scaled(product(in_working_precision(mat1), in_working_precision(mat2)), alpha)
    if beta == 0:
        return result.astype(self.dtype, copy=False)
    try:
        result += _scaled(in_working_precision(self), beta)
    except ValueError:
        raise RuntimeError(
            f"The expanded size of the tensor ({result.shape[-1]}) must match the existing size ({self.shape[-1]}) at non-singleton dimension {result.ndim - 1}.  Target sizes: {list(result.shape)}.  Tensor sizes: {list(self.shape)}"
        ) from None
    return result.astype(self.dtype, copy=False)


derivative(
    "addmm",
    self=lambda at, grad, beta: _times(at, grad, beta),
    mat1=lambda at, grad, mat2, alpha: _times(at, at.mm(grad, at.conj(at.t(mat2))), alpha),
    mat2=lambda at, grad, mat1, mat2_geometry, alpha: _times(
        at, _gradient_of_mat2(at, grad, mat1, mat2_geometry), alpha
    ),
)


def _times(at: Any, array: Any, factor: Number) -> Any:
    return array if factor == 1 else times(at, array, factor.conjugate())


def _factors(result: Any, beta: Any, alpha: Any) -> tuple[Any, Any]:
    """The numbers as the kernel sees them."""
    kind = result.dtype if isinstance(result.dtype, np.dtype) else scalar_type.to_numpy_dtype(result.dtype)
    return _number_for(kind, beta), _number_for(kind, alpha)


def _one_dtype(message: str, *values: Any) -> None:
    """RuntimeError with this message, and the dtypes, unless there is one alone."""
    if any(value.dtype != values[0].dtype for value in values[1:]):
        raise RuntimeError(message + ", ".join(scalar_type.to_string(value.dtype) for value in values))


def _length(tensor: Any, dim: int) -> int:
    return tensor.shape[maybe_wrap_dim(dim, tensor.ndim, wrap_scalar=False)]


def _expandable(self: Any, shape: tuple[int, ...]) -> None:
    """RuntimeError unless `self` can be added to a product of that shape."""
    if not is_expandable_to(tuple(self.shape), shape):
        raise RuntimeError(
            f"The expanded size of the tensor must match the existing size. Target sizes: {list(shape)}.  Tensor sizes: {list(self.shape)}"
        )


def _promoted(*values: Any) -> scalar_type.dtype:
    kinds = [
        x.dtype if isinstance(x.dtype, scalar_type.dtype) else scalar_type.from_numpy_dtype(x.dtype) for x in values
    ]
    return reduce(scalar_type.promote_types, kinds)


@composite("baddbmm", variants="function method", inplace=True, out=True, autocast="low")
def baddbmm(at: Any, self: Array, batch1: Array, batch2: Array, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """β · self + α · batch1 batch2, per batch."""
    _expandable(self, (_length(batch1, 0), _length(batch1, 1), _length(batch2, 2)))
    _one_dtype("Input dtypes must be the same, got: ", self, batch1, batch2)
    kind = self.dtype
    if kind.itemsize == 2 and beta != 0:
        self, batch1, batch2 = (at._to_copy(x, scalar_type.float32) for x in (self, batch1, batch2))
    result = at.bmm(batch1, batch2)
    beta, alpha = _factors(result, beta, alpha)
    result = result if alpha == 1 else result * alpha
    result = result if beta == 0 else (self if beta == 1 else self * beta) + result
    return result if result.dtype == kind else at._to_copy(result, kind)


@composite("addbmm", variants="function method", inplace=True, out=True, autocast="low")
def addbmm(at: Any, self: Array, batch1: Array, batch2: Array, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """β · self + α · Σ batch1 batch2."""
    _expandable(self, (_length(batch1, 1), _length(batch2, 2)))
    _one_dtype("self and mat2 must have the same dtype, but got ", self, batch1, batch2)
    result = at.sum(at.bmm(batch1, batch2), 0, dtype=batch1.dtype)
    beta, alpha = _factors(result, beta, alpha)
    return self * beta + result * alpha


@composite("addmv", variants="function method", inplace=True, out=True, autocast="low")
def addmv(at: Any, self: Array, mat: Array, vec: Array, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """β · self + α · mat vec."""
    if mat.ndim != 2 or vec.ndim != 1 or self.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {self.ndim}, {mat.ndim}, {vec.ndim}")
    if mat.shape[1] != vec.shape[0] or (self.ndim and self.shape[0] not in (1, mat.shape[0])):
        raise RuntimeError(
            f"size mismatch, got input ({_length(self, 0)}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )
    _one_dtype("addmv input tensors must have the same dtype, but got ", self, mat, vec)
    result = at.mv(mat, vec)
    beta, alpha = _factors(result, beta, alpha)
    return self * beta + result * alpha


@composite("addr", variants="function method", inplace=True, out=True, autocast="low")
def addr(at: Any, self: Array, vec1: Array, vec2: Array, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """β · self + α · vec1 vec2ᵀ, in the dtype that all three promote to. Of truth values: `self` or both, where β or α is true."""
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"addr: Expected 1-D argument vec1 and vec2, but got {vec1.ndim}-D and {vec2.ndim}-D")
    shape = (vec1.shape[0], vec2.shape[0])
    _expandable(self, shape)
    self = at.expand(self, shape)
    kind = _promoted(self, vec1, vec2)
    for name, number in (("beta", beta), ("alpha", alpha)):
        if isinstance(number, bool) and kind is not scalar_type.bool:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if isinstance(number, float | complex) and not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
        check_real(number, scalar_type.to_numpy_dtype(kind))
    self, vec1, vec2 = (at._to_copy(x, kind) for x in (self, vec1, vec2))
    result = at.outer(vec1, vec2)
    if kind is scalar_type.bool:
        return (self & bool(beta)) | (result & bool(alpha))
    return self * beta + result * alpha


def _fitted(pattern: str, arrays: Sequence[Array]) -> tuple[int, ...] | None:
    """The shape on the right of the pattern; None if the arrays are not as its left says."""
    operands, _, result = pattern.partition("->")
    sizes: dict[str, int] = {}
    for letters, array in zip(operands.split(","), arrays, strict=True):
        if array.ndim != len(letters):
            return None
        for letter, size in zip(letters, array.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return None
    return tuple(sizes[letter] for letter in result)


def _product_on_meta(name: str, pattern: str, added: int = 0) -> None:
    """Fill the Meta column of a product, to which `added` operands in front are added."""
    kernel = operators[name].kernel(DispatchKey.CPU)

    @register(name, key="Meta")
    def product_on_meta(*args: Any, **options: Any) -> Any:
        shape = _fitted(pattern, args[added : added + 2])
        if shape is None:
            return meta_like(kernel(*(np.broadcast_to(np.int8(0), x.shape) for x in args), **options))
        for x in args[:added]:
            _expandable(x, shape)
        if any(x.dtype != args[0].dtype for x in args):  # what the kernel says to that, it says to one element too
            return meta_like(kernel(*(np.zeros((1,) * x.ndim, x.dtype) for x in args), **options))
        return meta_like(np.broadcast_to(np.zeros((), args[0].dtype), shape))


_product_on_meta("mm", "nm,mp->np")
_product_on_meta("bmm", "bnm,bmp->bnp")
_product_on_meta("mv", "nm,m->n")
_product_on_meta("addmm", "nm,mp->np", added=1)


@composite("kron", variants="function method", out=True)
def kron(at: Any, self: Array, other: Array) -> Any:
    """The Kronecker product."""
    rank = max(self.ndim, other.ndim)
    a = (1,) * (rank - self.ndim) + tuple(self.shape)
    b = (1,) * (rank - other.ndim) + tuple(other.shape)
    left = at.reshape(self, tuple(value for size in a for value in (size, 1)))
    right = at.reshape(other, tuple(value for size in b for value in (1, size)))
    return at._unsafe_view(left * right, tuple(x * y for x, y in zip(a, b, strict=True)))


@composite("cov", variants="function method")
def cov(
    at: Any, self: Array, *, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None
) -> Any:
    """The covariance matrix of variables in rows."""
    if self.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    if scalar_type.to_string(self.dtype) == "Bool":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = at.reshape(self, (1, -1)) if self.ndim < 2 else self
    x = at._true_div(x, 1)  # integers become floats
    observations = x.shape[1]
    weights = _observation_weights(at, observations, fweights, aweights)
    if weights is None:
        centred = x - at.mean(x, 1, True)
        result = at.matmul(centred, at.conj(at.t(centred))) / max(observations - correction, 0)
    else:
        total = at.sum(weights)
        if observations and not without_values(total) and not total.item():
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        centred = x - at.unsqueeze(at.sum(x * weights, 1) / total, 1)
        unbiased = total if aweights is None else total - correction * at.sum(weights * aweights) / total
        norm = total - correction if aweights is None else unbiased
        result = at.matmul(centred, at.t(at.conj(centred) * weights)) / at.clamp_min(norm, 0)
    return at.squeeze(result)


def _observation_weights(at: Any, observations: int, fweights: Any, aweights: Any) -> Any:
    """How often each observation counts (`fweights`, integers) times how much (`aweights`); None if all count once."""
    for name, weights, kinds in (("fweights", fweights, "iu"), ("aweights", aweights, "f")):
        if weights is None:
            continue
        if weights.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
            )
        if scalar_type.to_numpy_dtype(weights.dtype).kind not in kinds + ("V" if kinds == "f" else ""):
            wanted = "integral" if kinds == "iu" else "floating point"
            raise RuntimeError(
                f"cov(): expected {name} to have {wanted} dtype but got {name} with {weights.dtype} dtype"
            )
        if weights.numel() != observations:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{weights.numel()} != {observations}"
            )
        if observations and not without_values(weights) and at.amin(weights).item() < 0:
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is None or aweights is None:
        return fweights if aweights is None else aweights
    return fweights * aweights


@composite("corrcoef", variants="function method")
def corrcoef(at: Any, self: Array) -> Any:
    """The matrix of correlation coefficients of variables in rows."""
    c = at.cov(self)
    if c.ndim == 0:
        return c / c
    spread = at.sqrt(at.real(at.diagonal(c, 0, 0, 1)))
    r = c / at.unsqueeze(spread, 1) / at.unsqueeze(spread, 0)
    if scalar_type.to_string(r.dtype).startswith("Complex"):
        return at.complex(at.clamp(at.real(r), -1, 1), at.clamp(at.imag(r), -1, 1))
    return at.clamp(r, -1, 1)


def _is_bool(tensor: Any) -> bool:
    return bool(scalar_type.to_string(tensor.dtype) == "Bool")


def _check_samples(name: str, y: Any, x: Any, dx: Any) -> float:
    """The distance of neighbours where no places are given. RuntimeError for bools."""
    if x is not None:
        if dx is not None:
            raise TypeError(f"{name}() received an invalid combination of arguments: either x or dx")
        if _is_bool(y) or _is_bool(x):
            raise RuntimeError(f"{name}: received a bool input for `x` or `y`, but bool is not supported")
    elif _is_bool(y):
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    elif isinstance(dx, bool | complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    return 1.0 if dx is None else float(dx)


def _between(at: Any, y: Any, place: int) -> Any:
    """The sum of each sample and the next."""
    size = y.shape[place]
    return at.slice(y, place, 1, size, 1) + at.slice(y, place, 0, size - 1, 1)


@composite("trapezoid", variants="function")
def trapezoid(at: Any, y: Array, x: Array = UNSAID, *, dx: Number = None, dim: int = -1) -> Any:
    """The integral along `dim` by the trapezoidal rule. `x`: a place for each sample, in one dimension or in those of `y`."""
    place = maybe_wrap_dim(dim, y.ndim, wrap_scalar=False)
    if not y.shape[place]:  # nothing to integrate: zeros, whatever the rest of the call says
        return at.zeros_like(at.sum(y, place, dtype=y.dtype))
    distance = _check_samples("trapezoid", y, x, dx)
    if x is not None:
        return at.sum(_between(at, y, place) * _steps(at, "trapezoid", x, y, place), place) / 2
    ends = at.select(y, place, 0) + at.select(y, place, -1)
    return (at.sum(y, place) - ends * 0.5) * distance


def _steps(at: Any, name: str, x: Any, y: Any, place: int) -> Any:
    """The distances between sample points along `place`, to be multiplied with pairs of `y`."""
    if x.ndim == 1:
        if x.shape[0] != (y.shape[place] if y.ndim else 1):
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        return at.reshape(at.diff(x), (-1,) + (1,) * (y.ndim - place - 1))
    return at.diff(at.reshape(x, (1,) * (y.ndim - x.ndim) + tuple(x.shape)), 1, place)


@composite("cumulative_trapezoid", variants="function")
def cumulative_trapezoid(at: Any, y: Array, x: Array = UNSAID, *, dx: Number = None, dim: int = -1) -> Any:
    """The integral along `dim` from the first place to each of the others."""
    place = maybe_wrap_dim(dim, y.ndim)
    distance = _check_samples("cumulative_trapezoid", y, x, dx)
    if not y.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    pairs = _between(at, y, place)
    if x is None:
        return at.cumsum(pairs, place) * (distance / 2)
    return at.cumsum(pairs * _steps(at, "cumulative_trapezoid", x, y, place), place) / 2


@composite("trapz", variants="function")
def trapz(at: Any, y: Array, x: Array = UNSAID, *, dx: Number = None, dim: int = -1) -> Any:
    """`trapezoid` under NumPy's name."""
    places = () if x is None else (x,)
    return at.trapezoid(y, *places, dim=dim) if dx is None else at.trapezoid(y, *places, dx=dx, dim=dim)


@composite("pinverse", variants="function method")
def pinverse(at: Any, self: Array, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse, by its old name."""
    return at.linalg_pinv(self, rcond)


@register("polar", key="CPU CUDA", variants="function", out=True)
def polar(abs: Array, angle: Array) -> Array:
    """The complex numbers of these lengths and angles."""
    kinds = [scalar_type.to_string(part.dtype) for part in (abs, angle)]
    if not set(kinds) <= {"Half", "Float", "Double"}:
        raise RuntimeError("polar: both parts must be Half, Float or Double, and are {} and {}".format(*kinds))
    if kinds[0] != kinds[1]:
        raise RuntimeError("polar: expected scalar type {} but found {} as the angle".format(*kinds))
    result = np.empty(shapes("polar", (abs, angle)), np.complex128 if abs.dtype == np.float64 else np.complex64)
    result.real, result.imag = abs * np.cos(angle), abs * np.sin(angle)
    return result


derivative(
    "polar",
    abs=lambda at, grad, result: at.real(at.conj(grad) * at.sgn(result)),
    angle=lambda at, grad, result: at.real(at.conj(grad) * (result * 1j)),
)


@composite("frobenius_norm", variants="function", out=True)
def frobenius_norm(at: Any, self: Array, dim: Any, keepdim: bool = False) -> Any:
    """The root of the sum of squares, along one or two dimensions. Deprecated."""
    warn_once("at::frobenius_norm is deprecated: use torch.linalg.vector_norm")
    places = list(dim) if isinstance(dim, list | tuple) else [dim]
    if len(places) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(places)} dimensions instead.")
    return at.linalg_vector_norm(self, 2, places, keepdim)


@composite("nuclear_norm", variants="function", out=True)
def nuclear_norm(at: Any, self: Array, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum of the singular values of matrices, by default of the last two dimensions. Deprecated."""
    warn_once("at::nuclear_norm is deprecated: use torch.linalg.matrix_norm with 'nuc'")
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    first, second = (maybe_wrap_dim(place, self.ndim) for place in ((-2, -1) if dim is None else dim))
    moved = at.movedim(self, (first, second), (-2, -1))
    total = at.sum(at.linalg_svdvals(moved), -1)
    return at.unsqueeze(at.unsqueeze(total, min(first, second)), max(first, second)) if keepdim else total
