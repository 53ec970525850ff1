# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""Intel's math library."""


def is_available() -> bool:
    """False: NumPy brings the BLAS library that is used."""
    return False
