"""What `import NAME` does: which modules, in which order, how long each, what was put off.

`record_import("torch")` imports in a fresh process, where nothing has been imported before, and gives an `ImportRun`: a tree of
modules with self and cumulative time. A package that fails to import, that ends its process or hangs is reported like any
other. `align(a, b)` puts two runs side by side by upstream's names. Names and times are kept, never text of a source.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import all_suffixes
from importlib.resources import files
from pathlib import Path
from typing import Any

from readtorch.literate.errors import LiterateError, Problem

MIME = "application/vnd.readtorch.imports+json"
SCHEMA = "readtorch-imports/1"
LIMIT = 120.0
"""Seconds that an import may take."""
OUTPUT = 65536
"""Bytes of what an import printed that are kept, its last."""

KINDS = {
    "SourceFileLoader": "source",
    "SourcelessFileLoader": "source",
    "ExtensionFileLoader": "extension",
    "BuiltinImporter": "built-in",
    "FrozenImporter": "frozen",
    "NamespaceLoader": "namespace",
    "_NamespaceLoader": "namespace",
    "NoneType": "by hand",
}
"""Kind of a module by the class of its loader; others are "other"."""


@dataclass(slots=True)
class Imported:
    """One module, or one attribute that was read (`.nn`). Times are microseconds since the process was ready.

    `total` is cumulative; `asked` names the function that ran the import statement, "" for a module's body; `error` is what was
    raised on the way out.
    """

    name: str
    parent: int
    begin: int
    total: int
    kind: str = "source"
    asked: str = ""
    error: str = ""
    package: bool = False


@dataclass(slots=True)
class ImportRun:
    """One import, module by module in the order in which they were begun.

    `outcome` is "imported", "raised", "ended" (the process is gone) or "hung"; `error` says more. `later` holds, for each package
    of the target that was loaded, the modules of it that were not. `by_hand` are modules that something put into `sys.modules`
    itself. `before` counts those that the interpreter had loaded at the start.
    """

    name: str
    modules: list[Imported]
    outcome: str
    error: str
    total: int
    before: int
    by_hand: list[str]
    later: dict[str, list[str]]
    lazy: list[str]
    meta: dict[str, str]
    output: str = ""
    provenance: str = ""
    _children: dict[int, list[int]] = field(default_factory=dict, repr=False)

    @property
    def children(self) -> dict[int, list[int]]:
        """Position of a module to those of the modules that it was the first to import; -1 is the import itself."""
        if not self._children:
            for position, module in enumerate(self.modules):
                self._children.setdefault(module.parent, []).append(position)
        return self._children

    def self_time(self, position: int) -> int:
        """Microseconds that the module took without those it imported."""
        inner = sum(self.modules[child].total for child in self.children.get(position, ()))
        return max(0, self.modules[position].total - inner)

    def names(self) -> list[str]:
        """The modules in the order in which each was *begun*; attributes that were read are left out."""
        return [module.name for module in self.modules if not module.name.startswith(".")]

    def depth(self, position: int) -> int:
        depth = -1
        while position >= 0:
            position, depth = self.modules[position].parent, depth + 1
        return depth

    def own(self) -> list[str]:
        """The modules of the target's own package."""
        top = self.name.partition(".")[0]
        return [name for name in self.names() if name.partition(".")[0] == top]

    def __repr__(self) -> str:
        how = "" if self.outcome == "imported" else f", {self.outcome}: {self.error}"
        return f"<import {self.name}: {len(self.names())} modules in {self.total // 1000} ms{how}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return bundle(self)

    def document(self) -> dict[str, Any]:
        """The run as JSON: names, order, times."""
        top = self.name.partition(".")[0]
        return {
            "name": self.name,
            "outcome": self.outcome,
            "error": self.error,
            "total": self.total,
            "before": self.before,
            "names": [m.name for m in self.modules],
            "parents": [m.parent for m in self.modules],
            "begins": [m.begin for m in self.modules],
            "totals": [m.total for m in self.modules],
            "kinds": [m.kind for m in self.modules],
            "origins": "".join(_origin(m.name, top) for m in self.modules),
            "asked": {str(i): m.asked for i, m in enumerate(self.modules) if m.asked},
            "errors": {str(i): m.error for i, m in enumerate(self.modules) if m.error},
            "packages": [i for i, m in enumerate(self.modules) if m.package],
            "by_hand": self.by_hand,
            "later": self.later,
            "lazy": self.lazy,
            "meta": self.meta,
            "provenance": self.provenance,
        }

    @classmethod
    def from_document(cls, run: Mapping[str, Any]) -> ImportRun:
        """What `document` gave."""
        asked, errors, packages = run["asked"], run["errors"], set(run["packages"])
        columns = zip(run["names"], run["parents"], run["begins"], run["totals"], run["kinds"], strict=True)
        modules = [
            Imported(*row, asked.get(str(i), ""), errors.get(str(i), ""), i in packages)
            for i, row in enumerate(columns)
        ]
        keys = ("outcome", "error", "total", "before", "by_hand", "later", "lazy", "meta", "provenance")
        return cls(name=run["name"], modules=modules, **{key: run[key] for key in keys})


def record_import(
    name: str,
    *,
    touch: Sequence[str] = (),
    path: Sequence[str | Path] = (),
    environment: Mapping[str, str] | None = None,
    limit: float = LIMIT,
    python: str = sys.executable,
) -> ImportRun:
    """Import `name` in a fresh process, then read the attributes `touch` of it, and tell what that imported.

    `path` goes before `PYTHONPATH`, `environment` is added to that of the process. Whatever the import does, there is a run:
    see `ImportRun.outcome`. Raises ValueError for a name that is no dotted name.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"record_import: {name!r} is no name of a module")
    source = (files(__package__) / "importing.py").read_text(encoding="utf-8")
    code = f"exec(compile({source!r}, '<import recorder>', 'exec'))\nmain({name!r}, {tuple(touch)!r}, "
    variables = {**os.environ, **(environment or {})}
    inherited = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([*map(str, path), *([inherited] if inherited else [])])
    with tempfile.NamedTemporaryFile() as events, tempfile.TemporaryFile() as printed:
        hung = False
        process = subprocess.Popen(
            [python, "-c", f"{code}{events.name!r})"],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines = _read(events).splitlines()
        output = _read(printed, OUTPUT)
    return _Reader(name, touch, [ast.literal_eval(line) for line in lines]).run(process.returncode, hung, limit, output)


def _read(file: Any, last: int | None = None) -> str:
    """What is in `file`, or its last so many bytes."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0 if last is None else max(0, end - last))
    return file.read().decode("utf-8", "replace")


class _Reader:
    """Events into a tree."""

    def __init__(self, name: str, touch: Sequence[str], events: Iterable[tuple[Any, ...]]) -> None:
        self.name = name
        self.modules: list[Imported] = []
        self.before = 0
        self.meta = {"python": "", "platform": sys.platform, "version": "", "touched": ", ".join(touch)}
        self.total = -1
        self.failure = ""
        self.facts: dict[str, tuple[str, list[str], bool]] = {}
        self._open: dict[int, list[int]] = {}
        self._last = 0
        for kind, *rest in events:
            getattr(self, f"_{kind}")(*rest)

    def _before(self, count: int, python: str, platform: str) -> None:
        self.before = count
        self.meta.update(python=python, platform=platform)

    def _begin(self, thread: int, at: int, name: str, asked: str) -> None:
        stack = self._open.setdefault(thread, [])
        self.modules.append(Imported(name, stack[-1] if stack else -1, at, -1, asked=asked))
        stack.append(len(self.modules) - 1)
        self._last = at

    def _end(self, thread: int, at: int, error: str) -> None:
        module = self.modules[self._open[thread].pop()]
        module.total, module.error = at - module.begin, error
        self._last = at

    def _done(self, at: int, failure: str) -> None:
        self.total, self.failure = at, failure

    def _module(self, name: str, loader: str, folders: list[str], lazy: bool) -> None:
        self.facts[name] = (KINDS.get(loader, "other"), folders, lazy)

    def _version(self, text: str) -> None:
        self.meta["version"] = text

    def run(self, status: int, hung: bool, limit: float, output: str) -> ImportRun:
        outcome, error = "raised" if self.failure else "imported", self.failure
        if self.total < 0:
            running = [self.modules[position].name for stack in self._open.values() for position in stack]
            during = f" while {running[-1]} was imported" if running else ""
            self.total = self._last
            outcome = "hung" if hung else "ended"
            error = f"not done after {limit:g} s{during}" if hung else f"{_ending(status)}{during}"
        for module in self.modules:
            if module.total < 0:
                module.total, module.error = max(0, self.total - module.begin), module.error or outcome
            if module.name.startswith("."):
                module.kind = "attribute"
            elif module.name in self.facts:
                module.kind, folders, _ = self.facts[module.name]
                module.package = bool(folders)
        seen = {module.name for module in self.modules}
        self.meta["made"] = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        top = self.name.partition(".")[0]
        own = {n: fact for n, fact in self.facts.items() if n.partition(".")[0] == top}
        return ImportRun(
            name=self.name,
            modules=_parents_first(self.modules),
            outcome=outcome,
            error=error,
            total=self.total,
            before=self.before,
            by_hand=sorted(n for n in self.facts if n not in seen),
            later={n: left for n, (_, folders, _) in sorted(own.items()) if (left := _not_loaded(n, folders, own))},
            lazy=sorted(n for n, fact in own.items() if fact[2]),
            meta=self.meta,
            output=output,
        )


def _ending(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"the process was ended by {signal.Signals(-status).name}"
    return f"the process ended itself with status {status}"


def _parents_first(modules: list[Imported]) -> list[Imported]:
    """Importing `a.b` begins by importing `a`: what is a frame inside it here stands before it, where a reader looks for it."""
    inside: dict[int, list[int]] = {}
    for position, module in enumerate(modules):
        inside.setdefault(module.parent, []).append(position)

    def order(position: int) -> Iterator[int]:
        """`position` behind the packages above it."""
        mine = [child for sibling in inside.get(position, ()) for child in order(sibling)]
        above = [child for child in mine if modules[position].name.startswith(modules[child].name + ".")]
        if above:
            module, end = modules[position], modules[position].begin + modules[position].total
            module.begin = max(modules[child].begin + modules[child].total for child in above)
            module.total = max(0, end - module.begin)
        inside[position] = [child for child in mine if child not in above]
        yield from above
        yield position

    roots = [position for sibling in inside.get(-1, ()) for position in order(sibling)]
    result: list[Imported] = []

    def place(position: int, parent: int) -> None:
        module = modules[position]
        module.parent = parent
        result.append(module)
        number = len(result) - 1
        for child in inside[position]:
            place(child, number)

    for position in roots:
        place(position, -1)
    return result


def _not_loaded(package: str, folders: list[str], loaded: Mapping[str, Any]) -> list[str]:
    """The modules directly in a package that are there and were not imported."""
    found: set[str] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                name = entry.name
                if entry.is_dir():
                    stem = name if os.path.exists(os.path.join(entry.path, "__init__.py")) else ""
                else:
                    stem = next(
                        (
                            name.removesuffix(s)
                            for s in sorted(all_suffixes(), key=len, reverse=True)
                            if name.endswith(s)
                        ),
                        "",
                    )
                if stem.isidentifier() and not stem.startswith("__"):
                    found.add(stem)
    return sorted(name for name in found if f"{package}.{name}" not in loaded)


def _origin(name: str, top: str) -> str:
    """`t` for the target's package, `s` for the standard library, `o` for others."""
    first = name.partition(".")[0]
    return "t" if first in (top, "") else "s" if first in sys.stdlib_module_names else "o"


# -- two runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """A module of both runs, by its positions in them, or of one (None for the other). `name` is upstream's."""

    name: str
    a: int | None
    b: int | None


class Comparison:
    """Two runs, aligned module by module: `readtorch.nn` answers to `torch.nn`."""

    def __init__(self, a: ImportRun, b: ImportRun) -> None:
        self.runs = (a, b)
        ours = {_upstream(m.name): i for i, m in reversed(list(enumerate(a.modules)))}
        theirs = {_upstream(m.name): i for i, m in reversed(list(enumerate(b.modules)))}
        in_order = [*theirs, *(name for name in ours if name not in theirs)]
        in_order.sort(key=lambda name: (theirs.get(name, len(b.modules)), ours.get(name, 0)))
        self.pairs = tuple(Pair(name, ours.get(name), theirs.get(name)) for name in in_order)

    @property
    def matched(self) -> tuple[Pair, ...]:
        """The modules of both, in the order of the second run."""
        return tuple(p for p in self.pairs if p.a is not None and p.b is not None)

    def __repr__(self) -> str:
        a, b = self.runs
        return f"<{a!r} beside {b!r}: {len(self.matched)} modules in both>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return bundle(*self.runs)


def _upstream(name: str) -> str:
    first, dot, rest = name.partition(".")
    return f"torch{dot}{rest}" if first == "readtorch" else name


def align(a: ImportRun, b: ImportRun) -> Comparison:
    """The two runs side by side; the order is that of the second."""
    return Comparison(a, b)


# -- keeping and showing -------------------------------------------------------------------------------------------------


def document(*runs: ImportRun) -> dict[str, Any]:
    """One run or two as one JSON document."""
    return {"schema": SCHEMA, "runs": [run.document() for run in runs]}


def bundle(*runs: ImportRun) -> dict[str, Any]:
    """The MIME bundle of one run, or of two side by side."""
    from readtorch.literate.trace.import_page import notebook_html

    content = document(*runs)
    text = "\n".join(map(repr, runs))
    return {"text/plain": text, "text/html": notebook_html(content), MIME: content}


def save(path: str | Path, *runs: ImportRun) -> None:
    """Write runs as JSON, gzipped if the name ends in `.gz`."""
    data = (json.dumps(document(*runs), separators=(",", ":"), ensure_ascii=False) + "\n").encode()
    path = Path(path)
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)


def load(path: str | Path) -> list[ImportRun]:
    """Read what `save` wrote. LiterateError if it is nothing of the kind."""
    path = Path(path)
    try:
        data = path.read_bytes()
        content = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema is {content['schema']!r}")
        return [ImportRun.from_document(run) for run in content["runs"]]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LiterateError(Problem(path.name, 0, f"is no recorded import: {error}")) from None
