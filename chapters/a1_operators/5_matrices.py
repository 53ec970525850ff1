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
# # Matrices
#
# Reference: products of matrices and what is made of them. One rule covers them all: for C = A B, ∂L/∂A = G Bᴴ and ∂L/∂B = Aᴴ G.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Products
#
# | operator | shapes |
# |---|---|
# | mm | (n, m) × (m, p) → (n, p) |
# | bmm | (b, n, m) × (b, m, p) → (b, n, p) |
# | mv, dot | (n, m) × (m) → (n); (n) × (n) → () |
# | matmul | any, the leading dimensions broadcast |
# | addmm | β · input + α · A B |

# %%
#| into: aten/native/linear_algebra.py
#| imports
from collections.abc import Sequence

from readtorch.aten.core.dispatch.dispatcher import composite, operators
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.native.binary_ops import times
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.dispatch_key import DispatchKey, meta_like, without_values
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

from readtorch.aten.tensor_iterator import in_order


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/native_functions.yaml#bmm
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


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/Blas.cpp#at::native::mv
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

# %% [markdown]
# ### matmul
# Upstream folds the leading dimensions of the first operand into one matrix when the second is a matrix: one large product instead of many small ones. The graph tells which way a product went: `UnsafeViewBackward0` on top of `MmBackward0` is one that was folded, on top of `BmmBackward0` a batch.


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/LinearAlgebra.cpp#at::native::matmul
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


# %% [markdown]
# A linear layer keeps its weight as (out, in) and multiplies by the transposed view, so `addmm` sees a second matrix whose columns lie in one piece. Its gradient is wanted in the same order: then the view's own derivative, another transposition, hands
# the leaf a gradient in the leaf's memory order, which `AccumulateGrad` takes over as it is. Computed the other way round the numbers are equal, and each step copies every weight's gradient once more (a fifth of the time of a small MLP's step).


# %%
#| into: aten/native/linear_algebra.py
#| upstream: torch/csrc/autograd/FunctionsManual.cpp#torch::autograd::generated::details::mm_mat2_backward
def _gradient_of_mat2(at: Any, grad: Array, mat1: Array, geometry: tuple) -> Any:
    """mat1ᴴ · grad, in the memory order of the second matrix."""
    (rows, columns), strides, _ = geometry
    if strides[0] == 1 and strides[1] == rows and columns > 1:
        return at.t(at.mm(at.t(grad), at.conj(mat1)))
    return at.mm(at.conj(at.t(mat1)), grad)


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/native_functions.yaml#addmm
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


# %%
#| claim: a batch times a matrix is one folded product, a batch times a batch is bmm; with beta=0 what stands in the first operand of addmm is not looked at, not even a NaN
#| upstream: aten/src/ATen/native/LinearAlgebra.cpp#at::native::matmul
def _(torch):
    batch, matrix = torch.ones(2, 3, 4, requires_grad=True), torch.ones(4, 5)
    for second, name in ((matrix, "MmBackward0"), (matrix.expand(2, 4, 5), "BmmBackward0")):
        node = (batch @ second).grad_fn
        assert node.name() == "UnsafeViewBackward0" and node.next_functions[0][0].name() == name
    unset = torch.full((2, 2), float("nan"))
    assert torch.addmm(unset, torch.ones(2, 2), torch.ones(2, 2), beta=0).tolist() == [[2, 2], [2, 2]]


# %% [markdown]
# ### Products of nothing
#
# An operator that fills no `Meta` column has its CPU kernel run on zeros, and what comes out is stripped to shape and dtype ([the dispatcher](../00_tensor/03_dispatcher.py)). A product of two 10,000-row matrices of zeros takes as long as any other:
# asking a model for its shapes would take as long as running it. For products the result's shape can be read off the operands', and a pattern in the notation of the next section says how. Operands that do not fit it go to the kernel, which refuses
# them before it has multiplied anything, in the same words as on the CPU.


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/native_functions.yaml#addmm
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

# %%
import time

huge = torch.ones(20_000, 20_000, device="meta")
began = time.perf_counter()
shapes = [
    tuple((huge @ huge).shape),
    tuple(torch.addmm(huge[0], huge, huge).shape),
    tuple(torch.baddbmm(huge, huge[None], huge[None]).shape),
]
shapes, "less than a second" if time.perf_counter() - began < 1 else "the products were computed"


# %%
#| claim: products on the meta device have the shape and dtype of products, and refuse what products refuse
def _(torch):
    a, b = torch.ones(3, 4, device="meta"), torch.ones(4, 5, device="meta")
    assert (a @ b).shape == (3, 5) and (a @ b).is_meta
    assert torch.addmm(torch.ones(5, device="meta"), a, b).shape == (3, 5)
    assert torch.baddbmm(torch.ones(2, 1, 5, device="meta"), a.expand(2, 3, 4), b.expand(2, 4, 5)).shape == (2, 3, 5)
    assert torch.addmv(torch.ones(3, device="meta"), a, b[:, 0]).shape == (3,)
    for wrong in (lambda: b @ a, lambda: torch.addmm(torch.ones(4, device="meta"), a, b)):
        try:
            wrong()
        except RuntimeError:
            continue
        raise AssertionError("no error")


# %% [markdown]
# ## einsum
# A sum over named indices. Ours goes operand by operand: each pair is laid out as a batched matrix product over the indices that are shared, and summed over those that occur nowhere else.

# %%
#| into: aten/native/linear.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/linear.py
#| upstream: aten/src/ATen/native/Linear.cpp#at::native::einsum
def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The index names of each operand and of the result; `...` becomes names of its own. RuntimeError on a malformed equation."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        fewer = "fewer" if len(ranks) < len(terms) else "more"
        raise RuntimeError(
            f"einsum(): {fewer} operands were provided than specified in the equation: {len(ranks)}, not {len(terms)}"
        )
    spread = max(
        [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term],
        default=0,
    )
    inputs = []
    for number, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        names = _names_of(term, rank, spread)
        if len(names) != rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(names)}) does not match the number of dimensions ({rank}) "
                f"for operand {number} and no ellipsis was given"
            )
        inputs.append(names)
    if arrow:
        output = _names_of(right, None, spread)
        known = {name for names in inputs for name in names}
        for name in output:
            if name not in known:
                raise RuntimeError(
                    f"einsum(): output subscript {name} does not appear in the equation for any input operand"
                )
            if output.count(name) > 1:
                raise RuntimeError(f"einsum(): output subscript {name} appears more than once in the output")
        return inputs, output
    flat = [name for names in inputs for name in names]
    dots = [f"#{i}" for i in range(spread)]
    return inputs, dots + sorted({name for name in flat if flat.count(name) == 1 and not name.startswith("#")})


def _names_of(term: str, rank: int | None, spread: int) -> list[str]:
    head, dots, tail = term.partition("...")
    for letter in head + tail:
        if not letter.isalpha():
            raise RuntimeError(f"einsum(): invalid subscript given, subscripts must be in [a-zA-Z], found {letter}")
    if not dots:
        return list(head)
    count = spread if rank is None else rank - len(head) - len(tail)
    return [*head, *(f"#{i}" for i in range(spread - count, spread)), *tail]


@composite("einsum", variants="")
def einsum(at: Any, equation: str, operands: Sequence[Array]) -> Any:
    """The sum of products that the equation spells, `"bij,bjk->bik"`."""
    inputs, output = parse_equation(equation, [operand.ndim for operand in operands])
    sizes: dict[str, int] = {}
    for number, (names, operand) in enumerate(zip(inputs, operands, strict=True)):
        own: dict[str, int] = {}
        for name, size in zip(names, operand.shape, strict=True):
            if own.setdefault(name, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {name} is repeated for operand {number} but the sizes don't match, {size} != {own[name]}"
                )
            if sizes.setdefault(name, size) != size:
                if sizes[name] == 1:
                    sizes[name] = size
                elif size != 1:
                    raise RuntimeError(
                        f"einsum(): subscript {name} has size {size} for operand {number} which does not broadcast with previously seen size {sizes[name]}"
                    )
    current, names = _diagonals(at, operands[0], inputs[0])
    for number in range(1, len(operands)):
        other, other_names = _diagonals(at, operands[number], inputs[number])
        later = {name for rest in inputs[number + 1 :] for name in rest} | set(output)
        current, names = _pair(at, current, names, other, other_names, later)
    extra = [i for i, name in enumerate(names) if name not in output]
    if extra:
        current = at.sum(current, tuple(extra))
        names = [name for name in names if name in output]
    return at.permute(current, [names.index(name) for name in output]) if names != output else current


def _diagonals(at: Any, operand: Any, names: list[str]) -> tuple[Any, list[str]]:
    """A name that stands twice means the diagonal."""
    names = list(names)
    while len(set(names)) != len(names):
        name = next(n for n in names if names.count(n) > 1)
        first = names.index(name)
        second = names.index(name, first + 1)
        operand = at.diagonal(operand, 0, first, second)
        names = [n for i, n in enumerate(names) if i not in (first, second)] + [name]
    return operand, names


def _pair(at: Any, a: Any, a_names: list[str], b: Any, b_names: list[str], later: set[str]) -> tuple[Any, list[str]]:
    """Multiply two operands, summing the indices that nothing later needs."""
    a, a_names = _sum_alone(at, a, a_names, set(b_names) | later)
    b, b_names = _sum_alone(at, b, b_names, set(a_names) | later)
    shared = [n for n in a_names if n in b_names]
    a_size, b_size = dict(zip(a_names, a.shape, strict=True)), dict(zip(b_names, b.shape, strict=True))
    summed = [n for n in shared if n not in later and a_size[n] == b_size[n]]
    batch = [n for n in shared if n not in summed]
    a_only, b_only = [n for n in a_names if n not in shared], [n for n in b_names if n not in shared]
    batch_shape = [max(a_size[n], b_size[n]) for n in batch]
    a = at.permute(a, [a_names.index(n) for n in batch + a_only + summed])
    b = at.permute(b, [b_names.index(n) for n in batch + summed + b_only])
    rows = [a_size[n] for n in a_only]
    columns = [b_size[n] for n in b_only]
    inner = [a_size[n] for n in summed]
    a = at.expand(a, (*batch_shape, *rows, *inner))
    b = at.expand(b, (*batch_shape, *inner, *columns))
    if not summed and len(batch) == len(shared):
        return _multiplied(at, a, b, batch_shape, rows, columns), batch + a_only + b_only
    count = math.prod(batch_shape)
    a = at.reshape(a, (count, math.prod(rows), math.prod(inner)))
    b = at.reshape(b, (count, math.prod(inner), math.prod(columns)))
    left = [n for n in batch if n not in later]
    result = at.reshape(at.bmm(a, b), (*batch_shape, *rows, *columns))
    names = batch + a_only + b_only
    if left:
        result = at.sum(result, tuple(names.index(n) for n in left))
        names = [n for n in names if n not in left]
    return result, names


def _multiplied(at: Any, a: Any, b: Any, batch: list[int], rows: list[int], columns: list[int]) -> Any:
    """The product of operands of which nothing is summed."""
    return at.reshape(a, (*batch, *rows, *[1] * len(columns))) * at.reshape(b, (*batch, *[1] * len(rows), *columns))


def _sum_alone(at: Any, operand: Any, names: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    """Sum at once over indices that occur in this operand alone."""
    alone = [i for i, name in enumerate(names) if name not in keep]
    return (at.sum(operand, tuple(alone)), [name for name in names if name in keep]) if alone else (operand, names)


# %%
#| into: aten/native/linear.py
#| upstream: aten/src/ATen/native/Linear.cpp#at::native::tensordot
@composite("tensordot", variants="function", out=True)
def tensordot(at: Any, a: Any, b: Any, dims: Any = 2) -> Any:
    """The sum of products over the last dimensions of one and the first of the other, or over the pairs given."""
    if hasattr(dims, "dtype") and dims.ndim == 0:
        dims = int(dims)
    if not isinstance(dims, int | list | tuple) and not hasattr(dims, "dtype"):
        raise RuntimeError(
            f"tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]], but got {dims}"
        )
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > a.ndim or dims > b.ndim:
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        pairs = dims.tolist() if hasattr(dims, "dtype") else list(dims)
        if len(pairs) != 2:
            raise ValueError(f"tensordot takes two lists of dimensions; these are {len(pairs)}")
        for name, ds in zip(("dims_self", "dims_other"), pairs, strict=True):
            if not isinstance(ds, list | tuple) or any(d is None or isinstance(d, str | float) for d in ds):
                raise TypeError(f"tensordot(): argument '{name}' must be tuple of ints, not {type(ds).__name__}")
        if len(pairs[0]) != len(pairs[1]):
            raise RuntimeError("both dimension lists should have same length")
        first, second = (
            [maybe_wrap_dim(d, x.ndim, wrap_scalar=False) for d in ds] for ds, x in zip(pairs, (a, b), strict=True)
        )
    for i, j in zip(first, second, strict=True):
        if a.shape[i] == 1 != b.shape[j]:  # stretched: the sum of products is a product with the sum
            b = at.sum(b, j, True)
        elif b.shape[j] == 1 != a.shape[i]:
            a = at.sum(a, i, True)
        elif a.shape[i] != b.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}"
            )
    rows, columns = [i for i in range(a.ndim) if i not in first], [j for j in range(b.ndim) if j not in second]
    inner = math.prod(a.shape[i] for i in first)
    left = at.reshape(at.permute(a, rows + first), (math.prod(a.shape[i] for i in rows), inner))
    right = at.reshape(at.permute(b, second + columns), (inner, math.prod(b.shape[j] for j in columns)))
    return at.reshape(at.mm(left, right), (*(a.shape[i] for i in rows), *(b.shape[j] for j in columns)))
