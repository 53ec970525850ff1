"""Pages kept between the builds of one `mkdocs serve`: a page whose Markdown did not change is not converted again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
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
        kept = self.store.pages.get(self.file.src_uri)
        if kept is None or kept.key != key or kept.names != names:
            kept = self._converted(key, names, config, files)
        else:
            self.content, self.toc, self._title_from_render = kept.content, kept.toc, kept.title
            self.present_anchor_ids = set(kept.anchors)
            self.links_to_anchors = {files.src_uris[name]: found for name, found in kept.links.items()}
        for there, found in zip(_reference_maps(config).values(), kept.references, strict=True):
            _add(there, found)

    def _converted(self, key: str, names: frozenset[str], config: MkDocsConfig, files: Files) -> _Kept:
        with _heard() as warnings, _own_references(config) as references:
            super().render(config, files)
        links = {f.src_uri: found for f, found in (self.links_to_anchors or {}).items()}
        title, anchors = self._title_from_render, set(self.present_anchor_ids or ())
        made = _Kept(key, names, self.content or "", self.toc, title, anchors, links, references)
        if warnings:  # to be given in the next build too
            self.store.pages.pop(self.file.src_uri, None)
        else:
            self.store.pages[self.file.src_uri] = made
        return made


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


def _reference_maps(config: MkDocsConfig) -> dict[str, dict[str, Any]]:
    plugin = config.plugins.get("autorefs")
    return {name: there for name in _MAPS if isinstance(there := getattr(plugin, name, None), dict)}


@contextmanager
def _own_references(config: MkDocsConfig) -> Iterator[list[dict[str, Any]]]:
    """What autorefs finds meanwhile, kept from what it knows already."""
    plugin, maps = config.plugins.get("autorefs"), _reference_maps(config)
    own: list[dict[str, Any]] = [{} for _ in maps]
    for name, empty in zip(maps, own, strict=True):
        setattr(plugin, name, empty)
    try:
        yield own
    finally:
        for name, there in maps.items():
            setattr(plugin, name, there)


def _add(there: dict[str, Any], found: dict[str, Any]) -> None:
    """As autorefs adds: of several addresses for one name all in their order, of several titles the first."""
    for name, value in found.items():
        if isinstance(value, list):
            known = there.setdefault(name, [])
            known += [address for address in value if address not in known]
        else:
            there.setdefault(name, value)


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

    def after(self, page: Page, config: MkDocsConfig, more: Sequence[dict[str, Any]] = ()) -> None:
        """Add the kept entries, or keep those just made; then `more`, except where a heading has an entry for the same place."""
        index = getattr(_search_plugin(config), "search_index", None)
        entries = getattr(index, "entries", None)
        if not isinstance(entries, list):
            return
        kept = self._kept.get(page.file.src_uri)
        if kept is not None and kept[0] == self._text:
            here = kept[1]
            entries.extend(here)
        else:
            here = [entry for entry in entries if entry["location"].partition("#")[0] == page.url]
            self._kept[page.file.src_uri] = (self._text, here)
        places = {entry["location"] for entry in here}
        entries.extend(entry for entry in more if entry["location"] not in places)


def _search_plugin(config: MkDocsConfig) -> Any:
    return next((plugin for name, plugin in config.plugins.items() if name.rpartition("/")[2] == "search"), None)
