"""What makes a part run again, and what does not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from small_books import SmallBook, texts

from readtorch.literate import cache
from readtorch.literate.execute import PartResult


@pytest.fixture
def small(tmp_path: Path) -> SmallBook:
    small = SmallBook(tmp_path)
    small.module("nn/__init__.py", "")
    small.module("nn/used.py", "value = 1\n")
    small.module("nn/unused.py", "value = 1\n")
    (tmp_path / "chapters" / "data").mkdir()
    write(small)
    return small


def write(small: SmallBook, *, prose: str = "Some prose.", code: str = "", tail: str = "") -> None:
    """A part that counts its own runs in a file outside of the book."""
    small.chapter(
        f"""
# %% [markdown]
# # Title
# {prose}

# %%
from readtorch.nn import used
count = open({str(small.root / "count")!r}, "a").write("x")
used.value{code}
{tail}"""
    )


def runs(small: SmallBook) -> int:
    file = small.root / "count"
    return len(file.read_text()) if file.exists() else 0


def run(small: SmallBook, **options: object) -> PartResult:
    return small.run(cached=True, **options)


def test_the_second_run_comes_from_the_cache_with_the_same_outputs(small: SmallBook) -> None:
    first, second = run(small), run(small)
    assert runs(small) == 1
    assert (first.cached, second.cached) == (False, True)
    assert first.cells == second.cells
    assert first.digest == second.digest != ""


@pytest.mark.parametrize(
    "tail", ["\n# %% [markdown]\n# More prose.\n", "\n# %%\n#| claim: one is one\ndef _(torch):\n    assert 1\n"]
)
def test_prose_and_claims_run_nothing_again(small: SmallBook, tail: str) -> None:
    run(small)
    write(small, prose="Other prose,\n# on more lines.", tail=tail)
    assert run(small).cached
    assert runs(small) == 1


def test_links_and_sentences_run_nothing_again(small: SmallBook) -> None:
    run(small)
    file = small.root / "chapters" / "02_module.py"
    text = file.read_text()
    file.write_text(
        text.replace("from readtorch", "#| id: name\n#| upstream: torch/nn/modules/module.py#Module\nfrom readtorch")
    )
    assert run(small).cached


def test_changed_code_runs_again(small: SmallBook) -> None:
    run(small)
    write(small, code=" + 1")
    assert texts(run(small)) == ["2"]
    assert runs(small) == 2


def test_a_changed_module_that_the_part_had_loaded_makes_it_run_again(small: SmallBook) -> None:
    run(small)
    small.module("nn/used.py", "value = 7\n")
    assert texts(run(small)) == ["7"]


def test_a_changed_module_that_it_had_not_loaded_does_not(small: SmallBook) -> None:
    run(small)
    small.module("nn/unused.py", "value = 7\n")
    assert run(small).cached


def test_going_back_to_an_earlier_package_finds_its_results(small: SmallBook) -> None:
    run(small)
    small.module("nn/used.py", "value = 7\n")
    run(small)
    small.module("nn/used.py", "value = 1\n")
    result = run(small)
    assert result.cached
    assert texts(result) == ["1"]


def test_changed_data_files_make_it_run_again(small: SmallBook) -> None:
    run(small)
    (small.root / "chapters" / "data" / "digits.csv").write_text("1,2\n")
    assert not run(small).cached


def test_another_executor_or_library_version_makes_it_run_again(
    small: SmallBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(small)
    versions = cache.versions()
    monkeypatch.setattr("readtorch.literate.execute.versions", lambda device: {**versions, "numpy": "0.0"})
    assert not run(small).cached
    monkeypatch.setattr("readtorch.literate.execute.versions", lambda device: versions)
    monkeypatch.setattr("readtorch.literate.execute.EXECUTOR", -1)
    assert not run(small).cached


def test_another_recorder_makes_a_part_with_traces_run_again_and_no_other(
    small: SmallBook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorder = tmp_path / "recorder"
    (recorder / "viewer").mkdir(parents=True)
    (recorder / "recorder.py").write_text("1")
    digest = cache.recorder_digest
    monkeypatch.setattr("readtorch.literate.execute.recorder_digest", lambda part: digest(part, recorder))
    traced = "\n# %%\n#| trace: layers=calls\nlen([])\n"

    def changed(name: str) -> None:
        (recorder / name).write_text("2")
        cache._tree_digest.cache_clear()

    run(small)
    changed("recorder.py")
    assert run(small).cached
    write(small, tail=traced)
    run(small)
    assert run(small).cached
    for name in ("more.py", "viewer/viewer.js"):
        changed(name)
        assert not run(small).cached
        assert run(small).cached


def test_the_recorder_is_the_one_that_records(small: SmallBook) -> None:
    write(small, tail="\n# %%\nfrom readtorch.literate import trace\n")
    (part,) = small.book.parts
    here = Path(cache.__file__).parent / "trace"
    assert (here / "recorder.py").is_file()
    assert cache.recorder_digest(part) == cache.recorder_digest(part, here) != ""


def test_a_part_with_faults_is_not_kept(small: SmallBook) -> None:
    write(small, code=" + missing")
    run(small)
    assert run(small).problems
    assert runs(small) == 2


@pytest.mark.parametrize("damage", ["", "{", "half", "flip"])
def test_a_damaged_entry_is_no_entry(small: SmallBook, damage: str) -> None:
    run(small)
    (entry,) = (small.root / "cache" / "02_module").glob("*.json")
    text = entry.read_text()
    entry.write_text(
        {"half": text[: len(text) // 2], "flip": text.replace('"text/plain":"1"', '"text/plain":"2"')}.get(
            damage, damage
        )
    )
    assert texts(run(small)) == ["1"]
    assert runs(small) == 2


def test_two_builds_at_once_run_a_part_once(small: SmallBook) -> None:
    results: list[PartResult] = []
    builds = [threading.Thread(target=lambda: results.append(run(small))) for _ in range(3)]
    for build in builds:
        build.start()
    for build in builds:
        build.join()
    assert runs(small) == 1
    assert [texts(r) for r in results] == [["1"]] * 3


def test_only_a_few_entries_of_a_part_are_kept(small: SmallBook) -> None:
    for n in range(cache.KEPT + 2):
        write(small, code=f" + {n}")
        run(small)
    assert len(list((small.root / "cache" / "02_module").glob("*.json"))) == cache.KEPT
    assert not list((small.root / "cache").rglob("*.partial"))


def test_a_cached_trace_names_the_lines_and_cells_that_the_chapter_has_now(small: SmallBook) -> None:
    def write_with(prose: str) -> None:
        small.chapter(f"""
# %% [markdown]
# # {prose}

# %%
def double(x):
    return 2 * x

# %%
#| trace: layers=calls,lines
y = 1
y = double(y)
""")

    def places() -> set[tuple[str, str, int]]:
        result = run(small)
        (output,) = result.cells[2].outputs
        document = output["data"]["application/vnd.readtorch.trace+json"]
        return {(document["strings"][row[3]], document["strings"][row[4]], row[5]) for row in document["cells"]}

    write_with("Title")
    first = places()
    assert first == {
        ("chapters/02_module.py", "title-1", small.line_of("def double")),
        ("chapters/02_module.py", "title-2", small.line_of("y = 1")),
    }
    write_with("Another\n#\n# and longer")
    assert run(small).cached
    assert places() == {
        ("chapters/02_module.py", "another-1", small.line_of("def double")),
        ("chapters/02_module.py", "another-2", small.line_of("y = 1")),
    }
