"""Sources, instances, and what a machine without a GPU is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from readtorch.aten.core.philox_rng_engine import philox
from readtorch.aten.cuda.specialisations import uniform
from readtorch.aten.native.cuda import jit_utils, multi_tensor_apply, rows, soft_max
from readtorch.aten.native.cuda.jit_utils import Kernel, source, source_of


def test_a_source_holds_each_file_that_it_includes_once() -> None:
    text = source("aten/native/cuda/loss.cu")
    assert text.count("struct BFloat16 {") == 1
    assert "#include" not in text
    assert text.count('#line 1 "aten/native/cuda/rows.cuh"') == 1


def test_lines_of_a_source_are_those_of_its_files() -> None:
    """After an `#include` too: what a compiler says of a line is true of the file."""
    path, number, checked = "", 0, 0
    for line in source_of(["aten/native/cuda/loss.cu", "aten/native/cuda/dropout.cu"]).splitlines():
        if line.startswith("#line"):
            _, n, name = line.split()
            path, number = name.strip('"'), int(n) - 1
            continue
        number += 1
        assert (jit_utils.PACKAGE / path).read_text(encoding="utf-8").splitlines()[number - 1] == line
        checked += 1
    assert checked > 300


def test_instances_are_made_once() -> None:
    kernel = Kernel("aten/native/cuda/dropout.cu", "fused_dropout", jit_utils.VARIANTS)
    jit_utils.KERNELS.remove(kernel)
    assert kernel["float", "true"] is kernel["float", "true"]
    assert kernel["float", "true"].expression == "fused_dropout<float, true>"
    assert len(kernel.instances()) == 7


def test_without_cupy_a_launch_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['cupy'] = None\n"
        "import numpy as np\n"
        "from readtorch.aten.native.cuda import soft_max\n"
        "try:\n    soft_max._softmax(np.ones((2, 3), np.float32), -1)\n"
        "except RuntimeError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'readtorch[cuda13]'" in done.stdout


def test_with_cupy_arrays_of_the_host_are_refused_before_anything_is_compiled(monkeypatch: Any) -> None:
    monkeypatch.setattr(jit_utils, "_cupy", lambda: FakeCupy())
    with pytest.raises(
        TypeError, match=r"softmax_forward<float, false, false> is a CUDA kernel and takes CuPy's arrays"
    ):
        soft_max._FORWARD["float", "false", "false"](1, 128, np.ones((2, 3), np.float32))


class FakeCupy:
    """What the loader uses of CuPy, and a record of it."""

    made: list[tuple[str, tuple[str, ...]]]

    def __init__(self) -> None:
        self.made = []
        self.launched: list[Any] = []
        self.cuda = self
        self.runtime = self
        self.device = 0

    def getDevice(self) -> int:
        return self.device

    def RawModule(self, code: str, options: tuple[str, ...], name_expressions: tuple[str, ...]) -> Any:
        self.made.append((code, name_expressions))
        return self

    def get_function(self, name: str) -> Any:
        return lambda grid, block, arguments: self.launched.append((name, grid, block, arguments))


def test_a_kernel_is_compiled_once_per_device_and_launched_with_null_for_none(monkeypatch: Any) -> None:
    fake = FakeCupy()
    monkeypatch.setattr(jit_utils, "_cupy", lambda: fake)
    monkeypatch.setattr(jit_utils, "_functions", {})
    kernel = Kernel("aten/native/cuda/dropout.cu", "fused_dropout", jit_utils.VARIANTS)
    jit_utils.KERNELS.remove(kernel)
    instance = kernel["float", "true"]
    for _ in range(2):
        instance(7, (32, 4), None, 3, 0.5)
    fake.device = 1
    instance((7, 2), 256, None, 3, 0.5)
    instance(7, 256, None, 3, 0.5)
    assert [names for _, names in fake.made] == [("fused_dropout<float, true>",)] * 2
    assert fake.made[0][0] == source("aten/native/cuda/dropout.cu")
    assert fake.launched[0] == ("fused_dropout<float, true>", (7,), (32, 4), (0, 3, 0.5))
    assert fake.launched[2] == ("fused_dropout<float, true>", (7, 2), (256,), (0, 3, 0.5))


def test_an_edited_source_is_compiled_at_the_next_launch_and_the_book_s_is_not_compiled_again(
    monkeypatch: Any, tmp_path: Any
) -> None:
    fake = FakeCupy()
    monkeypatch.setattr(jit_utils, "_cupy", lambda: fake)
    monkeypatch.setattr(jit_utils, "_functions", {})
    path = "aten/native/cuda/dropout.cu"
    kernel = Kernel(path, "fused_dropout", jit_utils.VARIANTS)
    try:
        kernel["float", "true"](1, 256, None)
        copy = tmp_path / "readtorch" / path
        copy.parent.mkdir(parents=True)
        copy.write_text((jit_utils.PACKAGE / path).read_text().replace("A(1) / A(keep)", "A(2) / A(keep)"))
        with monkeypatch.context() as edited:
            edited.syspath_prepend(str(tmp_path))
            jit_utils.forget()
            kernel["float", "true"](1, 256, None)
        jit_utils.forget()
        kernel["float", "true"](1, 256, None)
        kernel["float", "true"](1, 256, None)
    finally:
        jit_utils.KERNELS.remove(kernel)
        jit_utils.forget()
    assert ["A(2) / A(keep)" in text for text, _ in fake.made] == [False, True]


@pytest.mark.parametrize(
    ("vectors", "block"),
    [(1, (32, 4)), (128, (32, 4)), (129, (64, 1)), (2048, (512, 1)), (100_000, (512, 1))],
)
def test_a_row_gets_the_threads_whose_registers_hold_it(vectors: int, block: tuple[int, int]) -> None:
    assert rows.row_block(vectors) == block


def test_a_table_is_copied_again_only_when_an_address_changes() -> None:
    numbers = np.arange(5)
    first = multi_tensor_apply._table(np, None, numbers)
    assert multi_tensor_apply._table(np, None, numbers.copy()) is first
    assert multi_tensor_apply._table(np, None, numbers + 1) is not first


def test_constants_of_the_wrappers_are_those_of_the_sources() -> None:
    from readtorch.aten.native.cuda import embedding_backward_kernel as embedding

    for name, value, path in (
        ("CHUNK", multi_tensor_apply.CHUNK, "multi_tensor_apply.cuh"),
        ("HELD", rows.HELD, "rows.cuh"),
        ("PIECE", embedding.PIECE, "embedding_backward_kernel.cu"),
    ):
        assert f"constexpr int {name} = {value};" in source(f"aten/native/cuda/{path}")


# The published test vectors of Philox 4x32-10: counter, key, result (random123, kat_vectors).
KNOWN = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_its_published_vectors(counter: tuple[int, ...], key: tuple[int, ...], expected: str) -> None:
    offset, subsequence = counter[0] | counter[1] << 32, counter[2] | counter[3] << 32
    found = philox(key[0] | key[1] << 32, offset, 1, first=subsequence)
    assert " ".join(f"{number:08x}" for number in found[0]) == expected


def test_uniform_numbers_lie_above_zero_and_reach_one() -> None:
    ends = uniform(np.array([0, 0xFFFFFFFF], np.uint32))
    assert ends.dtype == np.float32
    assert 0 < ends[0] < 1e-9
    assert ends[1] == 1
