"""Who may ask for what.

The server listens on the loopback interface only. Every request must name this server as its host, which keeps out pages that
point a name of their own at 127.0.0.1. Pages are for everyone on this machine; whatever runs something, or shows a file of the
reader's, also needs the session cookie (given for the token in the printed address, HttpOnly, same-site), a request that comes
from a page of this very server, and for POST the XSRF token.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornado.web import HTTPError, RequestHandler

from readtorch.literate.serve.lab import Lab
from readtorch.literate.serve.scenarios import Scenarios

COOKIE = "readtorch-session"


@dataclass(frozen=True)
class Context:
    """What all handlers share: the built site, the session's token, the names this server answers to."""

    site: Path
    token: str
    hosts: frozenset[str]
    scenarios: Scenarios
    lab: Lab


class Guarded(RequestHandler):
    """A handler that answers only to this server's own name."""

    def initialize(self, context: Context) -> None:
        self.context = context

    def prepare(self) -> None:
        self.check_host()

    def check_host(self) -> None:
        if self.request.headers.get("Host", "").lower() not in self.context.hosts:
            raise HTTPError(403, "asked under another host name")

    def has_session(self) -> bool:
        return same(self.get_cookie(COOKIE, "") or "", self.context.token)

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode(), wanted.encode())


class Endpoint(Guarded):
    """Part of the live interface: JSON in, JSON out, for pages of this server in this session only."""

    def prepare(self) -> None:
        super().prepare()
        if not self.has_session():
            raise HTTPError(403, "no session; open the address that `readtorch read` printed")
        origin = self.request.headers.get("Origin")
        own = f"http://{self.request.headers['Host'].lower()}"
        if origin is not None and origin.lower() != own:
            raise HTTPError(403, "asked from another origin")
        if origin is None and self.request.method not in ("GET", "HEAD"):
            raise HTTPError(403, "asked from no origin")
        if self.request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise HTTPError(403, "asked from another site")
        if self.request.method == "POST":
            kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip()
            if kind != "application/json":
                raise HTTPError(415, "only application/json")

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        message = error.log_message if isinstance(error, HTTPError) and error.log_message else self._reason
        self.finish({"error": message.replace("%%", "%")})  # Tornado doubles them for its log
