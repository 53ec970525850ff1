# Tangled from chapters/a1_operators/5c_sparse.py — edit there, or here and run `readtorch sync`.
"""Kernels for tensors stored as coordinates and values (twin of `aten/src/ATen/native/sparse/`)."""
