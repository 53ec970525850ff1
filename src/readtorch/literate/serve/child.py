"""The process of one live run: reads its order from standard input, writes the trace to standard output."""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import replace
from typing import Any

from readtorch.literate.chapter import Book, Cell, Part
from readtorch.literate.grammar import Directive, TraceSpec
from readtorch.literate.tangle import tangle
from readtorch.literate.trace_places import MIME as TRACE
from readtorch.literate.trace_places import resolve

MEMORY = 8 * 2**30


def main() -> int:
    order = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the chapter prints is no part of the answer
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        result = record(order)
    except Exception as error:  # every fault of the chapter's code is an answer, not a crash
        result = {"error": f"{type(error).__name__}: {error}"}
    json.dump(result, answer)
    answer.close()
    return 0


def record(order: dict[str, Any]) -> dict[str, Any]:
    from readtorch.literate.plain import PlainDisplay, Runner

    os.environ["READTORCH_EXECUTOR"] = "1"  # as in the executor: places are resolved below
    book = Book.load(order["root"])
    part = with_parameters(book.part(order["part"]), order["cell"], order["parameters"])
    os.chdir(book.root / "chapters")
    runner = Runner(
        part,
        PlainDisplay(),
        root=book.root,
        chapters=book.chapters,
        device=order["parameters"].get("device", "cpu"),
    )
    for cell, run in runner.run():
        if run.fault or run.skipped:
            if cell.index == order["cell"]:
                raise RuntimeError(run.fault or run.skipped)
            continue
        if cell.index == order["cell"]:
            for output in run.outputs:
                if TRACE in output.get("data", {}):
                    document = output["data"][TRACE]
                    resolve(document, part, {other.path: other for other in book.parts}, tangle(book))
                    return {"document": document}
            raise RuntimeError("the cell gave no trace")
    raise RuntimeError("the cell was not reached")


def with_parameters(part: Part, index: int, parameters: dict[str, Any]) -> Part:
    """The part up to cell `index`, whose `trace:` takes the page's parameters."""
    cells = []
    for cell in part.cells:
        if cell.index > index:
            break
        if cell.index == index:
            cell = _changed(cell, parameters)
        elif cell.has("claim") or cell.has("test"):  # nothing further down rests on them
            cell = replace(cell, source="", code="", directives=())
        cells.append(cell)
    return replace(part, cells=tuple(cells))


def _changed(cell: Cell, parameters: dict[str, Any]) -> Cell:
    spec = cell.trace
    assert spec is not None
    spec = replace(spec, steps=parameters.get("steps", spec.steps), values=parameters.get("values", spec.values))
    directives = tuple(Directive("trace", written(spec), d.line) if d.key == "trace" else d for d in cell.directives)
    return replace(cell, directives=directives)


def written(spec: TraceSpec) -> str:
    """A `trace:` value that reads as `spec`."""
    words = [*spec.packages]
    if spec.layers:
        words.append(f"layers={','.join(spec.layers)}")
    words.append(f"values={spec.values}")
    if spec.steps:
        words.append(f"steps={spec.steps}")
    if spec.title:
        words.append(f'title="{spec.title}"')
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
