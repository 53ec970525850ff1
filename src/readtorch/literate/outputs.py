r"""What a cell leaves behind, as nbformat 4 output dicts, free of what belongs to one machine or one run.

Streams of one cell are joined as JupyterLab joins them (adjacent writes of one stream are one output, `\r` overwrites the line).
Text is normalised by `Normaliser`: paths become relative to the repository or to `site-packages`, temporary paths and memory
addresses lose what changes from run to run.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

Output = dict[str, Any]

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_CURSOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]")
LONGEST = 1_000_000
"""Characters of a stream that are kept."""


class Normaliser:
    """`text(…)` takes machine paths and memory addresses out of a text."""

    def __init__(self, root: Path) -> None:
        places = {str(root): "", os.path.realpath(root): ""}
        for name in ("purelib", "platlib", "stdlib"):
            folder = sysconfig.get_path(name)
            if folder:
                kept = "site-packages/" if name != "stdlib" else "python/"
                places.setdefault(folder, kept)
                places.setdefault(os.path.realpath(folder), kept)
        package = Path(__file__).resolve().parents[1]
        places.setdefault(str(package), "src/readtorch/")
        self._places = sorted(places.items(), key=lambda place: -len(place[0]))
        self._temporary = re.compile(
            "(?:"
            + "|".join(map(re.escape, {tempfile.gettempdir(), os.path.realpath(tempfile.gettempdir())}))
            + r")/[\w.-]+"
        )
        self._home = str(Path.home())

    def text(self, text: str) -> str:
        for place, kept in self._places:
            text = text.replace(place + "/", kept)
            if len(place) > 1:
                text = re.sub(re.escape(place) + r"(?![\w/.-])", kept.rstrip("/") or ".", text)
        text = self._temporary.sub("/tmp/…", text)
        if len(self._home) > 1:
            text = text.replace(self._home + "/", "~/")
        return _ADDRESS.sub("0x…", text)

    def bundle(self, data: dict[str, Any]) -> dict[str, Any]:
        """A MIME bundle with its text parts normalised; images and documents are left alone.

        A recording's HTML is for notebooks, and carries the viewer: here the document is enough.
        """
        recorded = any(kind.startswith("application/vnd.readtorch.") for kind in data)
        return {
            kind: self.text(value) if kind.startswith("text/") and isinstance(value, str) else value
            for kind, value in data.items()
            if not (recorded and kind == "text/html")
        }


class Outputs:
    """The outputs of one cell, in order."""

    def __init__(self, normalise: Normaliser, drain: Callable[[], None] = lambda: None) -> None:
        self.items: list[Output] = []
        self._normalise = normalise
        self._drain = drain
        self._named: dict[str, Output] = {}
        self._clear_next = False

    def write(self, name: str, text: str) -> None:
        self._before()
        if self.items and self.items[-1]["output_type"] == "stream" and self.items[-1]["name"] == name:
            if len(self.items[-1]["text"]) <= LONGEST:
                self.items[-1]["text"] += text
        else:
            self.items.append({"output_type": "stream", "name": name, "text": text})

    def display(self, data: dict[str, Any], metadata: dict[str, Any], *, display_id: str | None = None) -> None:
        self._before()
        output = {"output_type": "display_data", "data": self._normalise.bundle(data), "metadata": metadata}
        self.items.append(output)
        if display_id is not None:
            self._named[display_id] = output

    def update(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Replace what was displayed under that id; nothing where there is no such output (as in JupyterLab)."""
        if display_id in self._named:
            self._named[display_id].update(data=self._normalise.bundle(data), metadata=metadata)

    def result(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        self._before()
        data = self._normalise.bundle(data)
        self.items.append(
            {"output_type": "execute_result", "data": data, "metadata": metadata, "execution_count": None}
        )

    def error(self, name: str, value: str, traceback: list[str]) -> None:
        text = self._normalise.text
        self.items.append(
            {
                "output_type": "error",
                "ename": name,
                "evalue": text(value),
                "traceback": [text(line) for line in traceback],
            }
        )

    def clear(self, wait: bool = False) -> None:
        if wait:
            self._clear_next = True
        else:
            self.items.clear()
            self._named.clear()
            self._clear_next = False

    def finished(self) -> list[Output]:
        """The outputs, streams as they look at the end of the cell."""
        done = []
        for item in self.items:
            if item["output_type"] == "stream":
                text = self._normalise.text(settled(item["text"]))
                if len(text) > LONGEST:
                    text = text[:LONGEST] + f"\n… cut here: a cell may print {LONGEST:,} characters\n"
                if text:
                    done.append({**item, "text": text})
            else:
                done.append(item)
        return done

    def _before(self) -> None:
        self._drain()  # what children and C code have written so far comes first
        if self._clear_next:
            self.clear()


def settled(text: str) -> str:
    r"""What a terminal shows at the end: `\r` starts the line over, escape sequences are gone."""
    if "\r" not in text and "\x1b" not in text:
        return text
    lines = []
    for line in _CURSOR.sub("", text).replace("\r\n", "\n").split("\n"):
        shown = ""
        for piece in line.split("\r"):
            shown = piece + shown[len(piece) :]
        lines.append(shown.rstrip() if "\r" in line else shown)
    return "\n".join(lines)


class Display(Protocol):
    """Turns values into MIME bundles: IPython's formatters or the plain ones."""

    def bundle(self, value: Any) -> tuple[dict[str, Any], dict[str, Any]]: ...

    def attach(self, outputs: Outputs) -> None:
        """Send what `display()` shows to these outputs from now on."""


class Stream:
    """Stands for sys.stdout or sys.stderr. Other processes and C code write to the file descriptor, which is read back in order."""

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    closed = False

    def __init__(self, name: str, descriptor: int, sink: Callable[[str, str], None], drain: Callable[[], None]) -> None:
        self.name = f"<{name}>"
        self._stream = name
        self._descriptor = descriptor
        self._sink = sink
        self._drain = drain
        self._owner = os.getpid()

    def write(self, text: str) -> int:
        if os.getpid() != self._owner:
            os.write(self._descriptor, text.encode("utf-8", "replace"))
        else:
            self._drain()
            self._sink(self._stream, text)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None: ...

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def buffer(self) -> Any:
        return open(self._descriptor, "wb", buffering=0, closefd=False)


class Capture:
    """While active, everything written by this process, its threads and its children goes to the current `Outputs`.

    File descriptors 1 and 2 point to unlinked temporary files, so that a crash loses nothing and no reader thread is needed.
    """

    def __init__(self) -> None:
        self.outputs: Outputs | None = None
        self._files = {name: tempfile.TemporaryFile(buffering=0) for name in ("stdout", "stderr")}  # noqa: SIM115  they live as long as this
        self._read = {"stdout": 0, "stderr": 0}
        self._saved: tuple[Any, ...] = ()

    def __enter__(self) -> Capture:
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = (sys.stdout, sys.stderr, os.dup(1), os.dup(2))
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(self._files[name].fileno(), descriptor)
        sys.stdout = Stream("stdout", 1, self._write, self.drain)
        sys.stderr = Stream("stderr", 2, self._write, self.drain)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.drain()
        sys.stdout, sys.stderr, out, err = self._saved
        for descriptor, saved in ((1, out), (2, err)):
            os.dup2(saved, descriptor)
            os.close(saved)

    def _write(self, name: str, text: str) -> None:
        if self.outputs is not None:
            self.outputs.write(name, text)

    def drain(self) -> None:
        """Take in what reached the file descriptors since the last time."""
        for name, file in self._files.items():
            size = os.fstat(file.fileno()).st_size
            if size > self._read[name]:
                text = os.pread(file.fileno(), size - self._read[name], self._read[name]).decode("utf-8", "replace")
                self._read[name] = size
                self._write(name, text)
