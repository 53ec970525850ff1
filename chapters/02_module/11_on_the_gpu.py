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
# # On the GPU: what moves, what flows, what can be captured
#
# `model.to("cuda")` is one line, and two things are often told about what follows it. That the model "is sent to the GPU", as if it were an object that could travel. And that during training "tensors flow back and forth between CPU and GPU".
# Both can be counted. On a machine without a GPU the counting is done on a simulated one, which says so:

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

if not torch.cuda.is_available():
    torch.cuda.simulate(1)
torch.manual_seed(0)
torch.cuda.get_device_name()

# %% [markdown]
# ## What does `model.to("cuda")` move?
#
# The walk over the tree is `Module._apply`, and what it applies is `tensor.to(device)`, to each parameter, each gradient, each buffer, one after the other. So there are as many copies as tensors, and nothing
# else: the modules, the hooks, the dictionaries stay the Python objects they were, on the host, where they will run.

# %%
#| needs: 04_optim
from readtorch.aten.native.cuda.copy import traffic


def counted(action):
    """What an action sends over the bus: copies and bytes by direction."""
    before = dict(traffic)
    action()
    return {
        way: (n - before.get(way, (0, 0))[0], b - before.get(way, (0, 0))[1])
        for way, (n, b) in traffic.items()
        if (n, b) != before.get(way)
    }


with torch.device("cpu"):
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 13 * 13, 10)
    )
tensors = [*model.parameters(), *model.buffers()]
identity = [id(parameter) for parameter in model.parameters()]
moved = counted(lambda: model.to("cuda"))
moved, len(tensors), sum(t.nbytes for t in tensors), identity == [id(p) for p in model.parameters()]

# %% [markdown]
# Nine tensors, nine copies, as many bytes as they have. The parameters are the *same objects* with other memory, because `_apply` writes to `param.data`: an optimizer that holds them still holds the right ones. (Its own state, the momentum of a step that has
# already been taken, is nobody's parameter and stays where it was. That is why an optimizer is made after the move.) What is not registered, a tensor in a plain attribute, is not found and not moved:


# %%
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(3, device="cpu")  # should be a buffer

    def forward(self, x):
        return x * self.scale


try:
    Scaled().to("cuda")(torch.ones(2, 3, device="cuda"))
except RuntimeError as error:
    print(error)

# %% [markdown]
# Each copy waited for the one before, and the host for each. `non_blocking=True` would change little, for the parameters lie in pageable memory, out of which the driver has to copy them before the host may go on; from pinned memory it would.

# %% [markdown]
# ## Do tensors flow back and forth?
#
# They do not. A forward pass, a backward pass and an optimizer step, counted:

# %%
#| needs: 04_optim
x, y = torch.rand(32, 1, 28, 28, device="cuda"), torch.randint(10, (32,), device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def forward():
    global loss
    loss = nn.functional.cross_entropy(model(x), y)


def backward():
    optimizer.zero_grad()
    loss.backward()


{
    "forward": counted(forward),
    "backward": counted(backward),
    "step": counted(optimizer.step),
    "loss.item()": counted(loss.item),
}

# %% [markdown]
# Three empty dictionaries, and one copy of four bytes that we asked for. What the host does during the step is *launch*: it calls the same Python, looks up the same kernels in the next column of the table, and puts them into a
# queue of the GPU. The intermediate results are allocated, written and freed in the GPU's memory; the host knows their shapes and addresses and never sees an element. It does not even know whether they are there yet:
# at the end of `loss.backward()` a real GPU has usually hardly begun.
#
# So three things make tensors flow, all of them in the program's own text: feeding a batch, asking for a value (`item`, `print`, `if loss < best`, saving), and operators whose result has a shape that depends on the data (`nonzero`, `x[mask]`), for which the host has to
# wait although it copies only a number.

# %%
#| trace: torch.nn layers=calls,ops,kernels title="One step on the GPU: what is launched, and the one copy at its end"
#| needs: 04_optim
forward()
loss.backward()
value = loss.item()

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "CPU and GPU exchange tensors during training, so keep the model small." The bus carries the batch one way and whatever you print the other. A slow step on a busy bus is nearly always a value asked for in the loop;
# > `torch.cuda.set_sync_debug_mode("error")` finds the line.

# %%
#| needs: 04_optim
torch.cuda.set_sync_debug_mode("error")
try:
    forward()
    if loss < 1e9:
        pass
except RuntimeError as error:
    print(error)
finally:
    torch.cuda.set_sync_debug_mode("default")

# %% [markdown]
# ## How far can a whole graph stay on the GPU?
#
# The elements stay there; the *program* does not. Every operator costs some microseconds of Python and of launching, and with small layers the GPU waits for them. CUDA has a way out: put a stream into capture mode, run the program once, and the
# driver notes what would have been launched. The finished graph is then launched as a whole. Nothing of Python is left in it, and neither is anything that Python would decide.

# %%
#| needs: 04_optim
norm = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU()).cuda().eval()
static_input = torch.rand(4, 8, 5, 5, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    static_output = norm(static_input)

fresh = torch.randn(4, 8, 5, 5, device="cuda")
torch.cuda.synchronize()
static_input.copy_(fresh)
graph.replay()
torch.cuda.synchronize()
with torch.no_grad():
    print(torch.equal(static_output, norm(fresh)))

# %% [markdown]
# The graph holds *addresses*. That is why there is a `static_input`: new data is copied into the memory that was captured, and the result appears in the memory that was captured. Now the whole network:

# %%
#| needs: 04_optim
#| source: cupy/cupy#6290
#| source: https://docs.nvidia.com/cuda/cublas/index.html#cuda-graphs
try:
    with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph()):
        model(x)
except NotImplementedError as error:
    print(error)

# %% [markdown]
# It ends at the first product of matrices. A convolution here is a product of a matrix of windows, computed by cuBLAS, and CuPy refuses to call cuBLAS, cuSOLVER, cuSPARSE and cuRAND while a stream is captured. (The simulated device refuses the same calls, so that a laptop says what the GPU
# will say.) CUDA itself forbids only some of it. cuBLAS can be captured under conditions: its pointer mode must be right, and the workspace that it keeps must not be shared by two graphs, or a graph and the program beside it, that run at the same time. Upstream sees to them. CuPy has no way yet to tell whether they hold, and refuses every call.
#
# What can and cannot be captured, by kind:
#
# | in the model | captured here | upstream |
# |---|---|---|
# | pointwise operators, reductions, norms, our own CUDA kernels | yes | yes |
# | products of matrices, convolutions | no: cuBLAS is refused | yes: every pair of handle and stream has a workspace of its own, which while capturing comes from the graph's pool |
# | dropout, `rand` | no: the counter would be captured as a number | yes: kernels read the counter from device memory, and `replay` moves it on |
# | `x.item()`, `if x > 0`, `x[mask]` | no: the host would have to wait | no; `cudaGraph` conditional nodes and `torch.cond` cover some of it |
# | copies from pageable memory | no | no |
# | copies from pinned memory | no: CuPy refuses | yes |
# | allocations | yes, from a pool of the graph's own | yes, the same |

# %%
#| needs: 04_optim
cases = {
    "norm": lambda: norm(static_input),
    "linear": lambda: nn.functional.linear(x.flatten(1), model[5].weight[:, :784]),
    "dropout": lambda: nn.functional.dropout(x),
    "mask": lambda: x[x > 0.5],
    "item": lambda: x.sum().item(),
}
for name, case in cases.items():
    try:
        with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph()):
            case()
        print(f"{name:8} captured")
    except (RuntimeError, NotImplementedError) as error:
        print(f"{name:8} {str(error)[:86]}")

# %% [markdown]
# ## A graph in the middle of a network
#
# So the whole network cannot be captured here, but what lies between two products can. `make_graphed_callables` captures a module's forward and backward pass as two graphs and puts both behind one node ([how](../01_import/d8_cuda_graphs.py)); the convolutions and the linear layer around it run as before. Two networks with the same parameters, one with its middle captured, train for three steps:

# %%
#| needs: 04_optim
torch.manual_seed(1)
networks = [
    nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.Sequential(nn.BatchNorm2d(8), nn.ReLU()),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 13 * 13, 10),
    ).cuda()
    for _ in range(2)
]
networks[1].load_state_dict(networks[0].state_dict())
sample = torch.rand(32, 8, 26, 26, device="cuda", requires_grad=True)
torch.cuda.make_graphed_callables(networks[1][1], (sample,))
networks[1][1][0].reset_running_stats()  # the runs that came before the capture have moved them

for step in range(3):
    losses = []
    for network in networks:
        loss = nn.functional.cross_entropy(network(x), y)
        for parameter in network.parameters():
            parameter.grad = None
        loss.backward()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter -= 0.01 * parameter.grad
        losses.append(loss.item())
    print(step, *losses, losses[0] == losses[1])

# %% [markdown]
# ### What upstream does more
# * `torch.compile(mode="reduce-overhead")` finds by itself which parts can be captured, and shares their memory as a tree.
# * The caching allocator keeps a private pool per graph and does not give its blocks to anyone else as long as the graph lives; CuPy's has to be told to, with a pool of the graph's own.
# * The optimizers have `capturable=True`: their step count is a tensor on the GPU, since a Python number would be captured as a constant.

# %%
#| fact: torch/cuda/graphs.py#make_graphed_callables
#| fact: torch/cuda/graphs.py#graph
#| fact: torch/nn/modules/module.py#Module._apply
#| fact: c10/cuda/CUDACachingAllocator.h#c10::cuda::CUDACachingAllocator::CUDAAllocator

# %% [markdown]
# ## Exercises
#
# **The batch while the GPU computes.** A loader in pinned memory, a side stream for the copies: while the GPU works on batch *n*, batch *n* + 1 arrives. Write `prefetched(batches, device)`. The simulated device refuses it if a wait is missing, or if a batch's memory is freed while it is still needed.


# %%
#| exercise: prefetched
def prefetched(batches, device):
    """Yield the batches on `device`; the copy of the next runs while the caller works on the present one."""
    for batch in batches:
        yield batch.to(device)


# %%
#| solution: prefetched
def prefetched(batches, device):
    """Yield the batches on `device`; the copy of the next runs while the caller works on the present one."""
    side = torch.cuda.Stream(device)
    waiting = None
    for batch in batches:
        with torch.cuda.stream(side):
            arriving = batch.pin_memory().to(device, non_blocking=True)
        if waiting is not None:
            yield received(waiting, side)
        waiting = arriving
    if waiting is not None:
        yield received(waiting, side)


def received(batch, side):
    """The batch, once it is there, for the current stream."""
    current = torch.cuda.current_stream()
    current.wait_stream(side)
    batch.record_stream(current)
    return batch


# %%
#| check: prefetched
batches = [torch.full((100,), float(n), device="cpu") for n in range(5)]
torch.cuda.set_sync_debug_mode("error")
try:
    arrived = [(batch * 2).sum() for batch in prefetched(batches, "cuda")]
finally:
    torch.cuda.set_sync_debug_mode("default")
assert [total.item() for total in arrived] == [200.0 * n for n in range(5)]
