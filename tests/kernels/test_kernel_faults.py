"""What the CPU's execution of CUDA sources refuses: each fault planted, in small kernels and in the library's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from readtorch.aten.native.cuda import dropout, jit_utils, layer_norm_kernel, normalization, soft_max
from readtorch.literate import fibres

pytestmark = [
    pytest.mark.xdist_group("kernels"),
    pytest.mark.skipif(not fibres.available(), reason="no g++: kernels are not run on the CPU"),
]

SMALL = r"""
#line 1 "small.cu"
template <class T>
__global__ void block_sum(const T* x, T* sum, long long n) {
    __shared__ T parts[64];
    T mine = threadIdx.x < n ? x[threadIdx.x] : T(0);
    parts[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        T all = 0;
        for (int i = 0; i < 64; i++) all += parts[i];
        *sum = all;
    }
}

template <class T>
__global__ void neighbours(const T* x, T* y, int* total, long long n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T next = __shfl_down_sync(~0u, x[i], 1);
    y[i] = next - x[i];
    atomicAdd(total, 1);
}
"""

X = np.arange(64, dtype=np.float32)


def run_sum(source: str, **options: Any) -> np.ndarray:
    total = np.zeros(1, np.float32)
    fibres.Host(source, ["block_sum<float>"]).launch("block_sum<float>", 1, 64, (X, total, 64), **options)
    return total


def planted(before: str, after: str, source: str = SMALL) -> str:
    assert source.count(before), f"nothing to plant the fault in: {before!r}"
    return source.replace(before, after, 1)


def test_a_sound_kernel_runs_in_either_order() -> None:
    assert run_sum(SMALL) == X.sum()
    assert run_sum(SMALL, reverse=True) == X.sum()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("x[threadIdx.x]", "x[threadIdx.x + 1]", r"thread \(63, 0, 0\): out of bounds: reads 4 bytes at byte 256 of argument 0 .*small.cu:4"),
        ("x[threadIdx.x]", "x[(int)threadIdx.x - 1]", r"thread \(0, 0, 0\): out of bounds: reads 4 bytes at byte -4 of argument 0"),
        ("*sum = all", "sum[threadIdx.x + 1] = all", r"out of bounds: writes 4 bytes at byte 4 of argument 1"),
        ("    __syncthreads();\n", "", r"reads byte 60 of shared memory, which no thread of the block has written .*small.cu"),
        ("parts[threadIdx.x] = mine", "parts[0] = mine", r"race: writes byte \d+ of shared memory, which thread number 0 wrote"),
        ("    if (threadIdx.x == 0) {", "    {", r"race: writes byte 0 of argument 1"),
        ("    __syncthreads();", "    if (threadIdx.x < 32) __syncthreads();", r"divergent barrier: .*small.cu:6.*has left the kernel"),
        ("    __syncthreads();", "    if (threadIdx.x < 32) __syncthreads();\nelse __syncthreads();", r"divergent barrier: .*waits at small.cu:7.*waits at small.cu:6"),
        ("    parts[threadIdx.x]", "    if (threadIdx.x == 5) return;\n    parts[threadIdx.x]", r"divergent barrier: .*\(5, 0, 0\) has left"),
        ("*sum = all", "const_cast<T*>(x)[0] = all", r"writes into argument 0 .*, which is an input"),
        ("*sum = all", "*(T*)8 = all", r"out of bounds: writes 4 bytes"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found_and_named(before: str, after: str, told: str) -> None:
    X.flags.writeable = False
    with pytest.raises(fibres.KernelFault, match=told):
        run_sum(planted(before, after))


def test_a_run_after_a_fault_is_sound() -> None:
    with pytest.raises(fibres.KernelFault):
        run_sum(planted("    __syncthreads();", "    if (threadIdx.x < 32) __syncthreads();"))
    assert run_sum(SMALL) == X.sum()


def neighbours(source: str, blocks: int = 2) -> tuple[np.ndarray, int]:
    x, y, total = np.arange(64, dtype=np.float32) ** 2, np.zeros(64, np.float32), np.zeros(1, np.int32)
    host = fibres.Host(source, ["neighbours<float>"])
    host.launch("neighbours<float>", blocks, 64 // blocks, (x, y, total, 64))
    return y, int(total[0])


def test_shuffles_move_values_between_lanes_and_atomics_count_over_blocks() -> None:
    y, total = neighbours(SMALL)
    expected = np.diff(np.arange(65.0) ** 2)[:64]
    expected[[31, 63]] = 0  # the last lane of a warp keeps its own
    np.testing.assert_array_equal(y, expected)
    assert total == 64


LANGUAGE = r"""
__global__ void lanes(const int* x, int* y, float* z, int* top) {
    int lane = threadIdx.x;
    y[lane] = __shfl_up_sync(~0u, x[lane], 2);
    y[32 + lane] = __shfl_sync(~0u, x[lane], 5);
    y[64 + lane] = __shfl_xor_sync(~0u, x[lane], 1);
    y[96 + lane] = __shfl_down_sync(~0u, x[lane], 1, 8);
    y[128 + lane] = __umulhi(0x80000000u, unsigned(x[lane]));
    __syncwarp();
    y[160 + lane] = y[128 + (lane + 1) % 32];
    z[lane] = rsqrtf(4.0f) + __expf(0.0f) + float(rsqrt(16.0)) + __uint_as_float(__float_as_uint(2.0f));
    atomicMax(top, x[lane]);
}
"""


def test_built_in_functions_are_the_devices() -> None:
    x, y, z = np.arange(32, dtype=np.int32) * 3, np.zeros(192, np.int32), np.zeros(32, np.float32)
    top = np.array([4], np.int32)
    fibres.Host(LANGUAGE, ["lanes"]).launch("lanes", 1, 32, (x, y, z, top))
    lane = np.arange(32)
    np.testing.assert_array_equal(y[:32], x[np.where(lane < 2, lane, lane - 2)])
    np.testing.assert_array_equal(y[32:64], x[5])
    np.testing.assert_array_equal(y[64:96], x[lane ^ 1])
    np.testing.assert_array_equal(y[96:128], x[np.where(lane % 8 == 7, lane, lane + 1)])
    np.testing.assert_array_equal(y[128:160], x // 2)
    np.testing.assert_array_equal(y[160:], y[128 + (lane + 1) % 32])
    assert (z == 0.5 + 1 + 0.25 + 2).all()
    assert top[0] == 93


def test_without_the_warps_barrier_a_lane_may_not_read_what_its_neighbour_wrote() -> None:
    x, y, z, top = (
        np.arange(32, dtype=np.int32),
        np.zeros(192, np.int32),
        np.zeros(32, np.float32),
        np.zeros(1, np.int32),
    )
    host = fibres.Host(planted("    __syncwarp();\n", "", LANGUAGE), ["lanes"])
    with pytest.raises(fibres.KernelFault, match="race"):
        host.launch("lanes", 1, 32, (x, y, z, top))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("    T next", "    if (threadIdx.x == 3) return;\n    T next", r"divergent warp: lane 0 waits .* for lane 3, which has left"),
        ("atomicAdd(total, 1)", "*total += 1", r"race: .* argument 2"),
        ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", r"race: writes byte 0 of argument 1 .*, which another block wrote"),
    ],
)  # fmt: skip
def test_a_fault_between_lanes_or_blocks_is_found(before: str, after: str, told: str) -> None:
    with pytest.raises(fibres.KernelFault, match=told):
        neighbours(planted(before, after))


def test_a_launch_that_no_device_takes_is_refused() -> None:
    host = fibres.Host(SMALL, ["neighbours<float>"])
    with pytest.raises(fibres.KernelFault, match=r"no device takes grid \(1, 1, 1\), block \(2048, 1, 1\)"):
        host.launch("neighbours<float>", 1, 2048, (X, X.copy(), np.zeros(1, np.int32), 64))


def test_the_number_of_arguments_is_checked() -> None:
    host = fibres.Host(SMALL, ["neighbours<float>"])
    with pytest.raises(TypeError, match="takes 4 arguments, got 2"):
        host.launch("neighbours<float>", 1, 64, (X, X.copy()))


def test_an_error_of_the_compiler_names_file_and_line() -> None:
    with pytest.raises(fibres.CompileError, match=r"small.cu:4"):
        fibres.Host(planted("x[threadIdx.x]", "y[threadIdx.x]"), ["block_sum<float>"])


# -- the library's own kernels -----------------------------------------------------------------------------------------


def _batch_norm() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype(np.float32)
    normalization.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)


def _batch_norm_columns() -> None:
    x = np.random.default_rng(0).standard_normal((70, 20)).astype(np.float32)
    normalization.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)


def _layer_norm() -> None:
    layer_norm_kernel.native_layer_norm(np.ones((3, 1200), np.float32), (1200,), None, None, 1e-5)


def _softmax() -> None:
    soft_max._softmax(np.ones((3, 1200), np.float32), -1)


def _dropout() -> None:
    dropout.native_dropout(np.ones(1027, np.float32), 0.5, 1, 0)


class Planted(fibres.OnCpu):
    """Kernels of the package with a change in their text."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__(3)
        self.change = (before, after)

    def launch(self, instance: Any, grid: Any, block: Any, arguments: Any, reached: Any) -> None:
        if instance.expression not in self.hosts:
            text = jit_utils.source(instance.kernel.path)
            self.hosts[instance.expression] = fibres.Host(text.replace(*self.change), [instance.expression])
        super().launch(instance, grid, block, arguments, reached)


@pytest.mark.parametrize(
    ("call", "path", "before", "after", "told"),
    [
        (_batch_norm, "block_reduce.cuh", "parts[thread / 32] = mine;\n    __syncthreads();", "parts[thread / 32] = mine;", "shared memory"),
        (_softmax, "block_reduce.cuh", "    }\n    __syncthreads();\n    return whole;", "    }\n    return whole;", "shared memory"),
        (_batch_norm_columns, "normalization.cu", "mine[k];\n    __syncthreads();", "mine[k];", "shared memory"),
        (_batch_norm, "normalization.cu", "return example < examples;", "return example <= examples;", "out of bounds: reads 16 bytes at byte 3072|out of bounds: reads 4 bytes at byte 30"),
        (_layer_norm, "rows.cuh", "if (i < vectors)", "if (i <= vectors)", "race: writes byte 4800 of argument 1 .*, which another block wrote"),
        (_dropout, "dropout.cu", "if (start + k < count)", "if (start < count)", "out of bounds: reads 4 bytes at byte 4108"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else None,
)  # fmt: skip
def test_a_fault_planted_in_the_library_is_found(
    call: Callable[[], None], path: str, before: str, after: str, told: str
) -> None:
    file = jit_utils.PACKAGE / "aten/native/cuda" / path
    assert before in file.read_text(encoding="utf-8")
    with jit_utils.running_on(Planted(before, after)), pytest.raises(fibres.KernelFault, match=told):
        call()


def test_a_class_that_does_not_exist_stops_the_device() -> None:
    from readtorch.aten.native.cuda import loss

    x = np.zeros((3, 4), np.float32)
    with jit_utils.running_on(fibres.OnCpu()), pytest.raises(fibres.KernelFault, match="__trap"):
        loss.nll_loss_forward(x, np.array([0, 4, 1]), None, loss.MEAN, -100)
