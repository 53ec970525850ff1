"""Makes a recording: runs the parts with the standard library, NumPy and CuPy alone, each within its own time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from readtorch.literate.cache import versions
from readtorch.literate.chapter import Book, Part
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.evidence import chosen_parts
from readtorch.literate.execute import Event, Executor, PartResult, refuse_stale_package
from readtorch.literate.record.archive import SCHEMA, Recording, kept, write

SPARE = 20.0
"""Seconds of the whole time that are kept for writing the archive."""

_PROBE = """
import json
import readtorch as torch
from readtorch.c10.cuda import cuda_functions
torch.cuda.init()
runtime = cuda_functions.library().cuda.runtime
version = lambda name: str(getattr(runtime, name)()) if hasattr(runtime, name) else ""
print(json.dumps({
    "device": torch.cuda.get_device_name(), "simulated": cuda_functions.is_simulated(),
    "driver": version("driverGetVersion"), "cuda": version("runtimeGetVersion"),
}))
"""


def record(
    output: Path, chapters: list[str], device: str, *, seconds: float, part_seconds: float, jobs: int | None = None
) -> int:
    """Run the parts and write the archive. Parts that fail are left out and named; returns 1 if there are any."""
    begin = time.monotonic()
    book = Book.load()
    parts = chosen_parts(book, chapters)
    refuse_stale_package(book)
    found = probe(device)
    print(f"recording {len(parts)} parts on {found['device']}", flush=True)
    until = begin + seconds - SPARE
    executor = Executor(
        book, device=device, jobs=jobs or max(1, (os.cpu_count() or 1) // 2), ipython=False, default_device=device,
        part_limit=part_seconds, until=until,
    )  # fmt: skip
    results = executor.run(parts, _told)
    again = [part for part in parts if results[part.name].problems] if device == "cuda" else []
    if again and time.monotonic() < until:
        print(f"{len(again)} parts are about the CPU: tensors there, unless a cell says otherwise", flush=True)
        executor = Executor(
            book, device=device, jobs=executor.jobs, ipython=False, part_limit=part_seconds, until=until
        )  # fmt: skip
        for name, result in executor.run(again, _told).items():
            results[name] = result
        on_the_host = {part.name for part in again}
    else:
        on_the_host = set()
    good = [part for part in parts if not results[part.name].problems and results[part.name].finished]
    recording = Recording(
        {
            "schema": SCHEMA, "device": found["device"], "simulated": found["simulated"],
            "date": datetime.now(UTC).strftime("%Y-%m-%d"), "revision": _revision(book.root),
            "versions": {**versions(device), **{k: found[k] for k in ("driver", "cuda") if found.get(k)}},
            "seconds": round(time.monotonic() - begin, 1),
        },
        {p.name: as_recorded(p, results[p.name], "cpu" if p.name in on_the_host else device) for p in good},
    )  # fmt: skip
    size = write(output, recording)
    lost = [part for part in parts if part not in good]
    for part in lost:
        reason = next((problem.message.split("\n")[0] for problem in results[part.name].problems), "no time left")
        print(f"left out: {part.name}: {reason}")
    print(f"{output}: {len(good)} of {len(parts)} parts, {size:,} bytes, {time.monotonic() - begin:.0f} s")
    return 1 if lost else 0


def as_recorded(part: Part, result: PartResult, device: str) -> dict[str, Any]:
    """A part's outputs as a recording holds them, by the cells' anchors."""
    cells = {}
    for index, run in result.cells.items():
        outputs = kept(run.outputs)
        if outputs:
            cell = part.cells[index]
            cells[part.ids[index]] = {
                "code": code_digest(cell.code),
                "outputs": outputs,
                "seconds": round(run.seconds, 3),
            }
    return {"digest": result.digest, "device": device, "cells": cells}


def code_digest(code: str) -> str:
    """Tells whether a cell is still the one that was recorded."""
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def probe(device: str) -> dict[str, Any]:
    """What the device is, asked in a process of its own: this one must be able to fork. LiterateError without one."""
    if device == "cpu":
        return {"device": "CPU", "simulated": False}
    import json

    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, env=dict(os.environ))
    if done.returncode:
        last = (done.stderr.strip().split("\n") or [""])[-1]
        raise LiterateError(Problem("record", 0, f"no device to record on: {last}"))
    found: dict[str, Any] = json.loads(done.stdout.strip().split("\n")[-1])
    return found


def _revision(root: Path) -> str:
    """Git's; or what the environment says, where the sources came without their history."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else os.environ.get("READTORCH_REVISION", "")


def _told(event: Event) -> None:
    if event.state in ("done", "failed"):
        print(f"  {event.part} {event.state}", flush=True)
