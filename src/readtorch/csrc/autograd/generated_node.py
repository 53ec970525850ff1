# Tangled from chapters/00_tensor/05a_place_in_the_graph.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import TENSOR_LIST, OperatorEntry
from readtorch.aten.op_math_type import FLOAT32, REDUCED, in_working_precision
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd.node import Node, next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed, SavedTensor, check_version, modified, released
from readtorch.csrc.autograd.variable import gradient_edge, requires_grad
from readtorch.csrc.utils.disable_torch_function import DisableTorchFunction, state
from readtorch.csrc.utils.gates import gates


class GeneratedNode(Node):
    """The node of a registered operator; `entry` is the operator.

    `_saved`: the tensors and then the shapes and dtypes that the formulas name; `_versions`: the versions of the tensors, None if all were 0;
    `_result`: the kept output arrays; `_options`: (args, kwargs) after the leading tensors, or the bound list of everything.
    """

    __slots__ = ("_options", "_result", "_saved", "_versions")
    entry: OperatorEntry
    _options: Any
    _result: Any
    _saved: Any
    _versions: Any
    _counters: dict[int, Any] | None = None
    _expected = 0
    _plan: list[tuple[tuple[int, ...] | None, Any, tuple[str, ...], bool]] | None = None

    def output_has_counter(self, number: int, counter: Any) -> None:
        if self.entry.derivative is not None and self.entry.derivative.outputs:
            self._counters = {**(self._counters or {}), number: counter}

    def release_variables(self) -> None:
        rule = self.entry.derivative
        assert rule is not None
        kept = any(value is not None for value in self._saved[: len(rule.saved)])
        kept = kept or (bool(rule.outputs) and self._result is not None)
        if kept:  # what is not needed by the gradients that were asked for was not kept: such a node can run again
            self._saved = self._result = None
            self._released = True

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        edges = self._edges
        first = grads[0] if len(grads) == 1 else next((grad for grad in grads if grad is not None), None)
        if first is None:
            return [None] * len(edges)
        if self._released:
            raise released(self.name())
        if graph and gates.up and state.subclasses:
            with DisableTorchFunction():  # a formula's operators are none that the user called
                return self.apply(grads, graph)
        key = DispatchKey.Autograd if graph else BACKENDS[first.__class__]
        at = dispatcher.autograd if graph else dispatcher.columns(key)
        if at is None:
            return self._on_tensors(grads)
        values = self._values(grads, graph)
        rule = self.entry.derivative
        assert rule is not None
        results: list[Any] = [None] * len(edges)
        for positions, formula, names, in_opmath in self._plan or self.plan():
            if key is DispatchKey.CUDA:
                formula = dispatcher.cuda.maker.function(formula)
            elif key is DispatchKey.Meta:
                formula = dispatcher.formula_on_meta(formula)
            if positions is not None and len(positions) > 1 and "mask" not in self.entry.schema.names:
                values["mask"] = tuple(edges[i] is not None for i in positions)
            arguments: Any = map(values.__getitem__, names)
            if in_opmath and (narrow := (first._array if graph else first).dtype).itemsize == 2:
                arguments = [_widened(at, value) for value in arguments]
                formula = _rounding(formula, narrow)
            if positions is None:
                return list(formula(at, *arguments))
            if len(positions) == 1:
                position = positions[0]
                if edges[position] is not None:
                    results[position] = formula(at, *arguments)
            elif any(edges[i] is not None for i in positions):
                for i, grad in zip(positions, formula(at, *arguments), strict=True):
                    results[i] = grad if edges[i] is not None else None
        if graph and rule.opaque is not None:
            kept = [*rule.saved, *[self.entry.outputs[i] for i in rule.outputs]]
            return leading_to(self, results, [values[name] for name in kept], rule.opaque)
        return results

    def _on_tensors(self, grads: list[Any]) -> list[Any]:
        """The formulas on tensors, for raw values that know no arithmetic. Nothing is recorded: the engine has switched that off."""
        results = self.apply([None if grad is None else tensor_impl.wrap(grad) for grad in grads], True)
        return [None if result is None else result._array for result in results]

    @classmethod
    def plan(cls) -> list[tuple[tuple[int, ...] | None, Any, tuple[str, ...], bool]]:
        """For each formula: which edges it serves (None: all of them, one per tensor of a list), the names it wants, and whether it is one kernel."""
        if cls._plan is None:
            rule, schema = cls.entry.derivative, cls.entry.schema
            assert rule is not None
            order = [name for name in schema.names if name in rule.differentiable]
            found = []
            for key, formula in rule.formulas.items():
                is_list = len(key) == 1 and schema.kinds[schema.names.index(key[0])] is TENSOR_LIST
                positions = None if is_list else tuple(order.index(name) for name in key)
                found.append((positions, formula, rule.needs[key], key in rule.in_opmath))
            cls._plan = found  # at once: another thread may walk a graph with such nodes, too
        return cls._plan

    def _values(self, grads: list[Any], graph: bool) -> dict[str, Any]:
        entry, rule = self.entry, self.entry.derivative
        assert rule is not None
        values: dict[str, Any] = {"grad": grads[0], "grads": grads}
        versions = self._versions
        for i, name in enumerate(rule.saved):
            values[name] = _unpack(self._saved[i], 0 if versions is None else versions[i], graph, self)
        if rule.metas:
            for (name, what), value in zip(rule.metas, self._saved[len(rule.saved) :], strict=True):
                values[f"{name}_{what}"] = value
        for i, number in enumerate(rule.outputs):
            array = self._result[i] if len(rule.outputs) > 1 else self._result
            values[entry.outputs[number]] = self._output(array, number, graph)
        if rule.options:
            bound = self._bound_options()
            for name in bound:
                values.setdefault(name, bound[name])
        return values

    def _bound_options(self) -> dict[str, Any]:
        schema, options = self.entry.schema, self._options
        names = schema.names if schema.var_positional is None else (*schema.names, schema.var_positional)
        if options is None:
            values: list[Any] = schema.bind(self.entry.name, (None,) * (schema.leading or 0), {})
        elif options.__class__ is tuple:
            values = schema.bind(self.entry.name, (None,) * (schema.leading or 0) + options[0], options[1])
        else:
            values = options
        return dict(zip(names, values, strict=True))

    def _output(self, array: Any, number: int, graph: bool) -> Any:
        if array is None:  # not kept, since no formula that will be asked uses it: it may have been written to
            return None
        packed = array.__class__ is Packed
        if packed:  # a hook may give back anything, so no version is compared
            array = array.restore()._array
        counter = self._counters.get(number) if self._counters and not packed else None
        if counter is not None and counter.value != self._expected:
            if self.entry.remakes:
                return None
            raise modified(array, (self, number), counter.value, self._expected)
        if not graph:
            return array
        shown = self.entry.differentiable_outputs
        differentiable = array.dtype.kind in "fcV" and (shown is None or number in shown)
        return tensor_impl.wrap(array, (self if self._count == 1 else (self, number)) if differentiable else None)

    def shown(self) -> Node:
        """This node. Upstream counts the overloads of an operator: `x.sum(0)` leaves a `SumBackward1`."""
        choose = self.entry.overload
        if choose is not None and not self._released:
            rule = self.entry.derivative
            saved = {} if rule is None else dict(zip(rule.saved, self._saved, strict=False))
            self.__class__ = _overload_class(type(self), choose({**self._bound_options(), **saved}))
        return self

    def become_inplace(self) -> None:
        """Upstream numbers the in-place forms of a view after the others: `x.t_()` leaves a `TBackward1`."""
        cls: Any = type(self.shown())
        name, number = cls.__name__[:-1], int(cls.__name__[-1])
        forms = 3 if name == "SqueezeBackward" else 1
        self.__class__ = _overload_class(cls, f"{name}{number + forms}", shown=lambda self: self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return self._saved_attribute(name.removeprefix("_saved_"))
        if name.startswith("_raw_saved_"):
            return self._raw_saved_attribute(name.removeprefix("_raw_saved_"))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _saved_attribute(self, name: str) -> Any:
        if self._released:
            raise released(self.name())
        values = self._values([None] * self._count, True)
        if name not in values or name in ("grad", "grads", "mask"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '_saved_{name}'")
        return values[name]

    def _raw_saved_attribute(self, name: str) -> SavedTensor:
        rule = self.entry.derivative
        assert rule is not None
        if name in rule.saved:
            return SavedTensor(self, rule.saved.index(name))
        for place, number in enumerate(rule.outputs, len(rule.saved)):
            if self.entry.outputs[number] == name:
                return SavedTensor(self, place)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '_raw_saved_{name}'")

    def saved_at(self, place: int) -> Any:
        """What is kept for an input, or for an output, whose places come after those of the inputs."""
        rule = self.entry.derivative
        assert rule is not None
        output = place - len(rule.saved)
        if output < 0:
            return self._saved[place]
        kept = self._result[output] if len(rule.outputs) > 1 else self._result
        if kept is None or kept.__class__ is Packed:
            return kept
        return self._output(kept, rule.outputs[output], True)

    def keep_at(self, place: int, kept: Packed) -> None:
        """Put it there instead."""
        rule = self.entry.derivative
        assert rule is not None
        output = place - len(rule.saved)
        if output < 0:
            self._saved = (*self._saved[:place], kept, *self._saved[place + 1 :])
        elif len(rule.outputs) > 1:
            self._result[output] = kept
        else:
            self._result = kept


def _unpack(value: Any, version: Any, graph: bool, keeper: Node) -> Any:
    if value.__class__ is Packed:
        value = value.restore()
    elif isinstance(value, tensor_impl.TensorImpl):
        check_version(value, version, keeper)
    elif value.__class__ is list:
        return [_unpack(*pair, graph, keeper) for pair in zip(value, version or repeat(0), strict=False)]
    else:
        return value
    return value if graph else value._array


def _widened(at: Any, value: Any) -> Any:
    """What one kernel computes with: floats of 16 bits as float32."""
    if value.__class__ is list:
        return [_widened(at, one) for one in value]
    if isinstance(value, tensor_impl.TensorImpl):
        return at._to_copy(value, FLOAT32) if value._array.dtype in REDUCED else value
    return in_working_precision(value) if hasattr(value, "astype") else value


def _rounding(formula: Callable[..., Any], narrow: Any) -> Callable[..., Any]:
    """The formula, with its result rounded to 16 bits; several results are left to the engine."""

    def rounded(at: Any, *arguments: Any) -> Any:
        result = formula(at, *arguments)
        return result if isinstance(result, tuple | list) else at._to_copy(result, narrow)

    return rounded


_overload_classes: dict[tuple[Any, str], type[GeneratedNode]] = {}


def _overload_class(cls: type[GeneratedNode], name: str, **members: Any) -> type[GeneratedNode]:
    if cls.__name__ == name:
        return cls
    found = _overload_classes.get((cls, name))
    if found is None:
        found = type(name, (cls,), {"__slots__": (), "__module__": "torch.autograd", **members})
        _overload_classes[cls, name] = found
    return found


def node_class(entry: OperatorEntry) -> type[GeneratedNode]:
    """The class of the operator's nodes."""
    return type(entry.node_name, (GeneratedNode,), {"__slots__": (), "entry": entry, "__module__": "torch.autograd"})


class OpaqueNode(Node):
    """Leads from a gradient to tensors that it does not change with, where upstream's does; see the dispatcher's `opaque`."""

    __slots__ = ("forward", "kept", "zero")

    def __init__(self, forward: str, gradient: Any, kept: list[Any], zero: bool) -> None:
        self.forward, self.kept, self.zero = forward, kept, zero
        self._edges = tuple(gradient_edge(tensor) for tensor in (gradient, *kept))
        self._sequence = next_sequence_nr()
        self._shape, self._dtype = gradient._array.shape, gradient._array.dtype

    def name(self) -> str:
        return self.forward.replace("Backward", "BackwardBackward")

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        if self._released:
            raise released(self.name())
        grad = grads[0]
        if grad is None or not self.zero:
            return [grad, *[None] * len(self.kept)]
        if graph:
            return [grad, *[dispatcher.autograd.zeros_like(tensor) for tensor in self.kept]]
        at = dispatcher.columns(BACKENDS[grad.__class__])
        assert at is not None
        return [grad, *[at.zeros_like(tensor._array) for tensor in self.kept]]

    def release_variables(self) -> None:
        self.kept, self._released = [], True


def leading_to(node: Node, gradients: list[Any], kept: list[Any], zero: bool) -> list[Any]:
    """The gradients that `node` computed, each with a path to those of the kept tensors that require a gradient."""
    kept = [value for value in kept if isinstance(value, TensorImpl) and requires_grad(value)]
    if not kept:
        return gradients
    return [
        None if one is None else tensor_impl.wrap(one._array, OpaqueNode(node.name(), one, kept, zero))
        for one in gradients
    ]
