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
# # `torch.Tensor`: hooks, copies, and what NumPy sees
#
# Which gradient does a hook see if the tensor was written to after the hook was registered? What do `clone`, `copy.copy`
# and `copy.deepcopy` share? What does `np.exp(x)` return? The answers are in the class that users know, which is Python
# upstream too (`torch/_tensor.py`). It has what is left when the generated methods have been taken away: what a subclass
# may want to override (`backward`, `__repr__`, `__deepcopy__`), what talks to the rest of Python (iteration, NumPy,
# pickle), and a few operators whose arguments grew in ways that no schema can say (`norm`, `split`, `unique`, `stft`).

# %%
import copy

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: _tensor.py
#| imports
from __future__ import annotations

import copy
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from readtorch import _C
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.device_guard import GUARDS
from readtorch.c10.core.device_guard import device_guard
from readtorch.c10.core.dispatch_key import device_of


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor
class _TensorMeta(type):
    """`isinstance(x, torch.FloatTensor)` and `issubclass` work through the legacy types' own metaclass; this one names the class."""


class Tensor(_C.TensorBase):
    """A multi-dimensional array of one dtype that can record what is done with it.

    Its attributes and operators are bound to `TensorBase` by the floors below; here are the methods that upstream writes in Python.
    """

    __slots__ = ()
    __array_priority__ = 1000

    def __new__(cls, *args: Any, device: Any = None, dtype: Any = None) -> Any:
        array = _C._legacy_new(cls, args, dtype)
        return tensor_impl.init(tensor_impl.new(cls), array)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _C._look_at_subclass(cls)


# %% [markdown]
# ## What class does a result have?
#
# `Tensor` is made to be subclassed, and `nn.Parameter` is the first to do so. The default `__torch_function__` gives
# every operator's result the class of its arguments: a `Tagged` tensor times two is a `Tagged` tensor. `Parameter` alone
# switches that off, or all activations of a model would be parameters. How a class comes to be asked at all is [a part of
# its own](11c_subclasses.py); `__init_subclass__` above is where it notices a new class.


# %%
#| claim: an operator on a subclass returns that subclass, without the instance's attributes
#| upstream: torch/_tensor.py#Tensor.__torch_function__
def _(torch):
    class Tagged(torch.Tensor):
        pass

    tagged = torch.ones(2).as_subclass(Tagged)
    tagged.tag = "a"
    assert type(tagged * 2) is type(tagged.detach()) is Tagged and not hasattr(tagged * 2, "tag")


# %%
#| needs: 02_module
#| claim: an expression of parameters is a plain tensor
#| upstream: torch/nn/parameter.py#Parameter.__torch_function__
def _(torch):
    weight = torch.nn.Parameter(torch.ones(2, 2))
    for result in (weight * 2, weight[0], weight.clone(), weight.detach(), weight.data):
        assert type(result) is torch.Tensor


# %% [markdown]
# ## Which gradient does a hook see?
#
# `backward` hands over to [`torch.autograd`](12_autograd.py). The methods after it look as if they registered something
# on the tensor, and they do not. A hook is kept by the *node and output number* to which the tensor's gradient flows at
# the moment of registration. That explains what happens when the tensor is written to afterwards: the write gives it a
# new node, the hook stays with the old one, and sees the gradient of the value that was overwritten. A hook registered
# after the write sees the gradient of the present value. `retain_grad` is about the tensor, and moves along.


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor.backward
class Tensor(Tensor):
    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add the derivatives of this tensor to the `.grad` of the leaves it was computed from.

        `gradient` weighs the elements; needed unless there is only one. The graph's saved tensors are freed unless `retain_graph`;
        with `create_graph` the pass is recorded itself. `inputs` restricts the leaves.
        """
        from readtorch import autograd

        autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook(grad)` whenever the gradient of this tensor is computed; what it returns, if anything, replaces it."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node, number = _C._split_edge(_C._gradient_edge(self))
        if node is None:
            return _handle(OrderedDict(), hook)
        if node._tensor_pre_hooks is None:
            node._tensor_pre_hooks = {}
        return _handle(node._tensor_pre_hooks.setdefault(number, OrderedDict()), hook)

    @property
    def _backward_hooks(self) -> OrderedDict[int, Any] | None:
        """What `register_hook` has registered, by number; None if that is nothing."""
        node, number = _C._split_edge(_C._own_edge(self))
        return None if node is None else (node._tensor_pre_hooks or {}).get(number)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        """Call `hook(self)` after a gradient was added to `.grad`. Leaves only."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        node = _C._gradient_edge(self)
        if node is None:
            return _handle(OrderedDict(), hook)
        if node._post_accumulate_hooks is None:
            node._post_accumulate_hooks = OrderedDict()
        return _handle(node._post_accumulate_hooks, hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad`, too."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if _C._has_no_node(self) or self.retains_grad:
            return
        import weakref

        node, number = _C._split_edge(_C._gradient_edge(self))
        if node._retains_grad is None:
            node._retains_grad = {}
        node._retains_grad[number] = weakref.ref(self)


# %%
#| claim: a hook belongs to the value that the tensor had when it was registered, retain_grad to the value it has in the end
#| upstream: torch/csrc/autograd/variable.cpp#update_tensor_hooks_on_new_gradfn
def _(torch):
    seen = []
    leaf = torch.ones(1, requires_grad=True)
    x = leaf * 2
    x.register_hook(lambda grad: seen.append(("of the old value", grad.item())))
    x.retain_grad()
    x.mul_(3)
    x.register_hook(lambda grad: seen.append(("of the new value", grad.item())))
    x.backward()
    assert seen == [("of the new value", 1.0), ("of the old value", 3.0)]
    assert x.grad.item() == 1 and leaf.grad.item() == 6


# %% [markdown]
# Two consequences. A hook runs once per backward pass, with the sum of all paths, because its node is reached once; that
# holds for a leaf and for an intermediate result. And a hook on a parameter sees what this pass adds, not what is in
# `.grad`.
#
# Whoever registers a hook gets a handle, which takes the hook out again by `handle.remove()` or at the end of a `with`
# statement. It refers to the table weakly and to its hook by a number, so a forgotten handle keeps nothing alive.

# %%
#| into: utils/hooks.py
#| imports
from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, Self


# %%
#| into: utils/hooks.py
#| upstream: torch/utils/hooks.py#RemovableHandle
class RemovableHandle:
    """Takes a hook out again: `remove()`, or the end of a `with` block.

    `hooks_dict` is the table the hook goes into under this handle's `id`, `extra_dict` one or a list of further tables
    that may hold the same id. All are referred to weakly: a handle keeps no module alive, and outlives one without harm.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def remove(self) -> None:
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type: Any, value: Any, tb: Any) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        table, self.id, *extra = state
        #: Of a pickled handle whose table is gone only the number is left; a fresh, dead reference stands for the table.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if table is None else table)
        self.extra_dict_ref = tuple(map(weakref.ref, extra[0] if extra and extra[0] else ()))
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)


# %%
#| into: _tensor.py
def _handle(hooks: dict, hook: Any) -> Any:
    from readtorch.utils.hooks import RemovableHandle

    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


# %%
#| claim: a hook is kept alive by the graph and not by its handle; registered twice it runs twice; what it returns must have the shape it was given
def _(torch):
    import gc
    import weakref

    calls = []

    def hook(grad):
        calls.append(grad)

    x = torch.ones(1, requires_grad=True)
    alive, handles = weakref.ref(hook), [x.register_hook(hook), x.register_hook(hook)]
    del hook
    x.backward()
    assert len(calls) == 2 and alive() is not None
    del x
    gc.collect()
    assert alive() is None and len(handles) == 2
    y = torch.ones(1, requires_grad=True) * 2
    y.register_hook(lambda grad: torch.ones(2))
    try:
        y.backward()
    except RuntimeError as error:
        assert "has changed the size of value" in str(error)
    else:
        raise AssertionError("accepted")


# %% [markdown]
# ## Five ways to copy, and what each shares
#
# | | memory | graph | class, attributes | `.grad` |
# |---|---|---|---|---|
# | `x.clone()` | new | goes on | class only | no |
# | `x.detach().clone()` | new | cut | class only | no |
# | `copy.copy(x)` | shared | a new leaf | both | no |
# | `copy.deepcopy(x)` | new, the whole storage | leaves only | both, copied too | copied |
# | `pickle.loads(pickle.dumps(x))` | new, the whole storage | a leaf, of anything | both | no |
#
# A deep copy copies *storages*, each once. Two views of one memory are two views of one memory again, tied weights stay
# tied, and one element cut from a large table brings a copy of the table.
#
# A deep copy of a non-leaf is refused. A copy of its history would be a graph that nobody recorded, and the history of a
# copied module would end in the parameters of the old one. `copy.deepcopy(model)` meets that refusal when a module keeps
# a computed tensor as an attribute.


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor.__deepcopy__
class Tensor(Tensor):
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A leaf with its own memory. Tensors that shared a storage share the copy's. RuntimeError for a non-leaf."""
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) can take part in the deepcopy protocol: detach() this one first. "
                "Inside a module it is often the weight that torch.nn.utils.weight_norm computes, "
                "see https://github.com/pytorch/pytorch/pull/103001"
            )
        if id(self) in memo:
            return memo[id(self)]
        if type(self) is not Tensor and type(self.new_empty(())) is not type(self):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for non-wrapper subclasses only works for subclass types that implement "
                f"new_empty() and get a {type(self).__name__} from it: write one of the two methods."
            )
        result = tensor_impl.init(tensor_impl.new(type(self)), _copy_with_storage(self._array, memo))
        if self.requires_grad:
            result.requires_grad_()
        if self._grad is not None:
            result._grad = copy.deepcopy(self._grad, memo)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        memo[id(self)] = result
        return result

    def __copy__(self) -> Any:
        result = tensor_impl.init(tensor_impl.new(type(self)), self._array)
        if self.requires_grad:
            result.requires_grad_()
        result.__dict__.update(self.__dict__)
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from readtorch import _utils

        state = self.__dict__
        function, args = _utils._reduce_tensor(self)
        if type(self) is Tensor and not state:
            return (function, args)
        return (_rebuild_from_type_v2, (function, type(self), args, dict(state)))

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


# %%
#| into: _tensor.py
def _copy_with_storage(array: Any, memo: dict[Any, Any]) -> Any:
    """Copy the whole memory once, and look into the copy as `array` looks into the original."""
    if array.__class__ is not np.ndarray and array.__class__ not in GUARDS:
        return array.copy()
    with device_guard(array):
        return _copy_memory(array, memo)


def _copy_memory(array: Any, memo: dict[Any, Any]) -> Any:
    owner = _C._owner_of(array)
    if owner is array or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        key = ("readtorch storage", id(owner))
        if owner is not array:
            return array.copy(order="K")
        if key not in memo:
            memo[key] = array.copy(order="K")
            memo[id(owner)] = owner
        return memo[key].view()
    key = ("readtorch storage", id(owner))
    if key not in memo:
        memo[key] = owner.copy(order="K")
    if not array.size:
        return array.copy()
    offset = _C._data_address(array) - _C._data_address(owner)
    flat = memo[key].reshape(-1, order="A").view(np.uint8)
    if array.__class__ is np.ndarray:
        return np.ndarray(array.shape, array.dtype, flat, offset, array.strides)
    numpy, _ = _C._library_of(device_of(array))
    part = flat[offset:][: (flat.size - offset) // array.itemsize * array.itemsize]
    return numpy.lib.stride_tricks.as_strided(part.view(array.dtype), array.shape, array.strides)


# %%
#| needs: a1_operators
table = torch.zeros(4)
first, second = table[:2], table[1:]

# %%
#| needs: a1_operators
#| trace: torch._tensor layers=calls values=summary title="deepcopy: one memory, copied once, seen twice"
copies = copy.deepcopy([first, second])

# %%
#| needs: a1_operators
copies[0][1] = 7
copies, table


# %%
#| needs: a1_operators
#| claim: a deep copy keeps sharing and copies whole storages and .grad; copy.copy shares; a non-leaf cannot be deep-copied and is pickled as a leaf
#| upstream: torch/_tensor.py#Tensor.__deepcopy__
def _(torch):
    import copy
    import pickle

    whole = torch.zeros(4)
    a, b = copy.deepcopy([whole, whole[1:]])
    a[1] = 5
    assert b[0].item() == 5 and whole[1].item() == 0
    assert copy.deepcopy(whole[3:]).untyped_storage().nbytes() == 16
    leaf = torch.ones(1, requires_grad=True)
    (leaf * 2).backward()
    assert copy.deepcopy(leaf).grad.item() == 2 and copy.deepcopy(leaf).grad is not leaf.grad
    alias = copy.copy(leaf)
    assert alias.data_ptr() == leaf.data_ptr() and alias.is_leaf and alias.requires_grad and alias.grad is None
    try:
        copy.deepcopy(leaf * 2)
    except RuntimeError as error:
        assert "Only Tensors created explicitly by the user" in str(error)
    else:
        raise AssertionError("copied")
    assert pickle.loads(pickle.dumps(leaf * 2)).is_leaf


# %% [markdown]
# ## Why is `sum(x)` so slow?
#
# Because a tensor is a sequence of rows. It has `__len__` and `__iter__`, so Python's own functions run on it: `sum(x)`,
# `max(x)`, `sorted(x)`, `a, b = x`. They see the rows of the first dimension one by one, as tensors. `sum(x)` on a
# million elements makes a million calls, takes many seconds, and builds a chain of a million nodes if a gradient is
# wanted; `x.sum()` is one call and one node.


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor.__iter__
class Tensor(Tensor):
    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Any:
        return self.flip(0) if self._array.ndim else self

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, Tensor | int | float | complex):
            equal: Any = self == element
            return bool(equal.any().item())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar elements, not a {type(element)}.")

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        from readtorch import _tensor_str

        return _tensor_str._str(self, tensor_contents=tensor_contents)

    def __format__(self, spec: str) -> str:
        if not self._array.ndim and not self.is_meta and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __hash__(self) -> int:
        return id(self)

    def __dir__(self) -> list[str]:
        return sorted({name for cls in type(self).__mro__ for name in vars(cls)} | set(self.__dict__))


# %% [markdown]
# ## What does NumPy see?
#
# There are three protocols, from the oldest to the youngest. `__array__` gives an array on the same memory:
# `np.asarray(x)` shares. `__array_wrap__` is asked when a ufunc is done and makes its result a tensor again, so
# `np.exp(x)` is a tensor, computed by NumPy and unknown to autograd. It still has a rule from the time before there was a
# bool: truth values become `uint8`. `__dlpack__` is the exchange between libraries. The receiver takes over a capsule
# with address, shape, strides and device, and gives it back when it is done. On a GPU the first two fail; the third
# passes the stream, so that the receiver waits for what the giver has queued.


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor.__array__
class Tensor(Tensor):
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        if array.dtype == bool:
            array = array.astype(np.uint8)
        return _C._from_numpy(np.asarray(array))

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if max_version is None:
            return self._array.__dlpack__()
        #: Without a version the receiver must take the memory for read-only.
        return self._array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    @property
    def __array_interface__(self) -> Any:
        return self.numpy().__array_interface__

    def share_memory_(self) -> Any:
        """Move the memory to where other processes can see it."""
        from readtorch import _utils

        _utils._share_memory(self)
        return self

    def is_shared(self) -> bool:
        """Does it lie in shared memory?"""
        from readtorch import _utils

        return _utils._is_shared(self)

    def storage(self) -> Any:
        """The storage, typed as this tensor's elements."""
        from readtorch.storage import _warn_typed_storage

        _warn_typed_storage()
        return self._typed_storage()

    def _typed_storage(self) -> Any:
        from readtorch.storage import TypedStorage

        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)

    def storage_type(self) -> Any:
        """The old class of its storage: `torch.FloatStorage`."""
        return self.storage()._get_legacy_storage_class()


# %%
#| claim: NumPy's functions on a tensor give tensors outside of the graph, and uint8 for truth values; with a gradient wanted they fail
#| upstream: torch/_tensor.py#Tensor.__array_wrap__
def _(torch):
    import warnings

    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.zeros(2)
        assert isinstance(np.exp(x), torch.Tensor) and np.exp(x).dtype is torch.float32
        assert np.greater(x, 1).dtype is torch.uint8
        np.asarray(x)[0] = 4
        assert x.tolist() == [4, 0]
        try:
            np.exp(torch.zeros(2, requires_grad=True))
        except RuntimeError as error:
            assert "Can't call numpy() on Tensor that requires grad" in str(error)
        else:
            raise AssertionError("computed")


# %%
#| needs: a1_operators
#| claim: `from_dlpack` shares the giver's memory; a tensor that requires a gradient is not given away
def _(torch):
    import numpy as np

    array = np.zeros(2)
    torch.from_dlpack(array)[0] = 5
    assert array.tolist() == [5, 0]
    x = torch.zeros(2)
    np.from_dlpack(x)[1] = 7
    assert x.tolist() == [0, 7]
    try:
        np.from_dlpack(torch.zeros(2, requires_grad=True))
    except BufferError as error:
        assert "require gradient" in str(error)
    else:
        raise AssertionError("given")


# %% [markdown]
# Last, the class is put into the slot that [all operators read](02_storage_and_views.py#wrap). From here on they return
# `Tensor`.

# %%
#| into: _tensor.py
tensor_impl.Tensor = Tensor
