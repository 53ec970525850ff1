"""Pages kept between the builds of one `mkdocs serve`: a page whose Markdown did not change is not converted again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jinja2.bccache import Bucket, BytecodeCache
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import TableOfContents


@dataclass
class _Kept:
    key: str
    names: frozenset[str]
    content: str
    toc: TableOfContents
    title: str | None
    anchors: set[str]
    links: dict[str, dict[str, str]]
    references: list[dict[str, Any]]


@dataclass
class Rendered:
    pages: dict[str, _Kept] = field(default_factory=dict)


_MAPS = ("_primary_url_map", "_secondary_url_map", "_title_map", "_abs_url_map")
"""Where autorefs keeps what it found while a page was converted."""


class KeptPage(Page):
    """A page that takes its conversion from `store` while its key and the site's file names are the same.

    The key says what the page was made of; without one it is the page's Markdown.
    """

    def __init__(
        self, file: File, config: MkDocsConfig, store: Rendered, key: str | None = None, title: str | None = None
    ) -> None:
        super().__init__(title, file, config)
        self.store = store
        self.key = key

    @property
    def ours(self) -> bool:
        """Is the page made by this plugin, and not read from the site's own folder?"""
        return self.key is not None

    def render(self, config: MkDocsConfig, files: Files) -> None:
        key = self.markdown or "" if self.key is None else self.key
        names = frozenset(files.src_uris)
        maps = _reference_maps(config)
        kept = self.store.pages.get(self.file.src_uri)
        if kept is None or kept.key != key or kept.names != names:
            before = [_copied(m) for m in maps]
            self.store.pages.pop(self.file.src_uri, None)
            with _heard() as warnings:
                super().render(config, files)
            if warnings:
                return  # to be said in the next build too
            links = {f.src_uri: found for f, found in (self.links_to_anchors or {}).items()}
            added = [
                {k: v for k, v in _copied(m).items() if old.get(k) != v} for m, old in zip(maps, before, strict=True)
            ]
            self.store.pages[self.file.src_uri] = _Kept(
                key,
                names,
                self.content or "",
                self.toc,
                self._title_from_render,
                self.present_anchor_ids or set(),
                links,
                added,
            )
            return
        self.content, self.toc, self._title_from_render = kept.content, kept.toc, kept.title
        self.present_anchor_ids = set(kept.anchors)
        self.links_to_anchors = {files.src_uris[name]: found for name, found in kept.links.items()}
        for there, found in zip(maps, kept.references, strict=True):
            there.update(found)


@contextmanager
def _heard() -> Iterator[list[logging.LogRecord]]:
    """What mkdocs warns of meanwhile."""
    records: list[logging.LogRecord] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Listener(logging.WARNING)
    logger = logging.getLogger("mkdocs")
    logger.addHandler(handler)
    try:
        yield records
    finally:
        logger.removeHandler(handler)


def _copied(there: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, list) else value for key, value in there.items()}


def _reference_maps(config: MkDocsConfig) -> list[dict[str, Any]]:
    plugin = config.plugins.get("autorefs")
    return [m for name in _MAPS if isinstance(m := getattr(plugin, name, None), dict)]


class KeptTemplates(BytecodeCache):
    """Jinja's compiled templates, in memory. Jinja compares the text they were made of itself."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        code = self._code.get(bucket.key)
        if code is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.bytecode_to_string()


class KeptSearch:
    """The search index's entries of each page, kept while its text stays the same: reading HTML is what makes the index slow."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, list[Any]]] = {}
        self._text = ""

    def before(self, page: Page, text: str) -> str:
        """The content that the search plugin should read: nothing, where the entries are known."""
        self._text = text
        kept = self._kept.get(page.file.src_uri)
        return "" if kept is not None and kept[0] == text else text

    def after(self, page: Page, config: MkDocsConfig) -> None:
        """Add the kept entries, or keep those just made."""
        index = getattr(_search_plugin(config), "search_index", None)
        entries = getattr(index, "entries", None)
        if not isinstance(entries, list):
            return
        kept = self._kept.get(page.file.src_uri)
        if kept is not None and kept[0] == self._text:
            entries.extend(kept[1])
            return
        here = [entry for entry in entries if entry["location"].partition("#")[0] == page.url]
        self._kept[page.file.src_uri] = (self._text, here)


def _search_plugin(config: MkDocsConfig) -> Any:
    return next((plugin for name, plugin in config.plugins.items() if name.rpartition("/")[2] == "search"), None)
