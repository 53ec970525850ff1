"""One code cell as HTML, by what it is: tangled code, a demonstration, evidence, an exercise, a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from readtorch.literate import facts
from readtorch.literate.chapter import Cell, Part
from readtorch.literate.weave import listing
from readtorch.literate.weave.addresses import page_url, relative
from readtorch.literate.weave.faulty import why_not
from readtorch.literate.weave.fragments import Fragment
from readtorch.literate.weave.prose import inline_html, to_html
from readtorch.literate.weave.resolve import Local, Reference, References
from readtorch.literate.weave.symbols import Definition, ModuleRef, module_name
from readtorch.literate.weave.whole import whole_name

if TYPE_CHECKING:
    from readtorch.literate.weave.site import Site


class CellWriter:
    """Writes the cells of one part, in order: what a cell may refer to depends on the cells above it."""

    def __init__(self, part: Part, site: Site, outputs: Callable[[Cell], str], evidence: Mapping[int, Any]) -> None:
        self.part = part
        self.site = site
        self.url = page_url(part.name)
        self.outputs = outputs
        self.evidence = evidence
        self.notebook = site.notebook()
        self._cell_index = -1
        self.locals: dict[str, str] = {}
        """Names that demonstrations define, to the anchor of their cell."""

    def write(self, cell: Cell) -> str:
        html = self._write(cell)
        if cell.into and cell.into.endswith(".py"):
            for statement in cell.tree.body:
                self.notebook.run(statement, module_name(cell.into))
        return html

    def _write(self, cell: Cell) -> str:
        if cell.into:
            return self._tangled(cell)
        if cell.has("claim"):
            return self._claim(cell)
        if cell.has("test"):
            return self._folded(cell, "rt-test", f"Test <code>{escape(_first_name(cell) or 'cell')}</code>")
        for key, label in (("solution", "A solution"), ("check", "The checker")):
            if cell.has(key):
                return self._folded(cell, f"rt-{key}", label)
        if cell.has("exercise"):
            name = escape(cell.get("exercise") or "")
            head = f'<div class="rt-head"><span class="rt-kind">Exercise</span><code>{name}</code></div>'
            return self._cell(cell, "rt-exercise", head + self._listing(cell)[0])
        if is_setup(cell):
            return self._folded(cell, "rt-setup", "Notebook setup")
        if not cell.code.strip():  # facts and sources alone
            return self._cell(cell, "rt-noted", self._footer(cell))
        code, _ = self._listing(cell)
        return self._cell(cell, "rt-demo", code + self.outputs(cell) + self._footer(cell))

    def _cell(self, cell: Cell, css: str, body: str, tag: str = "div", attributes: str = "") -> str:
        anchor = listing.attribute(self.part.ids[cell.index])
        return f'<{tag} class="rt-cell {css}" id={anchor} data-cell={cell.index}{attributes}>{body}</{tag}>'

    def _folded(self, cell: Cell, css: str, label: str) -> str:
        code, _ = self._listing(cell)
        body = f"<summary>{label}</summary>{code}{self.outputs(cell)}{self._footer(cell)}"
        return self._cell(cell, css, body, tag="details")

    # tangled code

    def _tangled(self, cell: Cell) -> str:
        fragment = self.site.fragments.get((self.part.path, cell.index))
        if fragment is None:  # an empty cell, or one whose lines were all merged into another's
            return self._cell(cell, "rt-tangled", self._listing(cell)[0])
        code, has_sides = self._listing(cell, fragment)
        if cell.has("imports"):
            label = f"<code>{escape(fragment.file)}</code> imports"
            return self._cell(
                cell, "rt-imports", f"<summary>{label}</summary>{code}{self._footer(cell)}", tag="details"
            )
        body = self._head(fragment) + code + self._footer(cell, fragment)
        return self._cell(cell, "rt-tangled rt-sided" if has_sides else "rt-tangled", body)

    def _head(self, fragment: Fragment) -> str:
        place = inline_html(fragment.place)
        links = []
        for neighbour, word, arrow in ((fragment.previous, "Previous", "←"), (fragment.next, "Next", "→")):
            if neighbour is not None:
                href = listing.attribute(relative(self.site.addresses.of_cell(*neighbour.key), self.url))
                what = fragment.thread if fragment.is_class else "this file"
                title = escape(f"{word} in {what}: {neighbour.title}")
                links.append(f'<a href={href} aria-label="{title}">{arrow}</a>')
        nav = f"<div>{''.join(links)}</div>" if links else ""
        return f"<div class=rt-head><code>{escape(fragment.file)}</code><span>{place}</span>{nav}</div>"

    def _footer(self, cell: Cell, fragment: Fragment | None = None) -> str:
        items = [self._upstream(value, cell) for value in cell.get_all("upstream")]
        items += [self._fact(value) for value in cell.get_all("fact")]
        items += [_source(value) for value in cell.get_all("source")]
        if fragment is not None and fragment.pieces > 1 and not cell.has("imports"):
            what = "class" if fragment.is_class else "file"
            name = listing.attribute(whole_name(fragment.file, fragment.thread))
            items.append(f"<details class=rt-whole data-whole={name}><summary>The whole {what}</summary></details>")
        return f"<div class=rt-foot>{''.join(items)}</div>" if items else ""

    def _upstream(self, target: str, cell: Cell) -> str:
        try:
            found = facts.resolve(target)
        except facts.Unresolved as error:
            self.site.problems.append(error.problem(cell.path, cell.directive_line("upstream")))
            return ""
        mirrored = facts.our_path(found.path) == cell.into
        return f"<span class=rt-up>{_upstream_link(found, with_path=not mirrored)}</span>"

    def _fact(self, target: str) -> str:
        try:
            found = facts.resolve_fact(target)
        except facts.Unresolved:
            return ""  # the evidence collector reports it, with its line
        _, calls, names = target.partition("#")[2].replace(">>", "").partition(">")
        then = ", then ".join(f"<code>{escape(name)}</code>" for name in names.split("<"))
        said = f" calls {then}" if calls else ""
        return f'<span class="rt-fact">{" before ".join(map(_upstream_link, found))}{said}</span>'

    # evidence

    def _claim(self, cell: Cell) -> str:
        claim = cell.get("claim") or ""
        sentence = inline_html(claim)
        # A sentence begins with a capital letter on the page; a name in code keeps its own.
        named = " rt-named" if _BEGINS_WITH_A_NAME.match(claim) else ""
        differs = cell.get("differs")
        result = self.evidence.get(cell.index)
        why = f'<p class="rt-differs">Differs: {inline_html(differs)}</p>' if differs else ""
        body = (
            f'<p class="rt-sentence{named}">{sentence}</p>{why}<details><summary>{_ticks(result)}</summary>'
            f"{self._listing(cell)[0]}</details>{why_not(result)}{self._footer(cell)}"
        )
        return self._cell(cell, "rt-claim", body)

    # listings

    def _listing(self, cell: Cell, fragment: Fragment | None = None) -> tuple[str, bool]:
        """The code's HTML, and whether it has side comments."""
        self._cell_index = cell.index
        code, first = cell.code, cell.code_line
        language = "python"
        references: list[Reference] = []
        anchors: dict[int, str] = {}
        if cell.into and not cell.into.endswith(".py"):
            code, first, language = _raw_literal(cell)
        else:
            references = self._references(cell)
            inner = self.site.addresses.inner[self.part.path]
            anchors = {n: inner[n] for n in range(first, first + code.count("\n") + 1) if n in inner}
        if cell.reopens and fragment is not None:
            code, first = _without_header(cell)
            anchors = {n: a for n, a in anchors.items() if n >= first}
        parts = listing.segments(code, first, references, anchors, self._href, language)
        before = _dimmed(fragment.before) if fragment else ""
        after = _dimmed(fragment.after) if fragment else ""
        return _blocks(parts, before, after)

    def _references(self, cell: Cell) -> list[Reference]:
        text = dict(enumerate(cell.code.split("\n"), start=cell.code_line))
        if cell.into:
            module = module_name(cell.into)
            collector = References(self.site.index, text, lambda name: self.site.index.lookup(module, name))
            collector.visit(cell.tree)
            return collector.found
        for node in cell.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "_":
                self.locals[node.name] = self.part.ids[cell.index]
        return self.notebook.references(cell.tree, text)

    def _href(self, reference: Reference) -> str | None:
        target = reference.target
        if isinstance(target, Definition):
            if target.path == self.part.path and target.cell == self._cell_index:
                return None  # it stands in this very listing
            address = self.site.addresses.of(target)
            return None if address is None else relative(address, self.url)
        if isinstance(target, Local):
            anchor = self.locals.get(target.name)
            return None if anchor is None else f"#{anchor}"
        if isinstance(target, ModuleRef):
            address = self.site.module_page(target.name)
            return None if address is None else relative(address, self.url)
        return None


def _blocks(parts: list[listing.Code | listing.Side], before: str, after: str) -> tuple[str, bool]:
    out: list[str] = []
    codes = [n for n, part in enumerate(parts) if isinstance(part, listing.Code)]
    for number, part in enumerate(parts):
        if isinstance(part, listing.Side):
            out.append(f'<aside class="rt-side">{to_html(part.text)}</aside>')
            continue
        html = part.html
        if before and number == codes[0]:
            html = f"{before}\n{html}"
        if after and number == codes[-1]:
            html = f"{html}\n{after}"
        out.append(f"<pre>{html}\n</pre>")
    sided = len(codes) < len(parts)
    return f"<div class=rt-listing>{''.join(out)}</div>", sided


def _dimmed(lines: list[str]) -> str:
    return "\n".join(f'<span class="rt-dim">{escape(line, quote=False)}</span>' for line in lines)


def _without_header(cell: Cell) -> tuple[str, int]:
    """The code of a re-opening cell below its `class C(C):` line."""
    node = cell.tree.body[0]
    assert isinstance(node, ast.ClassDef)
    first = node.body[0]
    start = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", []))])
    lines = cell.code.split("\n")
    # comments between the header and the first member belong to the member
    while start - 1 > node.lineno and lines[start - 2 - cell.code_line + 1].strip():
        start -= 1
    return "\n".join(lines[start - cell.code_line :]), start


def _raw_literal(cell: Cell) -> tuple[str, int, str]:
    """The text inside the one raw string of a `.cu` cell."""
    node = cell.tree.body[0]
    if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Constant):
        text = str(node.value.value)
        skipped = len(text) - len(text.lstrip("\n"))
        return text.strip("\n"), node.value.lineno + skipped, "cuda"
    return cell.code, cell.code_line, "cuda"


def _first_name(cell: Cell) -> str | None:
    return next((n.name for n in cell.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)), None)


def is_setup(cell: Cell) -> bool:
    """Imports and the call of `live()` only."""
    return any(re.fullmatch(r"live\(\)", line.strip()) for line in cell.code.split("\n")) and all(
        isinstance(n, ast.Import | ast.ImportFrom | ast.Expr) for n in cell.tree.body
    )


def _upstream_link(found: facts.Target, *, with_path: bool = True) -> str:
    """`with_path=False` where the path is the one that the cell's own file mirrors."""
    where = {
        "exact": f"{found.start}–{found.end}" if found.end > found.start else f"{found.start}",
        "anchor": f"around {found.start}",
        "file": "somewhere in the file",
    }[found.grade]
    kind = "line" if found.grade == "exact" and found.start == found.end else "lines"
    path = f" in {escape(found.path)}" if with_path else ""
    where = where if found.grade == "file" else f"{kind if found.grade == 'exact' else 'line'} {where}"
    return f'<a class=rt-{found.grade} href="{escape(found.url)}"><code>{escape(found.name)}</code>{path}, {where}</a>'


def _source(text: str) -> str:
    """A DOI, an address or `owner/repo#number` as a link; anything else as text."""
    value = text.strip()
    issue = re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", value)
    doi = re.fullmatch(r"(?:doi:)?(10\.\d{4,}/\S+)", value, re.IGNORECASE)
    if issue:
        href, label = f"https://github.com/{issue[1]}/issues/{issue[2]}", value
    elif doi:
        href, label = f"https://doi.org/{doi[1]}", f"doi:{doi[1]}"
    elif value.startswith(("https://", "http://")):
        href, label = value.split()[0], value.split("//", 1)[1].rstrip("/")
    else:
        return f'<span class="rt-source">{inline_html(value)}</span>'
    return f'<span class="rt-source"><a href="{escape(href)}">{escape(label)}</a></span>'


_BEGINS_WITH_A_NAME = re.compile(r"`|\w*[_.(]")
"""In code or not: `kl_div's mean …`, `sys.modules is …`, `dir() …`."""
_STATES = {"held": ("✓", "holds"), "failed": ("✗", "does not hold"), "not-run": ("–", "not run here")}


def _ticks(result: Any) -> str:
    """The two ticks: readtorch's and PyTorch's, with versions; honest about what was not run."""
    versions = getattr(result, "versions", None) or {}
    ticks = []
    for field, name, key in (("ours", "readtorch", "readtorch"), ("upstream", "PyTorch", "torch")):
        state = getattr(result, field, None) or "not-run"
        state = state if state in _STATES else "not-run"
        mark, words = _STATES[state]
        version = f" {escape(str(versions[key]))}" if versions.get(key) and state != "not-run" else ""
        note = "" if state == "held" else f" ({words})"
        ticks.append(f'<span class="rt-tick rt-{state}">{mark} {name}{version}{note}</span>')
    return "".join(ticks)
