"""The hook into IPython.

`pre_run_cell` sees the cell's text; an AST transformer puts, in place of a tangled cell, one call that hands the syntax tree to
the session. IPython's own parsing, cell filename and line cache stay in use, and the notebook's namespace is never exchanged.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from typing import Any, cast

from readtorch.literate.notebook.cells import concerns_the_package, read_cell
from readtorch.literate.notebook.session import Session

_TANGLED = re.compile(r"\s*(?:# ?\|[^\n]*\n)*# ?\| *into *:")

_CALL = ast.parse('__import__("sys").modules["readtorch.literate.notebook.shell"].run_pending()').body[0]


def is_tangled(source: str) -> bool:
    """Do the first lines of this cell say `into:`?"""
    return _TANGLED.match(source) is not None


class _Pending:
    """The cell being run: its text from the event, its tree from the transformer."""

    def __init__(self) -> None:
        self.source = ""
        self.cell_id: str | None = None
        self.tree: ast.Module | None = None


class Hook:
    """Stands between one IPython shell and the session."""

    def __init__(self, shell: Any, session: Session) -> None:
        self.shell = shell
        self.session = session
        self._threads = threading.local()

    @property
    def _pending(self) -> list[_Pending]:
        """The cells being run in this thread, the innermost last: a subshell of the kernel runs cells of its own."""
        if not hasattr(self._threads, "cells"):
            self._threads.cells = []
        return cast(list[_Pending], self._threads.cells)

    def install(self) -> None:
        self.shell.events.register("pre_run_cell", self.before)
        self.shell.events.register("post_run_cell", self.after)
        self.shell.ast_transformers.append(self)

    def before(self, info: Any) -> None:
        pending = _Pending()
        pending.source = info.raw_cell or ""
        pending.cell_id = getattr(info, "cell_id", None)
        self._pending.append(pending)

    def after(self, result: Any) -> None:
        if self._pending:
            self._pending.pop()

    def visit(self, tree: ast.Module) -> ast.Module:
        """Called by IPython with the tree of every cell."""
        pending = self._pending[-1] if self._pending else None
        if pending is None or pending.tree is not None or not concerns_the_package(pending.source):
            return tree
        pending.tree = tree
        call = ast.copy_location(ast.Expr(_CALL.value), tree.body[0]) if tree.body else _CALL  # type: ignore[attr-defined]  # an expression statement, parsed above
        return ast.Module([call], [])

    def run(self, filename: str) -> None:
        pending = self._pending[-1]
        assert pending.tree is not None
        cell = read_cell(pending.source, pending.tree, filename, pending.cell_id)
        if cell is not None:
            notice = self.session.run(cell)
            if notice:
                print(notice)


HOOK: Hook | None = None


def run_pending() -> None:
    """What a tangled cell is replaced by. The caller's frame is the cell, whose filename IPython has chosen."""
    assert HOOK is not None
    HOOK.run(sys._getframe(1).f_code.co_filename)
