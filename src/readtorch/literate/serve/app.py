"""The Tornado application: the built site, and the few things a page may ask of this machine."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, StaticFileHandler

from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError
from readtorch.literate.serve.guard import COOKIE, Context, Endpoint, Guarded, same
from readtorch.literate.serve.lab import Lab
from readtorch.literate.serve.policy import page_policy
from readtorch.literate.serve.scenarios import PARAMETERS, Number, Refused, RunError, Scenarios

BODY = 4096
"""Bytes a request's body may have."""
MARK = b'<meta name="readtorch-server" content="1">'


class PageHandler(Guarded):
    """HTML pages, each with its policy; within a session also with the mark that brings out the live buttons."""

    def get(self, path: str) -> None:
        given = self.get_query_argument("token", None)
        if given is not None:
            self._begin_session(given)
            return
        file = self._file(path)
        status = 200 if file is not None else 404
        html = (file or self.context.site / "404.html").read_bytes()
        self.set_status(status)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", page_policy(html))
        self.set_header("Cache-Control", "no-cache")
        if self.has_session():
            _ = self.xsrf_token  # sets its cookie
            html = html.replace(b"</head>", MARK + b"</head>", 1)
        self.finish(html)

    head = get

    def _begin_session(self, given: str) -> None:
        if not same(given, self.context.token):
            raise HTTPError(403, "a token of another run of `readtorch read`")
        self.set_cookie(COOKIE, self.context.token, httponly=True, samesite="Strict", path="/")
        self.redirect("/" + self.request.path.lstrip("/"))  # never to another host: `//name/`

    def _file(self, path: str) -> Path | None:
        wanted = (self.context.site / path).resolve()
        if not wanted.is_relative_to(self.context.site):
            raise HTTPError(403, "outside the site")
        if wanted.is_dir():
            wanted = wanted / "index.html"
        return wanted if wanted.is_file() and wanted.suffix == ".html" else None


class FileHandler(StaticFileHandler, Guarded):
    """Everything that is not a page."""

    def initialize(self, context: Context) -> None:  # type: ignore[override]  # Tornado passes what the route says
        Guarded.initialize(self, context)
        StaticFileHandler.initialize(self, str(context.site))

    def prepare(self) -> None:
        self.check_host()

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-cache")


class StatusHandler(Endpoint):
    def get(self) -> None:
        """What the buttons of a page can do."""
        parameters = {
            name: [rule.least, rule.most] if isinstance(rule, Number) else list(rule.values)
            for name, rule in PARAMETERS.items()
        }
        self.finish({"runs": self.context.scenarios.names(), "parameters": parameters})


class RunHandler(Endpoint):
    work: asyncio.Task[dict[str, Any]] | None = None

    async def post(self) -> None:
        try:
            request = self.context.scenarios.parse(body_of(self))
        except Refused as error:
            raise HTTPError(400, str(error)) from None
        if self.context.scenarios.busy:
            raise HTTPError(429, "another run is on its way")
        self.work = asyncio.ensure_future(self.context.scenarios.run(request))
        try:
            self.finish(await self.work)
        except RunError as error:
            self.set_status(422)
            self.finish({"error": str(error)})
        except asyncio.CancelledError:
            return

    def on_connection_close(self) -> None:
        """The reader left: end what runs on their behalf."""
        if self.work is not None:
            self.work.cancel()


class UpstreamHandler(Endpoint):
    def get(self) -> None:
        """The reader's own PyTorch source of a symbol that the book links to."""
        from readtorch.literate.installed import upstream_source

        symbol = self.get_query_argument("symbol")
        found = upstream_source(symbol)
        if found is None:
            raise HTTPError(404, f"the fact base has no {symbol!r}")
        lines = highlighted(found.source, found.language) if found.source is not None else ""
        self.finish({"heading": found.heading, "note": found.note, "url": found.url, "html": lines})


def highlighted(source: str, language: str) -> str:
    """Source text as HTML, every character of it escaped."""
    from readtorch.literate.weave.listing import highlight

    return "\n".join(highlight(source, 1, {}, {}, lambda _: None, language))


class LabHandler(Endpoint):
    async def post(self) -> None:
        """Start JupyterLab if it does not run yet; the answer is the address of the cell."""
        body = body_of(self)
        part, cell = (body.get("part"), body.get("cell")) if isinstance(body, dict) else (None, None)
        if not isinstance(part, str) or not isinstance(cell, int) or isinstance(cell, bool):
            raise HTTPError(400, "part and cell name a cell of the book")
        try:
            address = await self.context.lab.address(part, cell)
        except KeyError:
            raise HTTPError(404, "no such cell") from None
        except LiterateError as error:
            raise HTTPError(503, str(error)) from None
        self.finish({"url": address})


def body_of(handler: Endpoint) -> Any:
    try:
        return json.loads(handler.request.body)
    except ValueError:
        raise HTTPError(400, "the body is no JSON") from None


def make_app(root: Path, site: Path, token: str, port: int, lab: Lab) -> Application:
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
    context = {"context": Context(site.resolve(), token, hosts, Scenarios(Book.load(root)), lab)}
    return Application(
        [
            (r"/readtorch/status", StatusHandler, context),
            (r"/readtorch/run", RunHandler, context),
            (r"/readtorch/upstream", UpstreamHandler, context),
            (r"/readtorch/lab", LabHandler, context),
            (r"/readtorch(?:/.*)?", Endpoint, context),
            (r"/((?:[^?]*/)?|[^?]*\.html)", PageHandler, context),
            (r"/(.*)", FileHandler, context),
        ],
        xsrf_cookies=True,
        xsrf_cookie_kwargs={"samesite": "Strict"},
    )


def serve(root: Path, site: Path, sockets: list[socket], token: str) -> None:
    """Serve until interrupted."""
    asyncio.run(_serve(root, site, sockets, token))


async def _serve(root: Path, site: Path, sockets: list[socket], token: str) -> None:
    lab = Lab(root)
    app = make_app(root, site, token, sockets[0].getsockname()[1], lab)
    server = HTTPServer(app, max_body_size=BODY, max_header_size=16384, idle_connection_timeout=60)
    server.add_sockets(sockets)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows has no signal handlers in the loop
            loop.add_signal_handler(number, stop.set)
    await stop.wait()
    server.stop()
    await server.close_all_connections()
    lab.stop()
