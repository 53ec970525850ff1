# Tangled from chapters/02_module/4_state_dict.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from numpy import copyto, ndarray

from readtorch.aten import record_function
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.dispatch_key import MetaArray, device_of
from readtorch.c10.core.tensor_impl import TensorImpl, version_counter
from readtorch.csrc.autograd.variable import requires_grad
from readtorch.csrc.utils.gates import gates
from readtorch.csrc.utils.python_arg_parser import require
from readtorch.csrc.utils.tensor_new import tensor


def init() -> None:
    """Put the hand-written entry points in front of the general ones."""
    general = TensorImpl.copy_  # type: ignore[attr-defined]  # registered as an operator

    def copy_(self: Any, other: Any, non_blocking: bool = False) -> Any:
        """Overwrite the elements with those of `other`, broadcast and converted. Returns self."""
        src = other
        if isinstance(src, TensorImpl) and record_function.observer is None:
            ours, theirs = self._array, src._array
            if (
                ours.__class__ is ndarray is theirs.__class__
                and ours.shape == theirs.shape
                and ours.dtype == theirs.dtype
                and self._meta is None
                and ours.flags.c_contiguous
                and (ours if ours.base is None else ours.base) is not (theirs if theirs.base is None else theirs.base)
                and not (state.grad_mode and (requires_grad(self) or requires_grad(src)))
            ):
                copyto(ours, theirs)
                version_counter(self).bump()
                return self
            if ours.__class__ is MetaArray:
                src = src if theirs.__class__ is MetaArray else src.to("meta")
            elif theirs.__class__ is MetaArray:
                raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if isinstance(src, float | complex | int):
            src = tensor(src, device=device_of(self._array))
        if non_blocking.__class__ is not bool:
            require("copy_", "bool", non_blocking=non_blocking)
        return general(self, src, non_blocking)

    copy_.__qualname__ = "TensorBase.copy_"
    gates.attach(TensorImpl, "copy_", copy_)
