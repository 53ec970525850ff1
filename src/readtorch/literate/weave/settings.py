"""Have the settings of the site changed between two builds of one `mkdocs serve`? All that is kept between them rests on that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from markdown import Extension
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import BasePlugin
from mkdocs.theme import Theme

_PLUGINS = {"search", "autorefs", "mkdocstrings", "readtorch"}
"""Plugins whose work depends on their settings and the pages alone."""

_EXTENDING = {"mkdocs_autorefs", "mkdocstrings"}
"""Packages among them that add to Markdown by objects: the settings of these are the plugin's."""


def settings(config: MkDocsConfig) -> Any:
    """Two that are equal lead to equal pages from equal text. The navigation is left out: it is compared with the pages.

    What cannot be compared (a theme of one's own, hooks, plugins that this module does not know) is equal to nothing, so that
    nothing of such a site is kept.
    """
    return tuple((name, comparable(value)) for name, value in config.items() if name != "nav")


def comparable(value: Any) -> Any:
    """`value` in a form that is equal to another exactly if they mean the same; of unknown kinds, what is equal to nothing."""
    if value is None or isinstance(value, str | bytes | int | float | PurePath):
        return type(value).__name__, value
    if isinstance(value, Theme):
        if value.custom_dir is not None:
            return object()
        # a locale of Babel's has an order and equality of its own
        items = {name: str(part) if name == "locale" else part for name, part in value.items()}
        return value.name, tuple(value.dirs), comparable(items)
    if isinstance(value, BasePlugin):
        return type(value).__qualname__, comparable(value.config)
    if isinstance(value, Extension) and type(value).__module__.partition(".")[0] in _EXTENDING:
        return type(value).__qualname__
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple):
        return tuple(comparable(item) for item in value)
    if isinstance(value, set | frozenset):
        return comparable(sorted(value, key=repr))
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__module__, value.__qualname__
    return object()


def _mapping(value: Mapping[Any, Any]) -> Any:
    if any(isinstance(item, BasePlugin) for item in value.values()):
        names = {name.rpartition("/")[2] for name in value}
        if not names <= _PLUGINS:
            return object()
    return tuple((name, comparable(item)) for name, item in value.items())
