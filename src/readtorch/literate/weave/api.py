"""The API reference: a mkdocstrings page for every module with a public face, each entry linked to where the book explains it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from readtorch.literate.weave.addresses import relative
from readtorch.literate.weave.symbols import PACKAGE, Definition

if TYPE_CHECKING:
    from readtorch.literate.weave.site import Site

_INNER = ("aten", "c10", "csrc", "_C")
"""Floors without a public face: the book explains them, nobody imports them."""

MANY = 60
"""Entries from which a page leaves the types out of its signatures, to stay as light as the others."""

_BRIEF = "    options:\n      show_signature_annotations: false\n      separate_signature: false\n"

# A plain name has the colour of code: its span says nothing, and a page of a hundred signatures has five hundred of them.
_PLAIN_NAME = re.compile(r'<span class="n">([^<]*)</span>')

_ENTRY = re.compile(rf'<h\d id="(?P<name>{PACKAGE}\.[\w.]+)" class="doc doc-heading">.*?</h\d>', re.DOTALL)


def pages(site: Site) -> dict[str, str]:
    """The Markdown of every page, by source name; notes each module's page in `site.api`."""
    found: dict[str, str] = {}
    for name in sorted(site.index.modules):
        if _is_public(site, name):
            source = f"api/{name}.md"
            options = _BRIEF if len(_public(site, name)) > MANY else ""
            found[source] = f"---\ntitle: {name}\nrt_api: {name}\n---\n\n# `{name}`\n\n::: {name}\n{options}"
            site.api[name] = f"api/{name}.html"
    return found


def _is_public(site: Site, name: str) -> bool:
    packages = [name.rsplit(".", n)[0] for n in range(1, name.count(".") + 1)]
    if any(
        not site.index.modules[p].file.endswith("__init__.py") for p in packages if p in site.index.modules
    ) or not all(p in site.index.modules for p in packages):
        return False  # no package's, so not importable by that name
    inside = name.removeprefix(PACKAGE).lstrip(".").split(".")
    if inside[0] in _INNER or any(word.startswith("_") and word != "_tensor" for word in inside):
        return False
    return bool(_public(site, name))


def _public(site: Site, name: str) -> list[Definition]:
    """The classes and functions that a module defines for others."""
    defined = (b for b in site.index.modules[name].names.values() if isinstance(b, Definition))
    return [d for d in defined if d.kind in ("class", "function") and not d.name.startswith("_")]


def key(site: Site, source: str, text: str) -> str:
    """Equal keys, equal pages: the Markdown, and the files whose docstrings and signatures mkdocstrings puts into it.

    These are the module's own, and those that define what a module with an `__all__` takes from others.
    """
    name = source.removeprefix("api/").removesuffix(".md")
    module = site.index.modules[name]
    files = {module.file}
    if "__all__" in module.names:
        taken = [site.index.lookup(name, other) for other in module.names]
        files |= {found.file for found in taken if isinstance(found, Definition)}
        files |= {site.index.modules[star].file for star in module.stars if star in site.index.modules}
    digest = hashlib.sha256(text.encode())
    for file in sorted(files):
        digest.update(site.tangled[file].text.encode())
    return digest.hexdigest()


def navigation(found: Mapping[str, str]) -> list[dict[str, str]]:
    """The pages by module, the package's name left out of all but its own."""
    names = {source: source.removeprefix("api/").removesuffix(".md") for source in found}
    return [{name.removeprefix(f"{PACKAGE}."): source} for source, name in names.items()]


def with_explanations(html: str, site: Site, page: str) -> str:
    """The page's HTML with a link into the book below the heading of every entry that the book defines."""
    titles = {part.path: part for part in site.book.parts}

    def explained(match: re.Match[str]) -> str:
        definition = site.index.find(match["name"])
        address = site.addresses.of(definition) if isinstance(definition, Definition) else None
        if not isinstance(definition, Definition) or address is None:
            return match[0]
        from readtorch.literate.weave.pages import plain

        title = escape(plain(titles[definition.path].title))
        return f'{match[0]}<p class="rt-explained">Explained in <a href="{relative(address, page)}">{title}</a></p>'

    return _ENTRY.sub(explained, _PLAIN_NAME.sub(r"\1", html))


def is_api(meta: Mapping[str, Any]) -> bool:
    return "rt_api" in meta
