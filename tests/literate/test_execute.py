"""The executor: what a part's cells leave behind, what goes wrong, and where it says so."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from small_books import SmallBook, texts

from readtorch.literate.errors import LiterateError
from readtorch.literate.execute import execute
from readtorch.literate.tangle import tangle


@pytest.fixture
def small(tmp_path: Path) -> SmallBook:
    return SmallBook(tmp_path)


def test_streams_results_and_displays_come_in_the_order_in_which_they_were_made(small: SmallBook) -> None:
    small.chapter("""
        # %%
        import os, subprocess, sys
        print("one")
        subprocess.run([sys.executable, "-c", "print('two')"])
        print("three", file=sys.stderr)
        display("four")
        if os.fork() == 0:
            print("from a child")
            os._exit(0)
        os.wait()
        5
        """)
    result = small.run()
    (outputs,) = [cell.outputs for cell in result.cells.values()]
    kinds = [(o["output_type"], o.get("name", "")) for o in outputs]
    assert texts(result) == ["one\ntwo\n", "three\n", "'four'", "from a child\n", "5"]
    assert kinds == [
        ("stream", "stdout"),
        ("stream", "stderr"),
        ("display_data", ""),
        ("stream", "stdout"),
        ("execute_result", ""),
    ]


def test_a_progress_line_is_kept_in_its_last_state(small: SmallBook) -> None:
    small.chapter("""
        # %%
        for i in range(4):
            print(f"\\repoch {i}", end="")
        print(" done")
        """)
    assert texts(small.run()) == ["epoch 3 done\n"]


def test_machine_paths_and_addresses_do_not_reach_the_page(small: SmallBook, tmp_path: Path) -> None:
    small.chapter("""
        # %%
        import os, tempfile, textwrap
        class Thing: ...
        print(os.getcwd(), Thing())
        print(tempfile.mkdtemp())
        print(textwrap.__file__)
        """)
    (shown,) = texts(small.run())
    assert str(tmp_path) not in shown
    assert shown.splitlines() == [
        "chapters <__main__.Thing object at 0x…>",
        "/tmp/…",
        "python/textwrap.py",
    ]


def test_a_warning_names_the_cell_and_its_own_line(small: SmallBook) -> None:
    small.chapter("""
        # %%
        1

        # %%
        import warnings
        warnings.warn("careful")
        """)
    assert texts(small.run()) == ["1", 'Cell In[2]:2: UserWarning: careful\n  warnings.warn("careful")\n']


def test_a_figure_is_shown_as_png_with_its_size_and_the_same_bytes_each_time(small: SmallBook) -> None:
    pytest.importorskip("matplotlib")
    small.chapter("""
        # %%
        import matplotlib.pyplot as plt
        _, axes = plt.subplots(figsize=(2, 1))
        axes.plot([1, 3, 2])
        None
        """)
    (one,) = small.run().cells[0].outputs
    (two,) = small.run().cells[0].outputs
    assert one["output_type"] == "display_data"
    assert one["data"]["image/png"].startswith("iVBORw0KGgo")
    assert one["metadata"]["image/png"]["width"] == pytest.approx(200, abs=20)
    assert one == two


def test_generators_start_from_the_same_seed_in_every_run(small: SmallBook) -> None:
    small.module("__init__.py", "seeds = []\ndef manual_seed(n): seeds.append(n)\n")
    small.chapter("""
        # %%
        import random
        import numpy as np
        import readtorch
        random.random(), float(np.random.rand()), hash("x"), readtorch.seeds
        """)
    first, second = texts(small.run()), texts(small.run())
    assert first == second
    assert first[0].endswith("[0])")


def test_rich_values_keep_all_their_representations(small: SmallBook) -> None:
    small.chapter("""
        # %%
        class Both:
            def __repr__(self): return "both"
            def _repr_html_(self): return "<b>both</b>"
        Both()
        """)
    (output,) = small.run().cells[0].outputs
    assert output["data"] == {"text/html": "<b>both</b>", "text/plain": "both"}


def test_a_tangled_cell_brings_names_from_the_package_and_is_not_run_again(small: SmallBook) -> None:
    small.module("nn/__init__.py", "")
    small.module("nn/layer.py", "import collections as c\nruns = 1\nclass Layer:\n    origin = __name__\n")
    small.chapter("""
        # %%
        #| into: nn/layer.py
        #| imports
        import collections as c

        # %%
        #| into: nn/layer.py
        raise_if_run = 1 / 0
        class Layer:
            origin = __name__

        # %%
        #| into: nn/layer.py
        class Layer(Layer):
            def method(self): ...

        # %%
        Layer.origin, c.__name__
        """)
    assert texts(small.run()) == ["('readtorch.nn.layer', 'collections')"]


def test_classes_of_a_chapter_pickle_by_name_and_functions_have_their_source(small: SmallBook) -> None:
    small.chapter("""
        # %%
        import inspect, pickle
        class Thing: ...
        def function(): ...
        type(pickle.loads(pickle.dumps(Thing()))) is Thing, inspect.getsource(function)
        """)
    assert texts(small.run()) == ["(True, 'def function(): ...\\n')"]


def test_top_level_await_works(small: SmallBook) -> None:
    small.chapter("""
        # %%
        import asyncio
        await asyncio.sleep(0, "slept")
        """)
    assert texts(small.run()) == ["'slept'"]


def test_cells_that_cannot_run_here_are_skipped_by_name(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| gpu
        raise SystemError

        # %%
        #| needs: 07_distributed
        raise SystemError

        # %%
        #| needs: 03_norm
        "ran"
        """)
    small.chapter("# %%\n1\n", "03_norm")
    result = small.run()
    assert [result.cells[i].skipped for i in (0, 1, 2)] == ["needs a CUDA device", "needs chapter 07_distributed", ""]
    assert texts(result) == ["'ran'"]


def test_an_announced_exception_is_an_output_and_its_absence_a_fault(small: SmallBook) -> None:
    small.chapter("""
        # %% tags=["raises-exception"]
        def fail():
            raise ValueError("as announced")
        fail()

        # %% tags=["raises-exception"]
        "nothing happens"
        """)
    result = small.run()
    (error,) = result.cells[0].outputs
    assert (error["ename"], error["evalue"]) == ("ValueError", "as announced")
    assert 'File "Cell In[1]", line 2, in fail' in "".join(error["traceback"])
    assert [p.line for p in result.problems] == [small.line_of('"nothing happens"')]


def test_every_fault_of_every_part_is_listed_with_its_chapter_line(small: SmallBook) -> None:
    small.chapter(
        """
        # %% [markdown]
        # # First

        # %%
        def inner():
            return missing_name
        inner()

        # %%
        import no_such_module
        """,
        "02_module",
    )
    small.chapter(
        """
        # %%
        x = 1 / 0

        # %%
        x + 1

        # %%
        y = [][3]
        """,
        "03_norm",
    )
    executor = small.executor()
    found = [p for r in executor.run(list(executor.book.parts)).values() for p in r.problems]
    at = {(p.path, p.line): p.message.split("\n")[0] for p in found}
    assert at == {
        ("chapters/02_module.py", small.line_of("\ninner()".strip(), "02_module") + 2): (
            "NameError: name 'missing_name' is not defined"
        ),
        ("chapters/02_module.py", small.line_of("import no_such_module")): (
            "ModuleNotFoundError: No module named 'no_such_module'"
        ),
        ("chapters/03_norm.py", 2): "ZeroDivisionError: division by zero",
        ("chapters/03_norm.py", small.line_of("y = [][3]", "03_norm")): "IndexError: list index out of range",
    }
    inside = next(p for p in found if "missing_name" in p.message)
    assert f'File "chapters/02_module.py", line {small.line_of("return missing_name")}, in inner' in inside.message


def test_execute_raises_one_error_with_everything(small: SmallBook) -> None:
    small.chapter("""
        # %%
        1 / 0

        # %%
        #| fact: torch/nn/modules/module.py#Module.no_such_method
        [][0]
        """)
    with pytest.raises(LiterateError) as caught:
        execute(small.book, cache=None)
    messages = [p.message.split("\n")[0] for p in caught.value.problems]
    assert messages[0].startswith("ZeroDivisionError")
    assert any("no_such_method" in m for m in messages)
    assert any("IndexError" in m for m in messages)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(3)", "ended its process with status 3"),
        ("import ctypes; ctypes.string_at(0)", "was ended by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
    ],
)
def test_a_part_whose_process_dies_is_a_fault_of_the_cell_that_was_running(
    small: SmallBook, code: str, said: str
) -> None:
    small.chapter(f"""
        # %%
        "before"

        # %%
        x = 1
        {code}
        """)
    small.chapter("# %%\n'the other part'\n", "03_norm")
    executor = small.executor()
    results = executor.run(list(executor.book.parts))
    (problem,) = results["02_module"].problems
    assert said in problem.message
    assert problem.line in (small.line_of("x = 1"), small.line_of("x = 1") + 1)
    assert texts(results["03_norm"]) == ["'the other part'"]


def test_a_cell_that_hangs_is_ended_and_named_by_line(small: SmallBook) -> None:
    small.chapter("""
        # %%
        "before"

        # %%
        n = 0
        while True:
            n += 1
        """)
    begin = time.monotonic()
    (problem,) = small.run(limit=1.0).problems
    assert time.monotonic() - begin < 15
    assert "did nothing for 1 seconds" in problem.message
    assert problem.line in (small.line_of("while True"), small.line_of("n += 1"))


def test_processes_that_a_part_leaves_behind_are_ended(small: SmallBook, tmp_path: Path) -> None:
    small.chapter(f"""
        # %%
        import subprocess
        child = subprocess.Popen(["sleep", "60"])
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid));
        """)
    assert not small.run().problems
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_exercise_runs_its_solution_and_its_check_must_fail_on_the_stub(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| exercise: double
        def double(x):
            raise NotImplementedError

        # %%
        #| solution: double
        def double(x):
            return 2 * x

        # %%
        #| check: double
        assert double(4) == 8

        # %%
        double(5)
        """)
    result = small.run()
    assert not result.problems
    assert texts(result) == ["10"]


def test_a_check_that_passes_on_the_stub_is_a_fault(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| exercise: double
        def double(x):
            raise NotImplementedError

        # %%
        #| solution: double
        def double(x):
            return 2 * x

        # %%
        #| check: double
        assert callable(double)
        """)
    (problem,) = small.run().problems
    assert problem.line == small.line_of("#| check: double")
    assert "passes on the stub" in problem.message


def test_a_failing_check_shows_both_sides(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| test
        def test_sum():
            assert sum([1, 2]) == 4
        """)
    (problem,) = small.run().problems
    assert "left:  3" in problem.message
    assert "right: 4" in problem.message
    assert f"line {small.line_of('assert sum')}, in test_sum" in problem.message


def test_outputs_are_what_nbformat_accepts(small: SmallBook) -> None:
    nbformat = pytest.importorskip("nbformat")
    small.chapter("""
        # %%
        print("text")
        display({"a": 1})
        3

        # %% tags=["raises-exception"]
        raise KeyError("k")
        """)
    result = small.run()
    cells = [
        nbformat.v4.new_code_cell("", outputs=[nbformat.from_dict(o) for o in cell.outputs])
        for cell in result.cells.values()
    ]
    nbformat.validate(nbformat.v4.new_notebook(cells=cells))
    json.dumps([cell.outputs for cell in result.cells.values()])


def test_an_endless_output_is_cut(small: SmallBook) -> None:
    small.chapter("""
        # %%
        for _ in range(3000):
            print("x" * 1000)
        """)
    (shown,) = texts(small.run())
    assert len(shown) < 1_010_000
    assert "cut here" in shown


def test_a_semicolon_hides_the_value_and_an_underscore_holds_the_last_one(small: SmallBook) -> None:
    small.chapter("""
        # %%
        3

        # %%
        print(_);

        # %%
        calls = []
        calls.append(1);

        # %%
        _, calls
        """)
    assert texts(small.run()) == ["3", "3\n", "(3, [1])"]


def test_a_namespace_is_not_shared_between_parts(small: SmallBook) -> None:
    small.chapter("# %%\nimport os\nos.environ['LEAK'] = '1'\nname = 1\n", "02_module")
    small.chapter("# %%\nimport os\n'LEAK' in os.environ, 'name' in globals()\n", "03_norm")
    executor = small.executor()
    assert texts(executor.run(list(executor.book.parts))["03_norm"]) == ["(False, False)"]


def test_frames_of_the_package_name_their_chapter(small: SmallBook) -> None:
    small.module("nn/__init__.py", "")
    small.chapter("""
        # %%
        #| into: nn/layer.py
        def divide(x):
            return x / 0

        # %%
        divide(1)
        """)
    small.module("nn/layer.py", tangle(small.book)["nn/layer.py"].text)
    (problem,) = small.run().problems
    assert problem.line == small.line_of("divide(1)")
    line = small.line_of("return x / 0")
    assert re.search(rf'nn/layer.py", line \d+, in divide  → chapters/02_module.py:{line}\n', problem.message)


def test_a_check_that_prints_on_the_stub_leaves_no_output(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| exercise: double
        def double(x):
            print("the stub ran")
            raise NotImplementedError

        # %%
        #| solution: double
        def double(x):
            return 2 * x

        # %%
        #| check: double
        assert double(1) == 2
        print("checked")
        """)
    assert texts(small.run()) == ["checked\n"]


def test_a_package_that_cannot_be_imported_is_a_fault_with_its_place(small: SmallBook) -> None:
    small.chapter("""
        # %%
        #| into: __init__.py
        value = undefined_name
        """)
    small.module("__init__.py", tangle(small.book)["__init__.py"].text)
    (problem,) = small.run().problems
    assert "could not be started: NameError: name 'undefined_name' is not defined" in problem.message
    assert f"→ chapters/02_module.py:{small.line_of('undefined_name')}" in problem.message
    assert str(small.root) not in problem.message
