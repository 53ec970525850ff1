"""The pages "What is here": they tell the truth about the package, and leave nothing of the first tier out."""

from __future__ import annotations

import html
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from readtorch.literate import facts
from readtorch.literate.chapter import Book
from readtorch.literate.tangle import tangle
from readtorch.literate.wanted import TIERS, Member, Wanted, standings, wanted
from readtorch.literate.weave import here
from readtorch.literate.weave.site import CHAPTERS, Site

ROOT = Path(__file__).parents[2]


@cache
def made() -> dict[str, str]:
    book = Book.load(ROOT)
    return here.pages(Site(book, tangle(book), {}), ROOT)


def resolved(name: str) -> Any:
    words = name.split(".")
    for split in range(len(words), 0, -1):
        try:
            value = importlib.import_module(".".join(words[:split]))
        except ModuleNotFoundError:
            continue
        for word in words[split:]:
            value = getattr(value, word)
        return value
    raise AssertionError(name)


def names_under(page: str, heading: str) -> dict[str, list[str]]:
    """Upstream path → names that a page lists below the headings `Here` or `Missing`, without what a class lacks."""
    found: dict[str, list[str]] = {}
    for section in re.findall(rf"^### {heading} .*?(?=^#|\Z)", page, re.DOTALL | re.MULTILINE):
        for path, entries in re.findall(r"^`(.+?)`\n:   (.*)$", section, re.MULTILINE):
            entries = re.sub(r" \(without .*?\)", "", entries)
            found.setdefault(path, []).extend(re.findall(r"`([\w.]+)`", entries))
    return found


@pytest.mark.parametrize("chapter", dict.fromkeys(item.chapter for item in wanted()))
def test_every_name_said_to_be_here_can_be_had_and_every_other_is_named(chapter: str) -> None:
    page = made()[f"here/{chapter}.md"]
    listed, missing = names_under(page, "Here"), names_under(page, "Missing")
    by_name = {(item.path, item.name): item for item in wanted() if item.chapter == chapter}
    for path, names in listed.items():
        for name in names:
            item = by_name[path, name]
            try:
                resolved(item.ours)
            except AttributeError:
                resolved(item.ours.replace("readtorch.", "readtorch.Tensor.", 1))
    said = [(path, name) for found in (listed, missing) for path, names in found.items() for name in names]
    assert sorted(said) == sorted(by_name)
    for path, names in missing.items():
        for name in names:
            with pytest.raises((AttributeError, ImportError)):
                resolved(by_name[path, name].ours)


def test_numbers_of_the_overview_are_those_of_the_pages() -> None:
    overview = made()[here.OVERVIEW]
    for chapter in dict.fromkeys(item.chapter for item in wanted()):
        row = re.search(rf"\| \[.*\]\({chapter}\.md\) \| (.*) \|", overview)
        assert row is not None
        counted = [0 if cell == "–" else int(cell.split()[0]) for cell in row[1].split(" | ")]
        listed = names_under(made()[f"here/{chapter}.md"], "Here")
        assert sum(counted) == sum(map(len, listed.values()))


def test_the_list_names_places_of_the_release() -> None:
    """A Python symbol of the list stands where the fact base has it; chapters are the book's."""
    assert {item.chapter for item in wanted()} <= set(CHAPTERS)
    wrong = []
    for item in wanted():
        if item.start and item.path in facts.paths():
            try:
                target = facts.resolve(f"{item.path}#{item.name}")
            except facts.Unresolved:
                continue  # made by a decorator or a factory, which syntax trees do not show
            if target.start != item.start and abs(target.start - item.start) > 12:
                wrong.append((item.qualified, item.start, target.start))
    assert wrong == []
    assert {item.tier for item in wanted()} == set(TIERS)


def test_what_a_class_lacks_is_said() -> None:
    package = Book.load(ROOT).package
    place = ("02_module", "torch/nn/modules/module.py", 1)
    probe = Wanted(*place, "Module", 1, 2, (Member(1, "forward", 1), Member(1, "no_such", 1)))
    absent = Wanted(*place, "NoSuchModule", 1, 2)
    found = standings(package, [probe, absent])
    assert found[probe.qualified].lacks == ("no_such",)
    assert not found[absent.qualified].here


def test_tables_of_cells_are_those_of_the_parity_tests() -> None:
    tables = here.parity_tables(ROOT, Book.load(ROOT).package)
    listed = (ROOT / "tests" / "parity" / "left_out.txt").read_text().splitlines()
    differing = sum(len(row["left_out"]) for row in tables["operators"])
    assert differing == sum(not row.startswith("#") for row in listed)
    page = made()["here/operators.md"]
    for row in tables["operators"]:
        for _, _, reason in row["left_out"]:
            assert html.escape(reason) in page


def test_what_is_not_here_of_whole_namespaces_is_said_with_a_way_out() -> None:
    """Also that the list is true: what it names cannot be had, and the error says that PyTorch's can."""
    from readtorch._not_here import NOT_HERE

    page = made()[here.OVERVIEW].partition("## What is not here")[2]
    for name, instead in NOT_HERE.items():
        assert re.search(rf"`torch\.{re.escape(name)}`.*\| {re.escape(instead)} \|", page), name
        with pytest.raises((AttributeError, ModuleNotFoundError)) as caught:
            resolved(f"readtorch.{name}")
        assert isinstance(caught.value, AttributeError), f"{name} is no name of a namespace that says so"
        assert f"'{name.rpartition('.')[2]}' (PyTorch has it, readtorch does not have it; use " in str(caught.value)


@pytest.mark.torch
def test_what_is_said_to_be_in_pytorch_is_there() -> None:
    pytest.importorskip("torch")
    from readtorch._not_here import NOT_HERE

    for name in NOT_HERE:
        resolved(f"torch.{name}")
