# Tangled from chapters/00_tensor/03_dispatcher.py — edit there, or here and run `readtorch sync`.
"""Dispatch and generators (twin of `aten/src/ATen/core/`)."""
