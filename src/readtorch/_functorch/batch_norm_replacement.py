# Tangled from chapters/02_module/9b_functions_of_functions.py — edit there, or here and run `readtorch sync`.
"""Batch norm without running statistics (twin of `torch/_functorch/batch_norm_replacement.py`)."""

from __future__ import annotations

from readtorch import nn


def replace_all_batch_norm_modules_(root: nn.Module) -> nn.Module:
    """Take the running statistics from every batch norm in `root`, in place: under `vmap` there would be one set for all examples. Returns `root`."""
    from readtorch.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
