# Tangled from chapters/00_tensor/04_engine.py — edit there, or here and run `readtorch sync`.
"""Nodes that no operator makes (twin of `torch/csrc/autograd/functions/`)."""
