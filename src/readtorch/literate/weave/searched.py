"""What the search field knows of the book beside its text: an entry for each public name, which leads to where it is defined.

The search counts how rare a word is and in how many titles it stands, so that a name of two common words (`register_buffer`) came
after every longer name made of the same ones. An entry whose title is the name, and no more, is the better match.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch.literate.weave.site import Site

BOOST = 40
"""By how much such an entry counts more than a heading with the same words, times the root of the letters of its name: the search
takes `ModuleList` for as good an answer to `Module` as `Module` is, and `GradScaler.state_dict` for as good as `Module.state_dict`.
(In proportion to the letters, `Buffer` alone would win over all of `register_buffer`.)
"""

_NAMED = ("class", "function")


def entries(site: Site) -> dict[str, list[dict[str, Any]]]:
    """The entries of each page of the book, by its address."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for definition in site.index:
        if definition.kind not in _NAMED or any(word.startswith("_") for word in definition.name.split(".")):
            continue
        location = site.addresses.of(definition)
        if location is None:
            continue
        page = found.setdefault(location.partition("#")[0], {})
        name = definition.name.rpartition(".")[2]
        text = f"{definition.name}, defined in {definition.file}"
        boost = round(BOOST / math.sqrt(len(name) + len(definition.name)), 2)
        page.setdefault(location, {"location": location, "title": name, "text": text, "boost": boost})
    return {page: list(names.values()) for page, names in found.items()}
