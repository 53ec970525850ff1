"""The text on which chapters and package last agreed: what tells which of the two was edited.

Two witnesses: a copy that every tangle and sync leaves below `.cache/`, and git's HEAD, whose files agree because CI sees to
it. On a fresh clone only HEAD is there; without git only the copy. Neither is ever needed while both sides are equal.

The copy is no witness for a file that a checkout, a reset or a pull has touched since; where HEAD has been is told by its
reflog. Nothing tells of `git checkout FILE`, so where one side is as committed and the other as agreed, `edited` does not guess.
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
    TAKEN_BACK = "taken back"
    """One side is at, or nearer to, the last commit, and the other is what both agreed on since."""
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
        """The copy that the last tangle or sync left, unless git has put other texts in place since."""
        wanted = self._index.get(path)
        if wanted is None:
            return None
        try:
            text = (self.folder / path).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return text if digest(text) == wanted and not self._moved(path) else None

    def committed(self, path: str) -> str | None:
        """The file in git's HEAD."""
        return self._git_text(f"HEAD:./{PACKAGE}/{path}")

    def _moved(self, path: str) -> bool:
        """Has git written this file since the copy was made? It has if HEAD went between commits that differ in it."""
        for old, new, action in self._moves or ():
            if action.startswith("commit") and not action.startswith("commit (merge)"):
                continue  # what is committed lies there already
            if action.startswith("reset") or self._text_at(old, path) != self._text_at(new, path):
                return True
        return self._moves is None

    @cached_property
    def _moves(self) -> list[tuple[str, str, str]] | None:
        """(from, to, what) of HEAD since the copies were made; None where that cannot be told."""
        log = _reflog(self.root)
        if log is None:
            return []
        try:
            mark = (self.folder / "head").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        lines = log.splitlines()
        known = [k for k, line in enumerate(lines) if line == mark]
        if not known and mark:
            return None
        later = lines[known[-1] + 1 :] if known else lines
        return [(line[:40], line[41:81], line.partition("\t")[2]) for line in later]

    # -- the question ------------------------------------------------------------------------------------------------

    def edited(self, path: str, chapter: str | None, file: str | None) -> tuple[Edited, str | None]:
        """Which side was edited, and the agreed text. `chapter` is what the chapters give, `file` what lies in the package."""
        if chapter == file:
            return Edited.NEITHER, chapter
        recorded, committed = self.recorded(path), self.committed(path)
        if recorded is None and committed is None:
            return Edited.UNKNOWN, None
        if recorded is None or committed is None or recorded == committed:
            agreed = committed if recorded is None else recorded
            assert agreed is not None
            return verdict(agreed, chapter, file), agreed
        if recorded in (chapter, file):
            other = file if recorded == chapter else chapter
            if other is not None and distance(committed, other) < distance(recorded, other):
                return Edited.TAKEN_BACK, recorded
            return verdict(recorded, chapter, file), recorded
        agreed = committed if committed in (chapter, file) else recorded
        return verdict(agreed, chapter, file), agreed

    def may_overwrite(self, path: str, file: str) -> bool:
        """Has this text of the package been in the chapters, or is it git's, so that a tangle may take its place?"""
        return file == self.recorded(path) or self.in_git(path, file)

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

    def _text_at(self, commit: str, path: str) -> str | None:
        return self._git_text(f"{commit}:./{PACKAGE}/{path}")

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
        log = (_reflog(self.root) or "").splitlines()
        head = log[-1] if log else ""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if digests == self._index and (self.folder / "head").read_text(encoding="utf-8") == head:
                return
        with contextlib.suppress(OSError), Transaction() as transaction:
            for path, text in files.items():
                if self._index.get(path) != digests[path] or not (self.folder / path).exists():
                    transaction.write(self.folder / path, text)
            for path in self._index.keys() - digests.keys():
                transaction.delete(self.folder / path)
            transaction.write(self.folder / "head", head)
            transaction.write(self.folder / "index", "".join(f"{digests[path]} {path}\n" for path in sorted(digests)))
        self.__dict__.pop("_index", None)
        self.__dict__.pop("_moves", None)


def _reflog(root: Path) -> str | None:
    """Where HEAD has been, as git writes it down; None where there is no git. Read, for starting git would take longer."""
    folder = root / ".git"
    try:
        if folder.is_file():  # a linked work tree
            folder = root / folder.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        return (folder / "logs" / "HEAD").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "" if folder.is_dir() else None


def distance(one: str, other: str) -> int:
    """How many lines an edit from one text to the other touches."""
    found = hunks(one.split("\n"), other.split("\n"))
    return sum(hunk.stop - hunk.start + len(hunk.lines) for hunk in found)


def digest(text: str) -> str:
    import hashlib

    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()
