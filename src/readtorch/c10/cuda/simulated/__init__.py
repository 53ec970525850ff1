# Tangled from chapters/01_import/d1_simulated_streams.py — edit there, or here and run `readtorch sync`.
"""A CUDA device simulated over NumPy, with CuPy's interface."""
