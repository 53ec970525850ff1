# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""Apple's Metal."""


def is_available() -> bool:
    """False: there is no such backend here."""
    return False


def is_built() -> bool:
    """False: there is no such backend here."""
    return False
