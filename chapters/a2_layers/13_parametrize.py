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
# # Parametrizations, and calling a module with other parameters
#
# `register_parametrization(layer, "weight", P)` makes `layer.weight` a *property* computed from what is stored: the module's class is
# replaced by a subclass made on the spot that has the property, and the stored tensor moves to `layer.parametrizations.weight.original`.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %%
#| into: nn/utils/parametrize.py
#| imports
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

# %% [markdown]
# ## The cache
#
# A weight that is used many times in a call (in a recurrent loop) need not be computed each time: inside `cached()` it is computed once.

# %%
#| into: nn/utils/parametrize.py
#| upstream: torch/nn/utils/parametrize.py#cached
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


# %% [markdown]
# ## A chain of parametrizations
#
# `right_inverse` goes from a value to what must be stored so that the chain gives it back: it is what assignment calls, and what decides
# the stored tensor when the parametrization is registered. It may return several tensors.


# %%
#| into: nn/utils/parametrize.py
#| upstream: torch/nn/utils/parametrize.py#ParametrizationList
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


# %%
#| into: nn/utils/parametrize.py
#| upstream: torch/nn/utils/parametrize.py#ParametrizationList.right_inverse
class ParametrizationList(ParametrizationList):
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


# %% [markdown]
# ## The class made on the spot
#
# A property lives on a class, and the class of a `Linear` is shared by all of them; so each parametrized module gets its own. Such a
# class cannot be found by name, so it cannot be pickled; deep copies are made attribute by attribute.


# %%
#| into: nn/utils/parametrize.py
#| upstream: torch/nn/utils/parametrize.py#_inject_new_class
#| upstream: torch/nn/utils/parametrize.py#_inject_property
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


# %%
#| into: nn/utils/parametrize.py
#| upstream: torch/nn/utils/parametrize.py#register_parametrization
#| upstream: torch/nn/utils/parametrize.py#is_parametrized
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


# %%
#| into: nn/utils/parametrize.py
#| upstream: torch/nn/utils/parametrize.py#remove_parametrizations
#| upstream: torch/nn/utils/parametrize.py#type_before_parametrizations
#| upstream: torch/nn/utils/parametrize.py#transfer_parametrizations_and_params
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


# %% [markdown]
# ## Weight and spectral normalization as parametrizations

# %%
#| into: nn/utils/parametrizations.py
#| imports
from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module
from readtorch.nn.utils import parametrize
from readtorch.nn.utils.spectral_norm import _as_matrix
from readtorch.nn.utils.spectral_norm import _check_iterations
from readtorch.nn.utils.spectral_norm import _outputs_dim


# %%
#| into: nn/utils/parametrizations.py
#| upstream: torch/nn/utils/parametrizations.py#weight_norm
class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return torch._C._VariableFunctions._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """`w = g v / |v|`: length `original0` and direction `original1`. Checkpoints of the old `weight_norm` load."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old_keys(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old_keys)
    return module


def _tensor_of(module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


# %%
#| into: nn/utils/parametrizations.py
#| upstream: torch/nn/utils/parametrizations.py#spectral_norm
class _SpectralNorm(Module):
    """Divides by the largest singular value, estimated by the power iteration; `_u` and `_v` are its buffers."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.dim()
        if not -rank <= dim < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        _check_iterations(n_power_iterations)
        self.dim, self.eps = dim % rank, eps
        if rank == 1:
            return  # a vector is divided by its length
        self.n_power_iterations = n_power_iterations
        matrix = _as_matrix(weight, self.dim)
        for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
            self.register_buffer(name, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
        self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Tensor, iterations: int) -> None:
        for _ in range(iterations):
            self._u.copy_(F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(torch.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = _as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies: the next call's iteration writes into the buffers, and this call's backward needs them
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.dot(u, torch.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide the tensor `name` by its largest singular value (Miyato et al. 2018)."""
    rows = _outputs_dim(module) if dim is None else dim
    kind = _SpectralNorm(_tensor_of(module, name), n_power_iterations, rows, eps)
    return parametrize.register_parametrization(module, name, kind)


# %% [markdown]
# ## Many models of one kind
#
# `functional_call` (chapter 2) runs a module with other tensors than its own. For an ensemble these are the stacked tensors of several
# models.

# %%
#| into: nn/utils/stateless.py
#| imports
from __future__ import annotations

import warnings
from typing import Any


# %%
#| into: nn/utils/stateless.py
#| upstream: torch/nn/utils/stateless.py#functional_call
def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`torch.func.functional_call`, in the place where it was before 2.0."""
    from readtorch._functorch import functional_call as moved

    warnings.warn(
        "This API is deprecated: `torch.nn.utils.stateless.functional_call` moved to `torch.func.functional_call`",
        FutureWarning,
        stacklevel=2,
    )
    if not hasattr(parameters_and_buffers, "keys"):
        raise AttributeError(
            f"parameters_and_buffers must be a dict: {type(parameters_and_buffers).__name__} has no keys"
        )
    return moved.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


# %%
#| into: _functorch/functional_call.py
#| imports
from readtorch import stack


# %%
#| into: _functorch/functional_call.py
#| upstream: torch/_functorch/functional_call.py#stack_module_state
def stack_module_state(models: Sequence[nn.Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of models of one kind, stacked by name: what an ensemble is vectorized over."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(tables: list[dict[str, Tensor]]) -> dict[str, Any]:
        together = {}
        for name, first in tables[0].items():
            tensors = [table[name] for table in tables]
            joined = stack([tensor.detach() for tensor in tensors])
            together[name] = joined.requires_grad_(first.requires_grad)
        return together

    parameters = stacked([dict(model.named_parameters()) for model in models])
    return parameters, stacked([dict(model.named_buffers()) for model in models])


# %%
#| into: func/__init__.py
from readtorch._functorch.functional_call import stack_module_state as stack_module_state


# %%
#| claim: assigning to a parametrized tensor stores what right_inverse gives
def _(torch):
    class Double(torch.nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, y):
            return y / 2

    parametrize = torch.nn.utils.parametrize
    layer = parametrize.register_parametrization(torch.nn.Linear(2, 2), "weight", Double())
    layer.weight = torch.ones(2, 2)
    assert layer.parametrizations.weight.original.sum() == 2
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, torch.nn.Linear)


# %% [markdown]
# Two things to know before one puts a parametrization on a model that is being trained. `layer.weight` is computed at *every* access, so that `layer.weight is layer.weight` is false and whoever writes into what it returns writes into nothing that stays. And what is stored is the parameter that was there before, the same object: an optimizer
# made earlier goes on training it. (Unless `right_inverse` returns several tensors, as that of weight norm does: then these are new.)


# %%
#| claim: a parametrized tensor is computed at each access, once inside cached(); what is stored is the parameter object that was there before
#| upstream: torch/nn/utils/parametrize.py#ParametrizationList
def _(torch):
    class Symmetric(torch.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    parametrize = torch.nn.utils.parametrize
    layer = torch.nn.Linear(2, 2)
    held = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert layer.parametrizations.weight.original is held and layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight
    layer.weight.data.zero_()
    assert layer.weight.abs().sum() > 0
    assert [name for name, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
