"""A kernel as JupyterLab starts it, and what its cells give back."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import live_book
import pytest

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")


@dataclass
class Outcome:
    """What one cell gave back."""

    printed: str = ""
    shown: str = ""
    html: str = ""
    error: str = ""
    traceback: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)


class Kernel:
    """A kernel as JupyterLab starts it, and cells as JupyterLab sends them."""

    def __init__(self, source: Path, scratch: Path) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(source),
            "PYTHONSAFEPATH": "",
            "JUPYTER_PLATFORM_DIRS": "1",
            "NO_COLOR": "1",
            "IPYTHONDIR": str(scratch / "ipython"),
        }
        self.manager, self.client = manager.start_new_kernel(kernel_name="python3", env=environment)
        self.must("%colors NoColor")

    def run(self, code: str, cell_id: str | None = None) -> Outcome:
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        metadata = {"cellId": cell_id} if cell_id else {}
        request = self.client.session.msg("execute_request", {**content, "stop_on_error": False}, metadata=metadata)
        self.client.shell_channel.send(request)
        outcome = Outcome()
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=60)
            except Empty:
                raise TimeoutError(f"the kernel did not finish:\n{code}") from None
            if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                continue
            outcome.messages.append(message)
            kind, body = message["msg_type"], message["content"]
            if kind == "stream":
                outcome.printed += body["text"]
            elif kind in ("execute_result", "display_data"):
                outcome.shown += body["data"].get("text/plain", "")
                outcome.html += body["data"].get("text/html", "")
            elif kind == "error":
                outcome.error = f"{body['ename']}: {body['evalue']}"
                outcome.traceback = "\n".join(body["traceback"])
            elif kind == "status" and body["execution_state"] == "idle":
                return outcome

    def must(self, code: str, cell_id: str | None = None) -> Outcome:
        """Run a cell that may not fail."""
        outcome = self.run(code, cell_id)
        assert not outcome.error, f"{code}\n{outcome.traceback}"
        return outcome

    def value(self, expression: str) -> str:
        """What an expression is, as the notebook shows it."""
        return self.must(expression).shown

    def cell(self, name: str, *edits: tuple[str, str]) -> str:
        """The text of a cell of the book, with each edit's first text replaced by its second."""
        text = live_book.cell(name)
        for old, new in edits:
            assert old in text, f"{old!r} is not in the cell {name!r}"
            text = text.replace(old, new)
        return text

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)  # so that it removes its overlay
