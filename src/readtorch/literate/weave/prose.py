"""Markdown of chapters to the Markdown that mkdocs reads.

Authors write what JupyterLab shows too: GitHub alerts, links to other chapter files, dollar maths. Here alerts become
admonitions and links to chapter files links to their pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import markdown as python_markdown

ALERTS = {"NOTE": "note", "TIP": "tip", "IMPORTANT": "info", "WARNING": "warning", "CAUTION": "danger"}

_ALERT = re.compile(r"> ?\[!(?P<kind>\w+)\](?P<fold>[-+]?)\s*(?P<title>.*)")
_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})")
_LEAD = re.compile(r"\*\*(?P<title>[^*]+?)[.:]?\*\*[.:]?\s*")
_LINK = re.compile(r"(?P<code>`+)(?:(?!(?P=code)).)+?(?P=code)|\]\((?P<target>[^()\s]+\.py)(?P<anchor>#[^()\s]*)?\)")


def to_mkdocs(text: str, link: Callable[[str, str], str | None]) -> str:
    """`link(target, anchor)` gives the address for a link to a chapter file, None to leave it."""
    out: list[str] = []
    lines = text.split("\n")
    fence = ""
    position = 0
    while position < len(lines):
        line = lines[position]
        match = _FENCE.match(line)
        if match and not fence:
            fence = match["fence"]
        elif match and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        if fence or match:
            out.append(line)
            position += 1
            continue
        alert = _ALERT.fullmatch(line)
        if alert and alert["kind"].upper() in ALERTS:
            stop = position + 1
            while stop < len(lines) and lines[stop].startswith(">"):
                stop += 1
            out.extend(_admonition(alert, lines[position + 1 : stop], link))
            position = stop
            continue
        out.append(_with_links(line, link))
        position += 1
    return "\n".join(out)


def _admonition(alert: re.Match[str], quoted: list[str], link: Callable[[str, str], str | None]) -> list[str]:
    body = to_mkdocs("\n".join(re.sub(r"^> ?", "", q) for q in quoted), link).strip("\n").split("\n")
    title = alert["title"].strip()
    lead = _LEAD.match(body[0]) if body and not title else None
    if lead:
        title = lead["title"]
        body[0] = body[0][lead.end() :]
    marker = {"-": "???", "+": "???+"}.get(alert["fold"], "!!!")
    head = f"{marker} {ALERTS[alert['kind'].upper()]}"
    if title:
        head += ' "' + title.replace('"', "&quot;") + '"'
    return ["", head, "", *(f"    {line}" if line else "" for line in body), ""]


def _with_links(line: str, link: Callable[[str, str], str | None]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["target"] is None:
            return match[0]
        target = link(match["target"], (match["anchor"] or "").removeprefix("#"))
        return match[0] if target is None else f"]({target})"

    return _LINK.sub(replace, line) if ".py" in line else line


def split_sections(text: str) -> list[str]:
    """The text cut before every heading, headings in fences left alone."""
    sections: list[list[str]] = [[]]
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if match and not fence:
            fence = match["fence"]
        elif match and line.strip().startswith(fence):
            fence = ""
        if not fence and re.match(r"#{1,6} ", line):
            sections.append([])
        sections[-1].append(line)
    return [joined for section in sections if (joined := "\n".join(section).strip("\n"))]


def split_wide(text: str) -> tuple[str, str]:
    """The text up to the last block that needs the page's width (a diagram, a table, a picture), and what follows it."""
    lines = text.split("\n")
    fence, last = "", -1
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if match and not fence:
            fence = match["fence"] + line.strip().removeprefix(match["fence"])
        elif match and line.strip() == match["fence"] and fence.startswith(match["fence"]):
            last = number if fence.endswith("mermaid") else last
            fence = ""
        elif not fence and (_WIDE.match(line) or (number == last + 1 and last >= 0 and line.startswith(("|", "{")))):
            last = number
    return "\n".join(lines[: last + 1]).strip("\n"), "\n".join(lines[last + 1 :]).strip("\n")


_WIDE = re.compile(r"\s*\|? *:?-{3,}:? *\||!\[|<(?:svg|figure|img)\b|</(?:svg|figure)>")
"""A table's rule, a picture, a figure."""


@lru_cache(maxsize=1)
def _converter() -> python_markdown.Markdown:
    converter = python_markdown.Markdown(
        extensions=["pymdownx.smartsymbols", "pymdownx.arithmatex"],
        extension_configs={"pymdownx.arithmatex": {"generic": True}},
    )
    converter.preprocessors.deregister("html_block")
    converter.inlinePatterns.deregister("html")
    return converter


@lru_cache(maxsize=4096)
def to_html(text: str) -> str:
    """A short Markdown text (a side comment, an evidence sentence) as HTML; HTML in it shows as text."""
    converter = _converter()
    converter.reset()
    return converter.convert(text)


_DUNDER = re.compile(r"[\w.]*\b__\w+?__\b(?:\(\))?")


def inline_html(text: str) -> str:
    """One paragraph without its `<p>`. Dunder names, which Markdown takes for bold text, are code."""
    parts = re.split(r"(`[^`]*`)", text)
    text = "".join(part if part.startswith("`") else _DUNDER.sub(r"`\g<0>`", part) for part in parts)
    return to_html(text).removeprefix("<p>").removesuffix("</p>")
