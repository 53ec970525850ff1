"""The chapter model: a book is parts, a part is cells, a cell is source with directives.

A line parser of its own reads jupytext's percent format without importing jupytext (which alone takes longer than tangling
the whole book); tests hold it equal to jupytext's reader.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.garbage import collection_paused
from readtorch.literate.grammar import Directive, TraceSpec, parse_directives, parse_trace
from readtorch.literate.percent import RawCell, scan, split_lines, uncomment

ORDER = (
    "00_tensor",
    "a1_operators",
    "01_import",
    "02_module",
    "03_norm",
    "a2_layers",
    "a3_kernels",
    "a4_distributions",
    "04_optim",
    "05_data",
    "06_data_parallel",
    "07_distributed",
)
"""The chapters in reading order; the one place where it is declared. Not all of them need to exist yet."""


@dataclass(frozen=True)
class Cell:
    """One cell of a part.

    `line` is the chapter line of the `# %%` marker, `first_line` that of the source's first line. `source` is what a kernel
    is sent (directives included) or the Markdown text. `code` is the source below its directives, from `code_line` on.
    """

    part: str
    path: str
    index: int
    kind: str
    line: int
    first_line: int
    source: str
    directives: tuple[Directive, ...] = ()
    code: str = ""
    code_line: int = 0
    tags: tuple[str, ...] = ()
    faulty: bool = False
    """Something is wrong inside it, so that nothing may be concluded from what it does not say."""

    def get(self, key: str) -> str | None:
        """The value of directive `key` ("" for a flag), None where the cell has none."""
        return next((d.value for d in self.directives if d.key == key), None)

    def get_all(self, key: str) -> tuple[str, ...]:
        return tuple(d.value for d in self.directives if d.key == key)

    def has(self, key: str) -> bool:
        return self.get(key) is not None

    def directive_line(self, key: str) -> int:
        return next((d.line for d in self.directives if d.key == key), self.first_line)

    @property
    def into(self) -> str | None:
        return self.get("into")

    @property
    def needs(self) -> tuple[str, ...]:
        return self.get_all("needs")

    @property
    def trace(self) -> TraceSpec | None:
        value = self.get("trace")
        return None if value is None else parse_trace(value)

    @cached_property
    def tree(self) -> ast.Module:
        """The code's syntax tree, its line numbers those of the chapter. Raises LiterateError on a syntax error."""
        try:
            tree = ast.parse(self.code, filename=self.path)
        except SyntaxError as error:
            line = self.code_line + (error.lineno or 1) - 1
            raise LiterateError(Problem(self.path, line, f"syntax error: {error.msg}", "mend the cell")) from None
        except (ValueError, RecursionError) as error:
            raise LiterateError(Problem(self.path, self.code_line, f"cannot be parsed: {error}")) from None
        return ast.increment_lineno(tree, self.code_line - 1)

    @cached_property
    def reopens(self) -> str | None:
        """The class that this cell re-opens (`class C(C):` and nothing else), or None."""
        body = self.tree.body
        if len(body) != 1 or not isinstance(body[0], ast.ClassDef) or not body[0].bases:
            return None
        first = body[0].bases[0]
        return body[0].name if isinstance(first, ast.Name) and first.id == body[0].name else None

    @cached_property
    def defines(self) -> tuple[str, ...]:
        """Qualified names that the cell defines at module level, or inside the class it re-opens, in order."""
        body: list[ast.stmt] = self.tree.body
        prefix = ""
        if self.reopens:
            opened = body[0]
            assert isinstance(opened, ast.ClassDef)
            body, prefix = opened.body, f"{opened.name}."
        return tuple(prefix + name for statement in body for name in bound_names(statement))


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """Names that one statement binds as a definition or an assignment (imports are not definitions)."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    elif isinstance(statement, ast.If | ast.Try | ast.With):
        blocks = [statement.body, getattr(statement, "orelse", [])]
        for child in (c for block in blocks for c in block):
            yield from bound_names(child)


@dataclass(frozen=True)
class Part:
    """One notebook: one page, one cache entry. `name` is its path below chapters/ without `.py`."""

    name: str
    file: Path
    path: str
    text: str
    cells: tuple[Cell, ...] = field(repr=False)

    @property
    def chapter(self) -> str:
        return self.name.split("/")[0]

    @property
    def code_cells(self) -> tuple[Cell, ...]:
        return tuple(c for c in self.cells if c.kind == "code")

    @property
    def title(self) -> str:
        """The text of the first Markdown heading, else the part's name."""
        for cell in self.cells:
            if cell.kind == "markdown":
                match = re.search(r"^#+ (.+)$", cell.source, re.MULTILINE)
                if match:
                    return match[1].strip()
        return self.name

    @cached_property
    def ids(self) -> dict[int, str]:
        """Cell index to its stable anchor: `id:`, else the first symbol defined, else a counter within the section."""
        result: dict[int, str] = {}
        used: set[str] = set()
        section, count = "start", 0
        for cell in self.cells:
            if cell.kind == "markdown":
                heads = re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)
                if heads:
                    section, count = re.sub(r"\W+", "-", heads[-1].lower()).strip("-"), 0
                continue
            count += 1
            wanted = cell.get("id") or (cell.defines[0] if cell.into and cell.defines else f"{section}-{count}")
            name, n = wanted, 2
            while name in used:
                name, n = f"{wanted}-{n}", n + 1
            used.add(name)
            result[cell.index] = name
        return result


@dataclass(frozen=True)
class Book:
    """All parts in reading order. `root` holds `chapters/` (and, in a checkout, `src/readtorch/`)."""

    root: Path
    parts: tuple[Part, ...]

    @property
    def package(self) -> Path:
        return self.root / "src" / "readtorch"

    @property
    def chapters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.chapter for p in self.parts))

    def part(self, name: str) -> Part:
        """The part called `name`; KeyError names the ones there are."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"no part {name!r}; there are {', '.join(p.name for p in self.parts)}")

    def as_of(self, chapter: str) -> Book:
        """The book up to the end of `chapter`."""
        if chapter not in self.chapters:
            raise KeyError(f"no chapter {chapter!r}; there are {', '.join(self.chapters)}")
        last = ORDER.index(chapter)
        return Book(self.root, tuple(p for p in self.parts if ORDER.index(p.chapter) <= last))

    @classmethod
    def load(cls, root: Path | None = None, previous: Book | None = None) -> Book:
        """Read every chapter below `root` (default: the book this package belongs to).

        Parts whose text is as in `previous` are taken from there. Raises LiterateError: what is wrong in the chapters, and
        in the package that the sound cells would make.
        """
        root = find_root() if root is None else Path(root)
        problems = Problems()
        parts = []
        known = {} if previous is None else {part.path: part for part in previous.parts}
        with collection_paused():
            for file in part_files(root / "chapters", problems):
                with problems.collecting():
                    parts.append(read_part(file, root, problems, known))
        book = cls(root, tuple(parts))
        _check_empty(book, problems)
        if len(problems):
            from readtorch.literate.tangle import further_faults

            further_faults(book, problems)
            raise problems.error
        return book


def _check_empty(book: Book, problems: Problems) -> None:
    """A part without a cell, if others build on what it held: it was emptied, and is what is at fault, not they."""
    empty = [part for part in book.parts if not part.cells and not problems.lines_of(part.path)]
    if not empty:
        return
    from readtorch.literate.tangle import tangle

    try:
        tangle(book)
    except LiterateError:
        for part in empty:
            way_out = "write a cell, bring its text back from git, or delete the file"
            problems.add(part.path, 0, "the part is empty: it has no cell", way_out)


def part_files(chapters: Path, problems: Problems | None = None) -> list[Path]:
    """The part files in reading order. A file or folder whose name is not in ORDER is an error, raised or put to `problems`."""
    faults = Problems() if problems is None else problems
    found: dict[str, list[Path]] = {}
    for entry in sorted(chapters.iterdir()) if chapters.is_dir() else []:
        if entry.name.startswith((".", "_")) or entry.name == "data":
            continue
        if entry.stem not in ORDER:
            if entry.suffix == ".py" or (entry.is_dir() and any(entry.glob("*.py"))):
                faults.add(f"chapters/{entry.name}", 0, "is no chapter", "name it in ORDER in literate/chapter.py")
            continue
        files = sorted(entry.glob("*.py"), key=_by_name) if entry.is_dir() else [entry]
        for file in files:
            if not re.fullmatch(r"\w[\w-]*", file.stem, re.ASCII) and not file.name.startswith("."):
                name = file.relative_to(chapters.parent).as_posix()
                faults.add(name, 0, "a part's name is part of addresses", "name it with letters, digits, `_` and `-`")
        found[entry.stem] = files
    if problems is None:
        faults.raise_if_any()
    return [file for name in ORDER for file in found.get(name, [])]


def _by_name(file: Path) -> list[tuple[int, str]]:
    """File names in order, numbers in them compared as numbers: 9_x before 10_y."""
    return [(int(piece), "") if piece.isdigit() else (0, piece) for piece in re.split(r"(\d+)", file.name)]


def find_root() -> Path:
    """The folder that holds `chapters/`: the checkout this package lies in, else the book shipped in the wheel."""
    here = Path(__file__).resolve().parent
    checkout, shipped = here.parents[2], here / "book"
    if (shipped / "chapters").is_dir():
        return shipped
    if (checkout / "chapters").is_dir() or (checkout / "pyproject.toml").is_file():
        return checkout
    raise LiterateError(Problem(str(here), 0, "no chapters found", "run from a checkout, or reinstall readtorch"))


def read_part(
    file: Path, root: Path, problems: Problems | None = None, known: Mapping[str, Part] | None = None
) -> Part:
    """Parse one part, or find it by path in `known` with the same text.

    LiterateError lists everything wrong in it, unless it is put to `problems` and faulty cells marked.
    """
    path = file.relative_to(root).as_posix()
    name = file.relative_to(root / "chapters").with_suffix("").as_posix()
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise LiterateError(Problem(path, 0, f"is not UTF-8: {error}", "save it as UTF-8")) from None
    kept = None if known is None else known.get(path)
    if kept is not None and kept.text == text and kept.file == file:
        return kept
    return parse_part(text, name=name, path=path, file=file, problems=problems)


def parse_part(text: str, *, name: str, path: str, file: Path | None = None, problems: Problems | None = None) -> Part:
    """Parse the text of one part. What is wrong names `path`, and is raised or put to `problems`."""
    faults = Problems() if problems is None else problems
    before = len(faults)
    lines = split_lines(text, path, faults)
    cells = [_cell(raw, index, name, path, faults) for index, raw in enumerate(scan(lines, path, faults))]
    complete = len(faults) == before
    _parse_code(lines, cells, path, faults)
    _check_cells(cells, faults, complete)
    if problems is None:
        faults.raise_if_any()
    elif len(faults) > before:
        cells = _marked(cells, faults.lines_of(path))
    return Part(name, file or Path(path), path, text, tuple(cells))


def _marked(cells: list[Cell], lines: list[int]) -> list[Cell]:
    """The cells, those with a fault at one of the lines marked."""
    result = []
    for cell, below in pairwise([*cells, None]):
        assert cell is not None
        stop = below.line if below is not None else max(lines) + 1
        faulty = any(cell.line <= line < stop for line in lines)
        result.append(replace(cell, faulty=True) if faulty else cell)
    return result


def _cell(raw: RawCell, index: int, name: str, path: str, problems: Problems) -> Cell:
    first_line = raw.line + 1
    if raw.kind != "code":
        source = "\n".join(map(uncomment, raw.body))
        return Cell(name, path, index, raw.kind, raw.line, first_line, source, tags=raw.tags)
    directives, taken = parse_directives(raw.body, first_line, path, problems)
    start, stop = taken, len(raw.body)
    while start < stop and not raw.body[start].strip():
        start += 1
    while stop > start and not raw.body[stop - 1].strip():
        stop -= 1
    code = "\n".join(raw.body[start:stop])
    source = "\n".join(raw.body)
    return Cell(
        name, path, index, raw.kind, raw.line, first_line, source, directives, code, first_line + start, raw.tags
    )


def _parse_code(lines: list[str], cells: list[Cell], path: str, problems: Problems) -> None:
    """Give each code cell its syntax tree: from one parse of the whole file, much faster than one for each cell.

    Where that fails, or a statement reaches over a cell border, the cells are parsed one by one to find whose fault it is.
    """
    code_cells = [cell for cell in cells if cell.kind == "code"]
    trees = _trees_of_whole_file(lines, code_cells, path)
    for cell in code_cells:
        if trees is None:
            with problems.collecting():
                _ = cell.tree
        else:
            cell.__dict__["tree"] = trees[cell.index]


def _trees_of_whole_file(lines: list[str], cells: list[Cell], path: str) -> dict[int, ast.Module] | None:
    try:
        statements = ast.parse("\n".join(lines) + "\n", filename=path).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    trees: dict[int, ast.Module] = {}
    at = 0
    for cell in cells:
        last = cell.code_line + cell.code.count("\n")
        body: list[ast.stmt] = []
        while at < len(statements) and statement_start(statements[at]) <= last:
            if statement_start(statements[at]) < cell.code_line or (statements[at].end_lineno or 0) > last:
                return None
            body.append(statements[at])
            at += 1
        trees[cell.index] = ast.Module(body, [])
    return trees if at == len(statements) else None


def statement_start(statement: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _check_cells(cells: list[Cell], problems: Problems, complete: bool) -> None:
    """Faults that only the part as a whole shows; where some directives could not be read, those that do not ask for more."""
    anchors: dict[str, Cell] = {}
    for cell in cells:
        name = cell.get("id")
        if name is not None and name in anchors:
            first = anchors[name]
            place = f"{first.path}:{first.directive_line('id')}"
            problems.add(cell.path, cell.directive_line("id"), f"id {name!r} is taken at {place}", "choose another")
        elif name is not None:
            anchors[name] = cell
        for directive in cell.directives:
            if directive.key == "needs":
                _check_needs(cell, directive, problems)
    if complete:
        _check_exercises(cells, problems)


def _check_exercises(cells: list[Cell], problems: Problems) -> None:
    """An exercise has one stub, one solution and one check, in this order."""
    found: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        for key in ("exercise", "solution", "check"):
            name = cell.get(key)
            if name is None:
                continue
            earlier = found.setdefault(name, {})
            line = cell.directive_line(key)
            if key in earlier:
                place = f"{cell.path}:{earlier[key].directive_line(key)}"
                problems.add(cell.path, line, f"{key} {name!r} stands a second time (first at {place})", "rename one")
            elif key != "exercise" and ("exercise" not in earlier or (key == "check" and "solution" not in earlier)):
                before = "exercise" if "exercise" not in earlier else "solution"
                problems.add(
                    cell.path, line, f"{key} {name!r} has no {before} above it", f"add a cell `#| {before}: {name}`"
                )
            earlier.setdefault(key, cell)
    for name, cells_of in found.items():
        for key in ("solution", "check"):
            if "exercise" in cells_of and key not in cells_of:
                stub = cells_of["exercise"]
                problems.add(
                    stub.path,
                    stub.directive_line("exercise"),
                    f"exercise {name!r} has no {key}",
                    f"add a cell `#| {key}: {name}` below it",
                )


def _check_needs(cell: Cell, directive: Directive, problems: Problems) -> None:
    chapter, own = directive.value.split("/")[0], cell.part.split("/")[0]
    if chapter not in ORDER:
        problems.add(cell.path, directive.line, f"needs: no chapter {chapter!r}", f"there are {', '.join(ORDER)}")
    elif own in ORDER and ORDER.index(chapter) <= ORDER.index(own):
        problems.add(cell.path, directive.line, f"needs: {chapter} is no later chapter", "remove the directive")
