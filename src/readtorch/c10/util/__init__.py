# Tangled from chapters/00_tensor/10_indexing_and_operators.py — edit there, or here and run `readtorch sync`.
"""What the floors share (twin of `c10/util/`)."""
