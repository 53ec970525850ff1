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
# # Walking the tree, and moving it

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.module import Module

live()


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.named_modules
#| upstream: torch/nn/modules/module.py#Module.modules
class Module(Module):
    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (dotted name, module) for this module and all below it, a parent before its children.

        A module that can be reached by several paths comes once, under the first, unless `remove_duplicate` is False.
        `memo` holds the modules already seen. The first name is `prefix`.
        """
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, a parent before its children, each once unless told otherwise."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.named_children
#| upstream: torch/nn/modules/module.py#Module.children
class Module(Module):
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._named_members
#| upstream: torch/nn/modules/module.py#Module.named_parameters
#| upstream: torch/nn/modules/module.py#Module.parameters
#| upstream: torch/nn/modules/module.py#Module.named_buffers
#| upstream: torch/nn/modules/module.py#Module.buffers
class Module(Module):
    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        #: Tensors compare element by element, but hash by identity; a set that holds a handful of them asks only for the
        #: hash until two collide, and the collision is told apart by `is`.
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.get_submodule
#| upstream: torch/nn/modules/module.py#Module.set_submodule
class Module(Module):
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


# %%
#| into: nn/modules/module.py
def _member(module: Module, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)


def _step(module: Module, name: str) -> Module:
    found = _member(module, name)
    if not isinstance(found, Module):
        raise AttributeError(f"`{name}` is not an nn.Module")
    return found


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.get_parameter
#| upstream: torch/nn/modules/module.py#Module.get_buffer
class Module(Module):
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.apply
class Module(Module):
    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every module below, then on this one: children before their parent. Returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.train
#| upstream: torch/nn/modules/module.py#Module.eval
class Module(Module):
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.requires_grad_
#| upstream: torch/nn/modules/module.py#Module.zero_grad
class Module(Module):
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._apply
class Module(Module):
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the content of every parameter, gradient and buffer by `fn` of it, children first. Returns self."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _converted(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self


# %%
#| into: nn/modules/module.py
def _converted(parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> Parameter:
    """`parameter` holding `fn` of itself and of its gradient: the same object wherever it can take the new content."""
    with no_grad():
        content = fn(parameter)
    gradient = parameter.grad
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


def _takes_data_of(tensor: Tensor, content: Tensor) -> bool:
    """Whether `tensor.data = content` is possible, and wanted."""
    return (
        _has_compatible_shallow_copy_type(tensor, content)
        and not __future__.get_overwrite_module_params_on_conversion()
    )


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.to
class Module(Module):
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters, gradients and buffers to a device, a dtype, or both; in place. Returns self.

        `to(device=None, dtype=None, non_blocking=False)`, `to(dtype, non_blocking=False)`,
        `to(tensor, non_blocking=False)` (the device and dtype of `tensor`) and `to(memory_format=...)`. The dtype is
        applied to floating-point and complex tensors only; integer buffers keep theirs.

        Raises TypeError if the dtype is neither floating-point nor complex; NotImplementedError for a module on the meta
        device, which has no data to move (`to_empty` allocates).
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}; "
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
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device."
                ) from None

        return self._apply(move)


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.cuda
#| upstream: torch/nn/modules/module.py#Module.cpu
#| upstream: torch/nn/modules/module.py#Module.to_empty
#| upstream: torch/nn/modules/module.py#Module.share_memory
class Module(Module):
    def cuda(self, device: Any = None) -> Self:
        """Move everything to a CUDA device, by default the current one; in place. Returns self."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def ipu(self, device: Any = None) -> Self:
        """Move everything to an IPU. readtorch has no such device: the tensors refuse."""
        return self._apply(lambda tensor: tensor.ipu(device))

    def xpu(self, device: Any = None) -> Self:
        """Move everything to an XPU. readtorch has no such device: the tensors refuse."""
        return self._apply(lambda tensor: tensor.xpu(device))

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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.type
#| upstream: torch/nn/modules/module.py#Module.float
#| upstream: torch/nn/modules/module.py#Module.double
#| upstream: torch/nn/modules/module.py#Module.half
#| upstream: torch/nn/modules/module.py#Module.bfloat16
class Module(Module):
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.__repr__
#| upstream: torch/nn/modules/module.py#Module.extra_repr
#| upstream: torch/nn/modules/module.py#Module._get_name
class Module(Module):
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#_addindent
def _addindent(s_: str, numSpaces: int) -> str:
    """Indent every line but the first; blank lines stay empty."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(" " * numSpaces + line if line.strip() else "" for line in rest)])
