"""The reader's own PyTorch, read live: where an upstream symbol stands in it and what its lines are.

Nothing is imported from torch and nothing is kept: files are found below the installed package, and the symbol is located in
the text that is there, whatever its version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from readtorch.literate import facts
from readtorch.literate.declarations import cpp_rows, python_rows, yaml_rows
from readtorch.literate.upstream import OPERATORS, installed_torch, installed_version, qualified

Reason = Literal["", "not installed", "not in the wheel", "not in this version", "a whole file"]


@dataclass(frozen=True)
class UpstreamSource:
    """One upstream symbol as it is installed here. `source` is None with a `reason`; `url` works always."""

    symbol: str
    path: str
    name: str
    language: str
    source: str | None
    first_line: int
    last_line: int
    version: str
    """Of the installed torch, "" without one."""
    release: str
    """Of the PyTorch that the book speaks of."""
    version_matches: bool
    reason: Reason
    url: str
    grade: str

    @property
    def heading(self) -> str:
        lines = f":{self.first_line}-{self.last_line}" if self.first_line else ""
        return f"{self.path}{lines}"

    @property
    def note(self) -> str:
        """What a reader must know about it, in a sentence, "" if nothing."""
        if self.reason == "not installed":
            return (
                "PyTorch is not installed here, so there is no source of it to show; "
                f"`make parity` adds it (pip install torch=={self.release})"
            )
        if self.reason == "not in the wheel":
            return "the installed PyTorch carries no C++ sources, only headers"
        if self.reason == "not in this version":
            return f"the installed PyTorch {self.version} has no {self.name} in {self.path}"
        if self.reason == "a whole file":
            return f"the whole file, {self.last_line} lines"
        if not self.version_matches:
            return f"from the installed PyTorch {self.version}; the book speaks of {self.release}"
        return ""


def upstream_source(symbol: str) -> UpstreamSource | None:
    """The installed source of `path#qualified.name`; None for what the fact base does not know."""
    try:
        target = facts.resolve(symbol)
    except facts.Unresolved:
        return None
    torch = installed_torch()
    version = installed_version(torch) if torch is not None else ""
    found: tuple[str, int, int] | None = None
    reason: Reason = "not installed"
    if torch is not None:
        file = installed_file(torch, target.path)
        reason = "not in the wheel" if file is None else "not in this version"
        if file is not None:
            found = lines_of(file, target.name)
    text, first, last = found or (None, target.start, target.end)
    return UpstreamSource(
        symbol,
        target.path,
        target.name,
        "yaml" if target.path.endswith(".yaml") else "python" if _is_python(target.path) else "cpp",
        text,
        first,
        last,
        version,
        facts.RELEASE,
        version.partition("+")[0] == facts.RELEASE,
        "" if text is not None else reason,
        target.url,
        target.grade,
    )


def upstream_file(path: str) -> UpstreamSource | None:
    """A file of upstream as such: where it is and how long, without its text."""
    if path not in facts.paths():
        return None
    torch = installed_torch()
    file = installed_file(torch, path) if torch is not None else None
    last = file.read_text(encoding="utf-8").count("\n") if file is not None else 0
    version = installed_version(torch) if torch is not None else ""
    reason: Reason = (
        "a whole file" if file is not None else "not in the wheel" if torch is not None else "not installed"
    )
    matches = version.partition("+")[0] == facts.RELEASE
    url = f"{facts.REPOSITORY}/blob/{facts.TAG}/{path}"
    language = "python" if _is_python(path) else "cpp"
    first = min(last, 1)
    return UpstreamSource(
        path, path, path, language, None, first, last, version, facts.RELEASE, matches, reason, url, "file"
    )


def _is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


def installed_file(torch: Path, path: str) -> Path | None:
    """Where a file of PyTorch's repository is in an installed torch, None if wheels do not carry it."""
    if path in OPERATORS:
        file = torch.parent / "torchgen" / OPERATORS[path]
    elif _is_python(path):
        file = torch.parent / path
    else:
        file = torch / "include" / path.removeprefix("aten/src/")
    return file if file.is_file() else None


def lines_of(file: Path, name: str) -> tuple[str, int, int] | None:
    """Text, first and last line of a symbol in a file. C++ names match by their trailing components."""
    text, places = _places(file, file.stat().st_mtime_ns)
    tail = name.replace("::", ".")
    for wanted in (tail, *_shorter(tail)):
        for known, first, last in places:
            if known == wanted or (file.suffix not in (".py", ".pyi") and known.endswith("." + wanted)):
                return "\n".join(text.split("\n")[first - 1 : last]), first, last
        if file.suffix in (".py", ".pyi", ".yaml"):
            return None
    return None


def _shorter(name: str) -> list[str]:
    """`at.native.add` to `native.add`, `add`."""
    parts = name.split(".")
    return [".".join(parts[n:]) for n in range(1, len(parts))]


@lru_cache(maxsize=32)
def _places(file: Path, _changed: int) -> tuple[str, tuple[tuple[str, int, int], ...]]:
    text = file.read_text(encoding="utf-8")
    scan = {".py": python_rows, ".pyi": python_rows, ".yaml": yaml_rows}.get(file.suffix, cpp_rows)
    places = ((name.replace("::", "."), first, last) for name, first, last in qualified(scan(text)))
    return text, tuple(places)
