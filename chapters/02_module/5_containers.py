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
# # Lists, dictionaries and sequences of modules
#
# Registration happens when an attribute of a module is assigned (part 1), so a Python list of layers is invisible. The
# containers of this part are the way out, and they add no new mechanism: each is a module whose children, or
# parameters, stand in the ordinary tables under names that look like indices or keys. That is why they are short, and
# it is the source of everything about them that surprises.

# %%
from collections import OrderedDict

import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential

live()


# %%
class Scale(nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), float(factor)))

    def forward(self, x):
        return x * self.weight

    def extra_repr(self):
        return f"{self.weight[0].item():g}"


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers


{kind.__name__: len(list(Stack(kind([Scale(), Scale()])).parameters())) for kind in (list, tuple, nn.ModuleList)}

# %% [markdown]
# ## Which container, when?
#
# | | is registered as | called as a function | use it for |
# |---|---|---|---|
# | `Sequential` | children "0", "1", … or given names | one after the other | a chain |
# | `ModuleList` | children "0", "1", … | error | layers that `forward` indexes or loops over |
# | `ModuleDict` | children under their keys | error | layers chosen by name |
# | `ParameterList` | parameters "0", "1", … | error | weights without a layer |
# | `ParameterDict` | parameters under their keys | error | the same by name |
#
# ## `Sequential`
#
# A chain needs no `forward` written for it: the loop is always the same. What is left to decide is what the layers are *called*, for their names become keys of the checkpoint. They are counted, or taken from an `OrderedDict`.

# %%
#| into: nn/modules/container.py
#| imports
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


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#Sequential
#| upstream: torch/nn/modules/container.py#Sequential.forward
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


# %%
chain = nn.Sequential(Scale(2), Scale(3))
chain, chain(torch.ones(2)), list(chain.state_dict())

# %% [markdown]
# The names are strings because the table's names are. `chain[0]` is therefore a *position*, looked up in the order of
# the table, and `getattr(chain, "0")` is the name; with given names the two part ways.


# %%
#| into: nn/modules/container.py
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


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#Sequential.__getitem__
#| upstream: torch/nn/modules/container.py#Sequential.__setitem__
#| upstream: torch/nn/modules/container.py#Sequential.__delitem__
#| upstream: torch/nn/modules/container.py#Sequential.pop
class Sequential(Sequential):
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


# %%
named = nn.Sequential(OrderedDict(embed=Scale(2), mix=Scale(3), out=Scale(4)))
named[1], named.mix is named[1], named[1:]

# %% [markdown]
# Slices keep names. Deletion does not: `del` numbers what is left from "0", and names that an `OrderedDict` had given
# are gone. So are the keys that a checkpoint was saved under.


# %%
#| claim: a slice of a Sequential keeps its names, deleting an entry renumbers all of them; a slice of a ModuleList is numbered from 0
def _(torch):
    from collections import OrderedDict

    nn = torch.nn

    def chain():
        return nn.Sequential(OrderedDict(a=nn.Module(), b=nn.Module(), c=nn.Module()))

    assert list(chain()[1:]._modules) == ["b", "c"]
    shorter = chain()
    del shorter[0]
    assert list(shorter._modules) == ["0", "1"]
    assert list(nn.ModuleList([nn.Module() for _ in range(3)])[1:]._modules) == ["0", "1"]


# %% [markdown]
# Growing is by name, too. `append` uses the number of entries as the next name; `insert` moves each later entry up by
# one name, which takes for granted that the names are numbers.


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#Sequential.append
#| upstream: torch/nn/modules/container.py#Sequential.insert
#| upstream: torch/nn/modules/container.py#Sequential.extend
class Sequential(Sequential):
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


# %%
#| claim: Sequential.insert works on numbered entries and is a KeyError on named ones; append gives named ones a number
def _(torch):
    from collections import OrderedDict

    nn = torch.nn
    numbered = nn.Sequential(nn.Module(), nn.Module())
    first = nn.Module()
    numbered.insert(0, first)
    assert numbered[0] is first and list(numbered._modules) == ["0", "1", "2"]
    named = nn.Sequential(OrderedDict(a=nn.Module()))
    named.append(nn.Module())
    assert list(named._modules) == ["a", "1"]
    try:
        nn.Sequential(OrderedDict(a=nn.Module(), b=nn.Module())).insert(0, nn.Module())
    except KeyError:
        pass
    else:
        raise AssertionError("inserted")


# %% [markdown]
# `+` joins and `*` repeats. Both share modules; nothing is copied. `nn.Sequential(block) * 12` is a network of twelve
# steps with the weights of *one* block, as is `ModuleList([block] * 12)`. Sometimes that is the idea (ALBERT ties its
# layers so; Lan et al., 2020). More often a list comprehension was meant.


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#Sequential.__add__
#| upstream: torch/nn/modules/container.py#Sequential.__iadd__
#| upstream: torch/nn/modules/container.py#Sequential.__mul__
#| upstream: torch/nn/modules/container.py#Sequential.__imul__
class Sequential(Sequential):
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


# %%
#| into: nn/modules/container.py
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


# %%
tied = nn.Sequential(Scale(2)) * 3
tied(torch.ones(2)), len(list(tied.parameters())), len(tied.state_dict())


# %%
#| claim: Sequential * n and [module] * n share one module: n entries, one set of parameters, n sets of checkpoint keys
def _(torch):
    nn = torch.nn

    class Unit(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return x * self.weight

    for repeated in (nn.Sequential(Unit()) * 3, nn.ModuleList([Unit()] * 3)):
        assert len(repeated) == 3 and len(list(repeated.parameters())) == 1
        assert list(repeated.state_dict()) == ["0.weight", "1.weight", "2.weight"]


# %% [markdown]
# ## `ModuleList`
#
# The same without `forward`: it only holds. A call is an error, since "apply them all" is for `Sequential` to say.


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ModuleList
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


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ModuleList.extend
#| upstream: torch/nn/modules/container.py#ModuleList.insert
#| upstream: torch/nn/modules/container.py#ModuleList.append
#| upstream: torch/nn/modules/container.py#ModuleList.pop
class ModuleList(ModuleList):
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


# %%
layers = nn.ModuleList(Scale(i) for i in (1, 1, 1, 5))
layers

# %% [markdown]
# Its `repr` folds neighbours that *print* alike. That they print alike says nothing of their weights.


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ModuleList.__repr__
class ModuleList(ModuleList):
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


# %%
#| into: nn/modules/container.py
def _runs(texts: list[str]) -> Iterator[tuple[int, int, str]]:
    """(first, last, text) of each run of equal neighbours."""
    first = 0
    for position in range(1, len(texts) + 1):
        if position == len(texts) or texts[position] != texts[first]:
            yield first, position - 1, texts[first]
            first = position


# %%
#| claim: the repr of a ModuleList folds neighbours that print alike, also where their weights differ
def _(torch):
    class Unit(torch.nn.Module):
        pass

    class Other(torch.nn.Module):
        pass

    layers = torch.nn.ModuleList([Unit(), Unit(), Other(), Unit()])
    assert repr(layers) == "ModuleList(\n  (0-1): 2 x Unit()\n  (2): Other()\n  (3): Unit()\n)"


# %% [markdown]
# One method of the list is not like a list's. `insert` does not count from the end, and what it does with a negative
# index is worse than refusing it. `_make_room` starts moving entries up from the last one, walks down past the first,
# and fails when there is no "-1". By then everything has been moved.


# %%
#| claim: ModuleList.insert with a negative index raises KeyError and leaves the list longer, with its first entry doubled
def _(torch):
    nn = torch.nn
    a, b = nn.Module(), nn.Module()
    layers = nn.ModuleList([a, b])
    try:
        layers.insert(-1, nn.Module())
    except KeyError:
        pass
    else:
        raise AssertionError("inserted")
    assert [layer for layer in layers] == [a, a, b]


# %% [markdown]
# ## `ModuleDict`
#
# Keys are names of children, with all that part 1 said about names: no dots, not empty, and nothing that the class
# itself has.


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ModuleDict
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


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ModuleDict.update
#| upstream: torch/nn/modules/container.py#ModuleDict.pop
#| upstream: torch/nn/modules/container.py#ModuleDict.keys
class ModuleDict(ModuleDict):
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


# %%
#| into: nn/modules/container.py
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


# %%
choices = nn.ModuleDict({"twice": Scale(2), "thrice": Scale(3)})
choices["thrice"](torch.ones(2)), list(choices), "thrice" in choices

# %% [markdown]
# The last of these rules is met sooner than one thinks. `Module` has many short method names:

# %% tags=["raises-exception"]
nn.ModuleDict({"double": Scale(2)})


# %%
#| claim: a ModuleDict key may not be the name of a method or attribute of Module, nor contain a dot
#| source: pytorch/pytorch#71203
def _(torch):
    nn = torch.nn
    for key in ("keys", "type", "forward", "training", "a.b", ""):
        try:
            nn.ModuleDict({key: nn.Module()})
        except KeyError:
            pass
        else:
            raise AssertionError(key)
    nn.ModuleDict({"0": nn.Module(), "weight": nn.Module()})


# %% [markdown]
# ## Parameters without a layer
#
# `ParameterList` and `ParameterDict` hold *any* values. A tensor that is put in becomes a Parameter; other values
# become plain attributes, which are neither saved nor moved. Since a plain attribute leaves no trace in the tables, the
# list has to count for itself, and the dictionary to remember its keys.


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ParameterList
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


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ParameterList.append
#| upstream: torch/nn/modules/container.py#ParameterList.extend
#| upstream: torch/nn/modules/container.py#ParameterList.extra_repr
#| upstream: torch/nn/modules/container.py#ParameterList.__call__
class ParameterList(ParameterList):
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


# %%
#| into: nn/modules/container.py
def _described(value: Any, type_name: str) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.size()))
    place = f" ({value.device})" if value.device.type == "cuda" else ""
    return f"{kind} containing: [{type_name} of size {size}{place}]"


# %%
values = nn.ParameterList([torch.zeros(2), "not a tensor", nn.Parameter(torch.ones(3))])
values, list(values.state_dict())


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ParameterDict
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


def _require_string(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key: keys are strings "
            f"(this is of type '{type(key).__name__}')"
        )
    return key


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ParameterDict.copy
#| upstream: torch/nn/modules/container.py#ParameterDict.popitem
#| upstream: torch/nn/modules/container.py#ParameterDict.get
class ParameterDict(ParameterDict):
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


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#ParameterDict.update
#| upstream: torch/nn/modules/container.py#ParameterDict.extra_repr
#| upstream: torch/nn/modules/container.py#ParameterDict.__or__
class ParameterDict(ParameterDict):
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


# %% [markdown]
# The two dictionaries disagree about order. `ParameterDict` *sorts* the keys of a plain `dict`, as everything here did
# when Python's dictionaries had no order of their own; `ModuleDict` stopped, and takes it as it comes. The order is the
# order of `parameters()`, by whose position optimizers store their state.


# %%
#| claim: ParameterDict sorts the keys of a plain dict and keeps the order of pairs; ModuleDict keeps both
def _(torch):
    nn = torch.nn
    assert list(nn.ParameterDict({"b": torch.ones(1), "a": torch.ones(1)})) == ["a", "b"]
    assert list(nn.ParameterDict([("b", torch.ones(1)), ("a", torch.ones(1))])) == ["b", "a"]
    assert list(nn.ModuleDict({"b": nn.Module(), "a": nn.Module()})) == ["b", "a"]


# %%
#| claim: a ParameterList turns tensors into Parameters, keeps other values as attributes, and refuses a bare tensor to extend by
def _(torch):
    nn = torch.nn
    values = nn.ParameterList([torch.zeros(1), 3])
    assert isinstance(values[0], nn.Parameter) and values[1] == 3 and len(values) == 2
    assert list(values.state_dict()) == ["0"]
    try:
        values.extend(torch.zeros(2))
    except TypeError as error:
        assert "iterable" in str(error)
    else:
        raise AssertionError("extended by rows")


# %% [markdown]
# `Container`, the first of them all, is still there to say that it is not needed.


# %%
#| into: nn/modules/container.py
#| upstream: torch/nn/modules/container.py#Container
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


# %% [markdown]
# What a program sees of all this is two short files of names, and an entry in the table by which `readtorch` finds its
# sub-packages.

# %%
#| into: nn/modules/__init__.py
from readtorch.nn.modules.container import (
    Container,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from readtorch.nn.modules.module import Module

__all__ = [
    "Container",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]

# %%
#| into: nn/__init__.py
from readtorch.nn import modules as modules
from readtorch.nn import parameter as parameter
from readtorch.nn.modules import *  # noqa: F403 - its __all__ is this namespace
from readtorch.nn.parameter import Buffer as Buffer
from readtorch.nn.parameter import Parameter as Parameter
from readtorch.nn.parameter import UninitializedBuffer as UninitializedBuffer
from readtorch.nn.parameter import UninitializedParameter as UninitializedParameter

# %%
#| into: __init__.py
_MODULES += ["__future__", "nn"]

# %% [markdown]
# ## What upstream does more
#
# Methods such as `__len__` and `__iter__` carry a decorator that tells TorchScript to use the Python version, and the
# signatures are overloaded for type checkers. `ParameterList` and `ParameterDict` once warned that their replicas are
# empty under `DataParallel` (pytorch/pytorch#36035); chapter 6 shows why.

# %%
#| fact: torch/_jit_internal.py#_copy_to_script_wrapper
#| fact: torch/nn/modules/container.py#Sequential<ModuleList
#| fact: torch/nn/modules/container.py#ParameterDict.update

# %% [markdown]
# ## Bugs you can now explain
#
# **“Module: parameters are not included if the module is initialized in a list”** (pytorch/pytorch#715, of February
# 2017; issues 666, 1053 and 38639 ask the same, and 59925, from 2021, asks for a warning). The answer has always been
# `ModuleList`. The silent failure has one tell: `print(model)` does not show the layers.
#
# **“Allow `nn.Sequential` to take a normal dict (along with OrderedDict)”** (pytorch/pytorch#72815, open again as
# 84751). `nn.Sequential({"a": layer})` complains that `dict is not a Module subclass`: anything but a single
# `OrderedDict` is taken for a module. The request was declined on the ground that for a chain the order is the meaning,
# and a `dict` does not promise that its author thought of it.


# %%
#| claim: Sequential takes an OrderedDict by name, and a plain dict for a module, which it is not
#| source: pytorch/pytorch#72815
def _(torch):
    try:
        torch.nn.Sequential({"a": torch.nn.Module()})
    except TypeError as error:
        assert "dict is not a Module subclass" in str(error)
    else:
        raise AssertionError("accepted")


# %% [markdown]
# **“Why nn.Sequential can't handle multiple input?”** (pytorch/pytorch#19808, #3349.) `forward` takes one argument and
# passes on one result. A layer that returns a tuple hands a tuple, as one argument, to the next. Spreading it would
# make it impossible to pass a tuple on purpose.


# %%
#| claim: Sequential passes a tuple result on as one argument, and takes one argument itself
#| source: pytorch/pytorch#19808
def _(torch):
    nn = torch.nn

    class Split(nn.Module):
        def forward(self, x):
            return x, x

    class Receive(nn.Module):
        def forward(self, pair):
            return type(pair)

    assert nn.Sequential(Split(), Receive())(1) is tuple
    try:
        nn.Sequential(Split())(1, 2)
    except TypeError as error:
        assert "positional argument" in str(error)
    else:
        raise AssertionError("took two")


# %% [markdown]
# **“python Sequential allows duplicate names”** (pytorch/pytorch#19463). Two layers called "A", and the first is gone
# without a word. It was lost before `Sequential` was called: `OrderedDict([("A", x), ("A", y)])` has one entry. In C++
# the same is an error, because there the container sees the pairs.
#
# ## Exercises
#
# **Independent copies.** Write `repeat(module, times)`: a Sequential of `times` modules that start out equal to
# `module` and are trained separately. The first may be `module` itself.


# %%
#| exercise: repeat
def repeat(module: nn.Module, times: int) -> nn.Sequential:
    raise NotImplementedError


# %%
#| solution: repeat
import copy


def repeat(module: nn.Module, times: int) -> nn.Sequential:
    return nn.Sequential(module, *(copy.deepcopy(module) for _ in range(times - 1)))


# %%
#| check: repeat
three = repeat(Scale(2), 3)
assert len(three) == 3 and len(list(three.parameters())) == 3
assert three(torch.ones(2)).tolist() == [8.0, 8.0]
with torch.no_grad():
    three[1].weight.fill_(5)
assert three[0].weight.tolist() == [2.0, 2.0] and three[2].weight.tolist() == [2.0, 2.0]

# %% [markdown]
# **Cut without renaming.** Write `without(sequential, index)`: a new Sequential that shares all modules but the one at
# `index` and keeps *their names*, so that the old checkpoint, less that module's keys, still loads. (Mind a module that
# occurs twice.)


# %%
#| exercise: without
def without(sequential: nn.Sequential, index: int) -> nn.Sequential:
    raise NotImplementedError


# %%
#| solution: without
def without(sequential: nn.Sequential, index: int) -> nn.Sequential:
    kept = list(sequential._modules.items())  # named_children() would leave out the second of a pair
    del kept[index]
    return nn.Sequential(OrderedDict(kept))


# %%
#| check: without
twice = Scale(3)
chain = nn.Sequential(Scale(2), twice, twice, Scale(7))
cut = without(chain, 0)
assert list(cut._modules) == ["1", "2", "3"] and cut[0] is cut[1] is twice
assert without(chain, -1)(torch.ones(2)).tolist() == [18.0, 18.0]
assert list(chain._modules) == ["0", "1", "2", "3"]
assert not cut.load_state_dict(chain.state_dict(), strict=False).missing_keys
