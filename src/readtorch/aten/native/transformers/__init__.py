# Tangled from chapters/a1_operators/nn_9_attention.py — edit there, or here and run `readtorch sync`.
"""Attention (twin of `aten/src/ATen/native/transformers/`)."""
