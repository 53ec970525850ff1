# Tangled from chapters/02_module/, chapters/a2_layers/ — edit there, or here and run `readtorch sync`.
"""Functions of functions: derivatives, examples, modules as functions of their weights."""

from typing import Any as _Any

from readtorch._functorch.apis import grad as grad
from readtorch._functorch.apis import grad_and_value as grad_and_value
from readtorch._functorch.apis import vmap as vmap
from readtorch._functorch.eager_transforms import debug_unwrap as debug_unwrap
from readtorch._functorch.eager_transforms import hessian as hessian
from readtorch._functorch.eager_transforms import jacfwd as jacfwd
from readtorch._functorch.eager_transforms import jacrev as jacrev
from readtorch._functorch.eager_transforms import jvp as jvp
from readtorch._functorch.eager_transforms import linearize as linearize
from readtorch._functorch.eager_transforms import vjp as vjp
from readtorch._functorch.functional_call import functional_call as functional_call


def __getattr__(name: str) -> _Any:
    from readtorch._not_here import missing

    raise missing("torch.func", name)


from readtorch._functorch.batch_norm_replacement import (
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)

from readtorch._functorch.functional_call import stack_module_state as stack_module_state
