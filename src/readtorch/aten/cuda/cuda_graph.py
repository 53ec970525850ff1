# Tangled from chapters/01_import/d8_cuda_graphs.py — edit there, or here and run `readtorch sync`.
"""Captured work that is launched as one (twin of `aten/src/ATen/cuda/CUDAGraph.h`)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from readtorch.c10.cuda.cuda_functions import library, require
from readtorch.c10.cuda.cuda_stream import get_current_stream

ERROR_MODES = ("global", "thread_local", "relaxed")
"""Whose unsafe calls disturb a capture: every thread's, the capturing one's, nobody's."""


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
