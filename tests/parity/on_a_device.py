"""Program: each line of the parity table, with its gradients, on device `cuda:1` beside the CPU. Lists what differs; its number is the exit status."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np
from parity_table import Case, op
from test_operators import evaluate, make, tensors

import readtorch as torch


def run(case: Case, arrays: list[np.ndarray], device: str) -> list[np.ndarray]:
    """Outputs and gradients, on the host."""
    inputs = [value.to(device) for value in tensors(torch, arrays, "float32", False)]
    if case.grad:
        for value, entry in zip(inputs, case.inputs, strict=True):
            if entry.kind == "float":
                value.requires_grad_()
    with torch.device(device):
        found = evaluate(torch, case, inputs)
        outputs = [o for o in (found if isinstance(found, list | tuple) else [found]) if isinstance(o, torch.Tensor)]
        recorded = [output for output in outputs if output.requires_grad]
        if case.grad and recorded:
            sum(output.abs().square().sum() for output in recorded).backward()
    gradients = [value.grad for value in inputs if value.grad is not None]
    return [value.detach().cpu().numpy() for value in (*outputs, *gradients)]


def main() -> int:
    faults = 0
    for case in op.cases:
        rng = np.random.default_rng(zlib.crc32(case.id.encode()))
        arrays: list[Any] = [make(entry, "float32", "contiguous", rng) for entry in case.inputs]
        try:
            expected = run(case, arrays, "cpu")
        except Exception:  # the table's own test says why
            continue
        try:
            for mine, theirs in zip(run(case, arrays, "cuda:1"), expected, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4)
        except Exception as error:
            faults += 1
            print(f"{case.expression}: {type(error).__name__}: {str(error)[:200]}")
    return min(faults, 99)


if __name__ == "__main__":
    torch.cuda.simulate(2)
    sys.exit(main())
