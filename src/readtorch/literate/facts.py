"""The fact base: what stands where in the PyTorch release that the book speaks of.

Names, paths, kinds and line ranges, never text. Files below `data/`, four of them lists of sections: a path at the margin, then one
line per symbol, indented by its nesting.

| file | from | a symbol's grade |
|---|---|---|
| `python.txt` | the syntax trees of the Python files | `exact`: first and last line |
| `headers.txt` | the declarations in the C++ headers | `exact` |
| `operators.txt` | entries of native_functions.yaml and derivatives.yaml | `exact` |
| `sources.txt` | lines that the built libraries name (checks, log calls), and reading | `anchor`: a line inside it, else `file` |

`calls.txt` says what a few functions call, in order. `files.txt` lists further C++ files, `exports.txt` C++ names, both found in the built libraries: a name that has no line in `sources.txt`
but is exported, or declared in a header, resolves with the grade `file`. `readtorch upstream sync` writes all but `sources.txt` and `calls.txt` anew from an installed torch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

from readtorch.literate.errors import Problem

RELEASE = "2.13.0"
"""The one place that says which PyTorch every page, link and claim speaks of."""

TAG = f"v{RELEASE}"
REPOSITORY = "https://github.com/pytorch/pytorch"
DATA = Path(__file__).parent / "data"

Grade = Literal["exact", "anchor", "file"]
GENERATED = ("torch/version.py", "torch/_C/__init__.pyi", "torch/_C/_VariableFunctions.pyi", "torch/_C/_nn.pyi")
CPP_SUFFIXES = (".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh")


@dataclass(frozen=True, slots=True)
class Target:
    """What an `upstream:` or `fact:` names. `start` and `end` are 0 with the grade `file`, equal with `anchor`."""

    path: str
    name: str
    kind: str
    start: int
    end: int
    grade: Grade

    @property
    def url(self) -> str:
        lines = {"exact": f"#L{self.start}-L{self.end}", "anchor": f"#L{self.start}", "file": ""}[self.grade]
        return f"{REPOSITORY}/blob/{TAG}/{self.path}{lines}"


class Unresolved(LookupError):
    """The fact base has no such path or name. `way_out` holds the nearest ones."""

    def __init__(self, message: str, near: list[str]) -> None:
        super().__init__(message)
        self.message = message
        self.near = near

    @property
    def way_out(self) -> str:
        return (
            f"did you mean {', '.join(self.near)}?"
            if self.near
            else "`readtorch upstream find WORD` lists what is there"
        )

    def problem(self, path: str, line: int) -> Problem:
        return Problem(path, line, self.message, self.way_out)


def resolve(target: str) -> Target:
    """`path#qualified.name` (C++: `path#ns::name`) to its place. Raises Unresolved, which names near misses.

    C++ names resolve by their trailing components, so that `path#at::native::add` and `path#add` are one.
    """
    path, _, name = target.partition("#")
    known = _files()
    if path in GENERATED:
        raise Unresolved(f"{path} is written when PyTorch is built: its repository does not have it", [])
    if path not in known:
        raise Unresolved(f"{path} is no file of PyTorch {RELEASE} known here", _near_paths(path))
    if not path.endswith(CPP_SUFFIXES):
        for found in symbols_in(path):
            if found.name == name:
                return found
    else:
        wanted = _components(name)
        matches = [t for t in symbols_in(path) if _is_suffix(wanted, _components(t.name))]
        if matches:
            return min(matches, key=lambda t: (_RANK[t.grade], t.kind in ("declaration", "forward"), t.name != name))
        if known[path][0] != "headers.txt" and (_is_exported(wanted) or _is_declared(wanted)):
            return Target(path, name, "function", 0, 0, "file")
    raise Unresolved(f"{path} of PyTorch {RELEASE} has no {name!r}", _near_names(path, name))


def resolve_fact(fact: str) -> list[Target]:
    """The targets of a `fact:`. Raises Unresolved.

    `path#a<b<c` states an order too: each stands above the next in the file. `path#f>a<b` says that `f` calls `a`, and `b` later.
    """
    path, _, names = fact.partition("#")
    if ">" in names.replace(">>", ""):
        return [_calls_in_order(path, *names.split(">", 1))]
    targets = [resolve(f"{path}#{name}") for name in re.split(r"<(?!<)", names)]
    for earlier, later in pairwise(targets):
        if "file" in (earlier.grade, later.grade):
            raise Unresolved(
                f"the lines of {earlier.name} and {later.name} in {path} are not known well enough to order", []
            )
        if earlier.start >= later.start:
            raise Unresolved(
                f"{earlier.name} (line {earlier.start}) does not stand before {later.name} (line {later.start})", []
            )
    return targets


def _calls_in_order(path: str, caller: str, names: str) -> Target:
    """The caller, if it calls these in this order."""
    known = calls(f"{path}#{caller}")
    places = []
    for name in names.split("<"):
        if name not in known:
            raise Unresolved(
                f"{caller} in {path} is not known to call {name!r}", difflib.get_close_matches(name, known)
            )
        places.append(known.index(name))
    for (earlier, first), (later, second) in pairwise(zip(names.split("<"), places, strict=True)):
        if first >= second:
            raise Unresolved(f"{caller} in {path} calls {later} before {earlier}", [])
    return resolve(f"{path}#{caller}")


def calls(target: str) -> tuple[str, ...]:
    """What the function `path#name` calls, in order, as far as the fact base tells; empty where it does not."""
    found = re.search(rf"^{re.escape(target)}\n((?: \S+\n)*)", _text("calls.txt"), re.MULTILINE)
    return tuple(found[1].split()) if found else ()


def named(name: str) -> Target | None:
    """The C++ name, with as many of its qualifiers as are told, in the file that is known to have it; None where none is."""
    found = [
        target
        for target in _called(_last(name), ("headers.txt", "sources.txt"))
        if _components(target.name)[-len(_components(name)) :] == _components(name)
    ]
    return min(found, key=lambda target: (_RANK[target.grade], target.path), default=None)


_RANK = {"exact": 0, "anchor": 1, "file": 2}


@cache
def symbols_in(path: str) -> tuple[Target, ...]:
    """Every symbol of an upstream file, in line order; empty for a file whose names are not known."""
    section = _files().get(path)
    if section is None:
        raise Unresolved(f"{path} is no file of PyTorch {RELEASE} known here", _near_paths(path))
    source, start, stop = section
    rows = _text(source)[start:stop].splitlines()
    return tuple(_anchored(path, rows) if source == "sources.txt" else _exact(path, rows))


def paths() -> tuple[str, ...]:
    """Every upstream file known here."""
    return tuple(_files())


def our_path(upstream: str) -> str | None:
    """Where the counterpart of an upstream file stands below `src/readtorch/` (the mirror rule), None if outside of it."""
    for prefix, ours in _HOUSES:
        if upstream.startswith(prefix):
            folder, _, file = (ours + upstream.removeprefix(prefix)).rpartition("/")
            stem, _, suffix = file.rpartition(".")
            ending = suffix if suffix in ("cu", "cuh") else "py"
            return f"{folder}/{_snake(stem)}.{ending}".removeprefix("/")
    return None


_HOUSES = (
    ("aten/src/ATen/", "aten/"),
    ("caffe2/serialize/", "csrc/serialize/"),
    ("c10/", "c10/"),
    ("torch/", ""),
)


def _snake(name: str) -> str:
    if name.startswith("__"):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().replace("-", "_")


def twin(path: str) -> str | None:
    """The upstream stem (path without suffix) that a file of readtorch mirrors, None where it has none.

    A header and its source are one stem. ValueError if two stems claim the file, which the layout must not allow.
    """
    stems = _twins().get(str(Path(path).with_suffix("").as_posix()), ())
    if len(stems) > 1:
        raise ValueError(f"{path} mirrors {' and '.join(stems)}")
    return stems[0] if stems else None


@cache
def _twins() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for upstream in _files():
        ours = our_path(upstream)
        if ours is not None:
            key, stem = ours.rpartition(".")[0], upstream.rpartition(".")[0]
            if stem not in found.get(key, ()):
                found[key] = (*found.get(key, ()), stem)
    return found


@cache
def _text(source: str) -> str:
    file = DATA / source
    return file.read_text(encoding="utf-8") if file.exists() else ""


@cache
def _files() -> dict[str, tuple[str, int, int]]:
    """Path to (data file, where its rows start, where they stop). A path in two files keeps the more exact one."""
    found: dict[str, tuple[str, int, int]] = {}
    for source in ("python.txt", "headers.txt", "operators.txt", "sources.txt", "files.txt"):
        heads = list(re.finditer(r"^(?![ #])(\S+)\n", _text(source), re.MULTILINE))
        for number, head in enumerate(heads):
            stop = heads[number + 1].start() if number + 1 < len(heads) else len(_text(source))
            found.setdefault(head[1], (source, head.end(), stop))
    return found


KIND_CODES = {
    "class": "c",
    "function": "f",
    "method": "m",
    "attribute": "a",
    "global": "g",
    "operator": "o",
    "declaration": "d",
    "enum": "e",
    "alias": "t",
    "variable": "v",
}
_KINDS = {code: kind for kind, code in KIND_CODES.items()}
_ROW = re.compile(r"(?P<name>.+) (?P<kind>[a-z]) (?P<start>\d+)(?: (?P<end>\d+))?$")


def _exact(path: str, rows: list[str]) -> Iterator[Target]:
    """Rows ` name k start [end]`, `k` a letter of KIND_CODES, nested by indentation."""
    joint = "::" if path.endswith(CPP_SUFFIXES) else "."
    stack: list[str] = []
    for row in rows:
        body = row.lstrip(" ")
        match = _ROW.match(body)
        if match is None:
            continue
        del stack[len(row) - len(body) - 1 :]
        stack.append(match["name"])
        start = int(match["start"])
        yield Target(path, joint.join(stack), _KINDS[match["kind"]], start, int(match["end"] or start), "exact")


def _anchored(path: str, rows: list[str]) -> Iterator[Target]:
    """Rows ` name line line …`: lines inside it (`=line`: where it starts), none where only the name is known."""
    for row in rows:
        name, *lines = row.split()
        if not lines:
            yield Target(path, name, "function", 0, 0, "file")
        else:
            first = int(lines[0].lstrip("="))
            yield Target(path, name, "function", first, first, "anchor")


def anchors(path: str, name: str) -> tuple[int, ...]:
    """Every known line inside a C++ function: the lines a stack trace of this release can name."""
    source, start, stop = _files()[path]
    if source != "sources.txt":
        return ()
    for row in _text(source)[start:stop].splitlines():
        found, *lines = row.split()
        if found == name:
            return tuple(int(line.lstrip("=")) for line in lines)
    return ()


def _components(name: str) -> list[str]:
    return name.split("::")


def _is_suffix(one: list[str], other: list[str]) -> bool:
    """Whether the shorter of two qualified names is the tail of the longer."""
    n = min(len(one), len(other))
    return one[-n:] == other[-n:]


@cache
def _exports() -> dict[str, frozenset[str]]:
    """Namespace (or class) to the names in it."""
    found = {}
    for line in _text("exports.txt").splitlines():
        if line and not line.startswith("#"):
            scope, *names = line.split(" ")
            found[scope] = frozenset(names)
    return found


def _is_exported(components: list[str]) -> bool:
    """Whether a library exports the name; a name with fewer qualifiers than the library's is enough."""
    *scope, name = components
    tail = "::".join(scope)
    return any(
        name in names and (not tail or where == tail or where.endswith("::" + tail))
        for where, names in _exports().items()
    )


def _is_declared(components: list[str]) -> bool:
    """A header declares the name with the qualifiers given, one at least."""
    return len(components) > 1 and any(
        _components(target.name)[-len(components) :] == components
        for target in _called(components[-1], ("headers.txt",))
    )


def _called(last: str, sources: tuple[str, ...]) -> Iterator[Target]:
    """Targets with that last name, from any file of the data files named."""
    for source in sources:
        for match in re.finditer(rf"^ +(?:[\w:]+::)?{re.escape(last)} ", _text(source), re.MULTILINE):
            for path, (where, start, stop) in _files().items():
                if where == source and start <= match.start() < stop:
                    yield from (t for t in symbols_in(path) if _last(t.name) == last)
                    break


def _near_paths(path: str) -> list[str]:
    base = path.rpartition("/")[2]
    same = [p for p in _files() if p.rpartition("/")[2] == base]
    return same[:4] or difflib.get_close_matches(path, list(_files()), n=3, cutoff=0.7)


def _near_names(path: str, name: str) -> list[str]:
    """Targets that may be meant: that last name in this file, in others (it may be inherited), or a similar one here."""
    names = list(dict.fromkeys(t.name for t in symbols_in(path)))
    last = _last(name)
    same = [n for n in names if _last(n) == last]
    spelled = {_last(n): n for n in reversed(names)}
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.75)
    close += [spelled[n] for n in difflib.get_close_matches(last, list(spelled), n=3, cutoff=0.75)]
    here = [f"{path}#{n}" for n in dict.fromkeys([*same, *close])]
    if not here and path.endswith(CPP_SUFFIXES):
        here = [f"{path}#{n}" for n in _near_exports(name)]
    return [*here[:3], *([] if same else _elsewhere(last, path)[: 4 - len(here[:3])])]


def _near_exports(name: str) -> list[str]:
    """Exported names of the same namespace that begin with this one, or are spelled like it."""
    scope, _, last = name.rpartition("::")
    names = sorted(_exports().get(scope, ()))
    longer = [n for n in names if n.startswith(f"{last}_")]
    found = longer[:3] or difflib.get_close_matches(last, names, n=3, cutoff=0.8)
    return [f"{scope}::{n}" for n in found]


def _last(name: str) -> str:
    return re.split(r"\.|::", name)[-1]


def _elsewhere(last: str, path: str) -> list[str]:
    """Targets of that last name in other files of the same language."""
    sources = ("headers.txt", "sources.txt") if path.endswith(CPP_SUFFIXES) else ("python.txt",)
    return list(dict.fromkeys(f"{target.path}#{target.name}" for target in islice(_called(last, sources), 8)))
