"""Recorded imports in a page: `<readtorch-imports>`, a flame graph with a table, and the list that stands in for it."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from readtorch.literate.trace.squeeze import squeeze_script, squeeze_style

SCRIPTS = ("viewer/words", "import_viewer/run", "import_viewer/flame", "import_viewer/table", "import_viewer/element")
SHOWN = 60
"""Entries of the list for readers without JavaScript."""


@cache
def import_script() -> str:
    """The element as one classic script; it defines `<readtorch-imports>` once, however often it runs."""
    folder = files(__package__)
    scripts = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    style = squeeze_style((folder / "import_viewer/style.css").read_text(encoding="utf-8"))
    quoted = style.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
    return (
        '(() => {\n"use strict";\n'
        'if (typeof customElements === "undefined" || customElements.get("readtorch-imports")) return;\n'
        f"const STYLE = `{quoted}`;\n{squeeze_script(scripts)}\n}})();\n"
    )


def script_json(document: dict[str, Any]) -> str:
    """The document as JSON that may stand inside a `<script>`: no `<` at all."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def imports_js(identifier: str, document: dict[str, Any]) -> str:
    """A classic script that hands the document to the element: `traces/<id>.js`."""
    return f"readtorchImports({json.dumps(identifier)},{script_json(document)});\n"


def element_html(document: dict[str, Any], *, identifier: str = "", src: str = "", level: int = 3) -> str:
    """The element with its fallback inside a `<div>`; with `src` the document is loaded when the reader comes near."""
    given = "".join(
        f' {name}="{escape(value)}"'
        for name, value in {"id": identifier, "src": src, "level": str(level)}.items()
        if value
    )
    data = "" if src else f'<script type="application/json">{script_json(document)}</script>'
    return f"<div><readtorch-imports{given}>{data}{render_fallback(document)}</readtorch-imports></div>"


def notebook_html(document: dict[str, Any]) -> str:
    """What a notebook shows; a saved one needs nothing else."""
    return f"{element_html(document)}<script>{import_script()}</script>"


def page_html(document: dict[str, Any], name: str = "import") -> str:
    """A page of its own that needs no server and no network."""
    title = escape(" beside ".join(f"import {run['name']}" for run in document["runs"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{_PAGE_STYLE}</style></head>\n"
        f"<body><main>{element_html(document, identifier=name, level=1)}</main>"
        f"<script>{import_script()}</script></body></html>\n"
    )


_PAGE_STYLE = (
    ":root{color-scheme:light dark;--page:#fff}@media(prefers-color-scheme:dark){:root{--page:#16181d}}"
    "body{margin:0;padding:clamp(.5rem,2vw,2rem);background:var(--page);font-family:system-ui,sans-serif}"
    "readtorch-imports{display:block;max-width:80rem;margin:auto}"
)


def render_fallback(document: dict[str, Any]) -> str:
    """HTML inside one `<div>`: the modules that the target itself imported first, in order, with their times."""
    return f'<div class="readtorch-trace-fallback">{"".join(_fallback(run) for run in document["runs"])}</div>'


def _fallback(run: dict[str, Any]) -> str:
    outer = [i for i, parent in enumerate(run["parents"]) if parent == -1]
    inside = [i for i, parent in enumerate(run["parents"]) if parent in outer]
    listed = outer if len(outer) > 1 or not inside else inside
    items = "".join(
        f"<li><code>{escape(run['names'][i])}</code> {run['totals'][i] // 1000} ms"
        f"{' raises ' + escape(run['errors'][str(i)]) if str(i) in run['errors'] else ''}</li>"
        for i in listed[:SHOWN]
    )
    more = f"<li>… {len(listed) - SHOWN} more</li>" if len(listed) > SHOWN else ""
    how = "" if run["outcome"] == "imported" else f" It did not succeed: {escape(run['error'])}."
    return (
        f"<p><strong>import {escape(run['name'])}</strong>. Recorded import: {len(run['names'])} modules, "
        f"{run['total'] // 1000} ms.{how}</p><ol>{items}{more}</ol>"
    )
