# Tangled from chapters/01_import/d2_simulated_arrays.py — edit there, or here and run `readtorch sync`.
"""The functions of the simulated device: NumPy's, as far as CuPy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.c10.cuda.simulated.launch import copies, launch, no_capture, wait_for
from readtorch.c10.cuda.simulated.ndarray import _into, launch_ufunc, ndarray
from readtorch.c10.cuda.simulated.stream import current_stream

_ABSENT = frozenset((
    "block", "einsum_path", "errstate", "frompyfunc", "geomspace", "histogram_bin_edges", "insert", "matvec",
    "nanpercentile", "nanquantile", "ndenumerate", "nditer", "nested_iters", "polyder", "polydiv", "polyint",
    "spacing", "unstack", "vecdot", "vecmat", "memmap", "ma", "char", "rec", "strings", "matrix", "object_", "void",
    "str_", "bytes_", "longdouble", "clongdouble", "datetime64", "timedelta64",
))  # fmt: skip
"""Names of NumPy's that CuPy 14 has not."""

_FROM_SHAPES = frozenset((
    "arange", "empty", "eye", "full", "identity", "indices", "linspace", "logspace", "ones", "tri", "zeros",
    "tril_indices", "triu_indices",
))  # fmt: skip
"""They make an array out of nothing."""

_WAITING = frozenset((
    "argwhere", "bincount", "extract", "flatnonzero", "histogram", "nonzero", "unique", "unique_counts", "union1d",
))  # fmt: skip
"""The shape of their result depends on the data: the host waits for it."""

_LIBRARIES = frozenset(("dot", "einsum", "inner", "matmul", "outer", "tensordot", "vdot"))  # fmt: skip
"""cuBLAS computes them."""

_CHANGING = frozenset(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))  # fmt: skip
"""They change their first argument."""


class Ufunc:
    """One of NumPy's ufuncs on device arrays."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc
        self.__name__ = ufunc.__name__
        self.nin, self.nout = ufunc.nin, ufunc.nout

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if len(args) > self.nin:
            *rest, out = args
            args = tuple(rest)
        return launch_ufunc(self._ufunc, self._ufunc, args, kwargs, out[0] if isinstance(out, tuple) else out)

    def at(self, array: Any, indices: Any, values: Any = None) -> None:
        """Unbuffered, in place: an index that comes twice counts twice."""
        rest = () if values is None else (values,)
        launch(f"{self.__name__}.at", self._ufunc.at, (array, indices, *rest), writes=array)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """Each element of one with each of the other."""
        return launch(f"{self.__name__}.outer", self._ufunc.outer, (a, b), kwargs)

    def __getattr__(self, name: str) -> Any:
        allowed = {"reduce": (np.add, np.multiply), "accumulate": (np.add, np.multiply), "reduceat": (np.add,)}
        if self._ufunc not in allowed.get(name, ()):
            raise AttributeError(f"CuPy's ufunc {self.__name__} has no {name}")
        method = getattr(self._ufunc, name)
        return lambda *args, **kwargs: launch(f"{self.__name__}.{name}", method, args, kwargs)


def _function(name: str, of_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if out is not None:
            launch(name, _into(of_numpy, out._data), args, kwargs, writes=out, refused=name in _LIBRARIES)
            return out
        if name in _CHANGING:
            launch(name, of_numpy, args, kwargs, writes=args[0])
            return None
        if (
            name in _WAITING
            or (name == "where" and len(args) == 1)
            or (name == "repeat" and isinstance(args[1], ndarray))
        ):
            for arg in args:
                if arg.__class__ is ndarray:
                    wait_for(arg, name)
        elif name not in _FROM_SHAPES and not _has_arrays(args) and not _has_arrays(kwargs.values()):
            raise TypeError(f"{name}: none of the arguments is an array of the device")
        return launch(name, of_numpy, args, kwargs, refused=name in _LIBRARIES or of_numpy.__module__ == "numpy.linalg")

    call.__name__ = name
    return call


def _has_arrays(values: Any) -> bool:
    return any(
        value.__class__ is ndarray or (isinstance(value, list | tuple) and _has_arrays(value)) for value in values
    )


def array(
    obj: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    """An array on the current device. From host data it is a copy over the bus."""
    if obj.__class__ is ndarray:
        same = dtype is None or np.dtype(dtype) == obj.dtype
        return obj if same and not copy else obj.astype(obj.dtype if dtype is None else dtype)
    if isinstance(obj, list | tuple) and _has_arrays(obj):
        return launch("stack", lambda values: np.array(values, dtype), (obj,))
    data = np.array(obj, dtype=dtype, order=order, ndmin=ndmin)  # type: ignore[call-overload]  # the stubs list each order apart
    if data.dtype == object:
        raise ValueError(f"Unsupported dtype {data.dtype}")
    if isinstance(obj, np.ndarray | list | tuple):
        no_capture(current_stream(), "copy to device")
        copies.add("HtoD", data.nbytes)
    return launch("copy to device", lambda: data, ())


def asarray(a: Any, dtype: Any = None, order: str = "K", *, blocking: bool = False) -> ndarray:
    """`a` itself if it is on the device and of that type, else `array(a)`."""
    return array(a, dtype, False, order)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """`a` with its elements in C order."""
    a = asarray(a, dtype)
    return a if a.flags.c_contiguous else a.copy(order="C")


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    """A copy on the host."""
    return a.get(stream, order, out, blocking) if a.__class__ is ndarray else np.asarray(a)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Do the two look into the same bytes?"""
    return bool(np.shares_memory(a._data, b._data))


def _as_it_is(function: Any) -> Any:
    """A function of shapes and types, which the host answers."""
    return function


_OWN: dict[str, Any] = {
    "array": array, "asarray": asarray, "asanyarray": asarray, "ascontiguousarray": ascontiguousarray, "asnumpy": asnumpy, "ndarray": ndarray,
    "shares_memory": shares_memory, "may_share_memory": shares_memory, "ndim": lambda a: a.ndim, "shape": lambda a: a.shape,
    "size": lambda a: a.size, "iscomplexobj": lambda a: a.dtype.kind == "c", "get_array_module": lambda *args: np,
}  # fmt: skip
for _name in (
    "broadcast_shapes",
    "can_cast",
    "promote_types",
    "result_type",
    "dtype",
    "finfo",
    "iinfo",
    "isscalar",
    "common_type",
    "issubdtype",
    "ndindex",
    "min_scalar_type",
):
    _OWN[_name] = _as_it_is(getattr(np, _name))
_OWN["result_type"] = lambda *args: np.result_type(*(arg.dtype if arg.__class__ is ndarray else arg for arg in args))


class Namespace:
    """`numpy`, `numpy.linalg` or another of its modules, on the simulated device."""

    def __init__(self, module: Any, own: dict[str, Any]) -> None:
        self._module = module
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT or name.startswith("__"):
            raise AttributeError(f"CuPy has no {name}")
        value = getattr(self._module, name)
        if isinstance(value, np.ufunc):
            value = Ufunc(value)
        elif callable(value) and not isinstance(value, type):
            value = _function(name, value)
        self.__dict__[name] = value
        return value


linalg = Namespace(np.linalg, {"LinAlgError": np.linalg.LinAlgError})
fft = Namespace(np.fft, {})


def _as_strided(x: Any, shape: Any = None, strides: Any = None) -> Any:
    """As CuPy's, whose result does not know what it looks into."""
    view = launch("as_strided", np.lib.stride_tricks.as_strided, (x, shape, strides))
    view.base = None
    return view


stride_tricks = Namespace(np.lib.stride_tricks, {"as_strided": _as_strided})
_lib = Namespace(np.lib, {"stride_tricks": stride_tricks})
numpy = Namespace(np, {**_OWN, "linalg": linalg, "fft": fft, "lib": _lib})
_PLACES = {"numpy.linalg": linalg, "numpy.fft": fft, "numpy.lib.stride_tricks": stride_tricks}


def counterpart(function: Any) -> Any:
    """The simulated function for one of NumPy's; None if CuPy has none."""
    module = getattr(function, "__module__", "")
    place = next((found for name, found in _PLACES.items() if module.startswith(name)), numpy)
    return getattr(place, getattr(function, "__name__", ""), None)
