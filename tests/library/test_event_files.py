"""Files for TensorBoard, read again by a reader of the format written here from its description."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import readtorch as torch
from readtorch.utils.tensorboard import SummaryWriter
from readtorch.utils.tensorboard.writer import _checksum


def unmasked(checksum: bytes) -> int:
    turned = (struct.unpack("<I", checksum)[0] - 0xA282EAD8) & 0xFFFFFFFF
    return (turned >> 17 | turned << 15) & 0xFFFFFFFF


def test_the_checksum_is_castagnolis() -> None:
    """The check value of CRC-32C, from its definition, and that of 32 zeros from RFC 3720."""
    assert unmasked(_checksum(b"123456789")) == 0xE3069283
    assert unmasked(_checksum(bytes(32))) == 0x8A9136AA


def number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> dict[int, Any]:
    found: dict[int, Any] = {}
    at = 0
    while at < len(data):
        key, at = number(data, at)
        kind = key & 7
        if kind == 0:
            value: Any
            value, at = number(data, at)
        elif kind == 2:
            size, at = number(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            (value,) = struct.unpack("<d" if kind == 1 else "<f", data[at : at + size])
            at += size
        found[key >> 3] = value
    return found


def events(folder: Path) -> Iterator[dict[int, Any]]:
    (file,) = (path for path in folder.iterdir() if path.is_file())
    data = file.read_bytes()
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        content = data[12 : 12 + size]
        assert data[8:12] == _checksum(data[:8]) and data[12 + size : 16 + size] == _checksum(content)
        yield fields(content)
        data = data[16 + size :]


def values(folder: Path) -> list[tuple[int | None, dict[int, Any]]]:
    first, *rest = events(folder)
    assert first[3] == b"brain.Event:2"
    return [(event.get(2), fields(fields(event[5])[1])) for event in rest]


def test_scalars_are_points_with_a_step(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", torch.tensor(0.25, requires_grad=True), 300)
        writer.add_scalar("rate", 2, 0, walltime=7.0)
    (step, loss), (other, rate) = values(tmp_path)
    assert (step, loss) == (300, {1: b"loss", 2: 0.25}) and (other, rate) == (0, {1: b"rate", 2: 2.0})
    assert list(events(tmp_path))[2][1] == 7.0
    with pytest.raises(AssertionError, match="one element"):
        SummaryWriter(tmp_path / "more").add_scalar("loss", torch.zeros(2))


def test_several_scalars_of_one_diagram_have_folders_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("loss/all", {"train": 1.0, "valid": 2.0}, 5)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"loss_all_train", "loss_all_valid"}
    assert values(tmp_path / "loss_all_valid") == [(5, {1: b"loss/all", 2: 2.0})]


def test_histograms_count_between_limits(tmp_path: Path) -> None:
    data = torch.tensor([-1.0, 0.5, 0.5, 2.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", data, 1)
        writer.add_histogram("few", data, 1, bins=np.array([-2.0, 0.0, 1.0, 3.0]))
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("none", torch.zeros(0))
    (_, weights), (_, few) = values(tmp_path)
    fact = fields(weights[5])
    assert [fact[n] for n in range(1, 6)] == [-1.0, 2.0, 4.0, 2.0, 5.5]
    limits, counts = np.frombuffer(fact[6], "<f8"), np.frombuffer(fact[7], "<f8")
    assert len(limits) == len(counts) and counts.sum() == 4 and limits[0] <= -1.0 and limits[-1] >= 2.0
    told = fields(few[5])
    assert np.frombuffer(told[6], "<f8").tolist() == [-2, 0, 1, 3] and np.frombuffer(told[7], "<f8").tolist() == [
        0,
        1,
        2,
        1,
    ]


def pixels(png: bytes) -> np.ndarray:
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and depth == 8
    channels = {0: 1, 2: 3, 6: 4}[colour]
    at = png.index(b"IDAT")
    rows = zlib.decompress(png[at + 4 : at + 4 + struct.unpack(">I", png[at - 4 : at])[0]])
    return np.frombuffer(rows, np.uint8).reshape(height, 1 + width * channels)[:, 1:].reshape(height, width, channels)


def test_pictures_are_png(tmp_path: Path) -> None:
    picture = torch.rand(3, 4, 5)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", picture, 1)
        writer.add_image("grey", torch.ones(4, 5, dtype=torch.uint8) * 9, 1, dataformats="HW")
        writer.add_images("two", torch.stack((picture, picture)), 1)
    one, grey, two = (fields(value[4]) for _, value in values(tmp_path))
    assert (one[1], one[2], one[3]) == (4, 5, 3)
    assert (pixels(one[4]) == (picture * 255).to(torch.uint8).permute(1, 2, 0).cpu().numpy()).all()
    assert (pixels(grey[4]) == 9).all() and pixels(two[4]).shape == (4, 10, 3)


def test_texts_go_to_their_plugin(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("hyperparameters", "|lr|0.1|", 0)
    ((_, value),) = values(tmp_path)
    assert value[1] == b"hyperparameters/text_summary" and fields(fields(value[9])[1])[1] == b"text"
    assert fields(value[8])[8] == b"|lr|0.1|"
