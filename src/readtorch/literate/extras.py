"""What a command needs beyond NumPy, asked for before it begins: one message instead of a failed import half-way."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from readtorch.literate.errors import LiterateError, Problem

BOOK = (
    "IPython",
    "ipykernel",
    "jsonschema",
    "jupyter_server",
    "jupyterlab",
    "jupyterlab_jupytext",
    "jupytext",
    "markdown",
    "material",
    "matplotlib",
    "mkdocs",
    "mkdocstrings",
    "nbformat",
    "pygments",
    "pymdownx",
    "rich",
    "ruff",
    "tornado",
    "traitlets",
)
"""Modules that the extra `book` installs, those of its packages' own requirements among them that are imported here."""

WEAVE = ("tornado", "mkdocs", "material", "mkdocstrings", "pymdownx")
NOTEBOOK = ("jupyterlab", "jupytext", "jupyterlab_jupytext", "ipykernel")


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def require(what: str, modules: tuple[str, ...]) -> None:
    """LiterateError, naming all that are missing and how to get them, unless every module can be imported."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise LiterateError(Problem(what, 0, f"not installed: {', '.join(missing)}", way_out(missing[0])))


def way_out(module: str) -> str:
    """How to install a top-level module that a command did not find, "" for one that no extra brings."""
    if module == "numpy":
        return "pip install 'numpy>=2.0'"
    if module not in BOOK:
        return ""
    if (Path(__file__).resolve().parents[3] / "pyproject.toml").is_file():
        return "in the checkout: pip install -e '.[book]'"
    return "pip install 'readtorch[book]'"
