"""One Python file of the package in the making: its cells are taken in one by one, then its lines are given out."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from readtorch.literate.blocks import DEFINITIONS, Block, Line, TangledLine, glue, open_class, split
from readtorch.literate.chapter import Cell, bound_names
from readtorch.literate.crosscheck import check_bindings, check_names, is_docstring
from readtorch.literate.errors import Problems
from readtorch.literate.imports import Import, merge, read_imports


@dataclass(slots=True, eq=False)
class Assembly:
    """A Python file in the making: `take_in` sorts the cells into it, `render` gives its lines."""

    path: str
    cells: list[Cell]
    problems: Problems
    complete: bool = True
    """Are these all cells of the file? If not, what a cell refers to may be in one of the others."""
    docstring: list[Block] = field(default_factory=list)
    imports: list[tuple[Import, Cell]] = field(default_factory=list)
    typing_imports: list[tuple[Import, Cell]] = field(default_factory=list)
    guard: Block | None = None
    body: list[Block] = field(default_factory=list)
    classes: dict[str, Block] = field(default_factory=dict)

    def take_in(self) -> None:
        """Place every cell: first those that go to the end of what is there, then those with `at:`.

        A cell waits for the name after which it stands, and a re-open for its class, where another cell that is placed
        late brings it.
        """
        waiting = [cell for cell in self.cells if cell.has("at") or not self._place(cell)]
        while waiting:
            still = [cell for cell in waiting if not self._place(cell)]
            if len(still) == len(waiting):
                for cell in still if self.complete else ():
                    self._report_unplaced(cell)
                break
            waiting = still
        check_names(self.path, self.body, self.problems)
        check_bindings(self.imports, self.path, self.problems)

    # -- taking cells in -------------------------------------------------------------------------------------------

    def _place(self, cell: Cell) -> bool:
        """Take a cell in, unless what it refers to is not there (yet)."""
        anchor = (cell.get("at") or "").removeprefix("after ").strip() or None
        if cell.reopens:
            opening = self.classes.get(cell.reopens)
            if opening is None or self._order(opening.cell) > self._order(cell):
                return False
            member = (anchor or "").removeprefix(f"{cell.reopens}.")
            if anchor and not any(member in _names(block) for block in open_class(opening)):
                return False
        elif anchor and not any(anchor in _names(block) for block in self.body):
            return False
        self._add(cell, anchor)
        return True

    def _report_unplaced(self, cell: Cell) -> None:
        if cell.reopens and cell.reopens not in self.classes:
            node = cell.tree.body[0]
            self.problems.add(
                cell.path,
                node.lineno,
                f"class {cell.reopens} is re-opened here, but no earlier cell opens it in {self.path}",
                f"write `class {cell.reopens}:` or its true bases here, or add a cell above that opens it",
            )
            return
        if cell.reopens and self._order(self.classes[cell.reopens].cell) > self._order(cell):
            opening = self.classes[cell.reopens]
            assert opening.node is not None
            self.problems.add(
                cell.path,
                cell.tree.body[0].lineno,
                f"class {cell.reopens} is re-opened here, but no earlier cell opens it in {self.path}"
                f" (it is opened below, at {opening.cell.path}:{opening.node.lineno})",
                "put the opening first",
            )
            return
        self.problems.add(
            cell.path,
            cell.directive_line("at"),
            f"at: nothing called {(cell.get('at') or '').removeprefix('after ')!r} in {self.path}",
            "name a definition of that file (of the same class, where the cell re-opens one)",
        )

    def _add(self, cell: Cell, anchor: str | None) -> None:
        statements = list(cell.tree.body)
        lines = [Line(text, cell.code_line + k) for k, text in enumerate(cell.code.split("\n"))]
        if cell.reopens:
            self._reopen(cell, statements[0], lines, anchor)
            return
        blocks = split(cell, statements, lines, 0)
        if blocks and is_docstring(blocks[0].node):
            if cell is not self.cells[0]:
                first = self.cells[0]
                self.problems.add(
                    cell.path,
                    blocks[0].start,
                    f"a module docstring below the first cell of {self.path} ({first.path}:{first.line})",
                    "move it there",
                )
                return
            self.docstring.append(blocks.pop(0))
        if cell.has("imports") and not self.path.endswith("__init__.py"):
            for block in blocks:
                self._add_imports(block)
            return
        self._insert(blocks, anchor)

    def _insert(self, blocks: list[Block], anchor: str | None) -> None:
        for block in blocks:
            if isinstance(block.node, ast.ClassDef):
                self.classes.setdefault(block.node.name, block)
        if anchor is None:
            self.body.extend(blocks)
            return
        _insert_after(self.body, blocks, anchor)

    def _reopen(self, cell: Cell, statement: ast.stmt, lines: list[Line], anchor: str | None) -> None:
        assert isinstance(statement, ast.ClassDef)
        opening = self.classes[statement.name]
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

    # -- giving lines out ------------------------------------------------------------------------------------------

    def render(self) -> tuple[list[TangledLine], range]:
        """The lines below the header, and the range of the import block among the lines of the whole file."""
        result: list[TangledLine] = []
        for block in self.docstring:
            result.extend(_block_lines(block))
        import_block = self._import_lines()
        start = len(result) + 2
        if import_block:
            result.append(TangledLine(""))
            result.extend(import_block)
        above: Block | None = None
        for block in self.body:
            if above is not None:
                result.extend(_between(above, block, top_level=True))
            elif import_block:
                result.extend([TangledLine("")] * (2 if isinstance(block.node, DEFINITIONS) else 1))
            elif self.docstring:
                result.extend(_between(self.docstring[0], block, top_level=True))
            else:
                result.extend([TangledLine("")] * (2 if isinstance(block.node, DEFINITIONS) else 1))
            result.extend(_block_lines(block))
            above = block
        return result, range(start, start + len(import_block)) if import_block else range(0)

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


def _names(block: Block) -> tuple[str, ...]:
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
    if is_docstring(again.body[0]):
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
        result.extend(_own_blanks(member) if above is None else _between(above, member, top_level=False))
        result.extend(_block_lines(member))
        above = member
    return result


def _between(above: Block, below: Block, top_level: bool) -> list[TangledLine]:
    if above.cell is below.cell and below.position == above.position + 1:
        return _own_blanks(below)
    return [TangledLine("")] * glue(above, below, top_level)


def _own_blanks(block: Block) -> list[TangledLine]:
    """The blank lines that stand above a block in its own cell."""
    cell = block.cell
    return [TangledLine("", cell.path, block.start - block.before + k, cell) for k in range(block.before)]
