# Tangled from chapters/00_tensor/05b_arguments.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from opcode import opmap
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import (
    OPTION,
    OPTIONAL_TENSOR,
    TENSOR,
    TENSOR_LIST,
    OperatorEntry,
    Schema,
)
from readtorch.c10.core.device import accelerators, device
from readtorch.c10.core.layout import layout
from readtorch.c10.core.memory_format import memory_format
from readtorch.c10.core.scalar_type import dtype
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.utils.disable_torch_function import PLAIN
from readtorch.csrc.utils.gates import NOBODY, first_contact


def _holds_one(value: Any, kinds: str) -> bool:
    return isinstance(value, TensorImpl) and value._array.dtype.kind in kinds and value._array.ndim == 0


def is_int(value: Any) -> bool:
    """May it stand for an integer?"""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, TensorImpl):
        return _holds_one(value, "iu")
    if isinstance(value, np.ndarray):  # which has an __index__, and mostly cannot be one
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, int) or hasattr(type(value), "__index__")


def is_float(value: Any) -> bool:
    """May it stand for a real number?"""
    return isinstance(value, float | int | np.number) or _holds_one(value, "fiubV") or is_int(value)


def is_number(value: Any) -> bool:
    """May it stand for a number, complex ones among them?"""
    return is_float(value) or isinstance(value, complex) or _holds_one(value, "c")


def is_real(value: Any) -> bool:
    """May it stand for a number where the kernel computes with real ones? RuntimeError for a complex one: it is the right kind, and does not fit, unless it is real."""
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError("value cannot be converted to type float without overflow")
        return True
    return is_float(value)


def is_sequence_of_ints(value: Any) -> bool:
    """A list or tuple of ints. One int alone may stand for all of them. Upstream asks the first alone whether it is a bool."""
    if not isinstance(value, list | tuple):
        return is_int(value)
    for item in value:
        if item.__class__ is not int and not is_int(item) and (item.__class__ is not bool or item is value[0]):
            return False
    return True


def is_tuple_of_ints(value: Any) -> bool:
    """A list or tuple of ints, and nothing else."""
    return isinstance(value, list | tuple) and is_sequence_of_ints(value)


def is_sequence_of_numbers(value: Any) -> bool:
    """A list or tuple of numbers, some of which may be left open with None."""
    return isinstance(value, list | tuple) and all(item is None or is_float(item) for item in value)


Test = Callable[[Any], bool]

#: Python's types that stand for a dtype
PYTHON_DTYPES = (float, int, bool, complex)

#: for each annotation: what passes, and what a message calls it
KINDS: dict[str, tuple[Test, str]] = {
    "int": (is_int, "int"),
    "bool": (lambda value: isinstance(value, bool), "bool"),
    "float": (is_float, "float"),
    "Number": (is_number, "Number"),
    "Real": (is_real, "Number"),
    "str": (lambda value: isinstance(value, str), "str"),
    "dtype": (
        lambda value: isinstance(value, dtype) or (isinstance(value, type) and value in PYTHON_DTYPES),
        "torch.dtype",
    ),
    "Array | Number": (lambda value: isinstance(value, TensorImpl) or is_number(value), "Tensor or Number"),
    "Array | float": (lambda value: isinstance(value, TensorImpl) or is_float(value), "Tensor or float"),
    "Array | int": (lambda value: isinstance(value, TensorImpl) or is_int(value), "int"),
    "Dims | bool": (lambda value: isinstance(value, bool) or is_sequence_of_ints(value), "tuple of ints"),
    "Dims": (is_sequence_of_ints, "tuple of ints"),
    "Ints": (is_tuple_of_ints, "tuple of ints"),
    "Sequence[int]": (is_tuple_of_ints, "tuple of ints"),
    "Sequence[float | None]": (is_sequence_of_numbers, "tuple of floats"),
}


#: parameters that mean the same wherever they stand, None among their values
_FLAG = (lambda value: value is None or isinstance(value, bool), "bool")
NAMED: dict[str, tuple[Test, str]] = {
    "device": (lambda value: value is None or isinstance(value, str | device) or is_int(value), "torch.device"),
    "generator": (lambda value: value is None or hasattr(value, "_engine"), "torch.Generator"),
    "layout": (lambda value: value is None or isinstance(value, layout), "torch.layout"),
    "memory_format": (lambda value: value is None or isinstance(value, memory_format), "torch.memory_format"),
    "pin_memory": _FLAG,
    "requires_grad": _FLAG,
}


def kind_of(annotation: str, name: str = "") -> tuple[Test, str] | None:
    """What may stand for a parameter with that annotation and name; None if they say nothing that can be tested."""
    if name in NAMED:
        return NAMED[name]
    test, optional = KINDS.get(annotation.removesuffix(" | None")), annotation.endswith(" | None")
    if test is None and name == "dtype":
        test, optional = KINDS["dtype"], True
    if test is None or not optional:
        return test
    plain = test[0]
    return (lambda value: value is None or plain(value)), test[1]


_NUMBERS = frozenset(f"{name}{rest}" for name in ("int", "float", "Number", "Real") for rest in ("", " | None"))
_DECIDED = (int, float, bool, str, type(None), dtype, device, layout, memory_format)


def option_check(entry: OperatorEntry, skip: int) -> tuple[Callable[[tuple, dict[str, Any]], Any] | None, int]:
    """A function that looks at a call's options, given without the first `skip` parameters: TypeError names the wrong one.

    It returns the options again, with numbers in place of tensors that hold one. And how many positional options there must be for it to have something to do. Dimensions are not among them: whoever counts them asks.
    """
    schema = entry.schema
    plan: list[tuple[int, str, set[type], Test]] = []
    for position, (name, annotation) in enumerate(zip(schema.names, schema.annotations, strict=True)):
        kind = kind_of(annotation, "" if entry.name.startswith("_") else name)  # among ourselves a dtype may be NumPy's
        if position >= skip and kind is not None and _is_checked(name, annotation, schema):
            place = position - skip if position < schema.positional else 1 << 30
            plan.append((place, name, set(), kind[0]))
    others = _numpy_names(entry, skip)
    if not plan and not others:
        return _unspread(schema, skip, None), 1 << 30
    unknown = frozenset(theirs for theirs, _ in others)
    pins = "pin_memory" in schema.names
    dim_place = schema.names.index("dim") - skip if entry.name in _DIM_FOR_KEEPDIM else -1

    def check(args: tuple, kwargs: dict[str, Any]) -> Any:
        count = len(args)
        if kwargs and not unknown.isdisjoint(kwargs):
            for theirs, ours in others:
                if theirs in kwargs and ours not in kwargs:
                    kwargs = {ours if name == theirs else name: value for name, value in kwargs.items()}
        if count <= dim_place and "keepdim" in kwargs and "dim" not in kwargs:
            raise TypeError(f'{entry.name}() missing 1 required positional arguments: "dim"')
        for position, name, good, test in plan:
            if position < count:
                value = args[position]
            elif kwargs and name in kwargs:
                value = kwargs[name]
            else:
                continue
            if value.__class__ not in good:
                if not test(value):
                    raise wrong_kind(entry, name, value)
                if value.__class__ in _DECIDED:
                    good.add(value.__class__)
                elif (number := _plain_number(value, schema.annotations[schema.names.index(name)])) is not value:
                    if position < count:
                        args = (*args[:position], number, *args[position + 1 :])
                    else:
                        kwargs = {**kwargs, name: number}
        if pins and kwargs.get("pin_memory") and not accelerators():
            complain(entry, args, kwargs)
            raise RuntimeError("pin_memory=True requires an accelerator: there is none, and no pinned memory")
        return args, kwargs

    return _unspread(schema, skip, check), plan[0][0] if plan else 1 << 30


def _plain_number(value: Any, annotation: str) -> Any:
    """The number in a tensor, or a complex one that is real, where a kernel wants it so."""
    if isinstance(value, TensorImpl) and annotation in _NUMBERS:
        return value.item()
    return value.real if value.__class__ is complex and annotation.startswith("Real") else value


#: what NumPy calls some parameters: for programs that were written for it
_NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}
#: these are written in Python upstream, where a parameter has one name
_ONE_NAME = frozenset(["norm", "split"])


def _numpy_names(entry: OperatorEntry, skip: int) -> list[tuple[str, str]]:
    schema = entry.schema
    if entry.name in _ONE_NAME:
        return []
    return [
        (theirs, ours)
        for ours, theirs in _NUMPY_NAMES.items()
        if ours in (*schema.names[skip:], schema.var_positional) and theirs not in schema.names
    ]


#: what may be given as several ints, and under its name as one sequence only
ONE_SEQUENCE = frozenset(["dims", "repeats", "shape", "size"])


def _unspread(schema: Schema, skip: int, check: Any) -> Any:
    """`check` for operators whose last argument may be given as several (`x.permute(1, 0)`), or as one by its name."""
    spread = schema.var_positional
    if spread in (None, "args", "others"):
        return check
    before = schema.positional - skip

    other = _NUMPY_NAMES.get(str(spread))

    def by_name(args: tuple, kwargs: dict[str, Any]) -> Any:
        if other in kwargs and spread not in kwargs:
            kwargs = {spread if name == other else name: value for name, value in kwargs.items()}
        if spread in kwargs and len(args) <= before:
            kwargs = dict(kwargs)
            value = kwargs.pop(spread)
            if spread in ONE_SEQUENCE and not isinstance(value, list | tuple):
                raise TypeError(f"argument '{spread}' must be tuple of ints, not {type(value).__name__}")
            for name in (schema.names[0], "input")[: 2 * (before - len(args))]:
                if name in kwargs:
                    args = (kwargs.pop(name),)
            args = (*args, value)
        return (args, kwargs) if check is None else check(args, kwargs)

    return by_name


#: what is reduced as a whole has no `keepdim`; other reductions have one signature for both
_DIM_FOR_KEEPDIM = frozenset(["sum", "mean"])


def _is_checked(name: str, annotation: str, schema: Schema) -> bool:
    """Whoever counts dimensions asks what they are, but cannot tell a None that was given from one that was not."""
    if not name.startswith(("dim", "axis")):
        return True
    return schema.defaults.get(name, 0) is None and not annotation.endswith("None")


def require(op: str, kind: str, **values: Any) -> None:
    """TypeError unless all these arguments are of a kind: "int", "bool", "Number"."""
    test, wanted = KINDS[kind]
    for name, value in values.items():
        if not test(value):
            raise TypeError(f"{op}(): argument '{name}' must be {wanted}, not {type(value).__name__}")


def shown(name: str) -> str:
    """A parameter's name as functions show it."""
    return "input" if name == "self" else name


def type_name(value: Any) -> str:
    """What messages call a value's type: one that was compiled stands under the name of its module too."""
    kind = type(value)
    if kind.__flags__ & _MADE_IN_PYTHON or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"


_MADE_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def wrong_kind(entry: OperatorEntry, name: str, value: Any) -> TypeError:
    """The error for an argument of the wrong kind. A method does not count the tensor that it belongs to."""
    schema = entry.schema
    position = schema.names.index(name)
    place = f" (position {position + 1 - entry.is_method})" if position < schema.positional else ""
    wanted = _wanted(schema, position)
    return TypeError(f"{entry.name}(): argument '{shown(name)}'{place} must be {wanted}, not {type_name(value)}")


def _wanted(schema: Schema, position: int) -> str:
    kind = schema.kinds[position]
    if kind in (TENSOR, OPTIONAL_TENSOR):
        return "Tensor"
    if kind is TENSOR_LIST:
        return "tuple of Tensors"
    found = kind_of(schema.annotations[position], schema.names[position])
    return "Tensor" if found is None else found[1]


def complain(entry: OperatorEntry, args: tuple, kwargs: dict[str, Any]) -> None:
    """TypeError if the call does not fit the operator's signature."""
    op, schema = entry.name, entry.schema
    if schema.var_tensors:
        rest: Sequence[Any] = args[schema.positional :]
        rest = rest[0] if len(rest) == 1 and isinstance(rest[0], list | tuple) else rest
        for number, value in enumerate(rest):
            if not isinstance(value, TensorImpl):
                raise TypeError(
                    f"{op}(): expected Tensor as element {number} in argument 0, but got {type_name(value)}"
                )
    for number, size in enumerate(args[schema.positional :] if schema.var_positional in ONE_SEQUENCE else (), 1):
        items = size if isinstance(size, list | tuple) else (size,)
        if any(item.__class__ is int and not -(1 << 63) <= item < 1 << 63 for item in items):
            raise TypeError(  # before what a shape of that size would have led to
                f"{op}(): argument '{schema.var_positional}' failed to unpack the object at pos {number}: Overflow when unpacking long long"
            )
    for name, value in _bound(op, schema, args, kwargs, ("out", schema.var_positional)[not entry.out :]):
        position = schema.names.index(name)
        kind = schema.kinds[position]
        if kind is TENSOR:
            good = isinstance(value, TensorImpl)
            if not good and entry.pointwise is not None:
                good = ("first", "second", "third")[position] in entry.numbers and is_number(value)
        elif kind is OPTIONAL_TENSOR:
            good = value is None or isinstance(value, TensorImpl)
        elif kind is TENSOR_LIST:
            good = isinstance(value, Sequence) and not isinstance(value, str)
            for number, item in enumerate(value if good else ()):
                if not isinstance(item, TensorImpl) and not (item is None and "None" in schema.annotations[position]):
                    raise TypeError(
                        f"{op}(): expected Tensor as element {number} in argument {position}, but got {type_name(item)}"
                    )
        else:
            note = schema.annotations[position]
            found = kind_of(note, name)
            unsaid = note not in ("", "Any") or name not in _TENSORS
            good = found[0](value) if found is not None else unsaid or isinstance(value, TensorImpl)
        if not good:
            raise wrong_kind(entry, name, value)
        if kind is OPTION:
            _in_64_bits(op, name, value, schema.annotations[position])
    error = sys.exc_info()[1]
    if error is not None and error.__traceback__ is not None and error.__traceback__.tb_frame is sys._getframe(1):
        _in_our_words(op, args, kwargs, error)


def _in_64_bits(op: str, name: str, value: Any, annotation: str) -> None:
    """The error for an int that is too long for upstream: ValueError alone, TypeError among others."""
    if annotation.startswith(("int", "Dims", "Ints")):
        one = isinstance(value, int)
        for item in (value,) if one else value if isinstance(value, list | tuple) else ():
            if isinstance(item, int) and not -(1 << 63) <= item < 1 << 63:
                error = ValueError if one else TypeError
                raise error(f"{op}(): argument '{name}': Overflow when unpacking long long")


_RAISES = frozenset(opmap[name] for name in ("RAISE_VARARGS", "RERAISE"))


def _is_nobodys(error: BaseException) -> bool:
    """Does it come out of NumPy, or out of a line of this library that raises nothing?"""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    module = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
    if module != "readtorch":
        return module == "numpy"
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] not in _RAISES


def _given(value: Any) -> str:
    if isinstance(value, TensorImpl):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_given, value))})"
    return repr(value) if isinstance(value, int | float | str | type(None)) else type(value).__name__


def _in_our_words(op: str, args: tuple, kwargs: dict[str, Any], error: BaseException) -> None:
    """The error that stands for one of NumPy's or of Python's; nothing happens if it is ours."""
    if isinstance(error, MemoryError):
        raise _no_memory(error) from error
    if not isinstance(error, ValueError | TypeError | LookupError | ArithmeticError | AttributeError):
        return
    said = str(error)
    if error.__class__ is TypeError and said.startswith(_NAMELESS):
        raise TypeError(f"{op}(){':' if said.startswith('argument') else ''} {said}") from None
    if op in _CALLS_BACK or not _is_nobodys(error):
        return
    given = ", ".join([*map(_given, args), *(f"{name}={_given(value)}" for name, value in kwargs.items())])
    if isinstance(error, IndexError):
        raise IndexError(f"{op}(): Dimension or index out of range, given ({given})") from error
    if isinstance(error, AttributeError) or error.__class__ is TypeError:
        raise TypeError(f"{op}() received an invalid combination of arguments - got ({given})") from error
    raise RuntimeError(f"{op}(): the arguments do not fit together: ({given})") from error


def _no_memory(error: MemoryError) -> RuntimeError:
    """The error for more memory than there is. NumPy says of what shape and kind."""
    shape, kind = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or kind is None:
        return RuntimeError("DefaultCPUAllocator: can't allocate memory")
    wanted = math.prod(shape) * kind.itemsize
    return RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {wanted} bytes")


#: how an error begins that does not know which operator it speaks of: one about a shape
_NAMELESS = ("argument '", "got an unexpected keyword argument", "missing 1 required positional")

#: these call what they are given, whose errors are the caller's
_CALLS_BACK = frozenset(["apply_", "map_", "map2_"])

#: what composites call their tensors
_TENSORS = frozenset(["self", "input", "A", "a", "b", "batch1", "batch2", "mat", "mat1", "mat2", "vec", "vec1", "vec2"])


def _bound(
    op: str, schema: Schema, args: tuple, kwargs: dict[str, Any], extra: tuple[str | None, ...]
) -> Iterator[tuple[str, Any]]:
    names = schema.names[: schema.positional]
    if len(args) > len(names) and schema.var_positional is None:
        least = sum(name not in schema.defaults for name in names)
        count = f"from {least} to {len(names)}" if least < len(names) else str(len(names))
        plural = "" if count == "1" else "s"
        seen = f"{len(args)} {'was' if len(args) == 1 else 'were'} given"
        raise TypeError(f"{op}() takes {count} positional argument{plural} but {seen}")
    given = dict(kwargs)
    if "input" in given and "input" not in schema.names and "self" in names:
        given["self"] = given.pop("input")
    for name in given:
        if name not in schema.names and name not in extra and not schema.var_keyword:
            raise TypeError(f"{op}() got an unexpected keyword argument '{name}'")
        if name in names[: len(args)]:
            raise TypeError(f"{op}() got multiple values for argument '{shown(name)}'")
    values = dict(zip(names, args, strict=False))
    values.update((name, value) for name, value in given.items() if name in schema.names)
    missing = [shown(name) for name in schema.names if name not in values and name not in schema.defaults]
    # what is called `args` may be none at all, and so may tensors, if the function says so
    required = schema.var_positional not in (None, "args") and not schema.var_tensors
    if required and len(args) == len(names) and schema.var_positional not in kwargs:
        missing.append(str(schema.var_positional))
    if missing:
        listed = ", ".join(f'"{name}"' for name in missing)
        raise TypeError(f"{op}() missing {len(missing)} required positional arguments: {listed}")
    yield from values.items()


#: their functions are known below with the module's name in front
_WITH_PREFIX = frozenset(["readtorch.fft", "readtorch.linalg", "readtorch.special"])


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for functions written in Python that stand beside the operators: the same questions, the same errors."""
    entry = OperatorEntry(function.__name__, Schema(function))
    check, first_option = option_check(entry, 0)
    takes_tensors = entry.schema.var_tensors or any(kind is not OPTION for kind in entry.schema.kinds)
    entry.out = "out" in entry.schema.names
    entry.name = (
        function.__module__.removeprefix("readtorch.").replace(".", "_") + f"_{function.__name__}"
        if function.__module__ in _WITH_PREFIX
        else function.__name__
    )

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and entry.out and "out" in kwargs:
            from readtorch.csrc.autograd.variable_type_utils import with_out

            return with_out(entry, call, args, kwargs)
        if takes_tensors and args and args[0].__class__ not in PLAIN:
            answer = first_contact(entry, args, kwargs)
            if answer is not NOBODY:
                return answer
        if check is not None and (kwargs or len(args) > first_option):
            args, kwargs = check(args, kwargs)
        try:
            return function(*args, **kwargs)
        except Exception:
            complain(entry, args, kwargs)
            raise

    return call


_ADDED = ("self alpha other",)
_MULTIPLIED = ("self value tensor1 tensor2",)


def _of_products(first: str, second: str) -> tuple[str, ...]:
    """As methods, then as functions, where the factor of the first tensor stands before it."""
    both = f"{first} {second}"
    return (f"self beta alpha {both}", f"beta self alpha {both}", f"self beta {both}", f"beta self {both}")


#: operators that take their numbers by keyword: in what order they took them before
OLD_ORDERS: dict[str, tuple[str, ...]] = {
    "add": _ADDED,
    "sub": _ADDED,
    "addcmul": _MULTIPLIED,
    "addcdiv": _MULTIPLIED,
    "addmm": _of_products("mat1", "mat2"),
    "addmv": _of_products("mat", "vec"),
    "addr": _of_products("vec1", "vec2"),
    "addbmm": _of_products("batch1", "batch2"),
    "baddbmm": _of_products("batch1", "batch2"),
}
_FACTORS = ("alpha", "beta", "value")


def _fits_in_old_order(name: str, value: Any) -> bool:
    if name in _FACTORS or (name == "other" and not isinstance(value, TensorImpl)):  # a sum may be with a number
        return is_number(value)
    return isinstance(value, TensorImpl)


def in_new_order(
    op: str, args: tuple, kwargs: dict[str, Any], stacklevel: int = 4
) -> tuple[tuple, dict[str, Any]] | None:
    """A call in one of `op`'s old orders, as it is written today: tensors first, numbers by keyword. None for any other call."""
    for order in OLD_ORDERS.get(op.removesuffix("_"), ()):
        names = order.split()
        if len(args) > len(names) or any(name not in kwargs for name in names[len(args) :]):
            continue
        values = dict(zip(names, args, strict=False))
        values.update((name, kwargs[name]) for name in names[len(args) :])
        if all(_fits_in_old_order(name, value) for name, value in values.items()):
            break
    else:
        return None
    factors = {name: value for name, value in values.items() if name in _FACTORS}
    today = ", ".join(
        [*(name for name in names if name not in (*_FACTORS, "self")), *(f"{name}=..." for name in factors)]
    )
    warn_once(
        f"This overload of {op} is deprecated: numbers are keywords, {op}({today})",
        stacklevel,
        about="order of arguments",
    )
    rest = {name: value for name, value in kwargs.items() if name not in values}
    return tuple(value for name, value in values.items() if name not in _FACTORS), factors | rest
