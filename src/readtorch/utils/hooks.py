# Tangled from chapters/00_tensor/, chapters/02_module/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self


class RemovableHandle:
    """Takes a hook out again: `remove()`, or the end of a `with` block.

    `hooks_dict` is the table the hook goes into under this handle's `id`, `extra_dict` one or a list of further tables
    that may hold the same id. All are referred to weakly: a handle keeps no module alive, and outlives one without harm.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def remove(self) -> None:
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type: Any, value: Any, tb: Any) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        table, self.id, *extra = state
        #: Of a pickled handle whose table is gone only the number is left; a fresh, dead reference stands for the table.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if table is None else table)
        self.extra_dict_ref = tuple(map(weakref.ref, extra[0] if extra and extra[0] else ()))
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a tensor hook as one that may be dropped silently when its tensor is pickled."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]  # a mark on the function
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of each hook on `tensor` that a pickle will not contain, unless it is marked by `unserializable_hook`."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized; mark it with "
                "torch.utils.hooks.unserializable_hook if that is expected",
                stacklevel=2,
            )


class BackwardHook:
    """The backward hooks of one call of a module: two identity nodes, one behind its inputs, one behind its outputs.

    `setup_input_hook(args)` and `setup_output_hook(result)` pass the tensors through an identity function and return what
    the module is to work on, and what its caller is to get. In backward the output's node is reached first and keeps the
    gradients; when the input's node is reached, both sides are known and the user's hooks run.
    """

    def __init__(self, module: Any, user_hooks: list[Any], user_pre_hooks: list[Any]) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.n_inputs = -1
        self.input_tensors_index: tuple[int, ...] | None = None
        self.n_outputs = -1
        self.output_tensors_index: tuple[int, ...] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.n_inputs = len(args)
        passed, self.input_tensors_index, node = _behind_one_node(args)
        if node is not None:
            node.register_hook(self._inputs_reached)
        return passed

    def setup_output_hook(self, result: Any) -> Any:
        results = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(results)
        passed, self.output_tensors_index, node = _behind_one_node(results)
        if node is not None:
            node.register_hook(self._outputs_reached)
        return passed if isinstance(result, tuple) else passed[0]

    def _outputs_reached(self, _: Any, grad_outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The hook on the output's node: pre-hooks run, and the gradients are kept for the input's node."""
        places = self.output_tensors_index
        assert places is not None
        grads = _spread(places, grad_outputs, self.n_outputs)
        for hook in self.user_pre_hooks:
            replaced = hook(self.module, grads)
            if replaced is not None:
                _check_count("Backward pre hook", "grad_output", replaced, grads)
                grads = replaced
        if self.input_tensors_index is None:
            self._run_without_inputs(grads)
        else:
            self.grad_outputs = grads
        return tuple(grads[place] for place in places)

    def _inputs_reached(self, grad_inputs: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        """The hook on the input's node: the user's hooks see both sides."""
        if self.grad_outputs is None:
            #: Reached without passing the output, as in a double backward.
            return None
        places = self.input_tensors_index
        assert places is not None
        grads = _spread(places, grad_inputs, self.n_inputs)
        for hook in self.user_hooks:
            replaced = hook(self.module, grads, self.grad_outputs)
            if replaced is not None:
                _check_count("Backward hook", "grad_input", replaced, grads)
                grads = replaced
        self.grad_outputs = None
        return tuple(grads[place] for place in places)

    def _run_without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        """No input requires a gradient, so no input node will be reached: the user's hooks run at the output."""
        warnings.warn(
            "Full backward hook is firing with gradients of the outputs only, since no inputs "
            "require gradients: grad_input holds None only",
            stacklevel=5,
        )
        grad_inputs = (None,) * self.n_inputs
        for hook in self.user_hooks:
            replaced = hook(self.module, grad_inputs, grad_outputs)
            if replaced is not None and not (isinstance(replaced, tuple) and all(grad is None for grad in replaced)):
                raise RuntimeError(
                    "No input of this module requires gradient, so its backward hook can replace none: return None, not "
                    f"{replaced!r}"
                )


def _behind_one_node(values: tuple[Any, ...]) -> tuple[Any, tuple[int, ...] | None, Any]:
    """Pass the tensors among `values` through one identity node.

    Returns the values with the tensors replaced, the places of the tensors, and the node; or the values as they are and
    twice None if no gradient would ever reach them.
    """
    from readtorch import Tensor, is_grad_enabled

    places = tuple(place for place, value in enumerate(values) if isinstance(value, Tensor))
    tensors = [values[place] for place in places]
    if not (is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return values, None, None
    from readtorch.nn.modules._functions import BackwardHookFunction

    passed = list(values)
    node = None
    for place, tensor in zip(places, BackwardHookFunction.apply(*tensors), strict=True):
        passed[place] = tensor
        node = node or tensor.grad_fn
    return tuple(passed) if type(values) is tuple else type(values)(*passed), places, node


def _spread(places: tuple[int, ...], gradients: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    """A tuple of `size` entries that holds `gradients` at `places` and None elsewhere."""
    spread = [None] * size
    for place, gradient in zip(places, gradients, strict=True):
        spread[place] = gradient
    return tuple(spread)


def _check_count(who: str, what: str, got: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    if len(got) != len(expected):
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(got)}, but expected {len(expected)}")
