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
# # Fourteen reports, and exercises
#
# The parts before this one end where a reader of the source ends: at the machinery. Most people come from the other side, with a number that is wrong or a message that names no line of theirs. Here are fourteen reports about tensors and autograd, chosen because
# each is one mechanism of this chapter seen from outside. The order is that of the chapter: memory, shapes, graph, modes, numbers. Each says what was seen, what happened, and what helps. [The part before](../00_tensor/17_one_addition.py#bugs-you-can-now-explain) has nine more.

# %%
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Bugs you can now explain: memory and shapes
#
# **“PyTorch's flip returns a new tensor, but NumPy's flip returns a view”** (pytorch/pytorch#38271; from the other side “At least one stride in the given numpy array is negative”, #92680). A reversed vector is a view in NumPy: the same memory, an offset to the last element, a stride of −1. Nothing in
# [address = offset + Σ index · stride](../00_tensor/02_storage_and_views.py) forbids that. PyTorch does: a tensor's last address is that of its largest indices, and the tests for overlap, for contiguity and for the end of the storage are written on it. So `flip` has to copy, `x[::-1]` is refused, and an array that was flipped
# (by an augmentation library, out of sight) cannot be taken over as it is. `.copy()` in NumPy costs what `flip` costs here, once.


# %%
#| needs: a1_operators
#| claim: flip copies, a negative step is refused, and so is an array with a negative stride
#| source: pytorch/pytorch#38271
def _(torch):
    import numpy as np

    x = torch.arange(4)
    assert x.flip(0).data_ptr() != x.data_ptr() and x.flip(0).stride() == (1,)
    for wrong, words in (
        (lambda: x[::-1], "step must be greater than zero"),
        (lambda: torch.from_numpy(np.arange(4)[::-1]), "negative"),
    ):
        try:
            wrong()
        except ValueError as error:
            assert words in str(error)
        else:
            raise AssertionError("accepted")
    assert torch.from_numpy(np.arange(4)[::-1].copy()).tolist() == [3, 2, 1, 0]


# %% [markdown]
# **“torch.Tensor(dtype = torch.uint8) is not OK for index_select?”** (pytorch/pytorch#17346; also #20149, #70916). A file of class numbers from 0 to 9 is read as bytes, used as an index, and rows are missing. Until 1.2 there was no bool, and comparisons gave uint8; to
# [the reader of brackets](../00_tensor/10_indexing_and_operators.py#what-does-x-do) a uint8 tensor is still a mask, with a warning. If its length is that of the dimension, nothing fails: every number but 0 selects its own place. `.long()` says what is meant.


# %%
#| needs: a1_operators
#| claim: a vector of uint8 between brackets is a mask and not a list of places
#| source: pytorch/pytorch#17346
def _(torch):
    import warnings

    table = torch.tensor([10, 11, 12, 13])
    classes = torch.tensor([2, 0, 2, 3], dtype=torch.uint8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert table[classes].tolist() == [10, 12, 13]
    assert "uint8" in str(caught[0].message)
    assert table[classes.long()].tolist() == [12, 10, 12, 13]


# %% [markdown]
# **“Bug: fail to throw error when computing loss between tensors with shapes [n, 1] and [n]”** (pytorch/pytorch#16045; also #16413, #19699). A model gives a column, the data a row, and the difference is [broadcast](../00_tensor/05_before_the_kernels.py#why-did-a-wrong-shape-give-no-error) to a square: every prediction is compared with every target. Nothing is wrong with any single step. What is learned is easy
# to tell from the formula: the sum over all targets of (p − t)² is smallest where p is their mean, whatever the input. The line below is fitted twice, and the second time it has learned to be flat.

# %%
#| needs: a1_operators
torch.manual_seed(0)
x = torch.linspace(-1, 1, 40)[:, None]
target = 2 * x[:, 0] + 0.3 * torch.randn(40)
fits = {}
for wanted in (target[:, None], target):
    slope, offset = (torch.zeros(1, requires_grad=True) for _ in range(2))
    for _ in range(200):
        loss = ((x * slope + offset - wanted) ** 2).mean()
        gradients = torch.autograd.grad(loss, (slope, offset))
        with torch.no_grad():
            slope -= 0.2 * gradients[0]
            offset -= 0.2 * gradients[1]
    fits[tuple(wanted.shape)] = (slope.item(), offset.item())

# %%
#| needs: a1_operators
figure, axes = plt.subplots(figsize=(7, 2.8))
axes.scatter(x[:, 0].tolist(), target.tolist(), s=12, color="0.6")
for (shape, (a, b)), style in zip(fits.items(), ("-", "--"), strict=True):
    label = f"(40, 1) with {shape}: slope {a:.2f}"
    axes.plot([-1, 1], [b - a, b + a], style, label=label)
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# The losses of `nn` warn of it since #18349, `-` cannot: a difference of all pairs is a legitimate thing to ask for. A line that helps is `assert prediction.shape == target.shape`.


# %%
#| needs: a1_operators
#| claim: the difference of a column and a row is a square, whose mean square pulls every prediction to the mean of all targets
#| source: pytorch/pytorch#16045
def _(torch):
    prediction = torch.tensor([[5.0], [-1.0], [2.0]], requires_grad=True)
    target = torch.tensor([1.0, 2.0, 3.0])
    difference = prediction - target
    assert difference.shape == (3, 3)
    (gradient,) = torch.autograd.grad(difference.pow(2).mean(), prediction)
    assert torch.allclose(gradient, 2 / 3 * (prediction - target.mean()))


# %% [markdown]
# ## Bugs you can now explain: the graph
#
# **“Getting gradient of element of tensor wrt the element itself”** (pytorch/pytorch#23941, and many under the words “appears to not have been used in the graph”, #73697). `grad(b[0][0], b[0])` fails, `c = b[0]; grad(c[0], c)` does not. Each pair of brackets makes a *new* tensor with a new node, so the second `b[0]` is a sibling
# of the first and not its ancestor; [the walk](../00_tensor/04b_the_walk.py#how-does-the-engine-know-that-a-node-is-ready) leads from results to inputs, along the edges of objects that were really used. The same happens to `grad(loss, x[:, 0])` in programs for differential equations. Cut first and put together afterwards, or
# differentiate by the whole and cut the gradient.


# %%
#| needs: a1_operators
#| claim: a part that is cut for the question is not the part that was used; the part must be cut before, or the gradient after
#| source: pytorch/pytorch#23941
def _(torch):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    result = (x[:, 0] * x[:, 1]).sum()
    try:
        torch.autograd.grad(result, x[:, 0], retain_graph=True)
    except RuntimeError as error:
        assert "appears to not have been used in the graph" in str(error)
    else:
        raise AssertionError("found")
    assert torch.autograd.grad(result, x)[0][:, 0].tolist() == [2.0, 4.0]
    first, second = x.unbind(1)
    assert torch.autograd.grad((first * second).sum(), first)[0].tolist() == [2.0, 4.0]


# %% [markdown]
# **“element 0 of tensors does not require grad and does not have a grad_fn”** (ronghuaiyang/arcface-pytorch#56, lxztju/pytorch_classification#32, speechbrain/speechbrain#735). There are a thousand such reports, and these three found a way out: `loss.requires_grad = True`. No error any more, and no learning. The message says that
# [the graph was cut](../00_tensor/10b_starting_the_engine.py#where-was-the-graph-cut) somewhere above; the line makes a *leaf* of the loss. Backward then walks a graph of one node, from the loss to the loss, and leaves a gradient of 1 there.


# %%
#| claim: a loss that is told to require a gradient becomes a leaf, gets a gradient of one, and the parameters get none
#| source: ronghuaiyang/arcface-pytorch#56
def _(torch):
    weight = torch.ones(2, requires_grad=True)
    loss = (weight.detach() * 3).sum()
    loss.requires_grad = True
    assert loss.is_leaf and loss.grad_fn is None
    loss.backward()
    assert loss.grad.item() == 1 and weight.grad is None
    whole = (weight * 3).sum()
    try:
        whole.requires_grad = False
    except RuntimeError as error:
        assert "leaf variables" in str(error)
    else:
        raise AssertionError("changed")


# %% [markdown]
# **“one of the variables needed for gradient computation has been modified by an inplace operation”** (pytorch/pytorch#39141, and the tutorials that broke with it, MorvanZhou/PyTorch-Tutorial#89, leftthomas/SRGAN#79). Adversarial training computes both losses, then steps the discriminator, then calls the generator's `backward`. Until 1.4 it ran, since 1.5 it fails. The
# product inside the discriminator [has kept its weight](../00_tensor/04_engine.py#how-is-what-a-formula-needs-kept-and-checked), to send the gradient on to the generator, and the step has overwritten it. It had always done so. The optimizers of 1.4 wrote to `.data`, whose version counter is another one, and the
# generator was trained with gradients through a discriminator that had not seen its pictures. 1.5 wrote to the parameter itself under `no_grad`, and the counter told. What helps is not `clone`, but to call `backward` for the generator before the discriminator's step, or to run the discriminator once more.


# %%
#| needs: a1_operators
#| claim: a step between forward and backward is an error if it writes to the parameter, and a wrong gradient if it writes to .data
#| source: pytorch/pytorch#39141
def _(torch):
    def gradient_of_generator(step):
        fake = torch.tensor([3.0], requires_grad=True)
        weight = torch.tensor([2.0], requires_grad=True)
        verdict = (fake * weight).sum()
        step(weight)
        return torch.autograd.grad(verdict, fake)[0].item()

    def old_way(weight):
        weight.data -= 1.5

    @torch.no_grad()
    def new_way(weight):
        weight -= 1.5

    assert gradient_of_generator(lambda weight: None) == 2.0
    assert gradient_of_generator(old_way) == 0.5
    try:
        gradient_of_generator(new_way)
    except RuntimeError as error:
        assert "is at version 1; expected version 0 instead" in str(error)
    else:
        raise AssertionError("unnoticed")


# %% [markdown]
# **“question about h_state = h_state.data”** (MorvanZhou/PyTorch-Tutorial#57), **“why in my model_search only loss.backward(retain_graph=True) can run”** (quark0/darts#56), and what comes of it: *if I use retain_graph=True, then buff will OOM* (sgadgil6/cnslab_fmri#4). A recurrent state is carried from one batch to the next, and with it the graph of all batches before.
# The second `backward` reaches nodes that the first has emptied, and the message recommends [`retain_graph`](../00_tensor/12_autograd.py#when-is-retain_graph-needed). It is right about the cause and not about the cure: then nothing is ever emptied, and every step walks back to the beginning of the training. Count the nodes:


# %%
#| needs: a1_operators
def nodes_walked(steps: int, carry: Callable[[torch.Tensor], torch.Tensor], **options: Any) -> list[int]:
    """How many nodes run in the backward pass of each step of a small recurrent model."""
    weight, state, counts = torch.tensor([0.5], requires_grad=True), torch.zeros(1), []
    for _ in range(steps):
        state = (carry(state) * weight + 1).tanh()
        seen, stack, ran = set(), [state.grad_fn], []
        while stack:
            node = stack.pop()
            if node is not None and node not in seen:
                seen.add(node)
                node.register_prehook(lambda grads, ran=ran: ran.append(1))
                stack.extend(following for following, _ in node.next_functions)
        state.sum().backward(**options)
        counts.append(len(ran))
    return counts


retained = nodes_walked(20, lambda state: state, retain_graph=True)
detached = nodes_walked(20, lambda state: state.detach())
figure, axes = plt.subplots(figsize=(7, 2.6))
axes.plot(range(1, 21), retained, marker=".", label="retain_graph=True")
axes.plot(range(1, 21), detached, marker=".", label="state.detach()")
axes.set_xlabel("step")
axes.set_ylabel("nodes in its backward pass")
axes.set_ylim(0)
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# The work of *n* steps is *n*² of one. The memory grows along the same line. And since an optimizer writes to the weight in between, the version check of the bug above ends most of these runs at the second step. Here is the third backward pass of such a run, without a step in between: three `MulBackward0`, of which two have run before. What they send meets at the one leaf, so that what step one had already given the weight twice is added once more.

# %%
#| needs: a1_operators
weight, state = torch.tensor([0.5], requires_grad=True), torch.zeros(1)
for step in range(3):
    state = state * weight + 1
    loss = state.sum()
    if step < 2:
        loss.backward(retain_graph=True)

# %%
#| needs: a1_operators
#| trace: torch.csrc.autograd.engine layers=calls,autograd values=summary title="the third backward walks through all three steps"
loss.backward(retain_graph=True)


# %%
#| needs: a1_operators
#| claim: a state that is carried on undetached makes the second backward fail; detached it costs the gradient across the border and nothing else
#| source: MorvanZhou/PyTorch-Tutorial#57
def _(torch):
    weight = torch.tensor([0.5], requires_grad=True)
    first = torch.ones(1) * weight
    first.sum().backward()
    try:
        (first * weight).sum().backward()
    except RuntimeError as error:
        assert "Trying to backward through the graph a second time" in str(error)
    else:
        raise AssertionError("walked twice")
    weight.grad = None
    first = torch.ones(1) * weight
    (first.detach() * weight).sum().backward()
    assert weight.grad.item() == 0.5  # not the 2 · 0.5 of the whole square


# %% [markdown]
# **“Remove "memory leak" in PyTorch training example”** (google/brax#152; also jostmey/NakedAttention#1, IBM/mi-prometheus#111, pytorch/pytorch#17568). `total += loss`, for the log. The sum has a node, the node has an edge to the loss of every step, and each of these leads to its graph. What [backward has freed](../00_tensor/04_engine.py#how-is-what-a-formula-needs-kept-and-checked) is gone; what remains is
# every node of every step, and everything that was never walked. `loss.item()` is a number and has no edges. Nor has `loss.detach()`, and on a GPU it does not wait.


# %%
#| needs: a1_operators
#| claim: a running sum of losses keeps all that the steps before have saved, one of detached losses keeps nothing
#| source: google/brax#152
def _(torch):
    import gc
    import weakref

    def saved_and_alive(remember):
        weight, total, inputs = torch.ones(3, requires_grad=True), 0.0, []
        for _ in range(5):
            batch = torch.ones(3) * 2
            inputs.append(weakref.ref(batch))
            loss = (weight * batch).sum()
            total = total + remember(loss)
        del batch, loss
        gc.collect()
        return sum(reference() is not None for reference in inputs)

    assert saved_and_alive(lambda loss: loss) == 5
    assert saved_and_alive(lambda loss: loss.detach()) == 0
    assert saved_and_alive(lambda loss: loss.item()) == 0


# %% [markdown]
# **“Memory leak under "full backward hook" with "backward(create_graph=True)"”** (pytorch/pytorch#82528). A hook lives in the node. If the hook's closure holds a tensor that leads back to that node, a circle is closed, and half of it is C++, where Python's collector does not look. In the report a layer's hook held a gradient that had a graph of its own; the shortest form is a hook that uses
# the tensor it stands on. Let a hook work with what it is given, or with a weak reference. A hook on a *leaf* hangs on the Python object and not on a node, and that circle is found.


# %%
#| claim: a hook that uses the result it stands on keeps it alive for ever
#| source: pytorch/pytorch#82528
#| differs: our nodes are Python objects, so the garbage collector sees the whole circle and frees it
def _(torch):
    import gc
    import weakref

    def made():
        y = torch.ones(1, requires_grad=True) * 2
        y.register_hook(lambda grad: grad * y.detach())
        return weakref.ref(y)

    result = made()
    gc.collect()
    assert result() is not None


# %%
#| claim: a hook that uses the leaf it stands on makes a circle that the garbage collector finds
def _(torch):
    import gc
    import weakref

    def made():
        x = torch.ones(1, requires_grad=True)
        x.register_hook(lambda grad: grad * x.detach())
        return weakref.ref(x)

    gc.disable()
    try:
        leaf = made()
        kept = leaf() is not None
        gc.collect()
        assert kept
        assert leaf() is None
    finally:
        gc.enable()


# %% [markdown]
# **“Modifying inplace views of leaf gives unclear error message”** (pytorch/pytorch#39150; Atcold/NYU-DLSP20#765, Hunter-DDM/knowledge-neurons#14). `table[:, 0::2] = sines` on a parameter. An in-place operation moves a tensor [behind a new node](../00_tensor/05a_place_in_the_graph.py#what-happens-to-a-view-when-its-base-is-written-to); a leaf that were moved would no longer be the thing that collects the gradient. When the report was written the write was allowed and
# `backward` said *leaf variable has been moved into the graph interior*. Now the write itself is refused, at the line that does it. Two other things could be meant, and they are not the same:


# %%
#| needs: a1_operators
#| claim: a leaf is overwritten with recording off and stays a leaf; a clone is overwritten with recording on, and the overwritten part sends no gradient
#| source: pytorch/pytorch#39150
def _(torch):
    table = torch.ones(3, requires_grad=True)
    try:
        table[0] = 5.0
    except RuntimeError as error:
        assert "a view of a leaf Variable that requires grad is being used in an in-place operation" in str(error)
    else:
        raise AssertionError("written")
    with torch.no_grad():
        table[0] = 5.0
    assert table.is_leaf and table._version == 1
    changed = table.clone()
    changed[0] = 7.0
    changed.sum().backward()
    assert table.tolist() == [5.0, 1.0, 1.0] and table.grad.tolist() == [0.0, 1.0, 1.0]


# %% [markdown]
# **“Gradient of zero norm is nan”** (pytorch/pytorch#2421; also #3264, #6394, #65599). At 0 a norm has no derivative, and any vector of length up to 1 would do as one. [A formula in the table](../00_tensor/03_dispatcher.py#where-is-the-derivative) can say which, since it knows the whole function: `norm` masks the quotient and returns 0. Written as `x.pow(2).sum().sqrt()` the same function is three nodes, none of which knows the others.
# `sqrt` sends ∞, `pow` multiplies it by 2 · 0. Autograd differentiates programs, and equal functions may be unequal programs.


# %%
#| needs: a1_operators
#| claim: at zero the gradient of norm is zero, and that of its definition written out is nan
#| source: pytorch/pytorch#2421
def _(torch):
    x = torch.zeros(2, requires_grad=True)
    (by_formula,) = torch.autograd.grad(x.norm(), x)
    (by_steps,) = torch.autograd.grad(x.pow(2).sum().sqrt(), x)
    assert by_formula.tolist() == [0.0, 0.0] and torch.isnan(by_steps).all()


# %% [markdown]
# **“Element-wise max of two Tensors computes the wrong gradient in case of equality”** (pytorch/pytorch#56734, #41779). The same freedom at another place: which of two equal elements is the largest? Each row of the table answers for itself, and the answers are not the same. None is wrong, as long as the shares add up to the gradient. In #41779 they did not: an infinity norm gave the whole of it to each of three elements.

# %%
#| needs: a1_operators
answers = {
    "x.max()": lambda x: x.max(),
    "x.amax(0)": lambda x: x.amax(0),
    "x.max(0).values": lambda x: x.max(0).values,
    "maximum(x[0], x[1])": lambda x: torch.maximum(x[0], x[1]),
    "x.clamp(min=1)": lambda x: x.clamp(min=1),
    "relu(x - 1)": lambda x: torch.relu(x - 1),
    "(x - 1).abs()": lambda x: (x - 1).abs(),
}
for text, function in answers.items():
    x = torch.ones(2, requires_grad=True)
    print(f"{text:20}", torch.autograd.grad(function(x).sum(), x)[0].tolist())


# %%
#| needs: a1_operators
#| claim: at a tie max and amax share the gradient and max with a dimension gives it to one; at its bound clamp passes it on, relu does not
#| source: pytorch/pytorch#56734
def _(torch):
    def at_a_tie(function):
        x = torch.ones(2, requires_grad=True)
        return torch.autograd.grad(function(x).sum(), x)[0].tolist()

    assert at_a_tie(lambda x: x.max()) == at_a_tie(lambda x: x.amax(0)) == [0.5, 0.5]
    assert at_a_tie(lambda x: torch.maximum(x[0], x[1])) == [0.5, 0.5]
    assert sorted(at_a_tie(lambda x: x.max(0).values)) == [0.0, 1.0]
    assert at_a_tie(lambda x: x.clamp(min=1)) == [1.0, 1.0]
    assert at_a_tie(lambda x: torch.relu(x - 1)) == at_a_tie(lambda x: (x - 1).abs()) == [0.0, 0.0]


# %% [markdown]
# ## Bugs you can now explain: modes and numbers
#
# **“torch.no_grad() context manager seems to leak memory”** (pytorch/pytorch#31497) and **“Enhanced generators with grad-mode decorators”** (#48713, #49017). [The mode is a variable of the thread](../00_tensor/12_autograd.py#how-is-recording-turned-off-and-for-how-long), a `with` block sets it and puts back what it found. A generator stops in the middle of its block, and its caller goes on in the generator's mode. That is the milder half. Two of them,
# ended in the order in which they were begun, restore each other's values, and the thread is left without recording for good: the training that follows runs, and learns nothing or fails at a line far away.


# %%
def batches() -> Iterator[int]:
    with torch.no_grad():
        yield from range(3)


left, right = batches(), batches()
print("before", torch.is_grad_enabled())
next(left), next(right)
left.close()
print("one closed", torch.is_grad_enabled())
right.close()
print("both closed", torch.is_grad_enabled())
_ = torch.set_grad_enabled(True)

# %% [markdown]
# `left` found True and put that back; `right` found what `left` had set. As a *decorator* `no_grad` knows generators and is entered anew for each step. In the reports it was the older decorator, which only wrapped the call that makes the generator, while none of its body ran inside.


# %%
#| claim: a no_grad block around a yield holds for the caller too, and two such generators can leave recording off; the decorator does neither
#| source: pytorch/pytorch#49017
def _(torch):
    def block():
        with torch.no_grad():
            yield torch.is_grad_enabled()

    decorated = torch.no_grad()(lambda: (yield torch.is_grad_enabled()))
    steps = decorated()
    assert next(steps) is False and torch.is_grad_enabled()
    first, second = block(), block()
    next(first)
    assert not torch.is_grad_enabled()
    next(second)
    first.close()
    second.close()
    assert not torch.is_grad_enabled()


# %% [markdown]
# **“`matmul` output depends on batch_size”** (pytorch/pytorch#45422; also #51276, #124025, #136338). One row alone and the same row in a batch give numbers that differ in the last digits. A product of matrices is sums, and which of its loops is split, into how many lanes, and [in which order](../00_tensor/08_first_operators.py#a-sum-in-which-type-in-which-order-and-what-is-its-gradient-made-of) the partial
# sums meet is chosen by the shape of the whole call. Addition of rounded numbers is not associative, so each choice has its own rounding. All are right to within the same bound. What must not be built on them is `==`, or a decision at a tie.

# %%
#| needs: a1_operators
torch.manual_seed(0)
batch, matrix = torch.randn(64, 1000), torch.randn(1000, 50)
exact = (batch.double() @ matrix.double()).float()
results = {
    "one row at a time": torch.cat([row[None] @ matrix for row in batch]),
    "all rows": batch @ matrix,
    "summed by hand": (batch[:, :, None] * matrix).sum(1),
}
unit = exact.abs().max() * 2**-23  # the last place of the largest result
for name, result in results.items():
    units = (result - exact).abs().max() / unit
    print(f"{name:18} off by {units.item():.1f} units")


# %%
#| claim: three numbers have several sums, depending on the order
#| source: pytorch/pytorch#45422
def _(torch):
    large, small = torch.tensor(2.0**25), torch.tensor(1.0)
    assert ((large + small) - large).item() == 0.0
    assert ((large - large) + small).item() == 1.0


# %% [markdown]
# ## Exercises
#
# From the chapter's beginning to its end, and from easy to hard. `torch` is readtorch in these cells; where a check compares, it compares with the library.
#
# **Where does it lie?** Write `position(x, *index)`: the number of the element `x[index]` in its storage, counted in elements. Indices may be negative.


# %%
#| needs: a1_operators
#| exercise: position
def position(x: torch.Tensor, *index: int) -> int:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: position
def position(x: torch.Tensor, *index: int) -> int:
    steps = zip(index, x.shape, x.stride(), strict=True)
    return x.storage_offset() + sum((i % size) * stride for i, size, stride in steps)


# %%
#| needs: a1_operators
#| check: position
memory = torch.arange(24)
for view in (memory.view(4, 6), memory.view(4, 6).t(), memory[3:].as_strided((3, 2, 2), (5, 0, 1), 4)):
    for place in ((0,) * view.dim(), (1,) * view.dim(), (-1,) * view.dim()):
        assert position(view, *place) == view[place].item()

# %% [markdown]
# **Which shape?** Write `broadcast(*shapes)`: the common shape of the operands of a pointwise operator, or a `ValueError`. Sizes of 0 are allowed.


# %%
#| exercise: broadcast
def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    raise NotImplementedError


# %%
#| solution: broadcast
def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(map(len, shapes), default=0)
    result = []
    for sizes in zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            raise ValueError(f"sizes {sorted(wanted)} meet in dimension {len(result)}")
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


# %%
#| check: broadcast
assert broadcast((40, 1), (40,)) == (40, 40) and broadcast((3,), (), (2, 1, 1)) == (2, 1, 3) and broadcast() == ()
assert broadcast((0,), (1,)) == (0,) and broadcast((2, 0), (1,)) == (2, 0)
for wrong in (((2,), (3,)), ((0,), (2,)), ((2, 3), (2, 4))):
    try:
        broadcast(*wrong)
    except ValueError:
        pass
    else:
        raise AssertionError(wrong)

# %% [markdown]
# **And back.** Write `sum_to(gradient, shape)`: what an operand of this shape is owed of the gradient of the broadcast result. No loop over elements.


# %%
#| needs: a1_operators
#| exercise: sum_to
def sum_to(gradient: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: sum_to
def sum_to(gradient: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    new = gradient.dim() - len(shape)
    stretched = [new + d for d, size in enumerate(shape) if size == 1 and gradient.shape[new + d] != 1]
    dims = [*range(new), *stretched]
    return gradient.sum(dims, keepdim=True).reshape(shape) if dims else gradient


# %%
#| needs: a1_operators
#| check: sum_to
for small, large in (
    ((3,), (2, 3)),
    ((1, 3), (4, 3)),
    ((), (2, 2)),
    ((2, 1, 3), (5, 2, 4, 3)),
    ((2, 3), (2, 3)),
    ((1,), (1, 1)),
):
    x = torch.ones(small, requires_grad=True)
    weights = torch.arange(float(math.prod(large))).reshape(large)
    (expected,) = torch.autograd.grad((x * weights).sum(), x)
    assert sum_to(weights, small).shape == small and torch.equal(sum_to(weights, small), expected)

# %% [markdown]
# **Windows without a copy.** Write `windows(x, size, step)`: all stretches of `size` elements of a vector, each `step` after the one before, as the rows of a *view*. The vector may itself be a slice with a stride.


# %%
#| needs: a1_operators
#| exercise: windows
def windows(x: torch.Tensor, size: int, step: int) -> torch.Tensor:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: windows
def windows(x: torch.Tensor, size: int, step: int) -> torch.Tensor:
    count = (len(x) - size) // step + 1
    (stride,) = x.stride()
    return x.as_strided((count, size), (stride * step, stride), x.storage_offset())


# %%
#| needs: a1_operators
#| check: windows
x = torch.arange(12)
assert windows(x, 4, 4).tolist() == x.view(3, 4).tolist()
assert windows(x, 3, 1).shape == (10, 3) and windows(x, 5, 3)[-1].tolist() == [6, 7, 8, 9, 10]
assert windows(x[1::2], 3, 2).tolist() == [[1, 3, 5], [5, 7, 9]]
assert windows(x, 3, 1).data_ptr() == x.data_ptr() and windows(x[2:], 3, 1)._base is not None

# %% [markdown]
# **May it be a view?** Write `view_strides(shape, strides, new)`: the strides with which the same elements have the shape `new`, or None where only a copy helps. Sizes are at least 1, and the numbers of elements agree. Old dimensions fall into runs that lie in memory as one dimension would; a new dimension must not cross
# the border of a run.


# %%
#| needs: a1_operators
#| exercise: view_strides
def view_strides(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: view_strides
def view_strides(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    runs: list[list[int]] = []  # [elements, stride of the last], from the last dimension to the first
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        else:
            runs.append([size, stride])
    result, run, taken = [], 0, 1
    for size in reversed(new):
        if run < len(runs) and taken == runs[run][0]:
            run, taken = run + 1, 1
        count, stride = runs[run] if run < len(runs) else (1, 1)
        if count % (taken * size):
            return None
        result.append(stride * taken)
        taken *= size
    return tuple(reversed(result))


# %%
#| needs: a1_operators
#| check: view_strides
memory = torch.arange(48)
for shape, strides in (
    ((2, 3, 4), (12, 4, 1)),
    ((4, 6), (1, 4)),
    ((4, 3), (12, 1)),
    ((2, 1, 6), (24, 5, 2)),
    ((4, 3), (0, 1)),
):
    for new in ((-1,), (2, -1), (-1, 2), (2, 2, -1), (3, -1), (4, -1), (2, 1, -1)):
        rest = math.prod(shape) // -math.prod(new)
        full = tuple(rest if size == -1 else size for size in new)
        view = memory.as_strided(shape, strides)
        found = view_strides(shape, strides, full)
        try:
            expected = view.view(full)
        except RuntimeError:
            assert found is None, (shape, strides, full)
        else:
            assert found is not None, (shape, strides, full)
            assert torch.equal(memory.as_strided(full, found), expected), (shape, strides, full)

# %% [markdown]
# **Who wrote?** Write `written(function, *tensors)`: call `function(*tensors)` and return the list of the positions of those it wrote to. A write through a view counts; one through `.data` cannot be seen, and need not be.


# %%
#| exercise: written
def written(function: Callable[..., Any], *tensors: torch.Tensor) -> list[int]:
    raise NotImplementedError


# %%
#| solution: written
def written(function: Callable[..., Any], *tensors: torch.Tensor) -> list[int]:
    before = [tensor._version for tensor in tensors]
    function(*tensors)
    return [i for i, (tensor, version) in enumerate(zip(tensors, before, strict=True)) if tensor._version != version]


# %%
#| needs: a1_operators
#| check: written
a, b, c = torch.ones(3), torch.ones(3), torch.ones(3)
assert written(lambda a, b, c: a.add_(b), a, b, c) == [0]
assert written(lambda a, b, c: c[1:].mul_(2) + a[1:], a, b, c) == [2]
assert written(lambda a, b, c: torch.add(a, b, out=c), a, b, c) == [2]
assert written(lambda a, b, c: a.detach().zero_(), a, b, c) == [0]
assert written(lambda a, b, c: (a + b) * c, a, b, c) == []

# %% [markdown]
# **Input or result?** Write `may_overwrite(function)`: "input", "result", "both" or "neither" of an elementwise function may be written to before the backward pass. Find it out by trying; a tensor that was written to and not needed is not missed.


# %%
#| needs: a1_operators
#| exercise: may_overwrite
def may_overwrite(function: Callable[[torch.Tensor], torch.Tensor]) -> str:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: may_overwrite
def may_overwrite(function: Callable[[torch.Tensor], torch.Tensor]) -> str:
    def survives(which: int) -> bool:
        leaf = torch.full((2,), 0.5, requires_grad=True)
        x = leaf.clone()
        y = function(x)
        loss = y.sum()
        (x, y)[which].detach().add_(1)  # counted, and outside of the graph
        try:
            loss.backward()
        except RuntimeError:
            return False
        return True

    return {(True, True): "both", (True, False): "input", (False, True): "result", (False, False): "neither"}[
        survives(0), survives(1)
    ]


# %%
#| needs: a1_operators
#| check: may_overwrite
assert may_overwrite(torch.exp) == may_overwrite(torch.tanh) == "input"
assert may_overwrite(torch.sin) == may_overwrite(lambda x: x * x) == "result"
assert may_overwrite(lambda x: x + 1) == may_overwrite(torch.neg) == "both"
assert may_overwrite(lambda x: x * x.exp()) == "result"

# %% [markdown]
# **In parts.** A batch does not fit, so it is cut, and the gradients of the parts are accumulated. Write `in_parts(loss_of, batch, parts)`: `loss_of(rows)` is the *mean* loss of some rows; afterwards the leaves must hold the gradient of the mean over the whole batch, although `torch.tensor_split` makes parts of unequal length. Each part's graph must
# be gone before the next one is built.


# %%
#| needs: a1_operators
#| exercise: in_parts
def in_parts(loss_of: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor, parts: int) -> None:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: in_parts
def in_parts(loss_of: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor, parts: int) -> None:
    for rows in torch.tensor_split(batch, parts):
        (loss_of(rows) * (len(rows) / len(batch))).backward()


# %%
#| needs: a1_operators
#| check: in_parts
torch.manual_seed(0)
batch, w = torch.randn(11, 3), torch.randn(3, requires_grad=True)
(whole,) = torch.autograd.grad(((batch @ w) ** 2).mean(), w)
for parts in (1, 2, 4, 11):
    w.grad = None
    alive = []

    def loss_of(rows: torch.Tensor) -> torch.Tensor:
        assert len(alive) < 2
        loss = ((rows @ w) ** 2).mean()
        alive.append(1)
        loss.register_hook(lambda grad: alive.pop() and None)
        return loss

    in_parts(loss_of, batch, parts)
    assert not alive and torch.allclose(w.grad, whole)

# %% [markdown]
# **A norm that is safe twice.** Write `safe_norm(x)` with operators only: the Euclidean length of a vector, with a gradient of zero at zero, no NaN in the second derivative either, and the same values and gradients as `x.norm()` elsewhere. The inner `where` is [in the part before](../00_tensor/17_one_addition.py#bugs-you-can-now-explain).


# %%
#| needs: a1_operators
#| exercise: safe_norm
def safe_norm(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: safe_norm
def safe_norm(x: torch.Tensor) -> torch.Tensor:
    squares = (x * x).sum()
    is_zero = squares == 0
    return torch.where(
        is_zero, torch.zeros_like(squares), torch.where(is_zero, torch.ones_like(squares), squares).sqrt()
    )


# %%
#| needs: a1_operators
#| check: safe_norm
for values in ([3.0, 4.0], [0.0, 2.0], [0.0, 0.0]):
    x = torch.tensor(values, requires_grad=True)
    (first,) = torch.autograd.grad(safe_norm(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, allow_unused=True)
    assert safe_norm(x).item() == x.norm().item() and torch.equal(first, torch.autograd.grad(x.norm(), x)[0])
    assert second is None or torch.isfinite(second).all()

# %% [markdown]
# **The Hessian, unseen.** Write `hessian_product(function, x, v)`: the product of the Hessian of a scalar function at `x` with a vector, by two backward passes and without a matrix. `x.grad` is not touched.


# %%
#| needs: a1_operators
#| exercise: hessian_product
def hessian_product(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


# %%
#| needs: a1_operators
#| solution: hessian_product
def hessian_product(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x), x, create_graph=True)
    return torch.autograd.grad((gradient * v).sum(), x)[0]


# %%
#| needs: a1_operators
#| check: hessian_product
x, v = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, -1.0])
assert hessian_product(lambda x: x[0] ** 3 * x[1], x, v).tolist() == [12.0 - 3.0, 3.0]
assert x.grad is None
large = torch.ones(10_000)
assert hessian_product(lambda x: (x**4).sum(), large, large)[7].item() == 12.0

# %% [markdown]
# **Three inputs, and no more kept than needed.** Write a `Function` named `MultiplyAdd` for `x * y + z`. Backward must be right for every subset of inputs that require a gradient, and forward must save only what that subset needs (`ctx.needs_input_grad` is known there already). All three have one shape.


# %%
#| exercise: MultiplyAdd
class MultiplyAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, z):
        raise NotImplementedError


# %%
#| solution: MultiplyAdd
class MultiplyAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, z):
        for_x, for_y, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if for_y else None, y if for_x else None)
        return x * y + z

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (
            None if y is None else grad * y,
            None if x is None else grad * x,
            grad if ctx.needs_input_grad[2] else None,
        )


# %%
#| needs: a1_operators
#| check: MultiplyAdd
for wanted in range(1, 8):
    x, y, z = (torch.tensor([float(n + 2)], requires_grad=bool(wanted >> n & 1)) for n in range(3))
    packed: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        result = MultiplyAdd.apply(x, y, z)
    assert len(packed) == bin(wanted & 3).count("1"), wanted
    result.sum().backward()
    assert [None if t.grad is None else t.grad.item() for t in (x, y, z)] == [
        value if wanted >> n & 1 else None for n, value in enumerate((3.0, 2.0, 1.0))
    ]

# %% [markdown]
# **A mode that respects generators.** Write a decorator `without_recording(function)` that switches recording off inside of `function`, for ordinary functions and for generator functions. Between two steps the caller's mode must hold, whatever it is by then; values that are sent in must arrive, and closing must reach the body.


# %%
#| exercise: without_recording
def without_recording(function: Callable[..., Any]) -> Callable[..., Any]:
    raise NotImplementedError


# %%
#| solution: without_recording
def without_recording(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return function(*args, **kwargs)

    @functools.wraps(function)
    def steps(*args: Any, **kwargs: Any) -> Any:
        generator, sent = function(*args, **kwargs), None
        try:
            while True:
                with torch.no_grad():
                    produced = generator.send(sent)
                sent = yield produced
        except StopIteration as end:
            return end.value
        finally:
            with torch.no_grad():
                generator.close()

    return steps if inspect.isgeneratorfunction(function) else call


# %%
#| check: without_recording
log: list[Any] = []


@without_recording
def talk(first: int) -> Iterator[Any]:
    try:
        answer = yield first, torch.is_grad_enabled()
        log.append(answer)
        yield torch.is_grad_enabled()
    finally:
        log.append(("closed", torch.is_grad_enabled()))


assert without_recording(torch.is_grad_enabled)() is False
one, two = talk(1), talk(2)
assert next(one) == (1, False) and torch.is_grad_enabled() and next(two) == (2, False)
assert one.send("hello") is False and log == ["hello"]
one.close()
assert torch.is_grad_enabled() and log[-1] == ("closed", False)
two.close()
assert torch.is_grad_enabled() and list(without_recording(lambda: (yield 3))()) == [3]

# %% [markdown]
# **An engine in fifteen lines.** Each entry of a tape is `(result, inputs, formula)`: names, and a function from the gradient of the result to the list of gradients of the inputs. Write `walk(tape, root)`: a dictionary with the gradient of `root` by every name that it depends on. Each formula may run once, when all of its gradient has arrived; the entries come
# in no order at all; what `root` does not depend on must not run. The check has a graph with 2⁵⁰ paths.


# %%
#| exercise: walk
def walk(tape: list[tuple[str, list[str], Callable[[float], list[float]]]], root: str) -> dict[str, float]:
    raise NotImplementedError


# %%
#| solution: walk
def walk(tape: list[tuple[str, list[str], Callable[[float], list[float]]]], root: str) -> dict[str, float]:
    made = {result: (inputs, formula) for result, inputs, formula in tape}
    missing: dict[str, int] = {root: 0}  # how many gradients are still to come, as compute_dependencies counts
    stack = [root]
    while stack:
        for name in made.get(stack.pop(), ([], None))[0]:
            if name not in missing:
                missing[name] = 0
                stack.append(name)
            missing[name] += 1
    gradients, ready = dict.fromkeys(missing, 0.0), [root]
    gradients[root] = 1.0
    while ready:
        result = ready.pop()
        if result in made:
            inputs, formula = made[result]
            for name, gradient in zip(inputs, formula(gradients[result]), strict=True):
                gradients[name] += gradient
                missing[name] -= 1
                if not missing[name]:
                    ready.append(name)
    return gradients


# %%
#| check: walk
ran: list[str] = []


def entry(result: str, inputs: list[str], *factors: float) -> Any:
    return result, inputs, lambda grad: ran.append(result) or [grad * factor for factor in factors]


tape = [entry("c", ["a", "b"], 3.0, 2.0), entry("d", ["c", "a"], 1.0, 1.0), entry("unrelated", ["d"], 9.0)]
for order in (tape, tape[::-1]):
    ran.clear()
    assert walk(order, "d") == {"d": 1.0, "c": 1.0, "a": 4.0, "b": 2.0} and ran == ["d", "c"]
ladder = [entry(f"x{n + 1}", [f"x{n}", f"x{n}"], 1.0, 1.0) for n in range(50)]
ran.clear()
assert walk(ladder, "x50")["x0"] == 2.0**50 and len(ran) == 50
leaf = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
top = leaf
for _ in range(50):
    top = top + top
top.backward()
assert leaf.grad.item() == 2.0**50
