"""pytest's collectors and items for chapters (see `pytest_plugin`).

A part is run once for all its items, by the executor the weaver uses and with its cache; without xdist all selected parts are run
together when the first of their items is reached, with it each worker runs the parts it was given.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from readtorch.literate.cache import Store, default_location
from readtorch.literate.chapter import ORDER, Book, Cell, Part
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.evidence import LIBRARIES, EvidenceResult, Outcome, claims, evidence_of, problems_of
from readtorch.literate.execute import Executor, PartResult

_RUNS = pytest.StashKey[dict[Path, "BookRun"]]()


class BookRun:
    """The book below one root in one pytest session."""

    def __init__(self, root: Path, config: pytest.Config) -> None:
        self.root = root
        self.config = config
        self.whole = Book.load(root)
        self.as_of: str | None = config.getoption("--as-of")
        if self.as_of is not None and self.as_of not in self.whole.chapters:
            raise pytest.UsageError(f"--as-of: no chapter {self.as_of!r}; there are {', '.join(self.whole.chapters)}")
        self.book = self.whole if self.as_of is None else self.whole.as_of(self.as_of)
        self.items: list[ChapterItem] = []
        self._results: dict[str, PartResult] = {}
        self._evidence: dict[tuple[str, int], EvidenceResult] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def part(self, path: Path) -> Part | None:
        """The part in that file, None for a file that is none, or (with --as-of) that of another chapter."""
        for part in self.book.parts:
            if (self.root / part.path) == path and (self.as_of is None or part.chapter == self.as_of):
                return part
        return None

    @cached_property
    def executor(self) -> Executor:
        package: Path | None = None
        if self.as_of is not None:
            self._folder = tempfile.TemporaryDirectory(prefix="readtorch-as-of-")
            package = build(self.book, Path(self._folder.name))
        elif (self.root / "src" / "readtorch").is_dir():
            package = self.root / "src" / "readtorch"
        return Executor(
            self.book,
            store=Store(default_location(self.root)),
            device=self.device,
            package=package,
            libraries=("readtorch",) if self.as_of else LIBRARIES,
        )

    @cached_property
    def device(self) -> str:
        chosen = self.config.getoption("--book-device")
        if chosen != "auto":
            return str(chosen)
        wanted = any(cell.has("gpu") for item in self._selected() for cell in item.cells)
        return "cuda" if wanted and has_gpu() else "cpu"

    def _selected(self) -> list[ChapterItem]:
        return [item for item in self.config.stash[_SELECTED] if item.run is self]

    def result(self, part: Part) -> PartResult:
        """What became of `part`; runs it, and with it what else is selected."""
        if part.name not in self._results:
            together = [part]
            if not hasattr(self.config, "workerinput"):
                names = {item.part.name for item in self._selected() if not isinstance(item, ClaimItem)}
                together = [p for p in self.book.parts if p.name in names or p.name == part.name]
            self._results |= self.executor.run(together)
        return self._results[part.name]

    def evidence(self, cell: Cell) -> EvidenceResult:
        key = (cell.part, cell.index)
        if key not in self._evidence:
            wanted = {
                (c.part, c.index): c for item in self._selected() if isinstance(item, ClaimItem) for c in item.cells
            }
            wanted[key] = cell
            examiner = self.executor.examiner()
            outcomes = examiner.examine(wanted.values())
            for place, one in wanted.items():
                found = evidence_of(one, outcomes[place], examiner.versions)
                assert found is not None
                self._evidence[place] = found
        return self._evidence[key]


_SELECTED = pytest.StashKey[list["ChapterItem"]]()


def build(book: Book, folder: Path) -> Path:
    """Write the tangled package of `book` below `folder`, with the tools beside it; returns the package's folder."""
    from readtorch.literate.tangle import tangle

    package = folder / "readtorch"
    for path, file in tangle(book).items():
        target = package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.text, encoding="utf-8")
    package.mkdir(exist_ok=True)
    (package / "literate").symlink_to(Path(__file__).resolve().parent)
    return package


def has_gpu() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # no CuPy, no driver, no device: each raises something else
        return False


def part_file(file: Path, parent: pytest.Collector) -> PartFile | None:
    """The collector for a chapter's file, None where it is none or is not asked for."""
    chapters = next((p for p in file.parents if p.name == "chapters"), None)
    if chapters is None or file.relative_to(chapters).parts[0].removesuffix(".py") not in ORDER:
        return None
    config = parent.config
    runs = config.stash.setdefault(_RUNS, {})
    root = chapters.parent
    if root not in runs:
        try:
            runs[root] = BookRun(root, config)
        except LiterateError as error:
            raise pytest.Collector.CollectError(str(error)) from None
        config.pluginmanager.register(_Selection(), None)
    part = runs[root].part(file)
    if part is None:
        return None
    collected = PartFile.from_parent(parent, path=file)
    collected.run, collected.part = runs[root], part
    return collected


class _Selection:
    """Remembers which items of chapters are to run."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        session.config.stash[_SELECTED] = [item for item in session.items if isinstance(item, ChapterItem)]


class PartFile(pytest.File):
    run: BookRun
    part: Part

    def collect(self) -> Iterator[ChapterItem]:
        used: dict[str, int] = {}
        for kind, name, cells in self._plan():
            used[name] = used.get(name, 0) + 1
            unique = name if used[name] == 1 else f"{name} #{used[name]}"
            if kind is not ClaimItem:
                yield self._item(kind, unique, cells)
                continue
            for library in LIBRARIES if self.run.as_of is None else LIBRARIES[:1]:
                item = self._item(kind, f"{unique}[{library}]", cells)
                item.library = library
                if library == "torch":
                    item.add_marker("torch")
                yield item

    def _plan(self) -> Iterator[tuple[Any, str, list[Cell]]]:
        own = [c for c in self.part.code_cells if not any(c.has(k) for k in ("test", "claim", *_EXERCISE))]
        yield RunsItem, "runs", own
        for cell in self.part.code_cells:
            if cell.has("test"):
                function = next((name for name in cell.defines if name.startswith("test_")), None)
                yield TestItem, f"test: {function or self.part.ids[cell.index]}", [cell]
            elif cell.has("exercise"):
                name = cell.get("exercise")
                yield ExerciseItem, f"exercise: {name}", [c for c in self.part.code_cells if _of_exercise(c, name)]
        for cell in claims(self.part):
            yield ClaimItem, f"claim: {(cell.get('claim') or '').replace('::', ':')}", [cell]

    def _item(self, kind: Any, name: str, cells: list[Cell]) -> Any:
        item = kind.from_parent(self, name=name)
        item.run, item.part, item.cells = self.run, self.part, cells
        group = "claims" if kind is ClaimItem else self.part.name
        if self.config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(group))
        if cells and all(cell.has("gpu") for cell in cells):
            item.add_marker("gpu")
        return item


_EXERCISE = ("exercise", "solution", "check")


def _of_exercise(cell: Cell, name: str | None) -> bool:
    return any(cell.get(key) == name for key in _EXERCISE) and name is not None


class BookFault(Exception):
    """Problems of the book, shown as they are."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))


class ChapterItem(pytest.Item):
    """`cells` are those that the item is about."""

    run: BookRun
    part: Part
    cells: list[Cell]

    def runtest(self) -> None:
        result = self.run.result(self.part)
        problems = [p for index, p in self._problems(result) if self._is_mine(index)]
        if problems:
            raise BookFault(problems)
        self._say_skipped(result)

    def _problems(self, result: PartResult) -> list[tuple[int, Problem]]:
        return [(index, cell.problem) for index, cell in result.cells.items() if cell.problem is not None]

    def _is_mine(self, index: int) -> bool:
        return any(cell.index == index for cell in self.cells)

    def _say_skipped(self, result: PartResult) -> None:
        """Skip the item if none of its cells was run, with the reason; fail if the part never reached them."""
        reached = [result.cells[cell.index] for cell in self.cells if cell.index in result.cells]
        if not reached:
            raise BookFault(p for _, p in self._problems(result))
        if all(cell.skipped for cell in reached):
            pytest.skip(reached[0].skipped)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, BookFault | LiterateError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        return self.path, (self.cells[0].line - 1 if self.cells else 0), self.name


class RunsItem(ChapterItem):
    """The part runs from top to bottom; what its tests and exercises find is theirs."""

    def runtest(self) -> None:
        result = self.run.result(self.part)
        theirs = {c.index for c in self.part.code_cells if c.has("test") or any(c.has(k) for k in _EXERCISE)}
        ended = [p for i, p in self._problems(result) if not result.finished or i not in theirs]
        if ended:
            raise BookFault(ended)


class TestItem(ChapterItem):
    """One `test` cell."""

    __test__ = False


class ExerciseItem(ChapterItem):
    """The solution passes the check, and the stub does not."""

    def runtest(self) -> None:
        for key in ("solution", "check"):
            if not any(cell.has(key) for cell in self.cells):
                name = self.cells[0].get("exercise")
                place = self.cells[0]
                raise BookFault([Problem(place.path, place.line, f"exercise {name!r} has no {key}")])
        super().runtest()


class ClaimItem(ChapterItem):
    """One claim on one library."""

    library: str

    def runtest(self) -> None:
        cell = self.cells[0]
        result = self.run.evidence(cell)
        outcome = result.details.get(self.library, Outcome("not-run"))
        if outcome.state == "not-run":
            pytest.skip(outcome.detail)
        if result.differs:
            if not result.cross_checked:
                pytest.skip("a difference cannot be checked on one library")
            found = problems_of(cell, result)
        else:
            others = {name: o for name, o in result.details.items() if name == self.library or o.state != "failed"}
            alone = EvidenceResult(
                "claim",
                result.sentence,
                outcome.state if self.library == "readtorch" else "not-run",
                outcome.state if self.library == "torch" else "not-run",
                result.versions,
                "",
                others,
            )
            found = problems_of(cell, alone)
        if found:
            raise BookFault(found)
