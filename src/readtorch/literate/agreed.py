"""The text on which chapters and package last agreed: what tells which of the two was edited.

Two witnesses: a copy that every tangle and sync leaves below `.cache/`, and git's HEAD, whose files agree because CI sees to
it. On a fresh clone only HEAD is there; without git only the copy. Neither is ever needed while both sides are equal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from pathlib import Path

from readtorch.literate.build import PACKAGE
from readtorch.literate.merge3 import hunks
from readtorch.literate.transaction import Transaction


class Edited(Enum):
    """Which side of a file was edited since both agreed."""

    NEITHER = "neither"
    CHAPTER = "chapter"
    FILE = "file"
    BOTH = "both"
    UNKNOWN = "unknown"
    """There is no agreed text to compare with."""


def verdict(agreed: str, chapter: str | None, file: str | None) -> Edited:
    if chapter == file:
        return Edited.NEITHER
    if file == agreed:
        return Edited.CHAPTER
    return Edited.FILE if chapter == agreed else Edited.BOTH


class Agreed:
    """The agreed texts of the package below `root`, by path in the package."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".cache" / "readtorch" / "agreed"

    # -- the two witnesses -------------------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> dict[str, str]:
        """Digest by path, of the copies."""
        try:
            lines = (self.folder / "index").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        return {path: known for known, _, path in (line.partition(" ") for line in lines) if path}

    def recorded(self, path: str) -> str | None:
        """The copy that the last tangle or sync left."""
        wanted = self._index.get(path)
        if wanted is None:
            return None
        try:
            text = (self.folder / path).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return text if digest(text) == wanted else None

    def committed(self, path: str) -> str | None:
        """The file in git's HEAD."""
        return self._git_text(f"HEAD:./{PACKAGE}/{path}")

    # -- the question ------------------------------------------------------------------------------------------------

    def edited(self, path: str, chapter: str | None, file: str | None) -> tuple[Edited, str | None]:
        """Which side was edited, and the agreed text. `chapter` is what the chapters give, `file` what lies in the package.

        The copy speaks first: a side that equals it was not edited. If by its account both were, it may be out of date
        (a checkout, a reset, a pull since), and HEAD is believed if the two sides are closer to it.
        """
        if chapter == file:
            return Edited.NEITHER, chapter
        recorded = self.recorded(path)
        if recorded is not None and recorded in (chapter, file):
            return verdict(recorded, chapter, file), recorded
        committed = self.committed(path)
        if committed is None and recorded is None:
            return Edited.UNKNOWN, None
        agreed = recorded if committed is None else committed
        if recorded is not None and committed is not None:
            sides = [side for side in (chapter, file) if side is not None]
            if sum(distance(recorded, side) for side in sides) <= sum(distance(committed, side) for side in sides):
                agreed = recorded
        assert agreed is not None
        return verdict(agreed, chapter, file), agreed

    def in_git(self, path: str, file: str) -> bool:
        """Would nothing be lost if this text were overwritten: is it HEAD's, or did a merge under way put it there?"""
        if file == self.committed(path):
            return True
        folder = (self._git("rev-parse", "--absolute-git-dir") or "").strip()
        marks = ("MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD")
        if not folder or not any((Path(folder) / mark).exists() for mark in marks):
            return False
        if self._git("ls-files", "--unmerged", "--", f"{PACKAGE}/{path}"):
            return True
        return self._git_text(f":./{PACKAGE}/{path}") == file

    def _git_text(self, object_name: str) -> str | None:
        return self._git("cat-file", "blob", object_name)

    def _git(self, *arguments: str) -> str | None:
        """What git prints, None where it fails or where there is none. A book outside the work tree's top is fine."""
        if not (self.root / ".git").exists():
            return None
        import subprocess

        try:
            done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, check=False)
            return done.stdout.decode("utf-8") if done.returncode == 0 else None
        except (OSError, UnicodeDecodeError):
            return None

    # -- writing it down ---------------------------------------------------------------------------------------------

    def record(self, files: Mapping[str, str]) -> None:
        """Both sides agree on all these texts now. A cache that cannot be written is not missed."""
        digests = {path: digest(text) for path, text in files.items()}
        if digests == self._index:
            return
        with contextlib.suppress(OSError), Transaction() as transaction:
            for path, text in files.items():
                if self._index.get(path) != digests[path] or not (self.folder / path).exists():
                    transaction.write(self.folder / path, text)
            for path in self._index.keys() - digests.keys():
                transaction.delete(self.folder / path)
            transaction.write(self.folder / "index", "".join(f"{digests[path]} {path}\n" for path in sorted(digests)))
        self.__dict__.pop("_index", None)


def distance(one: str, other: str) -> int:
    """How many lines an edit from one text to the other touches."""
    found = hunks(one.split("\n"), other.split("\n"))
    return sum(hunk.stop - hunk.start + len(hunk.lines) for hunk in found)


def digest(text: str) -> str:
    import hashlib

    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()
