"""`mkdocs build` over small books: what is written, what is refused, and that a refusal writes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocs.commands.build import build as build_site
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
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
    entries = json.loads(index.partition("=")[2])["docs"]
    named = [entry for entry in entries if entry["title"] == "double"]
    assert [entry["location"] for entry in named] == ["book/00_tensor/1_box/index.html#Box.double"]
    assert named[0]["text"] == "Box.double, defined in c10/box.py"
    shelf = next(entry for entry in entries if entry["title"] == "Shelf")
    assert shelf["boost"] > named[0]["boost"] > 1
    assert len({entry["location"] for entry in entries}) == len(entries)


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


class Serving:
    """The builds of one `mkdocs serve`, and what each of them converted and wrote anew."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from jinja2 import Template
        from mkdocs.structure.pages import Page

        self.folder = folder
        self.converted: list[str] = []
        self.rendered: list[str] = []
        convert, render = Page.render, Template.render

        def counted(page: Page, config: object, files: object) -> None:
            self.converted.append(page.file.src_uri)
            convert(page, config, files)  # type: ignore[arg-type]  # objects as mkdocs passes them

        def written(template: Template, context: dict) -> str:  # type: ignore[type-arg]  # of whatever the page is given
            if context["page"] is not None:
                self.rendered.append(context["page"].file.src_uri)
            return render(template, context)

        monkeypatch.setattr(Page, "render", counted)
        monkeypatch.setattr(Template, "render", written)
        monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        self._config().plugins.on_startup(command="serve", dirty=False)

    def _config(self) -> MkDocsConfig:
        return load_config(str(self.folder / "mkdocs.yml"))

    def build(self) -> dict[str, bytes]:
        """The site's files after the next build, which are those that a build from nothing writes."""
        self.converted.clear()
        self.rendered.clear()
        build_site(self._config())
        anew = list(self.converted), list(self.rendered)
        files = self._files()
        fresh = self._config()
        kept = dict(vars(fresh.plugins["readtorch"]))
        fresh.plugins["readtorch"].__init__()  # forgets; mkdocs keeps the object itself
        fresh.plugins["readtorch"].load_config({"execute": False, "api": False})
        build_site(fresh)
        assert {name for name, data in self._files().items() if files.get(name) != data} == set()
        assert set(files) == set(self._files())
        vars(fresh.plugins["readtorch"]).update(kept)
        self.converted, self.rendered = anew
        return files

    def _files(self) -> dict[str, bytes]:
        site = self.folder / "site"
        return {
            f.relative_to(site).as_posix(): f.read_bytes()
            for f in site.rglob("*")
            if f.is_file() and f.suffix != ".gz"  # holds the time of writing
        }


BOX, SHELVES = "book/00_tensor/1_box/index", "book/02_module/index"


def test_pages_are_kept_between_the_builds_of_one_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edited paragraph converts and writes its own page again and no other."""
    folder = book_folder(tmp_path)
    serving = Serving(folder, monkeypatch)
    serving.build()
    assert {"index.md", f"{BOX}.md", f"{SHELVES}.md"} <= set(serving.converted) & set(serving.rendered)
    file = folder / "chapters" / "02_module.py"
    file.write_text(file.read_text().replace("Many boxes.", "Very many boxes."))
    site = serving.build()
    assert serving.converted == serving.rendered == [f"{SHELVES}.md"]
    assert b"Very many boxes." in site[f"{SHELVES}.html"]
    assert b"Very many boxes." in site["search/search_index.json"]
    serving.build()
    assert serving.converted == serving.rendered == []


def test_a_kept_page_follows_the_navigation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The title of one page stands on all others: they are written again, and not converted."""
    folder = book_folder(tmp_path)
    serving = Serving(folder, monkeypatch)
    serving.build()
    file = folder / "chapters" / "00_tensor" / "1_box.py"
    file.write_text(file.read_text().replace("# # ", "# # Many "))
    after = serving.build()
    assert serving.converted == [f"{BOX}.md"]
    assert set(serving.rendered) == {"index.md", f"{BOX}.md", f"{SHELVES}.md"}
    assert b"Many Boxes" in after[f"{SHELVES}.html"]


def test_a_page_of_the_site_follows_its_text_and_its_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = book_folder(tmp_path)
    serving = Serving(folder, monkeypatch)
    serving.build()
    (folder / "docs" / "index.md").write_text("# Small\n\nother text\n")
    site = serving.build()
    assert serving.converted == serving.rendered == ["index.md"]
    assert b"other text" in site["index.html"]
    settings = folder / "mkdocs.yml"
    settings.write_text(settings.read_text().replace("- index.md", "- Another name: index.md"))
    site = serving.build()
    assert serving.converted == []
    assert len(serving.rendered) == len([name for name in site if name.endswith("index.html")])
    assert b"Another name" in site[f"{BOX}.html"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("site_name: small", "site_name: large", b"large"),
        ("[admonition, attr_list,", "[admonition, abbr, attr_list,", b""),
        ("font: false }", "font: false, features: [navigation.footer] }", b"md-footer__link"),
    ],
)
def test_nothing_is_kept_when_the_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: bytes
) -> None:
    folder = book_folder(tmp_path)
    serving = Serving(folder, monkeypatch)
    serving.build()
    settings = folder / "mkdocs.yml"
    assert old in settings.read_text()
    settings.write_text(settings.read_text().replace(old, new))
    site = serving.build()
    assert {"index.md", f"{BOX}.md", f"{SHELVES}.md"} == set(serving.converted) == set(serving.rendered)
    assert said in site[f"{BOX}.html"]


def test_nothing_is_kept_of_a_site_whose_theme_may_read_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = book_folder(tmp_path)
    (folder / "overrides").mkdir()
    own = folder / "overrides" / "main.html"
    own.write_text('{% extends "base.html" %}{% block announce %}first{% endblock %}')
    (folder / "mkdocs.yml").write_text(SETTINGS.replace("font: false", "font: false, custom_dir: overrides"))
    serving = Serving(folder, monkeypatch)
    assert b"first" in serving.build()[f"{BOX}.html"]
    own.write_text('{% extends "base.html" %}{% block announce %}second{% endblock %}')
    assert b"second" in serving.build()[f"{BOX}.html"]


def test_a_warning_is_given_in_every_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = book_folder(tmp_path)
    (folder / "docs" / "index.md").write_text("# Small\n\n[away](gone.md)\n")
    serving = Serving(folder, monkeypatch)
    for _ in range(2):
        caplog.clear()
        serving.build()
        assert "gone.md" in caplog.text


def test_the_settings_of_this_site_can_be_compared() -> None:
    """Otherwise nothing of it would be kept."""
    from readtorch.literate.weave.settings import settings

    def seen() -> object:
        config = load_config(str(Path(__file__).parents[2] / "mkdocs.yml"))
        for name, plugin in config.plugins.items():
            if name != "readtorch":
                plugin.on_config(config)  # type: ignore[attr-defined]  # mkdocs' base class has none, each of these has
        return settings(config)

    assert seen() == seen()
