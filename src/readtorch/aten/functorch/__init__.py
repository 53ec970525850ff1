# Tangled from chapters/00_tensor/13d_levels_of_transforms.py — edit there, or here and run `readtorch sync`.
"""Function transforms: the levels, and what operators do inside of them (twin of `aten/src/ATen/functorch/`)."""


def load_rules() -> None:
    """Import all batching rules: each file puts its own into the table."""
    from importlib import import_module

    for name in _RULES:
        import_module(f"readtorch.aten.functorch.{name}")


_RULES = [
    "batched_fallback",
    "batch_rules_binary_ops",
    "batch_rules_reduce_ops",
    "batch_rules_views",
    "batch_rules_linear_algebra",
    "batch_rules_convolution",
    "batch_rules_norm",
    "batch_rules_loss",
    "batch_rules_scatter_ops",
    "batch_rules_modules",
    "batch_rules_randomness",
]
