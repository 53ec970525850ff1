"""What a reader may look for in each chapter, and which of it is here.

`data/coverage.txt` lists upstream's public names with a tier and a place: 1, the chapter must have it; 2, a user expects it;
3, nice to have. Whether a name is here is not written anywhere: the package is asked, in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from readtorch.literate import facts

LIST = facts.DATA / "coverage.txt"
TIERS = (1, 2, 3)

_TENSOR, _OPERATORS = "torch/_C/__init__.pyi", "aten/src/ATen/native/native_functions.yaml"


@dataclass(frozen=True, slots=True)
class Member:
    """A method or property of a class, with the line where upstream defines it."""

    tier: int
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """One public name. `start` is 0 where the list gives no line; `end` equals `start` for a function."""

    chapter: str
    path: str
    tier: int
    name: str
    start: int = 0
    end: int = 0
    members: tuple[Member, ...] = ()

    @property
    def qualified(self) -> str:
        """The dotted name below `torch`: `torch.nn.modules.module.Module`."""
        if self.path == _TENSOR:
            return f"torch.Tensor.{self.name}"
        if self.path == _OPERATORS:
            return f"torch.{self.name}"
        return f"{self.path.rpartition('.')[0].removesuffix('/__init__').replace('/', '.')}.{self.name}"

    @property
    def ours(self) -> str:
        return self.qualified.replace("torch", "readtorch", 1)

    @property
    def url(self) -> str | None:
        """Where upstream defines it, or None where no line is known."""
        if self.start:
            end = f"-L{self.end}" if self.end > self.start else ""
            return f"{facts.REPOSITORY}/blob/{facts.TAG}/{self.path}#L{self.start}{end}"
        return None if self.path == _TENSOR else _operators().get(self.name.replace(".", "_"))


@cache
def _operators() -> dict[str, str]:
    """Operators without their overloads, each with the address of the first entry."""
    found: dict[str, str] = {}
    for target in facts.symbols_in(_OPERATORS):
        found.setdefault(target.name.partition(".")[0], target.url)
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a name is here, what of it is not, and where its definition is: module and qualified name."""

    here: bool
    lacks: tuple[str, ...] = ()
    place: tuple[str, str] = ("", "")


@cache
def wanted() -> tuple[Wanted, ...]:
    """The whole list, by chapter and upstream file, in upstream's order."""
    return tuple(_read(LIST.read_text(encoding="utf-8").splitlines()))


def _read(rows: Sequence[str]) -> Iterator[Wanted]:
    chapter = path = ""
    last: Wanted | None = None
    for row in rows:
        if row.startswith("#"):
            continue
        words = row.split()
        if row.startswith("  ") and last is not None:
            pairs = zip(words[1::2], words[2::2], strict=True)
            added = tuple(Member(int(words[0]), name, int(line)) for name, line in pairs)
            last = replace(last, members=last.members + added)
            continue
        if last is not None:
            yield last
            last = None
        if not row.startswith(" "):
            chapter, path = words
        elif words[0].endswith(":"):
            for name in words[1:]:
                yield Wanted(chapter, path, int(words[0][:-1]), name)
        else:
            start, _, end = words[2].partition("-")
            last = Wanted(chapter, path, int(words[0]), words[1], int(start), int(end or start))
    if last is not None:
        yield last


_ASK = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")

def follow(name):
    words = name.split(".")
    for split in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(words[:split]))
            break
        except ModuleNotFoundError:
            continue
    for word in words[split:]:
        found = getattr(found, word)
    return found

answers = {}
for name, members in json.load(sys.stdin).items():
    found = None
    for spelling in (name, name.replace("readtorch.", "readtorch.Tensor.", 1)):
        try:
            found = follow(spelling)
            break
        except Exception:
            continue
    else:
        continue
    lacks = [member for member in members if not hasattr(found, member)]
    place = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    answers[name] = [lacks, [word if isinstance(word, str) else "" for word in place]]
json.dump(answers, sys.stdout)
"""


def standings(package: Path, names: Sequence[Wanted] | None = None) -> dict[str, Standing]:
    """By `qualified` name, what of the list the package in that folder has. Raises RuntimeError if it cannot be asked.

    An operator counts as here when tensors have it as a method: upstream has some in one place only.
    """
    asked = list(wanted() if names is None else names)
    question = json.dumps({item.ours: [member.name for member in item.members] for item in asked})
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", _ASK]
    done = subprocess.run(command, input=question, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"the package in {package} does not say what it has:\n{done.stderr}")
    answers = json.loads(done.stdout)
    result = {}
    for item in asked:
        if item.ours in answers:
            lacks, (module, name) = answers[item.ours]
            result[item.qualified] = Standing(True, tuple(lacks), (module, name))
        else:
            result[item.qualified] = Standing(False)
    return result
