"""`readtorch trace view|export|run|import`."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path
from types import ModuleType

from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.trace import import_command
from readtorch.literate.trace.document import Trace
from readtorch.literate.trace.recording import DEFAULT, LAYERS
from readtorch.literate.trace.target import check_target, free_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="view|export|run|import")
    view = actions.add_parser("view", help="show a trace, or two side by side, in the browser")
    view.add_argument("file", type=Path, help="a trace or a recorded import, saved as .json or .json.gz")
    view.add_argument("other", type=Path, nargs="?", help="a second trace to compare with")
    view.add_argument("-o", "--output", type=Path, help="write a self-contained HTML page instead of opening one")
    view.add_argument("--no-browser", action="store_true", help="serve the page and print its address, open nothing")
    view.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    export = actions.add_parser("export", help="write a file for Perfetto or chrome://tracing")
    export.add_argument("file", type=Path)
    export.add_argument("-o", "--output", type=Path, required=True)
    run = actions.add_parser(
        "run", help="run a script and record it", usage="%(prog)s [options] script.py [arguments …]"
    )
    run.add_argument("-o", "--output", type=Path, help="(default: trace.json, or trace-2.json … where that is taken)")
    run.add_argument("--packages", default="", help="comma-separated, named as upstream names them (default: torch)")
    run.add_argument("--layers", default=",".join(DEFAULT), help=f"of {','.join(LAYERS)} (default: %(default)s)")
    run.add_argument("--values", choices=("no", "summary"), default="no")
    run.add_argument("--no-mask", action="store_true", help="show text under names such as password and api_key too")
    run.add_argument("--steps", type=int, help="end the recording after so many steps")
    run.add_argument("--title", default="")
    run.add_argument("--as-torch", action="store_true", help="let the script's `import torch` mean readtorch")
    run.add_argument("script", type=Path)
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    import_command.add_arguments(
        actions.add_parser("import", help="import a package in a fresh process and tell what that did")
    )


def run(args: argparse.Namespace) -> int:
    """Do what was asked; LiterateError where a file is no trace."""
    return {"view": _view, "export": _export, "run": _run, "import": import_command.run}[args.action](args)


def _load(path: Path) -> Trace:
    if not path.is_file():
        raise LiterateError(Problem(str(path), 0, "no such file", "record one with `readtorch trace run script.py`"))
    return Trace.load(path)


def _view(args: argparse.Namespace) -> int:
    if args.output is not None:
        check_target(args.output)
    paths = [path for path in (args.file, args.other) if path is not None]
    name = args.file.name.split(".")[0]
    if import_command.is_import(args.file):
        page = import_command.page(paths, name)
    else:
        from readtorch.literate.trace.page import page_html

        page = page_html(*(_load(path).document for path in paths), name=name)
    if args.output is None:
        from readtorch.literate.trace.serve import serve

        return serve(page, port=args.port, browser=not args.no_browser)
    args.output.write_text(page, encoding="utf-8")
    print(f"wrote {args.output}")
    return 0


def _export(args: argparse.Namespace) -> int:
    check_target(args.output)
    _load(args.file).export_chrome_trace(args.output)
    print(f"wrote {args.output}; open it in Perfetto or chrome://tracing")
    return 0


def _load_library() -> None:
    """Import what scripts use first; the library loads its parts when they are named."""
    import readtorch

    for name in ("zeros", "nn", "optim"):
        getattr(readtorch, name)
    _ = readtorch.nn.functional


def _run(args: argparse.Namespace) -> int:
    from readtorch.literate.trace import trace

    if not args.script.is_file():
        raise LiterateError(Problem(str(args.script), 0, "no such script"))
    output = args.output or free_name(Path("trace.json"))
    shown = str(output)
    check_target(output)  # the script may take hours, and what it leaves must not be lost for a name
    packages = tuple(filter(None, args.packages.split(",")))
    layers = tuple(filter(None, args.layers.split(",")))
    title = args.title or args.script.name
    sys.argv = [str(args.script), *args.arguments]
    sys.path.insert(0, str(args.script.resolve().parent))
    try:
        recording = trace(
            *packages,
            layers=layers,
            values=args.values,
            steps=args.steps,
            title=title,
            script=args.script,
            mask=not args.no_mask,
        )
    except ValueError as error:
        raise LiterateError(Problem("readtorch trace run", 0, str(error))) from None
    _load_library()  # else loading it, tens of thousands of lines, would be the recording
    if args.as_torch:
        import readtorch.as_torch

        readtorch.as_torch.install()
    script = args.script.resolve()
    output = output.absolute()  # the script may go elsewhere
    with recording as recorded:
        status, raised = _run_script(script)
    if raised is not None:
        _print_error(raised, script)
    recorded.save(output)
    print(f"{recorded!r}\nwrote {shown}; `readtorch trace view {shown}` shows it", file=sys.stderr)
    return status


def _run_script(script: Path) -> tuple[int, BaseException | None]:
    """Run it as `python script` would: exit status, and what it raised. However it ends, what was recorded is kept."""
    main = ModuleType("__main__")
    vars(main).update(__file__=str(script), __cached__=None, __builtins__=__builtins__)
    before = sys.modules["__main__"]
    try:
        code = compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
        sys.modules["__main__"] = main  # not by runpy, which would put a full path into sys.argv
        exec(code, vars(main))
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0, None
        print(end.code, file=sys.stderr)
        return 1, None
    except BaseException as error:
        return 130 if isinstance(error, KeyboardInterrupt) else 1, error
    finally:
        sys.modules["__main__"] = before
    return 0, None


def _print_error(error: BaseException, script: Path) -> None:
    """The traceback as `python script` prints it: from the script on."""
    steps = error.__traceback__
    while steps is not None and steps.tb_frame.f_code.co_filename != str(script):
        steps = steps.tb_next
    traceback.print_exception(error.with_traceback(steps))  # without any, the script does not even compile
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
        hint = "`readtorch trace run --as-torch SCRIPT` lets `import torch` mean readtorch, as `python -m readtorch.as_torch` does"
        print(hint, file=sys.stderr)
