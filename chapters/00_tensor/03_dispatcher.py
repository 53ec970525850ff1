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
# # The dispatcher, and how an operator is registered
#
# Who decides which code runs when you call `torch.add(a, b)`? Three things have to happen that know nothing of each
# other: compute the sum on whatever device has the data, record how to differentiate it, and, inside `autocast`, cast the
# inputs first. Written as one function:

# %%
import numpy as np

import readtorch as torch
from readtorch.aten.core.dispatch import dispatcher
from readtorch.literate import live

live()


# %%
class Value:
    """A tensor reduced to what the sketch below needs."""

    def __init__(self, data, device="cpu", grad_fn=None, requires_grad=False):
        self.data, self.device, self.grad_fn, self.requires_grad = data, device, grad_fn, requires_grad


def add(a, b, autocast=None):
    if autocast:
        a, b = Value(a.data.astype(autocast)), Value(b.data.astype(autocast))
    if a.device == "cpu":
        data = np.add(a.data, b.data)
    elif a.device == "meta":
        data = np.broadcast_shapes(a.data, b.data)
    else:
        raise NotImplementedError(a.device)
    node = (lambda grad: (grad, grad)) if a.requires_grad or b.requires_grad else None
    return Value(data, a.device, node, node is not None)


add(Value(np.ones(2)), Value(np.ones(2)), autocast=np.float16).data.dtype

# %% [markdown]
# It works, and it has to be written two thousand times. A new device means editing every operator, and so does a new
# feature such as autocast. (This one has a bug as well: the cast drops `requires_grad`. It would have to be found two
# thousand times.) Nobody outside the library can add either.
#
# Upstream keeps the concerns apart with a table. An operator is a row, a *dispatch key* is a column, and each cell has a
# kernel. A call walks from the key of highest priority down to that of the device.
#
# ```mermaid
# flowchart TB
#   accTitle: A call of add walks down the columns
#   accDescr: From Python through Autocast, which casts and calls again, and Autograd, which calls the backend and records a node, to the kernel of CPU, CUDA or Meta
#   P["torch.add(a, b)"] --> AC
#   AC["Autocast: cast the inputs, then go on<br/>(only inside autocast)"] --> AG
#   AG["Autograd: go on with raw arrays,<br/>then make AddBackward0 and wrap"] --> B{"where is the data?"}
#   B -- "ndarray" --> CPU["CPU: numpy.add"]
#   B -- "MetaArray" --> M["Meta: the shape alone"]
#   B -- "cupy.ndarray" --> CU["CUDA: cupy.add"]
# ```
#
# There are two kinds of column. *Functionalities* (Autocast, Autograd) do something around the call and pass it on.
# *Backends* end it. A device supplies a column, a feature supplies a column, an operator supplies a row, and none of the
# three has to know the others.
#
# This part is the table. Its last section registers an operator from scratch; begin there if you want to add one.

# %% [markdown]
# ## Which columns are there, and in which order?

# %%
#| into: c10/core/dispatch_key.py
#| imports
from __future__ import annotations

import enum


# %%
#| into: c10/core/dispatch_key.py
#| upstream: c10/core/DispatchKey.h#c10::DispatchKey
class DispatchKey(enum.IntEnum):
    """The columns, in the order of priority: a call meets the highest first."""

    Undefined = 0
    CPU = 1
    CUDA = 2
    Meta = 3
    SparseCPU = 4
    Autograd = 5
    Autocast = 6
    FuncTorchBatched = 7
    FuncTorchGradWrapper = 8


# %% [markdown]
# The order is the priority. `SparseCPU` is the column of tensors that are stored as a list of coordinates and values (a1,
# [*Sparse tensors*](../a1_operators/5c_sparse.py)). It has the highest number of all backends, so a call with one sparse
# and one dense argument goes there. The two `FuncTorch` keys stand for tensors inside `torch.func` transforms, [a later
# part](13d_levels_of_transforms.py).
#
# Why does Autocast stand above Autograd? Because the cast is part of what is computed. Its derivative must be recorded
# too, so that a gradient arrives in the dtype of the original input.


# %%
#| needs: a1_operators
#| claim: autocast's cast is recorded: gradients come back in the input's own dtype
def _(torch):
    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.mm(x, x)
    assert y.dtype is torch.bfloat16
    y.sum().backward()
    assert x.grad.dtype is torch.float32


# %% [markdown]
# ### What upstream does more
# The list has well over a hundred entries, and it is not flat. A *functionality* (Dense, Sparse, AutogradFunctionality …)
# combined with a *backend component* (CPU, CUDA, MPS …) gives the key that indexes the table. Each tensor carries the set
# of its keys as the bits of one 64-bit word. A call joins the sets of all its arguments, adds what the thread has
# switched on, removes what it has switched off, and takes the highest bit. So leaving a layer is cheap: the autograd
# kernel calls the operator again with the bits below its own (`at::redispatch`). It also switches its keys off for the
# thread, so that what the backend's kernel calls in turn is not recorded either.
#
# Between Autograd and the backends lies a column that our list lacks, `ADInplaceOrView`. It has kernels for two kinds of
# operator only: those that write raise the version counter there, and views note their base. (Ours do both in the
# [forms](07_forms_of_operators.py) of the operators.) It is a column of its own for the sake of inference mode. That mode
# takes Autograd out of every call. It takes this column out only where all tensors were made inside, because a write to a
# tensor from outside must still be counted.
#
# > [!NOTE]
# > **Often told otherwise.** "`no_grad` switches the autograd layer off." It sets a flag of the thread. Every call still passes through the
# > autograd kernel, which finds that nothing is to be recorded.

# %%
#| fact: c10/core/DispatchKeySet.h#c10::DispatchKeySet
#| fact: c10/core/DispatchKey.h#c10::BackendComponent
#| fact: aten/src/ATen/core/dispatch/DispatchKeyExtractor.h#c10::impl::computeDispatchKeySet
#| fact: aten/src/ATen/core/LegacyTypeDispatch.h#at::AutoDispatchBelowADInplaceOrView


# %%
#| needs: a1_operators
#| claim: a write inside inference mode to a tensor from outside is counted; a tensor made inside has no counter
#| upstream: c10/core/InferenceMode.h#c10::InferenceMode
def _(torch):
    outside = torch.ones(2)
    with torch.inference_mode():
        outside.add_(1)
        inside = torch.ones(2)
    assert outside._version == 1
    try:
        inside._version
    except RuntimeError as error:
        assert "Inference tensors do not track version counter" in str(error)
    else:
        raise AssertionError("counted")


# %%
#| claim: under no_grad the autograd keys stay in the call; inference mode excludes them, and no longer adds ADInplaceOrView
#| differs: readtorch has no sets of keys; a flag of the thread is read instead
def _(torch):
    def keys(name):
        thread = getattr(torch._C, f"_dispatch_tls_local_{name}_set")()
        return {
            key: thread.has(getattr(torch._C.DispatchKey, key)) for key in ("AutogradFunctionality", "ADInplaceOrView")
        }

    with torch.no_grad():
        assert not keys("exclude")["AutogradFunctionality"] and keys("include")["ADInplaceOrView"]
    with torch.inference_mode():
        assert keys("exclude")["AutogradFunctionality"] and not keys("include")["ADInplaceOrView"]


# %% [markdown]
# ### Which backend?
#
# Here the class of the raw array decides in which backend's column a call ends: `numpy.ndarray` is the CPU's, CuPy's
# array the GPU's. [The next part](03a_meta.py) has the table of classes, and a backend that shows what a column is made
# of: `meta`, whose tensors have no data.

# %% [markdown]
# ## Who sees every operator?
#
# A profiler wants to see every operator with its inputs and outputs. So do the traces on these pages. Upstream offers
# callbacks (`RecordFunction`). Here it is one slot, read once per operator and once per node of a backward pass; it is
# None unless something records.

# %%
#| into: aten/record_function.py
#| imports
from __future__ import annotations

from typing import Any, Protocol


# %%
#| into: aten/record_function.py
#| upstream: aten/src/ATen/record_function.h#at::RecordFunction
class Observer(Protocol):
    """What the slot `observer` may hold. Times are `time.perf_counter_ns()`."""

    def operator(self, name: str, inputs: tuple, outputs: object, begin_ns: int, end_ns: int) -> None:
        """An operator has returned. `name` is qualified (`aten::add`); operators called by it were reported before it."""

    def node(self, node: Any, grads_in: tuple, grads_out: tuple, begin_ns: int, end_ns: int) -> None:
        """A node of a backward pass has run. Gradients are raw arrays, tensors where the backward is itself recorded, or None."""

    def alloc(self, storage: Any) -> None:
        """A creation function has allocated a storage."""


observer: Observer | None = None

# %% [markdown]
# ## What does a row know?
#
# A row is an `OperatorEntry`. It has the kernels by key, the derivative, and what the bindings need to know.
#
# Before a call can be dispatched it must be understood: which arguments are tensors, which are options, what are the
# defaults? Upstream writes that down once per operator, in a language of its own, in `native_functions.yaml`
# (`add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`), and generates the Python parser, the C++
# declarations and the registration from it. Python has such a language already. Here a kernel is a plain function on raw
# arrays, and its signature **is** the operator's schema. A parameter annotated `Array` is a tensor, `Array | None` an
# optional one, `Sequence[Array]` a list of tensors; everything else is an option.

# %%
#| fact: aten/src/ATen/native/native_functions.yaml#add.Tensor

# %%
#| into: aten/core/__init__.py
"""Dispatch and generators (twin of `aten/src/ATen/core/`)."""

# %%
#| into: aten/core/dispatch/__init__.py
"""The table of operators (twin of `aten/src/ATen/core/dispatch/`)."""

# %%
#| into: aten/core/dispatch/operator_entry.py
#| imports
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from readtorch.c10.core.dispatch_key import DispatchKey

# %%
#| into: aten/core/dispatch/operator_entry.py
Array = Any
"""A raw array of whatever backend: NumPy's, CuPy's. The annotation that marks a kernel's tensor parameters."""

Number = Any
"""A Python number of any kind."""

Real = Any
"""A Python number that is not complex. (A `float` refuses a complex number as the wrong kind, a `Real` as one that does not fit.)"""

Dims = Any
"""One dimension or several."""

Ints = Any
"""A list or tuple of ints, for which no single one may stand."""

UNSAID: Any = None
"""The default of an option that may be left out and may not be None."""

TENSOR, OPTIONAL_TENSOR, TENSOR_LIST, OPTION = "tensor", "tensor?", "tensor[]", "option"
_KINDS = {
    "Array": TENSOR,
    "Array | None": OPTIONAL_TENSOR,
    "Tensor": TENSOR,
    "Tensor | None": OPTIONAL_TENSOR,
    "Sequence[Array]": TENSOR_LIST,
    "Sequence[Array | None]": TENSOR_LIST,
}
REQUIRED = inspect.Parameter.empty


class Schema:
    """A kernel's signature: names, kinds and defaults of the parameters, and where the tensors stand."""

    __slots__ = (
        *("annotations", "defaults", "keyword_only", "kinds", "leading", "names", "positional"),
        *("var_keyword", "var_positional", "var_tensors"),
    )

    def __init__(self, kernel: Callable[..., Any], skip: int = 0) -> None:
        code, notes = kernel.__code__, kernel.__annotations__
        count = code.co_argcount
        names = code.co_varnames[skip:count]
        self.positional = len(names)
        self.keyword_only = code.co_varnames[count : count + code.co_kwonlyargcount]
        self.names = names + self.keyword_only
        self.var_positional = code.co_varnames[count + code.co_kwonlyargcount] if code.co_flags & 0x04 else None
        defaults = kernel.__defaults__ or ()
        self.defaults = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        self.defaults.update(kernel.__kwdefaults__ or {})
        self.var_keyword = bool(code.co_flags & 0x08)
        self.var_tensors = notes.get(self.var_positional or "") == "Tensor"
        self.annotations = tuple(notes.get(name, "") for name in self.names)
        self.kinds = tuple(_KINDS.get(note, OPTION) for note in self.annotations)
        #: how many tensors stand first, if all tensors do; else None
        count = next((i for i, kind in enumerate(self.kinds) if kind is not TENSOR), len(self.kinds))
        self.leading = count if all(kind is OPTION for kind in self.kinds[count:]) else None

    def bind(self, op: str, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The value of every parameter. TypeError where Python's own call would raise one."""
        if self.var_positional:
            head = len(self.names) - len(self.keyword_only)
            rest = args[head:]
            args = args[:head]
            if not rest and self.var_positional in kwargs:
                kwargs = dict(kwargs)
                rest = (kwargs.pop(self.var_positional),)
            return [*self._bind(op, args, kwargs), rest]
        return self._bind(op, args, kwargs)

    def _bind(self, op: str, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        names = self.names
        if len(args) > self.positional:
            plural = "" if self.positional == 1 else "s"
            raise TypeError(f"{op}() takes {self.positional} positional argument{plural} but {len(args)} were given")
        if not kwargs and len(args) == len(names):
            return list(args)
        values = list(args)
        taken = 0
        for position in range(len(args), len(names)):
            name = names[position]
            if name in kwargs:
                values.append(kwargs[name])
                taken += 1
            elif position == 0 and "input" in kwargs:
                values.append(kwargs["input"])
                taken += 1
            elif name in self.defaults:
                values.append(self.defaults[name])
            else:
                raise TypeError(f'{op}() missing 1 required positional arguments: "{name}"')
        if taken != len(kwargs):
            for name in kwargs:
                if name not in names and name != "input":
                    raise TypeError(f"{op}() got an unexpected keyword argument '{name}'")
                if name in names[: len(args)]:
                    raise TypeError(f"{op}() got multiple values for argument '{name}'")
        return values


# %% [markdown]
# What a schema sees, for two operators whose code comes later:

# %%
for name in ("add", "sum"):
    schema = dispatcher.operators[name].schema
    print(name, dict(zip(schema.names, schema.kinds, strict=True)), schema.defaults)

# %% [markdown]
# ## Where is the derivative?
#
# "I have found the kernel of `conv2d`. Where is its backward?" People ask this again and again, after they have searched
# the source for `ConvolutionBackward0` or `AddBackward0` and found nothing. These classes are in no file of the
# repository. They are generated when PyTorch is built, each from a few lines of `derivatives.yaml`: the operator's schema
# and, for each input, an expression for its gradient.
#
# ```mermaid
# flowchart LR
#   accTitle: What is generated from the two tables
#   accDescr: native_functions.yaml and derivatives.yaml go into tools/autograd, which writes VariableType, Functions and the Python bindings
#   N["native_functions.yaml<br/>schemas, kernels by key"] --> G["torchgen, tools/autograd"]
#   D["derivatives.yaml<br/>formulas"] --> G
#   G --> V["VariableType_*.cpp<br/>the Autograd column"]
#   G --> F["Functions.cpp<br/>the node classes"]
#   G --> P["python_torch_functions_*.cpp,<br/>python_variable_methods.cpp<br/>torch.add, Tensor.add"]
# ```
#
# Here no code is generated. Both tables are made of Python functions, and what upstream writes into files is made as
# closures when an operator is registered ([from a call to the result](06_from_call_to_result.py)).
#
# A derivative has one formula per differentiable parameter, as in `derivatives.yaml`, and the same idea behind it: **the
# names that a formula uses say what must be kept for it**. `other` keeps that tensor; `result` keeps the output;
# `self_shape` keeps a tuple and lets the tensor go. When the node runs, each formula is given what it names.
#
# The first parameter, `at`, is the library that the formula computes with: the kernels on raw arrays in an ordinary
# backward, the operators on tensors under `create_graph=True`. One text serves both, so a second derivative needs no
# second formula.

# %%
#| fact: tools/autograd/derivatives.yaml#add.Tensor
#| fact: tools/autograd/derivatives.yaml#convolution
#| fact: tools/autograd/gen_variable_type.py#gen_variable_type
#| fact: tools/autograd/gen_autograd_functions.py#gen_autograd_functions_lib


# %%
#| into: aten/core/dispatch/operator_entry.py
#| upstream: tools/autograd/load_derivatives.py#load_derivatives
_FACTS = ("shape", "dtype", "geometry")


class Derivative:
    """The formulas of an operator, `parameter -> formula`, and what they need, read off their parameter names.

    A formula's parameters: `at`; `grad` (or `grads` with several outputs, None where one is unused); `result` or the name of an output; the name of any
    parameter; `NAME_shape`, `NAME_dtype` and `NAME_geometry` (shape, strides and offset, in elements) of a tensor parameter; `mask`, which gradients are wanted, in a formula for several parameters (unless the operator has a parameter of that name).
    It returns the gradient of its parameter, a fresh array or `grad` itself, in any shape that broadcasting came from: the engine sums it down.
    """

    __slots__ = ("formulas", "in_opmath", "metas", "needs", "opaque", "options", "outputs", "saved", "wanted_by")

    def __init__(
        self, schema: Schema, formulas: dict[tuple[str, ...], Callable[..., Any]], outputs: tuple[str, ...]
    ) -> None:
        self.formulas = formulas
        self.needs = {
            key: formula.__code__.co_varnames[1 : formula.__code__.co_argcount] for key, formula in formulas.items()
        }
        named = {name for names in self.needs.values() for name in names}
        tensors = [name for name, kind in zip(schema.names, schema.kinds, strict=True) if kind is not OPTION]
        #: tensors kept whole, in the order of the signature
        self.saved = tuple(name for name in tensors if name in named)
        #: facts kept in place of a tensor: pairs (tensor, one of `_FACTS`)
        self.metas = tuple((t, what) for t in tensors for what in _FACTS if f"{t}_{what}" in named)
        #: kept outputs by number
        self.outputs = tuple(i for i, name in enumerate(outputs) if name in named)
        for reserved in ("grad", "grads"):
            if reserved in schema.names:
                raise ValueError(
                    f"a parameter named {reserved!r} cannot be told from the incoming gradient: call it grad_output"
                )
        known = {*self.saved, *(f"{t}_{what}" for t, what in self.metas), *outputs, "grad", "grads", "mask"}
        #: see `opaque` of the dispatcher; None: the formulas lead where they lead
        self.opaque: bool | None = None
        #: does a formula use an option of the call?
        self.options = bool(named - known)
        #: the formulas, by their keys, that are one kernel upstream; see `differentiates_in_opmath`
        self.in_opmath: tuple[tuple[str, ...], ...] = ()
        #: for each kept tensor: the parameters whose gradient wants it
        self.wanted_by = {
            name: tuple(p for key, names in self.needs.items() if name in names for p in key) for name in self.saved
        }

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The parameters that have a formula."""
        return tuple(name for key in self.formulas for name in key)


# %%
#| needs: a1_operators
for name in ("add", "mul", "exp", "mm"):
    rule = dispatcher.operators[name].derivative
    print(f"{name:4} keeps inputs {rule.saved}, facts {rule.metas}, outputs {rule.outputs}")

# %% [markdown]
# `add` keeps nothing at all. `mul` keeps both inputs, each for the gradient of the other. `exp` keeps its own result
# instead of its input. Much of the memory of a training step follows from this column: the activations that stay are
# those that formulas name. It also decides which in-place operations are allowed.


# %%
#| needs: a1_operators
#| claim: what may be overwritten follows from what the formula names: exp's input may, its result may not; with mul it is the other way round
def _(torch):
    def allowed(function, write_input):
        x = torch.ones(2, requires_grad=True) * 1
        y = function(x)
        (x if write_input else y).add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            return False
        return True

    assert allowed(torch.exp, write_input=True) and not allowed(torch.exp, write_input=False)
    assert allowed(lambda x: x * x, write_input=False) and not allowed(lambda x: x * x, write_input=True)
    assert allowed(lambda x: x + x, write_input=True) and allowed(lambda x: x + x, write_input=False)


# %%
#| into: aten/core/dispatch/operator_entry.py
#| upstream: aten/src/ATen/core/dispatch/OperatorEntry.h#c10::impl::OperatorEntry
class OperatorEntry:
    """One operator: its kernels by key, its derivative, and how it is offered to Python.

    `call` is the entry point on tensors, made by `csrc/autograd/variable_type.py` when the operator is registered.
    """

    def __init__(self, name: str, schema: Schema) -> None:
        self.name = name
        self.schema = schema
        self.kernels: dict[DispatchKey, Callable[..., Any]] = {}
        self.derivative: Derivative | None = None
        self.outputs: tuple[str, ...] = ("result",)
        self.named = ""
        self.result_class: type | None = None
        self.variants: tuple[str, ...] = ("function",)
        self.module = ""
        self.method_names: tuple[str, ...] = ()
        self.inplace = False
        #: for an operator in place whose kernel would copy the whole to change a part: a kernel that writes to its first argument
        self.writing: Callable[..., None] | None = None
        #: which operands of a pointwise operator may be Python numbers: "first second"
        self.numbers = ""
        self.out = False
        #: is this what the method knows of the operator? See `as_method`.
        self.is_method = False
        self.view = ""
        self.pointwise: Any = None
        self.composite: Callable[..., Any] | None = None
        self.autocast: str | None = None
        self.node_name = _node_name(name)
        #: for an operator that upstream has several of under one name: the node's name, told from the options of the call
        self.overload: Callable[[dict[str, Any]], str] | None = None
        self.differentiable_outputs: tuple[int, ...] | None = None
        #: its derivative can do without an output that was overwritten since: it is then given None in its place
        self.remakes = False
        #: on what the kernel is run for meta tensors: "zeros", "ones", or "identity"
        self.specimen = "zeros"
        self.call: Any = None
        #: for columns whose arrays are none: what is called in place of `call`, with a kernel and a derivative of its own
        self.forms: dict[DispatchKey, Any] = {}

    def __repr__(self) -> str:
        return f"<OperatorEntry aten::{self.name}>"

    def kernel(self, key: DispatchKey) -> Callable[..., Any]:
        """The kernel in column `key`. NotImplementedError names the operator and the columns that are filled."""
        found = self.kernels.get(key)
        if found is None:
            have = ", ".join(k.name for k in self.kernels)
            raise NotImplementedError(
                f"Could not run 'aten::{self.name}' with arguments from the '{key.name}' backend. It has kernels for [{have}]."
            )
        return found


def _node_name(name: str) -> str:
    return "".join(word.title() if word.islower() else word for word in name.strip("_").split("_")) + "Backward0"


# %%
entry = dispatcher.operators["add"]
entry, {key.name: kernel for key, kernel in entry.kernels.items()}, entry.node_name

# %% [markdown]
# ## How is a row added?
#
# There are three ways to register, one for each of upstream's kinds of kernel:
#
# * `register` takes a kernel on raw arrays. Upstream: a function named under `dispatch:` in `native_functions.yaml`. With
#   a derivative the operator becomes differentiable.
# * `pointwise` takes a NumPy ufunc, and adds promotion, broadcasting, `out=` and the in-place form. Upstream: a
#   *structured* kernel on `TensorIterator`. It is defined [in the part after the
#   engine](05_before_the_kernels.py#pointwise).
# * `composite` takes a function that is written with other operators. Upstream: `CompositeImplicitAutograd`. It needs no
#   derivative: the operators inside have theirs.

# %%
#| into: aten/core/dispatch/dispatcher.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from readtorch.aten.autocast_mode import FLOAT32_ON_CPU
from readtorch.aten.core.dispatch.operator_entry import Derivative, OperatorEntry, Schema
from readtorch.c10.core.contiguity import strides_of_result
from readtorch.c10.core.dispatch_key import DispatchKey, geometry, identity, meta_array, on_meta, specimen

# %%
#| into: aten/core/dispatch/dispatcher.py
#| upstream: aten/src/ATen/core/dispatch/Dispatcher.h#c10::Dispatcher
operators: dict[str, OperatorEntry] = {}
"""The table: one entry per operator name."""

cpu = SimpleNamespace()
"""The CPU column as a library: `cpu.sum(array, dim)`. What formulas call `at` in an ordinary backward."""


class CudaColumn(SimpleNamespace):
    """The CUDA column as a library. Its kernels are made when they are first asked for."""

    #: what makes them, and makes formulas and composites fit for device arrays; the CUDA backend puts it here when it is first used
    maker: Any = None

    def __getattr__(self, name: str) -> Any:
        entry = operators.get(name)
        if entry is None or self.maker is None:
            raise AttributeError(f"there is no CUDA kernel aten::{name}")
        made = self.maker.kernel(entry)
        setattr(self, name, made)
        return made

    def forget(self, name: str) -> None:
        """Make the kernel of this name anew."""
        self.__dict__.pop(name, None)


cuda = CudaColumn()
"""The CUDA column."""

autograd = SimpleNamespace()
"""The operators on tensors, as a library. What formulas call `at` under `create_graph=True`."""

_listeners: list[Callable[[OperatorEntry], None]] = []
Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def add_registration_listener(listener: Callable[[OperatorEntry], None]) -> None:
    """Call `listener` for every operator there is and for every one registered or changed later."""
    _listeners.append(listener)
    for entry in operators.values():
        listener(entry)


def _changed(entry: OperatorEntry) -> None:
    cuda.forget(entry.name)
    for listener in _listeners:
        listener(entry)


def describe(
    entry: OperatorEntry,
    *,
    variants: str = "function",
    module: str = "",
    outputs: str = "result",
    named: str = "",
    inplace: bool = False,
    out: bool = False,
    view: str = "",
    autocast: str | None = None,
    node: str = "",
    differentiable_outputs: tuple[int, ...] | None = None,
    numbers: str = "",
    remakes: bool = False,
    specimen: str = "zeros",
) -> None:
    """Set what the bindings need to know about an operator; see `register` for the meaning of each."""
    entry.variants = tuple(variants.split())
    entry.module = module
    entry.outputs = tuple(outputs.split())
    entry.named = named
    entry.inplace = inplace
    entry.numbers = numbers
    entry.out = out
    entry.view = view
    entry.autocast = autocast or ("float32 on CPU" if entry.name in FLOAT32_ON_CPU else None)
    entry.node_name = (node if "Backward" in node else f"{node}Backward0") if node else entry.node_name
    entry.differentiable_outputs = differentiable_outputs
    entry.remakes = remakes
    entry.specimen = specimen


# %%
#| into: aten/core/dispatch/dispatcher.py
#| upstream: torch/library.h#torch::Library
def register(name: str, *, key: str = "CPU", **description: Any) -> Callable[[Kernel], Kernel]:
    """Decorator: this function, on raw arrays, is the kernel of operator `name` in column `key`.

    `key="CPU CUDA"` fills both, for a body that works on any array library. Only the first registration describes the operator:

    * `variants`: "function", "method" or both: whether it becomes `torch.NAME`, `Tensor.NAME`, or neither ("");
    * `module`: `"nn"`, `"linalg"`, …: the function goes to `torch._C._nn` and so on instead of `torch`;
    * `inplace`: also make `NAME_`, which writes the result into its first argument; `out`: accept `out=`;
    * `outputs`: names of the outputs; `named`: the name of the tuple they are returned in;
    * `numbers`: "second" or "first second": which operands of a pointwise operator may be Python numbers;
    * `view`: "always" if the result looks into the first argument's memory, "maybe" if it depends (reshape);
    * `autocast`: "low" (compute in the low-precision type), "float32", or "widest" inside `autocast`;
    * `node`: the stem of the node's name where upstream's is not the operator's (`"Mm"` gives `MmBackward0`);
    * `differentiable_outputs`: numbers of the outputs that can have a gradient; the others come out as plain tensors;
    * `remakes`: the derivative takes None for an output that was overwritten after the call, and makes it again;
    * `specimen`: what the kernel is run on for meta tensors, where it refuses "zeros": "ones", or matrices of "identity".

    The kernel itself is returned unchanged: other kernels call it directly.
    """

    def decorate(kernel: Kernel) -> Kernel:
        entry = operators.get(name)
        if entry is None or key.startswith("CPU"):
            fresh = OperatorEntry(name, Schema(kernel))
            if entry is not None:
                fresh.kernels.update(entry.kernels)
                fresh.derivative = entry.derivative
            entry = operators[name] = fresh
            describe(entry, **description)
        for column in key.split():
            entry.kernels[DispatchKey[column]] = kernel
            if column == "CPU":
                setattr(cpu, name, kernel)
        _changed(entry)
        return kernel

    return decorate


def derivative(name: str, formulas: dict[str, Callable[..., Any]] | None = None, **more: Callable[..., Any]) -> None:
    """Give operator `name` its derivative: `parameter=formula`, or `{"a, b": formula}` for one formula that returns several gradients.

    See `Derivative` for what a formula may name. A parameter without a formula is not differentiable.
    """
    entry = operators[name]
    table = {
        tuple(part.strip() for part in key.split(",")): formula for key, formula in {**(formulas or {}), **more}.items()
    }
    entry.derivative = Derivative(entry.schema, table, entry.outputs)
    _changed(entry)


# %% [markdown]
# `register` and `derivative` are what nearly every operator of the book uses. The functions below are remarks that a few
# operators add to their row, in order to agree with upstream in rare cases.


# %%
#| into: aten/core/dispatch/dispatcher.py
def unknown(message: str, kind: type[Exception] = NotImplementedError) -> Callable[..., Any]:
    """The formula of a derivative that nobody has written: it raises when the backward pass arrives."""

    def formula(at: Any, grad: Any) -> Any:
        raise kind(message)

    return formula


def opaque(*names: str, zero: bool = True) -> None:
    """Upstream, the backward pass of these operators is one operator, and it takes what the forward pass kept.

    So a gradient made with `create_graph=True` leads to the kept tensors even where it does not change with them. Their derivative
    is then zero, or nothing at all (`zero=False`), and to ask for it is no error.
    """
    for name in names:
        rule = operators[name].derivative
        assert rule is not None
        rule.opaque = zero


def overloads(name: str, choose: Callable[[dict[str, Any]], str]) -> None:
    """Name the nodes of operator `name` by the options of its calls. They are renamed when somebody looks at them, not before."""
    operators[name].overload = choose


def writes(name: str) -> Callable[[Kernel], Kernel]:
    """Decorator: `name_` on the CPU is this function, which writes to its first argument what `name` would to a copy of it."""

    def decorate(kernel: Kernel) -> Kernel:
        operators[name].writing = kernel
        return kernel

    return decorate


# %% [markdown]
# A composite receives `at` too, and runs on both levels like a formula: other kernels call it as `at.NAME` on raw arrays,
# users call it on tensors. The rest of the cell is the Meta column, which no operator has to fill: the CPU's kernel is
# run on [a specimen](03a_meta.py#specimen), and shape and dtype of what comes out are kept.


# %%
#| into: aten/core/dispatch/dispatcher.py
def composite(name: str, **description: Any) -> Callable[[Kernel], Kernel]:
    """Decorator: operator `name` is this function of `at` and the arguments, written with other operators."""

    def decorate(function: Kernel) -> Kernel:
        entry = operators[name] = OperatorEntry(name, Schema(function, skip=1))
        describe(entry, **description)
        entry.composite = function
        setattr(cpu, name, partial(function, cpu))
        _changed(entry)
        return function

    return decorate


class MetaColumn(SimpleNamespace):
    """The Meta column as a library, for formulas in the backward pass of meta tensors."""

    def __getattr__(self, name: str) -> Any:
        if name not in operators:
            raise AttributeError(f"there is no operator aten::{name}")
        return lookup(operators[name], DispatchKey.Meta)


meta = MetaColumn()
"""The Meta column."""


def meta_kernel(entry: OperatorEntry) -> Callable[..., Any]:
    """The Meta column, for operators that fill none: run the CPU kernel on a specimen and keep shape and dtype.

    A view is taken of the outline. A pointwise operator is run on one element of each operand, and its result lies as they do.
    The others see the whole shape, all strides 0.
    """
    if entry.composite is not None:
        return partial(entry.composite, meta)
    kernel = entry.kernels[DispatchKey.CPU]
    if entry.pointwise is not None:
        return partial(_pointwise_on_meta, kernel)
    if entry.view:
        return lambda array, *args, **kwargs: _map_arrays(kernel(array.outline, *args, **kwargs), array.seen_as)

    fills: dict[str, Callable[[Any], Any]] = {
        "zeros": specimen,
        "ones": partial(specimen, fill=1),
        "identity": identity,
    }
    filled = fills[entry.specimen]

    def run(*args: Any, **kwargs: Any) -> Any:
        kwargs = {name: _map_arrays(arg, filled) for name, arg in kwargs.items()}
        return _map_arrays(kernel(*(_map_arrays(arg, filled) for arg in args), **kwargs), on_meta)

    return run


def formula_on_meta(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of a derivative, for meta arrays. What it makes with NumPy's own functions is no meta array by itself."""
    return lambda *values: _map_arrays(formula(*values), on_meta)


def broadcasts_on_meta(*names: str) -> None:
    """Fill the Meta column of operators whose result has the shape that all operands are broadcast to: one element is computed."""
    for name in names:
        entry = operators[name]
        entry.kernels[DispatchKey.Meta] = partial(_pointwise_on_meta, entry.kernels[DispatchKey.CPU])
        _changed(entry)


def _pointwise_on_meta(kernel: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        return kernel(*(_map_arrays(operand, specimen) for operand in operands), **options)  # says which shapes
    result = kernel(*(_map_arrays(operand, _one_element) for operand in operands), **options)
    strides = strides_of_result(shape, [geometry(array) for array in arrays])
    return _map_arrays(result, lambda array: meta_array(shape, array.dtype, strides))


def keeps_shape_on_meta(*names: str) -> None:
    """Fill the Meta column of operators whose result has the shape of their first argument: they are run on one element."""
    for name in names:
        entry = operators[name]
        entry.kernels[DispatchKey.Meta] = partial(_like_the_first, entry.kernels[DispatchKey.CPU])
        _changed(entry)


def _like_the_first(kernel: Callable[..., Any], *args: Any, **options: Any) -> Any:
    result = kernel(*(_one_element(arg) if isinstance(arg, np.ndarray) else arg for arg in args), **options)
    return meta_array(args[0].shape, result.dtype)


def _one_element(array: Any) -> np.ndarray:
    """Its value is 1, by which an integer can be divided."""
    return specimen(array, 1, whole=False)


def _map_arrays(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, np.ndarray):
        return function(value)
    if isinstance(value, np.generic):
        return function(np.asarray(value))
    if isinstance(value, list | tuple):
        mapped = [_map_arrays(item, function) for item in value]
        return tuple(mapped) if isinstance(value, tuple) else mapped
    return value


#: for a column that is made and not filled: what makes an operator's kernel in it
KERNEL_MAKERS: dict[DispatchKey, Callable[[OperatorEntry], Callable[..., Any]]] = {}


def lookup(entry: OperatorEntry, key: DispatchKey) -> Callable[..., Any]:
    """The kernel for a backend key."""
    if key in KERNEL_MAKERS:
        return KERNEL_MAKERS[key](entry)
    if key is DispatchKey.CUDA:
        return getattr(cuda, entry.name)
    if key is DispatchKey.Meta and key not in entry.kernels:
        return meta_kernel(entry)
    return entry.kernel(key)


_COLUMNS = {DispatchKey.CPU: cpu, DispatchKey.CUDA: cuda, DispatchKey.Meta: meta}


def columns(key: DispatchKey) -> SimpleNamespace | None:
    """The library of raw kernels for a backend; None where formulas run on tensors alone."""
    return _COLUMNS.get(key)


def names() -> Iterator[str]:
    """All operator names."""
    return iter(operators)


# %% [markdown]
# ### What upstream does more
#
# * The kernel for each column is not chosen at the call. A registration recomputes the row, column by column, with all
#   fallbacks resolved; the call reads one cell of a finished array.
# * An operator may have kernels of several *kinds*. `CompositeImplicitAutograd` serves all backends and needs no
#   derivative (our `composite`). `CompositeExplicitAutograd` serves all backends and needs one. Anything else is for one
#   key.
# * A column may have a *fallback* for all operators, written once, on a stack of boxed values. That is how a Python mode,
#   functionalisation or `vmap` can handle an operator that nobody has registered for them. The fallback of most columns
#   is *fallthrough*: the key is skipped.
# * `torch.library` offers the table to Python. A custom operator gets all columns that a built-in one has.

# %% [markdown]
# ### What stands in a row upstream?
#
# You can ask it, and the answer ends many a search: for each column the kernel that a call would find there, its kind,
# and *the file and line that registered it*. `torch._C._dispatch_dump_table("aten::add_.Tensor")` prints one line per
# key. Four of them, shortened (the paths are those of the machine that built the wheel):
#
# ```text
# CPU: registered at …/build/aten/src/ATen/RegisterCPU_0.cpp [kernel]
# ADInplaceOrView: registered at …/torch/csrc/autograd/generated/ADInplaceOrViewType_0.cpp [kernel]
# AutogradCPU: registered at …/torch/csrc/autograd/generated/VariableType_8.cpp [autograd kernel]
# AutocastCPU: fallthrough registered at …/aten/src/ATen/autocast_mode.cpp [backend fallback]
# ```
#
# The word in brackets tells how the cell was filled: `kernel` by a registration for this key; `autograd kernel` and
# `default backend kernel` by one for many keys (`CompositeExplicitAutograd`); `math kernel` by a composite that needs no
# derivative (`CompositeImplicitAutograd`); `backend fallback` by the column. `_dispatch_dump` shows what was registered,
# before any of that is resolved.
#
# Two things to look for. An operator with a `math kernel` in its `Autograd` column has no node of its own. And a library
# that has overridden an operator, knowingly or not, is there by name. (PyTorch does so itself: many `Meta` kernels are
# written in Python and win over those from C++.)


# %%
#| claim: the dispatch table of add_ has kernels for writes and for autograd, that of add only for autograd, conv2d has a composite in both places
#| differs: readtorch's rows are dispatcher.operators; see the runs above
def _(torch):
    def row(operator):
        lines = torch._C._dispatch_dump_table(operator).splitlines()
        return {key: cell for key, _, cell in (line.partition(": ") for line in lines)}

    in_place, plain, composite = row("aten::add_.Tensor"), row("aten::add.Tensor"), row("aten::conv2d")
    assert "ADInplaceOrViewType_" in in_place["ADInplaceOrView"] and "fallthrough" in plain["ADInplaceOrView"]
    assert "VariableType_" in plain["AutogradCPU"] and plain["AutogradCPU"].endswith("[autograd kernel]")
    assert composite["AutogradCPU"] == composite["CPU"] and composite["CPU"].endswith("[math kernel]")
    assert "_meta_registrations.py" in plain["Meta"]
    assert plain["AutocastCPU"].startswith("fallthrough") and "autocast_mode.cpp" in composite["AutocastCPU"]


# %%
#| fact: aten/src/ATen/core/dispatch/OperatorEntry.h#c10::impl::OperatorEntry::computeDispatchTableEntry
#| fact: aten/src/ATen/core/dispatch/Dispatcher.h#c10::Dispatcher::callBoxed
#| fact: torch/library.py#Library

# %% [markdown]
# ## What happens in one call of `a + b`?
#
# All of it together. Step into `a + b`: the closure fetches the arrays, picks the column, calls the kernel, makes the
# node and wraps the result. Note what is *not* there: no search, no test of types, no walk over a table. All of that was
# done once, when the operator was registered.

# %%
a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])

# %%
#| trace: torch.csrc torch.aten layers=calls,lines,ops values=summary title="a + b, from Python to the kernel"
c = a + b

# %%
c, c.grad_fn, c.grad_fn.next_functions

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "The graph is built in backward." The node exists the moment the operation returns; backward
# > only walks. And: "without `requires_grad` the operation is recorded and ignored". It is not recorded; no node is made,
# > nothing is kept.


# %%
#| claim: the node exists when the operation returns, and only if an input requires a gradient and recording is on
def _(torch):
    a, b = torch.ones(2, requires_grad=True), torch.ones(2)
    c = a + b
    assert c.grad_fn.name() == "AddBackward0"
    assert [node is None for node, _ in c.grad_fn.next_functions] == [False, True]
    assert (b + b).grad_fn is None
    with torch.no_grad():
        assert (a + b).grad_fn is None


# %% [markdown]
# ## How do I add an operator of my own?
#
# Take one that is not in the library: `x · |x|`, whose derivative is 2·|x|. The kernel is a function on raw arrays, and
# its signature is the schema. The formula names `self`, so the input is kept. It computes with `at` and Python's
# operators, so it works on arrays and on tensors. (Annotations are read as text: a file that registers operators begins
# with `from __future__ import annotations`.)

# %%
from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array


@register("signed_square", variants="function method", inplace=True)
def signed_square(self: Array) -> Array:
    return self * np.abs(self)


derivative("signed_square", self=lambda at, grad, self: grad * (2 * at.abs(self)))

# %% [markdown]
# From now on it is a function, a method, an in-place method, and twice differentiable.

# %%
#| needs: a1_operators
x = torch.tensor([-2.0, 3.0], dtype=torch.float64, requires_grad=True)
y = torch._C._VariableFunctions.signed_square(x)
(
    y,
    x.signed_square().grad_fn,
    torch.autograd.gradcheck(lambda v: v.signed_square(), (x,)),
    torch.autograd.gradgradcheck(lambda v: v.signed_square(), (x,)),
)

# %% [markdown]
# An option comes after the tensors, with its default in the signature, and a formula may name it. Two gradients that
# share work are one formula with two names. A composite needs no derivative at all:


# %%
@register("scaled_mm", variants="")
def scaled_mm(a: Array, b: Array, scale: float = 1.0) -> Array:
    return (a @ b) * scale


def scaled_mm_backward(at, grad, a, b, scale, mask):
    scaled = grad * scale
    return at.mm(scaled, at.t(b)) if mask[0] else None, at.mm(at.t(a), scaled) if mask[1] else None


derivative("scaled_mm", {"a, b": scaled_mm_backward})


@composite("mean_square", variants="")
def mean_square(at, self: Array, dim=None):
    return at.mean(self * self, dim)


# %% [markdown]
# > [!NOTE]
# > Three rules for formulas. Return a fresh array or `grad` itself, never a saved one: the engine may add to it in place.
# > Do not sum down what broadcasting stretched: the engine does. Use `at.NAME` and Python's operators, not NumPy: the
# > same formula runs on tensors under `create_graph=True`, and on CuPy arrays.

# %% [markdown]
# The first rule, broken on purpose. This formula returns a saved array. The engine takes it for a fresh one, which it may
# add to, and adds the gradient of the second branch into what the first has kept.


# %%
#| needs: a1_operators
@register("shifted", variants="")
def shifted(self: Array, by: Array) -> Array:
    return self * by


derivative("shifted", self=lambda at, grad, self, by: by)

x, by = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
shift = dispatcher.operators["shifted"].call
(shift(x, by) + x).sum().backward()
x.grad, by

# %% [markdown]
# The gradient happens to be right (for a gradient of ones), and the backward pass has changed the constant `by`.
# Upstream's engine protects itself in another way: it adds in place only if nobody else holds the tensor, which it reads
# off the reference count.
#
# The row has a derivative, and a call leaves a node. What a node is, and who runs it, is the subject of [the
# engine](04_engine.py).

# %%
#| fact: torch/csrc/autograd/input_buffer.h#torch::autograd::InputBuffer::add
