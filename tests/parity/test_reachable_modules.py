"""What `import torch` makes reachable by dots in PyTorch 2.13.0 is reachable here without an import of its own, if it is here at all."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

#: Both are asked in fresh processes: what the tests have imported would be reachable anyway.
ASK_UPSTREAM = """
import operator, sys, torch
for name in sorted(sys.modules):
    if name.startswith("torch.") and "._" not in name:
        try:
            operator.attrgetter(name.removeprefix("torch."))(torch)
        except AttributeError:
            continue
        print(name.removeprefix("torch."))
"""
ASK_OURS = """
import operator, sys, readtorch
for name in sys.stdin.read().split():
    try:
        operator.attrgetter(name)(readtorch)
    except AttributeError:
        print(name)
"""


def said(program: str, words: str = "") -> list[str]:
    run = subprocess.run([sys.executable, "-c", program], input=words, capture_output=True, text=True, check=True)
    return run.stdout.split()


def exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(f"readtorch.{name}") is not None
    except ModuleNotFoundError:
        return False


def test_modules_that_import_torch_makes_reachable_are_reachable_here() -> None:
    shared = [name for name in said(ASK_UPSTREAM) if exists(name)]
    assert {"utils.checkpoint", "utils.data", "nn.utils.rnn", "autograd.graph", "testing"} <= set(shared)
    assert said(ASK_OURS, "\n".join(shared)) == []
