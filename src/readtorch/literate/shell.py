"""The part of the executor that runs in a child: an IPython shell whose namespace is the chapter's.

IPython supplies `get_ipython()`, `display` and its formatters; the cells themselves are run by `plain.Runner`, under file names
that do not change when prose does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from readtorch.literate.chapter import Cell, parse_part
from readtorch.literate.extras import is_installed
from readtorch.literate.outputs import Display, Outputs
from readtorch.literate.plain import PlainDisplay, Runner

Report = Callable[[dict[str, Any]], None]


class IPythonDisplay:
    """IPython's formatters and `display`, sending to the current cell's outputs."""

    def __init__(self) -> None:
        from IPython.core.displaypub import DisplayPublisher
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        target = self

        class Publisher(DisplayPublisher):
            def publish(
                self,
                data: Any,
                metadata: Any = None,
                source: Any = None,
                *,
                transient: Any = None,
                update: Any = False,
                **kwargs: Any,
            ) -> None:
                assert target.outputs is not None
                identifier = (transient or {}).get("display_id")
                if update and identifier:
                    target.outputs.update(_encoded(data), metadata or {}, identifier)
                else:
                    target.outputs.display(_encoded(data), metadata or {}, display_id=identifier)

            def clear_output(self, wait: bool = False) -> None:
                assert target.outputs is not None
                target.outputs.clear(wait)

        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.autoindent = False
        config.InteractiveShell.cache_size = 0
        config.InteractiveShell.colors = "nocolor"
        config.InteractiveShell.separate_in = ""
        InteractiveShell.display_pub_class = Publisher  # type: ignore[assignment]  # a trait, set by its class
        streams = sys.stdout, sys.stderr
        self.shell = InteractiveShell.instance(config=config)
        sys.stdout, sys.stderr = streams
        self.shell.showtraceback = _raise_again  # type: ignore[method-assign]  # replaced in this shell only
        self.outputs: Outputs | None = None
        assert self.shell.display_formatter is not None
        self._formatter = self.shell.display_formatter

    def attach(self, outputs: Outputs) -> None:
        self.outputs = outputs
        figures = sys.modules.get("readtorch.literate.figures")
        png = self._formatter.formatters["image/png"]
        if figures is not None and figures.Figure not in png.type_printers:
            png.for_type(figures.Figure, _figure)

    def bundle(self, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        figures = sys.modules.get("readtorch.literate.figures")
        if figures is not None and (bundle := figures.png_bundle(value)):
            return bundle
        data, metadata = self._formatter.format(value)
        return dict(sorted(_encoded(data).items())), metadata


def _raise_again(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
    """IPython would print the traceback of a `__repr__` that fails, and go on; here it is an error like any other."""
    raise exc_tuple[1] if exc_tuple else sys.exception()  # type: ignore[misc]  # called while one is handled


def _figure(figure: Any) -> Any:
    from readtorch.literate.figures import png_bundle

    bundle = png_bundle(figure)
    return None if bundle is None else (bundle[0]["image/png"], bundle[1]["image/png"])


def _encoded(data: dict[str, Any]) -> dict[str, Any]:
    """The bundle as nbformat wants it: binary data in base64."""
    from base64 import b64encode

    return {kind: b64encode(value).decode() if isinstance(value, bytes) else value for kind, value in data.items()}


def run_part(arguments: dict[str, Any], report: Report) -> dict[str, Any]:
    """Task of a forked child: run one part, report each cell as it begins, return what became of all of them."""
    root = Path(arguments["root"])
    part = parse_part(arguments["text"], name=arguments["name"], path=arguments["path"], file=root / arguments["path"])
    display: Display
    if arguments["ipython"]:
        display = IPythonDisplay()
        main = display.shell.user_module
    else:
        display, main = PlainDisplay(), None
        if not is_installed("matplotlib"):
            from readtorch.literate.no_figures import install

            install()
    runner = Runner(
        part,
        display,
        root=root,
        chapters=tuple(arguments["chapters"]),
        device=arguments["device"],
        default_device=arguments.get("default_device", ""),
        main=main,
    )

    def begin(cell: Cell) -> None:
        report({"cell": cell.index, "line": cell.first_line, "file": runner.file_name(cell)})

    cells = {cell.index: vars(run) for cell, run in runner.run(begin)}
    return {"cells": cells, "modules": loaded_modules()}


def loaded_modules() -> list[str]:
    """Paths, relative to the package, of the tangled modules that are loaded."""
    package = os.path.dirname(os.path.abspath(sys.modules["readtorch"].__file__ or ""))
    found = []
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if (
            file
            and (name == "readtorch" or name.startswith("readtorch."))
            and not name.startswith("readtorch.literate")
        ):
            found.append(os.path.relpath(os.path.abspath(file), package).replace(os.sep, "/"))
    return found
