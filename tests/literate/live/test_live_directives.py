"""What is wrong with the directives of a cell is said when it is run, in the words of tangle."""

from __future__ import annotations

import pytest
from live_kernel import Kernel

from readtorch.literate.chapter import parse_part
from readtorch.literate.errors import Problems

WRONG_DIRECTIVES = {
    "a misspelled key": ("#| itno: nn/module.py\nx = 1", "this cell:1: unknown directive 'itno'"),
    "no colon": ("#| into nn/module.py\nx = 1", "this cell:1: not a directive: #| into nn/module.py"),
    "a path outside of the package": ("#| into: ../../../evil.py\nx = 1", "into: needs a path below src/readtorch/"),
    "below the code": ("x = 1\n#| into: nn/module.py\ny = 2", "this cell:2: a directive below the first lines"),
    "below a comment": ("# why\n#| into: nn/module.py\nx = 1", "this cell:2: a directive below the first lines"),
    "below a blank line": ("\n#| into: nn/module.py\nx = 1", "this cell:2: a directive below the first lines"),
    "below a cell magic": ("%%time\n#| into: nn/module.py\nx = 1", "this cell:2: a directive below the first lines"),
    "of a cell that goes nowhere": (
        "#| claims: something that is so\nx = 1",
        "this cell:1: unknown directive 'claims'",
    ),
}


@pytest.mark.parametrize("case", WRONG_DIRECTIVES)
def test_a_faulty_directive_is_an_error_as_it_is_in_tangle(kernel: Kernel, case: str) -> None:
    code, message = WRONG_DIRECTIVES[case]
    kernel.must("x = 0")
    outcome = kernel.run(code)
    assert message in outcome.error, outcome
    assert kernel.value("x") == "0", "nothing of it has run"
    assert kernel.value("bool(diff())") == "False"
    problems = Problems()
    parse_part(f"# %%\n{code}\n", name="02_module", path="this cell", problems=problems)
    if not code.startswith("%%"):
        assert message.rpartition("this cell:1: ")[2].rpartition("this cell:2: ")[2] in str(problems.error)


def test_what_only_looks_like_a_directive_runs(kernel: Kernel) -> None:
    kernel.must('x = """\n#| into: nowhere\n"""\ny = 5  #| a note')
    assert kernel.value("y") == "5"
    kernel.must("%%sh\n# | a table |\ntrue")
