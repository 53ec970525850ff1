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
# # A network that reads digits
#
# Everything of this chapter at work once: modules inside modules, parameters found and updated, buffers that travel, a
# hook that looks inside, a mode that is switched, and a `state_dict` that carries the result into a fresh model. The
# data is real: 1,797 handwritten digits, 8 × 8 pixels each, written by 13 people (E. Alpaydin and C. Kaynak, UCI
# Machine Learning Repository, CC BY 4.0; see `data/README.md`).
#
# There is no optimizer yet. The update is four lines, written out.

# %%
import copy
import math
import pickle
import time

import matplotlib.pyplot as plt
import numpy as np

import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %%
digits = np.load("data/optdigits.npz")
images = torch.from_numpy(digits["images"].astype("float32")).unsqueeze(1)
labels = torch.from_numpy(digits["labels"].astype("int64"))

torch.manual_seed(0)
order = torch.randperm(len(labels))
train, test = order[:1297], order[1297:]
images.shape, len(train), len(test)

# %%
figure, axes = plt.subplots(2, 10, figsize=(8, 1.9))
for axis, index in zip(axes.flat, order[:20].tolist()):
    axis.imshow(images[index, 0].numpy(), cmap="gray_r")
    axis.set_title(str(labels[index].item()), fontsize=9)
    axis.axis("off")
figure.tight_layout()

# %% [markdown]
# ## The layers
#
# Appendix A2 has layers like these with all their options. Here each is only what the chapter has told: parameters that
# are assigned, and a `forward`. The initial weights are uniform with a variance that keeps the variance of the
# activations behind a ReLU: a bound of √(6 / fan-in) (He et al., 2015).


# %%
def he_uniform(*shape):
    fan_in = math.prod(shape[1:])
    return (torch.rand(*shape) * 2 - 1) * math.sqrt(6 / fan_in)


class Convolve(nn.Module):
    """(N, C, H, W) to (N, out, H, W): 3 × 3 filters, edges padded with zeros."""

    def __init__(self, channels, out):
        super().__init__()
        self.weight = nn.Parameter(he_uniform(out, channels, 3, 3))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return torch.conv2d(x, self.weight, self.bias, padding=1)

    def extra_repr(self):
        return " → ".join(str(self.weight.shape[dim]) for dim in (1, 0))


class Classify(nn.Module):
    """(N, features) to (N, classes): log-probabilities."""

    def __init__(self, features, classes):
        super().__init__()
        self.weight = nn.Parameter(he_uniform(classes, features))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x):
        return torch.log_softmax(x @ self.weight.t() + self.bias, dim=1)

    def extra_repr(self):
        return " → ".join(str(self.weight.shape[dim]) for dim in (1, 0))


class Shrink(nn.Module):
    """ReLU, then the largest of each 2 × 2 block."""

    def forward(self, x):
        return torch.max_pool2d(torch.relu(x), 2)


# %% [markdown]
# Pixels are counts from 0 to 16. Bringing them to mean 0 and deviation 1 is part of the model and not of the training
# script: whoever loads the model must get *its* numbers along, and must not train them. Two buffers, then, and
# persistent ones.


# %%
class Standardise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("deviation", torch.ones(()))

    def measure(self, x):
        self.mean = x.mean()
        self.deviation = x.std()

    def forward(self, x):
        return (x - self.mean) / self.deviation


# %% [markdown]
# And one module that differs between training and evaluation. Dropout sets some activations to zero while training, so
# that no digit is recognised by a single one, and scales the others up, so that their sum stays what evaluation will
# see.


# %%
class Drop(nn.Module):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        if not self.training:
            return x
        keep = (torch.rand(x.shape) >= self.share).float()
        return x * keep / (1 - self.share)

    def extra_repr(self):
        return f"{self.share:.0%}"


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.standardise = Standardise()
        self.see = nn.Sequential(Convolve(1, 16), Shrink(), Convolve(16, 32), Shrink())
        self.drop = Drop(0.25)
        self.name = Classify(32 * 2 * 2, 10)

    def forward(self, x):
        seen = self.see(self.standardise(x))  # (N, 32, 2, 2)
        return self.name(self.drop(seen.flatten(1)))


torch.manual_seed(1)
model = Reader()
model.standardise.measure(images[train])
model

# %%
for name, tensor in model.state_dict().items():
    print(f"{name:24} {str(tuple(tensor.shape)):16} {tensor.numel():6,}")

# %% [markdown]
# A hook shows the shapes between the layers without a change to any of them.

# %%
shapes = []
handles = [
    module.register_forward_hook(
        lambda module, args, output: shapes.append((type(module).__name__, tuple(output.shape)))
    )
    for module in model.modules()
    if not list(module.children())
]
model(images[:5])
for handle in handles:
    handle.remove()
shapes

# %% [markdown]
# ## One step
#
# The loss is the mean of −log p of the right digit. `step` runs forward and backward and moves every parameter against
# its gradient, with momentum: a running mean of gradients, kept in a dictionary by parameter. The update itself must
# not be recorded, or the graph of step 2 would reach back into step 1; that is what `no_grad` is for.


# %%
class NegativeLogLikelihood(nn.Module):
    def forward(self, log_probabilities, target):
        return -log_probabilities.gather(1, target.unsqueeze(1)).mean()


loss_of = NegativeLogLikelihood()
velocity = {parameter: torch.zeros_like(parameter) for parameter in model.parameters()}


def step(batch, rate, momentum=0.9):
    loss = loss_of(model(images[batch]), labels[batch])
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            velocity[parameter].mul_(momentum).add_(parameter.grad)
            parameter.sub_(rate * velocity[parameter])
    return loss.item()


# %% [markdown]
# One whole step, recorded: modules and operators on the way down, the nodes of the graph on the way back, then the
# update, operator by operator.

# %%
#| trace: torch.nn layers=calls,ops,autograd values=summary title="one training step on eight digits"
first = step(train[:8], rate=0.01)

# %% [markdown]
# ## Training


# %%
def accuracy(model, indices):
    model.eval()
    with torch.no_grad():
        guesses = model(images[indices]).argmax(1)
    model.train()
    return (guesses == labels[indices]).float().mean().item()


EPOCHS, BATCH = 12, 32
losses, marks = [], []
began = time.perf_counter()
for epoch in range(1, EPOCHS + 1):
    shuffled = train[torch.randperm(len(train))]
    for batch in shuffled.split(BATCH):
        losses.append(step(batch, rate=0.02 if epoch <= 8 else 0.005))
    marks.append((len(losses), accuracy(model, test)))
    bar = "█" * epoch + "░" * (EPOCHS - epoch)
    recent = sum(losses[-40:]) / len(losses[-40:])
    print(f"{bar}  epoch {epoch:2}  loss {recent:.3f}  test {marks[-1][1]:.1%}")
print(f"{time.perf_counter() - began:.1f} s")

# %%
reached = accuracy(model, test)
assert reached >= 0.95, f"only {reached:.1%}"
f"{reached:.1%} of {len(test)} digits that the model has never seen"

# %%
figure, left = plt.subplots(figsize=(7, 3))
smooth = np.convolve(losses, np.ones(20) / 20, mode="valid")
left.plot(losses, color="tab:blue", alpha=0.25, linewidth=0.8)
left.plot(np.arange(len(smooth)) + 19, smooth, color="tab:blue")
left.set_yscale("log")
left.set_xlabel("step")
left.set_ylabel("training loss", color="tab:blue")
right = left.twinx()
right.plot(*zip(*marks), "o-", color="tab:orange", markersize=3)
right.set_ylim(0.8, 1.005)
right.set_ylabel("test accuracy", color="tab:orange")
figure.tight_layout()

# %% [markdown]
# Which digits are taken for which? Rows are what was written, columns what was read; the diagonal is left out of the
# colour.

# %%
model.eval()
with torch.no_grad():
    log_probabilities = model(images[test])
read, written = log_probabilities.argmax(1), labels[test]
confusion = np.zeros((10, 10), dtype=int)
np.add.at(confusion, (written.numpy(), read.numpy()), 1)

wrong = (read != written).nonzero().flatten().tolist()
figure = plt.figure(figsize=(8, 3.2))
grid = figure.add_gridspec(2, 8)
axis = figure.add_subplot(grid[:, :4])
axis.imshow(np.where(np.eye(10, dtype=bool), 0, confusion), cmap="Oranges")
for row, column in zip(*confusion.nonzero()):
    shade = "white" if row != column and confusion[row, column] > 2 else "black"
    axis.text(column, row, confusion[row, column], ha="center", va="center", fontsize=7, color=shade)
axis.set_xticks(range(10))
axis.set_yticks(range(10))
axis.set_xlabel("read")
axis.set_ylabel("written")
for place, index in enumerate(wrong[:8]):
    axis = figure.add_subplot(grid[place // 4, 4 + place % 4])
    axis.imshow(images[test[index], 0].numpy(), cmap="gray_r")
    axis.set_title(f"{written[index].item()} read as {read[index].item()}", fontsize=7)
    axis.axis("off")
figure.tight_layout()

# %% [markdown]
# ## Into a fresh model
#
# The state goes through bytes, as it would through a file, and into a model that was initialised differently. Weights
# *and* the two buffers arrive; the mode does not, which is why `accuracy` sets it.

# %%
stored = pickle.dumps(model.state_dict())
torch.manual_seed(99)
fresh = Reader()
before = accuracy(fresh, test)
report = fresh.load_state_dict(pickle.loads(stored))
(
    len(stored),
    f"{before:.1%}",
    report,
    f"{accuracy(fresh, test):.1%}",
    torch.equal(fresh.standardise.mean, model.standardise.mean),
)

# %% [markdown]
# Forget the buffers and see what they were for. The same weights, on unstandardised pixels:

# %%
bare = Reader()
weights_only = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("standardise")}
bare.load_state_dict(weights_only, strict=False).missing_keys, f"{accuracy(bare, test):.1%}"

# %% [markdown]
# ## The same network on PyTorch
#
# Is a readtorch that trains this well a PyTorch, or only something like it? This claim trains a smaller version with
# the same seed on both. The generators are equal bit for bit (chapter 0), so both start from the same weights and see
# the same batches.


# %%
#| claim: trained from the same seed, the network has the same losses to three digits in its first epoch, and reads at least 95 % of digits it has not seen
def _(torch):
    import math
    import numpy as np

    nn = torch.nn
    digits = np.load("data/optdigits.npz")
    images = torch.from_numpy(digits["images"].astype("float32") / 16).unsqueeze(1)
    labels = torch.from_numpy(digits["labels"].astype("int64"))
    torch.manual_seed(0)

    class Layer(nn.Module):
        def __init__(self, *shape):
            super().__init__()
            bound = math.sqrt(6 / math.prod(shape[1:]))
            self.weight = nn.Parameter((torch.rand(*shape) * 2 - 1) * bound)
            self.bias = nn.Parameter(torch.zeros(shape[0]))

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.see, self.name = Layer(16, 1, 3, 3), Layer(10, 16 * 4 * 4)

        def forward(self, x):
            x = torch.max_pool2d(torch.relu(torch.conv2d(x, self.see.weight, self.see.bias, padding=1)), 2)
            return torch.log_softmax(x.flatten(1) @ self.name.weight.t() + self.name.bias, dim=1)

    model, order = Reader(), torch.randperm(1797)
    train, test, losses = order[:1297], order[1297:], []
    for epoch in range(10):
        for batch in train[torch.randperm(1297)].split(32):
            loss = -model(images[batch]).gather(1, labels[batch].unsqueeze(1)).mean()
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(0.3 * parameter.grad)
            losses.append(loss.item())
    with torch.no_grad():
        right = (model(images[test]).argmax(1) == labels[test]).float().mean()
    assert right >= 0.95
    assert np.allclose(losses[:40:8], [2.73931, 1.53332, 1.04038, 0.54877, 0.57459], rtol=1e-3)


# %% [markdown]
# ## Exercise
#
# **Average the weights.** The mean of the weights of the last few epochs often reads better than any one of them
# (chapter 4 returns to it). Write `average(states)`: the mean of several `state_dict`s of one model, entry by entry, as
# a dictionary that `load_state_dict` takes. Integer entries, such as counters, cannot be averaged; take the last one.
# Do not change the given dictionaries.


# %%
#| exercise: average
def average(states: list[dict]) -> dict:
    raise NotImplementedError


# %%
#| solution: average
def average(states: list[dict]) -> dict:
    result = copy.copy(states[-1])
    for name, last in states[-1].items():
        if last.is_floating_point():
            result[name] = sum(state[name] for state in states) / len(states)
    return result


# %%
#| check: average
one, two = Reader(), Reader()
two.register_buffer("seen", torch.tensor(7))
one.register_buffer("seen", torch.tensor(3))
states = [one.state_dict(), two.state_dict()]
mean = average(states)
assert torch.allclose(mean["name.weight"], (one.name.weight + two.name.weight) / 2)
assert mean["seen"] == 7 and mean["seen"].dtype == torch.int64
assert states[1]["name.weight"].data_ptr() == two.name.weight.data_ptr()
two.load_state_dict(mean)
