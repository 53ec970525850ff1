"""The house rules of the package: floors, the mirror of upstream's layout, the namespace, what an import brings in."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from readtorch.literate import facts
from readtorch.literate.chapter import Book
from readtorch.literate.coverage import measure
from readtorch.literate.tangle import tangle

BOOK = Book.load()
FILES = tangle(BOOK)
PYTHON = sorted(path for path in FILES if path.endswith(".py"))

FLOORS = ("c10", "aten", "csrc", "_C")
"""From the ground up; everything else stands above."""

WITHOUT_TWIN = {
    "_as_torch_children/torch.py": "what child processes of `as_torch` find as `torch`; upstream needs no stand-in for itself",
    "aten/cuda/array_library.py": "NumPy's face on CuPy; upstream's kernels are written for CUDA",
    "aten/cuda/instantiate.py": "makes CUDA kernels from the CPU's text; upstream has templates and a second compiler",
    "aten/cuda/specialisations.py": "where that text will not do; upstream specialises a template beside it",
    "aten/native/cuda/copy.py": "upstream: aten/src/ATen/native/cuda/Copy.cu; the fact base holds no .cu files",
    "as_torch.py": "lets scripts written for torch run on readtorch; one of the two names that are ours alone",
    "_not_here.py": "what readtorch lacks and what to use instead; upstream lacks nothing of its own",
    "_C/__init__.py": "upstream's torch/_C is the built extension module; torch/csrc/Module.cpp fills it",
    "aten/native/constant_pad_nd.py": "upstream writes constant_pad_nd in native/PadNd.cpp, beside the other paddings",
    "aten/native/cuda/rows.cuh": "rows held in registers; upstream has them in PersistentSoftmax.cuh and again in layer_norm_kernel.cu",
    "aten/native/cuda/rows.py": "the threads for such rows, which upstream chooses in the same two files",
    **{
        f"c10/cuda/simulated/{name}.py": "upstream needs hardware; here a device can be simulated, more strictly than it is"
        for name in ("functions", "graph", "launch", "memory", "ndarray", "runtime", "stream")
    },
    "aten/register_cuda.py": "upstream generates RegisterCUDA_N.cpp at build time",
    "csrc/autograd/generated_node.py": "upstream generates generated/Functions.h at build time",
    "csrc/autograd/python_variable_methods.py": "upstream generates generated/python_variable_methods.cpp at build time",
    "csrc/autograd/python_variable_operators.py": "upstream's operators are rows of the generated python_variable_methods.cpp",
    "csrc/autograd/variable_type.py": "upstream generates generated/VariableType_N.cpp at build time",
    "csrc/utils/gates.py": "upstream compiles its question into each function; here it is put in front, once there is somebody to ask",
    "version.py": "upstream's build writes torch/version.py",
}
"""The files that stand where upstream has none, each with its reason. An `__init__.py` of a C++ folder needs none."""

SEARCH_PATHS = ("_as_torch_children",)
"""Folders that stand on `sys.path` of child processes, and so are no packages."""

OPTIONAL = {"cupy", "cupyx", "ml_dtypes", "mpi4py", "cupti", "safetensors"}
"""Imported only inside functions or under `try`: the library needs NumPy alone."""


# -- imports ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imported:
    """One import statement: by which file, of which dotted name, on which line, run when the module is imported or later."""

    path: str
    name: str
    line: int
    at_import: bool
    guarded: bool

    def __str__(self) -> str:
        line = FILES[self.path].lines[self.line - 1]
        return f"src/readtorch/{self.path}:{self.line} ({line.part_path}:{line.chapter_line}) imports {self.name}"


def imports_of(path: str) -> Iterator[Imported]:
    """Every import statement of a file, those inside functions too; those for the type checker alone left out."""

    def walk(body: list[ast.stmt], at_import: bool, guarded: bool) -> Iterator[Imported]:
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Imported(path, alias.name, node.lineno, at_import, guarded)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: relative import"
                for alias in node.names:
                    yield Imported(path, f"{node.module}.{alias.name}", node.lineno, at_import, guarded)
            elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                yield from walk(node.orelse, at_import, guarded)
            else:
                inner = at_import and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                inside_try = guarded or isinstance(node, ast.Try)
                for name in ("body", "orelse", "finalbody"):
                    yield from walk(getattr(node, name, []), inner, inside_try)
                for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                    yield from walk(handler.body, inner, inside_try)

    yield from walk(ast.parse(FILES[path].text).body, True, False)


def target(name: str) -> str | None:
    """The file of the package that a dotted name leads into."""
    top, _, rest = name.partition(".")
    if top != "readtorch":
        return None
    while True:
        stem = rest.replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py" if stem else "__init__.py"):
            if path in FILES:
                return path
        rest = rest.rpartition(".")[0]


def floor(path: str) -> int:
    top = path.split("/")[0]
    return FLOORS.index(top) if top in FLOORS else len(FLOORS)


@cache
def all_imports() -> tuple[Imported, ...]:
    return tuple(item for path in PYTHON for item in imports_of(path))


def test_each_floor_imports_only_downward() -> None:
    """Not even inside a function: what a lower floor needs from above is handed down to it."""
    upward = [
        str(item)
        for item in all_imports()
        if (found := target(item.name)) is not None and floor(found) > floor(item.path)
    ]
    assert not upward, "\n".join(upward)


def test_modules_import_each_other_in_no_circle() -> None:
    """Only an import inside a function may close one."""
    edges: dict[str, set[str]] = {}
    for item in all_imports():
        found = target(item.name)
        if item.at_import and found is not None and found != item.path:
            edges.setdefault(item.path, set()).add(found)
    done: set[str] = set()

    def visit(path: str, above: list[str]) -> None:
        assert path not in above, " → ".join([*above[above.index(path) :], path])
        if path not in done:
            for found in sorted(edges.get(path, ())):
                visit(found, [*above, path])
            done.add(path)

    for path in PYTHON:
        visit(path, [])


def test_the_library_never_imports_its_tools() -> None:
    assert [str(item) for item in all_imports() if item.name.startswith("readtorch.literate")] == []


def test_the_library_needs_numpy_alone() -> None:
    wrong = []
    for item in all_imports():
        top = item.name.split(".")[0]
        if top in sys.stdlib_module_names or top in ("readtorch", "numpy"):
            continue
        if item.path.startswith(SEARCH_PATHS) and top == "torch":
            continue
        if top not in OPTIONAL or (item.at_import and not item.guarded):
            wrong.append(str(item))
    assert not wrong, "\n".join(wrong)


def test_importing_brings_in_nothing_of_the_tools() -> None:
    code = (
        "import sys, readtorch, readtorch.nn, readtorch.autograd\n"
        "x = readtorch.ones(2, requires_grad=True)\n(x * 2).sum().backward()\n"
        "names = ('readtorch.literate', 'jupytext', 'IPython', 'matplotlib', 'torch', 'cupy', 'scipy', 'tornado', 'mkdocs')\n"
        "print(sorted(n for n in sys.modules if n.startswith(names) and n.split('.')[0] != 'torch_version'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stdout + done.stderr


# -- the mirror ------------------------------------------------------------------------------------------------------


def needs_twin(path: str) -> bool:
    """An `__init__.py` makes a Python package of a folder that is C++ upstream; there it has no twin."""
    if not path.endswith("__init__.py"):
        return True
    return path.split("/")[0] not in ("aten", "c10", "csrc")


@pytest.mark.parametrize("path", sorted(FILES))
def test_a_file_stands_where_its_upstream_counterpart_stands(path: str) -> None:
    stem = facts.twin(path)  # raises if two upstream stems claim the file
    if path in WITHOUT_TWIN:
        assert stem is None, f"{path} mirrors {stem}: take it off the list"
    elif needs_twin(path):
        assert stem is not None, (
            f"{path} mirrors no file of PyTorch {facts.RELEASE}; rename it, or give the reason here"
        )


def test_the_list_of_files_without_a_twin_names_no_others() -> None:
    assert [path for path in WITHOUT_TWIN if path not in FILES] == []


def test_an_upstream_file_has_one_counterpart() -> None:
    stems = [facts.twin(path) for path in FILES if path not in WITHOUT_TWIN]
    doubled = {stem for stem in stems if stem is not None and stems.count(stem) > 1}
    # A CUDA source beside its NumPy twin mirrors the same stem.
    for stem in doubled:
        paths = [path for path in FILES if facts.twin(path) == stem]
        assert len({Path(path).suffix for path in paths}) == len(paths), paths


def test_every_folder_of_the_package_is_opened_by_the_chapter_that_first_needs_it() -> None:
    order = {chapter: number for number, chapter in enumerate(BOOK.chapters)}
    for path, file in FILES.items():
        if path.endswith(".py") and not path.startswith(SEARCH_PATHS):
            for folder in Path(path).parents:
                init = FILES.get((folder / "__init__.py").as_posix())
                assert init is not None, f"{path} lies in a folder without __init__.py"
                needed, opened = file.cells[0].part.split("/")[0], init.cells[0].part.split("/")[0]
                assert order[opened] <= order[needed], f"{init.path} is opened after {path}"


# -- the book and the package ----------------------------------------------------------------------------------------


def test_every_line_of_the_package_is_shown_in_the_book() -> None:
    assert measure(BOOK, FILES).uncovered == []


def test_names_of_files_say_what_is_in_them() -> None:
    """No drawers of our own making; where upstream has one, so have we."""
    for path in FILES:
        if Path(path).stem in ("utils", "helpers", "misc", "common", "manager"):
            assert facts.twin(path) is not None, path


# -- the namespace ---------------------------------------------------------------------------------------------------

OURS = {"readtorch": {"as_torch", "literate"}, "readtorch.cuda": {"simulate"}}
NAMESPACES = [
    "readtorch", "readtorch.nn", "readtorch.nn.functional", "readtorch.nn.init", "readtorch.nn.utils",
    "readtorch.nn.parameter", "readtorch.autograd", "readtorch.optim", "readtorch.utils.data", "readtorch.cuda",
    "readtorch.amp", "readtorch.distributed",
]  # fmt: skip


def public_names(module: ModuleType) -> set[str]:
    """What a namespace offers: its `__all__`, else names without an underscore that it or what lies below it defines."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    found = set()
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or type(value).__module__ == "__future__":
            continue
        if isinstance(value, ModuleType):
            home = value.__name__
        elif isinstance(value, type) or callable(value):
            home = getattr(inspect.unwrap(value), "__module__", None) or module.__name__
        else:
            home = module.__name__
        if f"{home}.".replace("torch.", "readtorch.", home.startswith("torch")).startswith(f"{module.__name__}."):
            found.add(name)
    return found


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMESPACES)
def test_public_names_are_upstreams_and_no_others(name: str) -> None:
    torch_name = name.replace("readtorch", "torch", 1)
    pytest.importorskip("torch")
    upstream = importlib.import_module(torch_name)
    ours = public_names(importlib.import_module(name))
    # `hasattr`, as some of upstream's sub-packages are imported when first named
    assert {each for each in ours - OURS.get(name, set()) if not hasattr(upstream, each)} == set()
