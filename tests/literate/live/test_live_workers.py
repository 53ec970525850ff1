"""DESIGN §4, Live package: processes started from the notebook see the edits."""

from __future__ import annotations

import pytest
from live_kernel import Kernel

EDIT = ('return "book"', 'return "edited"')


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_started_process_sees_the_edit(kernel: Kernel, method: str) -> None:
    kernel.must(
        "import multiprocessing, operator\nfrom concurrent.futures import ProcessPoolExecutor\nfrom readtorch.nn import Module"
    )
    kernel.must("ask = operator.methodcaller('register_buffer', 'a', 1)")
    pool = f"ProcessPoolExecutor(1, multiprocessing.get_context({method!r}))"
    kernel.must(kernel.cell("register_buffer", EDIT))
    assert kernel.value(f"with {pool} as pool: print(list(pool.map(ask, [Module()])))") == ""
    seen = kernel.must(f"with {pool} as pool:\n    print(list(pool.map(ask, [Module()])))").printed
    assert seen == "['edited']\n"
    kernel.must("reset()")
    seen = kernel.must(f"with {pool} as pool:\n    print(list(pool.map(ask, [Module()])))").printed
    assert seen == "['book']\n"


def test_a_subprocess_sees_every_kind_of_edit(kernel: Kernel) -> None:
    kernel.must("import subprocess, sys")
    kernel.must(kernel.cell("constants", ("LIMIT = 10", "LIMIT = 33\nADDED = 1")))
    kernel.must(kernel.cell("register_buffer").partition("\n\n    def buffers")[0])
    kernel.must("#| into: nn/module.py\nclass Module(Module):\n    def mine(self):\n        return 'mine'")
    kernel.must(
        "#| into: nn/module.py\nclass Fresh(Module):\n    def forward(self, value):\n        return floor(value) + ADDED"
    )
    kernel.must(kernel.cell("module imports") + "\nfrom math import floor")
    kernel.must("#| into: nn/own.py\nVALUE = 5")
    program = (
        "from readtorch.nn.module import *; from readtorch.nn import Module, own; import readtorch; "
        "print(LIMIT, hasattr(Module, 'buffers'), Module().mine(), Fresh()(2.5), own.VALUE, 'live' in readtorch.__file__)"
    )
    seen = kernel.must(
        f"print(subprocess.run([sys.executable, '-c', {program!r}], capture_output=True, text=True))"
    ).printed
    assert "33 False mine 3 5 True" in seen


def test_two_edits_within_a_second_are_told_apart_by_the_bytecode_cache(kernel: Kernel) -> None:
    kernel.must("import subprocess, sys")
    program = "from readtorch.nn import Module; print(Module().register_buffer('a', 1))"
    for word in ("book1", "book2", "book3"):
        kernel.must(kernel.cell("register_buffer", ('"book"', f'"{word}"')))
        seen = kernel.must(
            f"print(subprocess.run([sys.executable, '-c', {program!r}], capture_output=True, text=True).stdout)"
        )
        assert seen.printed.strip() == word


def test_the_package_on_disk_is_never_touched(kernel: Kernel) -> None:
    kernel.must(
        "from pathlib import Path\nfile = Path(readtorch.__file__).parent / 'nn' / 'module.py'\nbefore = file.read_bytes()"
    )
    kernel.must(kernel.cell("register_buffer", EDIT))
    assert kernel.value("file.read_bytes() == before") == "True"


def test_a_cuda_source_is_edited_in_the_overlay(kernel: Kernel) -> None:
    kernel.must("import subprocess, sys")
    show = "import readtorch, pathlib; print((pathlib.Path(readtorch.__file__).parent / 'kernels.cu').read_text())"
    ask = f"print(subprocess.run([sys.executable, '-c', {show!r}], capture_output=True, text=True).stdout)"
    assert kernel.must(kernel.cell("cuda")).printed == ""
    before = kernel.must(ask).printed
    assert "loaded kernels stay" in kernel.must(kernel.cell("cuda", ("2.0f", "3.0f"))).printed
    assert kernel.must(ask).printed == before.replace("2.0f", "3.0f")
    assert "+__global__ void twice(float* x) { x[threadIdx.x] *= 3.0f; }" in kernel.must("diff()").shown
    kernel.must('#| into: kernels.cu\nr"""\n__device__ int mine;\n"""', "own")
    assert "__device__ int mine;" in kernel.must(ask).printed
    kernel.must("reset()")
    assert kernel.must(ask).printed == before
    assert "holds one raw string" in kernel.run("#| into: kernels.cu\nx = 1").error
