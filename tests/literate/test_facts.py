"""The fact base: targets resolve to places, near misses are suggested, the mirror rule is one function."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from readtorch.literate import facts, upstream
from readtorch.literate.chapter import Book
from readtorch.literate.cli import main
from readtorch.literate.declarations import cpp_rows, python_rows, yaml_rows
from readtorch.literate.errors import LiterateError
from readtorch.literate.exports import components


def test_a_method_resolves_to_its_lines_and_a_permanent_link() -> None:
    target = facts.resolve("torch/nn/modules/module.py#Module.register_buffer")
    assert (target.kind, target.grade) == ("method", "exact")
    assert target.end > target.start > 1
    assert target.url == (
        f"https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/module.py#L{target.start}-L{target.end}"
    )


@pytest.mark.parametrize(
    ("target", "grade"),
    [
        ("torch/__init__.py#typename", "exact"),
        ("torch/nn/modules/module.py#Module._parameters", "exact"),
        ("c10/core/TensorImpl.h#c10::TensorImpl", "exact"),
        ("c10/core/TensorImpl.h#TensorImpl::version_counter_", "exact"),
        ("c10/core/DispatchKey.h#DispatchKey", "exact"),
        ("torch/csrc/autograd/engine.h#torch::autograd::Engine::evaluate_function", "exact"),
        ("aten/src/ATen/native/native_functions.yaml#add.Tensor", "exact"),
        ("tools/autograd/derivatives.yaml#mul.Tensor", "exact"),
        ("torch/csrc/autograd/python_engine.cpp#THPEngine_run_backward", "anchor"),
        ("torch/csrc/autograd/saved_variable.cpp#torch::autograd::SavedVariable::unpack", "anchor"),
        ("aten/src/ATen/native/BinaryOps.cpp#at::native::add", "file"),
        ("aten/src/ATen/native/BinaryOps.cpp#add", "file"),
        ("aten/src/ATen/native/ReplicationPadding.cpp#at::native::replication_pad2d_out_cpu", "file"),
        ("torch/csrc/autograd/engine.cpp#torch::autograd::GraphTask::init_to_execute", "file"),
        ("torch/headeronly/core/ScalarType.h#c10::ScalarType", "exact"),
        ("aten/src/ATen/native/AdaptivePooling.h#at::native::start_index", "exact"),
        ("tools/autograd/templates/python_variable_methods.cpp#THPVariable_item", "exact"),
    ],
)
def test_targets_have_the_grade_that_is_known_of_them(target: str, grade: str) -> None:
    found = facts.resolve(target)
    assert found.grade == grade
    assert ("#L" in found.url) == (grade != "file")


def test_an_anchor_is_a_line_that_the_libraries_name() -> None:
    assert 267 in facts.anchors("torch/csrc/autograd/python_engine.cpp", "THPEngine_run_backward")
    assert facts.anchors("torch/nn/modules/module.py", "Module") == ()


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("torch/nn/modules/module.py#Module.register_bufer", "torch/nn/modules/module.py#Module.register_buffer"),
        ("torch/nn/modules/linear.py#Linear.register_buffer", "torch/nn/modules/module.py#Module.register_buffer"),
        ("torch/nn/module.py#Module", "torch/nn/modules/module.py"),
        ("c10/core/ScalarType.h#c10::ScalarType", "torch/headeronly/core/ScalarType.h#c10::ScalarType"),
        ("aten/src/ATen/native/LinearAlgebra.cpp#at::native::mm", "at::native::mm_out_cpu"),
        ("torch/csrc/autograd/saved_variable.cpp#SavedVariable::unpak", "saved_variable.cpp#unpack"),
    ],
)
def test_a_miss_suggests_what_was_meant(target: str, near: str) -> None:
    with pytest.raises(facts.Unresolved) as caught:
        facts.resolve(target)
    assert near in caught.value.way_out
    problem = caught.value.problem("chapters/02_module.py", 7)
    assert problem.place == "chapters/02_module.py:7"


def test_a_name_that_no_library_exports_does_not_resolve() -> None:
    with pytest.raises(facts.Unresolved):
        facts.resolve("aten/src/ATen/native/BinaryOps.cpp#at::native::no_such_operator")


def test_a_name_alone_leads_to_the_file_that_has_it() -> None:
    size, device = facts.named("THPSize_init"), facts.named("torch::accelerator::initModule")
    assert size is not None and (size.path, size.grade) == ("torch/csrc/Size.h", "exact")
    assert device is not None and device.path == "torch/csrc/DeviceAccelerator.h"
    assert facts.named("torch::acc::initModule") is None and facts.named("initNothingAtAll") is None


def test_a_fact_may_state_an_order() -> None:
    path = "torch/nn/modules/module.py"
    first, second = facts.resolve_fact(f"{path}#Module.register_buffer<Module.register_parameter")
    assert first.start < second.start
    with pytest.raises(facts.Unresolved, match="does not stand before"):
        facts.resolve_fact(f"{path}#Module.register_parameter<Module.register_buffer")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("__init__.py", "torch/__init__"),
        ("_tensor.py", "torch/_tensor"),
        ("nn/modules/module.py", "torch/nn/modules/module"),
        ("csrc/autograd/engine.py", "torch/csrc/autograd/engine"),
        ("csrc/module.py", "torch/csrc/Module"),
        ("csrc/serialize/inline_container.py", "caffe2/serialize/inline_container"),
        ("c10/core/tensor_impl.py", "c10/core/TensorImpl"),
        ("aten/native/normalization.py", "aten/src/ATen/native/Normalization"),
        ("csrc/distributed/c10d/process_group_nccl.py", "torch/csrc/distributed/c10d/ProcessGroupNCCL"),
        ("csrc/distributed/c10d/tcp_store.py", "torch/csrc/distributed/c10d/TCPStore"),
        ("aten/native/cuda/normalization.cu", "aten/src/ATen/native/cuda/Normalization"),
        ("as_torch.py", None),
    ],
)
def test_a_file_mirrors_one_upstream_stem(ours: str, theirs: str | None) -> None:
    assert facts.twin(ours) == theirs


def test_every_line_of_the_data_is_understood() -> None:
    for path in facts.paths():
        for target in facts.symbols_in(path):
            assert target.name
            assert target.grade == "file" or 0 < target.start <= target.end, target


def test_a_symbol_lies_within_the_class_that_holds_it() -> None:
    for path in ("torch/nn/modules/module.py", "c10/core/TensorImpl.h"):
        by_name = {t.name: t for t in facts.symbols_in(path)}
        joint = "::" if path.endswith(".h") else "."
        for target in by_name.values():
            outer = by_name.get(target.name.rpartition(joint)[0])
            if outer is not None and outer.kind == "class":
                assert outer.start <= target.start <= target.end <= outer.end


# the book's references


def book_with(tmp_path: Path, text: str) -> Book:
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "02_module.py").write_text(text, encoding="utf-8")
    return Book.load(tmp_path)


def test_every_unresolved_reference_of_the_book_is_listed_with_its_line(tmp_path: Path) -> None:
    book = book_with(
        tmp_path,
        """\
# %%
#| upstream: torch/nn/modules/module.py#Module
#| upstream: torch/nn/modules/module.py#Modul
#| fact: torch/nn/modules/nowhere.py#Module
1
""",
    )
    with pytest.raises(LiterateError) as caught:
        upstream.check(book)
    assert [(p.path, p.line) for p in caught.value.problems] == [
        ("chapters/02_module.py", 3),
        ("chapters/02_module.py", 4),
    ]
    assert "torch/nn/modules/module.py#Module" in caught.value.problems[0].way_out


def test_lines_that_an_installed_torch_does_not_have_are_named(tmp_path: Path) -> None:
    book = book_with(tmp_path, "# %%\n#| upstream: torch/nn/modules/module.py#Module.register_buffer\n1\n")
    installed = tmp_path / "torch" / "nn" / "modules"
    installed.mkdir(parents=True)
    (installed / "module.py").write_text("class Module:\n    def register_buffer(self): ...\n")
    with pytest.raises(LiterateError, match=r"the installed torch has no Module\.register_buffer") as caught:
        upstream.check_installed(book, tmp_path / "torch")
    assert caught.value.problems[0].line == 2


def test_sync_refuses_another_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "version.py").write_text("__version__ = '1.0.0'\n")
    monkeypatch.setattr(upstream, "installed_torch", lambda: tmp_path)
    before = {f.name: f.stat().st_mtime_ns for f in facts.DATA.iterdir()}
    with pytest.raises(LiterateError, match=r"1\.0\.0 is installed"):
        upstream.run(argparse.Namespace(action="sync"))
    assert {f.name: f.stat().st_mtime_ns for f in facts.DATA.iterdir()} == before


# scanners


def rows(found: list) -> list[str]:
    return [f"{'  ' * r.depth}{r.name} {r.kind} {r.start}-{r.end}" for r in found]


def test_python_definitions_with_decorators_overloads_and_branches() -> None:
    text = """\
import typing
if typing.TYPE_CHECKING:
    def late(x: int) -> int: ...
else:
    def late(x):
        return x

@typing.overload
def over(x: int) -> int: ...
@typing.overload
def over(x: str) -> str: ...
@decorator
def over(x):
    return x

class C:
    a: int
    b = c = 1

    def __init__(self):
        self.d = 1
        self.a = 2

    @property
    def p(self): ...
    @p.setter
    def p(self, value): ...
"""
    assert rows(python_rows(text)) == [
        "late function 5-6",
        "over function 12-14",
        "C class 16-27",
        "  a attribute 17-17",
        "  b attribute 18-18",
        "  c attribute 18-18",
        "  __init__ method 20-22",
        "  p method 24-25",
        "  d attribute 21-21",
    ]


def test_cpp_declarations_in_namespaces_classes_and_macros() -> None:
    text = """\
#pragma once
#define MACRO(x) \\
  struct x { int y; }
namespace at { namespace native {
// struct Commented { };
constexpr int kLimit = 60;
DECLARE_DISPATCH(void(*)(Tensor&),
                 some_stub)
#ifdef SOMETHING
inline void either() {
#else
inline void either(int a) {
#endif
}
using Fn = void (*)(Tensor&, int);
struct Forward;
C10_API ScalarType promote(ScalarType a, ScalarType b);

template <typename T, typename U = std::pair<int, T>>
struct TORCH_API Holder final : public Base<T>, Other {
 public:
  explicit Holder(int a) : a_(a), b_{a} {
    if (a) { b_ = "}{"; }
  }
  ~Holder() override;
  Holder& operator=(const Holder&) = delete;
  std::function<void(int)> callback_;
  virtual int get() const {
    return a_;
  }
  enum class Mode : uint8_t { A, B };

 private:
  int a_ = 0, c_;
  std::string b_{"{"};
};
inline auto free_function(const Holder<int>& h) -> decltype(h.get()) {
  return h.get();
}
}} // namespace
extern "C" {
void plain(void);
}
"""
    assert rows(cpp_rows(text)) == [
        "at::native::kLimit variable 6-6",
        "at::native::some_stub variable 8-8",
        "at::native::either function 10-14",
        "at::native::Fn alias 15-15",
        "at::native::Forward forward 16-16",
        "at::native::promote declaration 17-17",
        "at::native::Holder class 19-36",
        "  Holder function 22-24",
        "  ~Holder declaration 25-25",
        "  operator= declaration 26-26",
        "  callback_ variable 27-27",
        "  get function 28-30",
        "  Mode enum 31-31",
        "  a_ variable 34-34",
        "  b_ variable 35-35",
        "at::native::free_function function 37-39",
        "plain declaration 42-42",
    ]


def test_yaml_entries_end_above_the_next_blank_line() -> None:
    text = "# head\n\n- func: add.Tensor(Tensor self) -> Tensor\n  variants: method\n\n- name: mul.Tensor(Tensor self)\n  self: g\n"
    assert rows(yaml_rows(text)) == ["add.Tensor operator 3-4", "mul.Tensor operator 6-7"]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN2at6native3addERKNS_6TensorES3_", ("at", "native", "add")),
        ("_ZNK3c1010TensorImpl5sizesEv", ("c10", "TensorImpl", "sizes")),
        ("_ZN3c1010TensorImplD1Ev", ("c10", "TensorImpl", "~TensorImpl")),
        ("_Z10initModulev", ("initModule",)),
        ("THPVariable_Wrap", ("THPVariable_Wrap",)),
        ("_ZTVN2at6TensorE", ()),
    ],
)
def test_mangled_names(symbol: str, name: tuple[str, ...]) -> None:
    assert components(symbol) == name


# against an installed torch


@pytest.fixture
def torch() -> Path:
    found = upstream.installed_torch()
    if found is None or not upstream.installed_version(found).startswith(facts.RELEASE):
        pytest.skip(f"torch {facts.RELEASE} is not installed")
    return found


@pytest.mark.slow
@pytest.mark.torch
def test_sync_gives_the_committed_data_again(torch: Path, tmp_path: Path) -> None:
    upstream.sync(torch, tmp_path)
    for name in ("python.txt", "headers.txt", "operators.txt", "files.txt", "exports.txt"):
        assert (tmp_path / name).read_text() == (facts.DATA / name).read_text(), (
            f"run `readtorch upstream sync` ({name})"
        )
    assert upstream.sync(torch, tmp_path) == []


@pytest.mark.torch
def test_python_lines_are_those_of_the_running_torch(torch: Path) -> None:
    import inspect

    real = pytest.importorskip("torch")
    for path, name, value in (
        ("torch/nn/modules/module.py", "Module.register_buffer", real.nn.Module.register_buffer),
        ("torch/nn/modules/batchnorm.py", "_BatchNorm.forward", real.nn.modules.batchnorm._BatchNorm.forward),
        ("torch/utils/data/sampler.py", "BatchSampler", real.utils.data.BatchSampler),
    ):
        target = facts.resolve(f"{path}#{name}")
        lines, first = inspect.getsourcelines(value)
        assert (target.start, target.end) == (first, first + len(lines) - 1)


@pytest.mark.torch
def test_a_line_that_torch_raises_from_is_among_the_anchors(torch: Path) -> None:
    import subprocess
    import sys

    code = "import torch; torch.batch_norm(torch.ones(2, 3), None, None, torch.ones(2), None, True, 0.1, 1e-5, False)"
    environment = {"TORCH_SHOW_CPP_STACKTRACES": "1", "TORCH_DISABLE_ADDR2LINE": "1", "OMP_NUM_THREADS": "1"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stderr
    match = re.search(r"raised from (\w+) at .*?/(aten/src/ATen/native/\w+\.cpp):(\d+)", told)
    assert match is not None
    assert int(match[3]) in facts.anchors(match[2], match[1])


def test_what_a_function_calls_is_checked_with_its_order():
    (target,) = facts.resolve_fact(
        "torch/csrc/Module.cpp#initModule>THPSize_init<THPVariable_initModule<initNNFunctions"
    )
    assert target.name == "initModule"
    with pytest.raises(facts.Unresolved, match="calls THPSize_init before THPVariable_initModule"):
        facts.resolve_fact("torch/csrc/Module.cpp#initModule>THPVariable_initModule<THPSize_init")
    with pytest.raises(facts.Unresolved, match="not known to call 'THPSise_init'"):
        facts.resolve_fact("torch/csrc/Module.cpp#initModule>THPSise_init")
    assert facts.calls("torch/csrc/Module.cpp#THPModule_initExtension")[0] == "initializeLayouts"
    assert facts.calls("torch/csrc/Module.cpp#nothing") == ()


@pytest.mark.parametrize(
    ("word", "target"),
    [
        ("nn.Module.register_buffer", "torch/nn/modules/module.py#Module.register_buffer"),
        ("torch.nn.Module.register_buffer", "torch/nn/modules/module.py#Module.register_buffer"),
        ("torch/nn/modules/module.py#Module.register_buffer", "torch/nn/modules/module.py#Module.register_buffer"),
        ("register_buffer", "torch/nn/modules/module.py#Module.register_buffer"),
        ("torch.einsum", "torch/functional.py#einsum"),
    ],
)
def test_find_takes_the_names_that_show_takes(word: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upstream", "find", word]) == 0
    assert f"{target}  (exact)" in capsys.readouterr().out


def test_find_says_that_there_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("optim.Module.register_buffer", "torch.no_such_name", "torch/optim/sgd.py#Module"):
        assert main(["upstream", "find", word]) == 1, word
        assert f"nothing is called {word}" in capsys.readouterr().err
