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
# # Modes, hooks and functions of your own: `torch.autograd`

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: autograd/__init__.py
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

# %% [markdown]
# ## backward and grad


# %%
#| into: autograd/__init__.py
def _as_tuple(value: Any) -> tuple:
    if value.__class__ is tuple:
        return value
    return (value,) if value is None or isinstance(value, _C.TensorBase | graph.GradientEdge) else tuple(value)


def _make_grads(outputs: tuple, grads: tuple) -> tuple:
    """Gradients to start from: those given, checked, or ones for outputs of one element."""
    result = []
    for number, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        if isinstance(output, graph.GradientEdge):
            if grad is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
        elif grad is None:
            if output._edge is not None:
                if output._array.size != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if not (output.dtype.is_floating_point or output.dtype.is_complex):
                    raise RuntimeError(
                        f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
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
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                f"grad_output[{number}] has a dtype of {grad.dtype} and output[{number}] has a dtype of {output.dtype}."
            )
        result.append(grad)
    return tuple(result)


# %%
#| into: autograd/__init__.py
#| upstream: torch/autograd/__init__.py#backward
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
    grads = (None,) * len(tensors) if grad_tensors is None else _as_tuple(grad_tensors)
    grads = _make_grads(tensors, grads)
    keep = create_graph if retain_graph is None else retain_graph
    _C._run_backward(tensors, grads, keep, create_graph, inputs or (), True, True)


# %%
#| into: autograd/__init__.py
#| upstream: torch/autograd/__init__.py#grad
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
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    for number, value in enumerate(inputs):
        if not isinstance(value, _C.TensorBase | graph.GradientEdge):
            raise TypeError(f"all inputs have to be Tensors or GradientEdges, but got {type(value)} at index {number}")
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


# %%
#| into: autograd/variable.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch import _C
from readtorch._tensor import Tensor


# %%
#| into: autograd/variable.py
#| upstream: torch/autograd/variable.py#Variable
class _VariableMeta(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class _Engine:
    """The engine's face: what DDP reaches for."""

    queue_callback = staticmethod(_C._queue_callback)


class Variable(metaclass=_VariableMeta):
    """The wrapper of the early days. `Variable(x, requires_grad=True)` gives a tensor that shares the data of `x`."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool | None = None, volatile: Any = None) -> Any:
        result = (
            Tensor()
            if data is None
            else data.detach()
            if requires_grad is not None or data.is_leaf
            else data.view_as(data)
        )
        keep = data is not None and data.requires_grad if requires_grad is None else requires_grad
        if result.is_leaf:
            result.requires_grad_(keep)
        return result


# %% [markdown]
# ## Turning recording off
# A mode is an object that is a context manager and a decorator at once.

# %%
#| into: utils/__init__.py
"""What more than one part of the package needs (twin of upstream's `torch/utils/`)."""

# %%
#| into: utils/_contextlib.py
#| imports
from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any


# %%
#| into: utils/_contextlib.py
#| upstream: torch/utils/_contextlib.py#context_decorator
def context_decorator(make: Callable[[], Any], function: Any) -> Any:
    """`function` run inside a fresh context each time. A generator runs inside it between its yields; a class is wrapped at its constructor, with a warning."""
    decorated: Any = function
    if inspect.isclass(function):
        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or methods.",
            FutureWarning,
            stacklevel=3,
        )
        decorated.__init__ = context_decorator(make, decorated.__init__)
        return decorated
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(make, function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with make():
            return function(*args, **kwargs)

    return wrapped


def _wrap_generator(make: Callable[[], Any], function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with make():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with make():
                        generator.close()
                    raise
                except BaseException as error:
                    with make():
                        response = generator.throw(error)
                else:
                    with make():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapped


class _DecoratorContextManager:
    """A context manager that can decorate."""

    def __call__(self, function: Any) -> Any:
        return context_decorator(self.clone, function)

    def clone(self) -> Any:
        return self.__class__()


# %%
#| into: autograd/grad_mode.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.utils._contextlib import _DecoratorContextManager


# %%
#| into: autograd/grad_mode.py
#| upstream: torch/autograd/grad_mode.py#no_grad
class _GradMode(_DecoratorContextManager):
    wanted: bool

    def __enter__(self) -> None:
        self.previous = _C.is_grad_enabled()
        _C._set_grad_enabled(self.wanted)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self.previous)

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None) -> None:
        pass


class no_grad(_GradMode):
    """Record nothing inside. `with no_grad():`, `@no_grad()` or `@no_grad`."""

    wanted = False


class enable_grad(_GradMode):
    """Record inside, even within `no_grad`."""

    wanted = True


class set_grad_enabled(_DecoratorContextManager):
    """Record or not, from this call on; as a context manager or decorator, until its end."""

    def __init__(self, mode: bool) -> None:
        self.previous = _C.is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, function: Any) -> Any:
        _C._set_grad_enabled(self.previous)
        return super().__call__(function)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self.previous)

    def clone(self) -> set_grad_enabled:
        return self.__class__(self.mode)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


# %%
#| into: autograd/grad_mode.py
#| upstream: torch/autograd/grad_mode.py#inference_mode
class inference_mode(_DecoratorContextManager):
    """Record nothing and keep no versions: tensors made inside can never enter a graph later."""

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def __init__(self, mode: Any = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.previous = _C.is_grad_enabled()
        self.outer = autograd_state.set_special("inference_mode", self.mode)
        _C._set_grad_enabled(not self.mode)

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("inference_mode", self.outer)
        _C._set_grad_enabled(self.previous)

    def clone(self) -> inference_mode:
        return self.__class__(self.mode)


def is_inference_mode_enabled() -> bool:
    """Is this thread inside of `inference_mode`?"""
    return autograd_state.state.inference_mode


# %%
#| into: autograd/anomaly_mode.py
#| imports
from __future__ import annotations

import warnings

from readtorch.c10.core import autograd_state


# %%
#| into: autograd/anomaly_mode.py
#| upstream: torch/autograd/anomaly_mode.py#detect_anomaly
class detect_anomaly:
    """Keep the forward stack on every node made inside, and check the gradients of every node run inside for NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.outer = autograd_state.set_special("anomaly", True)
        self.outer_check = autograd_state.set_special("check_nan", self.check_nan)

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("anomaly", self.outer)
        autograd_state.set_special("check_nan", self.outer_check)


class set_detect_anomaly:
    """Switch anomaly mode on or off, from this call on or for a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.outer = autograd_state.set_special("anomaly", mode)
        self.outer_check = autograd_state.set_special("check_nan", check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("anomaly", self.outer)
        autograd_state.set_special("check_nan", self.outer_check)


# %% [markdown]
# ## A function of your own
#
# `autograd.Function` puts a node of the user's making into the graph: `forward` runs with recording off, its outputs get the node, `backward` is called by the engine with tensors.

# %%
#| into: csrc/autograd/python_function.py
#| imports
from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from readtorch.c10.core import autograd_state, tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import TensorImpl, current_version, version_counter
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.anomaly_mode import store_stack
from readtorch.csrc.autograd.node import Node, next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed, check_version, modified, released


# %%
#| into: csrc/autograd/python_function.py
#| upstream: torch/csrc/autograd/python_function.cpp#THPFunction_apply
class FunctionNode(Node):
    """The node of a custom function, which is also the `ctx` that its `forward` and `backward` see."""

    __slots__ = ()
    _fresh = False
    _forward_cls: Any
    _saved: tuple = ()
    _saved_versions: tuple = ()
    _saved_outputs: Any = MappingProxyType({})
    _to_save: tuple = ()
    _dirty: tuple = ()
    _non_differentiable: tuple = ()
    _materialize = True
    _tensor_inputs: Any = frozenset()
    _all_outputs: Any = ()
    needs_input_grad: tuple = ()
    materialize_grads = True

    def __init__(self) -> None:
        self._edges = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward, with the checks that attributes on ctx do not give."""
        self._to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *args: Any) -> None:
        """These inputs were written to in place, and are returned."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """These outputs have no gradient."""
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward sees None where no gradient arrived, instead of zeros."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple:
        """What `save_for_backward` kept, checked. RuntimeError after the graph was freed."""
        if self._released:
            raise released(self.name())
        result = []
        for number, value in enumerate(self._saved):
            result.append(self._restore(number, value))
        return tuple(result)

    saved_variables = saved_tensors

    def _restore(self, number: int, value: Any) -> Any:
        if value.__class__ is Packed:
            return value.restore()
        if number in self._saved_outputs:
            array, counter = value
            expected = self._saved_versions[number]
            if counter.value != expected:
                raise modified(array, (self, self._saved_outputs[number]), counter.value, expected)
            output = self._saved_outputs[number]
            tensor = tensor_impl.wrap(array, self if self._count == 1 else (self, output))
            tensor._vc = counter
            return tensor
        if isinstance(value, TensorImpl):
            check_version(value, self._saved_versions[number])
        return value

    def release_variables(self) -> None:
        if self._saved:
            self._saved = ()
            self._released = True

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        values = [self._as_tensor(number, grad, graph) for number, grad in enumerate(grads)]
        backward = self._forward_cls.backward
        results = backward(self, *values)
        if not isinstance(results, tuple | list):
            results = (results,)
        wanted = len(self.needs_input_grad)
        results = list(results)
        while len(results) > wanted and results[-1] is None:
            results.pop()
        if len(results) != wanted:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {wanted}, got {len(results)})"
            )
        outputs = []
        for number, result in enumerate(results):
            if result is not None and not isinstance(result, TensorImpl):
                raise TypeError(f"expected Variable or None (got {type(result).__name__})")
            if number in self._tensor_inputs:
                outputs.append(result if graph or result is None else result._array)
            elif result is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position {number + 1}, but the corresponding forward input was not a Variable"
                )
        return outputs

    def _as_tensor(self, number: int, grad: Any, graph: bool) -> Any:
        if grad is not None:
            return grad if graph else tensor_impl.wrap(grad)
        if not self._materialize:
            return None
        shape, dtype = self._all_outputs[number]
        return tensor_impl.wrap(np.zeros(shape, dtype))


# %% [markdown]
# `apply` in order: note which inputs want a gradient; run `forward` with recording off; give each output tensor its place in the graph; keep what was to be saved.


# %%
#| into: csrc/autograd/python_function.py
#| upstream: torch/csrc/autograd/python_function.cpp#torch::autograd::_wrap_outputs
def apply(cls: Any, node: FunctionNode, args: tuple, two_step: bool) -> Any:
    """Run a custom function's forward and connect its outputs to `node`."""
    recording = state.grad_mode
    tensors = {i: arg for i, arg in enumerate(args) if isinstance(arg, TensorImpl)}
    node.needs_input_grad = tuple(i in tensors and tensors[i]._edge is not None for i in range(len(args)))
    node._tensor_inputs = frozenset(tensors)
    wants = recording and any(node.needs_input_grad)
    edges = tuple(arg._edge if wants else None for arg in tensors.values())
    autograd_state.set_grad_enabled(False)
    try:
        if two_step:
            outputs = cls.forward(*args)
            cls.setup_context(node, args, outputs)
        else:
            outputs = cls.forward(node, *args)
    finally:
        autograd_state.set_grad_enabled(recording)
    single = not isinstance(outputs, tuple | list)
    values = (outputs,) if single else tuple(outputs)
    if single and not isinstance(outputs, TensorImpl) and outputs is not None:
        kind = type(outputs).__name__
        raise TypeError(f"{cls.__name__}.forward: expected to return a Tensor or a tuple with Tensors, got {kind}")
    node._edges = edges
    node._sequence = next_sequence_nr()
    results = _connect(node, tensors, values, wants)
    if wants:
        _save(node, results, values)
        if state.anomaly:
            store_stack(node)
    node._to_save = ()
    return results[0] if single else tuple(results) if isinstance(outputs, tuple) else results


def _connect(node: FunctionNode, inputs: dict[int, Any], values: tuple, wants: bool) -> list[Any]:
    outputs = [value for value in values if isinstance(value, TensorImpl)]
    node._count = len(values)
    shapes = [
        (value._array.shape, value._array.dtype) if isinstance(value, TensorImpl) else ((), None) for value in values
    ]
    node._all_outputs = shapes
    if len(values) == 1:
        node._shape, node._dtype = shapes[0]
    else:
        node._shape = [shape for shape, _ in shapes]
        node._dtype = [dtype for _, dtype in shapes]
    for tensor in node._dirty:
        if not any(tensor is output for output in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be outputs of the Function."
            )
        version_counter(tensor).value += 1
    results: list[Any] = []
    for number, value in enumerate(values):
        if not isinstance(value, TensorImpl):
            results.append(value)
            continue
        edge: Any = node if len(values) == 1 else (node, number)
        results.append(_connect_one(node, inputs, value, edge, wants))
    return results


def _connect_one(node: FunctionNode, inputs: dict[int, Any], value: Any, edge: Any, wants: bool) -> Any:
    is_input = any(value is tensor for tensor in inputs.values())
    dirty = any(value is tensor for tensor in node._dirty)
    plain = any(value is tensor for tensor in node._non_differentiable) or value._array.dtype.kind not in "fcV"
    if dirty:
        if wants:
            variable.check_inplace(value)
            variable.rebase_history(value, edge)
        return value
    if is_input:
        value = _alias(value, wants and not plain, edge)
        return value
    if plain or not wants:
        if plain and value._edge is not None and variable.is_leaf(value) is False:
            value = value.detach()
        return value
    if value._edge is not None:
        value = value.detach()
    if value._view is not None:
        value._view = (value._view[0], value._view[1], variable.IN_CUSTOM_FUNCTION)
    value._edge = edge
    return value


def _alias(value: Any, connected: bool, edge: Any) -> Any:
    """An input returned as it is: a view of it, so that the input keeps its own history."""
    result = tensor_impl.wrap(value._array, edge if connected else None)
    result._vc = version_counter(value)
    result._view = (value if value._view is None else value._view[0], (), variable.IN_CUSTOM_FUNCTION)
    return result


def _save(node: FunctionNode, results: list[Any], values: tuple[Any, ...]) -> None:
    hooks = state.saved_tensor_hooks
    saved: list[Any] = []
    versions: list[int] = []
    outputs: dict[int, int] = {}
    value: Any
    for number, value in enumerate(node._to_save):
        if value is not None and not isinstance(value, TensorImpl):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {number} is of type {type(value).__name__}"
            )
        place = next(
            (i for i, output in enumerate(values) if value is not None and (output is value or results[i] is value)),
            None,
        )
        if (
            place is not None
            and value is not None
            and results[place]._edge is not None
            and value._edge is not None
            and variable.grad_fn(results[place]) is node
        ):
            counter = version_counter(results[place])
            saved.append((value._array, counter))
            versions.append(counter.value)
            outputs[number] = place
        elif value is not None and hooks:
            if isinstance(hooks[-1], str):
                raise RuntimeError(hooks[-1])
            saved.append(Packed(value, hooks[-1]))
            versions.append(0)
        else:
            saved.append(value)
            versions.append(0 if value is None else current_version(value))
    node._saved, node._saved_versions, node._saved_outputs = tuple(saved), tuple(versions), outputs


# %%
#| into: autograd/function.py
#| imports
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.csrc.autograd import python_function
from readtorch.csrc.autograd.python_function import FunctionNode

# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#FunctionCtx
FunctionCtx = FunctionNode


class BackwardCFunction(FunctionNode):
    """The node class from which each custom function's own node class is made."""

    __slots__ = ()

    def name(self) -> str:
        return type(self).__name__


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#FunctionMeta
class FunctionMeta(type):
    """Makes, for each custom function `F`, the class of its nodes, `FBackward`."""

    def __init__(cls, name: str, bases: tuple, attributes: dict[str, Any]) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__slots__": ()})
        super().__init__(name, bases, attributes)


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#Function
class Function(metaclass=FunctionMeta):
    """Base of custom functions: override `forward` and `backward` as static methods, call `apply`.

    `forward(ctx, *args)` computes; or `forward(*args)` with `setup_context(ctx, inputs, output)` beside it.
    `backward(ctx, *grad_outputs)` returns one gradient, or None, per argument of forward.
    """

    _backward_cls: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the class itself. "
            "Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static forward method. "
            "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Keep on `ctx` what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record it."""
        two_step = cls.setup_context is not Function.setup_context
        if kwargs:
            import inspect

            bound = inspect.signature(cls.forward).bind(*(args if two_step else (None, *args)), **kwargs)
            bound.apply_defaults()
            args = bound.args if two_step else bound.args[1:]
        return python_function.apply(cls, cls._backward_cls(), args, two_step)


if "vjp" not in vars(Function):
    Function.vjp = Function.backward  # type: ignore[attr-defined]


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#once_differentiable
def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a `backward` that is itself not differentiable: differentiating through it is an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = _C.is_grad_enabled()
        autograd_state.set_grad_enabled(False)
        try:
            outputs = fn(ctx, *args)
        finally:
            autograd_state.set_grad_enabled(recording)
        if not recording or not any(isinstance(arg, _C.TensorBase) and arg.requires_grad for arg in args):
            return outputs
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        failing = tuple(
            value if value is None else _DelayedError.apply(value.detach().requires_grad_()) for value in values
        )
        return failing if isinstance(outputs, tuple) else failing[0]

    return wrapper


class _DelayedError(Function):
    """The identity, whose derivative is an error."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


# %%
#| into: autograd/graph.py
#| imports
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

from readtorch import _C
from readtorch.c10.core import autograd_state

# %% [markdown]
# ## The graph, seen from Python

# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#Node
Node = _C._Node


def _register(node: Any, attribute: str, hook: Callable[..., Any]) -> Any:
    from readtorch.utils.hooks import RemovableHandle

    hooks = getattr(node, attribute)
    if hooks is None:
        hooks = OrderedDict()
        setattr(node, attribute, hooks)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_hook(self: Any, fn: Callable[..., Any]) -> Any:
    """Call `fn(grad_inputs, grad_outputs)` after this node has run; a tuple it returns replaces `grad_inputs`."""
    return _register(self, "_post_hooks", fn)


def register_prehook(self: Any, fn: Callable[..., Any]) -> Any:
    """Call `fn(grad_outputs)` before this node runs; a tuple it returns replaces them."""
    return _register(self, "_pre_hooks", fn)


Node.register_hook = register_hook  # type: ignore[attr-defined]
Node.register_prehook = register_prehook  # type: ignore[attr-defined]


# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#GradientEdge
class GradientEdge(NamedTuple):
    """A place in the graph: output `output_nr` of `node`."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of `tensor` flows. RuntimeError if it requires none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*_C._split_edge(tensor._edge))


# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#saved_tensors_hooks
class saved_tensors_hooks:
    """Keep `pack_hook(tensor)` in place of each tensor saved inside, and `unpack_hook` of that gives it back in backward."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        self.outer = autograd_state.set_special(
            "saved_tensor_hooks", (*autograd_state.state.saved_tensor_hooks, self.hooks)
        )

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("saved_tensor_hooks", self.outer)


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in the host's memory and bring them back to their device in backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Any:
    """Forbid saved-tensor hooks inside, with this message."""
    outer = autograd_state.set_special("saved_tensor_hooks", (error_message,))
    try:
        yield
    finally:
        autograd_state.set_special("saved_tensor_hooks", outer)


# %% [markdown]
# ## Is my derivative right?
#
# Compare it with the difference quotient. `gradcheck` does so for every input element, in double precision, where a step of 10⁻⁶ leaves six digits to compare; `gradgradcheck` does it for the derivative's derivative.


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
    return (value,) if isinstance(value, _C.TensorBase) else tuple(value)


# %%
#| into: autograd/gradcheck.py
#| upstream: torch/autograd/gradcheck.py#get_numerical_jacobian
def _numerical(func: Callable[..., Any], inputs: tuple, number: int, eps: float) -> list[np.ndarray]:
    """For each output the matrix (input elements × output elements) of central differences."""
    array = inputs[number]._array
    columns: list[list[np.ndarray]] = []
    for index in np.ndindex(array.shape):
        kept = array[index]
        steps = [eps, 1j * eps] if array.dtype.kind == "c" else [eps]
        parts = []
        for step in steps:
            array[index] = kept + step
            above = [output._array.copy() for output in _outputs(func, inputs)]
            array[index] = kept - step
            below = [output._array.copy() for output in _outputs(func, inputs)]
            array[index] = kept
            parts.append([((a - b) / (2 * eps)).reshape(-1) for a, b in zip(above, below, strict=True)])
        if len(parts) == 1:
            columns.append(parts[0])
        else:
            columns.append([real + 1j * imaginary for real, imaginary in zip(*parts, strict=True)])
    if not columns:
        return [np.zeros((0, output.numel())) for output in _outputs(func, inputs)]
    return [np.stack(rows) for rows in zip(*columns, strict=True)]


def _analytical(output: Any, inputs: tuple, number: int) -> np.ndarray:
    """The same matrix, a column per backward pass."""
    columns = []
    for index in np.ndindex(output._array.shape):
        seed = np.zeros_like(output._array)
        seed[index] = 1
        (grad,) = _C._run_backward((output,), (_C._from_numpy(seed),), True, False, (inputs[number],), True, False)
        array = inputs[number]._array
        columns.append(np.zeros(array.size, array.dtype) if grad is None else grad._array.reshape(-1))
    return np.stack(columns, axis=1) if columns else np.zeros((inputs[number].numel(), 0))


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
    fast_mode: bool = False,
    **unused: Any,
) -> bool:
    """Do the derivatives of `func` agree with difference quotients? GradcheckError, or False, if not. Inputs should be float64."""
    inputs = _tuple(inputs)
    try:
        return _check(func, inputs, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _check(func: Callable[..., Any], inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float) -> bool:
    wanted = [i for i, value in enumerate(inputs) if isinstance(value, _C.TensorBase) and value.requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )
    for i in wanted:
        if inputs[i]._array.dtype.itemsize < 8:
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will likely fail "
                "if all the inputs are not of double precision floating point or complex.",
                stacklevel=4,
            )
        inputs[i].retain_grad()
    outputs = _outputs(func, inputs)
    for i in wanted:
        numerical = _numerical(func, tuple(v.detach() if isinstance(v, _C.TensorBase) else v for v in inputs), i, eps)
        for number, output in enumerate(outputs):
            if not output.requires_grad:
                analytical = np.zeros_like(numerical[number])
            else:
                analytical = _analytical(output, inputs, i)
                again = _analytical(output, inputs, i)
                if not np.allclose(analytical, again, rtol=0, atol=nondet_tol):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values"
                    )
            expected = np.conj(numerical[number]) if np.iscomplexobj(analytical) else numerical[number]
            if not np.allclose(analytical, expected, rtol=rtol, atol=atol):
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
    **unused: Any,
) -> bool:
    """The same for second derivatives: `gradcheck` of the function that returns the gradients."""
    inputs = _tuple(inputs)
    outputs = [output for output in _outputs(func, inputs) if output.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = [
            _C._from_numpy(np.asarray(rng.standard_normal(output._array.shape)).astype(output._array.dtype))
            for output in outputs
        ]
        grad_outputs = [seed.requires_grad_() for seed in seeds]
    else:
        grad_outputs = _tuple(grad_outputs)
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

gradcheck = _gradcheck.gradcheck
gradgradcheck = _gradcheck.gradgradcheck

# %% [markdown]
# ## Evidence


# %%
#| claim: x + x may be walked back twice, x * 2 may not: it has kept its factor
def _(torch):
    x = torch.ones(2, requires_grad=True)
    y = (x + x).sum()
    y.backward()
    y.backward()
    z = (x * 2).sum()
    z.backward()
    try:
        z.backward()
    except RuntimeError as error:
        assert "second time" in str(error)
    else:
        raise AssertionError("walked twice")


# %%
#| claim: writing to a view rewrites its base's history: the node is CopySlices
def _(torch):
    x = torch.ones(3, requires_grad=True)
    base = x * 2
    base[0].mul_(10)
    assert type(base.grad_fn).__name__ == "CopySlices"
    base.sum().backward()
    assert x.grad.tolist() == [20.0, 2.0, 2.0]


# %%
#| claim: hooks on a tensor run in the order of registration, and each sees what the one before returned
def _(torch):
    x = torch.ones(2, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    x.register_hook(lambda g: seen.append(g.tolist()))
    x.sum().backward()
    assert seen == [[1.0, 1.0], [2.0, 2.0]]
    assert x.grad.tolist() == [2.0, 2.0]


# %%
#| claim: the gradient of a leaf accumulates in place, so a reference to it stays good
def _(torch):
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    kept = x.grad
    x.sum().backward()
    assert kept is x.grad and kept.tolist() == [2.0, 2.0]
