"""Time and memory of `import readtorch` beside NumPy alone and `import torch`, in one run of fresh interpreters.

    python benchmarks/import_time.py [--rounds N] [--check]

Each library is imported in an interpreter of its own, alternating, so that a busy machine slows all of them alike. `--check` exits
1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys

from rows import emit

GOAL = 1 / 8
PROBE = """
import resource, sys, time
before = time.perf_counter()
import {module}
print(time.perf_counter() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measure(module: str) -> tuple[float, float]:
    """Seconds and peak resident MB of importing `module` in a fresh interpreter."""
    out = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module)], capture_output=True, text=True, check=True
    )
    seconds, kilobytes = out.stdout.split()
    return float(seconds), float(kilobytes) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description="Time and memory of `import readtorch` beside NumPy and torch.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    options = parser.parse_args()
    modules = ["numpy", "readtorch"] + (["torch"] if importlib.util.find_spec("torch") else [])
    for module in modules:
        measure(module)  # compiles bytecode and warms the file cache
    samples: dict[str, list[tuple[float, float]]] = {module: [] for module in modules}
    for _ in range(options.rounds):
        for module in modules:
            samples[module].append(measure(module))
    medians = {module: statistics.median(s for s, _ in taken) for module, taken in samples.items()}
    for module, taken in samples.items():
        memory = statistics.median(m for _, m in taken)
        print(f"import {module:<10} {medians[module] * 1e3:8.1f} ms   {memory:6.1f} MB resident")
    beyond = medians["readtorch"] - medians["numpy"]
    print(f"readtorch beyond NumPy: {beyond * 1e3:.1f} ms")
    if "torch" not in medians:
        print("torch is not installed: its ratio was not measured")
        return 0
    ratio = medians["readtorch"] / medians["torch"]
    emit("import readtorch, beside import torch", ratio, GOAL)
    print(f"readtorch ÷ torch: {ratio:.3f} (goal ≤ {GOAL:.3f})")
    return int(options.check and ratio > GOAL)


if __name__ == "__main__":
    sys.exit(main())
