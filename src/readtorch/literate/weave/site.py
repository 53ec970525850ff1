"""The book as a site: everything that pages share, made once per build and kept between builds while nothing changes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any

from readtorch.literate.chapter import Book, Part
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.record.archive import dumps
from readtorch.literate.record.shelf import load
from readtorch.literate.tangle import TangledFile
from readtorch.literate.weave.addresses import Addresses
from readtorch.literate.weave.fragments import CellKey, FileFragments, Fragment, by_cell, fragments_by_file
from readtorch.literate.weave.namespace import namespace
from readtorch.literate.weave.pages import WovenPage, plain, weave_part
from readtorch.literate.weave.resolve import Notebook, Reference, References
from readtorch.literate.weave.symbols import SymbolIndex, module_name
from readtorch.literate.weave.whole import whole_name, whole_script

CHAPTERS = {
    "00_tensor": "The ground floor: tensors and autograd",
    "a1_operators": "Appendix 1. The operators",
    "01_import": "1. What import torch does",
    "02_module": "2. nn.Module",
    "03_norm": "3. Normalization",
    "a2_layers": "Appendix 2. The everyday layers",
    "a3_kernels": "Appendix 3. CUDA kernels",
    "a4_distributions": "Appendix 4. Distributions",
    "04_optim": "4. Optimizers",
    "05_data": "5. Data loading",
    "06_data_parallel": "6. DataParallel",
    "07_distributed": "7. Distributed training",
}
"""What the navigation calls each chapter."""

Results = Mapping[str, Any]


class Site:
    """One state of the book, woven. `results` are the executor's, by part name; a part without one shows no outputs.

    What was read from a tangled file that is still the same object is taken from `previous`.
    """

    def __init__(
        self,
        book: Book,
        tangled: Mapping[str, TangledFile],
        results: Results,
        kept_scripts: dict[str, tuple[tuple[str, str], bytes]] | None = None,
        previous: Site | None = None,
        faults: Iterable[Problem] = (),
    ) -> None:
        self.faults: dict[str, list[Problem]] = {}
        """What went wrong when the chapters ran, to be shown in their pages, by the part's path."""
        for fault in faults:
            self.faults.setdefault(fault.path, []).append(fault)
        self.kept_scripts = {} if kept_scripts is None else kept_scripts
        """Scripts of the last build by address, each with what it was made of."""
        self.book = book
        self.tangled = tangled
        self.results = results
        self.recordings = tuple(load(book.root))
        """What GPUs gave, from docs/recordings/."""
        self.index: SymbolIndex = SymbolIndex(
            tangled, namespace(book.package), previous.index if previous is not None else None
        )
        self.addresses: Addresses = Addresses(book, self.index)
        self.file_fragments: dict[str, FileFragments] = fragments_by_file(
            tangled, previous.file_fragments if previous is not None else None
        )
        self.fragments: dict[CellKey, Fragment] = by_cell(self.file_fragments)
        self.problems: list[Problem] = []
        self.woven_files: set[str] = set()
        self._references: dict[str, dict[int, list[Reference]]] = {}
        self.api: dict[str, str] = {}
        """Module name to the page of the API reference that documents it."""

    def notebook(self) -> Notebook:
        return Notebook(self.index)

    def module_page(self, module: str) -> str | None:
        """The API page of a module, if it has one."""
        return self.api.get(module)

    def weave(self, previous: Mapping[str, tuple[str, WovenPage]] | None = None) -> dict[str, tuple[str, WovenPage]]:
        """Every part's page with its key; a page whose key is the same in `previous` is taken from there.

        Raises LiterateError with whatever could not be resolved, once for the whole book.
        """
        shared = self.shared_key
        pages: dict[str, tuple[str, WovenPage]] = {}
        for part in self.book.parts:
            key = self._key(part, shared)
            old = (previous or {}).get(part.name)
            pages[part.name] = old if old and old[0] == key else (key, self._weave(part))
        self.woven_files = {name for _, page in pages.values() for name in page.files}
        if self.problems:
            raise LiterateError(self.problems)
        return pages

    def _weave(self, part: Part) -> WovenPage:
        return weave_part(part, self, self.results.get(part.name))

    def _key(self, part: Part, shared: str) -> str:
        result = self.results.get(part.name)
        mark = "not run"
        if result is not None:
            evidence = [(i, r.evidence, r.skipped) for i, r in sorted(result.cells.items())]
            mark = f"{result.digest}{evidence}{self.faults.get(part.path, '')}"
        mark += "".join(
            dumps([recording.provenance, recording.parts[part.name]])
            for recording in self.recordings
            if part.name in recording.parts
        )
        return hashlib.sha256("\0".join([part.text, shared, mark]).encode()).hexdigest()

    @cached_property
    def shared_key(self) -> str:
        """What a page takes from the rest of the book: addresses of definitions and fragments' places."""
        digest = hashlib.sha256()
        for definition in self.index:
            digest.update(f"{definition.qualified}\0{self.addresses.of(definition)}\n".encode())
        for key, fragment in self.fragments.items():
            near = [f.key for f in (fragment.previous, fragment.next) if f is not None]
            digest.update(f"{key}{fragment.place}{fragment.before}{fragment.after}{near}{fragment.pieces}\n".encode())
        digest.update(repr(sorted(self.api.items())).encode())
        return digest.hexdigest()

    def references_in(self, file: str) -> dict[int, list[Reference]]:
        """The references of a whole tangled file, by its lines."""
        if file not in self._references:
            module = module_name(file)
            text = dict(enumerate(self.tangled[file].text.split("\n"), start=1))
            collector = References(self.index, text, lambda name: self.index.lookup(module, name))
            collector.visit(self.index.modules[module].tree)
            by_line: dict[int, list[Reference]] = {}
            for reference in collector.found:
                by_line.setdefault(reference.line, []).append(reference)
            self._references[file] = by_line
        return self._references[file]

    def whole_scripts(self) -> dict[str, tuple[Fragment, Callable[[], str]]]:
        """Address to a piece and a function that makes the script of the class or file that it is a piece of."""
        found: dict[str, tuple[Fragment, Callable[[], str]]] = {}
        for fragment in self.fragments.values():
            if fragment.pieces > 1:
                address = f"whole/{whole_name(fragment.file, fragment.thread)}.js"
                found.setdefault(address, (fragment, partial(whole_script, fragment, self)))
        return found

    def shared_scripts(self) -> dict[str, bytes]:
        """Scripts that pages load when they need them, by address: whole classes and files, and the trace viewer."""
        found = {}
        for name, (fragment, make) in self.whole_scripts().items():
            key = (self.tangled[fragment.file].text, self.shared_key)
            kept = self.kept_scripts.get(name)
            if kept is None or kept[0] != key:
                self.kept_scripts[name] = kept = (key, make().encode())
            found[name] = kept[1]
        if any(name.startswith("traces/") for name in self.woven_files):
            from readtorch.literate.trace import viewer_script

            found["assets/readtorch/trace.js"] = viewer_script().encode()
        if any(name.startswith("traces/imports-") for name in self.woven_files):
            from readtorch.literate.trace.import_page import import_script

            found["assets/readtorch/imports.js"] = import_script().encode()
        return found

    def navigation(self) -> list[dict[str, Any]]:
        """The book's entries for the navigation: a chapter of several parts is a section, and appendices stand last.

        (Tangling and running have their own order: a chapter may need an appendix that stands behind it here.)
        """
        nav: list[dict[str, Any]] = []
        for chapter in sorted(self.book.chapters, key=lambda name: bool(re.match(r"a\d", name))):
            parts = [p for p in self.book.parts if p.chapter == chapter]
            entries = [{plain(p.title): f"book/{p.name}/index.md"} for p in parts]
            if len(parts) == 1 and "/" not in parts[0].name:
                nav.append({CHAPTERS.get(chapter, plain(parts[0].title)): f"book/{parts[0].name}/index.md"})
            else:
                nav.append({CHAPTERS.get(chapter, re.sub(r"[_\d]+", " ", chapter).strip()): entries})
        return nav
