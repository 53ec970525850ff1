"""The operators on a device: the parity table once more, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_every_operator_gives_on_a_simulated_device_what_it_gives_on_the_cpu() -> None:
    pytest.importorskip("torch", reason="needs the extra `parity`")
    program = Path(__file__).with_name("on_a_device.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
