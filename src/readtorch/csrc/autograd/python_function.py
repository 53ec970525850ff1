# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core import autograd_state, tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import TensorImpl, current_version, version_counter
from readtorch.csrc.autograd import variable
from readtorch.csrc.autograd.anomaly_mode import store_stack
from readtorch.csrc.autograd.node import Node, next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed, SavedTensor, check_version, modified, released


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
        """With False, backward sees None where no gradient arrived, instead of zeros. TypeError unless it is a bool."""
        if value.__class__ is not bool:
            raise TypeError(f"set_materialize_grads received {type(value).__name__}, but expected (bool)")
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

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """Each of them in its place, to set hooks on."""
        return tuple(SavedTensor(self, place) for place in range(len(self._saved)))

    def saved_at(self, place: int) -> Any:
        """What is kept there: a tensor, a packed one, or None."""
        kept = self._saved[place]
        return self._restore(place, kept) if kept.__class__ is tuple else kept

    def keep_at(self, place: int, kept: Packed) -> None:
        """Put it there instead."""
        self._saved = (*self._saved[:place], kept, *self._saved[place + 1 :])

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
            check_version(value, self._saved_versions[number], self)
        return value

    def release_variables(self) -> None:
        if self._saved:
            self._saved = ()
            self._released = True

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        values = [self._as_tensor(number, grad, graph) for number, grad in enumerate(grads)]
        backward = self._forward_cls.backward
        results = backward(self, *values)
        if not isinstance(results, tuple):
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
                raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
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
        return None if dtype is None else tensor_impl.wrap(np.zeros(shape, dtype))

    def mark_shared_storage(self, *pairs: tuple[Any, Any]) -> None:
        """Nothing: which outputs share memory with inputs is known without being told, since PyTorch 0.4."""


def apply(cls: Any, node: FunctionNode, args: tuple, two_step: bool, forward: Any = None) -> Any:
    """Run a custom function's forward, or what stands for it, and connect its outputs to `node`."""
    recording = state.grad_mode
    tensors = {i: arg for i, arg in enumerate(args) if isinstance(arg, TensorImpl)}
    node.needs_input_grad = tuple(i in tensors and variable.requires_grad(tensors[i]) for i in range(len(args)))
    node._tensor_inputs = frozenset(tensors)
    wants = recording and any(node.needs_input_grad)
    edges = tuple(variable.gradient_edge(arg) if wants else None for arg in tensors.values())
    autograd_state.set_grad_enabled(False)
    try:
        if two_step:
            outputs = (forward or cls.forward)(*args)
            cls.setup_context(node, args, outputs)
        else:
            outputs = cls.forward(node, *args)
    finally:
        autograd_state.set_grad_enabled(recording)
    single = not isinstance(outputs, tuple)  # what is no tensor and no tuple is handed on as it is
    values = (outputs,) if single else outputs
    node._edges = edges
    node._sequence = next_sequence_nr()
    results = _connect(node, tensors, values, wants)
    if wants:
        _save(node, results, values)
        if state.anomaly:
            store_stack(node)
    node._to_save = ()
    return results[0] if single else tuple(results)


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
        version_counter(tensor).bump()
    for tensor in node._non_differentiable:
        if not isinstance(tensor, TensorImpl):
            kind = type(tensor).__name__
            raise RuntimeError(f"mark_non_differentiable only accepts variable arguments, but got {kind}")
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
    if plain or not wants:
        if not variable.requires_grad(value):
            return _alias(value) if is_input and not dirty else value
        if is_input:
            return value.detach()
        return value if value._view is not None else value.detach_()
    if dirty:
        variable.check_inplace(value)
        variable.rebase_history(value, edge)
        return value
    if is_input:
        value = _alias(value)
    if value._view is not None:
        value._view = (*value._view[:2], variable.IN_CUSTOM_FUNCTION, *value._view[3:])
    elif variable.requires_grad(value):
        value = value.detach()
    variable.set_history(value, edge)
    return value


def _alias(value: Any) -> Any:
    """An input returned as it is: a view of it, so that the input keeps its own history."""
    recording = state.grad_mode
    autograd_state.set_grad_enabled(False)
    try:
        result = dispatcher.autograd.alias(value)
    finally:
        autograd_state.set_grad_enabled(recording)
    if result._view is not None:
        result._view = (*result._view[:2], variable.IN_CUSTOM_FUNCTION)
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
            and variable.requires_grad(results[place])
            and variable.requires_grad(value)
            and variable.grad_fn(results[place]) is node
        ):
            counter = version_counter(results[place])
            saved.append((value._array, counter))
            versions.append(counter.value)
            outputs[number] = place
        elif value is not None and hooks:
            saved.append(Packed(value, hooks[-1]))
            versions.append(0)
        else:
            saved.append(value)
            versions.append(0 if value is None else current_version(value))
    node._saved, node._saved_versions, node._saved_outputs = tuple(saved), tuple(versions), outputs
