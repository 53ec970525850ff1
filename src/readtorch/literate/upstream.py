"""`readtorch upstream`: check the book's references to PyTorch's source, look names up, regenerate the fact base."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from readtorch.literate import facts
from readtorch.literate.chapter import Book
from readtorch.literate.declarations import Row, cpp_rows, python_rows, yaml_rows
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.exports import exported_names, source_paths

PYTHON = (
    "*.py",
    "_C/{_autograd,_distributed_c10d,_functions,_functorch,_cpu,_monitor,_profiler}.pyi",
    "_functorch/{__init__,apis,autograd_function,batch_norm_replacement,eager_transforms,functional_call,vmap}.py",
    "_refs/__init__.py",
    "_refs/nn/functional/*.py",
    "accelerator/*.py",
    "amp/*.py",
    "ao/quantization/__init__.py",
    "autograd/*.py",
    "backends/*.py",
    "backends/{cpu,cuda,cudnn,mkl,mkldnn,mps,openmp}/*.py",
    "compiler/*.py",
    "cpu/**/*.py",
    "cuda/*.py",
    "cuda/amp/*.py",
    "distributed/*.py",
    "distributed/algorithms/**/*.py",
    "distributed/elastic/{agent,rendezvous,multiprocessing}/**/*.py",
    "distributed/launcher/*.py",
    "distributed/nn/*.py",
    "distributed/optim/*.py",
    "distributed/utils.py",
    "distributions/*.py",
    "fft/*.py",
    "func/*.py",
    "jit/{__init__,_script,_trace}.py",
    "linalg/*.py",
    "multiprocessing/*.py",
    "nn/*.py",
    "nn/attention/__init__.py",
    "nn/modules/*.py",
    "nn/parallel/*.py",
    "nn/utils/*.py",
    "onnx/__init__.py",
    "optim/*.py",
    "profiler/*.py",
    "sparse/__init__.py",
    "special/*.py",
    "testing/*.py",
    "utils/*.py",
    "utils/benchmark/*.py",
    "utils/benchmark/utils/*.py",
    "utils/data/**/*.py",
    "utils/serialization/*.py",
    "utils/tensorboard/*.py",
)
"""Python files below torch/ that the book may speak of."""

GENERATED = (
    "torch/version.py",
    "aten/src/ATen/RegistrationDeclarations.h",
    "aten/src/ATen/VmapGeneratedPlumbing.h",
    "aten/src/ATen/core/TensorBody.h",
    "aten/src/ATen/Config.h",
)
"""Files of an installed torch that its repository does not have, besides those that say `@generated` at their head."""

HEADERS = (
    "ATen/*.h",
    "ATen/core/*.h",
    "ATen/core/dispatch/*.h",
    "ATen/cuda/*.h",
    "ATen/detail/*.h",
    "ATen/functorch/*.h",
    "ATen/native/*.h",
    "ATen/native/cpu/*.h",
    "ATen/native/cuda/*.cuh",
    "c10/core/*.h",
    "c10/core/impl/*.h",
    "c10/cuda/*.h",
    "c10/util/{intrusive_ptr,Exception,typeid,accumulate,SmallVector,ArrayRef}.h",
    "caffe2/serialize/*.h",
    "torch/*.h",
    "torch/headeronly/core/*.h",
    "torch/headeronly/util/{Half,BFloat16,complex,Exception}.h",
    "torch/csrc/*.h",
    "torch/csrc/api/include/torch/*.h",
    "torch/csrc/api/include/torch/{nn,data,optim,serialize}/**/*.h",
    "torch/csrc/autograd/*.h",
    "torch/csrc/autograd/{functions,utils}/*.h",
    "torch/csrc/cuda/*.h",
    "torch/csrc/distributed/c10d/*.hpp",
    "torch/csrc/distributed/c10d/*.h",
    "torch/csrc/jit/serialization/*.h",
    "torch/csrc/profiler/*.h",
    "torch/csrc/tensor/*.h",
    "torch/csrc/utils/*.h",
)
"""Headers below torch/include/ that the book may speak of."""

OPERATORS = {
    "aten/src/ATen/native/native_functions.yaml": "packaged/ATen/native/native_functions.yaml",
    "tools/autograd/derivatives.yaml": "packaged/autograd/derivatives.yaml",
}
"""Path in the repository to path in the `torchgen` package that the wheel carries."""

LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")
SCOPES = (
    "at",
    "c10",
    "c10d",
    "caffe2::serialize",
    "torch",
    "torch::autograd",
    "torch::nn",
    "torch::data",
    "torch::utils",
)
INNER = ("at::native", "torch::autograd::generated::details")
"""Namespaces whose members are listed; of other namespaces below SCOPES, classes with their methods are."""
SKIPPED = (
    "torch::jit",
    "torch::lazy",
    "torch::distributed",
    "torch::profiler",
    "torch::inductor",
    "at::cpu",
    "at::meta",
    "at::composite",
    "at::functorch",
    "at::vec",
    "at::_ops",
    "at::jit",
    "torch::autograd::generated",
    "at::native::structured_",
)


def installed_torch() -> Path | None:
    """The folder of an installed PyTorch of any version, found without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or not (Path(spec.origin).parent / "version.py").exists():
        return None
    return Path(spec.origin).parent


def installed_version(torch: Path) -> str:
    namespace: dict[str, object] = {}
    for line in (torch / "version.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("__version__"):
            exec(line, namespace)
    return str(namespace.get("__version__", "unknown"))


def matching(root: Path, patterns: Iterable[str]) -> list[Path]:
    """Files below `root` that match one of the patterns; `{a,b}` stands for either."""
    found: set[Path] = set()
    for pattern in patterns:
        head, brace, rest = pattern.partition("{")
        choices, _, tail = rest.partition("}")
        for choice in choices.split(",") if brace else [""]:
            found.update(root.glob(head + choice + tail))
    return sorted(p for p in found if p.is_file())


def sections(files: Iterable[tuple[str, Path]], scan: Callable[[str], list[Row]]) -> Iterator[str]:
    """The text of each file's section: its repository path, then a line per symbol."""
    for path, file in sorted(files):
        text = file.read_text(encoding="utf-8")
        if path in GENERATED or re.search(r"@generated|automatically generated|DO NOT (EDIT|MODIFY)", text[:400]):
            continue
        yield path
        for row in scan(text):
            if row.kind != "forward":
                end = f" {row.end}" if row.end != row.start else ""
                yield f"{' ' * (row.depth + 1)}{row.name} {facts.KIND_CODES[row.kind]} {row.start}{end}"


def sync(torch: Path, into: Path = facts.DATA) -> list[str]:
    """Write the generated data files from the installed torch; returns the names of those that changed."""
    include = torch / "include"
    python = [("torch/" + f.relative_to(torch).as_posix(), f) for f in matching(torch, PYTHON)]
    headers = [(_header_path(f.relative_to(include).as_posix()), f) for f in matching(include, HEADERS)]
    generators = torch.parent / "torchgen" / "packaged" / "autograd"
    python += [("tools/autograd/" + f.name, f) for f in matching(generators, ["gen_*.py", "load_derivatives.py"])]
    templates = matching(generators / "templates", ["*.cpp", "*.h"])
    headers += [("tools/autograd/templates/" + f.name, f) for f in templates]
    operators = [(path, torch.parent / "torchgen" / file) for path, file in OPERATORS.items()]
    written = {
        "python.txt": sections(python, python_rows),
        "headers.txt": sections(headers, cpp_rows),
        "operators.txt": sections(operators, yaml_rows),
    }
    libraries = [torch / "lib" / name for name in LIBRARIES if (torch / "lib" / name).exists()]
    if libraries:
        written["files.txt"] = iter(sorted(set().union(*map(source_paths, libraries))))
        written["exports.txt"] = _export_lines(set().union(*map(exported_names, libraries)))
    changed = []
    for name, lines in written.items():
        text = f"# PyTorch {facts.RELEASE}; written by `readtorch upstream sync`, read by literate/facts.py.\n"
        text += "\n".join(lines) + "\n"
        file = into / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed


def _header_path(path: str) -> str:
    return "aten/src/" + path if path.startswith("ATen/") else path


def _export_lines(names: set[tuple[str, ...]]) -> Iterator[str]:
    """A line per namespace or class: its members, and the classes in it that have exported members.

    `TORCH_IMPL_FUNC(name)` in the sources is the class `structured_name` in the libraries: both names are listed.
    """
    scopes: dict[str, set[str]] = {}
    for *outer, name in names | {parts[:-1] for parts in names if len(parts) > 2}:
        scope = "::".join(outer) or "::"
        if _is_listed(scope, name):
            scopes.setdefault(scope, set()).update({name, name.removeprefix("structured_")})
    for scope in sorted(scopes):
        yield f"{scope} {' '.join(sorted(scopes[scope]))}"


def _is_listed(scope: str, name: str) -> bool:
    if scope == "::":
        return name.startswith(("THP", "init", "PyInit"))
    if "lambda" in name or name.startswith("_GLOBAL_"):
        return False
    if scope in INNER:
        return True
    return f"{scope}::".startswith(tuple(s + "::" for s in SCOPES)) and not scope.startswith(SKIPPED)


def check(book: Book) -> int:
    """Verify every `upstream:` and `fact:` of the book; returns how many there are. Raises LiterateError with all faults."""
    problems = Problems()
    count = 0
    for path, line, key, value in references(book):
        count += 1
        try:
            facts.resolve(value) if key == "upstream" else facts.resolve_fact(value)
        except facts.Unresolved as error:
            problems.add(path, line, f"{key}: {error.message}", error.way_out)
    problems.raise_if_any()
    return count


def references(book: Book) -> Iterator[tuple[str, int, str, str]]:
    """(chapter path, line, key, value) of every `upstream:` and `fact:`."""
    for part in book.parts:
        for cell in part.code_cells:
            for directive in cell.directives:
                if directive.key in ("upstream", "fact"):
                    yield part.path, directive.line, directive.key, directive.value


def check_installed(book: Book, torch: Path) -> None:
    """Hold the exact targets of the book against the installed torch's own files. Raises LiterateError."""
    problems = Problems()
    scanned: dict[str, set[tuple[str, int, int]]] = {}
    for path, line, key, value in references(book):
        for target in [facts.resolve(value)] if key == "upstream" else facts.resolve_fact(value):
            if target.grade != "exact" or not target.path.endswith((".py", ".pyi")):
                continue
            if target.path not in scanned:
                file = torch.parent / _place_in_wheel(target.path)
                scanned[target.path] = set(qualified(python_rows(file.read_text("utf-8")))) if file.exists() else set()
            if (target.name, target.start, target.end) not in scanned[target.path]:
                problems.add(
                    path,
                    line,
                    f"the installed torch has no {target.name} at {target.path}:{target.start}-{target.end}",
                    "run `readtorch upstream sync`",
                )
    problems.raise_if_any()


def _place_in_wheel(path: str) -> str:
    """Where the wheel has a file of the repository: the generators of `tools/autograd` lie in `torchgen`."""
    return path.replace("tools/autograd/", "torchgen/packaged/autograd/", 1)


def qualified(rows: Iterable[Row]) -> Iterator[tuple[str, int, int]]:
    """(dotted name, first line, last line) of nested rows."""
    stack: list[str] = []
    for row in rows:
        del stack[row.depth :]
        stack.append(row.name)
        yield ".".join(stack), row.start, row.end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    commands.add_parser("check", help="verify every upstream: and fact: of the chapters")
    commands.add_parser("sync", help="regenerate the fact base from the installed torch")
    find = commands.add_parser("find", help="list upstream targets whose name contains WORD")
    find.add_argument("word")
    show = commands.add_parser("resolve", help="where a target stands")
    show.add_argument("target", help="path#qualified.name")


def run(args: argparse.Namespace) -> int:
    return {"check": _run_check, "sync": _run_sync, "find": _run_find, "resolve": _run_resolve}[args.action](args)


def _run_check(args: argparse.Namespace) -> int:
    book = Book.load()
    count = check(book)
    torch = installed_torch()
    if torch is None:
        print(
            f"{count} references resolve in the fact base of PyTorch {facts.RELEASE}; torch is not installed to compare with"
        )
        return 0
    version = installed_version(torch)
    if version.partition("+")[0] != facts.RELEASE:
        print(f"{count} references resolve; the installed torch is {version}, so its lines were not compared")
        return 0
    check_installed(book, torch)
    print(f"{count} references resolve and agree with the installed torch {version}")
    return 0


def _run_sync(args: argparse.Namespace) -> int:
    torch = installed_torch()
    if torch is None:
        raise LiterateError(Problem("torch", 0, "is not installed", f"pip install torch=={facts.RELEASE}"))
    version = installed_version(torch)
    if version.partition("+")[0] != facts.RELEASE:
        raise LiterateError(
            Problem(
                "torch",
                0,
                f"{version} is installed, the book speaks of {facts.RELEASE}",
                f"pip install torch=={facts.RELEASE}",
            )
        )
    changed = sync(torch)
    print(f"rewrote {', '.join(changed)}" if changed else "nothing changed")
    return 0


def _run_find(args: argparse.Namespace) -> int:
    found = 0
    for target in found_by(args.word):
        found += 1
        print(f"{target.path}#{target.name}  ({target.grade})")
    if not found:
        print(f"nothing is called {args.word}", file=sys.stderr)
    return 0 if found else 1


def found_by(word: str) -> Iterator[facts.Target]:
    """Targets whose name contains the word; of none, those that it spells as `readtorch show` takes it.

    That is `path#name`, or a public name (`nn.Module.register_buffer`): what stands before the name is looked for in the path.
    """
    lowered = word.lower()
    everything = [target for path in facts.paths() for target in facts.symbols_in(path)]
    contain = [target for target in everything if lowered in target.name.lower()]
    if contain:
        yield from contain
        return
    path, mark, name = lowered.partition("#")
    wanted = [p for p in re.split(r"\.|::", name if mark else lowered) if p]
    if not mark and wanted[:1] in (["torch"], ["readtorch"]):
        del wanted[0]
    for target in everything:
        parts = [p for p in re.split(r"\.|::", target.name.lower()) if p]
        before, tail = wanted[: -len(parts)], wanted[-len(parts) :]
        if len(wanted) < len(parts):
            parts = parts[-len(wanted) :]
        if (
            tail == parts
            and tail
            and (path == target.path.lower() if mark else _stands_in(before, target.path.lower()))
        ):
            yield target


def _stands_in(before: list[str], path: str) -> bool:
    """Are these folders and files of the path, in this order?"""
    places = path.rpartition(".")[0].split("/")
    for component in before:
        if component not in places:
            return False
        places = places[places.index(component) + 1 :]
    return True


def _run_resolve(args: argparse.Namespace) -> int:
    try:
        target = facts.resolve(args.target)
    except facts.Unresolved as error:
        raise LiterateError(error.problem("upstream", 0)) from None
    print(f"{target.name}: {target.kind}, {target.grade}\n{target.url}")
    return 0
