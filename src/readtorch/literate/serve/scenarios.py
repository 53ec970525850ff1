"""What a page may have run: an allow-list with typed, bounded parameters, each run in a process of its own.

A scenario is a recorded cell of the book, run again together with the cells above it. The page names the part and the cell and
may choose among the parameters below; it never sends code.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readtorch.literate.chapter import Book, Cell

LIMIT = 60.0
"""Seconds a run may take."""
MOST = 16 * 2**20
"""Bytes an answer may have."""


class Refused(ValueError):
    """A request outside the allow-list."""


class RunError(RuntimeError):
    """The run itself ended badly."""


@dataclass(frozen=True)
class Number:
    least: int
    most: int

    def check(self, name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise Refused(f"{name} is a whole number from {self.least} to {self.most}, got {value!r}")
        return value


@dataclass(frozen=True)
class Choice:
    values: tuple[str, ...]

    def check(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            raise Refused(f"{name} is one of {', '.join(self.values)}, got {value!r}")
        return value


PARAMETERS: dict[str, Number | Choice] = {
    "steps": Number(1, 20_000),
    "values": Choice(("no", "summary")),
    "device": Choice(("cpu", "cuda")),
}


@dataclass(frozen=True)
class Request:
    part: str
    cell: int
    parameters: dict[str, Any]


class Scenarios:
    """The recorded cells of a book."""

    def __init__(self, book: Book) -> None:
        self.root = book.root
        self.cells: dict[str, dict[str, Cell]] = {}
        for part in book.parts:
            here = {part.ids[c.index]: c for c in part.code_cells if c.trace is not None}
            if here:
                self.cells[part.name] = here
        self._free = asyncio.Semaphore(1)

    def names(self) -> dict[str, list[str]]:
        return {part: list(cells) for part, cells in self.cells.items()}

    def parse(self, body: Any) -> Request:
        """The request that a JSON body makes. Raises Refused for anything that is not on the list."""
        if not isinstance(body, Mapping):
            raise Refused("the body is a JSON object")
        unknown = set(body) - {"part", "cell", "parameters"}
        if unknown:
            raise Refused(f"unknown field {sorted(map(str, unknown))[0]!r}")
        part, cell = body.get("part"), body.get("cell")
        if not isinstance(part, str) or part not in self.cells:
            raise Refused(f"no part {part!r} with recorded cells")
        if not isinstance(cell, str) or cell not in self.cells[part]:
            raise Refused(f"no recorded cell {cell!r} in {part}")
        given = body.get("parameters", {})
        if not isinstance(given, Mapping):
            raise Refused("parameters is a JSON object")
        checked = {}
        for name, value in given.items():
            if name not in PARAMETERS:
                raise Refused(f"no parameter {name!r}; there are {', '.join(PARAMETERS)}")
            checked[name] = PARAMETERS[name].check(name, value)
        return Request(part, self.cells[part][cell].index, checked)

    @property
    def busy(self) -> bool:
        return self._free.locked()

    async def run(self, request: Request, limit: float = LIMIT) -> dict[str, Any]:
        """Run in a new process group; the whole group is killed at the time limit, and when the caller goes away."""
        async with self._free:
            return await run_child([sys.executable, "-m", "readtorch.literate.serve.child"], request, self.root, limit)


async def run_child(command: list[str], request: Request, root: Path, limit: float) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=root,
        start_new_session=True,
        limit=MOST,
    )
    order = {"root": str(root), "part": request.part, "cell": request.cell, "parameters": request.parameters}
    try:
        answer = await asyncio.wait_for(_exchange(process, json.dumps(order).encode()), limit)
    except TimeoutError:
        raise RunError(f"the run took longer than {limit:g} s and was ended") from None
    finally:
        kill_group(process.pid)
        await process.wait()
    if not answer:
        raise RunError(f"the run ended without an answer (exit status {process.returncode})")
    result = json.loads(answer)
    if "error" in result:
        raise RunError(result["error"])
    return dict(result)


async def _exchange(process: asyncio.subprocess.Process, order: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(order)
    await process.stdin.drain()
    process.stdin.close()
    chunks, size = [], 0
    while chunk := await process.stdout.read(65536):
        size += len(chunk)
        if size > MOST:
            raise RunError(f"the answer is larger than {MOST // 2**20} MiB")
        chunks.append(chunk)
    return b"".join(chunks)


def kill_group(leader: int) -> None:
    """End a process group; one that has ended already is fine."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:  # macOS says so of a group of zombies
        return
