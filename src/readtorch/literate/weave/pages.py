"""A part as a page: Markdown for mkdocs with a numbered slot wherever HTML of ours goes.

The text stays at the top level of the Markdown, so that headings, admonitions, tabs, footnotes and cross references work as on
any page. The slots are comments; after mkdocs has made its HTML of the text they are filled: rows that set notes beside code,
and the cells themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from markdown.extensions.toc import slugify

from readtorch.literate.chapter import Cell, Part
from readtorch.literate.weave import prose
from readtorch.literate.weave.addresses import page_source, page_url, relative, slug
from readtorch.literate.weave.cells import CellWriter, is_setup
from readtorch.literate.weave.devices import HERE, provenance, recorded, tabs
from readtorch.literate.weave.faulty import faults_box, with_fault
from readtorch.literate.weave.outputs import render_outputs
from readtorch.literate.weave.whole import whole_name

if TYPE_CHECKING:
    from readtorch.literate.weave.site import Site

_SLOT = re.compile(r"<!--rt:(\d+)-->")
_EXERCISE = ("exercise", "solution", "check")


@dataclass
class WovenPage:
    """`files` are what the page needs beside itself: figures and traces, by address from the site's root."""

    part: str
    markdown: str
    slots: list[str]
    anchors: set[str]
    files: dict[str, bytes] = field(default_factory=dict)
    searched: dict[int, str] = field(default_factory=dict)
    """Slot number to what the search index knows of it."""

    @property
    def source(self) -> str:
        return page_source(self.part)

    def fill(self, html: str) -> str:
        """The page's HTML, as mkdocs made it, with the slots filled."""
        return _SLOT.sub(lambda match: self.slots[int(match[1])], html)

    def words(self, html: str) -> str:
        """The page for the search index: the text, and for each piece of code what it defines and where."""
        return _SLOT.sub(lambda match: self.searched.get(int(match[1]), ""), html)


def weave_part(part: Part, site: Site, result: Any | None) -> WovenPage:
    """Make the page of `part`; `result` is its execution, None where it was not run."""
    return _PageMaker(part, site, result).make()


class _PageMaker:
    def __init__(self, part: Part, site: Site, result: Any | None) -> None:
        self.part = part
        self.site = site
        self.url = page_url(part.name)
        self.cells: Mapping[int, Any] = result.cells if result is not None else {}
        evidence = {i: r.evidence for i, r in self.cells.items() if r.evidence is not None}
        self.writer = CellWriter(part, site, self._outputs, evidence)
        self.slots: list[str] = []
        self.out: list[str] = []
        self.files: dict[str, bytes] = {}
        self.searched: dict[int, str] = {}
        self.anchors = set(part.ids.values()) | set(site.addresses.inner[part.path].values())

    def make(self) -> WovenPage:
        title = json.dumps(plain(self.part.title))
        self.out.append(f"---\ntitle: {title}\nrt_part: {json.dumps(self.part.name)}\n---\n")
        self._slot(
            f'<div class="rt-page" data-part="{escape(self.part.name)}" data-path="{escape(self.part.path)}" '
            f'data-root="{escape(relative("index.html", self.url).removesuffix("index.html"))}">'
        )
        faults = self.site.faults.get(self.part.path)
        if faults:
            self._slot(faults_box(faults, self.part))
        sections: list[str] = []
        cells: list[Cell] = []
        for cell in self.part.cells:
            if cell.kind == "markdown":
                if cells:
                    self._row(sections, cells)
                    sections, cells = [], []
                text = prose.to_mkdocs(cell.source, lambda t, a: self.site.addresses.chapter_link(t, a, self.part))
                sections += prose.split_sections(text)
            elif cell.kind == "code" and (cell.code.strip() or cell.directives):
                cells.append(cell)
        self._row(sections, cells)
        self._slot("</div>")
        return WovenPage(self.part.name, "\n".join(self.out), self.slots, self.anchors, self.files, self.searched)

    def _slot(self, html: str) -> None:
        self.out.append(f"\n<!--rt:{len(self.slots)}-->\n")
        self.slots.append(html)

    def _row(self, sections: list[str], cells: list[Cell]) -> None:
        """Text and the cells that follow it: the last section of the text, below its last wide block, stands beside them."""
        beside = bool(cells) and not all(is_setup(cell) for cell in cells)
        for section in sections[: -1 if beside else None]:
            self._prose(section)
        if not cells:
            return
        heading, text = _heading(sections[-1] if sections and beside else "")
        self._head(heading)
        wide, note = prose.split_wide(text)
        if wide:
            self._prose(wide)
        html = self._cells(cells)
        sided = " rt-sides" if 'class="rt-side"' in html else ""
        bare = "" if note else " rt-bare"
        self._slot(f'<section class="rt-row{sided}{bare}"><div class="rt-note">')
        if note:
            self.out.append(f"\n{note}\n")
        self.searched[len(self.slots)] = "".join(f"<p>{escape(text)}</p>" for text in map(_words, cells) if text)
        self._slot(f'</div><div class="rt-code">{html}</div></section>')

    def _head(self, heading: str) -> None:
        """A heading, under another id where its own is that of a cell or definition of the page."""
        if heading:
            name = slugify(plain(heading.lstrip("# ")), "-")
            own = f" {{ #{name}-section }}" if name in self.anchors and not heading.rstrip().endswith("}") else ""
            self.out.append(f"\n{heading}{own}\n")

    def _prose(self, section: str) -> None:
        heading, text = _heading(section)
        self._head(heading)
        if text:
            self._slot('<div class="rt-prose">')
            self.out.append(f"\n{text}\n")
            self._slot("</div>")

    def _cells(self, cells: list[Cell]) -> str:
        """The cells' HTML, an exercise with its solution and checker as one card."""
        out: list[str] = []
        card: list[str] = []
        for cell in cells:
            html = self.writer.write(cell)
            if any(cell.has(key) for key in _EXERCISE):
                if cell.has("exercise") and card:
                    out.append(_card(card))
                    card = []
                card.append(html)
                continue
            if card:
                out.append(_card(card))
                card = []
            out.append(html)
        if card:
            out.append(_card(card))
        return "".join(out)

    # outputs

    def _outputs(self, cell: Cell) -> str:
        result = self.cells.get(cell.index)
        anchor = self.part.ids[cell.index]
        elsewhere = recorded(self.part, anchor, cell.code, self.site.recordings)
        panels = []
        if result is not None and result.skipped and not elsewhere:
            return f'<p class="rt-skipped">Not run here: {escape(result.skipped)}.</p>'
        outputs = with_fault(result) if result is not None and not result.skipped else []
        if inner := self._rendered(outputs, slug(anchor)):
            panels.append((HERE, inner))
        for recording, entry, current in elsewhere:
            inner = self._rendered(entry["outputs"], f"{slug(anchor)}-{slug(recording.device)}")
            if inner and not (panels and inner == panels[0][1]):
                panels.append((recording.device, provenance(recording, current) + inner))
        return f'<div class="rt-outputs">{tabs(slug(anchor), panels)}</div>' if panels else ""

    def _rendered(self, outputs: list[dict[str, Any]], stem: str) -> str:
        count = 0

        def figure(suffix: str, data: bytes) -> str:
            nonlocal count
            count += 1
            name = f"{stem}-{count}.{suffix}"
            self.files[self.url.removesuffix("index.html") + name] = data
            return name

        def trace(document: dict[str, Any]) -> str:
            return self._trace(stem, document)

        return render_outputs(outputs, figure, trace, f"Figure drawn by the cell above ({stem})")

    def _trace(self, stem: str, document: dict[str, Any]) -> str:
        from readtorch.literate.trace.page import element_html, trace_js

        name = f"{slug(self.part.name)}-{stem}"
        if document["schema"].startswith("readtorch-imports"):
            return self._imports(f"imports-{name}", document)
        address = f"traces/{name}.js"
        self.files[address] = trace_js(name, document).encode()
        book = relative("book/x", self.url).removesuffix("x")
        element = element_html(document, identifier=name, src=relative(address, self.url), book=book)
        return f'<div class="rt-trace">{element}</div>'

    def _imports(self, name: str, document: dict[str, Any]) -> str:
        from readtorch.literate.trace.import_page import element_html, imports_js

        address = f"traces/{name}.js"
        self.files[address] = imports_js(name, document).encode()
        return f'<div class="rt-trace">{element_html(document, identifier=name, src=relative(address, self.url))}</div>'

    def whole_names(self) -> set[str]:
        found = (self.site.fragments.get((self.part.path, c.index)) for c in self.part.code_cells)
        return {whole_name(f.file, f.thread) for f in found if f is not None and f.pieces > 1}


def _words(cell: Cell) -> str:
    """What one would search a cell by."""
    if cell.into:
        return " ".join([*cell.defines, cell.into])
    return cell.get("claim") or cell.get("exercise") or ""


def _card(cells: list[str]) -> str:
    return f'<div class="rt-card">{"".join(cells)}</div>'


def _heading(section: str) -> tuple[str, str]:
    """A section's heading line and the text below it."""
    first, _, rest = section.partition("\n")
    return (first, rest.strip("\n")) if re.match(r"#{1,6} ", first) else ("", section)


def plain(text: str) -> str:
    """A heading without Markdown marks, for titles and navigation."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    pieces = text.split("`")  # every second one is code: `torch._C` keeps its underscore
    pieces[::2] = [re.sub(r"\*|(?<!\w)_|_(?!\w)", "", piece) for piece in pieces[::2]]
    return "".join(pieces).strip()
