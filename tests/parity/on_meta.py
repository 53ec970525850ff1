"""One call on the device `meta` in both libraries: the forms of all that comes out, of the gradients, or the type of the error."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from beside import Case as Layer
from functional_table import CASES as FUNCTIONAL
from layers_table import CASES as LAYERS
from parity_table import Case as Operator
from parity_table import op
from test_operators import evaluate, make

Form = tuple[Any, ...]


@dataclass(frozen=True)
class Line:
    """`run(torch)` gives outputs and the tensors whose gradients are wanted."""

    id: str
    run: Callable[[Any], tuple[list[Any], list[Any]]]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def form(torch: Any, value: Any) -> Form:
    """What there is to know of a value that has no elements."""
    if not isinstance(value, torch.Tensor):
        return (type(value).__name__, *([value] if isinstance(value, bool | int | str | None) else []))
    kind = str(value.layout) if str(value.layout) != "torch.strided" else ""
    return tuple(value.shape), str(value.dtype), str(value.device), () if kind else tuple(value.stride()), kind


def forms(torch: Any, line: Line) -> tuple[list[Form], list[Form]] | tuple[str, str]:
    """Of the outputs and of the gradients; of a call that is refused, the type of the error and what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.device("meta"):
                outputs, wanted = line.run(torch)
        except Exception as error:
            return type(error).__name__, f"forward: {error}"
        found = [form(torch, output) for output in outputs]
        recorded = [output for output in outputs if isinstance(output, torch.Tensor) and output.requires_grad]
        if not recorded or not wanted:
            return found, []
        try:
            seeds = [torch.ones(tuple(o.shape), dtype=o.dtype, device="meta") for o in recorded]
            grads = torch.autograd.grad(recorded, wanted, seeds, allow_unused=True)
        except Exception as error:
            return type(error).__name__, f"backward: {error}"
        return found, [form(torch, grad) for grad in grads]


def on_meta(torch: Any, arrays: list[Any], grad: bool) -> list[Any]:
    result = []
    for array in arrays:
        values = np.asarray(array)
        tensor = torch.from_numpy(np.array(values, order="K", copy=True)).to("meta")
        result.append(tensor.requires_grad_() if grad and values.dtype.kind == "f" else tensor)
    return result


def _operator(case: Operator, layout: str) -> Callable[[Any], tuple[list[Any], list[Any]]]:
    def run(torch: Any) -> tuple[list[Any], list[Any]]:
        rng = np.random.default_rng(zlib.crc32(case.id.encode()))
        inputs = on_meta(torch, [make(entry, "float32", layout, rng)[0] for entry in case.inputs], case.grad)
        return leaves(evaluate(torch, case, inputs)), [tensor for tensor in inputs if tensor.requires_grad]

    return run


def _layer(case: Layer) -> Callable[[Any], tuple[list[Any], list[Any]]]:
    def run(torch: Any) -> tuple[list[Any], list[Any]]:
        rng = np.random.default_rng(zlib.crc32(case.name.encode()))
        arrays = [np.asarray(spec.draw(rng)) for spec in case.inputs]
        arrays = [array.astype(np.float32) if array.dtype.kind == "f" else array for array in arrays]
        inputs = on_meta(torch, arrays, case.grad)
        if case.build is None:
            return leaves(case.call(torch, *inputs)), [tensor for tensor in inputs if tensor.requires_grad]
        module = case.build(torch)
        outputs = [*leaves(module(*inputs)), *module.buffers()]
        return outputs, [tensor for tensor in (*inputs, *module.parameters()) if tensor.requires_grad]

    return run


def lines() -> Iterator[Line]:
    """All lines of the three tables; the operators' also with inputs that lie in memory in another order, and as single numbers."""
    seen: set[str] = set()
    for case in op.cases:
        for layout in ("contiguous", "strided", "scalar"):
            if layout != "contiguous" and layout not in case.layouts:
                continue
            name = f"{case.id}-{'x'.join(str(len(entry.shape)) for entry in case.inputs)}-{layout}"
            while name in seen:
                name += "'"
            seen.add(name)
            yield Line(name, _operator(case, layout))
    for table, cases in (("functional", FUNCTIONAL), ("layers", LAYERS)):
        for layer in cases:
            name = f"{table}: {layer.name}"
            while name in seen:
                name += "'"
            seen.add(name)
            yield Line(name, _layer(layer))


def difference(ours: Any, theirs: Any) -> str:
    """In words; empty where there is none."""
    if isinstance(theirs[0], str):
        if not isinstance(ours[0], str):
            return f"upstream raises {theirs[0]} ({theirs[1][:90]})"
        return "" if ours[0] == theirs[0] else f"{ours[0]} ({ours[1][:90]}), upstream {theirs[0]} ({theirs[1][:90]})"
    if isinstance(ours[0], str):
        return f"raises {ours[0]} ({ours[1][:150]})"
    for what, mine, wanted in zip(("outputs", "gradients"), ours, theirs, strict=True):
        if mine != wanted:
            return f"{what} {mine}, upstream {wanted}"
    return ""
