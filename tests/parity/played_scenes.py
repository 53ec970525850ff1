"""The names that a scene of `draw_classes.py` speaks of, and what comes of playing it in one library."""

from __future__ import annotations

import collections
import importlib
import io
import math
import random
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def setting(torch: Any) -> dict[str, Any]:
    """The names of a scene, made anew."""
    names: dict[str, Any] = {
        name.rpartition(".")[2]: importlib.import_module(f"{torch.__name__}.{name}")
        for name in ("nn", "optim", "nn.init", "nn.utils", "utils.data", "autograd", "utils.checkpoint")
    }
    names |= {
        "lrs": importlib.import_module(f"{torch.__name__}.optim.lr_scheduler"),
        "swa": importlib.import_module(f"{torch.__name__}.optim.swa_utils"),
    }
    for name in ("parametrize", "parametrizations", "prune", "rnn", "stateless"):
        importlib.import_module(f"{torch.__name__}.nn.utils.{name}")
    importlib.import_module(f"{torch.__name__}.autograd.functional")

    def x(*shape: int, dtype: Any = None, requires_grad: bool = False) -> Any:
        size = math.prod(shape)
        made = ((torch.arange(size) * 37 % 101) / 50 - 0.9).reshape(shape)
        return made.to(dtype or torch.float32).requires_grad_(requires_grad)

    def ints(*shape: int, dtype: Any = None, requires_grad: bool = False) -> Any:
        return (
            (torch.arange(math.prod(shape)) % 4).reshape(shape).to(dtype or torch.int64).requires_grad_(requires_grad)
        )

    def bools(*shape: int, dtype: Any = None, requires_grad: bool = False) -> Any:
        return (
            (torch.arange(math.prod(shape)) % 3 == 1)
            .reshape(shape)
            .to(dtype or torch.bool)
            .requires_grad_(requires_grad)
        )

    def parameter(*shape: int, **options: Any) -> Any:
        made = torch.nn.Parameter(x(*shape, **options))
        made.grad = x(*shape, **options) * 2 + 1
        return made

    def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type("Drawn", (torch.autograd.Function,), members)

    def run(optimizer: Any, scheduler: Any) -> list[Any]:
        found = []
        for _ in range(4):
            optimizer.step()
            scheduler.step()
            found.append([group["lr"] for group in optimizer.param_groups])
        return found

    class Three(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    p = parameter(2)
    o = parameter(2)
    return names | {
        "torch": torch, "np": np, "OrderedDict": collections.OrderedDict, "x": x, "ints": ints, "bools": bools, "function": function, "run": run,
        "P": p, "Q": parameter(2, 3), "X": torch.nn.Parameter(x(3)), "W": x(2, dtype=torch.float64, requires_grad=True), "E": x(0, requires_grad=True),
        "C": parameter(2, dtype=torch.complex64), "H": parameter(2, dtype=torch.float16), "N2": torch.nn.Parameter(ints(2), requires_grad=False),
        "L": lambda: torch.nn.Linear(2, 2), "O": torch.optim.SGD([o], lr=0.1), "D": [1.0, 2.0, 3.0], "I": Three(), "F0": io.BytesIO(),
    }  # fmt: skip


def described(value: Any, torch: Any, depth: int = 0) -> Any:
    """A value as plain data."""
    if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
        return ["uninitialized", str(value.dtype), str(value.device)]
    if isinstance(value, torch.Tensor):
        where = value.device.type
        elements = value.detach().cpu().flatten()[:40].tolist() if where == "cpu" and not value.is_sparse else None
        return [
            type(value).__name__,
            str(value.dtype),
            list(value.shape),
            value.requires_grad,
            value.is_leaf,
            where,
            elements,
        ]
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        return value.replace("readtorch", "torch") if isinstance(value, str) else value
    if depth > 6:
        return type(value).__name__
    if isinstance(value, list | tuple | set | frozenset | collections.deque):
        return [type(value).__name__, *(described(one, torch, depth + 1) for one in list(value)[:30])]
    if isinstance(value, dict | collections.OrderedDict):
        return [type(value).__name__, *([str(k), described(v, torch, depth + 1)] for k, v in list(value.items())[:40])]
    if isinstance(value, np.generic | np.ndarray):
        return [str(value.dtype), value.tolist()]
    shown = re.sub(r" at 0x\w+", "", repr(value)).replace("readtorch", "torch")
    state = value.state_dict() if hasattr(value, "state_dict") else None
    if not re.match(r"(read)?torch\.(nn|optim|utils\.data)", type(value).__module__):
        return [type(value).__name__, shown]
    plain = {k: v for k, v in sorted(getattr(value, "__dict__", {}).items()) if not k.startswith("_")}
    simple = {k: v for k, v in plain.items() if isinstance(v, bool | int | float | str | tuple | list | None)}
    return [type(value).__name__, shown, described(state, torch, depth + 1), described(simple, torch, depth + 1)]


def played(torch: Any, scene: list[str]) -> list[tuple[str, Any, str, list[str]]]:
    """What came of each step: `made` or the error's type; the value; the error's text; the kinds of warnings."""
    torch.set_warn_always(True)
    torch.set_grad_enabled(True)
    torch.autograd.set_detect_anomaly(False)
    random.seed(0)
    np.random.seed(0)
    names, found = setting(torch), []
    torch.manual_seed(0)
    for step, statement in enumerate(scene):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                made = eval(statement, names)
                kinds = [w.category.__name__ for w in said]
                found.append(("made", described(made, torch), "", kinds))
                if not step:
                    names["m"] = made
            except Exception as error:
                text = str(error).partition("\n")[0]
                found.append((type(error).__name__, None, text, [w.category.__name__ for w in said]))
                if not step:
                    break
    return found
