"""What a few lines do, message by message, beside PyTorch 2.13.0: `behaviours/*.txt`, a file for each chapter.

A piece begins with a line `# its name`. It is run in both libraries; compared are `r`, which it may set, the type of the error
that it raises and the categories of the warnings that it gives; `said(error)` is the type of an error that it caught. Of a message, ours has two fifths of the words.
"""

from __future__ import annotations

import copy
import gc
import importlib
import inspect
import io
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

WORD = re.compile(r"[A-Za-z0-9_']{3,}")


def pieces() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted((Path(__file__).parent / "behaviours").glob("*.txt")):
        for piece in re.split(r"^# ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name, source = piece.split("\n", 1)
            assert f"{file.stem}: {name}" not in found, f"two pieces of {file.name} are called {name}"
            found[f"{file.stem}: {name}"] = source
    return found


PIECES = pieces()


def shown(value: Any, torch: Any) -> Any:
    """A value as plain data, floats rounded."""
    if isinstance(value, torch.Tensor):
        elements = value.detach().reshape(-1).tolist()
        return [str(value.dtype), list(value.shape), shown(elements, torch), value.requires_grad]
    if isinstance(value, float):
        return float(f"{value:.5g}") if value == value else "nan"
    if isinstance(value, complex):
        return [shown(value.real, torch), shown(value.imag, torch)]
    if isinstance(value, tuple):
        return (type(value).__name__, *(shown(element, torch) for element in value))
    if isinstance(value, list):
        return [shown(element, torch) for element in value]
    if isinstance(value, dict):
        return {str(key): shown(element, torch) for key, element in value.items()}
    if isinstance(value, bool | int | bytes | None):
        return value
    return re.sub(r" at 0x[0-9a-f]+", "", str(value)).replace("readtorch", "torch")


def words(message: str) -> set[str]:
    message = re.sub(
        r"\(Triggered internally at .*|\(Could this error message be improved.*|, but expected (one of:|\().*",
        "",
        message,
        flags=re.DOTALL,
    )
    return {word.lower() for word in WORD.findall(message.replace("readtorch", "torch"))}


def alike(said: str, wanted: str) -> bool:
    """Two fifths of the words; of a long explanation six."""
    return len(words(wanted) & words(said)) >= min(6, 0.4 * len(words(wanted)))


def outcome(library: str, source: str) -> tuple[Any, str, list[str], list[str]]:
    """`r`; the error's type; the warnings' categories; every message, of warnings last."""
    torch = importlib.import_module(library)
    names = {
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "optim": torch.optim,
        "lrs": importlib.import_module(f"{library}.optim.lr_scheduler"),
        "swa": importlib.import_module(f"{library}.optim.swa_utils"),
        "data": importlib.import_module(f"{library}.utils.data"),
        "ckpt": importlib.import_module(f"{library}.utils.checkpoint"),
        "np": numpy,
        **{module.__name__: module for module in (copy, inspect, io, pickle, warnings)},
    }
    messages: list[str] = []

    def said_by(error: Exception) -> str:
        messages.append(str(error))
        return type(error).__name__

    names["said"] = said_by
    result, kind = None, ""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.set_warn_always(True)  # also of what is said once in a process
        torch.manual_seed(0)
        try:
            exec(source, names)
            result = shown(names.get("r"), torch)
        except Exception as error:
            kind = said_by(error)
        finally:
            torch.set_warn_always(False)
    if "DataLoader" in source:
        names.clear()
        gc.collect()  # or a loader's workers would be waited for in the middle of another piece
    return result, kind, [each.category.__name__ for each in said], [*messages, *(str(each.message) for each in said)]


@pytest.mark.parametrize("name", PIECES)
def test_both_do_the_same(name: str) -> None:
    ours, theirs = (outcome(library, PIECES[name]) for library in ("readtorch", "torch"))
    assert ours[:3] == theirs[:3], (ours[3], theirs[3])
    for said, wanted in zip(ours[3], theirs[3], strict=True):
        assert alike(said, wanted), (said, wanted)
