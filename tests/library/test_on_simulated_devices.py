"""The library's tests on simulated devices, and what a machine without CuPy says; each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu("starts processes of its own")
HERE = Path(__file__).parent


@pytest.mark.slow
def test_the_library_passes_its_tests_on_four_simulated_devices() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--device", "cuda", str(HERE)]
    left_out = ("test_architecture.py", "test_each_module_imports.py")
    command += [f"--ignore={HERE / name}" for name in left_out]
    done = subprocess.run(command, env={**os.environ, "READTORCH_SIM_CUDA": "4"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


WITHOUT_CUPY = """
import sys
sys.modules["cupy"] = None  # as if it were not installed
import readtorch as torch
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and not torch.cuda.is_initialized()
assert torch.cuda.memory_allocated() == 0
calls = {
    "ones": lambda: torch.ones(1, device="cuda"), "to": lambda: torch.ones(1).to("cuda:0"), "cuda": lambda: torch.ones(1).cuda(),
    "module": lambda: torch.nn.Linear(1, 1).cuda(), "init": torch.cuda.init, "current": torch.cuda.current_device,
    "set": lambda: torch.cuda.set_device(0), "name": torch.cuda.get_device_name, "sync": torch.cuda.synchronize,
    "stream": torch.cuda.Stream, "event": lambda: torch.cuda.Event().record(), "info": torch.cuda.mem_get_info,
    "rng": torch.cuda.get_rng_state,
}
for name, call in calls.items():
    try:
        call()
    except (AssertionError, RuntimeError) as error:  # upstream: RuntimeError of what its build lacks, as streams
        made_here = name in ("stream", "event")  # upstream's build without CUDA has no such classes
        assert ("requires CUDA support" if made_here else "Torch not compiled with CUDA enabled") in str(error), name
        assert "readtorch[cuda13]" in str(error), name
    else:
        raise SystemExit(f"{name} did not raise")
"""


def test_without_cupy_every_call_says_which_extra_to_install() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "READTORCH_SIM_CUDA"}
    done = subprocess.run([sys.executable, "-c", WITHOUT_CUPY], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_touches_no_gpu() -> None:
    program = "import sys, readtorch, readtorch.cuda, readtorch.nn; assert 'cupy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "READTORCH_SIM_CUDA": "2"})


DROPOUT_AGAIN = """
import readtorch as torch
from readtorch.utils.checkpoint import checkpoint

torch.manual_seed(0)
x = torch.ones(1000, device="cuda", requires_grad=True)
for reentrant in (True, False):
    x.grad = None
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x, use_reentrant=reentrant)
    after = torch.cuda.get_rng_state()
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()), reentrant
    assert torch.equal(torch.cuda.get_rng_state(), after)
    with torch.autocast("cuda", dtype=torch.float16):
        y = checkpoint(lambda t: (t[None] @ t[:, None]).float(), x, use_reentrant=reentrant)
    y.sum().backward()
with torch.random.fork_rng():
    first = torch.rand(3, device="cuda"), torch.rand(3)
assert torch.equal(torch.rand(3, device="cuda"), first[0]) and torch.equal(torch.rand(3), first[1])
with torch.random.fork_rng(devices=[]):
    first = torch.rand(3, device="cuda")
assert not torch.equal(torch.rand(3, device="cuda"), first)
"""


def test_a_checkpointed_dropout_on_a_device_has_the_same_mask_in_backward() -> None:
    environment = {**os.environ, "READTORCH_SIM_CUDA": "1"}
    done = subprocess.run([sys.executable, "-c", DROPOUT_AGAIN], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
