"""A cell that fails and a claim that is false: the site that is read shows them, the build that is checked refuses them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from sites import planted_book
from weave_books import results, woven, write_book

from readtorch.literate.errors import Problem
from readtorch.literate.evidence import EvidenceResult, Outcome
from readtorch.literate.execute import CellResult, Event
from readtorch.literate.terminal import Making, remaining

FAULTY = """
# %%
def inner():
    raise KeyError("no such <box>")

# %%
#| id: failing
inner()

# %%
#| claim: a box holds three
def _(torch):
    assert torch.c10.Box(2).value == 3

# %%
#| id: dying
import os; os._exit(3)
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = planted_book(tmp_path_factory.mktemp("faulty"))
    shelf, boxes = root / "chapters" / "02_module.py", root / "chapters" / "00_tensor" / "1_box.py"
    alive, mark, dying = FAULTY.partition("\n# %%\n#| id: dying")
    boxes.write_text(boxes.read_text() + alive)
    shelf.write_text(shelf.read_text() + mark + dying)
    return root


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True, timeout=300
    )


def test_a_site_that_is_read_shows_what_failed(faulty: Path) -> None:
    code = "import sys; from pathlib import Path; from readtorch.literate.serve import weave; sys.exit(weave(Path.cwd()) is None)"
    done = run(faulty, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "3 faults in the chapters:" in done.stderr
    for said in ("KeyError: 'no such <box>'", "the claim does not hold on readtorch", "status 3", "--no-execute"):
        assert said in done.stderr
    assert "running the claims: 2 of 2" in done.stderr or "running the claims: 4 of 4" in done.stderr
    page = (faulty / "site" / "book" / "00_tensor" / "1_box" / "index.html").read_text()
    box = page.partition('<div class="rt-faults"')[2].partition("</div>")[0]
    links = re.findall(r'href="#([^"]+)"', box)
    assert len(links) == 2
    assert links[0] == "failing" or "failing" in links
    assert all(f'id="{link}"' in page or f"id={link}" in page for link in links)
    cell = unescape(page.partition("id=failing")[2].partition('<div class="rt-cell')[0]).replace('id="failing"', "")
    assert '<details class="rt-out rt-error" open>' in cell
    assert "in inner" in cell and "no such <box>" in cell
    claim = page.partition('<div class="rt-cell rt-claim"')[2]
    assert 'rt-tick rt-failed">✗ readtorch' in claim
    assert "The claim does not hold on readtorch" in claim
    shelf = (faulty / "site" / "book" / "02_module" / "index.html").read_text()
    assert "ended its process with status 3" in shelf.partition('<div class="rt-faults"')[2].partition("</div>")[0]


def test_a_build_that_is_checked_refuses_them_with_all_of_them(faulty: Path, tmp_path: Path) -> None:
    done = run(faulty, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "3 faults in the chapters:" in done.stderr
    assert "Traceback" not in done.stderr.partition("faults")[0]
    for said in ("KeyError", "the claim does not hold on readtorch", "status 3", "READTORCH_EXECUTE=false"):
        assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_claim_that_is_false_on_pytorch_alone_says_so(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    part = book.part("02_module")
    cell = next(cell for cell in part.code_cells if cell.has("claim"))
    evidence = EvidenceResult(
        "claim", "x", "held", "failed", {"readtorch": "1", "torch": "2"}, "",
        {"readtorch": Outcome("held"), "torch": Outcome("failed", "AssertionError: <7>")},
    )  # fmt: skip
    found = results(book, "02_module", {})
    found["02_module"].cells[cell.index] = CellResult(evidence=evidence)
    _, pages = woven(book, found)
    html = "\n".join(pages["02_module"].slots)
    assert "The claim does not hold on torch.\ntorch: AssertionError: &lt;7&gt;</pre>" in html


def test_a_page_is_made_again_when_its_faults_change(tmp_path: Path) -> None:
    from readtorch.literate.tangle import tangle
    from readtorch.literate.weave.site import Site

    book = write_book(tmp_path)
    found = results(book, "02_module", {}) | results(book, "00_tensor/1_box", {})
    first = Site(book, tangle(book), found).weave()
    fault = Problem("chapters/02_module.py", 30, "x <failed>")
    second = Site(book, tangle(book), found, faults=[fault]).weave(first)
    assert "x &lt;failed&gt;" in "".join(second["02_module"][1].slots)
    assert second["00_tensor/1_box"] is first["00_tensor/1_box"]
    third = Site(book, tangle(book), found).weave(second)
    assert "rt-faults" not in "".join(third["02_module"][1].slots)


def test_what_is_made_is_told_in_steps_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with Making(2) as making:
        making.show(Event("a", "cached"))
        making.show(Event("b", "running", 1, 3))
        making.show(Event("b", "done"))
        making.show(Event("", "claims", 0, 2))
        making.show(Event("c:1, on torch", "claims", 1, 2))
        making.show(Event("c:2, on torch", "claims", 2, 2))
        making.show(Event("", "weaving"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "running the chapters: 1 of 2, a",
        "running the chapters: 2 of 2, b",
        "running the claims: 1 of 2, c:1, on torch",
        "running the claims: 2 of 2, c:2, on torch",
        "writing the pages ...",
    ]


def test_the_time_left_is_a_guess_from_the_last_steps() -> None:
    assert remaining([0.0, 1.0, 2.0], 100) == ""
    assert remaining([0.0, 1.0, 2.0, 3.0], 0) == ""
    assert remaining([0.0, 1.0, 2.0, 3.0], 5) == ""
    assert remaining([0.0, 1.0, 2.0, 3.0], 45) == "about 50 s left"
    assert remaining([0.0, 2.0, 4.0, 6.0], 100) == "about 4 min left"


def test_an_edit_loop_shows_a_fault_and_takes_it_away_when_it_is_mended(tmp_path: Path) -> None:
    root = planted_book(tmp_path)
    code = """
import logging
from pathlib import Path
from mkdocs.commands.build import build
from mkdocs.config import load_config
logging.basicConfig(level=logging.WARNING)
chapter = Path("chapters/02_module.py")
good = chapter.read_text()
for text in (good, good + "\\n# %%\\n1 / 0\\n", good):
    chapter.write_text(text)
    config = load_config("mkdocs.yml")
    config.plugins.on_startup(command="serve", dirty=False)
    build(config)
    page = Path("site/book/02_module/index.html").read_text()
    print("rt-faults" in page, "ZeroDivisionError" in page)
"""
    done = run(root, "-c", code)
    assert done.stdout.split() == ["False", "False", "True", "True", "False", "False"], done.stderr
    assert done.stderr.count("1 fault in the chapters:\nchapters/02_module.py:") == 1
