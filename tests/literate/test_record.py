"""Recordings: made with the plain executor, checked before they are let in, never of a simulated device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from small_books import SmallBook, texts

from readtorch.literate.errors import LiterateError
from readtorch.literate.record.archive import MAX_ARCHIVE, SCHEMA, Recording, kept, read, write
from readtorch.literate.record.shelf import bring_in, load, slug

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def provenance(**changes: Any) -> dict[str, Any]:
    return {
        "schema": SCHEMA, "device": "NVIDIA H200", "simulated": False, "date": "2026-11-29", "revision": "ab" * 20,
        "versions": {"numpy": "2.4.6", "cupy": "14.2.0"}, "seconds": 12.5, **changes,
    }  # fmt: skip


def part(*outputs: dict[str, Any]) -> dict[str, Any]:
    shown = list(outputs) or [{"output_type": "stream", "name": "stdout", "text": "cuda:0\n"}]
    return {"digest": "d", "device": "cuda", "cells": {"a": {"code": "c", "outputs": shown, "seconds": 0.1}}}


def data(kind: str, value: Any) -> dict[str, Any]:
    return {"output_type": "execute_result", "data": {kind: value}, "metadata": {}}


def archive(path: Path, members: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, value in members.items():
            target.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


def test_what_is_written_is_read_and_lands_on_the_shelf(tmp_path: Path) -> None:
    parts = {"00_tensor/01_x": part(), "03_norm": part(data("image/png", PNG), data("text/plain", "1"))}
    write(tmp_path / "r.zip", Recording(provenance(), parts))
    assert read(tmp_path / "r.zip").parts == parts
    folder = bring_in(tmp_path / "r.zip", tmp_path)
    assert folder == tmp_path / "docs/recordings/nvidia-h200"
    (found,) = load(tmp_path)
    assert found.parts == parts
    assert found.provenance == provenance()


def test_a_newer_recording_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    for names in (("03_norm", "06_data_parallel"), ("03_norm",)):
        write(tmp_path / "r.zip", Recording(provenance(), {name: part() for name in names}))
        bring_in(tmp_path / "r.zip", tmp_path)
    (found,) = load(tmp_path)
    assert set(found.parts) == {"03_norm"}


@pytest.mark.parametrize(
    "changes", [{"simulated": True}, {"device": "Simulated CUDA device (NumPy)"}, {"device": "CPU"}]
)
def test_what_was_not_made_on_a_gpu_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path / "r.zip", Recording(provenance(**changes), {"03_norm": part()}))
    with pytest.raises(LiterateError, match=r"simulated device|made on a CPU"):
        bring_in(tmp_path / "r.zip", tmp_path)
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"../evil.json": "{}"}, "belongs to no recording"),
        ({"/etc/passwd": "{}"}, "belongs to no recording"),
        ({"parts/../../x.json": "{}"}, "belongs to no recording"),
        ({"parts/a.py": "print()"}, "belongs to no recording"),
        ({"parts/03_norm.json": "{"}, "is not JSON"),
        ({"parts/03_norm.json": b"\xff"}, "is not UTF-8"),
        ({"parts/03_norm.json": {"cells": {}}}, "is not a part's outputs"),
        ({"parts/03_norm.json": part(data("text/html", "<script>"))}, "is not let in"),
        ({"parts/03_norm.json": part(data("application/javascript", "alert()"))}, "is not let in"),
        ({"parts/03_norm.json": part(data("image/png", "PHN2Zz4="))}, "is no PNG"),
        ({"parts/03_norm.json": part({"output_type": "stream", "name": "x", "text": ""})}, "an output is not one of"),
        ({"parts/03_norm.json": part(data("application/vnd.readtorch.trace+json", {"schema": "x"}))}, "schema"),
        ({"recording.json": provenance(schema="readtorch-recording/9")}, "schema is"),
        ({"recording.json": provenance(device="<b>")}, "device or revision"),
        ({"recording.json": {**provenance(), "more": 1}}, "what no recording has"),
        ({"recording.json": []}, "says nowhere"),
    ],
)
def test_an_archive_that_is_none_is_refused(tmp_path: Path, members: dict[str, Any], why: str) -> None:
    path = archive(tmp_path / "r.zip", {"recording.json": provenance(), **members})
    with pytest.raises(LiterateError, match=why):
        read(path)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "r.zip", {"recording.json": provenance(), "parts/a.json": b" " * 8_000_001})
    with pytest.raises(LiterateError, match="is larger than"):
        read(path)
    path.write_bytes(b"\0" * (MAX_ARCHIVE + 1))
    with pytest.raises(LiterateError, match="is larger than"):
        read(path)
    path.write_bytes(b"PK nothing")
    with pytest.raises(LiterateError, match="cannot be read"):
        read(path)


def test_only_text_images_and_traces_are_kept() -> None:
    both = {"output_type": "display_data", "data": {"text/html": "<b>", "text/plain": "b"}, "metadata": {"x": 1}}
    assert kept([both]) == [{"output_type": "display_data", "data": {"text/plain": "b"}, "metadata": {}}]
    assert kept([{"output_type": "display_data", "data": {"text/html": "<b>"}, "metadata": {}}]) == []


def test_a_folder_is_named_after_the_device() -> None:
    assert slug("NVIDIA GeForce RTX 4090 (24 GB)") == "nvidia-geforce-rtx-4090-24-gb"


@pytest.mark.slow
def test_a_part_is_recorded_on_a_simulated_device_and_refused_as_a_gpus(tmp_path: Path) -> None:
    target = tmp_path / "r.zip"
    command = [sys.executable, "-m", "readtorch.literate.record", "-o", str(target), "01_import/d7_torch_cuda"]
    done = subprocess.run(command, env={**os.environ, "READTORCH_SIM_CUDA": "2"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    recording = read(target)
    assert recording.provenance["simulated"]
    assert any(cell["outputs"] for cell in recording.parts["01_import/d7_torch_cuda"]["cells"].values())
    with pytest.raises(LiterateError, match="simulated device"):
        bring_in(target, tmp_path)


def test_a_part_that_takes_too_long_is_lost_alone(tmp_path: Path) -> None:
    small = SmallBook(tmp_path)
    small.chapter("# %%\nimport time\ntime.sleep(30)\n", "00_tensor")
    small.chapter("# %%\n1 + 1\n", "02_module")
    executor = small.executor(ipython=False, part_limit=2.0)
    results = executor.run(list(executor.book.parts))
    assert [bool(result.problems) for result in results.values()] == [True, False]


def test_after_the_whole_time_nothing_is_begun(tmp_path: Path) -> None:
    small = SmallBook(tmp_path)
    small.chapter("# %%\n1 + 1\n", "00_tensor")
    executor = small.executor(ipython=False, until=time.monotonic() - 1)
    (result,) = executor.run(list(executor.book.parts)).values()
    assert "no time was left" in result.problems[0].message


def test_without_matplotlib_figures_are_left_out_and_all_else_runs(tmp_path: Path) -> None:
    small = SmallBook(tmp_path)
    small.chapter("""
        # %%
        from readtorch.literate.no_figures import install
        install()
        import matplotlib.pyplot as plt
        figure, axes = plt.subplots(2, 3, figsize=(1, 2))
        for axis, n in zip(axes.flat, [1, 2]):
            axis.plot([n]).set(xlabel="x")
        axes[0].legend()
        print(n)
    """)
    assert texts(small.run(ipython=False)) == ["2\n"]
