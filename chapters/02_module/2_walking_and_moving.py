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
# # Walking the tree, and moving it
#
# Every module knows its own three tables and nothing else. Everything one says about a *model*, its weights, its
# device, its mode, is said by walking from table to table. There are two walks in `nn.Module`, and they do not visit
# the same things in the same order; several surprises of daily work come from mistaking one for the other.

# %%
import timeit

import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn.modules.module import Module

live()

# %% [markdown]
# The model of this part has two levels, a buffer that counts, and one layer that is used twice.


# %%
class Scale(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x * self.weight


class Block(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.own = Scale()
        self.shared = shared

    def forward(self, x):
        return self.shared(self.own(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        shared = Scale()
        self.first = Block(shared)
        self.second = Block(shared)

    def forward(self, x):
        return self.second(self.first(x))


net = Net()

# %% [markdown]
# ## Which modules are there, and in which order?
#
# Drawn as objects, the model is not a tree. One `Scale` has two parents, and so two paths lead to it.
#
# ```mermaid
# flowchart TD
#   N["Net"] -- first --> A["Block"]
#   N -- second --> B["Block"]
#   A -- own --> X["Scale"]
#   A -- shared --> S["Scale (shared)"]
#   B -- own --> Y["Scale"]
#   B -- shared --> S
# ```
#
# A walk that ignored this would hand the shared weight to the optimizer twice, and the step would be twice as long. The
# first walk therefore carries a set of modules already seen.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.named_modules
#| upstream: torch/nn/modules/module.py#Module.modules
class Module(Module):
    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (dotted name, module) for this module and all below it, a parent before its children.

        A module that can be reached by several paths comes once, under the first, unless `remove_duplicate` is False.
        `memo` holds the modules already seen. The first name is `prefix`.
        """
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        lead = prefix and f"{prefix}."
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(seen, lead + name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, a parent before its children, each once unless told otherwise."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module


# %%
for name, module in net.named_modules():
    print(f"{name!r:16} {type(module).__name__}")

# %% [markdown]
# Parents come before children, children in the order of registration, and the shared layer once, under the first path
# that reaches it. The root is called "". Because this is a chain of generators, each level yields through all levels
# above it: step through the first few `next()`s and watch the stack grow and shrink.

# %%
#| trace: torch.nn layers=calls,lines title="named_modules: one generator per level"
walk = net.named_modules()
paths = [next(walk)[0] for _ in range(4)]

# %% [markdown]
# `children()` is the other question: what do *you* hold, directly? It does not descend.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.named_children
#| upstream: torch/nn/modules/module.py#Module.children
class Module(Module):
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for the direct children, each module once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct children, each once."""
        for _, module in self.named_children():
            yield module


# %%
[name for name, _ in net.named_children()], [name for name, _ in net.first.named_children()]

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`modules()` returns all layers of the network." It returns the network too, and every
# > container on the way, so a loop that wraps or counts "layers" meets `Net` itself first. And it returns each *object*
# > once, not each use: a model that applies one layer twelve times has one.


# %%
#| claim: the walk of modules() starts with the module itself, descends, and yields a shared module once; children() yields direct ones only
def _(torch):
    nn = torch.nn
    leaf = nn.Module()
    inner, root = nn.Module(), nn.Module()
    inner.leaf, root.inner, root.leaf = leaf, inner, leaf
    assert list(root.modules()) == [root, inner, leaf]
    assert list(root.children()) == [inner, leaf]
    assert [name for name, _ in root.named_modules()] == ["", "inner", "inner.leaf"]
    assert [name for name, _ in root.named_modules(remove_duplicate=False)] == ["", "inner", "inner.leaf", "leaf"]


# %% [markdown]
# "Seen" is decided by a set, so by `hash` and `==`. An ordinary class inherits both from `object` and means identity. A
# dataclass does not: `@dataclass` writes an `__eq__` and thereby removes `__hash__`, and a model with such a module
# inside can be built, printed, copied and saved, and fails wherever the tree is walked: at `parameters()`, `to`, `train`,
# `zero_grad`. `@dataclass(eq=False)` is the cure.


# %%
#| claim: a module made with @dataclass cannot be walked, because it is not hashable; with eq=False it can
def _(torch):
    from dataclasses import dataclass

    def walk(**options):
        @dataclass(**options)
        class Config(torch.nn.Module):
            width: int = 3

            def __post_init__(self):
                super().__init__()

        return list(Config().modules())

    try:
        walk()
    except TypeError as error:
        assert "unhashable" in str(error)
    else:
        raise AssertionError("walked")
    assert len(walk(eq=False)) == 1


# %% [markdown]
# ## Which parameters does an optimizer get?
#
# The parameters are the members of the tables of the modules of the walk. One helper serves parameters and buffers; it
# carries a second set, because a *tensor* can be shared too, between modules that are not.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._named_members
#| upstream: torch/nn/modules/module.py#Module.named_parameters
#| upstream: torch/nn/modules/module.py#Module.parameters
#| upstream: torch/nn/modules/module.py#Module.named_buffers
#| upstream: torch/nn/modules/module.py#Module.buffers
class Module(Module):
    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        #: `==` on tensors compares elements, but a set compares only what hashes equal, and a tensor's hash is its identity.
        seen: set[Any] = set()
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (dotted name, parameter): each module's own, then its children's. A shared one comes under its first name.

        With `recurse` False only this module's own; with `remove_duplicate` False a shared one comes under every name.
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield each parameter once, in the order of `named_parameters`; what an optimizer is given."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (dotted name, buffer), persistent or not, in the manner of `named_parameters`."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield each buffer once, in the order of `named_buffers`."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer


# %%
class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.decode = Scale(), Scale()
        self.decode.weight = self.embed.weight  # tied: two modules, one Parameter


tied = LanguageModel()
[name for name, _ in tied.named_parameters()], list(tied.state_dict())

# %% [markdown]
# A tied weight has one parameter and two names. `named_parameters` gives the first, which is right for an optimizer,
# and `state_dict` gives both, which is right for a file: the reader may be a model that does not tie them. Code that
# matches the two lists by name, as many a home-made weight loader does, breaks here.


# %%
#| claim: a tied parameter is yielded once by named_parameters, under its first name, and saved under both
def _(torch):
    nn = torch.nn
    model = nn.Module()
    model.a, model.b = nn.Module(), nn.Module()
    model.a.weight = model.b.weight = nn.Parameter(torch.ones(2))
    assert [name for name, _ in model.named_parameters()] == ["a.weight"]
    assert [name for name, _ in model.named_parameters(remove_duplicate=False)] == ["a.weight", "b.weight"]
    assert list(model.state_dict()) == ["a.weight", "b.weight"]


# %% [markdown]
# ## From a path to a member
#
# The dotted names that the walks produce can be used in the other direction. `get_submodule` takes one step per dot,
# and so costs the depth of the path and not the size of the model, as a search in `dict(model.named_modules())` would.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.get_submodule
#| upstream: torch/nn/modules/module.py#Module.set_submodule
class Module(Module):
    def get_submodule(self, target: str) -> Module:
        """The module at the dotted path `target`; this one for "".

        Raises AttributeError that names the first step which does not exist or is no module.
        """
        module = self
        for step in target.split(".") if target else ():
            module = _step(module, step)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at the dotted path `target`, whose last step is created unless `strict`.

        Raises ValueError if `target` is empty or `module` is no module; AttributeError if the path does not exist, or
        ends on something that is no module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name: the root cannot be replaced")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            _step(parent, name)
        setattr(parent, name, module)


# %%
#| into: nn/modules/module.py
def _member(module: Module, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)


def _step(module: Module, name: str) -> Module:
    found = _member(module, name)
    if not isinstance(found, Module):
        raise AttributeError(f"`{name}` is not an nn.Module")
    return found


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.get_parameter
#| upstream: torch/nn/modules/module.py#Module.get_buffer
class Module(Module):
    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the dotted path `target`. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        found = _member(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the dotted path `target`. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = _member(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found


# %%
net.get_submodule("first.own"), net.get_parameter("second.own.weight").shape, net.get_buffer("first.shared.calls").dtype


# %%
#| claim: the error of a path names the first step that is missing, and the one that is no module
def _(torch):
    root = torch.nn.Module()
    root.inner = torch.nn.Module()
    root.inner.weight = torch.nn.Parameter(torch.ones(1))
    for path, phrase in (
        ("inner.absent.x", "Module has no attribute `absent`"),
        ("inner.weight.x", "`weight` is not an nn.Module"),
    ):
        try:
            root.get_submodule(path)
        except AttributeError as error:
            assert phrase in str(error)
        else:
            raise AssertionError(path)
    assert root.get_submodule("") is root


# %%
#| claim: assignment by set_submodule creates the last step of a path unless strict, and refuses to overwrite what is no module
def _(torch):
    nn = torch.nn
    root = nn.Module()
    root.inner = nn.Module()
    root.inner.weight = nn.Parameter(torch.ones(1))
    root.set_submodule("inner.added", nn.Module())
    assert "added" in root.inner._modules
    for path, strict in (("inner.absent", True), ("inner.weight", False), ("absent.x", False)):
        try:
            root.set_submodule(path, nn.Module(), strict=strict)
        except AttributeError:
            pass
        else:
            raise AssertionError(path)


# %% [markdown]
# ## Does `apply` recurse, and in which order?
#
# It does, and it is the second walk: it goes through `children()` and calls itself on each. Two things follow from this
# one line.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.apply
class Module(Module):
    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every module below, then on this one: children before their parent. Returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self


# %%
visited = []
net.apply(lambda module: visited.append(type(module).__name__))
visited

# %% [markdown]
# Children come *before* their parent, the reverse of `modules()`, so that a parent's initialiser has the last word over
# what its children did. And the shared layer is visited **twice**: `children()` removes duplicates among one module's
# children, and no set travels down with the recursion. For `fill_` that is harmless. A function that multiplies does so
# twice, and one that draws random numbers advances the generator once more than the number of layers suggests.

# %%
#| trace: torch.nn layers=calls title="apply: down first, then the function"
touched = Scale(2)
holder = nn.Module()
holder.left, holder.right = touched, Scale(2)
holder.apply(lambda module: None)


# %%
#| claim: children are visited by apply before their parents, and a module with two parents twice; modules() yields it once
def _(torch):
    nn = torch.nn
    shared, left, right, root = (nn.Module() for _ in range(4))
    root.left, root.right, left.leaf, right.leaf = left, right, shared, shared
    order = []
    root.apply(order.append)
    assert order == [shared, left, shared, right, root]
    assert sum(module is shared for module in root.modules()) == 1


# %% [markdown]
# An initialiser tests what it was given, as every module comes by, containers and the root included:


# %%
def init(module):
    if isinstance(module, Scale):
        with torch.no_grad():
            module.weight.fill_(0.5)


net.apply(init).first.own.weight

# %% [markdown]
# `no_grad` is needed because `fill_` in place on a leaf that requires a gradient is refused (chapter 0). `nn.init`
# functions bring it along.

# %% [markdown]
# ## What do `train()` and `eval()` switch?
#
# One Boolean per module.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.train
#| upstream: torch/nn/modules/module.py#Module.eval
class Module(Module):
    def train(self, mode: bool = True) -> Self:
        """Set `training` to `mode` here and in every module below. Returns self. Raises ValueError if `mode` is no bool."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`. Gradients are recorded as before: that is `no_grad`'s business."""
        return self.train(False)


# %% [markdown]
# Nothing in this class reads `training`. The modules that compute differently while training do: dropout draws a mask
# or passes its input through, RReLU draws its slopes or takes their mean, BatchNorm normalises by the batch and updates
# its statistics or uses them. The smallest of them:


# %%
#| fact: torch/nn/modules/dropout.py#Dropout.forward
#| fact: torch/nn/modules/activation.py#RReLU.forward
#| fact: torch/nn/modules/batchnorm.py#_BatchNorm.forward


# %%
class Drop(nn.Module):
    def forward(self, x):
        if not self.training:
            return x
        return x * (torch.rand(x.shape) < 0.5) * 2


torch.manual_seed(0)
drop = Drop()
drop(torch.ones(6)), drop.eval()(torch.ones(6))

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** `eval()` is taken for "inference mode". It does not touch autograd: the graph is recorded
# > and memory is used as before. `no_grad` does that, and leaves dropout on. Evaluation needs both, and neither implies
# > the other.


# %%
#| claim: after eval() gradients are still recorded, under no_grad() the training flag is still on
def _(torch):
    class Drop(torch.nn.Module):
        def forward(self, x):
            return torch.zeros_like(x) if self.training else x * 1

    drop, x = Drop(), torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert drop(x).sum() == 0 and drop.training
    out = drop.eval()(x)
    assert out.requires_grad and out.sum() == 2


# %%
#| needs: a2_layers
#| needs: 03_norm
#| claim: in eval(), Dropout is the identity, RReLU takes the mean of its slopes and BatchNorm keeps its statistics; a train-mode forward changes a BatchNorm's buffers even under no_grad
def _(torch):
    nn = torch.nn
    x = torch.arange(8.0).reshape(4, 2)
    assert torch.equal(nn.Dropout(0.9).eval()(x), x)
    slopes = nn.RReLU(0.25, 0.75)
    assert torch.equal(slopes.eval()(-x), -x / 2) and not torch.equal(slopes.train()(-x), -x / 2)
    norm = nn.BatchNorm1d(2).eval()
    norm(x)
    assert norm.running_mean.sum() == 0 and norm.num_batches_tracked == 0
    with torch.no_grad():
        norm.train()(x)
    assert norm.running_mean.sum() != 0 and norm.num_batches_tracked == 1


# %% [markdown]
# The switch is flipped once, for what is registered *then*. A head attached after `model.eval()` is in training mode,
# like every new module. And since `train()` calls each child's own `train`, a class can refuse; this is how a frozen
# layer stays frozen:


# %%
class Frozen(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.eval()

    def train(self, mode=True):
        return super().train(False)

    def forward(self, x):
        return self.inner(x)


trainer = nn.Module()
trainer.backbone = Frozen(Drop())
trainer.eval()
trainer.head = Drop()
before = {name: module.training for name, module in trainer.named_modules()}
trainer.train()
after = {name: module.training for name, module in trainer.named_modules()}
before, after


# %%
#| claim: a module attached after eval() is in training mode, and state_dict does not carry the mode
def _(torch):
    model = torch.nn.Module().eval()
    model.head = torch.nn.Module()
    assert model.head.training and not model.training
    assert not model.state_dict()
    try:
        model.train(1)
    except ValueError as error:
        assert "training mode is expected to be boolean" in str(error)
    else:
        raise AssertionError("took 1 for True")


# %% [markdown]
# ## Freezing and clearing
#
# These two walk `parameters()`, and so touch a shared one once.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.requires_grad_
#| upstream: torch/nn/modules/module.py#Module.zero_grad
class Module(Module):
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of every parameter here and below, in place. Returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter here and below, or with `set_to_none` False fill it with zeros in place."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "zero_grad() on a replica made by nn.DataParallel has no effect: its parameters are copies, not leaves, "
                "and accumulate no gradients. Call it on the original module, or use autograd.grad in forward()",
                stacklevel=2,
            )
        for parameter in self.parameters():
            gradient = parameter.grad
            if gradient is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if gradient.grad_fn is not None:
                gradient.detach_()
            else:
                gradient.requires_grad_(False)
            gradient.zero_()


# %%
net(torch.ones(3)).sum().backward()
net.first.own.weight.grad, net.zero_grad(), net.first.own.weight.grad

# %% [markdown]
# `zero_grad` does not write zeros, by default, since 2.0: it drops the gradient tensors. The next backward then stores
# its result instead of adding it to zeros, which saves one pass over memory, and the memory of the gradients is free in
# between. An optimizer skips a parameter whose gradient is `None`; one whose gradient is zero is still moved, by
# momentum and by weight decay.


# %%
#| claim: after zero_grad() gradients are None; zeros are written, in place, only with set_to_none=False
def _(torch):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.ones(2))
    model.weight.sum().backward()
    gradient = model.weight.grad
    model.zero_grad(set_to_none=False)
    assert model.weight.grad is gradient and gradient.sum() == 0
    model.zero_grad()
    assert model.weight.grad is None


# %%
#| claim: an optimizer skips a parameter without a gradient, and moves one whose gradient is zero, by weight decay and by momentum
#| needs: 04_optim
def _(torch):
    decayed, pushed = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    decay = torch.optim.SGD([decayed], lr=1.0, weight_decay=0.5)
    push = torch.optim.SGD([pushed], lr=1.0, momentum=0.5)
    pushed.grad = torch.ones(1)
    push.step()
    for weight, optimizer, moved in ((decayed, decay, 0.5), (pushed, push, -0.5)):
        before = weight.item()
        weight.grad = None
        optimizer.step()
        assert weight.item() == before
        weight.grad = torch.zeros(1)
        optimizer.step()
        assert weight.item() == moved


# %% [markdown]
# ## What does `.to()` do to the Parameter object?
#
# `tensor.to(device)` returns another tensor. `module.to(device)` returns the same module, so something must have
# changed inside. The straightforward way is to put a new Parameter into the table. It breaks two lines that stand in
# many training scripts in this order:
#
# ```python
# optimizer = SGD(model.parameters(), lr=0.1)
# model.to("cuda")
# ```
#
# The optimizer holds references to the old Parameters, and would from now on update tensors that nobody computes with,
# without any error. So the object must stay, and its *content* must change. That is `param.data = converted`: the
# tensor object lets go of its storage, shape, dtype and device and takes those of another, and everyone who holds the
# object sees it.
#
# <figure>
# <svg width="720" viewBox="0 0 720 208" role="img" aria-labelledby="todata-title todata-desc" style="max-width:100%;height:auto;font:14px sans-serif">
# <title id="todata-title">What model.to() changes for a parameter and for a buffer</title>
# <desc id="todata-desc">Left: the module's table and the optimizer both point to one Parameter object. Its arrow to storage A (cpu) is
# cut and now leads to storage B (cuda). Right: the buffer's entry in the table is cut from the old tensor, which still owns storage C,
# and leads to a new tensor with storage D.</desc>
# <g fill="none" stroke="currentColor" stroke-width="1.3">
# <rect x="8" y="30" width="118" height="34" rx="4"/><rect x="8" y="136" width="118" height="34" rx="4"/>
# <rect x="176" y="83" width="98" height="34" rx="4"/>
# <path d="M126 50 L176 92"/><path d="M126 150 L176 108"/>
# <path d="M274 94 L322 55" stroke-dasharray="4 4"/><path d="M274 106 L322 145" stroke-width="2.4"/>
# <rect x="400" y="83" width="112" height="34" rx="4"/>
# <rect x="562" y="30" width="150" height="34" rx="4"/><rect x="562" y="136" width="150" height="34" rx="4"/>
# <path d="M512 94 L562 52" stroke-dasharray="4 4"/><path d="M512 106 L562 150" stroke-width="2.4"/>
# </g>
# <g fill="currentColor">
# <text x="14" y="52">_parameters["w"]</text><text x="14" y="158">the optimizer</text><text x="190" y="105">Parameter</text>
# <text x="328" y="58">A, cpu</text><text x="328" y="150">B, cuda</text>
# <text x="410" y="105">_buffers["m"]</text><text x="572" y="52">old Tensor, C (cpu)</text><text x="572" y="158">new Tensor, D (cuda)</text>
# <text x="8" y="200">same object, new content</text><text x="400" y="200">same name, new object</text>
# </g>
# </svg>
# <figcaption>Dashed: before. Bold: after <code>model.to("cuda")</code>.</figcaption>
# </figure>
#
# Gradients move along, or a backward between `to` and `step` would add tensors of two devices. Buffers get the plain
# treatment: a new tensor in the same place of the table. No optimizer holds them.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module._apply
class Module(Module):
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the content of every parameter, gradient and buffer by `fn` of it, children first. Returns self."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _converted(parameter, fn, f"{self._get_name()}.{name}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self


# %%
#| into: nn/modules/module.py
def _converted(parameter: Parameter, fn: Callable[[Tensor], Tensor], where: str) -> Parameter:
    """`parameter` holding `fn` of itself and of its gradient: the same object wherever it can take the new content."""
    with no_grad():
        content = fn(parameter)
    gradient = parameter.grad
    if __future__.get_swap_module_params_on_conversion():
        _exchange(parameter, Parameter(content, parameter.requires_grad), where)
        if gradient is not None:
            with no_grad():
                content = fn(gradient).requires_grad_(gradient.requires_grad)
            _exchange(gradient, content, f"{where}.grad")
            parameter.grad = gradient
        return parameter
    if _takes_data_of(parameter, content):
        parameter.data = content
        result = parameter
    else:
        result = Parameter(content, parameter.requires_grad)
    if gradient is not None:
        with no_grad():
            content = fn(gradient)
        if result is parameter and _takes_data_of(gradient, content):
            gradient.data = content
        else:
            result.grad = content.requires_grad_(gradient.requires_grad)
    return result


def _exchange(tensor: Tensor, content: Tensor, where: str) -> None:
    try:
        swap_tensors(tensor, content)
    except RuntimeError as error:
        raise RuntimeError(f"_apply(): Couldn't swap {where}") from error


def _takes_data_of(tensor: Tensor, content: Tensor) -> bool:
    """Whether `tensor.data = content` is possible, and wanted."""
    return tensor.is_meta == content.is_meta and not __future__.get_overwrite_module_params_on_conversion()


# %% [markdown]
# Two flags of `torch.__future__` announce how conversions may work one day. This one, of 2019, selects the straightforward
# way, with new Parameters; the other exchanges objects, and has a section in the next part.

# %%
#| into: __future__.py
#| upstream: torch/__future__.py#set_overwrite_module_params_on_conversion
#| upstream: torch/__future__.py#get_overwrite_module_params_on_conversion
_overwrite_module_params_on_conversion: bool = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Let `module.to(…)` and its like put new Parameters in place of the old ones, instead of changing those."""
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions make new Parameters. Default: False."""
    return _overwrite_module_params_on_conversion


# %% [markdown]
# This is the third user of the second walk: children first, through `children()`. Watch one parameter being converted.
# The object before and after the assignment to `.data` is one; the recorder describes it anew because its version and
# content have changed.

# %%
#| trace: torch.nn layers=calls,lines values=summary title="model.double(): one parameter, one buffer"
small = Scale(2)
held = small.weight
same = small.double()

# %%
small.weight is held, held.dtype, small.calls.dtype


# %%
#| claim: a conversion keeps every Parameter object and its gradient object, and replaces buffer objects
def _(torch):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.ones(2))
    model.register_buffer("mean", torch.zeros(2))
    (model.weight * 3).sum().backward()
    weight, gradient, mean = model.weight, model.weight.grad, model.mean
    model.double()
    assert model.weight is weight and weight.dtype == torch.float64
    assert weight.grad is gradient and gradient.dtype == torch.float64
    assert model.mean is not mean and mean.dtype == torch.float32


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** For years the documentation of `torch.optim` warned that the parameters of a model after
# > `.cuda()` are *different objects*, and answers repeat it (pytorch/pytorch#69214). They have been the same objects
# > since `_apply` assigns to `.data`. Making the optimizer after the move is still good practice: *state* that the
# > optimizer has already allocated, such as momentum, does not move.
#
# What `.data =` cuts are aliases. A view of the weight, or a `state_dict` taken before, keeps the old storage alive and
# no longer follows the training.


# %%
#| claim: a state_dict taken before a conversion keeps the old values and dtype
def _(torch):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.ones(1))
    alias = model.state_dict()["weight"]
    with torch.no_grad():
        model.weight.fill_(2)
    assert alias == 2
    model.double()
    with torch.no_grad():
        model.weight.fill_(3)
    assert alias == 2 and alias.dtype == torch.float32


# %% [markdown]
# **Tied weights** survive for the same reason. The second visit finds the object already converted; `to` returns it as
# it is, and nothing happens. There is one exception, and it is widely met: where the new content cannot live in the old
# object. A tensor on the `meta` device has a shape and no storage, and is implemented by something else, so
# `_converted` makes a new Parameter; for each visit its own. Frameworks that build large models on `meta` have a
# `tie_weights()` to call afterwards, for exactly this reason. A shared *buffer* comes apart at any conversion.


# %%
#| claim: a conversion keeps tied parameters tied and unties shared buffers; to("meta") unties parameters too
def _(torch):
    nn = torch.nn
    model = nn.Module()
    model.a, model.b = nn.Module(), nn.Module()
    model.a.weight = model.b.weight = nn.Parameter(torch.ones(2))
    table = torch.ones(2)
    model.a.register_buffer("table", table)
    model.b.register_buffer("table", table)
    model.double()
    assert model.a.weight is model.b.weight
    assert model.a.table is not model.b.table
    model.to("meta")
    assert model.a.weight is not model.b.weight


# %% [markdown]
# ## `to`, and its shorthands
#
# Everything that moves or casts is `_apply` with a different function. `to` parses the four forms of its arguments with
# the same parser as `Tensor.to`, and adds two rules: a dtype must be one that can carry gradients, and it is not
# applied to integer tensors.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.to
class Module(Module):
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters, gradients and buffers to a device, a dtype, or both; in place. Returns self.

        `to(device=None, dtype=None, non_blocking=False)`, `to(dtype, non_blocking=False)`,
        `to(tensor, non_blocking=False)` (the device and dtype of `tensor`) and `to(memory_format=...)`. The dtype is
        applied to floating-point and complex tensors only; integer buffers keep theirs.

        Raises TypeError if the dtype is neither floating-point nor complex; NotImplementedError for a module on the meta
        device, which has no data to move (`to_empty` allocates).
        """
        device, dtype, non_blocking, copy, memory_format = parse_to(args, kwargs)
        if copy:
            raise RuntimeError(".to() does not accept copy argument: a module is converted in place")
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, which {dtype} is not; "
                "`type` casts integer and floating-point tensors alike"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature: some modules do not work with complex parameters or buffers",
                stacklevel=2,
            )

        def move(tensor: Tensor) -> Tensor:
            to_dtype = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            extra = {"memory_format": memory_format} if memory_format is not None and tensor.dim() in (4, 5) else {}
            try:
                return tensor.to(device, to_dtype, non_blocking, **extra)
            except NotImplementedError as error:
                if "Cannot copy out of meta tensor; no data!" not in str(error):
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() when moving a module whose tensors lie on meta: unlike torch.nn.Module.to(), "
                    "it allocates without copying."
                ) from None

        return self._apply(move)


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.type
#| upstream: torch/nn/modules/module.py#Module.float
#| upstream: torch/nn/modules/module.py#Module.double
#| upstream: torch/nn/modules/module.py#Module.half
#| upstream: torch/nn/modules/module.py#Module.bfloat16
class Module(Module):
    def type(self, dst_type: Any) -> Self:
        """Cast every parameter and buffer, integer ones included, to `dst_type`; in place. Returns self."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Cast the floating-point tensors to float32; in place. Returns self."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self) -> Self:
        """Cast the floating-point tensors to float64; in place. Returns self."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self) -> Self:
        """Cast the floating-point tensors to float16; in place. Returns self."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self) -> Self:
        """Cast the floating-point tensors to bfloat16; in place. Returns self."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.cuda
#| upstream: torch/nn/modules/module.py#Module.cpu
#| upstream: torch/nn/modules/module.py#Module.to_empty
#| upstream: torch/nn/modules/module.py#Module.share_memory
class Module(Module):
    def cuda(self, device: Any = None) -> Self:
        """Move everything to a CUDA device, by default the current one; in place. Returns self."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def ipu(self, device: Any = None) -> Self:
        """Move everything to an IPU. readtorch has no such device: the tensors refuse."""
        return self._apply(lambda tensor: tensor.ipu(device))

    def xpu(self, device: Any = None) -> Self:
        """Move everything to an XPU. readtorch has no such device."""
        raise AssertionError("Torch not compiled with XPU enabled")

    def mtia(self, device: Any = None) -> Self:
        """Move everything to an MTIA device. readtorch has no such device: the tensors refuse."""
        return self._apply(lambda tensor: tensor.mtia(device))

    def cpu(self) -> Self:
        """Move everything to the CPU; in place. Returns self."""
        return self._apply(lambda tensor: tensor.cpu())

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Replace every tensor by an uninitialised one of its shape and dtype on `device`; in place. Returns self."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def share_memory(self) -> Self:
        """Move everything into memory shared between processes; in place. Returns self."""
        return self._apply(lambda tensor: tensor.share_memory_())


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`half()` converts the model to half precision." It converts its *floating-point* tensors.
# > A counter of batches stays int64, or it would stop counting at 2048, where float16 runs out of integers. The one
# > that converts everything is `type()`.


# %%
#| claim: integer buffers are left alone by half() and to(dtype) and cast by type(); an integer dtype is refused by to()
def _(torch):
    def model():
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(torch.ones(1))
        module.register_buffer("steps", torch.zeros(1, dtype=torch.int64))
        return module

    for converted in (model().half(), model().to(torch.float16)):
        assert (converted.weight.dtype, converted.steps.dtype) == (torch.float16, torch.int64)
    assert model().type(torch.float64).steps.dtype == torch.float64
    try:
        model().to(torch.int64)
    except TypeError as error:
        assert "only accepts floating point or complex dtypes" in str(error)
    else:
        raise AssertionError("converted")


# %% [markdown]
# ## Where do the tensors live during a forward?
#
# The move is done once. From then on no module is asked where anything is: an operator computes where its operands are
# and puts its result there.
#
# > [!NOTE]
# > **Often told otherwise.** "Tensors flow back and forth between CPU and GPU while the network runs." Nothing flows by
# > itself. With parameters and input on one device, all intermediate results are made on it and stay on it, and the
# > CPU's part is to *launch* the work; it does not even wait for it. A copy happens where the program asks for one:
# > `.to()`, `.cpu()`, `.item()`, printing. If operands are on two devices the operator does not fetch one of them, it
# > fails.
#
# No GPU is needed to see the rule. The `meta` device has no memory at all, so whatever a network computes on it
# certainly was never elsewhere:


# %%
#| claim: intermediate results are made on the device of the operands, and operands on two devices are an error
def _(torch):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(torch.ones(3, 3)) for _ in range(2))

        def forward(self, x):
            self.middle = x @ self.a
            return self.middle + self.b

    model = Two().to("meta")
    out = model(torch.ones(2, 3, device="meta").sum(0, keepdim=True).expand(3, 3))
    assert str(model.middle.device) == str(out.device) == "meta"
    try:
        model.b + torch.ones(3, 3)
    except RuntimeError as error:
        assert "device" in str(error)
    else:
        raise AssertionError("fetched")


# %% [markdown]
# How the launching works, what is asynchronous about it, and how a whole graph of kernels can be recorded and replayed
# on the GPU without the CPU (CUDA graphs) belongs to the chapters on devices.
#
# ## What `repr` shows
#
# The last walk is the one that everyone has seen. A module prints its class, what `extra_repr` says about it, and its
# children by name; parameters are not shown.


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#Module.__repr__
#| upstream: torch/nn/modules/module.py#Module.extra_repr
#| upstream: torch/nn/modules/module.py#Module._get_name
class Module(Module):
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows of this module besides its children: arguments on one line, or several lines."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        if not children and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        lines = [*(extra.split("\n") if extra else ()), *children]
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"


# %%
#| into: nn/modules/module.py
#| upstream: torch/nn/modules/module.py#_addindent
def _addindent(s_: str, numSpaces: int) -> str:
    """Indent every line but the first; blank lines stay empty."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(" " * numSpaces + line if line.strip() else "" for line in rest)])


# %%
class Scale(Scale):
    def extra_repr(self):
        return f"width={self.weight.numel()}"


Block(Scale(2))

# %% [markdown]
# The print-out shows what is *registered*, in order of registration. It is no record of what `forward` does: a layer
# may be used twice, never, or in another order, and functions are not seen at all.
#
# ## What upstream does more
#
# * For a tensor subclass that wraps other tensors `_apply` exchanges the objects (next part) even without the flag: such a
#   parameter has no single storage that `.data =` could hand over.
# * In C++, `torch::nn::Module::to` does the same walk, children first, and for each tensor the same assignment, there
#   called `set_data`.

# %%
#| fact: torch/csrc/api/include/torch/nn/module.h#torch::nn::Module::to_impl
#| fact: torch/csrc/api/include/torch/nn/module.h#torch::nn::Module::apply

# %% [markdown]
# ## Bugs you can now explain
#
# **“Buffers are moved to another device by copy and not in-place”** (pytorch/pytorch#43815, and again #80490). A module
# keeps its tensors in a dictionary of its own and registers each as a buffer. After `.cuda()` the dictionary still
# holds the old ones. For parameters the same construction works, which makes it look like a bug. The figure above has
# both halves. Converting buffers in place has been tried (#36623), and given up when tests showed that existing code
# could tell the difference.


# %%
#| claim: a second reference to a buffer goes stale when the module is converted, a second reference to a parameter does not
#| source: pytorch/pytorch#43815
def _(torch):
    class Bank(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.register_buffer("table", torch.ones(1))
            self.by_name = {"weight": self.weight, "table": self.table}

    bank = Bank().double()
    assert bank.by_name["weight"] is bank.weight
    assert bank.by_name["table"] is not bank.table and bank.by_name["table"].dtype == torch.float32


# %% [markdown]
# **“Wrong description of `apply`”** (pytorch/pytorch#37291; the question comes back in #2595 and #49888). The text said
# that the function is applied to "every submodule (as returned by `.children()`) as well as self", and readers
# concluded that it stops at the direct children. Both halves are right, read as recursion: every child is *applied*,
# not called.

# %% [markdown]
# ## Exercises
#
# **All names of a tied weight.** An exporter writes one file per parameter and a table of aliases. Write
# `aliases(model)`: a dictionary from every *later* name of a shared parameter to its first name.


# %%
#| exercise: aliases
def aliases(model: nn.Module) -> dict[str, str]:
    raise NotImplementedError


# %%
#| solution: aliases
def aliases(model: nn.Module) -> dict[str, str]:
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    every = model.named_parameters(remove_duplicate=False)
    return {name: first[id(parameter)] for name, parameter in every if first[id(parameter)] != name}


# %%
#| check: aliases
assert aliases(tied) == {"decode.weight": "embed.weight"}
assert aliases(Net()) == {"second.shared.weight": "first.shared.weight"}
assert aliases(Scale()) == {}

# %% [markdown]
# **Half precision, except there.** Write `half_except(model, kept)`: parameters and buffers become float16, except in
# modules whose type is in the tuple `kept`, which keep theirs *bit for bit*. (`model.half()` followed by `.float()` on
# those modules is the popular answer, and loses the low bits on the way.)


# %%
#| exercise: half_except
def half_except(model: nn.Module, kept: tuple[type, ...]) -> nn.Module:
    raise NotImplementedError


# %%
#| solution: half_except
def half_except(model: nn.Module, kept: tuple[type, ...]) -> nn.Module:
    for module in model.modules():
        if not isinstance(module, kept):
            module._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor, recurse=False)
    return model


# %%
#| check: half_except
class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.full((2,), 0.1))

    def forward(self, x):
        return x + self.bias


mixed = nn.Module()
mixed.scale, mixed.shift = Scale(2), Shift()
exact = mixed.shift.bias.clone()
assert half_except(mixed, (Shift,)) is mixed
assert mixed.scale.weight.dtype == torch.float16 and mixed.scale.calls.dtype == torch.int64
assert mixed.shift.bias.dtype == torch.float32 and torch.equal(mixed.shift.bias, exact)
