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
composite("vdot", variants="function method")(lambda at, self, other: at.dot(at.conj(self), other))


@composite("inner", variants="function method")
def inner(at: Any, self: Array, other: Array) -> Any:
    """Products summed over the last dimension of both."""
    return self * other if not self.ndim or not other.ndim else at.tensordot(self, other, ([-1], [-1]))


@composite("outer", variants="function method", out=True)
def outer(at: Any, self: Array, vec2: Array) -> Any:
    """All products of an element of one vector and one of the other."""
    for position, value in enumerate((self, vec2)):
        if value.ndim != 1:
            raise RuntimeError(
                f"outer: Expected 1-D argument {'self' if position == 0 else 'vec2'}, but got {value.ndim}-D"
            )
    return at.reshape(self, (-1, 1)) * vec2


composite("ger", variants="function method")(lambda at, self, vec2: at.outer(self, vec2))

# %% [markdown]
# ### matmul
# Upstream folds the leading dimensions of the first operand into one matrix when the second is a matrix: one large product instead of many small ones. The graph tells which way a product went: `UnsafeViewBackward0` on top of `MmBackward0` is one that was folded, on top of `BmmBackward0` a batch.


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/LinearAlgebra.cpp#at::native::matmul
@composite("matmul", variants="function method", out=True)
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
    check_real(factor, array.dtype)
    return array * array.dtype.type(factor)


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
    result = _scaled(product(mat1, mat2), alpha)
    if beta == 0:
        return result
    try:
        result += _scaled(self, beta)
    except ValueError:
        raise RuntimeError(
            f"The expanded size of the tensor ({result.shape[-1]}) must match the existing size ({self.shape[-1]}) at non-singleton dimension {result.ndim - 1}.  Target sizes: {list(result.shape)}.  Tensor sizes: {list(self.shape)}"
        ) from None
    return result


derivative(
    "addmm",
    self=lambda at, grad, beta: grad if beta == 1 else grad * beta,
    mat1=lambda at, grad, mat2, alpha: at.mm(grad if alpha == 1 else grad * alpha, at.conj(at.t(mat2))),
    mat2=lambda at, grad, mat1, mat2_geometry, alpha: _gradient_of_mat2(
        at, grad if alpha == 1 else grad * alpha, mat1, mat2_geometry
    ),
)


def _factors(result: Any, beta: float, alpha: float) -> tuple[float, float]:
    """The numbers as the kernel sees them: without their fractions where the result is of integers."""
    kind = result.dtype
    whole = kind.kind in "iu" if isinstance(kind, np.dtype) else not (kind.is_floating_point or kind.is_complex)
    return (int(beta), int(alpha)) if whole else (beta, alpha)


def _length(tensor: Any, dim: int) -> int:
    return tensor.shape[maybe_wrap_dim(dim, tensor.ndim, wrap_scalar=False)]


def _expandable(self: Any, shape: tuple[int, ...]) -> None:
    """RuntimeError unless `self` can be added to a product of that shape."""
    if not is_expandable_to(tuple(self.shape), shape):
        raise RuntimeError(
            f"The expanded size of the tensor must match the existing size. Target sizes: {list(shape)}.  Tensor sizes: {list(self.shape)}"
        )


@composite("baddbmm", variants="function method", inplace=True, out=True)
def baddbmm(at: Any, self: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1) -> Any:
    """β · self + α · batch1 batch2, per batch."""
    _expandable(self, (_length(batch1, 0), _length(batch1, 1), _length(batch2, 2)))
    result = at.bmm(batch1, batch2)
    beta, alpha = _factors(result, beta, alpha)
    result = result if alpha == 1 else result * alpha
    return result if beta == 0 else (self if beta == 1 else self * beta) + result


@composite("addbmm", variants="function method", inplace=True, out=True)
def addbmm(at: Any, self: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1) -> Any:
    """β · self + α · Σ batch1 batch2."""
    _expandable(self, (_length(batch1, 1), _length(batch2, 2)))
    result = at.sum(at.bmm(batch1, batch2), 0)
    beta, alpha = _factors(result, beta, alpha)
    return self * beta + result * alpha


@composite("addmv", variants="function method", inplace=True, out=True)
def addmv(at: Any, self: Array, mat: Array, vec: Array, *, beta: float = 1, alpha: float = 1) -> Any:
    """β · self + α · mat vec."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {self.ndim}, {mat.ndim}, {vec.ndim}")
    result = at.mv(mat, vec)
    beta, alpha = _factors(result, beta, alpha)
    return self * beta + result * alpha


@composite("addr", variants="function method", inplace=True, out=True)
def addr(at: Any, self: Array, vec1: Array, vec2: Array, *, beta: float = 1, alpha: float = 1) -> Any:
    """β · self + α · vec1 vec2ᵀ."""
    result = at.outer(vec1, vec2)
    beta, alpha = _factors(result, beta, alpha)
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
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(terms)}) does not match the number of operands ({len(ranks)})"
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
                f"einsum(): the number of subscripts in the equation ({len(names)}) does not match the number of dimensions ({rank}) for operand {number}"
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
    for names, operand in zip(inputs, operands, strict=True):
        for name, size in zip(names, operand.shape, strict=True):
            if sizes.setdefault(name, size) != size:
                if sizes[name] == 1:
                    sizes[name] = size
                elif size != 1:
                    raise RuntimeError(
                        f"einsum(): subscript {name} has size {size} for operand which does not broadcast with previously seen size {sizes[name]}"
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
            if not isinstance(ds, list | tuple):
                raise TypeError(f"tensordot(): argument '{name}' must be tuple of ints, not {type(ds).__name__}")
        first, second = ([maybe_wrap_dim(d, x.ndim) for d in ds] for ds, x in zip(pairs, (a, b), strict=True))
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
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


# %% [markdown]
# ## Triangles, crosses, traces

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import triangular_ops as triangular_ops

# %%
#| into: aten/native/triangular_ops.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, cpu, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import not_implemented, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

from readtorch.aten.tensor_iterator import in_order


# %%
#| into: aten/native/triangular_ops.py
#| upstream: aten/src/ATen/native/TriangularOps.cpp#at::native::tril_cpu
def _check_rank(name: str, self: Array) -> None:
    if self.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


@register("tril", key="CPU CUDA", variants="function method", inplace=True, out=True)
def tril(self: Array, diagonal: int = 0) -> Array:
    """Zeros above a diagonal."""
    _check_rank("tril", self)
    return in_order(np.tril(self, diagonal))


@register("triu", key="CPU CUDA", variants="function method", inplace=True, out=True)
def triu(self: Array, diagonal: int = 0) -> Array:
    """Zeros below a diagonal."""
    _check_rank("triu", self)
    return in_order(np.triu(self, diagonal))


derivative("tril", self=lambda at, grad, diagonal: at.tril(grad, diagonal))
derivative("triu", self=lambda at, grad, diagonal: at.triu(grad, diagonal))


@register("trace", key="CPU CUDA", variants="function method", out=True)
def trace(self: Array) -> Array:
    """The sum of the diagonal."""
    if self.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    return cpu.sum(cpu.diagonal(self, 0, 0, 1))


def _trace_backward(at: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    return at.diagonal_backward(at.expand(grad, (min(shape),)), shape, 0, 0, 1)


derivative("trace", self=lambda at, grad, self_shape: _trace_backward(at, grad, self_shape))


@composite("cross", variants="function method", out=True)
def cross(at: Any, self: Array, other: Array, dim: int | None = None) -> Any:
    """The cross product of vectors of three along `dim`."""
    if dim is None:
        dim = next((axis for axis, size in enumerate(self.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    if self.ndim != other.ndim:
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions. Got {self.ndim} and {other.ndim}"
        )
    place = maybe_wrap_dim(dim, self.ndim)
    if self.shape[place] != 3 or other.shape[place] != 3:
        sizes = f"{self.shape[place]} and {other.shape[place]}"
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes}")
    if to_string(self.dtype) == "Bool" and to_string(other.dtype) == "Bool":
        raise not_implemented("cross", self.dtype)
    a, b = [[at.select(x, dim, i) for i in range(3)] for x in (self, other)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    return at.stack(parts, dim)


# %% [markdown]
# ## Solving
#
# | operator | derivative |
# |---|---|
# | inv A | −A⁻ᴴ G A⁻ᴴ |
# | solve A x = b | for b: x̄ = A⁻ᴴ G; for A: −x̄ xᴴ |
# | det A | G · det A · A⁻ᴴ |
# | cholesky, qr, svd, eigh | the standard adjoints (Giles 2008; Seeger et al. 2017) |

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import batch_linear_algebra as batch_linear_algebra

# %%
#| into: aten/native/batch_linear_algebra.py
#| imports
from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.tensor_factories import in_one_piece, is_in_one_piece
from readtorch.c10.core.dispatch_key import values_for, without_values
from readtorch.c10.core.scalar_type import int32, not_implemented, to_string
from readtorch.aten.native.unary_ops import is_complex


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_inv_ex_out
class LinAlgError(RuntimeError):
    """A matrix cannot be inverted, factorised or decomposed. Known as `torch.linalg.LinAlgError`."""


LinAlgError.__module__ = "torch._C"
LinAlgError.__qualname__ = LinAlgError.__name__ = "_LinAlgError"


def _converged(name: str, decompose: Any, A: Array, *args: Any, **options: Any) -> Any:
    """The decomposition. LinAlgError where the iteration does not end, as with NaN in the matrix."""
    try:
        return decompose(A, *args, **options)
    except np.linalg.LinAlgError:
        why = "is ill-conditioned" if np.isfinite(A).all() else "holds non-finite values"
        raise LinAlgError(f"{name}: failed to converge, for the matrix {why}") from None


def _matrices(name: str, self: Array) -> None:
    if self.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")


def _square(name: str, self: Array) -> None:
    _matrices(f"linalg.{name}", self)
    if self.shape[-1] != self.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices; these have {self.shape[-2]} rows and {self.shape[-1]} columns"
        )


def solvable(name: str, A: Any, B: Any, left: bool = True) -> None:
    """RuntimeError if A X = B (X A = B) makes no sense for matrices of these shapes."""
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


def _adjoint(at: Any, x: Any) -> Any:
    return at.conj(at.transpose(x, -2, -1))


@register(
    "linalg_inv",
    specimen="identity",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    out=True,
    node="LinalgInvEx",
)
def linalg_inv(A: Array) -> Array:
    """The inverse."""
    _square("inv", A)
    try:
        return np.linalg.inv(A)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular."
        ) from None


derivative(
    "linalg_inv", A=lambda at, grad, result: -at.matmul(_adjoint(at, result), at.matmul(grad, _adjoint(at, result)))
)
composite("inverse", variants="function method")(lambda at, self: at.linalg_inv(self))


@register("_linalg_solve", specimen="identity", key="CPU CUDA", variants="", node="LinalgSolveEx")
def _linalg_solve(A: Array, B: Array) -> Array:
    _square("solve", A)
    solvable("linalg.solve", A, B)
    try:
        return np.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        raise LinAlgError("torch.linalg.solve: The solver failed because the input matrix is singular.") from None


def _solve_backward(at: Any, grad: Any, A: Any, result: Any, mask: tuple[bool, ...]) -> Any:
    to_b = at._linalg_solve(_adjoint(at, A), grad)
    return -at.matmul(to_b, _adjoint(at, result)) if mask[0] else None, to_b


derivative("_linalg_solve", {"A, B": lambda at, grad, A, result, mask: _solve_backward(at, grad, A, result, mask)})


@composite("linalg_solve", module="linalg", variants="function", out=True)
def linalg_solve(at: Any, A: Array, B: Array, *, left: bool = True) -> Any:
    """X with A X = B (or X A = B with `left=False`); B may be a vector."""
    if A.dtype != B.dtype:
        names = [to_string(x.dtype) for x in (A, B)]
        raise RuntimeError(f"linalg.solve: Expected A and B to have the same dtype, not {names[0]} and {names[1]}")
    if not left:
        return at.transpose(at.linalg_solve(at.transpose(A, -2, -1), at.transpose(B, -2, -1)), -2, -1)
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape)[:-1])
    result = at._linalg_solve(A, at.unsqueeze(B, -1) if is_vector else B)
    return at.squeeze(result, -1) if is_vector else result


@register("linalg_det", module="linalg", key="CPU CUDA", variants="function")
def linalg_det(A: Array) -> Array:
    """The determinant."""
    _square("det", A)
    return np.asarray(np.linalg.det(A))


derivative(
    "linalg_det",
    A=lambda at, grad, A, result: (
        at.unsqueeze(at.unsqueeze(grad * at.conj(result), -1), -1) * _adjoint(at, at.linalg_inv(A))
    ),
)
composite("det", variants="function method")(lambda at, self: at.linalg_det(self))


@register(
    "linalg_slogdet",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    outputs="sign logabsdet",
    named="linalg_slogdet",
)
def linalg_slogdet(A: Array) -> Any:
    """Sign and logarithm of the size of the determinant."""
    _square("slogdet", A)
    sign, size = np.linalg.slogdet(A)
    return [np.asarray(sign), np.asarray(size)]


derivative(
    "linalg_slogdet",
    A=lambda at, grads, A: (
        None if grads[1] is None else at.unsqueeze(at.unsqueeze(grads[1], -1), -1) * _adjoint(at, at.linalg_inv(A))
    ),
)
composite("slogdet", variants="function method", named="slogdet", outputs="sign logabsdet")(
    lambda at, self: at.linalg_slogdet(self)
)
composite("logdet", variants="function method")(lambda at, self: at.log(at.linalg_det(self)))


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_cholesky_ex_out
@register(
    "linalg_cholesky",
    specimen="identity",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    node="LinalgCholeskyEx",
)
def linalg_cholesky(A: Array, *, upper: bool = False) -> Array:
    """The triangle L with A = L Lᴴ."""
    _square("cholesky", A)
    try:
        lower = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.cholesky: the input is not positive-definite (the leading minor of order 1 is not)."
        ) from None
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


def _cholesky_backward(at: Any, grad: Any, upper: bool, result: Any) -> Any:
    L, G = (_adjoint(at, result), _adjoint(at, grad)) if upper else (result, grad)
    phi = at.tril(at.matmul(_adjoint(at, L), at.tril(G)))
    half = phi + _adjoint(at, at.tril(phi, -1))
    inverse = at.linalg_inv(L)
    return at.matmul(_adjoint(at, inverse), at.matmul(half, inverse)) * 0.5


derivative("linalg_cholesky", A=_cholesky_backward)


@composite("cholesky", variants="function method")
def cholesky(at: Any, self: Array, upper: bool = False) -> Any:
    """The old name of `linalg.cholesky`, which did not ask what shape nothing has."""
    return self if 0 in tuple(self.shape) else at.linalg_cholesky(self, upper=upper)


@register(
    "_linalg_qr",
    key="CPU CUDA",
    variants="",
    outputs="Q R",
    named="linalg_qr",
    node="LinalgQr",
)
def _linalg_qr(A: Array, mode: str) -> Any:
    _matrices("linalg.qr", A)
    decompose: Any = np.linalg.qr
    return list(decompose(A, mode))


def _qr_backward(at: Any, grads: Any, Q: Any, R: Any) -> Any:
    """For a wide A = [X Y], R = [U V], Q U = X and Y = Q V: what reaches Y passes through Q."""
    to_q, to_r = grads
    rows, columns = R.shape[-2:]
    if rows < columns:
        V = at.slice(R, -1, rows, columns, 1)
        to_y = None if to_r is None else at.slice(to_r, -1, rows, columns, 1)
        through = None if to_y is None else at.matmul(to_y, _adjoint(at, V))
        to_q = through if to_q is None else to_q if through is None else to_q + through
        to_u = None if to_r is None else at.slice(to_r, -1, 0, rows, 1)
        to_x = _qr_backward(at, (to_q, to_u), Q, at.slice(R, -1, 0, rows, 1))
        return at.cat([to_x, at.zeros_like(V) if to_y is None else at.matmul(Q, to_y)], -1)
    m = None if to_r is None else at.matmul(R, _adjoint(at, to_r))
    if to_q is not None:
        part = at.matmul(_adjoint(at, to_q), Q)
        m = -part if m is None else m - part
    triangle = at.tril(m)
    symmetric = triangle + _adjoint(at, at.tril(m, -1))
    right = at.matmul(Q, symmetric)
    if to_q is not None:
        right = right + to_q
    return _adjoint(at, at.linalg_solve(R, _adjoint(at, right)))


derivative("_linalg_qr", A=lambda at, grads, Q, R: _qr_backward(at, grads, Q, R))


@composite("linalg_qr", module="linalg", variants="function")
def linalg_qr(at: Any, A: Array, mode: str = "reduced") -> Any:
    """A = Q R with orthonormal Q and upper triangular R."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}': there are 'reduced' (the default), 'complete' and 'r'"
        )
    return at._linalg_qr(A, mode)


composite("qr", variants="function method", named="qr", outputs="Q R")(
    lambda at, self, some=True: at.linalg_qr(self, "reduced" if some else "complete")
)


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_svd_out
@register(
    "_linalg_svd",
    key="CPU CUDA",
    variants="",
    outputs="U S Vh",
    named="linalg_svd",
    node="LinalgSvd",
)
def _linalg_svd(A: Array, full_matrices: bool) -> Any:
    _matrices("linalg.svd", A)
    return list(_converged("linalg.svd", np.linalg.svd, A, full_matrices=full_matrices))


def _svd_backward(at: Any, grads: Any, U: Any, S: Any, Vh: Any) -> Any:
    to_u, to_s, to_v = grads
    V = _adjoint(at, Vh)
    count = S.shape[-1]
    row, column = at.unsqueeze(S, -2), at.unsqueeze(S, -1)
    square = row * row - column * column
    eye = at.diag_embed(at.ones_like(S))
    F = at.where(eye == 1, 0, 1 / at.where(eye == 1, at.ones_like(square), square))
    middle = at.diag_embed(to_s) if to_s is not None else at.diag_embed(at.zeros_like(S))
    if to_u is not None:
        part = at.matmul(_adjoint(at, U), to_u)
        middle = middle + (part - _adjoint(at, part)) * F * row
    if to_v is not None:
        part = at.matmul(Vh, _adjoint(at, to_v))
        middle = middle + column * ((part - _adjoint(at, part)) * F)
    result = at.matmul(U, at.matmul(middle, Vh))
    if to_u is not None and U.shape[-2] > count:
        outside = to_u / row - at.matmul(U, at.matmul(_adjoint(at, U), to_u / row))
        result = result + at.matmul(outside, Vh)
    if to_v is not None and V.shape[-2] > count:
        right = to_v / column
        result = result + at.matmul(U, right - at.matmul(at.matmul(right, V), Vh))
    return result


derivative("_linalg_svd", A=lambda at, grads, U, S, Vh: _svd_backward(at, grads, U, S, Vh))


@composite("linalg_svd", module="linalg", variants="function")
def linalg_svd(at: Any, A: Array, full_matrices: bool = True) -> Any:
    """A = U diag(S) Vᴴ."""
    return at._linalg_svd(A, full_matrices)


@register("_no_vectors", key="CPU CUDA", variants="", outputs="U V", differentiable_outputs=())
def _no_vectors(self: Array) -> Any:
    """Zeros, square, where singular vectors would be."""
    return [np.zeros((*self.shape[:-2], size, size), self.dtype) for size in self.shape[-2:]]


@composite("svd", variants="function method", named="svd", outputs="U S V")
def svd(at: Any, self: Array, some: bool = True, compute_uv: bool = True) -> Any:
    """The old form: V in place of Vᴴ."""
    if compute_uv:
        U, S, Vh = at._linalg_svd(self, not some)
        return U, S, _adjoint(at, Vh)
    U, V = at._no_vectors(self)
    return U, at.linalg_svdvals(self), V


@composite("linalg_svdvals", module="linalg", variants="function")
def linalg_svdvals(at: Any, A: Array) -> Any:
    """The singular values."""
    return at._linalg_svd(A, False)[1]


@composite("matrix_norm_nuclear", variants="")
def matrix_norm_nuclear(at: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    """The sum of the singular values."""
    result = at.sum(at.linalg_svdvals(self), -1)
    return at.unsqueeze(at.unsqueeze(result, -1), -1) if keepdim else result


@register(
    "linalg_eigh",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    outputs="eigenvalues eigenvectors",
    named="linalg_eigh",
)
def linalg_eigh(A: Array, UPLO: str = "L") -> Any:
    """Eigenvalues, ascending, and eigenvectors of a Hermitian matrix."""
    _square("eigh", A)
    if UPLO[:1].upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    decompose: Any = np.linalg.eigh
    return list(decompose(A, UPLO))


def _eigh_backward(at: Any, grads: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    to_values, to_vectors = grads
    V = eigenvectors
    middle = at.diag_embed(to_values) if to_values is not None else at.diag_embed(at.zeros_like(eigenvalues))
    if to_vectors is not None:
        distance = at.unsqueeze(eigenvalues, -2) - at.unsqueeze(eigenvalues, -1)
        eye = at.diag_embed(at.ones_like(eigenvalues))
        part = at.matmul(_adjoint(at, V), to_vectors)
        middle = middle + at.where(eye == 1, 0, part / at.where(eye == 1, at.ones_like(distance), distance))
    return at.matmul(V, at.matmul(middle, _adjoint(at, V)))


derivative(
    "linalg_eigh", A=lambda at, grads, eigenvalues, eigenvectors: _eigh_backward(at, grads, eigenvalues, eigenvectors)
)


@register("linalg_matrix_rank", module="linalg", key="CPU CUDA", variants="function")
def linalg_matrix_rank(
    A: Array, tol: float | None = None, hermitian: bool = False, *, atol: float | None = None, rtol: float | None = None
) -> Array:
    """How many singular values are larger than the tolerance."""
    _matrices("torch.linalg.matrix_rank", A)
    if 0 in A.shape:
        return np.zeros(A.shape[:-2], np.int64)
    values = _converged("linalg.svd", np.linalg.svd, A, compute_uv=False)
    limit = tol if tol is not None else max(A.shape[-2:]) * np.finfo(A.dtype).eps * values.max(axis=-1, keepdims=True)
    return np.asarray((values > limit).sum(axis=-1), np.int64)


@register("_linalg_pinv", key="CPU CUDA", variants="")
def _linalg_pinv(A: Array, rcond: float) -> Array:
    if A.ndim < 2:
        raise RuntimeError(
            "linalg.pinv: expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    return _converged("linalg.svd", np.linalg.pinv, A, rcond)


@composite("linalg_pinv", module="linalg", variants="function")
def linalg_pinv(at: Any, A: Any, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse."""
    return at._linalg_pinv(A, rcond)


@register("linalg_lstsq_solution", key="CPU CUDA", variants="")
def linalg_lstsq_solution(A: Array, B: Array) -> Array:
    """The least-squares solution of A X = B."""
    return np.linalg.lstsq(A, B, rcond=None)[0]


@composite("linalg_matrix_power", module="linalg", variants="function")
def linalg_matrix_power(at: Any, A: Any, n: int) -> Any:
    """A multiplied by itself."""
    _square("matrix_power", A)
    if n < 0:
        return at.linalg_matrix_power(at.linalg_inv(A), -n)
    if n == 0:
        return at._eye_rows(A)
    half = at.linalg_matrix_power(A, n // 2) if n > 1 else A
    square = at.matmul(half, half) if n > 1 else A
    return at.matmul(square, A) if n > 1 and n % 2 else square


composite("matrix_power", variants="function method")(lambda at, self, n: at.linalg_matrix_power(self, n))


@register("_block_exponential", key="CPU CUDA", variants="", node="LinalgMatrixExp")
def _block_exponential(A: Array) -> Array:
    """eᴬ by scaling and squaring of a Taylor series of degree 18. Half precision is computed in single."""
    _square("matrix_exp", A)
    if A.itemsize == 2:
        return _block_exponential(A.astype(np.float32)).astype(A.dtype)
    size = np.abs(A).sum(axis=-1).max() if A.size else 0.0
    squarings = max(0, math.ceil(math.log2(size)) + 1) if size > 0.5 else 0
    scaled = A / A.dtype.type(2**squarings)
    term = result = np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape).copy()
    for k in range(1, 19):
        term = term @ scaled / A.dtype.type(k)
        result = result + term
    for _ in range(squarings):
        result = result @ result
    return result


@register("_matrix_exp_backward", key="CPU CUDA", variants="")
def _matrix_exp_backward(grad_output: Array, A: Array) -> Array:
    """The derivative of eᴬ in direction G, read from e of the block matrix [[Aᴴ, G], [0, Aᴴ]]."""
    n = A.shape[-1]
    H = np.conj(np.swapaxes(A, -1, -2))
    block = np.zeros((*A.shape[:-2], 2 * n, 2 * n), A.dtype)
    block[..., :n, :n], block[..., n:, n:], block[..., :n, n:] = H, H, grad_output
    return _block_exponential(block)[..., :n, n:]


derivative("_block_exponential", A=lambda at, grad, A: at._matrix_exp_backward(grad, A))
composite("matrix_exp", variants="function method")(lambda at, self: at._block_exponential(self))
composite("linalg_matrix_exp", module="linalg", variants="function")(lambda at, A: at._block_exponential(A))
