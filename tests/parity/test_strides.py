"""Where results lie in memory when the operands are transposed, channels-last or mixed. `left_out_strides.txt` says what differs, and why."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from beside import Case as Layer
from functional_table import CASES as FUNCTIONAL
from layers_table import CASES as LAYERS
from listed import lines
from on_meta import leaves
from parity_table import Case as Operator
from parity_table import op
from test_operators import _copy, evaluate, make

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch


LAYOUTS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "transposed": lambda array, number: np.asarray(array, order="F"),
    "channels last": lambda array, number: (
        np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1) if array.ndim > 2 else array
    ),
    "the first transposed": lambda array, number: np.asarray(array, order="C" if number else "F"),
}


def strides(torch: Any, case: Operator | Layer, layout: str) -> list[Any]:
    """Of each output the strides that count, those of dimensions with more than one element; of a refused call the error's type."""
    rng = np.random.default_rng(zlib.crc32((case.id if isinstance(case, Operator) else case.name).encode()))
    if isinstance(case, Operator):
        drawn = [make(entry, "float32", "contiguous", rng)[0] for entry in case.inputs]
    else:
        drawn = [np.asarray(spec.draw(rng)) for spec in case.inputs]
    inputs = []
    for number, array in enumerate(drawn):
        array = LAYOUTS[layout](array.astype(np.float32) if array.dtype.kind == "f" else array, number)
        inputs.append(torch.from_numpy(array.copy() if array.flags.c_contiguous else _copy(array)))
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(case, Operator):
                outputs = leaves(evaluate(torch, case, inputs))
            else:
                outputs = leaves(case.call(torch, *inputs) if case.build is None else case.build(torch)(*inputs))
    except Exception as error:
        return [type(error).__name__]
    return [
        [step for step, size in zip(output.stride(), output.shape, strict=True) if size > 1] if output.numel() else []
        for output in outputs
        if isinstance(output, torch.Tensor) and output.layout == torch.strided
    ]


def cases() -> Iterator[tuple[str, Operator | Layer]]:
    seen: set[str] = set()
    named = [(f"{case.id} {'x'.join(str(len(entry.shape)) for entry in case.inputs)}", case) for case in op.cases]
    for name, case in [*named, *((f"{case.name}", case) for case in (*FUNCTIONAL, *LAYERS))]:
        while name in seen:
            name += "'"
        seen.add(name)
        yield name, case


def left_out() -> dict[tuple[str, str], str]:
    """Layout and name of a line to the reason."""
    split = [line.split("\t") for line in lines("left_out_strides.txt")]
    return {(layout, name): reason for layout, name, reason in split}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_lie_in_memory_as_upstreams_do(layout: str) -> None:
    known, faults, met = left_out(), [], set()
    for name, case in cases():
        ours, theirs = strides(readtorch, case, layout), strides(upstream, case, layout)
        differs = ours != theirs
        if differs and (layout, name) not in known:
            faults.append(f"{name}: {ours}, upstream {theirs}")
        if (layout, name) in known:
            met.add(name)
            if not differs:
                faults.append(f"{name} agrees now: take it off left_out_strides.txt")
    faults.extend(
        f"{name} is in left_out_strides.txt and in no table" for at, name in known if at == layout and name not in met
    )
    assert not faults, "\n".join(faults)


def test_a_channels_last_network_stays_channels_last() -> None:
    def formats(torch: Any) -> list[bool]:
        nn = torch.nn
        layers = [
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.GELU(), nn.ReflectionPad2d(1), nn.Upsample(scale_factor=2),
            nn.AvgPool2d(2), nn.GroupNorm(2, 4), nn.ConstantPad2d(1, 0.0), nn.AdaptiveAvgPool2d(2), nn.Dropout(0.5),
        ]  # fmt: skip
        x = torch.ones(2, 3, 8, 8).to(memory_format=torch.channels_last)
        found = []
        for layer in layers:
            x = layer(x)
            found.append(x.is_contiguous(memory_format=torch.channels_last))
        return [*found, torch.cat([x, x]).is_contiguous(memory_format=torch.channels_last)]

    assert formats(readtorch) == formats(upstream)
    assert all(formats(readtorch))
