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
# # Memory that is shared, swapped, or not there
#
# `model.to(…)` keeps the Parameter object and exchanges what is in it. Three relatives of that move have rules of their own: one puts the bytes where another process can see them, one exchanges *everything* about two tensor objects, and
# one builds the model without any bytes and asks for them later.

# %%
import multiprocessing
import time

import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()


# %%
class Scale(nn.Module):
    def __init__(self, width=3, device=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, device=device))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64, device=device))

    def forward(self, x):
        return x * self.weight


# %% [markdown]
# ## What do two processes share after `share_memory()`?
#
# Hogwild training and many actors of reinforcement learning run one model in several processes without a server between them. A forked child has a copy of everything; a write on one side is not seen on the other:

# %%
fork = multiprocessing.get_context("fork")


def overwrite(model):
    with torch.no_grad():
        model.weight.fill_(7)
    model.weight.grad = torch.full((3,), 9.0)
    model.weight.extra = "set by the child"


def in_a_child(model):
    child = fork.Process(target=overwrite, args=(model,))
    child.start()
    child.join()
    return model.weight.tolist(), model.weight.grad, hasattr(model.weight, "extra")


in_a_child(Scale()), in_a_child(Scale().share_memory())

# %% [markdown]
# `share_memory()` is `_apply` with `share_memory_`, which moves the bytes of each *storage* into a mapping that a child inherits (or receives, when the tensor is sent through a queue). So the last answer is exact: the elements arrive. `.grad`, which the child made, does not,
# nor do attributes, `requires_grad` or the version counter: they belong to the object, and each process has its own. Three consequences:
#
# 1. Every process makes its own optimizer over its own objects; they step on common memory. Momentum and second moments are *not* common, unless the optimizer's `share_memory()` is called too, where there is one (Adagrad has it, Adam does not).
# 2. Gradients that exist when the model is shared are moved along, and are common from then on. The recipe is therefore: share *before* the first backward, so that each process allocates its own.
# 3. Nothing is locked. Two steps at once lose updates element by element; that is what Hogwild accepts.


# %%
#| claim: sharing a module's memory keeps the Parameter objects, shares parameters, buffers and gradients that exist, and ties survive
def _(torch):
    nn = torch.nn
    model = nn.Module()
    model.a, model.b = nn.Module(), nn.Module()
    model.a.weight = model.b.weight = nn.Parameter(torch.ones(2))
    model.register_buffer("mean", torch.zeros(2))
    model.a.weight.sum().backward()
    held = model.a.weight
    assert model.share_memory() is model
    assert model.a.weight is held is model.b.weight
    assert held.is_shared() and held.grad.is_shared() and model.mean.is_shared()


# %%
#| claim: a state_dict taken after share_memory is an alias of shared memory; what load_state_dict copies in stays shared, what assign=True puts there does not
def _(torch):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.ones(2))
    model.share_memory()
    state = model.state_dict()
    assert state["weight"].is_shared()
    model.load_state_dict({"weight": torch.zeros(2)})
    assert model.weight.is_shared() and state["weight"].tolist() == [0, 0]
    model.load_state_dict({"weight": torch.zeros(2)}, assign=True)
    assert not model.weight.is_shared()


# %% [markdown]
# A conversion takes the sharing away as silently: `model.share_memory().half()` has fresh, private memory. Convert first, share last.


# %%
#| claim: a conversion after share_memory gives private memory again
def _(torch):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.ones(2))
    model.share_memory().to(torch.float32)
    assert model.weight.is_shared()
    assert not model.double().weight.is_shared()


# %% [markdown]
# ## What if `.data =` cannot do it?
#
# `param.data = converted` lets one tensor object take the storage, shape and dtype of another. It does not take its *kind*. A tensor on `meta` is made of something else than one on the CPU, and a subclass that wraps other tensors (quantised, sharded) has several of them inside and its own class
# around; there is no single storage to hand over. For these `_apply` falls back to a new Parameter, and loses what the object's identity was good for. The way out that keeps it is to exchange the objects' whole content, class and attributes included: **`swap_tensors`**.


# %%
#| into: csrc/autograd/python_variable.py
def swap_tensor_impl(a: Any, b: Any) -> None:
    """Exchange all that two tensor objects hold: memory, history, gradient, version, hooks."""
    for slot in ("_array", "_edge", "_grad", "_meta", "_vc", "_view"):
        of_a, of_b = getattr(a, slot, EMPTY), getattr(b, slot, EMPTY)
        for tensor, value in ((a, of_b), (b, of_a)):
            if value is not EMPTY:
                setattr(tensor, slot, value)
            elif slot == "_edge":
                tensor.forget_edge()
    for counter in {id(x._vc): x._vc for x in (a, b) if x._vc is not None and x._view is not None}.values():
        counter.exchange(a, b)
    for tensor in (a, b):
        if variable.own_edge(tensor).__class__ is AccumulateGrad:
            #: The node accumulates into an object, and that object holds something else now.
            tensor._edge = tensor._edge.successor(tensor)


# %%
#| into: csrc/autograd/functions/accumulate_grad.py
class AccumulateGrad(AccumulateGrad):
    def successor(self, leaf: Any) -> AccumulateGrad:
        """A node that accumulates into `leaf` and runs the hooks that were registered on the tensor."""
        node = type(self)(leaf)
        node._tensor_pre_hooks = self._tensor_pre_hooks
        node._post_accumulate_hooks = self._post_accumulate_hooks
        return node


# %% [markdown]
# The exchange itself is the easy half. The other half is to refuse where somebody would be cheated. A weak reference was taken to *this* tensor, and would from now on lead to the other. A view looks into memory that its base no longer has. And a graph that was built before the exchange ends in a node that
# accumulates into an object, which now has another shape, dtype or device. The first two can be seen beforehand. The third cannot be forbidden, since a leaf's node may outlive its graph; so the node is *poisoned*: a hook is put on it that raises if backward ever arrives.


# %%
#| into: utils/__init__.py
#| upstream: torch/utils/__init__.py#swap_tensors
def swap_tensors(t1: _Any, t2: _Any) -> None:
    """Exchange two tensors: each object keeps its identity and gets the other's class, content, gradient and attributes.

    RuntimeError if the classes have different slots, or if a weak reference or a view of one of them exists. A backward
    through a graph that was built before raises when it reaches a tensor that was exchanged.
    """
    from readtorch.autograd.graph import register_prehook
    from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
    from readtorch.csrc.autograd.python_variable import swap_tensor_impl
    from readtorch.csrc.autograd.variable import own_edge

    slots = _slots(type(t1))
    for name, tensor in (("t1", t1), ("t2", t2)):
        if _is_weakly_held(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if slots != _slots(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, tensor in (("t1", t1), ("t2", t2)):
        if tensor._vc is not None and any(view._view[0] is tensor for view in tensor._vc.living_views()):
            raise RuntimeError(
                f"Expected use_count of {name} to be 1 or 2, but it has a view, which looks into memory that would be "
                "another tensor's: drop the view first."
            )
    if t1 is t2:
        return
    for tensor in (t1, t2):
        edge = own_edge(tensor)
        if edge.__class__ is AccumulateGrad:
            register_prehook(edge, _refuse_after_swap)
    values = {name: (getattr(t1, name, _MISSING), getattr(t2, name, _MISSING)) for name in slots}
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name, (of_t1, of_t2) in values.items():
        for tensor, value in ((t1, of_t2), (t2, of_t1)):
            if value is not _MISSING:
                setattr(tensor, name, value)
            elif hasattr(tensor, name):
                delattr(tensor, name)
    swap_tensor_impl(t1, t2)


# %%
#| into: utils/__init__.py
def _is_weakly_held(tensor: _Any) -> bool:
    """Has somebody outside of the library a weak reference to the tensor? Python shares plain ones, so their holders are counted."""
    from readtorch.csrc.autograd.variable import own_edge

    by_edge = getattr(own_edge(tensor), "_variable", None)
    ours = [] if tensor._vc is None else tensor._vc.entries()
    for reference in _weakrefs(tensor):
        known = sum(entry is reference for entry in ours)
        if known and _refcount(reference) > 2 * known + 2 * (reference is by_edge) + _HELD_HERE:
            return True
        if not known and reference is not by_edge:
            return True
    return False


#: besides the memory of views and the copy of it: by the list that is looped over, by the name in the loop, by the question itself
_HELD_HERE = 3

from sys import getrefcount as _refcount
from weakref import getweakrefs as _weakrefs

_MISSING: _Any = object()


def _slots(cls: type) -> set[str]:
    """The slots that subclasses of Tensor have added."""
    from readtorch import Tensor

    own = [vars(base).get("__slots__", ()) for base in cls.__mro__ if issubclass(base, Tensor) and base is not Tensor]
    return {name for names in own for name in ((names,) if isinstance(names, str) else names)}


def _refuse_after_swap(grad_outputs: _Any) -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the tensor got another content between "
        "forward and backward. With torch.__future__.set_swap_module_params_on_conversion(True), change a module's device "
        "or dtype, or load into it, before the forward or after the backward."
    )


# %%
first, second = torch.ones(2), nn.Parameter(torch.zeros(3, dtype=torch.float64))
held = first
second.note = "on the second"
torch.utils.swap_tensors(first, second)
held is first, first, first.note


# %%
#| claim: after swap_tensors each object has the other's class, content, gradient and attributes, and gradients go where the content went
def _(torch):
    a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2))
    (a * 3).sum().backward()
    a.note = "moves"
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [0, 0] and a.grad is None and not hasattr(a, "note")
    assert b.tolist() == [1, 1] and b.grad.tolist() == [3, 3] and b.note == "moves"
    (a * 2).sum().backward()
    (b * 5).sum().backward()
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [8, 8]
    plain, weight = torch.ones(1), torch.nn.Parameter(torch.zeros(1))
    torch.utils.swap_tensors(plain, weight)
    assert type(plain) is torch.nn.Parameter and type(weight) is torch.Tensor


# %%
#| claim: a view that is swapped hands over what it looks into: writes through the other object reach the base
def _(torch):
    base, other = torch.ones(3, requires_grad=True) * 1, torch.zeros(2)
    view = base[1:]
    torch.utils.swap_tensors(view, other)
    other.add_(5)
    assert base.tolist() == [1, 6, 6] and view.tolist() == [0, 0] and other._base is base
    base.sum().backward()
    import weakref

    reference = weakref.ref(other)
    try:
        torch.utils.swap_tensors(other, view)
    except RuntimeError as error:
        assert "weakref" in str(error) and reference() is other
    else:
        raise AssertionError("a tensor that is referred to weakly was exchanged")


# %%
#| claim: swap_tensors refuses a tensor that is referred to weakly or has a view, and poisons the graph that was built before
def _(torch):
    import weakref

    def refused(phrase, work):
        try:
            work()
        except RuntimeError as error:
            return phrase in str(error)
        return False

    tensor = torch.ones(2)
    reference = weakref.ref(tensor, lambda _: None)
    assert refused("weakref", lambda: torch.utils.swap_tensors(tensor, torch.zeros(2)))
    assert reference() is tensor
    weight = torch.nn.Parameter(torch.ones(2))
    view = weight.view(1, 2)
    assert refused("use_count", lambda: torch.utils.swap_tensors(weight, torch.zeros(2))) and view.shape == (1, 2)
    weight = torch.nn.Parameter(torch.ones(2))
    result = (weight + 1).sum()
    torch.utils.swap_tensors(weight, torch.zeros(2))
    assert refused("poisoned by swap_tensors", result.backward)


# %% [markdown]
# ## The flag that makes it the rule
#
# `torch.__future__.set_swap_module_params_on_conversion(True)` makes conversions and `load_state_dict` exchange objects, always. Whoever has a model with wrapper subclasses gets it without the flag, for those parameters alone.

# %%
#| into: __future__.py
#| upstream: torch/__future__.py#set_swap_module_params_on_conversion
#| upstream: torch/__future__.py#get_swap_module_params_on_conversion
_swap_module_params_on_conversion: bool = False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Let conversions of a module, and `load_state_dict`, exchange parameters by `swap_tensors`."""
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions and loading exchange parameters by `swap_tensors`. Default: False."""
    return _swap_module_params_on_conversion


# %%
def what_is_kept(swap):
    """Is the object kept: by half(), to("meta"), and by a load that brings its own dtype?"""
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        half, meta, loaded = Scale(), Scale(), Scale()
        objects = [half.weight, meta.weight, loaded.weight]
        half.half(), meta.to("meta"), loaded.load_state_dict(Scale().double().state_dict(), assign=True)
        return [model.weight is held for model, held in zip((half, meta, loaded), objects, strict=True)]
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


{"default": what_is_kept(False), "with the flag": what_is_kept(True)}

# %% [markdown]
# The two that `.data =` had to give up are kept, so ties survive `to("meta")` and an optimizer survives `assign=True`. Watch one conversion: `fn` makes the new tensor, a Parameter is made of it, and the two objects change places.

# %%
kept = Scale(2)
torch.__future__.set_swap_module_params_on_conversion(True)

# %%
#| trace: torch.nn torch.utils torch.csrc.autograd layers=calls,lines values=summary title="double() with the flag: make, exchange, drop"
same = kept.double()

# %%
torch.__future__.set_swap_module_params_on_conversion(False)
kept.weight.dtype, kept.weight.is_leaf


# %%
#| claim: with the swap flag, Parameter and gradient objects survive to("meta") and load_state_dict(assign=True), and ties survive with them
def _(torch):
    nn = torch.nn
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model = nn.Module()
        model.a, model.b = nn.Module(), nn.Module()
        model.a.weight = model.b.weight = nn.Parameter(torch.ones(2))
        weight = model.a.weight
        weight.sum().backward()
        gradient = weight.grad
        model.double()
        assert model.a.weight is weight and weight.dtype == torch.float64 and weight.grad is gradient
        weight.grad = None
        model.to("meta")
        assert model.a.weight is weight is model.b.weight and weight.is_meta
        model.load_state_dict({name: torch.ones(2) for name in ("a.weight", "b.weight")}, assign=True)
        assert model.a.weight is weight is model.b.weight and weight.tolist() == [1, 1] and weight.requires_grad
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


# %%
#| claim: with the swap flag, a conversion between forward and backward makes the backward fail; without it the gradient arrives in the new dtype
def _(torch):
    def convert_in_between(swap):
        torch.__future__.set_swap_module_params_on_conversion(swap)
        try:
            module = torch.nn.Module()
            module.weight = torch.nn.Parameter(torch.ones(2))
            loss = (module.weight + 1).sum()
            module.to("cpu")
            loss.backward()
            return module.weight.grad.tolist()
        except RuntimeError as error:
            return "poisoned by swap_tensors" in str(error)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    assert convert_in_between(False) == [1, 1] and convert_in_between(True) is True


# %% [markdown]
# A subclass has a say in what is loaded into it: with the flag, `load_state_dict` asks `parameter.module_load(given, assign)` for the tensor to exchange with. The default copies into itself, as ever, or takes the given one for `assign`; a quantised parameter would quantise what it is given.


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor.module_load
class Tensor(Tensor):
    def module_load(self, other: Any, assign: bool = False) -> Any:
        """What `load_state_dict` is to exchange with `self`, having found `other`. Neither of the two objects themselves."""
        return other.detach() if assign else self.copy_(other).detach()


# %%
#| claim: with the swap flag, a tensor subclass decides by module_load what is loaded into it
def _(torch):
    class Rounded(torch.Tensor):
        def module_load(self, other, assign=False):
            return torch.round(other).as_subclass(Rounded)

    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.zeros(2).as_subclass(Rounded))
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.load_state_dict({"weight": torch.tensor([0.4, 2.6])})
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert type(module.weight) is Rounded and module.weight.tolist() == [0, 3]


# %% [markdown]
# ## A model without memory
#
# A model of 70 billion parameters, built in the usual way, is first filled with random numbers that nobody wants, and then loaded. On the device `meta` a tensor has shape, dtype, strides and history, and no elements. The constructor runs, `nn.init` included, and nothing is computed:

# %%
#| needs: a2_layers
start = time.perf_counter()
with torch.device("meta"):
    huge = nn.Module()
    huge.weight = nn.Parameter(torch.empty(1_000_000, 100_000))
    torch.nn.init.normal_(huge.weight, std=0.02)
    huge.weight.data[0] = 1
    huge.weight.data.mul_(2).sub_(1)
f"{huge.weight.numel() * 4 / 1e9:.0f} GB in {(time.perf_counter() - start) * 1e3:.1f} ms", huge.weight.data

# %% [markdown]
# A write to it does nothing, and counts: the version goes up, a view of it is noticed, because the point of `meta` is to fail exactly where the real run would fail. What it refuses are questions whose *answer's shape* depends on elements: `nonzero`, `unique`, `x[mask]`, `.item()`, `if x:`.


# %%
#| claim: writes to a meta tensor are accepted and counted, by index and by mask too, also of values on the CPU
def _(torch):
    x = torch.empty(3, 2, device="meta")
    x[0] = 1
    x[1] = torch.ones(2)
    x[x > 0] = 0
    x[torch.tensor([0, 2])] = 5
    x.masked_fill_(x == 0, 3)
    x.fill_(1).add_(2).copy_(torch.ones(3, 2))
    assert x._version == 8 and x.is_meta and x.shape == (3, 2)
    try:
        x[0] = torch.ones(5)
    except RuntimeError:
        pass
    else:
        raise AssertionError("took five elements for two")


# %%
#| claim: what would need elements is refused on meta: reading them, branching on them, and results whose shape depends on them
def _(torch):
    x = torch.ones(2, device="meta")
    for work in (x.item, x.tolist, x.cpu, x.nonzero, x.unique, lambda: x[x > 0], lambda: bool(x[0])):
        try:
            work()
        except (NotImplementedError, RuntimeError):
            pass
        else:
            raise AssertionError("answered")


# %% [markdown]
# There are two ways from there to a model that runs. `to_empty(device=…)` allocates, and the elements are whatever was in that memory: every parameter *and buffer* has to be set afterwards, also those that no checkpoint holds (a table of sines that the constructor computes is gone). `load_state_dict(state, assign=True)` puts
# the checkpoint's tensors there, and leaves on `meta` what the checkpoint does not name. What is forgotten shows late: the first operator that meets it.


# %%
model = Scale(device="meta")
model.load_state_dict({"weight": torch.full((3,), 2.0)}, strict=False, assign=True)
model.weight.device, model.calls.device, model(torch.ones(3))

# %% [markdown]
# The forward ran, since it does not use `calls`; `model.to("cpu")` names the problem. A check before training is one line, and the exercise below.


# %%
#| claim: to_empty keeps shapes and requires_grad and no values; to() refuses a module that is still on meta and names to_empty
def _(torch):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(2, device="meta"), requires_grad=False)
    try:
        module.to("cpu")
    except NotImplementedError as error:
        assert "to_empty()" in str(error)
    else:
        raise AssertionError("moved")
    weight = module.to_empty(device="cpu").weight
    assert weight.device.type == "cpu" and weight.shape == (2,) and not weight.requires_grad


# %% [markdown]
# ## What upstream does more
#
# * `swap_tensors` counts references in C++: a tensor that a graph has *saved* (the factor of a product, say) is refused at once, with the sentence on `use_count`. Here the poisoned node says it, when backward arrives.
# * `share_memory_` has two ways to give memory to other processes, file descriptors and files in `/dev/shm` (`torch.multiprocessing.set_sharing_strategy`); on a GPU, sharing is by IPC handles and `share_memory_` does nothing.
# * `meta` runs C++ *meta kernels*, one per operator, and `FakeTensor` builds on them: a meta tensor that claims to be on a device. Ours computes pointwise operators on one element, in the backward pass too, and products of matrices not at all; what is left (sorting, decompositions) runs NumPy's kernel on a *specimen*, one element seen through strides of 0 or, where zeros would be refused, a unit matrix, and costs what it costs on the CPU. A check of values is skipped. Views tell the strides that the real view would have, pointwise results those of upstream's rule ([in which order does a result lie?](../00_tensor/02_storage_and_views.py#contiguous_strides)); gradients, Fourier transforms and some factorizations may lie in another order than upstream's.

# %%
#| fact: torch/utils/__init__.py#swap_tensors
#| fact: torch/multiprocessing/reductions.py#reduce_storage
#| fact: torch/optim/adagrad.py#Adagrad.share_memory

# %% [markdown]
# ## Bugs you can now explain
#
# **“`Qwen3_5MoeTextRotaryEmbedding.inv_freq` reads uninitialized memory after `meta → to_empty(cuda)` materialization”** (huggingface/transformers#45902; the same again as pytorch/torchtitan#4783). The constructor computes a table of frequencies and registers it with `persistent=False`, since it can be computed. On
# `meta` it computes nothing. `to_empty` gives the table memory, the checkpoint has no entry for it, and a *strict* load reports that all keys matched, truthfully: a buffer that is not persistent is not expected. The loss starts near chance, and nothing was raised.


# %%
#| claim: a strict load after to_empty says that all keys matched and leaves a non-persistent buffer as to_empty made it
#| source: huggingface/transformers#45902
def _(torch):
    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("inv_freq", 1.0 / torch.arange(1.0, 4.0), persistent=False)

    state = Rotary().state_dict()
    with torch.device("meta"):
        model = Rotary()
    model.to_empty(device="cpu")
    model.inv_freq.fill_(float("nan"))  # stands for what was in that memory
    assert str(model.load_state_dict(state)) == "<All keys matched successfully>"
    assert model.weight.tolist() == [1, 1] and torch.isnan(model.inv_freq).all()


# %% [markdown]
# **“mnist_hogwild - breaking gradient sharing”** (pytorch/examples#138). The example walked over the parameters after `share_memory()` to give each process gradients of its own, and the loop never did anything: there are no gradients before the first backward, so none had been shared. It matters the other way round. Whoever shares a
# model that has already been trained for a step shares its gradients too.


# %%
#| claim: a gradient that exists is shared with the model; one that is made later is private
#| source: pytorch/examples#138
def _(torch):
    def gradient_is_shared(backward_first):
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(torch.ones(2))
        if backward_first:
            module.weight.sum().backward()
        module.share_memory()
        if not backward_first:
            module.weight.sum().backward()
        return module.weight.grad.is_shared()

    assert gradient_is_shared(True) and not gradient_is_shared(False)


# %% [markdown]
# ## Exercises
#
# **What was forgotten.** Write `still_on_meta(model)`: the dotted names of all parameters and buffers that have no memory yet, each shared one under its first name. Then `materialize(model, state)`: load `state`, and initialise the rest by the modules' own `reset_parameters`, on the CPU, without touching what was loaded.


# %%
#| exercise: materialize
def still_on_meta(model: nn.Module) -> list[str]:
    raise NotImplementedError


def materialize(model: nn.Module, state: dict) -> nn.Module:
    raise NotImplementedError


# %%
#| solution: materialize
def still_on_meta(model: nn.Module) -> list[str]:
    members = [*model.named_parameters(), *model.named_buffers()]
    return [name for name, tensor in members if tensor.is_meta]


def materialize(model: nn.Module, state: dict) -> nn.Module:
    model.load_state_dict(state, strict=False, assign=True)
    for module in model.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if not any(tensor.is_meta for tensor in own):
            continue
        loaded = {name: value for name, value in module.state_dict().items() if not value.is_meta and "." not in name}
        kept = {name: value.clone() for name, value in loaded.items()}
        module.to_empty(device="cpu", recurse=False)
        module.reset_parameters()
        module.load_state_dict(kept, strict=False)
    return model


# %%
#| check: materialize
class Shift(nn.Module):
    def __init__(self, width, device=None):
        super().__init__()
        self.bias = nn.Parameter(torch.empty(width, device=device))
        self.gain = nn.Parameter(torch.empty(width, device=device))
        self.reset_parameters()

    def reset_parameters(self):
        with torch.no_grad():
            self.bias.fill_(0.5)
            self.gain.fill_(2.0)


network = nn.Module()
network.first, network.second = Shift(2, "meta"), Shift(2, "meta")
assert still_on_meta(network) == ["first.bias", "first.gain", "second.bias", "second.gain"]
assert materialize(network, {"first.bias": torch.ones(2)}) is network and still_on_meta(network) == []
assert network.first.bias.tolist() == [1, 1] and network.first.gain.tolist() == [2, 2]
assert network.second.bias.tolist() == [0.5, 0.5]
