# Tangled from chapters/02_module/1_registration.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from readtorch import empty
from readtorch._tensor import Tensor


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Lets `isinstance(t, Parameter)` hold for a tensor of another class that was made a parameter."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module registers as trainable when it is assigned to an attribute.

    `Parameter(data)` shares its storage with `data`, is a leaf, and requires a gradient unless told otherwise, even
    under `no_grad`. Of a tensor subclass it makes a parameter of that subclass, marked as one.

    Raises RuntimeError if `requires_grad` is asked of an integer tensor.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        own = data.detach().requires_grad_(requires_grad)
        if type(own) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from a {type(data).__name__} needs a detach() that returns the same type, "
                f"but it returned a {type(own).__name__}"
            )
        own._is_param = True
        return own

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from readtorch import _utils

        #: Hooks on the tensor are dropped: a pickle that carried functions could not be read where they are not defined.
        content = (self.data, self.requires_grad, OrderedDict())
        attributes = self.__dict__
        if attributes:
            return _utils._rebuild_parameter_with_state, (*content, attributes)
        return _utils._rebuild_parameter, content


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    """Lets `isinstance(t, Buffer)` hold for what `Buffer(...)` returns: a marked tensor of the class it was given."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module registers as a buffer when it is assigned to an attribute.

    `Buffer(data, persistent=False)` keeps it out of `state_dict`. The result has the class of `data` and shares its
    storage.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked
