# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""Intel's oneDNN, once called MKL-DNN."""


def is_available() -> bool:
    """False: there is no such backend here."""
    return False
