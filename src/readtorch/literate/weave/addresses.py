"""Where things are on the site: pages of parts, anchors of cells and definitions."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote

from readtorch.literate.chapter import Book, Part
from readtorch.literate.weave.symbols import Definition, SymbolIndex


def page_source(part: str) -> str:
    """The name under which mkdocs knows a part's page."""
    return f"book/{part}/index.md"


def page_url(part: str) -> str:
    """The page's address from the site's root, `index.html` written out so that it opens from a folder too."""
    return f"book/{part}/index.html"


def relative(target: str, page: str) -> str:
    """The address `target` as seen from `page`, both from the site's root."""
    path, mark, anchor = target.partition("#")
    if path == page:
        return mark + anchor or "#"
    return posixpath.relpath(path, posixpath.dirname(page) or ".") + mark + anchor


class Addresses:
    """Anchors are decided once for the whole book: first the cells' own (`Part.ids`), then one for every other definition."""

    def __init__(self, book: Book, index: SymbolIndex) -> None:
        self.parts: dict[str, Part] = {part.path: part for part in book.parts}
        self._anchors: dict[str, str] = {}
        self.inner: dict[str, dict[int, str]] = {path: {} for path in self.parts}
        """Part path → chapter line → anchor of the definition that begins there."""
        used = {path: set(part.ids.values()) for path, part in self.parts.items()}
        for definition in index:
            part = self.parts.get(definition.path)
            if part is None:
                continue
            cell = part.ids.get(definition.cell)
            here = self.inner[part.path].get(definition.chapter_line)
            if cell == definition.name or (here is not None and definition.kind == "attribute"):
                anchor = cell if cell == definition.name else here
            elif definition.name in used[part.path]:
                anchor = cell
            else:
                anchor = definition.name
                used[part.path].add(anchor)
                self.inner[part.path].setdefault(definition.chapter_line, anchor)
                anchor = self.inner[part.path][definition.chapter_line]
            if anchor is not None:
                self._anchors[definition.qualified] = anchor

    def of(self, definition: Definition) -> str | None:
        """The definition's address from the site's root."""
        part = self.parts.get(definition.path)
        anchor = self._anchors.get(definition.qualified)
        return None if part is None or anchor is None else f"{page_url(part.name)}#{quote(anchor, safe='')}"

    def of_cell(self, path: str, cell: int) -> str:
        part = self.parts[path]
        return f"{page_url(part.name)}#{quote(part.ids[cell], safe='')}"

    def chapter_link(self, target: str, anchor: str, part: Part) -> str | None:
        """The Markdown link for a link that chapter `part` makes to another chapter file."""
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(part.path), target))
        found = self.parts.get(wanted)
        if found is None:
            return None
        here = posixpath.dirname(page_source(part.name))
        path = posixpath.relpath(page_source(found.name), here)
        return f"{path}#{anchor}" if anchor else path


def slug(text: str) -> str:
    """A file name made of any text."""
    return re.sub(r"[^\w.\-]+", "-", text).strip("-") or "x"
