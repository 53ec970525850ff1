"""What else than tensors and dictionaries stands in files: each kind written by one library and read by the other."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch
BOTH = pytest.mark.parametrize(("writer", "reader"), [(readtorch, torch), (torch, readtorch), (readtorch, readtorch)])
TRUSTED = pytest.mark.parametrize("weights_only", [True, False])


def carried(writer: Any, reader: Any, value: Any, weights_only: bool) -> Any:
    file = io.BytesIO()
    writer.save(value, file)
    file.seek(0)
    return reader.load(file, weights_only=weights_only)


@BOTH
@TRUSTED
def test_a_buffer_and_a_tensor_with_attributes(writer: Any, reader: Any, weights_only: bool) -> None:
    tagged = writer.ones(2)
    tagged.tag = "first"
    read = carried(writer, reader, {"buffer": writer.nn.Buffer(writer.zeros(1)), "tagged": tagged}, weights_only)
    assert read["tagged"].tag == "first" and read["tagged"].tolist() == [1, 1]
    assert isinstance(read["buffer"], reader.nn.Buffer) and read["buffer"].tolist() == [0]


@BOTH
def test_named_results(writer: Any, reader: Any) -> None:
    read = carried(writer, reader, writer.tensor([[1.0, 2.0]]).max(1), weights_only=False)
    assert type(read).__name__ == "max" and isinstance(read, type(reader.ones(1, 1).max(1)))
    assert read.values.tolist() == [2] and read.indices.tolist() == [1]


@BOTH
def test_a_generator_goes_on_where_it_was(writer: Any, reader: Any) -> None:
    generator = writer.Generator()
    generator.manual_seed(5)
    writer.rand(3, generator=generator)
    read = carried(writer, reader, generator, weights_only=False)
    assert read.initial_seed() == 5
    assert reader.rand(4, generator=read).tolist() == writer.rand(4, generator=generator).tolist()


@pytest.mark.parametrize("version", [b"99\n", b"abc", b"", b"0", None])
def test_a_file_of_another_version_is_refused_by_both(version: bytes | None) -> None:
    written, changed = io.BytesIO(), io.BytesIO()
    torch.save(torch.ones(1), written)
    with zipfile.ZipFile(written) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            is_version = info.filename.endswith("/version")
            if not is_version or version is not None:
                new.writestr(info.filename, version if is_version and version is not None else old.read(info))
    for library in (torch, readtorch):
        with pytest.raises(RuntimeError, match=r"(?i)version"):
            library.load(io.BytesIO(changed.getvalue()))


@pytest.mark.parametrize("library", [torch, readtorch])
def test_bytes_of_a_storage_are_data(library: Any) -> None:
    storage = library.ones(1).untyped_storage()
    for make in (library.tensor, library.asarray, library.as_tensor):
        assert make(storage, dtype=library.uint8).tolist() == [0, 0, 128, 63]
