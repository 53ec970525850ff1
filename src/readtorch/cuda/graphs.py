# Tangled from chapters/01_import/d8_cuda_graphs.py — edit there, or here and run `readtorch sync`.
"""Capturing (twin of `torch/cuda/graphs.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from readtorch.aten.cuda.cuda_graph import CUDAGraph as CUDAGraph
from readtorch.c10.cuda.cuda_functions import library, require
from readtorch.c10.cuda.cuda_stream import get_current_stream

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
