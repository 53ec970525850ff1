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
# # From a call to the result
#
# "I know `native_functions.yaml`, and I know the kernels. How does a call get from the one to the other?" Upstream the
# answer is generated text: for each operator a parser, a dispatcher entry and an Autograd kernel, a few dozen lines of
# C++ each, which exist only in a build tree. The template for all of them is in `gen_variable_type.py`, a program that
# writes a program.
#
# Python functions can make functions. The *form* of an operator is a function that takes the operator's row and returns
# what `torch.NAME` is: a closure that holds the kernel, the node class, and which tensors are kept. The first form below
# is for operators that have one or more tensors in front and options behind: `sum(x, dim)`, `mm(a, b)`, `where(c, a, b)`.
#
# Read its inner function, `call`, from top to bottom. It answers "what happens between `a @ b` and BLAS":
#
# 1. fetch the raw arrays, or find out that an argument is no tensor and take the slow path;
# 2. pick the column: NumPy arrays are the CPU's;
# 3. call the kernel;
# 4. if an input wants a gradient and recording is on, make the node;
# 5. wrap the result.

# %%
import timeit

import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| fact: tools/autograd/gen_variable_type.py#gen_variable_type_func
#| fact: tools/autograd/gen_python_functions.py#gen

# %%
#| into: csrc/autograd/variable_type.py
#| imports
from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.autocast_mode import FLOAT32_ON_CPU, LOW_ON_CUDA
from readtorch.aten.core.dispatch.dispatcher import autograd, lookup, operators
from readtorch.aten.core.dispatch.operator_entry import OPTION, TENSOR, TENSOR_LIST, OperatorEntry, Schema
from readtorch.aten.expand_utils import infer_size, is_expandable_to
from readtorch.aten.functorch.dynamic_layer import GO_ON
from readtorch.aten.functorch.dynamic_layer import dispatch
from readtorch.aten.functorch.tensor_wrapper import WrappedArray
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.memory_overlap import (
    assert_no_internal_overlap,
    assert_no_overlap,
    assert_no_partial_overlap,
    has_internal_overlap,
    have_one_owner,
)
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.tensor_iterator import fitting, ignore_floating_errors, restore_floating_errors
from readtorch.aten.tensor_iterator import shapes as broadcast_shape
from readtorch.c10.core import autograd_state, scalar_type, tensor_impl
from readtorch.c10.core.autograd_state import counts, state
from readtorch.c10.core.device_guard import STREAMS, device_guard
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey, MetaArray, device_of
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
from readtorch.csrc.autograd.generated_node import GeneratedNode, node_class
from readtorch.csrc.autograd.node import next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed, refuse_saving
from readtorch.csrc.autograd.variable_type_utils import assign, with_out
from readtorch.csrc.utils.disable_torch_function import TENSORS
from readtorch.csrc.utils.gates import NOBODY, first_contact
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.utils.python_arg_parser import (
    complain,
    in_new_order,
    option_check,
    require,
    shown,
    type_name,
    wrong_kind,
)
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

# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# ## What happens between `a @ b` and BLAS?
#
# The five steps, for any number of leading tensors. Whatever can be decided once is decided outside `call`: is there a
# derivative, does the operator take `out=`, which options must be checked?


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: tools/autograd/gen_variable_type.py#emit_body
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


# %% [markdown]
# Most operators have one tensor in front, and most calls are plain. The same again for that case, without the loops: a
# training step runs through this form more often than through any other. Whatever is not plain (a mode, `out=`, another
# device) goes to `leading`, here called `slow`.


# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# For two tensors there is a pattern worth a shortcut: each tensor is kept for the gradient of the other (`crosswise`), as
# in `mm` and `dot`. If the other one wants no gradient, the slot stays empty.


# %%
#| into: csrc/autograd/variable_type.py
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


# %%
a, b = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2)

# %%
#| needs: a1_operators
#| trace: torch.csrc.autograd.variable_type torch.aten.native layers=calls,lines,ops values=summary title="a @ b: call, kernel, node"
product = a @ b

# %%
#| needs: a1_operators
product.grad_fn, product.grad_fn.next_functions

# %% [markdown]
# `cat` and `stack` take a list of tensors. Their formulas name shapes only, so nothing is kept but a list of tuples.


# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# ### What about calls that are wrong, or that name their tensors?
#
# Both are rare, so the fast path does not look for them. It fails at the first attribute that only a tensor has, and the
# failure leads to `take_tensors`. Two devices in one call are found here as well.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: torch/csrc/utils/python_arg_parser.cpp#torch::FunctionSignature::parse
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


# %%
def message(action):
    try:
        action()
    except TypeError as error:
        return str(error)


torch.sum(dim=0, input=b), message(lambda: torch.mm(a, [1.0])), message(lambda: torch.mm(a, b, c=1))


# %% [markdown]
# One operator takes tensors of two devices on purpose: `copy_`. Its source is brought to the device of its target first,
# by another operator, so that the derivative brings the gradient back.


# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# ## What is left to do when a node is made?
#
# A node needs edges, saved tensors with their versions, saved results, the shape and dtype of the output. Which of these
# an operator has is known when it is registered. The call only fills slots, and leaves some of them empty: a tensor that
# is named for the gradient of an input that wants none is not kept.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: tools/autograd/gen_variable_type.py#emit_body
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


# %% [markdown]
# Last, the raw result is wrapped: as one tensor, several in a named tuple, or a list. An edge to an output other than the
# first is a pair.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: torch/csrc/autograd/functions/utils.h#torch::autograd::set_history
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


# %% [markdown]
# ## What does all this cost?
#
# A call on vectors of two numbers, beside the bare ufunc, with and without recording:

# %%
x, y = torch.ones(2, requires_grad=True), torch.ones(2)
raw = np.ones(2, np.float32)


def microseconds(action, repeat=20_000):
    return min(timeit.repeat(action, number=repeat, repeat=3)) / repeat * 1e6


for label, action in {
    "numpy.add": lambda: np.add(raw, raw),
    "y + y, nothing recorded": lambda: y + y,
    "x + y, recorded": lambda: x + y,
}.items():
    print(f"{label:24} {microseconds(action):5.2f} µs")

# %% [markdown]
# The difference between the first two lines is the tensor: unpack, choose, wrap. The difference between the second and
# the third is the node. For ten elements this outweighs the work; for a million it cannot be measured.


# %%
#| needs: a1_operators
#| claim: positional and keyword calls are one operator; an argument that is no tensor is a TypeError
def _(torch):
    a, b = torch.ones(2, 3), torch.ones(3, 2)
    assert torch.equal(torch.sum(dim=0, input=a), torch.sum(a, 0))
    for call in (lambda: torch.mm(a, [1.0]), lambda: torch.mm(a), lambda: torch.mm(a, b, c=1)):
        try:
            call()
        except TypeError:
            continue
        raise AssertionError("accepted")


# %% [markdown]
# ### What upstream does more
#
# * The number of columns costs nothing. A column without a kernel for an operator is *fallthrough*, and a call does not
#   walk over such keys one by one. Each operator has a mask of the keys at which something happens for it; the set of
#   keys is reduced by the mask before the highest bit is taken.
# * The autograd kernel also computes tangents, in the same function, if an input has one (forward-mode derivatives). The
#   expression `result:` in an entry of `derivatives.yaml` is for that.
# * A kernel may be called *boxed*, with its arguments on a stack of variants. Python's operators (`torch.ops.aten.add`),
#   fallbacks and TorchScript call so, and pay for it.

# %%
#| fact: aten/src/ATen/core/dispatch/DispatchKeyExtractor.h#c10::DispatchKeyExtractor::nonFallthroughKeys_
#| fact: aten/src/ATen/core/dispatch/Dispatcher.h#c10::Dispatcher::callBoxed

# %% [markdown]
# `call` hands one case on at its first line: the caller has brought the memory for the result. [The next part](06b_given_outputs.py) takes it up.
