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
# # state_dict, and the way back

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.module import Module

live()


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._save_to_state_dict
#| upstream: torch/nn/modules/module.py#Module.get_extra_state
#| upstream: torch/nn/modules/module.py#Module.set_extra_state
class Module(Module):
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Write this module's own parameters and persistent buffers into `destination`; its children do the same."""
        transient = self._non_persistent_buffers_set
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in transient:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """State that is no tensor, for the checkpoint. A class that defines this also defines `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: get_extra_state() is for subclasses to define")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave when the checkpoint was made."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: set_extra_state() is for subclasses to define")


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
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return _file_hook(hook, self._state_dict_hooks)


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
        own = _saved_members(self)
        assign = local_metadata.get("assign_to_params_buffers", False)
        with no_grad():
            for name, tensor in own.items():
                key = prefix + name
                if key in state_dict:
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
        if strict:
            unexpected_keys.extend(_unknown_keys(state_dict, prefix, own, self._modules))


# %%
#| into: nn/modules/module.py
def _saved_members(module: Module) -> dict[str, Tensor]:
    """The module's own tensors that a checkpoint holds, by name."""
    transient = module._non_persistent_buffers_set
    parameters = {name: value for name, value in module._parameters.items() if value is not None}
    buffers = {name: v for name, v in module._buffers.items() if v is not None and name not in transient}
    return {**parameters, **buffers}


def _unknown_keys(state_dict: dict[str, Any], prefix: str, own: dict[str, Any], children: dict[str, Any]) -> list[str]:
    """The keys under `prefix` that are neither a member of this module nor below one of its children."""
    unknown = []
    skip = len(prefix)
    for key in state_dict:
        if not key.startswith(prefix):
            continue
        name, dot, _ = key[skip:].partition(".")
        if name not in (children if dot else own) and key != prefix + _EXTRA_STATE_KEY_SUFFIX:
            unknown.append(key)
    return unknown


# %%
#| into: nn/modules/module.py
def _load_member(module: Module, name: str, tensor: Tensor, key: str, given: Any, assign: bool) -> str | None:
    """Put `given` into `tensor`, the member `name` of `module`, or in its place. Returns what stood in the way."""
    if not _is_tensor_like(given):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but '
            f"received {type(given)}"
        )
    lazy = is_lazy(tensor)
    if not lazy:
        if tensor.dim() == 0 and tuple(given.shape) == (1,):
            #: Before 0.4 there were no 0-dimensional tensors; a scalar was saved with one element.
            given = given[0]
        if given.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
    if tensor.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to put the checkpoint's tensors in place?)",
            stacklevel=5,
        )
    try:
        if assign:
            setattr(module, name, _in_place_of(tensor, given))
        else:
            tensor.copy_(given)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.size()} and whose '
            f"dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
        )
    return None


def _in_place_of(tensor: Tensor, given: Tensor) -> Tensor:
    """What is to be assigned where `tensor` stands: `given`, made a parameter if `tensor` is one, equally trainable."""
    if not isinstance(tensor, Parameter):
        return given
    if isinstance(given, Parameter):
        return given.requires_grad_(tensor.requires_grad)
    return Parameter(given, requires_grad=tensor.requires_grad)


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
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    missing, unexpected = report
    module._load_from_state_dict(state_dict, prefix, local_metadata, True, missing, unexpected, errors)
    if module._modules:
        below = _by_child(state_dict, prefix)
        for name, child in module._modules.items():
            if child is not None:
                _load_below(child, below.get(name, {}), f"{prefix}{name}.", metadata, assign, report, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, report) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values: "
                "change incompatible_keys in place"
            )


def _by_child(state_dict: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """The entries below each child, by the child's name: one pass over the keys, however many children there are."""
    below: dict[str, dict[str, Any]] = {}
    skip = len(prefix)
    for key, value in state_dict.items():
        if key.startswith(prefix):
            name, dot, _ = key[skip:].partition(".")
            if dot:
                below.setdefault(name, {})[key] = value
    return below


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
