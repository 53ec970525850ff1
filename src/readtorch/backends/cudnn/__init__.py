# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""cuDNN's switches. There is none: they are remembered."""

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False: convolutions are computed without cuDNN."""
    return False


def version() -> None:
    """None: there is no cuDNN."""
