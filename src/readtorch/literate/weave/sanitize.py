"""Rich HTML from a cell's output, rewritten from an allow-list: unknown tags vanish, unknown attributes are dropped."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

_VOID = frozenset({"br", "hr", "img", "col"})
_TAGS = _VOID | {
    *("a", "abbr", "b", "blockquote", "code", "dd", "details", "div", "dl", "dt", "em", "figcaption", "figure"),
    *(
        "h3",
        "h4",
        "h5",
        "h6",
        "i",
        "kbd",
        "li",
        "mark",
        "ol",
        "p",
        "pre",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
    ),
    *("summary", "sup", "u", "ul", "var"),
    *("caption", "colgroup", "table", "tbody", "td", "tfoot", "th", "thead", "tr"),
}
_ATTRIBUTES = frozenset(
    {
        "align",
        "alt",
        "aria-label",
        "class",
        "colspan",
        "height",
        "open",
        "role",
        "rowspan",
        "scope",
        "start",
        "title",
        "width",
    }
)
_SILENCED = frozenset(
    {"script", "style", "template", "iframe", "object", "svg", "math", "noscript", "textarea", "title"}
)


class _Cleaner(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self.open: list[str] = []
        self.silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.silent or tag in _SILENCED:
            if tag not in _VOID:
                self.silent.append(tag)
            return
        if tag not in _TAGS:
            return
        kept = [f' {name}="{escape(value or "")}"' for name, value in attrs if _allowed(tag, name, value or "")]
        self.out.append(f"<{tag}{''.join(kept)}>")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.silent:
            if tag in self.silent:
                while self.silent and self.silent.pop() != tag:
                    pass
            return
        if tag in self.open:
            while self.open:
                closed = self.open.pop()
                self.out.append(f"</{closed}>")
                if closed == tag:
                    break

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.out.append(escape(data, quote=False))


def _allowed(tag: str, name: str, value: str) -> bool:
    if tag == "a" and name == "href":
        return value.startswith(("#", "https://", "http://"))
    if tag == "img" and name == "src":
        return value.startswith(("data:image/png;base64,", "data:image/jpeg;base64,"))
    return name in _ATTRIBUTES


def clean(html: str) -> str:
    """Safe HTML with every opened tag closed."""
    cleaner = _Cleaner()
    cleaner.feed(html)
    cleaner.close()
    cleaner.out.extend(f"</{tag}>" for tag in reversed(cleaner.open))
    return "".join(cleaner.out)
