# Tangled from chapters/a1_operators/5ba_linalg.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.csrc.utils.python_arg_parser import checked

__all__ = ["pca_lowrank", "svd_lowrank"]


def get_approximate_basis(A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None) -> Tensor:
    """`q` orthonormal columns that nearly span the range of `A`, or of `A - M`: (*, m, q)."""
    matrix = A if M is None else A - M
    kind = A.dtype if A.is_floating_point() or A.is_complex() else torch.float32
    basis = torch.linalg.qr(matrix @ torch.randn(A.shape[-1], q, dtype=kind, device=A.device)).Q
    for _ in range(2 if niter is None else niter):
        basis = torch.linalg.qr(matrix.mH @ basis).Q
        basis = torch.linalg.qr(matrix @ basis).Q
    return basis


@checked
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` largest singular values of `A - M` and their vectors, nearly: (*, m, q), (*, q), (*, n, q). Draws random numbers."""
    matrix = A if M is None else A - M.broadcast_to(A.size())
    wide = A.shape[-2] < A.shape[-1]
    matrix = matrix.mH if wide else matrix
    basis = get_approximate_basis(matrix, 6 if q is None else q, niter)
    U, S, Vh = torch.linalg.svd(basis.mH @ matrix, full_matrices=False)
    left, right = basis @ U, Vh.mH
    return (right, S, left) if wide else (left, S, right)


@checked
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` principal components of the rows of `A`, as `svd_lowrank` of the centred matrix. ValueError for q over min(m, n)."""
    rows, columns = A.shape[-2:]
    most = min(rows, columns)
    if q is None:
        q = min(6, most)
    elif not 0 <= q <= most:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter)
