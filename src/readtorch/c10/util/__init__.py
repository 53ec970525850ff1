# Tangled from chapters/00_tensor/10b_starting_the_engine.py — edit there, or here and run `readtorch sync`.
"""What the floors share (twin of `c10/util/`)."""
