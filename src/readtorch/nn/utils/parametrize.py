# Tangled from chapters/a2_layers/13_parametrize.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn.modules.container import ModuleDict, ModuleList
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter

_cache_enabled = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within this context each parametrized tensor is computed at most once."""
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _require_same(what: str, new: Tensor, old: Tensor, *attributes: str) -> None:
    for attribute in attributes:
        got, wanted = getattr(new, attribute), getattr(old, attribute)
        if got != wanted:
            raise ValueError(
                f"{what} may not change the {attribute} of the tensor, unless the `unsafe` flag is enabled: "
                f"it was {wanted}, it would be {got}"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and what they start from: `original`, or `original0` and so on."""

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = self._invert(original)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            for attribute in ("dtype", "device"):
                if getattr(original, attribute) != getattr(new, attribute):
                    raise ValueError(f"When `right_inverse` outputs one tensor, it may not change the {attribute}.")
            with no_grad():
                original.set_(new)
            _register_parameter_or_buffer(self, "original", original)
        else:
            self._register_several(new, original)
        if not unsafe:
            value = self()
            if not isinstance(value, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
            if value.dtype != dtype or value.shape != shape:
                raise ValueError(
                    "Registering a parametrization may not change the dtype or the shape of the tensor, unless `unsafe` flag "
                    f"is enabled: it was {dtype} {tuple(shape)}, it would be {value.dtype} {tuple(value.shape)}"
                )

    def _invert(self, value: Any) -> Any:
        with no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        continue
        if not isinstance(value, Tensor | Sequence):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors, not {type(value).__name__}"
            )
        return value

    def _register_several(self, tensors: Sequence[Any], original: Tensor) -> None:
        for number, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors, "
                    f"and element {number} of this one is {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{number}", tensor)

    def forward(self) -> Any:
        names = ["original"] if self.is_tensor else [f"original{number}" for number in range(self.ntensors)]
        first, *rest = self
        value = first(*(getattr(self, name) for name in names))
        for module in rest:
            value = module(value)
        return value

    @no_grad()
    def right_inverse(self, value: Any) -> None:
        """Store what makes the parametrized tensor equal to `value`."""
        for module in reversed(self):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        if self.is_tensor:
            if not isinstance(value, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            self._store("original", value)
            return
        if not isinstance(value, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
        if len(value) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}, as before, "
                f"not {len(value)}."
            )
        for number, tensor in enumerate(value):
            self._store(f"original{number}", tensor)

    def _store(self, name: str, value: Tensor) -> None:
        kept = getattr(self, name)
        if value.dtype != kept.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while `{name}` has dtype {kept.dtype}"
            )
        kept.set_(value)


def _copy_by_attribute(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    copy = memo[id(self)] = self.__new__(type(self))
    copy.__dict__ = deepcopy(self.__dict__, memo)
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]  # private, and what pickle itself asks
        if hasattr(self, slot):
            setattr(copy, slot, deepcopy(getattr(self, slot), memo))
    return copy


def _refuse_pickling(self: Any) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict()")


def _inject_new_class(module: Module) -> None:
    cls = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_pickling}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _copy_by_attribute
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module: Module, name: str) -> None:
    if hasattr(module, name):
        raise AssertionError(f"Module already has an attribute named '{name}'")

    def compute(self: Any) -> Any:
        chain = self.parametrizations[name]
        if not _cache_enabled:
            return chain()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = chain()
        return _cache[key]

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(compute, assign))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute the parameter or buffer `tensor_name` by `parametrization` from now on; a second one follows the first.

    Unless `unsafe`, shape and dtype must stay. Raises ValueError otherwise, or if there is no such tensor.
    """
    parametrization.train(module.training)
    holder: Any = module
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        holder.parametrizations[tensor_name].append(parametrization)
        holder.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        chain = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            holder.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        holder.parametrizations[tensor_name] = chain
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer or a parametrization named '{tensor_name}'"
        )
    return module


def _check_another(module: Module, name: str, parametrization: Any) -> None:
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    _require_same("Registering a parametrization", after, before, "dtype", "shape")
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(after)
        except NotImplementedError:
            return
        if not isinstance(back, Tensor):
            raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
        _require_same("parametrization.right_inverse", back, before, "dtype", "shape")


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has `module` a parametrized tensor (of that name)?"""
    chains = getattr(module, "parametrizations", None)
    if not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make `tensor_name` an ordinary tensor again: with its present value, or with the stored one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    holder: Any = module
    chain = holder.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) what is computed from a "
            "sequence of originals: no one of them is the tensor."
        )
    delattr(type(module), tensor_name)
    del holder.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of `module` without the one made for its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize `to_module` like `from_module` and share what is stored."""
    if not is_parametrized(from_module):
        return to_module
    source: Any = from_module
    target: Any = to_module
    for name in source.parametrizations if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        chain = source.parametrizations[name]
        for parametrization in chain:
            register_parametrization(to_module, name, parametrization)
        for stored in chain._parameters | chain._buffers:
            setattr(target.parametrizations[name], stored, getattr(chain, stored))
    return to_module
