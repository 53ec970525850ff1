"""`Trace`: a recorded execution, and what can be done with one."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.trace.decode import Decoded
from readtorch.literate.trace.events import SCHEMA, dumps
from readtorch.literate.trace.words import counted

MIME = "application/vnd.readtorch.trace+json"


class Trace:
    """A recorded execution: one JSON document (`schema.json` beside this file describes it).

    Shown by JupyterLab as something to step through; `save`, `load` and `export_chrome_trace` move it elsewhere.
    """

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        self._document = document

    @property
    def document(self) -> dict[str, Any]:
        if self._document is None:
            raise RuntimeError("trace: still recording; the document is complete when the `with` block has ended")
        return self._document

    @document.setter
    def document(self, document: dict[str, Any]) -> None:
        self._document = document
        self.__dict__.pop("decoded", None)

    @cached_property
    def decoded(self) -> Decoded:
        return Decoded(self.document)

    @property
    def title(self) -> str:
        return self.document["meta"]["title"]

    @property
    def truncated(self) -> str:
        """Why the recording stopped before the code did ("events", "steps", "bytes"), or ""."""
        return self.document["meta"]["truncated"]

    @property
    def digest(self) -> str:
        """Equal for executions of the same structure: per lane the calls, operators, shapes, dtypes and outcomes.

        Times, line counts (they differ between versions of Python) and numbers computed are left out.
        """
        return digest(self.decoded)

    def save(self, path: str | Path) -> None:
        """Write the document as JSON, gzipped if the name ends in `.gz`."""
        data = (dumps(self.document) + "\n").encode()
        path = Path(path)
        path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read and validate what `save` wrote. LiterateError if it is no valid trace."""
        path = Path(path)
        data = path.read_bytes()
        try:
            if path.suffix == ".gz":
                data = gzip.decompress(data)
            document = json.loads(data)
        except (OSError, EOFError, ValueError) as error:
            raise LiterateError(Problem(path.name, 0, f"is no trace: {error}")) from None
        trace = cls(document)
        trace.validate(path.name)
        return trace

    def validate(self, name: str = "trace") -> None:
        """Check against the schema and that every index leads somewhere. LiterateError lists what is wrong."""
        from readtorch.literate.trace.validate import problems

        found = problems(self.document, name)
        if found:
            raise LiterateError(found)

    def export_chrome_trace(self, path: str | Path) -> None:
        """Write a JSON file for Perfetto and chrome://tracing."""
        from readtorch.literate.trace.chrome import chrome_trace

        Path(path).write_text(json.dumps(chrome_trace(self.decoded), separators=(",", ":")), encoding="utf-8")

    def __repr__(self) -> str:
        if self._document is None:
            return "<Trace: recording>"
        events = self.document["events"]["count"]
        kept = f", {self.truncated} limit reached" if self.truncated else ""
        calls = counted(len(self.decoded.frames), "call")
        return f"<Trace {self.title or 'untitled'!r}: {counted(events, 'event')}, {calls}{kept}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from readtorch.literate.trace.page import notebook_html

        if self._document is None:
            return {"text/plain": repr(self)}
        return {"text/plain": repr(self), "text/html": notebook_html(self.document), MIME: self.document}


def digest(decoded: Decoded) -> str:
    """The structural digest; see `Trace.digest`."""
    lanes: dict[int, list[Any]] = {}
    for event, kind in enumerate(decoded.kinds):
        entry: Any
        if kind == "C":
            frame = decoded.frames[decoded.frame[event]]
            entry = ["call", decoded.name(frame), frame.hook, frame.depth]
        elif kind in "RE":
            entry = [kind]
        elif kind in "ON":
            operator = decoded.operators[decoded.detail[event]]
            sides = (operator.inputs, operator.outputs)
            entry = [kind, operator.name, *([_shape(decoded.values[v]) for v in side] for side in sides)]
        else:
            continue
        lanes.setdefault(decoded.lane[event], []).append(entry)
    described = sorted(
        json.dumps([decoded.document["lanes"][lane]["name"], entries], sort_keys=True)
        for lane, entries in lanes.items()
    )
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]


def _shape(value: list[Any]) -> Any:
    return [value[3], list(value[4]), value[5]] if value[0] == "t" else value[0]


__all__ = ["MIME", "SCHEMA", "Trace", "digest"]
