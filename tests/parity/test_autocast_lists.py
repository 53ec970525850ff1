"""The dtype of each line's results under `torch.autocast("cpu", torch.bfloat16)`, beside PyTorch 2.13.0's lists."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from parity_table import Case
from test_operators import attempt, evaluate, flat
from test_written_between import LINES, arrays

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch

LEFT = {
    "t.cdist(a,b)": "refuses bfloat16 before autocast is asked",
    "t.linalg.pinv(a)": "upstream multiplies the pieces in bfloat16",
    "t.linalg.vecdot(a,b)": "made of a product and a sum here",
    "F.local_response_norm": "another pool is asked",
}
"""Lines in which the libraries are known to differ, and why. Beside these: Fourier transforms, which refuse bfloat16 before autocast is
asked, and padding from the image itself."""


def dtypes(torch: Any, case: Any, dtype: str) -> list[str]:
    torch.manual_seed(0)
    inputs = [torch.from_numpy(array.copy()) for array, _ in arrays(case)]
    inputs = [one.to(getattr(torch, dtype)) if one.is_floating_point() else one for one in inputs]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = evaluate(torch, case, inputs) if isinstance(case, Case) else case.call(torch, *inputs)
    return [str(getattr(one, "dtype", type(one).__name__)).removeprefix("readtorch.") for one in flat(results)]


@pytest.mark.parametrize("name", LINES)
def test_dtypes_under_autocast(name: str) -> None:
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in LINES[name]:
            for dtype in ("float32", "bfloat16"):
                theirs, their_error = attempt(partial(dtypes, upstream, case, dtype))
                ours, our_error = attempt(partial(dtypes, readtorch, case, dtype))
                if ours != theirs or type(our_error) is not type(their_error):
                    found.append(f"{dtype}: {ours or our_error!r}, upstream {theirs or their_error!r}")
    transform = "fft" in name and not name.startswith("t.fft.fftshift")
    if name in LEFT or transform or name.startswith(("F.pad re", "t.istft", "t.view_as_real(t.stft")):
        assert found, "agrees now: take it off"
    else:
        assert not found, "\n".join(found)
