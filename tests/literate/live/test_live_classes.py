"""DESIGN §4, Live package: classes."""

from __future__ import annotations

import textwrap

from live_kernel import Kernel

EDIT = ('return "book"', 'return "edited"')


def test_unedited_cell_only_brings_its_names_into_the_notebook(kernel: Kernel) -> None:
    outcome = kernel.must("before = dict(vars(readtorch.nn.module.Module))")
    outcome = kernel.must(kernel.cell("register_buffer"))
    assert outcome.printed == ""
    assert kernel.value("Module is readtorch.nn.module.Module") == "True"
    assert kernel.value("all(v is before[k] for k, v in vars(Module).items())") == "True"
    kernel.must(kernel.cell("layers imports"))
    assert (
        kernel.value("(LIMIT, clip is readtorch.nn.module.clip, dataclasses.__name__)") == "(10, True, 'dataclasses')"
    )


def test_instances_subclasses_and_imported_copies_follow_an_edited_method(kernel: Kernel) -> None:
    kernel.must(
        """
        from readtorch.nn import Linear, Module
        made_before, linear, bound = Module(), Linear(2), Module().register_buffer
        class Mine(Module):
            def register_buffer(self, name, tensor):
                return "mine, then " + super().register_buffer(name, tensor)
        mine = Mine()
        """.replace("\n        ", "\n")
    )
    outcome = kernel.must(kernel.cell("register_buffer", EDIT))
    assert "Module.register_buffer" in outcome.printed
    assert kernel.value("made_before.register_buffer('a', 1)") == "'edited'"
    assert kernel.value("bound('a', 1)") == "'edited'"
    assert kernel.value("linear.register_buffer('a', 1)") == "'linear then edited'"
    assert kernel.value("mine.register_buffer('a', 1)") == "'mine, then edited'"
    assert kernel.value("Module is readtorch.nn.layers.Module and type(made_before) is Module") == "True"


def test_super_and_class_cells_point_at_the_real_class(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import Linear, Meter\nlinear, meter = Linear(2), Meter()")
    kernel.must(kernel.cell("Linear", ('"linear then "', '"linear edited, then "')))
    assert kernel.value("linear.register_buffer('a', 1)") == "'linear edited, then book'"
    kernel.must(kernel.cell("wrapped", ("return __class__", "return [__class__]")))
    assert kernel.value("meter.own_class() == [Meter]") == "True"
    new_super = textwrap.dedent("""
        #| into: nn/layers.py
        class Linear(Linear):
            def forward(self, value):
                return [super().forward(value)]
    """).strip()
    kernel.must(new_super)
    assert kernel.value("linear.forward(3)") == "[3]"


def test_decorated_methods_with_closures_are_replaced(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import Meter\nmeter = Meter()\nmeter.measure(1)")
    kernel.must(kernel.cell("wrapped", ("self.forward(value) + 1", "super().forward(value) + 5")))
    assert kernel.value("meter.measure(1)") == "6"
    assert kernel.value("len(Meter.measure.calls)") == "1"


def test_properties_classmethods_and_staticmethods_follow(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn import Module\nm = Module()")
    text = kernel.cell("extra", ("len(self._buffers)", "-1"), ("return cls()", "return [cls()]"), ("book kind", "new"))
    kernel.must(text)
    assert kernel.value("(m.size, type(Module.make()).__name__, m.kind())") == "(-1, 'list', 'new')"


def test_a_class_attribute_that_did_not_change_keeps_what_was_added_to_it(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn import Module\nModule(); had = len(Module.created)")
    kernel.must(kernel.cell("Module", ("return value\n", "return value + 1\n")))
    assert kernel.value("(len(Module.created) == had, Module()(1))") == "(True, 2)"
    kernel.must(kernel.cell("Module", ("training: bool = True", "training: bool = False")))
    assert kernel.value("(Module.training, Module()(1))") == "(False, 1)"


def test_set_name_is_called_again_on_the_real_class(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import Holder\nholder = Holder()")
    kernel.must(kernel.cell("named", ("    label = Named()", "    label = Named()\n    other = Named()")))
    assert kernel.value("(holder.label, holder.other)") == "('Holder.label', 'Holder.other')"
    assert kernel.value("vars(Holder)['other'].owner is Holder") == "True"


def test_rerunning_a_fragment_removes_only_what_it_defined_itself(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn import Module\nm = Module()")
    without_buffers = kernel.cell("register_buffer").partition("\n\n    def buffers")[0]
    kernel.must(without_buffers)
    assert kernel.value("[hasattr(m, n) for n in ('buffers', 'register_buffer', 'size', 'forward')]") == (
        "[False, True, True, True]"
    )
    kernel.must(kernel.cell("register_buffer"))
    assert kernel.value("m.buffers()") == "[]"


def test_rerunning_an_early_cell_loses_no_later_fragment(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn import Module\nm = Module()")
    kernel.must(kernel.cell("register_buffer", EDIT))
    kernel.must(kernel.cell("Module", ("return value\n", "return -value\n")))
    assert kernel.value("(m(1), m.register_buffer('a', 1), m.size, m.kind(), repr(m))") == (
        "(-1, 'edited', 1, 'book kind', '<readtorch.nn.module.Module>')"
    )


def test_init_subclass_does_not_fire_when_a_class_is_edited(kernel: Kernel) -> None:
    kernel.must(
        "#| into: nn/layers.py\nclass Counting:\n    made = []\n\n    def __init_subclass__(cls):\n        cls.made.append(cls.__name__)\n"
    )
    kernel.must("#| into: nn/layers.py\nclass Counted(Counting):\n    def value(self):\n        return 1\n", "counted")
    kernel.must("#| into: nn/layers.py\nclass Counted(Counting):\n    def value(self):\n        return 2\n", "counted")
    assert kernel.value("(Counting.made, Counted().value())") == "(['Counted'], 2)"


def test_slotted_class_takes_new_methods_and_properties(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import Slotted\ns = Slotted()")
    kernel.must(kernel.cell("Slotted", ("return self.a + self.b", "return self.a - self.b")))
    kernel.must(
        "#| into: nn/layers.py\nclass Slotted(Slotted):\n    @property\n    def product(self):\n        return self.a * self.b"
    )
    assert kernel.value("(s.total(), s.product)") == "(-1, 2)"


def test_changed_slot_layout_bases_or_metaclass_is_refused(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import Linear, Slotted\ns = Slotted()")
    for text, reason in [
        (kernel.cell("Slotted", ('("a", "b")', '("a", "b", "c")'), ("a + self.b", "a * 9")), "slot layout changed"),
        (kernel.cell("Slotted", ("class Slotted:", "class Slotted(dict):"), ("a + self.b", "a * 9")), "bases changed"),
        (kernel.cell("Slotted", ("class Slotted:", "class Slotted(metaclass=enum.EnumMeta):")), "metaclass changed"),
        (
            kernel.cell("Slotted", ('    __slots__ = ("a", "b")', "    pass"), ("a + self.b", "a * 9")),
            "slot layout changed",
        ),
    ]:
        outcome = kernel.run(text)
        assert reason in outcome.error
        assert "restart the kernel" in outcome.error
        assert kernel.value("(s.total(), Slotted().total(), Slotted.__bases__)") == "(3, 3, (object,))"


def test_dataclass_enum_and_namedtuple_are_rebound_and_the_reader_is_told(kernel: Kernel) -> None:
    kernel.must(
        "from readtorch.nn.layers import Mode, Options, Pair\nold, old_mode, old_class = Options(), Mode.EVAL, Options"
    )
    outcome = kernel.must(kernel.cell("records", ("rate: float = 0.1", "rate: float = 0.5\n    extra: int = 3")))
    assert "Options is a dataclass and was made anew: objects made before keep the old class" in outcome.printed
    assert (
        kernel.value("(Options().rate, Options().extra, old.rate, isinstance(old, Options))") == "(0.5, 3, 0.1, False)"
    )
    assert kernel.value("Options is readtorch.nn.layers.Options is old_class is not type(old)") == "True"
    assert kernel.value("Options().described()") == "'rate 0.5'", "the later fragment is there, too"
    outcome = kernel.must(kernel.cell("choices", ("EVAL = 2", "EVAL = 2\n    TEST = 3")))
    assert "Mode is an enum" in outcome.printed
    assert "Pair" not in outcome.printed.partition(":")[2], "what did not change is not made anew"
    assert kernel.value("(list(Mode.__members__), isinstance(old_mode, Mode))") == "(['TRAIN', 'EVAL', 'TEST'], False)"
    outcome = kernel.must(kernel.cell("choices", ("right: int", "right: int\n    third: int = 0")))
    assert "Pair is a NamedTuple" in outcome.printed
    assert kernel.value("Pair(1, 2)") == "Pair(left=1, right=2, third=0)"
    kernel.must("reset()")
    assert kernel.value("Options is type(old) and isinstance(old_mode, Mode)") == "True"


def test_a_base_that_the_class_statement_makes_itself_is_the_one_that_is_there(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import Keys\nold = Keys([])")
    kernel.must(kernel.cell("keys", ("all matched", "everything matched")))
    assert kernel.value("(old, Keys([1]), isinstance(old, Keys))") == "(everything matched, Keys(missing=[1]), True)"
    outcome = kernel.run(kernel.cell("keys", ('["missing"]', '["missing", "unexpected"]')))
    assert "bases changed" in outcome.error


def test_methods_can_be_added_to_a_dataclass_but_not_fields(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn.layers import Options\nold = Options()")
    kernel.must(kernel.cell("records more", ("rate {", "the rate {")))
    assert kernel.value("old.described()") == "'the rate 0.1'"
    outcome = kernel.run("#| into: nn/layers.py\nclass Options(Options):\n    more: int = 1")
    assert "restart the kernel" in outcome.error


def test_reopening_with_bases_slots_or_docstring_is_refused(kernel: Kernel) -> None:
    for body, reason in [
        ("class Module(Module, dict):\n    x = 1", "other bases"),
        ('class Module(Module):\n    __slots__ = ("q",)', "__slots__ belongs"),
        ('class Module(Module):\n    "doc"\n    x = 1', "docstring belongs"),
        ("class Nowhere(Nowhere):\n    x = 1", "has no class Nowhere"),
        ("class Module(Module):\n    x = 1\n\n\ny = 2", "holds nothing else"),
    ]:
        outcome = kernel.run(f"#| into: nn/module.py\n{body}")
        assert reason in outcome.error, outcome.traceback
        assert kernel.value("hasattr(readtorch.nn.module.Module, 'x')") == "False"


def test_eq_without_hash_makes_a_class_unhashable_as_python_does(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn import Module")
    kernel.must(
        "#| into: nn/module.py\nclass Module(Module):\n    def __eq__(self, other):\n        return True", "equality"
    )
    assert kernel.run("hash(Module())").error.startswith("TypeError: unhashable")
    assert "The book's again" in kernel.must("reset()").printed
    assert kernel.value("[n for n in ('__eq__', '__hash__') if n in vars(Module)]") == "[]"
    assert kernel.value("hash(Module()) != 0") == "True"
