"""`readtorch sync`: bring edits made in the package back into the chapters.

An edit counts only if tangling the edited chapters gives the edited files byte for byte. Where it cannot be brought back so,
nothing is written and both places are named. Where chapter and file were both edited, the edits are merged if they lie in
different cells.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from readtorch.literate.agreed import Agreed, Edited
from readtorch.literate.bring_back import below_header, bring_back, refusal
from readtorch.literate.build import PACKAGE, checkout, forced, orphans, place_of, read, strays, take_one_side
from readtorch.literate.chapter import Book, Cell
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.hunks import Segment, owners_of, segments
from readtorch.literate.merge3 import Hunk, hunks, merge
from readtorch.literate.rewrite import Rewrite, rewritten
from readtorch.literate.tangle import TangledFile, tangle, tangled_cells
from readtorch.literate.transaction import Transaction
from readtorch.literate.unchanged import remember


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would change in the chapters, write nothing"
    )
    parser.add_argument(
        "--force",
        nargs="*",
        metavar="FILE",
        help="where chapter and file were both edited, take the file's (of these files; none named: of all)",
    )
    parser.add_argument("--watch", action="store_true", help="keep running and do this whenever a file is saved")


def run(args: argparse.Namespace) -> int:
    if args.watch:
        from readtorch.literate.watch import watch

        return watch()
    book = checkout()
    return sync_book(book, dry_run=args.dry_run, force=forced(args.force, book))


def sync_book(book: Book, dry_run: bool = False, force: Container[str] = ()) -> int:
    """Sync, write and say what was done. Raises LiterateError, with nothing written.

    A new file of the package has no cell to go into: it is named, the rest is synced, and the status is 1.
    """
    agreed = Agreed(book.root)
    plan = sync(book, agreed, force)
    if dry_run:
        sys.stdout.writelines(plan.diff(book))
    else:
        plan.commit(book, agreed)
        for line in plan.report(book):
            print(line)
    for problem in plan.strays:
        print(problem, file=sys.stderr)
    return 1 if plan.strays else 0


@dataclass(slots=True)
class Plan:
    """What a sync will do: the chapters after it, and every file of the package as they give it."""

    book: Book
    files: dict[str, TangledFile]
    synced: dict[str, Rewrite] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    """Files that only the chapters changed, or that were merged: they are written as tangle would."""
    unwanted: list[str] = field(default_factory=list)
    strays: list[Problem] = field(default_factory=list)
    """Files that no cell goes into, which a sync cannot bring back."""

    def commit(self, before: Book, agreed: Agreed) -> None:
        with Transaction() as transaction:
            for old, new in zip(before.parts, self.book.parts, strict=True):
                if new.text != old.text:
                    transaction.write(new.file, new.text)
            for path in self.stale:
                transaction.write(self.book.package / path, self.files[path].text)
            for path in self.unwanted:
                transaction.delete(self.book.package / path)
        agreed.record({path: file.text for path, file in self.files.items()})
        if not self.strays:
            remember(self.book.root)

    def report(self, before: Book) -> list[str]:
        lines = []
        for path, rewrite in self.synced.items():
            cells = {(c.path, c.index): c for part in before.parts for c in part.cells}
            for key, code in rewrite.code.items():
                cell = cells[key]
                what = f" ({', '.join(cell.defines[:2])})" if cell.defines else ""
                verb = "removed" if code is None else "changed"
                lines.append(f"{verb} {cell.path}:{cell.line}{what} from src/readtorch/{path}")
            lines.extend(
                f"new cell below {n.neighbour.path}:{n.neighbour.line} from src/readtorch/{path}" for n in rewrite.new
            )
        lines.extend(f"wrote   src/readtorch/{path}" for path in self.stale)
        lines.extend(f"deleted src/readtorch/{path}" for path in self.unwanted)
        return lines or ([] if self.strays else ["chapters and package agree"])

    def diff(self, before: Book) -> Iterator[str]:
        from difflib import unified_diff

        for old, new in zip(before.parts, self.book.parts, strict=True):
            yield from unified_diff(old.text.splitlines(True), new.text.splitlines(True), old.path, new.path)
        for path in self.stale:
            yield f"would write src/readtorch/{path}\n"


def sync(book: Book, agreed: Agreed, force: Container[str] = ()) -> Plan:
    """Find out what to do. Raises LiterateError naming every edit that cannot be brought back; writes nothing.

    Of files in `force` the package's text counts, whichever side was edited.
    """
    files = tangle(book)
    problems = Problems()
    plan = Plan(book, files, strays=strays(book.package, files))
    targets: dict[str, str] = {}
    for path, file in files.items():
        with problems.collecting():
            text = read(book.package / path)
            edited, base = agreed.edited(path, file.text, text) if text != file.text else (Edited.NEITHER, None)
            if edited is Edited.NEITHER:
                continue
            if path in force and text is not None:
                targets[path] = text
                continue
            if edited is Edited.TAKEN_BACK:
                raise _taken_back(file, text, base)
            if edited is Edited.CHAPTER or (text is None and base is None):
                plan.stale.append(path)
            elif text is None:
                raise refusal(path, 0, file, "was deleted", "remove its cells, or run `readtorch tangle` to restore it")
            elif edited in (Edited.BOTH, Edited.UNKNOWN):
                targets[path] = merged(file, base, text)
                plan.stale.append(path)
            else:
                targets[path] = text
    for path in orphans(book.package, files):
        text = read(book.package / path)
        if agreed.edited(path, None, text)[0] is Edited.CHAPTER:
            plan.unwanted.append(path)
        else:
            problems.add(f"{PACKAGE}/{path}", 0, "was edited, and no cell goes into it any more", "remove the file")
    rewrite = Rewrite()
    for path, target in targets.items():
        with problems.collecting():
            plan.synced[path] = bring_back(files[path], target, tangled_cells(book))
            rewrite.update(plan.synced[path])
    problems.raise_if_any()
    if targets:
        plan.book = rewritten(book, rewrite)
        plan.files = tangle(plan.book)
        _verify(plan, files, targets)
    return plan


def _verify(plan: Plan, before: dict[str, TangledFile], targets: dict[str, str]) -> None:
    """The edited chapters must give the edited files, and all others as they were."""
    for path in before:
        wanted = targets.get(path, before[path].text)
        found = plan.files[path].text if path in plan.files else ""
        if below_header(wanted) != below_header(found) or (path not in targets and wanted != found):
            raise refusal(path, 0, before[path], "the edit does not survive in its chapter", "edit the chapter instead")
        if wanted != found and path not in plan.stale:
            plan.stale.append(path)


def _taken_back(file: TangledFile, text: str | None, agreed: str | None) -> LiterateError:
    """One side is as in the last commit, as after `git checkout` of it alone; the other holds work done since."""
    back, other = ("the chapter", "the file") if text == agreed else ("the file", "the chapter")
    lines = zip(file.text.split("\n"), (text or "").split("\n"), strict=False)
    line = next((k for k, pair in enumerate(lines) if pair[0] != pair[1]), 0)
    message = f"{back} went back to the last commit, and {other} has what both agreed on since"
    return refusal(file.path, line + 1, file, message, take_one_side(file.path))


def merged(file: TangledFile, base: str | None, text: str) -> str:
    """The file with the edits of both sides, which must lie in different cells."""
    if base is None:
        raise refusal(
            file.path, 1, file, "differs, and whether it or the chapter was edited cannot be told",
            take_one_side(file.path),
        )  # fmt: skip
    old, ours, theirs = base.split("\n"), file.text.split("\n"), text.split("\n")
    lines, conflicts = merge(old, ours, theirs)
    problems = Problems()
    if not conflicts:
        parts = segments(file.lines, range(0))
        chapter_side = {id(s.cell): s for s in _touched(hunks(ours, old), parts)}
        for hunk in hunks(ours, lines):
            for segment in _touched([hunk], parts):
                if id(segment.cell) in chapter_side:
                    _both(file, segment.cell, chapter_side[id(segment.cell)].chapter_line, hunk.new_start + 1, problems)
    for conflict in conflicts:
        place = place_of(file, conflict.ours.new_start, conflict.ours.new_stop)
        problems.add(
            f"{PACKAGE}/{file.path}",
            conflict.theirs.new_start + 1,
            f"was edited here, and so was the chapter at {place}",
            take_one_side(file.path),
        )
    problems.raise_if_any()
    return "\n".join(lines)


def _touched(found: list[Hunk], parts: list[Segment]) -> list[Segment]:
    result: list[Segment] = []
    for hunk in found:
        owners = owners_of(hunk, parts)
        inside = [k for k in owners if parts[k].start < hunk.stop and hunk.start < parts[k].stop]
        result.extend(parts[k] for k in (inside or owners))
    return result


def _both(file: TangledFile, cell: Cell, chapter_line: int, line: int, problems: Problems) -> None:
    problems.add(
        f"{PACKAGE}/{file.path}",
        line,
        f"was edited here, and its cell was edited in the chapter too ({cell.path}:{chapter_line})",
        take_one_side(file.path),
    )
