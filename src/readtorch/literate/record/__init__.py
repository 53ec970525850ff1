"""Recordings: the book's outputs on a machine with a GPU, carried to machines without one.

`make` runs the parts and writes an archive, `archive` is its format and says what may be in one, `shelf` keeps what was brought in
below `docs/recordings/`. From a reader's side: docs/reference/running.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="*", help="chapters or parts (default: all)")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda", help="where tensors are put (default: cuda)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the archive to write")
    parser.add_argument(
        "--import", dest="source", type=Path, metavar="FILE", help="bring an archive into docs/recordings/"
    )
    parser.add_argument("--seconds", type=float, default=480.0, metavar="S", help="for the whole book (default: 480)")
    parser.add_argument("--part-seconds", type=float, default=60.0, metavar="S", help="for one part (default: 60)")
    parser.add_argument(
        "--jobs", type=int, default=None, metavar="N", help="parts at a time (default: one per two cores)"
    )


def run(args: argparse.Namespace) -> int:
    if (args.output is None) == (args.source is None):
        print("readtorch record: either -o FILE to record, or --import FILE", file=sys.stderr)
        return 2
    if args.source is not None:
        from readtorch.literate.record.shelf import bring_in

        folder = bring_in(args.source)
        print(f"{args.source.name} is now in {folder}")
        return 0
    from readtorch.literate.record.make import record

    return record(
        args.output, args.chapter, args.device, seconds=args.seconds, part_seconds=args.part_seconds, jobs=args.jobs
    )
