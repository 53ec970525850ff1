"""What a part looks like as a page: rows, places, evidence, outputs, sanitising."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from weave_books import GROUND, html_of, results, woven, write_book

from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError
from readtorch.literate.evidence import EvidenceResult
from readtorch.literate.weave import prose
from readtorch.literate.weave.outputs import ansi, render_outputs
from readtorch.literate.weave.pages import plain
from readtorch.literate.weave.sanitize import clean


def box_page(tmp_path: Path) -> str:
    return html_of(woven(write_book(tmp_path))[1]["00_tensor/1_box"])


def test_a_fragment_says_its_file_and_place(tmp_path: Path) -> None:
    html = box_page(tmp_path)
    assert "<code>c10/box.py</code><span>class <code>Box</code> begins</span>" in html
    assert "<span>class <code>Box</code>, after <code>__init__</code></span>" in html
    assert "<span>after <code>Box</code></span>" in html


def test_pieces_of_a_class_link_to_each_other(tmp_path: Path) -> None:
    html = box_page(tmp_path)
    assert '<a href=#Box.double aria-label="Next in Box: Box.double …"' in html
    assert '<a href=#Box aria-label="Previous in Box: Box"' in html


def test_a_re_opened_class_shows_its_header_and_neighbour_dimmed(tmp_path: Path) -> None:
    html = box_page(tmp_path)
    assert '<span class="rt-dim">class Box:</span>\n<span class="rt-dim">    def __init__(…): …</span>' in html
    assert "class Box(Box)" not in html
    assert "Box</a>(Box)" not in html


def test_the_whole_class_is_a_script_with_links_from_the_root(tmp_path: Path) -> None:
    site, _ = woven(write_book(tmp_path))
    script = site.shared_scripts()["whole/c10.box.Box.js"].decode()
    assert script.startswith('readtorch.whole("c10.box.Box","src/readtorch/c10/box.py, lines ')
    assert "~/book/00_tensor/1_box/index.html#twice" in script
    assert script.index(">double<") < script.index(">opened<")
    assert "</" not in script


def test_side_comments_leave_the_code_for_the_margin(tmp_path: Path) -> None:
    html = box_page(tmp_path)
    assert '<aside class="rt-side"><p>Twice, because <code>one</code> is not enough.</p></aside>' in html
    assert "#:" not in html


def test_the_upstream_link_has_its_lines_and_grade(tmp_path: Path) -> None:
    html = box_page(tmp_path)
    assert 'class=rt-exact href="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/module.py#L' in html
    assert "<code>Module.register_buffer</code> in torch/nn/modules/module.py, lines " in html


def test_a_cell_of_facts_alone_has_no_listing(tmp_path: Path) -> None:
    text = GROUND + "\n# %%\n#| fact: torch/nn/modules/module.py#Module.register_buffer\n#| source: pytorch/pytorch#1\n"
    html = html_of(woven(write_book(tmp_path, {"00_tensor/1_box": text}))[1]["00_tensor/1_box"])
    cell = html[html.index('<div class="rt-cell rt-noted"') :]
    assert cell[cell.index(">") + 1 :].startswith('<div class=rt-foot><span class="rt-fact">')
    assert "rt-listing" not in cell.partition("</div></div>")[0]


def test_the_path_of_the_mirrored_file_is_not_repeated(tmp_path: Path) -> None:
    text = GROUND.replace("c10/box.py", "nn/modules/module.py").replace("c10.box", "nn.modules.module")
    html = html_of(woven(write_book(tmp_path, {"00_tensor/1_box": text}))[1]["00_tensor/1_box"])
    assert "<code>Module.register_buffer</code>, lines " in html


def test_an_unresolved_upstream_symbol_is_a_fault_with_its_line(tmp_path: Path) -> None:
    text = GROUND.replace("#Module.register_buffer", "#Module.register_bufer")
    book = write_book(tmp_path, {"00_tensor/1_box": text})
    with pytest.raises(LiterateError, match=r"chapters/00_tensor/1_box\.py:\d+: .*register_bufer") as caught:
        woven(book)
    (problem,) = caught.value.problems
    assert book.parts[0].text.split("\n")[problem.line - 1].startswith("#| upstream:")
    assert "register_buffer" in problem.way_out


def test_setup_and_tests_are_folded_and_an_exercise_is_one_card(tmp_path: Path) -> None:
    pages = woven(write_book(tmp_path))[1]
    assert '<details class="rt-cell rt-setup"' in html_of(pages["00_tensor/1_box"])
    html = html_of(pages["02_module"])
    card = html.split('<div class="rt-card">')[1]
    assert card.index("rt-exercise") < card.index("rt-solution") < card.index("rt-check")
    assert '<details class="rt-cell rt-solution"' in card
    assert '<details class="rt-cell rt-test"' in html


def evidence(ours: str, upstream: str, differs: str = "") -> EvidenceResult:
    versions = {"readtorch": "0.1.0", "torch": "2.13.0"}
    return EvidenceResult("claim", "s", ours, upstream, versions, differs)  # type: ignore[arg-type]  # sides are given as plain values


@pytest.mark.parametrize(
    ("ours", "upstream", "words"),
    [
        ("held", "held", ["✓ readtorch 0.1.0<", "✓ PyTorch 2.13.0<"]),
        ("held", "not-run", ["✓ readtorch 0.1.0<", "– PyTorch (not run here)<"]),
        ("held", "failed", ["✓ readtorch 0.1.0<", "✗ PyTorch 2.13.0 (does not hold)<"]),
    ],
)
def test_a_claim_shows_two_honest_ticks(tmp_path: Path, ours: str, upstream: str, words: list[str]) -> None:
    book = write_book(tmp_path)
    run = results(book, "02_module", {}, **{"a-run-3": evidence(ours, upstream)})
    html = html_of(woven(book, run)[1]["02_module"])
    assert '<p class="rt-sentence">a shelf is empty at first</p>' in html
    for word in words:
        assert word in html


@pytest.mark.parametrize("name", ["`Shelf()`", "new_shelf", "sys.modules", "dir()", "t_"])
def test_a_claim_that_begins_with_a_name_keeps_its_small_letter(tmp_path: Path, name: str) -> None:
    write_book(tmp_path)
    part = tmp_path / "chapters" / "02_module.py"
    part.write_text(part.read_text().replace("claim: a shelf is", f"claim: {name} is"))
    html = html_of(woven(Book.load(tmp_path))[1]["02_module"])
    shown = f"<code>{name[1:-1]}</code>" if name[0] == "`" else name
    assert f'<p class="rt-sentence rt-named">{shown} is empty at first</p>' in html


def test_a_claim_that_was_not_run_says_so(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path))[1]["02_module"])
    assert "– readtorch (not run here)" in html
    assert "✓" not in html


def test_figures_are_files_beside_the_page(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    png = b"\x89PNG\r\n\x1a\nrest"
    output = {
        "output_type": "display_data",
        "data": {"image/png": base64.b64encode(png).decode(), "text/plain": "<Figure>"},
        "metadata": {},
    }
    page = woven(book, results(book, "02_module", {"a-run-1": [output, output]}))[1]["02_module"]
    assert page.files == {"book/02_module/a-run-1-1.png": png, "book/02_module/a-run-1-2.png": png}
    assert '<img src="a-run-1-2.png"' in html_of(page)


def test_a_recorded_import_is_a_file_beside_the_page_and_brings_its_script(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    recorded = {
        "schema": "readtorch-imports/1",
        "runs": [
            {
                "name": "a<b",
                "names": ["a<b"],
                "parents": [-1],
                "totals": [9000],
                "errors": {},
                "outcome": "imported",
                "total": 9000,
            }
        ],
    }
    output = {
        "output_type": "execute_result",
        "data": {"application/vnd.readtorch.imports+json": recorded},
        "metadata": {},
    }
    site, pages = woven(book, results(book, "02_module", {"a-run-1": [output]}))
    page = pages["02_module"]
    (address,) = page.files
    assert address == "traces/imports-02_module-a-run-1.js"
    assert page.files[address].startswith(b'readtorchImports("imports-02_module-a-run-1",{')
    html = html_of(page)
    assert 'src="../../traces/imports-02_module-a-run-1.js"' in html and "a&lt;b" in html and "a<b" not in html
    assert b"readtorch-imports" in site.shared_scripts()["assets/readtorch/imports.js"]


def test_a_fact_about_calls_says_what_is_called(tmp_path: Path) -> None:
    text = GROUND + "\n# %%\n#| fact: torch/csrc/Module.cpp#initModule>THPSize_init<THPVariable_initModule\n"
    html = html_of(woven(write_book(tmp_path, {"00_tensor/1_box": text}))[1]["00_tensor/1_box"])
    assert " calls <code>THPSize_init</code>, then <code>THPVariable_initModule</code>" in html


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("`from torch._C import *`: a module", "from torch._C import *: a module"),
        ("Where does *a* `running_mean` _live_?", "Where does a running_mean live?"),
        ("[Before](x.md) `torch._C`", "Before torch._C"),
    ],
)
def test_a_title_keeps_what_is_code_in_it(heading: str, title: str) -> None:
    assert plain(heading) == title


def rendered(*outputs: dict[str, object]) -> str:
    return render_outputs(outputs, lambda suffix, data: f"f.{suffix}", lambda d: "TRACE", "alt")  # type: ignore[arg-type]  # outputs are plain dicts here


def test_printed_text_is_escaped_and_joined() -> None:
    html = rendered(
        {"output_type": "stream", "name": "stdout", "text": "<img src=x onerror=alert(1)>\n"},
        {"output_type": "stream", "name": "stdout", "text": ["10 %\r", "100 %\n"]},
    )
    assert html == '<pre class="rt-out rt-stdout">&lt;img src=x onerror=alert(1)&gt;\n100 %</pre>'


def test_errors_are_folded_below_their_last_line() -> None:
    html = rendered(
        {"output_type": "error", "ename": "ValueError", "evalue": "a < b", "traceback": ["\x1b[31mTr\x1b[0m"]}
    )
    assert "<summary><code>ValueError: a &lt; b</code></summary>" in html
    assert '<span class="ansi-red">Tr</span>' in html


def test_terminal_colours_close_what_they_open() -> None:
    assert ansi("\x1b[1;31ma\x1b[32mb\x1b[0m\x1b[2Kc") == (
        '<span class="ansi-bold ansi-red">a</span><span class="ansi-green">b</span>c'
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("<b>x</b>", "<b>x</b>"),
        ("<img src=x onerror=alert(1)>", "<img>"),
        ('<a href="javascript:alert(1)">x</a>', "<a>x</a>"),
        ('<a href="https://x.org/">x</a>', '<a href="https://x.org/">x</a>'),
        ("<script>alert(1)</script>y", "y"),
        ("<style>p{}</style>y", "y"),
        ("<svg><script>alert(1)</script></svg>y", "y"),
        ("<table onclick=x><tr><td style='x'>1", "<table><tr><td>1</td></tr></table>"),
        ("</div></section>x", "x"),
        ("<iframe src=x></iframe>y", "y"),
        ("<form action=x><input name=y></form>z", "z"),
        ("<i>a<b>c</i>d", "<i>a<b>c</b></i>d"),
        ("&lt;script&gt;", "&lt;script&gt;"),
        ("<<script>alert(1)</script>", "&lt;"),
    ],
)
def test_rich_html_is_rewritten_from_an_allow_list(given: str, kept: str) -> None:
    assert clean(given) == kept


def test_alerts_become_admonitions_titled_by_their_bold_lead() -> None:
    text = "> [!WARNING]\n> **Mind this.** It\n> bites.\n\nafter"
    assert prose.to_mkdocs(text, lambda t, a: None).split("\n") == [
        "",
        '!!! warning "Mind this"',
        "",
        "    It",
        "    bites.",
        "",
        "",
        "after",
    ]


def test_alerts_inside_fences_stay() -> None:
    text = "```\n> [!NOTE]\n> x\n```"
    assert prose.to_mkdocs(text, lambda t, a: None) == text


def test_links_to_chapter_files_become_links_to_pages(tmp_path: Path) -> None:
    page = woven(write_book(tmp_path))[1]["00_tensor/1_box"]
    assert "[the shelf](../../02_module/index.md#Shelf.put)" in page.markdown


def test_links_in_code_and_to_other_files_stay() -> None:
    text = "`[x](a.py)` and [y](elsewhere.py)"
    assert prose.to_mkdocs(text, lambda t, a: "PAGE" if t == "a.py" else None) == text


def test_a_page_is_taken_from_before_while_nothing_it_rests_on_changed(tmp_path: Path) -> None:
    from readtorch.literate.chapter import Book
    from readtorch.literate.tangle import tangle
    from readtorch.literate.weave.site import Site

    book = write_book(tmp_path)
    first = Site(book, tangle(book), {}).weave()
    file = tmp_path / "chapters" / "02_module.py"
    file.write_text(file.read_text().replace("Many boxes. $", "Very many boxes. $"))
    book = Book.load(tmp_path)
    second = Site(book, tangle(book), {}).weave(first)
    assert second["00_tensor/1_box"] is first["00_tensor/1_box"]
    assert "Very many boxes." in second["02_module"][1].markdown
    file.write_text(file.read_text().replace("class Shelf:", "class Shelves:"))
    book = Book.load(tmp_path)
    assert Site(book, tangle(book), {}).weave(second)["00_tensor/1_box"] is not second["00_tensor/1_box"]


def test_a_site_made_from_the_last_one_is_as_one_made_from_nothing(tmp_path: Path) -> None:
    """What is read from tangled files is kept by file: after an edit that moves lines, and one that renames."""
    from readtorch.literate.chapter import Book
    from readtorch.literate.tangle import tangle
    from readtorch.literate.weave.site import Site

    book = write_book(tmp_path)
    files = tangle(book)
    site = Site(book, files, {})
    file = tmp_path / "chapters" / "02_module.py"
    for old, new in [("Many boxes. $", "Many\n#\n# boxes. $"), ("class Shelf:", "class Shelves:")]:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        book = Book.load(tmp_path, book)
        files = tangle(book, files)
        site = Site(book, files, {}, previous=site)
        fresh = Site(book, tangle(Book.load(tmp_path)), {})
        assert list(site.index) == list(fresh.index)
        assert site.fragments.keys() == fresh.fragments.keys()
        assert site.shared_key == fresh.shared_key
        assert {k: v[1].slots for k, v in site.weave().items()} == {k: v[1].slots for k, v in fresh.weave().items()}


def test_an_api_page_is_made_again_when_a_file_that_it_shows_changes(tmp_path: Path) -> None:
    from readtorch.literate.chapter import Book
    from readtorch.literate.tangle import tangle
    from readtorch.literate.weave import api
    from readtorch.literate.weave.site import Site

    def keys(book: Book) -> dict[str, str]:
        site = Site(book, tangle(book), {})
        return {name: api.key(site, f"api/{name}.md", "") for name in site.index.modules}

    book = write_book(tmp_path)
    before = keys(book)
    file = tmp_path / "chapters" / "02_module.py"
    file.write_text(file.read_text().replace("class Shelf:", "class Shelves:"))
    after = keys(Book.load(tmp_path))
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    assert "readtorch.c10.box" not in changed


@pytest.mark.parametrize(
    ("text", "wide", "note"),
    [
        ("a\n\nb", "", "a\n\nb"),
        ("a\n\n```mermaid\nx\n```\n\nb", "a\n\n```mermaid\nx\n```", "b"),
        ("a\n\n```python\nx\n```\n\nb", "", "a\n\n```python\nx\n```\n\nb"),
        ("a\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\nb", "a\n\n| x | y |\n|---|---|\n| 1 | 2 |", "b"),
        ("![alt](x.svg)\n\nb", "![alt](x.svg)", "b"),
    ],
)
def test_wide_blocks_do_not_go_beside_code(text: str, wide: str, note: str) -> None:
    assert prose.split_wide(text) == (wide, note)


def test_dunder_names_in_a_sentence_are_code_and_not_bold() -> None:
    html = prose.inline_html("Module.__init__ calls `__new__` and *then* x.__call__()")
    assert html == (
        "<code>Module.__init__</code> calls <code>__new__</code> and <em>then</em> <code>x.__call__()</code>"
    )


def test_a_heading_named_like_a_definition_gets_an_id_of_its_own(tmp_path: Path) -> None:
    text = GROUND.replace("## Opening it", "## `twice`").replace("# # Boxes", "# # Boxes\n#\n# ## Other")
    page = woven(write_book(tmp_path, {"00_tensor/1_box": text}))[1]["00_tensor/1_box"]
    assert "\n## `twice` { #twice-section }\n" in page.markdown
    assert "\n## Other\n" in page.markdown
