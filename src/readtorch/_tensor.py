# Tangled from chapters/00_tensor/, chapters/a1_operators/, chapters/01_import/, chapters/02_module/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import copy
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from readtorch import _C
from readtorch import storage as storage
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.device_guard import GUARDS, device_guard
from readtorch.c10.core.dispatch_key import device_of


class _TensorMeta(type):
    """`isinstance(x, torch.FloatTensor)` and `issubclass` work through the legacy types' own metaclass; this one names the class."""


class Tensor(_C.TensorBase):
    """A multi-dimensional array of one dtype that can record what is done with it.

    Its attributes and operators are bound to `TensorBase` by the floors below; here are the methods that upstream writes in Python.
    """

    __slots__ = ()
    __array_priority__ = 1000

    def __new__(cls, *args: Any, device: Any = None, dtype: Any = None) -> Any:
        array = _C._legacy_new(cls, args, dtype)
        return tensor_impl.init(tensor_impl.new(cls), array)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _C._look_at_subclass(cls)

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add the derivatives of this tensor to the `.grad` of the leaves it was computed from.

        `gradient` weighs the elements; needed unless there is only one. The graph's saved tensors are freed unless `retain_graph`;
        with `create_graph` the pass is recorded itself. `inputs` restricts the leaves.
        """
        from readtorch import autograd

        autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook(grad)` whenever the gradient of this tensor is computed; what it returns, if anything, replaces it."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node, number = _C._split_edge(_C._gradient_edge(self))
        if node is None:
            return _handle(OrderedDict(), hook)
        if node._tensor_pre_hooks is None:
            node._tensor_pre_hooks = {}
        return _handle(node._tensor_pre_hooks.setdefault(number, OrderedDict()), hook)

    @property
    def _backward_hooks(self) -> OrderedDict[int, Any] | None:
        """What `register_hook` has registered, by number; None if that is nothing."""
        node, number = _C._split_edge(_C._own_edge(self))
        return None if node is None else (node._tensor_pre_hooks or {}).get(number)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        """Call `hook(self)` after a gradient was added to `.grad`. Leaves only."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        node = _C._gradient_edge(self)
        if node is None:
            return _handle(OrderedDict(), hook)
        if node._post_accumulate_hooks is None:
            node._post_accumulate_hooks = OrderedDict()
        return _handle(node._post_accumulate_hooks, hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad`, too."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if _C._has_no_node(self) or self.retains_grad:
            return
        import weakref

        node, number = _C._split_edge(_C._gradient_edge(self))
        if node._retains_grad is None:
            node._retains_grad = {}
        node._retains_grad[number] = weakref.ref(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A leaf with its own memory. Tensors that shared a storage share the copy's. RuntimeError for a non-leaf."""
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) can take part in the deepcopy protocol: detach() this one first. "
                "Inside a module it is often the weight that torch.nn.utils.weight_norm computes, "
                "see https://github.com/pytorch/pytorch/pull/103001"
            )
        if id(self) in memo:
            return memo[id(self)]
        if type(self) is not Tensor and type(self.new_empty(())) is not type(self):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for non-wrapper subclasses only works for subclass types that implement "
                f"new_empty() and get a {type(self).__name__} from it: write one of the two methods."
            )
        result = tensor_impl.init(tensor_impl.new(type(self)), _copy_with_storage(self._array, memo))
        if self.requires_grad:
            result.requires_grad_()
        if self._grad is not None:
            result._grad = copy.deepcopy(self._grad, memo)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        memo[id(self)] = result
        return result

    def __copy__(self) -> Any:
        result = tensor_impl.init(tensor_impl.new(type(self)), self._array)
        if self.requires_grad:
            result.requires_grad_()
        result.__dict__.update(self.__dict__)
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from readtorch import _utils

        state = self.__dict__
        function, args = _utils._reduce_tensor(self)
        if type(self) is Tensor and not state:
            return (function, args)
        return (_rebuild_from_type_v2, (function, type(self), args, dict(state)))

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Any:
        return self.flip(0) if self._array.ndim else self

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, Tensor | int | float | complex):
            equal: Any = self == element
            return bool(equal.any().item())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar elements, not a {type(element)}.")

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        from readtorch import _tensor_str

        return _tensor_str._str(self, tensor_contents=tensor_contents)

    def __format__(self, spec: str) -> str:
        if not self._array.ndim and not self.is_meta and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __hash__(self) -> int:
        return id(self)

    def __dir__(self) -> list[str]:
        return sorted({name for cls in type(self).__mro__ for name in vars(cls)} | set(self.__dict__))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        if array.dtype == bool:
            array = array.astype(np.uint8)
        return _C._from_numpy(np.asarray(array))

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if max_version is None:
            return self._array.__dlpack__()
        #: Without a version the receiver must take the memory for read-only.
        return self._array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    @property
    def __array_interface__(self) -> Any:
        return self.numpy().__array_interface__

    def share_memory_(self) -> Any:
        """Move the memory to where other processes can see it."""
        from readtorch import _utils

        _utils._share_memory(self)
        return self

    def is_shared(self) -> bool:
        """Does it lie in shared memory?"""
        from readtorch import _utils

        return _utils._is_shared(self)

    def storage(self) -> Any:
        """The storage, typed as this tensor's elements."""
        from readtorch.storage import _warn_typed_storage

        _warn_typed_storage()
        return self._typed_storage()

    def _typed_storage(self) -> Any:
        from readtorch.storage import TypedStorage

        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)

    def storage_type(self) -> Any:
        """The old class of its storage: `torch.FloatStorage`."""
        return self.storage()._get_legacy_storage_class()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        """What a subclass does with a call unless it has its own idea: let `func` do its work, and take the result into the class.

        NotImplemented where an argument is of a class that this one does not descend from.
        """
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with _C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result if func in _kept_as_they_are() else _convert(result, cls)

    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
        align_to_window: bool | None = None,
    ) -> Any:
        """`torch.stft` of this signal."""
        from readtorch import functional

        return functional.stft(
            self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex,
            align_to_window,
        )  # fmt: skip

    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Any:
        """`torch.istft` of these transforms."""
        from readtorch import functional

        return functional.istft(
            self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
        )

    def resize(self, *sizes: int) -> Any:
        """Another shape of as many elements. Deprecated: `reshape` is meant."""
        import warnings

        warnings.warn("non-inplace resize is deprecated", stacklevel=2)
        if not all(isinstance(size, int) for size in sizes) or int(np.prod(sizes)) != self.numel():
            raise RuntimeError(
                f"requested resize to {sizes}, but the given tensor has a size of {tuple(self.shape)}: autograd's resize "
                "can only change the shape of a tensor, and keeps the number of its elements"
            )
        return self.contiguous().view(sizes)

    def resize_as(self, tensor: Any) -> Any:
        """The shape of another tensor of as many elements. Deprecated."""
        import warnings

        warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
        return self.contiguous().view(tensor.size())

    def reinforce(self, reward: Any) -> Any:
        """RuntimeError: it is gone."""
        raise RuntimeError("reinforce() was removed: the loss is -torch.distributions' log_prob(action) * reward")

    def solve(self, other: Any) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils.solve()

    def lstsq(self, other: Any) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils.lstsq()

    def eig(self, eigenvectors: bool = False) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils.eig()

    def symeig(self, eigenvectors: bool = False) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils._symeig()

    @property
    def __cuda_array_interface__(self) -> Any:
        if not self.is_cuda:
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()}. Tensor.cuda() copies it to a device."
            )
        if self.requires_grad:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. Use var.detach() first."
            )
        return self._array.__cuda_array_interface__

    def pin_memory(self, device: Any = None) -> Any:
        """This tensor in page-locked memory. RuntimeError where there is no device that could read it."""
        from readtorch.csrc.cuda import module

        return module.pin_memory(self, device)

    def is_pinned(self, device: Any = None) -> bool:
        """Is this tensor in page-locked memory?"""
        from readtorch.csrc.cuda import module

        return module.is_pinned(self, device)

    def record_stream(self, stream: Any) -> None:
        """Do not reuse this tensor's memory, once it is freed, before `stream` has done what it is to do by then."""
        from readtorch.csrc.cuda import module

        module.record_stream(self, stream)

    def module_load(self, other: Any, assign: bool = False) -> Any:
        """What `load_state_dict` is to exchange with `self`, having found `other`. Neither of the two objects themselves."""
        return other.detach() if assign else self.copy_(other).detach()


def _handle(hooks: dict, hook: Any) -> Any:
    from readtorch.utils.hooks import RemovableHandle

    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _copy_with_storage(array: Any, memo: dict[Any, Any]) -> Any:
    """Copy the whole memory once, and look into the copy as `array` looks into the original."""
    if array.__class__ is not np.ndarray and array.__class__ not in GUARDS:
        return array.copy()
    with device_guard(array):
        return _copy_memory(array, memo)


def _copy_memory(array: Any, memo: dict[Any, Any]) -> Any:
    owner = _C._owner_of(array)
    if owner is array or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        key = ("readtorch storage", id(owner))
        if owner is not array:
            return array.copy(order="K")
        if key not in memo:
            memo[key] = array.copy(order="K")
            memo[id(owner)] = owner
        return memo[key].view()
    key = ("readtorch storage", id(owner))
    if key not in memo:
        memo[key] = owner.copy(order="K")
    if not array.size:
        return array.copy()
    offset = _C._data_address(array) - _C._data_address(owner)
    flat = memo[key].reshape(-1, order="A").view(np.uint8)
    if array.__class__ is np.ndarray:
        return np.ndarray(array.shape, array.dtype, flat, offset, array.strides)
    numpy, _ = _C._library_of(device_of(array))
    part = flat[offset:][: (flat.size - offset) // array.itemsize * array.itemsize]
    return numpy.lib.stride_tricks.as_strided(part.view(array.dtype), array.shape, array.strides)


tensor_impl.Tensor = Tensor


def _convert(result: Any, cls: type) -> Any:
    """The tensors in a result, in tuples and lists too, as tensors of this class."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, tuple | list):
        return type(result)(_convert(item, cls) for item in result)
    return result


@functools.cache
def _kept_as_they_are() -> frozenset[Any]:
    """The attributes that hold a tensor of whatever class it was."""
    return frozenset(getattr(Tensor, name).__get__ for name in ("_base", "grad"))


_C._add_plain(Tensor)


def _rebuild_from_type_v2(function: Callable[..., Any], new_type: type, args: tuple, state: Any) -> Any:
    """A tensor of a subclass, or one with attributes: rebuilt by `function(*args)`, then given its class and state."""
    result = function(*args)
    if type(result) is not new_type:
        result = result.as_subclass(new_type)
    if isinstance(state, dict):
        result.__dict__.update(state)
    elif hasattr(result, "__setstate__"):
        result.__setstate__(state)
    return result
