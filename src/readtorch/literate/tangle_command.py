"""The command `readtorch tangle`. Where nothing has changed it ends before the chapter model is even imported."""

from __future__ import annotations

import os

from readtorch.literate.unchanged import unchanged

TYPE_CHECKING = False  # `typing`, which has the name, would take longer than a check that finds nothing new
if TYPE_CHECKING:
    import argparse

_PLAIN: dict[str, object] = {"check": False, "force": None, "watch": False, "as_of": None, "output": None}
KNOWN: dict[tuple[str, ...], dict[str, object]] = {(): _PLAIN, ("--check",): {**_PLAIN, "check": True}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="write nothing; show the differences and exit 1 if there are any"
    )
    parser.add_argument(
        "--force",
        nargs="*",
        metavar="FILE",
        help="overwrite edits made in these files of src/ that were never synced (none named: in any)",
    )
    parser.add_argument("--watch", action="store_true", help="keep running and tangle whenever a chapter is saved")
    parser.add_argument(
        "--as-of", metavar="CHAPTER", help="the package as it stands at the end of this chapter (with -o)"
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write an importable package below DIR")


def run(args: argparse.Namespace) -> int:
    """Tangle, check, watch, or write the package as of a chapter."""
    if args.as_of or args.output:
        from readtorch.literate.asof import write_package

        return write_package(args.output, args.as_of)
    if args.watch:
        from readtorch.literate.watch import watch

        return watch()
    root = _checkout()
    # A check leaves no copy of what both sides agree on; the next tangle does, though it has nothing else to do.
    if (
        not args.force
        and unchanged(root)
        and (args.check or os.path.exists(os.path.join(root, ".cache", "readtorch", "agreed", "index")))
    ):
        if not args.check:
            print("everything is up to date")
        return 0
    from readtorch.literate import build

    book = build.checkout()
    return build.check(book) if args.check else build.write(book, force=build.forced(args.force, book))


def _checkout() -> str:
    """The folder that would be the book's root, were this a checkout."""
    return os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
