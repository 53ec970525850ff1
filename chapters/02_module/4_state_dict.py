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
# # `state_dict`, and the way back
#
# A trained model has to outlive the process, and usually the code that made it. This part builds the form in which
# PyTorch lets it: a flat dictionary from dotted names to tensors, and the much longer code that puts such a dictionary
# back into a model and says precisely what does not fit. (Writing the dictionary to a file is a subject of its own, at
# the end of the chapter.)

# %%
import copy
import pickle
import warnings
from collections import OrderedDict

import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.module import Module

live()


# %%
class Scale(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x * self.weight


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.second = Scale()
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return self.second(self.first(x)) + self.bias


net = Net()

# %% [markdown]
# ## Why not pickle the model?
#
# A module is a Python object; `pickle` can write it, and reading it back gives a working model.

# %%
frozen = pickle.dumps(net)
pickle.loads(frozen)(torch.ones(3))

# %% [markdown]
# Until someone edits the class. A pickle does not hold the class. It holds its *name*, `__main__.Scale`, and the
# object's `__dict__`; the reader imports whatever has that name by then, makes an empty instance without calling
# `__init__`, and fills in the old attributes. Rename a parameter and load again:


# %% tags=["raises-exception"]
class Scale(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.factor


pickle.loads(frozen)(torch.ones(3))

# %% [markdown]
# The object has the new `forward` and the old tables. Move the file instead, and the import fails; delete it, and the
# weights cannot be read at all. (And whoever can write the file decides what is imported and called: unpickling runs
# code. `torch.load` has refused whole objects by default since 2.6.)
#
# > [!NOTE]
# > **Often told otherwise.** "Saving the model saves the structure, the computation graph, too." There is no graph in
# > it. What is pickled is a reference to a class and the values of attributes; the structure is in the Python source,
# > which is *not* saved. Formats that do hold a graph are TorchScript and `torch.export`.


# %%
#| claim: a pickled module holds its class by name and its attributes by value; unpickling calls neither the old code nor __init__
def _(torch):
    import pickle, sys, types

    home = types.ModuleType("home_of_the_model")
    sys.modules[home.__name__] = home

    def define(answer):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.made_by = answer

            def forward(self):
                return answer

        Model.__module__, Model.__qualname__, home.Model = home.__name__, "Model", Model
        return Model

    try:
        data = pickle.dumps(define("old")())
        define("new")
        model = pickle.loads(data)
        assert (model.made_by, model()) == ("old", "new")
    finally:
        del sys.modules[home.__name__]


# %%
class Scale(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x * self.weight


# %% [markdown]
# ## What is in a `state_dict`?
#
# The alternative is to save what cannot be recomputed and nothing else: the tensors, by name. Each module contributes
# its own parameters, then its persistent buffers, then asks its children, who do the same under a longer prefix.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._save_to_state_dict
#| upstream: torch/nn/modules/module.py#Module.get_extra_state
#| upstream: torch/nn/modules/module.py#Module.set_extra_state
class Module(Module):
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


# %%
#| into: nn/modules/module.py
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.state_dict
class Module(Module):
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


# %%
#| into: nn/modules/module.py
def _from_positional(args: tuple[Any, ...], destination: Any, prefix: str, keep_vars: bool) -> tuple[Any, str, bool]:
    """`state_dict`'s arguments of old, given by position; one given by keyword as well wins."""
    if destination is None:
        destination = args[0]
    if len(args) > 1 and prefix == "":
        prefix = args[1]
    if len(args) > 2 and keep_vars is False:
        keep_vars = args[2]
    return destination, prefix, keep_vars


# %%
net = Net()
list(net.state_dict())

# %% [markdown]
# Note who does what. `_save_to_state_dict` concerns one module, and classes override it that store their state in
# another form (quantised layers do). `state_dict` is the recursion; it calls each child's `state_dict`, so a wrapper
# can override that and change names for everything below it. Step in and look at the prefix.

# %%
#| trace: torch.nn layers=calls,lines values=summary title="state_dict: one prefix longer on each level"
saved = net.state_dict()

# %% [markdown]
# The values are the model's own tensors, detached: new tensor objects without history over *the same storage*. Nothing
# is copied, so `state_dict()` is cheap however large the model, and what it returns goes on changing with the model.

# %%
before = saved["bias"].clone()
with torch.no_grad():
    net.bias.fill_(5)
before, saved["bias"]


# %%
#| claim: the values of state_dict() are detached aliases: no gradient, same memory; keep_vars=True gives the module's own objects
def _(torch):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(2))
    alias = module.state_dict()["weight"]
    assert type(alias) is torch.Tensor and not alias.requires_grad
    assert alias.data_ptr() == module.weight.data_ptr()
    assert module.state_dict(keep_vars=True)["weight"] is module.weight


# %%
#| claim: keys come parameters first, then persistent buffers, then children, whatever the order of assignment; positional arguments still work, with a FutureWarning
def _(torch):
    import warnings

    module = torch.nn.Module()
    module.child = torch.nn.Module()
    module.child.weight = torch.nn.Parameter(torch.ones(1))
    module.register_buffer("mean", torch.zeros(1))
    module.weight = torch.nn.Parameter(torch.ones(1))
    assert list(module.state_dict()) == ["weight", "mean", "child.weight"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filled = {}
        assert module.state_dict(filled, "net.") is filled
    assert list(filled) == ["net.weight", "net.mean", "net.child.weight"]
    assert [w.category for w in caught] == [FutureWarning]


# %% [markdown]
# The dictionary is an `OrderedDict` with an attribute stuck onto it. `_metadata` holds, by module path, the version of
# the class that wrote the entries. It is the most easily lost piece of a checkpoint: what builds a *new* dictionary
# from the entries (`dict(state)`, a comprehension, `|`) drops it; what copies the object keeps it.


# %%
def has_metadata(state):
    return hasattr(state, "_metadata")


{
    "state_dict()": has_metadata(saved),
    "copy.copy": has_metadata(copy.copy(saved)),
    "copy.deepcopy": has_metadata(copy.deepcopy(saved)),
    "pickle": has_metadata(pickle.loads(pickle.dumps(saved))),
    "saved.copy()": has_metadata(saved.copy()),
    "dict(saved)": has_metadata(dict(saved)),
    "{k: v for …}": has_metadata({k: v for k, v in saved.items()}),
}


# %%
#| claim: the metadata of a state_dict survive copy.copy, deepcopy and pickle, and are lost by its own copy() and by dict()
def _(torch):
    import copy, pickle

    state = torch.nn.Module().state_dict()
    assert dict(state._metadata) == {"": {"version": 1}}
    for kept in (copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert kept._metadata == state._metadata
    for lost in (state.copy(), dict(state)):
        assert not hasattr(lost, "_metadata")


# %% [markdown]
# Pre- and post-hooks see the collection of each module's state. Libraries that shard parameters gather them in the one
# and rename or drop entries in the other. The post-hook exists twice, for a reason told under the bugs.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.register_state_dict_pre_hook
#| upstream: torch/nn/modules/module.py#Module.register_state_dict_post_hook
#| upstream: torch/nn/modules/module.py#Module._register_state_dict_hook
class Module(Module):
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


# %% [markdown]
# ## Why is loading so much longer than saving?
#
# The obvious loop is three lines.


# %%
def load(model, state):
    for name, parameter in model.named_parameters():
        parameter.data = state[name]


net(torch.ones(3)), net(torch.ones(3))
target = Net()
load(target, saved)
saved["first.calls"], target.first.calls

# %% [markdown]
# It is wrong in five ways, of which one shows: buffers are left out, the counter is not the saved one. Entries that no
# parameter asks for are ignored, so a layer that was renamed or dropped goes unnoticed. A shape that does not fit is accepted, and fails
# in some later forward. The model now *shares* its memory with the dictionary. And a float64 checkpoint on the GPU
# would make this a float64 model on the GPU, whatever the user had asked for before.
#
# PyTorch's answer to the last two is to copy the *elements* into the tensors that are there. These keep their identity
# (an optimizer may hold them), their dtype and their device. To the first three the answer is to compare names in both
# directions, and shapes name by name, and to report everything at once.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.load_state_dict
class Module(Module):
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


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#_IncompatibleKeys
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


# %% [markdown]
# `_load_below` is the recursion, in the manner of `state_dict`: each module is asked to load what is its own. The part
# of the dictionary below each child is found by one pass over the keys.


# %%
#| into: nn/modules/module.py
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


# %% [markdown]
# And the work, for one module. It never raises for a fault in the checkpoint. It appends to three lists that belong to
# the call at the root, so that a hundred faults are one message.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._load_from_state_dict
class Module(Module):
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


# %%
#| into: nn/modules/module.py
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


# %%
#| into: nn/modules/module.py
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


# %% [markdown]
# The line that does the work is `copy_`, once per tensor, a hundred and more times per model. Most operators of chapter
# 0 share one general entry point; upstream wrote the autograd side of a few by hand (`VariableTypeManual.cpp`), and
# `copy_` is one of them. So is ours: where nothing is recorded, nobody watches, and both tensors have the same shape and
# dtype, all that is left is to copy the elements and to count the change.

# %%
#| into: csrc/autograd/variable_type_manual.py
#| imports
from __future__ import annotations

from typing import Any

from numpy import copyto, ndarray

from readtorch.aten import record_function
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.dispatch_key import MetaArray, device_of
from readtorch.c10.core.tensor_impl import TensorImpl, version_counter
from readtorch.csrc.autograd.variable import requires_grad
from readtorch.csrc.utils.gates import gates
from readtorch.csrc.utils.python_arg_parser import require
from readtorch.csrc.utils.tensor_new import tensor


# %%
#| into: csrc/autograd/variable_type_manual.py
def init() -> None:
    """Put the hand-written entry points in front of the general ones."""
    general = TensorImpl.copy_  # type: ignore[attr-defined]  # registered as an operator

    def copy_(self: Any, other: Any, non_blocking: bool = False) -> Any:
        """Overwrite the elements with those of `other`, broadcast and converted. Returns self."""
        src = other
        if isinstance(src, TensorImpl) and record_function.observer is None:
            ours, theirs = self._array, src._array
            if (
                ours.__class__ is ndarray is theirs.__class__
                and ours.shape == theirs.shape
                and ours.dtype == theirs.dtype
                and self._meta is None
                and ours.flags.c_contiguous
                and (ours if ours.base is None else ours.base) is not (theirs if theirs.base is None else theirs.base)
                and not (state.grad_mode and (requires_grad(self) or requires_grad(src)))
            ):
                copyto(ours, theirs)
                version_counter(self).bump()
                return self
            if ours.__class__ is MetaArray:
                src = src if theirs.__class__ is MetaArray else src.to("meta")
            elif theirs.__class__ is MetaArray:
                raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if isinstance(src, float | complex | int):
            src = tensor(src, device=device_of(self._array))
        if non_blocking.__class__ is not bool:
            require("copy_", "bool", non_blocking=non_blocking)
        return general(self, src, non_blocking)

    copy_.__qualname__ = "TensorBase.copy_"
    gates.attach(TensorImpl, "copy_", copy_)


# %%
#| into: _C/__init__.py
from readtorch.csrc.autograd import variable_type_manual as _variable_type_manual

_variable_type_manual.init()


# %% tags=["raises-exception"]
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Scale(4)
        self.third = Scale()


Other().load_state_dict(net.state_dict())

# %% [markdown]
# Read the message from the bottom. *Size mismatch*: a name that both know, with different shapes. *Unexpected*: the
# checkpoint knows a name, the model does not. *Missing*: the reverse. `strict=False` silences the two about names, and
# returns them:


# %%
class Wider(Net):
    def __init__(self):
        super().__init__()
        self.extra = Scale()


Wider().load_state_dict(net.state_dict(), strict=False)

# %% [markdown]
# Follow the failing load through the recursion; the three lists are the same objects all the way down.

# %%
#| trace: torch.nn layers=calls values=summary title="load_state_dict with a missing key"
wider = Wider()
try:
    wider.load_state_dict(net.state_dict())
except RuntimeError as error:
    message = str(error)

# %% [markdown]
# What a reader of the message may doubt:


# %%
#| claim: everything that fits is loaded before load_state_dict raises: a model that refused a checkpoint is half loaded
def _(torch):
    def model(width):
        module = torch.nn.Module()
        module.a, module.b = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(width))
        return module

    source, target = model(2), model(3)
    with torch.no_grad():
        source.a.fill_(9)
    try:
        target.load_state_dict(source.state_dict())
    except RuntimeError as error:
        assert "size mismatch for b" in str(error)
    else:
        raise AssertionError("loaded")
    assert target.a.tolist() == [9, 9]


# %%
#| claim: loading copies elements: the Parameter object, its dtype and its requires_grad stay, the checkpoint is not shared
def _(torch):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    held, state = module.weight, {"weight": torch.ones(2, dtype=torch.float64)}
    module.load_state_dict(state)
    assert module.weight is held and held.dtype == torch.float32 and not held.requires_grad
    state["weight"].fill_(5)
    assert held.tolist() == [1, 1]


# %%
#| claim: the message lists missing keys, then unexpected ones, then mismatches, each key in double quotes
def _(torch):
    module = torch.nn.Module()
    module.a, module.b = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    try:
        module.load_state_dict({"a": torch.zeros(3), "c": torch.zeros(1)})
    except RuntimeError as error:
        title, missing, unexpected, mismatch = str(error).split("\n\t")
    assert title == "Error(s) in loading state_dict for Module:"
    assert missing.strip() == 'Missing key(s) in state_dict: "b".'
    assert unexpected.strip() == 'Unexpected key(s) in state_dict: "c".'
    assert mismatch.startswith("size mismatch for a")


# %%
#| claim: a one-element tensor loads where a number is expected, and not the other way round; what is no mapping is a TypeError
def _(torch):
    number, vector = torch.nn.Module(), torch.nn.Module()
    number.value = torch.nn.Parameter(torch.tensor(0.0))
    vector.value = torch.nn.Parameter(torch.zeros(1))
    number.load_state_dict({"value": torch.ones(1)})
    assert number.value == 1
    for work, kind, phrase in (
        (lambda: vector.load_state_dict({"value": torch.tensor(1.0)}), RuntimeError, "size mismatch for value"),
        (lambda: vector.load_state_dict([("value", torch.ones(1))]), TypeError, "Expected state_dict to be dict-like"),
    ):
        try:
            work()
        except kind as error:
            assert phrase in str(error)
        else:
            raise AssertionError(phrase)


# %% [markdown]
# Why is the shape compared at all, if `copy_` is going to check it? Because `copy_` broadcasts. In 0.4 the comparison
# was missing in one place, and a layer with one output channel loaded into one with 32, as 32 copies
# (pytorch/pytorch#8282).
#
# ### `assign=True`: the checkpoint's tensors themselves
#
# Copying needs both models in memory, and a model on `meta` has no memory to copy into. With `assign=True` each tensor
# of the checkpoint *takes the place* of the module's. dtype and device are then the checkpoint's; only `requires_grad`
# is kept. What the in-place copy preserved is lost: an optimizer made before holds tensors that no longer belong to the
# model, and a tied weight is assigned twice. (With the flag of [part 2b](2b_shared_swapped_meta.py#swap_tensors) the objects are exchanged instead, and
# both survive.)


# %%
#| claim: loading with assign=True replaces the Parameter objects, takes over the checkpoint's dtype, keeps requires_grad, and unties tied weights
def _(torch):
    nn = torch.nn
    model = nn.Module()
    model.a, model.b = nn.Module(), nn.Module()
    model.a.weight = model.b.weight = nn.Parameter(torch.zeros(2), requires_grad=False)
    held = model.a.weight
    model.load_state_dict({name: torch.ones(2, dtype=torch.float64) for name in ("a.weight", "b.weight")}, assign=True)
    assert model.a.weight is not held and model.a.weight.dtype == torch.float64
    assert isinstance(model.a.weight, nn.Parameter) and not model.a.weight.requires_grad
    assert model.a.weight is not model.b.weight


# %%
#| claim: loading values into a module on meta without assign=True changes nothing, and warns once per tensor
def _(torch):
    import warnings

    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.empty(2, device="meta"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = module.load_state_dict({"weight": torch.ones(2)})
    assert str(report) == "<All keys matched successfully>" and module.weight.is_meta
    assert len(caught) == 1 and "`assign=True`" in str(caught[0].message)


# %% [markdown]
# ## How does an old checkpoint load into new code?
#
# > [!NOTE]
# > **Often told otherwise.** "When loading from a checkpoint, compatibility is handled automatically." Nothing is.
# > There is a *place* for it: a class that changes the layout of its state raises its `_version`, and overrides
# > `_load_from_state_dict` to bring entries of older versions into the new form before the copying starts.
#
# Say that `Scale` used to call its weight `gamma`, and that version 2 also counts its calls.


# %%
class Scale2(nn.Module):
    _version = 2

    def __init__(self, width=3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x * self.weight

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        version = local_metadata.get("version")
        if version is None or version < 2:
            if f"{prefix}gamma" in state_dict:
                state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}gamma")
            state_dict.setdefault(f"{prefix}calls", self.calls)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class Holder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner


old = OrderedDict({"inner.gamma": torch.full((3,), 7.0)})
old._metadata = OrderedDict({"": {"version": 1}, "inner": {"version": 1}})
new = Holder(Scale2())
new.load_state_dict(old), new.inner.weight

# %% [markdown]
# Three details of the machinery make this possible. `state_dict` is a private copy, so it may be edited. The edit
# happens before the names are compared, so the renamed key is neither missing nor unexpected. And the version is looked
# up *by path*, so that two modules of one model may have been written by different versions.
#
# "Version missing" has to mean "old", as above, since a plain dictionary has none. The price is that a new checkpoint
# that went through `dict(…)` is treated as an old one. BatchNorm, whose version 2 added `num_batches_tracked`, shows
# both sides:


# %%
#| needs: 03_norm
#| claim: BatchNorm supplies num_batches_tracked for a checkpoint of version 1 or without metadata, and misses it in one of version 2
#| source: pytorch/pytorch#8481
def _(torch):
    norm = torch.nn.BatchNorm1d(2)
    state = norm.state_dict()
    del state["num_batches_tracked"]
    norm.load_state_dict(dict(state))
    state._metadata[""]["version"] = 1
    norm.load_state_dict(state)
    state._metadata[""]["version"] = 2
    try:
        norm.load_state_dict(state)
    except RuntimeError as error:
        assert 'Missing key(s) in state_dict: "num_batches_tracked"' in str(error)
    else:
        raise AssertionError("loaded")


# %% [markdown]
# For code that does not own the class there are hooks: before a module loads, with the same arguments that
# `_load_from_state_dict` gets, and after it and everything below it has loaded, with the two lists of names.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.register_load_state_dict_pre_hook
#| upstream: torch/nn/modules/module.py#Module._register_load_state_dict_pre_hook
#| upstream: torch/nn/modules/module.py#Module.register_load_state_dict_post_hook
class Module(Module):
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


# %%
#| claim: a load post-hook that empties missing_keys makes a strict load succeed; returning a value is an AssertionError
def _(torch):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.zeros(1))
    forgiving = module.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    module.load_state_dict({})
    forgiving.remove()
    module.register_load_state_dict_post_hook(lambda module, keys: keys)
    try:
        module.load_state_dict({"weight": torch.zeros(1)})
    except AssertionError as error:
        assert "not expected to return" in str(error)
    else:
        raise RuntimeError("accepted")


# %% [markdown]
# ## State that is no tensor
#
# A tokenizer's vocabulary, a schedule's position: `get_extra_state` may return anything that can be pickled, and it
# travels under the key `_extra_state`. The base class defines both methods and only ever compares *identity*: a
# subclass has extra state if its method is not `Module`'s.


# %%
class Vocabulary(nn.Module):
    def __init__(self, words=()):
        super().__init__()
        self.words = list(words)

    def get_extra_state(self):
        return self.words

    def set_extra_state(self, state):
        self.words = state


reader = Holder(Vocabulary())
reader.load_state_dict(Holder(Vocabulary(["to", "be"])).state_dict()), reader.inner.words


# %%
#| claim: a class with get_extra_state and no set_extra_state refuses its own checkpoint: the key is unexpected
def _(torch):
    class HalfDone(torch.nn.Module):
        def get_extra_state(self):
            return 1

    try:
        HalfDone().load_state_dict(HalfDone().state_dict())
    except RuntimeError as error:
        assert 'Unexpected key(s) in state_dict: "_extra_state"' in str(error)
    else:
        raise AssertionError("loaded")


# %% [markdown]
# ## Copies in memory
#
# `copy.deepcopy` and `pickle` go through the same pair of methods. Upstream had to learn to read its own old pickles,
# which lack the tables that were added since; with the list of tables at hand that is one loop.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.__getstate__
#| upstream: torch/nn/modules/module.py#Module.__setstate__
class Module(Module):
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


# %% [markdown]
# What a deep copy takes along: parameters (as leaves, shared among themselves as before), buffers, plain attributes,
# and hooks. What it leaves behind: gradients. Hooks that were registered with their module get the *copy* as module.

# %%
original = Scale()
original.weight.sum().backward()
seen = []
original.register_forward_hook(lambda module, args, output: seen.append(module is original))
twin = copy.deepcopy(original)
twin(torch.ones(3))
twin.weight.grad, seen


# %%
#| claim: deepcopy of a module drops gradients, keeps tied parameters tied among themselves, and copies hooks, which get the copy
def _(torch):
    import copy

    nn = torch.nn
    model = nn.Module()
    model.a, model.b = nn.Module(), nn.Module()
    model.a.weight = model.b.weight = nn.Parameter(torch.ones(1))
    model.a.weight.sum().backward()
    model.a.forward = lambda: 0
    seen = []
    model.a.register_forward_hook(lambda module, args, output: seen.append(module))
    twin = copy.deepcopy(model)
    assert twin.a.weight is twin.b.weight is not model.a.weight and twin.a.weight.grad is None
    twin.a()
    assert seen == [twin.a]


# %% [markdown]
# A third kind of copy is made on every forward of `DataParallel`: a *replica* per device, shallow, whose parameters are
# computed from the original's and are therefore no leaves and not in any table. It belongs to chapter 6; the method is
# here because `Module` defines it.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._replicate_for_data_parallel
class Module(Module):
    def _replicate_for_data_parallel(self) -> Self:
        """A shallow copy that shares everything but the tables of children and buffers, and owns no parameters."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica.__dict__.update(
            _parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True
        )
        return replica


# %% [markdown]
# ## What upstream does more
#
# * One thing ours does and 2.13 does not: with `assign=True` the flag is put into a *copy* of the metadata (first bug
#   below).
# * `Module` has no method `save`. In Python one writes `torch.save(model.state_dict(), file)`. In C++ there is a
#   method, `torch::nn::Module::save(OutputArchive&)`, and its file is a TorchScript archive, not what `torch.save`
#   writes.


# %%
#| fact: torch/csrc/api/include/torch/nn/module.h#torch::nn::Module::save
#| fact: torch/csrc/api/include/torch/serialize/output-archive.h#torch::serialize::OutputArchive
#| fact: torch/nn/modules/batchnorm.py#_NormBase._load_from_state_dict


# %%
#| claim: a Module has neither save nor load
def _(torch):
    assert not hasattr(torch.nn.Module, "save") and not hasattr(torch.nn.Module, "load")


# %% [markdown]
# ## Bugs you can now explain
#
# **“load_state_dict(assign=True) mutates the caller's state_dict._metadata”** (pytorch/pytorch#188166, open in 2.13).
# Load a checkpoint into one model with `assign=True` and into a second one without: the second one *also* takes over
# the tensors, and the two models share their weights from then on. The flag travels to `_load_from_state_dict` inside
# `local_metadata`, which is the dictionary that hangs on the caller's checkpoint, and stays there, even in a file.
# `_load_below` makes a copy and removes what it finds.


# %%
#| claim: after a load with assign=True, a default load of the same checkpoint copies into the existing Parameter
#| differs: PyTorch 2.13 leaves the flag in the checkpoint's metadata, and the second load assigns too
#| source: pytorch/pytorch#188166
def _(torch):
    def model():
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(torch.zeros(1))
        return module

    state = model().state_dict()
    model().load_state_dict(state, assign=True)
    second = model()
    held = second.weight
    second.load_state_dict(state)
    assert second.weight is held


# %% [markdown]
# **“Add ability to return a copy to Module's state_dict member function.”** (pytorch/pytorch#34765.) `best =
# model.state_dict()` in the epoch with the best loss, and at the end `best` holds the last epoch. The aliases above.
# `copy.deepcopy(model.state_dict())` keeps the values and, as the table above shows, the metadata; `{k: v.clone() …}`
# loses it. (PyTorch's own transfer-learning tutorial had this bug: pytorch/tutorials#188.)


# %%
#| claim: a kept state_dict follows the training, a deep copy of it does not
#| source: pytorch/pytorch#34765
def _(torch):
    import copy

    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(1))
    best, safe = model.state_dict(), copy.deepcopy(model.state_dict())
    with torch.no_grad():
        model.weight.add_(1)
    assert best["weight"] == 1 and safe["weight"] == 0


# %% [markdown]
# **“loading state dict with mismatching shapes error”** (pytorch/pytorch#154597; asked for as a feature in #40859).
# `strict=False` and still "size mismatch". `strict` is about *names*; the errors about shapes are in another list,
# which is raised in either case. Skipping them would mean that the copy in place has nowhere to go. The exercise below
# does what people want.
#
# **“`load_state_dict()` fails to handle unexpected keys whose prefix matches a valid key”** (pytorch/pytorch#123510). A
# checkpoint with `fc1.weight` and `fc1.weight.bad_key` loaded without complaint: a key was judged by its first step
# only. `_unknown_keys` looks at whether there is a second one.


# %%
#| claim: a key below the name of a parameter is unexpected
#| source: pytorch/pytorch#123510
def _(torch):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.zeros(1))
    report = module.load_state_dict({"weight": torch.ones(1), "weight.bad": torch.ones(1)}, strict=False)
    assert report.unexpected_keys == ["weight.bad"]


# %% [markdown]
# **“_register_state_dict_hook docstring is not accurate?”** (pytorch/pytorch#117437). The private post-hook may return
# a new dictionary. On the module where `state_dict()` was called that works; on a child it has no effect, since the
# parent goes on with its own `destination`. It could not be repaired without changing results for those who rely on it,
# so there is a second, public hook that must return `None`.


# %%
#| claim: what a private state_dict hook returns replaces the result at the root and is ignored below it
#| source: pytorch/pytorch#117437
def _(torch):
    child, root = torch.nn.Module(), torch.nn.Module()
    child.weight = torch.nn.Parameter(torch.zeros(1))
    root.child = child
    child._register_state_dict_hook(lambda module, state, prefix, metadata: {"replaced": 1})
    assert list(child.state_dict()) == ["replaced"]
    assert list(root.state_dict()) == ["child.weight"]
    root.register_state_dict_post_hook(lambda module, state, prefix, metadata: state)
    try:
        root.state_dict()
    except RuntimeError as error:
        assert "must return None" in str(error)
    else:
        raise AssertionError("accepted")


# %% [markdown]
# **“Problem about using "deepcopy(model)"”** (pytorch/pytorch#54580). A model keeps an activation (`self.last = x`) and
# cannot be copied any more. A deep copy of a tensor with history would have to copy the history, to which other tensors
# belong; so it is refused. Keep `x.detach()`.


# %%
#| claim: a module that holds a tensor with history cannot be deep-copied
#| source: pytorch/pytorch#54580
def _(torch):
    import copy

    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(1))
    module.last = module.weight * 2
    try:
        copy.deepcopy(module)
    except RuntimeError as error:
        assert "deepcopy" in str(error) or "deep copy" in str(error)
    else:
        raise AssertionError("copied")
    module.last = module.last.detach()
    copy.deepcopy(module)


# %% [markdown]
# ## Exercises
#
# **What fits.** Write `load_fitting(model, state)`: load every entry of `state` whose name exists in the model with the
# same shape, leave the rest of the model alone, and return the names that were skipped, in the order of `state`.
# Versions and extra state must still reach the modules.


# %%
#| exercise: load_fitting
def load_fitting(model: nn.Module, state: dict) -> list[str]:
    raise NotImplementedError


# %%
#| solution: load_fitting
def load_fitting(model: nn.Module, state: dict) -> list[str]:
    def shape(entry):
        return getattr(entry, "shape", None)  # extra state need not be a tensor

    own = model.state_dict()
    skipped = [name for name, entry in state.items() if name not in own or shape(own[name]) != shape(entry)]
    fitting = copy.copy(state)  # and not {…}: the copy keeps _metadata
    for name in skipped:
        del fitting[name]
    model.load_state_dict(fitting, strict=False)
    return skipped


# %%
#| check: load_fitting
source, target = Net(), Net()
with torch.no_grad():
    source.bias.fill_(3)
state = source.state_dict()
state["first.weight"], state["head.weight"] = torch.zeros(9), torch.zeros(1)
assert load_fitting(target, state) == ["first.weight", "head.weight"]
assert target.bias.tolist() == [3.0] * 3 and target.first.weight.tolist() == [1.0] * 3
assert "head.weight" in state
versions = []


class Asks(nn.Module):
    _version = 4

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        versions.append(local_metadata.get("version"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


load_fitting(Holder(Asks()), Holder(Asks()).state_dict())
assert versions == [4]


class Keeps(nn.Module):
    told = "nothing"

    def get_extra_state(self):
        return {"epoch": 3}

    def set_extra_state(self, state):
        self.told = state


keeper = Keeps()
assert load_fitting(keeper, Keeps().state_dict()) == [] and keeper.told == {"epoch": 3}

# %% [markdown]
# **A split layer.** Version 1 of `Pair` had one weight of width 6; version 2 has `left` and `right` of width 3 each.
# Write the loading of old checkpoints.


# %%
#| exercise: Pair
class Pair(nn.Module):
    _version = 2

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))


# %%
#| solution: Pair
class Pair(nn.Module):
    _version = 2

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if local_metadata.get("version", 1) < 2 and prefix + "weight" in state_dict:
            whole = state_dict.pop(prefix + "weight")
            state_dict[prefix + "left"], state_dict[prefix + "right"] = whole[:3], whole[3:]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


# %%
#| check: Pair
pair = Holder(Pair())
assert repr(pair.load_state_dict({"inner.weight": torch.arange(6.0)})) == "<All keys matched successfully>"
assert pair.inner.left.tolist() == [0.0, 1.0, 2.0] and pair.inner.right.tolist() == [3.0, 4.0, 5.0]
again = Holder(Pair())
again.load_state_dict(pair.state_dict())
assert again.inner.right.tolist() == [3.0, 4.0, 5.0]
