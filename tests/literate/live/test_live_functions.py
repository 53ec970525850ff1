"""DESIGN §4, Live package: functions, constants, tables and registrations."""

from __future__ import annotations

from live_kernel import Kernel


def test_an_edited_function_keeps_its_identity(kernel: Kernel) -> None:
    kernel.must(
        "from readtorch.nn.module import clip\nfrom readtorch.nn.layers import Linear\nheld = {'f': clip}\nl = Linear(100)"
    )
    kernel.must(
        kernel.cell("constants", ("return min(value", "return -min(value"), ("limit=None):", "limit=7):\n    'cut'"))
    )
    assert kernel.value("clip is held['f'] is readtorch.nn.layers.clip") == "True"
    assert kernel.value("(held['f'](50), l(1), clip.__defaults__, clip.__doc__)") == "(-7, -7, (7,), 'cut')"


def test_a_function_that_cannot_keep_its_identity_is_rebound(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.module import clip\nfrom readtorch.nn.layers import Linear\nheld = [clip]")
    decorated = "def tupled(function):\n    return lambda *a: (function(*a),)\n\n\n@tupled\ndef clip(value"
    outcome = kernel.must(kernel.cell("constants", ("def clip(value", decorated)))
    assert kernel.value("(clip(50), readtorch.nn.layers.clip is clip, Linear(3)(1))") == "((10,), True, (3,))"
    assert "the old clip is still held by: the notebook's list held" in outcome.printed
    kernel.must("reset()")
    assert kernel.value("(clip(50), readtorch.nn.layers.clip is clip is held[0], Linear(3)(1))") == "(10, True, 3)"


def test_leftover_holders_of_a_replaced_function_are_reported(kernel: Kernel) -> None:
    kernel.must(
        "from readtorch.nn.module import clip\nclass Owner:\n    pass\nowner = Owner(); owner.f = clip; held = [clip]"
    )
    outcome = kernel.must(
        kernel.cell(
            "constants",
            (
                "def clip(value, limit=None):\n    return min(value, LIMIT if limit is None else limit)",
                "clip = lambda value: 0",
            ),
        )
    )
    assert "the old clip is still held by" in outcome.printed
    assert "Owner" in outcome.printed
    assert "the notebook's list held" in outcome.printed


def test_a_changed_constant_reaches_the_modules_that_imported_it(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import limit_seen\nsentinel = readtorch.nn.module._MISSING")
    kernel.must(kernel.cell("constants", ("LIMIT = 10", "LIMIT = 20")))
    assert kernel.value("(limit_seen(), LIMIT, readtorch.nn.module.clip(99))") == "(20, 20, 20)"
    assert kernel.value("readtorch.nn.module._MISSING is sentinel") == "True", (
        "a statement that did not change is not run again"
    )
    kernel.must("reset()")
    assert kernel.value("(limit_seen(), readtorch.nn.module.clip(99))") == "(10, 10)"


def test_a_table_keeps_what_later_cells_put_in_it(kernel: Kernel) -> None:
    kernel.must("table = readtorch.nn.module._hooks\ntable['mine'] = print")
    kernel.must(
        kernel.cell(
            "constants", ("_hooks = OrderedDict()", "_hooks = OrderedDict(first=1)"), ("LIMIT = 10", "LIMIT = 11")
        )
    )
    assert kernel.value("(table is readtorch.nn.module._hooks, list(table))") == "(True, ['first', 'default', 'mine'])"
    kernel.must("reset()")
    assert kernel.value("list(table)") == "['default', 'mine']"
    kernel.must("del table['mine']")


def test_registering_again_from_the_same_fragment_replaces(kernel: Kernel) -> None:
    kernel.must("import readtorch.tables as tables")
    kernel.must(kernel.cell("kernel", ("2 * value", "3 * value")))
    assert kernel.value("(tables.dispatch('double', 5), len(tables.KERNELS))") == "(15, 1)"
    kernel.must(kernel.cell("kernel", ('"double"', '"triple"'), ("2 * value", "3 * value")))
    assert kernel.value("list(tables.KERNELS)") == "[('triple', 'CPU')]"
    kernel.must("reset()")
    assert kernel.value("(tables.dispatch('double', 5), list(tables.KERNELS))") == "(10, [('double', 'CPU')])"


def test_hooks_in_a_list_are_replaced_in_place_not_doubled(kernel: Kernel) -> None:
    kernel.must("import readtorch.tables as tables")
    kernel.must(kernel.cell("start hook", ("book start", "new start")))
    assert kernel.value("[f() for f in tables.START_HOOKS]") == "['new start', 'second']"
    kernel.must(kernel.cell("start hook").partition("\n\n\n@on_start\ndef second")[0])
    assert kernel.value("[f() for f in tables.START_HOOKS]") == "['book start']"
    kernel.must("reset()")
    assert kernel.value("[f() for f in tables.START_HOOKS]") == "['book start', 'second']"


def test_edited_imports_are_taken_into_the_module(kernel: Kernel) -> None:
    kernel.must(kernel.cell("module imports", ("from typing import", "from math import floor\nfrom typing import")))
    assert kernel.value("(readtorch.nn.module.floor(2.5), floor(2.5))") == "(2, 2)"
    kernel.must("reset()")
    assert kernel.value("hasattr(readtorch.nn.module, 'floor')") == "False"


def test_an_edited_kernel_or_derivative_reaches_every_copy_of_the_operator(kernel: Kernel) -> None:
    """As in the dispatcher: a registration makes the entry point anew, and that was copied to where Python looks."""
    kernel.must("from readtorch.square import square\nimport readtorch.operators as operators")
    assert kernel.value("square(3)") == "(9, 6)"
    kernel.must(kernel.cell("square", ("value * value", "value ** 3")))
    assert (
        kernel.value("(square(3), readtorch.square.square(3), operators.library.square(3))")
        == "((27, 6), (27, 6), (27, 6))"
    )
    kernel.must(kernel.cell("square", ("value * value", "value ** 3"), ("2 * value", "3 * value ** 2")))
    assert (
        kernel.value("(square(3), readtorch.square.square(3), operators.library.square(3))")
        == "((27, 27), (27, 27), (27, 27))"
    )
    kernel.must("reset()")
    assert (
        kernel.value("(square(3), square is readtorch.square.square is operators.library.square)") == "((9, 6), True)"
    )


def test_a_failed_registration_leaves_the_operator_as_it_was(kernel: Kernel) -> None:
    kernel.must(
        "import readtorch.square\nimport readtorch.operators as operators\nentry, call = operators.ENTRIES['square'], operators.library.square"
    )
    kernel.run(kernel.cell("square", ("value * value", "0"), ("2 * value", "0")) + "\nderivative('cube', None)")
    assert (
        kernel.value("(operators.library.square is call is entry.call, operators.ENTRIES == {'square': entry})")
        == "(True, True)"
    )
    assert kernel.value("readtorch.square.square(3)") == "(9, 6)"


def test_closures_that_a_function_made_before_its_edit_follow(kernel: Kernel) -> None:
    kernel.must("from readtorch.square import square")
    kernel.must(kernel.cell("operators", ("return kernel(value),", "return -kernel(value),")))
    assert kernel.value("square(3)") == "(-9, 6)"
    outcome = kernel.must(kernel.cell("operators", ("return kernel(value),", "return entry.name, kernel(value),")))
    assert "closures made before by entry_point.<locals>.call keep the old code" in outcome.printed
    assert kernel.value("square(3)") == "(-9, 6)"
    kernel.must("reset()")
    assert kernel.value("square(3)") == "(9, 6)"
