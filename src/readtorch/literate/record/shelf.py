"""The recordings that the site shows: `docs/recordings/DEVICE/`, brought in from archives that were checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from readtorch.literate.build import checkout
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.record.archive import Recording, check_part, check_provenance, dumps, read
from readtorch.literate.transaction import Transaction

FOLDER = "docs/recordings"


def bring_in(source: Path, root: Path | None = None) -> Path:
    """Check an archive and put it below docs/recordings/, in the place of an earlier one of that device."""
    recording = read(source)
    if recording.provenance["simulated"] or "simulated" in recording.device.lower():
        raise LiterateError(
            Problem(source.name, 0, "was made on a simulated device, and is no recording of a GPU", "record on a GPU")
        )
    if recording.device == "CPU":
        raise LiterateError(Problem(source.name, 0, "was made on a CPU; the site's own build shows that"))
    root = checkout().root if root is None else root
    folder = root / FOLDER / slug(recording.device)
    wanted = {"recording.json": recording.provenance}
    wanted.update({f"parts/{name}.json": part for name, part in recording.parts.items()})
    with Transaction() as transaction:
        for name, value in wanted.items():
            transaction.write(folder / name, dumps(value) + "\n")
        for old in folder.rglob("*.json"):
            if old.relative_to(folder).as_posix() not in wanted:
                transaction.delete(old)
    return folder


def slug(device: str) -> str:
    """A device's name as a folder's."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def load(root: Path) -> Iterator[Recording]:
    """The recordings of a checkout, each checked again: they are files like any other."""
    for file in sorted((root / FOLDER).glob("*/recording.json")):
        provenance = json.loads(file.read_text("utf-8"))
        check_provenance(file, provenance)
        parts = {}
        for path in sorted((file.parent / "parts").rglob("*.json")):
            name = path.relative_to(file.parent / "parts").with_suffix("").as_posix()
            parts[name] = json.loads(path.read_text("utf-8"))
            check_part(path, name, parts[name])
        yield Recording(provenance, parts)


@cache
def recordings(root: Path) -> tuple[Recording, ...]:
    """The same, read once."""
    return tuple(load(root))
