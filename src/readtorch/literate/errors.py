"""Faults in the book, collected and shown together.

Every tool reports what it finds as `Problem`s and raises one `LiterateError` holding all of them, so that an author mends a
chapter in one go. A problem names the place (`chapter:line`), what is wrong, and the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault: `path` relative to the repository root, 1-based `line` (0: the file as a whole)."""

    path: str
    line: int
    message: str
    way_out: str = ""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path

    def __str__(self) -> str:
        hint = f"\n    {self.way_out}" if self.way_out else ""
        return f"{self.place}: {self.message}{hint}"


class LiterateError(Exception):
    """One or more problems. `str()` lists them in file and line order; exit status 1 on the command line."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        found = [problems] if isinstance(problems, Problem) else problems
        self.problems: list[Problem] = sorted(set(found))
        super().__init__("\n".join(str(p) for p in self.problems))


class Problems:
    """Collects problems while work goes on; `raise_if_any` ends it."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, path: str, line: int, message: str, way_out: str = "") -> None:
        self._found.append(Problem(path, line, message, way_out))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Take in the problems of a `LiterateError` raised inside, and go on."""
        try:
            yield
        except LiterateError as error:
            self._found.extend(error.problems)

    @property
    def error(self) -> LiterateError:
        """All that was collected, as one error."""
        return LiterateError(self._found)

    def lines_of(self, path: str) -> list[int]:
        """The lines of a file at which something is wrong."""
        return [problem.line for problem in self._found if problem.path == path]

    def raise_if_any(self) -> None:
        if self._found:
            raise self.error

    def __len__(self) -> int:
        return len(self._found)
