# Tangled from chapters/01_import/8e_benchmark.py — edit there, or here and run `readtorch sync`.
"""The parts of `torch.utils.benchmark`."""
