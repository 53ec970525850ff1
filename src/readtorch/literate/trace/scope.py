"""What a recording covers, and the names its files go by.

Packages are given by upstream's name: `torch.nn` is `readtorch.nn` here and, where the real PyTorch is loaded too, its
`torch.nn` (names, files, lines and times only). The code that opens the recording, a notebook cell or a script, is always
covered. Paths shown are relative to a package or to the book: no path of the machine leaves this module.
"""

from __future__ import annotations

import dis
import importlib.util
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from readtorch.literate.trace.secrets import is_secret

LITERATE = str(Path(__file__).resolve().parents[1]) + os.sep
PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
BOOK = str(Path(__file__).resolve().parents[4]) + os.sep

Locate = Callable[[str, int], "tuple[str, int, str] | None"]
"""(file name, line) of code to (chapter path, chapter line, cell id)."""


_NO_MODULES = ("_tensor", "_C", "c10", "aten", "csrc", "autograd")
"""Where no method belongs to an nn.Module: looking for one there would cost time."""


_MODULE_PY = os.path.join("nn", "modules", "module.py")
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Frames of their own on 3.11 alone: left out, so that a trace looks the same on every Python."""


@dataclass(eq=False, slots=True)
class CodeInfo:
    """One code object that is recorded."""

    index: int
    code: CodeType
    names: tuple[str, ...]
    """The variables worth showing in its frames."""
    values: bool
    method: bool
    """May be a method of an nn.Module."""
    suspends: bool
    """Generator or coroutine: its frames are left and re-entered."""
    dispatches: bool
    """Belongs to nn/modules/module.py, which calls forward and the hooks."""
    forward: bool
    bytecode: bytes = field(repr=False)
    opaque: bool
    """The body of a package's module: an import, of which what happens inside is not shown."""
    plain: bool
    """Its calls need no look at the frame."""
    first: int = 0
    """Its first line; of a cell or script that of its first statement, past directives and comments."""
    stores: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)
    """Line: positions in `names` of the variables that it may bind or unbind; all of them for a line that is missing."""
    watched: bool = False
    """Its events are switched on (sys.monitoring)."""
    upstream: bool = False
    """Of the real PyTorch: its source is not shown."""
    secret: frozenset[int] = frozenset()
    """Positions in `names` of those that are masked."""
    secret_result: bool = False
    """What it returns is masked."""

    @classmethod
    def unknown(cls) -> CodeInfo:
        """An entry that stands for no code."""
        code = compile("", "", "exec")
        return cls(-1, code, (), False, False, False, False, False, b"", False, False)


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder or file whose code is recorded."""

    prefix: str
    upstream: bool
    """The real PyTorch: names, files, lines and times only."""

    @property
    def folder(self) -> bool:
        return self.prefix.endswith(os.sep)


class Scope:
    """Decides by code object; the answer is remembered.

    `namespace` holds the globals of the notebook that is recorded, `script` is the file that is; `locate` maps a cell's file name and line to
    its chapter where the caller knows it.
    """

    def __init__(
        self,
        packages: tuple[str, ...],
        *,
        values: bool,
        namespace: Mapping[str, Any] | None = None,
        script: str | None = None,
        locate: Locate | None = None,
        mask: bool = True,
    ) -> None:
        self._mask = mask
        self.packages = packages or ("torch",)
        self.locate = locate
        self.infos: list[CodeInfo] = []
        self._values = values
        self._namespace = namespace
        self._roots = [root for name in self.packages for root in find_roots(name)]
        self._awaited = [n for n in self.packages if _is_upstream(n) and not any(r.upstream for r in find_roots(n))]
        """Parts of the real PyTorch, should it be imported meanwhile."""
        self.on_wider: Callable[[], None] = lambda: None
        """Called when code that had been refused may be wanted."""
        if script is not None:
            self._roots.append(_Root(script, upstream=False))
        self._dotted = tuple(dotted(name) for name in self.packages)
        self.by_id: dict[int, CodeInfo | None] = {}
        self.dispatching = False
        """Whether code of nn.Module has run: only then can a call be one of a hook."""
        self._refused: list[CodeType] = []
        self._asked_again: list[CodeType] = []
        """Kept as long: a thread may be about to look them up."""
        self._lock = threading.Lock()

    def info(self, code: CodeType, frame: FrameType) -> CodeInfo | None:
        """The entry for `code`, which `frame` runs, or None if it is not recorded."""
        try:
            return self.by_id[id(code)]
        except KeyError:
            pass
        if self._awaited and _upstream_loaded():
            self._widen()
        wanted, upstream = (False, False) if code.co_name in _INLINED else self._wanted(code.co_filename, frame)
        if not wanted:
            self._refused.append(code)  # kept: an id stays taken while its object lives
            self.by_id[id(code)] = None
            return None
        return self.add(code, upstream=upstream)

    def _widen(self) -> None:
        """PyTorch has been imported since: cover it from here on, also what ran during the import."""
        with self._lock:
            names, self._awaited = self._awaited, []
            found = [root for name in names for root in find_roots(name) if root.upstream]
            self._roots += found
            prefixes = tuple(root.prefix for root in found)
            kept = []
            for code in self._refused:
                if code.co_filename.startswith(prefixes) and code.co_name not in _INLINED:
                    self.by_id.pop(id(code), None)
                    self._asked_again.append(code)
                else:
                    kept.append(code)
            self._refused = kept
        self.on_wider()

    def add(self, code: CodeType, *, upstream: bool = False) -> CodeInfo:
        """Record `code` from now on."""
        with self._lock:
            known = self.by_id.get(id(code))
            return self._add(code, upstream) if known is None else known

    def _add(self, code: CodeType, upstream: bool) -> CodeInfo:
        file = code.co_filename
        inside = file.removeprefix(PACKAGE)
        method = bool(code.co_argcount) and code.co_varnames[0] == "self" and not inside.startswith(_NO_MODULES)
        values = self._values and not upstream
        suspends = bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
        info = CodeInfo(
            len(self.infos),
            code,
            _shown_names(code, file.startswith(PACKAGE)),
            values,
            method,
            suspends,
            inside == _MODULE_PY or (upstream and file.endswith(os.sep + _MODULE_PY)),
            code.co_name == "forward",
            code.co_code,
            opaque=code.co_name == "<module>" and any(file.startswith(r.prefix) for r in self._roots if r.folder),
            plain=not (values or method or suspends),
            upstream=upstream,
        )
        info.first = code.co_firstlineno
        if code.co_name == "<module>" and not info.opaque:
            info.first = min((line for _, _, line in code.co_lines() if line), default=info.first)
        if values:
            info.stores = _stores(code, info.names)
            if self._mask:
                info.secret = frozenset(i for i, name in enumerate(info.names) if is_secret(name))
                info.secret_result = is_secret(code.co_name)
        self.dispatching |= info.dispatches
        self.infos.append(info)
        self.by_id[id(code)] = info
        return info

    def known(self, code: CodeType) -> CodeInfo | None:
        """The entry of code met before."""
        return self.by_id.get(id(code))

    def _wanted(self, file: str, frame: FrameType) -> tuple[bool, bool]:
        """(recorded, with names, lines and times only)."""
        if file.startswith((LITERATE, "<frozen")):
            return False, False
        for root in self._roots:
            if file.startswith(root.prefix):
                return True, root.upstream
        if os.path.isabs(file) and file.startswith((PACKAGE, *_installed())):
            return False, False
        if frame.f_globals is self._namespace:
            return True, False
        # Code that lives in a recorded package under another file name: a notebook cell edited there.
        name = frame.f_globals.get("__name__")
        inside = type(name) is str and any(name == d or name.startswith(d + ".") for d in self._dotted)
        return inside and is_cell(file), False


def _shown_names(code: CodeType, package: bool) -> tuple[str, ...]:
    """Its variables. What a package's function merely finds around it is its configuration, and the same at every call."""
    if code.co_flags & inspect.CO_OPTIMIZED:
        names = (*code.co_varnames, *code.co_cellvars, *(() if package else code.co_freevars))
    else:
        names = code.co_names
    return tuple(n for n in dict.fromkeys(names) if not n.startswith((".", "__")))


def _stores(code: CodeType, names: tuple[str, ...]) -> dict[int, tuple[int, ...]]:
    """For each line the positions of what it may bind: a look at these is enough after it has run.

    Cells may be bound from inner functions, and what has no line of its own belongs to any: both count for every line.
    """
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return {}
    always = {*code.co_cellvars, *code.co_freevars}
    by_line: dict[int, set[str]] = {line: set() for _, _, line in code.co_lines() if line is not None}
    line: int | None = None
    lines = iter(code.co_lines())
    end = -1
    for instruction in dis.get_instructions(code):
        while instruction.offset >= end:
            _, end, line = next(lines)
        if "FAST" in instruction.opname and instruction.opname not in _READS:
            value = instruction.argval
            bound = value if isinstance(value, tuple) else (value,)
            (always if line is None else by_line[line]).update(bound)
    positions = {name: i for i, name in enumerate(names)}
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    by_line[ENTERED] = {*code.co_varnames[:count]}
    found = {n: tuple(sorted(positions[b] for b in bound | always if b in positions)) for n, bound in by_line.items()}
    found[BEGUN] = ()
    return found


ENTERED, BEGUN, RUNNING = -1, -2, -3
"""In place of the line that has been running: the call (it binds the arguments), what comes before the first line (nothing is
bound), anything."""

_READS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST"})
"""Instructions on local variables that bind none. Any other counts as one that does."""


def dotted(name: str) -> str:
    """The module name of a package given by upstream's name."""
    return "readtorch" + name.removeprefix("torch") if name == "torch" or name.startswith("torch.") else name


def find_roots(name: str) -> list[_Root]:
    """Where the code of package `name` lies. ValueError if there is no such package."""
    found = []
    for candidate in dict.fromkeys((dotted(name), name)):
        upstream = _is_upstream(candidate)
        base, _, rest = candidate.partition(".")
        for folder in _package_folders(base, upstream):
            path = os.path.join(folder, *rest.split(".")) if rest else folder
            if os.path.isdir(path):
                found.append(_Root(path + os.sep, upstream))
            elif os.path.isfile(path + ".py"):
                found.append(_Root(path + ".py", upstream))
    if not found:
        raise ValueError(f"trace: no package or module {name!r}; name it as upstream does, e.g. 'torch.nn.modules'")
    return found


def _is_upstream(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


def _upstream_loaded() -> bool:
    """Whether the real PyTorch has been imported, to the end."""
    loaded = sys.modules.get("torch")
    spec = getattr(loaded, "__spec__", None)
    return loaded is not None and getattr(spec, "name", "") == "torch" and not getattr(spec, "_initializing", False)


def _package_folders(base: str, upstream: bool) -> list[str]:
    if base == "readtorch":
        return [PACKAGE.rstrip(os.sep)]
    loaded = sys.modules.get(base)
    if upstream and (loaded is None or getattr(loaded, "__name__", "") != "torch"):
        return []
    if loaded is not None:
        paths = [os.path.abspath(p) for p in getattr(loaded, "__path__", ())]
        file = getattr(loaded, "__file__", None)
        return paths or ([os.path.abspath(file).removesuffix(".py")] if file else [])
    spec = importlib.util.find_spec(base)
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [os.path.abspath(p) for p in spec.submodule_search_locations]
    return [spec.origin.removesuffix(".py")] if spec.origin else []


def is_cell(file: str) -> bool:
    """Whether `file` names code that has no file: a notebook cell, or text compiled by a tool."""
    return file.startswith("<") or "ipykernel" in file or not file.endswith(".py")


def _installed() -> tuple[str, ...]:
    """Folders of installed code and of the standard library."""
    return (os.path.dirname(os.__file__) + os.sep, *(p + os.sep for p in sys.path if p.endswith("-packages")))


class Paths:
    """The names that files go by in a document."""

    def __init__(self, locate: Locate | None = None) -> None:
        self._locate = locate
        self._cells: dict[str, str] = {}

    def name(self, file: str) -> str:
        """`file` relative to its package, the book or the working folder.

        A notebook's cell goes by its id in the chapter where that is known, else by a number in order of appearance.
        """
        if "ipykernel" in file or (is_cell(file) and not os.path.isfile(file)):
            return self._cells.setdefault(file, self._cell(file))
        full = os.path.abspath(file)
        if full.startswith(PACKAGE):
            return _posix("readtorch/" + full.removeprefix(PACKAGE))
        if full.startswith(BOOK + "chapters" + os.sep):
            return _posix(full.removeprefix(BOOK))
        entries = {os.path.abspath(p or os.curdir) for p in sys.path} | {os.getcwd()}
        for entry in sorted(entries, key=len, reverse=True):
            if len(entry) > 1 and full.startswith(entry + os.sep):
                return _posix(full.removeprefix(entry + os.sep))
        return os.path.basename(full)

    def _cell(self, file: str) -> str:
        place = self._locate(file, 1) if self._locate is not None else None
        if place is not None and place[2][:1].isalpha():
            return f"cell {place[2]}"
        return f"cell {len(self._cells) + 1}" if self._cells else "cell"


def _posix(path: str) -> str:
    return path.replace(os.sep, "/")


def upstream_symbol(path: str, qualified: str) -> str:
    """What compares equal in a trace of readtorch and one of PyTorch: the upstream path and the qualified name."""
    inside = path.removeprefix("readtorch/")
    return f"{'torch/' + inside if inside != path else path}#{qualified}"


_ABSOLUTE = re.compile(
    r"(?<![\w.:/])(?:[A-Za-z]:)?[\\/](?:[^\s\\/'\"<>:,;()\[\]{}]+[\\/])+(?P<last>[^\s\\/'\"<>:,;()\[\]{}]*)"
)


def without_machine_paths(text: str) -> str:
    """`text` with absolute paths cut down to their last part: a trace is shared, the machine it ran on is not."""
    return _ABSOLUTE.sub(lambda m: f"…/{m['last']}", text) if "/" in text or "\\" in text else text
