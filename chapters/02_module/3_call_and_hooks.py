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
# # One call of `model(x)`
#
# A model is called like a function, and a class defines `forward`. Something stands between the two. It is why
# profilers, quantisers, distributed wrappers and interpretability tools can work without changing a model, and nearly
# every question about hooks is answered by knowing the order in which it does things.

# %%
import copy
import timeit
import warnings

import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules import module as module_file
from readtorch.nn.modules.module import Module, _HookedCall
from readtorch.utils.hooks import BackwardHook

live()


# %%
class Scale(nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), factor))

    def forward(self, x):
        return x * self.weight


# %% [markdown]
# ## Why `model(x)` and not `model.forward(x)`?
#
# Because only the first asks whether anyone else wants to be present. Attach a function that is to see each output:

# %%
model, x = Scale(), torch.ones(3)
seen = []
handle = model.register_forward_hook(lambda module, args, output: seen.append(output))
model.forward(x)
after_forward = len(seen)
model(x)
after_forward, len(seen)

# %% [markdown]
# Both calls computed the same; only one was observed. That a hook is missing is the mild case. A pruned layer, or one
# under the old `weight_norm`, recomputes its weight in a forward pre-hook: call `forward` directly and it computes with
# the weight of the last real call. (`parametrize` recomputes in a property and does not care.)
#
# `forward` itself has no implementation. A class that forgets it is told so at the first call.


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


# %% tags=["raises-exception"]
nn.Module()(x)


# %%
#| claim: a module without forward raises NotImplementedError when it is called, and can be made and registered until then
def _(torch):
    class Unfinished(torch.nn.Module):
        pass

    outer = torch.nn.Sequential(Unfinished())
    try:
        outer(torch.ones(1))
    except NotImplementedError as error:
        assert 'Module [Unfinished] is missing the required "forward" function' in str(error)
    else:
        raise AssertionError("ran")


# %% [markdown]
# ## The fast path
#
# Most calls of most modules have no hook at all, and a network makes hundreds of calls per step. So the first thing is
# to find out, as cheaply as Python allows, that there is nothing to do: eight dictionaries, four of the module and four
# global ones, all empty.


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

# %%
handle.remove()
repeat = 20_000
direct = timeit.timeit(lambda: model.forward(x), number=repeat) / repeat * 1e6
called = timeit.timeit(lambda: model(x), number=repeat) / repeat * 1e6
f"forward {direct:.2f} µs, call {called:.2f} µs"

# %% [markdown]
# Two method names for one call look like one too many. `__call__` is found on the class and not on the object (Python
# looks up special methods there), so it cannot be replaced for one module; `_compiled_call_impl` can, and
# `model.compile()` sets it. The rest is in `_call_impl`, so that a compiler is given the call *with* its hooks.
#
# The same rule of Python explains what can be patched on an instance. `self.forward` is an ordinary lookup, so a
# function assigned to `model.forward` is used. It is also a trap: the assigned function has bound whatever model it
# closes over.


# %%
#| claim: an instance can be given another forward, but no other __call__; a deep copy of a patched module still computes with the original's weights
def _(torch):
    import copy

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.weight

    model, x = Scale(), torch.ones(2)
    model.__call__ = lambda x: None
    assert model(x).sum() == 2
    original = model.forward
    model.forward = lambda x: original(x) * 10
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.weight.fill_(0)
    assert copied(x).sum() == 20


# %% [markdown]
# ## The slow path
#
# If any of the eight tables has an entry, the call becomes an object of its own. It has to remember four things that
# hooks may replace or that an exception must not lose: arguments, keyword arguments, the result so far, and which hooks
# have run.


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
                    "For backward hooks to be called, module output should be a Tensor or a tuple of them; "
                    f"this one is {type(self.result)}",
                    stacklevel=5,
                )
            self.result = around.setup_output_hook(self.result)
        if old_hooks:
            _attach_non_full_backward_hooks(module, old_hooks, self.args, self.result)
        return self.result


# %% [markdown]
# `run_in_order` is the walk of this whole part. Its steps:
#
# 1. forward pre-hooks, the global ones, then the module's;
# 2. if a full backward hook or pre-hook exists, the inputs pass through an identity function;
# 3. `forward`;
# 4. forward hooks, the global ones, then the module's;
# 5. the outputs pass through an identity function, if step 2 was taken;
# 6. backward hooks of the old kind are put on the node that made the result.
#
# Steps 2, 5 and 6 do nothing in forward but prepare the ground for backward. First the two that act now.


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
                        f"a forward pre-hook must return None or a tuple of (new_args, new_kwargs); it returned {replaced}."
                    )
                self.args, self.kwargs = replaced
            else:
                replaced = hook(module, self.args)
                if replaced is not None:
                    self.args = replaced if isinstance(replaced, tuple) else (replaced,)


# %% [markdown]
# A pre-hook may replace the arguments. A single value is wrapped for it, so `return x / 255` works; to return *a tuple
# as the one argument* it must be wrapped once more. Hooks are collected into a list before the first one runs, so that
# a hook may remove itself, or register others, without disturbing this call.


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
                    "a forward hook with ``always_call=True`` raised while another error was on its way out of forward, "
                    f"and was silenced: {error}",
                    stacklevel=6,
                )


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
halving = model.register_forward_pre_hook(lambda module, args: args[0] / 2)
naming = model.register_forward_hook(lambda module, args, output: {"scaled": output, "from": args[0]})
replaced = model(x)
halving.remove(), naming.remove()
replaced

# %% [markdown]
# What a forward hook is given as `args` are the arguments *after* the pre-hooks. Keyword arguments are not among them.
# The first hooks of PyTorch had no place for keyword arguments, their signature could not be changed, and so
# `with_kwargs=True` selects another one.


# %%
#| claim: hooks see positional arguments only unless registered with_kwargs; a pre-hook with_kwargs returns a pair or None
def _(torch):
    class Add(torch.nn.Module):
        def forward(self, x, *, bias):
            return x + bias

    add, seen = Add(), []
    add.register_forward_hook(lambda module, args, output: seen.append(len(args)))
    add.register_forward_hook(lambda module, args, kwargs, output: seen.append(sorted(kwargs)), with_kwargs=True)
    add(torch.ones(1), bias=1)
    add(torch.ones(1), bias=1)
    assert seen == [1, ["bias"]] * 2
    with add.register_forward_pre_hook(lambda module, args, kwargs: (args, {"bias": 5}), with_kwargs=True):
        assert add(torch.ones(1), bias=1) == 6
    add.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    try:
        add(torch.ones(1), bias=1)
    except RuntimeError as error:
        assert "must return None or a tuple of" in str(error)
    else:
        raise AssertionError("accepted")


# %% [markdown]
# A hook is registered on one module or, through the functions of the same names in `torch.nn.modules.module`, on all
# modules there are. The global kind turns eight lines into a tracer for any model that anybody wrote:


# %%
class Chain(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        for place, part in enumerate(parts):
            self.add_module(str(place), part)

    def forward(self, x):
        for part in self.children():
            x = part(x)
        return x


depth, lines = 0, []


def enter(module, args):
    global depth
    lines.append("  " * depth + f"{type(module).__name__} ← {tuple(args[0].shape)}")
    depth += 1


def leave(module, args, output):
    global depth
    depth -= 1


with module_file.register_module_forward_pre_hook(enter), module_file.register_module_forward_hook(leave):
    Chain(Scale(), Chain(Scale(), Scale()))(x)
print("\n".join(lines))

# %% [markdown]
# ### When `forward` raises
#
# `leave` above would not run if a layer raised, and `depth` would be wrong for the rest of the session. A hook
# registered with `always_call=True` runs in that case too, with the result that there is, `None` if `forward` did not
# get to one. The exception goes on its way; one that such a hook raises itself is turned into a warning, so that it
# does not hide the first.


# %%
#| claim: an always_call hook runs after an exception in forward, the exception still reaches the caller, other hooks do not run
def _(torch):
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise ValueError("in forward")

    broken, seen = Broken(), []
    broken.register_forward_hook(lambda *_: seen.append("ordinary"))
    broken.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    try:
        broken(1)
    except ValueError as error:
        assert str(error) == "in forward" and seen == [None]
    else:
        raise AssertionError("swallowed")


# %% [markdown]
# ## What did the first backward hooks get wrong?
#
# A hook on the *backward* of a module should see two things: the gradient that arrives at its output, and the gradients
# that it passes on to its inputs. The first implementation, `register_backward_hook`, took what was there. The output
# tensor knows the node that made it, nodes accept hooks, so the hook went onto that node.


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
        if self.with_module:
            args = (self.module(), *args)
            if args[0] is None:
                raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state.get("module")
        if state["with_module"] and module is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        _WrappedHook.__init__(self, state["hook"], module)


# %% [markdown]
# For a module that consists of one operation this is right. Add a second one:


# %%
class Sum3(nn.Module):
    def forward(self, a, b, c):
        return a + b + c


inputs = [torch.ones(1, requires_grad=True) for _ in range(3)]
old = Sum3()
counts = []
old.register_backward_hook(lambda module, grad_input, grad_output: counts.append(len(grad_input)))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    old(*inputs).sum().backward()
counts, [str(w.message).split(".")[0] for w in caught]

# %% [markdown]
# Three inputs, two gradients. The node that made the result is the last addition, with the inputs `a + b` and `c`.
# Python evaluated `a + b` first, its node lies deeper, and the hook never hears of it. What users took for the module's
# gradients were those of its last operation, whatever that happened to be; change `forward` to `c + (a + b)` and the
# order changes with it.
#
# The first thing to be done was to say so: `_what_a_non_full_hook_misses` compares the node with the module's inputs
# and finds out, at call time, whether this module is one of those for which the hook is right.
#
# ## How do full backward hooks see both ends?
#
# What is needed is a node that belongs to the *module's boundary*, one on each side, whatever is computed in between.
# An identity function has one. Pass all inputs through a single identity, all outputs through another, and hook those
# two nodes.
#
# ```mermaid
# flowchart RL
#   L["loss"] --> O["BackwardHookFunctionBackward<br/>(outputs)"]
#   subgraph F["forward, any number of nodes"]
#     A["AddBackward"] --> B["MulBackward"]
#   end
#   O --> A
#   B --> I["BackwardHookFunctionBackward<br/>(inputs)"]
#   I --> P["whatever came before"]
#   B -.-> W["AccumulateGrad (weight)"]
#   O -. "grad_output kept" .-> H["BackwardHook"]
#   I -. "grad_input known: hooks run" .-> H
# ```

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


# %% [markdown]
# The function does nothing. `mark_non_differentiable` keeps integer tensors and those without gradients what they are;
# everything that is returned comes out behind one node. The class that owns the two nodes:


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


# %% [markdown]
# In backward the order is reversed. The output's node is reached first; its gradients are kept (after the *pre*-hooks
# had a chance to replace them). Then everything in between runs. When the input's node is reached, both sides are
# known.


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
            "Full backward hook is firing with gradients of the outputs only, since no inputs "
            "require gradients: grad_input holds None only",
            stacklevel=5,
        )
        grad_inputs = (None,) * self.n_inputs
        for hook in self.user_hooks:
            replaced = hook(self.module, grad_inputs, grad_outputs)
            if replaced is not None and not (isinstance(replaced, tuple) and all(grad is None for grad in replaced)):
                raise RuntimeError(
                    "No input of this module requires gradient, so its backward hook can replace none: return None, not "
                    f"{replaced!r}"
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
full = Sum3()
full.register_full_backward_hook(lambda module, grad_input, grad_output: counts.append(len(grad_input)))
full(*inputs).sum().backward()
counts


# %%
#| claim: one module takes full backward hooks or the old kind, not both, and stays with its kind when the hook is removed
def _(torch):
    module = torch.nn.Module()
    module.register_full_backward_hook(lambda *_: None).remove()
    try:
        module.register_backward_hook(lambda *_: None)
    except RuntimeError as error:
        assert "Cannot use both regular backward hooks and full backward hooks" in str(error)
    else:
        raise AssertionError("took both")


# %% [markdown]
# ## The price of two identities
#
# The boundary has consequences that surprise whoever does not know of it.


# %%
#| claim: with a full backward hook, forward and caller get other tensor objects than they would without
def _(torch):
    class Same(torch.nn.Module):
        def forward(self, x):
            self.inside = x
            return x

    same, x = Same(), torch.ones(1, requires_grad=True)
    assert same(x) is x and same.inside is x
    same.register_full_backward_hook(lambda *_: None)
    out = same(x)
    assert same.inside is not x and out is not same.inside
    assert out.data_ptr() == x.data_ptr()


# %% [markdown]
# *They are views.* The identity returns its input, so what `forward` receives is a view of what the caller passed, and
# what the caller receives is a view of what `forward` returned. Changing such a view in place would have to route
# gradients around the node that is to see them, and autograd refuses.


# %%
#| claim: changing the output of a module with a full backward hook in place is an error
#| source: pytorch/pytorch#61519
def _(torch):
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    double = Double()
    double(torch.ones(1, requires_grad=True)).add_(1)
    double.register_full_backward_hook(lambda *_: None)
    try:
        double(torch.ones(1, requires_grad=True)).add_(1)
    except RuntimeError as error:
        assert "is a view and is being modified inplace" in str(error)
    else:
        raise AssertionError("modified")


# %% [markdown]
# *Only tensors at the top level are seen.* The two functions look at the positional arguments and at the result, or its
# elements if it is a tuple. A tensor in a list, in a dictionary or passed by keyword goes past the boundary: its
# gradient flows as always, and the hook gets `None` in that place, or is not called at all.


# %%
#| claim: a full backward hook gets None for a list argument, nothing for a keyword argument, and is not called for a dict result
def _(torch):
    import warnings

    class Pick(torch.nn.Module):
        def forward(self, xs, scale=None, as_dict=False):
            y = xs[0] * (1 if scale is None else scale)
            return {"y": y} if as_dict else y

    module, seen = Pick(), []
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input))
    x, scale = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module([x], scale=scale).sum().backward()
        assert seen == [(None,)] and x.grad == 1 and scale.grad == 1
        module(x[None], scale=scale).sum().backward()
        assert len(seen[-1]) == 1 and seen[-1][0] is not None
        module([x], as_dict=True)["y"].sum().backward()
    assert len(seen) == 2


# %% [markdown]
# *Without a gradient there is no node.* The first layer of a network gets data, which requires no gradient.
# `_behind_one_node` then leaves the inputs alone, the input's node will never be reached, and the hooks run at the
# output instead, with `None` for all inputs and a warning.


# %%
#| claim: if no input requires a gradient, a full backward hook runs at the output, with None for the inputs, and warns
#| source: pytorch/pytorch#56380
def _(torch):
    import warnings

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return x * self.weight

    first, seen = First(), []
    first.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first(torch.ones(1)).backward()
    assert seen == [((None,), (torch.ones(1),))]
    assert [w.category for w in caught] == [UserWarning]


# %% [markdown]
# ## One call, with every hook
#
# Here is a module with a hook of each kind, global and its own, that only writes down its name. The list that comes out
# is the order, and the next cell holds PyTorch to the same order of hooks.


# %%
def with_every_hook(torch, log):
    """A module whose hooks of all kinds write their names into `log`, and the handles of the global ones."""
    named = torch.nn.modules.module

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.weight.register_hook(lambda grad: log.append("weight's gradient"))

        def forward(self, x):
            log.append("forward")
            return x * self.weight

    layer = Layer()

    def note(name):
        return lambda *_: log.append(name)

    layer.register_forward_pre_hook(note("forward pre"))
    layer.register_forward_hook(note("forward hook"))
    layer.register_forward_hook(note("forward hook, prepended"), prepend=True)
    layer.register_full_backward_pre_hook(note("backward pre"))
    layer.register_full_backward_hook(note("backward hook"))
    handles = [
        named.register_module_forward_pre_hook(note("global forward pre")),
        named.register_module_forward_hook(note("global forward hook")),
        named.register_module_full_backward_pre_hook(note("global backward pre")),
        named.register_module_full_backward_hook(note("global backward hook")),
    ]
    return layer, handles


log = []
layer, handles = with_every_hook(torch, log)
layer(torch.ones(2, requires_grad=True)).sum().backward()
for handle in handles:
    handle.remove()
for number, name in enumerate(log, 1):
    print(f"{number:2} {name}")


# %%
#| claim: global hooks run before the module's own, prepended before the others, and the weight's gradient is complete when the full backward hook runs
def _(torch):
    named, log = torch.nn.modules.module, []

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            log.append("forward")
            return x * self.weight

    layer = Layer()

    def note(name):
        return lambda *_: log.append(name)

    layer.register_forward_pre_hook(note("pre"))
    layer.register_forward_hook(note("hook"))
    layer.register_forward_hook(note("prepended"), prepend=True)
    layer.register_full_backward_pre_hook(note("backward pre"))
    layer.register_full_backward_hook(lambda *_: log.append(("backward", layer.weight.grad.sum().item())))
    handles = [
        named.register_module_forward_pre_hook(note("global pre")),
        named.register_module_forward_hook(note("global hook")),
        named.register_module_full_backward_pre_hook(note("global backward pre")),
        named.register_module_full_backward_hook(note("global backward")),
    ]
    try:
        layer(torch.ones(2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert log == [
        "global pre",
        "pre",
        "forward",
        "global hook",
        "prepended",
        "hook",
        "global backward pre",
        "backward pre",
        "global backward",
        ("backward", 2.0),
    ]


# %% [markdown]
# The last entry is worth keeping in mind. When the full backward hook of a layer runs, the layer's own parameters
# usually have their gradients: the engine takes `AccumulateGrad` nodes before all others (chapter 0), and the input's
# node comes after everything in the layer. "Usually", because a parameter that is used elsewhere too is not finished.
#
# The same as a trace. Step over the two `BackwardHookFunction`s in forward, then into their nodes in backward.

# %%
#| trace: torch.nn torch.utils layers=calls,ops,autograd values=summary title="one call with every hook, and its backward"
layer, handles = with_every_hook(torch, [])
loss = layer(torch.ones(2, requires_grad=True)).sum()
loss.backward()
for handle in handles:
    handle.remove()

# %% [markdown]
# ## Compiling a call
#
# The entry at the very top of the walk. `torch.compile` is given the bound `_call_impl`, so what it compiles includes
# the hooks that exist at that time. readtorch has no compiler; its `torch.compile` gives back what it is given, so that
# scripts run.


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#compile
def compile(
    model: _Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: _Any = "inductor",
    mode: str | None = None,
    options: dict | None = None,
    disable: bool = False,
) -> _Any:
    """Give back `model`, a module or function, as it is; without one, the decorator that does so. There is no compiler here."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, not both: a mode stands for a set of options.")
    return (lambda model: model) if model is None else model


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.compile
class Module(Module):
    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From now on let calls of this module go through `torch.compile(self._call_impl, *args, **kwargs)`."""
        from readtorch import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)


# %% [markdown]
# ## What upstream does more
#
# * `_call_impl` asks whether TorchScript is tracing, and if so goes through `_slow_forward`, which tells the tracer the
#   names of the modules it enters. And it asks whether a compiler is reading it, and then leaves out the handling of
#   exceptions.
# * Upstream writes the slow path as one function with a nested one, for the compiler's sake; the order is the one
#   above.
# * One thing ours does and upstream 2.13 does not: a *global* hook with both `with_kwargs` and `always_call` is handed
#   the keyword arguments after an exception too. Upstream calls it without them; it fails for lack of an argument, and
#   the failure becomes a warning.


# %%
#| fact: torch/nn/modules/module.py#Module._slow_forward<Module._call_impl
#| fact: torch/_jit_internal.py#_copy_to_script_wrapper
#| fact: torch/utils/hooks.py#warn_if_has_hooks


# %%
#| claim: a global forward hook registered with_kwargs and always_call runs after an exception
#| differs: in PyTorch 2.13 it is called without kwargs then, fails, and the failure is turned into a warning
def _(torch):
    import warnings

    class Broken(torch.nn.Module):
        def forward(self, x):
            raise ValueError

    seen = []

    def hook(module, args, kwargs, output):
        seen.append(kwargs)

    register = torch.nn.modules.module.register_module_forward_hook
    with warnings.catch_warnings(), register(hook, with_kwargs=True, always_call=True):
        warnings.simplefilter("ignore")
        try:
            Broken()(x=1)
        except ValueError:
            pass
    assert seen == [{"x": 1}]


# %% [markdown]
# ## Bugs you can now explain
#
# **“Problem with backward hook function”** (pytorch/pytorch#598, of January 2017, closed by the full hooks in 1.8). "If
# I define a Module that takes 3 inputs, the grad_input has to be of size 3, right?" It had size 2; the example is the
# `Sum3` above. The same cause stands behind #7040, #12331 and #16276, where `nn.Linear` reported its bias first: its
# last operation was `addmm`, whose first argument is the bias.


# %%
#| claim: the old backward hook reports the last operation's gradients, in that operation's order, and warns
#| source: pytorch/pytorch#598
def _(torch):
    import warnings

    class Sum3(torch.nn.Module):
        def forward(self, a, b, c):
            return a + b + c

    old, counts = Sum3(), []
    old.register_backward_hook(lambda module, grad_input, grad_output: counts.append(len(grad_input)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        old(*[torch.ones(1, requires_grad=True) for _ in range(3)]).backward()
    assert counts == [2]
    assert [w.category for w in caught] == [FutureWarning] and "non-full backward hook" in str(caught[0].message)


# %% [markdown]
# **“Inplace ReLU incompatible with backward hook”** (pytorch/pytorch#61519, pytorch/vision#4164, and most libraries for
# saliency maps). `nn.ReLU(inplace=True)` with a full backward hook, or directly after a layer that has one, raises
# "Output 0 of BackwardHookFunction is a view and is being modified inplace". Nothing is wrong with the ReLU:
# its input is the view that the boundary made. The ways out are `inplace=False`, or a forward hook that registers a
# hook on the *tensor*, which needs no boundary.


# %%
#| claim: a tensor hook placed by a forward hook sees the output's gradient and lets the output be changed in place
#| source: pytorch/pytorch#61519
def _(torch):
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    double, seen = Double(), []
    double.register_forward_hook(lambda module, args, output: output.register_hook(seen.append) and None)
    x = torch.ones(1, requires_grad=True)
    double(x).clone().relu_().sum().backward()
    assert seen == [torch.ones(1)]


# %% [markdown]
# **“register_full_backward_hook does not consistently fire”** (pytorch/pytorch#56380). Hooks on two layers, one report:
# the first layer's is missing. The first layer has the data as its input, and data requires no gradient. In 1.8 the
# hook did not run at all in this case; today it runs at the output and warns (the claim stands above).
#
# **“forward_hook doesn't work with nn.ReLU(inplace=True)”** (pytorch/pytorch#95617). The hook's `args` already hold the
# result. They are references, not copies; by the time the hook runs, `forward` has overwritten them.


# %%
#| claim: a forward hook of a module that works in place sees its input already changed
#| source: pytorch/pytorch#95617
def _(torch):
    class InPlace(torch.nn.Module):
        def forward(self, x):
            return x.clamp_(min=0)

    module, seen = InPlace(), []
    module.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
    module.register_forward_hook(lambda module, args, output: seen.append(args[0].clone()))
    module(torch.tensor([1.0, -4.0]))
    assert [t.tolist() for t in seen] == [[1.0, -4.0], [1.0, 0.0]]


# %% [markdown]
# **“Module full backward hook does not work (perhaps because input does not require grad)”** (pytorch/pytorch#117925).
# The guess in the title is not the reason. The script called `model.forward(x)`.
#
# ## Exercises
#
# **Outputs of a layer.** Write `recorded(model, path)`, a context manager that gives a list to which every output of
# the submodule at `path` is appended while the block runs. The hook must be gone afterwards, also if the block raises.

# %%
#| exercise: recorded
from contextlib import contextmanager


@contextmanager
def recorded(model: nn.Module, path: str):
    yield []


# %%
#| solution: recorded
from contextlib import contextmanager


@contextmanager
def recorded(model: nn.Module, path: str):
    outputs = []
    with model.get_submodule(path).register_forward_hook(lambda module, args, output: outputs.append(output)):
        yield outputs


# %%
#| check: recorded
network = Chain(Scale(2.0), Chain(Scale(3.0)))
with recorded(network, "1.0") as outputs:
    network(torch.ones(3))
    network(torch.zeros(3))
assert [o.tolist() for o in outputs] == [[6.0] * 3, [0.0] * 3]
try:
    with recorded(network, "0"):
        raise KeyError
except KeyError:
    pass
assert not network.get_submodule("0")._forward_hooks

# %% [markdown]
# **Who made the first NaN?** Write `guard(model)`: after it, a forward pass that produces a value that is not finite
# raises `FloatingPointError` whose text is the dotted name of the *innermost* module that produced it first. It returns
# the handles. (The walk of part 2 gives the names; the order of forward hooks does the rest.)


# %%
#| exercise: guard
def guard(model: nn.Module) -> list:
    raise NotImplementedError


# %%
#| solution: guard
def guard(model: nn.Module) -> list:
    def check(name):
        def hook(module, args, output):
            if not torch.isfinite(output).all():
                raise FloatingPointError(name)

        return hook

    return [module.register_forward_hook(check(name)) for name, module in model.named_modules()]


# %%
#| check: guard
network = Chain(Scale(1.0), Chain(Scale(float("inf")), Scale(1.0)))
handles = guard(network)
try:
    network(torch.ones(3))
except FloatingPointError as error:
    assert str(error) == "1.0"
else:
    raise AssertionError("not noticed")
for handle in handles:
    handle.remove()
network(torch.ones(3))

# %% [markdown]
# **Reverse the gradient.** Domain-adversarial training puts a module between a feature extractor and a domain
# classifier that is the identity forward and multiplies the gradient by −λ backward. Write `reverse(module, strength)`:
# the existing `module` gets this behaviour through one hook, without a change to its forward.


# %%
#| exercise: reverse
def reverse(module: nn.Module, strength: float):
    raise NotImplementedError


# %%
#| solution: reverse
def reverse(module: nn.Module, strength: float):
    def flip(module, grad_input, grad_output):
        return tuple(None if grad is None else -strength * grad for grad in grad_input)

    return module.register_full_backward_hook(flip)


# %%
#| check: reverse
layer = Scale(2.0)
reverse(layer, 0.5)
x = torch.ones(3, requires_grad=True)
layer(x).sum().backward()
assert x.grad.tolist() == [-1.0] * 3
assert layer.weight.grad.tolist() == [1.0] * 3
