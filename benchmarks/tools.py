"""The book's tools beside their peers, on one synthetic book of 7 × 60 cells, in one run.

    python benchmarks/tools.py [--repeat 7] [--rows tangle,sync] [--json FILE]

Every row is a command run as a user runs it: a fresh process, interpreter start included. CPU is user + system time of the
process and its children; of several runs the least counts. Ratios are ours ÷ theirs, from this run.

To add a row: write a function that yields `Measurement`s and put `@row` above it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import synthetic_book

REPOSITORY = Path(__file__).resolve().parent.parent
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},  # as a user's
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": "",
}  # fmt: skip


@dataclass(slots=True)
class Measurement:
    """One line of the table; `peer` names the row that `ours` is compared with, `goal` is in seconds of CPU."""

    name: str
    wall: float
    cpu: float
    peer: str = ""
    goal: float | None = None


@dataclass(slots=True)
class Bench:
    """Where the book, its package and the peer's project lie, and how often to run."""

    folder: Path
    repeat: int

    @property
    def book(self) -> Path:
        return self.folder / "book"

    @property
    def nbdev(self) -> Path:
        return self.folder / "nbdev"

    def measure(
        self, name: str, command: list[str], cwd: Path, before: Callable[[], None] = lambda: None, *,
        peer: str = "", goal: float | None = None, status: int = 0,
    ) -> Measurement:  # fmt: skip
        """Run `command` a few times, each after `before()`; the least wall and the least CPU time count."""
        best_wall = best_cpu = float("inf")
        for _ in range(self.repeat):
            before()
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
            wall = time.perf_counter() - start
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode != status:
                raise RuntimeError(f"{' '.join(command)} exited {done.returncode}:\n{done.stdout}{done.stderr}")
            best_wall = min(best_wall, wall)
            best_cpu = min(best_cpu, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)
        return Measurement(name, best_wall, best_cpu, peer, goal)

    def readtorch(self, *arguments: str) -> list[str]:
        return [sys.executable, str(self.book / "src" / "readtorch_cli.py"), *arguments]


Row = Callable[[Bench], Iterator[Measurement]]
ROWS: dict[str, Row] = {}


def row(function: Row) -> Row:
    """Register a function whose measurements belong into the table."""
    ROWS[function.__name__.replace("_", "-")] = function
    return function


def prepare(bench: Bench) -> None:
    """The synthetic book with the tools of this checkout beside it, tangled once."""
    synthetic_book.write_book(bench.book)
    shutil.copy(REPOSITORY / "pyproject.toml", bench.book)
    shutil.copy(REPOSITORY / "src" / "readtorch_cli.py", bench.book / "src")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "src" / "readtorch" / "literate", bench.book / "src/readtorch/literate", ignore=ignore)
    subprocess.run(bench.readtorch("tangle"), cwd=bench.book, env=ENVIRONMENT, check=True, capture_output=True)


@row
def interpreter(bench: Bench) -> Iterator[Measurement]:
    yield bench.measure("python -c pass", [sys.executable, "-c", "pass"], bench.folder)


@row
def nbdev(bench: Bench) -> Iterator[Measurement]:
    """nbdev's export and update, on the same cells as notebooks."""
    if shutil.which("nbdev-export") is None and not _script("nbdev-export").exists():
        return
    project = bench.nbdev
    synthetic_book.write_notebooks(project / "nbs")
    (project / "settings.ini").write_text(
        "[DEFAULT]\nrepo = synthetic\nlib_name = synthetic\nlib_path = synthetic\nnbs_path = nbs\nuser = u\nbranch = main\n"
        "description = d\nauthor = a\nauthor_email = a@b.c\nmin_python = 3.11\nversion = 0.0.1\nlicense = apache2\n"
        "doc_path = docs\nstatus = 3\n"
    )
    (project / "pyproject.toml").write_text(
        '[project]\nname = "synthetic"\ndynamic = ["version"]\n[tool.nbdev]\nnbs_path = "nbs"\nlib_path = "synthetic"\n'
        'branch = "main"\nuser = "u"\n'
    )
    (project / "synthetic").mkdir(exist_ok=True)
    (project / "synthetic" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    script = [str(_script("nbdev-export"))]
    yield bench.measure("nbdev-export", script, project)
    yield bench.measure("nbdev-export, nothing to do", script, project)
    yield bench.measure("nbdev-update", [str(_script("nbdev-update"))], project, lambda: _edit_nbdev(project))


def _edit_nbdev(project: Path) -> None:
    file = project / "synthetic" / "steps0.py"
    file.write_text(file.read_text().replace("total = sum(kept)", "total = sum(kept) + 0"))


def _script(name: str) -> Path:
    return Path(sys.executable).parent / name


@row
def tangle(bench: Bench) -> Iterator[Measurement]:
    package, cache = bench.book / "src" / "readtorch", bench.book / ".cache"

    def remove_package() -> None:
        shutil.rmtree(cache, ignore_errors=True)
        for folder in package.glob("pack*"):
            shutil.rmtree(folder)

    def forget() -> None:
        shutil.rmtree(cache, ignore_errors=True)

    chapter = bench.book / "chapters" / "02_module.py"

    def edit_chapter() -> None:
        text = chapter.read_text()
        chapter.write_text(text.replace("bounded, so", "limited, so") if "bounded, so" in text else _back(text))

    command = bench.readtorch("tangle")
    yield bench.measure("tangle, everything", command, bench.book, remove_package, peer="nbdev-export", goal=0.15)
    yield bench.measure("tangle, one chapter edited", command, bench.book, edit_chapter, peer="nbdev-export", goal=0.15)
    nothing = "nbdev-export, nothing to do"
    yield bench.measure("tangle, nothing to do", command, bench.book, peer=nothing, goal=0.1)
    check = bench.readtorch("tangle", "--check")
    yield bench.measure("tangle --check", check, bench.book, peer=nothing, goal=0.1)
    yield bench.measure("tangle --check, fresh clone", check, bench.book, forget, peer=nothing, goal=0.1)


def _back(text: str) -> str:
    return text.replace("limited, so", "bounded, so")


@row
def sync(bench: Bench) -> Iterator[Measurement]:
    file = bench.book / "src" / "readtorch" / "pack3" / "steps.py"

    def edit() -> None:
        text = file.read_text()
        new = text.replace("total = sum(kept)\n", "total = sum(kept) + 0\n", 1)
        file.write_text(new if new != text else text.replace("sum(kept) + 0\n", "sum(kept)\n", 1))

    subprocess.run(bench.readtorch("tangle"), cwd=bench.book, env=ENVIRONMENT, check=True, capture_output=True)
    yield bench.measure("sync, one edit", bench.readtorch("sync"), bench.book, edit, peer="nbdev-update", goal=0.2)


@row
def weave(bench: Bench) -> Iterator[Measurement]:
    """The site of the book, its cells run, beside mkdocs over the same text and code as plain Markdown."""
    book, plain = bench.book, bench.folder / "plain"
    prepare_sites(bench)
    cache, site = book / ".cache", book / "site"

    def forget() -> None:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(site, ignore_errors=True)

    def edit() -> None:
        chapter = book / "chapters" / "02_module.py"
        text = chapter.read_text()
        new = text.replace("in two or three sentences", "in 2 or 3 sentences", 1)
        chapter.write_text(new if new != text else text.replace("in 2 or 3 sentences", "in two or three sentences", 1))

    mkdocs = [sys.executable, "-c", f"{_OWN} from mkdocs.__main__ import cli; cli()", "build", "-q"]
    yield bench.measure("mkdocs, the same as plain text", [sys.executable, "-m", "mkdocs", "build", "-q"], plain)
    peer = "mkdocs, the same as plain text"
    cells = bench.measure("run the cells, without a site", bench.readtorch("run"), book, forget)
    yield cells
    cold = bench.measure("weave, cold, cells run", mkdocs, book, forget, peer=peer, goal=6.0 + cells.cpu)
    yield cold
    yield bench.measure("weave, cells from the cache", mkdocs, book, peer=peer, goal=6.0)
    yield kept_build(bench, book, "mkdocs serve, one paragraph edited", edit, peer)
    heaviest = max(file.stat().st_size for file in site.glob("book/**/*.html"))
    print(f"heaviest page of the site: {heaviest / 1000:.0f} KB of HTML (goal: 150)", file=sys.stderr)


@row
def real_book(bench: Bench) -> Iterator[Measurement]:
    """This repository's own site after a paragraph was edited; the cells are not run."""
    book = bench.folder / "real"
    for name in ("chapters", "docs", "src", "tests"):
        ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(REPOSITORY / name, book / name, ignore=ignore, dirs_exist_ok=True)
    for name in ("mkdocs.yml", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, book)
    chapter = book / "chapters" / "02_module" / "1_registration.py"
    text = chapter.read_text()
    place = text.index("# %% [markdown]\n", len(text) // 2) + len("# %% [markdown]\n")

    def edit() -> None:
        added = "# One sentence more.\n#\n" if chapter.read_text() == text else ""
        chapter.write_text(text[:place] + added + text[place:])

    yield kept_build(bench, book, "mkdocs serve, this book, one paragraph edited", edit, execute=False)


def prepare_sites(bench: Bench) -> None:
    """The settings of this repository's site for the synthetic book, and a plain mkdocs site of the same contents."""
    book, plain = bench.book, bench.folder / "plain"
    settings = (REPOSITORY / "mkdocs.yml").read_text()
    start, stop = settings.index("\nnav:"), settings.index("\n\n", settings.index("\nnav:") + 1)
    nav = "\nnav:\n  - index.md\n  - The book: readtorch:book\n  - API: readtorch:api"
    (book / "mkdocs.yml").write_text(settings[:start] + nav + settings[stop:])
    (book / "docs").mkdir(exist_ok=True)
    (book / "docs" / "index.md").write_text("# Synthetic\n")
    for folder in [book / "src" / "readtorch", *(book / "src" / "readtorch").glob("pack*")]:
        (folder / "__init__.py").touch()  # a package of its own, not merged with an installed readtorch
    (plain / "docs").mkdir(parents=True, exist_ok=True)
    (plain / "mkdocs.yml").write_text(
        "site_name: plain\ntheme: { name: material, font: false }\nplugins: [search]\n"
        "markdown_extensions: [admonition, pymdownx.highlight, pymdownx.superfences]\n"
    )
    for file in sorted((book / "chapters").glob("*.py")):
        (plain / "docs" / f"{file.stem}.md").write_text(_as_markdown(file.read_text()))


def _as_markdown(chapter: str) -> str:
    out = []
    for cell in chapter.split("# %%")[1:]:
        head, _, body = cell.partition("\n")
        if "markdown" in head:
            out.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in body.split("\n")))
        else:
            out.append(f"```python\n{body.strip()}\n```\n")
    return "\n".join(out)


_OWN = "import sys; sys.path.insert(0, 'src');"
"""The synthetic book's own package before an installed one."""

_KEPT = f"""
{_OWN}
import time
from mkdocs.commands.build import build
from mkdocs.config import load_config
def settings():
    config = load_config("mkdocs.yml", site_dir=sys.argv[1])
    config.site_url = "http://127.0.0.1:8000/"
    return config
first = settings()
first.plugins.on_startup(command="serve", dirty=False)
build(first, serve_url="http://127.0.0.1:8000/")
print("built", flush=True)
sys.stdin.readline()
begin, cpu = time.perf_counter(), time.process_time()
build(settings(), serve_url="http://127.0.0.1:8000/")
print(time.perf_counter() - begin, time.process_time() - cpu)
"""


def kept_build(
    bench: Bench, book: Path, name: str, edit: Callable[[], None], peer: str = "", *, execute: bool = True
) -> Measurement:
    """`mkdocs serve` after a paragraph was edited: the second build of one process, as the live server does it."""
    environment = {**ENVIRONMENT, "READTORCH_EXECUTE": str(execute).lower()}
    wall = cpu = float("inf")
    for _ in range(bench.repeat):
        with tempfile.TemporaryDirectory() as site:
            command = [sys.executable, "-c", _KEPT, site]
            process = subprocess.Popen(
                command, cwd=book, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            assert process.stdin is not None
            while process.stdout.readline().strip() not in ("built", ""):
                pass
            edit()
            said, _ = process.communicate("\n")
        if process.returncode != 0:
            raise RuntimeError("the second build failed")
        spent = [float(number) for number in said.split()[-2:]]
        wall, cpu = min(wall, spent[0]), min(cpu, spent[1])
    return Measurement(name, wall, cpu, peer, 1.5)


def table(found: list[Measurement]) -> str:
    by_name = {m.name: m for m in found}
    lines = [f"{'':46} {'wall s':>8} {'CPU s':>8} {'goal':>6}   CPU ratio to its peer"]
    for m in found:
        peer = by_name.get(m.peer)
        ratio = f"{m.cpu / peer.cpu:.2f} of {peer.name} ({peer.cpu:.2f} s)" if peer else ""
        goal = "" if m.goal is None else f"{m.goal:.2f}"
        missed = "  MISSED" if m.goal is not None and m.cpu > m.goal else ""
        lines.append(f"{m.name:46} {m.wall:8.3f} {m.cpu:8.3f} {goal:>6}   {ratio}{missed}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The book's tools beside their peers.")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--rows", default="", help=f"some of: {', '.join(ROWS)}")
    parser.add_argument("--json", type=Path, help="write the measurements here too")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.rows.split(",") if name] or list(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), arguments.repeat)
        prepare(bench)
        found = [m for name in wanted for m in ROWS[name](bench)]
    print(table(found))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(m) for m in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
