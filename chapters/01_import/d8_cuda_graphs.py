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
# # Graphs: captured once, launched many times
#
# A launch costs the host some microseconds: Python, the dispatcher, the driver. If what is launched takes the GPU less than that, the GPU waits. CUDA has a remedy. A stream is put into *capture mode*; what the program then puts into it is noted and not done. The notes, a graph of kernels with the addresses that they read and write, are handed to the driver, and from then on the whole is one launch.
#
# What it costs is everything that Python decides. The graph is one path through the program, with these shapes, these numbers, this memory.

# %%
import subprocess
import sys

import readtorch as torch
from readtorch.literate import live

live()

if not torch.cuda.is_available():
    torch.cuda.simulate(1)
torch.cuda.get_device_name()

# %% [markdown]
# ## Whose memory is it?
#
# A tensor that is made while capturing is written again by every replay. Its memory may be given to nobody else, not when the tensor is freed, not when Python has forgotten it. So a graph has a pool of its own, from which all allocations of the capture come; when the graph goes, the pool goes.
# CuPy's allocator knows nothing of captures, but it can be exchanged for the thread: the pool is a second `MemoryPool`.
#
# The capture begins on the *current* stream, which must not be the default one: the default stream waits for other streams and is waited for by them, and none of that could be noted.

# %%
#| into: aten/cuda/cuda_graph.py
"""Captured work that is launched as one (twin of `aten/src/ATen/cuda/CUDAGraph.h`)."""

# %%
#| into: aten/cuda/cuda_graph.py
#| imports
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from readtorch.c10.cuda.cuda_functions import library, require
from readtorch.c10.cuda.cuda_stream import get_current_stream

# %%
#| into: aten/cuda/cuda_graph.py
ERROR_MODES = ("global", "thread_local", "relaxed")
"""Whose unsafe calls disturb a capture: every thread's, the capturing one's, nobody's."""


# %%
#| into: aten/cuda/cuda_graph.py
#| upstream: aten/src/ATen/cuda/CUDAGraph.h#at::cuda::CUDAGraph
class CUDAGraph:
    """What was put into a stream between `capture_begin` and `capture_end`; `replay` does it again, in the same memory.

    RuntimeError without CUDA.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        require("torch.cuda.CUDAGraph")
        self._graph: Any = None
        self._stream: Any = None
        self._pool: Any = None
        self._allocator: Any = None
        self._debug = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Capture, from now on, what is put into the current stream, which must not be the default one.

        Its memory comes from `pool`, by default one of the graph's own. Whatever the mode, CuPy captures in the relaxed one, the
        only one in which its allocator may ask the driver for memory.
        """
        if capture_error_mode not in ERROR_MODES:
            raise RuntimeError(f"Unknown capture error mode. Expected one of {ERROR_MODES}, got {capture_error_mode}")
        if self._graph is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph. Call reset(), or make another.")
        stream = get_current_stream()
        if stream.ptr == 0:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        cuda = library().cuda
        memory = cuda.MemoryPool() if pool is None else pool
        stream.begin_capture()
        self._pool, self._stream = memory, stream
        self._allocator = cuda.using_allocator(memory.malloc)
        self._allocator.__enter__()

    def capture_end(self) -> None:
        """Stop capturing. RuntimeError if something was done meanwhile that no graph can hold."""
        if self._stream is None:
            raise RuntimeError("capture_end() without capture_begin()")
        stream, self._stream = self._stream, None
        self._allocator.__exit__(None, None, None)
        self._graph = stream.end_capture()

    def instantiate(self) -> None:
        """Make the graph ready for the device: here `capture_end` has done so, whatever `keep_graph` was. RuntimeError before it."""
        if self._graph is None:
            raise RuntimeError("capture_end() must have been called before instantiate()")

    def replay(self) -> None:
        """Do it all again on the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._graph.launch(get_current_stream())

    def reset(self) -> None:
        """Forget what was captured, and its memory."""
        self._graph = self._pool = None

    def pool(self) -> Any:
        """The pool of its memory, for another graph to share. RuntimeError before a capture."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Let `debug_dump` write what was captured."""
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph to a file, in the language of Graphviz. Only a warning unless `enable_debug_mode` was called."""
        if not self._debug:
            warnings.warn("CUDA Graphs debug not enabled, set with enable_debug_mode()", stacklevel=2)
        elif self._graph is not None:
            Path(debug_path).write_text(self._graph.debug_dot_str(), "utf-8")


# %% [markdown]
# The same with a context, which also waits for the device and gives unused memory back before it begins. An error inside is the one that the caller sees: that there is no graph then, which CUDA would say next, is only its consequence.

# %%
#| into: cuda/graphs.py
"""Capturing (twin of `torch/cuda/graphs.py`)."""

# %%
#| into: cuda/graphs.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from readtorch.aten.cuda.cuda_graph import CUDAGraph as CUDAGraph
from readtorch.c10.cuda.cuda_functions import library, require
from readtorch.c10.cuda.cuda_stream import get_current_stream

# %%
#| into: cuda/graphs.py
#| upstream: torch/cuda/graphs.py#is_current_stream_capturing
__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def is_current_stream_capturing() -> bool:
    """Is the current stream being captured? No, where CUDA is not in use yet; RuntimeError without it."""
    from readtorch import cuda

    require("is_current_stream_capturing()")
    return cuda.is_initialized() and bool(get_current_stream().is_capturing())


def graph_pool_handle() -> Any:
    """A pool of memory that several graphs can share. RuntimeError without CUDA."""
    require("graph_pool_handle()")
    return library().cuda.MemoryPool()


# %%
#| into: cuda/graphs.py
#| upstream: torch/cuda/graphs.py#graph
class graph:
    """Capture the work inside into `cuda_graph`, on a stream of its own unless one is given."""

    default_capture_stream: Any = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        from readtorch import cuda

        if enable_annotations:
            raise NotImplementedError("annotations need cuda.bindings, which this book does without")
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = _stream_for_captures() if stream is None else stream
        self.capture_error_mode = capture_error_mode
        self.check_input_liveness = check_input_liveness  # a simulated device always looks
        self.stream_ctx = cuda.stream(self.capture_stream)

    def __enter__(self) -> None:
        from readtorch import cuda

        cuda.synchronize()
        cuda.empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException as error:
            self.stream_ctx.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        except RuntimeError:
            if error is None:
                raise
        finally:
            self.stream_ctx.__exit__(kind, error, trace)


def _stream_for_captures() -> Any:
    """A stream of the current device, one for all captures, so that graphs with a common pool use its memory in order."""
    from readtorch import cuda

    found = graph.default_capture_stream
    if found is None or found.device_index != cuda.current_device():
        found = graph.default_capture_stream = cuda.Stream()
    return found


# %%
#| into: cuda/__init__.py
from readtorch.cuda import graphs as graphs
from readtorch.cuda.graphs import CUDAGraph as CUDAGraph
from readtorch.cuda.graphs import graph as graph
from readtorch.cuda.graphs import graph_pool_handle as graph_pool_handle
from readtorch.cuda.graphs import is_current_stream_capturing as is_current_stream_capturing
from readtorch.cuda.graphs import make_graphed_callables as make_graphed_callables

# %% [markdown]
# The result of a capture is no value yet: nothing has been computed.

# %%
x = torch.tensor([1.0, -2.0, 3.0], device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = (x * 2).relu() + 1
graph.replay()
first = y.tolist()
x.copy_(torch.tensor([-1.0, 5.0, 0.0]))
graph.replay()
first, y.tolist()

# %% [markdown]
# ## What must not happen inside
#
# CUDA ends a capture with an error when the host asks for something that it could only know afterwards, and CuPy refuses some more beforehand. The simulated device follows both, with the names of CUDA's errors:


# %%
def attempt(name, inside):
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            inside()
        print(f"{name:18} captured")
    except (RuntimeError, NotImplementedError) as error:
        print(f"{name:18} {type(error).__name__}: {str(error)[:100]}")


side = torch.cuda.Stream()


def fork(join):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    if join:
        torch.cuda.current_stream().wait_stream(side)
    return y + 1 if join else None


attempt("a value", lambda: (x + 1).sum().item())
attempt("waiting", lambda: torch.cuda.current_stream().synchronize())
attempt("asking", lambda: torch.cuda.current_stream().query())
attempt("a product", lambda: torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda"))
attempt("from the host", lambda: torch.ones(3, device="cpu").to("cuda"))
attempt("random numbers", lambda: torch.rand(3, device="cuda"))
attempt("a fork", lambda: fork(join=False))
attempt("a fork and a join", lambda: fork(join=True))

# %% [markdown]
# A capture spreads to streams that wait for it, and at the end they must have come back. The missing product is CuPy's (and so this library's) limit and not CUDA's; the chapter on modules says what that means for a network.
#
# One mistake needs no call at all. The graph knows addresses; if a tensor that it reads is freed, a replay reads whatever is there now. On a GPU that is silent. Upstream finds it on request (`check_input_liveness=True`), the simulated device always:

# %%
program = """
import readtorch as torch
torch.cuda.simulate(1)
x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + 1
del x
try:
    graph.replay()
except RuntimeError as error:
    print(error)
"""
print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)

# %% [markdown]
# ## A graph in the middle of a program
#
# Most programs cannot be captured whole, but parts of them can, and a part of a network has a backward pass, which is a part of *its* program. `make_graphed_callables` makes two graphs of a callable, forward and backward, and puts both behind one node of the autograd graph:
#
# 1. It runs the callable a few times on a side stream, so that whatever is prepared at the first call has been.
# 2. It captures the forward pass. The autograd graph that results is real; the tensors it saved lie in the graphs' pool.
# 3. It captures `torch.autograd.grad` through that autograd graph, with gradients in memory set aside for them.
# 4. It returns a function that copies its arguments to where they were captured, replays, and returns what lies where results were captured; the same with gradients in backward.
#
# Several callables that are used one after the other can share the pool, if their graphs are captured in the order in which they will run: all forward passes, then the backward passes from the last to the first.


# %%
#| into: cuda/graphs.py
class _Part:
    """A callable on its way to two graphs."""

    def __init__(self, function: Any, args: Any) -> None:
        from readtorch import Tensor, nn

        self.function, self.args = function, args
        self.inputs = tuple(_leaves(args))
        self.parameters: tuple[Any, ...] = ()
        if isinstance(function, nn.Module):
            hooks = (function._backward_hooks, function._forward_hooks, function._forward_pre_hooks)
            if any(hooks):
                raise AssertionError("Modules must not have hooks registered yet; register them on what is returned")
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise AssertionError("only parameters may be trainable: buffers must have `requires_grad=False`")
            self.parameters = tuple(function.parameters())
        if not all(isinstance(leaf, Tensor) for leaf in self.inputs):
            raise AssertionError("sample_args for each callable must contain only Tensors")
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.result: Any = None
        self.outputs: tuple[Any, ...] = ()
        self.grad_outputs: tuple[Any, ...] = ()
        self.grad_inputs: tuple[Any, ...] = ()

    def gradients(self, outputs: Sequence[Any], grads: Sequence[Any], allow_unused: bool) -> tuple[Any, ...]:
        """What arrives at each input and parameter; None where none is wanted."""
        import readtorch as torch

        surface = self.inputs + self.parameters
        wanted = [tensor for tensor in surface if tensor.requires_grad]
        through = [output for output in outputs if output.requires_grad]
        given = [grad for grad in grads if grad is not None]
        found = iter(torch.autograd.grad(through, wanted, given, allow_unused=allow_unused))
        return tuple(next(found) if tensor.requires_grad else None for tensor in surface)

    def warm_up(self, times: int, allow_unused: bool) -> None:
        """Run it both ways."""
        for _ in range(times):
            outputs = tuple(_leaves(self.function(*self.args)))
            if any(output.requires_grad for output in outputs):
                self.gradients(outputs, _places(outputs), allow_unused)

    def capture_forward(self, pool: Any) -> None:
        """The first graph, and where its results lie."""
        with graph(self.forward, pool=pool):
            self.result = self.function(*self.args)
        self.outputs = tuple(_leaves(self.result))

    def capture_backward(self, pool: Any, allow_unused: bool) -> None:
        """The second graph, and where gradients come in and out."""
        self.grad_outputs = _places(self.outputs)
        self.grad_inputs = (None,) * len(self.inputs + self.parameters)
        if any(grad is not None for grad in self.grad_outputs):
            with graph(self.backward, pool=pool):
                self.grad_inputs = self.gradients(self.outputs, self.grad_outputs, allow_unused)


def _places(outputs: Sequence[Any]) -> tuple[Any, ...]:
    """Memory for the gradient of each output that has one."""
    import readtorch as torch

    return tuple(torch.empty_like(output) if output.requires_grad else None for output in outputs)


def _leaves(value: Any) -> Iterator[Any]:
    """What is in nested tuples, lists and dictionaries, in order."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    else:
        yield value


def _shaped_as(value: Any, leaves: Iterator[Any]) -> Any:
    """The same nest with other leaves."""
    if isinstance(value, tuple | list):
        items = [_shaped_as(item, leaves) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _shaped_as(item, leaves) for key, item in value.items()}
    return next(leaves)


# %% [markdown]
# The node copies a tensor only if it is not already where it has to be: results of one graph that are the next one's arguments are. Parameters are inputs of the node, for the sake of their gradients, and are never copied: an optimizer changes them where they are.


# %%
#| into: cuda/graphs.py
def _settle(places: Sequence[Any], values: Sequence[Any]) -> None:
    """Put values where a graph expects them."""
    for place, value in zip(places, values, strict=False):
        if place is not None and place.data_ptr() != value.data_ptr():
            place.copy_(value)


def _node_of(part: _Part) -> Callable[..., Any]:
    """What stands for the callable: one node of the autograd graph."""
    from readtorch.autograd.function import Function, once_differentiable

    class Graphed(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            _settle(part.inputs, inputs)
            part.forward.replay()
            return tuple(output.detach() for output in part.outputs)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            _settle(part.grad_outputs, grads)
            part.backward.replay()
            return tuple(None if grad is None else grad.detach() for grad in part.grad_inputs)

    def call(*args: Any) -> Any:
        return _shaped_as(part.result, iter(Graphed.apply(*_leaves(args), *part.parameters)))

    return call


# %%
#| into: cuda/graphs.py
#| upstream: torch/cuda/graphs.py#make_graphed_callables
def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Callables whose forward and backward passes are two graphs each; modules are changed in place and returned.

    `sample_args` are tensors like those that will come, whose memory is used from then on; for a tuple of callables, a tuple of
    them. A module whose mode is not that of the capture runs as before. AssertionError for hooks, trainable buffers, arguments
    that are no tensors; RuntimeError without CUDA, or under autocast with its cache.
    """
    import readtorch as torch
    from readtorch import cuda

    if torch.is_autocast_enabled() and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching: set `cache_enabled=False`")
    together = isinstance(callables, tuple)
    each = zip(callables, sample_args, strict=False) if together else [(callables, sample_args)]
    parts = [_Part(function, args) for function, args in each]
    pool = graph_pool_handle() if pool is None else pool
    cuda.synchronize()
    with cuda.stream(cuda.Stream()):
        for part in parts:
            part.warm_up(num_warmup_iters, allow_unused_input)
    cuda.synchronize()
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool, allow_unused_input)
    made = tuple(_put_in_place(part) for part in parts)
    return made if together else made[0]


def _put_in_place(part: _Part) -> Any:
    from readtorch import nn

    module, replay = part.function, _node_of(part)
    if not isinstance(module, nn.Module):
        return replay
    captured_in, before = module.training, module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return (replay if module.training == captured_in else before)(*args, **kwargs)

    module.forward = forward
    return module


# %% [markdown]
# A function of two tensors, captured, and used as before, with other tensors than it was captured with:


# %%
#| needs: 02_module
def gated(x, w):
    return (torch.tanh(x) * torch.sigmoid(x * w)).cumsum(0)


sample = torch.zeros(1000, device="cuda", requires_grad=True), torch.ones(1000, device="cuda", requires_grad=True)
captured = torch.cuda.make_graphed_callables(gated, sample)

x, w = torch.randn(1000, device="cuda", requires_grad=True), torch.randn(1000, device="cuda", requires_grad=True)
grads = [torch.autograd.grad(function(x, w).sum(), (x, w)) for function in (gated, captured)]
captured(x, w).grad_fn, [torch.equal(one, other) for one, other in zip(*grads, strict=True)]

# %% [markdown]
# One node, and the same gradients to the last bit. The results *are* the memory of the capture: the next call overwrites what this one returned. Whoever wants to keep it clones it.

# %%
#| needs: 02_module
result = captured(x, w)
kept = result.clone()
captured(x * 2, w)
torch.equal(result, kept), torch.equal(kept, gated(x, w))

# %% [markdown]
# ### What upstream does more
# * cuBLAS can be captured: every pair of handle and stream has a workspace of its own.
# * A generator can be registered with a graph (`register_generator_state`): kernels then read the seed and the offset from memory, and every replay moves the offset on. Here random numbers are refused.
# * `capture_error_mode` is honoured: its allocator switches to the relaxed mode for its own calls alone.
# * `raw_cuda_graph` hands the graph to other libraries, `get_graph_data` describes its nodes, `enable_annotations` names the kernels in profiles.

# %%
#| fact: aten/src/ATen/cuda/CUDAGraph.h#at::cuda::CUDAGraph::register_generator_state
#| fact: torch/cuda/graphs.py#CUDAGraph.raw_cuda_graph
#| fact: torch/cuda/graphs.py#CUDAGraph.get_graph_data
