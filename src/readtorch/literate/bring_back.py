"""The rewrite of cells that gives an edited file of the package, byte for byte, if there is one.

Differences of the body are given to the segments that they lie in (`hunks`), differences of the imports to the cells that
import (`import_edits`). Every likely way is tried until one tangles to the edited file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from readtorch.literate.build import PACKAGE, place_of
from readtorch.literate.chapter import Cell
from readtorch.literate.crosscheck import check_across_files, is_docstring
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.hunks import Edit, Segment, edits, owners_of, segments
from readtorch.literate.import_edits import Block, edit_cell, find_block
from readtorch.literate.imports import Import
from readtorch.literate.imports import merge as merge_imports
from readtorch.literate.merge3 import hunks
from readtorch.literate.moves import moved_away
from readtorch.literate.rewrite import NewCell, Rewrite
from readtorch.literate.tangle import TangledFile, tangle_file


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
    moves: Problems | None = None
    for edit in edits(old, new, parts):
        for rewrite in _with_imports(file, _cell_edits(file, edit, parts), here, there):
            try:
                if _gives(file, rewrite, target, everything):
                    found = moved_away(file, rewrite, target)
                    if not len(found):
                        return rewrite
                    moves = moves or found
            except _OnlyBlankLines as only:
                blank = blank or only
            except LiterateError as error:
                reason = reason or error
    if moves is not None:
        raise moves.error
    if blank is not None:
        message = f"blank lines between fragments are set by tangle, and here it sets {blank.wanted}"
        raise refusal(file.path, blank.line, file, message, "make them as many")
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
        raise refusal(path, 0, file, "has Windows line ends", "save it with \\n line ends")
    if not target.endswith("\n"):
        raise refusal(path, target.count("\n") + 1, file, "does not end with a newline", "add one")
    if target.split("\n", 1)[0] != file.lines[0].text:
        raise refusal(
            path, 1, file, "its first line was edited, which tangle writes", f"restore it: {file.lines[0].text}"
        )
    if file.lines[1].text == "" and target.split("\n", 2)[1]:
        raise refusal(path, 2, file, "nothing may stand close below the header", "leave a blank line below it")
    if path.endswith(".py"):
        try:
            ast.parse(target)
        except SyntaxError as error:
            raise refusal(path, error.lineno or 0, file, f"syntax error: {error.msg}", "mend it first") from None


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


def below_header(text: str) -> str:
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
        problems.add(f"{PACKAGE}/{file.path}", line, f"{what} ({places})", "make this edit in the chapter")
    if not found:
        place = f"{file.cells[0].path}:{file.cells[0].line}"
        what = "its imports are not laid out as `ruff check --select I` and `ruff format` would"
        problems.add(f"{PACKAGE}/{file.path}", 0, f"{what} ({place})", "run both on it, then sync")
    return problems.error


def refusal(path: str, line: int, file: TangledFile, message: str, way_out: str) -> LiterateError:
    place = place_of(file, max(line - 1, 0), max(line, 1))
    return LiterateError(Problem(f"{PACKAGE}/{path}", line, f"{message} ({place})", way_out))
