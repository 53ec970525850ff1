# Tangled from chapters/02_module/8d_options.py — edit there, or here and run `readtorch sync`.
"""Options of `save` and `load` (twin of `torch/utils/serialization/`)."""

from readtorch.utils.serialization import config as config
