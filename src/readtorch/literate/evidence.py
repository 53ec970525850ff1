"""What a statement in the book rests on: claims, facts, sources.

A **claim** is a function of `torch`, run once with `torch = readtorch` and once with the real PyTorch where that is installed. Each
run has a forked process of its own, in which every generator starts from the same seed and nothing is left from the chapter or from
another claim; a claim therefore sees only its own cell. It holds if the function returns. A **fact** is a name, path or order that
the fact base knows. A **source** is where to read on.

`readtorch claims [CHAPTER]` runs the claims on the reader's own PyTorch, of whatever version.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import linecache
import math
import os
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from readtorch.literate import facts
from readtorch.literate.cache import EXECUTOR, Package, Store, combined, default_location, versions
from readtorch.literate.chapter import Book, Cell, Part
from readtorch.literate.choice import chosen_parts
from readtorch.literate.errors import Problem, Problems
from readtorch.literate.facts import RELEASE
from readtorch.literate.upstream import installed_torch, installed_version
from readtorch.literate.zygote import Event, Task, Zygote

State = Literal["held", "failed", "not-run"]
LIBRARIES = ("readtorch", "torch")
LIMIT = 120.0
"""Seconds a claim may take."""


@dataclass(frozen=True)
class Outcome:
    """A claim on one library. `detail` says why it failed or was not run, `line` (of the chapter) where."""

    state: State
    detail: str = ""
    line: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class EvidenceResult:
    """The evidence of one cell. `ours` and `upstream` are "not-run" unless it is a claim."""

    kind: Literal["claim", "fact", "source"]
    sentence: str
    ours: State
    upstream: State
    versions: dict[str, str] = field(default_factory=dict)
    differs: str = ""
    details: dict[str, Outcome] = field(default_factory=dict)

    @property
    def fault(self) -> str:
        """What is wrong, or "". A claim holds on both libraries; with `differs:` on exactly one of them."""
        if self.kind != "claim":
            return ""
        if self.differs:
            if self.ours == self.upstream == "held":
                return "says `differs:`, and holds on both libraries"
            if self.ours == self.upstream == "failed":
                return "says `differs:`, and fails on both libraries"
            return ""
        failed = [name for name, state in zip(LIBRARIES, (self.ours, self.upstream), strict=True) if state == "failed"]
        return f"does not hold on {' and '.join(failed)}" if failed else ""

    @property
    def not_run(self) -> str:
        """Why readtorch has not been tried on a claim though it might be, "" if it has."""
        outcome = self.details.get("readtorch")
        waits = outcome is not None and outcome.state == "not-run" and not self.fault
        return outcome.detail if waits and outcome is not None else ""

    @property
    def cross_checked(self) -> bool:
        return "not-run" not in (self.ours, self.upstream)


def claims(part: Part) -> list[Cell]:
    return [cell for cell in part.code_cells if cell.has("claim")]


def malformed(cell: Cell) -> str:
    """Why this cell is no claim that could fail, or ""."""
    functions = [node for node in cell.tree.body if isinstance(node, ast.FunctionDef) and node.name == "_"]
    if len(functions) != 1 or len(functions[0].args.args) != 1 or functions[0].args.args[0].arg != "torch":
        return "a claim is one function `def _(torch): …`"
    if not any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(functions[0])):
        return "this claim asserts nothing, so it could not fail"
    return ""


def run_claim(arguments: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Task of a forked child: run one claim on one library."""
    from time import perf_counter

    from readtorch.literate.asserts import explain_asserts
    from readtorch.literate.plain import seed_everything
    from readtorch.literate.shell import loaded_modules

    library = importlib.import_module(arguments["library"])
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    sys.stderr = sys.stdout
    file, line = arguments["path"], arguments["line"]
    source = arguments["code"]
    linecache.cache[file] = (0, None, ["\n"] * (line - 1) + [text + "\n" for text in source.split("\n")], file)
    tree = ast.increment_lineno(ast.parse(source), line - 1)
    begin = perf_counter()
    outcome: dict[str, Any] = {"state": "held"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            namespace: dict[str, Any] = {"__name__": "__claim__"}
            exec(compile(explain_asserts(tree), file, "exec", dont_inherit=True), namespace)
            seed_everything()
            namespace["_"](library)
    except BaseException as error:
        needed = missing_package(error)
        outcome = (
            {"state": "not-run", "detail": needed}
            if needed
            else {"state": "failed", "line": _line_in(error, file), "detail": _described(error, file)}
        )
    outcome["seconds"] = perf_counter() - begin
    modules = loaded_modules() if arguments["library"] == "readtorch" else []
    return {"outcome": outcome, "modules": modules}


def _line_in(error: BaseException, file: str) -> int:
    steps = [step.lineno for step in traceback.extract_tb(error.__traceback__) if step.filename == file]
    return (steps[-1] if steps else 0) or 0


_NEEDS = re.compile(r"(?:torch\.)?(?P<what>\w+) needs the package (?P<package>\w+): (?P<install>pip install .+)")


def missing_package(error: BaseException) -> str:
    """What the library says to lack where a claim ended so, "" for every other end: the claim has not been tried then.

    Only where the package is missing indeed: what else says so is a fault.
    """
    from readtorch.literate.extras import is_installed

    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        found = _NEEDS.match(str(at))
        if found is not None and not is_installed(found["package"]):
            return f"needs {found['what']} (pip install {found['package']}, or {found['install']})"
        seen.append(at)
        at = at.__cause__ or at.__context__
    return ""


def _described(error: BaseException, file: str) -> str:
    """The error in one or a few lines, with the frames below the claim."""
    head = "".join(traceback.format_exception_only(type(error), error)).strip()
    if isinstance(error, NameError):
        head += "\n(a claim sees only its own cell: import there what it needs)"
    steps = traceback.extract_tb(error.__traceback__)
    first = next((n for n, step in enumerate(steps) if step.filename == file), len(steps))
    below = [f"  at {_short(step.filename)}:{step.lineno} in {step.name}" for step in steps[first + 1 :]]
    return "\n".join([head, *below[-4:]])


def _short(file: str) -> str:
    for name in LIBRARIES:
        _, mark, tail = file.rpartition(f"/{name}/")
        if mark:
            return f"{name}/{tail}"
    return os.path.basename(file)


class Examiner:
    """Runs claims, both libraries side by side, and remembers what held.

    `package` is the folder of the readtorch that is examined; `device` decides whether `gpu` claims run; `chapters` whether those
    that need another chapter do.
    """

    def __init__(
        self,
        *,
        root: Path,
        package: Path,
        store: Store | None,
        chapters: tuple[str, ...],
        device: str = "cpu",
        libraries: tuple[str, ...] = LIBRARIES,
        jobs: int = 2,
    ) -> None:
        self.root = root
        self.package = Package(package)
        self.store = store
        self.chapters = chapters
        self.device = device
        self.jobs = jobs
        torch = installed_torch()
        self.torch_version = installed_version(torch) if torch is not None else ""
        self.libraries = tuple(name for name in libraries if name == "readtorch" or self.torch_version)
        self.versions = {"readtorch": _readtorch_version(), "torch": self.torch_version}

    def examine(
        self,
        cells: Iterable[Cell],
        on_result: Callable[[Cell, str, Outcome], None] = lambda *_: None,
        on_run: Callable[[str, int, int], None] = lambda *_: None,
    ) -> dict[tuple[str, int], dict[str, Outcome]]:
        """The outcome of each claim by (part, cell index) and library.

        `on_result` hears of each. `on_run` of those alone that had to be run: first of none, then of each the place, and how many of
        how many are done.
        """
        found: dict[tuple[str, int], dict[str, Outcome]] = {}
        tasks: dict[str, list[tuple[int, Task]]] = {name: [] for name in LIBRARIES}
        places: dict[str, Cell] = {}

        def settle(cell: Cell, library: str, outcome: Outcome) -> None:
            found[cell.part, cell.index][library] = outcome
            on_result(cell, library, outcome)

        for cell in cells:
            found[cell.part, cell.index] = {}
            for library in LIBRARIES:
                known = self._without_running(cell, library)
                if known is not None:
                    settle(cell, library, known)
                    continue
                key = f"{library} {cell.path}:{cell.line}"
                places[key] = cell
                arguments = {"library": library, "path": cell.path, "line": cell.code_line, "code": cell.code}
                task = Task(key, "readtorch.literate.evidence:run_claim", arguments, LIMIT)
                tasks[library].append((stage(cell.part, cell.code), task))

        def finish(library: str, event: Event) -> None:
            if event.kind == "progress":
                return
            cell = places[event.task.key]
            if event.kind == "done":
                outcome = Outcome(**event.data["outcome"])
                if outcome.state == "held":
                    self._remember(cell, library, outcome, event.data["modules"])
            else:
                outcome = Outcome("failed", f"{event.reason}\n{event.where}".rstrip(), cell.first_line)
            with lock:
                settle(cell, library, outcome)
                runs.append(library)
                on_run(f"{cell.path}:{cell.line}, on {library}", len(runs), wanted)

        def examine_on(library: str) -> None:
            preload = ["numpy", "readtorch.literate.shell", "readtorch.literate.asserts", library]
            folder = self.root / "chapters"
            with Zygote(preload, environment=environment(self.package.folder), folder=folder) as zygote:
                for event in run_by_stage(zygote, tasks[library], max(1, self.jobs // len(libraries))):
                    finish(library, event)

        lock = Lock()
        runs: list[str] = []
        libraries = [library for library in LIBRARIES if tasks[library]]
        wanted = sum(map(len, tasks.values()))
        if wanted:
            on_run("", 0, wanted)
        with ThreadPoolExecutor(len(LIBRARIES)) as pool:
            list(pool.map(examine_on, libraries))
        return found

    def _without_running(self, cell: Cell, library: str) -> Outcome | None:
        if library not in self.libraries:
            reason = "torch is not installed" if library == "torch" and not self.torch_version else "not asked for"
            return Outcome("not-run", reason)
        if cell.has("gpu") and self.device != "cuda":
            return Outcome("not-run", "needs a CUDA device")
        for chapter in cell.needs:
            if library == "readtorch" and chapter not in self.chapters:
                return Outcome("not-run", f"needs chapter {chapter}")
        wrong = malformed(cell)
        if wrong:
            return Outcome("failed", wrong, cell.directive_line("claim"))
        entry = (
            None if self.store is None else self.store.find(self._name(library), self._key(cell, library), self.package)
        )
        return None if entry is None else Outcome(**entry)

    def _remember(self, cell: Cell, library: str, outcome: Outcome, modules: list[str]) -> None:
        if self.store is not None:
            key = self._key(cell, library)
            self.store.keep(self._name(library), key, self.package.digests(modules), asdict(outcome), most=4000)

    def _name(self, library: str) -> str:
        return f"claims-{library}"

    def _key(self, cell: Cell, library: str) -> str:
        return combined(
            EXECUTOR, cell.code, library, self.versions["torch"] if library == "torch" else "", versions(self.device)
        )


def _readtorch_version() -> str:
    from readtorch.literate._version import __version__

    return __version__


def environment(package: Path) -> dict[str, str]:
    """What a child sees: the given package first, one BLAS thread, a fixed hash seed, no colours, figures below their cells."""
    first = str(package.parent)
    inherited = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != first]
    fixed = {
        "PYTHONPATH": os.pathsep.join([first, *inherited]),
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://readtorch.literate.figures",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "80",
        "READTORCH_EXECUTOR": "1",
    }
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    dropped = ("PYTHONWARNINGS", "PYTHONSTARTUP", "FORCE_COLOR", "CLICOLOR_FORCE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**threads, **kept, **fixed}


STAGES = ((), ("readtorch:Tensor",), ("readtorch.nn",))
"""What children share besides the bare package, stage by stage, each on top of the one before: `import readtorch` alone, the ground
floor (a quarter of a second), the layers. What a child shares counts as used by it, so none is given more than it is bound to load.
"""


def stage(part: str, code: str) -> int:
    """The stage for `code` of this part. How importing goes is the subject of chapter 1: it begins with nothing imported."""
    if part.split("/")[0] == "01_import":
        return 0
    return 2 if re.search(r"\bnn\b", code) else 1


def run_by_stage(
    zygote: Zygote, tasks: Iterable[tuple[int, Task]], jobs: int, until: float = math.inf
) -> Iterator[Event]:
    """`zygote.run`, stage after stage: (stage, task)."""
    waiting = sorted(tasks, key=itemgetter(0))
    for number, preload in enumerate(STAGES):
        if preload:
            zygote.preload(preload)
        yield from zygote.run([task for at, task in waiting if at == number], jobs, until)


def evidence_of(
    cell: Cell, outcomes: dict[str, Outcome] | None, found_versions: dict[str, str]
) -> EvidenceResult | None:
    """The evidence that a cell brings, None if it brings none."""
    differs = cell.get("differs") or ""
    if cell.has("claim"):
        outcomes = outcomes or {}
        ours, upstream = (outcomes.get(name, Outcome("not-run")).state for name in LIBRARIES)
        used = {name: found_versions[name] for name in LIBRARIES if found_versions.get(name)}
        return EvidenceResult("claim", cell.get("claim") or "", ours, upstream, used, differs, outcomes)
    for kind in ("fact", "source"):
        values = cell.get_all(kind)
        if values:
            return EvidenceResult(kind, "; ".join(values), "not-run", "not-run")
    return None


def problems_of(cell: Cell, result: EvidenceResult) -> list[Problem]:
    """Faults of one claim, at the line where it failed."""
    if not result.fault:
        return []
    lines = [f"the claim {result.fault}: {result.sentence}"]
    line = cell.directive_line("differs" if result.differs else "claim")
    for library in LIBRARIES:
        outcome = result.details.get(library)
        if outcome is not None and outcome.state == "failed":
            if outcome.line and not result.differs:
                line = outcome.line
            lines += [f"    {library}: " + outcome.detail.replace("\n", "\n    ")]
    way_out = (
        "" if result.differs else "mend the claim or the library, or say `differs: why` if the difference is meant"
    )
    return [Problem(cell.path, line, "\n".join(lines), way_out)]


def check_facts(parts: Iterable[Part], problems: Problems) -> None:
    """Every `fact:` of the parts against the fact base."""
    for part in parts:
        for cell in part.code_cells:
            for directive in cell.directives:
                if directive.key == "fact":
                    try:
                        facts.resolve_fact(directive.value)
                    except facts.Unresolved as error:
                        problems.add(part.path, directive.line, f"fact: {error.message}", error.way_out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="*", help="chapters or parts (default: all)")
    parser.add_argument("--list", action="store_true", help="list the parts with their titles, run nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="every claim, not only those that fail")
    parser.add_argument("--no-cache", action="store_true", help="run claims again that are known to hold")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="claims at a time")


def run(args: argparse.Namespace) -> int:
    return check_claims(Book.load(), Path(__file__).resolve().parents[1], args)


def check_claims(book: Book, package: Path, args: argparse.Namespace) -> int:
    """`readtorch claims` over `book`, whose chapters are about the readtorch in `package`."""
    from readtorch.literate.terminal import Tally, claims_table

    parts = chosen_parts(book, args.chapter)
    if args.list:
        width = max((len(part.name) for part in parts), default=0)
        for part in parts:
            print(f"{part.name:<{width}}  {len(claims(part)):>3} claims  {part.title}")
        return 0
    cells = [cell for part in parts for cell in claims(part)]
    store = None if args.no_cache else Store(default_location(book.root))
    examiner = Examiner(root=book.root, package=package, store=store, chapters=book.chapters, jobs=args.jobs)
    with Tally(len(cells) * len(examiner.libraries), "claims") as tally:

        def told(cell: Cell, library: str, outcome: Outcome) -> None:
            if library in examiner.libraries:
                tally.step(f"{cell.path}:{cell.line}")

        outcomes = examiner.examine(cells, told)
    results = [(c, evidence_of(c, outcomes[c.part, c.index], examiner.versions)) for c in cells]
    rows = [(cell, result) for cell, result in results if result is not None]
    print(claims_table(rows, examiner.versions, verbose=args.verbose))
    problems = Problems()
    for cell, result in rows:
        for problem in problems_of(cell, result):
            problems.add(problem.path, problem.line, problem.message, problem.way_out)
    check_facts(parts, problems)
    print(summary([result for _, result in rows], examiner.versions))
    problems.raise_if_any()
    return 0


def summary(results: list[EvidenceResult], found_versions: dict[str, str]) -> str:
    """One line: how many held, failed, differ, and how many were not cross-checked."""
    failed = sum(bool(r.fault) for r in results)
    differ = sum(bool(r.differs) and r.cross_checked and not r.fault for r in results)
    alone = sum(not r.cross_checked for r in results)
    waiting = Counter(r.not_run for r in results if r.not_run)
    text = f"{len(results)} claims: {len(results) - failed - waiting.total()} as stated"
    if failed:
        text += f", {failed} not"
    if differ:
        text += f", {differ} of them differences as announced"
    for reason, count in waiting.items():
        text += f", {count} not run: {reason}"
    if alone:
        text += f"; {alone} not cross-checked with PyTorch"
        if not found_versions.get("torch"):
            text += f" (not installed: pip install torch=={RELEASE})"
    elif results:
        text += f"; all cross-checked with PyTorch {found_versions['torch']}"
    return text
