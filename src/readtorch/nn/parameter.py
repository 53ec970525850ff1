# Tangled from chapters/02_module/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections import OrderedDict
from typing import Any, cast

from readtorch import _C, empty
from readtorch._tensor import Tensor
from readtorch.c10.core.tensor_impl import TensorImpl, wrap


class _ParameterMeta(type):
    """Lets `isinstance(t, Parameter)` hold for a tensor of another class that was made a parameter."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module registers as trainable when it is assigned to an attribute.

    `Parameter(data)` shares its storage with `data`, is a leaf, and requires a gradient unless told otherwise, even
    under `no_grad`. Of a tensor subclass it makes a parameter of that subclass, marked as one.

    Raises RuntimeError if `requires_grad` is asked of an integer tensor.
    """

    #: A product of parameters is no parameter: the class takes over no call.
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return data._make_subclass(cls, data, requires_grad)
        own = _detached(data).requires_grad_(requires_grad)
        if type(own) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} needs a detach() that returns an "
                f"instance of this type, and it gave a {type(own).__name__}"
            )
        own._is_param = True
        return cast(Parameter, own)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __repr__(self) -> str:  # type: ignore[override]  # upstream leaves out the argument
        return f"Parameter containing:\n{super().__repr__()}"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from readtorch import _utils

        #: Hooks on the tensor are dropped: a pickle that carried functions could not be read where they are not defined.
        content: tuple[Any, ...] = (self.data, self.requires_grad, OrderedDict())
        attributes = self.__dict__
        if attributes:
            return _utils._rebuild_parameter_with_state, (*content, attributes)
        return _utils._rebuild_parameter, content


def _detached(data: Tensor) -> Any:
    """`data` without its history, of its own class: by the `detach` of that class, if it has one."""
    detached = data.detach()
    base: Any = Tensor
    own: Any = type(data)
    inherited = own.detach is base.detach and type(data) is not Parameter
    return detached.as_subclass(type(data)) if inherited else detached


class _BufferMeta(type):
    """Lets `isinstance(t, Buffer)` hold for what `Buffer(...)` returns: a marked tensor of the class it was given."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module registers as a buffer when it is assigned to an attribute.

    `Buffer(data, persistent=False)` keeps it out of `state_dict`. The result has the class of `data` and shares its
    storage.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        source = empty(0) if data is None else data
        marked = _detached(source).requires_grad_(source.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked


class UninitializedTensorMixin:
    """A tensor without a shape: it can be moved and cast, and raises ValueError when an operator asks for its elements."""

    __torch_function__ = _C._disabled_torch_function_impl
    cls_to_become: type
    _edge: Any
    requires_grad: Any
    device: Any
    dtype: Any

    #: Every operator begins by reading `_array`. The slot holds an empty array of the right dtype and device; this property lies in
    #: front of it.
    @property
    def _array(self) -> Any:
        raise ValueError(
            "Attempted to use an uninitialized parameter. "
            f"A `{type(self).__name__}` has no shape until its `LazyModule` has seen an input: call "
            "`forward` with a dummy batch to initialize it before torch functions use such parameters"
        )

    @_array.setter
    def _array(self, array: Any) -> None:
        _SLOT.__set__(self, array)

    @property
    def data(self) -> Tensor:
        return wrap(_SLOT.__get__(self))

    @data.setter
    def data(self, content: Tensor) -> None:
        mine = type(self)
        self.__class__ = self.cls_to_become  # for one assignment, what it is going to be
        self.data = content
        self.__class__ = mine

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of `shape`, uninitialised, on the given or the present device and dtype."""
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.data = empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. If this happened in `load_state_dict`, an "
            "uninitialized parameter was loaded into an initialized one: call `forward` first"
        )

    def _around(self, content: Tensor) -> Any:
        """What a conversion of this tensor gives, having given `content` for its data: a parameter takes it as `data`."""
        return content

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer, which has none before `forward`"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad,)


_SLOT: Any = TensorImpl._array


def _asked_of_its_data(name: str) -> Any:
    """A property or method of tensors that an uninitialised one answers by its empty data."""
    if isinstance(vars(TensorImpl).get(name), property):
        return property(lambda self: getattr(self.data, name))
    return lambda self, *args, **kwargs: getattr(self.data, name)(*args, **kwargs)


def _moved_with_its_data(name: str) -> Any:
    """A conversion: what comes out is again without a shape."""
    return lambda self, *args, **kwargs: self._around(getattr(self.data, name)(*args, **kwargs))


for _name in ("device", "dtype", "is_meta", "size", "is_complex", "is_floating_point"):
    setattr(UninitializedTensorMixin, _name, _asked_of_its_data(_name))
for _name in ("to", "cpu", "cuda", "half", "float", "double", "bfloat16", "char", "short", "int", "long"):
    setattr(UninitializedTensorMixin, _name, _moved_with_its_data(_name))


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]  # the mixin narrows what the base answers
    """A parameter whose shape is not known yet; `materialize` makes it a `Parameter`."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        made = Parameter(empty(0, device=device, dtype=dtype), requires_grad)
        made.__class__ = cls
        return cast(UninitializedParameter, made)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]  # the mixin narrows what the base answers
    """A buffer whose shape is not known yet; `materialize` makes it a `Tensor`."""

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made: Any = empty(0, device=device, dtype=dtype, requires_grad=requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        made.__class__ = cls
        return made

    def _around(self, content: Tensor) -> UninitializedBuffer:
        return type(self)(content.requires_grad, content.device, content.dtype, cast(Any, self).persistent)


def is_lazy(param: Any) -> bool:
    """Whether `param` is a parameter or buffer that has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
