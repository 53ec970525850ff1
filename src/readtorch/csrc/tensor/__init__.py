# Tangled from chapters/a1_operators/9_lists_and_old_names.py — edit there, or here and run `readtorch sync`.
"""The tensor types of the early days (twin of `torch/csrc/tensor/`)."""
