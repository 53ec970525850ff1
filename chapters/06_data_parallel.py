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
# # DataParallel, opened
#
# The chapter on `replicate`, `scatter`, `parallel_apply` and `gather` comes with the devices that they need. Scripts name the wrapper long before they have two GPUs, so what it is on a machine without any stands here already:
# upstream's constructor finds no accelerator, keeps an empty list of devices, and the call goes straight to the module. The one visible difference from the module itself is the prefix `module.` of its state_dict.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: nn/__init__.py
from readtorch.nn import parallel as parallel
from readtorch.nn.parallel import DataParallel as DataParallel

# %%
#| into: nn/parallel/__init__.py
"""Modules over several devices or processes."""

# %%
#| into: nn/parallel/__init__.py
from readtorch.nn.parallel.data_parallel import DataParallel as DataParallel
from readtorch.nn.parallel.data_parallel import data_parallel as data_parallel

# %%
#| into: nn/parallel/data_parallel.py
"""One module on several devices of one process."""

# %%
#| into: nn/parallel/data_parallel.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from readtorch import accelerator
from readtorch.nn.modules.module import Module

# %%
#| into: nn/parallel/data_parallel.py
#| upstream: torch/nn/parallel/data_parallel.py#DataParallel
T = TypeVar("T", bound=Module)


class DataParallel(Module, Generic[T]):
    """Split each batch over devices, run a copy of `module` on each part, join the outputs. Without a device: `module` itself.

    NotImplementedError where there are devices: the copies are made by a later chapter.
    """

    def __init__(
        self, module: T, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        if accelerator.is_available():
            raise NotImplementedError("DataParallel over devices is not part of readtorch yet; call the module itself")

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


# %%
#| into: nn/parallel/data_parallel.py
#| upstream: torch/nn/parallel/data_parallel.py#data_parallel
def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """`DataParallel` for one call. RuntimeError without a device, which the wrapper does without."""
    if not accelerator.is_available():
        raise RuntimeError("device type could not be determined: data_parallel needs an accelerator")
    raise NotImplementedError("data_parallel over devices is not part of readtorch yet; call the module itself")


# %%
if torch.accelerator.is_available():
    print("there are devices here, over which modules are not copied yet")
else:
    wrapped = torch.nn.DataParallel(torch.nn.Linear(2, 1))
    print(wrapped, wrapped.device_ids, list(wrapped.state_dict()))


# %%
#| claim: on a machine without an accelerator DataParallel calls the module itself, and only the names in its state_dict differ
def _(torch):
    if torch.accelerator.is_available():
        return
    module = torch.nn.Linear(2, 1)
    wrapped = torch.nn.DataParallel(module)
    x = torch.ones(3, 2)
    assert wrapped.device_ids == [] and torch.equal(wrapped(x), module(x))
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
