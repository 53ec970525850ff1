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
# # Is my derivative right? `gradcheck`
#
# A function of your own comes with a derivative of your own, and nothing in the engine compares the two. Numbers can, if
# they are chosen well.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## How small must the step be?
#
# Compare the derivative with a difference quotient. The question is the step. Too long, and the curve bends; too short,
# and the difference of two nearly equal numbers has lost its digits. For the cube at 1, whose derivative is 3, the error
# with steps of 10⁻¹ to 10⁻⁹ in both precisions:

# %%
for dtype in (np.float32, np.float64):
    errors = []
    for exponent in range(1, 10):
        step = dtype(10.0) ** dtype(-exponent)
        quotient = ((dtype(1) + step) ** 3 - (dtype(1) - step) ** 3) / (2 * step)
        errors.append(f"{abs(float(quotient) - 3):.0e}")
    print(f"{dtype.__name__:8}", *errors)

# %% [markdown]
# In float32 no step gives more than about four digits, too few to tell a wrong derivative from a rounded one. So
# `gradcheck` wants double precision, where a step of 10⁻⁶ leaves enough digits, and perturbs every element of every
# input. `gradgradcheck` does the same for the derivative of the derivative.


# %%
#| into: autograd/gradcheck.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch import _C


# %%
#| into: autograd/gradcheck.py
#| upstream: torch/autograd/gradcheck.py#GradcheckError
class GradcheckError(RuntimeError):
    """A derivative differs from the difference quotient."""


def _outputs(func: Callable[..., Any], inputs: tuple) -> list[Any]:
    results = func(*inputs)
    results = results if isinstance(results, tuple | list) else (results,)
    return [result for result in results if isinstance(result, _C.TensorBase) and result._array.dtype.kind in "fc"]


def _tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _tolerance(value: Any, name: str) -> float:
    """TypeError for what is no number, RuntimeError below zero."""
    if not isinstance(value, int | float):
        raise TypeError(f"allclose(): argument '{name}' must be float, not {type(value).__name__}")
    if value < 0:
        raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    return float(value)


def _requires(contradiction: bool, what: str) -> None:
    if contradiction:
        raise AssertionError(what)


# %% [markdown]
# Two matrices are compared. The numerical one needs two calls of the function per input element, the analytical one a
# backward pass per output element. So a check of a thousand inputs is two thousand calls: use small tensors.


# %%
#| into: autograd/gradcheck.py
#| upstream: torch/autograd/gradcheck.py#get_numerical_jacobian
def _numerical(func: Callable[..., Any], inputs: tuple, number: int, eps: float) -> list[np.ndarray]:
    """For each output the matrix (input elements × output elements) of central differences."""
    array = inputs[number]._array
    array = array.values if inputs[number].is_sparse else array
    columns: list[list[np.ndarray]] = []
    for index in np.ndindex(array.shape):
        kept = array[index].item()
        steps = [eps, 1j * eps] if array.dtype.kind == "c" else [eps]
        parts = []
        for step in steps:
            array[index] = kept + step
            above = [output.detach().cpu()._array.copy() for output in _outputs(func, inputs)]
            array[index] = kept - step
            below = [output.detach().cpu()._array.copy() for output in _outputs(func, inputs)]
            array[index] = kept
            parts.append([((a - b) / (2 * eps)).reshape(-1) for a, b in zip(above, below, strict=True)])
        if len(parts) == 1:
            columns.append(parts[0])
        else:
            columns.append([real + 1j * imaginary for real, imaginary in zip(*parts, strict=True)])
    if not columns:
        return [np.zeros((0, output.numel())) for output in _outputs(func, inputs)]
    return [np.stack(rows) for rows in zip(*columns, strict=True)]


def _list_places(values: list[Any], number: int, masked: bool) -> Any:
    """Let a sparse input list the places where it is to be changed: its own if `masked`, else all. Returns them, counted row by row."""
    value = values[number]
    if not value.is_sparse:
        return None
    whole = value.to_dense()
    mask = value.coalesce() if masked else whole.clone().fill_(1).to_sparse(value.sparse_dim())
    values[number] = whole.sparse_mask(mask)
    counted = np.arange(whole.numel()).reshape(whole.shape)
    return counted[tuple(mask._array.indices)].reshape(-1)


def _analytical(output: Any, inputs: tuple, number: int) -> np.ndarray:
    """The same matrix, a column per backward pass."""
    columns = []
    for index in np.ndindex(output._array.shape):
        seed = output.detach().clone().zero_()
        seed[index] = 1
        (grad,) = _C._run_backward((output,), (seed,), True, False, (inputs[number],), True, False)
        array = inputs[number]._array
        if grad is not None and grad.is_sparse:
            grad = grad.to_dense()
        columns.append(np.zeros(array.size, array.dtype) if grad is None else grad.cpu()._array.reshape(-1))
    return np.stack(columns, axis=1) if columns else np.zeros((inputs[number].numel(), 0))


# %% [markdown]
# The analytical matrix is computed twice. A backward that gives other numbers the second time is not a function of its
# input, and is reported as *not reentrant*.


# %%
#| into: autograd/gradcheck.py
#| upstream: torch/autograd/gradcheck.py#gradcheck
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Do the derivatives of `func` agree with difference quotients? GradcheckError, or False, if not. Inputs should be float64.

    `masked`: does the gradient by a sparse tensor have its places alone? AssertionError for switches that contradict each other.
    """
    _requires(
        not (check_forward_ad or check_backward_ad), "Expected at least one of check_forward_ad or check_backward_ad"
    )
    _requires(
        bool(check_batched_grad and not check_backward_ad), "check_batched_grad=True requires check_backward_ad=True"
    )
    _requires(
        bool(check_batched_forward_grad and not check_forward_ad),
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
    )
    inputs = _tuple(inputs)
    try:
        return _check(func, inputs, eps, atol, rtol, nondet_tol, bool(masked))
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _check(
    func: Callable[..., Any], inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float, masked: bool
) -> bool:
    wanted = [i for i, value in enumerate(inputs) if isinstance(value, _C.TensorBase) and value.requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient: set requires_grad=True on what is to be checked."
        )
    for i in wanted:
        if inputs[i]._array.dtype.itemsize < 8:
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex, so differences over "
                "steps of eps are lost in rounding: use float64 or complex128.",
                stacklevel=4,
            )
        inputs[i].retain_grad()
    atol, rtol, nondet_tol = _tolerance(atol, "atol"), _tolerance(rtol, "rtol"), _tolerance(nondet_tol, "nondet_tol")
    results = func(*inputs)
    for result in results if isinstance(results, tuple | list) else (results,):
        if not isinstance(result, _C.TensorBase):
            raise AttributeError(f"func returned {type(result).__name__}, which has no attribute 'requires_grad'")
    outputs = _outputs(func, inputs)
    for i in wanted:
        values = [v.detach() if isinstance(v, _C.TensorBase) else v for v in inputs]
        places = _list_places(values, i, masked)
        numerical = _numerical(func, tuple(values), i, eps)
        if places is not None:
            whole = [np.zeros((inputs[i].numel(), found.shape[1]), found.dtype) for found in numerical]
            for rows, found in zip(whole, numerical, strict=True):
                rows[places] = found
            numerical = whole
        for number, output in enumerate(outputs):
            if not output.requires_grad:
                analytical = np.zeros_like(numerical[number])
            else:
                analytical = _analytical(output, inputs, i)
                again = _analytical(output, inputs, i)
                if not np.allclose(analytical, again, rtol=0, atol=nondet_tol):
                    raise GradcheckError(
                        "Backward is not reentrant: run again with the same input and grad_output, it gave different values"
                    )
            expected = np.conj(numerical[number]) if np.iscomplexobj(analytical) else numerical[number]
            with np.errstate(invalid="ignore"):  # an infinite tolerance times a zero
                agree = np.allclose(analytical, expected, rtol=rtol, atol=atol)
            if not agree:
                raise GradcheckError(
                    f"Jacobian mismatch for output {number} with respect to input {i},\nnumerical:{expected}\nanalytical:{analytical}\n"
                )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """The same for second derivatives: `gradcheck` of the function that returns the gradients."""
    _requires(
        not (check_fwd_over_rev or check_rev_over_rev),
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev",
    )
    for value, name in ((check_undefined_grad, "check_undefined_grad"), (check_batched_grad, "check_batched_grad")):
        _requires(bool(value and not check_rev_over_rev), f"Setting {name}=True requires check_rev_over_rev to be True")
    inputs = _tuple(inputs)
    outputs = [output for output in _outputs(func, inputs) if output.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = [
            _C._from_numpy(np.asarray(rng.standard_normal(output._array.shape)).astype(output._array.dtype)).to(
                output.device
            )
            for output in outputs
        ]
        grad_outputs = [seed.requires_grad_() for seed in seeds]
    else:
        grad_outputs = _tuple(grad_outputs)
        for each in grad_outputs:
            if not isinstance(each, _C.TensorBase):
                raise AttributeError(
                    f"grad_outputs holds {type(each).__name__}, which has no attribute 'requires_grad'"
                )
    count = len(inputs)
    wanted = [i for i, value in enumerate(inputs) if isinstance(value, _C.TensorBase) and value.requires_grad]

    def gradients(*values: Any) -> Any:
        values = (
            tuple(
                v.detach().requires_grad_() if i in wanted and not v.requires_grad else v
                for i, v in enumerate(values[:count])
            )
            + values[count:]
        )
        results = [output for output in _outputs(func, values[:count]) if output.requires_grad]
        grads = _C._run_backward(results, values[count:], True, True, [values[i] for i in wanted], True, False)
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        gradients,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )


# %%
#| into: autograd/__init__.py
from readtorch.autograd import gradcheck as _gradcheck
from readtorch.csrc.utils import gates as _gates

gradcheck = _gradcheck.gradcheck
gradgradcheck = _gradcheck.gradgradcheck

_gates.gates.offer(globals(), "torch.autograd", _gates.PYTHON, ("backward", "grad"))

# %% [markdown]
# A derivative with a mistake that one makes, a factor that is right at 1:


# %% tags=["raises-exception"]
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * grad


torch.autograd.gradcheck(Cube.apply, (torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True),))


# %%
#| needs: a1_operators
#| claim: `gradcheck` finds a wrong derivative and warns where the inputs are in single precision
def _(torch):
    import warnings

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * grad

    at_one = torch.ones(1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Cube.apply, (at_one,))
    assert not torch.autograd.gradcheck(Cube.apply, (at_one.detach().mul(2).requires_grad_(),), raise_exception=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.autograd.gradcheck(Cube.apply, (torch.ones(1, requires_grad=True),), raise_exception=False)
    assert any("double precision" in str(w.message) for w in caught)


# %%
#| needs: a1_operators
#| claim: `gradgradcheck` finds a first derivative that is right and cuts the graph
#| upstream: torch/autograd/gradcheck.py#gradgradcheck
def _(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * (x * x).detach() * grad

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Cube.apply, (x,))
    assert not torch.autograd.gradgradcheck(Cube.apply, (x,), raise_exception=False)


# %% [markdown]
# The first assertion of the first claim is the lesson: at 1 the wrong formula is right, and a check at that point passes.
# Test with random inputs, and with more than one.
#
# ### What upstream does more
#
# * `gradcheck` has a fast mode, which compares one random projection instead of the whole matrix, checks forward-mode formulas, batched gradients and the behaviour of undefined gradients.
# * A `Function` can carry rules for `vmap` and forward mode (`vmap`, `jvp`). For these, `forward` must not see `ctx`: transformations run it on other tensors than the
#   ones that are saved. `setup_context` is the separate place for saving.

# %%
#| fact: torch/autograd/gradcheck.py#gradcheck
#| fact: torch/autograd/function.py#Function.vmap
