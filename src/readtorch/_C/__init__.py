# Tangled from chapters/00_tensor/, chapters/a1_operators/, chapters/02_module/ — edit there, or here and run `readtorch sync`.
"""The face of the floors below (twin of the extension module `torch._C`)."""

from typing import Any as _Any

import readtorch.aten.native
from readtorch.c10.core import tensor_impl as _tensor_impl
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
from readtorch.csrc.autograd import python_torch_functions as _python_torch_functions
from readtorch.csrc.autograd import python_torch_functions_manual as _manual
from readtorch.csrc.autograd import python_variable_methods as _methods
from readtorch.csrc.autograd import python_variable_operators as _operators
from readtorch.csrc.autograd.engine import queue_callback as _queue_callback
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad as _AccumulateGrad
from readtorch.csrc.autograd.node import Node as _Node
from readtorch.csrc.autograd.node import split_edge as _split_edge
from readtorch.csrc.autograd.python_engine import run_backward as _run_backward
from readtorch.csrc.size import Size as Size
from readtorch.csrc.type_info import finfo as finfo
from readtorch.csrc.type_info import iinfo as iinfo
from readtorch.csrc.utils.tensor_new import from_numpy as _from_numpy

TensorBase.__name__ = TensorBase.__qualname__ = "TensorBase"
_python_torch_functions.init()
_operators.init()
_methods.init_methods()
_manual.init()
_VariableFunctions = _python_torch_functions.module("")
_nn = _python_torch_functions.module("nn")
_linalg = _python_torch_functions.module("linalg")
_special = _python_torch_functions.module("special")
_fft = _python_torch_functions.module("fft")


def _legacy_new(cls: type, args: tuple, dtype: _Any) -> _Any:
    """The array of `torch.Tensor(*args)`."""
    from readtorch.csrc.utils.tensor_new import legacy_tensor

    return legacy_tensor(cls, args, get_default_dtype() if dtype is None else dtype)


_manual.init_random()

from readtorch.csrc.tensor import python_tensor as _python_tensor

for _name, _class in _python_tensor.LEGACY.items():
    setattr(_VariableFunctions, _name, _class)

from readtorch.csrc.autograd import variable_type_manual as _variable_type_manual

_variable_type_manual.init()
