# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""OpenMP."""


def is_available() -> bool:
    """False: operators are not parallelised with OpenMP here."""
    return False
