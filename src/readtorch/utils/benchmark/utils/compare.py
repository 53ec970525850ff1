# Tangled from chapters/01_import/8e_benchmark.py — edit there, or here and run `readtorch sync`.
"""Tables of measurements."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import numpy as np

from readtorch.utils.benchmark.utils import common

__all__ = ["Colorize", "Compare"]


class Colorize(enum.Enum):
    """Among which measurements the best is sought, and coloured."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Measurements as tables: `print()`, or `str()` of it."""

    def __init__(self, results: list[common.Measurement]) -> None:
        self._results: list[common.Measurement] = []
        self.extend_results(results)
        self._trim = self._warn = False
        self._colorize = Colorize.NONE

    def extend_results(self, results: Iterable[common.Measurement]) -> None:
        """Add more. ValueError for what is no measurement."""
        results = list(results)
        for result in results:
            if not isinstance(result, common.Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show as many digits as can be believed."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the best of each column, or of each row, and what is far from it."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark what has a wide spread."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[str | None, list[common.Measurement]] = {}
        for result in common.Measurement.merge(self._results):
            groups.setdefault(result.task_spec.label, []).append(result)
        return "\n".join(_Table(group, self._colorize, self._trim, self._warn).render() for group in groups.values())


_Row = tuple[int, str | None, str]


class _Table:
    """The measurements of one label."""

    def __init__(self, results: list[common.Measurement], colorize: Colorize, trim: bool, warn: bool) -> None:
        self.colorize, self.trim = colorize, trim
        self.warn = warn and any(result.has_warnings for result in results)
        self.label = results[0].task_spec.label
        self.unit, self.scale = common.select_unit(min(result.median for result in results))
        at = {(self._row(result), result.task_spec.description): result for result in results}
        rows: list[_Row] = common.ordered_unique(self._row(result) for result in results)
        self.rows = sorted(rows, key=lambda row: (row[0], row[1] or ""))
        self.columns = common.ordered_unique(result.task_spec.description for result in results)
        self.cells = [[at.get((row, column)) for column in self.columns] for row in self.rows]

    @staticmethod
    def _row(result: common.Measurement) -> _Row:
        return result.task_spec.num_threads, result.task_spec.env, result.as_row_name

    def render(self) -> str:
        """The whole table."""
        heads = ["", *(str(column or "") for column in self.columns)]
        names = self._names()
        formats = [self._format([row[i] for row in self.cells]) for i in range(len(self.columns))]
        texts = [
            [name, *(self._text(cell, *formats[i]) for i, cell in enumerate(row))]
            for name, row in zip(names, self.cells, strict=True)
        ]
        widths = [max(len(row[i]) for row in (heads, *texts)) for i in range(len(heads))]
        lines = ["  |  ".join(head.center(width) for head, width in zip(heads, widths, strict=True))]
        whole, threads = len(lines[0]), None
        for number, (key, text) in enumerate(zip(self.rows, texts, strict=True)):
            if key[0] != threads:
                threads = key[0]
                lines.append(f"{threads} threads: ".ljust(whole, "-"))
            cells = [self._coloured(number, i, text[i + 1].center(widths[i + 1])) for i in range(len(self.columns))]
            lines.append("  |  ".join([text[0].ljust(widths[0]), *cells]))
        label = f" {self.label or ''} ".center(whole - 2, "-")
        legend = f"Times are in {common.unit_to_english(self.unit)}s ({self.unit})."
        spread = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n" if self.warn else ""
        return "\n".join([f"[{label}]", *lines, "", legend, spread])

    def _names(self) -> list[str]:
        """The heads of the rows: the environment where it changes, and the variant."""
        environments = {row[1] for row in self.rows}
        width = max(len(env or "") for env in environments) if len(environments) > 1 else 0
        names, before = [], None
        for row in self.rows:
            shown = f"({row[1]})" if width and row[:2] != before else ""
            before = row[:2]
            names.append(f"  {shown.ljust(width + 4)}{row[2]}")
        return names

    def _format(self, column: Sequence[common.Measurement | None]) -> tuple[int, int, int]:
        """How wide the numbers of a column are, how many of their digits are decimals, and how wide their marks are."""
        found = [cell for cell in column if cell is not None]
        leading = [int(np.ceil(np.log10(np.float32(cell.median / self.scale)))) for cell in found]
        decimals = 1
        if self.trim:
            decimals = min(max(cell.significant_figures - n, 0) for n, cell in zip(leading, found, strict=True))
        marks = 7 if self.warn and any(cell.has_warnings for cell in found) else 0
        return max(leading) + decimals + bool(decimals), decimals, marks

    def _text(self, cell: common.Measurement | None, width: int, decimals: int, marks: int) -> str:
        if cell is None:
            return " " * len(f"{1:>{width}.{decimals}f}{'':>{marks}}")
        value = cell.median / self.scale
        if self.trim:
            value = common.trim_sigfig(value, cell.significant_figures)
        mark = f" (! {cell.iqr / cell.median * 100:.0f}%)" if marks and cell.has_warnings else ""
        return f"{value:>{width}.{decimals}f}{mark:>{marks}}"

    def _coloured(self, row: int, column: int, text: str) -> str:
        cell = self.cells[row][column]
        if self.colorize is Colorize.NONE or cell is None:
            return text
        if self.colorize is Colorize.ROWWISE:
            among = self.cells[row]
        else:
            among = [
                other[column] for key, other in zip(self.rows, self.cells, strict=True) if key[0] == self.rows[row][0]
            ]
        best = min(other.median for other in among if other is not None)
        if cell.median <= best * 1.01 or cell.median <= best + 100e-9:
            return f"\033[92m\033[1m{text}\033[0m\033[0m"
        if cell.median <= best * 1.1:
            return f"\033[34m\033[1m{text}\033[0m\033[0m"
        if cell.median >= best * 5:
            return f"\033[31m\033[1m{text}\033[0m\033[0m"
        return f"\033[2m\033[91m{text}\033[0m\033[0m" if cell.median >= best * 2 else text
