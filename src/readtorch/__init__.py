# Tangled from chapters/00_tensor/, chapters/a1_operators/, chapters/01_import/, chapters/02_module/, chapters/a4_distributions/, chapters/04_optim/, chapters/05_data/, chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""A small PyTorch on NumPy and CuPy, tangled from a book about PyTorch's source. `import readtorch as torch`."""

import importlib as _importlib
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from readtorch._C import Size as Size
    from readtorch._C import device as device
    from readtorch._C import dtype as dtype
    from readtorch._tensor import Tensor as Tensor
    from readtorch.csrc.generator import Generator as Generator

newaxis = None

#: sub-packages and submodules, imported when first named
_MODULES = ["_C", "_tensor", "_tensor_str", "_utils", "autograd", "storage", "torch_version", "utils", "version"]

#: names that live in a submodule: `name: module`
_NAMES = {
    "TypedStorage": "storage",
    "UntypedStorage": "storage",
    "enable_grad": "autograd.grad_mode",
    "inference_mode": "autograd.grad_mode",
    "is_anomaly_check_nan_enabled": "c10.core.autograd_state",
    "is_anomaly_enabled": "c10.core.autograd_state",
    "is_inference_mode_enabled": "autograd.grad_mode",
    "set_anomaly_enabled": "c10.core.autograd_state",
    "no_grad": "autograd.grad_mode",
    "set_grad_enabled": "autograd.grad_mode",
    "set_printoptions": "_tensor_str",
}

#: names whose value is the answer of a function, asked each time
_ANSWERED: dict = {}


def __getattr__(name):  # type: ignore[no-untyped-def]  # typed, it would be analysed too late for the modules it imports
    """Load what `name` needs. AttributeError as a module's if there is no such name."""
    found: _Any
    if name in _ANSWERED:
        return _ANSWERED[name](name)
    if name in _MODULES:
        found = _importlib.import_module(f"readtorch.{name}")
    elif name in _NAMES:
        _names()  # what the module makes must be of the class that `_tensor` defines
        found = getattr(_importlib.import_module(f"readtorch.{_NAMES[name]}"), name)
    else:
        found = None if name.startswith("__") and name != "__version__" else _names().get(name)
        if found is None and name.startswith("_") and not name.startswith("__"):
            found = getattr(_importlib.import_module("readtorch._C")._VariableFunctions, name, None)
        if found is None:
            raise _importlib.import_module("readtorch._not_here").missing("torch", name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Everything there is, imported or not."""
    #: the lower floors become attributes of the package when they are imported; upstream's are compiled
    return sorted({*globals(), *_names(), *_MODULES, *_NAMES} - {"aten", "c10", "csrc"})


_ground: dict = {}


def _names() -> dict:
    """The names of the ground floor: classes, dtypes and operators. Brought up at the first question, in upstream's order."""
    if not _ground:
        names: dict = {"__version__": _importlib.import_module("readtorch.torch_version").__version__}
        _C = _importlib.import_module("readtorch._C")
        names.update({name: value for name, value in vars(_C).items() if not name.startswith("_")})
        for hidden in ("TensorBase", "readtorch"):
            del names[hidden]
        names["Tensor"] = _importlib.import_module("readtorch._tensor").Tensor
        names.update(_importlib.import_module("readtorch.storage")._old_classes("torch"))
        _C._initExtension(names)
        names.update({name: value for name, value in vars(_C._VariableFunctions).items() if not name.startswith("_")})
        _importlib.import_module("readtorch.autograd.graph")  # gives nodes the methods that Python sees
        _ground.update(names)
    return _ground


def set_default_dtype(d: _Any, /) -> None:
    """The dtype of tensors made from Python floats from now on."""
    from readtorch import _C

    _C._set_default_dtype(d)


_MODULES.append("overrides")


def _storage_class(name: str) -> _Any:
    from readtorch import storage

    return storage._old_classes("torch")[storage._dtype_to_storage_type()[storage.get_default_dtype()]]


_ANSWERED["Storage"] = _storage_class

_NAMES.update(
    dict.fromkeys(
        ("get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"), "aten.parallel"
    )
)

_MODULES.append("linalg")

_NAMES.update(dict.fromkeys(("pca_lowrank", "svd_lowrank"), "_lowrank"))

_MODULES += ["functional", "return_types"]
_NAMES.update(
    dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "pdist", "combinations", "einsum", "meshgrid", "split", "tril_indices", "triu_indices", "unravel_index", "vander"), "functional")
)  # fmt: skip

_MODULES.append("random")
_NAMES.update(dict.fromkeys(("get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"), "random"))


def set_default_device(device: _Any) -> None:
    """Where creation functions put tensors from now on; None for the CPU."""
    from readtorch.c10.core import device as devices

    devices.set_default_device(None if device is None else devices.device(device))


def get_default_device() -> _Any:
    """Where creation functions put tensors."""
    from readtorch.c10.core import device as devices

    return devices.current_default_device()


def set_default_tensor_type(t: _Any) -> None:
    """The old form of `set_default_dtype`: takes `torch.DoubleTensor` or its name."""
    import warnings

    from readtorch import _C
    from readtorch.csrc.autograd.python_variable_methods import legacy_dtype

    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    _C._set_default_dtype(legacy_dtype(t))


def _gone(name: str) -> _Any:
    from readtorch import _linalg_utils

    return getattr(_linalg_utils, "_symeig" if name == "symeig" else name)


_ANSWERED.update(dict.fromkeys(("eig", "lstsq", "matrix_rank", "solve", "symeig"), _gone))

_MODULES += ["fft", "special"]
_NAMES.update(dict.fromkeys(("istft", "lu", "stft"), "functional"))

_MODULES.append("sparse")

_MODULES.append("testing")

from typing import TypeGuard as _TypeGuard

if TYPE_CHECKING:
    from readtorch._tensor import Tensor as _Tensor


def typename(obj: object) -> str:
    """The type of `obj` with its module; for tensors the name of their type (`torch.FloatTensor`)."""
    if is_tensor(obj):
        return obj.type()
    owner: _Any = obj if hasattr(obj, "__qualname__") else type(obj)
    name: str = getattr(owner, "__name__", "")
    if isinstance(owner, type) and _names().get(name) is owner:
        return f"torch.{name}"
    where = getattr(owner, "__module__", "") or ""
    where = where.replace("readtorch", "torch", 1) if where.split(".")[0] == "readtorch" else where
    return owner.__qualname__ if where in ("", "builtins") else f"{where}.{owner.__qualname__}"


def is_tensor(obj: object) -> _TypeGuard["_Tensor"]:
    """Is it a tensor?"""
    return isinstance(obj, _names()["Tensor"])


def is_storage(obj: object) -> bool:
    """Is it a storage?"""
    from readtorch import storage

    return isinstance(obj, storage.UntypedStorage | storage.TypedStorage)


def _asked(name: str, input: object) -> "_Tensor":
    if not is_tensor(input):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


def is_floating_point(input: "_Tensor") -> bool:
    """Has it a floating dtype?"""
    return _asked("is_floating_point", input).is_floating_point()


def is_complex(input: "_Tensor") -> bool:
    """Has it a complex dtype?"""
    return _asked("is_complex", input).is_complex()


def numel(input: "_Tensor") -> int:
    """The number of elements."""
    return _asked("numel", input).numel()


def _assert(condition: _Any, message: _Any) -> None:
    """`assert` that a tracer can see. AssertionError with `message`."""
    if not condition:
        raise AssertionError(message)


def _check_with(error_type: type[Exception], cond: bool, message: _Any = None) -> None:
    """Raise `error_type` with what `message()` returns unless `cond`, which must be a bool: TypeError for a tensor."""
    #: `bool` would be a dtype here, once a program has asked for `torch.bool`
    if cond is not True and cond is not False:
        kind = "a Tensor; torch._check_tensor_all() takes one" if is_tensor(cond) else str(type(cond))
        raise TypeError(f"cond must be a bool, but got {kind}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: bool, message: _Any = None) -> None:
    """RuntimeError unless `cond`."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: _Any = None) -> None:
    """IndexError unless `cond`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: _Any = None) -> None:
    """ValueError unless `cond`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: _Any = None) -> None:
    """TypeError unless `cond`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: _Any = None) -> None:
    """NotImplementedError unless `cond`."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond: "_Tensor", message: _Any = None) -> None:
    """RuntimeError unless all elements of a bool tensor are true."""
    if not is_tensor(cond):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _names()["bool"]:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(RuntimeError, cond.all().item() is True, message)


def _deprecated(name: str) -> _Any:
    """Warn, and give the value under the name that took the place of `name`."""
    import warnings

    if name == "set_vital":
        warnings.warn(f"'{name}' is deprecated, please do not call", stacklevel=3)
        return lambda *args: None
    backend, function = _REPLACED[name]
    warnings.warn(f"'{name}' is deprecated, please use 'torch.backends.{backend}.{function}()'", stacklevel=3)
    return getattr(_importlib.import_module(f"readtorch.backends.{backend}"), function)()


#: the old name of a flag: backend and function that answer today
_REPLACED = {
    "has_mps": ("mps", "is_built"),
    "has_cuda": ("cuda", "is_built"),
    "has_cudnn": ("cudnn", "is_available"),
    "has_mkldnn": ("mkldnn", "is_available"),
}
_ANSWERED.update(dict.fromkeys((*_REPLACED, "set_vital"), _deprecated))

_MODULES += ["accelerator", "amp", "as_torch", "backends", "cuda"]
_NAMES.update(
    {
        "autocast": "amp.autocast_mode",
        "get_autocast_dtype": "amp.autocast_mode",
        "is_autocast_cache_enabled": "amp.autocast_mode",
        "is_autocast_enabled": "amp.autocast_mode",
        "set_autocast_dtype": "amp.autocast_mode",
        "set_autocast_enabled": "amp.autocast_mode",
        "clear_autocast_cache": "amp.autocast_mode",
        "GradScaler": "amp.grad_scaler",
        "are_deterministic_algorithms_enabled": "aten.context",
        "get_deterministic_debug_mode": "aten.context",
        "get_float32_matmul_precision": "aten.context",
        "is_deterministic_algorithms_warn_only_enabled": "aten.context",
        "set_deterministic_debug_mode": "aten.context",
        "set_float32_matmul_precision": "aten.context",
        "use_deterministic_algorithms": "aten.context",
        "is_warn_always_enabled": "c10.util.exception",
        "set_warn_always": "c10.util.exception",
    }
)

_MODULES += ["compiler", "hub", "jit", "multiprocessing", "onnx", "types"]

_MODULES.append("cpu")


def get_device_module(device: _Any = None) -> _Any:
    """The module for a device (`torch.cuda`), for None that of the accelerator at hand or the CPU's.

    RuntimeError for a kind of device without one, and for what names no device.
    """
    if device is None:
        accelerator = _importlib.import_module("readtorch.accelerator").current_accelerator()
        kind = "cpu" if accelerator is None else accelerator.type
    elif isinstance(device, str):
        kind = _names()["device"](device).type
    elif isinstance(device, _names()["device"]):
        kind = device.type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind not in _MODULES:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return __getattr__(kind)


_MODULES.append("profiler")


def _initialise_cuda() -> None:
    from readtorch import cuda

    cuda._lazy_init()


from readtorch.csrc.utils.device_lazy_init import INITIALISERS as _INITIALISERS

_INITIALISERS["cuda"] = _initialise_cuda


def _find_cuda() -> None:
    from readtorch.c10.core.device import ACCELERATORS
    from readtorch.c10.cuda.cuda_functions import device_count

    if device_count():
        ACCELERATORS.append("cuda")


from readtorch.c10.core.device import FINDERS as _FINDERS

_FINDERS.append(_find_cuda)


def compile(
    model: _Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: _Any = "inductor",
    mode: str | None = None,
    options: dict | None = None,
    disable: bool = False,
) -> _Any:
    """Give back `model`, a module or function, as it is; without one, the decorator that does so. There is no compiler here."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, not both: a mode stands for a set of options.")
    return (lambda model: model) if model is None else model


_MODULES += ["__future__", "nn"]

_MODULES += ["_weights_only_unpickler", "serialization"]
_NAMES.update({"load": "serialization", "save": "serialization"})

_MODULES.append("func")

_NAMES["vmap"] = "_functorch.apis"

_MODULES.append("distributions")

_MODULES.append("optim")

_NAMES.update({"thread_safe_generator": "random"})

_MODULES.append("distributed")
