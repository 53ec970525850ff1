# Tangled from chapters/00_tensor/, chapters/02_module/ — edit there, or here and run `readtorch sync`.
"""The face of the floors below (twin of the extension module `torch._C`)."""

import sys as _sys
import typing as _typing

import readtorch.aten.native
from readtorch.csrc import module as _module

if _typing.TYPE_CHECKING:
    from typing import Any as _Any

    from readtorch.c10.core.autograd_state import is_grad_enabled as is_grad_enabled
    from readtorch.c10.core.autograd_state import set_grad_enabled as _set_grad_enabled
    from readtorch.c10.core.default_dtype import get_default_dtype as get_default_dtype
    from readtorch.c10.core.default_dtype import set_default_dtype as _set_default_dtype
    from readtorch.c10.core.device import device as device
    from readtorch.c10.core.layout import layout as layout
    from readtorch.c10.core.memory_format import memory_format as memory_format
    from readtorch.c10.core.scalar_type import dtype as dtype
    from readtorch.c10.core.storage_impl import data_address as _data_address
    from readtorch.c10.core.storage_impl import owner_of as _owner_of
    from readtorch.c10.core.tensor_impl import TensorImpl as TensorBase
    from readtorch.csrc.autograd.engine import queue_callback as _queue_callback
    from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad as _AccumulateGrad
    from readtorch.csrc.autograd.node import Node as _Node
    from readtorch.csrc.autograd.node import split_edge as _split_edge
    from readtorch.csrc.autograd.python_engine import run_backward as _run_backward
    from readtorch.csrc.autograd.python_function import FunctionNode as _FunctionBase
    from readtorch.csrc.autograd.variable import gradient_edge as _gradient_edge
    from readtorch.csrc.autograd.variable import has_no_node as _has_no_node
    from readtorch.csrc.autograd.variable import own_edge as _own_edge
    from readtorch.csrc.module import THPModule_initExtension as _initExtension
    from readtorch.csrc.size import Size as Size
    from readtorch.csrc.type_info import finfo as finfo
    from readtorch.csrc.type_info import iinfo as iinfo
    from readtorch.csrc.utils.disable_torch_function import add_plain as _add_plain
    from readtorch.csrc.utils.disable_torch_function import DisableTorchFunction as DisableTorchFunction
    from readtorch.csrc.utils.disable_torch_function import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
    from readtorch.csrc.utils.disable_torch_function import (
        disabled_torch_function_impl as _disabled_torch_function_impl,
    )
    from readtorch.csrc.utils.gates import look_at_subclass as _look_at_subclass
    from readtorch.csrc.utils.gates import pop_mode as _pop_torch_function_stack
    from readtorch.csrc.utils.gates import push_mode as _push_on_torch_function_stack
    from readtorch.csrc.utils.tensor_new import from_numpy as _from_numpy
    from readtorch.csrc.utils.tensor_new import library_of as _library_of
    from readtorch.csrc.utils.tensor_new import legacy_new as _legacy_new

    _VariableFunctions: _Any
    _nn: _Any
    _fft: _Any
    _linalg: _Any
    _special: _Any

_module.initModule(_sys.modules[__name__])

from readtorch.csrc.autograd import variable_type_manual as _variable_type_manual

_variable_type_manual.init()
