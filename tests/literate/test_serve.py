"""Whom the server of `readtorch read` refuses, and what it does for the rest."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from weave_books import write_book

from readtorch.literate.serve.app import make_app
from readtorch.literate.serve.child import with_parameters, written
from readtorch.literate.serve.policy import inline_hashes, page_policy
from readtorch.literate.serve.scenarios import PARAMETERS, Refused, Request, RunError, Scenarios, run_child

TOKEN = "the-token"
PAGE = '<!doctype html><html><head><title>t</title></head><body><script>var a = 1</script><script src="x.js"></script></body></html>'


class FakeLab:
    async def address(self, part: str, cell: int) -> str:
        if part != "02_module":
            raise KeyError(part)
        return f"http://127.0.0.1:9/lab#{cell}"

    def stop(self) -> None: ...


@dataclass
class Server:
    port: int
    root: Path

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, HTTPResponse, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        host = named.pop("Host", f"127.0.0.1:{self.port}")
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host)
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if method == "POST":
            connection.putheader("Content-Length", str(len(data)))
        for name, value in named.items():
            connection.putheader(name, value)
        connection.endheaders(data or None)
        response = connection.getresponse()
        return response.status, response, response.read()

    def session(self) -> dict[str, str]:
        """Headers of a page in a session."""
        _, response, _ = self.ask("GET", "/index.html", Cookie=f"readtorch-session={TOKEN}")
        xsrf = response.headers["Set-Cookie"].partition("_xsrf=")[2].partition(";")[0]
        return {
            "Cookie": f"readtorch-session={TOKEN}; _xsrf={xsrf}",
            "X_XSRFToken": xsrf,
            "Origin": f"http://127.0.0.1:{self.port}",
            "Content_Type": "application/json",
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from tornado.httpserver import HTTPServer
    from tornado.netutil import bind_sockets

    root = tmp_path_factory.mktemp("book")
    write_book(root)
    site = root / "site"
    (site / "book").mkdir(parents=True)
    (site / "index.html").write_text(PAGE)
    (site / "404.html").write_text(PAGE.replace("<title>t", "<title>missing"))
    (site / "style.css").write_text("p {}")
    (root / "secret.html").write_text("secret")
    sockets = bind_sockets(0, "127.0.0.1")
    port = sockets[0].getsockname()[1]
    ready, loops = threading.Event(), []

    def serve() -> None:
        async def go() -> None:
            server = HTTPServer(make_app(root, site, TOKEN, port, FakeLab()), max_body_size=4096)  # type: ignore[arg-type]  # a stand-in for the lab
            server.add_sockets(sockets)
            loops.append(asyncio.get_running_loop())
            stop = asyncio.Event()
            loops.append(stop)
            ready.set()
            await stop.wait()

        asyncio.run(go())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(10)
    yield Server(port, root)
    loops[0].call_soon_threadsafe(loops[1].set)
    thread.join(10)


RUN = {"part": "02_module", "cell": "a-run-2", "parameters": {}}


def test_pages_are_served_without_a_session_and_without_live_buttons(server: Server) -> None:
    status, _, body = server.ask("GET", "/")
    assert status == 200
    assert body.decode() == PAGE


def test_within_a_session_a_page_says_that_it_is_served(server: Server) -> None:
    _, _, body = server.ask("GET", "/index.html", Cookie=f"readtorch-session={TOKEN}")
    assert b'<meta name="readtorch-server" content="1"></head>' in body


def test_the_printed_address_begins_a_session_and_leaves_no_token_in_the_address(server: Server) -> None:
    status, response, _ = server.ask("GET", f"/?token={TOKEN}")
    assert (status, response.headers["Location"]) == (302, "/")
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_the_redirect_never_leaves_this_host(server: Server) -> None:
    _, response, _ = server.ask("GET", f"//evil.example/?token={TOKEN}")
    assert response.headers["Location"] == "/evil.example/"


def test_a_wrong_token_begins_no_session(server: Server) -> None:
    status, response, _ = server.ask("GET", "/?token=wr%C3%B6ng")
    assert (status, response.headers.get("Set-Cookie")) == (403, None)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1.nip.io:{port}"]
)
@pytest.mark.parametrize("path", ["/", "/style.css", "/readtorch/status"])
def test_another_host_name_is_refused(server: Server, host: str, path: str) -> None:
    cookie = f"readtorch-session={TOKEN}"
    assert server.ask("GET", path, Host=host.format(port=server.port), Cookie=cookie)[0] == 403


def test_localhost_is_this_server_too(server: Server) -> None:
    assert server.ask("GET", "/", Host=f"localhost:{server.port}")[0] == 200


def test_a_page_has_a_policy_with_the_hashes_of_its_own_scripts(server: Server) -> None:
    _, response, _ = server.ask("GET", "/")
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self' 'sha256-" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert "frame-ancestors 'none'" in policy


def test_hashes_leave_out_data_and_files() -> None:
    html = b'<script type="application/json">{}</script><script src="a.js"></script><script>a()</script>'
    digest = base64.b64encode(hashlib.sha256(b"a()").digest()).decode()
    assert inline_hashes(html) == [f"'sha256-{digest}'"]
    assert f"script-src 'self' 'sha256-{digest}';" in page_policy(html)


@pytest.mark.parametrize(
    "path", ["/../secret.html", "/%2e%2e/secret.html", "/book/../../secret.html", "/..%2fsecret.html"]
)
def test_nothing_outside_the_site_is_served(server: Server, path: str) -> None:
    status, _, body = server.ask("GET", path)
    assert status in (403, 404)
    assert body != b"secret"


def test_an_unknown_page_is_404_with_the_books_own_page(server: Server) -> None:
    status, _, body = server.ask("GET", "/missing.html")
    assert status == 404
    assert b"missing" in body


@pytest.mark.parametrize("path", ["/readtorch/status", "/readtorch/upstream?symbol=a"])
def test_the_interface_refuses_without_a_session(server: Server, path: str) -> None:
    assert server.ask("GET", path)[0] == 403
    assert server.ask("GET", path, Cookie="readtorch-session=wrong")[0] == 403


def test_a_run_without_a_session_is_refused(server: Server) -> None:
    headers = {**server.session()}
    headers["Cookie"] = headers["Cookie"].partition("; ")[2]
    assert server.ask("POST", "/readtorch/run", RUN, **headers)[0] == 403


def test_a_run_without_the_xsrf_token_is_refused(server: Server) -> None:
    headers = server.session()
    del headers["X_XSRFToken"]
    assert server.ask("POST", "/readtorch/run", RUN, **headers)[0] == 403


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://localhost:{port}", "http://127.0.0.1:1", "null", "https://127.0.0.1:{port}"],
)
def test_a_run_from_another_origin_is_refused(server: Server, origin: str) -> None:
    headers = {**server.session(), "Origin": origin.format(port=server.port)}
    assert server.ask("POST", "/readtorch/run", RUN, **headers)[0] == 403


def test_a_run_from_no_origin_is_refused(server: Server) -> None:
    headers = server.session()
    del headers["Origin"]
    assert server.ask("POST", "/readtorch/run", RUN, **headers)[0] == 403


def test_a_cross_site_request_is_refused(server: Server) -> None:
    headers = {**server.session(), "Sec_Fetch_Site": "cross-site"}
    assert server.ask("GET", "/readtorch/status", **headers)[0] == 403


def test_only_json_is_taken(server: Server) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {**server.session(), "Content_Type": kind}
        assert server.ask("POST", "/readtorch/run", RUN, **headers)[0] in (400, 415)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "no JSON"),
        ([], "JSON object"),
        ({"part": "nowhere", "cell": "a-run-2"}, "no part 'nowhere'"),
        ({"part": "../02_module", "cell": "a-run-2"}, "no part"),
        ({"part": "02_module", "cell": "a-run-1"}, "no recorded cell 'a-run-1'"),
        ({**RUN, "code": "import os"}, "unknown field 'code'"),
        ({**RUN, "parameters": {"steps": 0}}, "steps is a whole number from 1 to 20000"),
        ({**RUN, "parameters": {"steps": 20001}}, "steps"),
        ({**RUN, "parameters": {"steps": True}}, "steps"),
        ({**RUN, "parameters": {"steps": 2.5}}, "steps"),
        ({**RUN, "parameters": {"steps": "5"}}, "steps"),
        ({**RUN, "parameters": {"values": "all"}}, "values is one of no, summary"),
        ({**RUN, "parameters": {"values": ["no"]}}, "values"),
        ({**RUN, "parameters": {"env": "x"}}, "no parameter 'env'"),
        ({**RUN, "parameters": []}, "parameters is a JSON object"),
    ],
)
def test_a_run_outside_the_allow_list_is_refused(server: Server, body: Any, words: str) -> None:
    status, _, answer = server.ask("POST", "/readtorch/run", body, **server.session())
    assert status == 400
    assert words in json.loads(answer)["error"]


def test_a_long_body_is_refused(server: Server) -> None:
    try:
        status, *_ = server.ask("POST", "/readtorch/run", b" " * 5000, **server.session())
    except (ConnectionError, OSError):
        return  # closed on the spot
    assert status in (400, 413)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_methods_are_refused(server: Server, method: str) -> None:
    assert server.ask(method, "/readtorch/run", **server.session())[0] in (403, 405)


def test_an_upstream_symbol_that_the_fact_base_does_not_know_is_refused(server: Server) -> None:
    for symbol in ("torch/nn/modules/module.py%23Missing", "../../etc/passwd%23x", "/etc/passwd"):
        assert server.ask("GET", f"/readtorch/upstream?symbol={symbol}", **server.session())[0] == 404


def test_status_lists_what_can_be_run(server: Server) -> None:
    status, _, answer = server.ask("GET", "/readtorch/status", **server.session())
    assert status == 200
    assert json.loads(answer)["runs"] == {"02_module": ["a-run-2"]}


def test_the_lab_address_is_given_for_cells_of_the_book_only(server: Server) -> None:
    status, _, answer = server.ask("POST", "/readtorch/lab", {"part": "02_module", "cell": 7}, **server.session())
    assert (status, json.loads(answer)) == (200, {"url": "http://127.0.0.1:9/lab#7"})
    assert server.ask("POST", "/readtorch/lab", {"part": "elsewhere", "cell": 7}, **server.session())[0] == 404
    assert server.ask("POST", "/readtorch/lab", {"part": "02_module", "cell": "7"}, **server.session())[0] == 400


ORDER = Request("02_module", 0, {})


def child(code: str, limit: float = 20.0) -> dict[str, Any]:
    return asyncio.run(run_child([sys.executable, "-c", code], ORDER, Path.cwd(), limit))


def test_a_run_gets_its_order_and_gives_its_answer() -> None:
    code = "import json, sys; print(json.dumps({'document': json.load(sys.stdin)['part']}))"
    assert child(code) == {"document": "02_module"}


def test_a_fault_of_the_run_is_told() -> None:
    with pytest.raises(RunError, match="ValueError: no"):
        child('print(\'{"error": "ValueError: no"}\')')
    with pytest.raises(RunError, match="ended without an answer"):
        child("raise SystemExit(3)")


def test_a_run_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\nopen({str(mark)!r}, 'w').write(str(p.pid))\n"
        "time.sleep(60)"
    )
    begin = time.monotonic()
    with pytest.raises(RunError, match="took longer than 2 s"):
        child(code, 2.0)
    assert time.monotonic() - begin < 20
    assert not _alive(int(mark.read_text()))


def _alive(pid: int) -> bool:
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.05)
    return True


def test_the_parameters_of_a_page_reach_the_recorded_cell(tmp_path: Path) -> None:
    part = write_book(tmp_path).part("02_module")
    changed = with_parameters(part, 7, {"steps": 5, "values": "no"})
    spec = changed.cells[-1].trace
    assert spec is not None
    assert (spec.steps, spec.values, spec.layers, spec.title) == (5, "no", ("calls", "lines"), "putting a box")
    assert len(changed.cells) == 8
    from readtorch.literate.grammar import parse_trace

    assert parse_trace(written(spec)) == spec


def test_every_parameter_is_bounded() -> None:
    for name, rule in PARAMETERS.items():
        with pytest.raises(Refused):
            rule.check(name, "x" * 100)


def test_only_recorded_cells_are_scenarios(tmp_path: Path) -> None:
    assert Scenarios(write_book(tmp_path)).names() == {"02_module": ["a-run-2"]}


def test_a_port_in_use_is_told_with_a_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "readtorch.literate", "read", "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert f"port {port} cannot be used" in done.stderr
    assert "readtorch read --port 80" in done.stderr
