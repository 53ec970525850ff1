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
# # A parameter that has no shape yet
#
# `nn.LazyLinear(10)` learns its input size from the first batch. Until then its weight must be registered, movable and
# castable, and must not be usable: an empty tensor would compute nonsense. `UninitializedParameter` is a Parameter that
# refuses to show its elements to any operator, until `materialize` gives it a shape and turns the *object* into an
# ordinary Parameter by assigning to its `__class__`. Whoever holds a reference, an optimizer for instance, sees it
# become real.


# %%
import copy

import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

live()

# %% [markdown]
# ## How can a tensor refuse to be used?
#
# Every operator of chapter 0 begins by reading one attribute, the raw array. So it is enough to stand in front of that.
# Upstream's operators are C++ and read no Python attribute; there the class answers through `__torch_function__`, which
# is asked before any operator runs, and can say in its message which one it was.

# %%
#| into: nn/parameter.py
#| imports
from typing import cast

from readtorch import _C
from readtorch.c10.core.tensor_impl import TensorImpl, wrap


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#UninitializedTensorMixin
class UninitializedTensorMixin:
    """A tensor without a shape: it can be moved and cast, and raises ValueError when an operator asks for its elements."""

    __torch_function__ = _C._disabled_torch_function_impl
    cls_to_become: type
    _edge: Any
    requires_grad: Any
    device: Any
    dtype: Any

    #: Every operator begins by reading `_array`. The slot holds an empty array of the right dtype and device; this property lies in
    #: front of it.
    @property
    def _array(self) -> Any:
        raise ValueError(
            "Attempted to use an uninitialized parameter. "
            f"A `{type(self).__name__}` has no shape until its `LazyModule` has seen an input: call "
            "`forward` with a dummy batch to initialize it before torch functions use such parameters"
        )

    @_array.setter
    def _array(self, array: Any) -> None:
        _SLOT.__set__(self, array)

    @property
    def data(self) -> Tensor:
        return wrap(_SLOT.__get__(self))

    @data.setter
    def data(self, content: Tensor) -> None:
        mine = type(self)
        self.__class__ = self.cls_to_become  # for one assignment, what it is going to be
        self.data = content
        self.__class__ = mine

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of `shape`, uninitialised, on the given or the present device and dtype."""
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.data = empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. If this happened in `load_state_dict`, an "
            "uninitialized parameter was loaded into an initialized one: call `forward` first"
        )

    def _around(self, content: Tensor) -> Any:
        """What a conversion of this tensor gives, having given `content` for its data: a parameter takes it as `data`."""
        return content

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer, which has none before `forward`"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad,)


_SLOT: Any = TensorImpl._array


# %% [markdown]
# What must work all the same, moving, casting and a few questions, is answered by the empty array behind. A conversion
# of a buffer gives a new buffer, since that is what `_apply` puts into the table; a parameter takes the result as its
# `data`.


# %%
#| into: nn/parameter.py
def _asked_of_its_data(name: str) -> Any:
    """A property or method of tensors that an uninitialised one answers by its empty data."""
    if isinstance(vars(TensorImpl).get(name), property):
        return property(lambda self: getattr(self.data, name))
    return lambda self, *args, **kwargs: getattr(self.data, name)(*args, **kwargs)


def _moved_with_its_data(name: str) -> Any:
    """A conversion: what comes out is again without a shape."""
    return lambda self, *args, **kwargs: self._around(getattr(self.data, name)(*args, **kwargs))


for _name in ("device", "dtype", "is_meta", "size", "is_complex", "is_floating_point"):
    setattr(UninitializedTensorMixin, _name, _asked_of_its_data(_name))
for _name in ("to", "cpu", "cuda", "half", "float", "double", "bfloat16", "char", "short", "int", "long"):
    setattr(UninitializedTensorMixin, _name, _moved_with_its_data(_name))


# %%
#| into: nn/parameter.py
#| upstream: torch/nn/parameter.py#UninitializedParameter
#| upstream: torch/nn/parameter.py#UninitializedBuffer
#| upstream: torch/nn/parameter.py#is_lazy
class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]  # the mixin narrows what the base answers
    """A parameter whose shape is not known yet; `materialize` makes it a `Parameter`."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        made = Parameter(empty(0, device=device, dtype=dtype), requires_grad)
        made.__class__ = cls
        return cast(UninitializedParameter, made)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]  # the mixin narrows what the base answers
    """A buffer whose shape is not known yet; `materialize` makes it a `Tensor`."""

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made: Any = empty(0, device=device, dtype=dtype, requires_grad=requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        made.__class__ = cls
        return made

    def _around(self, content: Tensor) -> UninitializedBuffer:
        return type(self)(content.requires_grad, content.device, content.dtype, cast(Any, self).persistent)


def is_lazy(param: Any) -> bool:
    """Whether `param` is a parameter or buffer that has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


# %%
weight = nn.UninitializedParameter()
held, lazy = weight, nn.Module()
lazy.weight = weight
lazy.double()
weight.materialize((2,))
weight.data.fill_(0.5)
held is weight, type(weight).__name__, weight.dtype, (weight * 2).tolist()


# %%
#| claim: an uninitialised parameter moves and casts, refuses operators and its shape, and becomes a Parameter in place
def _(torch):
    weight = torch.nn.UninitializedParameter()
    for use, error in (
        (lambda: weight.sum(), ValueError),
        (lambda: weight + 1, ValueError),
        (lambda: weight.shape, RuntimeError),
    ):
        try:
            use()
        except error:
            pass
        else:
            raise AssertionError("allowed")
    module = torch.nn.Module()
    module.weight = weight
    module.to(torch.float64)
    assert type(module.weight) is torch.nn.UninitializedParameter and weight.dtype == torch.float64
    weight.materialize((2, 3))
    assert type(module.weight) is torch.nn.Parameter and weight.shape == (2, 3) and weight.requires_grad


# %% [markdown]
# ## What is left to the lazy modules
#
# The parameter does not know when to materialise. `LazyLinear` and its relatives do: they register a forward pre-hook
# on themselves that looks at the first input, calls `materialize`, removes itself, and changes the class of the
# *module* in the same way (`LazyLinear` to `Linear`). All of it is made of what this chapter has built: a pre-hook, a
# handle, a table. Step into the first call of one: the class is another when it ends.

# %%
#| needs: a2_layers
#| trace: torch.nn.modules torch.nn.parameter layers=calls values=summary title="the first call of a LazyLinear"
lazy = nn.LazyLinear(3)
lazy(torch.ones(2, 4))

# %%
#| needs: a2_layers
type(lazy), lazy, lazy._forward_pre_hooks

# %%
#| fact: torch/nn/modules/lazy.py#LazyModuleMixin
#| fact: torch/nn/modules/lazy.py#LazyModuleMixin._infer_parameters
#| fact: torch/nn/parameter.py#UninitializedTensorMixin.__torch_function__


# %%
#| needs: a2_layers
#| claim: a lazy layer becomes the ordinary one at its first call, and its parameter objects stay
def _(torch):
    lazy = torch.nn.LazyLinear(3)
    weight = lazy.weight
    assert type(weight) is torch.nn.UninitializedParameter
    lazy(torch.ones(2, 4))
    assert type(lazy) is torch.nn.Linear and lazy.weight is weight
    assert type(weight) is torch.nn.Parameter and weight.shape == (3, 4)


# %% [markdown]
# ## Bugs you can now explain
#
# **“`ValueError: Attempted to use an uninitialized parameter`”** (pyg-team/pytorch_geometric#7845; TylerYep/torchinfo#117 and most tools that summarise models). A lazy model has no parameters that can be counted before its first batch: `sum(p.numel() for p in model.parameters())`
# raises. Pass one batch through it first, under `no_grad`.
#
# `model.apply(init)` before the first batch raises for the same reason. Its quieter relative is an `init` that writes to `weight.data`, as older code does: that has no elements and is filled without a word, and later `materialize` allocates anew and `reset_parameters` draws.


# %%
#| claim: counting or initialising the elements of a parameter that has no shape is a ValueError; through its data it is accepted and lost
#| source: pyg-team/pytorch_geometric#7845
def _(torch):
    weight = torch.nn.UninitializedParameter()
    try:
        weight.numel()
    except ValueError as error:
        assert "uninitialized parameter" in str(error)
    else:
        raise AssertionError("counted")
    module = torch.nn.Module()
    module.weight = weight
    try:
        module.apply(lambda module: module.weight.zero_())
    except ValueError as error:
        assert "uninitialized parameter" in str(error)
    else:
        raise AssertionError("initialised")
    assert weight.data.fill_(7).shape == (0,)
    weight.materialize((2,))
    assert weight.shape == (2,)


# %% [markdown]
# ## Exercise
#
# **Copies before the first batch.** An average of weights (`copy.deepcopy(model)`, then a blend after each step) is to start together with a lazy model, before any batch has been seen. Copied now, model and copy would each draw weights of their own. Write `copied_when_ready(model)`: it returns a list that
# is empty now and holds one deep copy as soon as the first call of `model` has given every parameter its shape; later calls add nothing.


# %%
#| exercise: copied_when_ready
def copied_when_ready(model: nn.Module) -> list:
    raise NotImplementedError


# %%
#| solution: copied_when_ready
def copied_when_ready(model: nn.Module) -> list:
    copies: list = []

    def once(module, args, output):
        handle.remove()  # first: a deep copy takes hooks along
        copies.append(copy.deepcopy(module))

    handle = model.register_forward_hook(once)
    return copies


# %%
#| check: copied_when_ready
#| needs: a2_layers
model = nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(2))
copies = copied_when_ready(model)
assert copies == []
x = torch.ones(1, 4)
first = model(x)
model(x)
assert len(copies) == 1 and not copies[0]._forward_hooks and not model._forward_hooks
assert torch.equal(copies[0](x), first) and copies[0][0].weight is not model[0].weight
