# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from readtorch.c10.core.autograd_state import counts, state


class VariableVersion:
    """Counts in-place writes to one memory.

    `views` are the tensors that look into it and were made, or brought up to date, after the last write; `behind` are those that
    were not. Both hold them weakly.
    """

    __slots__ = ("behind", "room", "value", "views")

    def __init__(self) -> None:
        self.value = 0
        self.room = 64
        self.views: list[weakref.ref] | None = None
        self.behind: dict[int, weakref.ref] | None = None

    def register_view(self, view: TensorImpl) -> None:
        """Remember a view whose edge is right as of now. Dead entries are swept when there are as many, it may be, as living ones."""
        views = self.views
        if views is None:
            self.views = [weakref.ref(view)]
            return
        if len(views) >= self.room:
            views[:] = [entry for entry in views if entry() is not None]
            self.room = 64 + 2 * len(views)
        views.append(weakref.ref(view))

    def bump(self) -> None:
        """The memory was written to: what its views say of their history may be wrong from now on."""
        self.value += 1
        views = self.views
        if views is not None:
            self.views = None
            behind = self.behind = {} if self.behind is None else self.behind
            if len(behind) & 63 == 63:
                for key in [key for key, entry in behind.items() if entry() is None]:
                    del behind[key]
            for entry in views:
                view = entry()
                if view is not None:
                    behind[id(view)] = entry
                    view.fall_behind()

    def entries(self) -> list[weakref.ref]:
        """The references by which the views of this memory are remembered."""
        return [*(self.views or ()), *(self.behind or {}).values()]

    def living_views(self) -> list[TensorImpl]:
        """All views of this memory that still exist."""
        return [view for entry in self.entries() if (view := entry()) is not None]

    def exchange(self, a: TensorImpl, b: TensorImpl) -> None:
        """Each of two objects is from now on the view that the other was."""
        other = {id(a): weakref.ref(b), id(b): weakref.ref(a)}
        self.views = None if self.views is None else [other.get(id(entry()), entry) for entry in self.views]
        if self.behind is not None:
            changed = [other.get(key, entry) for key, entry in self.behind.items()]
            self.behind = {id(view): entry for entry in changed if (view := entry()) is not None}


class TensorImpl:
    """The tensor. Known to Python as `torch._C.TensorBase`; its methods are bound to it by `csrc/autograd/python_variable.py`."""

    __slots__ = ("__dict__", "__weakref__", "_array", "_edge", "_grad", "_meta", "_vc", "_view")
    _array: Any
    _edge: Any
    _vc: VariableVersion | None
    #: of a view: (base, steps, creation), and as a fourth, once the memory was written to, the edge that the view had before
    _view: tuple | None
    _grad: Any
    _meta: dict[str, Any] | None

    def fall_behind(self) -> None:
        """This view's memory was written to. Its edge, unless there is none to find, is to be asked for (`gradient_edge`)."""
        assert self._view is not None
        own = getattr(self, "_edge", None)
        self._view = (*self._view, own)
        if own is not None or self._view[0]._edge is not None:
            self.forget_edge()

    def forget_edge(self) -> None:
        """Empty the slot of the edge."""
        if hasattr(self, "_edge"):
            del self._edge

    if TYPE_CHECKING:
        #: bound at import, for the type checker's eyes: attributes, methods and Python's operators
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def _operator(self, other: Any) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __pow__ = __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __matmul__ = __rmatmul__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _operator

        def __neg__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __index__(self) -> int: ...


#: the class of every tensor that an operator returns; `_tensor` puts `Tensor` here when it is imported
Tensor: Any = TensorImpl
new: Any = object.__new__

#: the `_meta` of a tensor that was made in inference mode
INFERENCE = {"inference": True}


def is_inference(tensor: Any) -> bool:
    """Was it made in inference mode, and has no version counter therefore?"""
    return tensor._meta is not None and "inference" in tensor._meta


def wrap(array: Any, edge: Any = None) -> Any:
    """A fresh tensor around an array. 0-d results of NumPy functions may be scalars: they become arrays again."""
    if array.__class__ is not np.ndarray and isinstance(array, np.generic):
        array = np.asarray(array)
    tensor = new(Tensor)
    tensor._array = array
    tensor._edge = edge
    tensor._vc = None
    tensor._view = None
    tensor._grad = None
    tensor._meta = None
    return special(tensor) if counts.special else tensor


def special(tensor: Any) -> Any:
    """A fresh tensor as the modes of this thread have it."""
    if state.inference_mode:
        tensor._meta = INFERENCE
    return state.layers[-1].lift(tensor) if state.layers else tensor


def init(tensor: Any, array: Any, edge: Any = None) -> Any:
    """Fill the slots of a tensor made by a subclass's `__new__`."""
    tensor._array = array
    tensor._edge = edge
    tensor._vc = None
    tensor._view = None
    tensor._grad = None
    tensor._meta = None
    return tensor


def version_counter(tensor: Any) -> VariableVersion:
    """The tensor's version counter, made now if there was none."""
    counter = tensor._vc
    if counter is None:
        counter = tensor._vc = VariableVersion()
        edge = tensor._edge
        if edge is not None:
            if edge.__class__ is tuple:
                edge[0].output_has_counter(edge[1], counter)
            else:
                edge.output_has_counter(0, counter)
    return counter


def current_version(tensor: Any) -> int:
    """How often the memory behind this tensor was written to."""
    return 0 if tensor._vc is None else tensor._vc.value
