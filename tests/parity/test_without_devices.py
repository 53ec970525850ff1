"""cuda and accelerator as upstream's CPU build shows them: what is answered, what is ignored, what raises."""

from __future__ import annotations

from typing import Any

import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

CALLS = [
    "enter(t.cuda.device(0))", "enter(t.cuda.device(-1))", "t.cuda.device('cpu')", "enter(t.cuda.device('cuda:1'))",
    "enter(t.cuda.device(t.device('cuda', 0)))", "enter(t.cuda.stream(None))", "t.cuda.set_stream(None)", "t.cuda.device_of(t.ones(1)).idx",
    "enter(t.cuda.device_of(t.ones(1)))", "t.cuda.set_rng_state(t.get_rng_state())", "t.cuda.set_rng_state_all([])",
    "t.cuda.get_rng_state_all()", "t.cuda.get_rng_state()", "t.cuda.random.initial_seed()", "t.cuda.manual_seed(1)",
    "t.cuda.random.manual_seed_all(1)", "t.cuda.seed()", "t.cuda.seed_all()", "t.cuda.default_stream()",
    "t.cuda.can_device_access_peer(0, 1)", "t.cuda.ipc_collect()", "t.cuda.is_tf32_supported()",
    "t.accelerator.get_device_capability()", "t.accelerator.current_stream()", "t.accelerator.set_stream(None)",
    "enter(t.accelerator.device_index(0))", "enter(t.accelerator.device_index(None))",
]  # fmt: skip


def enter(context: Any) -> Any:
    with context as value:
        return value


@pytest.mark.parametrize("call", CALLS)
def test_calls(call: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("this PyTorch sees a GPU")
    said = []
    for library in (readtorch, torch):
        try:
            said.append(eval(call, {"t": library, "enter": enter}))
        except Exception as error:
            said.append(type(error))
    assert said[0] == said[1]
