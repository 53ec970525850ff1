# Tangled from chapters/00_tensor/, chapters/a1_operators/, chapters/01_import/ — edit there, or here and run `readtorch sync`.
"""The making of `torch._C`, step by step (twin of `torch/csrc/Module.cpp`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

Step = Callable[[Any], None]
_steps: list[Step] = []
_done: list[str] = []


def step(before: str = "", steps: list[Step] = _steps) -> Callable[[Step], Step]:
    """Make a function, which is given the module to fill, the last of the `steps`, or that before the step of that name."""

    def add(function: Step) -> Step:
        names = [known.__name__ for known in steps]
        if function.__name__ in names:
            steps[names.index(function.__name__)] = function
        else:
            steps.insert(names.index(before) if before else len(names), function)
        return function

    return add


def initModule(module: Any = None) -> list[str]:
    """Fill `torch._C`, and return the names of the steps in their order. What has been done is not done again.

    Without a `module`, the one that `import torch._C` fills is meant.
    """
    if module is None:
        module = import_module("readtorch._C")
    module._initExtension = THPModule_initExtension
    for function in _steps:
        if function.__name__ not in _done:
            function(module)
            _done.append(function.__name__)
    return list(_done)


_extension: list[Step] = []


def THPModule_initExtension(torch: dict[str, Any]) -> list[str]:
    """The second half, called when the class `Tensor` is there: put what needs it into the namespace of `torch`."""
    for function in _extension:
        function(torch)
    return [function.__name__ for function in _extension]


@step()
def THPSize_init(module: Any) -> None:
    """`torch.Size`."""
    from readtorch.csrc.size import Size

    module.Size = Size


@step()
def THPDtype_init(module: Any) -> None:
    """`torch.dtype`; its objects are handed out by `initializeDtypes`, later."""
    from readtorch.c10.core import default_dtype, scalar_type

    module.dtype = scalar_type.dtype
    module.get_default_dtype = default_dtype.get_default_dtype
    module._set_default_dtype = default_dtype.set_default_dtype


@step()
def THPDTypeInfo_init(module: Any) -> None:
    """`torch.finfo` and `torch.iinfo`."""
    from readtorch.csrc import type_info

    module.finfo, module.iinfo = type_info.finfo, type_info.iinfo


@step()
def THPLayout_init(module: Any) -> None:
    """`torch.layout`."""
    from readtorch.c10.core.layout import layout

    module.layout = layout


@step()
def THPMemoryFormat_init(module: Any) -> None:
    """`torch.memory_format`."""
    from readtorch.c10.core.memory_format import memory_format

    module.memory_format = memory_format


@step()
def THPDevice_init(module: Any) -> None:
    """`torch.device`."""
    from readtorch.c10.core.device import device

    module.device = device


@step()
def THPVariable_initModule(module: Any) -> None:
    """`TensorBase` with its methods, and the functions of `torch`."""
    from readtorch.c10.core import storage_impl
    from readtorch.c10.core.tensor_impl import TensorImpl
    from readtorch.csrc.autograd import (
        python_torch_functions,
        python_torch_functions_manual,
        python_variable_methods,
        python_variable_operators,
    )
    from readtorch.csrc.utils import tensor_new

    TensorImpl.__name__ = TensorImpl.__qualname__ = "TensorBase"
    module.TensorBase = TensorImpl
    python_torch_functions.init()
    python_variable_operators.init()
    python_variable_methods.init_methods()
    python_torch_functions_manual.init()
    module._VariableFunctions = python_torch_functions.module("")
    module._legacy_new, module._from_numpy = tensor_new.legacy_new, tensor_new.from_numpy
    module._library_of = tensor_new.library_of
    module._data_address, module._owner_of = storage_impl.data_address, storage_impl.owner_of
    _add_torch_function(module)


def _add_torch_function(module: Any) -> None:
    """Who is asked before a function does its work, and the ways to switch that off."""
    from readtorch.csrc.utils import disable_torch_function as asking
    from readtorch.csrc.utils import gates

    module.DisableTorchFunction, module.DisableTorchFunctionSubclass = (
        asking.DisableTorchFunction,
        asking.DisableTorchFunctionSubclass,
    )
    module._disabled_torch_function_impl = asking.disabled_torch_function_impl
    module._has_torch_function = asking.has_torch_function
    module._has_torch_function_unary = asking.has_torch_function_unary
    module._has_torch_function_variadic = asking.has_torch_function_variadic
    module._is_torch_function_enabled = asking.is_torch_function_enabled
    module._is_torch_function_mode_enabled = asking.is_torch_function_mode_enabled
    module._push_on_torch_function_stack, module._pop_torch_function_stack = gates.push_mode, gates.pop_mode
    module._look_at_subclass, module._add_plain = gates.look_at_subclass, asking.add_plain
    gates.gates.offer(
        vars(import_module("readtorch")), "torch", gates.COMPILED, ("is_complex", "is_floating_point", "numel")
    )


@step()
def THPFunction_initModule(module: Any) -> None:
    """What `torch.autograd.Function` is built on."""
    from readtorch.csrc.autograd import python_function

    module._FunctionBase = python_function.FunctionNode


@step()
def THPEngine_initModule(module: Any) -> None:
    """The way into the engine, its nodes, and the switch that says whether anything is recorded."""
    from readtorch.c10.core import autograd_state
    from readtorch.csrc.autograd import engine, node, python_engine, variable
    from readtorch.csrc.autograd.functions import accumulate_grad

    module._run_backward, module._queue_callback = python_engine.run_backward, engine.queue_callback
    module._Node, module._split_edge = node.Node, node.split_edge
    module._gradient_edge, module._own_edge = variable.gradient_edge, variable.own_edge
    module._has_no_node = variable.has_no_node
    module._AccumulateGrad = accumulate_grad.AccumulateGrad
    module.is_grad_enabled, module._set_grad_enabled = autograd_state.is_grad_enabled, autograd_state.set_grad_enabled


@step()
def initNNFunctions(module: Any) -> None:
    """The functions behind `torch.nn.functional`."""
    from readtorch.csrc.autograd import python_torch_functions

    module._nn = python_torch_functions.module("nn")


@step()
def initFFTFunctions(module: Any) -> None:
    """`torch.fft`'s."""
    from readtorch.csrc.autograd import python_torch_functions

    module._fft = python_torch_functions.module("fft")


@step()
def initLinalgFunctions(module: Any) -> None:
    """`torch.linalg`'s."""
    from readtorch.csrc.autograd import python_torch_functions

    module._linalg = python_torch_functions.module("linalg")


@step()
def initSpecialFunctions(module: Any) -> None:
    """`torch.special`'s."""
    from readtorch.csrc.autograd import python_torch_functions

    module._special = python_torch_functions.module("special")


@step(steps=_extension)
def initializeLayouts(torch: Any) -> None:
    """`torch.strided` and the others."""
    from readtorch.c10.core import layout

    torch.update({name: value for name, value in vars(layout).items() if isinstance(value, layout.layout)})


@step(steps=_extension)
def initializeMemoryFormats(torch: Any) -> None:
    """`torch.contiguous_format` and the others."""
    from readtorch.c10.core import memory_format as formats

    torch.update({name: value for name, value in vars(formats).items() if isinstance(value, formats.memory_format)})


@step(steps=_extension)
def initializeDtypes(torch: Any) -> None:
    """`torch.float32`, also as `torch.float`, and the others."""
    from readtorch.c10.core import scalar_type

    torch.update({dtype.name: dtype for dtype in scalar_type.ALL})
    torch.update(scalar_type.ALIASES)


@step(before="THPSize_init")
def THPGenerator_init(module: Any) -> None:
    """`torch.Generator`."""
    from readtorch.csrc.generator import Generator

    module.Generator = Generator


@step()
def THPGenerator_initDefaultGenerator(module: Any) -> None:
    """The generator that is meant where none is named."""
    from readtorch.csrc.generator import default_generator

    module.default_generator = default_generator


@step(steps=_extension)
def initialize_python_bindings(torch: Any) -> None:
    """The legacy types, which ask for dtype and device of a `Tensor` and so need the class."""
    from readtorch.csrc.tensor import python_tensor

    torch.update(python_tensor.LEGACY)


@step(before="THPSize_init")
def THPException_init(module: Any) -> None:
    """The classes of exceptions."""
    from readtorch.aten.native.batch_linear_algebra import LinAlgError
    from readtorch.csrc import exceptions

    module._LinAlgError = LinAlgError
    module.OutOfMemoryError = exceptions.OutOfMemoryError
    module.AcceleratorError = exceptions.AcceleratorError


@step(before="THPGenerator_initDefaultGenerator")
def set_module_attr(module: Any) -> None:
    """How this library was made: on NumPy, whose linear algebra is LAPACK's, and without anything else."""
    module._has_cudnn = False
    module.has_spectral = module.has_openmp = module.has_mkl = False
    module.has_lapack = True
    module._has_cuda = module._has_mps = module._has_xpu = module._has_mkldnn = False
