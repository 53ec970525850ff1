# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Functions of functions
#
# `functional_call` made a function of the weights. Here is what one does with it: `vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)` is the gradient of each example's loss, in one go. The machinery below, levels and batching rules, is told on the ground floor and in the appendix; what is left for Python is to enter a level, wrap the arguments, call, and take off the wrapping.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## Why not a loop?
#
# The gradients of sixty-four examples are sixty-four backward passes through a batch of one, and each pays for every operator's way through Python. The mean's gradient, which a batch gives for one pass, cannot be taken apart again.

# %%
#| needs: a2_layers
from time import perf_counter

net = nn.Sequential(
    nn.Conv2d(1, 8, 3, 2), nn.Tanh(), nn.Conv2d(8, 16, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(576, 10)
)
weights = {name: value.detach() for name, value in net.named_parameters()}
images, labels = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))


def loss(weights, image, label):
    scores = torch.func.functional_call(net, weights, (image[None],))
    return nn.functional.cross_entropy(scores, label[None])


def looped():
    return [
        torch.autograd.grad(loss(dict(net.named_parameters()), x, y), list(net.parameters()))
        for x, y in zip(images, labels)
    ]


per_example = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
per_example(weights, images, labels)
times = []
for run in (looped, lambda: per_example(weights, images, labels)):
    begin = perf_counter()
    run()
    times.append(perf_counter() - begin)
f"the loop takes {times[0] / times[1]:.0f} times as long"

# %% [markdown]
# ## `vmap`
#
# `in_dims` says which dimension of each argument counts the examples: a number for all, or a nest like the arguments'. Nests of containers are taken apart by `pytree`, so that a dictionary of weights is an argument like any other.

# %%
#| into: _functorch/vmap.py
"""One example's function as the function of many (twin of `torch/_functorch/vmap.py`)."""

# %%
#| into: _functorch/vmap.py
#| imports
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.utils._pytree import TreeSpec, tree_flatten

# %%
#| into: _functorch/vmap.py
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


# %% [markdown]
# On the way out, a result that is the same for all examples is repeated, unless `out_dims` says None for it. `chunk_size` trades memory for calls: so many examples at a time.


# %%
#| into: _functorch/vmap.py
#| upstream: torch/_functorch/vmap.py#vmap_impl
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


# %% [markdown]
# ## Reverse: `vjp` and `grad`
#
# Enter a level, make leaves of it around the arguments, call. When the level has ended, ask the engine, and have it record what it does, since the levels below may want to know; what the result still wraps is taken off. Because the engine runs *outside* of the level, `vjp` can return a function that asks it as often as one likes, along as many vectors as `vmap` hands it.

# %%
#| into: _functorch/eager_transforms.py
"""Derivatives as functions of functions (twin of `torch/_functorch/eager_transforms.py`)."""

# %%
#| into: _functorch/eager_transforms.py
#| imports
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import _C
from readtorch._functorch.vmap import vmap_impl
from readtorch._tensor import Tensor
from readtorch.aten.functorch.dynamic_layer import GradLayer
from readtorch.aten.functorch.tensor_wrapper import TensorWrapper, is_wrapped, tensor_of, unwrap_if_dead
from readtorch.c10.core.autograd_state import state
from readtorch.csrc.autograd.variable import gradient_edge, set_requires_grad
from readtorch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_map_only


# %%
#| into: _functorch/eager_transforms.py
def _entered(layer: GradLayer, values: Any) -> Any:
    """The tensors of a nest, as the level has them."""
    return tree_map_only(Tensor, layer.lift, values)


def _left(layer: GradLayer, values: Any) -> Any:
    """The tensors of a nest without the level that has ended."""
    return tree_map_only(Tensor, lambda tensor: tensor._array.value if layer.owns(tensor) else tensor, values)


def _differentiable(layer: GradLayer, values: Any) -> Any:
    """The tensors of a nest as leaves of the level's graph. RuntimeError for a leaf of the nest that is no tensor."""

    def leaf(value: Any) -> Any:
        if not isinstance(value, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
        inside = tensor_of(TensorWrapper(unwrap_if_dead(value), layer))
        set_requires_grad(inside, True)
        return inside

    return tree_map(leaf, values)


def _chosen(args: tuple, argnums: Any) -> Any:
    """The arguments to differentiate by. RuntimeError for numbers that are none of an argument."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(numbers, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for number in numbers:
        if not isinstance(number, int):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
    wrapped = [number % len(args) for number in numbers]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"argnums elements must be unique, got {tuple(wrapped)}")
    return args[argnums] if isinstance(argnums, int) else tuple(args[number] for number in wrapped)


def _replaced(args: tuple, argnums: Any, values: Any) -> tuple:
    if isinstance(argnums, int):
        argnums, values = (argnums,), (values,)
    result = list(args)
    for number, value in zip(argnums, values, strict=True):
        result[number] = value
    return tuple(result)


def _split_aux(output: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return output


def _check_aux(aux: Any) -> None:
    for leaf in tree_flatten(aux)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")


def _gradients(outputs: list[Any], inputs: list[Any], along: Any, keep: bool, record: bool) -> list[Any]:
    """vᵀJ for each input, once their level has ended; zeros where nothing depends on it."""
    reached = [(output, v) for output, v in zip(outputs, along, strict=True) if output.requires_grad]
    grads: Any = (None,) * len(inputs)
    if reached:
        tensors, vectors = zip(*reached, strict=True)
        grads = _C._run_backward(tensors, vectors, keep, True, inputs, True, False)
    found = []
    for value, grad in zip(inputs, grads, strict=True):
        result = torch.zeros_like(unwrap_if_dead(value)) if grad is None else unwrap_if_dead(grad)
        found.append(result if record else result.detach())
    return found


# %%
#| into: _functorch/eager_transforms.py
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(output, vjp_fn)`: what `func` gives, and a function of `v` that gives vᵀJ, a tuple with an entry per argument. With `has_aux`, also aux."""
    return _vjp(func, primals, tuple(range(len(primals))), has_aux)


class _Pullback:
    """What `vjp` returns: from a vector per output to one per input, as often as one likes."""

    def __init__(self, ends: list[Any], shape: TreeSpec, leaves: list[Any], form: TreeSpec) -> None:
        self._ends, self._shape = ends, shape
        self._leaves, self._form = leaves, form
        self.depends = [end.requires_grad for end in ends]

    def __call__(self, cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vectors, given = tree_flatten(cotangents)
        if given != self._shape:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {given}, primal output: {self._shape}"
            )
        for number, (vector, end) in enumerate(zip(vectors, self._ends, strict=True)):
            if vector.shape != end.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{number}] has a shape of {vector.shape} and output[{number}] has a "
                    f"shape of {end.shape}."
                )
        record = torch.is_grad_enabled() if create_graph is None else create_graph
        return self._form.unflatten(_gradients(self._ends, self._leaves, vectors, retain_graph, record))


# %%
#| into: _functorch/eager_transforms.py
def _vjp(func: Callable[..., Any], args: tuple, argnums: Any, has_aux: bool = False) -> Any:
    layer = GradLayer()
    with layer, torch.enable_grad():
        inside = _differentiable(layer, _chosen(args, argnums))
        leaves, form = tree_flatten(inside)
        output, aux = _split_aux(func(*_replaced(_entered(layer, args), argnums, inside)), has_aux, "vjp(f, *primals)")
        ends, shape = tree_flatten(output)
        for end in ends:
            if not isinstance(end, Tensor):
                raise RuntimeError(
                    f"vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type {type(end)}"
                )
        if has_aux:
            _check_aux(aux)
        #: an output that is no tensor of this level, as one: a constant
        ends = [layer.as_constant(end) for end in ends]
        for end in ends:  # a view whose base was written to is told its history while its level lasts
            gradient_edge(end)

    pull = _Pullback(ends, shape, leaves, form)
    output = shape.unflatten([_left(layer, end) for end in ends])
    return (output, pull, _left(layer, aux)) if has_aux else (output, pull)


# %%
#| into: _functorch/eager_transforms.py
def grad_impl(func: Callable[..., Any], argnums: Any, has_aux: bool, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The gradient of a function that gives one number; with `has_aux`, and what it gives besides."""
    grads, value = grad_and_value_impl(func, argnums, has_aux, args, kwargs)
    return (grads, value[1]) if has_aux else grads


def grad_and_value_impl(
    func: Callable[..., Any], argnums: Any, has_aux: bool, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """The gradient and the number; with `has_aux`, the number and what the function gives besides."""
    name = "grad_and_value(f)(*args)"
    layer = GradLayer()
    with layer, torch.enable_grad():
        inside = _differentiable(layer, _chosen(args, argnums))
        output, aux = _split_aux(
            func(*_replaced(_entered(layer, args), argnums, inside), **_entered(layer, kwargs)), has_aux, name
        )
        if not isinstance(output, Tensor):
            raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim() != 0:
            raise RuntimeError(
                f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. "
                "Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if has_aux:
            _check_aux(aux)
        leaves, form = tree_flatten(inside)
        end = layer.as_constant(output)
        gradient_edge(end)
    value = _left(layer, end)
    grads = form.unflatten(_gradients([end], leaves, [torch.ones_like(value)], True, state.grad_mode))
    return (grads, (value, _left(layer, aux))) if has_aux else (grads, value)


# %% [markdown]
# ## Forward: `jvp`
#
# Upstream has dual numbers: a level whose tensors carry a tangent through every operator. Here it is two reverse passes. $u \mapsto u^\top J$ is linear in $u$, so its own vector-Jacobian product along $v$ is $Jv$, at whatever $u$; zeros will do. The price is that an operator's derivative must itself have one, which a backward marked `once_differentiable` has not, and about twice the time.


# %%
#| into: _functorch/eager_transforms.py
def _check_tangents(primals: Any, tangents: Any, name: str) -> tuple[list[Any], TreeSpec]:
    for value, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(value, tuple):
            raise RuntimeError(f"{name}: Expected {what} to be a tuple. E.g. it should be valid to call f(*primals).")
    points, form = tree_flatten(primals)
    vectors, given = tree_flatten(tangents)
    if form != given:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. Got primals with structure {form} "
            f"and tangents with structure {given}"
        )
    if not points:
        raise RuntimeError(f"{name}: Expected primals to be non-empty, got 0 Tensors")
    for number, (point, vector) in enumerate(zip(points, vectors, strict=True)):
        if not (isinstance(point, Tensor) and isinstance(vector, Tensor)):
            raise RuntimeError(f"{name}: Expected only Tensors as primals and tangents, got {type(point)} at {number}")
        if point.shape != vector.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                f"supported. Tensor is of size {list(point.shape)} while the given forward gradient is of size {list(vector.shape)}."
            )
    return vectors, form


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """`(output, J v)`, or `(output, J v, aux)`: what `func` gives, and how it moves when the arguments move along `tangents`."""
    name = f"jvp(f, primals, tangents{', strict=True' if strict else ''})"
    vectors, _ = _check_tangents(primals, tangents, name)
    output, push, aux = _forward(func, primals, has_aux)
    moved, depends = push(vectors)
    if strict and not all(depends):
        raise RuntimeError(
            f"{name}: The output of f is independent of the inputs. This is not allowed with strict=True."
        )
    return (output, moved, aux) if has_aux else (output, moved)


def _forward(func: Callable[..., Any], primals: tuple, has_aux: bool, argnums: Any = None) -> Any:
    """`(output, push, aux)`: `push(vectors)` gives J v, and which outputs depend on the inputs at all.

    u ↦ uᵀJ is linear, so that its own product with v, at any u, is J v.
    """
    answer = _vjp(func, primals, tuple(range(len(primals))) if argnums is None else argnums, has_aux)
    output, pull, aux = answer if has_aux else (*answer, None)
    ends, shape = tree_flatten(output)
    movable = [end.dtype.is_floating_point or end.dtype.is_complex for end in ends]
    at = [torch.zeros_like(end) for end, moves in zip(ends, movable, strict=True) if moves]

    def linear(*vectors: Any) -> Any:
        given = iter(vectors)
        all_vectors = [
            next(given) if moves else torch.zeros_like(end) for end, moves in zip(ends, movable, strict=True)
        ]
        return tree_flatten(pull(shape.unflatten(all_vectors)))[0]

    _, back = vjp(linear, *at) if at else (None, None)

    def push(vectors: Any) -> Any:
        found = iter(back(list(vectors)) if back is not None else ())
        moved = [next(found) if moves else torch.zeros_like(end) for end, moves in zip(ends, movable, strict=True)]
        return shape.unflatten(moved), pull.depends

    return output, push, aux


# %% [markdown]
# ## Matrices
#
# A Jacobian is a product with every unit vector. `torch.autograd.functional.jacobian` asks for one after the other; here the unit vectors are the examples of a `vmap`. Rows are made by `vjp`, columns by `jvp`: `jacrev` is the one to take where there are fewer outputs than inputs, `jacfwd` where there are more. A Hessian is the forward Jacobian of the reverse one.


# %%
#| into: _functorch/eager_transforms.py
def _unit_vectors(tensors: list[Any]) -> tuple[list[Any], list[int]]:
    """For tensors of n elements in all: a tensor of n examples for each, which together are the rows of the unit matrix; and the counts."""
    counts = [tensor.numel() for tensor in tensors]
    total, start, rows = sum(counts), 0, []
    for tensor, count in zip(tensors, counts, strict=True):
        block = torch.zeros(total, count, dtype=tensor.dtype, device=tensor.device)
        block.diagonal(-start).fill_(1)
        rows.append(block.view(total, *tensor.shape))
        start += count
    return rows, counts


def _check_matrix(outputs: Any, name: str) -> tuple[list[Any], TreeSpec]:
    ends, shape = tree_flatten(outputs)
    if not ends:
        raise RuntimeError(f"{name}: Expected f(*args) to return at least one Tensor, got none")
    for end in ends:
        if not isinstance(end, Tensor):
            raise RuntimeError(f"{name}: expected f(*args) to return only tensors, got unsupported type {type(end)}")
    return ends, shape


# %%
#| into: _functorch/eager_transforms.py
#| upstream: torch/_functorch/eager_transforms.py#jacrev
def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`: `vjp` for all rows of a unit matrix at once, or for `chunk_size` of them."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        answer = _vjp(func, args, argnums, has_aux)
        output, pull, aux = answer if has_aux else (*answer, None)
        ends, shape = _check_matrix(output, "jacrev(f, *args)")
        rows, counts = _unit_vectors(ends)

        def vectors_to_rows(*vectors: Any) -> Any:
            return tuple(tree_flatten(pull(shape.unflatten(vectors)))[0])

        stacked = vmap_impl(vectors_to_rows, 0, 0, "error", chunk_size, tuple(rows), {})
        points, form = tree_flatten(_chosen(args, argnums))
        blocks = []
        for number, end in enumerate(ends):
            first = sum(counts[:number])
            parts = [
                matrix.narrow(0, first, counts[number]).reshape(*end.shape, *point.shape)
                for matrix, point in zip(stacked, points, strict=True)
            ]
            blocks.append(form.unflatten(parts))
        result = shape.unflatten(blocks)
        return (result, aux) if has_aux else result

    return jacobian


# %%
#| into: _functorch/eager_transforms.py
#| upstream: torch/_functorch/eager_transforms.py#jacfwd
def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`: `jvp` for all columns of a unit matrix at once."""

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        chosen = _chosen(args, argnums)
        output, push, aux = _forward(func, args, has_aux, argnums)
        ends, shape = _check_matrix(output, "jacfwd(f, *args)")
        points, form = tree_flatten(chosen)
        columns, counts = _unit_vectors(points)

        def vectors_to_columns(*vectors: Any) -> Any:
            return tuple(tree_flatten(push(vectors)[0])[0])

        stacked = vmap_impl(vectors_to_columns, 0, -1, randomness, None, tuple(columns), {})
        blocks = []
        for matrix, end in zip(stacked, ends, strict=True):
            first, parts = 0, []
            for point, count in zip(points, counts, strict=True):
                parts.append(matrix.narrow(-1, first, count).reshape(*end.shape, *point.shape))
                first += count
            blocks.append(form.unflatten(parts))
        result = shape.unflatten(blocks)
        return (result, aux) if has_aux else result

    return jacobian


# %%
#| into: _functorch/eager_transforms.py
def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that gives the matrices of second derivatives: the forward Jacobian of the reverse one."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`(output, jvp_fn)`: `jvp_fn(*tangents)` gives J v at these arguments, without calling `func` again."""
    name = "linearize(f, *primals)"
    output, push, _ = _forward(func, primals, False)

    def along(*tangents: Any) -> Any:
        vectors, _ = _check_tangents(primals, tangents, name)
        return push(vectors)[0]

    return output, along


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What a tensor inside a transform wraps: the tensor of the level below, or of the lowest. For a look at it, not to compute with."""
    while is_wrapped(tensor._array):
        tensor = tensor._array.value
        if not recurse:
            break
    return tensor


# %%
#| into: _functorch/apis.py
"""`vmap`, `grad` and `grad_and_value`, as they are called (twin of `torch/_functorch/apis.py`)."""

# %%
#| into: _functorch/apis.py
#| imports
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from readtorch._functorch import eager_transforms
from readtorch._functorch.vmap import _RANDOMNESS, vmap_impl


# %%
#| into: _functorch/apis.py
def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function of many examples, made of `func`, which is written for one.

    `in_dims`: which dimension of each argument counts the examples, None for one that all share; a number, or a nest like
    the arguments'. `out_dims` says where it stands in the results. `randomness`: what random operations do: "error", draw
    "different" numbers for every example, or the "same" for all. `chunk_size`: at most so many examples at once.
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return vmap_impl(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return mapped


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, which gives one number, by the arguments that `argnums` numbers.

    With `has_aux`, `func` gives `(number, aux)` and the result is `(gradient, aux)`.
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return eager_transforms.grad_impl(func, argnums, has_aux, args, kwargs)

    return gradient


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """`grad` that gives `(gradient, number)`, or `(gradient, (number, aux))`."""

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        return eager_transforms.grad_and_value_impl(func, argnums, has_aux, args, kwargs)

    return both


# %% [markdown]
# ## Custom functions
#
# An `autograd.Function` that sets its context while it computes does two things at once, and inside a nest they belong to different levels. Functions are therefore asked for `setup_context`: then each level of `grad` can make a node of its own around the same function one level down. Under `vmap` a function says itself how it treats many examples, or lets its parts be vectorized.

# %%
#| into: _functorch/autograd_function.py
"""Custom functions inside of transforms (twin of `torch/_functorch/autograd_function.py`)."""

# %%
#| into: _functorch/autograd_function.py
#| imports
from __future__ import annotations

from typing import Any, NamedTuple

from readtorch.aten.functorch.dynamic_layer import (
    GradLayer,
    Layer,
    VmapLayer,
    map_tensors,
    tensors_in,
    unwrap_if_dead,
)
from readtorch.autograd.function import Function
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd import python_function

# %%
#| into: _functorch/autograd_function.py
_MORE = "see https://docs.pytorch.org/docs/stable/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a custom function's `vmap` is told of the transform."""

    batch_size: int
    randomness: str


def custom_function_call(cls: Any, args: tuple) -> Any:
    """`cls.apply(*args)` with a transform entered: the innermost level decides, as for an operator."""
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
            f"setup_context staticmethod: {cls.__name__} keeps what backward needs while it computes; {_MORE}."
        )
    args = map_tensors(unwrap_if_dead, args)
    layer: Layer = state.layers[-1]
    if isinstance(layer, GradLayer):
        return _recorded(layer, cls, args)
    assert isinstance(layer, VmapLayer)
    if not any(layer.is_batched(tensor) for tensor in tensors_in(args)):
        return layer.below(cls.apply, *args)
    return _vectorized(layer, cls, args)


def _recorded(layer: GradLayer, cls: Any, args: tuple) -> Any:
    """A node on this level, whose forward is the same function one level down."""
    if not any(layer.owns(tensor) for tensor in tensors_in(args)):
        return map_tensors(layer.lift, layer.below(cls.apply, *args))
    inside = map_tensors(layer.as_constant, args)

    def forward(*given: Any) -> Any:
        values = tuple(value._array.value if isinstance(value, TensorImpl) else value for value in given)
        known = {id(value): shell for value, shell in zip(values, given, strict=True)}
        result = layer.below(cls.apply, *values)
        return map_tensors(lambda tensor: known.get(id(tensor)) or layer.lift(tensor), result)

    return python_function.apply(cls, cls._backward_cls(), inside, True, forward)


def _vectorized(layer: VmapLayer, cls: Any, args: tuple) -> Any:
    overrides = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and overrides:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod"
        )
    if not cls.generate_vmap_rule and not overrides:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            f"staticmethod or set generate_vmap_rule=True; {_MORE}."
        )
    dims = tuple(0 if isinstance(arg, TensorImpl) and layer.is_batched(arg) else None for arg in args)
    given = tuple(layer.physical(arg) if isinstance(arg, TensorImpl) else arg for arg in args)
    if overrides:
        output, out_dims = layer.below(cls.vmap, VmapInfo(layer.size, layer.randomness), dims, *given)
    else:
        output = layer.below(_generated(cls, layer, dims).apply, *given)
        out_dims = 0
    return _batched_again(layer, output, out_dims)


def _batched_again(layer: VmapLayer, output: Any, dim: Any) -> Any:
    if isinstance(output, tuple | list):
        dims = dim if isinstance(dim, tuple | list) else (dim,) * len(output)
        return type(output)(_batched_again(layer, part, at) for part, at in zip(output, dims, strict=True))
    if dim is None or not isinstance(output, TensorImpl):
        return output
    return layer.batch(output if dim == 0 else layer.below(_to_front, output, dim))


def _to_front(tensor: Any, dim: int) -> Any:
    return tensor.movedim(dim, 0)


class _Context:
    """What `setup_context` and `backward` of a vectorized function see in place of their node."""

    def __init__(self) -> None:
        self.saved_tensors: tuple = ()
        self.needs_input_grad: tuple = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.plain = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        raise RuntimeError("generate_vmap_rule=True: a function that writes to its inputs needs a vmap staticmethod")

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize = value


def _generated(cls: Any, layer: VmapLayer, dims: tuple) -> Any:
    """The function of all examples: forward, setup_context and backward of one, under a `vmap` each."""
    inner = VmapLayer(layer.size, layer.randomness)
    context = _Context()

    def batched(values: tuple) -> tuple:
        return tuple(value if dim is None else inner.batch(value) for value, dim in zip(values, dims, strict=True))

    class Vectorized(Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            with inner:
                output = cls.forward(*batched(values))
            return map_tensors(inner.full, output)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            context.needs_input_grad = ctx.needs_input_grad
            with inner:
                cls.setup_context(context, batched(inputs), map_tensors(inner.batch, output))
            ctx.mark_non_differentiable(*(inner.physical(tensor) for tensor in getattr(context, "plain", ())))
            ctx.set_materialize_grads(getattr(context, "materialize", True))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with inner:
                found = cls.backward(context, *(None if grad is None else inner.batch(grad) for grad in grads))
            results = found if isinstance(found, tuple) else (found,)
            return tuple(_for_input(inner, grad, dim) for grad, dim in zip(results, dims, strict=True))

    Vectorized.__name__ = Vectorized.__qualname__ = f"Vmapped{cls.__name__}"
    return Vectorized


def _for_input(inner: VmapLayer, grad: Any, dim: int | None) -> Any:
    """The gradient of an input: one per example, or of one that all share the sum."""
    if grad is None:
        return None
    return inner.full(grad) if dim is not None else inner.full(grad).sum(0)


# %% [markdown]
# ## Batch norm
#
# In training, a batch norm writes to its running statistics. Under `vmap` there is one set of these and many examples to write, which is refused; for ensembles and gradients per example one does without them.

# %%
#| into: _functorch/batch_norm_replacement.py
"""Batch norm without running statistics (twin of `torch/_functorch/batch_norm_replacement.py`)."""

# %%
#| into: _functorch/batch_norm_replacement.py
#| imports
from __future__ import annotations

from readtorch import nn


# %%
#| into: _functorch/batch_norm_replacement.py
def replace_all_batch_norm_modules_(root: nn.Module) -> nn.Module:
    """Take the running statistics from every batch norm in `root`, in place: under `vmap` there would be one set for all examples. Returns `root`."""
    from readtorch.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


# %%
#| into: func/__init__.py
from readtorch._functorch.batch_norm_replacement import (
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)

# %%
#| into: __init__.py
_NAMES["vmap"] = "_functorch.apis"

# %% [markdown]
# ## What it is good for
#
# The gradients from above are those of the loop:

# %%
#| needs: a2_layers
found = per_example(weights, images, labels)
rows = [torch.stack(column) for column in zip(*looped())]
{
    name: (tuple(found[name].shape), torch.allclose(found[name], row, atol=1e-5))
    for (name, _), row in zip(net.named_parameters(), rows)
}

# %% [markdown]
# A Hessian, of a function of three variables, and a step of Newton's method with it:


# %%
#| needs: a2_layers
def valley(x):
    return ((x[1:] - x[:-1] ** 2) ** 2).sum() * 100 + ((1 - x[:-1]) ** 2).sum()


x = torch.tensor([0.9, 0.8, 0.6], dtype=torch.float64)
for _ in range(6):
    x = x - torch.linalg.solve(torch.func.hessian(valley)(x), torch.func.grad(valley)(x))
x, valley(x)


# %%
#| claim: an ensemble is one call: stacked weights are examples, and the input is shared
#| needs: a2_layers
def _(torch):
    models = [torch.nn.Linear(3, 2) for _ in range(4)]
    weights, buffers = torch.func.stack_module_state(models)
    x = torch.ones(5, 3)
    together = torch.func.vmap(lambda w, b: torch.func.functional_call(models[0], (w, b), (x,)))(weights, buffers)
    assert together.shape == (4, 5, 2)
    assert all(torch.allclose(row, model(x)) for row, model in zip(together, models))


# %%
#| claim: jacrev, jacfwd and autograd.functional.jacobian agree, also for nests of inputs
#| needs: a2_layers
def _(torch):
    def f(at):
        return at["a"].sin() * at["b"].prod()

    at = {"a": torch.tensor([0.1, 0.2, 0.3]).double(), "b": torch.tensor([2.0, 3.0]).double()}
    rows, columns = torch.func.jacrev(f)(at), torch.func.jacfwd(f)(at)
    for name in ("a", "b"):
        old = torch.autograd.functional.jacobian(lambda x: f({**at, name: x}), at[name])
        assert torch.allclose(rows[name], old) and torch.allclose(columns[name], old)


# %%
#| claim: a custom function keeps its own backward on every level, and under vmap if it says so
def _(torch):
    class Double(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return grad * 10 * ctx.saved_tensors[0]

    x = torch.tensor([1.0, 2.0])
    grad, vmap = torch.func.grad, torch.func.vmap
    assert vmap(grad(Double.apply))(x).tolist() == [10.0, 20.0]
    assert vmap(grad(grad(Double.apply)))(x).tolist() == [10.0, 10.0]
    try:

        class Old(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        grad(Old.apply)(x[0])
    except RuntimeError as error:
        assert "setup_context" in str(error)
    else:
        raise AssertionError("computed")


# %%
#| claim: a batch norm that keeps running statistics is refused under vmap, one without them is not
#| needs: a2_layers
def _(torch):
    norm = torch.nn.BatchNorm1d(3)
    x = torch.arange(24.0).reshape(2, 4, 3)
    try:
        torch.func.vmap(norm)(x)
    except RuntimeError as error:
        assert "running_mean" in str(error) or "in-place" in str(error) or "inplace" in str(error)
    else:
        raise AssertionError("computed")
    torch.func.replace_all_batch_norm_modules_(norm)
    assert torch.func.vmap(norm)(x).shape == (2, 4, 3)


# %% [markdown]
# ### What upstream does more
#
# `torch.func.functionalize` rewrites a function without writes in place, which matters to whoever traces it; there is no tracer here. `linearize` of upstream traces the forward derivative once and folds its constants; here it is the second of the two reverse passes, called again. `jacrev` fills chunks into memory made before if asked to.
#
# ### Exercise
#
# **How sure is the gradient?** Write `spread(loss, weights, x, y)`: for each weight the standard deviation, over the examples, of its gradient. One line of it calls three functions of this chapter.


# %%
#| exercise: spread
def spread(loss, weights, x, y):
    raise NotImplementedError


# %%
#| solution: spread
def spread(loss, weights, x, y):
    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    return {name: value.std(0) for name, value in gradients.items()}


# %%
#| check: spread
#| needs: a2_layers
line = {"slope": torch.tensor([1.0, 2.0])}
xs, ys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.zeros(3)
deviation = spread(lambda w, x, y: (w["slope"] @ x - y) ** 2, line, xs, ys)
assert torch.allclose(deviation["slope"], torch.tensor([[2.0, 0.0], [0.0, 4.0], [6.0, 6.0]]).std(0))
