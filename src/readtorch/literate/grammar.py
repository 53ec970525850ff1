"""The directive grammar: `#| key: value` lines at the head of a code cell (EBNF in docs/reference/directives.md).

One function, `parse_directives`, reads them. It knows every key, how often it may stand, which value it takes and which keys
exclude or require each other; whatever is not in the table below is a problem with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from readtorch.literate.errors import Problems
from readtorch.literate.percent import QuoteState

MARK = re.compile(r"# ?\|(?P<rest>.*)")
_ENTRY = re.compile(r"\s*(?P<key>[a-z_]+)\s*(?::\s*(?P<value>.*?)\s*)?$")

LAYERS = ("calls", "lines", "ops", "autograd", "alloc", "queues", "comm", "kernels")


@dataclass(frozen=True, slots=True)
class Directive:
    key: str
    value: str
    line: int
    """1-based line in the chapter file."""


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """The value of `trace:`. Empty `packages` means the package and the cell; empty `layers` the recorder's default."""

    packages: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    values: str = "no"
    steps: int | None = None
    title: str = ""


def _path(value: str) -> str | None:
    if value.startswith("/") or ".." in value.split("/") or "\\" in value:
        return "needs a path below src/readtorch/"
    if value.startswith("literate/"):
        return "literate/ is written by hand, not tangled"
    if not re.fullmatch(r"(\w+/)*\w+\.(py|cu|cuh)", value, re.ASCII):
        return "needs a .py, .cu or .cuh path such as nn/modules/module.py"
    return None


def _after(value: str) -> str | None:
    return None if re.fullmatch(r"after [\w.]+", value) else "needs `after NAME`"


def _name(value: str) -> str | None:
    return None if re.fullmatch(r"[\w.\-]+", value) else "needs a name of letters, digits, `_`, `.` or `-`"


def _symbol(value: str) -> str | None:
    return None if re.fullmatch(r"[\w./\-]+#[\w.:~<>=+*\[\]()-]+", value) else "needs path#qualified.name"


def _sentence(value: str) -> str | None:
    return None if len(value) > 3 else "needs a sentence"


def _trace(value: str) -> str | None:
    try:
        parse_trace(value)
    except ValueError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class _Key:
    check: Callable[[str], str | None] | None
    """None: the key is a flag and takes no value."""
    many: bool = False
    requires: str = ""
    excludes: tuple[str, ...] = field(default=())


KEYS: dict[str, _Key] = {
    "into": _Key(_path, excludes=("trace", "claim", "test", "exercise", "solution", "check", "needs", "gpu")),
    "imports": _Key(None, requires="into"),
    "at": _Key(_after, requires="into"),
    "id": _Key(_name),
    "upstream": _Key(_symbol, many=True),
    "trace": _Key(_trace),
    "claim": _Key(_sentence, excludes=("trace", "test", "exercise", "solution", "check")),
    "differs": _Key(_sentence, requires="claim"),
    "fact": _Key(_symbol, many=True),
    "source": _Key(_sentence, many=True),
    "exercise": _Key(_name, excludes=("solution", "check", "test")),
    "solution": _Key(_name, excludes=("check", "test")),
    "check": _Key(_name, excludes=("test",)),
    "test": _Key(None),
    "gpu": _Key(None),
    "needs": _Key(_name, many=True),
}


def parse_directives(
    lines: list[str], first_line: int, path: str, problems: Problems
) -> tuple[tuple[Directive, ...], int]:
    """Read the directives at the head of a code cell.

    `lines` are the cell's lines, the first of which is line `first_line` of the chapter `path`. Returns the directives and
    how many lines they take. Faults go to `problems`; the faulty directive is left out.
    """
    found: list[Directive] = []
    before = len(problems)
    taken = 0
    for taken, text in enumerate(lines):
        match = MARK.match(text)
        if match is None:
            break
        line = first_line + taken
        entry = _ENTRY.match(match["rest"])
        if entry is None:
            problems.add(path, line, f"not a directive: {text.strip()}", "write `#| key: value` or `#| key`")
            continue
        key, value = entry["key"], entry["value"] or ""
        known = KEYS.get(key)
        if known is None:
            problems.add(path, line, f"unknown directive {key!r}", _nearest(key))
            continue
        wrong = _wrong_value(known, value)
        if wrong:
            problems.add(path, line, f"{key}: {wrong}, got {value!r}" if value else f"{key}: {wrong}")
            continue
        if not known.many and any(d.key == key for d in found):
            problems.add(path, line, f"{key} stands twice in one cell", "split the cell")
            continue
        found.append(Directive(key, value, line))
    else:
        taken = len(lines)
    complete = len(problems) == before
    _report_misplaced(lines, taken, first_line, path, problems)
    _check_together(found, path, problems, complete=complete)
    return tuple(found), taken


def _report_misplaced(lines: list[str], taken: int, first_line: int, path: str, problems: Problems) -> None:
    if not any(line.startswith("#") and MARK.match(line) for line in lines[taken:]):
        return
    quotes = QuoteState()
    for number, line in enumerate(lines[taken:], first_line + taken):
        if not quotes.triple and MARK.match(line):
            what = "a directive below the first lines of its cell has no effect"
            problems.add(path, number, what, "move it to the head of the cell")
        quotes.read(line)


def _nearest(key: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, KEYS, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are: {', '.join(KEYS)}"


def _wrong_value(key: _Key, value: str) -> str | None:
    if key.check is None:
        return "takes no value" if value else None
    return key.check(value) if value or key.check is _trace else "needs a value"


def _check_together(found: list[Directive], path: str, problems: Problems, *, complete: bool) -> None:
    """Which keys need and exclude each other. Where a directive could not be read (not `complete`), none is missed."""
    keys = {d.key for d in found}
    for directive in found:
        rule = KEYS[directive.key]
        if complete and rule.requires and rule.requires not in keys:
            problems.add(path, directive.line, f"{directive.key} needs {rule.requires} in the same cell")
        for other in rule.excludes:
            if other in keys:
                problems.add(path, directive.line, f"{directive.key} and {other} exclude each other", "split the cell")


_OPTION = re.compile(
    r'(?P<key>[a-z]+)=(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))|(?P<package>[A-Za-z_]\w*(?:\.\w+)*)(?=\s|$)|(?P<bad>\S+)'
)


def parse_trace(value: str) -> TraceSpec:
    """`[packages] [layers=a,b] [values=no|summary] [steps=N] [title="…"]` to a `TraceSpec`; ValueError says what is wrong."""
    packages: list[str] = []
    options: dict[str, str] = {}
    for match in _OPTION.finditer(value):
        if match["package"]:
            packages.append(match["package"])
        elif match["bad"]:
            raise ValueError(f"does not understand {match['bad']!r}")
        elif (match["bare"] or "").startswith('"'):
            raise ValueError(f"{match['key']}= has a quote that is not closed")
        elif match["key"] in options:
            raise ValueError(f"{match['key']}= stands twice")
        else:
            options[match["key"]] = match["quoted"] if match["quoted"] is not None else match["bare"]
    unknown = options.keys() - {"layers", "values", "steps", "title"}
    if unknown:
        raise ValueError(f"has no option {sorted(unknown)[0]!r}")
    layers = tuple(filter(None, options.get("layers", "").split(",")))
    for layer in layers:
        if layer not in LAYERS:
            raise ValueError(f"has no layer {layer!r} (there are {', '.join(LAYERS)})")
    if options.get("values", "no") not in ("no", "summary"):
        raise ValueError("values is no or summary")
    steps = options.get("steps")
    if steps is not None and not (steps.isdigit() and int(steps) > 0):
        raise ValueError("steps is a positive number")
    return TraceSpec(
        tuple(packages), layers, options.get("values", "no"), int(steps) if steps else None, options.get("title", "")
    )
