"""The real book in a real kernel: `Module.register_buffer` edited in its cell of chapter 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Kernel

import readtorch.literate
from readtorch.literate.chapter import Book, Cell


@pytest.fixture(scope="module")
def cells() -> dict[str, Cell]:
    """Tangled cells of chapter 2 into module.py, by the names they define."""
    book = Book.load()
    found: dict[str, Cell] = {}
    for part in book.parts:
        for cell in part.code_cells:
            if cell.into == "nn/modules/module.py" and not cell.has("imports"):
                found.update(dict.fromkeys(cell.defines, cell))
    return found


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    source = Path(readtorch.literate.__file__).parents[2]
    kernel = Kernel(source, tmp_path_factory.mktemp("kernel"))
    kernel.must(
        "import readtorch as torch\nfrom readtorch import nn\nfrom readtorch.literate import diff, live, reset\nlive()"
    )
    kernel.must(
        """
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
class Mine(nn.Module):
    def register_buffer(self, name, tensor, persistent=True):
        super().register_buffer("mine_" + name, tensor, persistent)
mine = Mine()
"""
    )
    yield kernel
    kernel.close()


@pytest.fixture(autouse=True)
def _book_again(kernel: Kernel) -> Iterator[None]:
    yield
    kernel.must("reset()")


def edited(cells: dict[str, Cell], old: str, new: str) -> str:
    source = cells["Module.register_buffer"].source
    assert old in source
    return source.replace(old, new, 1)


STORE = "self._buffers[name] = "
NOTE = f"self.__dict__['_noted'] = name\n        {STORE}"


def test_an_instance_made_before_and_a_subclass_elsewhere_behave_as_edited(
    kernel: Kernel, cells: dict[str, Cell]
) -> None:
    kernel.must(cells["Module.register_buffer"].source, "cell")
    kernel.must(edited(cells, STORE, NOTE), "cell")
    kernel.must("model.register_buffer('a', torch.ones(1)); mine.register_buffer('b', None)")
    assert kernel.value("(model._noted, mine._noted, list(model._buffers))") == "('a', 'mine_b', ['a'])"
    assert kernel.value("nn.BatchNorm1d(2)._noted") == "'num_batches_tracked'", "a layer of another file, made now"
    assert kernel.value("nn.Module.register_buffer is type(model).register_buffer") == "True"
    kernel.must("del model._buffers['a']")


def test_a_spawned_process_sees_the_edit(kernel: Kernel, cells: dict[str, Cell]) -> None:
    kernel.must(edited(cells, STORE, f"tensor = None\n        {STORE}"))
    program = (
        "import readtorch as torch; m = torch.nn.Module(); m.register_buffer('a', torch.ones(1)); print(m._buffers)"
    )
    kernel.must("import subprocess, sys, operator, multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor")
    seen = kernel.must(
        f"print(subprocess.run([sys.executable, '-c', {program!r}], capture_output=True, text=True))"
    ).printed
    assert "{'a': None}" in seen, seen
    ask = (
        "(lambda t, m: (m.register_buffer('a', t.ones(1)), m._buffers)[1])"
        "(__import__('readtorch'), __import__('readtorch').nn.Module())"
    )
    pool = "ProcessPoolExecutor(1, multiprocessing.get_context('spawn'))"
    seen = kernel.must(f"with {pool} as pool:\n    print(pool.submit(eval, {ask!r}).result())").printed
    assert seen == "{'a': None}\n"


def test_an_edit_that_raises_leaves_the_package_as_it_was(kernel: Kernel, cells: dict[str, Cell]) -> None:
    kernel.must("before = dict(vars(nn.Module)), nn.Module.register_buffer.__code__")
    outcome = kernel.run(edited(cells, STORE, NOTE) + "\n    raise RuntimeError('half way')")
    assert outcome.error == "RuntimeError: half way"
    assert kernel.value("(dict(vars(nn.Module)), nn.Module.register_buffer.__code__) == before") == "True"
    assert kernel.value("bool(diff())") == "False"


def test_reset_restores_the_books_text(kernel: Kernel, cells: dict[str, Cell]) -> None:
    kernel.must("code = nn.Module.register_buffer.__code__")
    kernel.must(edited(cells, STORE, NOTE))
    assert "+        self.__dict__['_noted'] = name" in kernel.must("diff()").shown
    kernel.must("reset(nn.Module.register_buffer)")
    assert kernel.value("nn.Module.register_buffer.__code__ is code and not diff()") == "True"


def test_an_early_cell_run_again_loses_no_later_fragment(kernel: Kernel, cells: dict[str, Cell]) -> None:
    kernel.must("members = set(vars(nn.Module))")
    opening = cells["Module"].source
    kernel.must(opening + "\n\n    added_by_the_reader = 1\n")
    assert kernel.value("set(vars(nn.Module)) - members") == "{'added_by_the_reader'}"
    assert kernel.value("members - set(vars(nn.Module))") == "set()"
    assert kernel.value("len(model.state_dict())") == "7"


def test_a_derivative_is_edited_in_its_cell(kernel: Kernel) -> None:
    """A registration replaces its operator wherever it was copied to."""
    cell = next(c for part in Book.load().parts for c in part.code_cells if 'binary(\n    "sub",' in c.source)
    kernel.must("sub = torch.sub\nx = torch.ones(1, requires_grad=True)")
    kernel.must(
        "def slopes():\n    ys = [1 - x, sub(torch.ones(1), x), torch.ones(1).sub(x)]\n    return [torch.autograd.grad(y, x)[0].item() for y in ys]"
    )
    assert kernel.value("slopes()") == "[-1.0, -1.0, -1.0]"
    assert "second=lambda at, grad: -grad" in cell.source
    kernel.must(cell.source.replace("second=lambda at, grad: -grad", "second=lambda at, grad: -3 * grad"))
    assert kernel.value("slopes()") == "[-3.0, -3.0, -3.0]"
    kernel.must("reset()")
    assert kernel.value("slopes()") == "[-1.0, -1.0, -1.0]"
