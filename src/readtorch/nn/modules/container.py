# Tangled from chapters/02_module/5_containers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice
from typing import Any, Self

from readtorch import typename
from readtorch._tensor import Tensor
from readtorch.nn.modules.module import Module, _addindent
from readtorch.nn.parameter import Parameter


class Sequential(Module):
    """Modules called one after the other, each with what the one before returned.

    `Sequential(a, b)` names them "0" and "1"; `Sequential(OrderedDict(first=a, second=b))` as said.
    """

    _modules: dict[str, Module]  # type: ignore[assignment]  # here no child is None

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0] if len(args) == 1 and isinstance(args[0], OrderedDict) else dict(enumerate(args))
        for name, module in named.items():
            self.add_module(str(name) if isinstance(name, int) else name, module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return _without_numbers(super().__dir__())

    def _name_at(self, index: Any) -> str:
        return next(islice(self._modules, _absolute(index, len(self)), None))

    def __getitem__(self, idx: slice | int) -> Any:
        """The module at `idx`; for a slice a new Sequential that shares the modules and keeps their names."""
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: slice | int) -> None:
        """Remove what stands at `idx` and number the rest anew: names given by an OrderedDict are lost."""
        for name in list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]:
            delattr(self, name)
        _renumber(self)

    def pop(self, key: int | slice) -> Module:
        """Remove what stands at `key` and return it."""
        popped = self[key]
        del self[key]
        return popped

    def append(self, module: Module) -> Self:
        """Put `module` at the end, named by its number. Returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put `module` before position `index`; what follows moves up by one name. Returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}, got {typename(module)}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index} for {size} entries")
        index += size if index < 0 else 0
        _make_room(self._modules, index)
        self._modules[str(index)] = module
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Append each module of `sequential`. Returns self."""
        for module in sequential:
            self.append(module)
        return self

    def __add__(self, other: Any) -> Sequential:
        """A new Sequential of the modules of both; the modules are shared, not copied."""
        return Sequential(*self, *_require_sequential(other))

    def __iadd__(self, other: Any) -> Self:
        return self.extend(list(_require_sequential(other)))

    def __mul__(self, other: int) -> Sequential:
        """A new Sequential that runs the same modules `other` times over: the weights are tied."""
        return Sequential(*list(self) * _require_count(self, other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (_require_count(self, other) - 1))


def _without_numbers(names: list[str]) -> list[str]:
    return [name for name in names if not name.isdigit()]


def _absolute(index: Any, size: int) -> int:
    """`index`, counted from the end if negative, in range(size); IndexError if it is not."""
    position = operator.index(index)
    if not -size <= position < size:
        raise IndexError(f"index {position} is out of range for {size} entries")
    return position % size


def _renumber(module: Module) -> None:
    """Name the children "0", "1", … in the order in which they stand."""
    module._modules = {str(position): child for position, child in enumerate(module._modules.values())}


def _make_room(children: dict[str, Any], index: int) -> None:
    """Move the children from `index` on up by one name."""
    for position in range(len(children), index, -1):
        children[str(position)] = children[str(position - 1)]


def _require_sequential(other: Any) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
    return other


def _require_count(sequential: Sequential, count: Any) -> int:
    if not isinstance(count, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(sequential)} and {type(count)}")
    if count <= 0:
        raise ValueError(f"Non-positive multiplication factor {count} for {type(sequential)}")
    return count


class ModuleList(Module):
    """A list of modules that are registered, and nothing more: it has no `forward`."""

    _modules: dict[str, Module]  # type: ignore[assignment]  # here no child is None

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return _without_numbers(super().__dir__())

    def __getitem__(self, idx: int | slice) -> Any:
        """The module at `idx`; for a slice a new list that shares the modules, numbered from 0."""
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[str(_absolute(idx, len(self)))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, str(_absolute(idx, len(self))), module)

    def __delitem__(self, idx: int | slice) -> None:
        """Remove what stands at `idx` and number the rest anew."""
        size = len(self)
        for position in range(size)[idx] if isinstance(idx, slice) else [_absolute(idx, size)]:
            delattr(self, str(position))
        _renumber(self)

    def append(self, module: Module) -> Self:
        """Put `module` at the end. Returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put `module` before position `index`, counted from the front; what follows moves up by one name."""
        _make_room(self._modules, index)
        self._modules[str(index)] = module

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append each of `modules`. Returns self. Raises TypeError if they cannot be iterated over."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for position, module in enumerate(modules, start=len(self)):
            self.add_module(str(position), module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove what stands at `key` and return it."""
        popped = self[key]
        del self[key]
        return popped

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        """As of any module, with runs of modules that look alike folded: `(0-2): 3 x Linear(…)`."""
        lines = []
        for first, last, text in _runs([repr(module) for module in self]):
            where = f"({first})" if first == last else f"({first}-{last})"
            count = "" if first == last else f"{last - first + 1} x "
            lines.append(_addindent(f"{where}: {count}{text}", 2))
        if not lines:
            return f"{self._get_name()}()"
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"


def _runs(texts: list[str]) -> Iterator[tuple[int, int, str]]:
    """(first, last, text) of each run of equal neighbours."""
    first = 0
    for position in range(1, len(texts) + 1):
        if position == len(texts) or texts[position] != texts[first]:
            yield first, position - 1, texts[first]
            first = position


class ModuleDict(Module):
    """A dictionary of modules that are registered, in order of insertion, and nothing more: it has no `forward`."""

    _modules: dict[str, Module]  # type: ignore[assignment]  # here no child is None

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove the module called `key` and return it."""
        popped = self[key]
        del self[key]
        return popped

    def keys(self) -> KeysView[str]:
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add the modules of a mapping or of pairs, in their order, replacing those of the same name."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(owner: str, given: Any) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs of a mapping, of a container with `items`, or of an iterable of pairs."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{owner}.update wants a mapping or an iterable of key/value pairs, but got {type(given).__name__}"
        )
    if isinstance(given, Mapping | ModuleDict | ParameterDict):
        yield from given.items()
        return
    for position, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{owner} update sequence element #{position} should be Iterable; is {type(pair).__name__}")
        if len(pair) != 2:  # type: ignore[arg-type]  # asked for its length whatever it is
            raise ValueError(f"{owner} update sequence element #{position} has length {len(pair)}; 2 is required")  # type: ignore[arg-type]  # the same
        key, value = pair
        yield key, value


class ParameterList(Module):
    """A list whose tensors are parameters: a plain tensor that is put in becomes one. Other values are kept as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[position] for position in range(len(self)))

    def __dir__(self) -> list[str]:
        return _without_numbers(super().__dir__())

    def __getitem__(self, idx: Any) -> Any:
        """The value at `idx`; for a slice a new list that shares the parameters."""
        if isinstance(idx, slice):
            return type(self)(self[position] for position in range(len(self))[idx])
        return getattr(self, str(_absolute(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_absolute(idx, len(self))), _as_parameter(param))

    def append(self, value: Any) -> Self:
        """Put `value` at the end. Returns self."""
        position = self._size
        self._size += 1
        self[position] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Append each of `values`. Returns self. Raises TypeError for a tensor, whose rows are hardly meant."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({position}): {_described(value, str(value.dtype) if isinstance(value, Tensor) else '')}"
            for position, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called: it has no forward")


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(value: Any, type_name: str) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.size()))
    place = f" ({value.device})" if value.device.type == "cuda" else ""
    return f"{kind} containing: [{type_name} of size {size}{place}]"


class ParameterDict(Module):
    """A dictionary whose tensors are parameters: a plain tensor that is put in becomes one. Other values stay as they are.

    Keys are strings; they become attribute names, so `keys` or `get` cannot be one.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        #: Keys whose values are no parameters live among the plain attributes; this remembers which are entries.
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _require_string(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, _require_string(key), _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, _require_string(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, which is set to `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove every entry."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove `key` and return its value."""
        popped = self[key]
        del self[key]
        return popped

    def popitem(self) -> tuple[str, Any]:
        """Remove the entry that was inserted last and return it. Raises KeyError if there is none."""
        if not self._keys:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, else `default`."""
        return self[key] if key in self else default  # noqa: SIM401 - this is `get`

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with `default` under each of `keys`."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        return ((key, self[key]) for key in self)

    def values(self) -> Iterator[Any]:
        return (self[key] for key in self)

    def update(self, parameters: Any) -> None:
        """Add the values of a mapping or of pairs, replacing those of the same key.

        The order is theirs, except that a mapping which is neither OrderedDict nor ParameterDict is sorted by key.
        """
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = iter(sorted(pairs))
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_described(value, typename(value))}" for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called: it has no forward")


def _require_string(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key: keys are strings "
            f"(this is of type '{type(key).__name__}')"
        )
    return key


class Container(Module):
    """Deprecated: what it did, `Module` does. Its keyword arguments become children."""

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated: subclass nn.Module, which does all that it did",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)
