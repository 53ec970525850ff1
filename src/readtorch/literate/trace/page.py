"""The viewer in a page: in a notebook's output, in a page of its own, and as one script file for the site."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from readtorch.literate.trace.events import dumps
from readtorch.literate.trace.fallback import render_fallback
from readtorch.literate.trace.squeeze import squeeze_script, squeeze_style

SCRIPTS = (
    "tree",
    "words",
    "chrome",
    "highlight",
    "loader",
    "model",
    "timeline",
    "values",
    "view",
    "compare",
    "source",
    "element",
)
"""The viewer's files in the order in which they are joined; all share one function scope."""


@cache
def viewer_script() -> str:
    """The viewer as one classic script: its files and style sheet joined, without comments and needless spaces.

    It defines `<readtorch-trace>` once, however often it runs.
    """
    folder = files(__package__) / "viewer"
    scripts = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    style = squeeze_style((folder / "viewer.css").read_text(encoding="utf-8"))
    quoted = style.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
    return (
        '(() => {\n"use strict";\n'
        'if(!globalThis.customElements||customElements.get("readtorch-trace"))return;\n'
        f"const STYLE = `{quoted}`;\n{squeeze_script(scripts)}\n}})();\n"
    )


def script_json(document: dict[str, Any]) -> str:
    """The document as JSON that may stand inside a `<script>`: no `<` at all."""
    return dumps(document).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def trace_js(identifier: str, document: dict[str, Any]) -> str:
    """A classic script that hands the document to the viewer: `traces/<id>.js`, which also loads from file://."""
    name = script_json({"id": identifier})[6:-1]
    return f"readtorchTrace({name},{script_json(document)});\n"


def element_html(
    *documents: dict[str, Any], identifier: str = "", src: str = "", level: int = 3, book: str | None = None
) -> str:
    """`<readtorch-trace>` with its fallback inside a `<div>`; two documents are compared.

    With `src` the document is loaded from that script (`trace_js`) when the reader comes near. `level` is that of the heading,
    `book` the address below which the pages of the parts lie, for links to chapter cells.
    """
    attributes = {"id": identifier, "src": src, "level": str(level), "book": book}
    given = "".join(
        f' {name}="{escape(value)}"'
        for name, value in attributes.items()
        if value or (name == "book" and value is not None)
    )
    data = "".join(f'<script type="application/json">{script_json(d)}</script>' for d in documents if not src)
    fallback = "".join(render_fallback(d) for d in documents)
    return f"<div><readtorch-trace{given}>{data}{fallback}</readtorch-trace></div>"


def notebook_html(*documents: dict[str, Any]) -> str:
    """What a notebook shows: the element, and the viewer with it, so that a saved notebook needs nothing else."""
    return f"{element_html(*documents)}<script>{viewer_script()}</script>"


def page_html(*documents: dict[str, Any], name: str = "trace") -> str:
    """A page of its own that needs no server and no network."""
    title = escape(documents[0]["meta"]["title"] or name)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{_PAGE_STYLE}</style></head>\n"
        f"<body><main>{element_html(*documents, identifier=name, level=1)}</main>"
        f"<script>{viewer_script()}</script></body></html>\n"
    )


_PAGE_STYLE = (
    ":root{color-scheme:light dark;--page:#fff}@media(prefers-color-scheme:dark){:root{--page:#16181d}}"
    "body{margin:0;padding:clamp(.5rem,2vw,2rem);background:var(--page);font-family:system-ui,sans-serif}"
    "readtorch-trace{display:block;max-width:96rem;margin:auto}"
)
