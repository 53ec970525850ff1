"""Edits of the package come back to the chapters, exactly or not at all."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

import books
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readtorch.literate.agreed import Agreed, Edited
from readtorch.literate.bring_back import bring_back
from readtorch.literate.build import check, write
from readtorch.literate.chapter import Book
from readtorch.literate.crosscheck import is_docstring
from readtorch.literate.errors import LiterateError
from readtorch.literate.rewrite import rewritten
from readtorch.literate.sync import sync_book
from readtorch.literate.tangle import tangle, tangled_cells

HEAD = books.HEADER
CHAPTER = (
    HEAD
    + '''\
# %% [markdown]
# # A chapter

# %%
#| into: a.py
"""About a."""

# %%
#| into: a.py
#| imports
import os
from typing import Any

# %%
#| into: a.py
LIMIT = 3

# %%
#| into: a.py
class M:
    """A class."""

    def one(self) -> int:
        return 1

# %% [markdown]
# Some prose between.

# %%
#| into: a.py
class M(M):
    def two(self) -> int:
        return 2

# %%
#| into: a.py
def first() -> int:
    return 1

# %%
first()

# %%
#| into: a.py
def last() -> int:
    return 9
'''
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tangled book of one chapter."""
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "02_module.py").write_text(CHAPTER)
    (tmp_path / "src" / "readtorch").mkdir(parents=True)
    write(Book.load(tmp_path))
    return tmp_path


def chapter(root: Path) -> Path:
    return root / "chapters" / "02_module.py"


def package(root: Path, name: str = "a.py") -> Path:
    return root / "src" / "readtorch" / name


def edit(file: Path, old: str, new: str) -> str:
    text = file.read_text()
    assert text.count(old) == 1, (old, text)
    file.write_text(text.replace(old, new))
    return file.read_text()


def sync(root: Path) -> None:
    sync_book(Book.load(root))


EDITS = {
    "a changed line": ("    return 9", "    return 10", "    return 10"),
    "a line at the end of a function": ("    return 9", "    x = 9\n    return x", "    x = 9\n    return x"),
    "a method at the end of a class": (
        "        return 2",
        "        return 2\n\n    def three(self) -> int:\n        return 3",
        "        return 2\n\n    def three(self) -> int:\n        return 3\n",
    ),
    "a method between two fragments": (
        "        return 1\n\n",
        "        return 1\n\n    def between(self) -> int:\n        return 0\n\n",
        "        return 1\n\n    def between(self) -> int:\n        return 0\n",
    ),
    "a function at the end of the file": (
        "    return 9",
        "    return 9\n\n\ndef new() -> int:\n    return 10",
        "    return 9\n\n\ndef new() -> int:\n    return 10\n",
    ),
    "a function between a class and a function": (
        "def first()",
        "def zeroth() -> int:\n    return 0\n\n\ndef first()",
        "def zeroth() -> int:\n    return 0\n\n\ndef first()",
    ),
    "a decorator": ("def last()", "@cache\ndef last()", "#| into: a.py\n@cache\ndef last()"),
    "a comment above a function": ("def last()", "# why\ndef last()", "#| into: a.py\n# why\ndef last()"),
    "a constant after a constant": ("LIMIT = 3", "LIMIT = 3\nMORE = 4", "LIMIT = 3\nMORE = 4\n"),
    "a docstring": ('"""About a."""', '"""About a.\n\nMore.\n"""', '"""About a.\n\nMore.\n"""'),
    "a class docstring": ('"""A class."""', '"""Another class."""', '"""Another class."""'),
    "an import": ("import os\n", "import math\nimport os\n", "import math\nimport os\nfrom typing"),
    "one more name of an import": ("import Any", "import Any, Literal", "from typing import Any, Literal"),
    "an import taken out": ("import os\n", "", "#| imports\nfrom typing import Any"),
    "a third-party import": (
        "from typing import Any\n",
        "from typing import Any\n\nimport numpy as np\n",
        "from typing import Any\n\nimport numpy as np\n",
    ),
    "an import for the type checker": (
        "from typing import Any\n",
        "from typing import TYPE_CHECKING, Any\n\nif TYPE_CHECKING:\n    import types\n",
        "import TYPE_CHECKING, Any\n\nif TYPE_CHECKING:\n    import types\n",
    ),
    "a function taken out": ("\n\ndef last() -> int:\n    return 9\n", "", "first()\n"),
    "a fragment of a class taken out": (
        "\n    def two(self) -> int:\n        return 2\n",
        "",
        "# Some prose between.\n",
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_an_edit_comes_back(root: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, expected = EDITS[case]
    edited = edit(package(root), old, new)
    before = chapter(root).read_text()
    assert check(Book.load(root)) == 1
    sync(root)
    assert package(root).read_text() == edited
    assert expected in chapter(root).read_text()
    assert check(Book.load(root)) == 0
    prose = [line for line in before.splitlines() if line.startswith("# ") and not line.startswith("# %%")]
    assert [line for line in chapter(root).read_text().splitlines() if line in prose] == prose
    assert "chapters/02_module.py:" in capsys.readouterr().out


def test_several_edits_of_several_files_come_back_together(root: Path) -> None:
    chapter(root).write_text(CHAPTER + "\n\n# %%\n#| into: b.py\nx = 1\n")
    write(Book.load(root))
    one = edit(package(root), "return 9", "return 10")
    edit(package(root), "LIMIT = 3", "LIMIT = 4")
    two = edit(package(root, "b.py"), "x = 1", "x = 2")
    sync(root)
    assert check(Book.load(root)) == 0
    assert package(root, "b.py").read_text() == two
    assert "LIMIT = 4" in package(root).read_text()
    assert one != package(root).read_text()


def test_a_new_function_below_a_reopened_class_gets_a_cell_of_its_own(root: Path) -> None:
    text = CHAPTER[: CHAPTER.index("# %%\n#| into: a.py\ndef first")]
    chapter(root).write_text(text.rstrip() + "\n")
    write(Book.load(root))
    edit(package(root), "        return 2\n", "        return 2\n\n\ndef new() -> int:\n    return 3\n")
    sync(root)
    assert check(Book.load(root)) == 0
    assert chapter(root).read_text().endswith("return 2\n\n\n# %%\n#| into: a.py\ndef new() -> int:\n    return 3\n")


def test_taking_out_all_that_a_chapter_contributed_changes_the_header_only(root: Path) -> None:
    (root / "chapters" / "03_norm.py").write_text(HEAD + "# %%\n#| into: a.py\ndef late() -> int:\n    return 5\n")
    write(Book.load(root))
    edit(package(root), "\n\ndef late() -> int:\n    return 5\n", "")
    sync(root)
    assert check(Book.load(root)) == 0
    assert "03_norm" not in package(root).read_text()


def test_a_file_without_imports_gets_an_imports_cell(root: Path) -> None:
    chapter(root).write_text(HEAD + "# %%\n#| into: a.py\nx = 1\n")
    write(Book.load(root))
    edit(package(root), "\nx = 1", "\nimport os\n\nx = os")
    sync(root)
    assert check(Book.load(root)) == 0
    assert (
        chapter(root).read_text()
        == HEAD + "# %%\n#| into: a.py\n#| imports\nimport os\n\n# %%\n#| into: a.py\nx = os\n"
    )


def test_a_new_import_goes_where_the_chapter_may_import_it(root: Path) -> None:
    """The cell next above the edit is in chapter 0, which has no module of chapter 2 yet."""
    early = "# %%\n#| into: a.py\n#| imports\nimport os\n\n# %%\n#| into: a.py\nx = 1\n"
    late = (
        "# %%\n#| into: late.py\ny = 1\n\n# %%\n#| into: a.py\n#| imports\nimport sys\n\n# %%\n#| into: a.py\nz = 1\n"
    )
    books.Drawn({"00_tensor": HEAD + early, "02_module": HEAD + late}).write(root)
    write(Book.load(root))
    text = package(root).read_text()
    package(root).write_text(
        text.replace("import sys\n", "import sys\n\nfrom readtorch.late import y\n").replace("x = 1", "x = 2")
    )
    sync(root)
    assert check(Book.load(root)) == 0
    assert "x = 2" in (root / "chapters/00_tensor.py").read_text()
    assert "import sys\n\nfrom readtorch.late import y" in chapter(root).read_text()


def test_an_edit_in_a_cuda_source_comes_back(root: Path) -> None:
    chapter(root).write_text(
        HEAD + '# %%\n#| into: k.cu\nr"""\nint x;\n"""\n\n# %%\n#| into: k.cu\nr"""\nint y;\n"""\n'
    )
    write(Book.load(root))
    edit(package(root, "k.cu"), "int y;", "int y;\nint z;")
    sync(root)
    assert check(Book.load(root)) == 0
    assert 'r"""\nint y;\nint z;\n"""' in chapter(root).read_text()


REFUSED = {
    "the header": ("# Tangled from", "# Made from", 1, "its first line was edited"),
    "blank lines between fragments": (
        "\n\n\ndef last",
        "\n\n\n\ndef last",
        0,
        "blank lines between fragments are set by tangle, and here it sets 2",
    ),
    "unsorted imports": ("import os\n", "import os\nimport math\n", 0, "imports are not laid out"),
    "a syntax error": ("return 9", "return = 9", 0, "syntax error"),
    "a line that looks like a cell": ("    return 9", "    return 9\n\n\n# %%\nx = 1", 0, "cannot be brought back"),
    "an import between functions": ("def last()", "import os\n\n\ndef last()", 0, "cannot be brought back"),
    "a relative import": ("import os\n", "import os\n\nfrom . import b\n", 0, "imports are not laid out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_come_back_is_refused_naming_both_places(root: Path, case: str) -> None:
    old, new, line, message = REFUSED[case]
    edited = edit(package(root), old, new)
    with pytest.raises(LiterateError, match=message) as caught:
        sync(root)
    problem = caught.value.problems[0]
    assert problem.path == "src/readtorch/a.py"
    assert "chapters/02_module.py" in problem.message
    assert problem.way_out
    assert not line or problem.line == line
    assert chapter(root).read_text() == CHAPTER
    assert package(root).read_text() == edited


FIRST, LAST = "def first() -> int:\n    return 1", "def last() -> int:\n    return 9"
MOVES = {
    "two functions swapped": (f"{FIRST}\n\n\n{LAST}", f"{LAST}\n\n\n{FIRST}", "last", "first"),
    "a function moved up": (f"{FIRST}\n\n\n{LAST}", f"{LAST}\n    # a note\n\n\n{FIRST}", "last", "first"),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_definition_moved_out_of_its_cell_is_refused_naming_both_places(root: Path, case: str) -> None:
    old, new, *names = MOVES[case]
    edited = edit(package(root), old, new)
    with pytest.raises(LiterateError, match=r"was moved here, out of its cell at chapters/02_module\.py:") as caught:
        sync(root)
    lines = CHAPTER.split("\n")
    for problem in caught.value.problems:
        name = problem.message.partition(" ")[0]
        assert name in names
        assert f"def {name.rpartition('.')[2]}(" in edited.split("\n")[problem.line - 1]
        place = problem.message.partition("out of its cell at chapters/02_module.py:")[2].partition(" ")[0]
        cell = "\n".join(lines[int(place) - 1 :]).partition("\n# %%")[0]
        assert f"def {name.rpartition('.')[2]}(" in cell
    assert chapter(root).read_text() == CHAPTER
    assert package(root).read_text() == edited


def test_methods_swapped_between_cells_are_refused(root: Path) -> None:
    second, third = (f"    def {n}(self) -> str:\n        return {n!r}" for n in ("second", "third"))
    reopened = "\n\n\n# %%\n#| into: a.py\nclass M(M):\n"
    text = f"{CHAPTER.rstrip()}{reopened}{second}{reopened}{third}\n"
    chapter(root).write_text(text)
    write(Book.load(root))
    edited = edit(package(root), f"{second}\n\n{third}", f"{third}\n\n{second}")
    with pytest.raises(LiterateError, match=r"M\.(second|third) was moved here, out of its cell at chapters"):
        sync(root)
    assert (chapter(root).read_text(), package(root).read_text()) == (text, edited)


def test_once_the_chapter_makes_the_same_move_both_sides_agree(root: Path) -> None:
    edit(package(root), f"{FIRST}\n\n\n{LAST}", f"{LAST}\n\n\n{FIRST}")
    with pytest.raises(LiterateError):
        sync(root)
    text = chapter(root).read_text()
    text = text.replace(FIRST, "?").replace(LAST, FIRST).replace("?", LAST)
    chapter(root).write_text(text)
    sync(root)
    assert check(Book.load(root)) == 0
    assert chapter(root).read_text() == text


def test_definitions_of_one_cell_may_change_places(root: Path) -> None:
    chapter(root).write_text(f"{HEAD}# %%\n#| into: a.py\n{FIRST}\n\n\n{LAST}\n")
    write(Book.load(root))
    edited = edit(package(root), f"{FIRST}\n\n\n{LAST}", f"{LAST}\n\n\n{FIRST}")
    sync(root)
    assert check(Book.load(root)) == 0
    assert package(root).read_text() == edited


def test_a_definition_that_its_cell_names_does_not_leave_it(root: Path) -> None:
    """Its cell keeps another, which alone would be no reason: text may be moved between cells that stay."""
    target = "torch/nn/modules/module.py#Module"
    head, middle = "# %%\n#| into: b.py\n", "\n\n\n# %%\n#| into: b.py\n"
    functions = [f"def f{k}() -> int:\n    return {k}" for k in range(4)]
    for named in (False, True):
        name = "Module" if named else "f1"
        code = [f.replace("f1", name) for f in functions]
        upstream = f"#| upstream: {target}\n" if named else ""
        first = head + upstream + "\n\n\n".join(code[:2])
        chapter(root).write_text(HEAD + first + middle + "\n\n\n".join(code[2:]) + "\n")
        write(Book.load(root), force={"a.py", "b.py"})
        edit(package(root, "b.py"), "\n\n\n".join(code), "\n\n\n".join([code[0], code[2], code[1], code[3]]))
        if named:
            with pytest.raises(LiterateError, match="Module was moved here"):
                sync(root)
        else:
            sync(root)
            assert check(Book.load(root)) == 0


def test_one_edit_that_cannot_come_back_holds_all_others(root: Path) -> None:
    chapter(root).write_text(CHAPTER + "\n\n# %%\n#| into: b.py\nx = 1\n")
    write(Book.load(root))
    before = chapter(root).read_text()
    edit(package(root), "return 9", "return 10")
    edit(package(root, "b.py"), "# Tangled", "# Mangled")
    with pytest.raises(LiterateError):
        sync(root)
    assert chapter(root).read_text() == before


def test_edits_on_both_sides_in_different_cells_are_merged(root: Path) -> None:
    edit(package(root), "return 9", "return 10")
    edit(chapter(root), "LIMIT = 3", "LIMIT = 4")
    sync(root)
    assert check(Book.load(root)) == 0
    assert "LIMIT = 4" in package(root).read_text()
    assert "return 10" in package(root).read_text()


def test_edits_on_both_sides_of_one_cell_are_refused(root: Path) -> None:
    edited = edit(package(root), "def last() -> int:\n", "def last() -> int:\n    # from the file\n")
    changed = edit(chapter(root), "    return 9", "    return 10")
    with pytest.raises(LiterateError) as caught:
        sync(root)
    assert "chapters/02_module.py" in str(caught.value)
    assert "src/readtorch/a.py:" in str(caught.value)
    assert package(root).read_text() == edited
    assert chapter(root).read_text() == changed


def test_the_same_edit_on_both_sides_is_no_conflict(root: Path) -> None:
    edit(package(root), "return 9", "return 10")
    edit(chapter(root), "return 9", "return 10")
    sync(root)
    assert check(Book.load(root)) == 0


def test_an_edit_of_the_chapter_alone_is_tangled_by_sync(root: Path) -> None:
    edit(chapter(root), "return 9", "return 10")
    sync(root)
    assert "return 10" in package(root).read_text()


def test_tangle_does_not_overwrite_an_edit_of_the_package(root: Path) -> None:
    edited = edit(package(root), "return 9", "return 10")
    with pytest.raises(LiterateError, match=r"(?s)was edited here.*readtorch sync") as caught:
        write(Book.load(root))
    assert caught.value.problems[0].line == edited.splitlines().index("    return 10") + 1
    assert package(root).read_text() == edited
    write(Book.load(root), force={"a.py"})
    assert check(Book.load(root)) == 0


# -- what the two sides last agreed on -------------------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def clone(root: Path) -> Path:
    """The same book as a fresh clone: committed, and no cache."""
    (root / ".gitignore").write_text(".cache/\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    git(root, "clean", "-qfdX")
    assert not (root / ".cache").exists()
    return root


def test_on_a_fresh_clone_git_tells_which_side_was_edited(clone: Path) -> None:
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    assert "return 10" in package(clone).read_text()
    git(clone, "checkout", "-q", ".")
    git(clone, "clean", "-qfdX")
    edit(package(clone), "return 9", "return 11")
    with pytest.raises(LiterateError):
        write(Book.load(clone))
    sync(clone)
    assert "return 11" in chapter(clone).read_text()


def test_on_a_fresh_clone_edits_of_both_sides_are_merged_or_refused(clone: Path) -> None:
    edit(package(clone), "return 9", "return 10")
    edit(chapter(clone), "LIMIT = 3", "LIMIT = 4")
    sync(clone)
    assert check(Book.load(clone)) == 0
    git(clone, "clean", "-qfdX")
    git(clone, "commit", "-qam", "two")
    edit(package(clone), "return 10", "return 11")
    edit(chapter(clone), "return 10", "return 12")
    with pytest.raises(LiterateError):
        sync(clone)


def test_an_uncommitted_tangle_counts_as_agreed(clone: Path) -> None:
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    edit(package(clone), "    return 10", "    x = 10\n    return x")
    sync(clone)
    assert "    x = 10\n    return x" in chapter(clone).read_text()


def both(root: Path) -> tuple[str, str]:
    return chapter(root).read_text(), package(root).read_text()


@pytest.mark.parametrize("side", ["chapters", "src"])
def test_after_git_checkout_of_one_side_sync_does_not_guess(clone: Path, side: str) -> None:
    """The other side has the only copy of what was written since; or it is what the author wants to be rid of."""
    edit(package(clone), "return 9", "return 10")
    sync(clone)
    git(clone, "checkout", "-q", side)
    before = both(clone)
    with pytest.raises(LiterateError, match="went back to the last commit") as caught:
        sync(clone)
    assert both(clone) == before
    assert f"src/readtorch/a.py:{package(clone).read_text().splitlines().index('def last() -> int:') + 2}" in str(
        caught.value
    )
    assert "`readtorch tangle --force src/readtorch/a.py`" in str(caught.value)
    sync_book(Book.load(clone), force={"a.py"})
    assert both(clone)[0].count(before[1].splitlines()[-1]) == 1
    assert both(clone)[1] == before[1]


def test_after_git_checkout_of_one_side_tangle_takes_the_chapters(clone: Path) -> None:
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    git(clone, "checkout", "-q", "chapters")
    write(Book.load(clone))
    assert "return 9" in package(clone).read_text()
    edit(chapter(clone), "return 9", "return 10")
    git(clone, "checkout", "-q", "src")
    write(Book.load(clone))
    assert "return 10" in package(clone).read_text()


def test_after_git_checkout_of_the_chapter_and_more_edits_of_it_sync_does_not_guess(clone: Path) -> None:
    edit(package(clone), "    return 9", "    # long\n    # thought\n    # about\n    return 9")
    sync(clone)
    git(clone, "checkout", "-q", "chapters")
    edit(chapter(clone), "LIMIT = 3", "LIMIT = 4")
    before = both(clone)
    with pytest.raises(LiterateError, match="went back to the last commit"):
        sync(clone)
    assert both(clone) == before


def test_after_git_checkout_of_the_chapter_edits_of_the_file_come_back(clone: Path) -> None:
    edit(chapter(clone), "LIMIT = 3", "LIMIT = 4")
    write(Book.load(clone))
    edit(package(clone), "return 9", "return 10")
    git(clone, "checkout", "-q", "chapters")
    sync(clone)
    assert "LIMIT = 4" in chapter(clone).read_text()
    assert "return 10" in chapter(clone).read_text()


def test_after_a_change_of_branch_the_copy_of_the_other_branch_is_no_witness(clone: Path) -> None:
    """The file is edited to what it happens to be on the other branch: an edit of the file, not of the chapter."""
    git(clone, "branch", "other")
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    git(clone, "commit", "-qam", "ten")
    git(clone, "checkout", "-q", "other")
    edit(package(clone), "return 9", "return 10")
    sync(clone)
    assert "return 10" in chapter(clone).read_text()


def test_after_a_change_of_branch_edits_of_both_sides_in_one_cell_are_refused(clone: Path) -> None:
    git(clone, "branch", "other")
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    git(clone, "commit", "-qam", "ten")
    git(clone, "checkout", "-q", "other")
    edit(package(clone), "return 9", "return 11")
    edit(chapter(clone), "return 9", "return 10")
    before = both(clone)
    for refuse in (sync_book, write):
        with pytest.raises(LiterateError, match="was edited"):
            refuse(Book.load(clone))
        assert both(clone) == before


def test_after_git_stash_the_copy_is_no_witness(clone: Path) -> None:
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    git(clone, "stash", "-q")
    edit(package(clone), "return 9", "return 10")
    sync(clone)
    assert "return 10" in chapter(clone).read_text()


def test_the_copy_is_a_witness_in_a_linked_work_tree(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    linked = tmp_path_factory.mktemp("linked") / "tree"
    git(clone, "worktree", "add", "-q", "-b", "more", str(linked))
    edit(chapter(linked), "return 9", "return 10")
    write(Book.load(linked))
    edit(package(linked), "    return 10", "    x = 10\n    return x")
    sync(linked)
    assert "    x = 10\n    return x" in chapter(linked).read_text()


def test_after_a_checkout_head_is_believed(clone: Path) -> None:
    write(Book.load(clone))
    git(clone, "checkout", "-qb", "other")
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    git(clone, "commit", "-qam", "ten")
    git(clone, "checkout", "-q", "main")
    edit(package(clone), "return 9", "return 11")
    sync(clone)
    assert "return 11" in chapter(clone).read_text()


def test_after_a_commit_of_some_edits_the_rest_still_counts_as_agreed(clone: Path) -> None:
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    (clone / "unrelated").write_text("x")
    git(clone, "add", "unrelated")
    git(clone, "commit", "-qm", "something else")
    edit(package(clone), "    return 10", "    x = 10\n    return x")
    sync(clone)
    assert "    x = 10\n    return x" in chapter(clone).read_text()


def test_conflict_marks_of_a_merge_are_overwritten_by_tangle(clone: Path) -> None:
    git(clone, "checkout", "-qb", "other")
    edit(chapter(clone), "return 9", "return 10")
    write(Book.load(clone))
    git(clone, "commit", "-qam", "ten")
    git(clone, "checkout", "-q", "main")
    edit(chapter(clone), "return 9", "return 11")
    write(Book.load(clone))
    git(clone, "commit", "-qam", "eleven")
    subprocess.run(["git", "merge", "-q", "other"], cwd=clone, check=False, capture_output=True)
    assert "<<<<<<<" in package(clone).read_text()
    chapter(clone).write_text(CHAPTER.replace("return 9", "return 12"))
    write(Book.load(clone))
    assert "return 12" in package(clone).read_text()


def test_without_git_and_cache_nothing_is_overwritten(root: Path) -> None:
    import shutil

    shutil.rmtree(root / ".cache")
    edit(package(root), "return 9", "return 10")
    assert Agreed(root).edited("a.py", "x", "y") == (Edited.UNKNOWN, None)
    for refuse in (write, sync_book):
        with pytest.raises(LiterateError) as caught:
            refuse(Book.load(root))
        assert "--force src/readtorch/a.py" in str(caught.value)
    sync_book(Book.load(root), force={"a.py"})
    assert "return 10" in chapter(root).read_text()


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.data())
def test_edits_of_both_sides_are_merged_unless_they_are_in_one_cell(count: int, data: st.DataObject) -> None:
    text = HEAD + "\n\n".join(f"# %%\n#| into: a.py\ndef f{k}() -> int:\n    return {k}\n" for k in range(count))
    in_chapter = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    in_package = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        books.Drawn({"02_module": text}).write(root)
        write(Book.load(root))
        for k in in_chapter:
            edit(chapter(root), f"    return {k}\n", f"    # in the chapter\n    return {k}\n")
        for k in in_package:
            edit(package(root), f"    return {k}\n", f"    return {k} + 0\n")
        before = chapter(root).read_text(), package(root).read_text()
        if in_chapter & in_package:
            with pytest.raises(LiterateError, match=r"chapters/02_module\.py") as caught:
                sync(root)
            assert "src/readtorch/a.py:" in str(caught.value)
            assert (chapter(root).read_text(), package(root).read_text()) == before
            return
        sync(root)
        assert check(Book.load(root)) == 0
        for k in range(count):
            assert (f"    # in the chapter\n    return {k}" in package(root).read_text()) == (k in in_chapter)
            assert (f"    return {k} + 0\n" in chapter(root).read_text()) == (k in in_package)


# -- the property ----------------------------------------------------------------------------------------------------


LINES = st.sampled_from(
    [
        "    pass",
        "x = 1",
        "",
        "    # a comment",
        "# a comment",
        "        return 7",
        "def fresh() -> int:\n    return 1",
        "\n\ndef fresh2() -> int:\n    return 1\n\n",
        "\n    def fresh3(self) -> int:\n        return 1\n",
        "@staticmethod",
        "import sys",
    ]
)


@st.composite
def edited_texts(draw: st.DrawFn, text: str) -> str:
    """A text after some edits: lines taken out, put in, changed, as an editor would leave them."""
    lines = text.split("\n")[:-1]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(1, max(len(lines), 1)))
        kind = draw(st.sampled_from(["insert", "insert", "delete", "change", "change"]))
        if kind == "insert" or at >= len(lines):
            lines[at:at] = draw(LINES).split("\n")
        elif kind == "delete":
            del lines[at : at + draw(st.integers(1, 4))]
        else:
            lines[at] = lines[at] + draw(st.sampled_from(["  # changed", "0", ""]))
    return "\n".join(lines) + "\n"


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_edit_comes_back_exactly_or_is_refused_naming_both_places(data: st.DataObject) -> None:
    """tangle(sync(c, edit(tangle(c)))) == edit(tangle(c)), whatever the edit."""
    book = data.draw(books.books()).book()
    files = tangle(book)
    if files:
        path = data.draw(st.sampled_from(sorted(files)))
        comes_back_or_is_refused(book, path, data.draw(edited_texts(files[path].text)))


RIGHTLY_REFUSED = (
    "at: nothing called",  # the name after which another cell stands was renamed or taken out
    "no earlier cell opens it",  # the same with the opening of a class
    "blank lines between fragments",  # a function taken out between two statements leaves two blank lines
)


def comes_back_or_is_refused(book: Book, path: str, target: str) -> bool:
    files = tangle(book)
    refusal = None
    try:
        rewrite = bring_back(files[path], target, tangled_cells(book))
    except LiterateError as error:
        refusal = error
    if refusal is not None:
        assert all(p.path == f"src/readtorch/{path}" and "chapters/" in p.message for p in refusal.problems)
        return any(right in str(refusal) for right in RIGHTLY_REFUSED)
    again = tangle(rewritten(book, rewrite))
    # Only which chapters the header names may differ: one may have lost all that it contributed.
    assert again[path].text.split("\n")[1:] == target.split("\n")[1:]
    assert {p: f.text for p, f in again.items() if p != path} == {p: f.text for p, f in files.items() if p != path}
    return True


@st.composite
def programming(draw: st.DrawFn, text: str) -> str:
    """A text after what a programmer does to it: functions, methods, statements, imports come, change and go."""
    for number in range(draw(st.integers(1, 3))):
        lines = text.split("\n")
        tree = ast.parse(text)
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        kind = draw(
            st.sampled_from(["body", "body", "sibling", "sibling", "delete", "comment", "import", "end", "rename"])
        )
        if kind == "end" or not nodes:
            lines += [f"def at_end{number}() -> None:", "    print()", ""]
        elif kind == "import":
            new = draw(st.sampled_from(["import sys", "from typing import cast", "from readtorch.c10 import core"]))
            lines.insert(_below_docstring(tree), "\n" + new)
        else:
            node = draw(st.sampled_from(nodes))
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            stop = node.end_lineno or 0
            space = " " * node.col_offset
            first = node.body[0]
            if kind == "body":
                at = draw(st.sampled_from([first.lineno - 1, stop]))
                new = " " * first.col_offset + draw(st.sampled_from([f"fresh{number} = 1", "# a comment"]))
                if not (at == first.lineno - 1 and isinstance(first, ast.FunctionDef) and first.decorator_list):
                    lines.insert(at, new)
            elif kind == "sibling":
                arguments = "self" if space else ""
                new = [f"{space}def fresh{number}({arguments}) -> None:", f"{space}    print({number})", ""]
                at = draw(st.sampled_from([start, stop]))
                lines[at:at] = new
            elif kind == "comment":
                lines.insert(start, f"{space}# About it.")
            elif kind == "rename":
                lines[node.lineno - 1] = lines[node.lineno - 1].replace(node.name, f"renamed{number}", 1)
            elif len(nodes) > 1 and "if " not in lines[start - 1] and "if " not in lines[max(start - 2, 0)]:
                del lines[start:stop]
        text = _ruff("\n".join(lines))
    return text


def _below_docstring(tree: ast.Module) -> int:
    first = tree.body[0] if tree.body else None
    return (first.end_lineno or 1) if is_docstring(first) and first is not None else 1


def _ruff(text: str) -> str:
    """As an editor that formats on save leaves it."""
    for arguments in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        command = [RUFF, *arguments, "--isolated", "--line-length", "120", "--stdin-filename", "x.py", "-"]
        if arguments[0] == "check":
            command[4:4] = ["--config", 'lint.isort.known-first-party=["readtorch"]']
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        text = done.stdout
    return text


RUFF = str(Path(sys.executable).with_name("ruff"))
OUTCOMES = {True: 0, False: 0}


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_a_programmer_does_comes_back(data: st.DataObject) -> None:
    book = data.draw(books.books()).book()
    paths = sorted(p for p in tangle(book) if p.endswith(".py") and not p.endswith("__init__.py"))
    if paths:
        path = data.draw(st.sampled_from(paths))
        before = tangle(book)[path].text
        target = data.draw(programming(before))
        try:
            ast.parse(target)
        except SyntaxError:
            return
        if target != before:
            OUTCOMES[comes_back_or_is_refused(book, path, target)] += 1


def test_nearly_all_of_what_a_programmer_does_is_accepted() -> None:
    """Guards the two properties above, which a sync that refuses everything would fulfil."""
    tried = sum(OUTCOMES.values())
    if tried > 50:
        assert OUTCOMES[True] >= 0.9 * tried, OUTCOMES
