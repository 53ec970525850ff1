"""What `import readtorch` may load and how long it may take, and that `torch._C` is made in upstream's order."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec

import pytest

from readtorch.csrc import module
from readtorch.literate import facts
from readtorch.literate.trace.imports import record_import

MAY_BE_LOADED = {
    *(
        "__future__",
        "_collections",
        "_functools",
        "_operator",
        "_weakref",
        "_weakrefset",
        "itertools",
        "math",
        "_typing",
    ),
    *(
        "collections",
        "collections.abc",
        "contextlib",
        "copyreg",
        "enum",
        "functools",
        "importlib",
        "keyword",
        "operator",
    ),
    *("importlib._abc", "importlib._bootstrap", "importlib._bootstrap_external", "importlib.machinery"),
    *(
        "re",
        "re._casefix",
        "re._compiler",
        "re._constants",
        "re._parser",
        "_sre",
        "reprlib",
        "types",
        "typing",
        "warnings",
    ),
    *("annotationlib", "ast", "_ast", "_ast_unparse"),
}
"""The standard library's modules below `typing` and `importlib`, of the Pythons that are supported; and nothing else."""


OURS = [
    "readtorch",
    "readtorch.csrc",
    "readtorch.csrc.utils",
    "readtorch.csrc.utils.device_lazy_init",
    "readtorch.c10",
    "readtorch.c10.core",
    "readtorch.c10.core.device",
]
"""The package's own file, and the tables in which a kind of device says what it is called and how it is initialised."""


def test_the_bare_import_loads_these_modules_of_ours_and_of_the_standard_library() -> None:
    run = record_import("readtorch")
    assert run.outcome == "imported", run.error
    assert run.own() == OURS
    assert set(run.names()) - set(OURS) <= MAY_BE_LOADED


def _seconds(code: str) -> float:
    """Processor time of a fresh Python that runs `code`: other processes lengthen it least."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _over(both: Callable[[], float], one: Callable[[], float]) -> float:
    """What `both` takes more than `one`: each the least disturbed of seven runs, taken in turns."""
    runs = [(both(), one()) for _ in range(7)]
    return min(b for b, _ in runs) - min(o for _, o in runs)


def test_the_import_takes_less_than_60_ms_on_top_of_numpy() -> None:
    over = _over(lambda: _seconds("import numpy, readtorch"), lambda: _seconds("import numpy"))
    assert over < 0.060


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_the_import_takes_at_most_an_eighth_of_what_pytorch_takes() -> None:
    bare = min(_seconds("pass") for _ in range(3))
    ours = min(_seconds("import readtorch") for _ in range(3)) - bare
    theirs = min(_seconds("import torch") for _ in range(2)) - bare
    assert ours <= theirs / 8


def test_the_steps_of_init_module_are_upstreams_in_upstreams_order() -> None:
    steps, known = module.initModule(), facts.calls("torch/csrc/Module.cpp#initModule")
    assert len(steps) >= 15 and set(steps) <= set(known)
    assert steps == [name for name in known if name in steps]
    assert module.initModule() == steps


def test_the_steps_of_init_extension_are_upstreams_in_upstreams_order() -> None:
    names: dict[str, object] = {}
    steps, known = module.THPModule_initExtension(names), facts.calls("torch/csrc/Module.cpp#THPModule_initExtension")
    assert steps == [name for name in known if name in steps] and len(steps) == 4
    assert {"float32", "strided", "contiguous_format", "FloatTensor"} <= set(names)


def test_init_module_fills_torch_c_when_it_is_called_first() -> None:
    code = (
        "import sys\nfrom readtorch.csrc import module\nassert 'readtorch._C' not in sys.modules\n"
        "steps = module.initModule()\nimport readtorch._C\n"
        "assert readtorch._C.Size and readtorch._C._nn and 'THPVariable_initModule' in steps"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_step_that_is_defined_again_takes_the_place_of_the_first() -> None:
    steps: list[module.Step] = []

    def first(made: object) -> None: ...
    def second(made: object) -> None: ...

    module.step(steps=steps)(second)
    module.step(before="second", steps=steps)(first)
    assert [s.__name__ for s in steps] == ["first", "second"]

    def again(made: object) -> None: ...

    again.__name__ = "first"
    module.step(steps=steps)(again)
    assert steps == [again, second]
