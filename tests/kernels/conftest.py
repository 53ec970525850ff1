"""The kernels of the package compiled by g++, once for a test run."""

from __future__ import annotations

import pytest

from readtorch.aten.native.cuda import jit_utils
from readtorch.literate import fibres


@pytest.fixture(scope="session")
def hosts() -> dict[str, fibres.Host]:
    """Every instance of every kernel, by expression."""
    if not fibres.available():
        pytest.skip("no g++: kernels are not run on the CPU")
    import kernel_scenarios  # noqa: F401 - brings in every module that has kernels

    instances = [instance for kernel in jit_utils.KERNELS for instance in kernel.instances()]
    host = fibres.host_of(instances)
    return {instance.expression: host for instance in instances}
