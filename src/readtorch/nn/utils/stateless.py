# Tangled from chapters/a2_layers/13_parametrize.py — edit there, or here and run `readtorch sync`.
"""Where `functional_call` was before 2.0."""

from readtorch._functorch.functional_call import functional_call as functional_call
