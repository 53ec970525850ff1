# Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel
from readtorch.aten.native.cuda.multi_tensor_apply import multi_tensor_apply

_LERP = Kernel("aten/native/cuda/foreach_ternary_op.cu", "foreach_lerp", VARIANTS)


def lerp(starts: Sequence[Array], ends: Sequence[Array], weight: float) -> None:
    """`start += weight (end - start)` for all pairs, in place: contiguous arrays of one dtype."""
    multi_tensor_apply(_LERP, [starts, ends], float(weight))
