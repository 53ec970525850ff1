"""`readtorch trace import NAME`: what importing a package does, as text, as a page or as a file."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from readtorch.literate.trace.imports import LIMIT, SCHEMA, ImportRun, align, document, load, record_import, save
from readtorch.literate.trace.target import check_target
from readtorch.literate.trace.words import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.add_argument("name", help="a module or package that this Python can import")
    parser.add_argument("other", nargs="?", help="a second one to put beside it")
    parser.add_argument(
        "-o", "--output", type=Path, help="write a page (.html), or the recording (.json, .json.gz) for `trace view`"
    )
    parser.add_argument("--note", default="", help="where and how it was recorded, kept with the recording")
    parser.add_argument("--touch", default="", help="comma-separated attributes to read afterwards: zeros,nn")
    parser.add_argument("--depth", type=_whole, default=3, help="levels of the tree to print (default: 3)")
    parser.add_argument("--top", type=_whole, default=10, help="modules to list by their own time (default: 10)")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="seconds before it is given up (default: %(default)g)"
    )


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than none")
    return number


_whole.__name__ = "int"  # by which argparse calls it where the text is no number at all


def run(args: argparse.Namespace) -> int:
    """Record, print, write; 1 if an import did not succeed, 2 for what is no name."""
    if args.output is not None:
        check_target(args.output)
    touch = tuple(filter(None, args.touch.split(",")))
    try:
        runs = [
            record_import(name, touch=touch if name == args.name else (), limit=args.limit)
            for name in (args.name, args.other)
            if name is not None
        ]
    except ValueError as error:
        print(f"readtorch trace import: {error}", file=sys.stderr)
        return 2
    for recorded in runs:
        recorded.provenance = args.note
        print("\n".join(report(recorded, args.depth, args.top)))
    if len(runs) > 1:
        both = len(align(*runs).matched)
        print(f"\n{counted(both, 'module')} {'is' if both == 1 else 'are'} imported by both")
    if args.output is not None:
        if args.output.suffix == ".html":
            from readtorch.literate.trace.import_page import page_html

            args.output.write_text(page_html(document(*runs), args.output.stem), encoding="utf-8")
        else:
            save(args.output, *runs)
        print(f"\nwrote {args.output}")
    return int(any(recorded.outcome != "imported" for recorded in runs))


def is_import(path: Path) -> bool:
    """Is this file a recorded import?"""
    try:
        data = path.read_bytes()
        head = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError):
        return False
    return f'"{SCHEMA}"'.encode() in head[:80]


def page(paths: Sequence[Path], name: str) -> str:
    """A page for the imports saved in one file or two."""
    from readtorch.literate.trace.import_page import page_html

    runs = [recorded for path in paths for recorded in load(path)]
    return page_html(document(*runs[:2]), name)


def report(recorded: ImportRun, depth: int = 3, top: int = 10) -> Iterator[str]:
    """Lines: what happened, the tree down to `depth`, the slowest modules, what was put off."""
    yield (
        f"import {recorded.name}: {counted(len(recorded.names()), 'module')}, {recorded.total / 1000:.1f} ms "
        f"({recorded.before} had been loaded by the interpreter itself)"
    )
    if recorded.outcome != "imported":
        yield f"{recorded.outcome}: {recorded.error}"
        yield from (f"  | {line}" for line in recorded.output.splitlines()[-12:])
    yield ""
    if not recorded.modules:
        yield "nothing was left to import: it is one of those"
        return
    yield f"{'cumulative':>10} {'self':>9}  ms"
    yield from _tree(recorded, depth)
    slow = sorted(range(len(recorded.modules)), key=recorded.self_time, reverse=True)[:top]
    if len(recorded.modules) > top:
        yield ""
        yield "slowest by themselves"
        for position in slow:
            module = recorded.modules[position]
            yield f"{'':10} {recorded.self_time(position) / 1000:9.2f}  {module.name}{_tags(module.kind, module.asked)}"
    yield from _put_off(recorded)


def _tree(recorded: ImportRun, depth: int) -> Iterator[str]:
    hidden = 0
    for position, module in enumerate(recorded.modules):
        level = recorded.depth(position)
        failed = f"  ! {module.error}" if module.error else ""
        if level >= depth and not failed:
            hidden += 1
            continue
        times = f"{module.total / 1000:10.2f} {recorded.self_time(position) / 1000:9.2f}"
        yield f"{times}  {'  ' * level}{module.name}{_tags(module.kind, module.asked)}{failed}"
    if hidden:
        yield f"{'':20}  … {hidden} more below (--depth)"


def _tags(kind: str, asked: str) -> str:
    tags = ([kind] if kind != "source" else []) + ([f"in {asked}()"] if asked else [])
    return f"  [{', '.join(tags)}]" if tags else ""


def _put_off(recorded: ImportRun) -> Iterator[str]:
    if recorded.lazy or recorded.later:
        yield ""
        yield "put off"
    if recorded.lazy:
        yield f"  with a __getattr__ of their own: {', '.join(recorded.lazy)}"
    for package, names in recorded.later.items():
        shown = ", ".join(names[:8]) + (f", … {len(names) - 8} more" if len(names) > 8 else "")
        yield f"  {package} has and did not load: {shown}"
    if recorded.by_hand:
        entries = counted(len(recorded.by_hand), "entry", "entries")
        yield f"  {entries} of sys.modules {'was' if len(recorded.by_hand) == 1 else 'were'} made by hand"
