# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.
"""Automatic differentiation (twin of `torch/autograd/`)."""

from typing import Any

from readtorch import _C
from readtorch.autograd import graph as graph
from readtorch.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from readtorch.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from readtorch.autograd.function import Function as Function
from readtorch.autograd.grad_mode import enable_grad as enable_grad
from readtorch.autograd.grad_mode import inference_mode as inference_mode
from readtorch.autograd.grad_mode import no_grad as no_grad
from readtorch.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from readtorch.autograd.variable import Variable as Variable


def __getattr__(name: str) -> Any:
    from readtorch._not_here import missing

    raise missing("torch.autograd", name)


def _as_tuple(value: Any) -> tuple:
    if value.__class__ is tuple:
        return value
    return (value,) if value is None or isinstance(value, _C.TensorBase | graph.GradientEdge) else tuple(value)


def _make_grads(outputs: tuple, grads: tuple) -> tuple:
    """Gradients to start from: those given, checked, or ones for outputs of one element. More of them are ignored."""
    if len(outputs) > len(grads):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    result = []
    for number, (output, grad) in enumerate(zip(outputs, grads, strict=False)):
        if isinstance(output, graph.GradientEdge):
            if grad is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
        elif grad is None:
            if output.requires_grad:
                if output._array.size != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if not (output.dtype.is_floating_point or output.dtype.is_complex):
                    raise RuntimeError(
                        f"grad can be implicitly created only for real scalar outputs, and this one is {output.dtype}"
                    )
                grad = _C._VariableFunctions.ones_like(output)
        elif not isinstance(grad, _C.TensorBase):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        elif grad._array.shape != output._array.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{number}] has a shape of {grad.shape} and output[{number}] has a shape of {output.shape}."
            )
        elif (output._array.dtype.kind == "c") != (grad._array.dtype.kind == "c"):
            raise RuntimeError(
                "For complex Tensors, grad_output and output must have the same dtype. Mismatch in dtype: "
                f"output[{number}] is {output.dtype}, its gradient {grad.dtype}."
            )
        result.append(grad)
    return tuple(result)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the derivatives of `tensors` to the `.grad` of the leaves (of `inputs`, if given).

    `grad_tensors` weigh their elements; None for a tensor of one element means 1.
    """
    if grad_variables is not None:
        import warnings

        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    if inputs is not None:
        inputs = _as_tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    tensors = _as_tuple(tensors)
    grads = _make_grads(tensors, (None,) * len(tensors) if grad_tensors is None else _as_tuple(grad_tensors))
    keep = create_graph if retain_graph is None else retain_graph
    _C._run_backward(tensors, grads, keep, create_graph, inputs or (), True, True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The derivatives of `outputs`, weighed by `grad_outputs`, with respect to `inputs`, as a tuple.

    An input that was not used is a RuntimeError; None with `allow_unused`, zeros with `materialize_grads`.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed: materialize_grads=True contradicts allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    for number, value in enumerate(inputs):
        if not isinstance(value, _C.TensorBase | graph.GradientEdge):
            kind = type(value).__name__
            error = TypeError if value is None else RuntimeError
            raise error(f"all inputs have to be Tensors or GradientEdges, but got {kind} at index {number}")
    grads = (None,) * len(outputs) if grad_outputs is None else _as_tuple(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        count = next(g.shape[0] for g in grads if g is not None)
        rows = [
            grad(outputs, inputs, [g if g is None else g[i] for g in grads], True, create_graph, True, allow_unused)
            for i in range(count)
        ]
        stack = _C._VariableFunctions.stack
        return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))
    grads = _make_grads(outputs, grads)
    results = _C._run_backward(outputs, grads, keep, create_graph, inputs, allow_unused, False)
    if materialize_grads:
        results = tuple(
            _C._VariableFunctions.zeros_like(value) if g is None else g
            for g, value in zip(results, inputs, strict=True)
        )
    return results


from readtorch.autograd import gradcheck as _gradcheck
from readtorch.csrc.utils import gates as _gates

gradcheck = _gradcheck.gradcheck
gradgradcheck = _gradcheck.gradgradcheck

_gates.gates.offer(globals(), "torch.autograd", _gates.PYTHON, ("backward", "grad"))

from readtorch.autograd import functional as functional
