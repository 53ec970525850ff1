# Tangled from chapters/01_import/d1_simulated_streams.py — edit there, or here and run `readtorch sync`.
"""The CUDA device below the operators (twin of `c10/cuda/`)."""
