"""Progress and tables for the command line; plain text where `rich` is missing or nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch.literate.chapter import Cell
    from readtorch.literate.evidence import EvidenceResult


class Tally:
    """A progress bar on standard error: so many of `total`, and what is being done now."""

    def __init__(self, total: int, what: str) -> None:
        self.total = total
        self.what = what
        self._bar: Any = None
        self._done = 0
        self._task: Any = None

    def __enter__(self) -> Tally:
        if sys.stderr.isatty() and self.total:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
            except ImportError:
                return self
            columns = (
                TextColumn(self.what),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def now(self, text: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=text)

    def step(self, text: str = "") -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=text)
        elif self.total:
            print(f"{self.what}: {self._done} of {self.total}, {text}", file=sys.stderr, flush=True)


_MARKS = {"held": "holds", "failed": "FAILS", "not-run": "-"}


def claims_table(rows: Sequence[tuple[Cell, EvidenceResult]], versions: dict[str, str], *, verbose: bool) -> str:
    """The claims with a column for each library: all of them, or those that fail or differ."""
    shown = [(c, r) for c, r in rows if verbose or r.fault or r.differs]
    if not shown:
        return ""
    heads = [f"readtorch {versions['readtorch']}", f"torch {versions['torch']}" if versions["torch"] else "torch"]
    place = max(len(f"{c.path}:{c.line}") for c, _ in shown)
    widths = [max(len(head), 5) for head in heads]
    lines = [f"{'':<{place}}  {heads[0]:<{widths[0]}}  {heads[1]:<{widths[1]}}  claim"]
    for cell, result in shown:
        marks = [_MARKS[result.ours], _MARKS[result.upstream]]
        sentence = result.sentence + (f" (differs: {result.differs})" if result.differs else "")
        where = f"{cell.path}:{cell.line}"
        lines.append(f"{where:<{place}}  {marks[0]:<{widths[0]}}  {marks[1]:<{widths[1]}}  {sentence}")
    return "\n".join(lines)
