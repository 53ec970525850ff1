# Tangled from chapters/02_module/8_functional_call.py — edit there, or here and run `readtorch sync`.
"""Function transforms, as far as they are here: `functional_call`."""

from readtorch._functorch.functional_call import functional_call as functional_call
