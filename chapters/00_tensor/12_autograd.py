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
# # `torch.autograd`: backward, grad and the modes
#
# Why do `backward` and `autograd.grad` both exist? What exactly does `no_grad` switch off, and what may `inference_mode`
# do that it may not? The engine takes edges and gradients; what a program writes is `loss.backward()`, or
# `torch.autograd.grad(loss, x)`, or nothing, inside `no_grad`. This part is the layer between. It is small, and it is
# Python upstream too, so the linked files can be read side by side.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: autograd/__init__.py
"""Automatic differentiation (twin of `torch/autograd/`)."""

import operator
from collections.abc import Mapping
from typing import Any

from readtorch import _C
from readtorch.autograd import graph as graph
from readtorch.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from readtorch.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from readtorch.autograd.function import Function as Function
from readtorch.autograd.grad_mode import enable_grad as enable_grad
from readtorch.autograd.grad_mode import inference_mode as inference_mode
from readtorch.autograd.grad_mode import no_grad as no_grad
from readtorch.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from readtorch.autograd.variable import Variable as Variable


def __getattr__(name: str) -> Any:
    from readtorch._not_here import missing

    raise missing("torch.autograd", name)


# %% [markdown]
# ## Why are there two ways to ask?
#
# `backward` *stores*: it adds to the `.grad` of every leaf it reaches. That is right for a training step, and wrong as
# soon as a derivative is part of the computation. A gradient penalty needs the derivative of the score by the *input*:

# %%
weight = torch.tensor([2.0, 3.0], requires_grad=True)
x = torch.tensor([1.0, 1.0], requires_grad=True)
score = (weight * x).sum()
score.backward(retain_graph=True)
x.grad, weight.grad

# %% [markdown]
# The penalty wanted `x.grad`. It also put a gradient into `weight`, which the next optimizer step would follow. `grad`
# *returns*, and touches nothing:

# %%
weight.grad = x.grad = None

# %%
#| trace: torch.autograd torch.csrc.autograd.python_engine layers=calls,autograd values=summary title="autograd.grad(score, x): captured, not stored"
(gradient,) = torch.autograd.grad(score, x)

# %%
gradient, x.grad, weight.grad

# %% [markdown]
# Both go to the same engine and differ in what happens where the walk ends. `grad` names places in the graph at which
# gradients are *captured*, and only nodes on the way there run. Those places need not be leaves.
#
# Both begin the walk in the same way. Reverse mode computes a product: weights, one for each element of the output, times
# the matrix of derivatives. If there is one element, its weight is 1 unless the caller says otherwise. For more there is
# no natural choice, and none is made: *grad can be implicitly created only for scalar outputs*.


# %%
#| into: autograd/__init__.py
def _as_tuple(value: Any) -> tuple:
    if value.__class__ is tuple:
        return value
    return (value,) if isinstance(value, _C.TensorBase | graph.GradientEdge) else tuple(value)


def _wanted(inputs: Any, function: str) -> tuple:
    """What to differentiate by, as a tuple; of a dict, its values. RuntimeError for none, and for what is no tensor."""
    if isinstance(inputs, Mapping):
        if inputs.__class__ is not dict:
            raise TypeError(f"`inputs` argument to `{function}()` must be a dict, not {type(inputs).__name__}.")
        inputs = inputs.values()
    wanted = _as_tuple(inputs)
    if not wanted:
        raise RuntimeError(f"`inputs` argument to `{function}()` cannot be empty.")
    for number, value in enumerate(wanted):
        if not isinstance(value, _C.TensorBase | graph.GradientEdge):
            kind = type(value).__name__
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {kind} at index {number}")
    return wanted


def _flag(value: Any) -> bool:
    """A switch of the engine's: upstream reads it as a byte, so that 2 is on and 1.5 a TypeError."""
    if value.__class__ is bool:
        return value
    number = operator.index(value)
    if not 0 <= number < 256:
        raise OverflowError(f"unsigned byte integer is {'less than minimum' if number < 0 else 'greater than maximum'}")
    return bool(number)


def _make_grads(outputs: tuple, grads: tuple) -> tuple:
    """Gradients to start from: those given, checked, or ones for outputs of one element. More of them are ignored."""
    result = []
    for number, (output, grad) in enumerate(zip(outputs, grads, strict=False)):
        if isinstance(output, graph.GradientEdge):
            if grad is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
        elif not isinstance(output, _C.TensorBase):
            raise AssertionError(
                f"Expected output to be a torch.Tensor, and output {number} is {type(output).__name__}"
            )
        elif grad is None:
            if output.requires_grad:
                if output._array.size != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if not output.dtype.is_floating_point:
                    raise RuntimeError(
                        f"grad can be implicitly created only for real scalar outputs, and this one is {output.dtype}"
                    )
                grad = _C._VariableFunctions.ones_like(output)
        elif not isinstance(grad, _C.TensorBase):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        elif grad._array.shape != output._array.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{number}] has a shape of {grad.shape} and output[{number}] has a shape of {output.shape}."
            )
        elif (output._array.dtype.kind == "c") != (grad._array.dtype.kind == "c"):
            raise RuntimeError(
                "For complex Tensors, grad_output and output must have the same dtype. Mismatch in dtype: "
                f"output[{number}] is {output.dtype}, its gradient {grad.dtype}."
            )
        result.append(grad)
    if len(outputs) > len(result):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(result)} gradients")
    return tuple(result)


# %%
#| into: autograd/__init__.py
#| upstream: torch/autograd/__init__.py#backward
def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the derivatives of `tensors` to the `.grad` of the leaves (of `inputs`, if given).

    `grad_tensors` weigh their elements; None for a tensor of one element means 1.
    """
    if grad_variables is not None:
        import warnings

        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`: use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = _wanted(inputs, "backward")
    tensors = _as_tuple(tensors)
    grads = _make_grads(tensors, (None,) * len(tensors) if grad_tensors is None else _as_tuple(grad_tensors))
    keep = create_graph if retain_graph is None else retain_graph
    _C._run_backward(tensors, grads, _flag(keep), _flag(create_graph), inputs or (), True, True)


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`backward` works on scalars only." It works on any tensor, given the weights.


# %%
#| needs: a1_operators
#| claim: backward of a tensor with several elements takes weights, and equals backward of the weighted sum
def _(torch):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    weights = torch.tensor([1.0, 10.0, 100.0])
    (x * x).backward(weights)
    by_weights, x.grad = x.grad, None
    (x * x * weights).sum().backward()
    assert torch.equal(by_weights, x.grad)
    try:
        (x * x).backward()
    except RuntimeError as error:
        assert "grad can be implicitly created only for scalar outputs" in str(error)
    else:
        raise AssertionError("weights made up")


# %%
#| into: autograd/__init__.py
#| upstream: torch/autograd/__init__.py#grad
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The derivatives of `outputs`, weighed by `grad_outputs`, with respect to `inputs`, as a tuple; as a dict for a dict of inputs.

    An input that was not used is a RuntimeError; None with `allow_unused`, zeros with `materialize_grads`.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed: materialize_grads=True contradicts allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if not only_inputs:
        import warnings

        warnings.warn(
            "only_inputs argument is deprecated and is ignored now. To accumulate the gradients of the rest of the graph, call backward.",
            FutureWarning,
            stacklevel=2,
        )
    outputs = _as_tuple(outputs)
    if inputs.__class__ is dict:
        values = grad(
            outputs,
            _wanted(inputs, "grad"),
            grad_outputs,
            retain_graph,
            create_graph,
            True,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return dict(zip(inputs, values, strict=True))
    inputs = _wanted(inputs, "grad")
    grads = (None,) * len(outputs) if grad_outputs is None else _as_tuple(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        if not all(g is None or g.ndim for g in grads) or all(g is None for g in grads):
            raise ValueError("is_grads_batched: Got in_dim=0 for a gradient, but that is a Tensor of dimensionality 0.")
        for output, given in zip(outputs, grads, strict=False):
            if given is not None and given.shape[1:] != output.shape:
                raise RuntimeError(
                    "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension: "
                    f"the sizes of the rest are expected to match those of the output, {tuple(output.shape)}, got {tuple(given.shape)}."
                )
        count = next(g.shape[0] for g in grads if g is not None)
        rows = [
            grad(outputs, inputs, [g if g is None else g[i] for g in grads], True, create_graph, True, allow_unused)
            for i in range(count)
        ]
        stack = _C._VariableFunctions.stack
        return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))
    grads = _make_grads(outputs, grads)
    keep, create_graph, allow_unused = _flag(keep), _flag(create_graph), _flag(allow_unused)
    results = _C._run_backward(outputs, grads, keep, create_graph, inputs, allow_unused, False)
    if materialize_grads:
        results = tuple(
            _C._VariableFunctions.zeros_like(value, requires_grad=create_graph) if g is None else g
            for g, value in zip(results, inputs, strict=True)
        )
    return results


# %% [markdown]
# Second derivatives come from `create_graph`: the walk is recorded like any computation, and its result can be
# differentiated again.

# %%
x = torch.tensor(3.0, requires_grad=True)
y = x * x * x
(first,) = torch.autograd.grad(y, x, create_graph=True)
(second,) = torch.autograd.grad(first, x, create_graph=True)
(third,) = torch.autograd.grad(second, x)
first, second, third


# %%
#| claim: `grad` runs only what leads to its inputs, refuses inputs that were not used, and does not touch .grad; backward(inputs=) stores in those alone
def _(torch):
    x, w, idle = (torch.ones(1, requires_grad=True) for _ in range(3))
    hidden = x * w
    ran = []
    w.register_hook(ran.append)
    assert torch.autograd.grad(hidden * 2, x, retain_graph=True)[0].item() == 2
    assert torch.autograd.grad(hidden * 2, hidden, retain_graph=True)[0].item() == 2
    assert ran == [] and x.grad is None
    assert torch.autograd.grad(hidden, idle, retain_graph=True, allow_unused=True) == (None,)
    try:
        torch.autograd.grad(hidden, idle, retain_graph=True)
    except RuntimeError as error:
        assert "appears to not have been used in the graph" in str(error)
    else:
        raise AssertionError("unused, and not noticed")
    hidden.backward(inputs=[w])
    assert x.grad is None and w.grad.item() == 1


# %% [markdown]
# "None" and "zero" are two answers. None means that no path leads there. Optimizers skip such a parameter, while one with
# a gradient of zeros is still moved by momentum and weight decay.
#
# ### What is a `Variable`?
# The name that was there first. Up to 0.3 a tensor could not be in a graph; a `Variable` that wrapped it could. They were
# merged in 0.4. `Variable(x)` still runs, and `isinstance(x, Variable)` holds for every tensor, by a metaclass.

# %%
#| into: autograd/variable.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch import _C
from readtorch._tensor import Tensor


# %%
#| into: autograd/variable.py
#| upstream: torch/autograd/variable.py#Variable
class VariableMeta(type):
    """Every tensor is an instance of `Variable`."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class _Engine:
    """The engine's face: what DDP reaches for."""

    queue_callback = staticmethod(_C._queue_callback)


class Variable(metaclass=VariableMeta):
    """The wrapper of the early days. `Variable(x, requires_grad=True)` gives a tensor that shares the data of `x`."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool | None = None, volatile: Any = None) -> Any:
        result = (
            Tensor()
            if data is None
            else data.detach()
            if requires_grad is not None or data.is_leaf
            else data.view_as(data)
        )
        keep = data is not None and data.requires_grad if requires_grad is None else requires_grad
        if result.is_leaf:
            result.requires_grad_(keep)
        return result


# %% [markdown]
# ## How is recording turned off, and for how long?
#
# An optimizer's step is arithmetic on parameters, and must not become part of what is differentiated. Without a way to
# say so:

# %%
w = torch.tensor([1.0], requires_grad=True)
for _ in range(3):
    (gradient,) = torch.autograd.grad((w * w).sum(), w, create_graph=True)
    w = w - 0.1 * gradient
depth, node = 0, w.grad_fn
while node.next_functions:
    depth, node = depth + 1, node.next_functions[0][0]
w.is_leaf, depth

# %% [markdown]
# After three steps `w` is no leaf any more, and drags the history of all steps behind it. The in-place form is refused
# outright, because a leaf with a history would be a contradiction:

# %% tags=["raises-exception"]
w = torch.tensor([1.0], requires_grad=True)
w -= 0.1

# %%
with torch.no_grad():
    w -= 0.1
w, w.is_leaf

# %% [markdown]
# A mode is an object that is a context manager and a decorator at once. The difficult case is a generator. It runs in
# pieces, and between them its caller runs; the mode must be on in the one and off in the other. So a decorated generator
# is driven step by step, each step inside the mode.

# %%
#| into: utils/__init__.py
"""What more than one part of the package needs (twin of upstream's `torch/utils/`)."""

# %%
#| into: utils/_contextlib.py
#| imports
from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any


# %%
#| into: utils/_contextlib.py
#| upstream: torch/utils/_contextlib.py#context_decorator
def context_decorator(make: Callable[[], Any], function: Any) -> Any:
    """`function` run inside a fresh context each time. A generator runs inside it between its yields.

    Of a class, a function that constructs it is left, with a warning.
    """
    if inspect.isclass(function):
        warnings.warn(
            "Decorating classes is deprecated, and what is left is a function that runs their __init__ inside the context. "
            "You should only decorate functions or methods.",
            FutureWarning,
            stacklevel=3,
        )
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(make, function)

    @functools.wraps(function)
    def decorate_context(*args: Any, **kwargs: Any) -> Any:
        with make():
            return function(*args, **kwargs)

    return decorate_context


def _wrap_generator(make: Callable[[], Any], function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        resume = functools.partial(generator.send, None)
        while True:
            try:
                with make():
                    produced = resume()
            except StopIteration as end:
                return end.value
            try:
                resume = functools.partial(generator.send, (yield produced))
            except GeneratorExit:
                with make():
                    generator.close()
                raise
            except BaseException as error:
                resume = functools.partial(generator.throw, error)

    return wrapped


class _DecoratorContextManager:
    """A context manager that can decorate."""

    def __call__(self, function: Any) -> Any:
        return context_decorator(self.clone, function)

    def clone(self) -> Any:
        return self.__class__()


# %%
@torch.no_grad()
def batches():
    for _ in range(2):
        yield torch.is_grad_enabled()


[(inside, torch.is_grad_enabled()) for inside in batches()]

# %%
#| into: autograd/grad_mode.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.utils._contextlib import _DecoratorContextManager


# %%
#| into: autograd/grad_mode.py
#| upstream: torch/autograd/grad_mode.py#no_grad
class _GradMode(_DecoratorContextManager):
    wanted: bool

    def __enter__(self) -> None:
        self.previous = _C.is_grad_enabled()
        _C._set_grad_enabled(self.wanted)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self.previous)

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None) -> None:
        pass


class no_grad(_GradMode):
    """Record nothing inside. `with no_grad():`, `@no_grad()` or `@no_grad`."""

    wanted = False


class enable_grad(_GradMode):
    """Record inside, even within `no_grad`."""

    wanted = True


class set_grad_enabled(_DecoratorContextManager):
    """Record or not, from this call on; as a context manager or decorator, until its end."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.previous = _C.is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, function: Any) -> Any:
        _C._set_grad_enabled(self.previous)
        return super().__call__(function)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self.previous)

    def clone(self) -> set_grad_enabled:
        return self.__class__(self.mode)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class set_multithreading_enabled(_DecoratorContextManager):
    """May backward passes use several threads? One thread walks the graph here in any case; the mode is remembered."""

    def __init__(self, mode: bool) -> None:
        self.previous = autograd_state.set_special("multithreading", mode)
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("multithreading", self.previous)

    def clone(self) -> set_multithreading_enabled:
        return self.__class__(self.mode)


# %% [markdown]
# `no_grad` is about *recording* and about nothing else. It clears no flag and frees nothing.


# %%
#| claim: under no_grad results require no gradient, but leaves made there do if asked, graphs made before can be walked, and requires_grad of parameters is as it was
def _(torch):
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    with torch.no_grad():
        assert x.requires_grad and y.requires_grad and not (x * 2).requires_grad
        assert torch.ones(1, requires_grad=True).requires_grad
        y.backward()
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert x.grad.item() == 2


# %%
#| claim: `set_grad_enabled` acts when it is called; as a context manager it puts back what was before the call, as a decorator it leaves the caller alone
#| upstream: torch/autograd/grad_mode.py#set_grad_enabled
def _(torch):
    mode = torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    with mode:
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()

    @torch.set_grad_enabled(False)
    def inside():
        return torch.is_grad_enabled()

    assert torch.is_grad_enabled() and not inside() and torch.is_grad_enabled()


# %%
#| needs: 02_module
#| claim: `eval()` does not turn recording off; it sets a flag that dropout and normalisation layers read
def _(torch):
    layer = torch.nn.Linear(2, 1).eval()
    assert torch.is_grad_enabled() and layer(torch.ones(1, 2)).requires_grad


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`model.eval()` saves memory at inference, since no gradients are computed." It does not, as
# > the claim above shows. `eval` changes what some layers compute, and `no_grad` what is kept; validation wants both.
#
# ### What may inference_mode leave out that no_grad may not?
#
# A tensor made under `no_grad` is an ordinary tensor. It may become an input of a recorded computation later, so its
# version counter must be right, and its views must know their base. `inference_mode` gives that up: its tensors can
# *never* be kept for a backward pass, so neither counter nor bookkeeping of views is needed. Ours gains nothing by that:
# a counter that is made only when it is needed costs nothing to leave out.


# %%
#| into: autograd/grad_mode.py
#| upstream: torch/autograd/grad_mode.py#inference_mode
class inference_mode(_DecoratorContextManager):
    """Record nothing and keep no versions: tensors made inside can never enter a graph later."""

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def __init__(self, mode: Any = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.previous = _C.is_grad_enabled()
        self.outer = autograd_state.set_special("inference_mode", self.mode)
        _C._set_grad_enabled(not self.mode)

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("inference_mode", self.outer)
        _C._set_grad_enabled(self.previous)

    def clone(self) -> inference_mode:
        return self.__class__(self.mode)


def is_inference_mode_enabled() -> bool:
    """Is this thread inside of `inference_mode`?"""
    return autograd_state.state.inference_mode


# %%
#| claim: a tensor made in inference_mode cannot be saved for backward later; a clone of it can
#| source: pytorch/pytorch#57369
#| upstream: torch/csrc/autograd/saved_variable.cpp#SavedVariable
def _(torch):
    with torch.inference_mode():
        made = torch.ones(1) * 2
    w = torch.ones(1, requires_grad=True)
    try:
        w * made
    except RuntimeError as error:
        assert "Inference tensors cannot be saved for backward" in str(error)
    else:
        raise AssertionError("saved")
    assert (w * made.clone()).requires_grad and made.is_inference() and not made.clone().is_inference()
    try:
        made.add_(1)
    except RuntimeError as error:
        assert "Inplace update to inference tensor outside InferenceMode is not allowed" in str(error)
    else:
        raise AssertionError("written")


# %% [markdown]
# [Anomaly mode](04b_the_walk.py#where-was-this-made) is another mode of the thread, and has the same two faces.

# %%
#| into: autograd/anomaly_mode.py
#| imports
from __future__ import annotations

import warnings

from readtorch.c10.core import autograd_state


# %%
#| into: autograd/anomaly_mode.py
#| upstream: torch/autograd/anomaly_mode.py#detect_anomaly
def _switch(enabled: bool, check_nan: bool) -> tuple[bool, bool]:
    """Set both; returns what they were. TypeError for what is no bool."""
    for value, name in ((enabled, "enabled"), (check_nan, "check_nan")):
        if value.__class__ is not bool:
            raise TypeError(f"set_anomaly_enabled(): argument '{name}' must be bool, not {type(value).__name__}")
    return autograd_state.set_special("anomaly", enabled), autograd_state.set_special("check_nan", check_nan)


class detect_anomaly:
    """Keep the forward stack on every node made inside, and check the gradients of every node run inside for NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. Each operator now keeps its traceback, which is slow: meant for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.outer, self.outer_check = _switch(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("anomaly", self.outer)
        autograd_state.set_special("check_nan", self.outer_check)


class set_detect_anomaly:
    """Switch anomaly mode on or off, from this call on or for a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.outer, self.outer_check = _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("anomaly", self.outer)
        autograd_state.set_special("check_nan", self.outer_check)


# %% [markdown]
# ## When is `retain_graph` needed?
#
# More rarely than it is given, and sometimes where it is not given. What counts is whether a node on the way has kept
# something:


# %%
#| claim: x + x may be walked back twice, x * 2 may not: it has kept its factor
def _(torch):
    x = torch.ones(2, requires_grad=True)
    y = (x + x).sum()
    y.backward()
    y.backward()
    z = (x * 2).sum()
    z.backward()
    try:
        z.backward()
    except RuntimeError as error:
        assert "second time" in str(error)
    else:
        raise AssertionError("walked twice")


# %%
#| claim: hooks on a tensor run in the order of registration, and each sees what the one before returned
def _(torch):
    x = torch.ones(2, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    x.register_hook(lambda g: seen.append(g.tolist()))
    x.sum().backward()
    assert seen == [[1.0, 1.0], [2.0, 2.0]]
    assert x.grad.tolist() == [2.0, 2.0]


# %% [markdown]
# ### What upstream does more
#
# * Forward-mode derivatives: dual numbers, `torch.autograd.forward_ad`, with a second formula per operator in
#   `derivatives.yaml`.
# * `is_grads_batched` runs the backward once under `vmap`; ours runs it once for each row.
# * `set_multithreading_enabled`, and modes for graph capture.

# %%
#| fact: torch/autograd/forward_ad.py#dual_level
#| fact: torch/autograd/grad_mode.py#set_multithreading_enabled

# %% [markdown]
# So far operators made all nodes. [The next part](13_functions_and_graph.py) makes nodes of your own.
