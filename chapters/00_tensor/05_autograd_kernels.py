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
# # Autograd kernels: where an operator meets the graph
#
# The table has a column `Autograd`. Upstream fills it with generated code: for every operator a C++ function in `VariableType_*.cpp` that looks whether an input wants a gradient, calls the kernel below, makes the node
# and hangs it on the result. `tools/autograd` writes some 100,000 lines of it from `derivatives.yaml`. In Python a function can make functions, so ours is written once per *form* of
# operator: this part holds the five forms.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Shapes that meet

# %%
#| into: aten/expand_utils.py
#| imports
from __future__ import annotations

from typing import Any


# %%
#| into: aten/expand_utils.py
#| upstream: aten/src/ATen/ExpandUtils.cpp#at::infer_size
def infer_size(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The broadcast shape of two. RuntimeError names the first dimension, from the right, that does not fit."""
    rank = max(len(a), len(b))
    result = [1] * rank
    for dim in range(rank - 1, -1, -1):
        i, j = len(a) - rank + dim, len(b) - rank + dim
        left, right = (a[i] if i >= 0 else 1), (b[j] if j >= 0 else 1)
        if left != right and left != 1 and right != 1:
            raise RuntimeError(
                f"The size of tensor a ({left}) must match the size of tensor b ({right}) at non-singleton dimension {dim}"
            )
        result[dim] = right if left == 1 else left
    return tuple(result)


def is_expandable_to(shape: tuple[int, ...], desired: tuple[int, ...]) -> bool:
    """Does broadcasting stretch `shape` to `desired`?"""
    if len(shape) > len(desired):
        return False
    return all(size in (1, target) for size, target in zip(reversed(shape), reversed(desired), strict=False))


# %% [markdown]
# The derivative of stretching is summing: if one number was used ten times, its gradient is the sum of ten.


# %%
#| into: aten/expand_utils.py
#| upstream: aten/src/ATen/ExpandUtils.h#at::sum_to
def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sum `array` down to `shape`, which broadcasting would stretch to the array's."""
    lead = array.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, size in enumerate(shape) if size == 1 and array.shape[i + lead] != 1
    )
    if axes:
        array = array.sum(axis=axes, keepdims=True)
    return array.reshape(shape)


# %% [markdown]
# ## Which type is it computed in?
#
# The rule has three ranks: tensors with dimensions decide first, 0-dimensional tensors only if they are of a higher category, Python numbers only if they are of a higher one still. That is why `half_weights * 2.0` stays in half precision and
# `half_weights * torch.tensor(2.0, dtype=torch.float64)` does too.

# %%
#| into: aten/native/type_properties.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_complex_dtype, get_default_dtype
from readtorch.c10.core.scalar_type import COMPLEX, FLOATING, dtype, promote_types


# %%
#| into: aten/native/type_properties.py
#| upstream: aten/src/ATen/native/TypeProperties.cpp#at::native::result_type
def result_type(operands: Sequence[Any]) -> dtype:
    """The dtype an operation on these raw arrays and Python numbers is computed in."""
    ranks: list[dtype | None] = [None, None, None]
    for operand in operands:
        if hasattr(operand, "dtype"):
            rank = 0 if operand.ndim else 1
            found = scalar_type.FROM_NUMPY[operand.dtype]
        else:
            rank, found = 2, number_type(operand)
        old = ranks[rank]
        ranks[rank] = found if old is None else promote_types(old, found)
    return _combine(ranks[0], _combine(ranks[1], ranks[2])) or get_default_dtype()


def number_type(number: Any) -> dtype:
    """The dtype a Python number stands for."""
    if isinstance(number, bool):
        return scalar_type.bool
    if isinstance(number, int):
        return scalar_type.int64
    return get_default_complex_dtype() if isinstance(number, complex) else get_default_dtype()


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    if higher is None or lower is None:
        return higher or lower
    if higher._category == FLOATING and lower._category == COMPLEX:
        return higher.to_complex()
    if higher._category >= FLOATING or lower._category <= higher._category:
        return higher
    return promote_types(higher, lower)


# %% [markdown]
# ## Pointwise operators on raw arrays
#
# Most operators of the library apply one function to every element. Upstream's `TensorIterator` does for all of them what does not depend on the function: promotion, broadcasting, the output. NumPy's *ufunc* is the same idea,
# with other rules of promotion; so ours casts the inputs by the rules above and leaves the loop to NumPy.

# %%
#| into: aten/tensor_iterator.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy._core.umath import _extobj_contextvar, _make_extobj

from readtorch.aten.expand_utils import infer_size
from readtorch.aten.native.type_properties import result_type
from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.scalar_type import INTEGRAL, dtype, to_numpy_dtype


# %%
#| into: aten/tensor_iterator.py
#| upstream: aten/src/ATen/TensorIterator.h#at::TensorIteratorBase
class Pointwise:
    """A function of each element: the ufunc, and the rule for the type it is computed in.

    `promote`: "same" (the common type of the inputs), "float" (integers become the default dtype), "bool" (compare in the common
    type, give bool). `reject`: categories that the operator refuses, with the error's text.
    """

    __slots__ = ("boolean", "floating", "name", "refuse", "ufunc")

    def __init__(
        self, name: str, ufunc: Callable[..., Any], promote: str, refuse: Callable[[dtype], str | None] | None
    ) -> None:
        self.name = name
        self.ufunc = ufunc
        self.floating = promote == "float"
        self.boolean = promote == "bool"
        self.refuse = refuse

    def refused_kinds(self) -> str:
        """NumPy's letters for the kinds of inputs that must not be handed to the ufunc as they are."""
        kinds = "".join(
            {
                kind.numpy.kind
                for kind in scalar_type.ALL
                if kind.numpy is not None and self.refuse and self.refuse(kind)
            }
        )
        if self.floating and (not isinstance(self.ufunc, np.ufunc) or self.ufunc is np.reciprocal):
            kinds += "iub"
        return kinds

    def common(self, operands: Sequence[Any]) -> dtype:
        """The type these operands are computed in. RuntimeError where the operator refuses it."""
        found = result_type(operands)
        if self.floating and found._category <= INTEGRAL:
            found = get_default_dtype()
        if self.refuse is not None and (why := self.refuse(found)):
            raise NotImplementedError(why) if why.startswith('"') else RuntimeError(why)
        return found

    def __call__(self, *operands: Any) -> Any:
        """The kernel: on raw arrays and Python numbers."""
        wanted = to_numpy_dtype(self.common(operands))
        operands = tuple(cast(operand, wanted) for operand in operands)
        token = ignore_floating_errors()
        try:
            result = self.ufunc(*operands)
        except ValueError:
            shapes(self.name, operands)
            raise
        finally:
            restore_floating_errors(token)
        if result.dtype != wanted and not self.boolean and result.dtype.kind == wanted.kind:
            result = result.astype(wanted)
        return result


def cast(operand: Any, wanted: np.dtype) -> Any:
    """An operand in the common type. Python integers wrap around as in C."""
    if hasattr(operand, "dtype"):
        return operand if operand.dtype == wanted else operand.astype(wanted)
    if wanted.kind in "iu" and operand.__class__ is int:
        bits = wanted.itemsize * 8
        operand &= (1 << bits) - 1
        if wanted.kind == "i" and operand >> (bits - 1):
            operand -= 1 << bits
    return np.asarray(operand, dtype=wanted)


def shapes(name: str, operands: Sequence[Any]) -> tuple[int, ...]:
    """The broadcast shape of all operands. RuntimeError with upstream's words if there is none."""
    shape: tuple[int, ...] = ()
    for operand in operands:
        shape = infer_size(shape, getattr(operand, "shape", ()))
    return shape


# %% [markdown]
# NumPy warns when a division by zero gives infinity; PyTorch never does. Switching its warnings off for the whole program would silence the user's own
# NumPy code, and `np.errstate` costs as much as an addition. What it does inside is to set one context variable, so that is what we do.

# %%
#| into: aten/tensor_iterator.py
_IGNORE = _make_extobj(all="ignore")


def ignore_floating_errors() -> Any:
    """Like entering `np.errstate(all="ignore")`, at a tenth of the cost."""
    return _extobj_contextvar.set(_IGNORE)


restore_floating_errors = _extobj_contextvar.reset

# %% [markdown]
# Registering one takes a line:

# %%
#| into: aten/native/__init__.py
"""The kernels, a module per upstream file (twin of `aten/src/ATen/native/`). Importing this package fills the table."""


# %%
#| into: aten/core/dispatch/dispatcher.py
def pointwise(name: str, kernel: Any, arguments: Kernel, *, key: str = "CPU CUDA", **description: Any) -> None:
    """Register a pointwise operator: `kernel` is a `Pointwise`, `arguments` a function whose signature is the schema."""
    entry = operators[name] = OperatorEntry(name, Schema(arguments))
    entry.pointwise = kernel
    describe(entry, **{"variants": "function method", "inplace": True, "out": True, **description})
    for column in key.split():
        entry.kernels[DispatchKey[column]] = kernel
        setattr({"CPU": cpu, "CUDA": cuda}[column], name, kernel)
    _changed(entry)


# %% [markdown]
# ## A tensor's place in the graph
#
# Before the forms, the four things they share. First, views. A tensor that looks into another's memory remembers its base and the steps that lead from there: if somebody writes to the base, the view's history is a new one, and
# repeating the steps on the new base gives it.

# %%
#| into: csrc/autograd/variable.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core import autograd_state
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import VariableVersion, version_counter
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.functions.tensor import CopySlices
from readtorch.csrc.autograd.node import split_edge

# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/variable.h#torch::autograd::CreationMeta
DEFAULT, IN_CUSTOM_FUNCTION, MULTI_OUTPUT_NODE, NO_GRAD_MODE, INFERENCE_MODE = range(5)
"""Under which circumstances a view was made. All but the first forbid writing through it while gradients are recorded."""


def make_view(view: Any, source: Any, step: tuple, creation: int = DEFAULT) -> None:
    """Note that `view` looks into `source`'s memory. `step` is (function, args, kwargs[, number]): how to take it again."""
    counter = source._vc
    if counter is None:
        counter = version_counter(source)
    view._vc = counter
    above = source._view
    if autograd_state.counts.grad_off and not state.grad_mode:
        view._view = (
            source if above is None else above[0],
            (),
            INFERENCE_MODE if state.inference_mode else NO_GRAD_MODE,
        )
        return
    if above is None:
        view._view = (source, (step,), creation)
    else:
        view._view = (above[0], (*above[1], step), creation or above[2])
    counter.register_view(view)


# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/VariableTypeUtils.h#torch::autograd::check_inplace
def check_inplace(tensor: Any) -> None:
    """RuntimeError if writing to `tensor` while gradients are recorded would falsify them."""
    view = tensor._view
    if view is not None:
        base, _, creation = view
        if creation != DEFAULT:
            raise RuntimeError(_forbidden(tensor, creation))
        if base._edge.__class__ is AccumulateGrad:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if tensor._edge.__class__ is AccumulateGrad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


_WHY = {
    IN_CUSTOM_FUNCTION: "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. "
    "Clone the output of the custom Function to get around this.",
    MULTI_OUTPUT_NODE: "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be "
    "modified inplace. Use an out-of-place operation instead.",
}


def _forbidden(tensor: Any, creation: int) -> str:
    if creation in _WHY:
        if tensor._edge is None:
            return f"A view is being modified inplace. {_WHY[creation]}"
        node, number = split_edge(tensor._edge)
        name = node.name().removesuffix("Backward0")
        return f"Output {number} of {name} is a view and is being modified inplace. {_WHY[creation]}"
    mode = "no_grad" if creation == NO_GRAD_MODE else "inference_mode"
    return (
        f"A view was created in {mode} mode and is being modified inplace with grad mode enabled. Whether the gradient should flow "
        f"is ambiguous: move both the view and the inplace operation either inside the {mode} block or out of it."
    )


# %% [markdown]
# Second, writing. `v.mul_(2)` on a view `v` of `b` changes `b`: from now on `b` is the result of "everything as before, except this part". That operation is the node `CopySlices`: it cuts the part
# out of the gradient, sends it through the derivative of the in-place operation, and puts what comes out back in its place.

# %%
#| into: csrc/autograd/functions/tensor.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core import tensor_impl
from readtorch.csrc.autograd.node import Node, next_sequence_nr


# %%
#| into: csrc/autograd/functions/tensor.py
#| upstream: torch/csrc/autograd/functions/tensor.cpp#torch::autograd::CopySlices
class CopySlices(Node):
    """The history of a base after an in-place operation on its view: `function` is the operation's node, `steps` lead to the view."""

    __slots__ = ("function", "steps")

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def __init__(self, base: Any, function: Node, steps: tuple) -> None:
        self.function = function
        self.steps = steps
        self._edges = (base._edge, *function._edges[1:])
        self._sequence = next_sequence_nr()
        self._shape = base._array.shape
        self._dtype = base._array.dtype

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        grad = grads[0]
        if grad is None:
            return [None] * len(self._edges)
        whole = dispatcher.autograd.clone(grad) if graph else tensor_impl.wrap(grad.copy())
        part = replay(whole, self.steps)
        inner = dispatcher.autograd.clone(part) if graph else part._array.copy()
        results = list(self.function.apply([inner], graph))
        if self._edges[0] is not None:
            before = results[0]
            if graph:
                dispatcher.operators["zero_" if before is None else "copy_"].call(
                    part, *([] if before is None else [before])
                )
            else:
                part._array[...] = 0 if before is None else before
            results[0] = whole if graph else whole._array
        return results

    def release_variables(self) -> None:
        self.function.release_variables()


def replay(tensor: Any, steps: tuple) -> Any:
    """Take a view again, starting from `tensor`."""
    for function, args, kwargs, *number in steps:
        tensor = function(tensor, *args, **kwargs)
        if number:
            tensor = tensor[number[0]]
    return tensor


# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/variable.cpp#torch::autograd::impl::rebase_history
def rebase_history(tensor: Any, node: Any) -> None:
    """`tensor` was written to in place by the operation of `node`: that is its history from now on, and its aliases follow."""
    view = tensor._view
    if view is None:
        tensor._edge = node
        _refresh_views(tensor)
        return
    base, steps, _ = view
    base._edge = CopySlices(base, node, steps)
    _refresh_views(base)


def _refresh_views(base: Any) -> None:
    """Give every living view of `base` the history that leads through the base's new one."""
    from readtorch.csrc.autograd.functions.tensor import replay

    counter: VariableVersion | None = base._vc
    if counter is None or counter.views is None:
        return
    enabled = state.grad_mode
    autograd_state.set_grad_enabled(True)
    living, counter.views = counter.views, None
    try:
        for reference in living:
            view = reference()
            if view is not None and view._view is not None and view._view[0] is base and view._view[1]:
                view._edge = replay(base, view._view[1])._edge
    finally:
        counter.views = living
        autograd_state.set_grad_enabled(enabled)


# %% [markdown]
# Third, becoming a leaf.


# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/variable.cpp#torch::autograd::VariableHooks::requires_grad_
def set_requires_grad(tensor: Any, wanted: bool) -> None:
    """Make `tensor` a leaf that collects gradients, or stop it being one. RuntimeError if it is no leaf."""
    edge = tensor._edge
    if edge is not None and edge.__class__ is not AccumulateGrad:
        if wanted:
            return
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
            "doesn't require differentiation use var_no_grad = var.detach()."
        )
    if not wanted:
        tensor._edge = None
    elif edge is None:
        if tensor._array.dtype.kind not in "fc" and tensor._array.dtype.kind != "V":
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if tensor._meta is not None and tensor._meta.get("inference") and not state.inference_mode:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        tensor._edge = AccumulateGrad(tensor)


def grad_fn(tensor: Any) -> Any:
    """The node that made `tensor`; None for leaves."""
    edge = tensor._edge
    if edge is None or edge.__class__ is AccumulateGrad:
        return None
    return split_edge(edge)[0]


def is_leaf(tensor: Any) -> bool:
    """Was it made by the user, not by a recorded operation?"""
    return tensor._edge is None or tensor._edge.__class__ is AccumulateGrad


# %% [markdown]
# ## The node of an operator
#
# One class per operator, so that the graph prints as upstream's does. What an instance holds was decided by the names in the formulas.

# %%
#| into: csrc/autograd/generated_node.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import TENSOR_LIST, OperatorEntry
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.dispatch_key import BACKENDS
from readtorch.csrc.autograd.node import Node
from readtorch.csrc.autograd.saved_variable import Packed, check_version, modified, released


# %%
#| into: csrc/autograd/generated_node.py
#| upstream: torch/csrc/autograd/node.h#torch::autograd::TraceableFunction
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

    def output_has_counter(self, number: int, counter: Any) -> None:
        if self.entry.derivative is not None and self.entry.derivative.outputs:
            self._counters = {**(self._counters or {}), number: counter}

    def release_variables(self) -> None:
        rule = self.entry.derivative
        assert rule is not None
        if rule.saved or rule.outputs:
            self._saved = self._result = None
            self._released = True

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        edges = self._edges
        first = grads[0] if len(grads) == 1 else next((grad for grad in grads if grad is not None), None)
        if first is None:
            return [None] * len(edges)
        if self._released:
            raise released(self.name())
        at = dispatcher.autograd if graph else dispatcher.columns(BACKENDS[first.__class__])
        values = self._values(grads, graph)
        results: list[Any] = [None] * len(edges)
        for positions, formula, names in self.plan():
            if positions is None:
                return list(formula(at, *[values[name] for name in names]))
            if len(positions) == 1:
                position = positions[0]
                if edges[position] is not None:
                    results[position] = formula(at, *[values[name] for name in names])
            elif any(edges[i] is not None for i in positions):
                if "mask" not in self.entry.schema.names:
                    values["mask"] = tuple(edges[i] is not None for i in positions)
                for i, grad in zip(positions, formula(at, *[values[name] for name in names]), strict=True):
                    results[i] = grad if edges[i] is not None else None
        return results

    @classmethod
    def plan(cls) -> list[tuple[tuple[int, ...] | None, Any, tuple[str, ...]]]:
        """For each formula: which edges it serves (None: all of them, one per tensor of a list), and the names it wants."""
        found = cls.__dict__.get("_plan")
        if found is None:
            rule, schema = cls.entry.derivative, cls.entry.schema
            assert rule is not None
            order = [name for name in schema.names if name in rule.differentiable]
            found = []
            for key, formula in rule.formulas.items():
                is_list = len(key) == 1 and schema.kinds[schema.names.index(key[0])] is TENSOR_LIST
                positions = None if is_list else tuple(order.index(name) for name in key)
                found.append((positions, formula, rule.needs[key]))
            cls._plan = found  # type: ignore[attr-defined]
        return found

    def _values(self, grads: list[Any], graph: bool) -> dict[str, Any]:
        entry, rule = self.entry, self.entry.derivative
        assert rule is not None
        values: dict[str, Any] = {"grad": grads[0], "grads": grads}
        versions = self._versions
        for i, name in enumerate(rule.saved):
            values[name] = _unpack(self._saved[i], 0 if versions is None else versions[i], graph)
        for (name, what), value in zip(rule.metas, self._saved[len(rule.saved) :], strict=True):
            values[f"{name}_{what}"] = value
        for i, number in enumerate(rule.outputs):
            array = self._result[i] if len(rule.outputs) > 1 else self._result
            values[entry.outputs[number]] = self._output(array, number, graph)
        if rule.options:
            bound = self._bound_options()
            for name in bound:
                values.setdefault(name, bound[name])
        values.setdefault("mask", tuple(edge is not None for edge in self._edges))
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
        if array.__class__ is Packed:
            tensor = array.restore()
            return tensor if graph else tensor._array
        counter = self._counters.get(number) if self._counters else None
        if counter is not None and counter.value != self._expected:
            raise modified(array, (self, number), counter.value, self._expected)
        if not graph:
            return array
        shown = self.entry.differentiable_outputs
        differentiable = array.dtype.kind in "fcV" and (shown is None or number in shown)
        return tensor_impl.wrap(array, (self if self._count == 1 else (self, number)) if differentiable else None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return self._saved_attribute(name.removeprefix("_saved_"))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _saved_attribute(self, name: str) -> Any:
        if self._released:
            raise released(self.name())
        values = self._values([None] * self._count, True)
        if name not in values or name in ("grad", "grads", "mask"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '_saved_{name}'")
        return values[name]


def _unpack(value: Any, version: int, graph: bool) -> Any:
    if value.__class__ is Packed:
        value = value.restore()
    elif isinstance(value, tensor_impl.TensorImpl):
        check_version(value, version)
    elif value.__class__ is list:
        return [_unpack(item, 0, graph) for item in value]
    else:
        return value
    return value if graph else value._array


def node_class(entry: OperatorEntry) -> type[GeneratedNode]:
    """The class of the operator's nodes."""
    return type(entry.node_name, (GeneratedNode,), {"__slots__": (), "entry": entry, "__module__": "torch.autograd"})


# %% [markdown]
# ## From a call to the result
#
# Now the forms. Each is a function that takes an operator's entry and returns what `torch.NAME` is: a closure that holds the kernel, the node class, and which tensors are kept. The first handles operators that have
# one or more tensors in front and options behind: `sum(x, dim)`, `mm(a, b)`, `where(c, a, b)`.
#
# Read `call` from top to bottom. It is the answer to "what happens between `a @ b` and BLAS": fetch the raw arrays; pick the column; call the kernel; if an input wants a gradient, make the node; wrap the result.

# %%
#| into: csrc/autograd/variable_type.py
#| imports
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.core.dispatch.dispatcher import lookup
from readtorch.aten.core.dispatch.operator_entry import OPTION, TENSOR_LIST, OperatorEntry
from readtorch.aten.expand_utils import infer_size
from readtorch.aten.tensor_iterator import ignore_floating_errors, restore_floating_errors
from readtorch.c10.core import autograd_state, scalar_type, tensor_impl
from readtorch.c10.core.autograd_state import counts, state
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey, device_of
from readtorch.c10.core.scalar_type import can_cast, to_string
from readtorch.c10.core.tensor_impl import TensorImpl, current_version, new, version_counter
from readtorch.csrc.autograd.anomaly_mode import store_stack
from readtorch.csrc.autograd.generated_node import GeneratedNode, node_class
from readtorch.csrc.autograd.node import next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed
from readtorch.csrc.autograd.variable import DEFAULT, MULTI_OUTPUT_NODE, check_inplace, make_view, rebase_history

# %%
#| into: csrc/autograd/variable_type.py
ndarray = np.ndarray
now = time.perf_counter_ns
Call = Callable[..., Any]

#: what Python calls a number, and NumPy's scalars, which stand for one
NUMBERS = frozenset((float, int, bool, complex))


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
    takes_out = entry.out

    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if counts.special and state.autocast is not None and entry.autocast:
            args, kwargs = autocast(entry, args, kwargs)
        tensors, options = args[:count], args[count:]
        try:
            arrays = [tensor._array for tensor in tensors]
        except AttributeError:
            tensors, options, kwargs = take_tensors(entry, args, kwargs)
            arrays = [tensor._array for tensor in tensors]
        if len(arrays) != count:
            tensors, options, kwargs = take_tensors(entry, args, kwargs)
            arrays = [tensor._array for tensor in tensors]
        out = kwargs.pop("out", None) if kwargs and takes_out else None
        kernel = cpu_kernel
        for array in arrays:
            if array.__class__ is not ndarray:
                kernel = lookup(entry, common_backend(arrays))
                break
        token = ignore_floating_errors()
        try:
            raw = kernel(*arrays, *options, **kwargs)
        finally:
            restore_floating_errors(token)
        node = None
        if differentiable and (not counts.grad_off or state.grad_mode):
            for tensor in tensors:
                if tensor._edge is not None:
                    node = make_node(tensors, options, kwargs, raw)  # type: ignore[misc]
                    break
        if out is not None:
            result = give_out(entry, raw, out, node)
        elif raw.__class__ is ndarray and not counts.special:
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
# Most of these have one tensor, and most calls are plain. The same again for that case, without the loops: this is the form that a training step runs through most often.


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

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if counts.special or (kwargs and "out" in kwargs):
            return slow(input, *args, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            array = input._array
        except AttributeError:
            raise not_a_tensor(entry, 0, input) from None
        if array.__class__ is not ndarray:
            return slow(input, *args, **kwargs)
        token = ignore_floating_errors()
        try:
            raw = kernel(array, *args, **kwargs)
        finally:
            restore_floating_errors(token)
        node = None
        edge = input._edge
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

    def call(input: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        if counts.special or (kwargs and "out" in kwargs):
            return slow(input, other, *args, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            first, second = input._array, other._array
        except AttributeError:
            return slow(input, other, *args, **kwargs)
        if first.__class__ is not ndarray or second.__class__ is not ndarray:
            return slow(input, other, *args, **kwargs)
        token = ignore_floating_errors()
        try:
            raw = kernel(first, second, *args, **kwargs)
        finally:
            restore_floating_errors(token)
        node = None
        a, b = input._edge, other._edge
        if (a is not None or b is not None) and differentiable and (not counts.grad_off or state.grad_mode):
            if crosswise:
                node = new(node_type)
                node._edges = (a, b)
                node._sequence = next_sequence_nr()
                node._options = (args, kwargs) if args or kwargs else None
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


# %% [markdown]
# And for a list of tensors in front: `cat`, `stack`.


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

    def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if counts.special or not simple or (kwargs and "out" in kwargs) or tensors.__class__ not in (list, tuple):
            return slow(tensors, *args, **kwargs)
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
        token = ignore_floating_errors()
        try:
            raw = kernel(arrays, *args, **kwargs)
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
# `take_tensors` is the path of calls that are wrong, or that name their tensors by keyword.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: torch/csrc/utils/python_arg_parser.cpp#torch::FunctionSignature::parse
def take_tensors(entry: OperatorEntry, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, tuple, dict[str, Any]]:
    """Split a call into tensors, options and keywords. TypeError names the argument that is no tensor."""
    kwargs = dict(kwargs)
    names = entry.schema.names[: entry.schema.leading or 0]
    values = list(args[: len(names)])
    for position in range(len(values), len(names)):
        name = names[position]
        if name in kwargs:
            values.append(kwargs.pop(name))
        elif position == 0 and "input" in kwargs:
            values.append(kwargs.pop("input"))
        else:
            raise TypeError(f'{entry.name}() missing 1 required positional arguments: "{shown(name)}"')
    for position, value in enumerate(values):
        if not isinstance(value, TensorImpl):
            raise not_a_tensor(entry, position, value)
    return tuple(values), args[len(names) :], kwargs


def shown(name: str) -> str:
    """A parameter's name as functions show it."""
    return "input" if name == "self" else name


def not_a_tensor(entry: OperatorEntry, position: int, value: Any) -> TypeError:
    """The error for a value where a tensor belongs."""
    name = shown(entry.schema.names[position])
    return TypeError(
        f"{entry.name}(): argument '{name}' (position {position + 1}) must be Tensor, not {type(value).__name__}"
    )


def common_backend(arrays: list[Any]) -> DispatchKey:
    """The one column that all these arrays belong to. RuntimeError if they lie on different devices."""
    key, found = DispatchKey.Undefined, None
    for array in arrays:
        if array is None:
            continue
        where = device_of(array)
        if found is not None and where != found:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {found} and {where}!"
            )
        key, found = BACKENDS[array.__class__], where
    return key


# %% [markdown]
# Making the node: the edges, the saved tensors with their versions, the saved results, the shape and dtype.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: tools/autograd/gen_variable_type.py#emit_body
class Recorder:
    """Makes an operator's nodes."""

    __slots__ = ("differentiable", "entry", "node_class", "one", "outputs", "plain", "positions", "rule", "saved")

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
        node._edges = (tensor._edge,)
        node._sequence = next_sequence_nr()
        node._options = (options, kwargs) if options or kwargs else None
        node._versions = None
        if self.saved:
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
            if value.__class__ in (list, tuple):
                edges.extend(item._edge for item in value)
            else:
                edges.append(value._edge if isinstance(value, TensorImpl) else None)
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
        versions: list[int] = []
        for position, wanted_by in self.saved:
            value = values[position]
            if value.__class__ in (list, tuple):
                value = list(value)
            elif not any(_wants_grad(values[i]) for i in wanted_by):
                value = None
            saved.append(value)
            versions.append(current_version(value) if isinstance(value, TensorImpl) else 0)
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
                node._shape, node._dtype = raw[shown_outputs[0]].shape, raw[shown_outputs[0]].dtype
            else:
                node._count = len(shown_outputs)
                node._shape = [raw[i].shape for i in shown_outputs]
                node._dtype = [raw[i].dtype for i in shown_outputs]
            node._result = raw[outputs[0]] if len(outputs) == 1 else [np.asarray(raw[i]) for i in outputs]
        else:
            node._shape = raw.shape
            node._dtype = raw.dtype
            node._result = raw if outputs else None
        if counts.special:
            special_node(node)


def _wants_grad(value: Any) -> bool:
    if value.__class__ in (list, tuple):
        return any(_wants_grad(item) for item in value)
    return isinstance(value, TensorImpl) and value._edge is not None


def _meta(value: Any, what: str) -> Any:
    return None if value is None else getattr(value._array, what) if isinstance(value, TensorImpl) else ()


def special_node(node: GeneratedNode) -> None:
    """What anomaly mode and saved-tensor hooks want of a new node."""
    if state.anomaly:
        store_stack(node)
    hooks = state.saved_tensor_hooks
    if not hooks:
        return
    innermost = hooks[-1]
    if isinstance(innermost, str):
        raise RuntimeError(innermost)
    node._saved = tuple(Packed(value, innermost) if isinstance(value, TensorImpl) else value for value in node._saved)
    if isinstance(node._result, list):
        node._result = [Packed(tensor_impl.wrap(array), innermost) for array in node._result]
    elif node._result is not None:
        node._result = Packed(tensor_impl.wrap(np.asarray(node._result)), innermost)


# %% [markdown]
# Wrapping: one tensor, several in a named tuple, or a list.


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
    tensor._meta = INFERENCE if counts.special and state.inference_mode else None
    return tensor


INFERENCE = {"inference": True}


def _give_several(entry: OperatorEntry, raw: Any, node: GeneratedNode | None) -> Any:
    shown_outputs = entry.differentiable_outputs
    results = []
    for i, array in enumerate(raw):
        if not isinstance(array, ndarray | np.generic) and not hasattr(array, "dtype"):
            results.append(array)
            continue
        edge: Any = None
        if node is not None and (shown_outputs is None or i in shown_outputs):
            number = i if shown_outputs is None else shown_outputs.index(i)
            edge = node if number == 0 else (node, number)
        results.append(give(entry, array, edge))
    return entry.result_class(results) if entry.result_class is not None else tuple(results)


def give_out(entry: OperatorEntry, raw: Any, out: Any, node: Any) -> Any:
    """Write results to the tensors given as `out=`, which are resized if need be."""
    if node is not None:
        raise RuntimeError(
            f"{entry.name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
        )
    if raw.__class__ in (tuple, list):
        outs = tuple(write_out(entry.name, array, target) for array, target in zip(raw, out, strict=True))
        return entry.result_class(outs) if entry.result_class is not None else outs
    return write_out(entry.name, raw, out)


def write_out(name: str, raw: Any, out: Any) -> Any:
    """Write one raw result to a tensor. RuntimeError if its dtype cannot hold the result, or if it requires grad."""
    if not isinstance(out, TensorImpl):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if out._edge is not None and state.grad_mode:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
        )
    check_cast(raw.dtype, out._array.dtype)
    target = out._array
    if target.shape != raw.shape:
        if target.size:
            import warnings

            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(target.shape)}, which does not match the "
                f"required output shape {list(raw.shape)}. Reuse out tensors only after resizing them to zero elements.",
                stacklevel=4,
            )
        target = out._array = type(target)(raw.shape, dtype=target.dtype)
    target[...] = raw
    version_counter(out).value += 1
    return out


def check_cast(source: np.dtype, target: np.dtype) -> None:
    """RuntimeError if a result of type `source` must not be stored as `target`."""
    if source is not target and source != target:
        a, b = scalar_type.FROM_NUMPY[source], scalar_type.FROM_NUMPY[target]
        if not can_cast(a, b):
            raise RuntimeError(f"result type {to_string(a)} can't be cast to the desired output type {to_string(b)}")


# %% [markdown]
# ### Pointwise operators
# They are most of what a program calls, so the common case, tensors of one dtype or a tensor and a number, is written out; all else (promotion, other devices, `out=`) takes the second path through the same table.


# %%
#| into: csrc/autograd/variable_type.py
def unary(entry: OperatorEntry) -> Call:
    """A pointwise operator with one tensor and no options."""
    ufunc = entry.pointwise.ufunc
    boolean = entry.pointwise.boolean
    refused = entry.pointwise.refused_kinds()
    record = Recorder(entry)
    differentiable = record.differentiable
    keep_input = differentiable and bool(record.saved)
    keep_result = differentiable and bool(record.outputs)
    node_type = record.node_class if differentiable else None
    slow = leading(entry)
    name = f"aten::{entry.name}"

    def call(input: Any, **kwargs: Any) -> Any:
        if kwargs or counts.special:
            return slow(input, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            array = input._array
        except AttributeError:
            raise not_a_tensor(entry, 0, input) from None
        if array.__class__ is not ndarray or (refused and array.dtype.kind in refused):
            return slow(input)
        token = ignore_floating_errors()
        try:
            raw = ufunc(array)
        finally:
            restore_floating_errors(token)
        if raw.dtype is not array.dtype and not boolean:
            return slow(input)
        if raw.__class__ is not ndarray:
            raw = np.asarray(raw)
        tensor = new(tensor_impl.Tensor)
        tensor._array = raw
        edge = input._edge
        if edge is not None and differentiable and (not counts.grad_off or state.grad_mode):
            node = new(node_type)
            node._edges = (edge,)
            node._sequence = next_sequence_nr()
            node._options = None
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


# %%
#| into: csrc/autograd/variable_type.py
def binary(entry: OperatorEntry, reject: Callable[[OperatorEntry, int, Any], Any] = not_a_tensor) -> Call:
    """A pointwise operator with two operands, of which either may be a Python number.

    `reject` says what to do with an operand that is neither tensor nor number: the default makes a TypeError; Python's operators
    return NotImplemented.
    """
    ufunc = entry.pointwise.ufunc
    boolean = entry.pointwise.boolean
    refused = entry.pointwise.refused_kinds()
    record = Recorder(entry)
    differentiable = record.differentiable
    rule = record.rule
    keep_first = rule is not None and "self" in rule.saved
    keep_second = rule is not None and "other" in rule.saved
    first_for = rule.wanted_by.get("self", ()) if rule is not None else ()
    second_for = rule.wanted_by.get("other", ()) if rule is not None else ()
    crosswise = first_for in ((), ("other",)) and second_for in ((), ("self",))
    keep_result = differentiable and bool(record.outputs)
    node_type = record.node_class if differentiable else None
    slow = binary_slow(entry, record, reject)
    name = f"aten::{entry.name}"

    def call(input: Any, other: Any, **kwargs: Any) -> Any:
        if kwargs or counts.special:
            return slow(input, other, **kwargs)
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            a = input._array
            if other.__class__ in NUMBERS:
                b = other
                second = None
            else:
                b = other._array
                second = other._edge
                if b.dtype is not a.dtype or b.__class__ is not ndarray:
                    return slow(input, other)
        except AttributeError:
            return slow(input, other)
        if a.__class__ is not ndarray or (refused and a.dtype.kind in refused):
            return slow(input, other)
        token = ignore_floating_errors()
        try:
            raw = ufunc(a, b)
        except (ValueError, OverflowError, TypeError):
            return slow(input, other)
        finally:
            restore_floating_errors(token)
        if raw.dtype is not a.dtype and not (boolean and b.__class__ is ndarray):
            return slow(input, other)
        if raw.__class__ is not ndarray:
            raw = np.asarray(raw)
        tensor = new(tensor_impl.Tensor)
        tensor._array = raw
        first = input._edge
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
                node._saved = (input, other) if keep_first and keep_second else (input,) if keep_first else (other,)
            if input._vc is None and (b is other or other._vc is None):
                node._versions = None
            else:
                node._versions = [0 if value is None or value is b else current_version(value) for value in node._saved]
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
            observer.operator(name, (input, other), tensor, begin, now())
        return tensor

    return call


# %%
#| into: csrc/autograd/variable_type.py
def binary_slow(entry: OperatorEntry, record: Recorder, reject: Callable[[OperatorEntry, int, Any], Any]) -> Call:
    """The second path: promotion, broadcasting errors, devices, keywords, `out=`."""
    name = f"aten::{entry.name}"
    shown_name = entry.name

    def call(input: Any, other: Any, *, out: Any = None, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        operands = [input, other]
        for position, operand in enumerate(operands):
            if isinstance(operand, TensorImpl) or operand.__class__ in NUMBERS:
                continue
            if isinstance(operand, np.generic | bool | int | float | complex):
                operands[position] = operand.item() if isinstance(operand, np.generic) else operand
                continue
            error = reject(entry, position, operand)
            if error is NotImplemented:
                return error
            raise error
        if entry.schema.keyword_only and kwargs:
            return _with_alpha(call, entry, operands, out, kwargs)
        if kwargs:
            raise TypeError(f"{shown_name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if counts.special and state.autocast is not None and entry.autocast:
            operands = list(autocast(entry, tuple(operands), {})[0])
        raw = run_pointwise(
            entry, [operand._array if isinstance(operand, TensorImpl) else operand for operand in operands]
        )
        node = None
        if record.differentiable and state.grad_mode and any(_wants_grad(operand) for operand in operands):
            node = record.bound(operands, raw)
            node._options = None
        result = give(entry, raw, node) if out is None else give_out(entry, raw, out, node)
        if observer is not None:
            observer.operator(name, (input, other), result, begin, now())
        return result

    return call


def _with_alpha(call: Call, entry: OperatorEntry, operands: list[Any], out: Any, kwargs: dict[str, Any]) -> Any:
    """`add` and `sub` with `alpha`: scale the second operand first."""
    alpha = kwargs.pop("alpha", 1)
    if kwargs:
        raise TypeError(f"{entry.name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
    first, second = operands
    if isinstance(alpha, TensorImpl):
        alpha = alpha._array.item()
    if alpha.__class__ is float and not _is_floating(first) and not _is_floating(second):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return call(first, second if alpha == 1 else second * alpha, out=out)


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


# %% [markdown]
# ### Everything else
# Tensors between options, lists of tensors, optional tensors: `cat(tensors, dim)`, `index_add(x, dim, index, source)`. Bound by name, a little slower.


# %%
#| into: csrc/autograd/variable_type.py
def general(entry: OperatorEntry) -> Call:
    """The operator for any signature."""
    schema = entry.schema
    record = Recorder(entry)
    name = f"aten::{entry.name}"
    cpu_kernel = entry.kernels[DispatchKey.CPU]
    positions = [i for i, kind in enumerate(schema.kinds) if kind is not OPTION]

    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        out = kwargs.pop("out", None) if kwargs and entry.out else None
        if counts.special and state.autocast is not None and entry.autocast:
            args, kwargs = autocast(entry, args, kwargs)
        values = schema.bind(entry.name, args, kwargs)
        raw_values, arrays, wants = unwrap(entry, positions, values)
        kernel = cpu_kernel
        for array in arrays:
            if array.__class__ is not ndarray:
                kernel = lookup(entry, common_backend(arrays))
                break
        token = ignore_floating_errors()
        try:
            raw = _call_kernel(entry, kernel, raw_values)
        finally:
            restore_floating_errors(token)
        node = None
        if wants and record.differentiable and (not counts.grad_off or state.grad_mode):
            node = record.bound(values, raw)
            node._options = _without_tensors(positions, values)
        result = give(entry, raw, node) if out is None else give_out(entry, raw, out, node)
        if observer is not None:
            observer.operator(name, args, result, begin, now())
        return result

    return call


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
            wants = wants or value._edge is not None
        elif entry.schema.kinds[position] is TENSOR_LIST and value.__class__ in (list, tuple):
            raw[position] = []
            for number, item in enumerate(value):
                if item is not None and not isinstance(item, TensorImpl):
                    raise TypeError(
                        f"expected Tensor as element {number} in argument {position}, but got {type(item).__name__}"
                    )
                raw[position].append(None if item is None else item._array)
                if item is not None:
                    arrays.append(item._array)
                    wants = wants or item._edge is not None
        elif value is None and entry.schema.kinds[position] == "tensor?":
            continue
        elif entry.schema.kinds[position] is TENSOR_LIST:
            name = shown(entry.schema.names[position])
            kind = type(value).__name__
            raise TypeError(
                f"{entry.name}(): argument '{name}' (position {position + 1}) must be tuple of Tensors, not {kind}"
            )
        else:
            raise not_a_tensor(entry, position, value)
    return raw, arrays, wants


# %% [markdown]
# ### Views
# The kernel returns an array that looks into the same memory; the tensor around it shares the counter and remembers the way.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: torch/csrc/autograd/VariableTypeUtils.h#torch::autograd::as_view
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

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        try:
            array = input._array
        except AttributeError:
            raise not_a_tensor(entry, 0, input) from None
        kernel = cpu_kernel if array.__class__ is ndarray else lookup(entry, BACKENDS[array.__class__])
        raw = kernel(array, *args, **kwargs)
        if raw.__class__ is list:
            return view_list(input, raw, args, kwargs, begin, observer)
        aliases = True
        if raw is array:
            if sometimes:
                return input
            raw = array.view() if array.__class__ is ndarray else array[...]
        elif sometimes:
            base = raw.base
            aliases = base is not None and (base is array or base is array.base)
        recording = not counts.grad_off or state.grad_mode
        node = None
        edge = input._edge
        if edge is not None and recording and differentiable:
            if simple and not counts.special:
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
        result._meta = INFERENCE if counts.special and state.inference_mode else None
        if aliases:
            if recording and input._view is None:
                counter = input._vc or version_counter(input)
                result._vc = counter
                result._view = (input, ((call, args, kwargs),), DEFAULT)
                counter.register_view(result)
            else:
                make_view(result, input, (call, args, kwargs))
        if observer is not None:
            observer.operator(name, (input, *args), result, begin, now())
        return result

    def view_list(input: Any, raws: list[Any], args: tuple, kwargs: dict[str, Any], begin: int, observer: Any) -> Any:
        node = None
        if input._edge is not None and differentiable and (not counts.grad_off or state.grad_mode):
            node = record.leading((input,), args, kwargs, raws)
        results = []
        for number, raw in enumerate(raws):
            edge: Any = node if node is None or number == 0 else (node, number)
            result = give(entry, raw, edge)
            make_view(result, input, (call, args, kwargs, number), MULTI_OUTPUT_NODE)
            results.append(result)
        if observer is not None:
            observer.operator(name, (input, *args), tuple(results), begin, now())
        return tuple(results)

    return call


def _copied(entry: OperatorEntry) -> OperatorEntry:
    """The same operator as it appears in the graph when it had to copy (`reshape` of a transposed matrix)."""
    other = OperatorEntry.__new__(OperatorEntry)
    other.__dict__.update(entry.__dict__)
    if entry.name == "reshape":
        other.node_name = "UnsafeViewBackward0"
    return other


# %% [markdown]
# ### In place
# Either the kernel itself writes to its first argument (`copy_`, `zero_`), or the result of the ordinary one is written there. Three checks stand before: no leaf, no forbidden view, a result that fits.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: tools/autograd/gen_variable_type.py#emit_body
def inplace(entry: OperatorEntry) -> Call:
    """`NAME_`: the operator with its result written to the first argument."""
    schema = entry.schema
    record = Recorder(entry)
    mutating = entry.name.endswith("_")
    method = entry.name if mutating else entry.name + "_"
    positions = [i for i, kind in enumerate(schema.kinds) if kind is not OPTION]
    keeps_self = record.rule is not None and "self" in record.rule.saved
    keeps_result = record.rule is not None and bool(record.rule.outputs)

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        if entry.pointwise is not None and kwargs:
            kwargs, args = _scale_second(kwargs, args)
        values = schema.bind(method, (input, *args), kwargs)
        if not isinstance(input, TensorImpl):
            raise not_a_tensor(entry, 0, input)
        array = input._array
        if input._meta is not None and "inference" in input._meta and not state.inference_mode:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal tensor before doing inplace update."
            )
        wants = False
        if record.differentiable and (not counts.grad_off or state.grad_mode):
            wants = any(_wants_grad(values[i]) for i in positions)
            if wants:
                check_inplace(input)
        if not wants and state.grad_mode and (input._edge is not None or _view_of_recorded(input)):
            check_inplace(input)
        if wants and keeps_self and not mutating:
            original = tensor_impl.wrap(array.copy(), input._edge)
            values = [original, *values[1:]]
        raw = _write(entry, method, array, values, positions, mutating)
        counter = version_counter(input)
        counter.value += 1
        if wants:
            node = record.bound(values, raw)
            node._options = _without_tensors(positions, values)
            if keeps_result:
                node._counters = {0: counter}
                node._expected = counter.value
            rebase_history(input, node)
        if observer is not None:
            observer.operator(f"aten::{method}", (input, *args), input, begin, now())
        return input

    return call


def _view_of_recorded(tensor: Any) -> bool:
    """Was this made, with recording off, as a view of something that wants gradients?"""
    view = tensor._view
    return view is not None and view[2] != DEFAULT and view[0]._edge is not None


def _scale_second(kwargs: dict[str, Any], args: tuple) -> tuple[dict[str, Any], tuple]:
    alpha = kwargs.pop("alpha", 1)
    if "other" in kwargs:
        args = (kwargs.pop("other"),)
    return kwargs, args if alpha == 1 else (args[0] * alpha,)


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
            if operand.__class__ not in NUMBERS and not hasattr(operand, "dtype"):
                raise not_a_tensor(entry, position, operand)
        if _straight(entry, array, operands):
            token = ignore_floating_errors()
            try:
                return entry.pointwise.ufunc(array, *operands[1:], out=array)
            finally:
                restore_floating_errors(token)
        raw = run_pointwise(entry, operands)
    else:
        raw_values, arrays, _ = unwrap(entry, positions, values)
        kernel = entry.kernels[DispatchKey.CPU] if array.__class__ is ndarray else lookup(entry, common_backend(arrays))
        token = ignore_floating_errors()
        try:
            raw = _call_kernel(entry, kernel, raw_values)
        finally:
            restore_floating_errors(token)
        if mutating:
            return array
    check_cast(raw.dtype, array.dtype)
    if raw.shape != array.shape:
        shape = infer_size(array.shape, raw.shape)
        if shape != array.shape:
            raise RuntimeError(f"output with shape {list(array.shape)} doesn't match the broadcast shape {list(shape)}")
    array[...] = raw
    return array


def _straight(entry: OperatorEntry, array: Any, operands: list[Any]) -> bool:
    """Can the ufunc write to `array` itself? One dtype, and the others stretch to its shape."""
    if array.__class__ is not ndarray or entry.pointwise.boolean or not isinstance(entry.pointwise.ufunc, np.ufunc):
        return False
    if array.dtype.kind not in "fc":
        return False
    for operand in operands[1:]:
        if operand.__class__ is ndarray:
            if operand.dtype is not array.dtype or (operand.shape != array.shape and operand.shape != ()):
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


# %% [markdown]
# ### Composites
# A composite has no node of its own: it calls other operators, and they record.


# %%
#| into: csrc/autograd/variable_type.py
def composite(entry: OperatorEntry, at: Any) -> Call:
    """An operator written with other operators."""
    function = entry.composite
    assert function is not None
    name = f"aten::{entry.name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record_function.observer
        begin = now() if observer is not None else 0
        out = kwargs.pop("out", None) if kwargs and entry.out else None
        if kwargs and "input" in kwargs and entry.schema.names[:1] == ("self",):
            kwargs["self"] = kwargs.pop("input")
        result = function(at, *args, **kwargs)
        if out is not None:
            result = give_out(entry, result._array, out, result._edge)
        if observer is not None:
            observer.operator(name, args, result, begin, now())
        return result

    return call


def inplace_composite(entry: OperatorEntry, at: Any) -> Call:
    """`NAME_` of a composite: compute from a copy, whose value the saved tensors may keep, then write."""
    function = entry.composite
    assert function is not None

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        source = input
        if state.grad_mode and (
            input._edge is not None or any(_wants_grad(value) for value in args) or _view_of_recorded(input)
        ):
            check_inplace(input)
            source = tensor_impl.wrap(input._array.copy(), input._edge)
        result = function(at, source, *args, **kwargs)
        check_cast(result._array.dtype, input._array.dtype)
        if result._array.shape != input._array.shape:
            shape = list(result._array.shape)
            raise RuntimeError(
                f"output with shape {list(input._array.shape)} doesn't match the broadcast shape {shape}"
            )
        if source is input or input._view is not None:
            return at.copy_(input, result)
        input._array[...] = result._array
        version_counter(input).value += 1
        rebase_history(input, result._edge)
        return input

    return call


# %% [markdown]
# ### Autocast
# In the column of highest priority. Operators of the list "low" get their floating inputs cast to the low-precision type, those of "float32" to that, those of "widest" to the widest among them.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: aten/src/ATen/autocast_mode.h#at::autocast::cached_cast
#: CUDA's float32 list is long; the CPU's is losses and products, since bfloat16 has float32's range
_FLOAT32_ON_CPU = {
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "nll_loss_nd",
    "prod",
    "smooth_l1_loss",
}


def autocast(entry: OperatorEntry, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments with floating tensors cast as the operator's list asks."""
    modes = state.autocast
    found = [t for t in _tensors((*args, *kwargs.values())) if t._array.dtype.kind in "fV"]
    if not found or modes is None:
        return args, kwargs
    low = modes.get(device_of(found[0]._array).type)
    if low is None:
        return args, kwargs
    if entry.autocast == "low":
        wanted = low
    elif entry.autocast == "float32":
        if found[0]._array.__class__ is np.ndarray and entry.name not in _FLOAT32_ON_CPU:
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
    if cache is None or not (value._edge is not None and not value._edge._edges):
        return value.to(wanted)
    key = (id(value), wanted)
    found = cache.get(key)
    if found is None:
        found = cache[key] = (value, value.to(wanted))
    return found[1]


# %% [markdown]
# ## Handing them to Python
#
# A listener of the table makes the entry point of each operator that is registered, and puts it where Python looks: into the namespace of functions, and on the class.

# %%
#| into: csrc/utils/structseq.py
#| imports
from __future__ import annotations

from operator import itemgetter
from typing import Any


# %%
#| into: csrc/utils/structseq.py
#| upstream: torch/csrc/utils/structseq.h#torch::utils::returned_structseq_repr
class StructSequence(tuple):
    """A tuple whose items have names: what `x.max(1)` returns."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        inner = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"torch.return_types.{type(self).__name__}(\n{inner})"


def structseq(name: str, names: tuple[str, ...]) -> Any:
    """The class of a named result."""
    members: dict[str, Any] = {
        "__slots__": (),
        "_fields": names,
        "__module__": "torch.return_types",
        "n_fields": len(names),
    }
    for position, field in enumerate(names):
        members[field] = property(itemgetter(position))
    return type(name, (StructSequence,), members)


# %%
#| into: csrc/autograd/python_torch_functions.py
#| imports
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import OPTION, TENSOR_LIST, OperatorEntry
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd import variable_type
from readtorch.csrc.utils.structseq import structseq

# %%
#| into: csrc/autograd/python_torch_functions.py
#| upstream: torch/csrc/autograd/python_torch_functions_manual.cpp#torch::autograd::initTorchFunctions
functions: dict[str, SimpleNamespace] = {"": SimpleNamespace()}
"""The functions by module: `""` is `torch._C._VariableFunctions`, `"nn"` is `torch._C._nn`, and so on."""


def module(name: str) -> SimpleNamespace:
    """The namespace of a module of functions."""
    return functions.setdefault(name, SimpleNamespace())


def offer(entry: OperatorEntry) -> None:
    """Make the entry points of an operator and put them where Python looks for them."""
    if entry.composite is None and not entry.kernels:
        return
    if entry.named:
        entry.result_class = structseq(entry.named, entry.outputs)
    call = entry.call = entry_point(entry)
    call.__name__ = entry.name
    call.__qualname__ = f"_VariableFunctions.{entry.name}"
    call.__module__ = "torch"
    setattr(dispatcher.autograd, entry.name, call)
    if "function" in entry.variants:
        setattr(module(entry.module), entry.name, call)
    if "method" in entry.variants:
        setattr(TensorImpl, entry.name, call)
    if entry.inplace and not entry.name.endswith("_"):
        _offer_inplace(entry)


def _offer_inplace(entry: OperatorEntry) -> None:
    if entry.composite is not None:
        call = variable_type.inplace_composite(entry, dispatcher.autograd)
    else:
        call = variable_type.inplace(entry)
    name = f"{entry.name}_"
    call.__name__ = name
    call.__qualname__ = f"TensorBase.{name}"
    setattr(dispatcher.autograd, name, call)
    if "method" in entry.variants:
        setattr(TensorImpl, name, call)
    if "function" in entry.variants and (entry.module or name in INPLACE_FUNCTIONS):
        setattr(module(entry.module), name, call)


#: the in-place operators that are functions of `torch` too, and not methods alone
INPLACE_FUNCTIONS = frozenset(
    [
        "abs_",
        "acos_",
        "acosh_",
        "addmv_",
        "alpha_dropout_",
        "arccos_",
        "arccosh_",
        "arcsin_",
        "arcsinh_",
        "arctan_",
        "arctanh_",
        "asin_",
        "asinh_",
        "atan_",
        "atanh_",
        "ceil_",
        "celu_",
        "clamp_",
        "clamp_max_",
        "clamp_min_",
        "clip_",
        "conj_physical_",
        "cos_",
        "cosh_",
        "deg2rad_",
        "dropout_",
        "erf_",
        "erfc_",
        "exp2_",
        "exp_",
        "expm1_",
        "feature_alpha_dropout_",
        "feature_dropout_",
        "fix_",
        "floor_",
        "frac_",
        "gcd_",
        "index_put_",
        "lcm_",
        "ldexp_",
        "log10_",
        "log1p_",
        "log2_",
        "log_",
        "logit_",
        "nan_to_num_",
        "neg_",
        "negative_",
        "rad2deg_",
        "reciprocal_",
        "relu_",
        "round_",
        "rrelu_",
        "rsqrt_",
        "selu_",
        "sigmoid_",
        "sin_",
        "sinc_",
        "sinh_",
        "sqrt_",
        "square_",
        "tan_",
        "tanh_",
        "threshold_",
        "trunc_",
        "xlogy_",
    ]
)


def entry_point(entry: OperatorEntry) -> Any:
    """The form that fits the operator's signature."""
    if entry.composite is not None:
        return variable_type.composite(entry, dispatcher.autograd)
    if entry.name.endswith("_"):
        return variable_type.inplace(entry)
    if entry.view:
        return variable_type.view(entry)
    if entry.pointwise is not None:
        return variable_type.unary(entry) if len(entry.schema.names) == 1 else variable_type.binary(entry)
    if entry.schema.leading:
        forms = {1: variable_type.leading_one, 2: variable_type.leading_two}
        return forms.get(entry.schema.leading, variable_type.leading)(entry)
    if entry.schema.kinds[0] is TENSOR_LIST and set(entry.schema.kinds[1:]) <= {OPTION}:
        return variable_type.leading_list(entry)
    return variable_type.general(entry)


def init() -> None:
    """Offer every operator there is, and from now on every new one."""
    dispatcher.add_registration_listener(offer)
