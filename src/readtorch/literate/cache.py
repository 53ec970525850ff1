"""Results of runs, kept by what they depend on.

An entry is found by the digest of the code that ran (cells in order, with the directives that change a run; prose, claims and
links are not among them), the versions of Python, NumPy and CuPy, the kind of device, the executor's own version and, for a part
that records executions, the recorder's text. It holds for as long as every tangled module that the run had loaded is unchanged.
Entries are written whole, carry a checksum, and a damaged one is no entry.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from readtorch.literate.chapter import Cell, Part

EXECUTOR = 1
"""Raised when the same code would give other outputs than before."""

KEPT = 4
"""Entries of one part that are kept: the package changes to and fro while one writes."""

_RUN_DIRECTIVES = ("into", "imports", "trace", "exercise", "solution", "check", "test", "gpu", "needs")


def default_location(root: Path) -> Path:
    """`.cache/readtorch` in a checkout, the user's cache folder for the book of an installed package."""
    if (root / "pyproject.toml").exists() and os.access(root, os.W_OK):
        return root / ".cache" / "readtorch"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "readtorch"


def code_digest(part: Part) -> str:
    """Digest of what runs in a part."""
    return _digest([_signature(cell) for cell in part.code_cells if not cell.has("claim")])


def _signature(cell: Cell) -> list[Any]:
    directives = [[d.key, d.value] for d in cell.directives if d.key in _RUN_DIRECTIVES]
    return [directives, cell.code, sorted({"raises-exception"}.intersection(cell.tags))]


def versions(device: str = "cpu") -> dict[str, str]:
    """Versions that may change what a run gives."""
    found = {
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "platform": f"{sys.platform}-{platform.machine()}",
    }
    for name in ("matplotlib", "ipython"):
        found[name] = _version(name)
    if device == "cuda":
        found["cupy"] = next((v for n in ("cupy-cuda13x", "cupy-cuda12x", "cupy") if (v := _version(n))), "")
    return {name: version for name, version in found.items() if version}


@cache
def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def data_digest(chapters: Path) -> str:
    """Digest of the data files that chapters read."""
    folder = chapters / "data"
    files = sorted(f for f in folder.rglob("*") if f.is_file()) if folder.is_dir() else []
    return _digest([[f.relative_to(folder).as_posix(), file_digest(f)] for f in files])


def recorder_digest(part: Part, folder: Path | None = None) -> str:
    """Digest of the recorder and its viewer, which a recorded run's outputs hold; "" for a part that records none."""
    if not any(cell.has("trace") or re.search(r"\btrace\b", cell.code) for cell in part.code_cells):
        return ""
    return _tree_digest(folder or Path(__file__).resolve().parent / "trace")


@cache
def _tree_digest(folder: Path) -> str:
    files = sorted(f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    return _digest([[f.relative_to(folder).as_posix(), file_digest(f)] for f in files])


class Package:
    """The tangled package as it lies on disk: digests of its files, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digests: dict[str, str] = {}

    def digest(self, module: str) -> str:
        """Of one file, "" if it is gone."""
        if module not in self._digests:
            file = self.folder / module
            self._digests[module] = file_digest(file) if file.is_file() else ""
        return self._digests[module]

    def digests(self, modules: list[str]) -> dict[str, str]:
        return {module: self.digest(module) for module in modules}


def file_digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def combined(*parts: Any) -> str:
    return _digest(list(parts))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Store:
    """Entries below one folder, by name (a part, a claim) and key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str, key: str, package: Package) -> dict[str, Any] | None:
        """The entry whose modules are all as they were, or None."""
        for file in sorted(self._place(name).glob(f"{key[:24]}-*.json")):
            entry = _read(file)
            if entry is not None and all(package.digest(m) == d for m, d in entry["modules"].items()):
                return entry["value"]
        return None

    def keep(self, name: str, key: str, modules: dict[str, str], value: dict[str, Any], *, most: int = KEPT) -> None:
        """Write an entry; of those below `name` the `most` newest stay."""
        place = self._place(name)
        place.mkdir(parents=True, exist_ok=True)
        body = json.dumps({"modules": modules, "value": value}, separators=(",", ":"))
        text = json.dumps({"checksum": hashlib.sha256(body.encode()).hexdigest()}) + "\n" + body
        handle, partial = tempfile.mkstemp(dir=place, suffix=".partial")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, place / f"{key[:24]}-{_digest(modules)[:16]}.json")
        self._prune(place, most)

    def _place(self, name: str) -> Path:
        return self.folder / name.replace("/", "__")

    def _prune(self, place: Path, most: int) -> None:
        entries = list(place.glob("*.json"))
        if len(entries) <= most:
            return
        entries.sort(key=_age, reverse=True)
        for file in entries[most:]:
            file.unlink(missing_ok=True)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One process at a time works on `name`: two builds at once do not run a part twice."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name.replace('/', '__')}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # another build has pruned it
        return 0.0


def _read(file: Path) -> dict[str, Any] | None:
    try:
        head, _, body = file.read_text(encoding="utf-8").partition("\n")
        if json.loads(head)["checksum"] != hashlib.sha256(body.encode()).hexdigest():
            return None
        return json.loads(body)
    except (OSError, ValueError, KeyError, TypeError):
        return None
