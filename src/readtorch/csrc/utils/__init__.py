# Tangled from chapters/00_tensor/09_python_tensor.py — edit there, or here and run `readtorch sync`.
"""Argument parsing and conversions (twin of `torch/csrc/utils/`)."""
