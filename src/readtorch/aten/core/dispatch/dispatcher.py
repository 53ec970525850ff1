# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from readtorch.aten.autocast_mode import FLOAT32_ON_CPU
from readtorch.aten.core.dispatch.operator_entry import Derivative, OperatorEntry, Schema
from readtorch.aten.op_math_type import FLOAT32, REDUCED, in_working_precision
from readtorch.c10.core.contiguity import strides_of_result
from readtorch.c10.core.dispatch_key import DispatchKey, geometry, identity, meta_array, on_meta, specimen

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


def differentiates_in_opmath(*names: str) -> None:
    """Upstream, the formulas of these operators ("sigmoid"), or one of them ("div.self"), are one kernel: 16-bit floats are widened before it and rounded after.

    Other formulas are composed of operators, which round one after another.
    """
    for name in names:
        operator, _, parameter = name.partition(".")
        rule = operators[operator].derivative
        assert rule is not None
        rule.in_opmath += tuple(key for key in rule.formulas if not parameter or parameter in key)


def computes_in_opmath(*names: str) -> None:
    """The CPU kernels of these operators take 16-bit floats as float32; their result is rounded to the type of the first argument, once."""
    for name in names:
        entry = operators[name]
        wide = _wide(entry.kernels[DispatchKey.CPU])
        shared = entry.kernels.get(DispatchKey.CUDA) is entry.kernels[DispatchKey.CPU]
        entry.kernels.update(dict.fromkeys([DispatchKey.CPU, DispatchKey.CUDA][: 1 + shared], wide))
        setattr(cpu, name, wide)
        _changed(entry)


def _wide(kernel: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(kernel)
    def call(first: Any, *args: Any, **options: Any) -> Any:
        narrow = first.dtype
        if narrow.itemsize != 2 or narrow not in REDUCED:
            return kernel(first, *args, **options)
        wide = [in_working_precision(value) if hasattr(value, "astype") else value for value in (first, *args)]
        result = kernel(*wide, **options)
        return result.astype(narrow) if result.dtype == FLOAT32 else result

    return call


def pointwise(name: str, kernel: Any, arguments: Kernel, *, key: str = "CPU CUDA", **description: Any) -> None:
    """Register a pointwise operator: `kernel` is a `Pointwise`, `arguments` a function whose signature is the schema."""
    entry = operators[name] = OperatorEntry(name, Schema(arguments))
    entry.pointwise = kernel
    describe(entry, **{"variants": "function method", "inplace": True, "out": True, **description})
    for column in key.split():
        entry.kernels[DispatchKey[column]] = kernel
        if column == "CPU":
            setattr(cpu, name, kernel)
    _changed(entry)


def results_lie(how: Callable[[Any, Any], Any], *names: str) -> None:
    """Put the results of these operators into an order of dimensions in memory: `how(result, first argument)` does it.

    A kernel that leaves the order to NumPy gets that of its operands, which upstream's kernel may not.
    """
    for name in names:
        entry = operators[name]
        before = {key: entry.kernels[key] for key in entry.kernels if key <= DispatchKey.CUDA}
        before[DispatchKey.Meta] = lookup(entry, DispatchKey.Meta)
        made = {kernel: _laid(how, kernel) for kernel in before.values()}
        entry.kernels.update({key: made[kernel] for key, kernel in before.items()})
        setattr(cpu, name, entry.kernels[DispatchKey.CPU])
        _changed(entry)


def _laid(how: Callable[[Any, Any], Any], kernel: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(kernel)
    def call(first: Any, *args: Any, **options: Any) -> Any:
        result = kernel(first, *args, **options)
        if result.__class__ is list or result.__class__ is tuple:
            return result.__class__([how(part, first) for part in result])
        return how(result, first)

    return call


def sparse_row(name: str, *, coalesced_in_place: bool = False) -> Callable[[Kernel], Kernel]:
    """Decorator: this function is the kernel of operator `name` for calls in which a tensor is sparse.

    `coalesced_in_place`: `NAME_` refuses a tensor that is not coalesced. Derivative: `sparse_derivative`, or else the operator's.
    """

    def decorate(kernel: Kernel) -> Kernel:
        entry = operators[name]
        row = OperatorEntry(name, Schema(kernel))
        row.node_name, row.overload, row.outputs = entry.node_name, entry.overload, entry.outputs
        row.kernels[DispatchKey.CPU] = entry.kernels[DispatchKey.SparseCPU] = kernel
        row.derivative = entry.derivative if entry.schema.names == row.schema.names else None
        row.inplace = coalesced_in_place
        sparse_rows[name] = row
        for listener in _sparse_listeners:
            listener(entry, row)
        return kernel

    return decorate


def sparse_derivative(name: str, **formulas: Callable[..., Any]) -> None:
    """Give the sparse kernel of operator `name` a derivative of its own."""
    row = sparse_rows[name]
    row.derivative = Derivative(row.schema, {(key,): formula for key, formula in formulas.items()}, row.outputs)
    for listener in _sparse_listeners:
        listener(operators[name], row)


sparse_rows: dict[str, OperatorEntry] = {}
"""The kernels of the SparseCPU column, with their signatures and derivatives."""

_sparse_listeners: list[Callable[[OperatorEntry, OperatorEntry], None]] = []


def add_sparse_listener(listener: Callable[[OperatorEntry, OperatorEntry], None]) -> None:
    """Call `listener(entry, row)` for every sparse kernel there is, and for every one registered or changed later."""
    _sparse_listeners.append(listener)
    for name, row in sparse_rows.items():
        listener(operators[name], row)
