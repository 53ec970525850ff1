"""The command line, run as people run it."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import books
import pytest

from readtorch.literate import cli
from readtorch.literate.chapter import Book

REPOSITORY = Path(__file__).resolve().parents[2]
CHAPTER = (
    books.HEADER
    + "# %%\n#| into: a.py\ndef f() -> int:\n    return 1\n\n\n# %%\n#| into: a.py\ndef g() -> int:\n    return 2\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one small chapter, with the tools of this one."""
    (tmp_path / "src/readtorch/literate").mkdir(parents=True)
    for file in (REPOSITORY / "src/readtorch/literate").glob("*.py"):
        shutil.copy(file, tmp_path / "src/readtorch/literate")
    shutil.copy(REPOSITORY / "src/readtorch_cli.py", tmp_path / "src")
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters/02_module.py").write_text(CHAPTER)
    assert run(tmp_path, "tangle").returncode == 0
    return tmp_path


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "src/readtorch_cli.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=checkout)


def test_without_arguments_it_says_what_one_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    for name, (_, summary) in cli.COMMANDS.items():
        assert name in shown
        assert summary in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("readtorch 0.")


def test_an_unknown_command_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tangel"]) == 2
    assert "did you mean `readtorch tangle`?" in capsys.readouterr().err


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module, _, prefix = cli.COMMANDS[name][0].partition(":")
    loaded = importlib.import_module(module)
    prefix = f"{prefix}_" if prefix else ""
    assert callable(getattr(loaded, f"{prefix}add_arguments"))
    assert callable(getattr(loaded, f"{prefix}run"))
    with pytest.raises(SystemExit) as stopped:
        cli.main([name, "--help"])
    assert stopped.value.code == 0
    assert f"usage: readtorch {name}" in capsys.readouterr().out


def test_the_command_line_imports_only_what_a_command_needs() -> None:
    code = (
        "import sys; sys.argv = ['readtorch', 'tangle', '--check']; import readtorch_cli, os; "
        "os._exit = lambda status: print(status, sorted({m.split('.')[0] for m in sys.modules} & "
        "{'numpy', 'jupytext', 'IPython', 'matplotlib', 'typing', 'subprocess'}), "
        "[m for m in sys.modules if m.startswith('readtorch.') and not m.startswith('readtorch.literate')]); "
        "readtorch_cli.main()"
    )
    for agreed in (False, True):  # the first run may have to compare; then it is known that nothing has changed
        done = subprocess.run(
            [sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=REPOSITORY / "src", check=False
        )
        assert done.stdout == "0 [] []\n" or (not agreed and done.stdout == "0 ['typing'] []\n"), (
            done.stdout + done.stderr
        )


def test_one_changed_character_in_the_package_fails_the_check_and_names_its_place(checkout: Path) -> None:
    file = checkout / "src/readtorch/a.py"
    file.write_text(file.read_text().replace("return 2", "return 3"))
    done = run(checkout, "tangle", "--check")
    assert done.returncode == 1
    assert "chapters/02_module.py:16: differs from src/readtorch/a.py" in done.stdout
    assert "-    return 2\n+    return 3\n" in done.stdout
    assert "readtorch sync" in done.stderr
    assert run(checkout, "sync").returncode == 0
    assert run(checkout, "tangle", "--check").returncode == 0
    assert "return 3" in (checkout / "chapters/02_module.py").read_text()


def test_one_changed_character_in_a_chapter_fails_the_check_and_names_its_place(checkout: Path) -> None:
    chapter = checkout / "chapters/02_module.py"
    chapter.write_text(CHAPTER.replace("return 2", "return 3"))
    done = run(checkout, "tangle", "--check")
    assert done.returncode == 1
    assert "chapters/02_module.py:16: differs" in done.stdout
    assert run(checkout, "tangle").returncode == 0
    assert run(checkout, "tangle", "--check").returncode == 0


def test_an_edit_on_both_sides_of_one_cell_is_refused_and_nothing_is_written(checkout: Path) -> None:
    chapter, file = checkout / "chapters/02_module.py", checkout / "src/readtorch/a.py"
    chapter.write_text(CHAPTER.replace("return 2", "return 3"))
    file.write_text(file.read_text().replace("return 2", "return 4"))
    before = chapter.read_text(), file.read_text()
    for command in ("sync", "tangle"):
        done = run(checkout, command)
        assert done.returncode == 1
        assert "chapters/02_module.py:16" in done.stderr
        assert "src/readtorch/a.py:9" in done.stderr
        assert (chapter.read_text(), file.read_text()) == before
        assert "`readtorch sync`" not in done.stderr, "which refuses too"
        assert "`readtorch tangle --force src/readtorch/a.py`" in done.stderr
        assert "`readtorch sync --force src/readtorch/a.py`" in done.stderr
    assert run(checkout, "sync", "--force", "src/readtorch/a.py").returncode == 0
    assert "return 4" in chapter.read_text()
    chapter.write_text(CHAPTER.replace("return 2", "return 5"))
    file.write_text(file.read_text().replace("return 4", "return 6"))
    assert run(checkout, "tangle", "--force", "src/readtorch/b.py").returncode == 1, "of another file"
    assert run(checkout, "tangle", "--force", "src/readtorch/a.py").returncode == 0
    assert "return 5" in file.read_text()


def test_files_that_do_not_change_are_not_written(checkout: Path) -> None:
    chapter, file = checkout / "chapters/02_module.py", checkout / "src/readtorch/a.py"
    stamp = file.stat().st_mtime_ns
    chapter.write_text(CHAPTER + "\n\n# %%\n#| into: b.py\nx = 1\n")
    done = run(checkout, "tangle")
    assert done.stdout == "wrote   src/readtorch/b.py\n"
    assert file.stat().st_mtime_ns == stamp


def test_orphans_are_reported_then_deleted_and_other_files_left_alone(checkout: Path) -> None:
    (checkout / "chapters/02_module.py").write_text(CHAPTER.replace("a.py", "b.py"))
    (checkout / "src/readtorch/mine.py").write_text("x = 1\n")
    done = run(checkout, "tangle", "--check")
    assert done.returncode == 1
    assert "src/readtorch/a.py: no cell goes into this file any more" in done.stdout
    assert run(checkout, "tangle").returncode == 0
    assert not (checkout / "src/readtorch/a.py").exists()
    assert (checkout / "src/readtorch/mine.py").exists()
    assert (checkout / "src/readtorch/literate/tangle.py").exists()


STRAY = "is written by no chapter; move it into one, or delete it"


def test_check_names_a_file_that_no_chapter_writes(checkout: Path) -> None:
    (checkout / "src/readtorch/mine.py").write_text("x = 1\n")
    for _ in range(2):
        done = run(checkout, "tangle", "--check")
        assert done.returncode == 1
        assert done.stdout == f"src/readtorch/mine.py: {STRAY}\n"
    (checkout / "src/readtorch/mine.py").unlink()
    assert run(checkout, "tangle", "--check").returncode == 0


def test_sync_and_tangle_name_a_file_that_no_chapter_writes(checkout: Path) -> None:
    assert run(checkout, "tangle").returncode == 0
    new = checkout / "src" / "readtorch" / "nn" / "modules" / "brand.py"
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text("x = 1\n")
    for _ in range(2):
        for command, status in (("sync", 1), ("tangle", 0)):
            done = run(checkout, command)
            assert done.returncode == status, command
            assert f"src/readtorch/nn/modules/brand.py: {STRAY}" in done.stderr
            assert "#| into: nn/modules/brand.py" in done.stderr
            assert "agree" not in done.stdout
    dry = run(checkout, "sync", "--dry-run")
    assert (dry.returncode, STRAY in dry.stderr) == (1, True)
    new.unlink()
    assert "chapters and package agree" in run(checkout, "sync").stdout


@pytest.mark.parametrize("command", ["tangle", "sync"])
def test_force_names_a_file_of_the_package(checkout: Path, command: str) -> None:
    for _ in range(2):  # a tangle with nothing to do ends early
        assert run(checkout, "tangle").returncode == 0
        done = run(checkout, command, "--force", "nope/a.py", "src/readtorch/nope.py")
        assert done.returncode == 1
        assert "nope/a.py: --force: is no file of the package\n    did you mean src/readtorch/a.py?" in done.stderr
        assert "src/readtorch/nope.py: --force: is no file" in done.stderr
    for name in ("a.py", "src/readtorch/a.py", str(checkout / "src/readtorch/a.py")):
        assert run(checkout, command, "--force", name).returncode == 0


def test_a_reference_that_does_not_resolve_stops_tangle(checkout: Path) -> None:
    shutil.copytree(REPOSITORY / "src/readtorch/literate/data", checkout / "src/readtorch/literate/data")
    good = "#| upstream: torch/nn/modules/module.py#Module.register_buffer\n"
    chapter, file = checkout / "chapters/02_module.py", checkout / "src/readtorch/a.py"
    chapter.write_text(CHAPTER.replace("def f", f"{good}def f").replace("return 2", "return 3"))
    assert run(checkout, "tangle").returncode == 0
    chapter.write_text(chapter.read_text().replace("register_buffer", "register_bufer").replace("return 3", "return 4"))
    before = file.read_text()
    for command in (["tangle"], ["tangle", "--check"], ["tangle"]):
        done = run(checkout, *command)
        assert done.returncode == 1
        assert (
            "chapters/02_module.py:9: upstream: torch/nn/modules/module.py of PyTorch 2.13.0 has no" in done.stderr
        ), done.stderr
        assert "did you mean torch/nn/modules/module.py#Module.register_buffer" in done.stderr
        assert file.read_text() == before
    chapter.write_text(chapter.read_text().replace("return 4", "return = 4"))
    done = run(checkout, "tangle")
    assert "chapters/02_module.py:9: upstream: " in done.stderr, "beside a syntax error"
    assert "chapters/02_module.py:17: syntax error" in done.stderr


FAULTY = (
    books.HEADER
    + """\
# %%
#| onto: a.py
#| imports
import os

# %%
#| into: b.py
class B:
    \"\"\"A class.\"\"\"

    def one(self) -> int:
        return 1

# %%
#| into: b.py
class B(B):
    def one(self) -> int:
        return 2

# %%
#| into: b.py
class C(C):
    def two(self) -> int:
        return os

# %%
#| into: a.py
class D:
    def broken(self) -> int
        return 1

# %%
#| into: a.py
class D(D):
    def two(self) -> int:
        return 1

# %%
#| into: a.py
#| at: after broken
def late() -> int:
    from . import x

# %%
#| exercize: double
def double(x: int) -> int:
    raise NotImplementedError

# %%
#| solution: double
def double(x: int) -> int:
    return 2 * x

# %%
#| into: c.py
import sys
import sys as system

# %%
#| into: c.py
def one() -> None: ...

# %%
#| into: c.py
def one() -> None: ...
"""
)


def test_independent_faults_are_listed_together_and_none_that_only_follows(checkout: Path) -> None:
    (checkout / "chapters/02_module.py").write_text(FAULTY)
    done = run(checkout, "tangle")
    faults = [line for line in done.stderr.splitlines() if line.startswith("chapters/")]
    assert [line.partition(": ")[::2] for line in faults] == [
        ("chapters/02_module.py:8", "unknown directive 'onto'"),
        ("chapters/02_module.py:23", "B.one is defined a second time in b.py (first at chapters/02_module.py:17)"),
        ("chapters/02_module.py:35", "syntax error: expected ':'"),
        ("chapters/02_module.py:48", "a relative import does not run in a notebook"),
        ("chapters/02_module.py:51", "unknown directive 'exercize'"),
        ("chapters/02_module.py:62", "an import in the middle of a module"),
        ("chapters/02_module.py:63", "an import in the middle of a module"),
        ("chapters/02_module.py:71", "one is defined a second time in c.py (first at chapters/02_module.py:67)"),
    ]


@pytest.mark.parametrize("text", ["", "\n\n", books.HEADER])
def test_an_emptied_part_is_named_and_not_those_that_build_on_it(checkout: Path, text: str) -> None:
    first, later = checkout / "chapters/00_tensor.py", checkout / "chapters/03_norm.py"
    first.write_text(books.HEADER + "# %%\n#| into: m.py\nclass M:\n    x = 1\n")
    later.write_text(books.HEADER + "# %%\n#| into: m.py\nclass M(M):\n    def f(self) -> int:\n        return 1\n")
    assert run(checkout, "tangle").returncode == 0
    first.write_text(text)
    for command in ("tangle", "sync"):
        done = run(checkout, command)
        assert done.returncode == 1
        assert done.stderr.startswith("chapters/00_tensor.py: the part is empty: it has no cell\n"), done.stderr
        assert "03_norm" not in done.stderr


def test_the_name_of_a_part_is_one_that_an_address_can_hold(checkout: Path) -> None:
    folder = checkout / "chapters/03_norm"
    folder.mkdir()
    for name in ("1_good.py", "zz new.py", "été.py"):
        (folder / name).write_text(books.HEADER + "# %%\n1 + 1\n")
    done = run(checkout, "tangle")
    assert done.returncode == 1
    for name in ("zz new.py", "été.py"):
        assert f"chapters/03_norm/{name}: a part's name is part of addresses\n    name it with letters" in done.stderr
    assert "1_good" not in done.stderr


def test_an_edited_orphan_is_not_deleted(checkout: Path) -> None:
    file = checkout / "src/readtorch/a.py"
    file.write_text(file.read_text() + "more = 1\n")
    (checkout / "chapters/02_module.py").write_text(CHAPTER.replace("a.py", "b.py"))
    done = run(checkout, "tangle")
    assert done.returncode == 1
    assert "was edited, and no cell goes into it any more" in done.stderr
    assert file.exists()
    assert not (checkout / "src/readtorch/b.py").exists()


def test_faults_of_several_chapters_are_listed_together_and_nothing_is_written(checkout: Path) -> None:
    (checkout / "chapters/02_module.py").write_text(
        CHAPTER.replace("#| into", "#| onto", 1).replace("return 2", "return = 2")
    )
    (checkout / "chapters/03_norm.py").write_text(books.HEADER + "# %%\n#| into: ../evil.py\nx = 1\n")
    (checkout / "chapters/99_nothing.py").write_text("")
    before = (checkout / "src/readtorch/a.py").read_text()
    for command in (["tangle"], ["tangle", "--check"], ["sync"], ["coverage"]):
        done = run(checkout, *command)
        assert done.returncode == 1
        assert "chapters/99_nothing.py: is no chapter" in done.stderr
    (checkout / "chapters/99_nothing.py").unlink()
    for command in (["tangle"], ["tangle", "--check"], ["sync"], ["coverage"]):
        done = run(checkout, *command)
        assert done.returncode == 1
        assert "chapters/02_module.py:8: unknown directive 'onto'" in done.stderr
        assert "chapters/02_module.py:16: syntax error" in done.stderr
        assert "chapters/03_norm.py:8: into: needs a path below src/readtorch/" in done.stderr
        assert "Traceback" not in done.stderr
    assert (checkout / "src/readtorch/a.py").read_text() == before


def test_the_tools_work_when_the_package_cannot_be_imported(checkout: Path) -> None:
    (checkout / "src/readtorch/__init__.py").write_text("<<<<<<< HEAD\n")
    done = run(checkout, "tangle", "--check")
    assert (done.stdout, done.stderr) == (f"src/readtorch/__init__.py: {STRAY}\n", "")
    (checkout / "chapters/02_module.py").write_text(CHAPTER.replace("return 2", "return 3"))
    assert run(checkout, "tangle").stdout == "wrote   src/readtorch/a.py\n"


def test_what_did_not_change_since_the_last_check_is_not_tangled_again(checkout: Path) -> None:
    assert run(checkout, "tangle").stdout == "everything is up to date\n"
    file = checkout / "src/readtorch/a.py"
    stamp = file.stat()
    file.write_text(file.read_text().replace("return 2", "return 3"))
    import os

    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert run(checkout, "tangle", "--check").returncode == 1, "a change of content counts, whatever the clock says"
    (checkout / ".cache/readtorch/checked").write_text("nonsense")
    file.write_text(file.read_text().replace("return 3", "return 2"))
    assert run(checkout, "tangle", "--check").returncode == 0


def test_a_tangle_with_nothing_to_do_still_leaves_the_copy_that_sync_needs(checkout: Path) -> None:
    shutil.rmtree(checkout / ".cache")
    assert run(checkout, "tangle", "--check").returncode == 0
    assert run(checkout, "tangle").returncode == 0
    file = checkout / "src/readtorch/a.py"
    file.write_text(file.read_text().replace("return 2", "return 3"))
    assert run(checkout, "sync").returncode == 0
    assert "return 3" in (checkout / "chapters/02_module.py").read_text()


def test_sync_dry_run_shows_the_edit_and_writes_nothing(checkout: Path) -> None:
    file = checkout / "src/readtorch/a.py"
    file.write_text(file.read_text().replace("return 2", "return 3"))
    done = run(checkout, "sync", "--dry-run")
    assert done.returncode == 0
    assert "+    return 3" in done.stdout
    assert (checkout / "chapters/02_module.py").read_text() == CHAPTER


def test_coverage_names_files_that_no_chapter_writes(checkout: Path) -> None:
    done = run(checkout, "coverage", "--files")
    assert done.returncode == 0
    assert "every line of the package is shown" in done.stdout
    assert "a.py  (02_module)" in done.stdout
    (checkout / "src/readtorch/mine.py").write_text("x = 1\n")
    done = run(checkout, "coverage")
    assert done.returncode == 1
    assert "src/readtorch/mine.py: is written by no chapter" in done.stdout


def test_the_book_of_this_checkout_is_tangled_and_covered() -> None:
    assert cli.main(["tangle", "--check"]) == 0
    assert cli.main(["coverage"]) == 0


def test_parts_of_a_folder_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("10_b", "2_a", "1_c"):
        file = tmp_path / "chapters/02_module" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(books.HEADER + "# %%\n1\n")
    assert [p.name for p in Book.load(tmp_path).parts] == ["02_module/1_c", "02_module/2_a", "02_module/10_b"]


@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_arguments_that_need_no_parser_are_what_it_makes_of_them(arguments: tuple[str, ...]) -> None:
    from readtorch.literate import cli, tangle_command

    assert vars(cli.parsed("tangle", list(arguments))) == tangle_command.KNOWN[arguments]
