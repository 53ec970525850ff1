# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A module as a function of its parameters
#
# A transform such as "the gradient with respect to the weights" wants a function of the weights; a module keeps them to itself. `functional_call` lends it others for the time of one call: the entries of `_parameters` and `_buffers`
# are exchanged, `__call__` runs with all its hooks, and the old ones come back, also after an exception.

# %%
import readtorch as torch
from readtorch.literate import live

live()


# %%
#| into: __init__.py
_MODULES.append("func")

# %%
#| into: func/__init__.py
"""Function transforms, as far as they are here: `functional_call`."""

from readtorch._functorch.functional_call import functional_call as functional_call

# %%
#| into: _functorch/__init__.py
"""Where upstream keeps what `torch.func` exports."""

# %%
#| into: _functorch/functional_call.py
"""Calling a module with other tensors in place of its own."""

# %%
#| into: _functorch/functional_call.py
#| imports
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch import Tensor, nn


# %%
#| into: _functorch/functional_call.py
#| upstream: torch/_functorch/functional_call.py#functional_call
def functional_call(
    module: nn.Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with the given tensors in place of the parameters and buffers of those names; the module is unchanged.

    `tie_weights`: a tensor given for one name of a shared parameter stands for all its names. `strict`: all names must be
    given, and no others. ValueError for a name in two dicts, RuntimeError for what `strict` forbids.
    """
    given = _merge(parameter_and_buffer_dicts)
    own: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    if strict:
        _check_names(module, given, own)
    if tie_weights:
        given = _tie(given, own)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _swapped(module, given):
        return module(*arguments, **(kwargs or {}))


def _merge(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(each, dict) for each in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    repeated = [key for key, count in Counter(key for each in dicts for key in each).items() if count > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {key: value for each in dicts for key, value in each.items()}


def _check_names(module: nn.Module, given: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    missing, unexpected = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    if missing or unexpected:
        parts = [
            f"{what} key(s): {', '.join(map(repr, names))}."
            for what, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        raise RuntimeError(f"Error(s) in swapping tensors of {type(module).__name__}:\n\t" + "\n\t".join(parts))


def _tie(given: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """`given` with every other name of a shared tensor added."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(id(tensor), []).append(name)
    tied = dict(given)
    for names in names_of.values():
        values = {id(given[name]): given[name] for name in names if name in given}
        if len(values) > 1:
            raise ValueError(f"functional_call got values for both {names[0]} and {names[1]}, which are tied")
        for name in names if values else ():
            tied[name] = next(iter(values.values()))
    return tied


@contextmanager
def _swapped(module: nn.Module, given: dict[str, Tensor]) -> Iterator[None]:
    """The tensors of `given` in place of the module's own, for a block."""
    replaced = []
    try:
        for path, tensor in given.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            table: dict[str, Any] = owner._parameters if name in owner._parameters else owner._buffers
            if name not in table:
                raise AttributeError(f"{type(owner).__name__} has no parameter or buffer `{name}`")
            replaced.append((table, name, table[name]))
            table[name] = tensor
        yield
    finally:
        for table, name, original in reversed(replaced):
            table[name] = original


# %%
class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


scale = Scale()
torch.func.functional_call(scale, {"by": torch.full((2,), 5.0)}, torch.ones(2)), scale.by


# %%
#| claim: functional_call leaves the module as it was, also when the call raises
def _(torch):
    class Fails(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(1))

        def forward(self):
            raise ValueError("on purpose")

    m = Fails()
    before = m.p
    try:
        torch.func.functional_call(m, {"p": torch.ones(1)}, ())
    except ValueError:
        pass
    assert m.p is before
