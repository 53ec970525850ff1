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
# # One call of model(x)

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.module import Module
from readtorch.utils.hooks import BackwardHook

live()


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#_forward_unimplemented
#| upstream: torch/nn/modules/module.py#Module.forward
#| at: after _HOOK_TABLES
def _forward_unimplemented(self: Module, *input: Any) -> None:
    """Compute the output. Every subclass defines it; callers call the module, not this."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


# %%
#| into: nn/modules/module.py
class Module(Module):
    #: A value and not a method: subclasses give `forward` whatever arguments they like, and a type checker that saw a
    #: method here would hold each of them to its signature.
    forward: Callable[..., Any] = _forward_unimplemented


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._call_impl
#| upstream: torch/nn/modules/module.py#Module._wrapped_call_impl
#| upstream: torch/nn/modules/module.py#Module.__call__
class Module(Module):
    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_pre_hooks
            or self._forward_hooks
            or self._backward_pre_hooks
            or self._backward_hooks
            or _global_forward_pre_hooks
            or _global_forward_hooks
            or _global_backward_pre_hooks
            or _global_backward_hooks
        ):
            return self.forward(*args, **kwargs)
        return _HookedCall(self, args, kwargs).run()

    __call__: Callable[..., Any] = _wrapped_call_impl


# %%
#| into: nn/modules/module.py
_global_forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_is_full_backward_hook: bool | None = None

# %% [markdown]
# ## The hooked call


# %%
#| into: nn/modules/module.py
class _HookedCall:
    """One call of a module that has hooks. Holds what the hooks may replace on the way: arguments and result."""

    __slots__ = ("args", "finished", "kwargs", "module", "result")

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.finished: set[int] = set()

    def run(self) -> Any:
        try:
            return self.run_in_order()
        except Exception:
            self.run_always_called()
            raise

    def run_in_order(self) -> Any:
        module = self.module
        self.run_pre_hooks()
        full_hooks, old_hooks = _backward_hooks_of(module)
        pre_hooks = [*_global_backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        around = BackwardHook(module, full_hooks, pre_hooks) if full_hooks or pre_hooks else None
        if around is not None:
            self.args = around.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        self.run_forward_hooks()
        if around is not None:
            if not isinstance(self.result, Tensor | tuple):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                    f"but received {type(self.result)}",
                    stacklevel=5,
                )
            self.result = around.setup_output_hook(self.result)
        if old_hooks:
            _attach_non_full_backward_hooks(module, old_hooks, self.args, self.result)
        return self.result


# %%
#| into: nn/modules/module.py
class _HookedCall(_HookedCall):
    def run_pre_hooks(self) -> None:
        module = self.module
        for identity, hook in [*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()]:
            if identity in module._forward_pre_hooks_with_kwargs:
                replaced = hook(module, self.args, self.kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                    )
                self.args, self.kwargs = replaced
            else:
                replaced = hook(module, self.args)
                if replaced is not None:
                    self.args = replaced if isinstance(replaced, tuple) else (replaced,)


# %%
#| into: nn/modules/module.py
class _HookedCall(_HookedCall):
    def run_forward_hooks(self) -> None:
        for identity, hook in [*_global_forward_hooks.items(), *self.module._forward_hooks.items()]:
            self.finished.add(identity)
            self.run_forward_hook(identity, hook)

    def run_forward_hook(self, identity: int, hook: Callable[..., Any]) -> None:
        module = self.module
        if identity in module._forward_hooks_with_kwargs or identity in _global_forward_hooks_with_kwargs:
            replaced = hook(module, self.args, self.kwargs, self.result)
        else:
            replaced = hook(module, self.args, self.result)
        if replaced is not None:
            self.result = replaced

    def run_always_called(self) -> None:
        """After an exception: run the `always_call` forward hooks that have not run. Their own exceptions become warnings."""
        own = self.module._forward_hooks_always_called
        for identity, hook in [*_global_forward_hooks.items(), *self.module._forward_hooks.items()]:
            wanted = identity in own or identity in _global_forward_hooks_always_called
            if not wanted or identity in self.finished:
                continue
            try:
                self.run_forward_hook(identity, hook)
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was silenced as another error "
                    f"was raised in forward: {error}",
                    stacklevel=6,
                )


# %% [markdown]
# ## Registering


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.register_forward_pre_hook
#| upstream: torch/nn/modules/module.py#Module.register_forward_hook
class Module(Module):
    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns, if not None, replaces the positional arguments.

        With `with_kwargs` it is called as `hook(module, args, kwargs)` and returns None or `(args, kwargs)`. Hooks run in
        the order of registration, a prepended one first, all of them after the global ones.
        """
        flags = ((self._forward_pre_hooks_with_kwargs, with_kwargs),)
        return _file_hook(hook, self._forward_pre_hooks, prepend=prepend, flags=flags)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after `forward`; what it returns, if not None, replaces the output.

        With `with_kwargs` it is called as `hook(module, args, kwargs, output)`. With `always_call` it also runs when
        `forward` or another hook raises, with the output there is by then (None before `forward` has returned).
        """
        flags = (
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call),
        )
        return _file_hook(hook, self._forward_hooks, prepend=prepend, flags=flags)


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#register_module_forward_pre_hook
#| upstream: torch/nn/modules/module.py#register_module_forward_hook
def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the `forward` of every module there is, ahead of the module's own hooks."""
    return _file_hook(hook, _global_forward_pre_hooks)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the `forward` of every module there is, ahead of the module's own hooks."""
    flags = (
        (_global_forward_hooks_with_kwargs, with_kwargs),
        (_global_forward_hooks_always_called, always_call),
    )
    return _file_hook(hook, _global_forward_hooks, flags=flags)


# %%
#| into: utils/hooks.py
#| imports
from __future__ import annotations

import warnings
from typing import Any


# %%
#| into: utils/hooks.py
#| upstream: torch/utils/hooks.py#BackwardHook
class BackwardHook:
    """The backward hooks of one call of a module: two identity nodes, one behind its inputs, one behind its outputs.

    `setup_input_hook(args)` and `setup_output_hook(result)` pass the tensors through an identity function and return what
    the module is to work on, and what its caller is to get. In backward the output's node is reached first and keeps the
    gradients; when the input's node is reached, both sides are known and the user's hooks run.
    """

    def __init__(self, module: Any, user_hooks: list[Any], user_pre_hooks: list[Any]) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.n_inputs = -1
        self.input_tensors_index: tuple[int, ...] | None = None
        self.n_outputs = -1
        self.output_tensors_index: tuple[int, ...] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.n_inputs = len(args)
        passed, self.input_tensors_index, node = _behind_one_node(args)
        if node is not None:
            node.register_hook(self._inputs_reached)
        return passed

    def setup_output_hook(self, result: Any) -> Any:
        results = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(results)
        passed, self.output_tensors_index, node = _behind_one_node(results)
        if node is not None:
            node.register_hook(self._outputs_reached)
        return passed if isinstance(result, tuple) else passed[0]


# %%
#| into: utils/hooks.py
def _behind_one_node(values: tuple[Any, ...]) -> tuple[Any, tuple[int, ...] | None, Any]:
    """Pass the tensors among `values` through one identity node.

    Returns the values with the tensors replaced, the places of the tensors, and the node; or the values as they are and
    twice None if no gradient would ever reach them.
    """
    from readtorch import Tensor, is_grad_enabled

    places = tuple(place for place, value in enumerate(values) if isinstance(value, Tensor))
    tensors = [values[place] for place in places]
    if not (is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return values, None, None
    from readtorch.nn.modules._functions import BackwardHookFunction

    passed = list(values)
    node = None
    for place, tensor in zip(places, BackwardHookFunction.apply(*tensors), strict=True):
        passed[place] = tensor
        node = node or tensor.grad_fn
    return tuple(passed) if type(values) is tuple else type(values)(*passed), places, node


def _spread(places: tuple[int, ...], gradients: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    """A tuple of `size` entries that holds `gradients` at `places` and None elsewhere."""
    spread = [None] * size
    for place, gradient in zip(places, gradients, strict=True):
        spread[place] = gradient
    return tuple(spread)


# %%
#| into: nn/modules/_functions.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch._tensor import Tensor
from readtorch.autograd.function import Function


# %%
#| into: nn/modules/_functions.py
#| upstream: torch/nn/modules/_functions.py#BackwardHookFunction
class BackwardHookFunction(Function):
    """The identity, for its node's sake: `apply(*tensors)` gives the same tensors, all of them behind one node."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*[tensor for tensor in args if not tensor.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        return args


# %%
#| into: utils/hooks.py
class BackwardHook(BackwardHook):
    def _outputs_reached(self, _: Any, grad_outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The hook on the output's node: pre-hooks run, and the gradients are kept for the input's node."""
        places = self.output_tensors_index
        assert places is not None
        grads = _spread(places, grad_outputs, self.n_outputs)
        for hook in self.user_pre_hooks:
            replaced = hook(self.module, grads)
            if replaced is not None:
                _check_count("Backward pre hook", "grad_output", replaced, grads)
                grads = replaced
        if self.input_tensors_index is None:
            self._run_without_inputs(grads)
        else:
            self.grad_outputs = grads
        return tuple(grads[place] for place in places)

    def _inputs_reached(self, grad_inputs: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        """The hook on the input's node: the user's hooks see both sides."""
        if self.grad_outputs is None:
            #: Reached without passing the output, as in a double backward.
            return None
        places = self.input_tensors_index
        assert places is not None
        grads = _spread(places, grad_inputs, self.n_inputs)
        for hook in self.user_hooks:
            replaced = hook(self.module, grads, self.grad_outputs)
            if replaced is not None:
                _check_count("Backward hook", "grad_input", replaced, grads)
                grads = replaced
        self.grad_outputs = None
        return tuple(grads[place] for place in places)

    def _run_without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        """No input requires a gradient, so no input node will be reached: the user's hooks run at the output."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients: grad_input holds None only",
            stacklevel=5,
        )
        grad_inputs = (None,) * self.n_inputs
        for hook in self.user_hooks:
            replaced = hook(self.module, grad_inputs, grad_outputs)
            if replaced is not None and not (isinstance(replaced, tuple) and all(grad is None for grad in replaced)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for all "
                    f"gradients, got {replaced!r}"
                )


# %%
#| into: utils/hooks.py
def _check_count(who: str, what: str, got: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    if len(got) != len(expected):
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(got)}, but expected {len(expected)}")


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.register_full_backward_pre_hook
#| upstream: torch/nn/modules/module.py#Module.register_full_backward_hook
#| upstream: torch/nn/modules/module.py#Module.register_backward_hook
class Module(Module):
    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradient of the output is known.

        What it returns, if not None, replaces `grad_output`. Entries are None for outputs that are no tensors.
        """
        return _file_hook(hook, self._backward_pre_hooks, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the positional inputs are known.

        What it returns, if not None, replaces `grad_input`. Entries are None for what is no tensor. If no input requires
        a gradient, it runs when the output's is known. Inputs and outputs may not be changed in place: the module works
        on views of them. Raises RuntimeError if the module has a hook made by `register_backward_hook`.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_mixed_backward_hooks("a single Module"))
        self._is_full_backward_hook = True
        return _file_hook(hook, self._backward_hooks, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated: `hook` is put on the node that made the output, so `grad_input` is that node's, not the module's.

        Raises RuntimeError if the module has a hook made by `register_full_backward_hook`.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(_mixed_backward_hooks("a single Module"))
        self._is_full_backward_hook = False
        return _file_hook(hook, self._backward_hooks)


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#register_module_full_backward_pre_hook
#| upstream: torch/nn/modules/module.py#register_module_full_backward_hook
#| upstream: torch/nn/modules/module.py#register_module_backward_hook
def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` for every module there is, ahead of the module's own hooks."""
    return _file_hook(hook, _global_backward_pre_hooks)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` for every module there is, ahead of the module's own hooks."""
    return _file_global_backward_hook(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated: what `Module.register_backward_hook` does, for every module there is."""
    return _file_global_backward_hook(hook, full=False)


def _file_global_backward_hook(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is not None and _global_is_full_backward_hook != full:
        raise RuntimeError(_mixed_backward_hooks("a global Module hook"))
    _global_is_full_backward_hook = full
    return _file_hook(hook, _global_backward_hooks)


def _mixed_backward_hooks(where: str) -> str:
    return (
        f"Cannot use both regular backward hooks and full backward hooks on {where}. Please use only one of them: "
        "register_full_backward_hook"
    )


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._get_backward_hooks
def _backward_hooks_of(module: Module) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """The full and the non-full backward hooks that concern `module`, the global ones first."""
    full: list[Callable[..., Any]] = []
    non_full: list[Callable[..., Any]] = []
    for is_full, hooks in (
        (_global_is_full_backward_hook, _global_backward_hooks),
        (module._is_full_backward_hook, module._backward_hooks),
    ):
        (full if is_full else non_full).extend(hooks.values())
    return full, non_full


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._maybe_warn_non_full_backward_hook
def _attach_non_full_backward_hooks(module: Module, hooks: list[Callable[..., Any]], args: Any, result: Any) -> None:
    """Put `hooks` on the node that made the first tensor of `result`, and warn where that is not what they promise."""
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_WrappedHook(hook, module))
    reason = _what_a_non_full_hook_misses(args, result, node)
    if reason:
        warnings.warn(
            f"Using a non-full backward hook when {reason}. Please use register_full_backward_hook",
            FutureWarning,
            stacklevel=6,
        )


def _what_a_non_full_hook_misses(args: Any, result: Any, node: Any) -> str | None:
    """Why a hook on `node` does not see the gradients of `args` and `result`; None if it does."""
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(value, Tensor) for value in results):
        return "the output is not a Tensor or a tuple of Tensors is deprecated: it will miss some of grad_output"
    if not all(isinstance(value, Tensor) for value in args):
        return "the input is not a Tensor or a tuple of Tensors is deprecated: it will miss some of grad_input"
    makers = {value.grad_fn for value in results if value.grad_fn is not None}
    if len(makers) > 1:
        return "outputs are generated by different autograd Nodes is deprecated: it will miss some of grad_output"
    if node not in makers:
        return "outputs are nested in python data structure is deprecated: it will miss some of grad_output"
    before = {value.grad_fn for value in args if value.grad_fn is not None}
    if before != {following for following, _ in node.next_functions}:
        return "the forward contains multiple autograd Nodes is deprecated: it will miss some of grad_input"
    return None


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#_WrappedHook
class _WrappedHook:
    """A hook that is handed its module first, without keeping it alive; copied and pickled with it."""

    def __init__(self, hook: Callable[..., Any], module: Module | None = None) -> None:
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.compile
class Module(Module):
    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From now on let calls of this module go through `torch.compile(self._call_impl, *args, **kwargs)`."""
        from readtorch import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)
