# Tangled from chapters/01_import/d6_cuda_backend.py — edit there, or here and run `readtorch sync`.
"""CUDA for Python (twin of `torch/csrc/cuda/`)."""
