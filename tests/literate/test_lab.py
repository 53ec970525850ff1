"""`readtorch lab`: the book copied without touching the reader's edits, the place asked for, and a JupyterLab that opens it."""

from __future__ import annotations

import argparse
import json
import urllib.request
from pathlib import Path

import pytest

from readtorch.literate import lab
from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError
from readtorch.literate.lab import copying

PART = """\
# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
# ---

# %% [markdown]
# # Modules

# %%
#| into: nn/module.py
class Module:
    pass

# %%
#| into: nn/module.py
class Module(Module):
    def register_buffer(self):
        return 1

# %%
Module().register_buffer()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "book"
    for name in ("02_module/1_registration.py", "02_module/2_hooks.py", "03_norm.py", "data/README.md"):
        file = folder / "chapters" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PART.replace("Module", f"M{len(name)}"), encoding="utf-8")
    (folder / "chapters" / "02_module" / "1_registration.py").write_text(PART, encoding="utf-8")
    return folder


def test_the_book_is_copied_once_and_copying_again_changes_nothing(root: Path, tmp_path: Path) -> None:
    first = copying.copy_book(root, tmp_path / "mine")
    assert first.written == [
        "chapters/02_module/1_registration.py",
        "chapters/02_module/2_hooks.py",
        "chapters/03_norm.py",
        "chapters/data/README.md",
    ]
    again = copying.copy_book(root, tmp_path / "mine")
    assert again == copying.Copied()
    assert again.report(tmp_path) == ""


def test_an_edited_chapter_is_kept_and_the_new_version_put_beside_it(root: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    copying.copy_book(root, mine)
    edited = mine / "chapters" / "03_norm.py"
    edited.write_text("# mine\n", encoding="utf-8")
    assert copying.copy_book(root, mine).kept == ["chapters/03_norm.py"]
    book = root / "chapters" / "03_norm.py"
    book.write_text(book.read_text(encoding="utf-8") + "\n# %%\n1 + 1\n", encoding="utf-8")
    untouched = root / "chapters" / "02_module" / "2_hooks.py"
    untouched.write_text(PART + "\n# %%\n2 + 2\n", encoding="utf-8")
    result = copying.copy_book(root, mine)
    assert edited.read_text(encoding="utf-8") == "# mine\n"
    [(path, beside)] = result.beside
    assert path == "chapters/03_norm.py"
    assert (mine / beside).read_bytes() == book.read_bytes()
    assert result.updated == ["chapters/02_module/2_hooks.py"]
    assert "kept as you edited it: chapters/03_norm.py (the book's new version:" in result.report(mine)
    assert copying.copy_book(root, mine).kept == ["chapters/03_norm.py"], "said once, then only that it is kept"


def test_a_file_that_was_there_before_the_first_copy_is_kept(root: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "chapters" / "03_norm.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("# notes of my own\n", encoding="utf-8")
    result = copying.copy_book(root, tmp_path / "mine")
    assert mine.read_text(encoding="utf-8") == "# notes of my own\n"
    assert result.beside[0][0] == "chapters/03_norm.py"


def test_the_place_is_found_by_chapter_part_symbol_or_anchor(root: Path) -> None:
    book = Book.load(root)
    part = book.part("02_module/1_registration")
    assert lab.place(book, None, None) == (part, None)
    assert lab.place(book, "02_module", None) == (part, None)
    assert lab.place(book, "chapters/02_module/2_hooks.py", None)[0] == book.part("02_module/2_hooks")
    assert lab.place(book, None, "Module.register_buffer") == (part, 2)
    assert lab.place(book, "02_module", "modules-3") == (part, 3)
    with pytest.raises(LiterateError, match=r"no chapter '02_modul'\n.*02_module"):
        lab.place(book, "02_modul", None)
    with pytest.raises(LiterateError, match=r"no cell 'Module.register_bufer'\n.*Module.register_buffer"):
        lab.place(book, None, "Module.register_bufer")


def test_without_a_checkout_the_reader_works_in_a_copy(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "find_root", lambda: root)
    monkeypatch.chdir(tmp_path)
    folder = lab.working_root(None)
    assert folder == tmp_path / "readtorch-book"
    assert (folder / "chapters" / "03_norm.py").exists()
    assert "4 files written to" in capsys.readouterr().out
    (root / "src" / "readtorch").mkdir(parents=True)
    assert lab.working_root(None) == root, "a checkout is edited in place"
    assert lab.working_root(tmp_path / "else") == tmp_path / "else"


def test_arguments() -> None:
    parser = argparse.ArgumentParser()
    lab.add_arguments(parser)
    args = parser.parse_args(["02_module", "--cell", "Module", "--no-browser", "--dir", "here"])
    assert (args.chapter, args.cell, args.no_browser, args.dir) == ("02_module", "Module", True, Path("here"))


def _get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def test_jupyterlab_opens_a_chapter_as_a_notebook_at_the_cell(root: Path) -> None:
    pytest.importorskip("jupyterlab_jupytext")
    server = lab.start(root)
    try:
        query = f"token={server.token}"
        model = _get(f"{server.url}api/contents/chapters/02_module/1_registration.py?type=notebook&{query}")
        cells = model["content"]["cells"]
        assert [c["cell_type"] for c in cells] == ["markdown", "code", "code", "code"]
        ids = [c["id"] for c in cells]
        assert ids[1:] == ["Module", "Module-register_buffer", "modules-3"]
        settings = _get(f"{server.url}lab/api/settings/@jupyterlab/docmanager-extension:plugin?{query}")
        assert settings["schema"]["properties"]["defaultViewers"]["default"] == {"python": "Jupytext Notebook"}
        address = server.address("chapters/02_module/1_registration.py", 2)
        assert address.startswith(f"{server.url}lab/tree/chapters/02_module/1_registration.py?token=")
        assert address.endswith("#cell-id=Module-register_buffer")
        assert server.running
    finally:
        server.stop()
    assert not server.running


def test_the_file_with_the_address_is_believed_only_when_the_port_listens(tmp_path: Path) -> None:
    import socket
    import subprocess
    import sys
    import threading

    from readtorch.literate.lab import server

    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with socket.socket() as waiting:
            waiting.bind(("127.0.0.1", 0))
            port = waiting.getsockname()[1]
            said = {"url": f"http://127.0.0.1:{port}/", "token": "t", "port": port}
            (tmp_path / "jpserver-1.json").write_text(json.dumps(said), encoding="utf-8")
            due = threading.Event()
            later = threading.Timer(0.5, lambda: (due.set(), waiting.listen()))
            later.start()
            assert server._answer(process, tmp_path) == (said["url"], "t")
            assert due.is_set()
            later.join()
    finally:
        process.kill()
        process.communicate()


def test_a_port_in_use_is_reported_with_what_jupyterlab_said(root: Path) -> None:
    pytest.importorskip("jupyterlab_jupytext")
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LiterateError, match=f"(?s)JupyterLab: ended with status.*{port}"):
            lab.start(root, port=port)
