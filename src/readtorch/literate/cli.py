"""The command line: `readtorch COMMAND`, or `python -m readtorch.literate COMMAND`.

A command's module is imported when the command is called, never before: `readtorch tangle` must not pay for the weaver.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import SimpleNamespace

COMMANDS: dict[str, tuple[str, str]] = {
    "tangle": (
        "readtorch.literate.tangle_command",
        "bring src/readtorch in line with the chapters (--check: only compare)",
    ),
    "sync": ("readtorch.literate.sync", "bring edits made in src/readtorch back into the chapters"),
    "coverage": ("readtorch.literate.coverage", "count the package's lines by chapter; show that none is hidden"),
    "run": ("readtorch.literate.execute", "run the chapters and their claims, listing every error with chapter:line"),
    "record": ("readtorch.literate.record", "record the book on a GPU, or bring a recording in (--import)"),
    "claims": ("readtorch.literate.evidence", "check the book's claims on readtorch and on the installed PyTorch"),
    "trace": ("readtorch.literate.trace.commands", "view, export or record an execution"),
    "upstream": ("readtorch.literate.upstream", "check, find or regenerate the references to PyTorch's source"),
    "show": ("readtorch.literate.show", "print the book's source of a name beside the installed PyTorch's"),
    "lab": ("readtorch.literate.lab", "open the chapters in JupyterLab"),
    "read": ("readtorch.literate.serve", "weave the book, running its chapters, and serve it on this machine"),
}
"""Name → (module, one-line help). The module has `add_arguments(parser)` and `run(args) -> int`; `module:prefix` stands for

`prefix_add_arguments` and `prefix_run`. `KNOWN`, where there is one, holds arguments that need no parser, with what it would make of
them: importing and building one takes 12 ms, an eighth of `readtorch tangle --check`.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] in ("-V", "--version"):
        from readtorch.literate._version import __version__

        print(f"readtorch {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(unknown(name), file=sys.stderr)
        return 2
    return call(name, rest)


def call(name: str, arguments: list[str]) -> int:
    from readtorch.literate.errors import LiterateError

    module_name = COMMANDS[name][0]
    module_name, _, prefix = module_name.partition(":")
    prefix = f"{prefix}_" if prefix else ""
    try:
        module = import_module(module_name)
        known = getattr(module, f"{prefix}KNOWN", {}).get(tuple(arguments))
        options = parsed(name, arguments) if known is None else SimpleNamespace(**known)
        return int(getattr(module, f"{prefix}run")(options))
    except LiterateError as error:
        print(error, file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        from readtorch.literate.extras import way_out

        missing = (error.name or "").partition(".")[0]
        if not way_out(missing):
            raise
        print(f"readtorch {name}: not installed: {missing}\n    {way_out(missing)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `readtorch … | head`
        sys.stderr.close()
        return 1


def parsed(name: str, arguments: list[str]) -> object:
    """The arguments of command `name` as its `run` takes them."""
    import argparse

    module_name, summary = COMMANDS[name]
    module_name, _, prefix = module_name.partition(":")
    parser = argparse.ArgumentParser(prog=f"readtorch {name}", description=summary[0].upper() + summary[1:] + ".")
    getattr(import_module(module_name), f"{prefix}_add_arguments" if prefix else "add_arguments")(parser)
    return parser.parse_args(arguments)


def overview() -> str:
    """What one can do."""
    from readtorch.literate._version import __version__

    width = max(map(len, COMMANDS))
    lines = [
        f"readtorch {__version__}: PyTorch's source, annotated; a book, its notebooks and its package.",
        "",
        "usage: readtorch COMMAND [options]",
        "",
        *(f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()),
        "",
        "`readtorch COMMAND --help` tells more about one.",
    ]
    return "\n".join(lines)


def unknown(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean `readtorch {close[0]}`?" if close else f"there are: {', '.join(COMMANDS)}"
    return f"readtorch: no command {name!r}; {hint}"
