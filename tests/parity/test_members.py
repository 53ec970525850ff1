"""Public members of classes, beside PyTorch 2.13.0: what a class lacks stands in `left_out_members.txt`, with a reason, and nothing else does."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from listed import reasons

upstream = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

CLASSES = (
    *("Tensor", "Size", "dtype", "device", "finfo", "iinfo", "layout", "memory_format", "Generator"),
    *("UntypedStorage", "TypedStorage", "FloatStorage", "no_grad", "set_grad_enabled", "inference_mode"),
    *("autograd.Function", "autograd.function.FunctionCtx", "autograd.function.BackwardCFunction"),
    *("autograd.graph.Node", "autograd.graph.GradientEdge", "autocast", "overrides.TorchFunctionMode"),
    *("nn.utils.rnn.PackedSequence", "utils.hooks.RemovableHandle", "torch_version.TorchVersion", "amp.GradScaler"),
)
MODULES = (
    "nn",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "utils.data",
    "nn.utils.parametrize",
    "nn.utils.prune",
)


def follow(library: str, path: str) -> Any:
    found = importlib.import_module(library)
    for word in path.split("."):
        try:
            found = getattr(found, word)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{word}")
    return found


def pairs() -> Iterator[tuple[str, Any, Any]]:
    for path in CLASSES:
        yield path, follow("readtorch", path), follow("torch", path)
    for module in MODULES:
        ours, theirs = follow("readtorch", module), follow("torch", module)
        for name, found in vars(theirs).items():
            own = inspect.isclass(found) and found.__module__.startswith(theirs.__name__) and not name.startswith("_")
            if own and hasattr(ours, name):
                yield f"{module}.{name}", getattr(ours, name), found


def test_what_a_class_lacks_is_listed_with_a_reason_and_nothing_else_is() -> None:
    tensors = {name for name in dir(upstream.Tensor) if not name.startswith("_")}
    lacking = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, ours, theirs in pairs():
            is_tensor = path != "Tensor" and inspect.isclass(theirs) and issubclass(theirs, upstream.Tensor)
            for name in dir(theirs):
                if not name.startswith("_") and not hasattr(ours, name) and not (is_tensor and name in tensors):
                    lacking.add(f"{path}.{name}")
    listed = reasons("left_out_members.txt")
    assert sorted(lacking) == sorted(listed)
    assert all(listed.values())


def test_the_comparison_would_notice_a_lack() -> None:
    assert len({path for path, _, _ in pairs()}) > 200
    assert not hasattr(follow("readtorch", "Tensor"), "index")
