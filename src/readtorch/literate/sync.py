"""`readtorch sync`: bring edits made in the package back into the chapters.

An edit counts only if tangling the edited chapters gives the edited files byte for byte. Where it cannot be brought back so,
nothing is written and both places are named. Where chapter and file were both edited, the edits are merged if they lie in
different cells.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from readtorch.literate.agreed import Agreed, Edited
from readtorch.literate.build import checkout, orphans, place_of, read
from readtorch.literate.chapter import Book, Cell
from readtorch.literate.crosscheck import check_across_files, is_docstring
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.hunks import Edit, Segment, edits, owners_of, segments
from readtorch.literate.import_edits import Block, edit_cell, find_block
from readtorch.literate.imports import Import
from readtorch.literate.imports import merge as merge_imports
from readtorch.literate.merge3 import Hunk, hunks, merge
from readtorch.literate.rewrite import NewCell, Rewrite, rewritten
from readtorch.literate.tangle import TangledFile, tangle, tangle_file, tangled_cells
from readtorch.literate.transaction import Transaction
from readtorch.literate.unchanged import remember


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would change in the chapters, write nothing"
    )
    parser.add_argument("--watch", action="store_true", help="keep running and do this whenever a file is saved")


def run(args: argparse.Namespace) -> int:
    if args.watch:
        from readtorch.literate.watch import watch

        return watch()
    return sync_book(checkout(), dry_run=args.dry_run)


def sync_book(book: Book, dry_run: bool = False) -> int:
    """Sync, write and say what was done. Raises LiterateError, with nothing written."""
    agreed = Agreed(book.root)
    plan = sync(book, agreed)
    if dry_run:
        sys.stdout.writelines(plan.diff(book))
        return 0
    plan.commit(book, agreed)
    for line in plan.report(book):
        print(line)
    return 0


@dataclass(slots=True)
class Plan:
    """What a sync will do: the chapters after it, and every file of the package as they give it."""

    book: Book
    files: dict[str, TangledFile]
    synced: dict[str, Rewrite] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    """Files that only the chapters changed, or that were merged: they are written as tangle would."""
    unwanted: list[str] = field(default_factory=list)

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
        return lines or ["chapters and package agree"]

    def diff(self, before: Book) -> Iterator[str]:
        from difflib import unified_diff

        for old, new in zip(before.parts, self.book.parts, strict=True):
            yield from unified_diff(old.text.splitlines(True), new.text.splitlines(True), old.path, new.path)
        for path in self.stale:
            yield f"would write src/readtorch/{path}\n"


def sync(book: Book, agreed: Agreed) -> Plan:
    """Find out what to do. Raises LiterateError naming every edit that cannot be brought back; writes nothing."""
    files = tangle(book)
    problems = Problems()
    plan = Plan(book, files)
    targets: dict[str, str] = {}
    for path, file in files.items():
        with problems.collecting():
            text = read(book.package / path)
            edited, base = agreed.edited(path, file.text, text) if text != file.text else (Edited.NEITHER, None)
            if edited is Edited.NEITHER:
                continue
            if edited is Edited.CHAPTER or (text is None and base is None):
                plan.stale.append(path)
            elif text is None:
                raise _refused(
                    path, 0, file, "was deleted", "remove its cells, or run `readtorch tangle` to restore it"
                )
            elif edited is Edited.BOTH:
                targets[path] = _merged(file, base, text)
                plan.stale.append(path)
            else:
                targets[path] = text
    for path in orphans(book.package, files):
        text = read(book.package / path)
        if agreed.edited(path, None, text)[0] is Edited.CHAPTER:
            plan.unwanted.append(path)
        else:
            problems.add(f"src/readtorch/{path}", 0, "was edited, and no cell goes into it any more", "remove the file")
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
        if _below_header(wanted) != _below_header(found) or (path not in targets and wanted != found):
            raise _refused(
                path, 0, before[path], "the edit does not survive in its chapter", "edit the chapter instead"
            )
        if wanted != found and path not in plan.stale:
            plan.stale.append(path)


def _refused(path: str, line: int, file: TangledFile, message: str, way_out: str) -> LiterateError:
    place = place_of(file, max(line - 1, 0), max(line, 1))
    return LiterateError(Problem(f"src/readtorch/{path}", line, f"{message} ({place})", way_out))


def _merged(file: TangledFile, base: str | None, text: str) -> str:
    """The file with the edits of both sides, which must lie in different cells."""
    if base is None:
        raise _refused(
            file.path, 1, file, "differs, and whether it or the chapter was edited cannot be told",
            "run `readtorch tangle --force` to take the chapter's, or bring the edit over by hand",
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
            f"src/readtorch/{file.path}",
            conflict.theirs.new_start + 1,
            f"was edited here, and so was the chapter at {place}",
            "undo one of the two edits, or make both in the chapter and run `readtorch tangle --force`",
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
        f"src/readtorch/{file.path}",
        line,
        f"was edited here, and its cell was edited in the chapter too ({cell.path}:{chapter_line})",
        "undo one of the two edits, or make both in the chapter and run `readtorch tangle --force`",
    )


def bring_back(file: TangledFile, target: str, everything: dict[str, list[Cell]]) -> Rewrite:
    """The rewrite of cells after which `file` is `target`, but for the chapters that its header names.

    Raises LiterateError if there is none.
    """
    _check_target(file, target)
    old = [line.text for line in file.lines]
    new = target.split("\n")[:-1]
    here, there = Block(0, 0, (), ()), Block(0, 0, (), ())
    if file.path.endswith(".py") and not file.path.endswith("__init__.py"):
        here, there = find_block(file.text), find_block(target)
        block = [old[k] for k in file.imports]
        if not block:
            new = new[: there.start] + new[there.stop :]
        elif there.start == there.stop:
            new = [*new[: there.start], "", *block, "", *new[there.start :]]
        else:
            new = new[: there.start] + block + new[there.stop :]
    parts = segments(file.lines, file.imports)
    reason: LiterateError | None = None
    blank: _OnlyBlankLines | None = None
    for edit in edits(old, new, parts):
        try:
            for rewrite in _with_imports(file, _cell_edits(file, edit, parts), here, there):
                if _gives(file, rewrite, target, everything):
                    return rewrite
        except _OnlyBlankLines as only:
            blank = blank or only
        except LiterateError as error:
            reason = reason or error
    if blank is not None:
        message = f"blank lines between fragments are set by tangle, and here it sets {blank.wanted}"
        raise _refused(file.path, blank.line, file, message, "make them as many")
    shift = (there.start, there.stop - there.start - len(file.imports)) if there.stop else (0, 0)
    raise _cannot(file, old, new, parts, shift, reason)


class _OnlyBlankLines(Exception):
    """A rewrite gives the edited file but for blank lines; `line` is the first that differs."""

    def __init__(self, found: list[str], target: list[str]) -> None:
        super().__init__()
        pairs = zip(found, target, strict=False)
        at = next((k for k, pair in enumerate(pairs) if pair[0] != pair[1]), min(len(found), len(target)))
        while at and not found[at - 1].strip():
            at -= 1
        self.line = at + 2
        self.wanted = next((k for k, line in enumerate(found[at:]) if line.strip()), 0)


def _check_target(file: TangledFile, target: str) -> None:
    path = file.path
    if "\r" in target:
        raise _refused(path, 0, file, "has Windows line ends", "save it with \\n line ends")
    if not target.endswith("\n"):
        raise _refused(path, target.count("\n") + 1, file, "does not end with a newline", "add one")
    if target.split("\n", 1)[0] != file.lines[0].text:
        raise _refused(
            path, 1, file, "its first line was edited, which tangle writes", f"restore it: {file.lines[0].text}"
        )
    if file.lines[1].text == "" and target.split("\n", 2)[1]:
        raise _refused(path, 2, file, "nothing may stand close below the header", "leave a blank line below it")
    if path.endswith(".py"):
        try:
            ast.parse(target)
        except SyntaxError as error:
            raise _refused(path, error.lineno or 0, file, f"syntax error: {error.msg}", "mend it first") from None


def _gives(file: TangledFile, rewrite: Rewrite, target: str, everything: dict[str, list[Cell]]) -> bool:
    cells = rewrite.cells(file.cells)
    if not cells:
        return False
    found, wanted = (text.split("\n")[1:] for text in (tangle_file(file.path, cells).text, target))
    if found != wanted:
        if [line for line in found if line.strip()] == [line for line in wanted if line.strip()]:
            raise _OnlyBlankLines(found, wanted)
        return False
    problems = Problems()
    check_across_files({**everything, file.path: cells}, problems)
    problems.raise_if_any()
    return True


def _below_header(text: str) -> str:
    """Which chapters the header names may change with the edit: when all that one of them contributed is taken out."""
    return text.partition("\n")[2]


def _cell_edits(file: TangledFile, edit: Edit, parts: list[Segment]) -> Rewrite:
    """The rewrite that gives each touched segment its new text."""
    rewrite = Rewrite()
    for cell in {id(parts[k].cell): parts[k].cell for k in sorted(edit.touched)}.values():
        own = [k for k, part in enumerate(parts) if part.cell is cell]
        if not any(edit.texts[k] for k in own) and not cell.has("imports"):
            rewrite.set(cell, None)
            continue
        lines = cell.code.split("\n")
        for k in sorted(own, key=lambda k: parts[k].chapter_line, reverse=True):
            if k not in edit.touched:
                continue
            start = parts[k].chapter_line - cell.code_line
            stop = start + parts[k].stop - parts[k].start
            if not edit.texts[k]:
                while start and not lines[start - 1].strip():
                    start -= 1
            lines[start:stop] = edit.texts[k]
        rewrite.set(cell, "\n".join(lines).strip("\n"))
    for k, text in edit.new_cells:
        while text and not text[0].strip():
            text.pop(0)
        while text and not text[-1].strip():
            text.pop()
        rewrite.new.append(NewCell(parts[k].cell if k >= 0 else file.cells[-1], file.path, "\n".join(text)))
    return rewrite


def _with_imports(file: TangledFile, base: Rewrite, here: Block, there: Block) -> Iterator[Rewrite]:
    """`base` with the changed imports: names taken out of every cell that has them, new ones put into one cell."""
    remove = here.keys() - there.keys()
    known = here.keys()
    add = [(False, i) for i in there.runtime if (False, i.key) not in known]
    add += [(True, i) for i in there.typing if (True, i.key) not in known]
    if not remove and not add:
        yield base
        return
    cells = [c for c in file.cells if c.has("imports")]
    for home in _homes(file, base, cells) if add else [None]:
        rewrite = Rewrite(dict(base.code), list(base.new))
        left = list(add)
        for cell in cells:
            mine = [(flag, i) for flag, i in left if _has_statement_for(cell, i)]
            left = [pair for pair in left if pair not in mine]
            if cell is home:
                mine, left = mine + left, []
            code = edit_cell(cell, mine, remove)
            if code != cell.code:
                rewrite.set(cell, code or None)
        if left:
            rewrite.new.insert(0, _new_imports_cell(file, left))
        yield rewrite


def _homes(file: TangledFile, base: Rewrite, cells: list[Cell]) -> list[Cell | None]:
    """Where a new import may go: the imports cell next above the first edited cell, then the others in order."""
    order = {id(c): k for k, c in enumerate(file.cells)}
    first = min((order[id(c)] for c in file.cells if (c.path, c.index) in base.code), default=len(file.cells))
    above = [c for c in cells if order[id(c)] <= first]
    return [*reversed(above), *(c for c in cells if c not in above)] or [None]


def _has_statement_for(cell: Cell, item: Import) -> bool:
    return (
        item.name is not None
        and not item.verbatim
        and any(isinstance(n, ast.ImportFrom) and n.module == item.module for n in cell.tree.body)
    )


def _new_imports_cell(file: TangledFile, add: list[tuple[bool, Import]]) -> NewCell:
    sections = [[line for s in part for line in s.lines] for part in merge_imports(i for flag, i in add if not flag)]
    guarded = [line for part in merge_imports((i for flag, i in add if flag), "    ") for s in part for line in s.lines]
    if guarded:
        sections.append(["if TYPE_CHECKING:", *guarded])
    code = "\n\n".join("\n".join(lines) for lines in sections)
    first = file.cells[0]
    return NewCell(first, file.path, code, imports=True, above=not is_docstring(first.tree.body[0]))


def _cannot(
    file: TangledFile,
    old: list[str],
    new: list[str],
    parts: list[Segment],
    shift: tuple[int, int],
    reason: LiterateError | None,
) -> LiterateError:
    """Why an edit cannot be brought back. Below line shift[0] the edited file has shift[1] more lines than `new`."""
    problems = Problems()
    why = f": {reason.problems[0].message}" if reason and reason.problems else ""
    found = hunks(old, new)
    for hunk in found:
        near = [parts[k] for k in owners_of(hunk, parts)]
        places = " and ".join(f"{s.cell.path}:{s.chapter_line}" for s in near) or file.cells[0].path
        what = f"cannot be brought back{why}" if len(found) == 1 else f"among edits that cannot be brought back{why}"
        line = hunk.new_start + 1 + (shift[1] if hunk.new_start >= shift[0] else 0)
        problems.add(f"src/readtorch/{file.path}", line, f"{what} ({places})", "make this edit in the chapter")
    if not found:
        place = f"{file.cells[0].path}:{file.cells[0].line}"
        what = "its imports are not laid out as `ruff check --select I` and `ruff format` would"
        problems.add(f"src/readtorch/{file.path}", 0, f"{what} ({place})", "run both on it, then sync")
    return problems.error
