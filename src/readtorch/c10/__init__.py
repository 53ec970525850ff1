# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.
"""The ground: dtypes, devices, storage and the tensor object itself (twin of upstream's `c10/`)."""
