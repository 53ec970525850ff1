"""Two sources on a terminal: side by side where it is wide enough, one below the other where not, plain without rich."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from readtorch.literate.installed import UpstreamSource
    from readtorch.literate.show import OurSource


@dataclass(frozen=True)
class _Block:
    heading: str
    note: str
    source: str
    language: str


def print_sources(
    ours: OurSource | None, theirs: Sequence[UpstreamSource], width: int, stream: TextIO, *, two_columns: bool
) -> None:
    """Print our source and the upstream ones that belong to it."""
    left = [_Block(ours.heading, "", textwrap.dedent(ours.source), "python")] if ours else []
    right = [
        _Block(t.heading, " · ".join(filter(None, [t.note, t.url])), textwrap.dedent(t.source or ""), t.language)
        for t in theirs
    ]
    if ours and not theirs:
        right = [_Block("no counterpart", "the book names no upstream symbol for it", "", "python")]
    try:
        _rich(left, right, width, stream, two_columns)
    except ModuleNotFoundError:
        _plain([*left, *right], stream)


def _plain(blocks: list[_Block], stream: TextIO) -> None:
    for block in blocks:
        print(f"── {block.heading}", file=stream)
        if block.note:
            print(f"   {block.note}", file=stream)
        print(f"\n{block.source}\n", file=stream)


def _rich(left: list[_Block], right: list[_Block], width: int, stream: TextIO, two_columns: bool) -> None:
    from rich.console import Console, Group, RenderableType
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    def render(blocks: list[_Block]) -> RenderableType:
        parts: list[RenderableType] = []
        for block in blocks:
            parts.append(Text(block.heading, style="bold"))
            if block.note:
                parts.append(Text(block.note, style="yellow" if not block.note.startswith("http") else "dim"))
            if block.source:
                wrapped = two_columns
                parts.append(Syntax(block.source, block.language, theme="ansi_dark", word_wrap=wrapped))
            parts.append(Text(""))
        return Group(*parts)

    console = Console(file=stream, width=width, soft_wrap=not two_columns)
    if two_columns and left and right:
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(ratio=1)
        table.add_column(ratio=1)
        table.add_row(render(left), render(right))
        console.print(table)
    else:
        console.print(render([*left, *right]))
