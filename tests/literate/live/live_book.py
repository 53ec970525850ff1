"""A small book for the live-package tests: every kind of code that DESIGN's clauses speak of, in a package of its own.

`make_book` writes it below a folder, tangles it, and puts the tools beside it, so that a kernel started with
`PYTHONPATH=<folder>/src` imports it under the name `readtorch`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import readtorch.literate
from readtorch.literate.chapter import Book
from readtorch.literate.tangle import tangle

HEADER = """\
# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
# ---
"""

CELLS = {
    "package": """
#| into: __init__.py
__version__ = "0"
""",
    "nn package": """
#| into: nn/__init__.py
from readtorch.nn.layers import Linear as Linear
from readtorch.nn.module import Module as Module
""",
    "tables package": """
#| into: tables.py
KERNELS = {}


def register(name, key="CPU"):
    if (name, key) in KERNELS:
        raise RuntimeError(f"{name} is registered for {key} already")

    def put(function):
        KERNELS[name, key] = function
        return function

    return put
""",
    "hooks": """
#| into: tables.py
START_HOOKS = []


def on_start(function):
    START_HOOKS.append(function)
    return function


def dispatch(name, *arguments, key="CPU"):
    return KERNELS[name, key](*arguments)
""",
    "module docstring": """
#| into: nn/module.py
\"\"\"Where modules are.\"\"\"
""",
    "module imports": """
#| into: nn/module.py
#| imports
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from readtorch.tables import on_start, register

if TYPE_CHECKING:
    from readtorch.nn.layers import Linear
""",
    "constants": """
#| into: nn/module.py
LIMIT = 10

_MISSING = object()

_hooks = OrderedDict()


def clip(value, limit=None):
    return min(value, LIMIT if limit is None else limit)
""",
    "Module": """
#| into: nn/module.py
class Module:
    \"\"\"Base of all modules.\"\"\"

    training: bool = True
    created: list = []

    def __init__(self):
        self._buffers = {}
        Module.created.append(type(self).__name__)

    def forward(self, value):
        return value

    def __call__(self, value):
        return self.forward(value)
""",
    "register_buffer": """
#| into: nn/module.py
class Module(Module):
    def register_buffer(self, name, tensor):
        self._buffers[name] = tensor
        return "book"

    def buffers(self):
        return list(self._buffers)
""",
    "extra": """
#| into: nn/module.py
class Module(Module):
    @property
    def size(self):
        return len(self._buffers)

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def kind():
        return "book kind"

    def __repr__(self):
        return super().__repr__().partition(" object")[0] + ">"
""",
    "default hook": """
#| into: nn/module.py
_hooks["default"] = clip
""",
    "kernel": """
#| into: nn/module.py
@register("double")
def double(value):
    return 2 * value
""",
    "start hook": """
#| into: nn/module.py
@on_start
def announce():
    return "book start"


@on_start
def second():
    return "second"
""",
    "operators imports": """
#| into: operators.py
#| imports
from types import SimpleNamespace
""",
    "operators": """
#| into: operators.py
library = SimpleNamespace()


class Entry:
    def __init__(self, name):
        self.name, self.kernel, self.derivative, self.call = name, None, None, None


ENTRIES = {}


def entry_point(entry):
    kernel, derivative = entry.kernel, entry.derivative

    def call(value):
        return kernel(value), derivative and derivative(value)

    call.__qualname__ = entry.name
    return call


def operator(name):
    def put(kernel):
        ENTRIES.setdefault(name, Entry(name)).kernel = kernel
        offer(ENTRIES[name])
        return kernel

    return put


def derivative(name, formula):
    ENTRIES[name].derivative = formula
    offer(ENTRIES[name])


def offer(entry):
    entry.call = entry_point(entry)
    setattr(library, entry.name, entry.call)
""",
    "square imports": """
#| into: square.py
#| imports
from readtorch.operators import derivative, library, operator
""",
    "square": """
#| into: square.py
@operator("square")
def square_kernel(value):
    return value * value


derivative("square", lambda value: 2 * value)
""",
    "square function": """
#| into: square.py
square = library.square
""",
    "cuda": """
#| into: kernels.cu
r\"\"\"
__global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }
\"\"\"
""",
    "cuda more": """
#| into: kernels.cu
r\"\"\"
__global__ void half(float* x) { x[threadIdx.x] *= 0.5f; }
\"\"\"
""",
    "layers imports": """
#| into: nn/layers.py
#| imports
import collections
import dataclasses
import enum
from typing import NamedTuple

from readtorch.nn.module import LIMIT, Module, clip
""",
    "Linear": """
#| into: nn/layers.py
class Linear(Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def register_buffer(self, name, tensor):
        return "linear then " + super().register_buffer(name, tensor)

    def forward(self, value):
        return clip(value * self.width)


def limit_seen():
    return LIMIT
""",
    "Slotted": """
#| into: nn/layers.py
class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1
        self.b = 2

    def total(self):
        return self.a + self.b
""",
    "records": """
#| into: nn/layers.py
@dataclasses.dataclass
class Options:
    rate: float = 0.1

    def doubled(self):
        return 2 * self.rate
""",
    "records more": """
#| into: nn/layers.py
class Options(Options):
    def described(self):
        return f"rate {self.rate}"
""",
    "choices": """
#| into: nn/layers.py
class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


class Pair(NamedTuple):
    left: int
    right: int
""",
    "keys": """
#| into: nn/layers.py
class Keys(collections.namedtuple("Keys", ["missing"])):
    __slots__ = ()

    def __repr__(self):
        return "all matched" if not self.missing else super().__repr__()
""",
    "wrapped": """
#| into: nn/layers.py
def counted(function):
    calls = []

    def wrapper(*arguments):
        calls.append(arguments)
        return function(*arguments)

    wrapper.calls = calls
    return wrapper


class Meter(Module):
    @counted
    def measure(self, value):
        return self.forward(value) + 1

    def own_class(self):
        return __class__
""",
    "named": """
#| into: nn/layers.py
class Named:
    def __set_name__(self, owner, name):
        self.owner, self.name = owner, name

    def __get__(self, instance, owner=None):
        return f"{self.owner.__name__}.{self.name}"


class Holder:
    label = Named()
""",
}


def cell(name: str) -> str:
    """The text of one cell, as a front end sends it."""
    return CELLS[name].strip("\n")


def chapter() -> str:
    return HEADER + "".join(f"\n# %% [markdown]\n# {name}\n\n# %%\n{cell(name)}\n" for name in CELLS)


def make_book(folder: Path) -> Path:
    """Write, tangle and equip the book. Returns its `src`."""
    (folder / "chapters").mkdir(parents=True)
    (folder / "chapters" / "02_module.py").write_text(chapter(), encoding="utf-8")
    package = folder / "src" / "readtorch"
    for path, file in tangle(Book.load(folder)).items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(file.text, encoding="utf-8")
    tools = Path(readtorch.literate.__file__).parent
    shutil.copytree(tools, package / "literate", ignore=shutil.ignore_patterns("__pycache__", "data", "weave", "trace"))
    return package.parent
