# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.utils._contextlib import _DecoratorContextManager


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
