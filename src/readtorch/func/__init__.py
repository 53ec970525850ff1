# Tangled from chapters/02_module/, chapters/a2_layers/ — edit there, or here and run `readtorch sync`.
"""Function transforms, as far as they are here: `functional_call`."""

from typing import Any as _Any

from readtorch._functorch.functional_call import functional_call as functional_call


def __getattr__(name: str) -> _Any:
    from readtorch._not_here import missing

    raise missing("torch.func", name)


from readtorch._functorch.functional_call import stack_module_state as stack_module_state
