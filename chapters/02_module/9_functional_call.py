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
# # A module as a function of its parameters
#
# Training code treats the weights as the module's own affair. Some methods do not: they differentiate *through* an update, run one architecture with a hundred sets of weights, or let another network produce them. They want a function of the weights.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## Why not assign them?
#
# One step of gradient descent, and the loss after it as a function of the weights before it. The updated weight is the result of operations; put it where the old one was:

# %%
#| needs: a2_layers
layer = nn.Linear(2, 1, bias=False)
x, y = torch.ones(4, 2), torch.zeros(4, 1)
loss = (layer(x) - y).pow(2).mean()
(slope,) = torch.autograd.grad(loss, layer.weight, create_graph=True)
fast = layer.weight - 0.1 * slope
try:
    layer.weight = fast
except TypeError as error:
    print(error)

# %% [markdown]
# `__setattr__` is right to refuse: a name registered as a parameter must stay one, or the optimizer would lose it unseen. `layer.weight.data = fast` is accepted and cuts the graph. What is wanted is a loan: for the time of one call the entries of `_parameters` and
# `_buffers` are others, `__call__` runs with all its hooks, and the old ones come back, also after an exception.

# %%
#| into: __init__.py
_MODULES.append("func")

# %%
#| into: func/__init__.py
"""Functions of functions: derivatives, examples, modules as functions of their weights."""

from typing import Any as _Any

from readtorch._functorch.apis import grad as grad
from readtorch._functorch.apis import grad_and_value as grad_and_value
from readtorch._functorch.apis import vmap as vmap
from readtorch._functorch.eager_transforms import debug_unwrap as debug_unwrap
from readtorch._functorch.eager_transforms import hessian as hessian
from readtorch._functorch.eager_transforms import jacfwd as jacfwd
from readtorch._functorch.eager_transforms import jacrev as jacrev
from readtorch._functorch.eager_transforms import jvp as jvp
from readtorch._functorch.eager_transforms import linearize as linearize
from readtorch._functorch.eager_transforms import vjp as vjp
from readtorch._functorch.functional_call import functional_call as functional_call


def __getattr__(name: str) -> _Any:
    from readtorch._not_here import missing

    raise missing("torch.func", name)


# %%
#| into: _functorch/__init__.py
"""Where upstream keeps what `torch.func` exports."""

# %%
#| into: _functorch/functional_call.py
"""Calling a module with other tensors in place of its own."""

# %%
#| into: _functorch/functional_call.py
#| imports
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch import Tensor, nn


# %%
#| into: _functorch/functional_call.py
#| upstream: torch/_functorch/functional_call.py#functional_call
def functional_call(
    module: nn.Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with the given tensors in place of the parameters and buffers of those names; the module is unchanged.

    `tie_weights`: a tensor given for one name of a shared parameter stands for all its names. `strict`: all names must be
    given, and no others. ValueError for a name in two dicts, RuntimeError for what `strict` forbids.
    """
    given = _merge(parameter_and_buffer_dicts)
    own: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    if strict:
        _check_names(module, given, own)
    if tie_weights:
        given = _tie(given, own)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _swapped(module, given):
        return module(*arguments, **({} if kwargs is None else kwargs))


def _merge(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or several in a list or tuple, not {type(dicts)}"
        )
    if not all(isinstance(each, dict) for each in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    repeated = [key for key, count in Counter(key for each in dicts for key in each).items() if count > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {key: value for each in dicts for key, value in each.items()}


def _check_names(module: nn.Module, given: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    missing, unexpected = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    if missing or unexpected:
        parts = [
            f"{what} key(s): {', '.join(map(repr, names))}."
            for what, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(parts))


def _tie(given: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """`given` with every other name of a shared tensor added."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(id(tensor), []).append(name)
    tied = dict(given)
    for names in names_of.values():
        values = {id(given[name]): given[name] for name in names if name in given}
        if len(values) > 1:
            raise ValueError(f"functional_call got values for both {names[0]} and {names[1]}, which are tied")
        for name in names if values else ():
            tied[name] = next(iter(values.values()))
    return tied


@contextmanager
def _swapped(module: nn.Module, given: dict[str, Tensor]) -> Iterator[None]:
    """The tensors of `given` in place of the module's own, for a block."""
    replaced: list[tuple[Any, str, Any]] = []
    try:
        for path, tensor in given.items():
            owner_path, _, name = path.rpartition(".")
            _check_pair(name, tensor)
            owner = module.get_submodule(owner_path)
            home = _home(owner, name)
            if home is owner:
                replaced.append((owner, name, getattr(owner, name)))
                setattr(owner, name, tensor)
            else:
                replaced.append((home, name, home.get(name, _MISSING)))
                home[name] = tensor
        yield
    finally:
        for home, name, original in reversed(replaced):
            if not isinstance(home, dict):
                setattr(home, name, original)
            elif original is _MISSING:
                del home[name]
            else:
                home[name] = original


_MISSING: Any = object()


def _check_pair(name: str, tensor: Any) -> None:
    from readtorch import Tensor

    if not name:
        raise KeyError("tensor name can't be empty")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"`{name}` stands for a tensor: {tensor!r} is not an instance of torch.Tensor")


def _home(owner: nn.Module, name: str) -> Any:
    """The dictionary a name is lent in; plain attributes are lent too. The module itself where its class computes the attribute.

    TypeError for an attribute that is no tensor.
    """
    from readtorch import Tensor

    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table
    present = getattr(owner, name, _MISSING)
    if present is not _MISSING and not isinstance(present, Tensor):
        raise TypeError(
            f"attribute `{name}` of {type(owner).__name__} cannot be exchanged: it is not an instance of torch.Tensor"
        )
    return owner if hasattr(getattr(type(owner), name, None), "__set__") else vars(owner)


# %% [markdown]
# The step from above, with the loan. The second loss knows the first weight:

# %%
#| needs: a2_layers
after = (torch.func.functional_call(layer, {"weight": fast}, (x,)) - y).pow(2).mean()
after.backward()
layer.weight.grad, after < loss

# %%
#| trace: torch.nn torch._functorch layers=calls,ops values=summary title="functional_call: lend, call, take back"
#| needs: a2_layers
torch.func.functional_call(layer, {"weight": fast}, (x,))

# %% [markdown]
# The module is as it was, object for object:


# %%
class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


scale = Scale()
torch.func.functional_call(scale, {"by": torch.full((2,), 5.0)}, torch.ones(2)), scale.by


# %%
#| claim: functional_call leaves the module as it was, also when the call raises
def _(torch):
    class Fails(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(1))

        def forward(self):
            raise ValueError("on purpose")

    m = Fails()
    before = m.p
    try:
        torch.func.functional_call(m, {"p": torch.ones(1)}, ())
    except ValueError:
        pass
    assert m.p is before


# %% [markdown]
# Three details are easy to get wrong when one writes it oneself. A tied weight has two names and must be replaced under both; the module's hooks must run, since they are part of what the module computes; and a buffer that `forward` changes in place is the lent one, so the statistics of a batch
# norm are written into the caller's dictionary and the module's own do not move.


# %%
#| claim: a tensor lent for one name of a tied weight stands for all its names, and hooks run
#| needs: a2_layers
def _(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    with torch.no_grad():
        model[0].weight.fill_(1)
    called = []
    model[1].register_forward_hook(lambda module, args, output: called.append(module.weight.sum().item()))
    result = torch.func.functional_call(model, {"0.weight": torch.zeros(2, 2)}, (torch.ones(1, 2),))
    assert result.tolist() == [[0.0, 0.0]] and called == [0.0]
    loose = torch.func.functional_call(model, {"1.weight": 2 * torch.eye(2)}, (torch.ones(1, 2),), tie_weights=False)
    assert loose.tolist() == [[4.0, 4.0]]


# %%
#| claim: running statistics are updated in the lent buffers and not in the module's
#| needs: a2_layers
def _(torch):
    norm = torch.nn.BatchNorm1d(2)
    lent = {name: value.clone() for name, value in norm.state_dict().items()}
    torch.func.functional_call(norm, lent, (torch.arange(6.0).reshape(3, 2),))
    assert norm.running_mean.tolist() == [0.0, 0.0] and norm.num_batches_tracked == 0
    assert lent["running_mean"].sum() > 0 and lent["num_batches_tracked"] == 1


# %% [markdown]
# A name that is no member is not an error unless `strict` is set: it becomes an attribute for the time of the call. A typing error in a name therefore runs the module with its own weight, silently.


# %%
#| claim: without strict, a misspelt name is accepted and the module computes with its own weight
#| needs: a2_layers
def _(torch):
    layer = torch.nn.Linear(1, 1, bias=False)
    x = torch.ones(1, 1)
    assert torch.equal(torch.func.functional_call(layer, {"wieght": torch.zeros(1, 1)}, (x,)), layer(x))
    assert not hasattr(layer, "wieght")
    try:
        torch.func.functional_call(layer, {"wieght": torch.zeros(1, 1)}, (x,), strict=True)
    except RuntimeError as error:
        assert "Unexpected key" in str(error) and "Missing key" in str(error)
    else:
        raise AssertionError("called")


# %% [markdown]
# ## The lasting way: `parametrize`
#
# A loan ends with the call. If a weight shall *always* be computed from another tensor, symmetric, orthogonal, of norm one, the module itself has to change: `torch.nn.utils.parametrize.register_parametrization(layer, "weight", function)`. It takes the parameter out of `_parameters`, keeps it as
# `parametrizations.weight.original`, and gives the instance a class of its own in which `weight` is a *property* that calls the function. `__getattr__`, which finds parameters, is only asked where ordinary lookup fails; so the property wins. The code stands in the appendix on layers, in the part on `parametrize`.


# %%
#| needs: a2_layers
class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


square = nn.Linear(3, 3)
nn.utils.parametrize.register_parametrization(square, "weight", Symmetric())
type(square).__mro__[:2], list(square.state_dict()), torch.equal(square.weight, square.weight.T)


# %%
#| claim: a parametrized module has a class of its own and the original under another key; it is not pickled, and takes no new Parameter under the old name
#| needs: a2_layers
def _(torch):
    import pickle

    class Double(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    layer = torch.nn.Linear(2, 2)
    before = layer.weight
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, torch.nn.Linear)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is before and torch.equal(layer.weight, 2 * before)
    try:
        pickle.dumps(layer)
    except RuntimeError as error:
        assert "only supported through state_dict" in str(error)
    else:
        raise AssertionError("pickled")
    try:
        layer.weight = torch.nn.Parameter(torch.ones(2, 2))
    except KeyError as error:
        assert "attribute 'weight' already exists" in str(error)
    else:
        raise AssertionError("assigned")


# %% [markdown]
# Whoever wants to *set* a computed weight says how to compute backwards: with a `right_inverse`, an assignment of a plain tensor is one to the original.


# %%
#| claim: assigning a tensor to a parametrized weight goes through right_inverse, and is refused where there is none
#| needs: a2_layers
def _(torch):
    class Double(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    class Reversible(Double):
        def right_inverse(self, weight):
            return weight / 2

    register = torch.nn.utils.parametrize.register_parametrization
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    register(one, "weight", Reversible())
    register(other, "weight", Double())
    with torch.no_grad():
        one.weight = torch.ones(2, 2)
    assert one.parametrizations.weight.original[0, 0] == 0.5 and one.weight[0, 0] == 1
    try:
        other.weight = torch.ones(2, 2)
    except RuntimeError as error:
        assert "right_inverse" in str(error)
    else:
        raise AssertionError("assigned")


# %% [markdown]
# A loan of such a weight cannot go into a table. It goes through the property's setter, as an assignment would: the value must pass `right_inverse`, and where there is none the call is refused. Nor does it leave no trace: what comes back afterwards has passed `right_inverse` too.


# %%
#| claim: a parametrized weight is lent through `right_inverse`; without one the loan is refused
#| needs: a2_layers
def _(torch):
    nn, functional_call = torch.nn, torch.func.functional_call
    ten, x = torch.full((1, 2), 10.0), torch.ones(1, 2)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(2, 1, bias=False))
    before = normed.weight.detach().clone()
    assert functional_call(normed, {"weight": ten}, (x,)).item() == 20
    assert torch.allclose(normed.weight, before)

    class Double(nn.Module):
        def forward(self, weight):
            return 2 * weight

    doubled = nn.Linear(2, 1, bias=False)
    nn.utils.parametrize.register_parametrization(doubled, "weight", Double())
    try:
        functional_call(doubled, {"weight": ten}, (x,))
    except RuntimeError as error:
        assert "does not implement right_inverse" in str(error)
    else:
        raise AssertionError("lent")
    lent = functional_call(doubled, {"parametrizations.weight.original": ten}, (x,))
    assert lent.item() == 40


# %% [markdown]
# ## The twin in C++
#
# `torch::nn::Module` has the same life: parameters, buffers and children by name, `to`, `train`, `zero_grad`, `apply`, `save`. What differs follows from the language.
#
# | Python | C++ | because |
# |---|---|---|
# | `self.weight = nn.Parameter(t)` registers | `weight = register_parameter("weight", t)` | there is no hook on assignment; member and table both hold the tensor |
# | a `Parameter` is a class | a tensor with `requires_grad` | registered by the call, not by its type |
# | modules are references | `TORCH_MODULE(Linear)` wraps `LinearImpl` in a holder, a `shared_ptr` with the API of a module | values would be copied |
# | `copy.deepcopy(m)` | `Cloneable<Derived>::clone()` calls `reset()` and copies by name | no general deep copy; that is why layers build their tensors in `reset()` |
# | `forward` of any signature, hooks, `functional_call` | `forward` is not virtual; no hooks, no loan | a virtual method needs one signature |
# | `model.to("cuda")` writes to `.data` | `to_impl` walks children, then `set_data` on each tensor | the same move on the same objects |

# %%
#| fact: torch/csrc/api/include/torch/nn/module.h#torch::nn::Module
#| fact: torch/csrc/api/include/torch/nn/module.h#torch::nn::Module::to_impl
#| fact: torch/csrc/api/include/torch/nn/cloneable.h#torch::nn::Cloneable
#| fact: torch/csrc/api/include/torch/nn/pimpl.h#torch::nn::ModuleHolder
#| fact: torch/nn/utils/parametrize.py#register_parametrization

# %% [markdown]
# The two share no tree. A module of Python is no `torch::nn::Module`, and the other way round; what both hold are the same tensors of C++, which is why a checkpoint can be carried from one to the other and a module cannot.
#
# ## Bugs you can now explain
#
# **“`parametrize` can't be used together with `swa_utils.AveragedModel`”** (pytorch/pytorch#69413). `AveragedModel` makes a deep copy, a deep copy without `__deepcopy__` asks for the state that pickling uses, and a parametrized module refuses to be pickled, because the class that was made on the spot has no name
# that an import would find. Since 1.13 the made class brings a `__deepcopy__`.


# %%
#| claim: a parametrized module can be copied although it cannot be pickled, and the copy is independent
#| source: pytorch/pytorch#69413
#| needs: 04_optim
def _(torch):
    import copy

    class Double(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    layer = torch.nn.Linear(2, 2)
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.parametrizations.weight.original.zero_()
    assert other.weight.abs().sum() == 0 and layer.weight.abs().sum() > 0
    torch.optim.swa_utils.AveragedModel(layer)


# %% [markdown]
# ## Exercises
#
# **Two steps ahead.** Write `loss_after(model, steps, rate, x, y)`: the squared error after that many steps of plain gradient descent, as a tensor that can be differentiated with respect to the model's own parameters. The model itself keeps its weights.


# %%
#| exercise: loss_after
def loss_after(model, steps, rate, x, y):
    raise NotImplementedError


# %%
#| solution: loss_after
def loss_after(model, steps, rate, x, y):
    weights = dict(model.named_parameters())

    def loss():
        return (torch.func.functional_call(model, weights, (x,)) - y).pow(2).mean()

    for _ in range(steps):
        slopes = torch.autograd.grad(loss(), list(weights.values()), create_graph=True)
        weights = {name: w - rate * g for (name, w), g in zip(weights.items(), slopes, strict=True)}
    return loss()


# %%
#| check: loss_after
#| needs: a2_layers
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
inputs, targets = torch.rand(5, 2, dtype=torch.float64), torch.rand(5, 1, dtype=torch.float64)
kept = [p.clone() for p in model.parameters()]
losses = [loss_after(model, n, 0.1, inputs, targets) for n in (0, 1, 2)]
assert losses[2] < losses[1] < losses[0]
assert all(torch.equal(p, k) for p, k in zip(model.parameters(), kept, strict=True))
(slope,) = torch.autograd.grad(losses[2], model[0].bias)
step = 1e-6
with torch.no_grad():
    model[0].bias[0] += step
moved = loss_after(model, 2, 0.1, inputs, targets)
assert abs((moved - losses[2]).item() / step - slope[0].item()) < 1e-5
