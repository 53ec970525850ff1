# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.
"""What a tensor is made of (twin of `c10/core/`)."""
