# Tangled from chapters/00_tensor/8_tensor_class.py — edit there, or here and run `readtorch sync`.
"""A small PyTorch on NumPy and CuPy, tangled from a book about PyTorch's source. `import readtorch as torch`."""

import importlib as _importlib

from readtorch import _C
from readtorch._C import Size as Size
from readtorch._C import device as device
from readtorch._C import dtype as dtype
from readtorch._C import finfo as finfo
from readtorch._C import get_default_dtype as get_default_dtype
from readtorch._C import iinfo as iinfo
from readtorch._C import is_grad_enabled as is_grad_enabled
from readtorch._C import layout as layout
from readtorch._C import memory_format as memory_format
from readtorch._tensor import Tensor as Tensor
from readtorch.c10.core import layout as _layouts
from readtorch.c10.core import memory_format as _formats
from readtorch.c10.core import scalar_type as _dtypes
from readtorch.torch_version import __version__ as __version__

#: sub-packages and submodules, imported when first named
_MODULES = ["_utils", "_tensor_str", "autograd", "functional", "random", "storage", "types", "version"]

#: names that live in a submodule: `name: module`
_NAMES = {
    "no_grad": "autograd.grad_mode",
    "enable_grad": "autograd.grad_mode",
    "set_grad_enabled": "autograd.grad_mode",
    "inference_mode": "autograd.grad_mode",
    "manual_seed": "random",
    "seed": "random",
    "initial_seed": "random",
    "get_rng_state": "random",
    "set_rng_state": "random",
    "default_generator": "random",
    "Generator": "random",
    "set_printoptions": "_tensor_str",
    "get_printoptions": "_tensor_str",
    "UntypedStorage": "storage",
    "TypedStorage": "storage",
}

for _kind in _dtypes.ALL:
    globals()[_kind.name] = _kind
globals().update(_dtypes.ALIASES)
globals().update({_name: getattr(_layouts, _name) for _name in ("strided", "sparse_coo", "sparse_csr")})
globals().update({_name: getattr(_formats, _name) for _name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")})
e, pi, inf, nan, newaxis = 2.718281828459045, 3.141592653589793, float("inf"), float("nan"), None


def __getattr__(name):
    """Operators, lazily imported names and sub-packages. AttributeError as a module's."""
    found = getattr(_C._VariableFunctions, name, None)
    if found is None:
        if name in _MODULES:
            found = _importlib.import_module(f"readtorch.{name}")
        elif name in _NAMES:
            found = getattr(_importlib.import_module(f"readtorch.{_NAMES[name]}"), name)
        else:
            raise AttributeError(f"module 'torch' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__():
    """Everything there is, imported or not."""
    return sorted({*globals(), *vars(_C._VariableFunctions), *_MODULES, *_NAMES})


def typename(obj):
    """The type of `obj` with its module; for tensors the name of their type (`torch.FloatTensor`)."""
    if isinstance(obj, Tensor):
        return obj.type()
    owner = obj if hasattr(obj, "__qualname__") else type(obj)
    where = getattr(owner, "__module__", "") or ""
    where = where.replace("readtorch", "torch", 1) if where.split(".")[0] == "readtorch" else where
    return owner.__qualname__ if where in ("", "builtins") else f"{where}.{owner.__qualname__}"


def is_tensor(obj):
    """Is it a tensor?"""
    return isinstance(obj, Tensor)


def is_storage(obj):
    """Is it a storage?"""
    from readtorch import storage

    return isinstance(obj, storage.UntypedStorage | storage.TypedStorage)


def is_floating_point(input):
    """Has it a floating dtype?"""
    return input.is_floating_point()


def is_complex(input):
    """Has it a complex dtype?"""
    return input.is_complex()


def numel(input):
    """The number of elements."""
    return input.numel()


def set_default_dtype(d, /):
    """The dtype of tensors made from Python floats from now on."""
    _C._set_default_dtype(d)
