"""A cell into a CUDA source, edited in a real kernel: the next launch runs what it says, and `reset` brings the book's back."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_kernel import Kernel

import readtorch.literate
from readtorch.literate import fibres
from readtorch.literate.chapter import Book

pytestmark = pytest.mark.skipif(not fibres.available(), reason="no g++: kernels are not run on the CPU")

RUN = """
with running_on(fibres.OnCpu()):
    print(lerp_of(np.zeros(8, np.float32), np.ones(8, np.float32)))
"""


def test_an_edited_cuda_cell_is_what_the_next_launch_runs(tmp_path: Path) -> None:
    book = Book.load()
    cell = next(c for part in book.parts for c in part.code_cells if c.into == "aten/native/cuda/foreach_ternary_op.cu")
    kernel = Kernel(Path(readtorch.literate.__file__).parents[2], tmp_path)
    try:
        kernel.must(
            "import numpy as np\nfrom readtorch.literate import fibres, live, reset\nlive()\n"
            "from readtorch.aten.native.cuda.foreach_ternary_op import lerp\n"
            "from readtorch.aten.native.cuda.jit_utils import running_on\n"
            "def lerp_of(start, end):\n    lerp([start], [end], 0.25)\n    return start[0]\n"
        )
        assert kernel.must(RUN).printed.strip() == "0.25"
        told = kernel.must(cell.source.replace("from[k] + weight * far", "from[k] + weight * far + 1")).printed
        assert "from the next launch on" in told
        assert kernel.must(RUN).printed.strip() == "1.25"
        kernel.must("reset()")
        assert kernel.must(RUN).printed.strip() == "0.25"
    finally:
        kernel.close()
