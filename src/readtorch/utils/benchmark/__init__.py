# Tangled from chapters/01_import/8e_benchmark.py — edit there, or here and run `readtorch sync`.
"""Timing of statements: `Timer`, the `Measurement`s that it makes, tables of them (twin of `torch/utils/benchmark/`)."""

from typing import Any as _Any

from readtorch.utils.benchmark import utils as utils
from readtorch.utils.benchmark.utils.common import Measurement as Measurement
from readtorch.utils.benchmark.utils.common import TaskSpec as TaskSpec
from readtorch.utils.benchmark.utils.common import ordered_unique as ordered_unique
from readtorch.utils.benchmark.utils.common import select_unit as select_unit
from readtorch.utils.benchmark.utils.common import set_torch_threads as set_torch_threads
from readtorch.utils.benchmark.utils.common import trim_sigfig as trim_sigfig
from readtorch.utils.benchmark.utils.common import unit_to_english as unit_to_english
from readtorch.utils.benchmark.utils.compare import Colorize as Colorize
from readtorch.utils.benchmark.utils.compare import Compare as Compare
from readtorch.utils.benchmark.utils.timer import Language as Language
from readtorch.utils.benchmark.utils.timer import Timer as Timer
from readtorch.utils.benchmark.utils.timer import timer as timer


def __getattr__(name: str) -> _Any:
    from readtorch import _not_here

    raise _not_here.missing("torch.utils.benchmark", name)
