"""The live package: a chapter's cells, edited in a notebook, change the package that is loaded (docs/reference/live.md).

In a notebook `live()` is called once, by the first cell of every chapter. `diff()` shows what was edited, `reset()` takes it
back. Outside IPython none of them does anything.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["diff", "live", "reset"]

_TELL_ONCE = (
    "This cell says `into:` but ran in the notebook only: the package has not changed.\n"
    "Run `from readtorch.literate import live; live()` first (every chapter's first cell does)."
)


def live() -> None:
    """From here on, running an edited tangled cell changes the loaded package. Does nothing outside IPython, or twice.

    Nor where the executor runs the book (literate/execute.py), which brings the names of tangled cells in by itself.
    """
    shell = current_shell()
    if shell is None or "READTORCH_EXECUTOR" in os.environ:
        return
    from readtorch.literate.notebook import shell as hooks
    from readtorch.literate.notebook.session import Session, make_snapshot

    if hooks.HOOK is not None and hooks.HOOK.shell is shell:
        return
    from readtorch.literate.tracebacks import install_in_ipython

    _stop_telling(shell)
    _enter_chapters()
    snapshot = make_snapshot()
    hooks.HOOK = hooks.Hook(shell, Session(snapshot, shell.user_ns))
    hooks.HOOK.install()
    install_in_ipython(shell)
    for problem in snapshot.problems:
        print(f"readtorch: {problem}", file=sys.stderr)


def _enter_chapters() -> None:
    """Make `chapters/` the working directory, as it is when the site is built: JupyterLab starts in the part's own folder."""
    from readtorch.literate.chapter import ORDER

    here = Path.cwd()
    for folder in (here, *here.parents):
        if folder.name == "chapters" and any(entry.stem in ORDER for entry in folder.iterdir()):
            os.chdir(folder)
            return


def reset(symbol: object = None) -> None:
    """Restore the book's text: of the whole package, or of what defines `symbol` (a name, a function or a class)."""
    session = _session()
    print(session.reset(symbol) if session else "live() has not been called here: there is nothing to reset.")


def diff(symbol: object = None) -> Any:
    """What differs from the book, as a diff that a notebook shows in colour."""
    from readtorch.literate.notebook.report import EditDiff

    session = _session()
    return session.diff(symbol) if session else EditDiff((), ())


def tell_once_without_live() -> None:
    """Have a reader who runs a tangled cell without `live()` told once. Called when the tools are imported in a notebook."""
    shell = current_shell()
    if shell is None or getattr(shell, "_readtorch_notice", None) is not None:
        return

    def notice(result: Any) -> None:
        from readtorch.literate.notebook.shell import is_tangled

        if is_tangled(getattr(result.info, "raw_cell", None) or ""):
            print(_TELL_ONCE, file=sys.stderr)
            _stop_telling(shell)

    shell._readtorch_notice = notice
    shell.events.register("post_run_cell", notice)


def _stop_telling(shell: Any) -> None:
    notice = getattr(shell, "_readtorch_notice", None)
    if notice:
        shell.events.unregister("post_run_cell", notice)
    shell._readtorch_notice = False


def current_shell() -> Any:
    """The running IPython shell, None outside one. Never imports IPython."""
    module = sys.modules.get("IPython")
    get = getattr(module, "get_ipython", None)
    return get() if get is not None else None


def _session() -> Any:
    module = sys.modules.get("readtorch.literate.notebook.shell")
    hook = getattr(module, "HOOK", None)
    return hook.session if hook is not None else None
