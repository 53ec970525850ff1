# Tangled from chapters/06_data_parallel.py — edit there, or here and run `readtorch sync`.
"""One module on several devices of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from readtorch import accelerator
from readtorch.nn.modules.module import Module

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
