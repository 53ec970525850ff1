# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.
"""The engine, its nodes and the bindings (twin of `torch/csrc/`)."""
