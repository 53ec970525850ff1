# Tangled from chapters/01_import/4_init_module.py — edit there, or here and run `readtorch sync`.
"""The exceptions that are raised for more specific reasons than a RuntimeError (twin of `torch/csrc/Exceptions.cpp`)."""


class OutOfMemoryError(RuntimeError):
    """A device has no memory left for an allocation."""


class AcceleratorError(RuntimeError):
    """A device reported an error of its own."""


for _error in (OutOfMemoryError, AcceleratorError):
    _error.__module__ = "torch"
