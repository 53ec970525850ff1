# Tangled from chapters/01_import/d6_cuda_backend.py — edit there, or here and run `readtorch sync`.
"""Kernels that only CUDA has (twin of `aten/src/ATen/native/cuda/`)."""
