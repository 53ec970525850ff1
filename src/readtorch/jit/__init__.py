# Tangled from chapters/01_import/, chapters/02_module/ — edit there, or here and run `readtorch sync`.
"""TorchScript's decorators, which leave Python code as it is: the meaning is the same, only the interpreter differs."""

from typing import Final as Final

from readtorch.jit._script import export as export
from readtorch.jit._script import fork as fork
from readtorch.jit._script import ignore as ignore
from readtorch.jit._script import is_scripting as is_scripting
from readtorch.jit._script import is_tracing as is_tracing
from readtorch.jit._script import script as script
from readtorch.jit._script import script_if_tracing as script_if_tracing
from readtorch.jit._script import script_method as script_method
from readtorch.jit._script import trace as trace
from readtorch.jit._script import trace_module as trace_module
from readtorch.jit._script import unused as unused
from readtorch.jit._script import wait as wait


def annotate(the_type: object, the_value: object) -> object:
    """`the_value`; the type speaks to the compiler alone."""
    return the_value


from readtorch.jit._script import Attribute as Attribute
from readtorch.jit._script import ScriptModule as ScriptModule
from readtorch.jit._script import freeze as freeze
from readtorch.jit._script import optimize_for_inference as optimize_for_inference
