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
# # Derivatives of functions: Jacobians, Hessians and products with them
#
# How do I get a Jacobian, and what does it cost? `backward` asks a *tensor* where it came from. Mathematics asks a
# *function*: what is the Jacobian of f at x? `torch.autograd.functional` answers in that form, for functions of one
# tensor or several, with one result or several. All of it is `torch.autograd.grad`, on inputs made for the purpose.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| needs: a1_operators
torch.autograd.functional.jacobian(lambda x: x.cumsum(0) * x, torch.tensor([1.0, 2.0, 3.0]))

# %%
#| into: autograd/__init__.py
from readtorch.autograd import functional as functional

# %%
#| into: autograd/functional.py
"""Products with Jacobians and Hessians, and the matrices themselves (twin of `torch/autograd/functional.py`)."""

# %%
#| into: autograd/functional.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor

# %% [markdown]
# ## On which inputs is the function run?
#
# On tensors that require a gradient, whatever the caller's do: views of the caller's where the result is to be
# differentiated again, else detached copies. Results come back in the form of what was given: a tensor for a tensor, a
# tuple for a tuple.


# %%
#| into: autograd/functional.py
#| upstream: torch/autograd/functional.py#_as_tuple
def _as_tuple(value: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether it was a tuple, and the tensors. TypeError for anything else."""
    is_tuple = isinstance(value, tuple)
    tensors = value if is_tuple else (value,)
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            where = f" at index {number} of the tuple" if is_tuple else ""
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the value{where} has type {type(tensor)}."
            )
    return is_tuple, tensors


def _prepared(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    return tuple(
        each.view_as(each) if create_graph and each.requires_grad else each.detach().clone().requires_grad_()
        for each in inputs
    )


def _result(values: Any, is_tuple: bool, create_graph: bool) -> Any:
    kept = tuple(value if create_graph or not isinstance(value, Tensor) else value.detach() for value in values)
    return kept if is_tuple else kept[0]


def _products(outputs: Any, inputs: Any, along: Any, create_graph: bool, strict: bool, what: str) -> list[Tensor]:
    """vᵀJ for each input; zeros where an output does not depend on it, RuntimeError if `strict`."""
    reached = [(output, v) for output, v in zip(outputs, along, strict=True) if output.requires_grad]
    if strict and len(reached) != len(outputs):
        raise RuntimeError(
            f"Output of the user-provided function is independent of the inputs: no {what} in strict mode."
        )
    grads: Any = [None] * len(inputs)
    if reached:
        grads = torch.autograd.grad(
            [output for output, _ in reached],
            inputs,
            [v for _, v in reached],
            create_graph=create_graph,
            allow_unused=True,
        )
    if strict and any(grad is None for grad in grads):
        raise RuntimeError(
            f"The {what} is independent of an input of the user-provided function: not allowed in strict mode."
        )
    return [torch.zeros_like(each) if grad is None else grad for each, grad in zip(inputs, grads, strict=True)]


def _direction(v: Any, like: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    """The vector, checked; one where it may be left out: for a single number."""
    if v is None:
        if len(like) != 1 or like[0].nelement() != 1:
            raise RuntimeError(
                f"The vector v can only be None in {name} if the user-provided function returns or takes a single number."
            )
        return (torch.ones_like(like[0]),)
    _, vectors = _as_tuple(v, "v", name)
    if len(vectors) != len(like):
        raise RuntimeError(f"v in {name} is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for vector, each in zip(vectors, like, strict=True):
        if vector.size() != each.size():
            raise RuntimeError(f"v in {name} has invalid size: should be {each.size()} but got {vector.size()}.")
    return vectors


# %% [markdown]
# ## How can two backward passes make a forward one?
#
# One backward gives $v^\top J$. For $J v$ the engine has no other direction, and two backwards do it. $g(u) = u^\top J$
# is linear in $u$, and the gradient of $g(u) \cdot v$ by $u$ is $J v$. The value of $u$ does not matter; it need only
# require a gradient. Upstream does the same here. (Forward mode, `torch.func.jvp`, does it in one pass.)


# %%
#| into: autograd/functional.py
#| upstream: torch/autograd/functional.py#vjp
def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What `func` gives, and vᵀJ."""
    with torch.enable_grad():
        many, given = _as_tuple(inputs, "inputs", "vjp")
        at = _prepared(given, create_graph)
        many_out, outputs = _as_tuple(func(*at), "outputs of the user-provided function", "vjp")
        along = _direction(v, outputs, "vjp")
        grads = _products(outputs, at, along, create_graph, strict, "vjp")
    return _result(outputs, many_out, create_graph), _result(grads, many, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What `func` gives, and J v, by two backwards."""
    with torch.enable_grad():
        _, given = _as_tuple(inputs, "inputs", "jvp")
        at = _prepared(given, create_graph)
        along = _direction(v, at, "jvp")
        many_out, outputs = _as_tuple(func(*at), "outputs of the user-provided function", "jvp")
        dual = tuple(torch.zeros_like(output, requires_grad=True) for output in outputs)
        linear = _products(outputs, at, dual, True, strict, "jvp")
        grads = _products(linear, dual, along, create_graph, False, "jvp")
    return _result(outputs, many_out, create_graph), _result(grads, many_out, create_graph)


# %% [markdown]
# ## What does a whole matrix cost?
#
# A Jacobian is one backward per element of the output, each with a one at that element. Its shape is that of the output,
# then that of the input. So the cost grows with the number of outputs: a thousand of them are a thousand walks. Whoever
# wants only a product with the matrix should not make it.


# %%
#| into: autograd/functional.py
#| upstream: torch/autograd/functional.py#jacobian
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """For each output a tuple of one matrix per input; a tuple of one, on either side, is left out where a tensor stood.

    `vectorize` and `strategy` choose how upstream computes the same numbers; here it is rows, one after the other.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy}.')
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            'jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported together.'
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError("Computing Jacobian using forward-AD is only implemented for `vectorize=True`.")
    if strict and vectorize:
        raise RuntimeError("jacobian: `strict=True` and `vectorized=True` are not supported together.")
    with torch.enable_grad():
        many, given = _as_tuple(inputs, "inputs", "jacobian")
        at = _prepared(given, create_graph)
        many_out, outputs = _as_tuple(func(*at), "outputs of the user-provided function", "jacobian")
        blocks = []
        for output in outputs:
            rows: list[list[Tensor]] = [[] for _ in at]
            for element in range(output.nelement()):
                one = torch.zeros_like(output).flatten()
                one[element] = 1
                if output.requires_grad:
                    grads = torch.autograd.grad(
                        output, at, one.view_as(output), retain_graph=True, create_graph=create_graph, allow_unused=True
                    )
                else:
                    grads = (None,) * len(at)
                if strict and any(grad is None for grad in grads):
                    raise RuntimeError(
                        "Output of the user-provided function is independent of an input: not allowed in strict mode."
                    )
                for row, grad, each in zip(rows, grads, at, strict=True):
                    row.append(torch.zeros_like(each) if grad is None else grad)
            matrices = [
                torch.stack(row).view(output.size() + each.size())
                if row
                else each.new_zeros(output.size() + each.size())
                for row, each in zip(rows, at, strict=True)
            ]
            blocks.append(_result(matrices, many, create_graph))
    return tuple(blocks) if many_out else blocks[0]


# %%
#| into: autograd/functional.py
#| upstream: torch/autograd/functional.py#hessian
def _of_a_number(func: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    def checked(*at: Tensor) -> Tensor:
        several, (result, *_) = _as_tuple(func(*at), "outputs of the user-provided function", name)
        if several or result.nelement() != 1:
            raise RuntimeError(f"The function given to {name} should return a single Tensor with a single element")
        return result

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of the gradient of a function that gives one number; a tuple of tuples for a tuple of inputs."""
    many, _ = _as_tuple(inputs, "inputs", "hessian")
    number = _of_a_number(func, "hessian")

    def gradient(*at: Tensor) -> Any:
        found = jacobian(
            lambda *values: number(*values).reshape(()), at if many else at[0], create_graph=True, strict=strict
        )
        if strict and not all(each.requires_grad for each in (found if many else (found,))):
            raise RuntimeError("The gradient is independent of the inputs: not allowed in strict mode.")
        return found

    return jacobian(
        gradient,
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What `func` gives, one number, and vᵀH: the gradient, and then a backward through it."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def _hessian_product(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    with torch.enable_grad():
        many, given = _as_tuple(inputs, "inputs", name)
        at = _prepared(given, create_graph)
        along = _direction(v, at, name)
        output = _of_a_number(func, name)(*at)
        gradient = _products((output,), at, (torch.ones_like(output),), True, strict, "gradient")
        grads = _products(gradient, at, along, create_graph, strict, name)
    return _result((output,), False, create_graph), _result(grads, many, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What `func` gives, one number, and H v; by `vhp`, as a Hessian is its own transpose."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


# %% [markdown]
# For a Hessian there are two products, and upstream they do not cost the same. `vhp` is a backward through the gradient.
# `hvp` plays the trick above on top of it, one backward more, although the matrix is its own transpose. Ours computes
# both as `vhp`.
#
# Three outputs, three walks, each beginning with a one at another place:

# %%
#| needs: a1_operators
rows = []


def squares(x):
    y = x * x
    y.register_hook(lambda grad: rows.append(grad.tolist()))
    return y


torch.autograd.functional.jacobian(squares, torch.tensor([1.0, 2.0, 3.0])), rows


# %%
#| claim: the Jacobian of a matrix product by its left factor is the right one, in blocks; J v needs two backwards and no row
#| needs: a1_operators
def _(torch):
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    x = torch.tensor([0.5, -1.0, 2.0])
    matrix = torch.autograd.functional.jacobian(lambda x: x @ w, x)
    assert torch.equal(matrix, w.T)
    _, along = torch.autograd.functional.jvp(lambda x: x @ w, x, torch.ones(3))
    assert torch.equal(along, w.sum(0))


# %%
#| claim: a Jacobian costs one backward per element of the output; vhp and hvp give the same numbers, and no matrix
#| upstream: torch/autograd/functional.py#hvp
#| needs: a1_operators
def _(torch):
    functional, walks = torch.autograd.functional, []

    def cubes(x):
        y = x * x * x
        y.register_hook(lambda grad: walks.append(1))
        return y

    x, v = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])
    functional.jacobian(cubes, x)
    assert len(walks) == 3
    products = [product(lambda x: cubes(x).sum(), x, v)[1] for product in (functional.vhp, functional.hvp)]
    assert products[0].tolist() == products[1].tolist() == [6, 0, -18]
