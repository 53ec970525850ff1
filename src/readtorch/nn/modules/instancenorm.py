# Tangled from chapters/03_norm.py, chapters/a2_layers/11_lazy.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.batchnorm import _LazyNormBase, _NormBase


class _InstanceNorm(_NormBase):
    _unbatched: ClassVar[int]
    """The rank of one example without its batch dimension."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self._unbatched

    def _check_input_dim(self, input: Tensor) -> None:
        rank = self._get_no_batch_dim()
        if input.dim() not in (rank, rank + 1):
            raise ValueError(f"expected {rank}D or {rank + 1}D input (got {input.dim()}D input)")

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.dim() == self._get_no_batch_dim()
        batch = input.unsqueeze(0) if single else input
        if batch.size(1) != self.num_features:
            self._complain(f"input's size at dim={0 if single else 1}", batch.size(1))
        normed = self._apply_instance_norm(batch)
        return normed.squeeze(0) if single else normed

    def _complain(self, where: str, size: int) -> None:
        if self.affine:
            raise ValueError(f"expected {where} to match num_features ({self.num_features}), but got: {size}.")
        warnings.warn(
            f"{where} does not match num_features. With affine=False nothing depends on num_features, so it can be left out",
            stacklevel=3,
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            found = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                names = " and ".join(f'"{prefix + name}"' for name in found)
                kind = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. A checkpoint "
                    f"from before 0.4.0 has them, since {kind} kept running statistics "
                    "by default then. Drop these keys, or pass "
                    f"track_running_stats=True to {kind} to use them."
                )
            for name in found:
                state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of `(N, C, L)` or `(C, L)` (Ulyanov et al. 2016)."""

    _unbatched = 2


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of `(N, C, H, W)` or `(C, H, W)`."""

    _unbatched = 3


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of `(N, C, D, H, W)` or `(C, D, H, W)`."""

    _unbatched = 4


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm1d` whose `num_features` come with the first input."""

    cls_to_become = InstanceNorm1d
    _unbatched = InstanceNorm1d._unbatched


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm2d` whose `num_features` come with the first input."""

    cls_to_become = InstanceNorm2d
    _unbatched = InstanceNorm2d._unbatched


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm3d` whose `num_features` come with the first input."""

    cls_to_become = InstanceNorm3d
    _unbatched = InstanceNorm3d._unbatched
