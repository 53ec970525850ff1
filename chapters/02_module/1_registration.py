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
#
# Chapter 0 leaves us with tensors that remember how they were made and a `backward()` that follows the memory back.
# That is enough to train a network. What it does not give is anything that *knows the network*: which tensors are
# weights, where they are, what they are called, how to move all of them to another device or write all of them to a
# file. In PyTorch one class does this, `torch.nn.Module`, and everything with a `forward` derives from it: a linear
# layer, a loss, a whole language model.
#
# Its bookkeeping rests on a single trick: it looks at every assignment to an attribute. This part builds that trick.
# The next ones walk what has been registered, call it, save it, and at the end train a network with it. (One thing in a
# training loop is *not* a Module: the optimizer. It owns no tensors of the model; it is handed references to them,
# which explains much of part 2.)

# %%
import timeit
import weakref

import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Buffer, Parameter

live()

# %% [markdown]
# ## What breaks if a model is an ordinary class?
#
# At first, nothing. A layer is an object that holds tensors, a model is an object that holds layers, and autograd does
# not care where a tensor is stored.


# %%
class Scale:
    def __init__(self):
        self.weight = torch.ones(3, requires_grad=True)

    def __call__(self, x):
        return x * self.weight


class Affine:
    def __init__(self):
        self.scale = Scale()
        self.bias = torch.zeros(3, requires_grad=True)

    def __call__(self, x):
        return self.scale(x) + self.bias


model = Affine()
model(torch.ones(3)).sum().backward()
model.scale.weight.grad, model.bias.grad

# %% [markdown]
# The trouble begins with the first question about the model as a whole. An update step needs a list of its weights.
# Python can tell us what an object holds, so let us search.


# %%
def weights_of(thing):
    found = []
    for name, value in vars(thing).items():
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                found.append(name)
        elif hasattr(value, "__dict__"):
            found += [f"{name}.{below}" for below in weights_of(value)]
    return found


weights_of(model)

# %% [markdown]
# It works, by guessing: a weight is a tensor that requires a gradient. Two everyday steps prove the guess wrong. Freeze
# a layer, and its weight is no longer found, so it is not saved either. Keep an activation for later inspection, and it
# counts as a weight.

# %%
model.scale.weight.requires_grad_(False)
model.last_output = model(torch.ones(3))
weights_of(model)

# %% [markdown]
# `scale.weight` is gone and `last_output` has come. No property of a tensor says what it is *for*; only the author of
# the layer knows. So PyTorch has the author say it, in the one place where it costs nothing: the type of what is
# assigned. A `Parameter` is a weight. A `Buffer` is state that is not trained. A `Module` is a part. Anything else is a
# plain attribute. Whether it requires a gradient is a separate matter, free to change.
#
# ```mermaid
# flowchart LR
#   subgraph M["a Module (its __dict__)"]
#     P["_parameters<br/>name → Parameter or None"]
#     B["_buffers<br/>name → Tensor or None"]
#     C["_modules<br/>name → Module or None"]
#     O["everything else<br/>training, in_features, …"]
#   end
#   S["self.weight = Parameter(…)"] --> P
#   T["self.mean = Buffer(…)"] --> B
#   U["self.layer = Linear(…)"] --> C
#   V["self.hidden = 128"] --> O
#   C --> M2["another Module,<br/>with tables of its own"]
# ```
#
# Nothing here is recursive. Each module knows its own three tables; the tree is made of modules that stand in each
# other's `_modules`.

# %% [markdown]
# ## How does `self.weight = …` find out?
#
# Python sends every assignment `obj.name = value` to `type(obj).__setattr__`. A class that overrides it sees all of
# them. The idea in ten lines:


# %%
class Tiny:
    def __init__(self):
        self.parameters = {}

    def __setattr__(self, name, value):
        if isinstance(value, nn.Parameter):
            self.parameters[name] = value
        else:
            super().__setattr__(name, value)


class TinyScale(Tiny):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.features = 3


list(TinyScale().parameters)

# %% [markdown]
# It also has the flaw that most people meet in their first week of PyTorch. The table is made by `Tiny.__init__`; a
# subclass that assigns before calling it has no table to register in, and the message is about something the author
# never wrote.


# %% tags=["raises-exception"]
class Early(Tiny):
    def __init__(self):
        self.weight = nn.Parameter(torch.ones(3))
        super().__init__()


Early()

# %% [markdown]
# So the real class must, first, make its tables before anything else happens, and second, notice when it was not given
# the chance. The file opens with what it needs.

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

from readtorch import __future__, empty_like, typename
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.csrc.autograd.python_variable_methods import parse_to
from readtorch.nn.parameter import Buffer, Parameter, is_lazy
from readtorch.utils import swap_tensors
from readtorch.utils.hooks import BackwardHook, RemovableHandle

# %% [markdown]
# Three tables hold what the module owns, one set remembers which buffers are not saved, and eleven tables are for
# hooks, functions that others attach (parts 3 and 4). The hook tables are `OrderedDict`s for a reason that has nothing
# to do with order:

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

# %% tags=["raises-exception"]
weakref.ref({})

# %% [markdown]
# Whoever registers a hook gets a handle that can remove it again, and the handle must not keep the module alive. So it
# holds the table weakly, and a built-in `dict` cannot be referred to weakly. The three tables of members are plain
# dictionaries.


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
# `__init__` accepts arguments only to refuse them with a readable message; with the class attribute `call_super_init`
# they are passed on instead, so that a class may inherit from `Module` and from something else that has an `__init__`
# of its own.
#
# The assignments go through `super().__setattr__`. It would not do to write `self._parameters = {}`: that runs
# `Module.__setattr__`, which begins by asking the tables whether the name is theirs.
#
# > [!NOTE]
# > **Often told otherwise.** Walkthroughs of this file single out `super().__setattr__` as *the* optimisation of
# > `nn.Module`. It concerns these assignments and no others: once `__init__` has returned, every `self.x = …`, in every
# > layer, for the rest of the program, runs the Python method that we are about to write. What is more often useful to
# > know is a side effect: a subclass that overrides `__setattr__` never sees the seventeen internal ones.


# %%
#| claim: Module.__init__ bypasses a subclass's __setattr__; every later assignment goes through it
def _(torch):
    seen = []

    class Watched(torch.nn.Module):
        def __setattr__(self, name, value):
            seen.append(name)
            super().__setattr__(name, value)

    watched = Watched()
    assert seen == [] and len(vars(watched)) == 17
    watched.hidden = 128
    assert seen == ["hidden"]


# %%
#| claim: arguments that reach Module.__init__ are refused as Python refuses them, and passed on with call_super_init
def _(torch):
    class Named:
        def __init__(self, name):
            self.name = name

    class Strict(torch.nn.Module):
        pass

    class Mixed(torch.nn.Module, Named):
        call_super_init = True

    assert Mixed(name="both").name == "both"
    for work, text in (
        (lambda: Strict(x=1), "Strict.__init__() got an unexpected keyword argument 'x'"),
        (lambda: Strict(1), "Strict.__init__() takes 1 positional argument but 2 were given"),
    ):
        try:
            work()
        except TypeError as error:
            assert str(error) == text
        else:
            raise AssertionError("took it")


# %%
plain, module = Tiny(), nn.Module()
nanoseconds = {
    "object.__setattr__": timeit.timeit(lambda: object.__setattr__(module, "x", 1), number=20_000) / 20_000 * 1e9,
    "module.x = 1": timeit.timeit(lambda: setattr(module, "x", 1), number=20_000) / 20_000 * 1e9,
}
{what: f"{time:.0f} ns" for what, time in nanoseconds.items()}

# %% [markdown]
# A counter in a hot loop belongs in a local variable, not on the module.

# %% [markdown]
# ## Where does a Parameter really live?
#
# "Parameter" sounds like a container for a tensor. It is a tensor: a subclass that adds no data, no storage and no
# behaviour in arithmetic. All it adds is its type, which is what `__setattr__` will look at.

# %%
#| into: nn/parameter.py
#| imports
from __future__ import annotations

from collections import OrderedDict
from typing import Any

from readtorch import _C, empty
from readtorch._tensor import Tensor


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#_ParameterMeta.__instancecheck__
class _ParameterMeta(type):
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

    #: A product of parameters is no parameter: the class takes over no call.
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return data._make_subclass(cls, data, requires_grad)
        own = _detached(data).requires_grad_(requires_grad)
        if type(own) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} needs a detach() that returns an "
                f"instance of this type, and it gave a {type(own).__name__}"
            )
        own._is_param = True
        return cast(Parameter, own)


def _detached(data: Tensor) -> Any:
    """`data` without its history, of its own class: by the `detach` of that class, if it has one."""
    detached = data.detach()
    base: Any = Tensor
    own: Any = type(data)
    inherited = own.detach is base.detach and type(data) is not Parameter
    return detached.as_subclass(type(data)) if inherited else detached


# %% [markdown]
# `_make_subclass` makes a second tensor object, of class `Parameter`, over the same storage. No element is copied, so
# writing through either is seen through both.

# %%
values = torch.zeros(2)
weight = nn.Parameter(values)
values.fill_(7.0)
weight

# %% [markdown]
# Two questions come up again and again about this class.
#
# *Is it trainable under `no_grad`?* Yes: `requires_grad=True` is asked for explicitly, it is not the result of recorded
# arithmetic. *Is what I compute from it a Parameter?* No. A result belongs to the graph, it has a history, and handing
# it to an optimizer would be a mistake.


# %%
#| claim: a Parameter shares memory with the tensor it is made of and requires a gradient even when made under no_grad
def _(torch):
    values = torch.zeros(2)
    with torch.no_grad():
        weight = torch.nn.Parameter(values)
    assert weight.requires_grad and weight.is_leaf
    assert weight.data_ptr() == values.data_ptr()


# %%
#| claim: arithmetic on a Parameter gives a plain Tensor, and so does slicing or reshaping it
def _(torch):
    weight = torch.nn.Parameter(torch.ones(2, 2))
    for result in (weight * 2, weight[0], weight.reshape(4), weight + weight):
        assert type(result) is torch.Tensor and result.grad_fn is not None


# %% [markdown]
# The metaclass is there for one case. A tensor *subclass* (a quantised tensor, a sharded one) must stay what it is when
# it becomes a parameter, or it would lose its own arithmetic. So `Parameter(sharded)` returns a `ShardedTensor` that is
# marked, and the metaclass makes `isinstance(…, Parameter)` true of it. So whoever takes parameters
# asks `isinstance(p, Parameter)`. `type(p) is Parameter` is true of plain ones alone, and upstream asks it where just these are
# meant: in `Parameter.__new__`, in printing, in the safe unpickler.


# %%
#| claim: a parameter made of a tensor subclass is of that subclass, and isinstance(…, nn.Parameter) holds for it
def _(torch):
    class Sharded(torch.Tensor):
        pass

    sharded = torch.ones(2).as_subclass(Sharded)
    weight = torch.nn.Parameter(sharded)
    assert type(weight) is Sharded and isinstance(weight, torch.nn.Parameter)
    assert not isinstance(sharded, torch.nn.Parameter)


# %% [markdown]
# The rest of the class is about copies. A deep copy of a model must contain parameters again, which share nothing with
# the original but are still shared among themselves where the original's were: that is what `memo` is for. A pickle
# holds data, `requires_grad` and whatever attributes were set, and drops hooks.


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

    def __repr__(self) -> str:  # type: ignore[override]  # upstream leaves out the argument
        return f"Parameter containing:\n{super().__repr__()}"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from readtorch import _utils

        #: Hooks on the tensor are dropped: a pickle that carried functions could not be read where they are not defined.
        content: tuple[Any, ...] = (self.data, self.requires_grad, OrderedDict())
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
# ## `register_parameter`: what may be a name?
#
# Registration under a name needs a check that is the same for all three kinds. The name ends up in two places: as an
# attribute, and as one step of a dotted path such as `encoder.layers.0.weight`, by which checkpoints and
# `get_parameter` find it. So it may not hold a dot, may not be empty, and may not hide something that is there already,
# `forward` above all.


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
#| claim: a name is refused before it does harm: with a dot, empty, no string, or of something that is there
def _(torch):
    module = torch.nn.Module()
    module.plain = 1
    for kind, register in (("parameter", module.register_parameter), ("buffer", module.register_buffer)):
        for name, error, phrase in (
            ("a.b", KeyError, f'{kind} name can\'t contain "."'),
            ("", KeyError, f'{kind} name can\'t be empty string ""'),
            ("forward", KeyError, "attribute 'forward' already exists"),
            ("plain", KeyError, "attribute 'plain' already exists"),
            (3, TypeError, f"{kind} name should be a string. Got int"),
        ):
            try:
                register(name, None)
            except error as refused:
                assert phrase in refused.args[0]
            else:
                raise AssertionError(name)
    module.plain = torch.nn.Parameter(torch.ones(1))
    assert list(module._parameters) == ["plain"]


# %% [markdown]
# The last two lines of the claim are no contradiction. `register_parameter` refuses a name that is in use; an *assignment* is taken to mean it, and forgets the plain attribute.

# %% [markdown]
# `None` is worth a remark. It registers a *name*: `nn.Linear(bias=False)` has a `bias` that is `None`, so that
# `forward` can pass `self.bias` on without asking, `repr` and `state_dict` skip it, and assigning a Parameter later
# finds its slot.

# %%
holder = nn.Module()
holder.register_parameter("bias", None)
holder._parameters, holder.bias, list(holder.parameters())

# %% [markdown]
# Why is there a check on `grad_fn` at all, if the result of a computation is a plain tensor and is refused one line
# above? Because an in-place operation keeps the object and gives it a history: a frozen Parameter to which something
# trainable is added is still a Parameter, and no longer a leaf.


# %%
#| claim: a computed tensor is refused as a parameter by its type, a Parameter changed in place by its history
def _(torch):
    module = torch.nn.Module()
    weight, frozen = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1), requires_grad=False)
    refused = []
    for value in (weight * 2, frozen.add_(weight)):
        try:
            module.register_parameter("w", value)
        except (TypeError, ValueError) as error:
            refused.append(type(error))
    assert type(frozen) is torch.nn.Parameter and not frozen.is_leaf
    assert refused == [TypeError, ValueError]


# %% [markdown]
# Three *registration hooks*, common to all modules in the process, see what is registered and may put something else in
# its place. Tools use them to shard or to fake parameters while a model is being built.
#
# Registering a hook of any kind, here or in part 3, means to enter a function into a table under a fresh number and to
# hand out something that can take it out again: the `RemovableHandle` that hooks of tensors have too. A hook may have
# flags in further tables; the handle is told these as well, as its `extra_dict`.
#
# A tensor's hooks are lost when it is pickled. Beside the handle stands what warns of that.

# %%
#| into: utils/hooks.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


# %%
#| into: utils/hooks.py
#| upstream: torch/utils/hooks.py#unserializable_hook
#| upstream: torch/utils/hooks.py#warn_if_has_hooks
def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a tensor hook as one that may be dropped silently when its tensor is pickled."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]  # a mark on the function
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of each hook on `tensor` that a pickle will not contain, unless it is marked by `unserializable_hook`."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized; mark it with "
                "torch.utils.hooks.unserializable_hook if that is expected",
                stacklevel=2,
            )


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
from readtorch.nn.modules.module import register_module_parameter_registration_hook


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.weight


log = []
with register_module_parameter_registration_hook(lambda module, name, param: log.append((name, param.numel()))):
    Scale(), Scale()
log

# %% [markdown]
# ## What is neither trained nor forgotten: buffers
#
# A transformer adds to each position a row of a fixed table of sines. The table is no weight, and no plain attribute
# either: it has to be on the GPU when the model is. (`half()` and `to(device)` reach only what is registered: part 2.)


# %%
class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        steps = torch.arange(length).reshape(-1, 1) * torch.exp(-torch.arange(width) / width)
        self.table = torch.sin(steps)

    def forward(self, x):
        return x + self.table


Positions(4, 2).double().table.dtype

# %% [markdown]
# Making it a `Parameter` with `requires_grad=False` moves it, and offers it to every optimizer; a later
# `model.requires_grad_(True)`, the usual way to unfreeze, would start to train the sines. So there is a third kind of
# state. It moves with the module and never appears in `parameters()`; whether it also goes into the checkpoint is the
# author's choice. For a table that the constructor can rebuild, `persistent=False` is the better one: nobody wants a
# model with a longer table to refuse yesterday's checkpoint.


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
class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        steps = torch.arange(length).reshape(-1, 1) * torch.exp(-torch.arange(width) / width)
        self.register_buffer("table", torch.sin(steps), persistent=False)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x + self.table


positions = Positions(4, 2).double()
positions.table.dtype, list(positions.parameters()), list(positions.state_dict())

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "Tensors in `_buffers` are not saved as part of the model." They are saved, unless they
# > were registered with `persistent=False`; what they are not is *trained*. BatchNorm could not evaluate a restored
# > model otherwise.


# %%
#| claim: a buffer is written to state_dict unless it was registered with persistent=False; parameters() yields neither kind
def _(torch):
    module = torch.nn.Module()
    module.register_buffer("saved", torch.ones(1))
    module.register_buffer("rebuilt", torch.ones(1), persistent=False)
    assert list(module.state_dict()) == ["saved"]
    assert [name for name, _ in module.named_buffers()] == ["saved", "rebuilt"]
    assert list(module.parameters()) == []


# %% [markdown]
# Since 2.5 there is also a type to assign, so that buffers look like parameters: `self.table = nn.Buffer(…,
# persistent=False)`. It is an odd class: calling it returns no instance of it.


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#_BufferMeta.__instancecheck__
#| upstream: torch/nn/parameter.py#Buffer
class _BufferMeta(type):
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

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        source = empty(0) if data is None else data
        marked = _detached(source).requires_grad_(source.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked


# %%
table = nn.Buffer(torch.ones(2), persistent=False)
type(table).__name__, isinstance(table, nn.Buffer), table.persistent

# %% [markdown]
# The mark is on this tensor object and nowhere else. Once assigned, the module remembers persistence *by name*; the
# mark has done its work, and a conversion that makes a new tensor drops it without harm.


# %%
#| claim: what nn.Buffer(t) returns is a marked tensor of t's own class; converting the module drops the mark and keeps the registration
def _(torch):
    module = torch.nn.Module()
    module.table = torch.nn.Buffer(torch.ones(2), persistent=False)
    assert type(module.table) is torch.Tensor and isinstance(module.table, torch.nn.Buffer)
    module.double()
    assert not isinstance(module.table, torch.nn.Buffer)
    assert [name for name, _ in module.named_buffers()] == ["table"] and not module.state_dict()


# %%
#| claim: a plain tensor assigned to a buffer's name keeps the name's persistence; an nn.Buffer brings its own
def _(torch):
    module = torch.nn.Module()
    module.register_buffer("table", torch.zeros(2), persistent=False)
    module.table = torch.ones(2)
    assert "table" not in module.state_dict()
    module.table = torch.nn.Buffer(torch.ones(2))
    assert "table" in module.state_dict()


# %% [markdown]
# ## Modules inside modules
#
# The third table needs the least code, because a child is only a reference. Ownership, prefixes, moving and saving
# follow from the walk over these tables.


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


# %%
class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return self.scale(x) + self.bias


model = Affine()
[name for name, _ in model.named_parameters()]

# %% [markdown]
# The class diagram of a model is flat: everything derives from `Module`, whether it computes, measures or only holds.
#
# ```mermaid
# flowchart RL
#   Conv2d --> _ConvNd --> Module
#   CrossEntropyLoss --> _WeightedLoss --> _Loss --> Module
#   Linear & Sequential & DistributedDataParallel & Affine["your model"] --> Module
#   Parameter --> Tensor
#   Module -. "_parameters" .-> Parameter
#   Module -. "_modules" .-> Module
# ```

# %% [markdown]
# The model from the beginning, with the three lines that `weights_of` needed replaced by a type. The two steps that
# broke the guess change nothing now:

# %%
model.scale.weight.requires_grad_(False)
model.last_output = model(torch.ones(3))
[name for name, _ in model.named_parameters()]

# %% [markdown]
# ## The switch: `__setattr__`
#
# Now the method that all of this hangs on. Each of the three kinds can claim an assignment in two ways: by the **type
# of the value**, or because the **name** is already in its table. The order of the questions decides what happens when
# two kinds claim.


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
            f"Registering the non-persistent buffer '{name}' is not allowed: {type(module).__name__} implements "
            "register_buffer() without the persistent argument"
        )


# %% [markdown]
# | assigned to `self.name` | if `name` is free | if it is a parameter | if it is a child | if it is a buffer |
# |---|---|---|---|---|
# | a `Parameter` | parameter | replaced | child forgotten, parameter | buffer forgotten, parameter |
# | a `Module` | child | **TypeError** | replaced | buffer forgotten, child |
# | a `Buffer` | buffer | **TypeError** | **TypeError** | replaced, with its persistence |
# | a plain tensor | plain attribute | **TypeError** | **TypeError** | replaced, persistence kept |
# | `None` | plain attribute | emptied, name kept | emptied, name kept | emptied, name kept |
# | anything else | plain attribute | **TypeError** | **TypeError** | **TypeError** |
#
# The TypeErrors are a favour: `layer.weight = torch.zeros(3)` would otherwise leave the optimizer with the old
# parameter while the model computes with the new tensor. The table's asymmetry, a Parameter may replace a child and not
# the other way round, is nothing but the order of the branches.


# %%
#| claim: all twenty-four cells of the table
def _(torch):
    nn = torch.nn
    given = {
        "Parameter": lambda: nn.Parameter(torch.ones(1)),
        "Module": nn.Module,
        "Buffer": lambda: nn.Buffer(torch.ones(1)),
        "tensor": lambda: torch.ones(1),
        "None": lambda: None,
        "other": lambda: 3,
    }

    def outcome(before, value):
        module = nn.Module()
        if before:
            module.x = given[before]()
        try:
            module.x = given[value]()
        except TypeError:
            return "TypeError"
        places = {"parameter": "_parameters", "child": "_modules", "buffer": "_buffers"}
        found = [kind for kind, table in places.items() if "x" in vars(module)[table]]
        assert len(found) + ("x" in vars(module)) == 1
        return found[0] if found else "plain"

    expected = {
        "Parameter": ["parameter", "parameter", "parameter", "parameter"],
        "Module": ["child", "TypeError", "child", "child"],
        "Buffer": ["buffer", "TypeError", "TypeError", "buffer"],
        "tensor": ["plain", "TypeError", "TypeError", "buffer"],
        "None": ["plain", "parameter", "child", "buffer"],
        "other": ["plain", "TypeError", "TypeError", "TypeError"],
    }
    for value, row in expected.items():
        assert [outcome(before, value) for before in (None, "Parameter", "Module", "Buffer")] == row


# %%
#| claim: an assignment before super().__init__() says so for parameters, modules and buffers; a plain attribute is accepted
def _(torch):
    class Early(torch.nn.Module):
        def __init__(self, value):
            self.plain = 1
            self.value = value

    for value, kind in (
        (torch.nn.Parameter(torch.ones(1)), "parameters"),
        (torch.nn.Module(), "module"),
        (torch.nn.Buffer(torch.ones(1)), "buffer"),
    ):
        try:
            Early(value)
        except AttributeError as error:
            assert f"cannot assign {kind} before Module.__init__() call" in str(error)
        else:
            raise AssertionError(kind)
    assert vars(Early(3)) == {"plain": 1, "value": 3}


# %%
#| claim: None empties a slot and keeps the name; del removes it
def _(torch):
    module = torch.nn.Module()
    module.bias = torch.nn.Parameter(torch.ones(1))
    module.bias = None
    assert module._parameters == {"bias": None} and not module.state_dict()
    del module.bias
    assert module._parameters == {} and not hasattr(module, "bias")


# %% [markdown]
# Step through one registration. The interesting moment is in `_check_name`: the `hasattr` there runs `__getattr__`,
# which must fail, so each registration raises and catches one AttributeError.

# %%
#| trace: torch.nn layers=calls,lines values=summary title="self.weight = Parameter(torch.ones(2))"
target = nn.Module()
target.weight = nn.Parameter(torch.ones(2))

# %% [markdown]
# ## Why does `self.weight` still work?
#
# `__setattr__` put the parameter into `_parameters` and not into the object's `__dict__`. Ordinary attribute lookup
# looks there, then at the class, and finds nothing.

# %%
sorted(vars(model))

# %% [markdown]
# When lookup has failed, and only then, Python calls `__getattr__`. It is the other half of the trick.


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
        for registered in (self._parameters, self._buffers, self._modules):
            if name in registered:
                del registered[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())


# %%
model.scale, model.bias is model._parameters["bias"], "bias" in dir(model)

# %% [markdown]
# Two consequences. `self.weight` in a `forward` costs a failed lookup and a call into Python, several times as much as
# a plain attribute:

# %%
model.plain = 1
nanoseconds = {
    name: timeit.timeit(lambda name=name: getattr(model, name), number=20_000) / 20_000 * 1e9
    for name in ("plain", "bias", "scale")
}
{name: f"{time:.0f} ns" for name, time in nanoseconds.items()}

# %% [markdown]
# And a *class* attribute wins over a registered one of the same name, because class lookup does not fail. That is why
# `_check_name` refuses names that `hasattr` finds, and why a property called `weight` makes `self.weight =
# Parameter(…)` impossible.


# %%
#| claim: the three tables live in __dict__, their members do not
def _(torch):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(1))
    module.child = torch.nn.Module()
    assert "weight" not in vars(module) and "child" not in vars(module)
    assert module.weight is vars(module)["_parameters"]["weight"]
    assert module.child is vars(module)["_modules"]["child"]


# %% [markdown]
# ## What registration cannot see
#
# The switch sees *assignments to attributes of a module*. It does not look inside what is assigned. A list of layers is
# an attribute whose value is a list:


# %%
class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = [Scale() for _ in range(depth)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


len(list(Stack(3).parameters()))

# %% [markdown]
# The model runs, `backward()` fills the gradients, the loss even falls if other parameters can make up for it, and
# these weights never change. Looking into lists would mean looking into everything on every assignment, and would still
# miss `append`. So there are container modules, which are the subject of part 5.

# %% [markdown]
# ## What upstream does more
#
# * `Module.__init__` records an API-usage event, and `register_buffer` refuses `persistent=False` on a `ScriptModule`,
#   the class that TorchScript makes of a module: both belong to systems that this book does not rebuild.
# * Parameters that do not know their shape yet have a part of their own, at the end of the chapter.

# %%
#| fact: torch/nn/modules/module.py#Module.__init__<Module.register_buffer
#| fact: torch/nn/modules/module.py#Module.__getattr__<Module.__setattr__

# %% [markdown]
# ## Bugs you can now explain
#
# **“If .to() is called on nn.Parameter, it returns a tensor.”** (pytorch/pytorch#9303; again in issues 17484, 20089,
# 39062 and 94828.) `self.w = nn.Parameter(torch.zeros(5)).to("cuda")` leaves the module without the parameter. `to` is
# an operator like any other. Where something has to be converted, its result is computed: a plain tensor with a
# `grad_fn`, which `__setattr__` files as a plain attribute, silently. Where nothing has to be converted, `to` returns
# the Parameter itself, and so the bug appears only on machines with a GPU. A change of dtype shows it on any machine.


# %%
#| claim: assigning nn.Parameter(t).to(…) registers nothing if the conversion does something, and works if it does not
#| source: pytorch/pytorch#9303
def _(torch):
    module = torch.nn.Module()
    module.converted = torch.nn.Parameter(torch.zeros(5)).to(torch.float64)
    module.unchanged = torch.nn.Parameter(torch.zeros(5)).to(torch.float32)
    assert [name for name, _ in module.named_parameters()] == ["unchanged"]
    assert module.converted.grad_fn is not None and "converted" in vars(module)


# %% [markdown]
# **“Wrong error is raised for property of nn.Module (again)”** (pytorch/pytorch#49726; the “again” is because a first
# fix had not worked). A property that hits a missing attribute is reported missing itself. The property raises
# AttributeError; to Python that means "lookup failed", so it calls `__getattr__("area")`, which searches three tables
# and truthfully says that there is no `area`. The real message, about `widht`, is lost.


# %% tags=["raises-exception"]
class Box(nn.Module):
    width = 2

    @property
    def area(self):
        return self.widht**2


Box().area


# %%
#| claim: an AttributeError inside a property of a Module is reported as if the property did not exist
#| source: pytorch/pytorch#49726
def _(torch):
    class Box(torch.nn.Module):
        @property
        def area(self):
            return self.widht**2

    try:
        Box().area
    except AttributeError as error:
        assert "'area'" in str(error) and "widht" not in str(error)
    else:
        raise AssertionError("there is no widht")


# %% [markdown]
# **“load_state_dict unexpectedly does not load Tensor to buffers that currently have None value”**
# (pytorch/pytorch#8104). `None` keeps a name in the table, and keeps the entry out of everything that walks the table:
# there is nothing to save, so there is nothing to load into. A key for it in the checkpoint is an *unexpected* key.


# %%
#| claim: a checkpoint with a value for a buffer that is None does not load; strict=False ignores the value
#| source: pytorch/pytorch#8104
def _(torch):
    class Memory(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.register_buffer("value", value)

    saved = Memory(torch.ones(1)).state_dict()
    empty = Memory(None)
    try:
        empty.load_state_dict(saved)
    except RuntimeError as error:
        assert 'Unexpected key(s) in state_dict: "value"' in str(error)
    else:
        raise AssertionError("loaded")
    assert empty.load_state_dict(saved, strict=False).unexpected_keys == ["value"] and empty.value is None


# %% [markdown]
# **A buffer that is shared by accident** (pytorch/pytorch#58140). The report says that moving one model to the GPU
# "sets a global CUDA device" for modules made later. What is global is a default argument: `def __init__(self,
# norm=Norm())` makes one `Norm` when the function is defined, every model registers that same object, and moving one
# model moves it for all.


# %%
#| claim: a module made in a default argument is one object, registered and moved by every instance
#| source: pytorch/pytorch#58140
def _(torch):
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(1))

    class Model(torch.nn.Module):
        def __init__(self, norm=Norm()):
            super().__init__()
            self.norm = norm

    first, second = Model(), Model()
    first.double()
    assert second.norm is first.norm and second.norm.mean.dtype == torch.float64


# %% [markdown]
# ## Exercises
#
# **A private reference.** A discriminator wants to call the generator, and must not own it: neither its parameters nor
# its checkpoint keys may appear. `self.generator = generator` registers it. Write `refer(module, name, other)` so that
# `module.name` gives `other`, and no table knows. (Upstream code does this in two ways; either passes.)


# %%
#| exercise: refer
def refer(module: nn.Module, name: str, other: nn.Module) -> None:
    raise NotImplementedError


# %%
#| solution: refer
def refer(module: nn.Module, name: str, other: nn.Module) -> None:
    object.__setattr__(module, name, other)


# %%
#| check: refer
generator, discriminator = Scale(), nn.Module()
refer(discriminator, "generator", generator)
assert discriminator.generator is generator
assert list(discriminator.parameters()) == [] and list(discriminator.modules()) == [discriminator]
assert not discriminator.state_dict()

# %% [markdown]
# **Freeze into a buffer.** A learned scale shall stay in the model and in the checkpoint, under its name, and never
# again be offered to an optimizer, not even after `requires_grad_(True)`. Write `demote(module, name)`. The table of
# assignments above shows why one line is not enough.


# %%
#| exercise: demote
def demote(module: nn.Module, name: str) -> None:
    raise NotImplementedError


# %%
#| solution: demote
def demote(module: nn.Module, name: str) -> None:
    value = getattr(module, name).detach()
    delattr(module, name)
    module.register_buffer(name, value)


# %%
#| check: demote
layer = Scale()
before = layer.weight
demote(layer, "weight")
assert list(layer.parameters()) == [] and list(layer.state_dict()) == ["weight"]
assert layer.weight.data_ptr() == before.data_ptr()
layer.requires_grad_(True)
assert not layer.weight.requires_grad
