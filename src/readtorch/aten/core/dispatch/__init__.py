# Tangled from chapters/00_tensor/03_dispatcher.py — edit there, or here and run `readtorch sync`.
"""The table of operators (twin of `aten/src/ATen/core/dispatch/`)."""
