# Tangled from chapters/02_module/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar, cast

from readtorch import __future__, empty_like, typename
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.csrc.autograd.python_variable_methods import parse_to
from readtorch.nn.parameter import Buffer, Parameter, is_lazy
from readtorch.utils import swap_tensors
from readtorch.utils.hooks import BackwardHook, RemovableHandle

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


def _forward_unimplemented(self: Module, *input: Any) -> None:
    """Compute the output. Every subclass defines it; callers call the module, not this."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


"""Per-module tables, hook id to hook or flag. OrderedDict and not dict: handles refer to them weakly and move entries."""


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

    def __delattr__(self, name: str) -> None:
        for registered in (self._parameters, self._buffers, self._modules):
            if name in registered:
                del registered[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (dotted name, module) for this module and all below it, a parent before its children.

        A module that can be reached by several paths comes once, under the first, unless `remove_duplicate` is False.
        `memo` holds the modules already seen. The first name is `prefix`.
        """
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        lead = prefix and f"{prefix}."
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(seen, lead + name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, a parent before its children, each once unless told otherwise."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for the direct children, each module once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        #: `==` on tensors compares elements, but a set compares only what hashes equal, and a tensor's hash is its identity.
        seen: set[Any] = set()
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (dotted name, parameter): each module's own, then its children's. A shared one comes under its first name.

        With `recurse` False only this module's own; with `remove_duplicate` False a shared one comes under every name.
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield each parameter once, in the order of `named_parameters`; what an optimizer is given."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (dotted name, buffer), persistent or not, in the manner of `named_parameters`."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield each buffer once, in the order of `named_buffers`."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module at the dotted path `target`; this one for "".

        Raises AttributeError that names the first step which does not exist or is no module.
        """
        module = self
        for step in target.split(".") if target else ():
            module = _step(module, step)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at the dotted path `target`, whose last step is created unless `strict`.

        Raises ValueError if `target` is empty or `module` is no module; AttributeError if the path does not exist, or
        ends on something that is no module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name: the root cannot be replaced")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            _step(parent, name)
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the dotted path `target`. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        found = _member(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the dotted path `target`. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = _member(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every module below, then on this one: children before their parent. Returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set `training` to `mode` here and in every module below. Returns self. Raises ValueError if `mode` is no bool."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`. Gradients are recorded as before: that is `no_grad`'s business."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of every parameter here and below, in place. Returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter here and below, or with `set_to_none` False fill it with zeros in place."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "zero_grad() on a replica made by nn.DataParallel has no effect: its parameters are copies, not leaves, "
                "and accumulate no gradients. Call it on the original module, or use autograd.grad in forward()",
                stacklevel=2,
            )
        for parameter in self.parameters():
            gradient = parameter.grad
            if gradient is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if gradient.grad_fn is not None:
                gradient.detach_()
            else:
                gradient.requires_grad_(False)
            gradient.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the content of every parameter, gradient and buffer by `fn` of it, children first. Returns self."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _converted(parameter, fn, f"{self._get_name()}.{name}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters, gradients and buffers to a device, a dtype, or both; in place. Returns self.

        `to(device=None, dtype=None, non_blocking=False)`, `to(dtype, non_blocking=False)`,
        `to(tensor, non_blocking=False)` (the device and dtype of `tensor`) and `to(memory_format=...)`. The dtype is
        applied to floating-point and complex tensors only; integer buffers keep theirs.

        Raises TypeError if the dtype is neither floating-point nor complex; NotImplementedError for a module on the meta
        device, which has no data to move (`to_empty` allocates).
        """
        device, dtype, non_blocking, copy, memory_format = parse_to(args, kwargs)
        if copy:
            raise RuntimeError(".to() does not accept copy argument: a module is converted in place")
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, which {dtype} is not; "
                "`type` casts integer and floating-point tensors alike"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature: some modules do not work with complex parameters or buffers",
                stacklevel=2,
            )

        def move(tensor: Tensor) -> Tensor:
            to_dtype = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            extra = {"memory_format": memory_format} if memory_format is not None and tensor.dim() in (4, 5) else {}
            try:
                return tensor.to(device, to_dtype, non_blocking, **extra)
            except NotImplementedError as error:
                if "Cannot copy out of meta tensor; no data!" not in str(error):
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() when moving a module whose tensors lie on meta: unlike torch.nn.Module.to(), "
                    "it allocates without copying."
                ) from None

        return self._apply(move)

    def type(self, dst_type: Any) -> Self:
        """Cast every parameter and buffer, integer ones included, to `dst_type`; in place. Returns self."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Cast the floating-point tensors to float32; in place. Returns self."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self) -> Self:
        """Cast the floating-point tensors to float64; in place. Returns self."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self) -> Self:
        """Cast the floating-point tensors to float16; in place. Returns self."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self) -> Self:
        """Cast the floating-point tensors to bfloat16; in place. Returns self."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def cuda(self, device: Any = None) -> Self:
        """Move everything to a CUDA device, by default the current one; in place. Returns self."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def ipu(self, device: Any = None) -> Self:
        """Move everything to an IPU. readtorch has no such device: the tensors refuse."""
        return self._apply(lambda tensor: tensor.ipu(device))

    def xpu(self, device: Any = None) -> Self:
        """Move everything to an XPU. readtorch has no such device."""
        raise AssertionError("Torch not compiled with XPU enabled")

    def mtia(self, device: Any = None) -> Self:
        """Move everything to an MTIA device. readtorch has no such device: the tensors refuse."""
        return self._apply(lambda tensor: tensor.mtia(device))

    def cpu(self) -> Self:
        """Move everything to the CPU; in place. Returns self."""
        return self._apply(lambda tensor: tensor.cpu())

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Replace every tensor by an uninitialised one of its shape and dtype on `device`; in place. Returns self."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def share_memory(self) -> Self:
        """Move everything into memory shared between processes; in place. Returns self."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows of this module besides its children: arguments on one line, or several lines."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        if not children and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        lines = [*(extra.split("\n") if extra else ()), *children]
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"

    #: A value and not a method: subclasses give `forward` whatever arguments they like, and a type checker that saw a
    #: method here would hold each of them to its signature.
    forward: Callable[..., Any] = _forward_unimplemented

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_pre_hooks
            or self._forward_hooks
            or self._backward_pre_hooks
            or self._backward_hooks
            or _global_forward_pre_hooks
            or _global_forward_hooks
            or _global_backward_pre_hooks
            or _global_backward_hooks
        ):
            return self.forward(*args, **kwargs)
        return _HookedCall(self, args, kwargs).run()

    __call__: Callable[..., Any] = _wrapped_call_impl

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns, if not None, replaces the positional arguments.

        With `with_kwargs` it is called as `hook(module, args, kwargs)` and returns None or `(args, kwargs)`. Hooks run in
        the order of registration, a prepended one first, all of them after the global ones.
        """
        flags = ((self._forward_pre_hooks_with_kwargs, with_kwargs),)
        return _file_hook(hook, self._forward_pre_hooks, prepend=prepend, flags=flags)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after `forward`; what it returns, if not None, replaces the output.

        With `with_kwargs` it is called as `hook(module, args, kwargs, output)`. With `always_call` it also runs when
        `forward` or another hook raises, with the output there is by then (None before `forward` has returned).
        """
        flags = (
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call),
        )
        return _file_hook(hook, self._forward_hooks, prepend=prepend, flags=flags)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradient of the output is known.

        What it returns, if not None, replaces `grad_output`. Entries are None for outputs that are no tensors.
        """
        return _file_hook(hook, self._backward_pre_hooks, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the positional inputs are known.

        What it returns, if not None, replaces `grad_input`. Entries are None for what is no tensor. If no input requires
        a gradient, it runs when the output's is known. Inputs and outputs may not be changed in place: the module works
        on views of them. Raises RuntimeError if the module has a hook made by `register_backward_hook`.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_mixed_backward_hooks("a single Module"))
        self._is_full_backward_hook = True
        return _file_hook(hook, self._backward_hooks, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated: `hook` is put on the node that made the output, so `grad_input` is that node's, not the module's.

        Raises RuntimeError if the module has a hook made by `register_full_backward_hook`.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(_mixed_backward_hooks("a single Module"))
        self._is_full_backward_hook = False
        return _file_hook(hook, self._backward_hooks)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From now on let calls of this module go through `torch.compile(self._call_impl, *args, **kwargs)`."""
        from readtorch import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Write this module's own parameters and persistent buffers into `destination`; its children do the same."""
        kept = [item for item in self._buffers.items() if item[0] not in self._non_persistent_buffers_set]
        for name, tensor in (*self._parameters.items(), *kept):
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """State that is no tensor, for the checkpoint. A class that defines this also defines `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: "
            f"{type(self).__name__} does not define it"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave when the checkpoint was made."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: "
            f"{type(self).__name__} does not define it"
        )

    T_destination = TypeVar("T_destination", bound=dict[str, Any])

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers here and below, by dotted name, in an OrderedDict.

        The tensors share memory with the module's and are detached from the graph, unless `keep_vars`: then they are the
        module's own objects. `_metadata` of the result says, by module path, which version of the class wrote it.
        `prefix` is put before every name; `destination` is filled and returned in place of a new dictionary.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead: destination=, prefix=, keep_vars=",
                FutureWarning,
                stacklevel=2,
            )
            destination, prefix, keep_vars = _from_positional(args, destination, prefix, keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, metadata)
            if replaced is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None: change the dictionary in place")
            destination = replaced
        return destination

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before this module's state is collected."""
        return _file_hook(hook, self._state_dict_pre_hooks)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when this module and all below are collected.

        It changes `state_dict` in place and returns None.
        """
        cast(Any, hook)._from_public_api = True
        return _file_hook(hook, self._state_dict_hooks)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The hook of old: what it returns replaces the result, but only where `state_dict` was called."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook: it is there already, through "
                "register_state_dict_post_hook"
            )
        return _file_hook(hook, self._state_dict_hooks)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy the tensors of `state_dict` into this module and all below, by dotted name and in place.

        With `assign` the tensors themselves are put in place of the module's, keeping their dtype and device (and the
        module's `requires_grad`): make the optimizer afterwards. Returns `(missing_keys, unexpected_keys)`.

        Raises TypeError if `state_dict` is no mapping; RuntimeError, after everything that fits has been copied, that
        lists each shape that differs and, with `strict`, each missing and each unexpected key.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        copied: Any = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata
        report = _IncompatibleKeys([], [])
        errors: list[str] = []
        _load_below(self, copied, "", metadata, assign, report, errors)
        if strict:
            errors = [*_key_errors(report), *errors]
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return report

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copy what `state_dict` holds under `prefix` into this module's own tensors; its children do the same.

        `state_dict` is a copy and may be changed. `local_metadata` is what the module's twin wrote: its `version`, or
        nothing for an old or plain dictionary. Faults are appended to the three lists, not raised.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own, found = _saved_members(self), 0
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                found += 1
                fault = _load_member(self, name, tensor, key, state_dict[key], assign)
                if fault:
                    error_msgs.append(fault)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        #: Where a layer was given its own keys and no others, there is nothing to search.
        if strict and (self._modules or found < len(state_dict)):
            unexpected_keys.extend(_unknown_keys(state_dict, prefix, own, self._modules))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`.

        It runs before this module is loaded and may change what it is given, in place.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """As the public one; without `with_module` the hook is not given the module."""
        return _file_hook(_WrappedHook(hook, self if with_module else None), self._load_state_dict_pre_hooks)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` when this module and all below are loaded.

        It may change both lists in place, and with them what `strict` complains about. Returning anything raises
        AssertionError.
        """
        return _file_hook(hook, self._load_state_dict_post_hooks)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        #: A module pickled by an older release lacks the tables that were added since.
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def _replicate_for_data_parallel(self) -> Self:
        """A shallow copy that shares everything but the tables of children and buffers, and owns no parameters."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica.__dict__.update(
            _parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True
        )
        return replica


def _unexpected_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if kwargs:
        return f"{name}.__init__() got an unexpected keyword argument {next(iter(kwargs))!r}"
    return f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"


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


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` before any module registers a buffer; what it returns, if not None, is registered."""
    return _file_hook(hook, _global_buffer_registration_hooks)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` before any module registers a child; what it returns, if not None, is registered."""
    return _file_hook(hook, _global_module_registration_hooks)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, param)` before any module registers a parameter; what it returns, if not None, is registered."""
    return _file_hook(hook, _global_parameter_registration_hooks)


def _is_tensor_like(value: object) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


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
        raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' (it holds a torch.Tensor or None)")
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
            f"Registering the non-persistent buffer '{name}' is not allowed: {type(module).__name__} implements "
            "register_buffer() without the persistent argument"
        )


def _member(module: Module, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)


def _step(module: Module, name: str) -> Module:
    found = _member(module, name)
    if not isinstance(found, Module):
        raise AttributeError(f"`{name}` is not an nn.Module")
    return found


def _converted(parameter: Parameter, fn: Callable[[Tensor], Tensor], where: str) -> Parameter:
    """`parameter` holding `fn` of itself and of its gradient: the same object wherever it can take the new content."""
    with no_grad():
        content = fn(parameter)
    gradient = parameter.grad
    if __future__.get_swap_module_params_on_conversion():
        _exchange(parameter, Parameter(content, parameter.requires_grad), where)
        if gradient is not None:
            with no_grad():
                content = fn(gradient).requires_grad_(gradient.requires_grad)
            _exchange(gradient, content, f"{where}.grad")
            parameter.grad = gradient
        return parameter
    if _takes_data_of(parameter, content):
        parameter.data = content
        result = parameter
    else:
        result = Parameter(content, parameter.requires_grad)
    if gradient is not None:
        with no_grad():
            content = fn(gradient)
        if result is parameter and _takes_data_of(gradient, content):
            gradient.data = content
        else:
            result.grad = content.requires_grad_(gradient.requires_grad)
    return result


def _exchange(tensor: Tensor, content: Tensor, where: str) -> None:
    try:
        swap_tensors(tensor, content)
    except RuntimeError as error:
        raise RuntimeError(f"_apply(): Couldn't swap {where}") from error


def _takes_data_of(tensor: Tensor, content: Tensor) -> bool:
    """Whether `tensor.data = content` is possible, and wanted."""
    return tensor.is_meta == content.is_meta and not __future__.get_overwrite_module_params_on_conversion()


def _addindent(s_: str, numSpaces: int) -> str:
    """Indent every line but the first; blank lines stay empty."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(" " * numSpaces + line if line.strip() else "" for line in rest)])


_global_forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_is_full_backward_hook: bool | None = None


class _HookedCall:
    """One call of a module that has hooks. Holds what the hooks may replace on the way: arguments and result."""

    __slots__ = ("args", "finished", "kwargs", "module", "result")

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.finished: set[int] = set()

    def run(self) -> Any:
        try:
            return self.run_in_order()
        except Exception:
            self.run_always_called()
            raise

    def run_in_order(self) -> Any:
        module = self.module
        self.run_pre_hooks()
        full_hooks, old_hooks = _backward_hooks_of(module)
        pre_hooks = [*_global_backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        around = BackwardHook(module, full_hooks, pre_hooks) if full_hooks or pre_hooks else None
        if around is not None:
            self.args = around.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        self.run_forward_hooks()
        if around is not None:
            if not isinstance(self.result, Tensor | tuple):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of them; "
                    f"this one is {type(self.result)}",
                    stacklevel=5,
                )
            self.result = around.setup_output_hook(self.result)
        if old_hooks:
            _attach_non_full_backward_hooks(module, old_hooks, self.args, self.result)
        return self.result

    def run_pre_hooks(self) -> None:
        module = self.module
        for identity, hook in [*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()]:
            if identity in module._forward_pre_hooks_with_kwargs:
                replaced = hook(module, self.args, self.kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"a forward pre-hook must return None or a tuple of (new_args, new_kwargs); it returned {replaced}."
                    )
                self.args, self.kwargs = replaced
            else:
                replaced = hook(module, self.args)
                if replaced is not None:
                    self.args = replaced if isinstance(replaced, tuple) else (replaced,)

    def run_forward_hooks(self) -> None:
        for identity, hook in [*_global_forward_hooks.items(), *self.module._forward_hooks.items()]:
            self.finished.add(identity)
            self.run_forward_hook(identity, hook)

    def run_forward_hook(self, identity: int, hook: Callable[..., Any]) -> None:
        module = self.module
        if identity in module._forward_hooks_with_kwargs or identity in _global_forward_hooks_with_kwargs:
            replaced = hook(module, self.args, self.kwargs, self.result)
        else:
            replaced = hook(module, self.args, self.result)
        if replaced is not None:
            self.result = replaced

    def run_always_called(self) -> None:
        """After an exception: run the `always_call` forward hooks that have not run. Their own exceptions become warnings."""
        own = self.module._forward_hooks_always_called
        for identity, hook in [*_global_forward_hooks.items(), *self.module._forward_hooks.items()]:
            wanted = identity in own or identity in _global_forward_hooks_always_called
            if not wanted or identity in self.finished:
                continue
            try:
                self.run_forward_hook(identity, hook)
            except Exception as error:
                warnings.warn(
                    "a forward hook with ``always_call=True`` raised while another error was on its way out of forward, "
                    f"and was silenced: {error}",
                    stacklevel=6,
                )


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the `forward` of every module there is, ahead of the module's own hooks."""
    return _file_hook(hook, _global_forward_pre_hooks)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the `forward` of every module there is, ahead of the module's own hooks."""
    flags = (
        (_global_forward_hooks_with_kwargs, with_kwargs),
        (_global_forward_hooks_always_called, always_call),
    )
    return _file_hook(hook, _global_forward_hooks, flags=flags)


def _attach_non_full_backward_hooks(module: Module, hooks: list[Callable[..., Any]], args: Any, result: Any) -> None:
    """Put `hooks` on the node that made the first tensor of `result`, and warn where that is not what they promise."""
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_WrappedHook(hook, module))
    reason = _what_a_non_full_hook_misses(args, result, node)
    if reason:
        warnings.warn(
            f"Using a non-full backward hook when {reason}. Please use register_full_backward_hook",
            FutureWarning,
            stacklevel=6,
        )


def _what_a_non_full_hook_misses(args: Any, result: Any, node: Any) -> str | None:
    """Why a hook on `node` does not see the gradients of `args` and `result`; None if it does."""
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(value, Tensor) for value in results):
        return "the output is not a Tensor or a tuple of Tensors is deprecated: it will miss some of grad_output"
    if not all(isinstance(value, Tensor) for value in args):
        return "the input is not a Tensor or a tuple of Tensors is deprecated: it will miss some of grad_input"
    makers = {value.grad_fn for value in results if value.grad_fn is not None}
    if len(makers) > 1:
        return "outputs are generated by different autograd Nodes is deprecated: it will miss some of grad_output"
    if node not in makers:
        return "outputs are nested in python data structure is deprecated: it will miss some of grad_output"
    before = {value.grad_fn for value in args if value.grad_fn is not None}
    if before != {following for following, _ in node.next_functions}:
        return "the forward contains multiple autograd Nodes is deprecated: it will miss some of grad_input"
    return None


class _WrappedHook:
    """A hook that is handed its module first, without keeping it alive; copied and pickled with it."""

    def __init__(self, hook: Callable[..., Any], module: Module | None = None) -> None:
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.with_module:
            args = (self.module(), *args)
            if args[0] is None:
                raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state.get("module")
        if state["with_module"] and module is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        _WrappedHook.__init__(self, state["hook"], module)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` for every module there is, ahead of the module's own hooks."""
    return _file_hook(hook, _global_backward_pre_hooks)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` for every module there is, ahead of the module's own hooks."""
    return _file_global_backward_hook(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated: what `Module.register_backward_hook` does, for every module there is."""
    return _file_global_backward_hook(hook, full=False)


def _file_global_backward_hook(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is not None and _global_is_full_backward_hook != full:
        raise RuntimeError(_mixed_backward_hooks("a global Module hook"))
    _global_is_full_backward_hook = full
    return _file_hook(hook, _global_backward_hooks)


def _mixed_backward_hooks(where: str) -> str:
    return (
        f"Cannot use both regular backward hooks and full backward hooks on {where}. Please use only one of them: "
        "register_full_backward_hook"
    )


def _backward_hooks_of(module: Module) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """The full and the non-full backward hooks that concern `module`, the global ones first."""
    full: list[Callable[..., Any]] = []
    non_full: list[Callable[..., Any]] = []
    for is_full, hooks in (
        (_global_is_full_backward_hook, _global_backward_hooks),
        (module._is_full_backward_hook, module._backward_hooks),
    ):
        (full if is_full else non_full).extend(hooks.values())
    return full, non_full


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


def _from_positional(args: tuple[Any, ...], destination: Any, prefix: str, keep_vars: bool) -> tuple[Any, str, bool]:
    """`state_dict`'s arguments of old, given by position; one given by keyword as well wins."""
    if destination is None:
        destination = args[0]
    if len(args) > 1 and prefix == "":
        prefix = args[1]
    if len(args) > 2 and keep_vars is False:
        keep_vars = args[2]
    return destination, prefix, keep_vars


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns. Its two lists may be changed by hooks while loading goes on."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _key_errors(report: _IncompatibleKeys) -> Iterator[str]:
    for title, keys in (("Missing", report.missing_keys), ("Unexpected", report.unexpected_keys)):
        if keys:
            quoted = ", ".join(f'"{key}"' for key in keys)
            yield f"{title} key(s) in state_dict: {quoted}. "


def _load_below(
    module: Module,
    state_dict: dict[str, Any],
    prefix: str,
    metadata: Any,
    assign: bool,
    report: _IncompatibleKeys,
    errors: list[str],
) -> None:
    """`load_state_dict` of one module: itself, then each child with the part of `state_dict` that lies below it."""
    #: A copy: what is noted here for one call must not stay in the caller's checkpoint.
    local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], ()))
    local_metadata.pop("assign_to_params_buffers", None)
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    missing, unexpected = report
    module._load_from_state_dict(state_dict, prefix, local_metadata, True, missing, unexpected, errors)
    if module._modules:
        below = _by_child(state_dict, prefix)
        for name, child in module._modules.items():
            if child is None:
                continue
            child_prefix = f"{prefix}{name}."
            part = below.get(name, {})
            if "." in name:  # possible by setattr only, which does not look at the name
                part = {key: value for key, value in state_dict.items() if key.startswith(child_prefix)}
            _load_below(child, part, child_prefix, metadata, assign, report, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, report) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values: "
                "change incompatible_keys in place"
            )


def _by_child(state_dict: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """The entries that lie below `prefix` by more than one step, by the first of them.

    One pass over the keys, however many children there are. Keys of one child stand together as a rule, so the first
    thing asked of a key is whether it belongs with the one before.
    """
    below: dict[str, dict[str, Any]] = {}
    skip = len(prefix)
    same = "."  # no key begins so
    part: dict[str, Any] = {}
    for key, value in state_dict.items():
        if key.startswith(same):
            part[key] = value
        elif key.startswith(prefix):
            name, dot, _ = key[skip:].partition(".")
            if dot:
                same = f"{prefix}{name}."
                part = below.setdefault(name, {})
                part[key] = value
    return below


def _saved_members(module: Module) -> dict[str, Tensor]:
    """The module's own tensors that a checkpoint holds, by name."""
    members: dict[str, Tensor] = {name: tensor for name, tensor in module._parameters.items() if tensor is not None}
    if module._buffers:
        transient = module._non_persistent_buffers_set
        members.update(
            {name: buffer for name, buffer in module._buffers.items() if buffer is not None and name not in transient}
        )
    return members


def _unknown_keys(state_dict: dict[str, Any], prefix: str, own: dict[str, Any], children: dict[str, Any]) -> list[str]:
    """The keys under `prefix` that are neither a member of this module nor below one of its children."""
    unknown = []
    skip = len(prefix)
    same = "."  # no key begins so
    for key in state_dict:
        if key.startswith(same) or not key.startswith(prefix):
            continue
        name, dot, _ = key[skip:].partition(".")
        if dot and name in children:
            same = f"{prefix}{name}."
        elif dot or (name not in own and name != _EXTRA_STATE_KEY_SUFFIX):
            unknown.append(key)
    return unknown


def _load_member(module: Module, name: str, tensor: Tensor, key: str, given: Any, assign: bool) -> str | None:
    """Put `given` into `tensor`, the member `name` of `module`, or in its place. Returns what stood in the way."""
    ours = isinstance(given, Tensor)
    if not (ours or _is_tensor_like(given)):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor (or one like it) in the checkpoint, '
            f"not a {type(given)}"
        )
    lazy = is_lazy(tensor)
    if not (lazy or (ours and not is_lazy(given) and given._array.shape == tensor._array.shape)):
        shape, given_shape = tensor.shape, given.shape
        if given_shape != shape:
            if shape or tuple(given_shape) != (1,):
                return f"size mismatch for {key}: copying a param with shape {given_shape} from checkpoint, where the model's has shape {shape}."
            #: Before 0.4 there were no 0-dimensional tensors; a scalar was saved with one element.
            given = given[0]
    if tensor.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: the model's tensor lies on meta and holds no values, so copying into it is a no-op. "
            "(`assign=True` would put the checkpoint's own tensor in its place.)",
            stacklevel=5,
        )
    swap = __future__.get_swap_module_params_on_conversion()
    try:
        if swap:
            _swap_in(tensor, given, assign)
        elif assign:
            setattr(module, name, _in_place_of(tensor, given))
        elif not (lazy and is_lazy(given)):
            #: Into an alias without history where there is a gradient: a leaf that requires one may not be changed in place.
            if ours and given.requires_grad:
                given = given.detach()
            (tensor.detach() if tensor.requires_grad or not ours else tensor).copy_(given)
    except Exception as error:
        return (
            f'While {"swapping" if swap else "copying"} the parameter named "{key}" ({given.size()} in the checkpoint, '
            f"{tensor.size()} in the model), an exception occurred: {error.args}."
        )
    return None


def _swap_in(tensor: Tensor, given: Tensor, assign: bool) -> None:
    """Exchange `tensor` with what it makes of `given`."""
    with no_grad():
        new = tensor.module_load(given, assign=assign)
    if new is tensor or new is given:
        raise RuntimeError("module_load returned one of self or other: .detach() the result if it is one of the inputs")
    swap_tensors(tensor, _in_place_of(tensor, new))


def _in_place_of(tensor: Tensor, given: Tensor) -> Tensor:
    """What is to be assigned where `tensor` stands: `given`, made a parameter if `tensor` is one, equally trainable."""
    if not isinstance(tensor, Parameter):
        return given
    if isinstance(given, Parameter):
        return given.requires_grad_(tensor.requires_grad)
    return Parameter(given, requires_grad=tensor.requires_grad)
