"""What the package's top namespace really holds.

`readtorch` fills its namespace when a name is first asked for, from tables of operators and exports; no syntax tree shows that. So
the package itself is asked, in a process of its own (this one may hold an older copy), and what it says is believed only where
the book has a definition of that name at that place.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_ASK = """
import json, sys, types
import readtorch
names = {}
for name in dir(readtorch):
    if name.startswith("_"):
        continue
    try:
        found = getattr(readtorch, name)
    except Exception:
        continue
    if isinstance(found, types.ModuleType):
        continue
    place = (getattr(found, "__module__", None), getattr(found, "__qualname__", None))
    if not (isinstance(place[1], str) and str(place[0]).startswith("readtorch")):
        place = next(((m.__name__, name) for m in list(sys.modules.values())
                      if getattr(m, "__name__", "").startswith("readtorch.") and vars(m).get(name) is found), ("", name))
    names[name] = place
methods = [n for n in dir(getattr(readtorch, "Tensor", object)) if not n.startswith("__")]
json.dump({"names": names, "methods": methods}, sys.stdout)
"""


@dataclass(frozen=True)
class Namespace:
    """`names` of the package: (module, qualified name) of what they hold; `methods` of its tensors."""

    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    methods: frozenset[str] = frozenset()


_known: dict[str, Namespace] = {}


def namespace(package: Path) -> Namespace:
    """The namespace of the package in that folder; empty where there is none, or it cannot be imported."""
    if not (package / "__init__.py").is_file():
        return Namespace()
    key = digest(package)
    if key not in _known:
        _known.clear()
        _known[key] = _ask(package)
    return _known[key]


def _ask(package: Path) -> Namespace:
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run([sys.executable, "-c", _ASK], env=environment, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        return Namespace()  # running the chapters tells why, with the line
    said = json.loads(done.stdout)
    return Namespace({name: (place[0], place[1]) for name, place in said["names"].items()}, frozenset(said["methods"]))


def digest(package: Path) -> str:
    """A name for the state of the package's files."""
    state = hashlib.sha256(str(package).encode())
    for file in sorted(package.rglob("*.py")):
        if "literate" not in file.relative_to(package).parts:
            state.update(file.read_bytes())
    return state.hexdigest()
