# Tangled from chapters/01_import/d7_torch_cuda.py — edit there, or here and run `readtorch sync`.
"""Captured work that is launched as one (twin of `aten/src/ATen/cuda/CUDAGraph.h`)."""

from __future__ import annotations

from typing import Any

from readtorch.c10.cuda.cuda_functions import library
from readtorch.c10.cuda.cuda_stream import get_current_stream


class CUDAGraph:
    """What was put into a stream between `capture_begin` and `capture_end`; `replay` does it again, in the same memory."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph: Any = None
        self._stream: Any = None
        self._pool: Any = None
        self._allocator: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Capture, from now on, what is put into the current stream, which must not be the default one.

        Its memory comes from a pool of the graph's own: it is written again by every replay, so nobody else may be given it.
        """
        stream = get_current_stream()
        if stream.ptr == 0:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        cuda = library().cuda
        self._pool = cuda.MemoryPool() if pool is None else pool
        self._allocator = cuda.using_allocator(self._pool.malloc)
        self._allocator.__enter__()
        stream.begin_capture()
        self._stream = stream

    def capture_end(self) -> None:
        """Stop capturing."""
        if self._stream is None:
            raise RuntimeError("capture_end() without capture_begin()")
        stream, self._stream = self._stream, None
        try:
            self._graph = stream.end_capture()
        finally:
            self._allocator.__exit__(None, None, None)

    def replay(self) -> None:
        """Do it all again on the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._graph.launch(get_current_stream())

    def reset(self) -> None:
        """Forget what was captured, and its memory."""
        self._graph = self._pool = None

    def pool(self) -> Any:
        """The pool of its memory, for another graph to share."""
        return self._pool
