"""The chapter model: a book is parts, a part is cells, a cell is source with directives.

A line parser of its own reads jupytext's percent format without importing jupytext (which alone takes longer than tangling
the whole book); tests hold it equal to jupytext's reader.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.grammar import Directive, TraceSpec, parse_directives, parse_trace

ORDER = (
    "00_tensor",
    "a1_operators",
    "01_import",
    "02_module",
    "03_norm",
    "a2_layers",
    "04_optim",
    "05_data",
    "06_data_parallel",
    "07_distributed",
)
"""The chapters in reading order; the one place where it is declared. Not all of them need to exist yet."""

_MARKER = re.compile(r"# %%(?P<rest>(?:[ %].*)?)$")
_TYPE = re.compile(r"\s*\[(?P<kind>markdown|md|raw)\]")
_TAGS = re.compile(r"tags=(\[[^\]]*\])")


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
            tree = ast.parse(self.code)
        except SyntaxError as error:
            line = self.code_line + (error.lineno or 1) - 1
            raise LiterateError(Problem(self.path, line, f"syntax error: {error.msg}")) from None
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
    def load(cls, root: Path | None = None) -> Book:
        """Read every chapter below `root` (default: the book this package belongs to). Raises LiterateError."""
        root = find_root() if root is None else Path(root)
        problems = Problems()
        parts = []
        for file in part_files(root / "chapters"):
            with problems.collecting():
                parts.append(read_part(file, root))
        problems.raise_if_any()
        return cls(root, tuple(parts))


def part_files(chapters: Path) -> list[Path]:
    """The part files in reading order. A file or folder whose name is not in ORDER is an error."""
    problems = Problems()
    found: dict[str, list[Path]] = {}
    for entry in sorted(chapters.iterdir()) if chapters.is_dir() else []:
        if entry.name.startswith((".", "_")) or entry.name == "data":
            continue
        if entry.stem not in ORDER:
            if entry.suffix == ".py" or (entry.is_dir() and any(entry.glob("*.py"))):
                problems.add(f"chapters/{entry.name}", 0, "is no chapter", "name it in ORDER in literate/chapter.py")
            continue
        found[entry.stem] = sorted(entry.glob("*.py")) if entry.is_dir() else [entry]
    problems.raise_if_any()
    return [file for name in ORDER for file in found.get(name, [])]


def find_root() -> Path:
    """The folder that holds `chapters/`: the checkout this package lies in, else the book shipped in the wheel."""
    here = Path(__file__).resolve().parent
    checkout, shipped = here.parents[2], here / "book"
    if (shipped / "chapters").is_dir():
        return shipped
    if (checkout / "chapters").is_dir() or (checkout / "pyproject.toml").is_file():
        return checkout
    raise LiterateError(Problem(str(here), 0, "no chapters found", "run from a checkout, or reinstall readtorch"))


def read_part(file: Path, root: Path) -> Part:
    """Parse one part; LiterateError lists everything wrong in it."""
    path = file.relative_to(root).as_posix()
    name = file.relative_to(root / "chapters").with_suffix("").as_posix()
    return parse_part(file.read_text(encoding="utf-8"), name=name, path=path, file=file)


def parse_part(text: str, *, name: str, path: str, file: Path | None = None) -> Part:
    """Parse the text of one part. Problems name `path`."""
    problems = Problems()
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    starts = _marker_lines(lines)
    cells = []
    for index, start in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else len(lines)
        cells.append(_read_cell(lines, start, stop, index, name, path, problems))
    for cell in cells:
        if cell.kind == "code":
            with problems.collecting():
                _ = cell.tree
    problems.raise_if_any()
    return Part(name, file or Path(path), path, text, tuple(cells))


def _marker_lines(lines: list[str]) -> list[int]:
    """0-based lines of the cell markers, those inside a triple-quoted string left out."""
    found: list[int] = []
    quote = ""
    for number, line in enumerate(lines):
        if not quote and _MARKER.match(line):
            found.append(number)
            continue
        quote = _open_quote(line, quote)
    return found


_STRING = re.compile(r"'''|\"\"\"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|#|\\.")


def _open_quote(line: str, quote: str) -> str:
    """The triple quote that is still open after `line`, given the one open before it."""
    if not quote and "'''" not in line and '"""' not in line:
        return ""
    position = 0
    while position < len(line):
        if quote:
            end = re.compile(r"\\.|" + quote).search(line, position)
            while end and end[0] != quote:
                end = re.compile(r"\\.|" + quote).search(line, end.end())
            if end is None:
                return quote
            position, quote = end.end(), ""
            continue
        token = _STRING.search(line, position)
        if token is None or token[0] == "#":
            return ""
        if token[0] in ("'''", '"""'):
            quote = token[0]
        position = token.end()
    return quote


def _read_cell(lines: list[str], start: int, stop: int, index: int, name: str, path: str, problems: Problems) -> Cell:
    match = _MARKER.match(lines[start])
    assert match is not None
    rest = match["rest"]
    kind_match = _TYPE.match(rest)
    kind = {"md": "markdown"}.get(kind_match["kind"], kind_match["kind"]) if kind_match else "code"
    tags_match = _TAGS.search(rest)
    tags = tuple(ast.literal_eval(tags_match[1])) if tags_match else ()
    body = lines[start + 1 : stop]
    while body and not body[-1].strip():
        body.pop()
    first_line = start + 2
    if kind != "code":
        return Cell(name, path, index, kind, start + 1, first_line, "\n".join(map(_uncomment, body)), tags=tags)
    directives, taken = parse_directives(body, first_line, path, problems)
    code = body[taken:]
    while code and not code[0].strip():
        code.pop(0)
        taken += 1
    return Cell(
        name,
        path,
        index,
        kind,
        start + 1,
        first_line,
        "\n".join(body),
        directives,
        "\n".join(code),
        first_line + taken,
        tags,
    )


def _uncomment(line: str) -> str:
    return line[2:] if line.startswith("# ") else line.removeprefix("#")
