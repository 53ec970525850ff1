# Tangled from chapters/00_tensor/07b_operators_for_python.py — edit there, or here and run `readtorch sync`.
"""Autocast's lists for a CPU (twin of `aten/src/ATen/autocast_mode.h`); CUDA's are what the operators are registered with."""

from __future__ import annotations

#: losses, and what had no kernel in bfloat16 when upstream's list was made
_FLOAT32_ON_CPU = """
    binary_cross_entropy_with_logits cross_entropy_loss huber_loss kl_div l1_loss mse_loss nll_loss nll_loss_nd prod smooth_l1_loss
    trace linalg_inv inverse linalg_solve linalg_cholesky cholesky linalg_qr qr linalg_svd svd linalg_svdvals linalg_eigh
    linalg_matrix_rank linalg_lu_solve linalg_cholesky_ex linalg_inv_ex cholesky_solve cholesky_inverse triangular_solve linalg_eig
    linalg_eigvals geqrf linalg_householder_product orgqr ormqr linalg_lstsq pinverse polar view_as_complex quantile nanquantile
    max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d
    _fractional_max_pool grid_sampler binary_cross_entropy poisson_nll_loss soft_margin_loss margin_ranking_loss
    hinge_embedding_loss cosine_embedding_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss ctc_loss"""
FLOAT32_ON_CPU = frozenset(_FLOAT32_ON_CPU.split())
#: of the operators registered with "low", those that are not on the CPU's list
LOW_ON_CUDA = frozenset(["addmv", "addr", "mv"])
