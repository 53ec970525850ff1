"""A matplotlib backend for chapters: what is drawn in a cell is shown below it as PNG (`MPLBACKEND=module://readtorch.literate.figures`).

Drawn at twice the size and shown at half of it, so that lines stay sharp. Files are the same for the same drawing: no date, no
version of matplotlib inside.
"""

from __future__ import annotations

import io
import struct
from base64 import b64encode
from typing import Any

from matplotlib import pyplot
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

FigureCanvas = FigureCanvasAgg
FigureManager = FigureManagerBase
SCALE = 2

Bundle = tuple[dict[str, Any], dict[str, Any]]
_shown: list[Bundle] = []


def show(*args: Any, **kwargs: Any) -> None:
    """`plt.show()`: the open figures belong to the cell from here on."""
    for number in pyplot.get_fignums():
        bundle = png_bundle(pyplot.figure(number))
        if bundle is not None:
            _shown.append(bundle)
    pyplot.close("all")


def take_open() -> list[Bundle]:
    """The figures of the cell that has ended, closed; those that hold nothing are dropped."""
    show()
    taken, _shown[:] = list(_shown), []
    return taken


def png_bundle(value: Any) -> Bundle | None:
    """A figure as MIME bundle and metadata; None for anything else, and for a figure without axes."""
    if not isinstance(value, Figure) or not (value.axes or value.lines):
        return None
    image = io.BytesIO()
    value.savefig(image, format="png", dpi=value.dpi * SCALE, bbox_inches="tight", metadata={"Software": None})
    data = image.getvalue()
    width, height = struct.unpack(">II", data[16:24])
    metadata = {"image/png": {"width": width // SCALE, "height": height // SCALE}}
    return {"image/png": b64encode(data).decode(), "text/plain": repr(value)}, metadata
