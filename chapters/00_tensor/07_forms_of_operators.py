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
# # The forms of an operator
#
# Which path does `x * 2` take, and which `x[0]` or `index_add(x, 0, i, y)`? [From a call to the
# result](06_from_call_to_result.py) has the form for operators with tensors in front and options behind. Three more stand
# here: pointwise operators, which are most of what a program calls; signatures of any kind; and views, whose result
# shares memory with an argument. [The next part](07a_in_place_and_composites.py) has the two that are left, in place and
# composite.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Which two paths does a pointwise operator have?
# Pointwise operators are most of what a program calls. So the common case is written out: tensors of one dtype, or a
# tensor and a number. Everything else (promotion, other devices, `out=`, modes) takes the second path, through the same
# table.


# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# With two operands, either may be a Python number, and NumPy may give another dtype than the rules of promotion ask for.
# So the fast path looks at the dtype that came out, and hands the call to the second path if it is not that of the
# operands.


# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# The second path. `alpha` is the odd one among the options: `add(x, y, alpha=2)` scales the second operand first, after
# the checks that upstream makes on the number.


# %%
#| into: csrc/autograd/variable_type.py
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


# %%
a, b = torch.ones(3, requires_grad=True), torch.ones(3)

# %%
#| trace: torch.csrc.autograd.variable_type torch.aten.tensor_iterator layers=calls,ops values=summary title="one dtype, and two that must be promoted"
a * b
a * torch.ones(3, dtype=torch.int64)

# %% [markdown]
# The first multiplication stays in `call`. The second goes one level deeper and casts first.

# %% [markdown]
# ## What if a tensor comes after an option?
# Then positions do not help: `index_add(x, dim, index, source)`, lists of tensors, optional tensors. The arguments are
# bound to names first, which is a little slower, and each is looked at by its kind in the schema.


# %%
#| into: csrc/autograd/variable_type.py
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


# %% [markdown]
# ## How does a view come to know its base?
# The kernel returns an array that looks into the same memory. The tensor around it gets the version counter of its
# source, and notes how it was taken ([a tensor's place in the graph](05a_place_in_the_graph.py) says why). Some operators
# cannot say beforehand whether they will give a view: `reshape` does if the strides allow it. So whether anything must be
# noted is read off the array that came back.


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


# %%
#| needs: a1_operators
x = torch.ones(2, 3, requires_grad=True)
same, copied = x.reshape(6), x.t().reshape(6)
[(result.grad_fn.name(), result._vc is x._vc, result._view is not None) for result in (same, copied)]

# %% [markdown]
# One call gave a view, with the counter of `x` and a way back to it; the other gave a copy, with neither, and a node of another name.
# Upstream notes the same in `as_view`, in the kernels of `ADInplaceOrView`.
