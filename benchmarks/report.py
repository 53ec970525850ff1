"""Run the benchmarks of the library and write their ratios to docs/reference/speed.md.

    python benchmarks/report.py [--threads 1 2] [--only SCRIPT …]

Takes about ten minutes on a quiet machine; on a busy one its figures are worth nothing. Each ratio is of medians of one run, in which both
libraries alternate on the same inputs with the same number of threads. OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are taken out of the
environment, for they can make OpenBLAS run a slower kernel than the machine has. With `--only` the other tables stay as they are.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reference" / "speed.md"
RESULTS = HERE / "results" / "cpu.json"

SECTIONS = {
    "import_time": ("Import", "In fresh processes, alternating.", False),
    "ops": (
        "Operators on ten elements",
        "What a call costs besides its arithmetic: forward with a graph being recorded, and backward through one node.",
        True,
    ),
    "module": ("Modules", "Calls, construction, `state_dict` and files.", False),
    "layers": ("Layers", "Forward and backward, with the gradients of inputs and parameters.", True),
    "training": (
        "Training steps, optimizers, data loading",
        "Whole steps of the programs that the parity tests run.",
        True,
    ),
}
"""Script: title, what it measures, whether it takes `--threads`."""

FRONT = """# Speed

Times of readtorch divided by times of PyTorch: below 1, readtorch was faster. Both libraries ran in one process, in turn, on the same inputs and
with the same number of threads; a ratio is of medians of one run, and repeats to 15–25 %. "Asked" is what the project sets itself; where it is missed the
ratio is bold.

Why a library in Python can keep up at all: on small tensors both spend their time on bookkeeping, of which a small library has less; on large ones both
wait for the same BLAS and the same memory. In between, where PyTorch fuses several passes over memory into one kernel, NumPy has none to offer.

{provenance}

`python benchmarks/report.py` writes this page.
"""


def measure(script: str, threads: list[int]) -> list[dict[str, Any]]:
    """The rows that a script emits."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    with tempfile.TemporaryDirectory() as folder:
        environment["READTORCH_BENCH_ROWS"] = str(Path(folder) / "rows")
        command = [sys.executable, str(HERE / f"{script}.py")]
        if SECTIONS[script][2]:
            command += ["--threads", *map(str, threads)]
        subprocess.run(command, env=environment, check=True)
        return [json.loads(line) for line in (Path(folder) / "rows").read_text(encoding="utf-8").splitlines()]


def provenance() -> str:
    import torch
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    blas = sorted(
        {
            f"{i['internal_api']} {i['version']} ({i['architecture']})"
            for i in threadpool_info()
            if i.get("architecture")
        }
    )
    cores = os.cpu_count()
    return (
        f"Measured on {platform.machine()}, {cores} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__} with {', '.join(blas)}, PyTorch {torch.__version__}."
    )


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a line per work, a column per number of threads."""
    threads = sorted({row["threads"] for row in rows})
    works: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        works.setdefault(row["work"], {})[row["threads"]] = row
    heads = [f"{n} thread{'s' if n > 1 else ''}" for n in threads] if len(threads) > 1 else ["ratio"]
    text = f"| work | {' | '.join(heads)} | asked |\n|---|{'--:|' * (len(heads) + 1)}\n"
    for work, found in works.items():
        asked = next((row["asked"] for row in found.values() if row["asked"]), None)
        cells = [_cell(found.get(n)) for n in threads]
        text += f"| {work} | {' | '.join(cells)} | {'' if asked is None else f'≤ {asked:g}'} |\n"
    return text


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    shown = f"{row['ratio']:.2f}" if row["ratio"] >= 0.1 else f"{row['ratio']:.3f}"
    return f"**{shown}**" if row["asked"] and row["ratio"] > row["asked"] else shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"rows": {}}
    rows = {**kept["rows"], **{script: measure(script, options.threads) for script in options.only}}
    today = f"{datetime.date.today():%d %B %Y}"
    write(rows, kept.get("measured", {}) | dict.fromkeys(options.only, today), provenance())


def write(rows: dict[str, list[dict[str, Any]]], measured: dict[str, str], told: str) -> None:
    """The results, and the page of them; `measured` says when each script was last run."""
    RESULTS.parent.mkdir(exist_ok=True)
    results = {"provenance": told, "measured": measured, "rows": rows}
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = FRONT.format(provenance=told)
    for script, (title, said, _) in SECTIONS.items():
        if script in rows:
            text += f"\n## {title}\n\n{said} (`benchmarks/{script}.py`, {measured[script]})\n\n{table(rows[script])}"
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
