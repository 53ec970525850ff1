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
# # Levels: what `grad` and `vmap` need in order to nest
#
# How can `vmap(grad(loss))` work, when one of them changes what a tensor's shape is and the other records? `backward`
# works on the graph of the program that ran. `torch.func` works on *functions*: `grad(f)` is a function again, and so is
# `vmap(f)`, which does for many examples what `f` does for one. They can be nested in any order: the gradient of each
# example's loss is `vmap(grad(loss))`, a Hessian is `jacfwd(jacrev(f))`. This part is what such a nest needs of the
# dispatcher. The functions themselves are in [chapter 2](../02_module/9b_functions_of_functions.py), where
# `functional_call` is.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why not the graph that is there?
#
# Twenty lines would give a `grad` that makes its argument require a gradient, calls `f` and asks the engine. It would be
# right until somebody nested it, or until `f` did what functions do: use tensors from outside, stop recording, write to
# memory.
#
# For `vmap` nothing of the kind is possible. A function that was written for one example is silently another function
# when it is given many:


# %%
#| needs: a1_operators
def spread(x):
    return (x - x.mean()).abs().max()


many = torch.arange(6.0).view(2, 3)
spread(many), torch.stack([spread(x) for x in many])

# %% [markdown]
# The loop is right and slow. What is wanted is a tensor that says `shape == (3,)` and has two of them inside, and
# operators that know. The same trick serves for `grad`: a tensor that records, around one that does not know about it.
#
# Such a tensor is an ordinary `Tensor` with an unusual array. The array has shape and dtype and, in place of elements,
# another *tensor*, that of the level below. Everything in this library that looks at a tensor without its elements works
# on it unchanged. Whoever reaches for elements gets an error, not a wrong number.

# %%
#| into: aten/functorch/__init__.py
"""Function transforms: the levels, and what operators do inside of them (twin of `aten/src/ATen/functorch/`)."""


# %%
#| into: aten/functorch/__init__.py
def load_rules() -> None:
    """Import all batching rules: each file puts its own into the table."""
    from importlib import import_module

    for name in _RULES:
        import_module(f"readtorch.aten.functorch.{name}")


# %%
#| into: aten/functorch/__init__.py
_RULES = [
    "batched_fallback",
    "batch_rules_binary_ops",
    "batch_rules_reduce_ops",
    "batch_rules_views",
    "batch_rules_linear_algebra",
    "batch_rules_convolution",
    "batch_rules_norm",
    "batch_rules_loss",
    "batch_rules_scatter_ops",
    "batch_rules_modules",
    "batch_rules_randomness",
]

# %%
#| into: aten/functorch/tensor_wrapper.py
#| imports
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from readtorch.c10.core import tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.device_guard import TO_HOST, on_host
from readtorch.c10.core.dispatch_key import BACKENDS, DEVICE_OF, DispatchKey, device_of
from readtorch.c10.core.tensor_impl import new


# %%
#| into: aten/functorch/tensor_wrapper.py
class WrappedArray:
    """What a tensor inside a transform holds in place of elements: `value`, a tensor of the level below.

    It has what can be asked of an array without its elements. Whoever reaches for these is refused.
    """

    __slots__ = ("base", "dtype", "layer", "shape", "value")

    def __init__(self, value: Any, layer: Any) -> None:
        array = value._array
        self.value = value
        self.layer = layer
        self.dtype = array.dtype
        self.shape = array.shape
        self.base: Any = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return self.value._array.strides

    @property
    def flags(self) -> Any:
        step, ordered = self.itemsize, True
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            ordered = ordered and (size == 1 or stride == step)
            step *= size
        return SimpleNamespace(c_contiguous=ordered or not self.size)

    def copy(self) -> Any:
        """One around a copy of the value."""
        return type(self)(self.layer.below(_clone, self.value), self.layer)

    def __setitem__(self, index: Any, source: Any) -> None:
        """The whole is written, one level down: `array[...] = source`."""
        self.layer.below(_copy, self.value, source.value)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise no_storage()


# %%
#| into: aten/functorch/tensor_wrapper.py
#| upstream: aten/src/ATen/functorch/TensorWrapper.h#at::functorch::TensorWrapper
def _clone(tensor: Any) -> Any:
    return tensor.clone()


def _copy(tensor: Any, source: Any) -> Any:
    return tensor.copy_(source)


def no_storage() -> RuntimeError:
    """The error for elements that are asked for inside a transform."""
    return RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


class TensorWrapper(WrappedArray):
    """The array of a tensor that a level of `grad` records."""

    __slots__ = ()


# %% [markdown]
# A level ends, and a tensor may outlive it, in a list of the caller's or among the tensors that a graph saved. A wrapper
# of a recording level is then as good as what it wraps. One of many examples means nothing outside, and is refused.


# %%
#| into: aten/functorch/tensor_wrapper.py
def tensor_of(array: WrappedArray) -> Any:
    """A tensor around such an array. It belongs to the array's level, whichever is the innermost now."""
    tensor = new(tensor_impl.Tensor)
    tensor._array = array
    tensor._edge = tensor._vc = tensor._view = tensor._grad = tensor._meta = None
    return tensor


def is_dead(tensor: Any) -> bool:
    """Has the level that the tensor belongs to ended?"""
    array = tensor._array
    return array.__class__ is not np.ndarray and isinstance(array, WrappedArray) and array.layer not in state.layers


def unwrap_if_dead(tensor: Any) -> Any:
    """What is left of a tensor whose level has ended: the value, as deep as need be."""
    while is_dead(tensor):
        tensor = tensor._array.layer.outlived(tensor)
    return tensor


BACKENDS[TensorWrapper] = DispatchKey.FuncTorchGradWrapper
DEVICE_OF[TensorWrapper] = lambda array: device_of(array.value._array)
TO_HOST[TensorWrapper] = lambda array: on_host(array.value._array)


def is_wrapped(array: Any) -> bool:
    """Is it an array without elements, of a tensor inside a transform?"""
    return array.__class__ is not np.ndarray and isinstance(array, WrappedArray)


# %% [markdown]
# A batched tensor hides its first dimension. Upstream lets the hidden dimension be anywhere (`bdim`) and moves it when a
# rule wants it elsewhere. Here it is moved to the front on the way in, which costs a view, and every rule may rely on it.

# %%
#| into: aten/functorch/batched_tensor_impl.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.tensor_wrapper import WrappedArray
from readtorch.c10.core.device_guard import TO_HOST
from readtorch.c10.core.dispatch_key import BACKENDS, DEVICE_OF, DispatchKey, device_of


# %%
#| into: aten/functorch/batched_tensor_impl.py
#| upstream: aten/src/ATen/functorch/BatchedTensorImpl.h#at::functorch::BatchedTensorImpl
class BatchedArray(WrappedArray):
    """The array of a tensor that stands for one of many examples: the first dimension of `value` counts them and is not seen."""

    __slots__ = ()

    def __init__(self, value: Any, layer: Any) -> None:
        super().__init__(value, layer)
        self.shape = self.shape[1:]

    @property
    def strides(self) -> tuple[int, ...]:
        return self.value._array.strides[1:]


# %% [markdown]
# A program may not ask such a tensor for its number, decide by it, or select by its mask. The examples would go different
# ways, and there is one call.


# %%
#| into: aten/functorch/batched_tensor_impl.py
def refuse_number(array: BatchedArray) -> Any:
    """The error of whoever asks one of many examples for its number."""
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor: "
        "it stands for many, and each has a number of its own. Use operations on tensors."
    )


def refuse_condition() -> RuntimeError:
    """The error of `if` and `while` on one of many examples."""
    return RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet: "
        "the examples would go different ways. `torch.where` computes both and chooses."
    )


def is_one_of_many(tensor: Any) -> bool:
    """Does a tensor or its array stand, at whatever level, for many examples, whose elements cannot be asked for?"""
    array = getattr(tensor, "_array", tensor)
    while isinstance(array, WrappedArray):
        if array.__class__ is BatchedArray:
            return True
        array = array.value._array
    return False


def concrete_mask(array: Any) -> Any:
    """The elements of a mask, under all levels that record. RuntimeError if it is one of many examples."""
    while isinstance(array, WrappedArray):
        if array.__class__ is BatchedArray:
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing "
                "with a boolean mask: each example would give a result of its own size. Use torch.where or masked_fill."
            )
        array = array.value._array
    return array


BACKENDS[BatchedArray] = DispatchKey.FuncTorchBatched
DEVICE_OF[BatchedArray] = lambda array: device_of(array.value._array)
TO_HOST[BatchedArray] = refuse_number

# %% [markdown]
# ## Which level sees a call first?
#
# Each transform that is running is a *layer*, and the layers of a thread form a stack, the innermost last. A call goes to
# the innermost layer, whatever tensors it is about, and what that layer calls goes to the one below it. In
# `vmap(grad(f))`, one multiplication inside `f` goes this way:
#
# 1. `x * x`, where `x` is a wrapper of `grad`'s layer (level 2) around one of many (level 1) around an array. The operator's fast path wants a NumPy array and does not find one; the slow path sees a column of the table that no device has, and asks the innermost layer, which is `grad`'s.
# 2. `grad`'s layer finds only tensors of its own and says: go on. The ordinary path runs with a kernel that calls *the same operator* on the wrapped tensors, with this layer taken off the stack, and wraps the result. Then the ordinary path makes a node, as always. All of recording is reused, and level 1 saw nothing of it.
# 3. The wrapped tensors are level 1's, whose layer is now the innermost: `vmap`'s. It takes the tensors of all examples, applies the operator's *batching rule*, and calls operators on those, with no layer left.
# 4. These are tensors with NumPy arrays. The kernel multiplies.
#
# Upstream's stack is `dynamicLayerStack`, and the two kinds of layer are *interpreters*. Two dispatch keys do the
# stepping: one goes in (`FuncTorchDynamicLayerFrontMode`), one goes further down (`…BackMode`).

# %%
#| into: aten/functorch/dynamic_layer.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.functorch.batched_tensor_impl import BatchedArray
from readtorch.aten.functorch.tensor_wrapper import TensorWrapper, WrappedArray, is_dead, tensor_of, unwrap_if_dead
from readtorch.c10.core import autograd_state
from readtorch.c10.core.autograd_state import counts, state
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.c10.core.tensor_impl import TensorImpl

# %%
#| into: aten/functorch/dynamic_layer.py
GO_ON: Any = object()
"""What `dispatch` returns where the operator's ordinary path is the right one: all its tensors belong to the innermost level, which records."""

#: what is drawn at random, and is asked of `vmap`'s `randomness` even where no tensor is batched
RANDOM: set[str] = set()


# %%
#| into: aten/functorch/dynamic_layer.py
#| upstream: aten/src/ATen/functorch/DynamicLayer.h#at::functorch::DynamicLayer
class Layer:
    """One transform that has been entered. `state.layers` holds them, the innermost last; calls go to that one."""

    def __init__(self) -> None:
        self.level = 0

    def __enter__(self) -> Any:
        if not state.layers:
            counts.change(special=1)
        self.level = len(state.layers) + 1
        state.layers = (*state.layers, self)
        return self

    def __exit__(self, *exception: Any) -> None:
        state.layers = state.layers[:-1]
        if not state.layers:
            counts.change(special=-1)

    def lift(self, tensor: Any) -> Any:
        """A tensor made inside: as this level has it."""
        return tensor

    def below(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function on tensors of the level below, as if this level were not there."""
        before = state.layers
        state.layers = before[: before.index(self)] if self in before else before
        try:
            return function(*args, **kwargs)
        finally:
            state.layers = before

    def process(
        self, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
    ) -> Any:
        """What a call of an operator gives here."""
        raise NotImplementedError

    def refuse_captured(self, method: str, tensor: Any) -> None:
        """RuntimeError for a write to a tensor that this level must leave alone."""

    def outlived(self, tensor: Any) -> Any:
        """The value of a tensor of this level after the level has ended."""
        raise NotImplementedError


# %% [markdown]
# ### Which tensors belong to a level of `grad`?
#
# Those that were made on it. A tensor from outside is a constant here, even if it requires a gradient one level down,
# where its part in the computation is recorded as well. That keeps derivatives of different nests apart ("perturbation
# confusion"): a tensor's history on a level is an edge of that level's wrapper, and no wrapper has two.
#
# Two rules protect what is outside. `no_grad` inside the function stops this level and those below it, but a `no_grad`
# around the whole does not stop this one: the layer remembers how recording stood when it began. And a write in place to
# a tensor from outside is refused, because the derivative of what it holds afterwards would end with the level.


# %%
#| into: aten/functorch/dynamic_layer.py
#| upstream: aten/src/ATen/functorch/ADInterpreters.h#at::functorch::GradInterpreterPtr
class GradLayer(Layer):
    """A level of its own for autograd. Its tensors wrap those of the level below, which cannot tell that they are recorded."""

    def __init__(self) -> None:
        super().__init__()
        #: Recording outside of this level is what it was when the level began; `no_grad` inside is no one else's business.
        self.outer_grad_mode = state.grad_mode

    def lift(self, tensor: Any) -> Any:
        array = tensor._array
        if isinstance(array, WrappedArray) and (array.layer is self or array.layer not in state.layers):
            return tensor
        return tensor_of(TensorWrapper(tensor, self))

    def owns(self, tensor: Any) -> bool:
        """Does this level record it?"""
        array = tensor._array
        return array.__class__ is TensorWrapper and array.layer is self

    def below(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode = state.grad_mode
        if mode and not self.outer_grad_mode:
            autograd_state.set_grad_enabled(False)
        try:
            return super().below(function, *args, **kwargs)
        finally:
            autograd_state.set_grad_enabled(mode)

    def process(
        self, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
    ) -> Any:
        found = list(tensors_in(args, kwargs))
        if any(is_dead(tensor) for tensor in found):
            return call(*map_tensors(unwrap_if_dead, args), **map_tensors(unwrap_if_dead, kwargs))
        owned = [self.owns(tensor) for tensor in found]
        if method.endswith("_") and found and not owned[0]:
            self.refuse_captured(method, found[0])
        if any(owned):
            if all(owned):
                return GO_ON
            return call(*map_tensors(self.as_constant, args), **map_tensors(self.as_constant, kwargs))
        return map_tensors(self.lift, self.below(call, *args, **kwargs))

    def as_constant(self, tensor: Any) -> Any:
        """Any tensor as one of this level; without history unless it has one here."""
        return self.lift(unwrap_if_dead(tensor))

    def refuse_captured(self, method: str, tensor: Any) -> None:
        """RuntimeError for a write to a tensor from outside: its derivative would be lost with this level."""
        if not self.owns(unwrap_if_dead(tensor)):
            raise RuntimeError(
                "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
                f"(aten::{method}) that would mutate a captured Tensor. This is not supported: make the tensor an argument of "
                "the function, or write to a clone() of it."
            )

    def outlived(self, tensor: Any) -> Any:
        return tensor._array.value


# %% [markdown]
# ### What does `vmap` do with an operator?
#
# A layer of `vmap` knows how many examples there are. What it does with an operator is the business of *batching rules*,
# which belong to the operators and are in [the appendix](../a1_operators/z_batching_rules.py). An operator without a rule
# is called for each example in turn, with a warning.


# %%
#| into: aten/functorch/dynamic_layer.py
#| upstream: aten/src/ATen/functorch/VmapInterpreter.h#at::functorch::VmapInterpreterPtr
class VmapLayer(Layer):
    """The level of `vmap` over `size` examples. `randomness`: "error", "same" or "different"."""

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        load_rules()
        self.size = size
        self.randomness = randomness

    def check_randomness(self) -> None:
        """RuntimeError for a random operation where nobody said what it should be."""
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                "randomness flags on vmap or perform the randomness operation out of vmap"
            )

    def batch(self, value: Any) -> Any:
        """The tensor that stands for one example of `value`, whose first dimension counts them."""
        return tensor_of(BatchedArray(value, self))

    def is_batched(self, tensor: Any) -> bool:
        """Does it differ from example to example?"""
        array = tensor._array
        return array.__class__ is BatchedArray and array.layer is self

    def physical(self, tensor: Any) -> Any:
        """The tensor of all examples; a tensor that is the same for all as it is."""
        array = tensor._array
        return array.value if array.__class__ is BatchedArray and array.layer is self else tensor

    def full(self, tensor: Any) -> Any:
        """The tensor of all examples; one that is the same for all is repeated, without a copy."""
        array = tensor._array
        if array.__class__ is BatchedArray and array.layer is self:
            return array.value
        return dispatcher.autograd.expand(tensor, (self.size, *array.shape))

    def process(
        self, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
    ) -> Any:
        args, kwargs = map_tensors(unwrap_if_dead, args), map_tensors(unwrap_if_dead, kwargs)
        batched = any(self.is_batched(tensor) for tensor in tensors_in(args, kwargs))
        if not batched and entry.name not in RANDOM:
            return self.below(call, *args, **kwargs)
        return self.below(batching.apply, self, entry, call, args, kwargs, method)

    def outlived(self, tensor: Any) -> Any:
        raise RuntimeError(
            "a Tensor of a vmap that has ended was used: it stood for one of many examples, inside of it only"
        )


# %%
#| into: aten/functorch/dynamic_layer.py
class Batching:
    """Where the batching rules are put; they are written with operators, and so above this file."""

    apply: Any = None


batching = Batching()


def load_rules() -> None:
    """Import the rules, when somebody first enters a `vmap`."""
    if batching.apply is None:
        from readtorch.aten import functorch

        functorch.load_rules()


# %% [markdown]
# ### How does a call reach its layer?
#
# The operators' entry points call `dispatch` when they meet such a tensor. While a layer is entered they call it for
# other tensors as well: a random operator must ask for its randomness, and what is made on a level of `grad` belongs to
# it.


# %%
#| into: aten/functorch/dynamic_layer.py
def dispatch(
    entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str = ""
) -> Any:
    """A call in which a tensor of a transform was met, or a random operator inside of one: the innermost level decides."""
    if not state.layers:
        return call(*map_tensors(unwrap_if_dead, args), **map_tensors(unwrap_if_dead, kwargs))
    return state.layers[-1].process(entry, call, args, kwargs, method or entry.name)


# %%
#| into: aten/functorch/dynamic_layer.py
def tensors_in(*values: Any) -> Iterator[Any]:
    """The tensors among values, in lists, tuples and dictionaries of them."""
    for value in values:
        if isinstance(value, TensorImpl):
            yield value
        elif value.__class__ in (list, tuple):
            yield from tensors_in(*value)
        elif value.__class__ is dict:
            yield from tensors_in(*value.values())


def map_tensors(function: Callable[[Any], Any], values: Any) -> Any:
    """The same nest with `function` applied to its tensors."""
    if isinstance(values, TensorImpl):
        return function(values)
    if isinstance(values, list | tuple):
        mapped = [map_tensors(function, value) for value in values]
        return (
            mapped if isinstance(values, list) else type(values)(mapped) if type(values) is not tuple else tuple(mapped)
        )
    if values.__class__ is dict:
        return {key: map_tensors(function, value) for key, value in values.items()}
    return values


# %% [markdown]
# The kernel of `grad`'s column has the signature of any kernel, and its body is all of step 2 above.


# %%
#| into: aten/functorch/dynamic_layer.py
def grad_wrapper_kernel(entry: OperatorEntry) -> Callable[..., Any]:
    """The operator in the column of `TensorWrapper`: called once more, one level down."""

    def kernel(*raw: Any, **options: Any) -> Any:
        layer = state.layers[-1]
        source = next((value for value in raw if value.__class__ is TensorWrapper), None)
        inside = layer.below(entry.call, *_values(raw), **{name: _values(option) for name, option in options.items()})
        return _wrapped(inside, layer, source)

    return kernel


# %%
#| into: aten/functorch/dynamic_layer.py
def _values(raw: Any) -> Any:
    if raw.__class__ is TensorWrapper:
        return raw.value
    return type(raw)(_values(item) for item in raw) if raw.__class__ in (list, tuple) else raw


def _wrapped(inside: Any, layer: Layer, source: Any) -> Any:
    if isinstance(inside, TensorImpl):
        if source is not None and inside is source.value:
            return source
        array = TensorWrapper(inside, layer)
        if inside._view is not None:
            array.base = source
        return array
    if isinstance(inside, list | tuple):
        return [_wrapped(item, layer, source) for item in inside]
    return inside


dispatcher.KERNEL_MAKERS[DispatchKey.FuncTorchGradWrapper] = grad_wrapper_kernel

# %% [markdown]
# ### What do creation functions do on a level?
#
# They have no tensor that tells them their level. `zeros_like` has one, and gives a batched tensor for a batched one.
# `torch.rand` has none, and asks the innermost `vmap` which randomness it wants. The rest makes a tensor that is the same
# for all examples.


# %%
#| into: aten/functorch/dynamic_layer.py
def made_like(function: Callable[..., Any], tensor: Any, options: dict[str, Any]) -> Any:
    """`zeros_like` and its family: a tensor like another one, which is one of many if that is."""
    tensor = unwrap_if_dead(tensor)
    if not state.layers:
        return function(tensor, **options)
    layer = state.layers[-1]
    if tensor._array.__class__ is BatchedArray and tensor._array.layer is layer:
        return layer.batch(layer.below(function, tensor._array.value, **options))
    if tensor._array.__class__ is TensorWrapper and tensor._array.layer is layer:
        tensor = tensor._array.value
    return layer.lift(layer.below(function, tensor, **options))


def made_beside(tensor: Any, make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    """`x.new_zeros` and its family: a tensor of any shape, of which there are as many as of `x`."""
    tensor = unwrap_if_dead(tensor)
    if not isinstance(tensor._array, WrappedArray):
        return make(shape)
    layer, value = tensor._array.layer, tensor._array.value
    if tensor._array.__class__ is BatchedArray:
        return layer.batch(layer.below(made_beside, value, make, (layer.size, *shape)))
    return layer.lift(layer.below(made_beside, value, make, shape))


def drawn(make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    """`torch.rand` and its family: one draw, or one for every example of the innermost `vmap`."""
    layer = state.layers[-1]
    if not isinstance(layer, VmapLayer):
        return layer.lift(layer.below(make, shape))
    layer.check_randomness()
    if layer.randomness == "same":
        return layer.below(make, shape)
    return layer.batch(layer.below(make, (layer.size, *shape)))


def detached_below(tensor: Any, detach: Callable[[Any], Any]) -> Any:
    """A tensor of a transform without history, here and on all levels below."""
    array = tensor._array
    return tensor_of(type(array)(array.layer.below(detach, array.value), array.layer))


# %% [markdown]
# What a function sees from inside, and the nest as a printed tensor shows it:


# %%
#| needs: 02_module
def look(x):
    print(x.shape, x)
    return (x * x).sum()


torch.func.vmap(torch.func.grad(look))(many)

# %% [markdown]
# One multiplication, step by step. Each operator appears once per level, the outer ones first:

# %%
#| trace: torch._functorch torch.aten.functorch layers=calls,ops values=summary title="One multiplication on two levels"
#| needs: 02_module
torch.func.vmap(torch.func.grad(lambda x: x * x))(torch.arange(3.0))


# %%
#| claim: inside vmap a tensor has the shape of one example, and neither its number nor a condition on it can be asked for
#| needs: 02_module
def _(torch):
    x = torch.arange(6.0).reshape(2, 3)
    shapes = []
    torch.func.vmap(lambda row: (shapes.append(tuple(row.shape)), row)[1])(x)
    assert shapes == [(3,)]
    for wrong in (
        lambda row: row * row[0].item(),
        lambda row: row if row.sum() > 1 else -row,
        lambda row: row[row > 1],
    ):
        try:
            torch.func.vmap(wrong)(x)
        except RuntimeError as error:
            assert "vmap" in str(error)
        else:
            raise AssertionError("computed")


# %%
#| claim: the derivative of x · d/dy (x + y) is 1: levels are not confused
#| needs: 02_module
def _(torch):
    grad = torch.func.grad
    one = torch.tensor(1.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one) == 1
    assert grad(lambda x: x * grad(lambda y: x * y)(one))(torch.tensor(5.0)) == 10


# %%
#| claim: a tensor from outside cannot be written to under grad, one that is made inside can
#| needs: 02_module
def _(torch):
    outside = torch.zeros(3)
    x = torch.arange(3.0)
    try:
        torch.func.grad(lambda x: outside.add_(x).sum())(x)
    except RuntimeError as error:
        assert "captured Tensor" in str(error)
    else:
        raise AssertionError("written")

    def inside(x):
        kept = torch.zeros(3)
        kept[0] = x[2] * 2
        kept[1:].add_(x[:2])
        return (kept * kept).sum()

    assert torch.func.grad(inside)(x).tolist() == [0.0, 2.0, 16.0]


# %%
#| claim: no_grad inside of the function stops recording, no_grad around grad does not
#| needs: 02_module
def _(torch):
    def stopped(x):
        with torch.no_grad():
            return (x * x).sum()

    x = torch.ones(2)
    assert torch.func.grad(stopped)(x).tolist() == [0.0, 0.0]
    with torch.no_grad():
        assert torch.func.grad(lambda x: (x * x).sum())(x).tolist() == [2.0, 2.0]


# %%
#| claim: what is recorded outside goes through a transform: the result of grad can be differentiated by a captured parameter
#| needs: 02_module
def _(torch):
    p = torch.tensor(3.0, requires_grad=True)
    slope = torch.func.grad(lambda x: p * x * x)(torch.tensor(2.0))
    slope.backward()
    assert slope == 12 and p.grad == 4
    with torch.no_grad():
        assert not torch.func.grad(lambda x: p * x * x)(torch.tensor(2.0)).requires_grad


# %% [markdown]
# ### What upstream does more
#
# Upstream has two more kinds of layer: `jvp`, for forward-mode derivatives, and `functionalize`, which rewrites in-place
# writes for a compiler. Here a forward derivative is two reverse ones, which gives the same numbers at about twice the
# cost, and there is no compiler. When a function that `vjp` returned is called after its level has ended, upstream makes
# the layers again; here, too, what the level saved is then taken without its wrapper.

# %%
#| fact: aten/src/ATen/functorch/DynamicLayer.h#at::functorch::initAndPushDynamicLayer
#| fact: aten/src/ATen/functorch/Interpreter.h#at::functorch::RandomnessType
#| fact: aten/src/ATen/functorch/Interpreter.h#at::functorch::Interpreter
