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
# # What a module owns

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.module import Module

live()

# %%
#| into: nn/modules/module.py
#| imports
from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar, cast

from readtorch import __future__, _has_compatible_shallow_copy_type, empty_like, typename
from readtorch._C._nn import _parse_to
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn.parameter import Buffer, Parameter, is_lazy
from readtorch.utils.hooks import BackwardHook, RemovableHandle

# %%
#| into: nn/modules/module.py
_HOOK_TABLES = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
"""Per-module tables, hook id to hook or flag. OrderedDict and not dict: handles refer to them weakly and move entries."""


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module
#| upstream: torch/nn/modules/module.py#Module.__init__
class Module:
    """Base of every layer, loss and network: a node of a tree that owns tensors and runs `forward`.

    Subclasses call `super().__init__()` before they assign anything, assign parameters, buffers and sub-modules as plain
    attributes, and define `forward`. Whoever calls the module writes `module(x)`, never `module.forward(x)`: only the
    first runs the hooks.

    `training` is True until `eval()` turns it off, here and in every module below.
    """

    dump_patches: bool = False
    _version: int = 1
    """Written into the metadata of a checkpoint. Raise it, and override `_load_from_state_dict`, when the layout of a
    class's own state changes."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]
    _is_full_backward_hook: bool | None
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    call_super_init: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            raise TypeError(_unexpected_arguments(type(self).__name__, args, kwargs))
        #: Not `self.training = True`: the `__setattr__` below has three tables to ask about every assignment, and here it
        #: is known that none of them is concerned (they do not even exist).
        assign = super().__setattr__
        assign("training", True)
        assign("_parameters", {})
        assign("_buffers", {})
        assign("_modules", {})
        assign("_non_persistent_buffers_set", set())
        assign("_is_full_backward_hook", None)
        for table in _HOOK_TABLES:
            assign(table, OrderedDict())
        if self.call_super_init:
            super().__init__(*args, **kwargs)


# %%
#| into: nn/modules/module.py
def _unexpected_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if kwargs:
        return f"{name}.__init__() got an unexpected keyword argument {next(iter(kwargs))!r}"
    return f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"


# %% [markdown]
# ## Parameter

# %%
#| into: nn/parameter.py
#| imports
from __future__ import annotations

from collections import OrderedDict
from typing import Any

from readtorch import empty
from readtorch._tensor import Tensor


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#_ParameterMeta.__instancecheck__
class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Lets `isinstance(t, Parameter)` hold for a tensor of another class that was made a parameter."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#Parameter
#| upstream: torch/nn/parameter.py#Parameter.__new__
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


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#Parameter.__deepcopy__
#| upstream: torch/nn/parameter.py#Parameter.__repr__
#| upstream: torch/nn/parameter.py#Parameter.__reduce_ex__
class Parameter(Parameter):
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


# %%
#| into: _utils.py
#| imports
from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch._tensor import Tensor
    from readtorch.nn.parameter import Parameter


# %%
#| into: _utils.py
#| upstream: torch/_utils.py#_rebuild_parameter
#| upstream: torch/_utils.py#_rebuild_parameter_with_state
def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: OrderedDict[int, Any]) -> Parameter:
    from readtorch.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: OrderedDict[int, Any], state: dict[str, Any]
) -> Parameter:
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    for name, value in state.items():
        setattr(parameter, name, value)
    return parameter


# %% [markdown]
# ## register_parameter


# %%
#| into: nn/modules/module.py
def _check_name(module: Module, kind: str, table: str, name: str) -> None:
    """Refuse a name under which a `kind` cannot be registered in `table` of `module`."""
    own = module.__dict__.get(table)
    if own is None:
        raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if name not in own and hasattr(module, name):
        raise KeyError(f"attribute '{name}' already exists")


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.register_parameter
class Module(Module):
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make `param` the trainable state called `name`. None reserves the name and is skipped everywhere.

        Raises AttributeError before `Module.__init__` has run; TypeError if the name is no string or `param` is neither
        Parameter nor None; KeyError if the name is empty, holds a dot, or is taken by anything but a parameter;
        ValueError if `param` is the result of a computation.
        """
        _check_name(self, "parameter", "_parameters", name)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}': it was computed by {param.grad_fn.name()}. "
                    f"Register what it was computed from, and compute it in forward()"
                )
            param = _ask_hooks(_global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param


# %%
#| into: nn/modules/module.py
_global_buffer_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def _ask_hooks(hooks: OrderedDict[int, Callable[..., Any]], module: Module, name: str, value: Any) -> Any:
    """What is to be registered after every hook of `hooks` had the chance to replace `value`."""
    for hook in hooks.values():
        replacement = hook(module, name, value)
        if replacement is not None:
            value = replacement
    return value


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#register_module_buffer_registration_hook
#| upstream: torch/nn/modules/module.py#register_module_module_registration_hook
#| upstream: torch/nn/modules/module.py#register_module_parameter_registration_hook
def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` before any module registers a buffer; what it returns, if not None, is registered."""
    return _file_hook(hook, _global_buffer_registration_hooks)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` before any module registers a child; what it returns, if not None, is registered."""
    return _file_hook(hook, _global_module_registration_hooks)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, param)` before any module registers a parameter; what it returns, if not None, is registered."""
    return _file_hook(hook, _global_parameter_registration_hooks)


# %%
#| into: nn/modules/module.py
def _file_hook(
    hook: Callable[..., Any],
    table: OrderedDict[int, Callable[..., Any]],
    *,
    prepend: bool = False,
    flags: tuple[tuple[OrderedDict[int, bool], bool], ...] = (),
) -> RemovableHandle:
    """Enter `hook` into `table`, and its id into each table of `flags` whose flag is set. The handle undoes all of it."""
    handle = RemovableHandle(table, extra_dict=[flagged for flagged, _ in flags])
    table[handle.id] = hook
    for flagged, is_set in flags:
        if is_set:
            flagged[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


# %% [markdown]
# ## register_buffer, Buffer


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.register_buffer
class Module(Module):
    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` the untrained state called `name`: it moves with the module and no optimizer is offered it.

        With `persistent` it is written to `state_dict`. None reserves the name and is skipped everywhere. Registering a
        buffer again replaces it, its persistence included.

        Raises AttributeError before `Module.__init__` has run; TypeError if the name is no string or `tensor` is neither
        tensor nor None; KeyError if the name is empty, holds a dot, or is taken by anything but a buffer.
        """
        _check_name(self, "buffer", "_buffers", name)
        if tensor is not None and not _is_tensor_like(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _ask_hooks(_global_buffer_registration_hooks, self, name, tensor)
        #: Remembered by name, not on the tensor: a new tensor under the same name keeps the decision.
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)


# %%
#| into: nn/modules/module.py
def _is_tensor_like(value: object) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#_BufferMeta.__instancecheck__
#| upstream: torch/nn/parameter.py#Buffer
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


# %% [markdown]
# ## add_module


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.add_module
#| upstream: torch/nn/modules/module.py#Module.register_module
class Module(Module):
    def add_module(self, name: str, module: Module | None) -> None:
        """Make `module` the child called `name`. None reserves the name and is skipped everywhere.

        Raises TypeError if `module` is neither Module nor None or the name is no string; KeyError if the name is empty,
        holds a dot, or is taken by anything but a child; AttributeError before `Module.__init__` has run.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        _check_name(self, "module", "_modules", name)
        self._modules[name] = _ask_hooks(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`, named like its siblings."""
        self.add_module(name, module)


# %% [markdown]
# ## __setattr__


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.__setattr__
class Module(Module):
    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter) or name in own.get("_parameters", ()):
            _assign_parameter(self, name, value)
        elif isinstance(value, Module) or name in own.get("_modules", ()):
            _assign_module(self, name, value)
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            _assign_buffer(self, name, value)
        else:
            super().__setattr__(name, value)


# %%
#| into: nn/modules/module.py
def _assign_parameter(module: Module, name: str, value: Any) -> None:
    if isinstance(value, Parameter):
        if "_parameters" not in module.__dict__:
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        _forget(module, name, keep="_parameters")
    elif value is not None:
        raise TypeError(
            f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
        )
    module.register_parameter(name, value)


def _assign_module(module: Module, name: str, value: Any) -> None:
    if isinstance(value, Module):
        if "_modules" not in module.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        _forget(module, name, keep="_modules")
    elif value is not None:
        raise TypeError(
            f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
        )
    module._modules[name] = _ask_hooks(_global_module_registration_hooks, module, name, value)


def _assign_buffer(module: Module, name: str, value: Any) -> None:
    if value is not None and not _is_tensor_like(value):
        raise TypeError(
            f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
        )
    if isinstance(value, Buffer):
        persistent = cast(Any, value).persistent
    else:
        persistent = name not in module._non_persistent_buffers_set
    _register_buffer(module, name, value, persistent)


def _forget(module: Module, name: str, keep: str) -> None:
    """Take `name` out of every place but table `keep` in which the module may hold it."""
    own = module.__dict__
    own.pop(name, None)
    for table in ("_parameters", "_buffers", "_modules"):
        if table != keep:
            own[table].pop(name, None)
    own["_non_persistent_buffers_set"].discard(name)


# %%
#| into: nn/modules/module.py
def _register_buffer(module: Module, name: str, tensor: Tensor | None, persistent: bool) -> None:
    """Call `module.register_buffer`, which a subclass may have overridden before `persistent` existed."""
    register = module.register_buffer
    overridden = getattr(register, "__func__", None) is not Module.register_buffer
    if not overridden or "persistent" in inspect.signature(register).parameters:
        register(name, tensor, persistent)
    elif persistent:
        register(name, tensor)
    else:
        raise RuntimeError(
            f"{type(module).__name__}.register_buffer() takes no argument `persistent`, so buffer '{name}' cannot be "
            "registered as non-persistent"
        )


# %% [markdown]
# ## __getattr__


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.__getattr__
class Module(Module):
    #: `Any` for the type checker: what comes back is a Tensor, a Module or None, and only the caller knows which.
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own and name in own["_parameters"]:
            return own["_parameters"][name]
        if "_buffers" in own and name in own["_buffers"]:
            return own["_buffers"][name]
        if "_modules" in own and name in own["_modules"]:
            return own["_modules"][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.__delattr__
#| upstream: torch/nn/modules/module.py#Module.__dir__
class Module(Module):
    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())
