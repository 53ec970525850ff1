# Tangled from chapters/02_module/9b_functions_of_functions.py — edit there, or here and run `readtorch sync`.
"""Derivatives as functions of functions (twin of `torch/_functorch/eager_transforms.py`)."""

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
