"""Finished pages, kept between the builds of one `mkdocs serve`: what the theme would write the same is not written again.

Most of a page's time in the theme goes into the navigation, which is made anew for every page. A page is taken from the last
build if everything that the theme reads is equal: the navigation and the titles, addresses and metadata of all pages, and of
the page itself its content and its table of contents. When the settings change, the plugin begins with a new `FinishedPages`.
A template whose context holds more than mkdocs puts there is always rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, Template
from mkdocs.structure.nav import Link, Navigation, Section
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink

from readtorch.literate.weave.settings import comparable

_CONTEXT = {
    "nav", "pages", "base_url", "extra_css", "extra_javascript", "mkdocs_version", "build_date_utc", "config", "page",
}  # fmt: skip
"""What mkdocs gives a template. The date is not compared: Material writes it nowhere, and every build has another."""


@dataclass
class _Finished:
    key: tuple[Any, ...]
    output: str
    squeezed: str | None = None


class FinishedPages:
    """The output of the theme for each page, by source name."""

    def __init__(self) -> None:
        self._kept: dict[str, _Finished] = {}
        self._shared: Any = None
        self._begun = False

    def begin(self, env: Environment) -> None:
        """Let the templates of `env`, which one build uses, ask here first."""
        self._begun = False
        finished = self

        class Asking(Template):
            """A template whose `render` takes a page from the last build where that is allowed."""

            def render(self, *args: Any, **kwargs: Any) -> str:
                render = super().render
                context = args[0] if len(args) == 1 and not kwargs else {}
                return finished.output(self.name or "", context, lambda: render(*args, **kwargs))

        env.template_class = Asking

    def output(self, template: str, context: Mapping[str, Any], render: Callable[[], str]) -> str:
        """What `render` returns, or returned for an equal page."""
        page = context.get("page")
        if page is None or set(context) != _CONTEXT:
            return render()
        if not self._begun:  # the first page of a build: all pages are converted, so that all titles are known
            shared = _shared(context)
            if shared != self._shared:
                self._kept.clear()
            self._shared, self._begun = shared, True
        key = (template, page.content, _contents(page.toc))
        kept = self._kept.get(page.file.src_uri)
        if kept is None or kept.key != key:
            self._kept[page.file.src_uri] = kept = _Finished(key, render())
        return kept.output

    def squeezed(self, page: Page, output: str, squeeze: Callable[[str], str]) -> str:
        """`squeeze(output)`, kept with the page."""
        kept = self._kept.get(page.file.src_uri)
        if kept is None or kept.output != output:
            return squeeze(output)
        if kept.squeezed is None:
            kept.squeezed = squeeze(output)
        return kept.squeezed


def _shared(context: Mapping[str, Any]) -> Any:
    """What every page takes from the site."""
    return (
        tuple(_item(item) for item in context["nav"].items),
        tuple(_page(file.page) for file in context["pages"]),
        _homepage(context["nav"]),
    )


def _homepage(nav: Navigation) -> str | None:
    return nav.homepage.url if nav.homepage is not None else None


def _item(item: Any) -> Any:
    """An entry of the navigation."""
    if isinstance(item, Section):
        return (item.title, tuple(_item(child) for child in item.children))
    if isinstance(item, Page):
        return _page(item)
    return (item.title, item.url) if isinstance(item, Link) else object()


def _page(page: Page) -> Any:
    """What other pages show of a page."""
    return (
        page.file.src_uri, page.title, page.url, page.canonical_url, page.edit_url, page.is_homepage, comparable(page.meta),
    )  # fmt: skip


def _contents(toc: Iterable[AnchorLink]) -> tuple[Any, ...]:
    return tuple((link.title, link.id, link.level, _contents(link.children)) for link in toc)
