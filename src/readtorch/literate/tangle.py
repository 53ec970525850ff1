"""Tangle: from the cells of the chapters to the files of the package.

Pure: `tangle(book)` returns what the files should be and where each line comes from; it reads and writes nothing. Order is
the book's: a cell's code is appended to its file, a re-opened class (`class C(C):`) to that class, an `imports` cell goes to
the head of the file. Between the pieces stand the blank lines that `ruff format` wants, so that its output is a fixed point.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from readtorch.literate.blocks import Block, Line, glue, open_class, split
from readtorch.literate.chapter import Book, Cell
from readtorch.literate.crosscheck import check_across_files, check_cell, check_names
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.imports import Import, merge, read_imports

HEADER = "Tangled from chapters/"


@dataclass(frozen=True, slots=True)
class TangledLine:
    """One line of a tangled file and where it comes from; the header and blank lines between fragments come from nowhere."""

    text: str
    part_path: str | None = None
    chapter_line: int | None = None
    cell: Cell | None = None


@dataclass(frozen=True, slots=True)
class TangledFile:
    """`path` is relative to the package; `cells` are all cells that it is made of, in the order of the book."""

    path: str
    lines: tuple[TangledLine, ...]
    cells: tuple[Cell, ...]

    @property
    def text(self) -> str:
        return "".join(line.text + "\n" for line in self.lines)


def tangled_cells(book: Book) -> dict[str, list[Cell]]:
    """The cells of each file, in the order of the book."""
    files: dict[str, list[Cell]] = {}
    for part in book.parts:
        for cell in part.cells:
            if cell.into:
                files.setdefault(cell.into, []).append(cell)
    return files


def tangle(book: Book) -> dict[str, TangledFile]:
    """Every file of the package. Raises LiterateError with all that is wrong."""
    problems = Problems()
    files = tangled_cells(book)
    tangled: dict[str, TangledFile] = {}
    for path, cells in sorted(files.items()):
        with problems.collecting():
            tangled[path] = tangle_file(path, cells)
    check_across_files(files, problems)
    problems.raise_if_any()
    return tangled


def tangle_file(path: str, cells: list[Cell]) -> TangledFile:
    """One file from its cells. Raises LiterateError with all that is wrong in it."""
    problems = Problems()
    for cell in cells:
        check_cell(cell, path, problems)
    problems.raise_if_any()
    lines = _native(cells, problems) if not path.endswith(".py") else _Assembly(path, cells, problems).lines()
    problems.raise_if_any()
    head = TangledLine(_header(path, cells))
    return TangledFile(path, (head, *lines), tuple(cells))


def _header(path: str, cells: list[Cell]) -> str:
    comment = "#" if path.endswith(".py") else "//"
    names = list(dict.fromkeys(cell.path for cell in cells))
    text = _header_line(comment, names)
    if len(text) > 120:
        folders = list(dict.fromkeys("/".join(name.split("/")[:2]) for name in names))
        text = _header_line(comment, [f if f.endswith(".py") else f + "/" for f in folders])
    return text


def _header_line(comment: str, names: list[str]) -> str:
    return f"{comment} Tangled from {', '.join(names)} — edit there, or here and run `readtorch sync`."


def is_tangled_header(line: str) -> bool:
    """Is this the first line of a file that tangle wrote?"""
    return line.startswith(("# " + HEADER, "// " + HEADER))


def _native(cells: list[Cell], problems: Problems) -> list[TangledLine]:
    """A CUDA source: the content of one raw string literal per cell."""
    result: list[TangledLine] = []
    for cell in cells:
        content = raw_string(cell)
        if content is None:
            problems.add(
                cell.path,
                cell.code_line,
                f"a cell into {cell.into} holds one raw string literal and nothing else",
                'write r"""…""" (or NAME = r"""…"""), the source on the lines between',
            )
            continue
        if result:
            result.append(TangledLine(""))
        number, lines = content
        result.extend(TangledLine(text, cell.path, number + k, cell) for k, text in enumerate(lines))
    return result


def raw_string(cell: Cell) -> tuple[int, list[str]] | None:
    """Chapter line and lines of the text inside the raw string of a cell for a `.cu` file; None where it is none."""
    body = cell.tree.body
    if len(body) != 1:
        return None
    statement = body[0]
    value = getattr(statement, "value", None) if isinstance(statement, ast.Expr | ast.Assign) else None
    if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
        return None
    lines = cell.code.split("\n")
    first = lines[value.lineno - cell.code_line].encode()[value.col_offset :].decode()
    last = lines[(value.end_lineno or value.lineno) - cell.code_line]
    if not first.lower().startswith(('r"""', "r'''")) or first[4:].strip() or last.strip() != first[1:4]:
        return None
    inner = lines[value.lineno - cell.code_line + 1 : (value.end_lineno or value.lineno) - cell.code_line]
    return (value.lineno + 1, inner) if any(line.strip() for line in inner) else None


@dataclass(slots=True)
class _Assembly:
    """A Python file in the making."""

    path: str
    cells: list[Cell]
    problems: Problems
    docstring: list[Block] = field(default_factory=list)
    imports: list[tuple[Import, Cell]] = field(default_factory=list)
    typing_imports: list[tuple[Import, Cell]] = field(default_factory=list)
    guard: Block | None = None
    body: list[Block] = field(default_factory=list)
    classes: dict[str, Block] = field(default_factory=dict)

    def lines(self) -> list[TangledLine]:
        late: list[Cell] = []
        for cell in self.cells:
            if cell.has("at"):
                late.append(cell)
            else:
                self._add(cell, None)
        self._place_late(late)
        check_names(self.path, self.body, self.problems)
        self.problems.raise_if_any()
        return self._render()

    # -- taking cells in -------------------------------------------------------------------------------------------

    def _add(self, cell: Cell, anchor: str | None) -> None:
        statements = list(cell.tree.body)
        lines = [Line(text, cell.code_line + k) for k, text in enumerate(cell.code.split("\n"))]
        if cell.reopens:
            self._reopen(cell, statements[0], lines, anchor)
            return
        blocks = split(cell, statements, lines, 0)
        if cell is self.cells[0] and blocks and _is_docstring(blocks[0].node):
            self.docstring.append(blocks.pop(0))
        if cell.has("imports"):
            if self.path.endswith("__init__.py"):
                self._insert(blocks, anchor, cell)
            else:
                for block in blocks:
                    self._add_imports(block)
            return
        self._insert(blocks, anchor, cell)

    def _insert(self, blocks: list[Block], anchor: str | None, cell: Cell) -> None:
        for block in blocks:
            if isinstance(block.node, ast.ClassDef):
                self.classes.setdefault(block.node.name, block)
        if anchor is None:
            self.body.extend(blocks)
            return
        _insert_after(self.body, blocks, anchor)

    def _reopen(self, cell: Cell, statement: ast.stmt, lines: list[Line], anchor: str | None) -> None:
        assert isinstance(statement, ast.ClassDef)
        opening = self.classes.get(statement.name)
        if opening is None:
            self.problems.add(
                cell.path,
                statement.lineno,
                f"class {statement.name} is re-opened here, but no earlier cell opens it in {self.path}",
                f"write `class {statement.name}:` or its true bases here, or add a cell above that opens it",
            )
            return
        node = opening.node
        assert isinstance(node, ast.ClassDef)
        place = f"{opening.cell.path}:{node.lineno}"
        fault = _reopen_fault(node, statement)
        if fault:
            line, message, way_out = fault
            self.problems.add(cell.path, line, f"{message} (class {node.name} is opened at {place})", way_out)
            return
        members = open_class(opening)
        header = Block(cell, lines, 0, 0, statement)
        added = open_class(header)
        comments = [line for line in header.lines if line.number < statement.lineno and line.text.strip()]
        if comments:
            self.problems.add(
                cell.path,
                comments[0].number,
                "a comment above a re-opened class would be lost, for its header is dropped",
                "move it into the class body, or into the prose",
            )
            return
        if anchor is None:
            members.extend(added)
        else:
            _insert_after(members, added, anchor.removeprefix(f"{node.name}."))

    def _add_imports(self, block: Block) -> None:
        node = block.node
        if isinstance(node, ast.If):
            if self.guard is None:
                self.guard = block
            target, statements, indent = self.typing_imports, node.body, node.body[0].col_offset
            source = block.lines
        else:
            assert isinstance(node, ast.Import | ast.ImportFrom)
            target, statements, indent = self.imports, [node], 0
            source = block.lines
        texts = [line.text for line in source]
        first = source[0].number
        leading: dict[int, list[str]] = {}
        for statement in statements:
            above: list[str] = []
            at = statement.lineno - first - 1
            while at >= 0 and texts[at].strip().startswith("#"):
                above.insert(0, texts[at][indent:])
                at -= 1
            if above:
                leading[statement.lineno] = above
        target.extend((item, block.cell) for item in read_imports(statements, texts, first, leading))

    def _place_late(self, late: list[Cell]) -> None:
        """Cells with `at:`. One may stand after a name that another of them brings, so go on while something moves."""
        while late:
            waiting = []
            for cell in late:
                value = cell.get("at") or ""
                anchor = value.removeprefix("after ").strip()
                if self._knows(cell, anchor):
                    self._add(cell, anchor)
                else:
                    waiting.append(cell)
            if len(waiting) == len(late):
                for cell in waiting:
                    self.problems.add(
                        cell.path,
                        cell.directive_line("at"),
                        f"at: nothing called {(cell.get('at') or '').removeprefix('after ')!r} in {self.path}",
                        "name a definition of that file (of the same class, where the cell re-opens one)",
                    )
                return
            late = waiting

    def _knows(self, cell: Cell, anchor: str) -> bool:
        if not cell.reopens:
            return any(anchor in _names(block) for block in self.body)
        opening = self.classes.get(cell.reopens)
        if opening is None:
            return True  # _reopen reports it
        member = anchor.removeprefix(f"{cell.reopens}.")
        return any(member in _names(block) for block in open_class(opening))

    # -- giving lines out ------------------------------------------------------------------------------------------

    def _render(self) -> list[TangledLine]:
        result: list[TangledLine] = []
        for block in self.docstring:
            result.extend(_block_lines(block))
        import_block = self._import_lines()
        if import_block:
            result.append(TangledLine(""))
            result.extend(import_block)
        above: Block | None = None
        for block in self.body:
            if above is not None:
                blanks = glue(above, block, top_level=True)
            elif import_block:
                blanks = 2 if isinstance(block.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else 1
            elif self.docstring and self.docstring[0].cell is block.cell:
                blanks = block.before
            else:
                blanks = 1 if not isinstance(block.node, ast.FunctionDef | ast.ClassDef) or self.docstring else 2
            result.extend([TangledLine("")] * blanks)
            result.extend(_block_lines(block))
            above = block
        return result

    def _import_lines(self) -> list[TangledLine]:
        result: list[TangledLine] = []
        origin = {id(item): cell for item, cell in [*self.imports, *self.typing_imports]}
        result.extend(self._sections([item for item, _ in self.imports], origin, ""))
        if self.guard is not None:
            head = next(line for line in self.guard.lines if line.text.startswith("if "))
            if result:
                result.append(TangledLine(""))
            result.append(TangledLine("if TYPE_CHECKING:", self.guard.cell.path, head.number, self.guard.cell))
            result.extend(self._sections([item for item, _ in self.typing_imports], origin, "    "))
        return result

    def _sections(self, imports: list[Import], origin: dict[int, Cell], indent: str) -> list[TangledLine]:
        commented = {item.module: item for item in imports if item.verbatim and item.name is not None}
        for item in imports:
            other = commented.get(item.module)
            if other is not None and item.name is not None and not item.verbatim:
                here = origin[id(other)]
                self.problems.add(
                    here.path,
                    other.line,
                    f"an import with a comment cannot be merged with the one at {origin[id(item)].path}:{item.line}",
                    f"put both names into one statement, or move the comment away from `from {item.module} import`",
                )
        result: list[TangledLine] = []
        for statements in merge(imports, indent):
            if result:
                result.append(TangledLine(""))
            for statement in statements:
                first = min(statement.imports, key=lambda i: (self._order(origin[id(i)]), i.line))
                cell = origin[id(first)]
                result.extend(TangledLine(text, cell.path, first.line, cell) for text in statement.lines)
        return result

    def _order(self, cell: Cell) -> int:
        return next(k for k, c in enumerate(self.cells) if c is cell)


def _is_docstring(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _names(block: Block) -> tuple[str, ...]:
    from readtorch.literate.chapter import bound_names

    return tuple(bound_names(block.node)) if block.node is not None else ()


def _insert_after(blocks: list[Block], added: list[Block], anchor: str) -> None:
    """Put `added` below the last block that binds `anchor`, and below what was put there before for the same anchor."""
    at = max(k for k, block in enumerate(blocks) if anchor in _names(block)) + 1
    while at < len(blocks) and blocks[at].anchor == anchor:
        at += 1
    for block in added:
        block.anchor = anchor
    blocks[at:at] = added


def _reopen_fault(opening: ast.ClassDef, again: ast.ClassDef) -> tuple[int, str, str] | None:
    if len(again.bases) > 1 or again.keywords:
        return again.lineno, "a re-open cannot change bases or metaclass", f"write `class {again.name}({again.name}):`"
    if again.decorator_list:
        return again.decorator_list[0].lineno, "a re-open cannot be decorated", "decorate the cell that opens the class"
    if _is_docstring(again.body[0]):
        return again.body[0].lineno, "a re-open cannot have a class docstring", "write it where the class is opened"
    for statement in again.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == "__slots__" for t in targets):
            return statement.lineno, "a re-open cannot declare __slots__", "declare all slots where the class is opened"
    if opening.body[0].lineno == opening.lineno or again.body[0].lineno == again.lineno:
        return again.lineno, "a class on one line cannot be joined", "write the body on lines of its own"
    if len(opening.body) == 1 and _is_placeholder(opening.body[0]):
        return (
            again.lineno,
            "the class has only a placeholder as its body",
            "give it a docstring instead of `pass` or `...`",
        )
    return None


def _is_placeholder(node: ast.stmt) -> bool:
    ellipsis = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...
    return isinstance(node, ast.Pass) or ellipsis


def _block_lines(block: Block) -> list[TangledLine]:
    cell = block.cell
    result = [TangledLine(line.text, cell.path, line.number, cell) for line in block.lines]
    above: Block | None = None
    for member in block.members or ():
        blanks = member.before if above is None else glue(above, member, top_level=False)
        result.extend([TangledLine("")] * blanks)
        result.extend(_block_lines(member))
        above = member
    return result


def problem(cell: Cell, line: int, message: str, way_out: str = "") -> LiterateError:
    return LiterateError(Problem(cell.path, line, message, way_out))
