"""What stands in a text file beside the tests: a thing on each line; empty lines and those that begin with `#` are for the reader."""

from __future__ import annotations

from pathlib import Path


def lines(name: str) -> list[str]:
    """The lines of a file of this folder."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def reasons(name: str) -> dict[str, str]:
    """Of a file with two columns, parted by a tab, the first to the second: most often a known difference to its reason."""
    return dict(line.split("\t") for line in lines(name))
