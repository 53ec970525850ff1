"""What a line or two does, beside PyTorch 2.13.0: `manners/*.txt` hold pieces of programs, a line of `---` between them.

Each piece is run in both libraries. Compared are `r`, which it may set, the type of the error that it raises, and the types of
the warnings that it gives. A warning that PyTorch gives once in a process is compared in its own tests.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

PIECES = {
    f"{file.stem}-{number}": piece.strip()
    for file in sorted((Path(__file__).parent / "manners").glob("*.txt"))
    for number, piece in enumerate(file.read_text(encoding="utf-8").split("\n---\n"))
}
#: first words of warnings that PyTorch gives once in a process, by whichever piece comes first
ONCE = (
    "Converting a tensor with requires_grad",
    "The use of `x.T`",
    "Failed to initialize NumPy",
    "torch.meshgrid",
    "The given NumPy array is not writable",
    "The .grad attribute",
    "Using backward() with create_graph",
    "TypedStorage is deprecated",
    "A window was not provided",
    "at::frobenius_norm is deprecated",
    "at::nuclear_norm is deprecated",
    "torch.lu_solve is deprecated",
    "lr_scheduler.step()",
    "Detected call of",
)


def shown(value: Any, torch: Any) -> Any:
    """A value as plain data, floats rounded."""
    if isinstance(value, torch.Tensor):
        elements = value.detach().reshape(-1).tolist()
        return [str(value.dtype), list(value.shape), shown(elements, torch), value.requires_grad]
    if isinstance(value, float):
        return float(f"{value:.4g}") if value == value else "nan"
    if isinstance(value, complex):
        return [shown(value.real, torch), shown(value.imag, torch)]
    if isinstance(value, list | tuple):
        return [shown(element, torch) for element in value]
    if isinstance(value, dict):
        return {str(key): shown(element, torch) for key, element in value.items()}
    return value if isinstance(value, int | str | None) else str(value).replace("readtorch", "torch")


def outcome(library: str, piece: str) -> dict[str, Any]:
    torch = importlib.import_module(library)
    importlib.import_module(f"{library}.nn.utils.prune")  # which PyTorch does not import by itself
    importlib.import_module(f"{library}.optim.swa_utils")
    names = {
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "init": torch.nn.init,
        "utils": torch.nn.utils,
        "optim": torch.optim,
        "lrs": torch.optim.lr_scheduler,
        "swa": torch.optim.swa_utils,
        "data": torch.utils.data,
    }
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            exec(piece, names)
            found["r"] = shown(names.get("r"), torch)
        except Exception as error:
            found["error"] = type(error).__name__
    found["warnings"] = [w.category.__name__ for w in said if not str(w.message).startswith(ONCE)]
    return found


@pytest.mark.parametrize("name", PIECES)
def test_the_same_happens(name: str) -> None:
    ours, theirs = (outcome(library, PIECES[name]) for library in ("readtorch", "torch"))
    assert ours == theirs, PIECES[name]
