"""Every kernel, executed on the CPU from its own source, beside NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_scenarios import KINDS, SCENARIOS, TOLERANCE, Numbers

from readtorch.aten.native.cuda import jit_utils
from readtorch.literate import fibres

pytestmark = pytest.mark.xdist_group("kernels")


_launched: dict[tuple[str, str], set[str]] = {}
"""What each scenario has launched for each type."""


def results(name: str, kind: str, on_cpu: fibres.OnCpu) -> list[tuple[np.ndarray, np.ndarray]]:
    with jit_utils.running_on(on_cpu):
        found = [(np.asarray(ours), np.asarray(twin)) for ours, twin in SCENARIOS[name](Numbers(kind))]
    _launched[name, kind] = {expression for expression, _, _ in on_cpu.launches}
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kernel_gives_what_its_twin_gives_in_float64(name: str, kind: str, hosts: Any) -> None:
    for number, (ours, twin) in enumerate(results(name, kind, fibres.OnCpu(3, hosts))):
        assert ours.shape == twin.shape, f"result {number}"
        if ours.size:
            assert np.isfinite(twin).all(), f"result {number}"
            # a reduced precision is held to its own rounding only where it is what is stored
            stored = kind if ours.dtype == KINDS[kind] else "float32"
            error = np.abs(ours.astype(np.float64) - twin).max()
            assert error <= TOLERANCE[stored] * max(np.abs(twin).max(), 1e-30), f"result {number}: off by {error:.2e}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_results_do_not_depend_on_which_thread_goes_first(name: str, hosts: Any) -> None:
    straight, reverse = (results(name, "float32", fibres.OnCpu(3, hosts, reverse=order)) for order in (False, True))
    for (one, _), (other, _) in zip(straight, reverse, strict=True):
        assert one.tobytes() == other.tobytes()


def test_every_instance_is_run_by_some_scenario(hosts: Any) -> None:
    for name in SCENARIOS:
        for kind in KINDS:
            if (name, kind) not in _launched:
                results(name, kind, fibres.OnCpu(3, hosts))
    assert set(hosts) - set().union(*_launched.values()) == set()
