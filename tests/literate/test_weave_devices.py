"""A GPU's recording beside the build's own outputs: tabs, provenance, and whether the cell is still the recorded one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weave_books import html_of, results, woven, write_book

from readtorch.literate.chapter import Book
from readtorch.literate.record.archive import SCHEMA, Recording, write
from readtorch.literate.record.make import code_digest
from readtorch.literate.record.shelf import bring_in
from readtorch.literate.weave.devices import tabs

PART = "02_module"


def said(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def cell_of(book: Book) -> tuple[str, str]:
    """Anchor and code of a demonstration."""
    part = book.part(PART)
    index = next(index for index, name in part.ids.items() if name == "a-run-1")
    return "a-run-1", part.cells[index].code


def shelve(root: Path, book: Book, text: str, *, code: str | None = None) -> None:
    anchor, own = cell_of(book)
    provenance = {
        "schema": SCHEMA, "device": "NVIDIA H200", "simulated": False, "date": "2026-11-29", "revision": "", "seconds": 1.0,
        "versions": {"cuda": "13000", "cupy": "14.2.0"},
    }  # fmt: skip
    cell = {"code": code_digest(own if code is None else code), "outputs": [said(text)], "seconds": 0.1}
    part = {"digest": "d", "device": "cuda", "cells": {anchor: cell}}
    write(root / "r.zip", Recording(provenance, {PART: part}))
    bring_in(root / "r.zip", root)


def page(book: Book, text: str) -> str:
    anchor, _ = cell_of(book)
    return html_of(woven(book, results(book, PART, {anchor: [said(text)]}))[1][PART])


def test_both_outputs_are_shown_with_where_the_recording_was_made(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    shelve(tmp_path, book, "on cuda:0\n")
    html = page(book, "on cpu\n")
    assert "CPU, this build" in html and ">NVIDIA H200</label>" in html
    assert "on cpu" in html and "on cuda:0" in html
    assert "Recorded on NVIDIA H200 on 2026-11-29 (CUDA 13000, CuPy 14.2.0)." in html


def test_a_recording_that_says_the_same_is_not_shown_twice(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    shelve(tmp_path, book, "the same\n")
    assert "NVIDIA" not in page(book, "the same\n")


def test_a_cell_that_has_changed_since_says_so(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    shelve(tmp_path, book, "on cuda:0\n", code="another")
    assert "with an earlier revision of this cell" in page(book, "on cpu\n")


def test_without_a_recording_there_are_no_tabs(tmp_path: Path) -> None:
    assert "rt-devices" not in page(write_book(tmp_path), "on cpu\n")


def test_labels_are_text() -> None:
    html = tabs("a", [("<b>", "one"), ("two", "2")])
    assert "&lt;b&gt;" in html and "<b>" not in html
    assert html.count("checked") == 1
