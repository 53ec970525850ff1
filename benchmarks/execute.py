"""Executing chapters: what the executor adds to the cells' own time, beside nbclient on the same cells.

    python benchmarks/execute.py [--parts 7] [--cells 60] [--check]

Both run the same synthetic parts, one after the other, in this order and on this machine; the ratio is what counts. With `--check` the
exit status is 1 if a part costs more than 0.2 s beyond its cells.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from readtorch.literate.chapter import Book
from readtorch.literate.execute import Executor

GOAL = 0.2


def write_book(root: Path, parts: int, cells: int) -> Book:
    folder = root / "chapters" / "02_module"
    folder.mkdir(parents=True)
    for part in range(parts):
        text = "# %% [markdown]\n# # A part\n\n" + "".join(f"# %%\nx{n} = {n}\nx{n}\n\n" for n in range(cells))
        (folder / f"{part}_part.py").write_text(text, encoding="utf-8")
    return Book.load(root)


def timed(work: Callable[[], float]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of children, and what `work` returns: the cells' own seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    cells = work()
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, cells


def ours(book: Book) -> float:
    results = Executor(book, jobs=1).run(list(book.parts))
    return sum(cell.seconds for result in results.values() for cell in result.cells.values())


def theirs(book: Book) -> float:
    import nbformat
    from nbclient import NotebookClient

    for part in book.parts:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c.source) for c in part.code_cells])
        NotebookClient(notebook, kernel_name="python3").execute()
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=7)
    parser.add_argument("--cells", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        book = write_book(Path(folder), args.parts, args.cells)
        wall, cpu, cells = timed(lambda: ours(book))
        overhead = (wall - cells) / args.parts
        print(f"{args.parts} parts of {args.cells} cells")
        print(
            f"readtorch  {wall:6.2f} s wall, {cpu:5.2f} s CPU; {overhead:.3f} s a part beyond its cells (goal {GOAL} s)"
        )
        try:
            peer_wall, peer_cpu, _ = timed(lambda: theirs(book))
        except ImportError:
            print("nbclient   is not installed")
        else:
            print(f"nbclient   {peer_wall:6.2f} s wall, {peer_cpu:5.2f} s CPU; {peer_wall / args.parts:.3f} s a part")
            print(f"readtorch ÷ nbclient: {wall / peer_wall:.2f} wall, {cpu / peer_cpu:.2f} CPU")
    return int(args.check and overhead > GOAL)


if __name__ == "__main__":
    sys.exit(main())
