# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""TorchScript's decorators, which leave Python code as it is: the meaning is the same, only the interpreter differs."""

from readtorch.jit._script import export as export
from readtorch.jit._script import ignore as ignore
from readtorch.jit._script import is_scripting as is_scripting
from readtorch.jit._script import is_tracing as is_tracing
from readtorch.jit._script import script as script
from readtorch.jit._script import script_if_tracing as script_if_tracing
from readtorch.jit._script import script_method as script_method
from readtorch.jit._script import trace as trace
from readtorch.jit._script import unused as unused


def annotate(the_type: object, the_value: object) -> object:
    """`the_value`; the type speaks to the compiler alone."""
    return the_value
