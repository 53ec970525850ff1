"""The tables once more on the device `meta`: shapes, dtypes, devices and errors beside upstream's. `left_out_meta.txt` says what differs, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch

from on_meta import difference, forms, lines, without_strides  # noqa: E402  # draws on modules that import torch


def left_out() -> dict[str, str]:
    """Line id to reason."""
    rows = (Path(__file__).parent / "left_out_meta.txt").read_text(encoding="utf-8").splitlines()
    return dict(row.split("\t") for row in rows if row and not row.startswith("#"))


def test_every_line_gives_on_meta_the_forms_that_upstream_gives() -> None:
    known, faults, met = left_out(), [], set()
    for line in lines():
        differs = difference(without_strides(forms(readtorch, line)), without_strides(forms(upstream, line)))
        if differs and line.id not in known:
            faults.append(f"{line.id}: {differs}")
        if line.id in known:
            met.add(line.id)
            if not differs:
                faults.append(f"{line.id} agrees now: take it off left_out_meta.txt")
    faults.extend(f"{name} is in left_out_meta.txt and in no table" for name in known.keys() - met)
    assert not faults, "\n".join(faults)
