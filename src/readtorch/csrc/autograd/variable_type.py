# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.autocast_mode import FLOAT32_ON_CPU, LOW_ON_CUDA
from readtorch.aten.core.dispatch.dispatcher import add_sparse_listener, autograd, lookup, operators
from readtorch.aten.core.dispatch.operator_entry import OPTION, TENSOR, TENSOR_LIST, OperatorEntry, Schema
from readtorch.aten.expand_utils import infer_size, is_expandable_to
from readtorch.aten.functorch.dynamic_layer import GO_ON, dispatch
from readtorch.aten.functorch.tensor_wrapper import WrappedArray, is_wrapped
from readtorch.aten.memory_overlap import (
    assert_no_internal_overlap,
    assert_no_overlap,
    assert_no_partial_overlap,
    has_internal_overlap,
    have_one_owner,
)
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, dense_of
from readtorch.aten.tensor_iterator import fitting, ignore_floating_errors, restore_floating_errors
from readtorch.aten.tensor_iterator import shapes as broadcast_shape
from readtorch.c10.core import autograd_state, scalar_type, tensor_impl
from readtorch.c10.core.autograd_state import counts, state
from readtorch.c10.core.device_guard import STREAMS, device_guard
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey, MetaArray, device_of
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.scalar_type import can_cast, to_numpy_dtype, to_string
from readtorch.c10.core.tensor_impl import (
    INFERENCE,
    TensorImpl,
    current_version,
    is_inference,
    new,
    special,
    version_counter,
)
from readtorch.csrc.autograd.anomaly_mode import store_stack
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.generated_node import GeneratedNode, node_class
from readtorch.csrc.autograd.node import Node, next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed, refuse_saving
from readtorch.csrc.autograd.variable import (
    DEFAULT,
    INFERENCE_MODE,
    MULTI_OUTPUT_NODE,
    NO_GRAD_MODE,
    check_inplace,
    gradient_edge,
    make_view,
    rebase_history,
    requires_grad,
)
from readtorch.csrc.autograd.variable_type_utils import assign, with_out
from readtorch.csrc.utils.disable_torch_function import TENSORS
from readtorch.csrc.utils.gates import NOBODY, first_contact
from readtorch.csrc.utils.python_arg_parser import (
    complain,
    in_new_order,
    option_check,
    require,
    shown,
    type_name,
    wrong_kind,
)

ndarray = np.ndarray
now = time.perf_counter_ns
Call = Callable[..., Any]

#: what Python calls a number, and NumPy's scalars, which stand for one
NUMBERS = frozenset((float, int, bool, complex))

#: stands for a tensor that the call names by keyword, or forgot
MISSING = object()
#: stands for the edge of a tensor that requires gradients and has nowhere to send them
NOWHERE: Any = object()


def _asks_nobody(*tensors: Any) -> bool:
    """Are these tensors, of which one does not know its edge, in a call that needs none because nothing is recorded?"""
    return not state.grad_mode and all(isinstance(tensor, TensorImpl) for tensor in tensors)


def given(*values: Any) -> tuple:
    """The values that are there."""
    return tuple(value for value in values if value is not MISSING)


def leading(entry: OperatorEntry) -> Call:
    """The operator for tensors in front and options behind."""
    cpu_kernel = entry.kernels[DispatchKey.CPU]
    record = Recorder(entry)
    differentiable = record.differentiable
    make_node = record.leading if differentiable else None
    name = f"aten::{entry.name}"
    count = entry.schema.leading
    check, first_option = option_check(entry, count or 0)

    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if kwargs and entry.out and "out" in kwargs:
            return with_out(entry, call, args, kwargs)
        if counts.special and state.autocast is not None and entry.autocast:
            args, kwargs = autocast(entry, args, kwargs)
        tensors, options = args[:count], args[count:]
        try:
            arrays = [tensor._array for tensor in tensors]
        except AttributeError:
            if (answer := first_contact(entry, args, kwargs)) is not NOBODY:
                return answer
            tensors, options, kwargs = take_tensors(entry, args, kwargs)
            arrays = [tensor._array for tensor in tensors]
        if len(arrays) != count:
            tensors, options, kwargs = take_tensors(entry, args, kwargs)
            arrays = [tensor._array for tensor in tensors]
        if check is not None and (kwargs or len(options) > first_option):
            options, kwargs = check(options, kwargs)
        kernel = cpu_kernel
        for array in arrays:
            if array.__class__ is not ndarray:
                if (key := common_backend(arrays)) in entry.forms:
                    return entry.forms[key](*tensors, *options, **kwargs)
                if key in TRANSFORMED and (answer := transformed(entry, (*tensors, *options), kwargs)) is not GO_ON:
                    return answer
                kernel = lookup(entry, key)
                break
        else:
            if counts.special and state.layers:
                return transformed(entry, (*tensors, *options), kwargs)
        token = ignore_floating_errors()
        try:
            raw = kernel(*arrays, *options, **kwargs)
        except Exception:
            complain(entry, (*tensors, *options), kwargs)
            raise
        finally:
            restore_floating_errors(token)
        node = None
        if differentiable and (not counts.grad_off or state.grad_mode):
            for tensor in tensors:
                if requires_grad(tensor):
                    node = make_node(tensors, options, kwargs, raw)  # type: ignore[misc]  # called only where there is one
                    break
        if raw.__class__ is ndarray and not counts.special:
            result = new(tensor_impl.Tensor)
            result._array = raw
            result._edge = node
            result._vc = None
            result._view = None
            result._grad = None
            result._meta = None
        else:
            result = give(entry, raw, node)
        if observer is not None:
            observer.operator(name, args, result, begin, now())
        return result

    return call


def leading_one(entry: OperatorEntry) -> Call:
    """`leading` for operators of one tensor."""
    kernel = entry.kernels[DispatchKey.CPU]
    record = Recorder(entry)
    differentiable = record.differentiable
    rule = record.rule
    keep = rule is not None and bool(rule.saved)
    keep_shape = rule is not None and rule.metas == ((entry.schema.names[0], "shape"),)
    simple = rule is not None and (not rule.metas or keep_shape)
    keep_result = rule is not None and bool(rule.outputs)
    node_type = record.node_class if differentiable else None
    slow = leading(entry)
    name = f"aten::{entry.name}"
    check, first_option = option_check(entry, 1)

    def call(input: Any = MISSING, *args: Any, **kwargs: Any) -> Any:
        if counts.special or (kwargs and "out" in kwargs):
            return slow(*given(input), *args, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            array = input._array
            edge = input._edge
        except AttributeError:
            if not _asks_nobody(input):
                return slow(*given(input), *args, **kwargs)
            array, edge = input._array, None
        if array.__class__ is not ndarray:
            return slow(input, *args, **kwargs)
        if check is not None and (kwargs or len(args) > first_option):
            args, kwargs = check(args, kwargs)
        token = ignore_floating_errors()
        try:
            raw = kernel(array, *args, **kwargs)
        except Exception:
            complain(entry, (input, *args), kwargs)
            raise
        finally:
            restore_floating_errors(token)
        node = None
        if raw.__class__ is not ndarray:
            if raw.__class__ is list or raw.__class__ is tuple:
                if edge is not None and differentiable and (not counts.grad_off or state.grad_mode):
                    node = record.leading((input,), args, kwargs, raw)
                result = _give_several(entry, raw, node)
                if observer is not None:
                    observer.operator(name, (input, *args), result, begin, now())
                return result
            if isinstance(raw, np.generic):
                raw = np.asarray(raw)
        if edge is not None and differentiable and (not counts.grad_off or state.grad_mode):
            if simple:
                node = new(node_type)
                node._edges = (edge,)
                node._sequence = next_sequence_nr()
                node._options = (args, kwargs) if args or kwargs else None
                counter = input._vc
                if keep:
                    if input._meta is not None:
                        refuse_saving(input)
                    node._saved = (input, array.shape) if keep_shape else (input,)
                    node._versions = None if counter is None else (counter.value,)
                else:
                    node._saved = (array.shape,) if keep_shape else ()
                    node._versions = None
                node._result = raw if keep_result else None
                node._shape = raw.shape
                node._dtype = raw.dtype
            else:
                node = record.leading((input,), args, kwargs, raw)
        result = new(tensor_impl.Tensor)
        result._array = raw
        result._edge = node
        result._vc = None
        result._view = None
        result._grad = None
        result._meta = None
        if observer is not None:
            observer.operator(name, (input, *args), result, begin, now())
        return result

    return call


def leading_two(entry: OperatorEntry) -> Call:
    """`leading` for operators of two tensors: `mm`, `dot`, `gather`'s like."""
    kernel = entry.kernels[DispatchKey.CPU]
    record = Recorder(entry)
    differentiable = record.differentiable
    rule = record.rule
    names = entry.schema.names[:2]
    crosswise = False
    if (
        rule is not None
        and not rule.metas
        and rule.saved == names
        and len(record.positions) == 2
        and not record.outputs
    ):
        crosswise = all(rule.wanted_by[name] == (other,) for name, other in zip(names, names[::-1], strict=True))
    node_type = record.node_class if differentiable else None
    slow = leading(entry)
    name = f"aten::{entry.name}"
    check, first_option = option_check(entry, 2)

    def call(input: Any = MISSING, other: Any = MISSING, *args: Any, **kwargs: Any) -> Any:
        if counts.special or (kwargs and "out" in kwargs):
            return slow(*given(input, other), *args, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            first, second = input._array, other._array
            a, b = input._edge, other._edge
        except AttributeError:
            if not _asks_nobody(input, other):
                return slow(*given(input, other), *args, **kwargs)
            first, second, a, b = input._array, other._array, None, None
        if first.__class__ is not ndarray or second.__class__ is not ndarray:
            return slow(input, other, *args, **kwargs)
        if check is not None and (kwargs or len(args) > first_option):
            args, kwargs = check(args, kwargs)
        token = ignore_floating_errors()
        try:
            raw = kernel(first, second, *args, **kwargs)
        except Exception:
            complain(entry, (input, other, *args), kwargs)
            raise
        finally:
            restore_floating_errors(token)
        node = None
        if (a is not None or b is not None) and differentiable and (not counts.grad_off or state.grad_mode):
            if crosswise:
                node = new(node_type)
                node._edges = (a, b)
                node._sequence = next_sequence_nr()
                node._options = (args, kwargs) if args or kwargs else None
                if input._meta is not None or other._meta is not None:
                    refuse_saving(input if b is not None else None, other if a is not None else None)
                node._saved = (input if b is not None else None, other if a is not None else None)
                plain = input._vc is None and other._vc is None
                node._versions = None if plain else (current_version(input), current_version(other))
                node._result = None
                node._shape = raw.shape
                node._dtype = raw.dtype
            else:
                node = record.leading((input, other), args, kwargs, raw)
        result = give(entry, raw, node)
        if observer is not None:
            observer.operator(name, (input, other, *args), result, begin, now())
        return result

    return call


def leading_list(entry: OperatorEntry) -> Call:
    """The operator for a list of tensors in front and options behind."""
    kernel = entry.kernels[DispatchKey.CPU]
    record = Recorder(entry)
    rule = record.rule
    simple = (
        rule is not None and not rule.saved and rule.metas == ((entry.schema.names[0], "shape"),) and not rule.outputs
    )
    slow = general(entry)
    node_type = record.node_class if simple else None
    name = f"aten::{entry.name}"
    check, first_option = option_check(entry, 1)

    def call(tensors: Any = MISSING, *args: Any, **kwargs: Any) -> Any:
        if counts.special or not simple or (kwargs and "out" in kwargs) or tensors.__class__ not in (list, tuple):
            return slow(*given(tensors), *args, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            arrays = [tensor._array for tensor in tensors]
            edges = tuple([tensor._edge for tensor in tensors])
        except AttributeError:
            return slow(tensors, *args, **kwargs)
        for array in arrays:
            if array.__class__ is not ndarray:
                return slow(tensors, *args, **kwargs)
        if check is not None and (kwargs or len(args) > first_option):
            args, kwargs = check(args, kwargs)
        token = ignore_floating_errors()
        try:
            raw = kernel(arrays, *args, **kwargs)
        except Exception:
            complain(entry, (tensors, *args), kwargs)
            raise
        finally:
            restore_floating_errors(token)
        node = None
        if not counts.grad_off or state.grad_mode:
            for edge in edges:
                if edge is not None:
                    node = new(node_type)
                    node._edges = edges
                    node._sequence = next_sequence_nr()
                    node._options = entry.schema.bind(entry.name, (None, *args), kwargs)
                    node._saved = ([array.shape for array in arrays],)
                    node._versions = node._result = None
                    node._shape = raw.shape
                    node._dtype = raw.dtype
                    break
        result = give(entry, raw, node)
        if observer is not None:
            observer.operator(name, (tensors, *args), result, begin, now())
        return result

    return call


def take_tensors(entry: OperatorEntry, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, tuple, dict[str, Any]]:
    """Split a call into tensors, options and keywords. TypeError names the argument that is no tensor."""
    args, kwargs = in_new_order(entry.name, args, kwargs) or (args, kwargs)
    complain(entry, args, kwargs)
    kwargs = dict(kwargs)
    names = entry.schema.names[: entry.schema.leading or 0]
    values = list(args[: len(names)])
    values.extend(kwargs.pop(name if name in kwargs else "input") for name in names[len(values) :])
    return tuple(values), args[len(names) :], kwargs


def not_a_tensor(entry: OperatorEntry, position: int, value: Any) -> TypeError:
    """The error for a value where a tensor belongs."""
    return wrong_kind(entry, entry.schema.names[position], value)


#: the columns of tensors inside function transforms: they stand before those of devices
TRANSFORMED = (DispatchKey.FuncTorchBatched, DispatchKey.FuncTorchGradWrapper)


def common_backend(arrays: list[Any]) -> DispatchKey:
    """The one column that all these arrays belong to. RuntimeError if they lie on different devices."""
    key, found = DispatchKey.Undefined, None
    for array in arrays:
        if array is None:
            continue
        where = device_of(array)
        if BACKENDS.get(array.__class__) in TRANSFORMED:
            return BACKENDS[array.__class__]
        if found is not None and where != found:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {found} and {where}!"
            )
        key, found = max(key, BACKENDS[array.__class__]), where
    return key


def transformed(entry: OperatorEntry, args: tuple, kwargs: dict[str, Any], method: str = "") -> Any:
    """What a function transform makes of this call; GO_ON where the rest of the ordinary path is to be taken."""
    call = getattr(autograd, method) if method else entry.call
    return dispatch(entry, call, args, kwargs, method)


def copy_of(array: Any) -> Any:
    """A copy of an array, on its device."""
    if array.__class__ is ndarray:
        return array.copy()
    with device_guard(array):
        return array.copy()


def brought(source: Any, array: Any, non_blocking: bool) -> Any:
    """`source` on the device of `array`: the one operator that takes tensors of two devices is `copy_`."""
    if source._array.__class__ is ndarray is array.__class__:
        return source
    if (source._array.__class__ in LAYOUT_OF) != (array.__class__ in LAYOUT_OF):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Use to_dense() or to_sparse() first."
        )
    here, there = device_of(source._array), device_of(array)
    if here == there or "meta" in (here.type, there.type):
        return source
    return operators["_to_device"].call(source, there, here, non_blocking)


class Recorder:
    """Makes an operator's nodes."""

    __slots__ = (
        "differentiable",
        "entry",
        "node_class",
        "one",
        "outputs",
        "plain",
        "positions",
        "result_for",
        "rule",
        "saved",
    )

    def __init__(self, entry: OperatorEntry) -> None:
        rule = entry.derivative
        self.entry = entry
        self.rule = rule
        self.differentiable = rule is not None
        self.node_class: Any = None
        if rule is None:
            return
        names = entry.schema.names
        self.node_class = node_class(entry)
        #: positions of the parameters that get an edge
        self.positions = [i for i, name in enumerate(names) if name in rule.differentiable]
        #: for each kept tensor: its position, and the positions of the parameters whose gradient needs it
        self.saved = [
            (names.index(name), [names.index(other) for other in rule.wanted_by[name]]) for name in rule.saved
        ]
        self.outputs = rule.outputs
        asked = {name for key, needs in rule.needs.items() if set(needs) & set(entry.outputs) for name in key}
        lists = any(entry.schema.kinds[position] is TENSOR_LIST for position in self.positions)
        #: places among the edges whose gradient needs the result; None with lists of tensors, which have an edge for each
        self.result_for = None if lists else [i for i, p in enumerate(self.positions) if names[p] in asked]
        self.plain = not self.saved and not rule.metas
        #: one tensor, kept whole or not at all
        self.one = entry.schema.leading == 1 and not rule.metas

    def leading(self, tensors: tuple, options: tuple, kwargs: dict[str, Any], raw: Any) -> GeneratedNode:
        """The node of a call whose tensors all stand in front."""
        if not self.one:
            node = self.bound(tensors, raw)
            node._options = (options, kwargs) if options or kwargs else None
            return node
        node = new(self.node_class)
        tensor = tensors[0]
        node._edges = (gradient_edge(tensor),)
        node._sequence = next_sequence_nr()
        node._options = (options, kwargs) if options or kwargs else None
        node._versions = None
        if self.saved:
            if tensor._meta is not None:
                refuse_saving(tensor)
            node._saved = tensors
            if tensor._vc is not None:
                node._versions = (tensor._vc.value,)
        else:
            node._saved = ()
        self._describe(node, raw)
        return node

    def bound(self, values: Any, raw: Any) -> GeneratedNode:
        """The node of a call, given the value of every parameter."""
        node = new(self.node_class)
        edges: list[Any] = []
        for position in self.positions:
            value = values[position]
            if isinstance(value, TensorImpl):
                edges.append(gradient_edge(value))
            elif value.__class__ in (list, tuple):
                edges.extend(gradient_edge(item) for item in value)
            else:
                edges.append(None)
        node._edges = tuple(edges)
        node._sequence = next_sequence_nr()
        node._options = values
        self._save(node, values)
        self._describe(node, raw)
        return node

    def _save(self, node: GeneratedNode, values: Any) -> None:
        rule = self.rule
        assert rule is not None
        saved: list[Any] = []
        versions: list[Any] = []
        alone = len(self.positions) == 1
        for position, wanted_by in self.saved:
            value = values[position]
            version: Any = 0
            if value is None:
                pass
            elif value.__class__ in (list, tuple):
                value = list(value)
                refuse_saving(*value)
                version = [0 if item is None else current_version(item) for item in value]
            else:
                for other in wanted_by:
                    if alone or _leads_on(values[other]):
                        if isinstance(value, TensorImpl):
                            if value._meta is not None:
                                refuse_saving(value)
                            if value._vc is not None:
                                version = value._vc.value
                        break
                else:
                    value = None
            saved.append(value)
            versions.append(version)
        for name, what in rule.metas:
            value = values[self.entry.schema.names.index(name)]
            saved.append([_meta(v, what) for v in value] if value.__class__ in (list, tuple) else _meta(value, what))
        node._saved = tuple(saved)
        node._versions = versions

    def _describe(self, node: GeneratedNode, raw: Any) -> None:
        outputs = self.outputs
        if raw.__class__ in (tuple, list):
            shown_outputs = self.entry.differentiable_outputs or range(len(raw))
            if len(shown_outputs) == 1:
                first = raw[shown_outputs[0]]
                node._shape, node._dtype = first.shape, first.dtype
            else:
                node._count = len(shown_outputs)
                node._shape = [raw[i].shape for i in shown_outputs]
                node._dtype = [raw[i].dtype for i in shown_outputs]
            node._result = raw[outputs[0]] if len(outputs) == 1 else [array_again(raw[i]) for i in outputs]
        else:
            node._shape = raw.shape
            node._dtype = raw.dtype
            node._result = raw if outputs and self._wants_result(node) else None
            if raw.__class__ in STREAMS:
                node._stream = STREAMS[raw.__class__](raw)
        if counts.special:
            special_node(node)

    def _wants_result(self, node: GeneratedNode) -> bool:
        """Does a formula that will be asked use the result? A power's does for the exponent, which is mostly a number."""
        if self.result_for is None or len(self.positions) == 1:
            return True
        return any(node._edges[place] is not None for place in self.result_for)


def array_again(value: Any) -> Any:
    """NumPy's functions return scalars for 0-d results; here they are arrays again."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _wants_grad(value: Any) -> bool:
    if isinstance(value, TensorImpl):
        return requires_grad(value)
    return value.__class__ in (list, tuple) and any(_wants_grad(item) for item in value)


def _leads_on(value: Any) -> bool:
    """Will anybody ask for the gradient of this argument?"""
    if isinstance(value, TensorImpl):
        return gradient_edge(value) is not None
    return value.__class__ in (list, tuple) and any(_leads_on(item) for item in value)


def _meta(value: Any, what: str) -> Any:
    if not isinstance(value, TensorImpl):
        return None if value is None else ()
    if what == "geometry":
        return tuple(value.shape), value.stride(), value.storage_offset()
    return getattr(value._array, what)


def special_node(node: GeneratedNode) -> None:
    """What anomaly mode and saved-tensor hooks want of a new node."""
    if state.anomaly:
        store_stack(node)
    hooks = state.saved_tensor_hooks
    if not hooks:
        return
    innermost = hooks[-1]
    node._saved = tuple(Packed(value, innermost) if isinstance(value, TensorImpl) else value for value in node._saved)
    if isinstance(node._result, list):
        node._result = [Packed(tensor_impl.wrap(array), innermost) for array in node._result]
    elif node._result is not None:
        node._result = Packed(tensor_impl.wrap(array_again(node._result)), innermost)


def is_any_wrapped(values: Any) -> bool:
    """Is there a tensor of a function transform among these?"""
    for value in values:
        if isinstance(value, TensorImpl):
            if value._array.__class__ is not ndarray and isinstance(value._array, WrappedArray):
                return True
        elif value.__class__ in (list, tuple) and is_any_wrapped(value):
            return True
    return False


def give(entry: OperatorEntry, raw: Any, node: Any) -> Any:
    """The operator's raw results as tensors that know their node."""
    if raw.__class__ is tuple or raw.__class__ is list:
        return _give_several(entry, raw, node)
    if raw.__class__ is not ndarray and isinstance(raw, np.generic):
        raw = np.asarray(raw)
    tensor = new(tensor_impl.Tensor)
    tensor._array = raw
    tensor._edge = node
    tensor._vc = None
    tensor._view = None
    tensor._grad = None
    tensor._meta = None
    return special(tensor) if counts.special else tensor


def _give_several(entry: OperatorEntry, raw: Any, node: GeneratedNode | None) -> Any:
    shown_outputs = entry.differentiable_outputs
    results = []
    for i, array in enumerate(raw):
        if array.__class__ is not ndarray and not hasattr(array, "dtype"):
            results.append(array)
            continue
        edge: Any = None
        if node is not None and (shown_outputs is None or i in shown_outputs):
            number = i if shown_outputs is None else shown_outputs.index(i)
            edge = node if number == 0 else (node, number)
        results.append(give(entry, array, edge))
    return entry.result_class(results) if entry.result_class is not None else tuple(results)


def check_cast(source: np.dtype, target: np.dtype) -> None:
    """RuntimeError if a result of type `source` must not be stored as `target`."""
    if source is not target and source != target:
        a, b = scalar_type.FROM_NUMPY[source], scalar_type.FROM_NUMPY[target]
        if not can_cast(a, b):
            raise RuntimeError(f"result type {to_string(a)} can't be cast to the desired output type {to_string(b)}")


def unary(entry: OperatorEntry) -> Call:
    """A pointwise operator with one tensor and no options."""
    ufunc = entry.pointwise.ufunc
    boolean = entry.pointwise.boolean
    refused = entry.pointwise.refused_chars()
    record = Recorder(entry)
    differentiable = record.differentiable
    keep_input = differentiable and bool(record.saved)
    keep_result = differentiable and bool(record.outputs)
    node_type = record.node_class if differentiable else None
    slow = leading(entry)
    name = f"aten::{entry.name}"

    def call(input: Any = MISSING, *rest: Any, **kwargs: Any) -> Any:
        if kwargs or rest or counts.special:
            if rest:
                complain(entry, (input, *rest), kwargs)
            return slow(*given(input), **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            array = input._array
            edge = input._edge
        except AttributeError:
            if not _asks_nobody(input):
                return slow(*given(input))
            array, edge = input._array, None
        if array.__class__ is not ndarray or (refused and array.dtype.char in refused):
            return slow(input)
        token = ignore_floating_errors()
        try:
            raw = ufunc(array)
        except MemoryError:
            return slow(input)
        finally:
            restore_floating_errors(token)
        if raw.dtype is not array.dtype and not boolean:
            return slow(input)
        if raw.__class__ is not ndarray:
            raw = np.asarray(raw)
        tensor = new(tensor_impl.Tensor)
        tensor._array = raw
        if edge is not None and differentiable and (not counts.grad_off or state.grad_mode):
            node = new(node_type)
            node._edges = (edge,)
            node._sequence = next_sequence_nr()
            node._options = None
            if keep_input and input._meta is not None:
                refuse_saving(input)
            node._saved = (input,) if keep_input else ()
            counter = input._vc
            node._versions = None if counter is None else (counter.value,)
            node._result = raw if keep_result else None
            node._shape = raw.shape
            node._dtype = raw.dtype
            tensor._edge = node
        else:
            tensor._edge = None
        tensor._vc = None
        tensor._view = None
        tensor._grad = None
        tensor._meta = None
        if observer is not None:
            observer.operator(name, (input,), tensor, begin, now())
        return tensor

    return call


def binary(entry: OperatorEntry, reject: Callable[[OperatorEntry, int, Any], Any] = not_a_tensor) -> Call:
    """A pointwise operator with two operands, of which either may be a Python number.

    `reject` says what to do with an operand that is neither tensor nor number: the default makes a TypeError; Python's operators
    return NotImplemented.
    """
    ufunc = entry.pointwise.ufunc
    boolean = entry.pointwise.boolean
    refused = entry.pointwise.refused_chars()
    record = Recorder(entry)
    differentiable = record.differentiable
    rule = record.rule
    left, right = entry.schema.names[:2]
    keep_first = rule is not None and left in rule.saved
    keep_second = rule is not None and right in rule.saved
    first_for = rule.wanted_by.get(left, ()) if rule is not None else ()
    second_for = rule.wanted_by.get(right, ()) if rule is not None else ()
    crosswise = first_for in ((), (right,)) and second_for in ((), (left,))
    first_for_first, second_for_second = left in first_for, right in second_for
    numbers = "second" in entry.numbers
    keeps_numbers = entry.pointwise.keeps_numbers
    keep_result = differentiable and bool(record.outputs)
    result_for_first = rule is not None and any(
        left in key and not set(entry.outputs).isdisjoint(rule.needs[key]) for key in rule.formulas
    )
    node_type = record.node_class if differentiable else None
    slow = binary_slow(entry, record, reject)
    name = f"aten::{entry.name}"

    def call(input: Any = MISSING, other: Any = MISSING, *rest: Any, **kwargs: Any) -> Any:
        if kwargs or rest or counts.special:
            return slow(input, other, *rest, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            a = input._array
            first = input._edge
            if other.__class__ in NUMBERS:
                if not numbers or (refused and other.__class__ is bool) or (keeps_numbers and a.itemsize == 2):
                    return slow(input, other)
                b = other
                second = None
            else:
                b = other._array
                second = other._edge
                if b.dtype is not a.dtype or b.__class__ is not ndarray:
                    return slow(input, other)
        except AttributeError:
            number = other.__class__ in NUMBERS
            if not (_asks_nobody(input) if number else _asks_nobody(input, other)):
                return slow(input, other)
            a, b = input._array, other if number else other._array
            first = second = None
            if not number and (b.dtype is not a.dtype or b.__class__ is not ndarray):
                return slow(input, other)
        if a.__class__ is not ndarray or (refused and a.dtype.char in refused):
            return slow(input, other)
        token = ignore_floating_errors()
        try:
            raw = ufunc(a, b)
        except (ValueError, OverflowError, TypeError, MemoryError):
            return slow(input, other)
        finally:
            restore_floating_errors(token)
        if raw.dtype is not a.dtype and not (boolean and b.__class__ is ndarray):
            return slow(input, other)
        if raw.__class__ is not ndarray:
            raw = np.asarray(raw)
        tensor = new(tensor_impl.Tensor)
        tensor._array = raw
        if (first is not None or second is not None) and differentiable and (not counts.grad_off or state.grad_mode):
            node = new(node_type)
            node._edges = (first, second)
            node._sequence = next_sequence_nr()
            node._options = None
            if crosswise:
                if keep_first:
                    node._saved = (input if second is not None else None, other if first is not None else None)
                elif keep_second:
                    node._saved = (other if first is not None else None,)
                else:
                    node._saved = ()
            else:
                kept = []
                if keep_first:
                    kept.append(input if (first is not None and first_for_first) or second is not None else None)
                if keep_second:
                    kept.append(other if (second is not None and second_for_second) or first is not None else None)
                node._saved = kept
            if input._meta is not None or (second is None and b is not other and other._meta is not None):
                refuse_saving(*node._saved)
            if input._vc is None and (b is other or other._vc is None):
                node._versions = None
            else:
                node._versions = [0 if value is None or value is b else current_version(value) for value in node._saved]
            node._result = raw if keep_result and (second is not None or result_for_first) else None
            node._shape = raw.shape
            node._dtype = raw.dtype
            tensor._edge = node
        else:
            tensor._edge = None
        tensor._vc = None
        tensor._view = None
        tensor._grad = None
        tensor._meta = None
        if observer is not None:
            observer.operator(name, (input, other), tensor, begin, now())
        return tensor

    return call


#: these make tensors of two numbers
_OF_NUMBERS = frozenset(["add", "sub", "mul", "_true_div", "_floor_div", "_trunc_div", "floor_divide"])


def binary_slow(entry: OperatorEntry, record: Recorder, reject: Callable[[OperatorEntry, int, Any], Any]) -> Call:
    """The second path: promotion, broadcasting errors, devices, keywords, `out=`."""
    name = f"aten::{entry.name}"
    right = entry.schema.names[1]

    def call(input: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if kwargs and entry.out and "out" in kwargs:
            return with_out(entry, call, (input, other, *rest), kwargs)
        if rest or input is MISSING or other is MISSING:
            if (renewed := in_new_order(entry.name, (*given(input, other), *rest), kwargs)) is not None:
                return call(*renewed[0], **renewed[1])
            complain(entry, (*given(input, other), *rest), kwargs)
            input = kwargs.pop("self") if input is MISSING else input
            other = kwargs.pop(right) if other is MISSING else other
        operands = [input, other]
        for position, operand in enumerate(operands):
            if isinstance(operand, TensorImpl):
                continue
            if isinstance(operand, np.generic | bool | int | float | complex):
                if ("first", "second")[position] not in entry.numbers and reject is not_a_tensor:
                    raise not_a_tensor(entry, position, operand)
                operands[position] = operand.item() if isinstance(operand, np.generic) else operand
                continue
            as_operator = reject is not not_a_tensor
            if (answer := first_contact(entry, (input, other, *rest), kwargs, as_operator=as_operator)) is not NOBODY:
                return answer
            error = reject(entry, position, operand)
            if error is NotImplemented:
                return error
            raise error
        if entry.name not in _OF_NUMBERS and not (isinstance(input, TensorImpl) or isinstance(other, TensorImpl)):
            raise not_a_tensor(entry, 0, input)
        if entry.schema.keyword_only and kwargs:
            return _with_alpha(call, entry, operands, kwargs)
        if kwargs:
            complain(entry, tuple(operands), kwargs)
        if counts.special and state.autocast is not None and entry.autocast:
            operands = list(autocast(entry, tuple(operands), {})[0])
        if state.layers or is_any_wrapped(operands):
            answer = transformed(entry, tuple(operands), {})
            if answer is not GO_ON:
                return answer
        if entry.forms and (form := _form_for(entry, operands)) is not None:
            return form(*operands)
        try:
            raw = run_pointwise(
                entry, [operand._array if isinstance(operand, TensorImpl) else operand for operand in operands]
            )
        except MemoryError:
            complain(entry, (input, other), {})
            raise
        node = None
        if record.differentiable and state.grad_mode and any(_wants_grad(operand) for operand in operands):
            node = record.bound(operands, raw)
            node._options = None
        result = give(entry, raw, node)
        if observer is not None:
            observer.operator(name, (input, other), result, begin, now())
        return result

    return call


def _with_alpha(call: Call, entry: OperatorEntry, operands: list[Any], kwargs: dict[str, Any]) -> Any:
    """`add` and `sub` with `alpha`: scale the second operand first."""
    alpha = kwargs.pop("alpha", 1)
    if kwargs:
        raise TypeError(f"{entry.name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
    first, second = operands
    if alpha.__class__ not in NUMBERS:
        require(entry.name, "Number", alpha=alpha)
        alpha = alpha.item() if isinstance(alpha, TensorImpl) else alpha
    if alpha.__class__ is float and not _is_floating(first) and not _is_floating(second):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if alpha.__class__ is complex and not any(_is_complex(value) for value in operands):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if alpha.__class__ is bool and not (_is_truth(first) and _is_truth(second)):
        raise RuntimeError("Boolean alpha only supported for Boolean results")
    if alpha != 1 and entry.name == "sub" and (_is_truth(first) or _is_truth(second)):
        return call(first, second)  # refuses truth values, which a factor would make numbers of
    if alpha == 1:
        return call(first, second)
    common = result_type([value._array if isinstance(value, TensorImpl) else value for value in operands])
    if isinstance(second, TensorImpl) and second._array.__class__ is ndarray and second.dtype is not common:
        second = autograd._to_copy(second, common)
    fitted = fitting(alpha, to_numpy_dtype(common))
    if common.itemsize == 2 and common.is_floating_point:  # one kernel, which rounds alpha, and then the result
        first, second = (
            autograd._to_copy(one, scalar_type.float32) if isinstance(one, TensorImpl) else one
            for one in (first, second)
        )
        return autograd._to_copy(call(first, second * fitted.item()), common)
    return call(first, second * alpha)


def _is_truth(value: Any) -> bool:
    return value._array.dtype.kind == "b" if isinstance(value, TensorImpl) else isinstance(value, bool)


def _is_complex(value: Any) -> bool:
    return value._array.dtype.kind == "c" if isinstance(value, TensorImpl) else isinstance(value, complex)


def _is_floating(value: Any) -> bool:
    return value._array.dtype.kind in "fcV" if isinstance(value, TensorImpl) else isinstance(value, float | complex)


def run_pointwise(entry: OperatorEntry, operands: list[Any]) -> Any:
    """The kernel of whatever backend the arrays among the operands belong to. A 0-d CPU array may join arrays elsewhere."""
    arrays = [operand for operand in operands if operand.__class__ not in NUMBERS]
    if all(array.__class__ is ndarray for array in arrays):
        raw = entry.kernels[DispatchKey.CPU](*operands)
    else:
        away = [array for array in arrays if array.__class__ is not ndarray or array.ndim]
        key = common_backend(away or arrays)
        kernel = lookup(entry, key)
        home = device_of((away or arrays)[0])
        raw = kernel(*[_move_number(operand, home) for operand in operands])
    return np.asarray(raw) if isinstance(raw, np.generic) else raw


def _move_number(operand: Any, home: Any) -> Any:
    return operand.item() if operand.__class__ is ndarray and operand.ndim == 0 and home.type == "cuda" else operand


def general(entry: OperatorEntry) -> Call:
    """The operator for any signature."""
    schema = entry.schema
    record = Recorder(entry)
    name = f"aten::{entry.name}"
    cpu_kernel = entry.kernels[DispatchKey.CPU]
    positions = [i for i, kind in enumerate(schema.kinds) if kind is not OPTION]
    check, first_option = option_check(entry, 0)

    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if kwargs and entry.out and "out" in kwargs:
            return with_out(entry, call, args, kwargs)
        if counts.special and state.autocast is not None and entry.autocast:
            args, kwargs = autocast(entry, args, kwargs)
        if check is not None and (kwargs or len(args) > first_option):
            args, kwargs = check(args, kwargs)
        values = bind(entry, schema, entry.name, args, kwargs)
        try:
            raw_values, arrays, wants = unwrap(entry, positions, values)
        except TypeError:
            if (answer := first_contact(entry, args, kwargs)) is not NOBODY:
                return answer
            raise
        kernel = cpu_kernel
        for array in arrays:
            if array.__class__ is not ndarray:
                if (key := common_backend(arrays)) in entry.forms:
                    return entry.forms[key](*args, **kwargs)
                if key in TRANSFORMED and (answer := transformed(entry, args, kwargs)) is not GO_ON:
                    return answer
                kernel = lookup(entry, key)
                break
        else:
            if counts.special and state.layers:
                return transformed(entry, args, kwargs)
        token = ignore_floating_errors()
        try:
            raw = _call_kernel(entry, kernel, raw_values)
        except Exception:
            complain(entry, args, kwargs)
            raise
        finally:
            restore_floating_errors(token)
        node = None
        if wants and record.differentiable and (not counts.grad_off or state.grad_mode):
            node = record.bound(values, raw)
            node._options = _without_tensors(positions, values)
        result = give(entry, raw, node)
        if observer is not None:
            observer.operator(name, args, result, begin, now())
        return result

    return call


def bind(entry: OperatorEntry, schema: Schema, name: str, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """The value of every parameter. TypeError says what is wrong with the call."""
    try:
        return schema.bind(name, args, kwargs)
    except TypeError:
        if (renewed := in_new_order(name, args, kwargs)) is not None:
            args, kwargs = renewed
            if entry.pointwise is not None:
                kwargs, args = _scale_second(entry, kwargs, args)
            return bind(entry, schema, name, args, kwargs)
        complain(entry, args, kwargs)
        raise


def _without_tensors(positions: list[int], values: list[Any]) -> list[Any]:
    """The options of a call: what a node may keep of it for free."""
    values = list(values)
    for position in positions:
        values[position] = None
    return values


def unwrap(entry: OperatorEntry, positions: list[int], values: list[Any]) -> tuple[list[Any], list[Any], bool]:
    """The values with raw arrays in place of tensors, those arrays, and whether a tensor wants a gradient."""
    raw = list(values)
    arrays: list[Any] = []
    wants = False
    for position in positions:
        value = values[position]
        if isinstance(value, TensorImpl):
            raw[position] = value._array
            arrays.append(value._array)
            wants = wants or requires_grad(value)
        elif entry.schema.kinds[position] is TENSOR_LIST and value.__class__ in (list, tuple):
            raw[position] = []
            for number, item in enumerate(value):
                if item is not None and not isinstance(item, TensorImpl):
                    raise TypeError(
                        f"expected Tensor as element {number} in argument {position}, but got {type_name(item)}"
                    )
                raw[position].append(None if item is None else item._array)
                if item is not None:
                    arrays.append(item._array)
                    wants = wants or requires_grad(item)
        elif value is None and entry.schema.kinds[position] == "tensor?":
            continue
        elif entry.schema.kinds[position] is TENSOR_LIST:
            raise wrong_kind(entry, entry.schema.names[position], value)
        else:
            raise not_a_tensor(entry, position, value)
    return raw, arrays, wants


def view(entry: OperatorEntry) -> Call:
    """An operator whose result looks into its input's memory, always or sometimes."""
    cpu_kernel = entry.kernels[DispatchKey.CPU]
    record = Recorder(entry)
    differentiable = record.differentiable
    rule = record.rule
    keep_shape = rule is not None and rule.metas == ((entry.schema.names[0], "shape"),)
    simple = rule is not None and not rule.saved and not rule.outputs and (not rule.metas or keep_shape)
    sometimes = entry.view == "maybe"
    copied = Recorder(_copied(entry)) if sometimes and differentiable else record
    node_type, copied_type = (record.node_class, copied.node_class) if differentiable else (None, None)
    name = f"aten::{entry.name}"
    dims = entry.schema.var_positional or "dim" in entry.schema.names
    check = option_check(entry, 1)[0] if dims else None

    def call(input: Any = MISSING, *args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if input is MISSING and kwargs:
            input = kwargs.pop("input", kwargs.pop("self", MISSING))
        try:
            array = input._array
            edge = input._edge
        except AttributeError:
            if isinstance(input, TensorImpl):
                array = input._array
                edge = gradient_edge(input) or NOWHERE if state.grad_mode and requires_grad(input) else None
            elif (answer := first_contact(entry, (*given(input), *args), kwargs)) is not NOBODY:
                return answer
            else:
                complain(entry, (*given(input), *args), kwargs)
                raise
        if kwargs and check is not None:
            args, kwargs = check(args, kwargs)
        kernel = cpu_kernel
        if array.__class__ is not ndarray or counts.special:
            key = BACKENDS[array.__class__]
            if key in TRANSFORMED or state.layers:
                answer = transformed(entry, (input, *args), kwargs)
                if answer is not GO_ON:
                    return answer
            if key in entry.forms:
                return entry.forms[key](input, *args, **kwargs)
            kernel = lookup(entry, key)
        try:
            raw = kernel(array, *args, **kwargs)
        except Exception:
            complain(entry, (input, *args), kwargs)
            raise
        if raw.__class__ is list:
            return view_list(input, raw, args, kwargs, begin, observer)
        aliases = True
        if raw is array:
            if sometimes:
                return input
            raw = array.view() if array.__class__ is ndarray else aliased(array)
        elif sometimes:
            base = raw.base
            aliases = base is not None and (base is array or base is array.base)
        recording = not counts.grad_off or state.grad_mode
        node = None
        if edge is not None and recording and differentiable:
            if simple and edge is not NOWHERE and not counts.special:
                node = new(node_type if aliases else copied_type)
                node._edges = (edge,)
                node._sequence = next_sequence_nr()
                node._options = (args, kwargs) if args or kwargs else None
                node._saved = (array.shape,) if keep_shape else ()
                node._versions = None
                node._result = None
                node._shape = raw.shape
                node._dtype = raw.dtype
            else:
                node = (record if aliases else copied).leading((input,), args, kwargs, raw)
        result = new(tensor_impl.Tensor)
        result._array = raw
        result._edge = node
        result._vc = None
        result._view = None
        result._grad = None
        result._meta = None if input._meta is None or not is_inference(input) else INFERENCE
        if aliases:
            if not differentiable:
                result._vc = version_counter(input)
            elif input._view is None and result._meta is None:
                counter = input._vc or version_counter(input)
                result._vc = counter
                result._view = (input, ((call, args, kwargs),), DEFAULT if recording else _unrecorded())
                if node is None and edge is not None:
                    del result._edge
                counter.register_view(result)
            else:
                make_view(result, input, (call, args, kwargs))
        if observer is not None:
            observer.operator(name, (input, *args), result, begin, now())
        return result

    def view_list(input: Any, raws: list[Any], args: tuple, kwargs: dict[str, Any], begin: int, observer: Any) -> Any:
        node = None
        if differentiable and (not counts.grad_off or state.grad_mode) and requires_grad(input):
            node = record.leading((input,), args, kwargs, raws)
        results = []
        for number, raw in enumerate(raws):
            edge: Any = node if node is None or number == 0 else (node, number)
            result = give(entry, raw, edge)
            result._meta = INFERENCE if is_inference(input) else None
            make_view(result, input, (call, args, kwargs, number), MULTI_OUTPUT_NODE)
            results.append(result)
        if observer is not None:
            observer.operator(name, (input, *args), tuple(results), begin, now())
        return tuple(results)

    return call


def _unrecorded() -> int:
    return INFERENCE_MODE if state.inference_mode else NO_GRAD_MODE


def aliased(array: Any) -> Any:
    """Another array of the same elements, where it is not NumPy's."""
    return type(array)(array.value, array.layer) if is_wrapped(array) else array[...]


def _copied(entry: OperatorEntry) -> OperatorEntry:
    """The same operator as it appears in the graph when it had to copy (`reshape` of a transposed matrix)."""
    other = OperatorEntry.__new__(OperatorEntry)
    other.__dict__.update(entry.__dict__)
    if entry.name == "reshape":
        other.node_name = "UnsafeViewBackward0"
    return other


#: these write the same value everywhere, or are not asked upstream
_ANYWHERE = frozenset(["_fill_scalar_", "_fill_tensor_", "zero_", "fill_diagonal", "threshold", "tril", "triu"])
#: these have read everything before they write
_AFTERWARDS = frozenset(["addbmm", "addmm", "addmv", "baddbmm", "masked_scatter"])
#: allowed on expanded tensors for old programs' sake
_DEPRECATED = frozenset(["index_fill", "index_put", "masked_fill"])
#: these read and write in different orders
_APART = frozenset(
    ["cat", "index_add", "index_copy", "index_put", "index_reduce", "put", "scatter", "scatter_add", "scatter_reduce"]
)


def check_memory(entry: OperatorEntry, array: Any, operands: Any) -> None:
    """RuntimeError if writing to `array` would change what is still to be read, or write one place twice."""
    name = entry.name
    if name in _ANYWHERE or array.__class__ is MetaArray or is_wrapped(array):
        return
    if not array.flags.c_contiguous and has_internal_overlap(array):
        if name not in _DEPRECATED:
            assert_no_internal_overlap(array)
        warnings.warn(
            f"Use of {name}_ on expanded tensors is deprecated. clone() the tensor first; the same holds for `tensor[mask] = number`.",
            stacklevel=3,
        )
    if name not in _AFTERWARDS:
        _check_operands(assert_no_overlap if name in _APART else assert_no_partial_overlap, array, operands)


def _check_operands(check: Callable[[Any, Any], None], array: Any, operands: Any) -> None:
    for operand in operands:
        if isinstance(operand, TensorImpl):
            read = operand._array
            if have_one_owner(array, read):
                check(array, read)
        elif operand.__class__ in (list, tuple):
            _check_operands(check, array, operand)


def _plain_write(entry: OperatorEntry) -> Callable[[Any, Any], bool] | None:
    """`write(input, other)`: do it where neither graph nor modes nor memory can object, or say False and do nothing."""
    pointwise = entry.pointwise
    if pointwise is None or pointwise.boolean or not isinstance(pointwise.ufunc, np.ufunc) or pointwise.ufunc.nin != 2:
        return None
    ufunc, numbers = pointwise.ufunc, "second" in entry.numbers

    def write(input: Any, other: Any) -> bool:
        if counts.special or record_function.observer is not None:
            return False
        recording = not counts.grad_off or state.grad_mode
        try:
            array = input._array
            if other.__class__ is float or other.__class__ is int:
                if not numbers or (recording and input._edge is not None):
                    return False
                operand = other
            else:
                operand = other._array
                if (
                    operand.__class__ is not ndarray
                    or operand.dtype is not array.dtype
                    or operand.shape != array.shape
                    or (array if array.base is None else array.base)
                    is (operand if operand.base is None else operand.base)
                    or (recording and (input._edge is not None or other._edge is not None))
                ):
                    return False
        except AttributeError:
            return False
        if (
            array.__class__ is not ndarray
            or array.dtype.char not in "fd"
            or not array.flags.carray
            or input._meta is not None
        ):
            return False
        token = ignore_floating_errors()
        try:
            ufunc(array, operand, out=array)
        except (OverflowError, TypeError):
            return False
        finally:
            restore_floating_errors(token)
        version_counter(input).bump()
        return True

    return write


def inplace(entry: OperatorEntry) -> Call:
    """`NAME_`: the operator with its result written to the first argument."""
    schema = entry.schema
    record = Recorder(entry)
    mutating = entry.name.endswith("_")
    method = entry.name if mutating else entry.name + "_"
    positions = [i for i, kind in enumerate(schema.kinds) if kind is not OPTION]
    keeps_self = record.rule is not None and "self" in record.rule.saved
    keeps_result = record.rule is not None and bool(record.rule.outputs)
    check, first_option = option_check(entry, 1)
    copies = entry.name == "copy_"
    recorded = not entry.name.startswith("logical_")  # nobody asks what a leaf was before
    plain_write = _plain_write(entry)

    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if entry.pointwise is not None and kwargs:
            kwargs, args = _scale_second(entry, kwargs, args)
        if plain_write is not None and len(args) == 2 and not kwargs and plain_write(*args):
            return args[0]
        plain_class = tensor_impl.Tensor
        if check is not None and (kwargs or len(args) > first_option + 1):
            rest, kwargs = check(args[1:], kwargs)
            args = (*args[:1], *rest)
        values = bind(entry, schema, method, args, kwargs)
        input = values[0]
        if not isinstance(input, TensorImpl):
            raise not_a_tensor(entry, 0, input)
        array = input._array
        asks = counts.special or array.__class__ is not ndarray
        for value in values:
            if value.__class__ is plain_class:
                asks = asks or value._array.__class__ is not ndarray
            elif value.__class__ is list:
                asks = True
        if asks and (state.layers or is_any_wrapped(values)):
            answer = transformed(entry, tuple(args), kwargs, method=method)
            if answer is not GO_ON:
                return input
        if array.__class__ is not ndarray and (key := BACKENDS[array.__class__]) is DispatchKey.SparseCPU:
            lookup(entry, key)  # says if there is none
            return entry.forms[key].in_place(method, values)
        if copies and isinstance(values[1], TensorImpl):
            values[1] = brought(values[1], array, values[2])
        wants = False
        if not counts.grad_off or state.grad_mode:
            wants = recorded and any(_wants_grad(values[i]) for i in positions)
            if wants:
                try:
                    check_inplace(input)
                except RuntimeError:
                    complain(entry, args, kwargs)
                    raise
                wants = record.differentiable and array.dtype.kind in "fcV"  # integers have no gradient to pass on
        try:
            if not copies or values[1] is not input:
                check_memory(entry, array, values[1:])
        except RuntimeError:
            complain(entry, args, kwargs)
            if not mutating:
                place = tensor_impl.wrap(copy_of(array))
                trial = [place, *values[1:]]
                _wrong_arguments_first(lambda: _write(entry, method, place._array, trial, positions, False))
            raise
        if wants and keeps_self and not mutating:
            original = tensor_impl.wrap(copy_of(array), gradient_edge(input))
            values = [original, *values[1:]]
        try:
            raw = _write(entry, method, array, values, positions, mutating)
        except Exception:
            if (answer := first_contact(entry, args, kwargs, method)) is not NOBODY:
                return answer
            complain(entry, args, kwargs)
            raise
        refuse_inference(input)  # not before: upstream finds that nobody counts when the elements are written
        node = record.bound(values, raw) if wants else None
        counter = version_counter(input)
        counter.bump()
        if node is not None:
            node._options = _without_tensors(positions, values)
            if keeps_result:
                node._counters = {0: counter}
                node._expected = counter.value
            rebase_history(input, node)
        if observer is not None:
            observer.operator(f"aten::{method}", args, input, begin, now())
        return input

    return _of_reals(call) if entry.name == "abs" else call


def _wrong_arguments_first(attempt: Callable[[], Any]) -> None:
    """Of a call with two faults, the one about a dimension or a kind is named: run the operator on a copy and see."""
    try:
        attempt()
    except IndexError as error:
        if str(error).startswith(("Dimension", "index_add_(): Index is")):
            raise
    except Exception:  # the fault of the memory stands
        return


def refuse_inference(tensor: Any) -> None:
    """RuntimeError for a write, outside of inference mode, to a tensor made inside: it has no counter that would tell of it."""
    if is_inference(tensor) and not state.inference_mode:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed: clone() it to get a normal tensor."
        )


def _scale_second(entry: OperatorEntry, kwargs: dict[str, Any], args: tuple) -> tuple[dict[str, Any], tuple]:
    if "alpha" not in kwargs or "alpha" not in entry.schema.names:
        return kwargs, args
    complain(entry, args, kwargs)
    alpha = kwargs.pop("alpha")
    if "other" in kwargs:
        args = (*args, kwargs.pop("other"))
    return kwargs, args if alpha == 1 else (args[0], args[1] * alpha)


def _write(
    entry: OperatorEntry, method: str, array: Any, values: list[Any], positions: list[int], mutating: bool
) -> Any:
    """Run the kernel and leave its result in `array`, which is returned."""
    if entry.pointwise is not None:
        values = values[: entry.schema.positional]
        operands = [
            v._array if isinstance(v, TensorImpl) else v.item() if isinstance(v, np.generic) else v for v in values
        ]
        for position, operand in enumerate(operands):
            if hasattr(operand, "dtype"):
                continue
            if operand.__class__ not in NUMBERS or "second" not in entry.numbers:
                raise not_a_tensor(entry, position, operand)
        if _straight(entry, array, operands):
            token = ignore_floating_errors()
            try:
                return entry.pointwise.ufunc(array, *operands[1:], out=array)
            except TypeError:  # a dtype that the ufunc does not know: refused below, in upstream's words
                pass
            finally:
                restore_floating_errors(token)
        form = entry.forms.get(BACKENDS.get(operands[-1].__class__, DispatchKey.Undefined))
        if form is not None:
            return form.into_dense(array, *operands[1:])
        try:
            raw = run_pointwise(entry, operands)
        except NotImplementedError:
            _fits_in_place(entry, array, operands)  # what is wrong with the place comes first
            raise
    else:
        raw_values, arrays, _ = unwrap(entry, positions, values)
        kernel = entry.kernels[DispatchKey.CPU] if array.__class__ is ndarray else lookup(entry, common_backend(arrays))
        if mutating and array.__class__ is MetaArray:
            if entry.name == "copy_" and not is_expandable_to(raw_values[1].shape, array.shape):
                _call_kernel(entry, entry.kernels[DispatchKey.CPU], raw_values)  # says which shapes
            return array
        writes = entry.writing is not None and array.__class__ is ndarray
        token = ignore_floating_errors()
        try:
            raw = _call_kernel(entry, entry.writing if writes else kernel, raw_values)  # type: ignore[arg-type]  # there is one if it writes
        finally:
            restore_floating_errors(token)
        if mutating or writes:
            return array
    check_cast(raw.dtype, array.dtype)
    if raw.shape != array.shape:
        shape = infer_size(array.shape, raw.shape)
        if shape != array.shape:
            raise RuntimeError(f"output with shape {list(array.shape)} doesn't match the broadcast shape {list(shape)}")
    if array.__class__ is not MetaArray:
        assign(array, raw)
    return array


def _fits_in_place(entry: OperatorEntry, array: Any, operands: list[Any]) -> None:
    """RuntimeError if the result would have another shape than `array`, or a dtype that it cannot hold."""
    shape = broadcast_shape(entry.name, operands)
    if shape != array.shape:
        raise RuntimeError(f"output with shape {list(array.shape)} doesn't match the broadcast shape {list(shape)}")
    if not entry.pointwise.boolean:
        check_cast(to_numpy_dtype(result_type(operands)), array.dtype)


def _straight(entry: OperatorEntry, array: Any, operands: list[Any]) -> bool:
    """Can the ufunc write to `array` itself? One dtype, and the others stretch to its shape."""
    if array.__class__ is not ndarray or entry.pointwise.boolean or not isinstance(entry.pointwise.ufunc, np.ufunc):
        return False
    if array.dtype.char not in "fdFD":
        return False
    for operand in operands[1:]:
        if operand.__class__ is ndarray:
            if operand.dtype is not array.dtype or not (
                operand.shape in (array.shape, ()) or is_expandable_to(operand.shape, array.shape)
            ):
                return False
        elif (operand.__class__ is complex and array.dtype.kind != "c") or operand.__class__ not in NUMBERS:
            return False
    return True


def _call_kernel(entry: OperatorEntry, kernel: Call, values: list[Any]) -> Any:
    schema = entry.schema
    if schema.var_positional:
        return kernel(*values[:-1], *values[-1])
    if not schema.keyword_only:
        return kernel(*values)
    first_keyword = len(schema.names) - len(schema.keyword_only)
    keywords = dict(zip(schema.keyword_only, values[first_keyword:], strict=True))
    return kernel(*values[:first_keyword], **keywords)


def composite(entry: OperatorEntry, at: Any) -> Call:
    """An operator written with other operators."""
    function = entry.composite
    assert function is not None
    name = f"aten::{entry.name}"
    check, first_option = option_check(entry, 0)
    tensors, lists = _places(entry, TENSOR), _places(entry, TENSOR_LIST)
    takes_self = "self" in entry.schema.names and "input" not in entry.schema.names
    keywords = frozenset(shown(entry.schema.names[place]) for place in tensors)

    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if kwargs and entry.out and "out" in kwargs:
            return with_out(entry, call, args, kwargs)
        for place in tensors:
            if place < len(args) and args[place].__class__ not in TENSORS:
                if (answer := first_contact(entry, args, kwargs)) is not NOBODY:
                    return answer
                if not isinstance(args[place], TensorImpl):
                    if (renewed := in_new_order(entry.name, args, kwargs, stacklevel=3)) is not None:
                        return call(*renewed[0], **renewed[1])
                    complain(entry, args, kwargs)
        for place in lists:
            if place < len(args) and isinstance(args[place], TensorImpl):
                complain(entry, args, kwargs)
        if kwargs and not keywords.isdisjoint(kwargs):
            for key in keywords:
                if key in kwargs and not isinstance(kwargs[key], TensorImpl):
                    if (answer := first_contact(entry, args, kwargs)) is not NOBODY:
                        return answer
                    complain(entry, args, kwargs)
        if kwargs and "input" in kwargs and takes_self:
            kwargs["self"] = kwargs.pop("input")
        if check is not None and (kwargs or len(args) > first_option):
            args, kwargs = check(args, kwargs)
        if counts.special and state.autocast is not None and entry.autocast:
            cast, options = autocast(entry, args, kwargs)
            if cast is not args:  # on the device's list: what it is made of is cast no more
                saved = autograd_state.set_special("autocast", None)
                try:
                    return call(*cast, **options)
                finally:
                    autograd_state.set_special("autocast", saved)
        try:
            result = function(at, *args, **kwargs)
        except Exception:
            if entry.forms and (form := _form_for(entry, list(args))) is not None:
                return form(*args, **kwargs)
            if (renewed := in_new_order(entry.name, args, kwargs, stacklevel=3)) is not None:
                return call(*renewed[0], **renewed[1])
            complain(entry, args, kwargs)
            raise
        named = entry.result_class
        if named is not None and isinstance(result, tuple) and result.__class__ is not named:
            result = named(result)
        if observer is not None:
            observer.operator(name, args, result, begin, now())
        return result

    return call


def _places(entry: OperatorEntry, kind: str) -> tuple[int, ...]:
    return tuple(place for place, found in enumerate(entry.schema.kinds) if found is kind)


def inplace_composite(entry: OperatorEntry, at: Any) -> Call:
    """`NAME_` of a composite: compute from a copy, whose value the saved tensors may keep, then write."""
    function = entry.composite
    assert function is not None
    check, first_option = option_check(entry, 1)

    def call(input: Any = MISSING, *args: Any, **kwargs: Any) -> Any:
        source = input
        if input.__class__ not in TENSORS and not isinstance(input, TensorImpl):
            complain(entry, (*given(input), *args), kwargs)
        if "out" in kwargs:
            raise TypeError(f"{entry.name}_() got an unexpected keyword argument 'out'")
        if check is not None and (kwargs or len(args) > first_option):
            args, kwargs = check(args, kwargs)
        if counts.special and state.layers:
            state.layers[-1].refuse_captured(f"{entry.name}_", input)
        refuse_inference(input)
        if BACKENDS.get(input._array.__class__) is DispatchKey.SparseCPU:
            return exchange(input, lambda: function(at, input, *args, **kwargs), args)
        try:
            check_memory(entry, input._array, args)
        except RuntimeError:
            complain(entry, (input, *args), kwargs)
            _wrong_arguments_first(lambda: function(at, tensor_impl.wrap(copy_of(input._array)), *args, **kwargs))
            raise
        if state.grad_mode and any(_wants_grad(value) for value in (input, *args)):
            try:
                check_inplace(input)
            except RuntimeError:
                complain(entry, (input, *args), kwargs)
                raise
            source = tensor_impl.wrap(copy_of(input._array), gradient_edge(input))
        try:
            result = function(at, source, *args, **kwargs)
        except Exception:
            if (renewed := in_new_order(f"{entry.name}_", (input, *args), kwargs, stacklevel=3)) is not None:
                return call(*renewed[0], **renewed[1])
            complain(entry, (source, *args), kwargs)
            raise
        check_cast(result._array.dtype, input._array.dtype)
        if result._array.shape != input._array.shape:
            shape = list(result._array.shape)
            raise RuntimeError(
                f"output with shape {list(input._array.shape)} doesn't match the broadcast shape {shape}"
            )
        expanded = entry.name in _DEPRECATED and has_internal_overlap(input._array)
        if (source is input or input._view is not None) and not expanded:
            return at.copy_(input, result)
        assign(input._array, result._array)
        version_counter(input).bump()
        if result._edge is not None:
            rebase_history(input, result._edge)
        return input

    return call


def autocast(entry: OperatorEntry, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments with floating tensors cast as the operator's list asks."""
    modes = state.autocast
    found = [t for t in _tensors((*args, *kwargs.values())) if t._array.dtype.kind in "fV"]
    if not found or modes is None:
        return args, kwargs
    low = modes.get(device_of(found[0]._array).type)
    if low is None:
        return args, kwargs
    on_cpu = found[0]._array.__class__ is np.ndarray
    if entry.autocast == "low":
        if on_cpu and entry.name in LOW_ON_CUDA:
            return args, kwargs
        wanted = low
    elif entry.autocast is not None and entry.autocast.startswith("float32"):
        if entry.name not in FLOAT32_ON_CPU if on_cpu else entry.autocast != "float32":
            return args, kwargs
        wanted = scalar_type.float32
        if all(scalar_type.FROM_NUMPY[t._array.dtype] is scalar_type.float64 for t in found):
            return args, kwargs
    else:
        wanted = scalar_type.FROM_NUMPY[found[0]._array.dtype]
        for tensor in found[1:]:
            wanted = scalar_type.promote_types(wanted, scalar_type.FROM_NUMPY[tensor._array.dtype])
    saved = autograd_state.set_special("autocast", None)
    try:
        return tuple(_cast(arg, wanted) for arg in args), {key: _cast(value, wanted) for key, value in kwargs.items()}
    finally:
        autograd_state.set_special("autocast", saved)


def _tensors(values: Any) -> list[Any]:
    result = []
    for value in values:
        if isinstance(value, TensorImpl):
            result.append(value)
        elif value.__class__ in (list, tuple):
            result.extend(_tensors(value))
    return result


def _cast(value: Any, wanted: Any) -> Any:
    if isinstance(value, TensorImpl):
        if value._array.dtype.kind not in "fV" or value._array.dtype == wanted.numpy:
            return value
        return _cached_cast(value, wanted)
    if value.__class__ in (list, tuple):
        return type(value)(_cast(item, wanted) for item in value)
    return value


def _cached_cast(value: Any, wanted: Any) -> Any:
    """Parameters are cast once per autocast region: a weight used twice must not be converted twice."""
    cache = state.autocast_cache
    if cache is None or state.inference_mode or gradient_edge(value).__class__ is not AccumulateGrad:
        return value.to(wanted)
    key = (id(value), wanted)
    found = cache.get(key)
    if found is None:
        recording = autograd_state.is_grad_enabled()
        autograd_state.set_grad_enabled(True)  # whoever finds it may want its gradient
        try:
            found = cache[key] = (value, value.to(wanted))
        finally:
            autograd_state.set_grad_enabled(recording)
    return found[1]


def _of_reals(call: Call) -> Call:
    """The length of a complex number has no place in a complex tensor, says upstream."""

    def checked(input: Any) -> Any:
        if isinstance(input, TensorImpl) and input._array.dtype.kind == "c":
            raise RuntimeError("In-place abs is not supported for complex tensors.")
        return call(input)

    return checked


class TensorNode(GeneratedNode):
    """The node of an operator with sparse tensors: its formulas run on tensors always."""

    __slots__ = ()

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        return super().apply(grads, True) if graph else self._on_tensors(grads)


class NotImplementedNode(Node):
    """Stands where a derivative is missing, and says so when it is asked for one."""

    __slots__ = ("operator",)

    def __init__(self, operator: str, edges: tuple, raw: Any) -> None:
        self.operator, self._edges, self._sequence = operator, edges, next_sequence_nr()
        self._shape, self._dtype = raw.shape, raw.dtype

    def name(self) -> str:
        return "NotImplemented"

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        raise RuntimeError(f"derivative for aten::{self.operator} is not implemented")


def _form_for(entry: OperatorEntry, operands: list[Any]) -> Call | None:
    """The whole call that a column has for these operands, if it has one."""
    arrays = [operand._array for operand in operands if isinstance(operand, TensorImpl)]
    others = [array for array in arrays if array.__class__ is not ndarray]
    return entry.forms.get(common_backend(others)) if others else None


def exchange(input: Any, compute: Callable[[], Any], values: Any) -> Any:
    """An operator in place on a tensor that has no memory to write to: it holds what `compute` returns from now on."""
    refuse_inference(input)
    if state.grad_mode and any(_wants_grad(value) for value in (input, *values)):
        check_inplace(input)
    result = compute()
    check_cast(result._array.dtype, input._array.dtype)
    input._array = result._array.astype(input._array.dtype)
    version_counter(input).bump()
    if result._edge is not None:
        rebase_history(input, result._edge)
    return input


class SparseForm:
    """What is called in an operator's place when one of the tensors is sparse."""

    __slots__ = ("entry", "kernel", "record", "row")

    def __init__(self, entry: OperatorEntry, row: OperatorEntry) -> None:
        self.entry, self.row = entry, row
        self.kernel = row.kernels[DispatchKey.CPU]
        self.record = Recorder(row)
        if self.record.differentiable:
            members = {"__slots__": (), "entry": row, "__module__": "torch.autograd"}
            self.record.node_class = type(row.node_name, (TensorNode,), members)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        row = self.row
        observer = record_function.observer
        begin = now() if observer is not None else 0
        values = row.schema.bind(row.name, args, kwargs)
        raw_values = [_bare(value) for value in values]
        token = ignore_floating_errors()
        try:
            raw = _call_kernel(row, self.kernel, raw_values)
        finally:
            restore_floating_errors(token)
        node = None
        if state.grad_mode and any(_wants_grad(value) for value in values):
            node = self.node(values, raw)
        result = give(row, raw, node)
        if observer is not None:
            observer.operator(f"aten::{row.name}", args, result, begin, now())
        return result

    def node(self, values: list[Any], raw: Any) -> Any:
        """The node of a call; None where nothing that could have a gradient came out."""
        if not self.record.differentiable:
            if raw.__class__ in (list, tuple) or raw.dtype.kind not in "fcV":
                return None
            edges = tuple(gradient_edge(value) for value in values if isinstance(value, TensorImpl))
            return NotImplementedNode(self.row.name, edges, raw)
        node = self.record.bound(values, raw)
        node._options = [None if isinstance(value, TensorImpl) else value for value in values]
        return node

    def in_place(self, method: str, values: list[Any]) -> Any:
        """`NAME_` on a sparse tensor."""
        if method in _NOT_IN_PLACE:
            raise NotImplementedError(f"Could not run 'aten::{method}' with arguments from the 'SparseCPU' backend.")
        if self.row.inplace and not values[0]._array.coalesced:
            raise RuntimeError(f"{method} requires coalesced input")
        values = values[: self.row.schema.positional]
        return exchange(values[0], lambda: self(*values), values)

    def into_dense(self, array: Any, other: Any) -> Any:
        """`NAME_` on a dense array, with a sparse second operand."""
        from readtorch.aten.native.sparse.sparse_tensor_math import INTO_DENSE

        if self.entry.name in INTO_DENSE:
            return INTO_DENSE[self.entry.name](array, other)
        raw = self.kernel(array, other)
        array[...] = dense_of(raw) if isinstance(raw, SparseTensorImpl) else raw
        return array


_NOT_IN_PLACE = frozenset(["pow_", "nan_to_num_", "unsqueeze_"])


def _bare(value: Any) -> Any:
    if isinstance(value, TensorImpl):
        return value._array
    return [_bare(item) for item in value] if value.__class__ in (list, tuple) else value


def _offer_sparse(entry: OperatorEntry, row: OperatorEntry) -> None:
    entry.forms[DispatchKey.SparseCPU] = SparseForm(entry, row)


add_sparse_listener(_offer_sparse)
