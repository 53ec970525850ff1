# Tangled from chapters/a2_layers/16_prune.py — edit there, or here and run `readtorch sync`.
"""Masks on parameters (twin of `torch/nn/utils/prune.py`)."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn.modules.module import Module


class BasePruningMethod(ABC):
    """What decides which entries of a parameter to mask. Subclasses give `compute_mask` and `PRUNING_TYPE`.

    `PRUNING_TYPE` says what an earlier mask hides from this method: "unstructured" single entries, "structured" whole channels along
    `self.dim`, "global" nothing.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros where to prune, for scores `t` and the mask so far; of the same shape."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter with its mask."""
        if getattr(self, "_tensor_name", None) is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Mask parameter `name` of `module`, on top of what masks it already; returns the method, or the container of all of them."""
        method = _on_top(_taken_off(module, name), cls(*args, **kwargs), name)
        current = getattr(module, name)
        scores = current if importance_scores is None else importance_scores
        if scores.shape != current.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {scores.shape} vs {current.shape}"
            )
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(name + "_orig", current)
            del module._parameters[name]
            so_far = torch.ones_like(current)
        else:
            so_far = getattr(module, name + "_mask").detach().clone(memory_format=torch.contiguous_format)
        try:
            module.register_buffer(name + "_mask", method.compute_mask(scores, default_mask=so_far))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor that belongs to no module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        return t * self.compute_mask(scores, default_mask=torch.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the zeros permanent: the masked values become the parameter again."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        masked = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(name + "_orig")
        original.data = masked.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _taken_off(module: Module, name: str) -> BasePruningMethod | None:
    """The pruning hook of the parameter, no longer registered."""
    hooks = module._forward_pre_hooks
    found = [key for key, hook in hooks.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
    if len(found) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to one tensor: {name} of {module} has some already. A PruningContainer chains methods."
        )
    return hooks.pop(found[0]) if found else None  # type: ignore[return-value]  # of this class, as found above


def _on_top(old: BasePruningMethod | None, new: BasePruningMethod, name: str) -> BasePruningMethod:
    new._tensor_name = name
    if old is None:
        return new
    container = old if isinstance(old, PruningContainer) else PruningContainer(old)
    container.add_pruning_method(new)
    return container


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, in the order in which they were applied."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Append a method that acts on the same parameter. TypeError for what is none, ValueError for another parameter."""
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
            own, other = self._tensor_name, method._tensor_name
            if own != other:
                raise ValueError(
                    f"Can only add pruning methods acting on the parameter named '{own}', which {self} prunes, not on '{other}'"
                )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, with what the newest method removes of the rest."""
        method = self._pruning_methods[-1]
        part = _left_by(default_mask, method)
        mask = default_mask.to(dtype=t.dtype)
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(dtype=mask.dtype)
        return mask


def _left_by(mask: Tensor, method: BasePruningMethod) -> Any:
    """The index of what a method may look at."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE not in ("structured", "global"):
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    part: list[Any] = [slice(None)] * mask.dim()
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" prune slices along a dimension: set the attribute `dim`.'
            )
        dim = method.dim + mask.dim() if method.dim < 0 else method.dim
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {mask.dim()}")
        part[dim] = mask.sum(dim=[d for d in range(mask.dim()) if d != dim]) != 0
    return tuple(part)


def _checked_amount(amount: Any) -> Any:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    largest = math.inf if isinstance(amount, numbers.Integral) else 1.0
    if not 0 <= float(amount) <= largest:
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1], a fraction, or a count of at least 0"
        )
    return amount


def _count(amount: Any, size: int) -> int:
    """How many of `size` to prune. ValueError for more than there are."""
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    if int(amount) > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


def _channels(t: Tensor, dim: int) -> int:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors, "
            f"unlike one of {t.shape}, with {t.dim()} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return t.shape[dim]


def _keeping(t: Tensor, dim: int, channels: Tensor, so_far: Tensor) -> Tensor:
    """A mask of the channels to keep, within the mask so far."""
    mask = torch.zeros_like(t)
    mask[tuple(channels if axis == dim % t.dim() else slice(None) for axis in range(t.dim()))] = 1
    return mask * so_far.to(dtype=mask.dtype)


class Identity(BasePruningMethod):
    """Masks nothing, but makes the parameter a masked one."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]  # the options of this method come first
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        self.amount = _checked_amount(amount)

    def _first_to_go(self, t: Tensor, count: int) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=torch.contiguous_format)
        if count:
            mask.view(-1)[self._first_to_go(t, count)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Masks a number, or a share, of the entries at random."""

    def _first_to_go(self, t: Tensor, count: int) -> Tensor:
        return torch.topk(torch.rand_like(t).view(-1), k=count).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any) -> Any:  # type: ignore[override]  # the options of this method come first
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Masks the entries nearest to zero."""

    def _first_to_go(self, t: Tensor, count: int) -> Tensor:
        return torch.topk(torch.abs(t).view(-1), k=count, largest=False).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Any:  # type: ignore[override]  # the options of this method come first
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Masks whole channels along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        self.amount = _checked_amount(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        channels = _channels(t, self.dim)
        count = _count(self.amount, channels)
        if not count:
            return default_mask
        lots = torch.rand(channels)
        return _keeping(t, self.dim, lots > torch.kthvalue(lots, k=count).values, default_mask)

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]  # the options of this method come first
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Masks the channels along `dim` that have the smallest n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        self.amount = _checked_amount(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        channels = _channels(t, self.dim)
        count = _count(self.amount, channels)
        if not count:
            return default_mask
        others = [axis for axis in range(t.dim()) if axis != self.dim % t.dim()]
        largest = torch.topk(torch.norm(t, p=self.n, dim=others), k=channels - count, largest=True)
        return _keeping(t, self.dim, largest.indices, default_mask)

    @classmethod
    def apply(  # type: ignore[override]  # the options of this method come first
        cls, module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> Any:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Masks what a given mask masks."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:  # type: ignore[override]  # the options of this method come first
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Put a mask of ones on parameter `name`."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Mask `amount` of the entries of parameter `name`, an int or a share, at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Module:
    """Mask `amount` of the entries that are nearest to zero, or lowest in `importance_scores`."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Mask `amount` of the channels along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Mask `amount` of the channels along `dim` with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Mask parameter `name` with a mask of the caller's."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters, pairs (module, name), as if they were one vector. TypeError for methods of other types."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    vector = torch.nn.utils.parameters_to_vector
    flat = vector([scores.get((module, name), getattr(module, name)) for module, name in parameters])
    so_far = vector(
        [getattr(module, name + "_mask", torch.ones_like(getattr(module, name))) for module, name in parameters]
    )
    container, method = PruningContainer(), pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    pruned = [getattr(module, name) for module, name in parameters]
    pieces = container.compute_mask(flat, so_far).split([parameter.numel() for parameter in pruned])
    for (module, name), parameter, piece in zip(parameters, pruned, pieces, strict=True):
        custom_from_mask(module, name, mask=piece.view_as(parameter))


def remove(module: Module, name: str) -> Module:
    """Make the mask of parameter `name` permanent and take away hook, mask and original. ValueError if it has none."""
    method = _taken_off(module, name)
    if method is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned, and is not: nothing to remove")
    method.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Has the module, or one below it, a pruning hook?"""
    return any(
        isinstance(hook, BasePruningMethod)
        for _, part in module.named_modules()
        for hook in part._forward_pre_hooks.values()
    )
