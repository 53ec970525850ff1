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
# # Rarely used names around the graph
#
# To look up: what else `torch.autograd` offers, and hardly anybody calls. Two base classes from the time before static
# methods, switches of the engine, and the function that shortens a long tensor for printing.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What did custom functions look like before 0.4?
#
# A function was an object with a `forward` that took `self`. `InplaceFunction` noted whether it was to write to its
# input. `NestedIOFunction` took tensors out of lists and tuples and put them together again. Both can still be derived
# from, and both say, when an instance is made, that nobody should.


# %%
#| into: csrc/autograd/python_function.py
#| upstream: torch/autograd/function.py#FunctionCtx.mark_shared_storage
class FunctionNode(FunctionNode):
    def mark_shared_storage(self, *pairs: tuple[Any, Any]) -> None:
        """Nothing: which outputs share memory with inputs is known without being told, since PyTorch 0.4."""


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#BackwardCFunction.apply_boxed
class BackwardCFunction(BackwardCFunction):
    def apply_boxed(self, *args: Any) -> Any:
        """The backward that its function defines, with the gradients as they are given."""
        return self._forward_cls.backward(self, *args)

    def apply_jvp(self, *args: Any) -> Any:
        """The forward-mode derivative that its function defines."""
        return self._forward_cls.jvp(self, *args)


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#_SingleLevelFunction.jvp
class Function(Function):
    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Compute the outputs' tangents from the inputs', where a function defines it. Nothing here asks for it."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )


# %%
#| into: autograd/function.py
#| upstream: torch/autograd/function.py#InplaceFunction
class InplaceFunction(Function):
    """A function that may write into its input. Kept for old code: `ctx.mark_dirty` says it today."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _tensors_in(value: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dicts, one after the other; TypeError for anything else."""
    if value is None:
        return []
    if isinstance(value, _C.TensorBase):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected tensors in lists, tuples and dicts, but got {type(value).__name__}")
    return [tensor for part in value for tensor in _tensors_in(part)]


class NestedIOFunction(Function):
    """A function whose arguments and results are nested. Kept for old code, which defines the `_extended` methods.

    It cannot be called: what it calls was removed with the non-static functions.
    """

    def forward(self, *args: Any) -> Any:  # type: ignore[override]  # a method here, static in the base
        """The tensors of what `forward_extended` returns, one after the other."""
        self._nested_output = self.forward_extended(*args)
        return tuple(_tensors_in(self._nested_output))

    def backward(self, *gradients: Any) -> Any:  # type: ignore[override]  # a method here, static in the base
        """The tensors of what `backward_extended` returns."""
        return tuple(_tensors_in(self.backward_extended(*gradients)))

    def save_for_backward(self, *args: Any) -> None:
        """Keep the tensors in nested arguments."""
        self.to_save = tuple(_tensors_in(args))
        self._to_save_nested = args

    @property
    def saved_tensors(self) -> Any:
        """What `save_for_backward` was given."""
        return self._to_save_nested

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Note the tensors that were written to."""
        self.dirty_tensors = tuple(_tensors_in((args, kwargs)))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Note the tensors that have no gradient."""
        self.non_differentiable = tuple(_tensors_in((args, kwargs)))

    def forward_extended(self, *input: Any) -> Any:
        """For the function to define."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> Any:
        """For the function to define."""
        raise NotImplementedError


# %% [markdown]
# ## In which order do the elements of a gradient lie?
#
# A leaf's first gradient is kept as it comes if nobody else holds it. If its strides are not those of the leaf it is
# copied first, because an optimizer that walks through both wants them in step. `enforce_grad_layout_policy(False)` saves
# the copy.


# %%
#| into: autograd/grad_mode.py
#| upstream: torch/autograd/grad_mode.py#enforce_grad_layout_policy
class enforce_grad_layout_policy(_DecoratorContextManager):
    """Copy gradients into the leaf's order of memory, or keep them as they come; a context manager or decorator of this thread."""

    def __init__(self, enable: bool = True) -> None:
        if not isinstance(enable, bool):
            raise TypeError(f"enforce_grad_layout_policy(): argument must be bool, not {type(enable).__name__}")
        self.prev = autograd_state.state.grad_layout
        self.mode = enable
        autograd_state.state.grad_layout = enable

    def __call__(self, function: Any) -> Any:
        autograd_state.state.grad_layout = self.prev
        return super().__call__(function)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        autograd_state.state.grad_layout = self.prev

    def clone(self) -> enforce_grad_layout_policy:
        """Another one of this mode."""
        return self.__class__(self.mode)


# %%
#| into: autograd/__init__.py
from readtorch.autograd.function import NestedIOFunction as NestedIOFunction
from readtorch.autograd.grad_mode import enforce_grad_layout_policy as enforce_grad_layout_policy


# %%
#| into: autograd/graph.py
#| upstream: torch/autograd/graph.py#region_activation_memory_budget
def region_activation_memory_budget(budget: float) -> Any:
    """How much of a compiled region's activations are kept. RuntimeError: nothing is compiled here, as in eager mode upstream."""
    where = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"{where}: expects a float, got {type(budget).__name__}")
    if not 0 <= budget <= 1:
        raise ValueError(f"{where}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{where} can only be used inside a torch.compile region; torch.utils.checkpoint works without one"
    )


class _Switches:
    """Two settings of upstream's engine for streams. They are remembered; the engine here waits for streams in one way only."""

    warn_on_stream_mismatch = True
    override_stale_capture_stream = False


def _switch(name: str, enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")
    setattr(_Switches, name, enabled)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether upstream warns when a gradient was made on another stream than its leaf's. Here nothing warns of it."""
    _switch("warn_on_stream_mismatch", enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Whether upstream, while it captures a graph, replaces streams that do not belong to it. Here none is replaced."""
    _switch("override_stale_capture_stream", enabled)


# %% [markdown]
# ## What is printed of a long tensor?
#
# A tensor of more than a thousand elements is printed by the three at each end of each dimension.


# %%
#| into: _tensor_str.py
#| upstream: torch/_tensor_str.py#get_summarized_data
def tensor_totype(t: Any) -> Any:
    """In the type in which numbers are compared for printing: float64."""
    return t.double()


def get_summarized_data(self: Any) -> Any:
    """The elements at the ends of each dimension, where there are more than twice `edgeitems`."""
    from readtorch import cat

    edge, result = PRINT_OPTS.edgeitems, self
    if self.dim() > 1 and not edge:
        return self.new_empty([0] * self.dim())
    for dim, size in enumerate(self.shape):
        if size > 2 * edge:
            start = size - edge if edge else 0
            result = cat((result.narrow(dim, 0, edge), result.narrow(dim, start, size - start)), dim)
    return result


# %%
#| needs: a1_operators
#| claim: a gradient keeps its own order in memory where the policy is off, and has the leaf's where it is on
#| upstream: torch/autograd/grad_mode.py#enforce_grad_layout_policy
def _(torch):
    def strides(enforce):
        leaf = torch.zeros(2, 3, requires_grad=True)
        with torch.autograd.enforce_grad_layout_policy(enforce):
            (leaf.t() * torch.ones(3, 2)).backward(torch.ones(3, 2))
        return leaf.grad.stride()

    assert strides(True) == (3, 1) and strides(False) == (1, 2)


# %%
#| needs: a1_operators
#| claim: what is printed of a tensor is the ends of its dimensions
#| upstream: torch/_tensor_str.py#get_summarized_data
def _(torch):
    import importlib

    shorten = importlib.import_module(f"{torch.__name__}._tensor_str").get_summarized_data
    assert shorten(torch.arange(100).reshape(10, 10))[:, 0].tolist() == [0, 10, 20, 70, 80, 90]
