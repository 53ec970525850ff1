"""Calls that work, and how to spoil them: the material of `test_bad_input.py`.

Each line of `CALLS` is a valid call. `spoiled` gives its wrong neighbours: another value for each argument, one argument too many, one too few, a keyword
that is not there. Tensors have names, made anew for each call by `tensors`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any


def words(text: str) -> list[str]:
    return text.split()


UNARY = words("""abs acos acosh angle asin asinh atan atanh ceil conj cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac isfinite isinf isnan
isneginf isposinf isreal lgamma log log10 log1p log2 logical_not neg positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt
square tan tanh trunc nan_to_num logit i0 count_nonzero nonzero numel all any sum mean prod std var max min argmax argmin median nanmedian mode sort argsort
cumsum(0) cumprod(0) cummax(0) cummin(0) logcumsumexp(0) logsumexp(0) softmax(0) log_softmax(0) flip(0) roll(1) tril triu t diff unique unique_consecutive
amax amin aminmax nansum nanmean std_mean var_mean diag trace clone detach flatten squeeze ravel msort histc norm""")

BINARY = words("""add sub mul div floor_divide remainder fmod pow atan2 hypot logaddexp logaddexp2 maximum minimum fmax fmin eq ne lt le gt ge copysign nextafter
xlogy float_power heaviside isclose true_divide logical_and logical_or logical_xor ldexp dist equal allclose""")

IN_PLACE = words("""abs_ exp_ neg_ sigmoid_ relu_ zero_ add_(A) sub_(A) mul_(A) div_(A) pow_(2) clamp_(0,1) fill_(1.5) copy_(A) masked_fill_(M,0.5) lerp_(A,0.3)
addcmul_(A,A) addcdiv_(A,A) uniform_(0,1) normal_(0,1) bernoulli_(0.5) random_(0,5) exponential_(1.0) tril_(0) cumsum_(0) t_ squeeze_ unsqueeze_(0)
transpose_(0,1) index_add_(0,I,A) index_fill_(0,I,1.0) index_copy_(0,I,A) scatter_(1,J,A) scatter_add_(1,J,A) masked_scatter_(M,A) clamp_min_(0)
floor_divide_(2) remainder_(2) eq_(1) logical_not_ requires_grad_(True) detach_ resize_(2) fill_diagonal_(1.0) put_(I,V) renorm_(2,0,1.0) index_put_((I,),A)
geometric_(0.5) log_normal_(0,1) cauchy_(0,1)""")

OTHERS = """
t.bitwise_and(N, N) | t.bitwise_or(N, N) | t.bitwise_xor(N, N) | t.bitwise_not(N) | t.bitwise_left_shift(N, N) | t.bitwise_right_shift(N, 1) | t.gcd(N, N) | t.lcm(N, N)
t.add(A, A, alpha=2) | t.sub(A, A, alpha=2) | t.div(A, A, rounding_mode='floor') | t.clamp(A, 0, 1) | A.clamp(min=0.5) | t.clamp_min(A, 0) | t.clamp_max(A, 1)
t.addcmul(A, A, A, value=0.5) | t.addcdiv(A, A, A, value=0.5) | t.lerp(A, A, 0.3) | t.where(M, A, A) | t.isin(N, N) | t.round(A, decimals=1) | t.logit(A, 0.1)
A.sum(0) | A.sum(0, True) | A.sum((0, 1), keepdim=True) | A.sum(0, dtype=t.float64) | A.mean(1) | A.mean((0, 1), True) | A.prod(0) | A.amax(0) | A.amin((0, 1)) | A.nansum(0)
A.var(0) | A.std((0, 1), False, True) | A.std(0, correction=0) | A.var(dim=0, keepdim=True) | t.std_mean(A, 0) | A.logsumexp(0) | A.logsumexp((0, 1), True)
A.max(0) | A.min(1, True) | A.argmax(0) | A.argmin(1, keepdim=True) | A.median(0) | A.nanmedian(0) | A.mode(0) | A.all(0) | A.any(1, True) | A.count_nonzero(0)
A.cumsum(0) | A.cumprod(1) | A.cummax(0) | A.logcumsumexp(0) | A.aminmax(dim=0) | t.diff(A, 1, 0) | A.norm(2) | A.norm(2, 0) | A.norm('fro') | t.dist(A, A, 2) | t.renorm(A, 2, 0, 1.0)
A.quantile(0.5) | A.quantile(0.5, 0) | t.nanquantile(A, 0.5) | A.kthvalue(1, 0) | A.topk(1) | A.topk(1, 0, True) | A.sort(0) | A.sort(0, True) | A.argsort(0) | A.sort(dim=0, stable=True)
t.unique(A, dim=0) | t.unique(A, return_inverse=True) | t.bincount(N1) | t.bincount(N1, minlength=5) | t.histc(A, 4, 0, 1) | t.searchsorted(V, A) | t.bucketize(A, V) | t.combinations(V, 2) | t.cartesian_prod(V, V)
A.reshape(12) | A.reshape(4, 3) | A.reshape((4, 3)) | A.view(12) | A.view(4, 3) | A.view((4, 3)) | A.view(t.int32) | A.view_as(B) | A.reshape_as(B) | A.flatten(0) | A.flatten(0, 1) | A.unflatten(0, (3, 1)) | A.transpose(0, 1)
A.permute(1, 0) | A.permute((1, 0)) | t.movedim(A, 0, 1) | t.swapaxes(A, 0, 1) | A.squeeze(0) | A.squeeze((0, 1)) | A.unsqueeze(0) | A.expand(2, 3, 4) | A.expand((3, 4)) | A.expand_as(A) | t.broadcast_to(A, (3, 4))
A.repeat(2, 1) | A.repeat((2, 1)) | t.tile(A, (2, 1)) | A.repeat_interleave(2) | A.repeat_interleave(2, 0) | A.flip((0, 1)) | A.roll(1, 0) | A.roll((1, 1), (0, 1)) | t.rot90(A, 1, (0, 1)) | A.diagonal(0, 0, 1) | t.diag(V) | t.diag_embed(A)
A.unfold(0, 2, 1) | A.as_strided((2, 2), (1, 1)) | A.as_strided((2, 2), (1, 1), 0) | A.narrow(0, 1, 2) | t.split(A, 2) | t.split(A, [1, 2], 0) | A.split(2, 1) | A.chunk(2) | A.chunk(2, 1) | A.unbind(0) | t.tensor_split(A, 2) | A.select(0, 1) | t.hsplit(A, 2)
t.cat([A, A]) | t.cat([A, A], 1) | t.cat((A, A), dim=0) | t.stack([A, A]) | t.stack([A, A], 1) | t.hstack([A, A]) | t.vstack([A, A]) | t.dstack([A, A]) | t.column_stack([A, A]) | t.tril(A, 1) | t.triu(A, -1) | t.meshgrid(V, V, indexing='ij')
t.broadcast_tensors(A, A) | t.block_diag(A, A) | t.atleast_2d(A) | t.tril_indices(3, 3) | t.triu_indices(3, 3, 1) | t.vander(V) | t.vander(V, 3, True) | t.broadcast_shapes((3, 1), (1, 4)) | t.unravel_index(I, (3, 4))
A.index_select(0, I) | A.gather(1, J) | A.scatter(1, J, A) | A.scatter(1, J, 2.5) | A.scatter_add(1, J, A) | A.scatter_reduce(1, J, A, 'sum') | A.index_add(0, I, A) | A.index_add(0, I, A, alpha=2) | A.index_copy(0, I, A) | A.index_fill(0, I, 1.0)
A.index_put((I,), A) | A.masked_fill(M, 1.0) | A.masked_select(M) | A.masked_scatter(M, A) | t.take(A, I) | t.take_along_dim(A, J, 1) | A.select_scatter(V4, 0, 1) | A.slice_scatter(A, 0, 0, 3, 1) | A.diagonal_scatter(V, 0, 0, 1) | t.nonzero(A, as_tuple=True) | t.argwhere(A)
A[0] | A[0, 1] | A[1:2] | A[::2] | A[I] | A[M] | A[[0, 1]] | A[..., 0] | A[None] | A[I, I] | A[True]
t.mm(A, C) | t.bmm(T3, T3) | t.mv(A, V4) | t.dot(V, V) | t.vdot(V, V) | t.inner(V, V) | t.outer(V, V) | t.ger(V, V) | t.matmul(A, C) | t.addmm(S, S, S) | t.addmm(S, S, S, beta=0.5, alpha=2) | t.addmv(V, S, V) | t.addr(S, V, V) | t.baddbmm(T3, T3, T3) | t.addbmm(S3, T3, T3)
t.einsum('ij,jk->ik', A, C) | t.einsum('ii', S) | t.tensordot(A, C, 1) | t.tensordot(A, C, ([1], [0])) | t.kron(A, A) | t.cross(T33, T33, 1) | t.linalg.cross(T33, T33) | t.cdist(A, A) | t.cdist(A, A, 2.0) | t.cov(A) | t.corrcoef(A) | t.trapezoid(A, dx=0.5) | t.trapezoid(A, dim=0) | t.cumulative_trapezoid(A)
t.linalg.inv(E) | t.linalg.solve(E, E) | t.linalg.det(E) | t.linalg.slogdet(E) | t.logdet(E) | t.linalg.cholesky(E) | t.linalg.eigh(E) | t.linalg.eigvalsh(E) | t.linalg.qr(E) | t.linalg.svd(E) | t.linalg.svdvals(E) | t.linalg.matrix_norm(E) | t.linalg.matrix_norm(E, 'nuc') | t.linalg.vector_norm(A, 2) | t.linalg.vector_norm(A, 2, 0) | t.linalg.norm(A, 2)
t.linalg.matrix_power(E, 2) | t.matrix_power(E, 2) | t.matrix_exp(E) | t.linalg.pinv(E) | t.linalg.matrix_rank(E) | t.linalg.lstsq(E, E) | t.linalg.eig(E) | t.linalg.eigvals(E) | t.linalg.multi_dot([E, E]) | t.linalg.cond(E) | t.linalg.diagonal(E) | t.linalg.lu(E) | t.linalg.lu_factor(E) | t.linalg.solve_triangular(E, E, upper=True) | t.cholesky_solve(E, E) | t.cholesky(E) | t.linalg.matmul(E, E) | t.linalg.vander(V) | t.linalg.tensorinv(T66, 1)
t.zeros(2, 3) | t.zeros((2, 3)) | t.ones(2) | t.empty(2, 0) | t.full((2,), 1.5) | t.full((2,), 1, dtype=t.float32) | t.eye(3) | t.eye(3, 2) | t.arange(3) | t.arange(0, 3) | t.arange(0, 1, 0.5) | t.linspace(0, 1, 3) | t.logspace(0, 1, 3) | t.range(0, 3) | t.zeros_like(A) | t.ones_like(A, dtype=t.int64) | t.full_like(A, 2) | t.empty_like(A) | t.rand_like(A) | t.randn_like(A)
t.rand(2, 3) | t.randn(2) | t.randint(5, (2,)) | t.randint(0, 5, (2,)) | t.randperm(4) | t.normal(0.0, 1.0, (2,)) | t.normal(A, 1.0) | t.normal(0.0, A) | t.normal(A, A) | t.bernoulli(U) | t.multinomial(P, 2) | t.multinomial(P, 2, True) | t.poisson(U) | t.randint_like(A, 5) | t.manual_seed(3) | t.tensor([1.0, 2.0]) | t.tensor(1) | t.as_tensor([1, 2]) | t.from_numpy(np.ones(2)) | t.scalar_tensor(1.5) | t.empty_strided((2, 2), (2, 1)) | t.complex(A, A) | t.polar(A, A) | t.hann_window(4) | t.hamming_window(4) | t.bartlett_window(4) | t.blackman_window(4)
A.to(t.float64) | A.to('cpu') | A.to(A) | A.type(t.float64) | A.float() | A.new_zeros(2, 3) | A.new_ones((2,)) | A.new_full((2,), 1.0) | A.new_empty(2) | A.new_tensor([1.0]) | A.item() | A[0, 0].item() | A.tolist() | A.numpy() | A.size(0) | A.stride(0) | A.dim() | A.is_contiguous() | A.contiguous() | A.backward() | A.requires_grad_() | A.type_as(A) | A.element_size() | A.fill_diagonal_(0) | A.sum_to_size(3, 1) | A.apply_(abs) | A.map_(B34, max)
t.is_tensor(A) | t.is_floating_point(A) | t.numel(A) | t.can_cast(t.float32, t.int64) | t.promote_types(t.float32, t.int64) | t.result_type(A, 1) | t.set_default_dtype(t.float32) | t.get_default_dtype() | t.is_complex(A) | t.is_nonzero(A[0, 0]) | t.finfo(t.float32) | t.iinfo(t.int64) | t.Size([2, 3]) | t.device('cpu') | t.set_grad_enabled(True) | t.Generator() | t.autograd.grad(X.sum(), X)
float(A) | int(A) | bool(A) | complex(A) | len(A) | abs(A) | -A | A + A | A - A | A * A | A / A | A // A | A % A | A ** A | A @ C | A < A | A == A | N & N | N | N ^ N | ~N | N << N | iter(A) | A == 's' | A != None | A < 's' | A + None | 's' + A | A @ 3 | 3 @ A | A & A | ~A | N << 1.5 | A[0.5] | A['s'] | A[0, 0, 0] | A[7] | A[-9] | A[5:2] | A[::-1] | A[t.tensor(0.5)] | A[t.tensor([9])] | A[None, 's'] | A[[0, 9]] | A[M, 0, 0] | A[t.ones(7) > 0]
"""

FUNCTIONAL = """
relu(A) | gelu(A) | gelu(A, approximate='tanh') | elu(A, 1.0) | selu(A) | celu(A, 1.0) | leaky_relu(A, 0.1) | hardtanh(A, -1.0, 1.0) | relu6(A) | softplus(A, 1, 20) | softsign(A) | logsigmoid(A) | mish(A) | silu(A) | hardswish(A) | hardsigmoid(A) | tanhshrink(A) | hardshrink(A, 0.5) | softshrink(A, 0.5) | threshold(A, 0.1, 20) | prelu(A, V1) | rrelu(A) | glu(A, 1)
softmax(A, 1) | softmax(A, dim=0) | log_softmax(A, 1) | softmin(A, 1) | gumbel_softmax(A) | normalize(A) | normalize(A, 2.0, 1) | dropout(A, 0.5) | dropout(A, 0.5, False) | dropout2d(IM, 0.5) | alpha_dropout(A, 0.5) | feature_alpha_dropout(IM, 0.5)
linear(A, W) | linear(A, W, V5) | bilinear(A, A, BW) | embedding(I, S) | embedding(I, S, 0) | embedding_bag(K, S) | one_hot(I) | one_hot(I, 5) | cosine_similarity(A, A) | cosine_similarity(A, A, 0) | pairwise_distance(A, A) | pdist(A)
mse_loss(A, A) | mse_loss(A, A, reduction='sum') | l1_loss(A, A) | smooth_l1_loss(A, A) | smooth_l1_loss(A, A, beta=0.5) | huber_loss(A, A) | huber_loss(A, A, delta=0.5) | cross_entropy(A, Y) | cross_entropy(A, Y, V4) | cross_entropy(A, Y, label_smoothing=0.1) | cross_entropy(A, Y, ignore_index=1) | nll_loss(A, Y) | nll_loss(A, Y, reduction='none') | binary_cross_entropy(U, U) | binary_cross_entropy_with_logits(A, A) | kl_div(A, A) | kl_div(A, A, reduction='batchmean') | poisson_nll_loss(A, A) | gaussian_nll_loss(A, A, A)
hinge_embedding_loss(A, A) | margin_ranking_loss(V, V, V) | soft_margin_loss(A, A) | multi_margin_loss(A, Y) | multilabel_margin_loss(A, JL) | multilabel_soft_margin_loss(A, A) | cosine_embedding_loss(A, A, V) | triplet_margin_loss(A, A, A) | ctc_loss(LP, TG, IL, TL)
conv1d(SE, SW) | conv2d(IM, IW) | conv2d(IM, IW, None, 1, 1) | conv2d(IM, IW, stride=2, padding=1, dilation=1, groups=1) | conv2d(IM, IW, padding='same') | conv_transpose2d(IM, IW) | conv_transpose1d(SE, SW, stride=2, output_padding=1) | unfold(IM, 2) | fold(FO, (3, 3), 2) | max_pool2d(IM, 2) | max_pool2d(IM, 2, 1, 1) | max_pool1d(SE, 2) | avg_pool2d(IM, 2) | avg_pool1d(SE, 2) | adaptive_avg_pool2d(IM, 2) | adaptive_avg_pool2d(IM, (2, None)) | adaptive_max_pool2d(IM, 2) | lp_pool2d(IM, 2.0, 2) | max_unpool2d(IM, IX, 2)
batch_norm(A, V4, V4) | batch_norm(A, None, None, training=True) | batch_norm(A, V4, V4, V4, V4, True, 0.1, 1e-5) | layer_norm(A, (4,)) | layer_norm(A, (4,), V4, V4, 1e-5) | group_norm(IM, 1) | group_norm(IM, 2) | instance_norm(IM) | rms_norm(A, (4,)) | local_response_norm(IM, 2)
pad(A, (1, 1)) | pad(A, (1, 1), 'constant', 2.0) | pad(IM, (1, 1, 1, 1), 'reflect') | pad(IM, (1, 1), mode='replicate') | pad(IM, (1, 1), mode='circular') | interpolate(IM, scale_factor=2) | interpolate(IM, size=(4, 4), mode='bilinear') | interpolate(IM, 4, mode='nearest') | upsample(IM, 4) | grid_sample(IM, GR) | affine_grid(TH, (1, 2, 3, 3)) | pixel_shuffle(IM4, 2) | pixel_unshuffle(IM4, 2) | channel_shuffle(IM4, 2)
scaled_dot_product_attention(T4, T4, T4) | scaled_dot_product_attention(T4, T4, T4, dropout_p=0.0, is_causal=True) | scaled_dot_product_attention(T4, T4, T4, scale=0.5)
"""


def _calls() -> list[str]:
    lines = [f"t.{name}(A)" for name in UNARY if "(" not in name] + [
        f"A.{name}" if "(" in name else f"A.{name}()" for name in UNARY
    ]
    lines += [f"t.{name}(A, A)" for name in BINARY] + [
        f"A.{name}(1)" for name in BINARY if name not in ("dist", "equal", "allclose", "ldexp", "isclose", "heaviside")
    ]
    lines += [f"A.{name}" if "(" in name else f"A.{name}()" for name in IN_PLACE]
    lines += [part.strip() for line in OTHERS.strip().splitlines() for part in line.split(" | ")]
    lines += [f"F.{part.strip()}" for line in FUNCTIONAL.strip().splitlines() for part in line.split(" | ")]
    return list(dict.fromkeys(lines))


CALLS = _calls()


def tensors(t: Any) -> dict[str, Any]:
    """The names that calls use."""
    ramp = (t.arange(12.0) + 1).reshape(3, 4) / 4
    image = (t.arange(36.0) / 36).reshape(2, 2, 3, 3)
    eye = t.eye(3) * 2 + 0.5
    return {
        "A": ramp, "B": t.ones(4, 3), "B34": t.ones(3, 4), "C": t.ones(4, 2), "S": eye, "E": t.eye(3) * 2 + 0.5, "S3": t.ones(3, 3),
        "T3": t.ones(2, 3, 3), "T33": t.ones(2, 3), "T4": t.ones(1, 2, 3, 4), "T66": t.eye(6).reshape(6, 2, 3), "V": t.arange(3.0), "V4": t.ones(4), "V1": t.ones(1), "V5": t.ones(5),
        "U": t.full((3, 4), 0.5), "P": t.ones(4) / 4, "X": t.ones(2, requires_grad=True), "M": ramp > 1, "N": t.arange(12).reshape(3, 4), "N1": t.tensor([0, 1, 1]),
        "I": t.tensor([0, 1, 2]), "J": t.zeros(3, 4, dtype=t.int64), "K": t.tensor([[0, 1], [1, 2]]), "Y": t.tensor([0, 1, 2]), "JL": t.tensor([[0, -1, -1, -1]] * 3),
        "W": t.ones(5, 4), "BW": t.ones(2, 4, 4), "IM": image, "IW": t.ones(2, 2, 2, 2), "SE": t.ones(1, 2, 6), "SW": t.ones(2, 2, 3), "FO": t.ones(1, 8, 4), "IX": t.zeros(2, 2, 3, 3, dtype=t.int64) + t.arange(9).reshape(3, 3) * 4,
        "GR": t.zeros(2, 3, 3, 2), "TH": t.ones(1, 2, 3), "IM4": t.ones(1, 4, 4, 4), "LP": t.zeros(5, 2, 3) - 1.1, "TG": t.tensor([[1, 2], [1, 1]]), "IL": t.tensor([5, 5]), "TL": t.tensor([2, 2]),
        "none": None, "word": "s", "nan": float("nan"), "inf": float("inf"),
        "integers": t.arange(12).reshape(3, 4), "wide": t.arange(12.0, dtype=t.float64).reshape(3, 4), "truth": t.ones(3, 4, dtype=t.bool), "waves": t.ones(3, 4, dtype=t.complex64),
        "scalar": t.tensor(1.0), "whole": t.tensor(1), "empty": t.ones(0), "nothing": t.ones(0, 4), "seven": t.ones(7), "deep": t.ones(1, 2, 1, 3, 1, 4), "rows": t.ones(2, 4), "nans": t.full((3, 4), float("nan")), "far": t.tensor([0, 1, 99]), "below": t.tensor([0, -1, -9]), "halves": t.tensor([0.5, 1.0, 2.0]),
    }  # fmt: skip


FOR_TENSOR = words("None 's' 3 1.5 [1.0] integers wide truth waves scalar empty nothing seven deep rows nans")
FOR_INDEX = words("None 's' 1 far below halves scalar whole empty seven truth deep")
FOR_INTEGER = words("None 's' 1.5 True -1 99 -99 nan [0] (0,0) () scalar whole A")
FOR_FLOAT = words("None 's' nan inf -1.0 [1.0] A scalar True 1j")
FOR_TUPLE = words("None 's' () (-1,) (0,0,0,0) (1.5,) ('s',) (99,99) (None,) (True,True) A")
FOR_WORD = words("None 'foo' 1 ''")
FOR_BOOL = words("None 's' 2 1.5 A")
FOR_TYPE = words("None 's' 1 float int t.strided")
INDICES = frozenset(words("I J K Y N1 JL IX TG IL TL"))


def _alternatives(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Name):
        return FOR_INDEX if node.id in INDICES else FOR_TENSOR if node.id.isupper() or node.id[0].isupper() else []
    if isinstance(node, ast.Constant):
        value = node.value
        kinds = {bool: FOR_BOOL, int: FOR_INTEGER, float: FOR_FLOAT, str: FOR_WORD, type(None): FOR_INTEGER}
        return kinds.get(type(value), [])
    if isinstance(node, ast.UnaryOp):
        return FOR_INTEGER
    if isinstance(node, ast.Tuple | ast.List):
        return FOR_TUPLE
    if isinstance(node, ast.Attribute):
        return FOR_TYPE
    return []


def spoiled(call: str) -> Iterator[str]:
    """The wrong neighbours of a call, itself first."""
    yield call
    tree = ast.parse(call, mode="eval")
    body = tree.body
    if not isinstance(body, ast.Call):
        if isinstance(body, ast.Subscript):
            for text in ("integers", "scalar", "empty", "deep", "seven"):
                yield f"{text}[{ast.unparse(body.slice)}]"
        if isinstance(body, ast.BinOp):
            for text in FOR_TENSOR:
                other = copy.deepcopy(body)
                other.right = ast.parse(text, mode="eval").body
                yield ast.unparse(other)
        return
    for position, argument in enumerate(body.args):
        for text in _alternatives(argument):
            other = copy.deepcopy(body)
            other.args[position] = ast.parse(text, mode="eval").body
            yield ast.unparse(other)
    for position, keyword in enumerate(body.keywords):
        for text in _alternatives(keyword.value):
            other = copy.deepcopy(body)
            other.keywords[position].value = ast.parse(text, mode="eval").body
            yield ast.unparse(other)
    if isinstance(body.func, ast.Attribute) and isinstance(body.func.value, ast.Name) and body.func.value.id == "A":
        for text in ("integers", "truth", "waves", "scalar", "empty", "nothing", "deep", "nans"):
            other = copy.deepcopy(body)
            other.func.value = ast.Name(text)
            yield ast.unparse(other)
    shown = ast.unparse(body)[:-1]
    comma = ", " if body.args or body.keywords else ""
    if not body.keywords:
        yield f"{shown}{comma}'s')"
        yield f"{shown}{comma}1, 2, 3, 4, 5, 6, 7, 8, 9)"
    yield f"{shown}{comma}zzz=1)"
    if body.args:
        other = copy.deepcopy(body)
        other.args.pop()
        yield ast.unparse(other)
