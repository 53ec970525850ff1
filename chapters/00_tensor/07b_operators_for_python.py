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
# # Autocast, and operators handed to Python
#
# Why is the result of a softmax float32 on a GPU and bfloat16 on a CPU, inside the same `with torch.autocast(…)`? And how
# does an operator become `torch.add`, `x.add` and `x.add_` at once? Every row of the dispatcher's table has its form by
# now. Two things stand between it and a program: autocast, which may change the dtype of the arguments before any form is
# chosen, and the functions and methods that Python sees.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why does autocast cast one operator and not another?
# Because it is not a rule but three lists of names, and each kind of device has lists of its own. Operators on the list
# "low" get their floating inputs cast to the low-precision type, those on "float32" to float32, those on "widest" to the
# widest dtype among them. Operators on no list take their inputs as they come: the fallback of the column lets the call
# through.
#
# The lists follow from what a type can hold. float16 ends at 65504, so CUDA's list "float32" has every function that
# grows or adds up: `exp`, `pow`, `sum`, `softmax`, the norms, the losses. bfloat16 has the range of float32, and the
# CPU's list has neither `exp` nor `softmax`. It has the losses, `prod`, and operators for which the CPU had no kernel in
# bfloat16 when the list was made: Fourier transforms, decompositions, padding, pooling of volumes.


# %%
#| into: aten/autocast_mode.py
#| imports
"""Autocast's lists for a CPU (twin of `aten/src/ATen/autocast_mode.h`); CUDA's are what the operators are registered with."""

from __future__ import annotations


# %%
#| into: aten/autocast_mode.py
#: losses, and what had no kernel in bfloat16 when upstream's list was made
_FLOAT32_ON_CPU = """
    binary_cross_entropy_with_logits cross_entropy_loss huber_loss kl_div l1_loss mse_loss nll_loss nll_loss_nd prod smooth_l1_loss
    trace linalg_inv inverse linalg_solve linalg_cholesky cholesky linalg_qr qr linalg_svd svd linalg_svdvals linalg_eigh
    linalg_matrix_rank linalg_lu_solve linalg_cholesky_ex linalg_inv_ex cholesky_solve cholesky_inverse triangular_solve linalg_eig
    linalg_eigvals geqrf linalg_householder_product orgqr ormqr linalg_lstsq pinverse polar view_as_complex quantile nanquantile
    max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d
    _fractional_max_pool grid_sampler binary_cross_entropy poisson_nll_loss soft_margin_loss margin_ranking_loss
    hinge_embedding_loss cosine_embedding_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss ctc_loss"""
FLOAT32_ON_CPU = frozenset(_FLOAT32_ON_CPU.split())
#: of the operators registered with "low", those that are not on the CPU's list
LOW_ON_CUDA = frozenset(["addmv", "addr", "mv"])


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: aten/src/ATen/autocast_mode.h#at::autocast::cached_cast
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


# %%
#| needs: a2_layers
x, half = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.bfloat16)
with torch.autocast("cpu", dtype=torch.bfloat16):
    for name, result in {
        "mm of float32 (low)": x @ x,
        "add of float32 (on no list)": x + x,
        "softmax of bfloat16 (on no list of the CPU)": half.softmax(1),
        "mse_loss of bfloat16 (float32)": torch.nn.functional.mse_loss(half, half),
        "cat of both (widest)": torch.cat([half, x]),
    }.items():
        print(f"{name:45} {result.dtype}")

# %% [markdown]
# The cache holds casts of *parameters*, by the identity of the tensor, until the outermost region ends. Two things follow
# that look like bugs of something else.
#
# A weight that is changed inside the region, by an optimizer's step or by hand, goes on being multiplied by its old
# values. So put the region around the forward pass alone, and call `torch.clear_autocast_cache()` where you cannot.
#
# And for years a cast made under `no_grad` was found again by the training step after it, in the same region, and had no
# history: the weight got no gradient, and nothing was said. Since the end of 2025 (pytorch/pytorch#165068) a cast that
# goes into the cache is always recorded, whatever mode surrounds it.


# %%
#| claim: inside one autocast region a changed weight is multiplied by its old values; a forward pass under no_grad leaves the gradient of a later one intact
#| source: pytorch/pytorch#112583
#| source: pytorch/pytorch#158232
#| upstream: aten/src/ATen/autocast_mode.h#at::autocast::cached_cast
#| needs: a1_operators
def _(torch):
    x, weight = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            assert not (x @ weight).requires_grad
            weight.add_(1)
        stale = x @ weight
    assert stale.tolist() == [[2, 2], [2, 2]]
    stale.sum().backward()
    assert weight.grad.tolist() == [[2, 2], [2, 2]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ weight).tolist() == [[4, 4], [4, 4]]


# %%
#| claim: on a CPU, autocast computes products in low precision and losses in float32, and leaves exp, sum and softmax as they are
#| needs: a2_layers
def _(torch):
    x, half = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.bfloat16)
    functional = torch.nn.functional
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is functional.linear(x, x).dtype is torch.bfloat16
        assert functional.mse_loss(half, half).dtype is half.prod().dtype is torch.float32
        assert functional.cross_entropy(half, torch.tensor([0, 1])).dtype is torch.float32
        for left_alone in (half.exp(), half.sum(), half.softmax(1), functional.layer_norm(half, (2,))):
            assert left_alone.dtype is torch.bfloat16
        assert (x + x).dtype is torch.cat([half, x]).dtype is torch.float32


# %% [markdown]
# ## How does one operator become `torch.add`, `x.add` and `x.add_`?
#
# A listener of the table makes the entry point of each operator that is registered, and puts it where Python looks: into
# a namespace of functions, and on the tensor class. Operators with several outputs return a tuple whose items have names.

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
    __match_args__: tuple[str, ...] = ()
    n_fields = n_sequence_fields = n_unnamed_fields = 0

    def __new__(cls, values: Any, hidden: dict[str, Any] | None = None) -> StructSequence:
        made = tuple.__new__(cls, values)
        if len(made) != cls.n_fields:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {cls.n_fields}-sequence ({len(made)}-sequence given)"
            )
        return made

    def __repr__(self) -> str:
        inner = ",\n".join(f"{name}={value!r}" for name, value in zip(self.__match_args__, self, strict=True))
        return f"torch.return_types.{type(self).__name__}(\n{inner})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (tuple(self), {}))


_classes: dict[str, Any] = {}


def structseq(name: str, names: tuple[str, ...]) -> Any:
    """The class of a named result: one per name."""
    found = _classes.get(name)
    if found is None or found.__match_args__ != names:
        members: dict[str, Any] = {
            "__slots__": (),
            "__match_args__": names,
            "__module__": "readtorch.return_types",
            "n_fields": len(names),
            "n_sequence_fields": len(names),
        }
        for position, field in enumerate(names):
            members[field] = property(itemgetter(position))
        found = _classes[name] = type(name, (StructSequence,), members)
    return found


# %% [markdown]
# The classes of such tuples have a module of their own, `torch.return_types`, so that a program can ask `isinstance`.

# %%
#| into: return_types.py
#| imports
from __future__ import annotations

from typing import Any

import readtorch
from readtorch.csrc.utils.structseq import _classes, structseq


# %%
#| into: return_types.py
#| upstream: torch/return_types.py#pytree_register_structseq
def __getattr__(name: str) -> Any:
    """The class of what the operator `name` returns."""
    _ = readtorch.Tensor  # operators name their results when they are registered
    if name == "all_return_types":
        return list(_classes.values())
    plain = _classes.get(name.removesuffix("_out"))
    if name not in _classes and plain is not None:
        return structseq(name, plain.__match_args__)
    if name not in _classes:
        raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")
    return _classes[name]


def __dir__() -> list[str]:
    return sorted([*_classes, "all_return_types"])


# %%
#| into: csrc/autograd/python_torch_functions.py
#| imports
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

# %% [markdown]
# `offer` is the listener: it runs once per operator, at import, and again whenever somebody registers one. `entry_point`,
# at the end of the cell, picks the form.

# %%
#| into: csrc/autograd/python_torch_functions.py
#| upstream: torch/csrc/autograd/python_torch_functions_manual.cpp#torch::autograd::initTorchFunctions
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


# %% [markdown]
# Upstream a method has a parser of its own: `torch.add(x, y, out=z)` is a call, `x.add(y, out=z)` is not, and the first argument after the dot is "position 1". Here both are one piece of code. What they differ in stands in the entry that the code
# finds around it, so the class gets the same code with another entry in its closure, and no call pays for the difference.


# %%
#| into: csrc/autograd/python_torch_functions.py
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


# %%
#| needs: a1_operators
#| claim: a function takes out=, the method of that name does not, and counts its arguments without the tensor in front
def _(torch):
    x, out = torch.ones(2), torch.empty(2)
    assert torch.add(x, x, out=out) is out
    for call, said in (
        (lambda: x.add(x, out=out), "add"),
        (lambda: x.argmax("rows"), "(position 1) must be int, not str"),
        (lambda: torch.argmax(x, "rows"), "(position 2) must be int, not str"),
    ):
        try:
            call()
        except TypeError as error:
            assert said in str(error)
        else:
            raise AssertionError("no error")


# %%
#| into: csrc/autograd/python_torch_functions.py
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


# %% [markdown]
# One in-place operator is refused before its form begins, for a reason of its own.


# %%
#| into: csrc/autograd/variable_type.py
def _of_reals(call: Call) -> Call:
    """The length of a complex number has no place in a complex tensor, says upstream."""

    def checked(input: Any) -> Any:
        if isinstance(input, TensorImpl) and input._array.dtype.kind == "c":
            raise RuntimeError("In-place abs is not supported for complex tensors.")
        return call(input)

    return checked


# %% [markdown]
# ## What does `help` know of a compiled function?
#
# Nothing. Upstream the docstrings are attached at import: `torch/_torch_docs.py` is four hundred calls of `add_docstr` on
# 14,500 lines, and `_tensor_docs.py` has five hundred for the methods. (The `_add_docstr` in `F.conv2d =
# _add_docstr(torch.conv2d, …)` is the same function; it returns the function it was given.) It writes into a C structure,
# and only where there is no text yet. The first line of the text spells the call, because `inspect.signature` has nothing
# to look at. Ours is made of the operator's schema and the docstring of its kernel.

# %%
#| into: csrc/autograd/python_torch_functions.py
#| upstream: torch/_torch_docs.py#parse_kwargs
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


# %%
#| needs: a1_operators
print(torch.gather.__doc__, torch.Tensor.clamp_.__doc__, sep="\n\n")


# %%
#| needs: a1_operators
#| claim: the docstring of an operator begins with its call, in the words of its signature
#| upstream: torch/_torch_docs.py#parse_kwargs
#| source: pytorch/pytorch#16996
def _(torch):
    assert torch.gather.__doc__.strip().startswith(
        "gather(input, dim, index, *, sparse_grad=False, out=None) -> Tensor"
    )
    for function in (torch.nn.functional.conv2d, torch.sum, torch.Tensor.index_add_, torch.linalg.svd, torch.softmax):
        assert len(function.__doc__) > 60, function


# %% [markdown]
# The machinery is complete, and the table is nearly empty. [The next part](08_first_operators.py) puts the first operators into it.
