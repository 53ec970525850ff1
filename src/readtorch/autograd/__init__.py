# Tangled from chapters/00_tensor/, chapters/01_import/ — edit there, or here and run `readtorch sync`.
"""Automatic differentiation (twin of `torch/autograd/`)."""

import operator
from collections.abc import Mapping
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
    return (value,) if isinstance(value, _C.TensorBase | graph.GradientEdge) else tuple(value)


def _wanted(inputs: Any, function: str) -> tuple:
    """What to differentiate by, as a tuple; of a dict, its values. RuntimeError for none, and for what is no tensor."""
    if isinstance(inputs, Mapping):
        if inputs.__class__ is not dict:
            raise TypeError(f"`inputs` argument to `{function}()` must be a dict, not {type(inputs).__name__}.")
        inputs = inputs.values()
    wanted = _as_tuple(inputs)
    if not wanted:
        raise RuntimeError(f"`inputs` argument to `{function}()` cannot be empty.")
    for number, value in enumerate(wanted):
        if not isinstance(value, _C.TensorBase | graph.GradientEdge):
            kind = type(value).__name__
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {kind} at index {number}")
    return wanted


def _flag(value: Any) -> bool:
    """A switch of the engine's: upstream reads it as a byte, so that 2 is on and 1.5 a TypeError."""
    if value.__class__ is bool:
        return value
    number = operator.index(value)
    if not 0 <= number < 256:
        raise OverflowError(f"unsigned byte integer is {'less than minimum' if number < 0 else 'greater than maximum'}")
    return bool(number)


def _make_grads(outputs: tuple, grads: tuple) -> tuple:
    """Gradients to start from: those given, checked, or ones for outputs of one element. More of them are ignored."""
    result = []
    for number, (output, grad) in enumerate(zip(outputs, grads, strict=False)):
        if isinstance(output, graph.GradientEdge):
            if grad is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
        elif not isinstance(output, _C.TensorBase):
            raise AssertionError(
                f"Expected output to be a torch.Tensor, and output {number} is {type(output).__name__}"
            )
        elif grad is None:
            if output.requires_grad:
                if output._array.size != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if not output.dtype.is_floating_point:
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
    if len(outputs) > len(result):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(result)} gradients")
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
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`: use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = _wanted(inputs, "backward")
    tensors = _as_tuple(tensors)
    grads = _make_grads(tensors, (None,) * len(tensors) if grad_tensors is None else _as_tuple(grad_tensors))
    keep = create_graph if retain_graph is None else retain_graph
    _C._run_backward(tensors, grads, _flag(keep), _flag(create_graph), inputs or (), True, True)


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
) -> Any:
    """The derivatives of `outputs`, weighed by `grad_outputs`, with respect to `inputs`, as a tuple; as a dict for a dict of inputs.

    An input that was not used is a RuntimeError; None with `allow_unused`, zeros with `materialize_grads`.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed: materialize_grads=True contradicts allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if not only_inputs:
        import warnings

        warnings.warn(
            "only_inputs argument is deprecated and is ignored now. To accumulate the gradients of the rest of the graph, call backward.",
            FutureWarning,
            stacklevel=2,
        )
    outputs = _as_tuple(outputs)
    if inputs.__class__ is dict:
        values = grad(
            outputs,
            _wanted(inputs, "grad"),
            grad_outputs,
            retain_graph,
            create_graph,
            True,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return dict(zip(inputs, values, strict=True))
    inputs = _wanted(inputs, "grad")
    grads = (None,) * len(outputs) if grad_outputs is None else _as_tuple(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        if not all(g is None or g.ndim for g in grads) or all(g is None for g in grads):
            raise ValueError("is_grads_batched: Got in_dim=0 for a gradient, but that is a Tensor of dimensionality 0.")
        for output, given in zip(outputs, grads, strict=False):
            if given is not None and given.shape[1:] != output.shape:
                raise RuntimeError(
                    "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension: "
                    f"the sizes of the rest are expected to match those of the output, {tuple(output.shape)}, got {tuple(given.shape)}."
                )
        count = next(g.shape[0] for g in grads if g is not None)
        rows = [
            grad(outputs, inputs, [g if g is None else g[i] for g in grads], True, create_graph, True, allow_unused)
            for i in range(count)
        ]
        stack = _C._VariableFunctions.stack
        return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))
    grads = _make_grads(outputs, grads)
    keep, create_graph, allow_unused = _flag(keep), _flag(create_graph), _flag(allow_unused)
    results = _C._run_backward(outputs, grads, keep, create_graph, inputs, allow_unused, False)
    if materialize_grads:
        results = tuple(
            _C._VariableFunctions.zeros_like(value, requires_grad=create_graph) if g is None else g
            for g, value in zip(results, inputs, strict=True)
        )
    return results


from readtorch.autograd import gradcheck as _gradcheck
from readtorch.csrc.utils import gates as _gates

gradcheck = _gradcheck.gradcheck
gradgradcheck = _gradcheck.gradgradcheck

_gates.gates.offer(globals(), "torch.autograd", _gates.PYTHON, ("backward", "grad"))

from readtorch.autograd import functional as functional

from readtorch.autograd.function import NestedIOFunction as NestedIOFunction
from readtorch.autograd.grad_mode import enforce_grad_layout_policy as enforce_grad_layout_policy

from readtorch.autograd import profiler as profiler
