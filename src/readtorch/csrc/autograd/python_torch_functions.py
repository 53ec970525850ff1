# Tangled from chapters/00_tensor/07b_operators_for_python.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import functools
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import OPTION, TENSOR_LIST, OperatorEntry
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd import variable_type
from readtorch.csrc.utils.gates import COMPILED, Public, gates
from readtorch.csrc.utils.python_arg_parser import shown
from readtorch.csrc.utils.structseq import structseq

functions: dict[str, SimpleNamespace] = {}
"""The functions by module: `""` is `torch._C._VariableFunctions`, `"nn"` is `torch._C._nn`, and so on."""

PREFIXES = {"": "torch", "nn": "torch.nn.functional"}
"""Where users know them from."""


def module(name: str) -> SimpleNamespace:
    """The namespace of a module of functions."""
    if name not in functions:
        functions[name] = SimpleNamespace()
        table = vars(functions[name])
        gates.offer(table, PREFIXES.get(name, f"torch.{name}"), COMPILED, Public(table))
    return functions[name]


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
    call.__doc__ = docstring(entry)
    setattr(dispatcher.autograd, entry.name, call)
    if "function" in entry.variants:
        gates.attach(module(entry.module), entry.name, _together(entry, call))
    if "method" in entry.variants:
        gates.attach(TensorImpl, entry.name, as_method(entry, call))
    if entry.inplace and not entry.name.endswith("_"):
        _offer_inplace(entry)


def _together(entry: OperatorEntry, call: Any) -> Any:
    """The function of an operator whose method takes dimensions one by one, `x.permute(1, 0)`: it wants them as one argument."""
    if entry.schema.var_positional is None or "method" not in entry.variants:
        return call
    name = entry.schema.var_positional
    limit = entry.schema.positional + (name != "args")
    sequence = name in ("dims", "shape", "size")  # of one dimension too

    @functools.wraps(call)
    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) > limit:
            raise TypeError(f"{entry.name}() takes {limit} positional arguments but {len(args)} were given")
        if (
            sequence
            and len(args) == limit
            and args[-1].__class__ not in (tuple, list)
            and not isinstance(args[-1], tuple)
        ):
            raise TypeError(
                f"{entry.name}(): argument '{name}' (position {limit}) must be tuple of ints, not {type(args[-1]).__name__}"
            )
        return call(*args, **kwargs)

    return function


def as_method(entry: OperatorEntry, call: Any) -> Any:
    """`call` for the tensor class: the same code, around an entry that takes no `out=` and does not count the tensor in front."""
    known = OperatorEntry.__new__(OperatorEntry)
    known.__dict__.update(entry.__dict__)
    known.out, known.is_method = False, True
    return _around(call, entry, known)


def _around(function: FunctionType, entry: OperatorEntry, known: OperatorEntry) -> FunctionType:
    """The same code with `known` in the place of `entry`, there and in the functions that it calls; not in itself, which the graph keeps."""
    cells = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = cell.cell_contents
        if value is entry:
            cell = CellType(known)
        elif isinstance(value, FunctionType) and name != "call" and value.__closure__:
            cell = CellType(_around(value, entry, known))
        cells.append(cell)
    twin = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells))
    twin.__kwdefaults__, twin.__doc__ = function.__kwdefaults__, function.__doc__
    twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
    return twin


def _offer_inplace(entry: OperatorEntry) -> None:
    if entry.composite is not None:
        call = variable_type.inplace_composite(entry, dispatcher.autograd)
    else:
        call = variable_type.inplace(entry)
    name = f"{entry.name}_"
    call.__name__ = name
    call.__qualname__ = f"TensorBase.{name}"
    call.__doc__ = docstring(entry, name)
    setattr(dispatcher.autograd, name, call)
    if "method" in entry.variants:
        gates.attach(TensorImpl, name, as_method(entry, call))
    if "function" in entry.variants and (entry.module or name in INPLACE_FUNCTIONS):
        gates.attach(module(entry.module), name, call)


#: the in-place operators that are functions of `torch` too, and not methods alone
_INPLACE_FUNCTIONS = """
    abs_ acos_ acosh_ addmv_ alpha_dropout_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_
    atan_ atanh_ ceil_ celu_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ dropout_
    erf_ erfc_ exp2_ exp_ expm1_ feature_alpha_dropout_ feature_dropout_ fix_ floor_ frac_ gcd_ index_put_
    lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_
    rrelu_ rsqrt_ selu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ threshold_ trunc_ xlogy_"""
INPLACE_FUNCTIONS = frozenset(_INPLACE_FUNCTIONS.split())


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


_POINTWISE = {
    1: "Of each element.",
    2: "Of each pair of elements; the operands are broadcast and promoted to a common dtype.",
}


def docstring(entry: OperatorEntry, in_place: str = "") -> str:
    """What `help` shows: how the operator is called, and what its kernel says that it does."""
    schema = entry.schema
    words = [
        f"{shown(name)}={schema.defaults[name]!r}" if name in schema.defaults else shown(name) for name in schema.names
    ]
    options = words[schema.positional :]
    words = words[: schema.positional]
    if schema.var_positional is not None:
        words.append(f"*{schema.var_positional}")
    if entry.out and not in_place:
        options.append("out=None")
    if options:
        words += options if schema.var_positional is not None else ["*", *options]
    if in_place:
        text, words = "In place. ", words[1:]
    else:
        text = ""
    if entry.pointwise is not None:
        text += _POINTWISE.get(schema.positional, "")
    else:
        kernel: Any = entry.composite or next(iter(entry.kernels.values()))
        said = kernel.__doc__ or ""
        by = kernel.__code__.co_names[:1]  # of `lambda at, self: at.abs(self)`, the other name
        if not said and by and by[0] in dispatcher.operators:
            said = f"By way of `{by[0]}`."
        text += said if in_place else said.replace("`self`", "`input`")
    result = "Tensor" if len(entry.outputs) == 1 else f"({', '.join(entry.outputs)})"
    return f"{in_place or entry.name}({', '.join(words)}) -> {result}\n\n{text}".rstrip()
