# Tangled from chapters/a2_layers/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module
from readtorch.nn.utils import parametrize
from readtorch.nn.utils.spectral_norm import _as_matrix, _check_iterations, _outputs_dim


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return torch._C._VariableFunctions._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """`w = g v / |v|`: length `original0` and direction `original1`. Checkpoints of the old `weight_norm` load."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old_keys(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old_keys)
    return module


def _tensor_of(module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


class _SpectralNorm(Module):
    """Divides by the largest singular value, estimated by the power iteration; `_u` and `_v` are its buffers."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.dim()
        if not -rank <= dim < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        _check_iterations(n_power_iterations)
        self.dim, self.eps = dim % rank, eps
        if rank == 1:
            return  # a vector is divided by its length
        self.n_power_iterations = n_power_iterations
        matrix = _as_matrix(weight, self.dim)
        for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
            self.register_buffer(name, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
        self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Tensor, iterations: int) -> None:
        for _ in range(iterations):
            self._u.copy_(F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(torch.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = _as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies: the next call's iteration writes into the buffers, and this call's backward needs them
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.dot(u, torch.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide the tensor `name` by its largest singular value (Miyato et al. 2018)."""
    rows = _outputs_dim(module) if dim is None else dim
    kind = _SpectralNorm(_tensor_of(module, name), n_power_iterations, rows, eps)
    return parametrize.register_parametrization(module, name, kind)


_MAPS = ("matrix_exp", "cayley", "householder")


def _tall_orthogonal(A: Tensor) -> Tensor:
    """The Q of a QR decomposition whose R has no negative number on its diagonal."""
    reflections, factors = torch.geqrf(A)
    Q = torch.linalg.householder_product(reflections, factors)
    return Q * reflections.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(Q: Tensor) -> bool:
    rows, columns = Q.shape[-2:]
    eye = torch.eye(columns, dtype=Q.dtype, device=Q.device)
    return torch.allclose(Q.mH @ Q, eye, atol=10.0 * rows * torch.finfo(Q.dtype).eps)


class _Orthogonal(Module):
    """From a free matrix to one with orthonormal columns (or rows, where it is wide)."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if orthogonal_map == "householder" and weight.is_complex():
            raise ValueError("The householder parametrization does not support complex tensors.")
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        Q = self._reflected(X) if self.orthogonal_map == "householder" else self._turned(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _turned(self, X: Tensor) -> Tensor:
        rows, columns = X.shape[-2:]
        X = X.tril()
        if rows != columns:
            X = torch.cat([X, X.new_zeros(*X.shape[:-1], rows - columns)], dim=-1)
        skew = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            Q = torch.matrix_exp(skew)
        else:
            eye = torch.eye(rows, dtype=skew.dtype, device=skew.device)
            Q = torch.linalg.solve(eye - 0.5 * skew, eye + 0.5 * skew)
        return Q[..., :columns]

    def _reflected(self, X: Tensor) -> Tensor:
        vectors = X.tril(-1)
        factors = 2.0 / (1.0 + (vectors * vectors).sum(dim=-2))
        signs = X.diagonal(dim1=-2, dim2=-1).detach().sgn()
        return torch.linalg.householder_product(vectors, factors) * signs.unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}, not {Q.shape}.")
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        if not hasattr(self, "base"):
            found = self._reflections_of(tall)
            return found.mT if wide else found
        rows, columns = tall.shape[-2:]
        if rows != columns:
            noise = torch.randn(*tall.shape[:-2], rows, rows - columns, dtype=tall.dtype, device=tall.device)
            self.base = _tall_orthogonal(torch.cat([tall, noise], dim=-1))
        else:
            self.base = tall.clone() if _is_orthogonal(tall) else _tall_orthogonal(tall)
        start = torch.zeros_like(Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start

    def _reflections_of(self, tall: Tensor) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley map without its base: pass use_trivialization=True."
            )
        found, factors = torch.geqrf(tall)
        diagonal = found.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal[factors == 0.0] *= -1  # LAPACK's way of saying that it did not reflect
        return found


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep the matrix `name`, or each of a batch, orthogonal (unitary if it is complex).

    `orthogonal_map` is "matrix_exp" (the default where the matrix is square or complex), "cayley" or "householder". ValueError for other
    names, for a tensor of fewer than two dimensions, and for complex reflections.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices; this has {weight.ndim} dimensions.")
    if orthogonal_map is None:
        rows, columns = weight.shape[-2:]
        orthogonal_map = "matrix_exp" if rows == columns or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    kind = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, kind, unsafe=True)
