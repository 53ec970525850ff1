# Tangled from chapters/00_tensor/9_autograd.py — edit there, or here and run `readtorch sync`.
"""What more than one part of the package needs (twin of upstream's `torch/utils/`)."""
