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
# # Functions of your own, and the graph seen from Python
#
# How does a computation that PyTorch does not know get a derivative? And how do I look at the graph that is there, and
# take hold of a gradient on its way? There are two doors into the graph. `autograd.Function` lets a node in that no
# operator has made. `torch.autograd.graph` lets a program look at nodes, hang hooks on them, and take out what they keep.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## How do I give the graph a node of my own?
#
# The graph is made of operators. What is computed outside of them, by NumPy, a C library or another process, is not in
# it:

# %%
x = torch.tensor([0.5, 2.0], requires_grad=True)
outside = torch.from_numpy(np.sinc(x.detach().numpy()))
outside.requires_grad, outside.grad_fn

# %% [markdown]
# `detach` was the price of the numbers, and the graph ends there. The same tool is wanted where the graph *could* be
# recorded and should not be: the chain rule of the written formula overflows although the derivative is harmless, or it
# keeps five intermediate results where one would do.
#
# `autograd.Function` puts a node of the user's into the graph. `forward` runs with recording off, its outputs get the
# node, and the engine calls `backward` with tensors. What `apply` does, in order:
#
# 1. make the node. Its edges come from those arguments that are tensors and want a gradient; `needs_input_grad` says
#    which.
# 2. switch recording off, call `forward(ctx, …)` (or `forward(…)` and then `setup_context`), switch it on again.
# 3. look at each output. Is it one of the inputs, changed in place (`mark_dirty`)? One of the inputs as it is? Without a
#    derivative (`mark_non_differentiable`)? Or new? Make it a result of the node accordingly.
# 4. turn what `save_for_backward` was given into saved variables, with versions. This comes last, because of an *output*
#    only the data may be kept.

# %%
#| into: csrc/autograd/python_function.py
#| imports
from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np


from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core import autograd_state, tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import TensorImpl, current_version, version_counter
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.anomaly_mode import store_stack
from readtorch.csrc.autograd.node import Node, next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed, SavedTensor, check_version, modified, released


# %% [markdown]
# The node comes first, because `ctx` *is* the node: what `forward` leaves on it, `backward` finds on it. Its `apply` is
# what the engine calls. It turns gradients into tensors, makes zeros for those that never came, and checks that
# `backward` returned one value for each argument of `forward`.


# %%
#| into: csrc/autograd/python_function.py
#| upstream: torch/csrc/autograd/python_function.cpp#THPFunction_apply
class FunctionNode(Node):
    """The node of a custom function, which is also the `ctx` that its `forward` and `backward` see."""

    __slots__ = ()
    _fresh = False
    _forward_cls: Any
    _saved: tuple = ()
    _saved_versions: tuple = ()
    _saved_outputs: Any = MappingProxyType({})
    _to_save: tuple = ()
    _dirty: tuple = ()
    _non_differentiable: tuple = ()
    _materialize = True
    _tensor_inputs: Any = frozenset()
    _all_outputs: Any = ()
    needs_input_grad: tuple = ()
    materialize_grads = True

    def __init__(self) -> None:
        self._edges = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward, with the checks that attributes on ctx do not give."""
        self._to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *args: Any) -> None:
        """These inputs were written to in place, and are returned."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """These outputs have no gradient."""
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward sees None where no gradient arrived, instead of zeros. TypeError unless it is a bool."""
        if value.__class__ is not bool:
            raise TypeError(f"set_materialize_grads received {type(value).__name__}, but expected (bool)")
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple:
        """What `save_for_backward` kept, checked. RuntimeError after the graph was freed."""
        if self._released:
            raise released(self.name())
        result = []
        for number, value in enumerate(self._saved):
            result.append(self._restore(number, value))
        return tuple(result)

    saved_variables = saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """Each of them in its place, to set hooks on."""
        return tuple(SavedTensor(self, place) for place in range(len(self._saved)))

    def saved_at(self, place: int) -> Any:
        """What is kept there: a tensor, a packed one, or None."""
        kept = self._saved[place]
        return self._restore(place, kept) if kept.__class__ is tuple else kept

    def keep_at(self, place: int, kept: Packed) -> None:
        """Put it there instead."""
        self._saved = (*self._saved[:place], kept, *self._saved[place + 1 :])

    def _restore(self, number: int, value: Any) -> Any:
        if value.__class__ is Packed:
            return value.restore()
        if number in self._saved_outputs:
            array, counter = value
            expected = self._saved_versions[number]
            if counter.value != expected:
                raise modified(array, (self, self._saved_outputs[number]), counter.value, expected)
            output = self._saved_outputs[number]
            tensor = tensor_impl.wrap(array, self if self._count == 1 else (self, output))
            tensor._vc = counter
            return tensor
        if isinstance(value, TensorImpl):
            check_version(value, self._saved_versions[number], self)
        return value

    def release_variables(self) -> None:
        if self._saved:
            self._saved = ()
            self._released = True

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        values = [self._as_tensor(number, grad, graph) for number, grad in enumerate(grads)]
        backward = self._forward_cls.backward
        results = backward(self, *values)
        if not isinstance(results, tuple):
            results = (results,)
        wanted = len(self.needs_input_grad)
        results = list(results)
        while len(results) > wanted and results[-1] is None:
            results.pop()
        if len(results) != wanted:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {wanted}, got {len(results)})"
            )
        outputs = []
        for number, result in enumerate(results):
            if result is not None and not isinstance(result, TensorImpl):
                raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
            if number in self._tensor_inputs:
                outputs.append(result if graph or result is None else result._array)
            elif result is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position {number + 1}, but the corresponding forward input was not a Variable"
                )
        return outputs

    def _as_tensor(self, number: int, grad: Any, graph: bool) -> Any:
        if grad is not None:
            return grad if graph else tensor_impl.wrap(grad)
        if not self._materialize:
            return None
        shape, dtype = self._all_outputs[number]
        return None if dtype is None else tensor_impl.wrap(np.zeros(shape, dtype))


# %% [markdown]
# The four steps, as code:


# %%
#| into: csrc/autograd/python_function.py
#| upstream: torch/csrc/autograd/python_function.cpp#torch::autograd::_wrap_outputs
def apply(cls: Any, node: FunctionNode, args: tuple, two_step: bool, forward: Any = None) -> Any:
    """Run a custom function's forward, or what stands for it, and connect its outputs to `node`."""
    recording = state.grad_mode
    tensors = {i: arg for i, arg in enumerate(args) if isinstance(arg, TensorImpl)}
    node.needs_input_grad = tuple(i in tensors and variable.requires_grad(tensors[i]) for i in range(len(args)))
    node._tensor_inputs = frozenset(tensors)
    wants = recording and any(node.needs_input_grad)
    edges = tuple(variable.gradient_edge(arg) if wants else None for arg in tensors.values())
    autograd_state.set_grad_enabled(False)
    try:
        if two_step:
            outputs = (forward or cls.forward)(*args)
            cls.setup_context(node, args, outputs)
        else:
            outputs = cls.forward(node, *args)
    finally:
        autograd_state.set_grad_enabled(recording)
    single = not isinstance(outputs, tuple)  # what is no tensor and no tuple is handed on as it is
    values = (outputs,) if single else outputs
    node._edges = edges
    node._sequence = next_sequence_nr()
    results = _connect(node, tensors, values, wants)
    if wants:
        _save(node, results, values)
        if state.anomaly:
            store_stack(node)
    node._to_save = ()
    return results[0] if single else tuple(results)


def _connect(node: FunctionNode, inputs: dict[int, Any], values: tuple, wants: bool) -> list[Any]:
    outputs = [value for value in values if isinstance(value, TensorImpl)]
    node._count = len(values)
    shapes = [
        (value._array.shape, value._array.dtype) if isinstance(value, TensorImpl) else ((), None) for value in values
    ]
    node._all_outputs = shapes
    if len(values) == 1:
        node._shape, node._dtype = shapes[0]
    else:
        node._shape = [shape for shape, _ in shapes]
        node._dtype = [dtype for _, dtype in shapes]
    for tensor in node._dirty:
        if not any(tensor is output for output in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be outputs of the Function."
            )
        version_counter(tensor).bump()
    for tensor in node._non_differentiable:
        if not isinstance(tensor, TensorImpl):
            kind = type(tensor).__name__
            raise RuntimeError(f"mark_non_differentiable only accepts variable arguments, but got {kind}")
    results: list[Any] = []
    for number, value in enumerate(values):
        if not isinstance(value, TensorImpl):
            results.append(value)
            continue
        edge: Any = node if len(values) == 1 else (node, number)
        results.append(_connect_one(node, inputs, value, edge, wants))
    return results


def _connect_one(node: FunctionNode, inputs: dict[int, Any], value: Any, edge: Any, wants: bool) -> Any:
    is_input = any(value is tensor for tensor in inputs.values())
    dirty = any(value is tensor for tensor in node._dirty)
    plain = any(value is tensor for tensor in node._non_differentiable) or value._array.dtype.kind not in "fcV"
    if plain or not wants:
        if not variable.requires_grad(value):
            return _alias(value) if is_input and not dirty else value
        if is_input:
            return value.detach()
        return value if value._view is not None else value.detach_()
    if dirty:
        variable.check_inplace(value)
        variable.rebase_history(value, edge)
        return value
    if is_input:
        value = _alias(value)
    if value._view is not None:
        value._view = (*value._view[:2], variable.IN_CUSTOM_FUNCTION, *value._view[3:])
    elif variable.requires_grad(value):
        value = value.detach()
    variable.set_history(value, edge)
    return value


def _alias(value: Any) -> Any:
    """An input returned as it is: a view of it, so that the input keeps its own history."""
    recording = state.grad_mode
    autograd_state.set_grad_enabled(False)
    try:
        result = dispatcher.autograd.alias(value)
    finally:
        autograd_state.set_grad_enabled(recording)
    if result._view is not None:
        result._view = (*result._view[:2], variable.IN_CUSTOM_FUNCTION)
    return result


def _save(node: FunctionNode, results: list[Any], values: tuple[Any, ...]) -> None:
    hooks = state.saved_tensor_hooks
    saved: list[Any] = []
    versions: list[int] = []
    outputs: dict[int, int] = {}
    value: Any
    for number, value in enumerate(node._to_save):
        if value is not None and not isinstance(value, TensorImpl):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {number} is of type {type(value).__name__}"
            )
        place = next(
            (i for i, output in enumerate(values) if value is not None and (output is value or results[i] is value)),
            None,
        )
        if (
            place is not None
            and value is not None
            and variable.requires_grad(results[place])
            and variable.requires_grad(value)
            and variable.grad_fn(results[place]) is node
        ):
            counter = version_counter(results[place])
            saved.append((value._array, counter))
            versions.append(counter.value)
            outputs[number] = place
        elif value is not None and hooks:
            saved.append(Packed(value, hooks[-1]))
            versions.append(0)
        else:
            saved.append(value)
            versions.append(0 if value is None else current_version(value))
    node._saved, node._saved_versions, node._saved_outputs = tuple(saved), tuple(versions), outputs


# %%
#| into: autograd/function.py
#| imports
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.csrc.autograd import python_function
from readtorch.csrc.autograd.python_function import FunctionNode

# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#FunctionCtx
FunctionCtx = FunctionNode


class BackwardCFunction(FunctionNode):
    """The node class from which each custom function's own node class is made."""

    __slots__ = ()

    def name(self) -> str:
        return type(self).__name__


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#FunctionMeta
class FunctionMeta(type):
    """Makes, for each custom function `F`, the class of its nodes, `FBackward`."""

    def __init__(cls, name: str, bases: tuple, attributes: dict[str, Any]) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__slots__": ()})
        super().__init__(name, bases, attributes)
        if "vjp" in attributes and cls.__mro__[1] is not object:
            overridden = _backward_of(cls) is not _backward_of(cls.__mro__[-2])
            type.__setattr__(cls, "backward", staticmethod(_refuse_both if overridden else attributes["vjp"]))


def _backward_of(function: Any) -> Any:
    return function.backward


def _refuse_both(ctx: Any, *grads: Any) -> Any:
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed: implement one of them."
    )


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#Function
class Function(metaclass=FunctionMeta):
    """Base of custom functions: override `forward` and `backward` as static methods, call `apply`.

    `forward(ctx, *args)` computes; or `forward(*args)` with `setup_context(ctx, inputs, output)` beside it.
    `backward(ctx, *grad_outputs)` returns one gradient, or None, per argument of forward.
    """

    _backward_cls: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated: methods on autograd functions are static and are used on the class itself, by {type(self).__name__}.apply(...). "
            "It will raise an error in a later version.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated: make forward and backward static methods. "
            "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Keep on `ctx` what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function: backward reached it."
        )

    #: whether `vmap` may vectorize `forward`, `setup_context` and `backward` as they are
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """Compute for all examples at once; return the output and the dimension that counts them in it."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record it."""
        two_step = cls.setup_context is not Function.setup_context
        if kwargs:
            import inspect

            bound = inspect.signature(cls.forward).bind(*(args if two_step else (None, *args)), **kwargs)
            bound.apply_defaults()
            args = bound.args if two_step else bound.args[1:]
        if autograd_state.state.layers:
            from readtorch._functorch.autograd_function import custom_function_call

            return custom_function_call(cls, args)
        return python_function.apply(cls, cls._backward_cls(), args, two_step)


if "vjp" not in vars(Function):
    Function.vjp = Function.backward  # type: ignore[attr-defined]  # the older name


# %%
class Sinc(torch.autograd.Function):
    """sin(πx) / πx by NumPy."""

    @staticmethod
    def forward(ctx, x):
        y = torch.from_numpy(np.sinc(x.numpy()))
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * torch.from_numpy((np.cos(np.pi * x.detach().numpy()) - y.detach().numpy()) / x.detach().numpy())


# %%
#| trace: torch.csrc.autograd.python_function torch.autograd.function layers=calls,ops,autograd values=summary title="apply of a custom function, and its backward"
y = Sinc.apply(x)
y.sum().backward()

# %%
y, x.grad

# %% [markdown]
# Inside `forward`, `x.numpy()` needed no `detach`. The tensor requires a gradient there as well, but recording is off, so
# nothing is lost by leaving the graph.


# %%
#| claim: `numpy()` refuses a tensor that requires a gradient only while recording is on
def _(torch):
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert x.numpy().tolist() == [1.0]
    try:
        x.numpy()
    except RuntimeError as error:
        assert "Can't call numpy() on Tensor that requires grad" in str(error)
    else:
        raise AssertionError("left the graph")


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`ctx` is a bag in which forward leaves things for backward." It is the node. What is set on
# > `ctx` can be read off `grad_fn`, lives as long as the graph, and is not checked, freed or packed by anybody.
# > `save_for_backward` does all three.


# %%
#| claim: `ctx` is the node itself: its attributes are found on grad_fn, and they stay when backward frees what was saved
#| upstream: torch/autograd/function.py#BackwardCFunction
def _(torch):
    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            ctx.save_for_backward(x)
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    y = Times.apply(torch.ones(1, requires_grad=True), 3)
    assert y.grad_fn.factor == 3 and y.grad_fn.name() == "TimesBackward"
    assert len(y.grad_fn.saved_tensors) == 1
    y.backward()
    assert y.grad_fn.factor == 3
    try:
        y.grad_fn.saved_tensors
    except RuntimeError as error:
        assert "after they have already been freed" in str(error)
    else:
        raise AssertionError("still there")


# %%
#| claim: a tensor kept by save_for_backward is checked for writes, one kept as an attribute of ctx is used as it is by then
def _(torch):
    def square(save):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                if save:
                    ctx.save_for_backward(x)
                else:
                    ctx.x = x
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors if save else (ctx.x,)
                return 2 * x.detach() * grad

        leaf = torch.ones(1, requires_grad=True)
        x = leaf * 1
        y = Square.apply(x)
        with torch.no_grad():
            x.mul_(50)
        y.backward()
        return leaf.grad.item()

    assert square(save=False) == 100
    try:
        square(save=True)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("not checked")


# %%
#| claim: `backward` returns one value for each argument of forward, tensors or not; needs_input_grad says which are wanted
def _(torch):
    wanted = []

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, note):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            wanted.append(ctx.needs_input_grad)
            x, w = ctx.saved_tensors
            return (grad * w, None, None) if Scale.right else (grad * w, None, None, None, grad)

    Scale.right = True
    Scale.apply(torch.ones(1, requires_grad=True), torch.ones(1), "text").backward()
    assert wanted == [(True, False, False)]
    Scale.right = False
    try:
        Scale.apply(torch.ones(1, requires_grad=True), torch.ones(1), "text").backward()
    except RuntimeError as error:
        assert "returned an incorrect number of gradients (expected 3, got 5)" in str(error)
    else:
        raise AssertionError("accepted")


# %% [markdown]
# ### What may `forward` return?
#
# A new tensor, and nothing has to be said. For the rest, `apply` looks at each output and asks three questions.
#
# *Is it an input, written to?* Then the input itself is returned and its history is replaced, as by any in-place
# operation, with the same checks. That needs `mark_dirty`. Without it nobody knows of the write: the version counter is
# right, because the operators inside have counted, but the input keeps its old node, and a gradient through it ignores
# what the function did.
#
# *Is it an input, as it is?* Then a view of it is returned, with the new node: `y is x` is false after `y = Identity.apply(x)`. Returning the object would give `x` a new history behind the caller's back.
#
# *Can it have a gradient?* Integers cannot. A mask in floating point can, as far as its dtype tells, and `mark_non_differentiable` says that it should not.


# %%
#| claim: a written input must be marked and returned, or else it keeps its old history; an input returned as it is comes back as a view
#| upstream: torch/csrc/autograd/custom_function.h#torch::autograd::_wrap_outputs
def _(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mark, fresh):
            x.mul_(2)
            if mark:
                ctx.mark_dirty(x)
            return x * 1 if fresh else x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None, None

    def gradient(mark):
        leaf = torch.ones(1, requires_grad=True)
        x = leaf * 1
        y = Double.apply(x, mark, False)
        assert x.item() == 2 and (y is x) == mark
        return torch.autograd.grad(x, leaf)[0].item()

    assert gradient(mark=True) == 2 and gradient(mark=False) == 1
    try:
        Double.apply(torch.ones(1, requires_grad=True) * 1, True, True)
    except RuntimeError as error:
        assert "must all be outputs of the Function" in str(error)
    else:
        raise AssertionError("accepted")


# %%
#| claim: outputs of integers and marked ones require no gradient; where no gradient arrived, backward sees zeros, or None if it asked for that
#| needs: a1_operators
def _(torch):
    seen = []

    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            mask = (x > 0).to(x.dtype)
            ctx.mark_non_differentiable(mask)
            return x * 1, x * 2, mask, x.argmax()

        @staticmethod
        def backward(ctx, first, second, mask, position):
            seen.append(second)
            return first, None

    for materialize in (True, False):
        first, second, mask, position = Parts.apply(torch.ones(2, requires_grad=True), materialize)
        assert [t.requires_grad for t in (first, second, mask, position)] == [True, True, False, False]
        first.sum().backward()
    assert seen[0].tolist() == [0, 0] and seen[1] is None


# %%
#| claim: with setup_context forward does not see ctx, and what it returned may be saved there
#| upstream: torch/autograd/function.py#_SingleLevelFunction.setup_context
def _(torch):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    x = torch.zeros(1, requires_grad=True)
    Exp.apply(x).backward()
    assert x.grad.item() == 1


# %% [markdown]
# ### And the second derivative?
#
# `backward` is called with tensors, and with recording on if the user asked for `create_graph`. What it computes by
# operators is recorded like anything else and can be differentiated again. `Sinc.backward` leaves the graph, so its
# second derivative would silently lack the terms through `x`. `once_differentiable` is meant to turn the silence into an
# error.


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#once_differentiable
def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a `backward` that is itself not differentiable: differentiating through it is an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = _C.is_grad_enabled()
        autograd_state.set_grad_enabled(False)
        try:
            outputs = fn(ctx, *args)
        finally:
            autograd_state.set_grad_enabled(recording)
        if not recording or not any(isinstance(arg, _C.TensorBase) and arg.requires_grad for arg in args):
            return outputs
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        failing = tuple(
            value if value is None else _DelayedError.apply(value.detach().requires_grad_()) for value in values
        )
        return failing if isinstance(outputs, tuple) else failing[0]

    return wrapper


class _DelayedError(Function):
    """The identity, whose derivative is an error."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


# %% [markdown]
# It does so in one case of three. All the decorator can do is to hang a node that raises on the result.
#
# It does that if a gradient that came *in* is part of a graph. At the end of a network that gradient is a constant 1.
# Then nothing is attached, the first derivative comes out without a graph, and a penalty made of it adds nothing to the
# gradient of the loss.
#
# And where the node is attached, it hangs on a new leaf beside the path. `backward` runs into it. `autograd.grad(…, x)`
# runs only what leads to `x`, and returns the second derivative without the terms that are missing. `gradgradcheck` is
# the test that is not fooled.


# %%
#| claim: a second backward through a once_differentiable one is an error if the gradient came from a graph; autograd.grad passes it by with a wrong result, and of a constant gradient no graph is left
#| upstream: torch/autograd/function.py#once_differentiable
def _(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = torch.ones(1, requires_grad=True)
    (inside,) = torch.autograd.grad(Square.apply(x) * x, x, create_graph=True)
    assert torch.autograd.grad(inside, x, retain_graph=True)[0].item() == 2  # of x³ it is 6
    try:
        inside.backward()
    except RuntimeError as error:
        assert "once_differentiable" in str(error)
    else:
        raise AssertionError("differentiated twice")
    (at_the_end,) = torch.autograd.grad(Square.apply(x), x, create_graph=True)
    x.grad = None
    assert not at_the_end.requires_grad
    (x * 0 + at_the_end * at_the_end).backward()
    assert x.grad.item() == 0


# %%
#| into: autograd/graph.py
#| imports
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.c10.core.tensor_impl import version_counter

# %% [markdown]
# ## How do I look at the graph?
#
# `grad_fn` and `next_functions` are enough to draw it. Upstream generates further attributes from `derivatives.yaml`:
# whatever a node keeps can be read as `_saved_NAME`.

# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#Node
Node = _C._Node


def _register(node: Any, attribute: str, hook: Callable[..., Any]) -> Any:
    from readtorch.utils.hooks import RemovableHandle

    hooks = getattr(node, attribute)
    if hooks is None:
        hooks = OrderedDict()
        setattr(node, attribute, hooks)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_hook(self: Any, fn: Callable[..., Any]) -> Any:
    """Call `fn(grad_inputs, grad_outputs)` after this node has run; a tuple it returns replaces `grad_inputs`."""
    return _register(self, "_post_hooks", fn)


def register_prehook(self: Any, fn: Callable[..., Any]) -> Any:
    """Call `fn(grad_outputs)` before this node runs; a tuple it returns replaces them."""
    return _register(self, "_pre_hooks", fn)


Node.register_hook = register_hook  # type: ignore[attr-defined]  # added after the class
Node.register_prehook = register_prehook  # type: ignore[attr-defined]  # added after the class


# %%
p, q = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)
result = (p * q).sum()


def picture(tensor):
    """The graph behind a tensor, in Graphviz' language."""
    lines, seen, stack = [], set(), [tensor.grad_fn]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        lines.append(f'  "{id(node)}" [label="{node.name()}"]')
        for following, number in node.next_functions:
            if following is not None:
                lines.append(f'  "{id(node)}" -> "{id(following)}" [label="{number}"]')
                stack.append(following)
    return "\n".join(["digraph {", *lines, "}"])


product = result.grad_fn.next_functions[0][0]
print(picture(result).count("->"), "edges;", product.name(), "keeps", product._saved_self, product._saved_other)

# %% [markdown]
# A `GradientEdge` names a place in the graph without holding the tensor that is there. A pipeline can drop an activation
# and still ask for its gradient later.


# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#GradientEdge
class GradientEdge(NamedTuple):
    """A place in the graph: output `output_nr` of `node`."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of `tensor` flows. RuntimeError if it requires none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge of a Tensor without requires_grad")
    return GradientEdge(*_C._split_edge(_C._gradient_edge(tensor)))


# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#saved_tensors_hooks
class saved_tensors_hooks:
    """Keep `pack_hook(tensor)` in place of each tensor saved inside, and `unpack_hook` of that gives it back in backward."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        for hook in self.hooks:
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: both hooks must be functions, not {type(hook).__name__}")
        if autograd_state.state.saved_tensor_hooks_disabled is not None:
            raise RuntimeError(autograd_state.state.saved_tensor_hooks_disabled)
        self.outer = autograd_state.set_special(
            "saved_tensor_hooks", (*autograd_state.state.saved_tensor_hooks, self.hooks)
        )

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("saved_tensor_hooks", self.outer)


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in the host's memory and bring them back to their device in backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Any:
    """Inside, whoever sets saved-tensor hooks gets a RuntimeError of this message, and so does this if some are set."""
    state = autograd_state.state
    if state.saved_tensor_hooks:
        raise RuntimeError(error_message)
    outer, state.saved_tensor_hooks_disabled = state.saved_tensor_hooks_disabled, error_message
    try:
        yield
    finally:
        state.saved_tensor_hooks_disabled = outer


# %% [markdown]
# `allow_mutation_on_saved_tensors` makes it legal to overwrite saved tensors, by copying them. Upstream copies at the
# first write, which it sees through a dispatch mode. Here each tensor is copied when it is saved, and the memory is paid
# for whether anybody writes or not.


# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#allow_mutation_on_saved_tensors
@contextmanager
def allow_mutation_on_saved_tensors() -> Any:
    """Inside, tensors that backward needs may be written to in place: it works with their values at the time they were saved."""
    context = saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda kept: kept)
    with context:
        yield context


def increment_version(tensor: Any) -> None:
    """Tell autograd that the memory of `tensor`, or of several, was written to by something that it did not see."""
    for one in (tensor,) if isinstance(tensor, _C.TensorBase) else tensor:
        if one.is_inference() and not autograd_state.state.inference_mode:
            raise RuntimeError("Inference tensors do not track version counter.")
        version_counter(one).bump()


# %% [markdown]
# ## When have the gradients of several tensors all arrived?
#
# A hook on one tensor sees one gradient. Whoever needs several at once (a sum over layers, a bucket to be sent to other
# machines) must know when the last has come. Some may not come at all: a backward pass from another loss reaches other
# tensors. The engine knows, as soon as it starts, which nodes it will run.


# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#register_multi_grad_hook
def register_multi_grad_hook(tensors: Any, fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call `fn(gradients)` in each backward pass when all of `tensors` that it reaches have theirs, None for the others.

    With `mode="any"`, call `fn(gradient)` when the first arrives. ValueError for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if not hasattr(tensors, "__len__"):
        raise TypeError(f"tensors must have a length, and {type(tensors).__name__} has none")
    tensors = tuple(tensors)
    for tensor in tensors:
        if not tensor.requires_grad:
            raise AssertionError("Expected gradient function to be set: a tensor needs no gradient")
    nodes = [_C._split_edge(_C._gradient_edge(tensor))[0] for tensor in tensors]
    passes: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

    def arrived(place: int) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            task = autograd_state.state.graph_task
            seen = passes.setdefault(task, [None] * len(tensors))
            seen[place] = gradient
            have = sum(value is not None for value in seen)
            if mode == "any" and have == 1:
                fn(gradient)
            elif mode == "all" and have == sum(task.will_run(node) for node in nodes):
                fn(seen)

        return hook

    handles = [tensor.register_hook(arrived(place)) for place, tensor in enumerate(tensors)]

    from readtorch.utils.hooks import RemovableHandle

    class _MultiHandle(RemovableHandle):
        """Takes back all of them."""

        __qualname__ = "_MultiHandle"

        def remove(self) -> None:
            for handle in handles:
                handle.remove()

    return _MultiHandle(OrderedDict())


# %%
#| needs: a1_operators
a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
handle = torch.autograd.graph.register_multi_grad_hook((a, b), print)
(a * b).sum().backward()
a.sum().backward()
handle.remove()


# %%
#| claim: a hook on several tensors runs once in a pass, when the last of those it reaches has its gradient; the others are None
#| needs: a1_operators
def _(torch):
    a, b, c = (torch.ones(1, requires_grad=True) for _ in range(3))
    calls = []
    torch.autograd.graph.register_multi_grad_hook((a, b, c), lambda grads: calls.append([g is not None for g in grads]))
    (a * b).sum().backward()
    (a + b + c).sum().backward()
    assert calls == [[True, True, False], [True, True, True]]


# %% [markdown]
# A derivative that you have written is a derivative that can be wrong. [The next part](13b_gradcheck.py) tests it.
