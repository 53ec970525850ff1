"""Claims on both libraries, differences, facts: what holds, what fails, and what could not be compared."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from small_books import SmallBook

from readtorch.literate import evidence
from readtorch.literate.chapter import Cell
from readtorch.literate.errors import LiterateError, Problems
from readtorch.literate.evidence import EvidenceResult
from readtorch.literate.terminal import claims_table


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallBook:
    """A book beside which stands a stand-in for torch, so that both sides can be made to say anything."""
    small = SmallBook(tmp_path)
    library = """
        import random
        name, state = {name!r}, []
        def manual_seed(n): random.seed(n)
        def rand(): return random.random()
        """
    small.module("__init__.py", library.format(name="ours"))
    small.module("../torch/__init__.py", library.format(name="theirs"))
    small.module("../torch/version.py", "__version__ = '9.9'\n")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(str(small.package.parent))
    return small


def examined(small: SmallBook, **options: object) -> dict[str, EvidenceResult]:
    """Evidence by the sentence of its claim."""
    examiner = small.executor(**options).examiner()
    cells = [cell for part in small.book.parts for cell in evidence.claims(part)]
    outcomes = examiner.examine(cells)
    results = [evidence.evidence_of(c, outcomes[c.part, c.index], examiner.versions) for c in cells]
    return {r.sentence: r for r in results if r is not None}


def cell_of(small: SmallBook, sentence: str) -> Cell:
    return next(c for part in small.book.parts for c in part.code_cells if c.get("claim") == sentence)


def test_a_claim_is_run_with_each_library(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| claim: both know their name
        def _(torch):
            assert torch.name in ("ours", "theirs")
            assert torch.name == {"readtorch": "ours", "torch": "theirs"}[torch.__name__]
        """)
    result = examined(small)["both know their name"]
    assert (result.kind, result.ours, result.upstream, result.fault) == ("claim", "held", "held", "")
    assert result.versions["torch"] == "9.9"
    assert result.cross_checked


def test_a_claim_that_fails_on_one_side_is_a_fault_at_the_line_that_failed(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| claim: the name is ours
        def _(torch):
            expected = "ours"
            assert torch.name == expected
        """)
    result = examined(small)["the name is ours"]
    assert (result.ours, result.upstream) == ("held", "failed")
    (problem,) = evidence.problems_of(cell_of(small, "the name is ours"), result)
    assert problem.line == small.line_of("assert torch.name")
    assert "does not hold on torch" in problem.message
    assert "left:  'theirs'" in problem.message


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("assert torch.name == 'ours'", ""),
        ("assert torch.name == 'theirs'", ""),
        ("assert torch.name", "says `differs:`, and holds on both libraries"),
        ("assert not torch.name", "says `differs:`, and fails on both libraries"),
    ],
)
def test_a_difference_must_be_one(small: SmallBook, code: str, fault: str) -> None:
    small.chapter(f"""
        # %%
        #| claim: it is so
        #| differs: because
        def _(torch):
            {code}
        """)
    assert examined(small)["it is so"].fault == fault


def test_nothing_leaks_from_one_claim_to_another(small: SmallBook) -> None:
    body = """
        def _(torch):
            import random, sys, warnings
            torch.state.append(1)
            assert torch.state == [1]
            assert not hasattr(sys, "leak")
            sys.leak = True
            warnings.simplefilter("error")
            assert warnings.filters[0][0] == "error"
            assert round(torch.rand(), 4) == 0.8444
        """
    small.chapter(f"""
        # %%
        #| claim: first
        {body.strip()}

        # %%
        #| claim: second
        {body.strip()}
        """)
    assert [(r.ours, r.upstream) for r in examined(small).values()] == [("held", "held")] * 2


def test_a_claim_sees_only_its_own_cell(small: SmallBook) -> None:
    small.chapter("""
        # %%
        helper = 1

        # %%
        #| claim: uses a helper
        def _(torch):
            assert helper == 1
        """)
    result = examined(small)["uses a helper"]
    assert result.ours == "failed"
    assert "a claim sees only its own cell" in result.details["readtorch"].detail


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def _(torch):\n    torch.name", "asserts nothing"),
        ("def claim(torch):\n    assert 1", "def _(torch)"),
        ("def _(library):\n    assert 1", "def _(torch)"),
        ("assert 1", "def _(torch)"),
    ],
)
def test_what_could_not_fail_is_no_claim(small: SmallBook, code: str, said: str) -> None:
    small.chapter("# %%\n#| claim: nothing\n" + code + "\n")
    result = examined(small)["nothing"]
    assert result.ours == "failed"
    assert said in result.details["readtorch"].detail


def test_a_claim_that_crashes_or_hangs_fails_and_the_others_are_run(
    small: SmallBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "LIMIT", 1.0)
    small.chapter("""
        # %%
        #| claim: crashes
        def _(torch):
            import os
            os._exit(5)
            assert 1

        # %%
        #| claim: hangs
        def _(torch):
            while True:
                assert 1

        # %%
        #| claim: holds
        def _(torch):
            assert 1
        """)
    results = examined(small)
    assert "status 5" in results["crashes"].details["readtorch"].detail
    assert "did nothing for 1 seconds" in results["hangs"].details["torch"].detail
    assert (results["holds"].ours, results["holds"].upstream) == ("held", "held")


def test_without_torch_claims_run_on_one_library_and_the_summary_counts_them(
    small: SmallBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "installed_torch", lambda: None)
    small.chapter("""
        # %%
        #| claim: holds
        def _(torch):
            assert torch.name == "ours"

        # %%
        #| claim: differs
        #| differs: because
        def _(torch):
            assert torch.name == "theirs"
        """)
    results = examined(small)
    assert (results["holds"].ours, results["holds"].upstream) == ("held", "not-run")
    assert not results["holds"].fault
    assert not results["differs"].fault
    text = evidence.summary(list(results.values()), {"readtorch": "1", "torch": ""})
    assert text.startswith(
        "2 claims: 2 as stated; 2 not cross-checked with PyTorch (not installed: pip install torch=="
    )


def test_a_claim_that_lacks_an_optional_package_is_not_run_and_counted_so(small: SmallBook) -> None:
    small.module(
        "__init__.py",
        (small.package / "__init__.py").read_text()
        + """
def half(package):
    raise RuntimeError(f"torch.bfloat16 needs the package {package}: pip install 'readtorch[bfloat16]'")
""",
    )
    for sentence, call in (
        ("lacks", "torch.half('no_such_package')"),
        ("is there", "torch.half('numpy')"),
        ("asks", "try_it(torch)"),
    ):
        file = small.root / "chapters" / "02_module.py"
        before = file.read_text() if file.exists() else ""
        file.write_text(
            before
            + f"""# %%
#| claim: {sentence}
def try_it(torch):
    try:
        torch.half('no_such_package')
    except RuntimeError as error:
        raise ValueError("wrapped") from error

def _(torch):
    if torch.name == "ours":
        {call}
    assert torch.name


"""
        )
    results = examined(small)
    reason = "needs bfloat16 (pip install no_such_package, or pip install 'readtorch[bfloat16]')"
    for sentence in ("lacks", "asks"):
        assert (results[sentence].ours, results[sentence].fault) == ("not-run", "")
        assert results[sentence].not_run == reason
    assert results["is there"].ours == "failed", "the package is there: the library is at fault"
    text = evidence.summary(list(results.values()), {"readtorch": "1", "torch": "2"})
    assert text.startswith(f"3 claims: 0 as stated, 1 not, 2 not run: {reason}; 2 not cross-checked")
    cells = {cell.get("claim"): cell for cell in evidence.claims(small.book.parts[0])}
    table = claims_table(
        [(cells[s], results[s]) for s in ("lacks", "asks")], {"readtorch": "1", "torch": "2"}, verbose=False
    )
    assert f"lacks (not run: {reason})" in table
    assert "FAILS" not in table


def test_what_holds_is_remembered_until_the_package_changes(small: SmallBook) -> None:
    small.chapter(f"""
        # %%
        #| claim: counted
        def _(torch):
            open({str(small.root / "count")!r}, "a").write(torch.name + " ")
            assert torch.name
        """)

    def counted() -> list[str]:
        return sorted((small.root / "count").read_text().split())

    examined(small, cached=True)
    examined(small, cached=True)
    assert counted() == ["ours", "theirs"]
    small.module("__init__.py", (small.package / "__init__.py").read_text() + "other = 1\n")
    examined(small, cached=True)
    assert counted() == ["ours", "ours", "theirs"]


def test_claims_that_need_what_is_not_there_are_not_run(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| claim: on a gpu
        #| gpu
        def _(torch):
            assert 1

        # %%
        #| claim: later
        #| needs: 07_distributed
        def _(torch):
            assert 1
        """)
    results = examined(small)
    assert results["on a gpu"].details["torch"].detail == "needs a CUDA device"
    assert (results["later"].ours, results["later"].upstream) == ("not-run", "held")
    assert results["later"].details["readtorch"].detail == "needs chapter 07_distributed"


def test_facts_and_sources_are_evidence_too(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| fact: torch/nn/modules/module.py#Module.register_buffer
        #| fact: torch/nn/modules/module.py#Module.register_buffer<Module.register_parameter
        #| fact: torch/nn/modules/module.py#Module.forward<Module.register_buffer<Module.__init__

        # %%
        #| source: pytorch/pytorch#45834
        """)
    book = small.book
    problems = Problems()
    evidence.check_facts(book.parts, problems)
    with pytest.raises(Exception, match="does not stand before") as caught:
        problems.raise_if_any()
    (problem,) = caught.value.problems  # type: ignore[attr-defined]  # found by its words; this kind has them
    assert problem.line == small.line_of("Module.__init__")
    kinds = [evidence.evidence_of(cell, None, {}) for cell in book.parts[0].code_cells]
    assert [(k.kind, k.ours) for k in kinds if k] == [("fact", "not-run"), ("source", "not-run")]


def test_the_command_prints_both_columns_and_fails_where_a_claim_fails(
    small: SmallBook, capsys: pytest.CaptureFixture[str]
) -> None:
    small.chapter("""
        # %%
        #| claim: holds
        def _(torch):
            assert torch.name

        # %%
        #| claim: fails there
        def _(torch):
            assert torch.name == "ours"
        """)
    parser = argparse.ArgumentParser()
    evidence.add_arguments(parser)
    with pytest.raises(LiterateError) as caught:
        evidence.check_claims(small.book, small.package, parser.parse_args(["-v", "--no-cache"]))
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ["chapters/02_module.py:1", "holds", "holds", "holds"] in rows
    assert ["chapters/02_module.py:6", "holds", "FAILS", "fails", "there"] in rows
    assert "2 claims: 1 as stated, 1 not; all cross-checked with PyTorch 9.9" in out
    assert f"chapters/02_module.py:{small.line_of('ours')}: the claim does not hold on torch" in str(caught.value)


@pytest.mark.parametrize(
    ("part", "code", "expected"),
    [
        ("01_import/2_before_the_extension", "torch.nn.Linear(1, 1)", 0),
        ("00_tensor/1_storage", "torch.zeros(2)", 1),
        ("02_module/1_registration", "class Net(nn.Module): pass", 2),
        ("00_tensor/1_storage", "cnn = torch.zeros(2)", 1),
    ],
)
def test_a_child_shares_what_its_code_is_bound_to_load(part: str, code: str, expected: int) -> None:
    assert evidence.stage(part, code) == expected


def test_claims_share_the_ground_floor_and_none_the_layers_that_it_does_not_name(small: SmallBook) -> None:
    small.module(
        "__init__.py",
        """
        import sys
        def __getattr__(name):
            if name != "Tensor":
                raise AttributeError(name)
            import readtorch.ground
            return readtorch.ground.Tensor
        def loaded():
            return [name for name in ("ground", "nn") if f"readtorch.{name}" in sys.modules]
        """,
    )
    small.module("ground.py", "class Tensor: pass\n")
    small.module("nn.py", "class Module: pass\n")
    small.chapter("""
        # %%
        #| claim: begins with the ground floor
        def _(torch):
            assert torch.loaded() == ["ground"]

        # %%
        #| claim: names layers, torch.nn
        def _(torch):
            "what nn is"
            assert torch.loaded() == ["ground", "nn"]
        """)
    results = examined(small, libraries=("readtorch",))
    assert [result.ours for result in results.values()] == ["held", "held"]


def test_on_one_library_all_jobs_are_its(small: SmallBook, tmp_path: Path) -> None:
    claim = """
        # %%
        #| claim: {mine} runs beside {other}
        def _(torch):
            import pathlib, time
            folder = pathlib.Path({folder!r})
            (folder / {mine!r}).touch()
            until = time.monotonic() + 30
            while not (folder / {other!r}).exists():
                assert time.monotonic() < until
                time.sleep(0.01)
        """
    folder = str(tmp_path)
    small.chapter(claim.format(mine="a", other="b", folder=folder) + claim.format(mine="b", other="a", folder=folder))
    results = examined(small, libraries=("readtorch",))  # two jobs
    assert [result.ours for result in results.values()] == ["held", "held"]
