# Tangled from chapters/a1_operators/z_batching_rules_of_layers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, out_of_batch
from readtorch.aten.functorch.batch_rules_helper import Operator, Same, at, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import RANDOM, VmapLayer, map_tensors, tensors_in

RANDOM.update(
    [
        "uniform_",
        "normal_",
        "random_",
        "exponential_",
        "geometric_",
        "log_normal_",
        "cauchy_",
        "_bernoulli_scalar_",
        "_bernoulli_tensor_",
        "bernoulli",
        "poisson",
        "multinomial",
        "binomial",
        "_standard_gamma",
        "_sample_dirichlet",
        "_kept",
        "native_dropout",
        "_rrelu_slopes",
    ]
)


@rule("random")
def random(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """Numbers of its own for every example, or one draw for all."""
    layer.check_randomness()
    if op.entry.name.endswith("_"):
        return _in_place(layer, op, *values)
    batched = any(layer.is_batched(tensor) for tensor in tensors_in(*values))
    if layer.randomness == "different":
        return _different(layer, op, values)
    if not batched:
        return map_tensors(Same, op(*values))
    if op.entry.name in ("_kept", "native_dropout", "_rrelu_slopes"):  # only the shape is asked of the tensor
        drawn = (
            at._kept(at.select(layer.physical(values[0]), 0, 0), values[1], False)
            if op.entry.name == "native_dropout"
            else None
        )
        if drawn is not None:
            kept = at.ne(drawn, 0)
            return at.native_dropout_backward(layer.physical(values[0]), kept, 1 / (1 - values[1])), Same(kept)
        return Same(op(at.select(layer.physical(values[0]), 0, 0), *values[1:]))
    raise RuntimeError(
        "Vmap does not currently support same randomness with a batched tensor input. Please file an issue"
    )


def _different(layer: VmapLayer, op: Operator, values: tuple) -> Any:
    per_image = op.entry.name == "_kept" and values[2]
    if (op.entry.name == "multinomial" and rank_of(values[0]) == 2) or per_image:
        return out_of_batch(op(*map_tensors(lambda tensor: into_batch(layer.full(tensor)), values)), layer.size)
    return op(*map_tensors(lambda tensor: at.clone(layer.full(tensor)), values))


def _in_place(layer: VmapLayer, op: Operator, target: Any, *rest: Any) -> Any:
    if not layer.is_batched(target):
        if layer.randomness == "different" or any(layer.is_batched(tensor) for tensor in tensors_in(*rest)):
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness: "
                "the tensor holds one draw. Make it of a batched tensor, or draw out of place."
            )
        return Same(op(target, *rest))
    whole = layer.physical(target)
    if layer.randomness == "different":
        op(whole, *map_tensors(layer.full, rest))
    else:
        if any(layer.is_batched(tensor) for tensor in tensors_in(*rest)):
            raise RuntimeError(
                "Vmap does not currently support same randomness with a batched tensor input. Please file an issue"
            )
        at.copy_(whole, op(at.clone(at.select(whole, 0, 0)), *rest))
    return None
