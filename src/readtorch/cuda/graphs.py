# Tangled from chapters/01_import/d7_torch_cuda.py — edit there, or here and run `readtorch sync`.
"""Capturing (twin of `torch/cuda/graphs.py`)."""

from __future__ import annotations

from typing import Any

from readtorch.aten.cuda.cuda_graph import CUDAGraph as CUDAGraph

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"]


def is_current_stream_capturing() -> bool:
    """Is the current stream being captured?"""
    from readtorch.c10.cuda.cuda_stream import get_current_stream

    return bool(get_current_stream().is_capturing())


def graph_pool_handle() -> Any:
    """A pool of memory that several graphs can share."""
    from readtorch.c10.cuda.cuda_functions import library

    return library().cuda.MemoryPool()


class graph:
    """Capture the work inside into `cuda_graph`, on a stream of its own unless one is given."""

    default_capture_stream: Any = None

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        from readtorch import cuda

        if graph.default_capture_stream is None:
            graph.default_capture_stream = cuda.Stream()
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = stream if stream is not None else graph.default_capture_stream
        self.capture_error_mode = capture_error_mode
        self.stream_ctx = cuda.stream(self.capture_stream)

    def __enter__(self) -> None:
        from readtorch import cuda

        cuda.synchronize()
        cuda.empty_cache()
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)

    def __exit__(self, *exc: object) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*exc)
