"""Every kernel compiled for a Hopper GPU by NVRTC: what a thread and a block of each takes, held."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import kernel_scenarios  # noqa: F401 - brings in every module that has kernels
import pytest

from readtorch.aten.native.cuda.jit_utils import KERNELS, source
from readtorch.literate import nvrtc

pytestmark = [
    pytest.mark.xdist_group("registers"),
    pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)"),
]

TABLE = Path(__file__).with_name("registers.txt")
"""Instance, registers of a thread, bytes of shared memory of a block. Written by `python tests/kernels/test_kernel_registers.py`."""

ARCHITECTURE = "sm_90"
RESERVED = 1024
"""Bytes of shared memory that the hardware keeps of every block from sm_80 on."""

FILES = sorted({kernel.path for kernel in KERNELS})


@cache
def measured(path: str) -> dict[str, nvrtc.Resources]:
    expressions = [i.expression for kernel in KERNELS if kernel.path == path for i in kernel.instances()]
    return nvrtc.compiled(source(path), expressions, ARCHITECTURE, name=path)


def shared_memory(found: nvrtc.Resources) -> int:
    """What the kernel itself asks for."""
    return max(0, found.shared - RESERVED)


def held() -> dict[str, tuple[int, int]]:
    rows = (line.rsplit(maxsplit=2) for line in TABLE.read_text().splitlines() if not line.startswith("#"))
    return {name: (int(registers), int(shared)) for name, registers, shared in rows}


@pytest.mark.parametrize("path", FILES)
def test_no_thread_spills_registers_to_memory(path: str) -> None:
    assert {name: found.stack for name, found in measured(path).items() if found.stack} == {}


@pytest.mark.parametrize("path", FILES)
def test_registers_and_shared_memory_are_those_of_the_table(path: str) -> None:
    """Other versions of the compiler may take a few more or less; a tenth more, and at least four, is a change of the kernel."""
    table = held()
    for name, found in measured(path).items():
        registers, shared = table[name]
        assert found.registers <= max(registers * 1.1, registers + 4), f"{name}: {found.registers}, held {registers}"
        assert shared_memory(found) == shared, name


def test_the_table_names_every_instance_and_no_others() -> None:
    assert set(held()) == {instance.expression for kernel in KERNELS for instance in kernel.instances()}


@pytest.mark.parametrize("path", FILES)
def test_blocks_of_the_sizes_launched_fit_into_the_register_file(path: str) -> None:
    """65,536 registers a multiprocessor, handed out to warps in units of 256: a block that does not fit is never launched."""
    threads = {"nll_loss_forward": 1024, "nll_loss_backward": 256}
    for name, found in measured(path).items():
        block = threads.get(name.split("<")[0], 512)
        assert -(-found.registers // 8) * 8 * block <= 65536, name


@pytest.mark.parametrize(
    ("path", "expression", "loads", "stores"),
    [
        ("normalization", "batch_norm_collect_statistics<float, true>", 2, 0),
        ("normalization", "batch_norm_transform_input<Half, true>", 2, 2),
        ("layer_norm_kernel", "layer_norm_forward<BFloat16, true>", 4, 4),
        ("soft_max", "softmax_forward<float, true, false>", 4, 4),
        ("fused_adam_kernel", "fused_adam<float, true>", 4, 3),
        ("dropout", "fused_dropout<float, true>", 1, 1),
    ],
)
def test_wide_instances_move_sixteen_bytes_by_one_instruction(
    path: str, expression: str, loads: int, stores: int
) -> None:
    text = nvrtc.ptx(source(f"aten/native/cuda/{path}.cu"), [expression], "compute_90")
    assert len(re.findall(r"ld\.global(?:\.\w+)*\.v4\.[fu]32", text)) >= loads
    assert len(re.findall(r"st\.global(?:\.\w+)*\.v4\.[fu]32", text)) >= stores


def test_an_instance_with_an_indexed_array_is_known_to_use_memory() -> None:
    """That the figure for spills can be other than nothing."""
    text = r"""
    template <class T> __global__ void indexed(const T* x, T* y) {
        T all[64];
        for (int i = 0; i < 64; i++) all[i] = x[i];
        for (int i = 0; i < 64; i++) y[i] = all[int(all[i]) & 63];
    }
    """
    assert nvrtc.compiled(text, ["indexed<float>"], ARCHITECTURE)["indexed<float>"].stack >= 256


def test_an_error_of_the_compiler_names_file_and_line() -> None:
    with pytest.raises(nvrtc.CompileError, match=r"norm.cu\(2\): error: identifier \"y\" is undefined"):
        nvrtc.cubin('#line 1 "norm.cu"\n__global__ void f(float* x) {\n    *x = y;\n}', [], ARCHITECTURE)


def write_table() -> None:
    lines = [
        "# instance, registers of a thread, bytes of shared memory of a block: "
        + ARCHITECTURE
        + ", NVRTC "
        + nvrtc.version()
    ]
    for path in FILES:
        lines += [f"{name} {r.registers} {shared_memory(r)}" for name, r in sorted(measured(path).items())]
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_table()
