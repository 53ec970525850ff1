"""A JupyterLab of the book's own: its own port and token, chapters open as notebooks, nothing fetched from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.extras import NOTEBOOK, require

_SETTINGS = {
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"python": "Jupytext Notebook"}},
    "@jupyterlab/apputils-extension:notification": {"checkForUpdates": False, "fetchNews": "false"},
}
_PATIENCE_S = 90.0


class LabServer:
    """A running JupyterLab. `stop` ends it and its kernels."""

    def __init__(self, process: subprocess.Popen[bytes], scratch: Path, root: Path, url: str, token: str) -> None:
        self._process = process
        self._scratch = scratch
        self.root = root
        self.url = url
        self.token = token

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def address(self, part_path: str, cell: int | None = None) -> str:
        """Where a browser opens a part (`chapters/02_module.py`), at the cell with this index in `Part.cells`."""
        address = f"{self.url}lab/tree/{quote(part_path)}?token={self.token}"
        if cell is None:
            return address
        from readtorch.literate.lab.contents import cell_ids

        part = next(p for p in Book.load(self.root).parts if p.path == part_path)
        codes = [c.index for c in part.code_cells]
        later = [n for n, index in enumerate(codes) if index >= cell]
        return f"{address}#cell-id={cell_ids(part)[later[0] if later else -1]}" if codes else address

    def wait(self) -> int:
        return self._process.wait()

    def stop(self) -> None:
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)


def start(root: Path, *, port: int | None = None) -> LabServer:
    """Start JupyterLab over `root` (which holds `chapters/`) and wait until it answers. Raises LiterateError."""
    require("JupyterLab", NOTEBOOK)
    scratch = Path(tempfile.mkdtemp(prefix="readtorch-lab-"))
    settings = scratch / "config" / "labconfig" / "default_setting_overrides.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(_SETTINGS), encoding="utf-8")
    runtime = scratch / "runtime"
    runtime.mkdir(mode=0o700)
    others = os.environ.get("JUPYTER_CONFIG_PATH")
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, [str(scratch / "config"), others])),
        "JUPYTER_RUNTIME_DIR": str(runtime),
    }
    command = [
        sys.executable,
        *("-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1"),
        f"--port={port or 0}",
        f"--ServerApp.root_dir={root}",
        "--ServerApp.contents_manager_class=readtorch.literate.lab.contents.BookContents",
    ]
    if port is not None:
        command.append("--ServerApp.port_retries=0")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    log = (scratch / "log").open("wb")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    log.close()
    try:
        url, token = _answer(process, runtime)
    except LiterateError as error:
        said = (scratch / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        process.kill()
        shutil.rmtree(scratch, ignore_errors=True)
        problem = error.problems[0]
        raise LiterateError(Problem(problem.path, 0, problem.message, "\n    ".join(said[-12:]))) from None
    return LabServer(process, scratch, root, url, token)


def _answer(process: subprocess.Popen[bytes], runtime: Path) -> tuple[str, str]:
    """Address and token, which the server writes to a file that only its user can read."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LiterateError(Problem("JupyterLab", 0, f"ended with status {process.returncode} while starting"))
        for file in runtime.glob("jpserver-*.json"):
            try:
                said = json.loads(file.read_text(encoding="utf-8"))
            except json.JSONDecodeError:  # being written
                continue
            # The file is there before the port listens.
            if _listens(int(said["port"])):
                return str(said["url"]), str(said["token"])
        time.sleep(0.1)
    raise LiterateError(Problem("JupyterLab", 0, f"did not answer within {_PATIENCE_S:.0f} s"))


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
