# Tangled from chapters/01_import/d5_cuda_kernels.py — edit there, or here and run `readtorch sync`.
"""NumPy's names on the device: the library's own, and here what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from readtorch.c10.core.storage_impl import owner_of, remember_base


class ArrayLibrary:
    """Looks like the module `numpy`; its arrays are on the device."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.generic = np.generic
        self.ufunc = np.ufunc
        self.dtype = np.dtype
        self.lib = SimpleNamespace(stride_tricks=_StrideTricks(library.lib.stride_tricks))
        self.linalg = library.linalg
        for name in ("maximum", "minimum", "logaddexp"):
            setattr(self, name, _Ufunc(self, getattr(library, name)))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        self.__dict__[name] = found
        return found

    def errstate(self, **settings: Any) -> Any:
        """Devices never warn."""
        return nullcontext()

    def vecdot(self, a: Any, b: Any, axis: int = -1) -> Any:
        """Products of vectors along an axis."""
        return (self._library.conj(a) * b).sum(axis=axis)

    def tri(self, n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> Any:
        """Ones on and below a diagonal."""
        rows, columns = self._library.arange(n)[:, None], self._library.arange(n if m is None else m)
        return (columns <= rows + k).astype(dtype)


class _StrideTricks:
    """Views with strides of any kind. CuPy's do not say what they look into, so that is noted."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def as_strided(self, x: Any, shape: Any = None, strides: Any = None) -> Any:
        """The memory from the first element of `x` on, in another shape and with other strides (in bytes)."""
        view = self._module.as_strided(x, shape, strides)
        remember_base(view, owner_of(x))
        return view

    def sliding_window_view(self, x: Any, window_shape: Any, axis: Any = None, writeable: bool = True) -> Any:
        """All windows of a shape, as views, which can always be written to."""
        view = self._module.sliding_window_view(x, window_shape, axis)
        remember_base(view, owner_of(x))
        return view


class _Ufunc:
    """A ufunc with the methods that the library's lacks."""

    def __init__(self, numpy: ArrayLibrary, ufunc: Any) -> None:
        self._numpy = numpy
        self._ufunc = ufunc
        self.__name__ = ufunc.__name__
        self._reduction = {"maximum": "max", "minimum": "min"}.get(self.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)

    def reduce(self, array: Any, axis: Any = 0, **options: Any) -> Any:
        """The greatest or least along an axis."""
        if self._reduction is None:
            raise AttributeError(f"{self.__name__} has no reduce on the device")
        return getattr(array, self._reduction)(axis=axis, **options)

    def accumulate(self, array: Any, axis: int = 0) -> Any:
        """Running results: log₂ n passes, each of which joins runs of twice the length."""
        result = self._numpy.moveaxis(array, axis, -1).copy()
        count, step = result.shape[-1], 1
        while step < count:
            joined = result.copy()
            joined[..., step:] = self._ufunc(result[..., step:], result[..., :-step])
            result, step = joined, step * 2
        return self._numpy.moveaxis(result, -1, axis)


def counterpart(library: Any, function: Callable[..., Any]) -> Any:
    """The library's function for one of NumPy's."""
    place = library
    for name in (getattr(function, "__module__", "") or "numpy").split(".")[1:]:
        if not name.startswith("_"):
            place = getattr(place, name, place)
    return getattr(place, function.__name__)
