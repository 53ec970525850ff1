# Tangled from chapters/02_module/8d_options.py — edit there, or here and run `readtorch sync`.
"""Modules whose attributes are options: only known names, values by context, `patch` to change some for a while."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import ModuleType
from typing import Any

_MISSING = object()


class ConfigModule(ModuleType):
    """The class of a module after `install_config_module`. AttributeError for a name that is no option."""

    _config: dict[str, ContextVar[Any]]

    def _option(self, name: str) -> ContextVar[Any]:
        option = self.__dict__["_config"].get(name)
        if option is None:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        return option

    def __setattr__(self, name: str, value: object) -> None:
        self._option(name).set(value)

    def __getattr__(self, name: str) -> Any:
        value = self._option(name).get()
        if value is _MISSING:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        return value

    def __delattr__(self, name: str) -> None:
        self._option(name).set(_MISSING)

    def get_config_copy(self) -> dict[str, Any]:
        """The values of all options by their names, those of a group as `group.name`."""
        return {name: option.get() for name, option in self._config.items()}

    def load_config(self, config: Mapping[str, Any]) -> None:
        """Set the options to what `get_config_copy` returned."""
        for name, value in config.items():
            self.__setattr__(name, value)

    def patch(self, arg1: str | Mapping[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> ContextDecorator:
        """A context manager and decorator: options have these values inside, and those from before afterwards.

        Give a name and a value, or a dictionary, or keywords.
        """
        if arg1 is None:
            changes: Mapping[str, Any] = kwargs
        elif kwargs:
            raise AssertionError("expected either a name, a dictionary or keywords, not two of them")
        else:
            changes = {arg1: arg2} if isinstance(arg1, str) else arg1
        if not isinstance(changes, Mapping):
            raise AssertionError(f"expected a dictionary of options, got {type(changes)}")
        return _Patch(self, dict(changes))


class _Patch(ContextDecorator):
    def __init__(self, module: ConfigModule, changes: dict[str, Any]) -> None:
        self._module, self._changes = module, changes
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append({name: getattr(self._module, name) for name in self._changes})
        self._module.load_config(self._changes)

    def __exit__(self, *exc: object) -> None:
        self._module.load_config(self._before.pop())


class SubConfigProxy:
    """A group of options: `config.load.mmap` is the option `load.mmap` of `config`."""

    def __init__(self, config: Any, prefix: str) -> None:
        super().__setattr__("_config", config)
        super().__setattr__("_prefix", prefix)

    def __setattr__(self, name: str, value: object) -> None:
        self._config.__setattr__(self._prefix + name, value)

    def __getattr__(self, name: str) -> Any:
        return self._config.__getattr__(self._prefix + name)

    def __delattr__(self, name: str) -> None:
        self._config.__delattr__(self._prefix + name)


def install_config_module(module: ModuleType) -> None:
    """Make options of the public names of `module`, groups of options of the classes that it defines."""
    options: dict[str, ContextVar[Any]] = {}
    groups: list[str] = []
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            groups.append(name)
            for inner, default in vars(value).items():
                if not inner.startswith("_"):
                    options[f"{name}.{inner}"] = ContextVar(f"{name}.{inner}", default=default)
        elif not name.startswith("_") and isinstance(value, bool | int | float | str | None):
            options[name] = ContextVar(name, default=value)
            delattr(module, name)
    module.__class__ = ConfigModule
    proxies = {name: SubConfigProxy(module, f"{name}.") for name in groups}
    module.__dict__.update(proxies, _config=options)
