# Tangled from chapters/04_optim/1_optimizer.py — edit there, or here and run `readtorch sync`.
"""The base of all optimizers: parameter groups, per-parameter state, hooks, saving and loading."""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from functools import wraps
from itertools import chain
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Tensor
from readtorch.utils.hooks import RemovableHandle

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict = dict[str, Any]

_global_optimizer_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable] = OrderedDict()


class _RequiredParameter:
    def __repr__(self) -> str:
        return "<required parameter>"


#: A default of `required` makes add_param_group insist that the group brings the option itself.
required = _RequiredParameter()


def _append_hook(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(optimizer, args, kwargs)` before every step of every optimizer; it may return new `(args, kwargs)`."""
    return _append_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return _append_hook(_global_optimizer_post_hooks, hook)


def _use_grad_for_differentiable(step: Callable) -> Callable:
    """Run `step` with gradient recording only for an optimizer made with `differentiable=True`."""

    @wraps(step)
    def recording_as_asked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return recording_as_asked


def _to_scalar(x: Any) -> Any:
    """A one-element tensor as a 0-d one; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _check_not_negative(**options: tuple[str, Any]) -> None:
    """Each option is `(what it is called, value)`; ValueError for the first that is not from zero on, such as NaN."""
    for what, value in options.values():
        if not value >= 0:
            raise ValueError(f"Invalid {what}: {value}")


def _check_betas(betas: tuple[Any, Any]) -> None:
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def _check_lr_tensor(lr: Any, foreach: bool | None, capturable: bool = False) -> None:
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported with foreach=True, unless capturable=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")


def _check_implementations(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """`foreach` and `fused` choose among implementations of one arithmetic; here one implementation serves all three."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _check_capturable(params: list[Tensor], state_steps: list[Tensor]) -> None:
    """Graph capture needs the counters beside the parameters on a device that can capture."""
    for param, step in zip(params, state_steps, strict=True):
        if param.device.type != "cuda" or step.device != param.device:
            raise AssertionError(
                "If capturable=True, params and state_steps must be on supported devices: ['cuda'], "
                f"got {param.device} and {step.device}"
            )


def _ascent(param: Tensor, grad: Tensor, maximize: bool, weight_decay: float = 0.0) -> Tensor:
    """The gradient to step against: negated for `maximize`, with L2 weight decay folded in."""
    if maximize:
        grad = -grad
    return grad.add(param, alpha=weight_decay) if weight_decay != 0 else grad


def _at_places_of(grad: Tensor, values: Tensor) -> Tensor:
    """Other values at the places of a coalesced gradient: added to a dense tensor, they touch nothing else."""
    options: Any = {"is_coalesced": True, "check_invariants": False}
    return torch.sparse_coo_tensor(grad._indices(), values, grad.shape, **options)


def _as_real(*tensors: Any) -> tuple[Any, ...]:
    """Complex tensors as real ones with a last dimension of 2: each part is optimized on its own."""
    return tuple(torch.view_as_real(t) if isinstance(t, Tensor) and torch.is_complex(t) else t for t in tensors)


_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class Optimizer:
    """Base of all optimizers.

    `params` is an iterable of tensors, of `(name, tensor)` pairs, or of dicts (parameter groups: `params` and options);
    `defaults` holds the value of every option for groups that do not bring their own. The order of parameters must be the
    same from run to run, because saved state refers to parameters by position.

    Raises TypeError for a bare tensor, a set, or members that are no tensors; ValueError for an empty list, a non-leaf
    tensor, or a parameter that appears in two groups.
    """

    #: what is said of a sparse gradient, by the class's name; nothing where the step can use one
    _refuses_sparse: ClassVar = "{} does not support sparse gradients"
    _optimizer_step_pre_hooks: OrderedDict[int, Callable]
    _optimizer_step_post_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable]
    _younger_options: ClassVar[dict[str, Any]] = {}
    """Options that older releases did not save, each with the value that stands for their behaviour."""

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {torch.typename(params)}"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())

    def _patch_step_function(self) -> None:
        cls = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)  # type: ignore[method-assign]  # the wrapper takes any arguments
            cls.step.hooked = True  # type: ignore[attr-defined]  # a mark on the function

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """Wrap a `step` so that global and own hooks run around it."""

        @wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            for hook in chain(_global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                replaced = hook(self, args, kwargs)
                if replaced is not None:
                    if not (isinstance(replaced, tuple) and len(replaced) == 2):
                        raise RuntimeError(
                            f"a step pre-hook of {func} must return None or a tuple of (new_args, new_kwargs), "
                            f"but got {replaced}."
                        )
                    args, kwargs = replaced
            out = func(*args, **kwargs)
            for hook in chain(self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return out

        return wrapper

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(self, args, kwargs)` before each step; it may return new `(args, kwargs)`."""
        return _append_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(self, args, kwargs)` after each step."""
        return _append_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(self)` before `state_dict` collects anything."""
        return _append_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(self, state_dict)` on the result of `state_dict`; it may return another one."""
        return _append_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(self, state_dict)` on a shallow copy before it is loaded; it may return another one."""
        return _append_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(self)` after a state_dict was loaded."""
        return _append_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to `param_groups`; options that it lacks come from `defaults`.

        Raises TypeError if it is no dict or holds something other than tensors; ValueError for non-leaf tensors, a missing
        required option, a mix of named and unnamed parameters, or a parameter that another group holds.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        self._unpack_params(param_group)
        for param in param_group["params"]:
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {torch.typename(param)}"
                )
            if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_against_other_groups(param_group)
        self.param_groups.append(param_group)

    @staticmethod
    def _unpack_params(group: dict[str, Any]) -> None:
        """Make `group["params"]` a list of tensors, and `group["param_names"]` their names where pairs were given."""
        given = group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, and sets will change their order "
                "between runs. Use a list."
            )
        members = [given] if isinstance(given, Tensor) else list(given)
        names = [member[0] for member in members if isinstance(member, tuple)]
        if names and len(names) != len(members):
            raise ValueError("all optimizer params should be with/without names; here some have one and some have not")
        group["params"] = [member[1] if isinstance(member, tuple) else member for member in members]
        if names:
            group["param_names"] = names

    def _check_against_other_groups(self, group: dict[str, Any]) -> None:
        own = set(group["params"])
        if len(own) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters, to be refused in a later release: "
                "github.com/pytorch/pytorch/issues/40967 says why",
                stacklevel=4,
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                with_or_without = "with" if "param_names" in group else "without"
                raise ValueError(
                    f"all optimizer param groups should be with/without names: this one comes {with_or_without} names"
                )
        if any(not own.isdisjoint(other["params"]) for other in self.param_groups):
            raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter, or zero it in place with `set_to_none=False`."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                    continue
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one optimization step. `closure` re-evaluates the model and returns the loss. Subclasses define it."""
        raise NotImplementedError

    @staticmethod
    def _evaluate(closure: Callable[[], Any] | None) -> Any:
        """The loss that `closure` returns, computed with gradients on (`step` itself runs without)."""
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    def _gather(self, group: dict[str, Any]) -> tuple[list[Tensor], list[Tensor], list[dict[str, Any]]]:
        """The parameters of `group` that have a gradient, their gradients and their state, made on first use."""
        params, grads, states = [], [], []
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if self._refuses_sparse and grad.is_sparse:
                raise RuntimeError(self._refuses_sparse.format(type(self).__name__))
            state = self.state[param] if self._remembers(group) else {}
            if not state:
                state.update(self._init_state(param, group))
            params.append(param)
            grads.append(grad)
            states.append(state)
        return params, grads, states

    def _remembers(self, group: dict[str, Any]) -> bool:
        """Whether steps of this group need state: what never had any is no entry of `state`."""
        return True

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """What a subclass remembers for `param` before its first step."""
        return {}

    @staticmethod
    def _zero_state(param: Tensor, *names: str, beside_param: bool, host: Any = None) -> dict[str, Any]:
        """A count of steps, on `host` (the default device) or the parameter's device, and zeros like `param` under each name."""
        state = {"step": torch.zeros((), dtype=torch.float32, device=param.device if beside_param else host)}
        return state | {name: torch.zeros_like(param, memory_format=torch.preserve_format) for name in names}

    def state_dict(self) -> StateDict:
        """`{"state": {index: …}, "param_groups": [{…, "params": [index, …]}]}`; tensors are shared, not copied."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index: dict[int, int] = {}
        start = 0
        for group in self.param_groups:
            #: Of a parameter that stands twice in its group, the last place counts.
            index |= {id(p): start + place for place, p in enumerate(group["params"]) if id(p) not in index}
            start += len(group["params"])
        packed: StateDict = {
            "state": {index[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()},
            "param_groups": [
                {
                    **{key: value for key, value in group.items() if key != "params"},
                    "params": [index[id(p)] for p in group["params"]],
                }
                for group in self.param_groups
            ],
        }
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, packed)
            packed = packed if replaced is None else replaced
        return packed

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over state and options saved by `state_dict`; parameters correspond by position.

        Hyper-parameters come from the checkpoint. Raises ValueError if the number or the sizes of the groups differ.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved_groups)}, the optimizer has {len(self.param_groups)}"
            )
        pairs = list(zip(self.param_groups, saved_groups, strict=True))
        if any(len(mine["params"]) != len(saved["params"]) for mine, saved in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        param_of = {}
        group_of = {}
        for mine, saved in pairs:
            for param, number in zip(mine["params"], saved["params"], strict=True):
                param_of[number], group_of[number] = param, saved
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in param_of:
                state[param_of[key]] = _cast_state(param_of[key], value, group_of[key])
            else:
                state[key] = value
        for mine, saved in pairs:
            saved["params"] = mine["params"]
            if "param_names" in mine:
                saved.setdefault("param_names", mine["param_names"])
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups if self._younger_options else ():
            group.update(self._younger_options | group)
        #: Counters, too, were Python numbers once.
        for param in dict.fromkeys(
            param for group in self.param_groups for param in group["params"] if self._younger_options
        ):
            own = self.state.get(param, {})
            for name in own.keys() & {"step", "eta", "mu"}:
                if not isinstance(own[name], Tensor):
                    own[name] = torch.tensor(float(own[name]), dtype=torch.float32)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.extend([*([""] if number else []), f"Parameter Group {number}"])
            lines.extend(f"    {key}: {group[key]}" for key in sorted(group) if key != "params")
        return "\n".join([*lines, ")"])


def _cast_state(param: Tensor, value: Any, group: dict[str, Any], key: Hashable = None) -> Any:
    """State `value` of `param` as it has to be on the parameter's device and in its dtype."""
    if isinstance(value, Tensor):
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=torch.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _cast_state(param, v, group, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return type(value)(_cast_state(param, v, group) for v in value)  # type: ignore[call-arg]  # a named tuple or the like, of any type
    return value
