# Tangled from chapters/01_import/d5_cuda_kernels.py — edit there, or here and run `readtorch sync`.
"""CUDA for the operators (twin of `aten/src/ATen/cuda/`)."""
