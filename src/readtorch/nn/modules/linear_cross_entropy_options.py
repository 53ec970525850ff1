# Tangled from chapters/a2_layers/07b_loss_in_chunks.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import dataclasses

import readtorch as torch
from readtorch._tensor import Tensor

__all__ = ["LinearCrossEntropyOptions"]

_HALVES = (torch.float16, torch.bfloat16)


def _parts(method: str) -> int:
    """By how much `"aspect_ratio"` or `"aspect_ratio:parts"` divides a chunk. Raises ValueError for another word."""
    name, colon, parts = method.partition(":")
    if name != "aspect_ratio" or (colon and not (parts.isdigit() and int(parts) > 0)):
        raise ValueError(f"invalid chunking_method: {method!r}")
    return int(parts or 1)


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` cuts the batch and how precisely it sums; checked when made, with ValueError."""

    allow_retain_graph: bool = False
    """Keep the gradients after backward, which costs a copy of them."""
    batch_chunk_size: int | None = None
    """Rows of a chunk; None leaves it to `chunking_method`."""
    chunking_method: str | None = "auto"
    """`"aspect_ratio"`, `"aspect_ratio:parts"`, `"auto"`, or None: all rows at once."""
    acc_policy: str = "auto"
    """`"auto"`, `"accurate"`, `"balanced"` or `"compact"`."""
    acc_dtype: torch.dtype | None = None
    """Of logits and sums: float32 for inputs in half precision, else the input's."""

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            _parts(self.chunking_method)
        rows = self.batch_chunk_size
        if rows is not None and not (isinstance(rows, int) and rows > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {rows!r}")
        if self.acc_dtype not in (None, *_HALVES, torch.float32, torch.float64):
            raise ValueError(f"acc_dtype must be one of the floating-point dtypes or None, got {self.acc_dtype!r}")

    def _rows(self, input: Tensor, classes: int) -> int:
        """The rows of a chunk of `input`, at least one. Raises ValueError if the size and the method disagree."""
        batch, features = input.shape
        method = self.chunking_method
        if method == "auto":
            on_cpu = input.dtype in _HALVES and input.device.type == "cpu"
            method = "aspect_ratio" if on_cpu else "aspect_ratio:2"
            if self.batch_chunk_size is not None:
                method = None
        if method is None:
            return max(1, batch if self.batch_chunk_size is None else min(self.batch_chunk_size, batch))
        share = -(-batch // -(-classes // features))
        rows = min((1 << (share - 1).bit_length()) // _parts(method), batch)
        if self.batch_chunk_size not in (None, rows):
            raise ValueError(
                f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ({method!r}) give different chunk sizes "
                f"({self.batch_chunk_size} vs {rows}); pass only one"
            )
        return max(1, rows)

    def _dtype(self, input: Tensor) -> torch.dtype:
        """The dtype of logits and sums. Raises RuntimeError for a pair that no chunk is computed in."""
        wide = self.acc_policy == "auto" and input.dtype in _HALVES
        dtype = self.acc_dtype or (torch.float32 if wide else input.dtype)
        if dtype != input.dtype and not (dtype == torch.float32 and input.dtype in _HALVES):
            raise RuntimeError(
                "linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, "
                f"but got {dtype} acc_dtype and {input.dtype} inputs."
            )
        return dtype
