"""One page on 127.0.0.1, until interrupted. Nothing else is answered, and no other host may ask."""

from __future__ import annotations

import http.server
import secrets
import webbrowser


def serve(page: str, *, port: int, browser: bool) -> int:
    """Serve `page` at an address that others on the machine cannot guess; print it. Returns on Ctrl-C."""
    body = page.encode()
    path = f"/{secrets.token_urlsafe(12)}/"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rsplit(":", 1)[0]
            if self.path != path or host not in ("127.0.0.1", "localhost"):
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """The page is asked for once; nobody needs a log of it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}{path}"
        print(f"{address}\nCtrl-C ends it", flush=True)
        if browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
