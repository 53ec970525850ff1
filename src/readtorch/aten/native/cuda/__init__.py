# Tangled from chapters/a3_kernels/1_launching.py — edit there, or here and run `readtorch sync`.
"""Kernels in CUDA C++, each beside the functions that launch it."""
