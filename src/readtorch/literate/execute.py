"""Runs the book: every part from top to bottom, every claim on both libraries.

`execute` is what the weaver calls, `readtorch run` its command line. A part runs in a forked child (`zygote`, `shell`, `plain`),
parts in parallel; what has run before and depends on nothing that changed comes from the cache. Whatever goes wrong in any part is
listed together, by chapter and line. How it works from a reader's side: docs/reference/running.md.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from readtorch.literate.build import check_package
from readtorch.literate.cache import (
    EXECUTOR,
    Package,
    Store,
    code_digest,
    combined,
    data_digest,
    default_location,
    recorder_digest,
    versions,
)
from readtorch.literate.chapter import Book, Cell, Part
from readtorch.literate.choice import chosen_parts
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.evidence import (
    EvidenceResult,
    Examiner,
    Outcome,
    check_facts,
    claims,
    environment,
    evidence_of,
    problems_of,
    run_by_stage,
    stage,
    summary,
)
from readtorch.literate.extras import is_installed, require
from readtorch.literate.outputs import Normaliser
from readtorch.literate.tangle import tangle
from readtorch.literate.trace_places import MIME, resolve
from readtorch.literate.zygote import Task, Zygote

LIMIT = 180.0
"""Seconds a cell may take before its part is ended."""

Progress = Callable[["Event"], None]


@dataclass(frozen=True)
class Event:
    """For `on_progress`: `part` has begun cell `cell` (of `cells`), or is "cached", "done" or "failed".

    In the state "claims", `cell` of `cells` runs of claims are done, the last one that of the claim at `part` ("" before the first);
    what is known to hold is not run. "weaving": everything has run, and the pages are made.
    """

    part: str
    state: str
    cell: int = 0
    cells: int = 0


@dataclass
class CellResult:
    """`outputs` are nbformat 4 output dicts. `skipped` says why the cell was not run; `problem` what went wrong."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    evidence: EvidenceResult | None = None
    skipped: str = ""
    problem: Problem | None = None


@dataclass
class PartResult:
    """`digest` stands for the code that ran, the chapter's and the package's; `cells` by index in the part."""

    part: str
    digest: str
    device: str
    versions: dict[str, str]
    cells: dict[int, CellResult]
    cached: bool = False
    seconds: float = 0.0

    @property
    def finished(self) -> bool:
        """Whether the part came to its end; its process may have died before."""
        return bool(self.digest)

    @property
    def problems(self) -> list[Problem]:
        return [cell.problem for cell in self.cells.values() if cell.problem is not None]


def execute(
    book: Book,
    parts: Iterable[Part] | None = None,
    *,
    cache: Path | None,
    device: str = "cpu",
    jobs: int | None = None,
    on_progress: Progress | None = None,
    faults: list[Problem] | None = None,
) -> dict[str, PartResult]:
    """Run `parts` (default: all) and their evidence; results by part name. `cache=None` runs everything.

    Raises one LiterateError with every unexpected error of every part; where `faults` is given, they are added to it instead.
    """
    chosen = list(book.parts if parts is None else parts)
    executor = Executor(book, store=None if cache is None else Store(cache), device=device, jobs=jobs)
    results = executor.run(chosen, on_progress)
    executor.examine(chosen, results, on_progress)
    problems = Problems()
    check_facts(chosen, problems)
    found = [problem for result in results.values() for problem in result.problems]
    with problems.collecting():
        if found:
            raise LiterateError(found)
    if faults is None:
        problems.raise_if_any()
    else:
        faults += problems.error.problems
    return results


class Executor:
    """One run over the book. `package` is the folder of the readtorch that the chapters import (default: this one).

    `limit` is for a cell, `part_limit` for a part, in seconds; `until` (of `time.monotonic`) for everything. `default_device` is
    where tensors are put that name none.
    """

    def __init__(
        self,
        book: Book,
        *,
        store: Store | None = None,
        device: str = "cpu",
        jobs: int | None = None,
        package: Path | None = None,
        libraries: tuple[str, ...] = ("readtorch", "torch"),
        ipython: bool = True,
        limit: float = LIMIT,
        default_device: str = "",
        part_limit: float = math.inf,
        until: float = math.inf,
    ) -> None:
        self.default_device = default_device
        self.part_limit = part_limit
        self.until = until
        self.book = book
        self.store = store
        self.device = device
        self.jobs = jobs or os.cpu_count() or 1
        self.package = Package(package or Path(__file__).resolve().parents[1])
        self.libraries = libraries
        self.ipython = ipython
        self.limit = limit
        self.versions = versions(device)

    def run(self, parts: list[Part], on_progress: Progress | None = None) -> dict[str, PartResult]:
        """Run the parts' cells. Problems stay in the results."""
        progress = on_progress or (lambda event: None)
        results = self._from_store(parts, progress)
        missing = [part for part in parts if part.name not in results]
        if missing:
            with ExitStack() as stack:
                if self.store is not None:
                    for name in sorted(part.name for part in missing):  # in one order, so that two builds cannot block
                        stack.enter_context(self.store.locked(name))
                    results |= self._from_store(missing, progress)  # another build may have been faster
                missing = [part for part in parts if part.name not in results]
                results |= self._run_now(missing, progress)
        self._resolve_traces(parts, results)
        return {part.name: results[part.name] for part in parts}

    def _resolve_traces(self, parts: list[Part], results: dict[str, PartResult]) -> None:
        found = [
            (part, output["data"][MIME])
            for part in parts
            for cell in results[part.name].cells.values()
            for output in cell.outputs
            if MIME in output.get("data", ())
        ]
        if found:
            by_path = {part.path: part for part in self.book.parts}
            files = tangle(self.book)
            for part, document in found:
                resolve(document, part, by_path, files)

    def examine(self, parts: list[Part], results: dict[str, PartResult], on_progress: Progress | None = None) -> None:
        """Add the evidence to the results."""
        examiner = self.examiner()
        progress = on_progress or (lambda event: None)

        def ran(place: str, done: int, of: int) -> None:
            progress(Event(place, "claims", done, of))

        outcomes = examiner.examine((cell for part in parts for cell in claims(part)), on_run=ran)
        for part in parts:
            for cell in part.code_cells:
                evidence = evidence_of(cell, outcomes.get((cell.part, cell.index)), examiner.versions)
                if evidence is not None:
                    result = results[part.name].cells.setdefault(cell.index, CellResult())
                    result.evidence = evidence
                    for problem in problems_of(cell, evidence):
                        result.problem = problem

    def examiner(self) -> Examiner:
        return Examiner(
            root=self.book.root,
            package=self.package.folder,
            store=self.store,
            chapters=self.book.chapters,
            device=self.device,
            libraries=self.libraries,
            jobs=self.jobs,
        )

    def _key(self, part: Part) -> str:
        present = sorted({need for cell in part.code_cells for need in cell.needs if need in self.book.chapters})
        ours = [EXECUTOR, recorder_digest(part), self.ipython, *([self.default_device] if self.default_device else [])]
        return combined(ours, code_digest(part), self.versions, self.device, present, self._data)

    @cached_property
    def _data(self) -> str:
        return data_digest(self.book.root / "chapters")

    def _from_store(self, parts: list[Part], progress: Progress) -> dict[str, PartResult]:
        results = {}
        for part in parts if self.store is not None else []:
            assert self.store is not None
            entry = self.store.find(part.name, self._key(part), self.package)
            if entry is not None:
                results[part.name] = self._result(part, entry["cells"], entry["digest"], entry["seconds"], cached=True)
                progress(Event(part.name, "cached"))
        return results

    def _run_now(self, parts: list[Part], progress: Progress) -> dict[str, PartResult]:
        if not parts:
            return {}
        by_name = {part.name: part for part in parts}
        at: dict[str, dict[str, Any]] = {}
        begun: dict[str, float] = {}
        told: dict[str, Part] = {}
        results = {}
        preload = ["numpy", "readtorch", "readtorch.literate.shell", "readtorch.literate.plain"]
        if self.ipython:
            preload.append("IPython.core.interactiveshell")
        if any("matplotlib" in part.text for part in parts):
            preload.append("readtorch.literate.figures")
        folder = self.book.root / "chapters"
        with Zygote(preload, environment=environment(self.package.folder), folder=folder) as zygote:
            side_by_side: list[tuple[int, Task]] = []
            on_the_gpu: list[Task] = []  # times of one part must not be another's
            for p in parts:
                task = Task(
                    p.name, "readtorch.literate.shell:run_part", self._arguments(p), self.limit, self.part_limit
                )
                if self.device == "cuda" and any(c.has("gpu") for c in p.code_cells):
                    on_the_gpu.append(task)
                else:
                    code = "\n".join(cell.code for cell in p.code_cells)
                    side_by_side.append((stage(p.name, code), task))
            for event in chain(
                run_by_stage(zygote, side_by_side, self.jobs, self.until), zygote.run(on_the_gpu, 1, self.until)
            ):
                part = by_name[event.task.key]
                if event.kind == "progress":
                    begun.setdefault(part.name, time.perf_counter())
                    at[part.name] = event.data
                    progress(Event(part.name, "running", event.data["cell"], len(part.cells)))
                    continue
                seconds = time.perf_counter() - begun.get(part.name, time.perf_counter())
                if event.kind == "done":
                    cells = {int(index): run for index, run in event.data["cells"].items()}
                    results[part.name] = self._finished(part, cells, event.data["modules"], seconds)
                else:
                    first = told.setdefault(event.reason, part) if event.kind == "failed" else part
                    reason = event.reason if first is part else f"could not be started, as {first.path}"
                    results[part.name] = self._broken(part, at.get(part.name), reason, event.where)
                progress(Event(part.name, "failed" if results[part.name].problems else "done"))
        return results

    def _arguments(self, part: Part) -> dict[str, Any]:
        return {
            "root": str(self.book.root),
            "name": part.name,
            "path": part.path,
            "text": part.text,
            "chapters": self.book.chapters,
            "device": self.device,
            "default_device": self.default_device,
            "ipython": self.ipython,
        }

    def _finished(self, part: Part, cells: dict[int, dict[str, Any]], modules: list[str], seconds: float) -> PartResult:
        digests = self.package.digests(modules)
        digest = combined(code_digest(part), digests)
        result = self._result(part, cells, digest, seconds)
        if self.store is not None and not result.problems:
            stored = {str(index): run for index, run in cells.items()}
            value = {"cells": stored, "digest": digest, "seconds": seconds}
            self.store.keep(part.name, self._key(part), digests, value)
        return result

    def _result(
        self, part: Part, cells: dict[Any, dict[str, Any]], digest: str, seconds: float, *, cached: bool = False
    ) -> PartResult:
        done: dict[int, CellResult] = {}
        failed: list[Cell] = []
        seen: set[str] = set()  # an import that fails fails in many cells
        for cell in part.code_cells:
            run = cells.get(cell.index, cells.get(str(cell.index)))
            if run is None:
                continue
            problem = None
            if run["fault"]:
                if run["fault"] not in seen and not _follows(run["missing"], failed):
                    problem = Problem(part.path, run["line"], self._with_places(run["fault"]))
                seen.add(run["fault"])
                failed.append(cell)
            done[cell.index] = CellResult(run["outputs"], run["seconds"], None, run["skipped"], problem)
        return PartResult(part.name, digest, self.device, self.versions, done, cached, seconds)

    def _with_places(self, text: str) -> str:
        """The traceback's frames in the package with their place in the book."""
        if not _FRAME.search(text):
            return text
        try:
            files = tangle(self.book)
        except LiterateError:
            return text

        def with_place(match: re.Match[str]) -> str:
            lines = files[match["file"]].lines if match["file"] in files else ()
            number = int(match["line"])
            line = lines[number - 1] if number <= len(lines) else None
            if line is None or line.part_path is None:
                return match[0]
            return f"{match[0]}  → {line.part_path}:{line.chapter_line}"

        return _FRAME.sub(with_place, text)

    def _broken(self, part: Part, at: dict[str, Any] | None, reason: str, where: str) -> PartResult:
        """A part whose process ended: the fault belongs to the cell that was running."""
        index, line, file = (at["cell"], at["line"], at["file"]) if at else (0, 0, "")
        inside = re.search(rf'File "{re.escape(file)}", line (\d+)', where) if file else None
        if inside:
            line = line + int(inside[1]) - 1
        if at:
            message = f"the cell {reason}"
        elif "\n" not in reason:
            message = reason
        else:
            last = reason.rstrip().split("\n")[-1]
            trace = "\n".join("    " + text for text in reason.rstrip().split("\n"))
            message = self._with_places(Normaliser(self.book.root).text(f"could not be started: {last}\n{trace}"))
        problem = Problem(part.path, line, message)
        cells = {index: CellResult(problem=problem)}
        return PartResult(part.name, "", self.device, self.versions, cells)


_FRAME = re.compile(r'File "(?:src|site-packages)/readtorch/(?P<file>[^"]+)", line (?P<line>\d+)(?:, in .*)?')


def _follows(missing: str, failed: list[Cell]) -> bool:
    """Whether a NameError about `missing` only repeats that a cell above failed which would have defined it."""
    return bool(missing) and any(re.search(rf"\b{re.escape(missing)}\b", cell.code) for cell in failed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="*", help="chapters or parts (default: all)")
    parser.add_argument("--jobs", type=int, default=None, metavar="N", help="parts at a time (default: one per core)")
    parser.add_argument("--no-cache", action="store_true", help="run everything, keep nothing")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="run `gpu` cells too (default: cpu)")
    parser.add_argument("--no-claims", action="store_true", help="only the cells, not the claims")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="S", help=f"seconds a cell may take ({LIMIT:g})")


def run(args: argparse.Namespace) -> int:
    from readtorch.literate.terminal import Tally

    book = Book.load()
    parts = chosen_parts(book, args.chapter)
    refuse_stale_package(book)
    if any("matplotlib" in part.text for part in parts):
        require("readtorch run", ("matplotlib",))
    store = None if args.no_cache else Store(default_location(book.root))
    ipython = is_installed("IPython")  # without it values are shown by `plain`, in the same words
    executor = Executor(book, store=store, device=args.device, jobs=args.jobs, limit=args.limit, ipython=ipython)
    begin = time.perf_counter()
    with Tally(len(parts), "parts") as tally:

        def show(event: Event) -> None:
            if event.state == "running":
                tally.now(f"{event.part} {event.cell + 1}/{event.cells}")
            else:
                tally.step(event.part)

        results = executor.run(parts, show)
    if not args.no_claims:
        executor.examine(parts, results)
    problems = Problems()
    for part in parts:
        print(_line(results[part.name]))
        for problem in results[part.name].problems:
            problems.add(problem.path, problem.line, problem.message, problem.way_out)
    check_facts(parts, problems)
    evidence = [cell.evidence for result in results.values() for cell in result.cells.values()]
    found = [e for e in evidence if e is not None and e.kind == "claim"]
    if found:
        print(summary(found, executor.examiner().versions))
    print(f"{len(parts)} {'part' if len(parts) == 1 else 'parts'} in {time.perf_counter() - begin:.1f} s")
    problems.raise_if_any()
    return 0


def refuse_stale_package(book: Book) -> None:
    """In a checkout, cells that are tangled come from `src/`: LiterateError where that is not what the chapters say."""
    if book.package == Path(__file__).resolve().parents[1]:
        check_package(book, tangle(book))


def _line(result: PartResult) -> str:
    skipped: dict[str, int] = {}
    for cell in result.cells.values():
        if cell.skipped:
            skipped[cell.skipped] = skipped.get(cell.skipped, 0) + 1
    state = "FAILED" if result.problems else "cached" if result.cached else f"{result.seconds:.1f} s"
    notes = "".join(f"; {count} cells skipped: {why}" for why, count in sorted(skipped.items()))
    return f"{result.part}: {state}{notes}"


__all__ = ["CellResult", "Event", "Executor", "Outcome", "PartResult", "execute"]
