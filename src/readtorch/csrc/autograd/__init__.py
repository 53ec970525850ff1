# Tangled from chapters/00_tensor/04_engine.py — edit there, or here and run `readtorch sync`.
"""Nodes, the engine and the autograd kernels (twin of `torch/csrc/autograd/`)."""
