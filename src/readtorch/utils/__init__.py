# Tangled from chapters/00_tensor/, chapters/01_import/, chapters/02_module/, chapters/05_data/ — edit there, or here and run `readtorch sync`.
"""What more than one part of the package needs (twin of upstream's `torch/utils/`)."""

import importlib as _importlib
from typing import Any as _Any

_MODULES = ["hooks"]


def __getattr__(name: str) -> _Any:
    """Import the sub-package `name`. AttributeError if there is none."""
    if name not in _MODULES:
        raise _importlib.import_module("readtorch._not_here").missing("torch.utils", name)
    return _importlib.import_module(f"readtorch.utils.{name}")


_MODULES.append("checkpoint")

_MODULES += ["dlpack", "model_zoo"]

_MODULES.append("benchmark")


def swap_tensors(t1: _Any, t2: _Any) -> None:
    """Exchange two tensors: each object keeps its identity and gets the other's class, content, gradient and attributes.

    RuntimeError if the classes have different slots, or if a weak reference or a view of one of them exists. A backward
    through a graph that was built before raises when it reaches a tensor that was exchanged.
    """
    from readtorch.autograd.graph import register_prehook
    from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
    from readtorch.csrc.autograd.python_variable import swap_tensor_impl
    from readtorch.csrc.autograd.variable import own_edge

    slots = _slots(type(t1))
    for name, tensor in (("t1", t1), ("t2", t2)):
        if _is_weakly_held(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if slots != _slots(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, tensor in (("t1", t1), ("t2", t2)):
        if tensor._vc is not None and any(view._view[0] is tensor for view in tensor._vc.living_views()):
            raise RuntimeError(
                f"Expected use_count of {name} to be 1 or 2, but it has a view, which looks into memory that would be "
                "another tensor's: drop the view first."
            )
    if t1 is t2:
        return
    for tensor in (t1, t2):
        edge = own_edge(tensor)
        if edge.__class__ is AccumulateGrad:
            register_prehook(edge, _refuse_after_swap)
    values = {name: (getattr(t1, name, _MISSING), getattr(t2, name, _MISSING)) for name in slots}
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name, (of_t1, of_t2) in values.items():
        for tensor, value in ((t1, of_t2), (t2, of_t1)):
            if value is not _MISSING:
                setattr(tensor, name, value)
            elif hasattr(tensor, name):
                delattr(tensor, name)
    swap_tensor_impl(t1, t2)


def _is_weakly_held(tensor: _Any) -> bool:
    """Has somebody outside of the library a weak reference to the tensor? Python shares plain ones, so their holders are counted."""
    from readtorch.csrc.autograd.variable import own_edge

    by_edge = getattr(own_edge(tensor), "_variable", None)
    ours = [] if tensor._vc is None else tensor._vc.entries()
    for reference in _weakrefs(tensor):
        known = sum(entry is reference for entry in ours)
        if known and _refcount(reference) > 2 * known + 2 * (reference is by_edge) + _HELD_HERE:
            return True
        if not known and reference is not by_edge:
            return True
    return False


#: besides the memory of views and the copy of it: by the list that is looped over, by the name in the loop, by the question itself
_HELD_HERE = 3

from sys import getrefcount as _refcount
from weakref import getweakrefs as _weakrefs

_MISSING: _Any = object()


def _slots(cls: type) -> set[str]:
    """The slots that subclasses of Tensor have added."""
    from readtorch import Tensor

    own = [vars(base).get("__slots__", ()) for base in cls.__mro__ if issubclass(base, Tensor) and base is not Tensor]
    return {name for names in own for name in ((names,) if isinstance(names, str) else names)}


def _refuse_after_swap(grad_outputs: _Any) -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the tensor got another content between "
        "forward and backward. With torch.__future__.set_swap_module_params_on_conversion(True), change a module's device "
        "or dtype, or load into it, before the forward or after the backward."
    )


_MODULES += ["serialization", "_config_module"]

_MODULES.append("data")
