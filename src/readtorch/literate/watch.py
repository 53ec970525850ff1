"""`--watch`: tangle when a chapter is saved, sync when a file of the package is.

Files are polled; a pass begins when nothing has changed for a moment, so that an editor saving several files is seen as one
change. A pass goes one way only, and what it wrote itself does not wake it again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from readtorch.literate.agreed import Agreed
from readtorch.literate.build import PACKAGE, checkout, orphans, package_files, read, write
from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError
from readtorch.literate.sync import sync_book
from readtorch.literate.tangle import tangle

Stamps = dict[Path, tuple[int, int]]


def watch(
    root: Path | None = None,
    interval: float = 0.2,
    passes: int | None = None,
    say: Callable[[str], None] | None = None,
) -> int:
    """Watch until interrupted (or for so many passes). Errors are shown, and the watch goes on."""
    root = root or checkout().root
    say = say or _say
    before = stamps(root)
    say(f"watching chapters/ and {PACKAGE}/ (Ctrl-C ends it)")
    done = 0
    try:
        while passes is None or done < passes:
            time.sleep(interval)
            now = stamps(root)
            if now == before:
                continue
            now = _settled(root, before, now, interval)
            say(direction(before, now, root, say))
            done += 1
            before = stamps(root)
    except KeyboardInterrupt:
        say("no longer watching")
    return 0


def stamps(root: Path) -> Stamps:
    """When each chapter and each file of the package was written, and its size."""
    package = root / PACKAGE
    files = [*(root / "chapters").rglob("*.py"), *(package / name for name in package_files(package))]
    found: Stamps = {}
    for file in files:
        try:
            status = os.stat(file)
        except FileNotFoundError:
            continue
        found[file] = (status.st_mtime_ns, status.st_size)
    return found


def _settled(root: Path, before: Stamps, now: Stamps, interval: float) -> Stamps:
    """The stamps when nothing moves any more. A file found empty gets a second: many editors empty it before they write."""
    until = time.monotonic() + 1
    while True:
        time.sleep(interval / 2)
        later = stamps(root)
        emptied = any(size == 0 and before.get(file) != (when, size) for file, (when, size) in later.items())
        if later == now and not (emptied and time.monotonic() < until):
            return now
        now = later


def direction(before: Stamps, now: Stamps, root: Path, say: Callable[[str], None]) -> str:
    """One pass, in the direction that the saved files ask for; the line that tells how it ended."""
    changed = [file for file in before.keys() | now.keys() if before.get(file) != now.get(file)]
    names = sorted(file.relative_to(root).as_posix() for file in changed)
    in_chapters = [name for name in names if name.startswith("chapters/")]
    clock = time.strftime("%H:%M:%S")
    say(f"{clock} saved: {', '.join(names)}")
    try:
        if in_chapters and len(in_chapters) < len(names):
            if _agree(Book.load(root)):
                return f"{clock} chapters and package agree"
            return f"{clock} chapters and package were saved at once; run `readtorch sync` to merge them"
        if in_chapters:
            write(Book.load(root))
            return f"{clock} tangled"
        whole = sync_book(Book.load(root)) == 0
        return f"{clock} synced" if whole else f"{clock} synced, but for the files named above"
    except LiterateError as error:
        return f"{clock} nothing written:\n{error}"


def _agree(book: Book) -> bool:
    """After a checkout both sides have changed, and alike."""
    files = tangle(book)
    if any(read(book.package / path) != file.text for path, file in files.items()) or orphans(book.package, files):
        return False
    Agreed(book.root).record({path: file.text for path, file in files.items()})
    return True


def _say(text: str) -> None:
    print(text)
    sys.stdout.flush()
