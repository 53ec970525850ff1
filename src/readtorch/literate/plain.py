"""Runs the cells of one part in this process, with the standard library alone.

`Runner` does what a notebook does when it is run from top to bottom, directive by directive; how values are shown is the
business of a `Display`. `PlainDisplay`, here, needs nothing but Python, so that a bare GPU machine can record a chapter;
`shell.IPythonDisplay` is IPython's. Both give the same outputs (a test runs every part through both).
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import linecache
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from inspect import CO_COROUTINE
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from readtorch.literate.asserts import explain_asserts
from readtorch.literate.chapter import Cell, Part
from readtorch.literate.grammar import TraceSpec
from readtorch.literate.outputs import Capture, Display, Normaliser, Output, Outputs
from readtorch.literate.pretty import pretty
from readtorch.literate.trace_places import unresolved

SEED = 0
"""What every generator starts from: a part, a claim."""


@dataclass
class CellRun:
    """What became of one cell. `skipped` says why it was not run; `fault` what an author must mend, at chapter line `line`."""

    outputs: list[Output] = field(default_factory=list)
    seconds: float = 0.0
    skipped: str = ""
    fault: str = ""
    line: int = 0
    missing: str = ""
    """The name a NameError was about: a later cell fails for it because an earlier one did."""


class PlainDisplay:
    """The display hook without IPython: `pretty` for text, the object's own `_repr_*_` methods for the rest."""

    def __init__(self) -> None:
        self._outputs: Outputs | None = None

    def attach(self, outputs: Outputs) -> None:
        self._outputs = outputs
        builtins.display = self.display  # type: ignore[attr-defined]  # a name that notebooks have

    def bundle(self, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        whole = _call_repr(value, "_repr_mimebundle_", include=None, exclude=None)
        if isinstance(whole, tuple):
            data.update(whole[0])
            metadata.update(whole[1])
        elif isinstance(whole, Mapping):
            data.update(whole)
        for kind, method in _REPRS.items():
            if kind not in data:
                shown = _call_repr(value, method)
                if isinstance(shown, tuple):
                    shown, metadata[kind] = shown
                if shown is not None:
                    data[kind] = _base64(shown) if isinstance(shown, bytes) else shown
        figures = sys.modules.get("readtorch.literate.figures")
        if figures is not None and (figure := figures.png_bundle(value)):
            data.update(figure[0])
            metadata.update(figure[1])
        data.setdefault("text/plain", pretty(value))
        return dict(sorted(data.items())), metadata

    def display(self, *values: Any, raw: bool = False, display_id: Any = None, **options: Any) -> Any:
        """IPython's `display` as far as a chapter may use it."""
        assert self._outputs is not None
        handle = _Handle(self, display_id) if display_id is not None and display_id is not False else None
        for value in values:
            data, metadata = (value, options.get("metadata") or {}) if raw else self.bundle(value)
            self._outputs.display(dict(data), metadata, display_id=handle.display_id if handle else None)
        return handle


class _Handle:
    def __init__(self, display: PlainDisplay, display_id: Any) -> None:
        self._display = display
        self.display_id = display_id if isinstance(display_id, str) else f"display-{id(self):x}"

    def update(self, value: Any) -> None:
        assert self._display._outputs is not None
        data, metadata = self._display.bundle(value)
        self._display._outputs.update(data, metadata, self.display_id)


_REPRS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}


def _call_repr(value: Any, method: str, **arguments: Any) -> Any:
    """A display method's answer; None where there is none. Looked up on the class, as `__getattr__` may answer anything."""
    if isinstance(value, type) or not callable(getattr(type(value), method, None)):
        return None
    return getattr(value, method)(**arguments)


def _base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode()


class Runner:
    """The cells of `part`, run in order in one namespace, which is `__main__`'s while it runs.

    `chapters` are those present: a cell that `needs` another is skipped. `device` is "cpu" or "cuda": `gpu` cells are skipped
    on the first. A cell's code goes by the file name `Cell In[n]`, n as JupyterLab counts, with the lines of the cell, so that
    outputs do not change when prose above them does.
    """

    def __init__(
        self,
        part: Part,
        display: Display,
        *,
        root: Path,
        chapters: tuple[str, ...],
        device: str = "cpu",
        default_device: str = "",
        main: ModuleType | None = None,
    ) -> None:
        self.part = part
        self.display = display
        self.device = device
        self.default_device = default_device
        self.chapters = chapters
        self.main = main or ModuleType("__main__")
        self.namespace: dict[str, Any] = self.main.__dict__
        self.numbers = {cell.index: n for n, cell in enumerate(part.code_cells, 1)}
        self._normalise = Normaliser(root)
        self._stubs: dict[str, Cell] = {}
        self._capture = Capture()
        self._shown_line = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, on_cell: Callable[[Cell], None] = lambda cell: None) -> Iterator[tuple[Cell, CellRun]]:
        """Run all code cells; yields each with what became of it."""
        sys.modules["__main__"] = self.main
        self.namespace.setdefault("__builtins__", builtins)
        seed_everything()
        if self.default_device:
            import_module("readtorch").set_default_device(self.default_device)
        with self._capture:
            for cell in self.part.code_cells:
                on_cell(cell)
                yield cell, self.run_cell(cell)
        if self._loop is not None:
            self._loop.close()

    def run_cell(self, cell: Cell) -> CellRun:
        skipped = self.reason_to_skip(cell)
        if skipped or not cell.tree.body:
            return CellRun(skipped=skipped)
        outputs = Outputs(self._normalise, self._capture.drain)
        self._capture.outputs = outputs
        self.display.attach(outputs)
        run = CellRun()
        begin = time.perf_counter()
        self._shown_line = 0
        try:
            self._dispatch(cell, outputs)
            if "raises-exception" in cell.tags:
                run.fault, run.line = "is tagged raises-exception and raised nothing", cell.first_line
        except BaseException as error:
            self._record(cell, error, outputs, run)
        figures = sys.modules.get("readtorch.literate.figures")
        if figures is not None:
            for data, metadata in figures.take_open():
                outputs.display(data, metadata)
        self._capture.drain()
        run.seconds = time.perf_counter() - begin
        run.outputs = outputs.finished()
        return run

    def reason_to_skip(self, cell: Cell) -> str:
        """Why this cell is not run here, "" if it is."""
        if cell.has("gpu") and self.device != "cuda":
            return "needs a CUDA device"
        for chapter in cell.needs:
            if chapter not in self.chapters:
                return f"needs chapter {chapter}"
        return ""

    def _dispatch(self, cell: Cell, outputs: Outputs) -> None:
        if cell.has("claim"):
            return
        if cell.has("exercise"):
            self._stubs[cell.get("exercise") or ""] = cell
            return
        if cell.into:
            self._bring_names(cell)
            return
        if cell.has("check"):
            self._check_fails_on_stub(cell)
        if cell.trace is None:
            self.show(*self.compute(cell, explained=cell.has("check") or cell.has("test")), outputs)
        else:
            with self._recorder(cell.trace) as recording:  # how the value is shown does not belong to it
                shown = self.compute(cell)
            self.show(*shown, outputs)
            data, metadata = self.display.bundle(recording)
            data.pop("text/html", None)  # the weaver makes its own from the document; two copies of it would be kept
            outputs.display(data, metadata)
        if cell.has("test"):
            for name in cell.defines:
                if name.startswith("test_") and callable(self.namespace.get(name)):
                    self.namespace[name]()

    def compute(self, cell: Cell, *, explained: bool = False) -> tuple[Any, int]:
        """Run the cell's code; returns the value of its last expression and that one's line (None and 0 if there is none)."""
        file = self._named_source(cell)
        tree = ast.parse("\n" * (cell.code_line - cell.first_line) + cell.code)
        if explained:
            tree = explain_asserts(tree)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            self._evaluate(compile(tree, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if not isinstance(last, ast.Expr):
            return None, 0
        value = self._evaluate(compile(ast.Expression(last.value), file, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        return None if cell.code.rstrip().endswith(";") else value, last.lineno

    def show(self, value: Any, line: int, outputs: Outputs) -> None:
        if value is not None:
            self.namespace["_"] = value
            self._shown_line = line
            outputs.result(*self.display.bundle(value))

    def file_name(self, cell: Cell) -> str:
        return f"Cell In[{self.numbers[cell.index]}]"

    def _named_source(self, cell: Cell) -> str:
        """The cell's file name, under which tracebacks and `inspect.getsource` find its text."""
        file = self.file_name(cell)
        linecache.cache[file] = (len(cell.source), None, [line + "\n" for line in cell.source.split("\n")], file)
        return file

    def _evaluate(self, code: CodeType) -> Any:
        value = eval(code, self.namespace)
        if code.co_flags & CO_COROUTINE:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
            return self._loop.run_until_complete(value)
        return value

    def _bring_names(self, cell: Cell) -> None:
        """A tangled cell is in the package already: only its names come into the notebook."""
        assert cell.into is not None
        if not cell.into.endswith(".py"):
            return
        if cell.has("imports"):
            tree = ast.parse("\n" * (cell.code_line - cell.first_line) + cell.code)
            exec(compile(tree, self._named_source(cell), "exec", dont_inherit=True), self.namespace)
            return
        path = cell.into.removesuffix(".py").removesuffix("__init__").rstrip("/")
        module = import_module(".".join(["readtorch", *path.split("/")]) if path else "readtorch")
        for name in (cell.reopens,) if cell.reopens else cell.defines:
            if hasattr(module, name):
                self.namespace[name] = getattr(module, name)

    def _check_fails_on_stub(self, cell: Cell) -> None:
        """A check that accepts the stub checks nothing. Tried in a child, so that this namespace keeps the solution's state."""
        stub = self._stubs.get(cell.get("check") or "")
        if stub is None:
            raise CheckError(f"there is no exercise {cell.get('check')!r} above this check")
        child = os.fork()
        if child == 0:
            try:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
                self.compute(stub)
                self.compute(cell)
            except BaseException:
                os._exit(1)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            raise CheckError(f"the check of {cell.get('check')!r} passes on the stub of the exercise")

    def _recorder(self, spec: TraceSpec) -> AbstractContextManager[Any]:
        from readtorch.literate.trace import trace

        return trace(
            *spec.packages,
            layers=spec.layers or None,
            values=spec.values,
            steps=spec.steps,
            title=spec.title,
            namespace=self.namespace,
            locate=self._locate,
        )

    def _locate(self, file: str, line: int) -> tuple[str, int, str] | None:
        for index, number in self.numbers.items():
            if self.file_name(self.part.cells[index]) == file:
                return unresolved(self.part.path, number, line)
        return None

    def _record(self, cell: Cell, error: BaseException, outputs: Outputs, run: CellRun) -> None:
        """Turn an exception into an error output and, unless it was announced, into a fault."""
        shown = _from_first_cell(error.__traceback__)
        lines = _formatted(error, shown)
        if not isinstance(error, CheckError):
            name = type(error).__name__
            outputs.error(name, str(error), [line.rstrip("\n") for line in lines])
        if "raises-exception" in cell.tags and isinstance(error, Exception) and not isinstance(error, CheckError):
            return
        is_check = isinstance(error, CheckError)
        run.line = cell.directive_line("check") if is_check else self.chapter_line(cell, error)
        run.missing = error.name or "" if isinstance(error, NameError) else ""
        if isinstance(error, CheckError):
            run.fault = str(error)
        else:
            run.fault = self._normalise.text(self.chapter_places(f"{_headline(error)}\n{_indented(lines)}"))

    def chapter_line(self, cell: Cell, error: BaseException) -> int:
        """The line of `cell` at which the error surfaced: a syntax error's own, else that of its outermost frame in the cell."""
        if self._shown_line:  # it came up while that line's value was shown
            return cell.first_line + self._shown_line - 1
        file = self.file_name(cell)
        step = error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == file:
                return cell.first_line + step.tb_lineno - 1
            step = step.tb_next
        if isinstance(error, SyntaxError) and error.filename == file:
            return cell.first_line + (error.lineno or 1) - 1
        return cell.first_line

    def chapter_places(self, text: str) -> str:
        """`File "Cell In[3]", line 2` as `File "chapters/….py", line 57`."""
        for cell in self.part.code_cells:
            head = f'File "{self.file_name(cell)}", line '
            if head in text:
                first, *rest = text.split(head)
                moved = []
                for piece in rest:
                    digits = piece[: len(piece) - len(piece.lstrip("0123456789"))]
                    line = cell.first_line + int(digits) - 1
                    moved.append(f'File "{self.part.path}", line {line}{piece[len(digits) :]}')
                text = "".join([first, *moved])
        return text


class CheckError(Exception):
    """A fault of the book, not of its code."""


def _from_first_cell(step: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the runner."""
    while step is not None and step.tb_frame.f_code.co_filename == __file__:
        step = step.tb_next
    return step


def _formatted(error: BaseException, step: TracebackType | None) -> list[str]:
    """The traceback without the frames of Python's import machinery, of IPython and of the book's tools."""
    whole = traceback.TracebackException(type(error), error, step)
    stack: list[traceback.TracebackException] = [whole]
    while stack:
        one = stack.pop()
        kept = [f for f in one.stack if not f.filename.startswith(_UNSEEN) and "/IPython/" not in f.filename]
        one.stack = traceback.StackSummary.from_list(kept)
        stack += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
    return list(whole.format())


_UNSEEN = ("<frozen ", importlib.__file__, str(Path(__file__).parent) + os.sep)


def _headline(error: BaseException) -> str:
    lines = traceback.format_exception_only(type(error), error)
    return (lines[-1] if isinstance(error, SyntaxError) else lines[0]).strip().split("\n")[0]


def _indented(lines: list[str]) -> str:
    return "\n".join("    " + line for line in "".join(lines).rstrip().split("\n"))


def seed_everything() -> None:
    """Start every generator that is loaded from `SEED`."""
    random.seed(SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(SEED)
    for name in ("readtorch", "torch"):
        library = sys.modules.get(name)
        if library is not None and hasattr(library, "manual_seed"):
            library.manual_seed(SEED)
