# Tangled from chapters/a2_layers/12b_members_by_path.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from readtorch import Tensor
from readtorch.nn.modules.module import Module

_MISSING: Any = object()
"""In the place of a tensor: there is none, or there is to be none."""


def _check(kind: str, module: Any, name: str) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if not name:
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _check_tensor(value: Any, about: str = "") -> None:
    if value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{about}{value} is not an instance of torch.Tensor")


def _table(module: Module, name: str) -> dict[str, Any] | None:
    """Where a module keeps that parameter or buffer; None for what is a plain attribute."""
    return next((table for table in (module._parameters, module._buffers) if name in table), None)


def set_tensor(module: Module, name: str, tensor: Any) -> None:
    """Put a tensor in the place of a parameter, buffer or attribute, without asking what kind it is."""
    _check("tensor", module, name)
    _check_tensor(tensor)
    table = _table(module, name)
    if table is None:
        setattr(module, name, tensor)
    else:
        table[name] = tensor


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """`set_tensor`; returns what was there. AttributeError if nothing was, unless `allow_missing`."""
    _check("tensor", module, name)
    if tensor is not _MISSING:
        _check_tensor(tensor)
    table = _table(module, name)
    before = table[name] if table is not None else getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not _MISSING:
        _check_tensor(before, f"attribute `{name}`: ")
    if tensor is not _MISSING:
        set_tensor(module, name, tensor)
    elif table is not None:
        del table[name]
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of a child; returns the child. KeyError if there is none of that name."""
    _check("submodule", module, name)
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """The tensors and modules of a model by their paths."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def get_submodule(self, name: str) -> Module:
        """The module at a path; the model itself for none. AttributeError if there is none, TypeError if it is something else."""
        if not name:
            return self.module
        if name not in self.memo:
            owner, attribute = self._owner(name)
            found = getattr(owner, attribute, _MISSING)
            if found is _MISSING:
                raise AttributeError(f"{owner._get_name()} has no attribute `{attribute}`")
            if not isinstance(found, Module):
                raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
            self.memo[name] = found
        return self.memo[name]

    def _owner(self, path: str) -> tuple[Module, str]:
        prefix, _, attribute = path.rpartition(".")
        return self.get_submodule(prefix), attribute

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Exchange a module; returns the one that was there."""
        owner, attribute = self._owner(path)
        return swap_submodule(owner, attribute, value)

    def get_tensor(self, name: str) -> Any:
        """The tensor at a path. AttributeError if there is nothing, TypeError if it is something else."""
        owner, attribute = self._owner(name)
        found = getattr(owner, attribute, _MISSING)
        if found is _MISSING:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        _check_tensor(found)
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        """Put a tensor at a path."""
        owner, attribute = self._owner(name)
        set_tensor(owner, attribute, value)

    def del_tensor(self, name: str) -> None:
        """Take away the tensor at a path."""
        owner, attribute = self._owner(name)
        if not hasattr(owner, attribute):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        delattr(owner, attribute)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor at a path; returns what was there."""
        owner, attribute = self._owner(name)
        return swap_tensor(owner, attribute, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """The tensors at these paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Put tensors at these paths."""
        for name, value in _pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Put tensors at the paths that are the keys."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Take away the tensors at these paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """Put tensors at these paths; returns what was there."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in _pairs(names, values)]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Put tensors at the paths that are the keys; returns what was there, and the paths with nothing.

        If one cannot be put, or is missing and may not be, all that was exchanged is put back before the error is raised.
        """
        before: dict[str, Any] = {}
        try:
            for name, tensor in named_tensors.items():
                before[name] = self.swap_tensor(name, tensor, allow_missing=True)
            missing = [name for name, value in before.items() if value is _MISSING]
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """The model's paths that are not among the keys, and the keys that are no paths of the model."""
        given, there = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(there - given), sorted(given - there)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The model's parameters by their paths."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The model's buffers by their paths."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """The model and all modules in it."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _pairs(names: Iterable[str], values: Iterable[Any]) -> list[tuple[str, Any]]:
    names, values = list(names), list(values)
    if len(names) != len(values):
        raise AssertionError(f"names and values must have the same length, got {len(names)} and {len(values)}")
    return list(zip(names, values, strict=True))
