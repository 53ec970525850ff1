"""The mkdocs plugin: the book's pages, their assets and the API reference, through mkdocs' own Markdown.

All that can fail on account of a chapter (reading, tangling, running, resolving) happens in `on_config`, before mkdocs touches
the site folder: a fault leaves the last good site as it is.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment
from mkdocs.config import config_options as c
from mkdocs.config.base import Config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import BasePlugin, CombinedEvent, event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils.templates import TemplateContext

from readtorch.literate.build import check_package
from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.tangle import tangle
from readtorch.literate.weave import api, here, searched
from readtorch.literate.weave.addresses import page_source
from readtorch.literate.weave.finished import FinishedPages
from readtorch.literate.weave.pages import WovenPage
from readtorch.literate.weave.rendered import KeptPage, KeptSearch, KeptTemplates, Rendered
from readtorch.literate.weave.settings import settings
from readtorch.literate.weave.site import Site

log = logging.getLogger("mkdocs.plugins.readtorch")

ASSETS = Path(__file__).parent / "assets"
BOOK, HERE, API, REFERENCE = "readtorch:book", "readtorch:here", "readtorch:api", "readtorch:reference"
"""Placeholders in mkdocs.yml's `nav`: the parts, what is here of upstream's names, the API reference (all generated), the files of

docs/reference/.
"""


class Options(Config):
    execute = c.Type(bool, default=True)
    """Run the chapters (cached). Off: pages without outputs."""
    api = c.Type(bool, default=True)
    """Make the API reference."""


class ReadtorchPlugin(BasePlugin[Options]):
    """Lives through all builds of one `mkdocs serve`; what did not change is not made again."""

    def __init__(self) -> None:
        super().__init__()
        self.site: Site | None = None
        self.woven: dict[str, tuple[str, WovenPage]] = {}
        self.api_pages: dict[str, str] = {}
        self.here_pages: dict[str, str] = {}
        self._here_state: tuple[Any, ...] = ()
        self.scripts: dict[str, tuple[tuple[str, str], bytes]] = {}
        self.templates = KeptTemplates()
        self.settings: Any = None
        self._keep_nothing()
        self._whole_page: str | None = None
        self.names: dict[str, list[dict[str, Any]]] = {}
        self.on_progress: Callable[..., None] | None = None
        self.shows_faults = False
        """Whether a cell that fails or a claim that is false is shown in its page, and does not end the build."""
        self.faults: list[Problem] = []
        self.serving = False

    def _keep_nothing(self) -> None:
        """Forget what rests on the settings of the last build."""
        self.rendered = Rendered()
        self.search = KeptSearch()
        self.finished = FinishedPages()

    def on_startup(self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
        """Its presence tells mkdocs to keep this object between builds."""
        self.serving = command == "serve"
        self.shows_faults = self.shows_faults or self.serving

    def on_config(self, config: MkDocsConfig) -> MkDocsConfig:
        root = Path(config.config_file_path).parent if config.config_file_path else Path.cwd()
        try:
            previous = self.site if self.site is not None and self.site.book.root == root else None
            book = Book.load(root, previous.book if previous is not None else None)
            tangled = tangle(book, previous.tangled if previous is not None else None)
            if self.config.execute or self.config.api:
                check_package(book, tangled)
            results = self._execute(book, root)
            site = Site(book, tangled, results, self.scripts, previous, self.faults)
            self.api_pages = api.pages(site) if self.config.api else {}
            self.woven = site.weave(self.woven)
            self._weave_here(site, root, wanted=_names(config.nav, HERE))
        except LiterateError as error:
            raise PluginError(listed_faults([*self.faults, *error.problems])) from None
        if self.faults and not self.shows_faults:
            raise PluginError(f"{listed_faults(self.faults)}\nREADTORCH_EXECUTE=false weaves without running anything.")
        if self.faults and self.serving:
            log.warning(listed_faults(self.faults))
        self.site = site
        self.names = searched.entries(site)
        reference = sorted(p.name for p in (Path(config.docs_dir) / "reference").glob("*.md"))
        generated: dict[str, list[Any]] = {
            BOOK: site.navigation(),
            HERE: here.navigation(self.here_pages) if self.here_pages else [],
            API: api.navigation(self.api_pages),
            REFERENCE: [f"reference/{name}" for name in reference],
        }
        config.nav = _filled(config.nav, generated)
        config.extra_css.insert(0, "assets/readtorch/readtorch.css")
        config.extra_javascript.insert(0, _deferred("assets/readtorch/readtorch.js"))
        # Search works from a folder too: Material reads the index from a script there, and this shim stands in for the worker.
        config.extra.setdefault("polyfills", []).append("assets/readtorch/iframe-worker/shim.js")
        config.watch.append(str(root / "chapters"))
        return config

    def _weave_here(self, site: Site, root: Path, *, wanted: bool) -> None:
        state = here.state(site, root) if wanted else ()
        if state != self._here_state:
            self.here_pages = here.pages(site, root) if wanted else {}
            self._here_state = state

    def _execute(self, book: Book, root: Path) -> dict[str, Any]:
        self.faults = []
        if not self.config.execute or not book.parts:
            return {}
        from readtorch.literate.cache import default_location
        from readtorch.literate.execute import Event, execute

        tell = self.on_progress
        results = execute(book, cache=default_location(root), on_progress=tell, faults=self.faults)
        if tell is not None:
            tell(Event("", "weaving"))
        return dict(results)

    def on_pre_build(self, *, config: MkDocsConfig) -> None:
        now = settings(config)  # all plugins have said theirs
        if now != self.settings:
            self._keep_nothing()
        self.settings = now

    def on_env(self, env: Environment, *, config: MkDocsConfig, files: Files) -> Environment:
        """The theme's templates are compiled in the first build only, and pages like the last build's are taken from it."""
        env.bytecode_cache = self.templates
        self.finished.begin(env)
        return env

    def on_files(self, files: Files, config: MkDocsConfig) -> Files:
        assert self.site is not None
        for asset in sorted(p for p in ASSETS.rglob("*") if p.is_file()):
            name = f"assets/readtorch/{asset.relative_to(ASSETS).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(asset)))
        for name, content in self.site.shared_scripts().items():
            files.append(File.generated(config, name, content=content))
        for key, page in self.woven.values():
            for name, data in page.files.items():
                files.append(File.generated(config, name, content=data))
            file = File.generated(config, page.source, content=page.markdown)
            files.append(file)
            KeptPage(file, config, self.rendered, key)
        written = files.documentation_pages()
        for name, text in {**self.api_pages, **self.here_pages}.items():
            file = File.generated(config, name, content=text)
            files.append(file)
            KeptPage(file, config, self.rendered, api.key(self.site, name, text) if name in self.api_pages else text)
        titles = _titles(config.nav)
        for file in written:
            KeptPage(file, config, self.rendered, title=titles.get(file.src_uri))
        return files

    def on_page_markdown(self, markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
        """`[text](chapter:NAME)` in the site's own pages leads to the first page of a chapter, however its parts are called."""
        if isinstance(page, KeptPage) and page.ours:  # the book's own text has links of its own kind
            return markdown
        assert self.site is not None
        first = {part.chapter: page_source(part.name) for part in reversed(self.site.book.parts)}
        here = posixpath.dirname(page.file.src_uri)

        def target(match: re.Match[str]) -> str:
            if match[1] not in first:
                raise PluginError(
                    f"{page.file.src_uri}: no chapter {match[1]!r}; there are {', '.join(reversed(first))}"
                )
            return f"]({posixpath.relpath(first[match[1]], here or '.')})"

        return _CHAPTER_LINK.sub(target, markdown)

    @event_priority(100)  # before the plugins that read a page's HTML, such as search
    def on_page_content(self, html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
        assert self.site is not None
        if api.is_api(page.meta):
            return api.with_explanations(html, self.site, page.url)
        found = self.woven.get(str(page.meta.get("rt_part", "")))
        if found is None:
            return html
        woven = found[1]
        page.present_anchor_ids = (page.present_anchor_ids or set()) | woven.anchors
        return html

    @event_priority(50)
    def _before_search(
        self, context: TemplateContext, *, page: Page, config: MkDocsConfig, nav: Navigation
    ) -> TemplateContext:
        """Give the search plugin the text, with few words for each cell, instead of every line of code."""
        found = self.woven.get(str(page.meta.get("rt_part", "")))
        if isinstance(page, KeptPage):
            content = page.content or ""
            self._whole_page = found[1].fill(content) if found is not None else content
            page.content = self.search.before(page, found[1].words(content) if found is not None else content)
        return context

    @event_priority(-50)
    def _after_search(
        self, context: TemplateContext, *, page: Page, config: MkDocsConfig, nav: Navigation
    ) -> TemplateContext:
        if self._whole_page is not None:
            self.search.after(page, config, self.names.get(page.url, []))
            page.content, self._whole_page = self._whole_page, None
        return context

    on_page_context = CombinedEvent(_before_search, _after_search)

    def on_post_page(self, output: str, *, page: Page, config: MkDocsConfig) -> str:
        return self.finished.squeezed(page, output, _without_indentation)

    @event_priority(-100)  # after the search plugin
    def on_post_build(self, *, config: MkDocsConfig) -> None:
        index = Path(config.site_dir) / "search" / "search_index.json"
        if index.is_file():
            script = f"var __index = {index.read_text(encoding='utf-8')}"
            index.with_suffix(".js").write_text(script, encoding="utf-8")

    def on_serve(
        self, server: LiveReloadServer, *, config: MkDocsConfig, builder: Callable[..., None]
    ) -> LiveReloadServer:
        log.info("Editing a chapter weaves its page again; only changed code is run again.")
        return server


_CHAPTER_LINK = re.compile(r"\]\(chapter:([^)]*)\)")
_SPACED = re.compile(r"(<pre\b.*?</pre>|<script\b.*?</script>|<textarea\b.*?</textarea>|<code\b.*?</code>)", re.DOTALL)
_INDENT = re.compile(r"\s*\n\s*")


def _without_indentation(html: str) -> str:
    """The page without the indentation of templates, a tenth of it, outside of what keeps its spaces."""
    return "".join(
        piece if number % 2 else _INDENT.sub("\n", piece) for number, piece in enumerate(_SPACED.split(html))
    )


def counted(faults: Sequence[Problem]) -> str:
    return "1 fault" if len(faults) == 1 else f"{len(faults)} faults"


def listed_faults(faults: Sequence[Problem]) -> str:
    return "\n".join([f"{counted(faults)} in the chapters:", *map(str, faults)])


def _names(nav: Any, placeholder: str) -> bool:
    """Whether the navigation asks for what a placeholder stands for."""
    if isinstance(nav, dict):
        return any(_names(value, placeholder) for value in nav.values())
    return any(_names(item, placeholder) for item in nav) if isinstance(nav, list) else nav == placeholder


def _titles(nav: Any) -> dict[str, str]:
    """The titles that the navigation gives to files."""
    found: dict[str, str] = {}
    for item in nav if isinstance(nav, list) else [nav]:
        for title, value in item.items() if isinstance(item, dict) else ():
            if isinstance(value, str):
                found.setdefault(value, title)
            else:
                found = _titles(value) | found
    return found


def _deferred(path: str) -> Any:
    from mkdocs.config.config_options import ExtraScriptValue

    script = ExtraScriptValue(path)
    script.defer = True
    return script


def _filled(nav: Any, generated: dict[str, list[Any]]) -> Any:
    """`nav` with the placeholders replaced by what is generated; an empty section is left out."""
    if isinstance(nav, list):
        found = [_filled(item, generated) for item in nav]
        return [item for item in found if item not in ([], {}) and not (isinstance(item, dict) and [] in item.values())]
    if isinstance(nav, dict):
        return {title: _filled(value, generated) for title, value in nav.items()}
    return generated.get(nav, nav) if isinstance(nav, str) else nav
