"""Whole classes and files, cut from the tangled text, as small scripts that a page loads when the reader asks.

They are scripts rather than JSON because a page opened from a folder may load scripts and nothing else.
"""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

from readtorch.literate.weave import listing
from readtorch.literate.weave.addresses import slug
from readtorch.literate.weave.fragments import Fragment
from readtorch.literate.weave.resolve import Reference
from readtorch.literate.weave.symbols import Definition, module_name

if TYPE_CHECKING:
    from readtorch.literate.weave.site import Site


def whole_name(file: str, thread: str) -> str:
    """The script's name: unique by file and class."""
    stem = slug(file.removesuffix(".py").replace("/", "."))
    return stem if thread == file else f"{stem}.{thread}"


def whole_script(fragment: Fragment, site: Site) -> str:
    """The class or file that `fragment` is a piece of, its names linked; `~/` in links stands for the site's root."""
    code, first = site.tangled[fragment.file].text.rstrip("\n"), 1
    tree = site.index.modules[module_name(fragment.file)].tree
    if fragment.is_class:
        node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == fragment.thread)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        code = "\n".join(code.split("\n")[first - 1 : node.end_lineno])
    by_line = site.references_in(fragment.file)

    def href(reference: Reference) -> str | None:
        address = site.addresses.of(reference.target) if isinstance(reference.target, Definition) else None
        return None if address is None else f"~/{address}"

    rows = listing.highlight(code, first, by_line, {}, href)
    html = f"<pre>{chr(10).join(rows)}\n</pre>"
    name = whole_name(fragment.file, fragment.thread)
    lines = f"src/readtorch/{fragment.file}, lines {first}–{first + code.count(chr(10))}"
    return f"readtorch.whole({json.dumps(name)},{json.dumps(lines)},{_script_string(html)});\n"


def _script_string(text: str) -> str:
    """A JavaScript string that cannot end the script element it may be put in."""
    return json.dumps(text, ensure_ascii=False).replace("</", "<\\/").replace("\u2028", "\\u2028")
