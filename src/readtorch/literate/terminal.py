"""Progress and tables for the command line; plain text where `rich` is missing or nobody watches."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch.literate.chapter import Cell
    from readtorch.literate.evidence import EvidenceResult
    from readtorch.literate.execute import Event


class Tally:
    """A progress bar on standard error: so many of `total`, about how long it will take, and what is being done now.

    Where nobody watches, a line for each step, but not more often than every `pause` seconds.
    """

    def __init__(self, total: int, what: str, pause: float = 0.0) -> None:
        self.total = total
        self.what = what
        self.pause = pause
        self._told = -math.inf
        self._last = deque([time.monotonic()], RECENT)
        self._bar: Any = None
        self._done = 0
        self._task: Any = None

    def __enter__(self) -> Tally:
        if sys.stderr.isatty() and self.total:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
                from rich.table import Column
            except ImportError:
                return self
            columns = (
                TextColumn(self.what),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total, left="")
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
        now = time.monotonic()
        self._last.append(now)
        left = remaining(self._last, self.total - self._done)
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=text, left=left)
        elif self.total and (self._done == self.total or now - self._told >= self.pause):
            self._told = now
            print(", ".join(filter(None, (f"{self.what}: {self._done} of {self.total}", left, text))), file=sys.stderr)
            sys.stderr.flush()


RECENT = 40
"""Steps that the remaining time is guessed from: what the cache knew at once says nothing about the rest."""


def remaining(times: Sequence[float], steps: int) -> str:
    """In words, how long `steps` more may take, if they take as long as those that ended at `times`; "" if too little is known."""
    if steps <= 0 or len(times) < 4:
        return ""
    seconds = (times[-1] - times[0]) / (len(times) - 1) * steps
    if seconds < 10:
        return ""
    return (
        f"about {math.ceil(seconds / 60)} min left" if seconds > 90 else f"about {math.ceil(seconds / 10) * 10} s left"
    )


class Making:
    """What is shown of a site while it is made: a bar for the chapters that run, then one for the claims that run."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._tally: Tally | None = None

    def __enter__(self) -> Making:
        self._next(Tally(self._parts, "running the chapters", PAUSE))
        return self

    def __exit__(self, *_: object) -> None:
        self._next(None)

    def _next(self, tally: Tally | None) -> None:
        if self._tally is not None:
            self._tally.__exit__(None, None, None)
        self._tally = tally.__enter__() if tally is not None else None

    def show(self, event: Event) -> None:
        """For the executor's `on_progress`."""
        if event.state == "claims" and event.cell == 0:
            self._next(Tally(event.cells, "running the claims", PAUSE))
        elif event.state == "weaving":
            self._next(None)
            print("writing the pages ...", file=sys.stderr, flush=True)
        elif self._tally is None:
            return
        elif event.state == "running":
            self._tally.now(f"{event.part} {event.cell + 1}/{event.cells}")
        else:
            self._tally.step(event.part)


PAUSE = 2.0


_MARKS = {"held": "holds", "failed": "FAILS", "not-run": "-"}


def claims_table(rows: Sequence[tuple[Cell, EvidenceResult]], versions: dict[str, str], *, verbose: bool) -> str:
    """The claims with a column for each library: all of them, or those that fail, differ or lack what can be installed."""
    shown = [(c, r) for c, r in rows if verbose or r.fault or r.differs or "pip install" in r.not_run]
    if not shown:
        return ""
    heads = [f"readtorch {versions['readtorch']}", f"torch {versions['torch']}" if versions["torch"] else "torch"]
    place = max(len(f"{c.path}:{c.line}") for c, _ in shown)
    widths = [max(len(head), 5) for head in heads]
    lines = [f"{'':<{place}}  {heads[0]:<{widths[0]}}  {heads[1]:<{widths[1]}}  claim"]
    for cell, result in shown:
        marks = [_MARKS[result.ours], _MARKS[result.upstream]]
        sentence = result.sentence + (f" (differs: {result.differs})" if result.differs else "")
        sentence += f" (not run: {result.not_run})" if result.not_run else ""
        where = f"{cell.path}:{cell.line}"
        lines.append(f"{where:<{place}}  {marks[0]:<{widths[0]}}  {marks[1]:<{widths[1]}}  {sentence}")
    return "\n".join(lines)
