"""`mkdocs build` over small books: what is written, what is refused, and that a refusal writes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from weave_books import GROUND, SHELF, write_book

SETTINGS = """\
site_name: small
use_directory_urls: false
nav:
  - index.md
  - The book: readtorch:book
  - API: readtorch:api
theme: { name: material, font: false }
markdown_extensions: [admonition, attr_list, tables, pymdownx.superfences]
plugins:
  - search
  - readtorch: { execute: false, api: false }
validation: { links: { anchors: warn } }
"""


def book_folder(folder: Path, **parts: str) -> Path:
    write_book(folder, {name.replace("__", "/"): text for name, text in parts.items()} or None)
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text("# Small\n\n[boxes](book/00_tensor/1_box/index.md#Box.double)\n")
    (folder / "mkdocs.yml").write_text(SETTINGS)
    return folder


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_a_book_becomes_pages_with_their_scripts_and_assets(tmp_path: Path) -> None:
    folder = book_folder(tmp_path)
    done = build(folder, "--strict")
    assert done.returncode == 0, done.stderr
    site = folder / "site"
    page = (site / "book" / "00_tensor" / "1_box" / "index.html").read_text()
    assert "<!--rt:" not in page
    assert "id=Box.double" in page
    assert '<div class="admonition note">\n<p class="admonition-title">Often told otherwise</p>' in page
    assert '<a href="../../02_module/index.html#Shelf.put">the shelf</a>' in page
    assert (site / "whole" / "c10.box.Box.js").is_file()
    assert (site / "assets" / "readtorch" / "fonts" / "source-serif-4.woff2").is_file()
    assert "https://fonts" not in page
    index = (site / "search" / "search_index.js").read_text()
    assert index.startswith("var __index = {")
    assert "Box.double Box.opened c10/box.py" in index
    assert "def double" not in index


def test_a_page_of_the_site_links_to_chapters_by_name(tmp_path: Path) -> None:
    folder = book_folder(tmp_path)
    (folder / "docs/index.md").write_text("# Small\n\n[ground](chapter:00_tensor), [the shelf](chapter:02_module)\n")
    done = build(folder, "--strict")
    assert done.returncode == 0, done.stderr
    page = (folder / "site/index.html").read_text()
    assert '<a href="book/00_tensor/1_box/index.html">ground</a>' in page
    assert '<a href="book/02_module/index.html">the shelf</a>' in page
    (folder / "docs/index.md").write_text("# Small\n\n[none](chapter:09_none)\n")
    done = build(folder)
    assert done.returncode == 1
    assert "index.md: no chapter '09_none'; there are 00_tensor, 02_module" in done.stderr


@pytest.mark.parametrize("options", [(), ("--strict",)])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#| imports", "#| import", "unknown directive 'import'"),
        ("def double(self)", "def __init__(self)", "__init__"),
        ("class Box(Box):", "class Bag(Bag):", "Bag"),
        ("def twice(number: int) -> int:", "def twice(number: int -> int:", "syntax error"),
        ("#Module.register_buffer", "#Module.register_bufer", "register_bufer"),
    ],
)
def test_a_fault_is_told_with_its_line_and_leaves_the_last_site(
    tmp_path: Path, old: str, new: str, message: str, options: tuple[str, ...]
) -> None:
    assert old in GROUND
    folder = book_folder(tmp_path)
    (folder / "chapters" / "00_tensor" / "1_box.py").write_text(
        (folder / "chapters" / "00_tensor" / "1_box.py").read_text().replace(old, new)
    )
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text("the last good site")
    done = build(folder, *options)
    assert done.returncode == 1
    assert "chapters/00_tensor/1_box.py:" in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [f.name for f in (folder / "site").iterdir()] == ["index.html"]
    assert (folder / "site" / "index.html").read_text() == "the last good site"


def test_faults_of_several_chapters_are_listed_together(tmp_path: Path) -> None:
    folder = book_folder(tmp_path)
    for name, old, new in (("00_tensor/1_box", "#| imports", "#| import"), ("02_module", "#| test", "#| tests")):
        file = folder / "chapters" / f"{name}.py"
        file.write_text(file.read_text().replace(old, new))
    done = build(folder)
    assert done.returncode == 1
    assert "2 faults" in done.stderr
    assert "unknown directive 'import'" in done.stderr
    assert "unknown directive 'tests'" in done.stderr


def test_a_dead_link_between_chapters_fails_a_strict_build(tmp_path: Path) -> None:
    text = GROUND.replace("02_module.py#Shelf.put", "02_module.py#Shelf.putt")
    folder = book_folder(tmp_path, **{"00_tensor__1_box": text, "02_module": SHELF})
    done = build(folder, "--strict")
    assert done.returncode == 1
    assert "Shelf.putt" in done.stderr


def test_a_package_that_is_not_the_chapters_is_refused(tmp_path: Path) -> None:
    folder = book_folder(tmp_path)
    (folder / "mkdocs.yml").write_text(SETTINGS.replace("execute: false", "execute: true"))
    (folder / "src" / "readtorch").mkdir(parents=True)
    done = build(folder)
    assert done.returncode == 1
    assert "chapters/00_tensor/1_box.py:" in done.stderr
    assert "readtorch tangle" in done.stderr
    assert not (folder / "site").exists()


def test_pages_are_kept_between_the_builds_of_one_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edited paragraph converts its own page again and no other, and the result is what a fresh build gives."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config
    from mkdocs.structure.pages import Page

    folder = book_folder(tmp_path)
    converted: list[str] = []
    render = Page.render

    def counted(self: Page, config: object, files: object) -> None:
        converted.append(self.file.src_uri)
        render(self, config, files)  # type: ignore[arg-type]

    monkeypatch.setattr(Page, "render", counted)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    config = load_config(str(folder / "mkdocs.yml"))
    config.plugins.on_startup(command="serve", dirty=False)
    build_site(config)
    assert {"book/02_module/index.md", "book/00_tensor/1_box/index.md"} <= set(converted)
    file = folder / "chapters" / "02_module.py"
    file.write_text(file.read_text().replace("Many boxes.", "Very many boxes."))
    converted.clear()
    again = load_config(str(folder / "mkdocs.yml"))
    build_site(again)
    assert "book/02_module/index.md" in converted
    assert "book/00_tensor/1_box/index.md" not in converted
    index = (folder / "site" / "search" / "search_index.json").read_text()
    assert "Very many boxes." in index
    kept = {f.relative_to(folder / "site"): f.read_text() for f in (folder / "site").rglob("*.html")}
    assert "Very many boxes." in kept[Path("book/02_module/index.html")]
    fresh_config = load_config(str(folder / "mkdocs.yml"))
    fresh_plugin = fresh_config.plugins["readtorch"]
    fresh_plugin.__init__()  # forgets; mkdocs keeps the object itself
    build_site(fresh_config)
    assert (folder / "site" / "search" / "search_index.json").read_text() == index
    fresh = {f.relative_to(folder / "site"): f.read_text() for f in (folder / "site").rglob("*.html")}
    strip = lambda text: text[: text.rfind("<script id=")]  # noqa: E731  the theme's settings hold the build's date
    assert {n: strip(t) for n, t in kept.items()} == {n: strip(t) for n, t in fresh.items()}
