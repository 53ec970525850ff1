"""One kernel for all live-package tests: the small book of live_book.py, reset after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import live_book
import pytest
from live_kernel import Kernel


@pytest.fixture(scope="session")
def book_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return live_book.make_book(tmp_path_factory.mktemp("book")).parent


@pytest.fixture(scope="session")
def running_kernel(book_folder: Path) -> Iterator[Kernel]:
    kernel = Kernel(book_folder / "src", book_folder)
    kernel.must("from readtorch.literate import diff, live, reset\nlive()")
    kernel.must("import readtorch.nn.layers, readtorch.nn.module, readtorch.tables")
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(running_kernel: Kernel) -> Iterator[Kernel]:
    """The kernel, its package the book's before and after."""
    yield running_kernel
    running_kernel.must("reset()")
    assert running_kernel.value("bool(diff())") == "False"
