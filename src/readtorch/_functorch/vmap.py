# Tangled from chapters/02_module/9b_functions_of_functions.py — edit there, or here and run `readtorch sync`.
"""One example's function as the function of many (twin of `torch/_functorch/vmap.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.utils._pytree import TreeSpec, tree_flatten

_RANDOMNESS = ("error", "different", "same")


def _name_of(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _spread(dims: Any, form: TreeSpec) -> list[Any] | None:
    """One entry of `dims` per leaf of `form`: a number or None stands for all leaves of the nest in whose place it is. None if the forms differ."""
    if isinstance(dims, int) or dims is None:
        return [dims] * form.num_leaves
    if form.type is None:
        return None
    leaves, own = tree_flatten(dims, is_leaf=lambda value: value is not dims)
    context = own.context
    if own.type is not form.type or len(leaves) != len(form.children_specs):
        return None
    if isinstance(dims, dict):
        if set(context) != set(form.context):
            return None
        leaves = [dims[key] for key in form.context]
    spread: list[Any] = []
    for part, child in zip(leaves, form.children_specs, strict=True):
        found = _spread(part, child)
        if found is None:
            return None
        spread.extend(found)
    return spread


def _examples(in_dims: Any, args: tuple, func: Callable[..., Any]) -> tuple[int, list[Any], list[Any], TreeSpec]:
    """How many examples, the dimension that counts them in each leaf of the arguments, the leaves and their form."""
    name = _name_of(func)
    call = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, form = tree_flatten(args)
    dims = _spread(in_dims, form)
    if dims is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {form}."
        )
    for place, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is not None and not isinstance(dim, int):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if dim is None:
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{call}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
                f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        dims[place] = dim % leaf.dim()
    counts = [leaf.size(dim) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not counts:
        raise ValueError(f"{call}: Expected at least one Tensor to vmap over: all entries of in_dims are None.")
    if any(count != counts[0] for count in counts):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {counts} for the mapped dimension"
        )
    return counts[0], dims, leaves, form


def _gathered(layer: VmapLayer, outputs: Any, out_dims: Any, func: Callable[..., Any]) -> Any:
    """The outputs of all examples, their number in the dimension that `out_dims` says."""
    name = _name_of(func)
    leaves, form = tree_flatten(outputs)
    single = isinstance(outputs, Tensor)
    compatible = out_dims is not None or single or form.num_leaves == 1
    if single and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    dims = _spread(out_dims, form) if compatible else [None] * len(leaves)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {form}."
        )
    results = []
    for leaf, dim in zip(leaves, dims, strict=True):
        if not isinstance(leaf, Tensor):
            if dim is not None:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you mean to set "
                    "out_dims= to None for output?"
                )
            results.append(leaf)
        elif dim is None:
            if layer.is_batched(leaf):
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None: it differs from "
                    "example to example"
                )
            results.append(leaf)
        else:
            results.append(torch.movedim(layer.full(leaf), 0, dim))
    return form.unflatten(results)


def _run(
    func: Callable[..., Any], size: int, dims: list[Any], leaves: list[Any], form: TreeSpec, out_dims: Any,
    randomness: str, kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    layer = VmapLayer(size, randomness)
    inputs = [
        leaf if dim is None else layer.batch(leaf if dim == 0 else torch.movedim(leaf, dim, 0))
        for leaf, dim in zip(leaves, dims, strict=True)
    ]
    with layer:
        outputs = func(*form.unflatten(inputs), **kwargs)
    return _gathered(layer, outputs, out_dims, func)


def vmap_impl(
    func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None, args: tuple,
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """Call `func` once for all examples, or once for every `chunk_size` of them."""
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    size, dims, leaves, form = _examples(in_dims, args, func)
    if chunk_size is None or size <= chunk_size:
        return _run(func, size, dims, leaves, form, out_dims, randomness, kwargs)
    return _in_chunks(functools.partial(_run, func), size, dims, leaves, form, out_dims, randomness, chunk_size, kwargs)


def _in_chunks(
    run: Callable[..., Any], size: int, dims: list[Any], leaves: list[Any], form: TreeSpec, out_dims: Any,
    randomness: str, chunk_size: int, kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    pieces, spec = [], None
    state = torch.random.get_rng_state() if randomness == "same" else None
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        if state is not None:
            torch.random.set_rng_state(state)
        part = [leaf if dim is None else leaf.narrow(dim, start, count) for leaf, dim in zip(leaves, dims, strict=True)]
        outputs, spec = tree_flatten(run(count, dims, part, form, out_dims, randomness, kwargs))
        pieces.append(outputs)
    assert spec is not None
    joined_at = _spread(out_dims, spec) or [None] * spec.num_leaves
    if isinstance(out_dims, tuple) and spec.type is None:
        joined_at = list(out_dims)
    return spec.unflatten(
        parts[0] if dim is None else torch.cat(parts, dim)
        for parts, dim in zip(zip(*pieces, strict=True), joined_at, strict=True)
    )
