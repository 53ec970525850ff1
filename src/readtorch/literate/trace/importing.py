"""Runs in the process whose imports are recorded, before anything else does: `imports.py` hands this file to `python -c`.

It must bring in nothing that its target could be timed for, so it uses what every interpreter has loaded by then. Each event
is one line, written at once, so that a process that dies in the middle still leaves what happened up to there.
"""

import os
import sys
from _thread import get_ident
from time import perf_counter_ns as clock

FUNCTION = 0x01
"""CO_OPTIMIZED: set on the code of functions, not on that of modules and class bodies."""


def main(target: str, touch: tuple[str, ...], path: str) -> None:
    """Import `target`, then read the attributes `touch` of it, and write to the file `path` what was imported on the way."""
    here = sys._getframe().f_code.co_filename
    before = set(sys.modules)
    bootstrap = sys.modules["_frozen_importlib"]
    find_and_load = bootstrap._find_and_load
    process = os.getpid()
    descriptor, file = _opened(path)
    start = clock()

    def tell(*event: object) -> None:
        nonlocal descriptor, file
        if os.getpid() != process:  # a child that the target forked
            return
        try:
            ours = os.path.samestat(os.fstat(descriptor), file)
        except OSError:
            ours = False
        if not ours:  # the target closes whatever it does not know, and the number may be another file's by now
            descriptor, file = _opened(path)
        os.write(descriptor, (repr(event) + "\n").encode("utf-8", "backslashreplace"))

    def asker() -> str:
        """The function that a running import was asked by; "" where the statement stands in a module's body."""
        frame = sys._getframe(1).f_back
        while frame is not None and (
            frame.f_code.co_filename == here
            or frame.f_code.co_filename.startswith("<frozen importlib")
            or frame.f_globals.get("__name__") == "importlib"
        ):
            frame = frame.f_back
        if frame is None or not frame.f_code.co_flags & FUNCTION:
            return ""
        return "{}.{}".format(frame.f_globals.get("__name__", "?"), frame.f_code.co_name)

    def recorded(name: str, import_: object) -> object:
        if name in sys.modules:
            return find_and_load(name, import_)
        tell("begin", get_ident(), (clock() - start) // 1000, name, asker())
        failure = ""
        try:
            return find_and_load(name, import_)
        except BaseException as error:
            failure = describe(error)
            raise
        finally:
            tell("end", get_ident(), (clock() - start) // 1000, failure)

    def describe(error: BaseException) -> str:
        try:
            text = str(error).splitlines()
        except BaseException as another:
            text = [f"(its message raises {type(another).__name__})"]
        return type(error).__name__ + (": " + text[0] if text else "")

    def reach(dotted: str) -> None:
        tell("begin", get_ident(), (clock() - start) // 1000, "." + dotted, "")
        failure = ""
        try:
            found: object = sys.modules[target]
            for name in dotted.split("."):
                found = getattr(found, name)
        except BaseException as error:
            failure = describe(error)
        tell("end", get_ident(), (clock() - start) // 1000, failure)

    sys.setrecursionlimit(sys.getrecursionlimit() * 5 // 4)  # `recorded` adds a frame to each import on the way
    tell("before", len(before), sys.version.split()[0], sys.platform)
    bootstrap._find_and_load = recorded  # type: ignore[attr-defined]  # looked up by the interpreter at each import
    parts = target.split(".")
    failure = ""
    for length in range(1, len(parts) + 1):
        try:
            __import__(".".join(parts[:length]))
        except BaseException as error:
            failure = describe(error)
            break
    for name in touch if not failure else ():
        reach(name)
    bootstrap._find_and_load = find_and_load  # type: ignore[attr-defined]  # the same attribute, put back
    tell("done", (clock() - start) // 1000, failure)
    for name in [name for name in sys.modules if name not in before]:
        tell("module", name, *_facts(sys.modules[name]))
    tell("version", str(getattr(sys.modules.get(parts[0]), "__version__", "")))


def _opened(path: str) -> tuple[int, os.stat_result]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    return descriptor, os.fstat(descriptor)


def _facts(module: object) -> tuple[str, list[str], bool]:
    """Kind of loader, folders of a package, and whether attributes are found by a `__getattr__` of its own."""
    try:
        held = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return "other", [], False
    spec = held.get("__spec__")
    loader = getattr(spec, "loader", None)
    name = loader.__name__ if isinstance(loader, type) else type(loader).__name__
    path = held.get("__path__")
    try:
        folders = [str(folder) for folder in path] if path is not None else []
    except (
        KeyError
    ):  # the path of a namespace package depends on that of its package, which may have failed and be gone
        folders = []
    lazy = "__getattr__" in held or type(module).__name__ == "_LazyModule"
    return name, folders, lazy
