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
# # In place, and operators made of operators
#
# Why does `x.add_(1)` fail where `x + 1` works, and why has `F.cross_entropy` no node called `CrossEntropyBackward0`?
# [The forms before](07_forms_of_operators.py) make new tensors. Of the two that are left, one writes to a tensor that is
# there, and the other calls other operators.

# %%
import readtorch as torch
from readtorch.literate import live

live()


# %% [markdown]
# ## What must be asked before a tensor is overwritten?
#
# Either the kernel writes to its first argument itself (`copy_`, `zero_`), or the result of the ordinary kernel is
# written there. Three checks come first: no leaf, no forbidden view, a result that fits. Each prevents a graph that would
# be wrong, or that nobody could draw:


# %%
#| needs: a1_operators
def refused(action):
    try:
        action()
    except RuntimeError as error:
        return str(error).split(". ")[0]


leaf = torch.ones(2, 2, requires_grad=True)
computed = leaf * 1
[
    refused(lambda: leaf.add_(1)),
    refused(lambda: leaf[0].add_(1)),
    refused(lambda: computed[0].add_(torch.ones(3, 2))),
]

# %% [markdown]
# A leaf with a history would not be a leaf, and its gradient would go somewhere else than to `.grad`. A write to a view
# of a leaf would give the leaf a history just the same. And a result of another shape has no place.
#
# The two questions about memory are those of [the part on storage](02_storage_and_views.py#where-may-a-write-go). Most
# operators read and write in step, so an operand may be the written tensor itself. Operators that scatter do not, so
# theirs may not. Some ask nothing, because filling with one value cannot go wrong. And three, `index_fill_`, `index_put_`
# and `masked_fill_`, were once allowed on expanded tensors and still are, with a warning.


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: aten/src/ATen/TensorIterator.cpp#at::TensorIteratorBase::compute_mem_overlaps
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


# %% [markdown]
# Most writes are of the kind `p.add_(update)` or `average.mul_(0.9)`: no gradients, one dtype and shape, memory of their
# own. Then nothing of the above is in question, and asking would take twice as long as the arithmetic. So pointwise
# operators of two operands first look whether they have such a call.


# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# All other writes go through here. The order matters: the checks, then the kernel, then the version counter, then [the
# new history](05a_place_in_the_graph.py#rebase_history). If the formula names the value that is about to be overwritten
# (`mul_` by itself, say), a copy of it is kept instead.


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


# %%
#| needs: a1_operators
computed = leaf * 1
before = computed.grad_fn
computed.add_(1)
before.name(), computed.grad_fn.name(), computed.grad_fn.next_functions[0][0] is before, computed._version


# %%
#| claim: an in-place operation replaces the tensor's node and keeps the tensor: same object, new history, version one higher
def _(torch):
    leaf = torch.ones(2, requires_grad=True)
    x = leaf * 1
    same, node = x, x.grad_fn
    x.mul_(3)
    assert same is x and x.grad_fn is not node and x._version == 1
    assert x.grad_fn.next_functions[0][0].name() == node.name()
    assert torch.autograd.grad(x.sum(), leaf)[0].tolist() == [3, 3]


# %% [markdown]
# ## Why do some operators have no node of their own?
# A composite calls other operators, and they record; a node of its own would record the same derivative twice. Composites
# do not take tensors apart either, so a number in a tensor's place might get through their arithmetic unnoticed. That is
# why the places where the signature says tensor are looked at first.


# %%
#| into: csrc/autograd/variable_type.py
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


# %%
#| needs: a2_layers
loss = torch.nn.functional.cross_entropy(torch.ones(2, 3, requires_grad=True), torch.tensor([0, 1]))
loss.grad_fn.name(), loss.grad_fn.next_functions[0][0].name()


# %%
#| needs: a2_layers
#| claim: a composite leaves the nodes of what it called: cross_entropy those of nll_loss and log_softmax, matmul of two matrices that of mm
def _(torch):
    x, y = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2)
    loss = torch.nn.functional.cross_entropy(x, torch.tensor([0, 1]))
    assert loss.grad_fn.name() == "NllLossBackward0"
    assert loss.grad_fn.next_functions[0][0].name() == "LogSoftmaxBackward0"
    assert torch.matmul(x, y).grad_fn.name() == "MmBackward0"


# %% [markdown]
# ### What upstream does more
#
# * `add`, `add_` and `add.out` are three operators, with three rows in the table and three entries in a profile. Two of
#   them are generated from the third (`structured_delegate`). Here it is one operator, whose form is chosen by the call.
# * Every view operator has a twin that copies, `select_copy` for `select`. Functionalisation, which turns a program into
#   one without writes, calls the twins and puts the writes back by functions that are kept with each view (`ViewFunc`).


# %%
#| fact: aten/src/ATen/native/native_functions.yaml#add_.Tensor
#| fact: aten/src/ATen/native/native_functions.yaml#add.out
#| fact: aten/src/ATen/native/native_functions.yaml#select_copy.int
#| fact: torch/csrc/autograd/variable.h#torch::autograd::ViewFunc
