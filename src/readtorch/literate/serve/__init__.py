"""`readtorch read`: weave the book, then serve it on this machine with live runs beside the recorded ones."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch.literate.errors import Problem

HOST = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=8000, help="port on 127.0.0.1 (default: 8000; 0: any free one)")
    parser.add_argument("--no-execute", action="store_true", help="weave without running the chapters")
    parser.add_argument("--open", action="store_true", help="open the book in the browser")


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 65536:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return value


def run(args: argparse.Namespace) -> int:
    from readtorch.literate.extras import WEAVE, require

    require("readtorch read", (*WEAVE, *(() if args.no_execute else ("IPython", "matplotlib"))))
    from tornado.netutil import bind_sockets

    from readtorch.literate.chapter import find_root

    try:
        sockets = bind_sockets(args.port, HOST)
    except OSError as error:
        free = _free_port()
        print(f"readtorch read: port {args.port} cannot be used: {error.strerror}.", file=sys.stderr)
        print(f"A free one: readtorch read --port {free}   (or: make read PORT={free})", file=sys.stderr)
        return 1
    port = sockets[0].getsockname()[1]
    root = find_root()
    site = weave(root, execute=not args.no_execute)
    if site is None:
        return 1
    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/?token={token}"
    from readtorch.literate.serve.app import serve

    print(f"\nThe book is at  {address}\nCtrl-C ends the server.", flush=True)
    if args.open:
        webbrowser.open(address)
    serve(root, site, sockets, token)
    return 0


FIRST = (
    "Running {parts} parts of the book and their claims, then writing the pages. The first time this takes a minute or two; later only\n"
    "what changed is run again. Without running anything: readtorch read --no-execute"
)


def tell(faults: Sequence[Problem]) -> None:
    """The faults that the pages show, on the terminal."""
    if faults:
        from readtorch.literate.weave.plugin import listed_faults

        print(f"\n{listed_faults(faults)}\n", file=sys.stderr)
        print(
            "The site is made all the same; its pages show them in red. `readtorch run` and `readtorch claims` run them again,\n"
            "`readtorch read --no-execute` makes the pages without running anything.",
            file=sys.stderr,
        )


def _free_port() -> int:
    from tornado.netutil import bind_sockets

    for port in range(8001, 8100):
        try:
            sockets = bind_sockets(port, HOST)
        except OSError:
            continue
        for socket in sockets:
            socket.close()
        return port
    return 0


def weave(root: Path, *, execute: bool = True) -> Path | None:
    """Build the site as `mkdocs build` does, with a progress bar; returns its folder, or None after printing what is wrong.

    A cell that fails or a claim that does not hold is no reason to have no site: it is printed here, and its page shows it.
    """
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort, ConfigurationError

    from readtorch.literate.chapter import part_files
    from readtorch.literate.terminal import Making

    if not (root / "mkdocs.yml").is_file():
        print(f"readtorch read: {root} has no mkdocs.yml; the site is built from a checkout.", file=sys.stderr)
        return None
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        config = load_config(str(root / "mkdocs.yml"))
        plugin: Any = config.plugins["readtorch"]
        plugin.config.execute = execute
        plugin.shows_faults = True
        count = len(part_files(root / "chapters")) if execute else 0
        if count:
            print(FIRST.format(parts=count), file=sys.stderr, flush=True)
        with Making(count) as making:
            plugin.on_progress = making.show
            config.plugins.on_startup(command="build", dirty=False)
            build(config)
    except (Abort, ConfigurationError) as error:
        print(error, file=sys.stderr)
        return None
    else:
        tell(plugin.faults)
    finally:
        if "config" in locals():
            config.plugins.on_shutdown()
    return Path(config.site_dir)
