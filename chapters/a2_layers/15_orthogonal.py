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
# # Weights that stay orthogonal
#
# A recurrent network multiplies by one matrix a hundred times; where that matrix keeps lengths, gradients neither grow nor vanish. An optimizer knows nothing of this, and after one step of it an orthogonal matrix is none. A parametrization (the
# part on `parametrize`) makes the constraint a change of variables: the optimizer moves a free matrix X, the layer reads Q(X), and whatever X is, Q is orthogonal.
#
# Three maps are in use. For a skew-symmetric A, made of the lower triangle of X as `X − Xᴴ`, both `exp(A)` and the Cayley transform `(I − A/2)⁻¹ (I + A/2)` are orthogonal. Or X holds the vectors of n reflections, whose product is Q: what LAPACK
# stores as the result of a QR decomposition.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Reflections
#
# `geqrf` gives the decomposition as LAPACK leaves it: R in the upper triangle, and below it, column by column, the vectors v of the reflections `I − τ v vᴴ`, whose leading 1 is not stored. `householder_product` multiplies them out.


# %%
A = torch.tensor([[3.0, 1.0], [4.0, 2.0], [0.0, 5.0]])
reflections, factors = torch.geqrf(A)
Q = torch.linalg.householder_product(reflections, factors)
Q.T @ Q, torch.dist(Q @ reflections[:2].triu(), A)

# %% [markdown]
# ## The parametrization
#
# Near X = 0 the maps are tame, far away they are not. So the matrix that the layer starts with is kept as a buffer, `base`, and Q(X) turns it: training starts at X = 0 whatever the weight was ("dynamic trivialization", Lezcano-Casado 2019). The reflections'
# signs stand on the diagonal of X, out of the gradient's reach; −1 there makes X = 0 the identity.

# %%
#| into: nn/utils/parametrizations.py
#| upstream: torch/nn/utils/parametrizations.py#_Orthogonal
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


# %%
#| into: nn/utils/parametrizations.py
#| upstream: torch/nn/utils/parametrizations.py#orthogonal
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


# %%
#| needs: 04_optim
torch.manual_seed(0)
layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3, bias=False))
optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
layer(torch.randn(5, 3)).pow(2)[:, 0].sum().backward()
optimizer.step()
layer.weight.mT @ layer.weight


# %%
#| claim: an orthogonal layer is orthogonal before and after a step, by each of the three maps, square, tall and wide
def _(torch):
    for shape in ((3, 3), (5, 3), (3, 5)):
        for kind in ("matrix_exp", "cayley", "householder"):
            torch.manual_seed(1)
            layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(*shape), orthogonal_map=kind)
            for _ in range(2):
                weight = layer.weight if layer.weight.size(0) >= layer.weight.size(1) else layer.weight.mT
                assert torch.allclose(weight.mT @ weight, torch.eye(min(shape)), atol=1e-5)
                layer(torch.ones(2, shape[0])).pow(2).mean().backward()
                with torch.no_grad():
                    layer.parametrizations.weight.original -= 0.1 * layer.parametrizations.weight.original.grad
