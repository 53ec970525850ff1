# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""Mixed precision (twin of `torch/amp/`)."""

from readtorch.amp.autocast_mode import autocast as autocast
from readtorch.amp.autocast_mode import custom_bwd as custom_bwd
from readtorch.amp.autocast_mode import custom_fwd as custom_fwd
from readtorch.amp.autocast_mode import is_autocast_available as is_autocast_available
from readtorch.amp.grad_scaler import GradScaler as GradScaler
