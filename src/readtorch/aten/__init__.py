# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.
"""The operators on raw arrays, their derivatives and their dispatch (twin of `aten/src/ATen/`)."""
