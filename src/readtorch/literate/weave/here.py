"""The pages "What is here": upstream's names by chapter and tier, here or missing, and what the parity tests run.

Nothing on them is typed. The names come from `data/coverage.txt`, their standing from the package itself, the cells from
`tests/parity/cells.py`, the module that the tests take them from; a book without such a file has no tables of cells.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readtorch.literate import facts
from readtorch.literate.wanted import TIERS, Standing, Wanted, standings, wanted
from readtorch.literate.weave.namespace import digest
from readtorch.literate.weave.symbols import Definition

if TYPE_CHECKING:
    from readtorch.literate.weave.site import Site

OVERVIEW = "here/index.md"

_TIER = {1: "the chapter must have it", 2: "a user expects it", 3: "nice to have"}
_TITLES = {
    "operators": "Operators beside PyTorch",
    "functional": "nn.functional beside PyTorch",
    "layers": "Layers beside PyTorch",
}
_SAID = {
    "operators": (
        "Each line of the table runs on readtorch and on PyTorch {release} with the same numbers. Outputs are compared, in the lines "
        "counted under *backward* gradients in every floating dtype too, in those under *twice* gradients of gradients in float64. An "
        "error counts as equal when its type is. `strided` has gaps and turned dimensions in memory, `broadcast` strides of zero, `0-d` one number, `empty` none."
    ),
    "functional": (
        "Outputs and gradients of both libraries are compared; in the lines counted under *twice*, gradients of gradients in float64 "
        "too. `strided` runs in two orders of memory."
    ),
    "layers": (
        "Printed form, parameters after the same seed, outputs, gradients and buffers, in training and in evaluation, in float64. "
        "Their second derivatives are those of the functions that they call."
    ),
}

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}


def state(site: Site, root: Path) -> tuple[Any, ...]:
    """What the pages rest on: the package, the parity tests, and where the book defines what."""
    return digest(site.book.package), _tables_state(root), site.shared_key


def pages(site: Site, root: Path) -> dict[str, str]:
    """The Markdown of the overview and of a page for each chapter, by source name."""
    standing = _standing(site.book.package, digest(site.book.package))
    tables = parity_tables(root, site.book.package)
    chapters = list(dict.fromkeys(item.chapter for item in wanted()))
    found = {OVERVIEW: _overview(chapters, standing, tables)}
    for chapter in chapters:
        found[f"here/{chapter}.md"] = _chapter_page(chapter, site, standing)
    for name, rows in tables.items():
        found[f"here/{name}.md"] = _parity(name, rows)
    return found


@cache
def _standing(package: Path, state: str) -> dict[str, Standing]:
    """What the package has in this state, asked once."""
    return standings(package)


def navigation(found: Iterable[str]) -> list[dict[str, str]]:
    from readtorch.literate.weave.site import CHAPTERS

    names = {source: source.removeprefix("here/").removesuffix(".md") for source in found if source != OVERVIEW}
    return [
        {"By chapter and tier": OVERVIEW},
        *({_TITLES.get(name) or CHAPTERS[name]: source} for source, name in names.items()),
    ]


def parity_tables(root: Path, package: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of the parity tables; empty where the tests are not beside the book. Raises RuntimeError if they do not load."""
    script = root / _CELLS
    return _listed(script, package, _tables_state(root)) if script.is_file() else {}


_CELLS = Path("tests", "parity", "cells.py")


def _tables_state(root: Path) -> tuple[tuple[str, int], ...]:
    folder = (root / _CELLS).parent
    files = (path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else ()
    return tuple(sorted((path.name, path.stat().st_mtime_ns) for path in files))


@cache
def _listed(script: Path, package: Path, state: tuple[tuple[str, int], ...]) -> dict[str, list[dict[str, Any]]]:
    """The rows in this state of the files, asked once."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{script} does not list its cells:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def _front(title: str, searched: bool) -> str:
    exclude = "" if searched else "search:\n  exclude: true\n"
    return f'---\ntitle: "{title}"\n{exclude}---\n\n# {title}\n\n'


def _of(chapter: str, tier: int) -> list[Wanted]:
    return [item for item in wanted() if item.chapter == chapter and item.tier == tier]


def _overview(chapters: list[str], standing: Mapping[str, Standing], tables: Mapping[str, list[dict[str, Any]]]) -> str:
    from readtorch.literate.weave.site import CHAPTERS

    text = _front("What is here", True)
    text += (
        f"The public names of PyTorch {facts.RELEASE} that a chapter may be asked for, in three tiers: 1, the chapter must have it; "
        "2, a user expects it; 3, nice to have. When this page was made, the package was asked for each of them. The pages by chapter "
        "name every one, here or missing.\n\n"
        "| chapter | tier 1 | tier 2 | tier 3 |\n|---|---|---|---|\n"
    )
    for chapter in chapters:
        counts = [_count(_of(chapter, tier), standing) for tier in TIERS]
        text += f"| [{CHAPTERS[chapter]}]({chapter}.md) | {' | '.join(counts)} |\n"
    totals = [_count([item for item in wanted() if item.tier == tier], standing) for tier in TIERS]
    text += f"| all | {' | '.join(totals)} |\n"
    if tables:
        text += (
            "\n## Checked beside PyTorch\n\n"
            "| table | lines | runs | in which the libraries differ, or not run |\n|---|---|---|---|\n"
        )
        for name, rows in tables.items():
            runs = sum(len(row["cells"]) for row in rows)
            left = sum(len(row["left_out"]) for row in rows)
            text += f"| [{_TITLES[name]}]({name}.md) | {len(rows)} | {runs} | {left} |\n"
    return text + _instead()


def _instead() -> str:
    """What is not here of whole namespaces, which the tables by name do not say. A row for each way out."""
    from readtorch._not_here import NOT_HERE  # the library's, which need not be there to weave pages

    names: dict[str, list[str]] = {}
    for name, instead in NOT_HERE.items():
        names.setdefault(instead, []).append(f"`torch.{name}`")
    rows = "".join(f"| {', '.join(found)} | {instead} |\n" for instead, found in names.items())
    return (
        "\n## What is not here, and what to use instead\n\nWhoever asks for one of these gets the same answer in the "
        f"AttributeError.\n\n| not here | instead |\n|---|---|\n{rows}"
    )


def _count(items: list[Wanted], standing: Mapping[str, Standing]) -> str:
    return f"{sum(standing[item.qualified].here for item in items)} of {len(items)}" if items else "–"


def _chapter_page(chapter: str, site: Site, standing: Mapping[str, Standing]) -> str:
    from readtorch.literate.weave.site import CHAPTERS

    text = _front(f"What is here: {CHAPTERS[chapter]}", False)
    for tier in TIERS:
        items = _of(chapter, tier)
        if not items:
            continue
        text += f"## Tier {tier}: {_TIER[tier]} {{: #tier-{tier} }}\n\n{_count(items, standing)}.\n\n"
        here = [item for item in items if standing[item.qualified].here]
        missing = [item for item in items if not standing[item.qualified].here]
        if missing:
            text += f"### Missing {{: #missing-{tier} }}\n\n" + _by_file(missing, lambda item: _missing(item)) + "\n"
        if here:
            entry = _entry(site, standing)
            text += f"### Here {{: #here-{tier} }}\n\n" + _by_file(here, entry) + "\n"
    return text


def _by_file(items: list[Wanted], entry: Any) -> str:
    paths: dict[str, list[str]] = {}
    for item in items:
        paths.setdefault(item.path, []).append(entry(item))
    return "".join(f"`{path}`\n:   {', '.join(entries)}\n\n" for path, entries in paths.items())


def _missing(item: Wanted) -> str:
    return f"[`{item.name}`]({item.url})" if item.url else f"`{item.name}`"


def _entry(site: Site, standing: Mapping[str, Standing]) -> Any:
    def entry(item: Wanted) -> str:
        found = standing[item.qualified]
        address = _address(site, item, found)
        text = f"[`{item.name}`](../{address})" if address else f"`{item.name}`"
        lacking = [member.name for member in item.members if member.name in found.lacks]
        return f"{text} (without {', '.join(f'`{name}`' for name in lacking)})" if lacking else text

    return entry


def _address(site: Site, item: Wanted, found: Standing) -> str | None:
    """Where the book defines it, as a page's source with an anchor."""
    for name in (item.ours, ".".join(found.place)):
        definition = site.index.find(name)
        address = site.addresses.of(definition) if isinstance(definition, Definition) else None
        if address is None and name == item.ours:
            operator = site.index.operator(item.name.rpartition(".")[2])
            address = site.addresses.of(operator) if operator is not None and _is_operator(item) else None
        if address is not None:
            return address.replace("/index.html", "/index.md", 1)
    return None


def _is_operator(item: Wanted) -> bool:
    return not item.start


def _parity(name: str, rows: list[dict[str, Any]]) -> str:
    """A row per operator: its lines, the dtypes and layouts run, and every cell that differs or is not run, with the reason."""
    text = _front(_TITLES[name], False) + f"{_SAID[name].format(release=facts.RELEASE)}\n\n"
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(row["name"], []).append(row)
    text += '<div class="rt-wide"><table class="rt-cells"><thead><tr><th>name</th><th>lines</th><th>backward</th><th>twice</th><th>run</th><th>differs or not run</th></tr></thead><tbody>\n'
    for operator in sorted(grouped):
        lines = grouped[operator]
        counts = [len(lines), *(sum(row[kind] for row in lines) for kind in ("backward", "twice"))]
        text += (
            f"<tr><td><code>{escape(operator)}</code></td>{''.join(f'<td>{count}</td>' for count in counts)}"
            f"<td>{_runs(lines)}</td><td>{_left(lines)}</td></tr>\n"
        )
    return text + "</tbody></table></div>\n\n"


def _runs(lines: list[dict[str, Any]]) -> str:
    """`contiguous f64 f32 i64; strided f64 f32`."""
    layouts: dict[str, list[str]] = {}
    for row in lines:
        for dtype, layout in row["cells"]:
            short = _short(dtype)
            if short not in layouts.setdefault(layout, []):
                layouts[layout].append(short)
    groups: dict[str, list[str]] = {}
    for layout, dtypes in layouts.items():
        groups.setdefault(" ".join(dtypes), []).append(layout.replace("scalar", "0-d"))
    return "; ".join(f"{', '.join(names)}: {dtypes}" for dtypes, names in groups.items())


def _left(lines: list[dict[str, Any]]) -> str:
    reasons: dict[str, dict[str, list[str]]] = {}
    for row in lines:
        for dtype, layout, reason in row["left_out"]:
            cell = f"{_short(dtype)} {layout.replace('scalar', '0-d')}".removesuffix(" contiguous")
            reasons.setdefault(reason, {}).setdefault(row["line"], []).append(cell)
    texts = []
    for reason, found in reasons.items():
        where = "; ".join(f"<code>{escape(line)}</code> {', '.join(cells)}" for line, cells in found.items())
        texts.append(f"{where}: {escape(reason)}")
    return "<br>".join(texts)


def _short(dtype: str) -> str:
    for long, short in sorted(_SHORT.items(), key=lambda pair: -len(pair[0])):
        if dtype.startswith(long):
            return short + dtype.removeprefix(long)
    return dtype
